/* test_run_subsets.c - operators on some of their stage's devices (plan/subset.h).
 *
 *   S1  By hand: who computes, what is broadcast, what each device holds; two branches take the time of the longer one.
 *   S2  Random plans with operators on random runs of devices compute what their models say.
 *   S3  They run with the losses and weights of one rank.
 *   S4  A plan file says it, and is written as it was read.
 *   S5  What does not go with it is refused.
 *   S6  Ranks hold what was predicted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "plan_text.h"
#include "run_alone.h"
#include "sim/sim.h"

/* ---- by hand (S1) ------------------------------------------------------------------------------ */

/* Two branches: three layers of 16, 8 and 8 features, and four tables of 64 rows of 8 features, of which each device has one
 * branch. A step of 4 samples: the bottom's output is 4 * 8 * 4 bytes = 128, that of the tables 4 * 4 * 8 * 4 = 512; each is
 * broadcast to the other device forward, and no gradient of the inputs goes further back. */
static const char BRANCHES[] =
    "model: dlrm\noptions: {dense: 8, bottom: [16, 8, 8], tables: 4, rows: 64, top: [16, 1]}\n"
    "cluster: piz-daint:2\ndtype: fp32\nbatch: {global: 8, step: 4}\n"
    "tree: {bot_l: {devices: 0}, emb_l: {devices: %s}}\n";

static struct opened_plan branches(const char *devices)
{
    struct arena *arena = arena_new();
    struct opened_plan opened = parsed(arena_printf(arena, BRANCHES, devices));
    arena_free(arena);
    return opened;
}

static int64_t broadcast_bytes(const struct graph *graph)
{
    int64_t bytes = 0;
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; i < graph->block[b].items; i++) {
            const struct item *item = &graph->block[b].item[i];
            if (item->kind == ITEM_STEP && item->step->kind == COLLECTIVE_BROADCAST)
                bytes += item->bytes;
        }
    return bytes;
}

/* When a device computes first. */
static int64_t first_start(const struct prediction *p, int32_t device)
{
    for (int32_t t = 0; t < p->graph->tasks; t++) {
        const struct task *task = &p->graph->task[t];
        if (task->device == device && task->stream == STREAM_COMPUTE && !task->idle)
            return p->result.start_ns[t];
    }
    return -1;
}

static int64_t updated(const struct prediction *p, int32_t device)
{
    int64_t parameters = 0;
    for (int32_t t = 0; t < p->graph->tasks; t++)
        if (p->graph->task[t].device == device)
            parameters += p->graph->task[t].parameters;
    return parameters;
}

static void test_side_by_side(void **state)
{
    (void)state;
    struct opened_plan apart = branches("1"), together = branches("0");
    struct prediction *p = predict(apart.plan), *one = predict(together.plan);
    assert_int_equal(broadcast_bytes(p->graph), 128 + 512);
    assert_int_equal(first_start(p, 0), 0);
    assert_int_equal(first_start(p, 1), 0); /* it does not wait for the other branch */
    assert_true(p->iteration_ns < one->iteration_ns);
    int64_t top = updated(p, 0) - (8 * 16 + 16 + 16 * 8 + 8 + 8 * 8 + 8);
    assert_int_equal(updated(p, 1) - top, 4 * 64 * 8);
    assert_int_equal(updated(one, 0) - updated(one, 1), updated(p, 0) + updated(p, 1) - 2 * top);
    prediction_free(p);
    prediction_free(one);
    plan_close(&apart);
    plan_close(&together);
}

/* Weights in fp32 with gradients and two moments: 16 bytes a parameter. A device with one table row more has that much more. */
static void test_memory_by_device(void **state)
{
    (void)state;
    struct opened_plan opened = branches("1");
    struct stage_memory first = plan_place_memory(opened.plan, 0, 0, 0);
    struct stage_memory second = plan_place_memory(opened.plan, 0, 1, 0);
    assert_int_equal((int64_t)(second.parameters - first.parameters),
                     4 * 64 * 8 - (8 * 16 + 16 + 16 * 8 + 8 + 8 * 8 + 8));
    struct stage_memory fullest = plan_stage_memory(opened.plan, 0, 0);
    assert_true(fullest.parameters == second.parameters);
    struct prediction *p = predict(opened.plan);
    assert_int_equal(p->stage[0].memory.place, 1);
    assert_int_equal(p->stage[0].memory.peak, place_peak_bytes(p->graph, 0, 1));
    assert_true(place_peak_bytes(p->graph, 0, 0) < place_peak_bytes(p->graph, 0, 1));
    prediction_free(p);
    plan_close(&opened);
}

/* ---- random plans (S2, S3) --------------------------------------------------------------------- */

/* A run of the stage's devices, with any split of it; what does not go with it is off. */
static void put_on_run(struct rng *rng, struct plan *plan, int64_t instance)
{
    int32_t stage = plan_stage_of_part(plan, plan_part_of(plan, instance));
    int64_t devices = plan->stage[stage].devices, runs = factor_of(rng, devices);
    struct choice choice = *plan_choice(plan, instance);
    struct device_run run = {rng_below(rng, runs) * (devices / runs), devices / runs};
    struct split inside =
        random_split(rng, plan, &plan->model->op[plan->instance[instance].op], run.devices);
    if (split_put_on(&inside, run, devices, &choice.split))
        assert_int_equal(plan_choose(plan, instance, &choice), WEFT_OK);
}

static void keep_on_devices(struct plan *plan)
{
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        choice.offload = OFFLOAD_NOTHING;
        choice.parts = false;
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
}

static bool has_tie(const struct model *model)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].weights && model->op[i].weight[0].tied_op >= 0)
            return true;
    return false;
}

/* Whether the plan has operators on runs of devices now. */
static bool scatter(struct rng *rng, struct plan *plan)
{
    int64_t one_in = 1 + rng_below(rng, 4);
    keep_on_devices(plan);
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        if (chance(rng, one_in) && !(op->weights && has_tie(plan->model)))
            put_on_run(rng, plan, i);
    }
    if (plan_check(plan) != WEFT_OK)
        fail_msg("%s: %s", plan->model->name, weft_last_error()->message);
    return plan_has_subsets(plan);
}

static void test_random_proofs(void **state)
{
    (void)state;
    int scattered = 0;
    for (int round = 0; round < rounds_of(120); round++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)round);
        const struct model *model = models[rng_below(&rng, SMALL_MODEL_COUNT)];
        struct plan *plan = random_plan(&rng, model, clusters[2 + rng_below(&rng, MOST_RANKS - 1)]);
        struct graph *graph = NULL;
        scattered += scatter(&rng, plan);
        if (graph_compile(plan, &(struct compile_options){FOLD_AUTO}, &graph) != WEFT_OK ||
            graph_verify(graph) != WEFT_OK)
            fail_msg("round %d, %s: %s", round, model->name, weft_last_error()->message);
        assert_true(!plan_has_subsets(plan) || !graph->folded);
        graph_free(graph);
        plan_free(plan);
    }
    assert_true(scattered > 0);
}

static void test_random_runs(void **state)
{
    (void)state;
    /* in the last one a norm is made again for queries while values still read what was kept of it */
    enum { MADE_AGAIN_IN_USE = 122 };
    int wrong = 0, rounds = rounds_of(16);
    for (int i = 0; i <= rounds; i++) {
        int round = i < rounds ? i : MADE_AGAIN_IN_USE;
        wrong += !random_round(round, (uint64_t)round + 1000, 3, scatter);
    }
    assert_int_equal(wrong, 0);
}

/* ---- memory (S6) ------------------------------------------------------------------------------- */

/* Tables and layers large enough that what a run holds besides is small. */
static void test_ranks_hold_what_was_predicted(void **state)
{
    (void)state;
    struct opened_plan opened =
        parsed("model: gpt2\noptions: {layers: 2, hidden: 64, heads: 4, seq: 64, vocab: 512, tied: "
               "false, dropout: 0}\ncluster: piz-daint:4\ndtype: fp32\n"
               "batch: {global: 8, step: 4}\n"
               "tree: {\"*\": {split: batch:4}, embedding: {devices: 0-1, split: vocab:2}}\n");
    assert_true(trained_memory_error(opened.plan) < 0.05);
    plan_close(&opened);
}

/* ---- files (S4, S5) ------------------------------------------------------------------------------ */

static void test_file(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct opened_plan first = branches("1");
    struct opened_plan again = parsed(plan_write(arena, first.plan));
    assert_true(is_same_plan(first.plan, again.plan));
    expect_split(again.plan, "emb_l", "on 1 of 2 whole");
    expect_split(again.plan, "interaction", "copy:2");
    plan_close(&first);
    plan_close(&again);
    arena_free(arena);
}

#define GPT "model: gpt2\ncluster: dgx-v100\nbatch: {global: 8, step: 8}\n"
static void test_refusals(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {
        {GPT "tree: {layers: {devices: 1-2}}\n", "devices 1-2 are none of the equal runs"},
        {GPT "tree: {layers: {devices: 0-15}}\n", "devices 0-15 are none of the equal runs"},
        {GPT "tree: {layers: {devices: 8-9}}\n", "devices 8-9 are none of the equal runs"},
        {GPT "tree: {\"*\": {split: batch:4}, head: {devices: 4-6}}\n", "devices 4-6 are none"},
        {GPT "tree: {layers: {devices: 3-1}}\n", "'devices' is '3-1', expected a run"},
        {GPT "tree: {layers: {devices: [1]}}\n", "expected a run such as 2-3, or all"},
        {GPT "tree: {layers: {devices: 0-1, split: batch:4}}\n", "is for 4 devices"},
        {GPT "tree: {embedding: {devices: 0-1}}\n", "a tied weight lies the same way"},
        {GPT "tree: {layers: {devices: 0-1, recompute: full, offload: true}}\n",
         "nothing is offloaded"},
        {GPT "tree: {layers: {devices: 0-1, memory: parts}}\n", "its output is kept whole"},
        {GPT "optimizer: muon\ntree: {layers: {devices: 0-1}}\n", "Muon"},
        {GPT "propagate: true\ntree: {layers: {devices: 0-1}}\n", "splits do not propagate"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++)
        expect_refusal(CASES[i][0], CASES[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_memory_by_device),
        cmocka_unit_test(test_random_proofs),
        cmocka_unit_test(test_random_runs),
        cmocka_unit_test(test_ranks_hold_what_was_predicted),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_all);
}
