/* test_iteration_end.c - what follows the gradients (estimate.c) beside the simulator, on plans in which it is
 * much of an iteration: tied stages, the optimizer, gathers of the weights it updated. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "estimated.h"
#include "made_plan.h"
#include "sim/sim.h"

/* Both of one plan, within a share of each other. */
struct both {
    struct estimate estimate;
    struct prediction *prediction;
};
static struct both compare(const struct made *m, double allowed)
{
    struct both both = {.estimate = estimate_of(m->arena, m->plan)};
    if (simulate(m->plan, &(struct simulate_options){0}, &both.prediction) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    double off = (double)both.estimate.iteration_ns / (double)both.prediction->iteration_ns - 1;
    assert_true(fabs(off) <= allowed);
    return both;
}

/* The last stage has all layers but one, and its gradients follow its passes: the stage that owns the tied
 * weights has to wait for it. */
static void tied_stages_wait_for_each_other(void **state)
{
    struct degrees d = {.pp = 2, .dp = 8, .global_batch = 64, .has_overlap = true};
    struct made m = make("gpt3-1.3b", "layers: 6, seq: 256", "dgx-v100:2", &d);
    int64_t cut = 0, devices[] = {8, 8};
    (void)state;
    while (!m.plan->ends_layer[cut++]) {
    }
    assert_int_equal(plan_map(m.plan, 2, 1, &cut, devices), WEFT_OK);
    assert_int_equal(plan_check(m.plan), WEFT_OK);
    struct both both = compare(&m, 0.005);
    const struct stage_estimate *s = both.estimate.stage;
    assert_int_equal(s[0].end_ns - s[0].optimizer_ns, s[1].end_ns - s[1].optimizer_ns);
    prediction_free(both.prediction);
    unmake(&m);
}

/* One micro-batch on many devices: with ZeRO-1 and 2 the gathers take a good part of an iteration. */
static void updated_weights_are_gathered(void **state)
{
    (void)state;
    for (int shard = 0; shard <= 2; shard++) {
        struct degrees d = {.dp = 16, .shard = shard, .has_overlap = true};
        struct made m = make("gpt3-1.3b", "layers: 4, seq: 128", "dgx-v100:2", &d);
        struct both both = compare(&m, 0.001);
        prediction_free(both.prediction);
        unmake(&m);
    }
}

/* All pieces of a stage. */
static void the_optimizer_updates_all_pieces(void **state)
{
    struct degrees d = {.pp = 2, .pieces = 2, .dp = 4, .global_batch = 16};
    struct made m = make("gpt3-1.3b", "layers: 4, seq: 256", "dgx-a100:1", &d);
    struct both both = compare(&m, 0.01);
    (void)state;
    for (int32_t s = 0; s < 2; s++)
        assert_int_equal(both.estimate.stage[s].optimizer_ns,
                         both.prediction->stage[s].time_ns[PURPOSE_OPTIMIZER]);
    prediction_free(both.prediction);
    unmake(&m);
}

/* Up to the limit that estimates have, which leaves something for the allocator. */
static void a_plan_fits_to_the_last_byte(void **state)
{
    struct degrees d = {.dp = 8};
    struct made m = make("gpt3-1.3b", "layers: 2, seq: 128", "dgx-a100:1", &d);
    (void)state;
    int64_t peak = estimate_of(m.arena, m.plan).peak_bytes;
    struct memory_terms *memory = &m.plan->memory;
    for (memory->limit_bytes = peak; estimate_limit_bytes(m.plan->cluster, memory) < peak;)
        memory->limit_bytes += peak - estimate_limit_bytes(m.plan->cluster, memory);
    assert_int_equal(estimate_limit_bytes(m.plan->cluster, memory), peak);
    assert_true(estimate_of(m.arena, m.plan).fits);
    memory->limit_bytes -= 2; /* of which less than all is the estimate's */
    assert_false(estimate_of(m.arena, m.plan).fits);
    unmake(&m);
}

static int64_t peak_with(struct made *m, int64_t micro_batches, int32_t stage)
{
    struct outline outline;
    m->plan->global_batch = micro_batches * m->plan->step_samples;
    assert_int_equal(outline_compile(m->plan, &outline), WEFT_OK);
    int64_t peak = stage_peak_bytes(outline.graph, stage);
    outline_free(&outline);
    return peak;
}

/* An iteration of 2^20 micro-batches and more is not played slot by slot. All schedules that fill and repeat
 * themselves hold as much as with 32; where all forward passes come first, each round adds the same. */
static void long_iterations_hold_what_short_ones_show(void **state)
{
    static const struct {
        const char *schedule;
        int64_t pieces, rest;
        bool grows;
    } CASES[] = {{"1f1b", 1, 3, false},
                 {"interleaved", 2, 0, false},
                 {"zb-h1", 1, 3, false},
                 {"gpipe", 1, 3, true}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct degrees d = {.pp = 4,
                            .pieces = CASES[i].pieces,
                            .dp = 2,
                            .global_batch = 64,
                            .schedule = CASES[i].schedule};
        struct made m = make("gpt3-1.3b", "layers: 8, seq: 128", "dgx-a100:1", &d);
        int64_t few = 32 + CASES[i].rest, more = 64 + CASES[i].rest,
                all = (1 << 20) + CASES[i].rest;
        for (int32_t s = 0; s < 4; s++) {
            int64_t first = peak_with(&m, few, s), second = peak_with(&m, more, s);
            assert_int_equal(second > first, CASES[i].grows);
            int64_t expected = second + (all - more) / (more - few) * (second - first);
            assert_int_equal(peak_with(&m, all, s), expected);
        }
        unmake(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_iterations_hold_what_short_ones_show),
        cmocka_unit_test(tied_stages_wait_for_each_other),
        cmocka_unit_test(updated_weights_are_gathered),
        cmocka_unit_test(the_optimizer_updates_all_pieces),
        cmocka_unit_test(a_plan_fits_to_the_last_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
