/* test_gathered_again.c - the proof of a compiled graph misses what a backward pass does not gather again (compile/blocks.c,
 * I2; compile/symbolic.c, I2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "drop_items.h"
#include "plan_text.h"
#include "random_plan.h"

/* The steps of a block from `at` on that bring one input to its reader. */
static int32_t steps_from(const struct block *block, int32_t at)
{
    const struct item *first = &block->item[at];
    int32_t end = at;
    while (end < block->items && block->item[end].kind == ITEM_STEP &&
           block->item[end].phase == FLOW_FORWARD && block->item[end].instance == first->instance &&
           block->item[end].operand == first->operand)
        end++;
    return end - at;
}

/* Without the reshard for this reader in its backward block: how many steps it had. */
static int32_t drop_reshard(struct graph *graph, int64_t reader)
{
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; graph->block[b].kind == SLOT_BACKWARD && i < graph->block[b].items; i++)
            if (graph->block[b].item[i].instance == reader && steps_from(&graph->block[b], i)) {
                int32_t steps = steps_from(&graph->block[b], i);
                assert_int_equal(graph->block[b].item[i].step->kind, COLLECTIVE_ALL_GATHER);
                drop_items(graph, b, i, steps);
                return steps;
            }
    fail_msg("nothing is gathered again");
    return 0;
}

static void choose(struct plan *plan, const char *path, const char *split)
{
    struct choice choice = *plan_choice(plan, at(plan, path));
    assert_int_equal(split_parse(NULL, split, &choice.split), WEFT_OK);
    assert_int_equal(plan_choose(plan, at(plan, path), &choice), WEFT_OK);
}

/* Six devices hold a sequence in thirds, and then the samples in halves: the sequence is gathered, and the samples are cut.
 * What was cut is not there in the backward pass, as what was gathered is not. */
static void what_was_gathered_and_cut_is_gathered_again(void **state)
{
    (void)state;
    struct model *model = open_small(&SMALL_MODELS[2]);
    struct cluster *cluster = open_named("piz-daint:6");
    struct compile_options options = {FOLD_NEVER};
    struct plan *plan;
    struct graph *graph;
    assert_int_equal(plan_new(model, cluster, &plan), WEFT_OK);
    assert_int_equal(plan_map(plan, 1, 1, NULL, (int64_t[]){6}), WEFT_OK);
    plan->step_samples = plan->global_batch = 2;
    plan->overlap = 0;
    choose(plan, "layers.0.mlp.gelu", "seq:3 copy:2");
    choose(plan, "layers.0.mlp.down", "batch:2 copy:3");
    assert_int_equal(graph_compile(plan, &options, &graph), WEFT_OK);
    assert_int_equal(graph_verify(graph), WEFT_OK);
    assert_int_equal(drop_reshard(graph, at(plan, "layers.0.mlp.down")), 2);
    assert_int_not_equal(graph_verify(graph), WEFT_OK);
    assert_non_null(
        strstr(weft_last_error()->message, "input 0 of layers.0.mlp.gelu is not there"));
    graph_free(graph);
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_gathered_and_cut_is_gathered_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
