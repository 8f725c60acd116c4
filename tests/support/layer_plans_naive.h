/* layer_plans_naive.h - Galvatron-BMW's search by trying everything: every partition, every strategy
 * of every layer, every number of micro-batches, of any source of a few layers.
 */
#ifndef WEFT_TESTS_LAYER_PLANS_NAIVE_H
#define WEFT_TESTS_LAYER_PLANS_NAIVE_H

#include <stdlib.h>
#include <string.h>

#include "search/search.h"

enum { LAYERS = 40, STAGES = 8, KINDS = 6, BOUNDARIES = 6, STRATEGIES = 22 };

/* ---- all plans ------------------------------------------------------------------------------- */

/* What a source answers for one stage. */
struct answers {
    int64_t in_flight;
    struct layer_cost beside, layer[KINDS][STRATEGIES];
    int64_t reshard[BOUNDARIES][STRATEGIES][STRATEGIES];
};

/* All plans of a batch, a PP degree and a number of micro-batches. */
struct all {
    const struct layer_problem *problem;
    struct arena *arena;
    struct strategies strategies;
    int32_t stages;
    int64_t batch, micro_batches;
    struct answers *answers; /* per stage */
    int64_t best_ns;
};

static void ask_stage(struct all *all, int32_t stage)
{
    const struct layer_source *source = all->problem->source;
    const struct strategy *strategy = all->strategies.data;
    struct answers *out = &all->answers[stage];
    struct layer_question q = {.devices = all->problem->devices,
                               .stages = all->stages,
                               .stage = stage,
                               .step_samples = all->batch / all->micro_batches,
                               .micro_batches = all->micro_batches};
    int32_t after = all->stages - stage;
    out->in_flight = after < all->micro_batches ? after : all->micro_batches;
    assert_int_equal(source->beside(source->context, &q, &out->beside), WEFT_OK);
    for (int32_t k = 0; k < source->kinds; k++)
        for (size_t s = 0; s < all->strategies.len; s++)
            assert_int_equal(source->layer(source->context, &q, k, &strategy[s], &out->layer[k][s]),
                             WEFT_OK);
    for (int32_t k = 0; k < source->boundaries; k++)
        for (size_t s = 0; s < all->strategies.len; s++)
            for (size_t t = 0; t < all->strategies.len; t++) {
                bool same = source->layout && source->layout(source->context, &strategy[s]) ==
                                                  source->layout(source->context, &strategy[t]);
                if (!same)
                    assert_int_equal(source->reshard(source->context, &q, k, &strategy[s],
                                                     &strategy[t], &out->reshard[k][s][t]),
                                     WEFT_OK);
            }
}

static struct all all_new(struct arena *arena, const struct layer_problem *problem, int64_t batch,
                          int32_t stages, int64_t micro_batches)
{
    struct all all = {.problem = problem,
                      .arena = arena,
                      .stages = stages,
                      .batch = batch,
                      .micro_batches = micro_batches,
                      .best_ns = INT64_MAX};
    space_strategies(arena, problem->space, problem->devices / stages, &all.strategies);
    assert_true(all.strategies.len <= STRATEGIES && stages <= STAGES);
    assert_true(problem->source->kinds <= KINDS && problem->source->boundaries <= BOUNDARIES);
    all.answers = ARENA_ARRAY(arena, struct answers, (size_t)stages);
    for (int32_t stage = 0; stage < stages; stage++)
        ask_stage(&all, stage);
    return all;
}

/* Eq. 2 and 4 as they stand; false: it does not fit, or cannot be. */
static bool cost_stage(const struct all *all, int32_t stage, struct layer_run run,
                       const int32_t *choice, struct stage_cost *out)
{
    const struct layer_source *source = all->problem->source;
    const struct answers *answers = &all->answers[stage];
    const struct layer_cost *beside = &answers->beside;
    int64_t steady = beside->steady_ns, once = beside->once_ns, state = beside->state_bytes;
    int64_t kept = beside->kept_bytes * answers->in_flight + beside->peak_bytes, peak = 0;
    for (int32_t l = 0; l < run.count; l++) {
        const struct layer_cost *cost = &answers->layer[source->kind[run.first + l]][choice[l]];
        if (cost->steady_ns == LAYERWISE_NEVER)
            return false;
        if (l)
            steady += answers->reshard[source->boundary[run.first + l]][choice[l - 1]][choice[l]];
        steady += cost->steady_ns;
        once += cost->once_ns;
        kept += cost->kept_bytes * answers->in_flight;
        state += cost->state_bytes;
        peak = kept + cost->peak_bytes > peak ? kept + cost->peak_bytes : peak;
    }
    *out = (struct stage_cost){steady + once, steady, peak + state};
    return out->memory_bytes <= all->problem->limit_bytes;
}

/* All choices of one stage, by their steady times; the time is the least up to there. */
typedef ARRAY(struct stage_cost) cost_list;

static int by_steady(const void *a, const void *b)
{
    const struct stage_cost *x = a, *y = b;
    return x->steady_ns < y->steady_ns ? -1 : x->steady_ns > y->steady_ns;
}

static void try_stage(const struct all *all, int32_t stage, struct layer_run run, cost_list *out)
{
    int32_t choice[LAYERS] = {0};
    int32_t at = 0;
    while (at < run.count) {
        struct stage_cost cost;
        if (cost_stage(all, stage, run, choice, &cost))
            array_push(all->arena, out, cost);
        for (at = 0; at < run.count && ++choice[at] == (int32_t)all->strategies.len; at++)
            choice[at] = 0;
    }
    if (out->len)
        qsort(out->data, out->len, sizeof *out->data, by_steady);
    for (size_t i = 1; i < out->len; i++)
        if (out->data[i - 1].time_ns < out->data[i].time_ns)
            out->data[i].time_ns = out->data[i - 1].time_ns;
}

/* The least time with at most so much steady time. */
static int64_t least_within(const cost_list *costs, int64_t steady_ns)
{
    size_t low = 0, high = costs->len;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (costs->data[middle].steady_ns <= steady_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? costs->data[low - 1].time_ns : INT64_MAX;
}

/* Any stage's steady time may be the slowest. */
static void try_partition(struct all *all, const int32_t *count)
{
    cost_list costs[STAGES] = {0};
    struct layer_run run = {0, 0};
    for (int32_t i = 0; i < all->stages; i++) {
        run = (struct layer_run){run.first + run.count, count[i]};
        try_stage(all, i, run, &costs[i]);
    }
    for (int32_t slowest = 0; slowest < all->stages; slowest++)
        for (size_t k = 0; k < costs[slowest].len; k++) {
            int64_t steady = costs[slowest].data[k].steady_ns, sum = 0;
            for (int32_t i = 0; i < all->stages && sum != INT64_MAX; i++) {
                int64_t least = least_within(&costs[i], steady);
                sum = least == INT64_MAX ? INT64_MAX : sum + least;
            }
            if (sum != INT64_MAX && (all->micro_batches - 1) * steady + sum < all->best_ns)
                all->best_ns = (all->micro_batches - 1) * steady + sum;
        }
}

/* Every set of cuts among the places between layers. */
static void try_partitions(struct all *all)
{
    int32_t layers = all->problem->source->layers;
    for (unsigned cuts = 0; cuts < 1U << (layers - 1); cuts++) {
        int32_t count[LAYERS] = {0}, stage = 0;
        for (int32_t l = 0; l < layers; l++) {
            stage += l && (cuts >> (l - 1) & 1U);
            count[stage]++;
        }
        if (stage + 1 == all->stages)
            try_partition(all, count);
    }
}

/* The first stages hold one layer more where it does not come out even. */
static void even_partition(int32_t layers, int32_t stages, int32_t *count)
{
    for (int32_t i = 0; i < stages; i++)
        count[i] = layers / stages + (i < layers % stages);
}

static inline int64_t best_of_all(const struct layer_problem *problem)
{
    struct pp_degrees pp = {0};
    int64_t best = INT64_MAX, batch = problem->global_batch;
    struct arena *scratch = arena_new();
    space_pp_degrees(scratch, problem->space, problem->devices, &pp);
    for (size_t i = 0; i < pp.len; i++)
        for (int64_t m = 1; m <= batch; m++) {
            int32_t count[LAYERS], stages = (int32_t)pp.data[i];
            if (batch % m || stages > problem->source->layers ||
                (problem->pp && problem->pp != stages) ||
                (problem->micro_batches && problem->micro_batches != m))
                continue;
            struct arena *arena = arena_new();
            struct all all = all_new(arena, problem, batch, stages, m);
            if (problem->space->flags & SPACE_BALANCE) {
                try_partitions(&all);
            } else {
                even_partition(problem->source->layers, stages, count);
                try_partition(&all, count);
            }
            best = all.best_ns < best ? all.best_ns : best;
            arena_free(arena);
        }
    arena_free(scratch);
    return best;
}

/* ---- the search, and what it found ----------------------------------------------------------- */

/* The best plan's time; INT64_MAX: nothing fits. */
static inline int64_t search(const struct layer_problem *problem, struct arena *arena,
                             struct layer_plans *plans)
{
    weft_status status = galvatron_search(arena, problem, plans);
    if (status == WEFT_NO_ANSWER)
        return INT64_MAX;
    assert_int_equal(status, WEFT_OK);
    return plans->data[0].iteration_ns;
}

static int32_t number_of(const struct strategies *all, const struct strategy *strategy)
{
    for (size_t i = 0; i < all->len; i++)
        if (strategy_equal(&all->data[i], strategy))
            return (int32_t)i;
    fail_msg("a strategy of no space");
    return -1;
}

/* What a plan's only stage has that no layer has by itself. */
static int64_t bytes_together(const struct layer_problem *problem, const struct layer_plan *plan)
{
    const struct layer_source *source = problem->source;
    int64_t m = plan->micro_batches, bytes = 0;
    struct layer_question question = {problem->devices, 1, 0, plan->global_batch / m, m};
    if (plan->stages == 1 && source->together)
        assert_int_equal(source->together(source->context, &question, plan->strategy, &bytes),
                         WEFT_OK);
    return bytes;
}

/* What a plan says of itself must be true. */
static inline void check_plan(const struct layer_problem *problem, const struct layer_plan *plan)
{
    struct arena *arena = arena_new();
    struct all all = all_new(arena, problem, plan->global_batch, plan->stages, plan->micro_batches);
    struct layer_run run = {0, 0};
    int64_t slowest = 0, sum = 0;
    for (int32_t stage = 0; stage < plan->stages; stage++) {
        int32_t choice[LAYERS];
        struct stage_cost cost;
        run = (struct layer_run){run.first + run.count, plan->count[stage]};
        for (int32_t l = 0; l < run.count; l++)
            choice[l] = number_of(&all.strategies, &plan->strategy[run.first + l]);
        assert_true(cost_stage(&all, stage, run, choice, &cost));
        assert_int_equal(cost.time_ns, plan->cost[stage].time_ns);
        assert_int_equal(cost.steady_ns, plan->cost[stage].steady_ns);
        assert_int_equal(cost.memory_bytes + bytes_together(problem, plan),
                         plan->cost[stage].memory_bytes);
        slowest = cost.steady_ns > slowest ? cost.steady_ns : slowest;
        sum += cost.time_ns;
    }
    assert_int_equal(run.first + run.count, problem->source->layers);
    assert_int_equal(plan->iteration_ns, (plan->micro_batches - 1) * slowest + sum);
    arena_free(arena);
}

#endif
