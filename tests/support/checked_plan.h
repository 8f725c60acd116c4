/* checked_plan.h - a plan by degrees, proved, simulated, and the estimate held against the simulation. */
#ifndef WEFT_TESTS_CHECKED_PLAN_H
#define WEFT_TESTS_CHECKED_PLAN_H

#include <math.h>

#include "search/estimate/estimator.h"
#include "sim/sim.h"

struct opened {
    struct model *model;
    struct cluster *cluster;
};

static inline struct opened open_both(const char *model, const char *options, const char *cluster)
{
    struct opened o = {0};
    if (model_open(model, options, &o.model) != WEFT_OK ||
        cluster_open(cluster, &o.cluster) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return o;
}

static inline void close_both(struct opened *o)
{
    model_free(o->model);
    cluster_free(o->cluster);
}

static inline struct plan *plan_of(const struct opened *o, struct degrees d)
{
    struct plan *plan;
    if (plan_from_degrees(o->model, o->cluster, &d, &plan) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return plan;
}

/* ---- the estimate, folded graphs and the proof ------------------------------------------------ */

static inline double simulated_s(const struct plan *plan, enum fold fold)
{
    struct prediction *prediction;
    struct simulate_options options = {.fold = fold};
    assert_int_equal(simulate(plan, &options, &prediction), WEFT_OK);
    double s = (double)prediction->iteration_ns / 1e9;
    prediction_free(prediction);
    return s;
}

static inline void expect_estimate(const struct plan *plan, const char *words,
                                   double candidate_limit)
{
    struct arena *arena = arena_new();
    struct estimate_settings settings = estimate_settings_of(plan);
    struct estimator *estimator;
    struct estimate estimate;
    struct candidate *candidate;
    double simulated = simulated_s(plan, FOLD_AUTO);
    assert_int_equal(estimator_new(&settings, &estimator), WEFT_OK);
    assert_int_equal(estimate_plan(estimator, plan, arena, &estimate), WEFT_OK);
    double off = (double)estimate.iteration_ns / 1e9 / simulated - 1;
    assert_int_equal(candidate_of_plan(estimator, plan, arena, &candidate), WEFT_OK);
    assert_int_equal(estimate_candidate(estimator, candidate, &estimate), WEFT_OK);
    double other = (double)estimate.iteration_ns / 1e9 / simulated - 1;
    if (fabs(off) > 0.005 || fabs(other) > candidate_limit)
        fail_msg("%s: %.4f s simulated, %+.2f %% estimated, %+.2f %% as a candidate", words,
                 simulated, 100 * off, 100 * other);
    estimator_free(estimator);
    arena_free(arena);
}

static inline void expect_proof(const struct plan *plan)
{
    struct graph *graph;
    struct compile_options options = {.fold = FOLD_NEVER};
    assert_int_equal(graph_compile(plan, &options, &graph), WEFT_OK);
    if (graph_verify(graph) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    graph_free(graph);
}

#endif
