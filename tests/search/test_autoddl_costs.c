/* test_autoddl_costs.c - what the planner autoddl takes splits to cost, against plans.
 *
 *   P1  The bound of an edge is one.
 *   P2  What an assignment's edges move is what its compiled plan moves, and the plan's graph is proved to compute the model.
 *   P3  A step that shares links with others like it takes its latency, and so much for each byte.
 *   P4  Narrow splits are near the optimum of all.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autoddl_problem.h"
#include "random_plan.h"
#include "search/autoddl/step_time.h"

static void check_bounds(const char *name)
{
    struct cluster *cluster = open_named(name);
    struct cost *cost;
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    for (int m = 0; m < SMALL_MODEL_COUNT; m += 3) {
        struct model *model = open_small(&SMALL_MODELS[m]);
        struct layout_problem *p = open_problem(model, cluster, cost, 8, 1);
        for (int32_t e = 0; e < p->assign->edges; e++)
            for (int32_t i = 0; i < p->assign->options[p->assign->edge[e].a]; i++)
                for (int32_t j = 0; j < p->assign->options[p->assign->edge[e].b]; j++) {
                    double least = assign_pair_least(p->assign, e, i, j);
                    double time = assign_pair_time(p->assign, e, i, j);
                    assert_true(least <= time * (1 + 1e-9) && time >= 0);
                }
        assert_int_equal(layout_problem_status(p), WEFT_OK);
        layout_problem_free(p);
        model_free(model);
    }
    cost_close(cost);
    cluster_free(cluster);
}

static void bounds_of_edges_hold(void **state)
{
    (void)state;
    check_bounds("dgx-a100:2x2");
    check_bounds("dgx-a100:4x2");
    check_bounds("piz-daint:8");
}

/* P4: on four nodes of four devices, for this model, narrow splits cost 5 % at most; elsewhere it is more. */
static void narrow_splits_are_near_the_optimum(void **state)
{
    struct cluster *cluster = open_named("dgx-a100:4x4");
    struct arena *keep = arena_new();
    struct model *model;
    struct cost *cost;
    double time[3];
    (void)state;
    assert_int_equal(model_open("gpt3-1.3b", "layers: 4, seq: 512", &model), WEFT_OK);
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    for (int64_t batch = 4; batch <= 64; batch *= 4) {
        for (int narrow = 0; narrow <= 2; narrow++) {
            struct layout_case about = {.model = model,
                                        .cluster = cluster,
                                        .cost = cost,
                                        .dtype = DTYPE_BF16,
                                        .policy = POLICY_MIXED,
                                        .global_batch = batch,
                                        .step_samples = batch,
                                        .stages = 1,
                                        .narrow = narrow,
                                        .limit_bytes = INFINITY};
            struct layout_problem *p;
            assert_int_equal(layout_problem_new(&about, &p), WEFT_OK);
            struct assigned found = solve(p->assign, SEARCH_EXACT, keep);
            assert_true(found.bound >= found.time * (1 - 1e-6));
            time[narrow] = found.time;
            layout_problem_free(p);
        }
        assert_true(time[1] >= time[0] * (1 - 1e-9)); /* some of all */
        assert_true(time[2] >= time[1] * (1 - 1e-9));
        assert_true(time[2] <= 1.05 * time[0]);
    }
    cost_close(cost);
    model_free(model);
    cluster_free(cluster);
    arena_free(keep);
}

static struct graph *compile_plan(const struct plan *plan)
{
    struct compile_options options = {.fold = FOLD_NEVER};
    struct graph *graph;
    if (graph_compile(plan, &options, &graph) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return graph;
}

/* Elements that the steps of a flow move, per device, gathers for the backward pass left out. */
static double moved(const struct graph *graph, enum flow flow)
{
    double volume = 0;
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; i < graph->block[b].items; i++) {
            const struct item *item = &graph->block[b].item[i];
            bool forward = graph->block[b].kind == SLOT_FORWARD;
            if (item->kind == ITEM_STEP && item->phase == flow && forward == (flow == FLOW_FORWARD))
                volume += step_volume(item->step);
        }
    return volume;
}

static double edges_volume(const struct layout_problem *p, const int32_t *option, enum flow flow)
{
    double volume = 0;
    for (int32_t e = 0; e < p->assign->edges; e++) {
        struct layout_edge cost =
            layout_edge_cost(p, e, option[p->assign->edge[e].a], option[p->assign->edge[e].b]);
        volume += flow == FLOW_FORWARD ? cost.there : cost.back;
    }
    return volume;
}

/* Data arrives: the graph of whatever is found is proved. Edges are at least what a plan moves, and
 * the same where no tensor is brought to two readers at once (a chain). */
static void plans_move_what_edges_say(void **state)
{
    struct cluster *cluster = open_named("piz-daint:8");
    struct rng rng;
    (void)state;
    rng_seed(&rng, 5);
    for (int i = 0; i < rounds_of(54); i++) {
        int m = i % SMALL_MODEL_COUNT;
        struct model *model = open_small(&SMALL_MODELS[m]);
        struct layout_problem *p = open_problem(model, cluster, NULL, 8, 1);
        struct arena *keep = arena_new();
        struct assign_options options = {.search = i % 2 ? SEARCH_RANDOM : SEARCH_CD,
                                         .seed = (uint64_t)i,
                                         .rounds = i % 2 ? 1 : 3};
        struct assigned found;
        struct plan *plan;
        assign_solve(p->assign, &options, keep, &found);
        assert_int_equal(layout_plan(p, found.option, &plan), WEFT_OK);
        struct graph *graph = compile_plan(plan);
        if (graph_verify(graph) != WEFT_OK)
            fail_msg("%s: %s", model->name, weft_last_error()->message);
        for (int flow = FLOW_FORWARD; flow <= FLOW_GRADIENT; flow++) {
            double edges = edges_volume(p, found.option, (enum flow)flow);
            double plans = moved(graph, (enum flow)flow);
            assert_true(plans <= edges * (1 + 1e-9) + 1e-6);
            if (strcmp(SMALL_MODELS[m].family, "vgg") == 0)
                assert_true(fabs(plans - edges) <= 1e-9 * (1 + edges));
        }
        graph_free(graph);
        plan_free(plan);
        arena_free(keep);
        layout_problem_free(p);
        model_free(model);
    }
    cluster_free(cluster);
}

/* How long the simulator says that all groups of 16 devices take for an all-reduce at the same time. */
static double simulated_ns(const struct cluster *cluster, const struct step_groups *groups,
                           int64_t bytes)
{
    struct arena *scratch = arena_new();
    struct pattern pattern = {.collective = COLLECTIVE_ALL_REDUCE,
                              .devices = 16,
                              .digits = 1,
                              .stride = {groups->stride[0]},
                              .degree = {groups->degree[0]}};
    struct exchange exchange = {
        .kind = EXCHANGE_COLLECTIVE, .bytes = bytes, .collective = COLLECTIVE_ALL_REDUCE};
    struct flows flows;
    assert_int_equal(flows_find(cluster, &pattern, 1, &exchange, 1, true, scratch, &flows),
                     WEFT_OK);
    double ns = (double)flows.together_ns[0];
    arena_free(scratch);
    return ns;
}

/* P3: eight pairs of devices, one of each node, share the four links between the nodes. */
static void steps_beside_others_have_latency(void **state)
{
    (void)state;
    static const int64_t BYTES = INT64_C(1) << 28, MOST_BYTES = INT64_C(1) << 36;
    struct cluster *cluster = open_named("dgx-v100:2");
    struct arena *keep = arena_new();
    struct step_times *times = step_times_new(keep, cluster, 16);
    struct step_groups across = {.digits = 1, .stride = {8}, .degree = {2}};
    double once = step_time(times, COLLECTIVE_ALL_REDUCE, &across, BYTES);
    double twice = step_time(times, COLLECTIVE_ALL_REDUCE, &across, 2 * BYTES);
    double latency = step_time(times, COLLECTIVE_ALL_REDUCE, &across, 1);
    double most = step_time(times, COLLECTIVE_ALL_REDUCE, &across, MOST_BYTES);
    assert_int_equal(step_times_status(times), WEFT_OK);
    assert_true(latency > 0 && fabs(2 * once - twice - latency) < 0.01 * latency);
    assert_true(fabs(most - simulated_ns(cluster, &across, MOST_BYTES)) < 0.1 * latency);
    arena_free(keep);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_of_edges_hold),
        cmocka_unit_test(narrow_splits_are_near_the_optimum),
        cmocka_unit_test(plans_move_what_edges_say),
        cmocka_unit_test(steps_beside_others_have_latency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
