/* test_omitted.c - what a simulation may leave out (struct omitted).
 *
 *   O1  Where all links are one ring's, sharing changes nothing; where eight rings cross two nodes, it takes longer.
 *   O2  Without slowdown a simulation takes what it takes on a device whose slowdown is 1.
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links_are_not_shared),
        cmocka_unit_test(test_nothing_is_slowed_down),
    };
    return cmocka_run_group_tests(tests, open_gpt, close_gpt);
}
