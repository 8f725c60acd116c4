/* test_run_parts.c - outputs that wait in parts between the passes (compile/parts.c).
 *
 *   P1  By hand: what is kept of a recomputed layer's input, and what is gathered for it.
 *   P2  Random plans with outputs in parts compute what their models say.
 *   P3  A folded graph takes the times of the unfolded one.
 *   P4  A run has the losses of the same plan without parts, and holds what was predicted.
 *   P5  A plan file says it, is written as it was read, and is warned of where it changes nothing.
 *   P6  Its estimate has the memory of its simulation, and its time within 2 %.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "estimated.h"
#include "plan_text.h"
#include "run_lab.h"
#include "run_models.h"
#include "sim/sim.h"

/* ---- by hand (P1) ---------------------------------------------------------------------------- */

/* 4 layers on 2 devices of tp 2, all of them recomputed. A layer's output has 1 sample * 16 positions * 32 features * 4 bytes
 * = 2,048 bytes. Layers 1 to 3 and the last norm read the sum at the end of the layer before; in parts each device keeps
 * 1,024 of it: 4 * 1,024 = 4,096 bytes less, for 4 all-gathers of 2,048 bytes. */
static const char BY_HAND[] =
    "model: gpt2\noptions: {layers: 4, hidden: 32, heads: 4, seq: 16, vocab: 96, dropout: 0}\n"
    "cluster: piz-daint:2\ndtype: fp32\nbatch: {global: 1, step: 1}\n"
    "degrees: {tp: 2, recompute: full}\n";

static int64_t kept_bytes(const struct graph *graph)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < graph->lifetimes->part[0].lives; i++) {
        const struct lifetime *life = &graph->lifetimes->part[0].life[i];
        bytes +=
            life->memory == MEMORY_ACTIVATIONS && life->born_in == SLOT_FORWARD ? life->bytes : 0;
    }
    return bytes;
}

static int gathers(const struct graph *graph, int64_t bytes)
{
    int count = 0;
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; i < graph->block[b].items; i++) {
            const struct item *item = &graph->block[b].item[i];
            count += item->kind == ITEM_STEP && item->step->kind == COLLECTIVE_ALL_GATHER &&
                     item->bytes == bytes;
        }
    return count;
}

static struct graph *compile(const struct plan *plan, enum fold fold)
{
    struct graph *graph = NULL;
    if (graph_compile(plan, &(struct compile_options){fold}, &graph) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return graph;
}

static void test_by_hand(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct opened_plan whole = parsed(BY_HAND);
    struct opened_plan parts =
        parsed(arena_printf(arena, "%stree: {layers: {memory: parts}}\n", BY_HAND));
    struct graph *one = compile(whole.plan, FOLD_AUTO), *other = compile(parts.plan, FOLD_AUTO);
    assert_int_equal(kept_bytes(one) - kept_bytes(other), 4 * 1024);
    assert_int_equal(gathers(one, 2048), 0);
    assert_int_equal(gathers(other, 2048), 4);
    double before = plan_stage_memory(whole.plan, 0, 1).activations;
    double after = plan_stage_memory(parts.plan, 0, 1).activations;
    assert_int_equal((int64_t)(before - after), 4 * 1024);
    graph_free(one);
    graph_free(other);
    plan_close(&whole);
    plan_close(&parts);
    arena_free(arena);
}

/* ---- random plans (P2, P3) ------------------------------------------------------------------- */

static void keep_in_parts(struct rng *rng, struct plan *plan)
{
    int64_t one_in = 1 + rng_below(rng, 3);
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        choice.parts = chance(rng, one_in);
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
}

static int64_t slices_of(const struct graph *graph)
{
    int64_t slices = 0;
    const struct in_parts *in_parts = graph->uses->in_parts;
    for (int64_t i = 0; in_parts && i < graph->plan->instances; i++)
        slices += in_parts[i].slices && in_parts[i].use >= 0;
    return slices;
}

static int64_t prove(struct rng *rng, const struct plan *plan, uint64_t round)
{
    struct graph *graph = compile(plan, chance(rng, 2) ? FOLD_AUTO : FOLD_NEVER);
    int64_t slices = slices_of(graph);
    if (graph_verify(graph) != WEFT_OK)
        fail_msg("round %d, %s: %s", (int)round, plan->model->name, weft_last_error()->message);
    graph_free(graph);
    return slices;
}

static int64_t iteration_ns(const struct plan *plan, enum fold fold, bool *folded)
{
    struct prediction *p = NULL;
    if (simulate(plan, &(struct simulate_options){.fold = fold}, &p) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    int64_t ns = p->iteration_ns;
    *folded = p->graph->folded;
    prediction_free(p);
    return ns;
}

static void test_random(void **state)
{
    (void)state;
    int64_t slices = 0;
    for (int round = 0; round < rounds_of(150); round++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)round);
        const struct model *model = models[rng_below(&rng, SMALL_MODEL_COUNT)];
        struct plan *plan = random_plan(&rng, model, clusters[2 + rng_below(&rng, MOST_RANKS - 1)]);
        keep_in_parts(&rng, plan);
        slices += prove(&rng, plan, (uint64_t)round);
        bool folded = false, all = false;
        if (round % 4 == 0) {
            int64_t one = iteration_ns(plan, FOLD_AUTO, &folded);
            if (folded)
                assert_int_equal(one, iteration_ns(plan, FOLD_NEVER, &all));
        }
        plan_free(plan);
    }
    assert_true(slices > 0);
}

/* ---- runs (P4) ------------------------------------------------------------------------------- */

static struct trained *run(const struct plan *plan)
{
    struct laboratory lab = {.plan = plan, .options = lab_options(plan->model), .steps = 3};
    struct trained *trained = run_lab(&lab);
    if (trained->status != WEFT_OK)
        fail_msg("%s: %s", plan->model->name, trained->why);
    return trained;
}

/* The run that holds most of a few: between stages it depends on how far the one before has run ahead. */
static struct trained *fullest_run(const struct plan *plan)
{
    enum { RUNS = 4 };
    struct trained *most = run(plan);
    for (int again = 1; again < RUNS && plan->stages > 1; again++) {
        struct trained *other = run(plan);
        bool fuller = other->peak > most->peak;
        trained_free(fuller ? most : other);
        most = fuller ? other : most;
    }
    return most;
}

static void test_runs(void **state)
{
    (void)state;
    static const struct degrees CASES[] = {
        {.tp = 4, .recompute = RECOMPUTE_FULL},
        {.tp = 2, .pp = 2},
        {.tp = 2, .dp = 2, .recompute = RECOMPUTE_FULL, .offload = true},
        {.tp = 2, .pp = 2, .recompute = RECOMPUTE_FULL},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct degrees degrees = CASES[i];
        struct plan *plan;
        degrees.global_batch = 8;
        degrees.micro_batch = 2;
        degrees.has_dtype = true;
        degrees.dtype = DTYPE_FP32;
        assert_int_equal(plan_from_degrees(models[i % 4], clusters[4], &degrees, &plan), WEFT_OK);
        struct trained *whole = fullest_run(plan);
        for (int64_t k = 0; k < plan->instances; k++) {
            struct choice choice = *plan_choice(plan, k);
            choice.parts = true;
            assert_int_equal(plan_choose(plan, k, &choice), WEFT_OK);
        }
        struct trained *parts = fullest_run(plan);
        for (int step = 0; step < 3; step++)
            assert_true(whole->loss[step] == parts->loss[step]);
        assert_true(degrees.offload ? parts->host_peak < whole->host_peak
                                    : parts->peak < whole->peak);
        assert_true(parts->memory_error <= whole->memory_error + 0.02);
        trained_free(whole);
        trained_free(parts);
        plan_free(plan);
    }
}

/* ---- files (P5) ------------------------------------------------------------------------------ */

static void test_file(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    const char *tree = "tree: {layers: {memory: parts}, layers.1: {memory: whole}}\n";
    struct opened_plan first = parsed(arena_printf(arena, "%s%s", BY_HAND, tree));
    struct opened_plan again = parsed(plan_write(arena, first.plan));
    assert_true(is_same_plan(first.plan, again.plan));
    assert_true(plan_choice(first.plan, at(first.plan, "layers.0.attn.norm"))->parts);
    assert_false(plan_choice(first.plan, at(first.plan, "layers.1.attn.norm"))->parts);
    struct warnings warnings = {0};
    plan_warnings(arena, first.plan, &warnings);
    bool warned = false;
    for (size_t i = 0; i < warnings.len; i++)
        warned |= strstr(warnings.data[i], "memory: parts changes nothing") != NULL;
    assert_true(warned); /* queries, keys and values are divided by tp */
    plan_close(&first);
    plan_close(&again);
    arena_free(arena);
}

/* ---- estimates (P6) -------------------------------------------------------------------------- */

static void test_estimated(void **state)
{
    (void)state;
    struct opened_plan opened =
        parsed("model: gpt2\ncluster: dgx-a100\nbatch: {global: 64, micro: 2}\n"
               "degrees: {tp: 4, pp: 2, recompute: full}\ntree: {layers: {memory: parts}}\n");
    struct arena *arena = arena_new();
    struct estimate estimate = estimate_of(arena, opened.plan);
    struct prediction *p;
    assert_int_equal(simulate(opened.plan, &(struct simulate_options){0}, &p), WEFT_OK);
    for (int32_t s = 0; s < opened.plan->stages; s++)
        assert_int_equal(estimate.stage[s].peak_bytes, p->stage[s].memory.peak);
    assert_true(fabs((double)estimate.iteration_ns / (double)p->iteration_ns - 1) < 0.02);
    prediction_free(p);
    plan_close(&opened);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),   cmocka_unit_test(test_random),
        cmocka_unit_test(test_runs),      cmocka_unit_test(test_file),
        cmocka_unit_test(test_estimated),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_run_models);
}
