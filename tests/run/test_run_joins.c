/* test_run_joins.c - stages that take several micro-batches at once (plan/joins.c).
 *
 *   J1  Random plans with random numbers of micro-batches on their stages compute what their models say.
 *   J2  They run with the losses and weights of one rank.
 *   J3  Ranks hold what was predicted.
 *   J4  A plan file says it, and is written as it was read.
 *   J5  A slot computes as many samples, and a tensor goes in as many sends, as the numbers at both ends say.
 *   J6  What does not go with it is refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "plan_text.h"
#include "run_alone.h"
#include "sim/sim.h"

static const struct schedule *joined_order(struct rng *rng, const struct plan *plan,
                                           struct arena *keep)
{
    struct pipeline pipeline = {plan->stages, 1, (int32_t)plan_micro_batches(plan)};
    int32_t *joins = ARENA_ARRAY(keep, int32_t, (size_t)plan->stages);
    int64_t *limit = ARENA_ARRAY(keep, int64_t, (size_t)plan->stages);
    struct schedule *order;
    for (int32_t s = 0; s < plan->stages; s++)
        do
            joins[s] = 1 + (int32_t)rng_below(rng, pipeline.micro_batches);
        while (pipeline.micro_batches % joins[s]);
    pipeline.joins = joins;
    if (schedule_limited(keep, &pipeline, limit, NULL, &order) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return order;
}

/* False: it has one micro-batch, several pieces, or a norm over samples. */
static bool join_stages(struct rng *rng, struct plan *plan)
{
    struct arena *keep = arena_new();
    bool meant = plan->pieces == 1 && plan_micro_batches(plan) > 1;
    if (meant) {
        plan_order_by(plan, joined_order(rng, plan, keep));
        assert_int_equal(plan_join_stages(plan), WEFT_OK);
        meant = plan_check(plan) == WEFT_OK;
        error_clear();
    }
    arena_free(keep);
    return meant;
}

/* ---- proofs (J1) ----------------------------------------------------------------------------- */

static void test_random_proofs(void **state)
{
    (void)state;
    int joined = 0;
    for (int round = 0; round < rounds_of(300); round++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)round);
        const struct model *model = models[rng_below(&rng, SMALL_MODEL_COUNT)];
        struct plan *plan = random_plan(&rng, model, clusters[2 + rng_below(&rng, MOST_RANKS - 1)]);
        struct graph *graph = NULL;
        if (join_stages(&rng, plan)) {
            joined++;
            if (graph_compile(plan, &(struct compile_options){FOLD_AUTO}, &graph) != WEFT_OK ||
                graph_verify(graph) != WEFT_OK)
                fail_msg("round %d, %s: %s", round, model->name, weft_last_error()->message);
        }
        graph_free(graph);
        plan_free(plan);
    }
    assert_true(joined > 0);
}

/* ---- runs (J2, J3) ---------------------------------------------------------------------------- */

static bool joined_round(int round, int *joined)
{
    struct rng rng;
    char why[512] = "";
    rng_seed(&rng, (uint64_t)round + 5000);
    const struct model *model = random_model(&rng);
    struct plan *plan = runnable_plan(&rng, model);
    struct conditions c = {.steps = 3, .seed = 5000, .no_dropout = true};
    bool same = !join_stages(&rng, plan);
    *joined += !same;
    for (uint64_t tries = has_kinks(model) ? 4 : 1; tries > 0 && !same; tries--, c.seed++)
        same = agree(plan, &c, why, sizeof why);
    if (!same)
        print_message("round %d, %s, %lld ranks: %s\n", round, model->family,
                      (long long)cluster_devices(plan->cluster), why);
    plan_free(plan);
    return same;
}

static void test_random_runs(void **state)
{
    (void)state;
    int wrong = 0, joined = 0;
    for (int round = 0; round < rounds_of(60); round++)
        wrong += !joined_round(round, &joined);
    assert_int_equal(wrong, 0);
    assert_true(joined > 0);
}

static const double MOST_MEMORY_ERROR = 0.1;

#define TWO_STAGES                                                                                 \
    "model: gpt2\noptions: {layers: 2, hidden: 64, heads: 4, seq: 64, vocab: 512, tied: false, "   \
    "dropout: 0}\ncluster: piz-daint:4\ndtype: fp32\nbatch: {global: 16, step: 2}\n"               \
    "degrees: {tp: 1}\n"

/* What comes early depends on how far the rank before it has run ahead: the least of a few runs. */
static double memory_error(const char *stages)
{
    enum { RUNS = 5 };
    struct arena *arena = arena_new();
    struct opened_plan opened = parsed(arena_printf(arena, "%s%s", TWO_STAGES, stages));
    double error = trained_memory_error(opened.plan);
    for (int run = 1; run < RUNS && error >= MOST_MEMORY_ERROR; run++)
        error = fmin(error, trained_memory_error(opened.plan));
    plan_close(&opened);
    arena_free(arena);
    return error;
}

/* Of these small tensors a rank holds up to a slot's inputs besides, which may come a slot early: 2 % of its memory, and as much
 * where one micro-batch is taken at a time. */
static void test_ranks_hold_what_was_predicted(void **state)
{
    static const char *const STAGES[] = {
        "stages: [{devices: 2, micro_batches: 4}, {devices: 2, micro_batches: 2}]\n",
        "stages: [{devices: 2, micro_batches: 2}, {devices: 2}]\n",
        "stages: [{devices: 2}, {devices: 2, micro_batches: 2}]\n"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(STAGES); i++) {
        double error = memory_error(STAGES[i]);
        if (error >= MOST_MEMORY_ERROR)
            fail_msg("%s: %.3f", STAGES[i], error);
    }
}

/* ---- files (J4, J5) ---------------------------------------------------------------------------- */

static int32_t count_tasks(const struct graph *graph, int32_t stage, enum purpose purpose)
{
    int32_t count = 0;
    for (int32_t t = 0; t < graph->tasks; t++)
        count += graph->device[graph->task[t].device].stage == stage &&
                 graph->task[t].purpose == purpose;
    return count;
}

/* 8 micro-batches of 2 samples: stage 0 takes two of them at once, stage 1 four. What goes between them goes two at a time,
 * 4 sends in either direction, each of 4 samples * 64 positions * 64 features / 2 devices * 4 bytes. */
static void test_sends(void **state)
{
    (void)state;
    struct opened_plan opened = parsed(
        TWO_STAGES "stages: [{devices: 2, micro_batches: 4}, {devices: 2, micro_batches: 2}]\n");
    struct graph *graph = NULL;
    assert_int_equal(graph_compile(opened.plan, &(struct compile_options){FOLD_ALWAYS}, &graph),
                     WEFT_OK);
    assert_int_equal(count_tasks(graph, 0, PURPOSE_PIPELINE), 4);
    assert_int_equal(count_tasks(graph, 1, PURPOSE_PIPELINE), 4);
    for (int32_t t = 0; t < graph->tasks; t++)
        if (graph->task[t].purpose == PURPOSE_PIPELINE)
            assert_int_equal(graph->exchange[graph->task[t].exchange].bytes, 4 * 64 * 64 / 2 * 4);
    assert_int_equal(graph_laid(graph, 0)->local[0], 2); /* of stage 0's 4 samples */
    assert_int_equal(graph_laid(graph, opened.plan->instances - 1)->local[0], 4);
    graph_free(graph);
    plan_close(&opened);
}

static void test_file(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct opened_plan first =
        parsed(TWO_STAGES "stages: [{devices: 2}, {devices: 2, micro_batches: 2, in_flight: 8}]\n");
    struct opened_plan again = parsed(plan_write(arena, first.plan));
    assert_true(is_same_plan(first.plan, again.plan));
    assert_int_equal(plan_stage_joins(again.plan, 0), 1);
    assert_int_equal(plan_stage_joins(again.plan, 1), 4);
    plan_close(&first);
    plan_close(&again);
    arena_free(arena);
}

/* ---- refusals (J6) ------------------------------------------------------------------------------ */

static void test_refusals(void **state)
{
    static const char *const CASES[][2] = {
        {TWO_STAGES "stages: [{devices: 2, micro_batches: 3}, {devices: 2}]\n",
         "stage 0 takes the batch in 3, the plan in 8 micro-batches"},
        {TWO_STAGES "stages: [{devices: 2, in_flight: 2}, {devices: 2, micro_batches: 2}]\n",
         "stage 1 never has the 4 micro-batches in flight that it takes at once"},
        {TWO_STAGES "schedule: gpipe\nstages: [{devices: 2}, {devices: 2, micro_batches: 2}]\n",
         "'micro_batches' is for the schedule 1f1b, not gpipe"},
        {TWO_STAGES "joins: [1, 2]\n", "'joins' without 'order'"},
        {TWO_STAGES "stages: 2\norder: [F0 B0, F0 B0]\njoins: [8]\n", "'joins' is 1 number"},
        {TWO_STAGES "stages: 2\norder: [F0 F4 B0 B4, F0 F2 B0 B2]\njoins: [4, 4]\n",
         "its stage takes it together with the micro-batches before it"},
        {TWO_STAGES "stages: 2\norder: [F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7, F0 B0]\n"
                    "joins: [1, 8]\n",
         "deadlock: stage 0, slot 2 (B0) waits forever"},
        {"model: resnet-50\ncluster: piz-daint:2\ndtype: fp32\nbatch: {global: 8, step: 2}\n"
         "stages: [{devices: 1}, {devices: 1, micro_batches: 2}]\n",
         "takes 2 micro-batches at once, but its statistics would be of all of them"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++)
        expect_refusal(CASES[i][0], CASES[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_proofs),
        cmocka_unit_test(test_random_runs),
        cmocka_unit_test(test_ranks_hold_what_was_predicted),
        cmocka_unit_test(test_sends),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_all);
}
