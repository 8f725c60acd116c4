/* test_joined.c - stages that take several micro-batches at once (plan/joins.c): their estimates against simulations, their
 * order with the stages' own times, and the search that finds them (auto/join_stages.c).
 *
 *   J1  Estimates of random plans of such stages are within a few per cent of the simulation, and know their memory.
 *   J2  Of the order of stages with their own times and that of equal ones, each is the better on some pipelines.
 *   J3  The planner finds them where they are better than any one number.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "plan/order.h"
#include "plan_text.h"
#include "random_plan.h"
#include "search/auto/room.h"
#include "search/estimate/estimate.h"
#include "search/search.h"
#include "sim/sim.h"

static const struct schedule *joined_order(struct rng *rng, const struct plan *plan,
                                           struct arena *keep)
{
    struct pipeline pipeline = {plan->stages, 1, (int32_t)plan_micro_batches(plan)};
    int32_t *joins = ARENA_ARRAY(keep, int32_t, (size_t)plan->stages);
    int64_t *limit = ARENA_ARRAY(keep, int64_t, (size_t)plan->stages);
    struct schedule *order;
    for (int32_t s = 0; s < plan->stages; s++)
        do
            joins[s] = 1 << rng_below(rng, 3);
        while (pipeline.micro_batches % joins[s]);
    pipeline.joins = joins;
    assert_int_equal(schedule_limited(keep, &pipeline, limit, NULL, &order), WEFT_OK);
    return order;
}

/* ---- J1 -------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return (x > y) - (x < y);
}

static double error_of(const struct plan *plan)
{
    struct estimate_settings settings = estimate_settings_of(plan);
    struct arena *scratch = arena_new();
    struct estimator *estimator;
    struct prediction *p;
    struct estimate e;
    assert_int_equal(estimator_new(&settings, &estimator), WEFT_OK);
    assert_int_equal(simulate(plan, &(struct simulate_options){0}, &p), WEFT_OK);
    assert_int_equal(estimate_plan(estimator, plan, scratch, &e), WEFT_OK);
    for (int32_t s = 0; s < plan->stages; s++)
        assert_int_equal(e.stage[s].peak_bytes, p->stage[s].memory.peak);
    double off = (double)e.iteration_ns / (double)p->iteration_ns - 1;
    estimator_free(estimator);
    prediction_free(p);
    arena_free(scratch);
    return off;
}

static void test_estimates(void **state)
{
    (void)state;
    enum { PLANS = 120 };
    static const char *const CLUSTERS[] = {"dgx-a100:1x4", "dgx-h100:1", "dgx-v100:2"};
    static const char *const MODELS[] = {"gpt3-350m", "llama3-8b", "bert-huge-32"};
    double off[PLANS];
    int count = 0, want = rounds_of(PLANS);
    struct rng rng;
    rng_seed(&rng, 23);
    while (count < want) {
        struct cluster *cluster = open_named(CLUSTERS[rng_below(&rng, COUNT_OF(CLUSTERS))]);
        struct model *model;
        struct arena *keep = arena_new();
        struct plan *plan = NULL;
        assert_int_equal(
            model_open(MODELS[rng_below(&rng, COUNT_OF(MODELS))], "layers: 8, seq: 512", &model),
            WEFT_OK);
        struct degrees d = {.pp = 2 << rng_below(&rng, 2),
                            .tp = 1 << rng_below(&rng, 2),
                            .micro_batch = 1 << rng_below(&rng, 3),
                            .shard = (int)rng_below(&rng, 2),
                            .has_shard = true};
        d.dp = cluster_devices(cluster) / (d.pp * d.tp);
        d.global_batch = d.dp * d.micro_batch * (4 << rng_below(&rng, 4));
        if (d.dp >= 1 && plan_from_degrees(model, cluster, &d, &plan) == WEFT_OK) {
            plan_order_by(plan, joined_order(&rng, plan, keep));
            assert_int_equal(plan_join_stages(plan), WEFT_OK);
            if (plan_check(plan) == WEFT_OK)
                off[count++] = error_of(plan);
            if (getenv("WEFT_VERBOSE"))
                printf("%+.2f %% %s pp %d tp %d dp %d zero %d, %lld micro-batches\n",
                       100 * off[count - 1], model->name, (int)d.pp, (int)d.tp, (int)d.dp, d.shard,
                       (long long)plan_micro_batches(plan));
        }
        error_clear();
        plan_free(plan);
        arena_free(keep);
        model_free(model);
        cluster_free(cluster);
    }
    qsort(off, (size_t)count, sizeof *off, by_size);
    printf("joined stages, %d plans: median %.2f %%, nine of ten within %.2f %%, at most %.2f %%\n",
           count, 100 * fabs(off[count / 2]), 100 * fabs(off[count * 9 / 10]),
           100 * fabs(off[count - 1]));
    assert_true(fabs(off[count / 2]) < 0.02);
    assert_true(fabs(off[count * 9 / 10]) < 0.08);
}

/* ---- J2 -------------------------------------------------------------------------------------- */

static int64_t played(const struct pipeline *pipeline, const struct slot_lengths *passes,
                      const struct slot_lengths *order_of)
{
    enum { MOST = 4 };
    struct arena *keep = arena_new();
    int64_t limit[MOST] = {0}, forward[MOST], backward[MOST], ns;
    struct schedule *order;
    for (int32_t s = 0; s < pipeline->stages; s++) {
        forward[s] = passes[s].forward_ns;
        backward[s] = passes[s].backward_ns;
    }
    struct pipeline_times times = {.forward_ns = forward, .backward_ns = backward};
    assert_int_equal(schedule_limited(keep, pipeline, limit, order_of, &order), WEFT_OK);
    assert_int_equal(schedule_play(order, pipeline, &times, &ns), WEFT_OK);
    arena_free(keep);
    return ns;
}

/* Two stages, four micro-batches, all of which the second takes at once: 4 forward passes of 1, then 4 and 8 on the second, then
 * 4 backward passes of 2: 4 + 12 + 8 = 24 in any order. Of random ones their own order is faster for some and slower for others. */
static void test_orders_of_own_times(void **state)
{
    (void)state;
    enum { ROUNDS = 400 };
    struct slot_lengths by_hand[] = {{1, 2}, {4, 8}};
    struct pipeline two = {2, 1, 4, .joins = (int32_t[]){1, 4}};
    int better = 0, worse = 0;
    struct rng rng;
    assert_int_equal(played(&two, by_hand, NULL), 24);
    assert_int_equal(played(&two, by_hand, by_hand), 24);
    rng_seed(&rng, 7);
    for (int round = 0; round < ROUNDS; round++) {
        struct slot_lengths passes[4];
        int32_t joins[4];
        struct pipeline p = {2 + (int32_t)rng_below(&rng, 3), 1, 16, .joins = joins};
        for (int32_t s = 0; s < p.stages; s++) {
            joins[s] = 1 << rng_below(&rng, 3);
            passes[s].forward_ns = joins[s] * (10 + rng_below(&rng, 40));
            passes[s].backward_ns = 2 * passes[s].forward_ns;
        }
        int64_t own = played(&p, passes, passes), equal = played(&p, passes, NULL);
        better += own < equal;
        worse += own > equal;
    }
    printf(
        "of %d pipelines, the order of the stages' own times is faster for %d and slower for %d\n",
        ROUNDS, better, worse);
    assert_true(better > ROUNDS / 10 && worse > 0);
}

/* ---- J3 -------------------------------------------------------------------------------------- */

/* Two thirds of the layers on the first of two stages, in micro-batches that are too small for its kernels: the search gives it
 * several at once, and the simulation agrees. */
static void test_search(void **state)
{
    (void)state;
    static const char UNEVEN[] = "model: llama3-8b\noptions: {layers: 12, seq: 512}\n"
                                 "cluster: dgx-h100:1x4\nbatch: {global: 128, step: 2}\n"
                                 "degrees: {zero: 1}\nstages:\n  - {until: layers.7, devices: 2}\n"
                                 "  - {devices: 2}\n";
    struct opened_plan opened = parsed(UNEVEN);
    struct planned *planned = calloc(1, sizeof *planned);
    struct plan_request request = {.model = opened.model,
                                   .cluster = opened.cluster,
                                   .pins = {.global_batch = 128},
                                   .flows = flow_cache_for(opened.cluster),
                                   .reserved = reserved_cache_new()};
    struct join join = {.request = &request, .out = planned};
    const struct trial *trial;
    struct plan *plan;
    planned->arena = arena_new();
    planned->planner = "a test";
    assert_int_equal(cost_open_all(opened.cluster, NULL, &join.cost), WEFT_OK);
    assert_int_equal(plan_copy(opened.plan, &plan), WEFT_OK);
    assert_int_equal(try_plan(&request, join.cost, plan, "uneven", planned, &trial), WEFT_OK);
    int64_t base_ns = planned->trials.data[0].iteration_ns;
    assert_int_equal(join_stages(&join), WEFT_OK);
    assert_int_equal(planned->trials.len, 2);
    const struct trial *found = &planned->trials.data[1];
    printf("%s: %.3f s, found %.3f s by %s\n", found->text, (double)base_ns * 1e-9,
           (double)found->iteration_ns * 1e-9, found->found_by);
    assert_true(found->fits && (double)found->iteration_ns < 0.9 * (double)base_ns);
    assert_true(plan_stage_joins(found->plan, 0) > 1);
    size_t trials = planned->trials.len;
    request.pins.micro_batch = 1; /* I1 of join_stages.c */
    assert_int_equal(join_stages(&join), WEFT_OK);
    assert_int_equal(planned->trials.len, trials);
    estimator_free(join.estimator);
    cost_close(join.cost);
    plan_free(found->plan);
    plan_free(planned->trials.data[0].plan);
    arena_free(planned->arena);
    free(planned);
    flow_cache_free(request.flows);
    reserved_cache_free(request.reserved);
    plan_close(&opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimates),
        cmocka_unit_test(test_orders_of_own_times),
        cmocka_unit_test(test_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
