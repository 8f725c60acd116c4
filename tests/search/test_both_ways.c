/* test_both_ways.c - pipelines from both ends of the same stages (schedule.h, I6).
 *
 *   B1  Whatever the rest of a plan is, its graph computes what the model does, one device for each stage and all of them.
 *   B2  One device for each stage gives the times of all.
 *   B3  By the closed form an iteration takes what it does simulated, but for a twelfth; of a plan as of a candidate.
 *   B4  What is sent to the wrong half is found.
 *   B5  Where transfers are free it takes as long as the zigzag whose micro-batches stay in their half, and holds as much.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/equivalence.h"
#include "random_plan.h"
#include "search/estimate/estimate.h"
#include "sim/sim.h"

static struct degrees draw(struct rng *rng)
{
    struct degrees d = {.pp = 1 + rng_below(rng, 2),
                        .tp = 1 + rng_below(rng, 2),
                        .pieces = 2,
                        .micro_batch = 1 + rng_below(rng, 2),
                        .sequence = chance(rng, 2),
                        .shard = (int)rng_below(rng, 4),
                        .recompute = (enum recompute)rng_below(rng, RECOMPUTE_COUNT),
                        .offload = chance(rng, 4),
                        .schedule = "dualpipe"};
    d.dp = 8 / d.pp / d.tp;
    d.global_batch = d.dp * d.micro_batch * (2 * d.pp + rng_below(rng, 3));
    return d;
}

static struct graph *compiled(const struct plan *plan, enum fold fold)
{
    struct graph *graph = NULL;
    if (graph_compile(plan, &(struct compile_options){.fold = fold}, &graph) != WEFT_OK)
        fail_msg("%s: %s", plan->model->name, weft_last_error()->message);
    return graph;
}

static void prove(const struct plan *plan, enum fold fold) /* B1 */
{
    struct graph *graph = compiled(plan, fold);
    if (graph_verify(graph) != WEFT_OK)
        fail_msg("%s: %s", plan->model->name, weft_last_error()->message);
    graph_free(graph);
}

static int64_t simulated(const struct plan *plan, enum fold fold, double *peak)
{
    struct prediction *prediction = NULL;
    assert_int_equal(simulate(plan, &(struct simulate_options){.fold = fold}, &prediction),
                     WEFT_OK);
    int64_t ns = prediction->iteration_ns;
    *peak = (double)prediction->stage[0].memory.peak;
    prediction_free(prediction);
    return ns;
}

static int64_t estimated(const struct plan *plan)
{
    struct estimate_settings settings = estimate_settings_of(plan);
    struct estimator *estimator = NULL;
    struct arena *keep = arena_new();
    struct candidate *candidate = NULL;
    struct estimate whole, estimate;
    assert_int_equal(estimator_new(&settings, &estimator), WEFT_OK);
    assert_int_equal(estimate_plan(estimator, plan, keep, &whole), WEFT_OK);
    int64_t ns = whole.iteration_ns;
    assert_int_equal(candidate_of_plan(estimator, plan, keep, &candidate), WEFT_OK);
    assert_int_equal(estimate_candidate(estimator, candidate, &estimate), WEFT_OK);
    assert_true(fabs((double)estimate.iteration_ns / (double)ns - 1) < 0.03);
    assert_true(plan->stages > 1 || estimate.stage[0].send_ns > 0);
    estimator_free(estimator);
    arena_free(keep);
    return ns;
}

/* B1 to B3 of the plans that there are. */
static void random_plans_are_proved_and_fold(void **state)
{
    (void)state;
    struct cluster *cluster = open_named("dgx-a100:1");
    int rounds = rounds_of(120), plans = 0;
    for (int round = 0; round < rounds; round++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)round);
        struct model *model = open_small(&SMALL_MODELS[round % SMALL_MODEL_COUNT]);
        struct degrees d = draw(&rng);
        struct plan *plan = NULL;
        double all, one;
        if (plan_from_degrees(model, cluster, &d, &plan) == WEFT_OK &&
            plan_check(plan) == WEFT_OK) {
            prove(plan, FOLD_NEVER);
            prove(plan, FOLD_ALWAYS);
            int64_t ns = simulated(plan, FOLD_NEVER, &all);
            assert_int_equal(simulated(plan, FOLD_AUTO, &one), ns);
            assert_true(one == all);
            if (fabs((double)estimated(plan) / (double)ns - 1) > 1.0 / 12)
                fail_msg("round %d, %s: estimated %lld, simulated %lld", round, model->name,
                         (long long)estimated(plan), (long long)ns);
            plans++;
        }
        plan_free(plan);
        model_free(model);
    }
    cluster_free(cluster);
    assert_true(plans > rounds / 4);
}

static struct plan *plan_of(const struct model *model, const struct cluster *cluster,
                            const char *schedule)
{
    struct degrees d = {.pp = 2, .dp = 2, .pieces = 2, .global_batch = 12, .schedule = schedule};
    struct plan *plan = NULL;
    assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
    assert_int_equal(plan_check(plan), WEFT_OK);
    return plan;
}

/* B4 */
static void the_wrong_half_is_found(void **state)
{
    (void)state;
    struct cluster *cluster = open_named(WEFT_SOURCE_DIR "/tests/data/cluster/free-links.yaml:4");
    struct model *model = open_small(&SMALL_MODELS[0]);
    struct plan *plan = plan_of(model, cluster, "dualpipe");
    struct graph *graph = compiled(plan, FOLD_NEVER);
    int turned = 0;
    for (int32_t i = 0; i < graph->patterns; i++) {
        turned += graph->pattern[i].turned;
        graph->pattern[i].turned = false;
    }
    assert_true(turned > 0);
    assert_int_not_equal(graph_verify(graph), WEFT_OK);
    assert_non_null(strstr(weft_last_error()->message, "is sent to another device's place"));
    graph_free(graph);
    plan_free(plan);
    model_free(model);
    cluster_free(cluster);
}

/* B5; every device has two of four parts either way. */
static void free_transfers_make_no_difference(void **state)
{
    (void)state;
    struct cluster *cluster = open_named(WEFT_SOURCE_DIR "/tests/data/cluster/free-links.yaml:4");
    struct model *model = open_small(&SMALL_MODELS[0]);
    struct plan *both = plan_of(model, cluster, "dualpipe");
    struct plan *one = plan_of(model, cluster, "dualpipev");
    double held, expected;
    int64_t ns = simulated(both, FOLD_AUTO, &held), least = simulated(one, FOLD_AUTO, &expected);
    assert_in_range(ns, least, least + least / 100);
    assert_true(fabs(held / expected - 1) < 0.05); /* a tensor that has come, and one that goes */
    plan_free(both);
    plan_free(one);
    model_free(model);
    cluster_free(cluster);
}

static void odd_replicas_are_refused(void **state)
{
    (void)state;
    struct cluster *cluster = open_named(WEFT_SOURCE_DIR "/tests/data/cluster/free-links.yaml:6");
    struct model *model = open_small(&SMALL_MODELS[0]);
    struct degrees d = {.pp = 2, .dp = 3, .pieces = 2, .global_batch = 12, .schedule = "dualpipe"};
    struct plan *plan = NULL;
    weft_status status = plan_from_degrees(model, cluster, &d, &plan);
    assert_int_equal(status == WEFT_OK ? plan_check(plan) : status, WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "embedding is split batch:3: schedule dualpipe has an even number of "
                        "replicas, outermost");
    assert_string_equal(weft_last_error()->hint,
                        "use an even --dp, or a schedule that goes one way");
    plan_free(plan);
    model_free(model);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_are_proved_and_fold),
        cmocka_unit_test(the_wrong_half_is_found),
        cmocka_unit_test(free_transfers_make_no_difference),
        cmocka_unit_test(odd_replicas_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
