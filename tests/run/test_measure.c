/* test_measure.c - measuring this machine: how medians come about, what is kept and what is refused. No
 * test says how long anything takes: clocks and kernels are made up where times matter. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "program.h"
#include "small_asks.h"
#include "run/measure/sampling.h"

/* ---- medians by hand ------------------------------------------------------------------------- */

/* Kernels are timed in seconds of their thread, all else in seconds that pass. */
static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void test_clocks_are_in_seconds(void **state)
{
    (void)state;
    struct measure_options o = measure_defaults();
    double thread_s = seconds_of(CLOCK_THREAD_CPUTIME_ID), wall_s = seconds_of(CLOCK_MONOTONIC);
    double kernel_s = o.kernel_seconds(o.context), passed_s = o.wall_seconds(o.context);
    assert_true(thread_s <= kernel_s + 1e-9 &&
                kernel_s <= seconds_of(CLOCK_THREAD_CPUTIME_ID) + 1e-9);
    assert_true(wall_s <= passed_s + 1e-9 && passed_s <= seconds_of(CLOCK_MONOTONIC) + 1e-9);
}

static void test_spread(void **state)
{
    (void)state;
    static const struct {
        int64_t count;
        double ns[9], median, error, expected;
    } ROWS[] = {
        /* middle 4, +- 1.5: ranks 2 and 6, 30 and 70: (70 - 30) / 2 / 50 */
        {9, {90, 10, 80, 20, 70, 30, 60, 40, 50}, 50, 0.4, 50},
        /* middle 1.5, +- 1: ranks 0 and 3, outwards; (40 - 10) / 2 / 25 */
        {4, {40, 30, 20, 10}, 25, 0.6, 25},
        {1, {500}, 500, 1.0 / 500, 500},            /* I1: 1 ns */
        {3, {200, 200, 200}, 200, 1.0 / 200, 200},  /* I1 */
        {5, {10, 10, 10, 10, 9000}, 10, 449.5, 12}, /* ranks 0 and 4; (2): 9000 counts as 20 */
        {4, {10, 10, 16, 10}, 10, 0.3, 11.5},
    };
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct sampling samples = sampling_new(arena, ROWS[i].count);
        for (int64_t k = 0; k < ROWS[i].count; k++)
            sampling_add(&samples, ROWS[i].ns[k] / 1e9);
        struct spread spread = spread_of(&samples);
        assert_true(fabs(spread.median_ns - ROWS[i].median) < 1e-6);
        assert_true(fabs(spread.error - ROWS[i].error) < 1e-6);
        assert_true(fabs(spread.expected_ns - ROWS[i].expected) < 1e-6);
    }
    arena_free(arena);
}

/* ---- made-up kernels and clocks -------------------------------------------------------------- */

/* Every run takes the next of these, over and over. */
static struct fake {
    double now_s, wall_step_s;
    const double *us;
    int64_t count, runs, stop_after;
    atomic_bool stop;
} fake;

static void fake_work(void)
{
    fake.now_s += fake.us[fake.runs % fake.count] / 1e6;
    if (++fake.runs == fake.stop_after)
        atomic_store(&fake.stop, true);
}

static bool fake_has(const struct op *op, const char **why)
{
    (void)op;
    *why = NULL;
    return true;
}

static int64_t fake_bytes(const struct kernel_call *call)
{
    (void)call;
    return 8;
}

static void fake_run(const struct kernel_call *call, enum phase phase)
{
    (void)call, (void)phase;
    fake_work();
}

static void fake_optimize(const struct optimizer_step *step)
{
    (void)step;
    fake_work();
}

static const struct kernels FAKE = {"fake",     &CPU_DEVICE, fake_has,     fake_bytes,
                                    fake_bytes, fake_run,    fake_optimize};

static double fake_clock(void *context)
{
    (void)context;
    return fake.now_s;
}

static double fake_wall(void *context)
{
    (void)context;
    return fake.now_s += fake.wall_step_s;
}

static struct measure_options fake_options(const char *db)
{
    struct measure_options o = measure_defaults();
    o.kernels = &FAKE;
    o.kernel_seconds = fake_clock;
    o.wall_seconds = fake_wall;
    o.db = db;
    o.device = "a device";
    o.source = "a source";
    o.stop = &fake.stop;
    o.least = 5;
    o.most = 5;
    return o;
}

static void fake_times(const double *us, int64_t count)
{
    fake = (struct fake){.us = us, .count = count};
}

/* ---- ranks beside ------------------------------------------------------------------------------ */

static pthread_t measuring;
static atomic_int runs_beside;

/* Only what measures moves the clock. */
static void beside_run(const struct kernel_call *call, enum phase phase)
{
    if (pthread_equal(pthread_self(), measuring))
        fake_run(call, phase);
    else
        atomic_fetch_add(&runs_beside, 1);
}

static void beside_optimize(const struct optimizer_step *step)
{
    if (pthread_equal(pthread_self(), measuring))
        fake_optimize(step);
    else
        atomic_fetch_add(&runs_beside, 1);
}

/* While a rank's kernel is timed the others of its machine run it, too: and nobody where it is alone. */
static void test_ranks_beside(void **state)
{
    static const double US[] = {10};
    struct kernels kernels = FAKE;
    (void)state;
    kernels.run = beside_run;
    kernels.optimize = beside_optimize;
    measuring = pthread_self();
    for (int32_t beside = 0; beside <= 2; beside += 2) {
        struct small s = open_asks();
        struct measured out;
        struct measure_options o =
            fake_options(in_folder(beside ? "beside.sqlite" : "alone.sqlite"));
        fake_times(US, 1);
        atomic_store(&runs_beside, 0);
        o.kernels = &kernels;
        o.beside = beside;
        assert_int_equal(measure_asks(&s.asks, &o, s.arena, &out), WEFT_OK);
        assert_int_equal(out.measured + out.left_out, (int64_t)s.asks.len);
        if (beside == 0)
            assert_int_equal(atomic_load(&runs_beside), 0);
        else
            assert_true(atomic_load(&runs_beside) >= beside * out.measured);
        close_asks(&s);
    }
}

/* Measured without others, too, although the database has it. */
static void test_kernels_alone(void **state)
{
    static const double US[] = {10};
    struct kernels kernels = FAKE;
    (void)state;
    kernels.run = beside_run;
    kernels.optimize = beside_optimize;
    measuring = pthread_self();
    for (int alone = 0; alone <= 1; alone++) {
        struct small s = open_asks();
        struct measured out;
        struct measure_options o = fake_options(in_folder("with-alone.sqlite"));
        fake_times(US, 1);
        o.kernels = &kernels;
        o.beside = 2;
        o.alone = alone;
        assert_int_equal(measure_asks(&s.asks, &o, s.arena, &out), WEFT_OK);
        assert_int_equal(out.known, 0);
        for (size_t i = 0; i < out.len; i++)
            assert_true(alone && out.data[i].samples > 0
                            ? fabs(out.data[i].alone_ns / out.data[i].ns - 1) < 1e-9
                            : out.data[i].alone_ns == 0);
        assert_true(fabs(measured_alone_speedup(&out) - (alone ? 1 : 0)) < 1e-9);
        close_asks(&s);
    }
}

/* Three ranks on two cores: a kernel that runs for 10 us takes 15 while all have work to do. */
static void test_crowded_cores(void **state)
{
    static const double US[] = {10};
    struct small s = open_asks();
    struct measured out;
    struct measure_options o = fake_options(in_folder("crowded.sqlite"));
    (void)state;
    fake_times(US, 1);
    o.crowd = 1.5;
    assert_int_equal(measure_asks(&s.asks, &o, s.arena, &out), WEFT_OK);
    for (size_t i = 0; i < out.len; i++)
        assert_true(out.data[i].samples == 0 || fabs(out.data[i].ns / 15000 - 1) < 1e-6);
    assert_true(out.measured > 0);
    close_asks(&s);
}

/* (2 30 + 40) / (2 20 + 40) = 1.25; what was not measured alone counts for nothing. */
static void test_alone_speedup_by_hand(void **state)
{
    struct asker asker[] = {{.uses = 2}, {.uses = 1}, {.uses = 7}};
    struct ask ask[3];
    struct measured_ask one[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        ask[i] = (struct ask){.askers = {&asker[i], 1, 1}};
        one[i] = (struct measured_ask){.ask = &ask[i], .samples = 1};
    }
    one[0].ns = 30;
    one[0].alone_ns = 20;
    one[1].ns = one[1].alone_ns = 40;
    one[2].ns = 1000;
    assert_true(fabs(measured_alone_speedup(&(struct measured){one, 3, 3}) - 1.25) < 1e-12);
    one[0].ns = 1; /* never less than 1 */
    assert_true(measured_alone_speedup(&(struct measured){one, 3, 3}) == 1);
    assert_true(measured_alone_speedup(&(struct measured){one + 2, 1, 1}) == 0);
}

/* The first run warms up (900); then 5 1 4 2 3, median 3, ranks 0 and 4: (5 - 1) / 2 / 3. */
static void test_median_is_stored(void **state)
{
    (void)state;
    static const double US[] = {900, 5, 1, 4, 2, 3};
    struct small s = open_asks();
    struct measure_options o = fake_options(in_folder("median.sqlite"));
    struct measured measured;
    struct profile *profile;
    const struct profile_row *rows;
    size_t count;
    fake_times(US, COUNT_OF(US));
    s.asks.len = 1;
    s.asks.data[0].askers.len = 1;
    assert_int_equal(s.asks.data[0].work.phase, PHASE_FORWARD);
    assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
    assert_int_equal(measured.measured, 1);
    assert_int_equal(measured.imprecise, 1);
    assert_int_equal(profile_open(o.db, &profile), WEFT_OK);
    assert_int_equal(profile_rows(profile, &rows, &count), WEFT_OK);
    assert_int_equal(count, 1);
    assert_true(fabs(rows[0].ns - 3000) < 1e-3);
    assert_true(fabs(rows[0].error - 2.0 / 3) < 1e-6);
    assert_int_equal(rows[0].samples, 5);
    assert_string_equal(rows[0].device, "a device");
    assert_string_equal(rows[0].source, "a source");
    profile_close(profile);
    close_asks(&s);
}

/* Samples until the error is small enough: of 1 1 1 1 9 9 9 9 9 ... it never is; of equal ones at
 * once. */
static void test_samples_until_precise(void **state)
{
    (void)state;
    static const double EVEN[] = {7}, ODD[] = {1, 9};
    struct small s = open_asks();
    struct measured measured;
    s.asks.len = 1;
    s.asks.data[0].askers.len = 1;
    for (int i = 0; i < 2; i++) {
        struct measure_options o = fake_options(in_folder(i ? "odd.sqlite" : "even.sqlite"));
        o.most = 40;
        fake_times(i ? ODD : EVEN, i ? 2 : 1);
        assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
        assert_int_equal(measured.data[0].samples, i ? 40 : 5);
        assert_int_equal(measured.imprecise, i);
    }
    close_asks(&s);
}

/* (1) of measure.h: 3 uses of 100 us and 1 of 200 us are 125 us each. Each asker's runs are one to
 * warm up and five samples. */
static void test_askers_average(void **state)
{
    (void)state;
    static const double US[] = {100, 100, 100, 100, 100, 100, 200, 200, 200, 200, 200, 200};
    struct small s = open_asks();
    struct measure_options o = fake_options(in_folder("askers.sqlite"));
    struct measured measured;
    struct asker two[] = {s.asks.data[0].askers.data[0], s.asks.data[0].askers.data[0]};
    two[0].uses = 3;
    two[1].uses = 1;
    s.asks.len = 1;
    s.asks.data[0].askers.data = two;
    s.asks.data[0].askers.len = 2;
    fake_times(US, COUNT_OF(US));
    assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
    assert_true(fabs(measured.data[0].ns - 125000) < 1e-2);
    assert_int_equal(measured.data[0].samples, 10);
    close_asks(&s);
}

/* ---- what is left ---------------------------------------------------------------------------- */

struct seen_progress {
    int64_t calls, all;
};
static struct seen_progress seen_progress;

/* At the pace so far: the clock goes on in kernels only, and began at 0. */
static void see_progress(void *context, const struct measure_progress *progress)
{
    struct seen_progress *p = &seen_progress;
    (void)context;
    assert_int_equal(progress->done, p->calls);
    double left = p->calls ? fake.now_s / (double)p->calls * (double)(p->all - p->calls) : 0;
    assert_true(fabs(progress->left_s - left) <= 1e-9 * (1 + left));
    assert_int_equal(progress->all, p->all);
    assert_non_null(progress->what);
    p->calls++;
}

static void test_progress_is_what_is_left(void **state)
{
    (void)state;
    static const double US[] = {10, 30, 20};
    struct small s = open_asks();
    struct measure_options o = fake_options(in_folder("progress.sqlite"));
    struct measured measured;
    o.progress = see_progress;
    for (int again = 0; again < 2; again++) { /* what is known is not left */
        int64_t all = again ? 0 : (int64_t)s.asks.len;
        fake_times(US, COUNT_OF(US));
        o.precision = 0.9;
        seen_progress = (struct seen_progress){.all = all};
        assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
        assert_in_range(seen_progress.calls, all, all + 1);
    }
    close_asks(&s);
}

/* ---- going on -------------------------------------------------------------------------------- */

static void test_resume_skips(void **state)
{
    (void)state;
    static const double US[] = {10};
    struct small s = open_asks();
    struct measure_options o = fake_options(in_folder("resume.sqlite"));
    struct measured measured;
    fake_times(US, 1);
    assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
    assert_int_equal(measured.measured, s.asks.len);
    assert_int_equal(rows_in(o.db), s.asks.len);
    int64_t runs = fake.runs;
    assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
    assert_int_equal(measured.known, s.asks.len);
    assert_int_equal(measured.measured, 0);
    assert_int_equal(fake.runs, runs);
    assert_true(fabs(measured.data[0].ns - 10000) < 1e-3);
    o.precision = 1e-6; /* 1 ns in 10 us is 1e-4 */
    assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
    assert_int_equal(measured.measured, s.asks.len);
    o.precision = 0.05;
    o.source = "another source";
    assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
    assert_int_equal(measured.measured, s.asks.len);
    assert_int_equal(rows_in(o.db), 2 * s.asks.len);
    close_asks(&s);
}

/* Stopped after any number of runs: what was finished is there, and the rest is measured next time,
 * nothing twice. */
static void test_stop_keeps(void **state)
{
    (void)state;
    static const double US[] = {10};
    struct small s = open_asks();
    struct rng rng;
    rng_seed(&rng, 3);
    for (int round = 0; round < rounds_of(10); round++) {
        struct measure_options o = fake_options(in_folder("stop.sqlite"));
        struct measured measured;
        fake_times(US, 1);
        fake.stop_after = 1 + rng_below(&rng, 6 * (int64_t)s.asks.len);
        assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
        assert_true(measured.stopped);
        int64_t before = measured.measured;
        assert_true(before < (int64_t)s.asks.len);
        assert_int_equal(rows_in(o.db), before);
        fake_times(US, 1);
        assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
        assert_false(measured.stopped);
        assert_int_equal(measured.known, before);
        assert_int_equal(measured.measured, (int64_t)s.asks.len - before);
        assert_int_equal(rows_in(o.db), s.asks.len);
    }
    close_asks(&s);
}

/* The wall clock goes on by 0.1 s with every look at it. */
static void test_budget_keeps(void **state)
{
    (void)state;
    static const double US[] = {10};
    struct small s = open_asks();
    struct measure_options o = fake_options(in_folder("budget.sqlite"));
    struct measured measured;
    fake_times(US, 1);
    fake.wall_step_s = 0.1;
    o.kernel_seconds = fake_clock;
    o.budget_s = 3;
    assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
    assert_true(measured.stopped);
    assert_true(measured.measured > 0 && measured.measured < (int64_t)s.asks.len);
    assert_int_equal(rows_in(o.db), measured.measured);
    close_asks(&s);
}

/* What takes more memory than there may be is left out, with a reason. */
static void test_too_large(void **state)
{
    (void)state;
    static const double US[] = {10};
    struct small s = open_asks();
    struct measure_options o = fake_options(in_folder("large.sqlite"));
    struct measured measured;
    fake_times(US, 1);
    o.memory_bytes = 100;
    assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
    assert_int_equal(measured.left_out, s.asks.len);
    assert_string_equal(measured.data[0].why, "there is no memory for it");
    assert_int_equal(fake.runs, 0);
    close_asks(&s);
}

/* ---- databases ------------------------------------------------------------------------------- */

static void execute(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void test_refuses_broken_databases(void **state)
{
    (void)state;
    static const char *const MAKE[] = {NULL, "CREATE TABLE mine(a)", "PRAGMA user_version = 99"};
    static const double US[] = {10};
    struct small s = open_asks();
    for (size_t i = 0; i < COUNT_OF(MAKE); i++) {
        char *path = in_folder("broken.sqlite");
        struct measure_options o = fake_options(path);
        struct measured measured;
        if (!MAKE[i])
            assert_int_equal(file_write_text(path, "this is no database, whatever its name says"),
                             WEFT_OK);
        else if (i == 2)
            store_all(path, &s.asks, "a device", s.asks.len);
        if (MAKE[i])
            execute(path, MAKE[i]);
        fake_times(US, 1);
        assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_BAD_INPUT);
        assert_int_equal(fake.runs, 0);
    }
    close_asks(&s);
}

/* Schema version 1 had no errors: read as it is, written as the newest. */
static void test_old_databases(void **state)
{
    (void)state;
    static const double US[] = {10};
    struct small s = open_asks();
    struct measure_options o = fake_options(in_folder("old.sqlite"));
    struct measured measured;
    struct profile *profile;
    const struct profile_row *rows;
    size_t count;
    o.source = "x";
    store_all(o.db, &s.asks, o.device, s.asks.len);
    execute(o.db, "ALTER TABLE kernel DROP COLUMN error; ALTER TABLE collective DROP COLUMN error;"
                  "DROP TABLE algorithm; DROP TABLE circumstances;"
                  "PRAGMA user_version = 1");
    assert_int_equal(profile_open(o.db, &profile), WEFT_OK);
    assert_int_equal(profile_rows(profile, &rows, &count), WEFT_OK);
    assert_int_equal(count, s.asks.len);
    assert_true(rows[0].error == 0);
    profile_close(profile);
    fake_times(US, 1);
    assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
    assert_int_equal(measured.known, 0); /* nobody knows how well they are known */
    assert_int_equal(rows_in(o.db), s.asks.len);
    assert_int_equal(measure_asks(&s.asks, &o, s.arena, &measured), WEFT_OK);
    assert_int_equal(measured.known, s.asks.len);
    close_asks(&s);
}

/* ---- the program ----------------------------------------------------------------------------- */

static void test_program(void **state)
{
    (void)state;
    char arguments[512];
    int code;
    char *db = in_folder("program.sqlite");
    static const char MODEL[] = "--set layers=1 --set hidden=16 --set heads=2 --set vocab=32 "
                                "--seq 8 --dtype fp32 --precision 99%";
    static const double PRECISION =
        0.99; /* what is known less well on a busy machine is measured again */
    snprintf(arguments, sizeof arguments, "profile measure gpt2 %s --db %s --json", MODEL, db);
    json_t *first = json_of(arguments), *again = json_of(arguments);
    size_t count = json_array_size(json_object_get(first, "measured"));
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        json_t *one = json_array_get(json_object_get(again, "measured"), i);
        json_t *before = json_array_get(json_object_get(first, "measured"), i);
        double error = json_number_value(json_object_get(before, "error"));
        bool well = error > 0 && error <= PRECISION;
        assert_true(!well || json_is_true(json_object_get(one, "known")));
    }
    json_decref(first);
    json_decref(again);
    static const char *const WRONG[] = {
        "profile measure",
        "profile measure gpt2",
        "profile measure gpt2 dgx-a100:1 --db /tmp/never.sqlite",
        "profile measure --collectives --ranks 1",
        "profile measure gpt2 --db /tmp/never.sqlite --precision 200%",
        "profile measure --collectives --transport pigeon",
    };
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        free(ask(WRONG[i], &code));
        assert_int_equal(code, WEFT_BAD_INPUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clocks_are_in_seconds),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_ranks_beside),
        cmocka_unit_test(test_kernels_alone),
        cmocka_unit_test(test_alone_speedup_by_hand),
        cmocka_unit_test(test_crowded_cores),
        cmocka_unit_test(test_median_is_stored),
        cmocka_unit_test(test_samples_until_precise),
        cmocka_unit_test(test_askers_average),
        cmocka_unit_test(test_progress_is_what_is_left),
        cmocka_unit_test(test_resume_skips),
        cmocka_unit_test(test_stop_keeps),
        cmocka_unit_test(test_budget_keeps),
        cmocka_unit_test(test_refuses_broken_databases),
        cmocka_unit_test(test_old_databases),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_program),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
