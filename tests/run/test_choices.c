/* test_choices.c - algorithms of products that were chosen by measuring: found while kernels are measured, kept in a database with
 * their circumstances, taken from there by the next measurement and by runs, refused where they are of another library. */
#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lab_backend.h"
#include "one_folder.h"
#include "run/run.h"
#ifdef WEFT_CUDA
#include "run/kernels/cuda/choices.h"
#endif

/* ---- a library of two products ---------------------------------------------------------------- */

/* Finds both products' algorithms when it is asked to seek, and refuses those that are called "gone". */
struct fake {
    const char *library;
    bool seeks, sought;
    size_t taken, refused;
};
static struct fake fake;

static const char *fake_library(void)
{
    return fake.library;
}

static size_t fake_take(const struct product_choice *choices, size_t count)
{
    fake.taken = fake.refused = 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(choices[i].algorithm, "gone") == 0)
            fake.refused++;
        else
            fake.taken++;
    return fake.refused;
}

static void fake_seek(bool seeks)
{
    fake.seeks = seeks;
    fake.sought = fake.sought || seeks;
}

static size_t fake_found(struct arena *keep, size_t first, struct product_choice **out)
{
    static const struct product_choice FOUND[] = {{"m=1", "second", 1, 8, 10},
                                                  {"m=2", "first", 0, 20, 20}};
    size_t count = fake.sought && first < COUNT_OF(FOUND) ? COUNT_OF(FOUND) - first : 0;
    *out = ARENA_ARRAY(keep, struct product_choice, count + 1);
    memcpy(*out, FOUND + first, count * sizeof **out);
    return count;
}

static const struct product_choices FAKE_CHOICES = {fake_library, fake_take, fake_seek, fake_found};

static struct kernels fake_kernels(void)
{
    struct kernels kernels = CPU_KERNELS;
    kernels.choices = &FAKE_CHOICES;
    return kernels;
}

/* One ask, of an optimizer's step of a thousand parameters. */
static struct measured measure_once(struct arena *arena, const struct kernels *kernels,
                                    const char *db)
{
    struct asker asker = {.size = {1000}, .uses = 1};
    struct ask ask = {.work =
                          optimizer_work(1000, DTYPE_FP32, POLICY_FP32, UPDATE_ADAMW, STEP_FUSED),
                      .askers = {&asker, 1, 1}};
    struct asks asks = {.data = &ask, .len = 1, .cap = 1, .policy = POLICY_FP32};
    struct measure_options o = measure_defaults();
    struct measured out;
    o.kernels = kernels;
    o.db = db;
    o.device = "a device";
    o.source = "a source";
    o.precision = 0.9;
    assert_int_equal(measure_asks(&asks, &o, arena, &out), WEFT_OK);
    return out;
}

static struct algorithm_row *rows_in(struct arena *arena, const char *db, size_t *count)
{
    struct profile *profile;
    struct algorithm_row *rows;
    assert_int_equal(profile_open(db, &profile), WEFT_OK);
    assert_int_equal(profile_algorithms(profile, "a device", arena, &rows, count), WEFT_OK);
    profile_close(profile);
    return rows;
}

static void execute(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* ---- measuring and taking --------------------------------------------------------------------- */

static void test_found_ones_are_kept(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct kernels kernels = fake_kernels();
    const char *db = in_folder("found.sqlite");
    size_t count;
    fake = (struct fake){.library = "library 1.0"};
    struct measured out = measure_once(arena, &kernels, db);
    assert_true(fake.sought && !fake.seeks); /* while it measured, and not after it */
    assert_int_equal(fake.taken, 0);
    assert_int_equal(out.choices, 2);
    struct algorithm_row *rows = rows_in(arena, db, &count);
    assert_int_equal(count, 2);
    assert_string_equal(rows[0].product, "m=1");
    assert_string_equal(rows[0].algorithm, "second");
    assert_string_equal(rows[0].library, "library 1.0");
    assert_string_equal(rows[0].source, "a source");
    assert_int_equal(rows[0].place, 1);
    assert_true(rows[0].ns == 8 && rows[0].first_ns == 10);
    fake = (struct fake){.library = "library 1.0"};
    measure_once(arena, &kernels, db); /* takes what is there */
    assert_int_equal(fake.taken, 2);
    arena_free(arena);
}

/* What a run says it computes products by. */
static const char *line_of(struct arena *arena, const struct kernels *kernels, const char *db)
{
    const char *line;
    assert_int_equal(choices_take(kernels, db, "a device", arena, &line), WEFT_OK);
    return line;
}

static void test_runs_take_them(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct kernels kernels = fake_kernels();
    const char *db = in_folder("runs.sqlite");
    fake = (struct fake){.library = "library 1.0"};
    measure_once(arena, &kernels, db);
    assert_string_equal(line_of(arena, &kernels, db),
                        arena_printf(arena,
                                     "2 products of %s by measured algorithms of library 1.0, all "
                                     "others by its first",
                                     db));
    assert_int_equal(fake.taken, 2);
    assert_string_equal(line_of(arena, &kernels, NULL),
                        "products are computed by the first algorithm that library 1.0 names; "
                        "--profile DB takes those that `weft profile measure` found");
    assert_null(line_of(arena, &CPU_KERNELS, db)); /* there is nothing to choose */
    arena_free(arena);
}

static void test_stale_ones_are_left(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct kernels kernels = fake_kernels();
    const char *db = in_folder("stale.sqlite");
    fake = (struct fake){.library = "library 1.0"};
    measure_once(arena, &kernels, db);
    execute(db, "UPDATE algorithm SET algorithm = 'gone' WHERE product = 'm=2'");
    assert_non_null(strstr(line_of(arena, &kernels, db), "1 product of "));
    assert_non_null(
        strstr(line_of(arena, &kernels, db), "; it refuses 1 other algorithm of the database"));
    fake = (struct fake){.library = "library 2.0"};
    assert_non_null(strstr(line_of(arena, &kernels, db), "0 products of "));
    assert_non_null(strstr(line_of(arena, &kernels, db),
                           "; 2 algorithms of the database are of library 1.0, measure again"));
    assert_int_equal(fake.taken, 0);
    const char *line;
    assert_int_equal(choices_take(&kernels, "/nowhere/x.sqlite", "a device", arena, &line),
                     WEFT_BAD_INPUT);
    arena_free(arena);
}

/* ---- circumstances ---------------------------------------------------------------------------- */

static void test_circumstances(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct kernels kernels = fake_kernels();
    const char *db = in_folder("when.sqlite");
    struct circumstances of;
    struct profile *profile;
    bool found;
    fake = (struct fake){.library = "library 1.0"};
    measure_once(arena, &kernels, db);
    assert_int_equal(profile_open(db, &profile), WEFT_OK);
    assert_int_equal(profile_circumstances(profile, "a source", arena, &of, &found), WEFT_OK);
    assert_true(found);
    assert_string_equal(of.device, "a device");
    assert_string_equal(of.library, "library 1.0");
    assert_memory_equal(of.driver, "Linux ", 6);
    assert_int_equal(strlen(of.date), strlen("2026-11-18T14:05:00Z"));
    assert_int_equal(profile_circumstances(profile, "another", arena, &of, &found), WEFT_OK);
    assert_false(found);
    profile_close(profile);
    arena_free(arena);
}

static void test_clocks(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct profile *profile;
    const struct circumstances GPU = {"NVIDIA H200", 1980e6, "a driver", "a library", "a day"};
    struct circumstances of;
    bool found;
    assert_int_equal(profile_create(":memory:", &profile), WEFT_OK);
    assert_int_equal(profile_add_circumstances(profile, "a source", &GPU), WEFT_OK);
    assert_int_equal(profile_circumstances(profile, "a source", arena, &of, &found), WEFT_OK);
    assert_true(found && of.clock_hz == 1980e6);
    profile_close(profile);
    arena_free(arena);
}

/* Version 2 had neither; it is read as it is, and has both when it is written to. */
static void test_databases_without(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct kernels kernels = fake_kernels();
    const char *db = in_folder("old.sqlite");
    struct circumstances of;
    struct profile *profile;
    int64_t rows;
    size_t count;
    bool found;
    fake = (struct fake){.library = "library 1.0"};
    measure_once(arena, &CPU_KERNELS, db);
    execute(db, "DROP TABLE algorithm; DROP TABLE circumstances; DELETE FROM kernel; PRAGMA "
                "user_version = 2");
    rows_in(arena, db, &count);
    assert_int_equal(count, 0);
    assert_int_equal(profile_open(db, &profile), WEFT_OK);
    assert_int_equal(profile_circumstances(profile, "a source", arena, &of, &found), WEFT_OK);
    assert_false(found);
    assert_int_equal(profile_count(profile, TABLE_ALGORITHM, &rows), WEFT_OK);
    assert_int_equal(rows, 0);
    profile_close(profile);
    measure_once(arena, &kernels, db);
    rows_in(arena, db, &count);
    assert_int_equal(count, 2);
    arena_free(arena);
}

/* ---- words and decisions of the GPU's products ------------------------------------------------- */

#ifdef WEFT_CUDA
static void test_words(void **state)
{
    (void)state;
    static const char *const WRONG[] = {
        "",          "m=1 n=1 k=1",          "in=bf16 m=1 n=1 k=1 batch=1 o=2",
        "in=bf16 m", "m=-1 n=1 k=1 batch=1", "m=x n=1 k=1 batch=1"};
    struct arena *arena = arena_new();
    struct gemm g = {.m = 768, .n = 16384, .k = 3072, .a_step = 768, .b_step = 3072, .c_step = 768},
                read;
    g.batch = 1;
    g.a_turned = g.biased = 1;
    g.in = DTYPE_BF16;
    g.out = DTYPE_FP32;
    g.a_unit = 256;
    g.b_unit = g.c_unit = 8;
    g.b_cast = 2;
    assert_true(gemm_from_text(gemm_text(arena, &g), &read));
    assert_memory_equal(&g, &read, sizeof g);
    struct gemm key = choice_key(&g);
    assert_int_equal(key.a_unit, 16);
    assert_int_equal(key.b_unit, 8);
    for (size_t i = 0; i < COUNT_OF(WRONG); i++)
        assert_false(gemm_from_text(WRONG[i], &read));
    uint64_t algorithm[ALGORITHM_WORDS] = {1, 0, UINT64_MAX, 0x123456789abcdef0U},
             again[ALGORITHM_WORDS];
    const char *text = algorithm_text(arena, algorithm);
    assert_true(algorithm_from_text(text, again));
    assert_memory_equal(algorithm, again, sizeof again);
    assert_false(algorithm_from_text(text + 1, again));
    assert_false(algorithm_from_text(arena_printf(arena, "g%s", text + 1), again));
    arena_free(arena);
}

/* A way is taken if it is quicker by more than 1 % in 13 of 15 rounds; of several the one with the least median. */
static void test_quickest(void **state)
{
    (void)state;
    double seconds[4][CHOICE_ROUNDS];
    for (int r = 0; r < CHOICE_ROUNDS; r++) {
        double drift = 1 + 0.1 * r; /* of the clock, which all ways have */
        seconds[0][r] = drift;
        seconds[1][r] = drift * 0.995;                /* by too little */
        seconds[2][r] = drift * (r < 3 ? 1.2 : 0.5);  /* in 12 rounds */
        seconds[3][r] = drift * (r < 2 ? 1.2 : 0.98); /* in 13 */
    }
    assert_int_equal(quickest_way(4, seconds), 3);
    assert_int_equal(quickest_way(3, seconds), 0);
    for (int r = 0; r < CHOICE_ROUNDS; r++)
        seconds[2][r] = 0.9 * seconds[3][r];
    assert_int_equal(quickest_way(4, seconds), 2);
    seconds[0][0] = INFINITY; /* it was refused once */
    assert_true(median_of_rounds(seconds[0]) > 1);
}

/* On a GPU: an algorithm that cuBLASLt does not know is refused, and one that it found is not. */
static void test_real_library(void **state)
{
    (void)state;
    const struct product_choices *choices = lab_backend()->choices;
    struct arena *arena = arena_new();
    uint64_t nonsense[ALGORITHM_WORDS];
    memset(nonsense, 0xff, sizeof nonsense);
    struct product_choice wrong = {"in=bf16 out=bf16 m=64 n=64 k=64 a_step=64 b_step=64 c_step=64 "
                                   "batch=1 a_unit=16 b_unit=16 c_unit=16",
                                   algorithm_text(arena, nonsense), 1, 1, 1};
    if (choices) {
        assert_int_equal(choices->take(&wrong, 1), 1);
        wrong.algorithm = "none";
        assert_int_equal(choices->take(&wrong, 1), 1);
    }
    arena_free(arena);
}
#define CUDA_TESTS                                                                                 \
    cmocka_unit_test(test_words), cmocka_unit_test(test_quickest),                                 \
        cmocka_unit_test(test_real_library)
#else
#define CUDA_TESTS
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found_ones_are_kept),
                                       cmocka_unit_test(test_runs_take_them),
                                       cmocka_unit_test(test_stale_ones_are_left),
                                       cmocka_unit_test(test_circumstances),
                                       cmocka_unit_test(test_databases_without),
                                       cmocka_unit_test(test_clocks),
                                       CUDA_TESTS};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
