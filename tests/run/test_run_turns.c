/* test_run_turns.c - backward passes with a split of their own (plan/back.c).
 *
 *   T1  By hand: what is brought to the other split, what is summed where, and what a backward pass takes.
 *   T2  Random plans with random splits of backward passes compute what their models say.
 *   T3  They run with the losses and weights of one rank.
 *   T4  A plan file says it, and is written as it was read.
 *   T5  What it does not go with is refused.
 *   T6  Ranks hold what was predicted.
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
#include "turned_plan.h"

/* ---- by hand (T1) ------------------------------------------------------------------------------ */

/* The first product of a layer has 4 samples of 64 positions of 64 features on 4 devices. Forward each device has one sample, or
 * all of them. */
static const char PLAN[] =
    "model: gpt2\noptions: {layers: 1, hidden: 64, heads: 4, seq: 64, vocab: 512, "
    "tied: false, dropout: 0, attention: eager}\n"
    "cluster: piz-daint:4\ndtype: fp32\nbatch: {global: 8, step: 4}\n"
    "tree: {\"*\": {split: batch:4}, layers.*.mlp.up: {split: %s}}\n";

static struct opened_plan split_as(const char *text)
{
    struct arena *arena = arena_new();
    struct opened_plan opened = parsed(arena_printf(arena, PLAN, text));
    arena_free(arena);
    return opened;
}

/* Bytes of a backward block's steps of one kind that bring an input to the other split, or gradients. */
static int64_t step_bytes(const struct graph *graph, int kind, bool turns)
{
    int64_t bytes = 0;
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; i < graph->block[b].items; i++) {
            const struct item *item = &graph->block[b].item[i];
            if (item->kind == ITEM_STEP && item->step->kind == kind && item->turns == turns)
                bytes += item->bytes;
        }
    return bytes;
}

/* Samples become parts of the sequence: an input of 64 * 64 * 4 bytes a device is exchanged, and so are the gradients of the
 * output, of 4 times as many features, and of the input. The weights' gradients are sums over the devices either way. */
static void test_samples_become_positions(void **state)
{
    (void)state;
    enum { INPUT_BYTES = 64 * 64 * 4 };
    struct opened_plan same = split_as("batch:4"), turned = split_as("batch:4, backward: seq:4");
    struct prediction *p = predict(turned.plan), *q = predict(same.plan);
    assert_int_equal(step_bytes(p->graph, COLLECTIVE_ALL_TO_ALL, true), INPUT_BYTES);
    assert_int_equal(step_bytes(p->graph, COLLECTIVE_ALL_TO_ALL, false), 5 * INPUT_BYTES);
    assert_int_equal(step_bytes(q->graph, COLLECTIVE_ALL_TO_ALL, false), 0);
    assert_int_equal(p->graph->bucket[0].pattern >= 0, q->graph->bucket[0].pattern >= 0);
    assert_int_equal(p->graph->buckets, q->graph->buckets);
    assert_true(p->iteration_ns > q->iteration_ns);
    prediction_free(p);
    prediction_free(q);
    plan_close(&same);
    plan_close(&turned);
}

static int64_t items_ns(const struct prediction *p, enum purpose purpose)
{
    return p->stage[0].time_ns[purpose];
}

/* All devices compute what each needs, forward; backward each has its samples, of which the input is a slice, which costs
 * nothing: the product's backward pass takes less, and its gradients become sums that the devices add up. */
static void test_copies_become_samples(void **state)
{
    (void)state;
    struct opened_plan same = split_as("copy:4"), turned = split_as("copy:4, backward: batch:4");
    struct prediction *p = predict(turned.plan), *q = predict(same.plan);
    assert_int_equal(step_bytes(p->graph, STEP_SLICE, true), 4 * 64 * 64 * 4); /* what is cut */
    assert_true(items_ns(p, PURPOSE_BACKWARD) < items_ns(q, PURPOSE_BACKWARD));
    int64_t up = at(turned.plan, "layers.0.mlp.up");
    assert_int_equal(p->graph->bucket[p->graph->uses->bucket_of[up]].pattern >= 0, true);
    assert_int_equal(q->graph->bucket[q->graph->uses->bucket_of[up]].pattern >= 0, false);
    prediction_free(p);
    prediction_free(q);
    plan_close(&same);
    plan_close(&turned);
}

/* ---- random plans (T2, T3) --------------------------------------------------------------------- */

static void test_random_proofs(void **state)
{
    (void)state;
    int turned = 0;
    for (int round = 0; round < rounds_of(120); round++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)round);
        const struct model *model = models[rng_below(&rng, SMALL_MODEL_COUNT)];
        struct plan *plan = random_plan(&rng, model, clusters[2 + rng_below(&rng, MOST_RANKS - 1)]);
        struct graph *graph = NULL;
        turned += turn_some(&rng, plan);
        if (graph_compile(plan, &(struct compile_options){FOLD_AUTO}, &graph) != WEFT_OK ||
            graph_verify(graph) != WEFT_OK)
            fail_msg("round %d, %s: %s", round, model->name, weft_last_error()->message);
        graph_free(graph);
        plan_free(plan);
    }
    assert_true(turned > 0);
}

static bool turn(struct rng *rng, struct plan *plan)
{
    return turn_some(rng, plan) > 0;
}

static void test_random_runs(void **state)
{
    (void)state;
    int wrong = 0;
    for (int round = 0; round < rounds_of(24); round++)
        wrong += !random_round(round, (uint64_t)round + 3000, 3, turn);
    assert_int_equal(wrong, 0);
}

/* ---- memory (T6) ------------------------------------------------------------------------------- */

static void test_ranks_hold_what_was_predicted(void **state)
{
    (void)state;
    struct opened_plan opened = split_as("batch:4, backward: seq:4");
    assert_true(trained_memory_error(opened.plan) < 0.05);
    plan_close(&opened);
}

/* ---- files (T4, T5) ------------------------------------------------------------------------------ */

static void expect_back(const struct plan *plan, const char *path, const char *split)
{
    struct arena *scratch = arena_new();
    const struct choice *choice = plan_choice(plan, at(plan, path));
    assert_string_equal(choice->own_back ? split_text(scratch, &choice->back) : "same", split);
    arena_free(scratch);
}

#define GPT "model: gpt2\ncluster: dgx-v100\nbatch: {global: 8, step: 8}\n"
/* A line on a module is for those that can have it: products and sums, not norms. */
static void test_file(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct opened_plan first =
        parsed(GPT "tree: {layers: {split: batch:8, backward: batch:2 seq:4}, "
                   "layers.1-11.mlp.up: {backward: same}, layers.*.mlp.down: {split: seq:8}}\n");
    struct opened_plan again = parsed(plan_write(arena, first.plan));
    assert_true(is_same_plan(first.plan, again.plan));
    expect_back(again.plan, "layers.0.mlp.up", "batch:2 seq:4");
    expect_back(again.plan, "layers.1.mlp.up", "same");
    expect_back(again.plan, "layers.0.mlp.down", "batch:2 seq:4");
    expect_back(again.plan, "layers.0.mlp.norm", "same");
    expect_split(again.plan, "layers.0.mlp.down", "seq:8");
    plan_close(&first);
    plan_close(&again);
    arena_free(arena);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {
        {GPT "tree: {layers.*.mlp.up: {split: out:8, backward: in:8}}\n",
         "t.yaml:4: layers.0.mlp.up: its backward pass cannot be split in:8: its weights would lie "
         "another way"},
        {GPT "tree: {layers.*.mlp.norm: {split: batch:8, backward: seq:8}}\n",
         "its backward pass reads more than weights and inputs that other operators made"},
        {GPT "tree: {layers.*.mlp.up: {split: batch:8, backward: batch:16}}\n",
         "is for 16 devices"},
        {GPT "tree: {layers.*.mlp.up: {split: batch:8, backward: head:8}}\n", "has no dim 'head'"},
        {GPT "tree: {layers.*.mlp.up: {split: batch:8, backward: 7}}\n", "'7'"},
        {GPT "tree: {layers.*.mlp.up: {backward: seq:8}, layers.*.attn.norm: {devices: 0-3}}\n",
         "operators of this plan are on some of their stage's devices"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++)
        expect_refusal(CASES[i][0], CASES[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_become_positions),
        cmocka_unit_test(test_copies_become_samples),
        cmocka_unit_test(test_random_proofs),
        cmocka_unit_test(test_random_runs),
        cmocka_unit_test(test_ranks_hold_what_was_predicted),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_all);
}
