/* test_limited.c - stages with a limit on micro-batches in flight: the order's time and memory against the equations of
 * schedule/limited.c, plan files that have them, and their simulation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "folded.h"
#include "plan_text.h"
#include "schedule/schedule.h"

enum { MOST = 9 };

static struct schedule *limited(struct arena *keep, const struct pipeline *pipeline,
                                const int64_t *limit)
{
    struct schedule *schedule;
    assert_int_equal(schedule_limited(keep, pipeline, limit, NULL, &schedule), WEFT_OK);
    return schedule;
}

static int64_t play(const struct schedule *schedule, const struct pipeline *pipeline,
                    int64_t forward_ns, int64_t backward_ns)
{
    int64_t forward[MOST], backward[MOST], ns;
    for (int i = 0; i < MOST; i++) {
        forward[i] = forward_ns;
        backward[i] = backward_ns;
    }
    struct pipeline_times times = {.forward_ns = forward, .backward_ns = backward};
    assert_int_equal(schedule_play(schedule, pipeline, &times, &ns), WEFT_OK);
    return ns;
}

/* 2 stages, 4 micro-batches, 1 forward, 2 backward, one in flight: each goes there and back alone, 4 * 2 * 3 = 24.
 * Two in flight are 1f1b: (2 + 4 - 1) * 3 = 15. */
static void test_by_hand(void **state)
{
    (void)state;
    struct arena *keep = arena_new();
    struct pipeline pipeline = {2, 1, 4};
    assert_int_equal(play(limited(keep, &pipeline, (int64_t[]){1, 0}), &pipeline, 1, 2), 24);
    assert_int_equal(play(limited(keep, &pipeline, (int64_t[]){2, 0}), &pipeline, 1, 2), 15);
    arena_free(keep);
}

/* Equation (1), and that stage 0 holds as many. */
static void test_equations(void **state)
{
    (void)state;
    for (int32_t p = 1; p < MOST; p++)
        for (int32_t w = 1; w <= p; w++)
            for (int32_t m = 1; m < MOST; m++) {
                struct arena *keep = arena_new();
                struct pipeline pipeline = {p, 1, m};
                int64_t limit[MOST] = {w};
                const struct schedule *schedule = limited(keep, &pipeline, limit);
                int64_t both = 1 + 2, groups = (m - 1) / w + 1;
                assert_int_equal(play(schedule, &pipeline, 1, 2),
                                 p * both * groups + (m - 1) % w * both);
                assert_int_equal(schedule_in_flight(schedule, &pipeline, 0), w < m ? w : m);
                arena_free(keep);
            }
}

/* Without limits the order is 1f1b's; any limits give an order that ends (schedule_of_lists), and hold. */
static void test_any_limits(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 1);
    for (int round = 0; round < 300; round++) {
        struct arena *keep = arena_new();
        struct pipeline pipeline = {1 + (int32_t)rng_below(&rng, MOST - 1), 1,
                                    1 + (int32_t)rng_below(&rng, 12)};
        int64_t limit[MOST];
        for (int32_t s = 0; s < pipeline.stages; s++)
            limit[s] = round ? rng_below(&rng, 6) : 0;
        const struct schedule *schedule = limited(keep, &pipeline, limit);
        for (int32_t s = 0; s < pipeline.stages; s++)
            assert_true(schedule_in_flight(schedule, &pipeline, s) <=
                        (limit[s] ? limit[s] : pipeline.stages - s));
        assert_true(round || play(schedule, &pipeline, 1, 2) ==
                                 play(schedule_default(1, 1), &pipeline, 1, 2));
        arena_free(keep);
    }
}

/* ---- several micro-batches at once ------------------------------------------------------------- */

/* If all stages take k at once, the order is that of 1f1b with micro-batches k times as large: (p + m / k - 1) k (f + b). */
static void test_all_join(void **state)
{
    (void)state;
    for (int32_t p = 1; p < 6; p++)
        for (int32_t k = 1; k < 5; k++)
            for (int32_t m = k; m < 20; m += k) {
                struct arena *keep = arena_new();
                int32_t joins[MOST];
                int64_t limit[MOST] = {0};
                for (int32_t s = 0; s < p; s++)
                    joins[s] = k;
                struct pipeline pipeline = {p, 1, m, 0, joins};
                const struct schedule *schedule = limited(keep, &pipeline, limit);
                assert_int_equal(play(schedule, &pipeline, k, 2 * k), (p + m / k - 1) * k * 3);
                assert_int_equal(schedule_in_flight(schedule, &pipeline, 0), p < m / k ? p : m / k);
                arena_free(keep);
            }
}

static void expect_list(const struct schedule *schedule, const struct pipeline *pipeline,
                        int32_t stage, const char *expected)
{
    struct arena *keep = arena_new();
    struct slots slots = {0};
    schedule_order(schedule, pipeline, stage, keep, &slots);
    assert_string_equal(slots_text(keep, &slots, pipeline), expected);
    arena_free(keep);
}

/* Two stages, 4 micro-batches, of which stage 1 takes 2 at once: stage 0 may have 4 in flight. It makes all four forward (4) while
 * stage 1 begins with the first two at 2, ends their forward pass at 4 and their backward pass at 8, then those of the others at 14;
 * stage 0 has their backward passes at 14 and 16, and ends at 18. */
static void test_one_joins(void **state)
{
    (void)state;
    struct arena *keep = arena_new();
    int32_t joins[] = {1, 2};
    struct pipeline pipeline = {2, 1, 4, 0, joins};
    const struct schedule *schedule = limited(keep, &pipeline, (int64_t[]){0, 0});
    int64_t forward[] = {1, 2}, backward[] = {2, 4}, ns;
    struct pipeline_times times = {.forward_ns = forward, .backward_ns = backward};
    expect_list(schedule, &pipeline, 0, "F0 F1 F2 F3 B0 B1 B2 B3");
    expect_list(schedule, &pipeline, 1, "F0 B0 F2 B2");
    assert_int_equal(schedule_play(schedule, &pipeline, &times, &ns), WEFT_OK);
    assert_int_equal(ns, 18);
    arena_free(keep);
}

/* What is written of such an order is read again as the same lists. */
static void test_joined_file(void **state)
{
    (void)state;
    struct arena *keep = arena_new();
    int32_t joins[] = {1, 2, 4};
    struct pipeline pipeline = {3, 1, 8, 0, joins};
    const struct schedule *schedule = limited(keep, &pipeline, (int64_t[]){0, 0, 0});
    const char *text = schedule_write(keep, schedule, &pipeline, SCHEDULE_WEFT);
    struct schedule *again;
    assert_int_equal(schedule_read(keep, "again", text, strlen(text), &again), WEFT_OK);
    assert_non_null(strstr(text, "joins: [1, 2, 4]"));
    assert_string_equal(schedule_write(keep, again, &again->lists->pipeline, SCHEDULE_WEFT), text);
    arena_free(keep);
}

/* ---- plan files ------------------------------------------------------------------------------ */

static const char FILE_START[] = "model: gpt2\noptions: {layers: 4}\ncluster: dgx-a100\n"
                                 "batch: {global: 64, step: 8}\ndegrees: {tp: 2}\n";

static const char *two_stages(struct arena *arena, const char *setting)
{
    return arena_printf(arena, "%sstages: [{devices: 4%s}, {devices: 4}]\n", FILE_START, setting);
}

static void test_plan_file(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct opened_plan plain = parsed(two_stages(arena, ""));
    struct opened_plan few = parsed(two_stages(arena, ", in_flight: 1"));
    struct prediction *all = predict(plain.plan, FOLD_AUTO);
    struct prediction *one = predict(few.plan, FOLD_AUTO);
    struct prediction *unfolded = predict(few.plan, FOLD_NEVER);
    assert_int_equal(one->iteration_ns, unfolded->iteration_ns);
    assert_true(one->iteration_ns > all->iteration_ns);
    assert_true(one->stage[0].memory.bytes[MEMORY_ACTIVATIONS] <
                all->stage[0].memory.bytes[MEMORY_ACTIVATIONS]);
    struct opened_plan again = parsed(plan_write(arena, few.plan));
    assert_true(is_same_plan(few.plan, again.plan));
    prediction_free(all);
    prediction_free(one);
    prediction_free(unfolded);
    plan_close(&plain);
    plan_close(&few);
    plan_close(&again);
    arena_free(arena);
}

/* 1f1b is extrapolated from some of 200,000 micro-batches; a list of them is not, and 16 million are not even listed. */
static void test_many_micro_batches(void **state)
{
    static const char TEXT[] = "model: gpt2\noptions: {layers: 4}\ncluster: dgx-a100\n"
                               "batch: {global: %d, micro: 1}\ndegrees: {tp: 4, pp: 2}\n"
                               "stages: [{in_flight: 1}, {}]\n";
    static const struct {
        int batch;
        bool opens;
        const char *message;
    } ROWS[] = {
        {200000, true,
         "a simulation of an order that is listed, or of limited stages: 400000 micro-batches "
         "times "
         "such parts, expected at most 262144 (about 6 s and 2 GB)"},
        {4194304, false,
         "t.yaml:6: 'in_flight' with 4194304 micro-batches on 2 stages: too many to list"},
    };
    (void)state;
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char *text = arena_printf(arena, TEXT, ROWS[i].batch);
        struct simulate_options options = {.fold = FOLD_ALWAYS};
        struct opened_plan opened = {0};
        struct prediction *prediction;
        weft_status status = plan_parse(arena, "t.yaml", text, strlen(text), &opened);
        assert_int_equal(status == WEFT_OK, ROWS[i].opens);
        if (!status)
            status = simulate(opened.plan, &options, &prediction);
        assert_int_equal(status, WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, ROWS[i].message);
        plan_close(&opened);
    }
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),    cmocka_unit_test(test_equations),
        cmocka_unit_test(test_any_limits), cmocka_unit_test(test_all_join),
        cmocka_unit_test(test_one_joins),  cmocka_unit_test(test_joined_file),
        cmocka_unit_test(test_plan_file),  cmocka_unit_test(test_many_micro_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
