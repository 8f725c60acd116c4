/* test_layer_costs.c - layers of models as the estimate costs them: Galvatron's search over them, held
 * against all plans and the simulator.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layer_plans_naive.h"
#include "rounds.h"
#include "search/galvatron/best_cuts.h"
#include "search/galvatron/layer_costs.h"
#include "search/search.h"
#include "sim/sim.h"

static const int64_t GIB = INT64_C(1) << 30;

/* ---- a model on a cluster, as a problem ------------------------------------------------------ */

struct opened {
    struct arena *arena;
    struct model *model;
    struct cluster *cluster;
    struct layer_costs *costs;
    struct layer_problem problem;
};

static struct opened open_problem(const char *model, const char *options, const char *cluster,
                                  int64_t memory_bytes)
{
    struct opened o = {.arena = arena_new()};
    struct plan *plan;
    assert_int_equal(model_open(model, options, &o.model), WEFT_OK);
    assert_int_equal(cluster_open(cluster, &o.cluster), WEFT_OK);
    assert_int_equal(plan_new(o.model, o.cluster, &plan), WEFT_OK);
    plan->memory.limit_bytes = memory_bytes;
    struct estimate_settings settings = estimate_settings_of(plan);
    assert_int_equal(layer_costs_new(&settings, &o.costs), WEFT_OK);
    o.problem = (struct layer_problem){.source = layer_costs_source(o.costs),
                                       .space = space_find("bmw"),
                                       .devices = cluster_devices(o.cluster),
                                       .limit_bytes = plan_room_bytes(plan),
                                       .global_batch = 64};
    plan_free(plan);
    return o;
}

static void close_problem(struct opened *o)
{
    layer_costs_free(o->costs);
    cluster_free(o->cluster);
    model_free(o->model);
    arena_free(o->arena);
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* An embedding, layers of one kind, a head. */
static void finds_layers(void **unused)
{
    (void)unused;
    struct opened o = open_problem("bert-huge-32", NULL, "titan-rtx:1", 0);
    const struct layer_source *source = o.problem.source;
    assert_int_equal(source->layers, 34);
    assert_int_equal(source->kinds, 3);
    assert_true(source->around[0] && source->around[33]);
    for (int32_t l = 1; l <= 32; l++) {
        assert_false(source->around[l]);
        assert_int_equal(source->kind[l], source->kind[1]);
    }
    close_problem(&o);
}

/* TP inside DP, in all layers, is what degrees say. */
static void equal_strategies_are_degrees(void **unused)
{
    (void)unused;
    static const struct {
        struct strategy strategy;
        struct degrees degrees;
    } CASES[] = {
        {{.levels = 1, .level = {{WAY_DP, 8}}}, {.dp = 8}},
        {{.levels = 2, .level = {{WAY_DP, 2}, {WAY_TP, 4}}}, {.dp = 2, .tp = 4}},
        {{.levels = 2, .level = {{WAY_SDP, 4}, {WAY_TP, 2}}, .shard = 3, .recompute = true},
         {.dp = 4, .tp = 2, .shard = 3, .recompute = RECOMPUTE_FULL}},
        {{.levels = 3, .level = {{WAY_DP, 2}, {WAY_CP, 2}, {WAY_TP, 2}}, .sequence = true},
         {.dp = 2, .cp = 2, .tp = 2, .sequence = true}},
    };
    struct opened o = open_problem("gpt3-350m", NULL, "dgx-a100:1", 0);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        int32_t layers = o.problem.source->layers;
        struct layer_plan uniform = {.global_batch = 16,
                                     .micro_batches = 2,
                                     .stages = 1,
                                     .count = &layers,
                                     .strategy =
                                         ARENA_ARRAY(o.arena, struct strategy, (size_t)layers)};
        struct degrees degrees = CASES[i].degrees;
        struct plan *plan, *expected;
        for (int32_t l = 0; l < layers; l++)
            uniform.strategy[l] = CASES[i].strategy;
        degrees.global_batch = 16;
        degrees.micro_batch = 8 / degrees.dp;
        assert_int_equal(layer_costs_plan(o.costs, &uniform, &plan), WEFT_OK);
        assert_int_equal(plan_from_degrees(o.model, o.cluster, &degrees, &expected), WEFT_OK);
        assert_string_equal(plan_write(o.arena, plan), plan_write(o.arena, expected));
        plan_free(expected);
        plan_free(plan);
    }
    close_problem(&o);
}

/* TP outside DP: the same degrees, the batch on consecutive devices. */
static void nests_both_ways(void **unused)
{
    (void)unused;
    struct opened o = open_problem("gpt3-350m", NULL, "dgx-a100:1", 0);
    int32_t layers = o.problem.source->layers;
    struct layer_plan uniform = {.global_batch = 16,
                                 .micro_batches = 2,
                                 .stages = 1,
                                 .count = &layers,
                                 .strategy = ARENA_ARRAY(o.arena, struct strategy, (size_t)layers)};
    struct plan *plan;
    for (int32_t l = 0; l < layers; l++)
        uniform.strategy[l] = (struct strategy){.levels = 2, .level = {{WAY_TP, 4}, {WAY_DP, 2}}};
    assert_int_equal(layer_costs_plan(o.costs, &uniform, &plan), WEFT_OK);
    int64_t inside = 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct split *split = &plan_choice(plan, i)->split;
        inside += split->part[split->parts - 1].dim == DIM_BATCH;
    }
    assert_int_equal(inside, plan->instances);
    plan_free(plan);
    close_problem(&o);
}

/* ---- against everything ---------------------------------------------------------------------- */

static void tiny_models_equal_all_plans(void **unused)
{
    (void)unused;
    static const char *const MODELS[][2] = {
        {"gpt3-350m", "layers: 2, vocab: 1024"},
        {"bert-huge-32", "layers: 2"},
        {"llama2-7b", "layers: 3, vocab: 1000"},
    };
    int fitting = 0;
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) {
        struct opened o = open_problem(MODELS[i][0], MODELS[i][1], "dgx-a100:1", 0);
        struct space space = *space_find("bi-obj");
        int64_t least = INT64_MAX;
        o.problem.space = &space;
        o.problem.global_batch = 8;
        for (int64_t limit = 64 * GIB; limit > GIB / 8; limit = limit / 3 * 2) {
            struct layer_plans plans;
            o.problem.limit_bytes = limit;
            int64_t found = search(&o.problem, o.arena, &plans);
            assert_int_equal(found, best_of_all(&o.problem));
            for (size_t k = 0; k < plans.len; k++)
                check_plan(&o.problem, &plans.data[k]);
            fitting += found != INT64_MAX && found != least; /* another limit, another plan */
            least = found;
        }
        close_problem(&o);
    }
    assert_true(rounds_of(100) < 100 || fitting > 8);
}

/* ---- against the simulator ------------------------------------------------------------------- */

static int64_t fullest(const struct prediction *p)
{
    int64_t peak = 0;
    for (int32_t s = 0; s < p->plan->stages; s++)
        if (p->stage[s].memory.peak > peak)
            peak = p->stage[s].memory.peak;
    return peak;
}

static void is_near_the_simulation(void **unused)
{
    (void)unused;
    static const struct {
        const char *model, *cluster, *space;
        int64_t memory_bytes;
    } CASES[] = {
        {"bert-huge-32", "titan-rtx:1", "bmw", 8},    {"bert-huge-32", "titan-rtx:1", "dp+pp", 8},
        {"bert-huge-32", "titan-rtx:1", "dp+tp", 12}, {"vit-huge-32", "titan-rtx:1", "bmw", 6},
        {"llama2-7b", "dgx-a100:1", "bmw", 0},        {"llama2-7b", "dgx-a100:1", "base", 40},
        {"gpt3-2.6b", "dgx-v100:2", "bmw", 0},        {"gpt3-2.6b", "dgx-v100:2", "weft", 16},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct opened o =
            open_problem(CASES[i].model, NULL, CASES[i].cluster, CASES[i].memory_bytes * GIB);
        struct layer_plans plans;
        o.problem.space = space_find(CASES[i].space);
        assert_int_not_equal(search(&o.problem, o.arena, &plans), INT64_MAX);
        for (size_t k = 0; k < plans.len && k < 3; k++) {
            struct plan *plan;
            struct prediction *prediction;
            int64_t estimated = 0;
            assert_int_equal(layer_costs_plan(o.costs, &plans.data[k], &plan), WEFT_OK);
            assert_int_equal(
                simulate(plan, &(struct simulate_options){.fold = FOLD_ALWAYS}, &prediction),
                WEFT_OK);
            for (int32_t s = 0; s < plan->stages; s++)
                if (plans.data[k].cost[s].memory_bytes > estimated)
                    estimated = plans.data[k].cost[s].memory_bytes;
            double time = (double)plans.data[k].iteration_ns / (double)prediction->iteration_ns;
            double memory = (double)estimated / (double)fullest(prediction);
            printf("%s, %s: time %.3f, memory %.3f of the simulation's\n", CASES[i].model,
                   CASES[i].space, time, memory);
            assert_true(time > 0.92 && time < 1.08);
            assert_true(memory > 0.95 && memory < 1.08);
            prediction_free(prediction);
            plan_free(plan);
        }
        close_problem(&o);
    }
}

/* ---- spaces and partitions ------------------------------------------------------------------- */

/* Table II: every other row's space is a part of Galvatron-BMW's. */
static void bmw_is_the_best_space(void **unused)
{
    (void)unused;
    struct opened o = open_problem("bert-huge-32", NULL, "titan-rtx:1", 0);
    const struct space *all;
    size_t count = space_all(&all);
    for (int64_t gib = 8; gib <= 20; gib += 4) {
        struct layer_plans plans;
        o.problem.limit_bytes = gib * GIB;
        o.problem.space = space_find("bmw");
        int64_t best = search(&o.problem, o.arena, &plans);
        for (size_t i = 0; i < count; i++) {
            o.problem.space = &all[i];
            int64_t found = search(&o.problem, o.arena, &plans);
            if (strcmp(all[i].name, "weft") == 0)
                assert_true(found <= best);
            else
                assert_true(found >= best);
        }
    }
    close_problem(&o);
}

/* Table V: between the memory- and the time-balanced partition, and no slower than either. */
struct balances {
    int64_t iteration_ns;
    double time, memory; /* Eq. 6 */
};

static struct balances balances_of(const struct cuts *cuts, int32_t stages)
{
    int64_t time[STAGES], memory[STAGES];
    for (int32_t i = 0; i < stages; i++) {
        time[i] = cuts->option[i].cost.steady_ns;
        memory[i] = cuts->option[i].cost.memory_bytes;
    }
    return (struct balances){cuts->iteration_ns, balance_degree(time, stages),
                             balance_degree(memory, stages)};
}

/* The least bytes of a run of layers on a stage, and its least steady time. */
static int64_t least_bytes(void *context, int32_t stage, struct layer_run run)
{
    const struct layer_table *table = context;
    const struct stage_class *class = &table->classes.data[table->class_of[stage]];
    int64_t bytes = 0;
    for (int32_t l = run.first; l < run.first + run.count; l++) {
        size_t n = table->strategies->len, first = (size_t)table->problem->source->kind[l] * n;
        int64_t least = INT64_MAX;
        for (size_t s = first; s < first + n; s++)
            if (class->kept_bytes[s] + class->place->state_bytes[s] < least)
                least = class->kept_bytes[s] + class->place->state_bytes[s];
        bytes += least;
    }
    return bytes;
}

static int64_t least_steady(void *context, int32_t stage, struct layer_run run)
{
    const struct layer_table *table = context;
    (void)stage;
    return table->least_steady_ns[run.first + run.count] - table->least_steady_ns[run.first];
}

static struct balances balances_with(struct layer_table *table, const struct run_hashes *hashes,
                                     int64_t (*cost)(void *, int32_t, struct layer_run))
{
    struct cutter cutter = cutter_new(table->keep, table, hashes);
    struct cuts cuts = cuts_new(table->keep, table->stages);
    struct balance balance = {table->problem->source->layers, table->stages, table, cost};
    int32_t count[STAGES];
    if (cost)
        balance_partition(&balance, count);
    assert_int_equal(best_cuts(&cutter, cost ? count : NULL, INT64_MAX, &cuts), WEFT_OK);
    assert_true(cuts.complete && cutter.fronts.exact);
    if (cuts.iteration_ns == INT64_MAX)
        return (struct balances){INT64_MAX, 0, 0};
    return balances_of(&cuts, table->stages);
}

/* Eq. 7, but for the last layer that a partition cannot divide. */
static void assert_between(double low, double value, double high)
{
    static const double LAYER = 0.02;
    assert_true(low - LAYER <= value && value <= high + LAYER);
}

static void lies_between_balanced_partitions(void **unused)
{
    (void)unused;
    struct opened o = open_problem("bert-huge-32", NULL, "titan-rtx:1", 16 * GIB);
    struct run_hashes hashes = run_hashes_new(o.arena, o.problem.source);
    o.problem.space = space_find("dp+pp"); /* one strategy a layer: only the partition differs */
    int strictly = 0;
    for (int32_t stages = 2; stages <= 8; stages *= 2)
        for (int64_t m = stages; m <= 32; m *= 2) {
            struct group_options options =
                group_options_new(o.arena, &o.problem, o.problem.devices / stages);
            struct layer_table table;
            bool possible;
            assert_int_equal(
                layer_table_new(o.arena, &o.problem, &options, 64, stages, m, &possible, &table),
                WEFT_OK);
            if (!possible)
                continue;
            layer_table_classes(&table);
            struct balances best = balances_with(&table, &hashes, NULL);
            struct balances by_time = balances_with(&table, &hashes, least_steady);
            struct balances by_memory = balances_with(&table, &hashes, least_bytes);
            assert_true(best.iteration_ns <= by_time.iteration_ns);
            assert_true(best.iteration_ns <= by_memory.iteration_ns);
            if (best.iteration_ns == INT64_MAX)
                continue;
            if (by_time.iteration_ns != INT64_MAX)
                assert_between(by_time.memory, best.memory, by_memory.memory);
            if (by_memory.iteration_ns != INT64_MAX && by_time.iteration_ns != INT64_MAX)
                assert_between(by_memory.time, best.time, by_time.time);
            strictly += best.iteration_ns < by_time.iteration_ns &&
                        best.iteration_ns < by_memory.iteration_ns;
        }
    assert_true(strictly > 0);
    close_problem(&o);
}

/* With a number of costs the search ends once it has asked for them, and the count says so; without one it asks for more. */
static void ends_after_so_many_costs(void **unused)
{
    (void)unused;
    struct opened whole = open_problem("bert-huge-32", "layers: 4", "titan-rtx:1", 0);
    struct opened few = open_problem("bert-huge-32", "layers: 4", "titan-rtx:1", 0);
    struct layer_plans plans;
    search(&whole.problem, whole.arena, &plans);
    int64_t all = *whole.problem.source->asked, settings = plans.settings;
    assert_false(layer_search_spent(&whole.problem));
    few.problem.most_asked = all / 4;
    search(&few.problem, few.arena, &plans);
    assert_true(layer_search_spent(&few.problem));
    assert_true(*few.problem.source->asked < all && plans.settings < settings);
    close_problem(&whole);
    close_problem(&few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_layers),
        cmocka_unit_test(equal_strategies_are_degrees),
        cmocka_unit_test(nests_both_ways),
        cmocka_unit_test(tiny_models_equal_all_plans),
        cmocka_unit_test(is_near_the_simulation),
        cmocka_unit_test(bmw_is_the_best_space),
        cmocka_unit_test(ends_after_so_many_costs),
        cmocka_unit_test(lies_between_balanced_partitions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
