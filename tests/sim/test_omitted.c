/* test_omitted.c - what a simulation may leave out (struct omitted), and what counts as pipelining.
 *
 *   O1  Where all links are one ring's, sharing changes nothing; where eight rings cross two nodes, it takes longer.
 *   O2  Without slowdown a simulation takes what it takes on a device whose slowdown is 1.
 *   O3  What two stages add up of a tied weight counts as pipelining: without replicas there is no data parallelism.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_plan.h"
#include "sim/sim.h"

static struct model *gpt;

static int open_gpt(void **state)
{
    (void)state;
    return model_open("gpt2", "layers: 4, heads: 16, vocab: 50304", &gpt);
}

static int close_gpt(void **state)
{
    (void)state;
    model_free(gpt);
    return 0;
}

static int64_t iteration_ns(const struct cluster *cluster, struct degrees degrees, enum fold fold,
                            struct omitted omitted)
{
    struct simulate_options options = {.fold = fold, .omitted = omitted};
    struct plan *plan;
    struct prediction *p;
    assert_int_equal(plan_from_degrees(gpt, cluster, &degrees, &plan), WEFT_OK);
    assert_int_equal(simulate(plan, &options, &p), WEFT_OK);
    int64_t ns = p->iteration_ns;
    prediction_free(p);
    plan_free(plan);
    return ns;
}

static const struct omitted ALL = {0}, UNSHARED = {.sharing = true}, UNSLOWED = {.slowdown = true};

/* O1 */
static void test_links_are_not_shared(void **state)
{
    static const enum fold FOLDS[] = {FOLD_ALWAYS, FOLD_NEVER};
    struct cluster *cluster = open_named("dgx-v100:2");
    struct degrees ring = {.dp = 16, .tp = 1, .micro_batch = 1, .global_batch = 16};
    struct degrees rings = {.dp = 2, .tp = 8, .micro_batch = 1, .global_batch = 2};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(FOLDS); i++) {
        assert_int_equal(iteration_ns(cluster, ring, FOLDS[i], UNSHARED),
                         iteration_ns(cluster, ring, FOLDS[i], ALL));
        assert_true(iteration_ns(cluster, rings, FOLDS[i], UNSHARED) <
                    iteration_ns(cluster, rings, FOLDS[i], ALL));
    }
    assert_int_equal(iteration_ns(cluster, rings, FOLD_NEVER, UNSHARED),
                     iteration_ns(cluster, rings, FOLD_AUTO, UNSHARED));
    cluster_free(cluster);
}

/* O2 */
static void test_nothing_is_slowed_down(void **state)
{
    struct cluster *cluster = open_named("dgx-v100:1");
    struct degrees replicas = {.dp = 8, .tp = 1, .micro_batch = 1, .global_batch = 8};
    (void)state;
    int64_t all = iteration_ns(cluster, replicas, FOLD_AUTO, ALL);
    int64_t unslowed = iteration_ns(cluster, replicas, FOLD_AUTO, UNSLOWED);
    assert_true(unslowed < all);
    cluster->node.device.overlap_slowdown = 1;
    assert_int_equal(iteration_ns(cluster, replicas, FOLD_AUTO, ALL), unslowed);
    cluster_free(cluster);
}

/* O3 */
static void test_sums_of_two_stages_are_pipelining(void **state)
{
    struct cluster *cluster = open_named("dgx-v100:2");
    struct degrees degrees = {.pp = 2, .tp = 8, .micro_batch = 1, .global_batch = 4};
    struct plan *plan;
    struct prediction *p;
    int32_t sums = 0;
    (void)state;
    assert_int_equal(plan_from_degrees(gpt, cluster, &degrees, &plan), WEFT_OK);
    assert_int_equal(simulate(plan, &(struct simulate_options){.fold = FOLD_ALWAYS}, &p), WEFT_OK);
    for (int32_t t = 0; t < p->graph->tasks; t++) {
        const struct task *task = &p->graph->task[t];
        int64_t time_ns[PURPOSE_COUNT];
        if (task->purpose != PURPOSE_DATA || task->exchange < 0)
            continue;
        sums++;
        task_times(p, t, time_ns);
        assert_int_equal(time_ns[PURPOSE_DATA], 0);
        assert_int_equal(time_ns[PURPOSE_PIPELINE], p->result.end_ns[t] - p->result.start_ns[t]);
    }
    assert_int_equal(sums, 1); /* the embedding's, which both stages have */
    for (int32_t s = 0; s < plan->stages; s++) {
        assert_int_equal(p->stage[s].time_ns[PURPOSE_DATA], 0);
        assert_true(p->stage[s].time_ns[PURPOSE_PIPELINE] > 0);
    }
    prediction_free(p);
    plan_free(plan);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links_are_not_shared),
        cmocka_unit_test(test_nothing_is_slowed_down),
        cmocka_unit_test(test_sums_of_two_stages_are_pipelining),
    };
    return cmocka_run_group_tests(tests, open_gpt, close_gpt);
}
