/* test_shared_experts.c - a shared expert beside the tokens' way to the other experts and back (OVERLAP_SHARED).
 *
 *   Q1  Forward, its first product and its activation come between the tokens' leaving and the operator that waits for them, its
 *       second product between the way back and the combine; backward, the other way round. Nothing else does, and all operators
 *       are there once.
 *   Q2  Beside pairs of passes, without a shared expert and without experts on other devices nothing changes, and a warning
 *       says so.
 *   Q3  Nothing takes longer, and no more is gained than the shared experts take; folded is unfolded; estimates of plans are what
 *       is simulated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "estimated.h"
#include "folded.h"
#include "random_plan.h"

enum { LAYERS = 3 }; /* with experts, after a dense one */
static const struct small_model SHARED = {
    "moe", "{layers: 4, hidden: 1024, heads: 8, ffn: 2816, seq: 1024, vocab: 4096, experts: 16, "
           "top_k: 4, expert_ffn: 704, shared_experts: 2, first_dense: 1}"};
static const struct small_model PLAIN = {
    "moe", "{layers: 4, hidden: 1024, heads: 8, ffn: 2816, seq: 1024, vocab: 4096, experts: 16, "
           "top_k: 4, expert_ffn: 704, first_dense: 1}"};

static struct plan *plan_on(const struct model *model, const struct cluster *cluster,
                            struct degrees d)
{
    struct plan *plan;
    d.has_overlap = true;
    if (plan_from_degrees(model, cluster, &d, &plan) || plan_check(plan))
        fail_msg("%s", weft_last_error()->message);
    return plan;
}

/* ---- Q1 -------------------------------------------------------------------------------------- */

/* Operators between a step with tokens and the first that waits for it or for a later one. */
static int ops_beside(const struct block *block)
{
    int beside = 0;
    int32_t tokens = -1;
    for (int32_t i = 0; i < block->items; i++) {
        const struct item *item = &block->item[i];
        if (item->kind == ITEM_STEP && item->tokens)
            tokens = i;
        if (item->kind != ITEM_OP || tokens < 0)
            continue;
        beside += item->needs < tokens;
        tokens = item->needs >= tokens ? -1 : tokens;
    }
    return beside;
}

static int ops_of(const struct block *block)
{
    int ops = 0;
    for (int32_t i = 0; i < block->items; i++)
        ops += block->item[i].kind == ITEM_OP;
    return ops;
}

static void check_beside(struct plan *plan)
{
    static const int BESIDE[][2] = {[SLOT_FORWARD] = {0, 3}, [SLOT_BACKWARD] = {0, 5}};
    int ops[2][SLOT_KIND_COUNT] = {{0}};
    for (int shared = 0; shared < 2; shared++) {
        struct graph *graph;
        plan->overlap = OVERLAP_ALL | (shared ? OVERLAP_SHARED : 0);
        assert_int_equal(
            graph_compile(plan, &(struct compile_options){.fold = FOLD_ALWAYS}, &graph), WEFT_OK);
        for (int32_t b = 0; b < graph->blocks; b++) {
            const struct block *block = &graph->block[b];
            assert_int_equal(ops_beside(block), LAYERS * BESIDE[block->kind][shared]);
            ops[shared][block->kind] += ops_of(block);
        }
        graph_free(graph);
    }
    assert_memory_equal(ops[0], ops[1], sizeof ops[0]);
    plan_free(plan);
}

/* An expert's activation that is made again comes first of what follows the tokens' way back, and reads nothing of it: it
 * waits all the same (blocks.c, I10). */
static void only_the_shared_expert_runs_beside_tokens(void **state)
{
    struct model *model = open_small(&SHARED);
    struct degrees d = {.ep = 8, .dp = 16, .overlap = OVERLAP_ALL};
    check_beside(plan_on(model, *state, d));
    d.recompute = RECOMPUTE_SELECTIVE;
    d.modules = module_from_name("moe_act");
    check_beside(plan_on(model, *state, d));
    model_free(model);
}

/* ---- Q2 -------------------------------------------------------------------------------------- */

static void check_useless(struct plan *plan, unsigned overlap, const char *why)
{
    struct warnings warnings = {0};
    size_t told = 0;
    int64_t without = iteration_with(plan, overlap);
    assert_int_equal(iteration_with(plan, overlap | OVERLAP_SHARED), without);
    plan_warnings(plan->arena, plan, &warnings);
    for (size_t i = 0; i < warnings.len; i++)
        told += strcmp(warnings.data[i], why) == 0;
    assert_int_equal(told, 1);
    plan_free(plan);
}

static void nothing_to_hide_is_told(void **state)
{
    struct model *shared = open_small(&SHARED), *plain = open_small(&PLAIN);
    struct degrees d = {.ep = 8, .dp = 16, .global_batch = 64}, alone = {.dp = 16};
    check_useless(plan_on(shared, *state, d), OVERLAP_ALL | OVERLAP_EXPERTS,
                  "overlap: shared changes nothing beside overlap: experts, which hides the "
                  "tokens");
    check_useless(plan_on(plain, *state, d), OVERLAP_ALL,
                  "overlap: shared changes nothing without a shared expert");
    check_useless(plan_on(shared, *state, alone), OVERLAP_ALL,
                  "overlap: shared changes nothing if no experts are on other devices");
    model_free(shared);
    model_free(plain);
}

/* ---- Q3 -------------------------------------------------------------------------------------- */

/* What the estimate of a plan is off, as a share. */
static double estimate_off(const struct plan *plan, int64_t simulated_ns)
{
    struct arena *scratch = arena_new();
    double off = (double)estimate_of(scratch, plan).iteration_ns / (double)simulated_ns - 1;
    arena_free(scratch);
    return off < 0 ? -off : off;
}

static void gains_no_more_than_it_hides(void **state)
{
    static const struct degrees ROWS[] = {
        {.ep = 8, .dp = 16, .global_batch = 32},
        {.ep = 8, .dp = 8, .tp = 2, .sequence = true, .etp = 1, .global_batch = 32},
        {.ep = 4, .dp = 8, .pp = 2, .global_batch = 64, .recompute = RECOMPUTE_FULL},
        {.ep = 8, .dp = 8, .pp = 2, .pieces = 2, .global_batch = 40, .shard = 1},
        {.ep = 16, .dp = 16, .global_batch = 32, .shard = 3},
    };
    struct model *model = open_small(&SHARED);
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct plan *plan = plan_on(model, *state, ROWS[i]);
        int64_t without = iteration_with(plan, OVERLAP_ALL);
        int64_t with = iteration_with(plan, OVERLAP_ALL | OVERLAP_SHARED);
        struct prediction *each = predict(plan, FOLD_NEVER), *folded = predict(plan, FOLD_AUTO);
        if (folded->graph->folded && !folded->folded_unalike)
            assert_int_equal(each->iteration_ns, with);
        print_message("row %zu: %.3f of the time, estimate %.2f %% off\n", i,
                      (double)with / (double)without, 100 * estimate_off(plan, with));
        assert_true((double)with < 0.999 * (double)without);
        assert_true((double)with > 0.8 * (double)without); /* shared experts are a tenth of it */
        assert_true(estimate_off(plan, with) < 0.01);
        prediction_free(each);
        prediction_free(folded);
        plan_free(plan);
    }
    model_free(model);
}

static int open_cluster(void **state)
{
    struct cluster *cluster;
    assert_int_equal(cluster_open("dgx-h100:2", &cluster), WEFT_OK);
    *state = cluster;
    return 0;
}

static int close_cluster(void **state)
{
    cluster_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_shared_expert_runs_beside_tokens),
        cmocka_unit_test(nothing_to_hide_is_told),
        cmocka_unit_test(gains_no_more_than_it_hides),
    };
    return cmocka_run_group_tests(tests, open_cluster, close_cluster);
}
