/* test_asks.c - what is to be measured for a plan: what its simulation asks for, each as often as it is used. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "small_asks.h"
#include "sim/item_cost.h"

/* ---- what a plan asks ------------------------------------------------------------------------ */

static int64_t find_ask(const struct asks *asks, const struct work *work)
{
    struct profile_key wanted, key;
    assert_true(profile_key_of(work, 0, &wanted));
    for (size_t i = 0; i < asks->len; i++) {
        assert_true(profile_key_of(&asks->data[i].work, 0, &key));
        if (memcmp(&key, &wanted, sizeof key) == 0)
            return (int64_t)i;
    }
    return -1;
}

/* Tokens that came by plain all-to-alls are put in the order of experts (expert_kernels.c, 4). */
static void see_passes(const struct plan *plan, int64_t instance, enum phase phase,
                       const struct asks *asks, bool *seen)
{
    struct work work[MAX_ITEM_WORKS];
    int count = item_works(plan, instance, phase, work);
    if (expert_pass_bytes(plan, instance, phase) <= 0)
        return;
    int64_t at = find_ask(asks, &work[count - 1]);
    assert_true(at >= 0);
    seen[at] = true;
}

/* Every phase of every instance with work, straight from the model, and what regroups tokens: in the list, and nothing else
 * is but optimizers. */
static void check_asks(const struct plan *plan, const struct asks *asks)
{
    bool *seen = calloc(asks->len, sizeof *seen);
    for (int64_t i = 0; i < plan->instances; i++)
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            const struct op *op = &plan->model->op[plan->instance[i].op];
            int64_t local[OP_MAX_DIMS];
            split_local(op, &plan_choice(plan, i)->split, plan->step_samples, local);
            struct work work = op_work(op, local, plan->dtype, (enum phase)phase);
            if (work.flops <= 0 && work.read_bytes + work.write_bytes <= 0)
                continue;
            int64_t at = find_ask(asks, &work);
            assert_true(at >= 0);
            seen[at] = true;
            see_passes(plan, i, (enum phase)phase, asks, seen);
        }
    for (size_t i = 0; i < asks->len; i++)
        assert_true(seen[i] || asks->data[i].work.kernel == KERNEL_OPTIMIZER);
    free(seen);
}

/* The simulator asks for what is listed: with a time for each it needs no formula, and without one of
 * them it does. */
static void check_simulation(const struct plan *plan, const struct asks *asks, struct rng *rng)
{
    const char *db = in_folder("asked.sqlite"), *device = plan->cluster->node.device.name;
    struct simulate_options options = {.profile = db};
    struct prediction *prediction;
    size_t without = (size_t)rng_below(rng, (int64_t)asks->len);
    bool optimizer = asks->data[without].work.kernel == KERNEL_OPTIMIZER;
    store_all(db, asks, device, asks->len);
    assert_int_equal(simulate(plan, &options, &prediction), WEFT_OK);
    assert_int_equal(prediction->reliances, 1);
    assert_int_equal(prediction->reliance[0].provenance, FROM_MEASUREMENT);
    assert_true(prediction->iteration_ns > (int64_t)OPTIMIZER_NS); /* the optimizer's, too */
    prediction_free(prediction);
    store_all(db, asks, device, without);
    assert_int_equal(simulate(plan, &options, &prediction), WEFT_OK);
    if (!optimizer)
        assert_true(prediction->reliances > 1 ||
                    prediction->reliance[0].provenance != FROM_MEASUREMENT);
    prediction_free(prediction);
}

/* The fullest stage, which is one of them. */
static void check_step_bytes(const struct plan *plan, const struct asks *asks)
{
    bool reached = false;
    for (int32_t s = 0; s < plan->stages; s++) {
        struct stage_memory memory = plan_stage_memory(plan, s, 1);
        int64_t bytes = (int64_t)stage_memory_total(&memory);
        assert_true(bytes <= asks->step_bytes);
        reached |= bytes == asks->step_bytes;
    }
    assert_true(reached);
}

static void test_asks_are_what_is_simulated(void **state)
{
    (void)state;
    struct rng rng;
    struct cluster *cluster = ranks(4);
    rng_seed(&rng, 5);
    for (int round = 0; round < rounds_of(20); round++) {
        struct model *model = open_small(&SMALL_MODELS[rng_below(&rng, SMALL_MODEL_COUNT)]);
        struct arena *arena = arena_new();
        struct plan *plan = random_cpu_plan(&rng, model, cluster);
        struct asks asks;
        assert_int_equal(asks_of_plan(arena, plan, &asks), WEFT_OK);
        check_asks(plan, &asks);
        check_step_bytes(plan, &asks);
        check_simulation(plan, &asks, &rng);
        plan_free(plan);
        arena_free(arena);
        model_free(model);
    }
    cluster_free(cluster);
}

/* 4 layers of 2 norms and one after them: 9 forward norms of the same rows and columns. */
static void test_askers_are_counted(void **state)
{
    (void)state;
    struct cluster *cluster = ranks(1);
    struct model *model = open_small(&SMALL_MODELS[0]);
    struct plan *plan = small_plan(model, cluster, (struct degrees){.micro_batch = 2});
    struct arena *arena = arena_new();
    struct asks asks;
    int64_t uses = 0;
    assert_int_equal(asks_of_plan(arena, plan, &asks), WEFT_OK);
    for (size_t i = 0; i < asks.len; i++)
        if (asks.data[i].work.kernel == KERNEL_NORM && asks.data[i].work.phase == PHASE_FORWARD)
            for (size_t k = 0; k < asks.data[i].askers.len; k++)
                uses += asks.data[i].askers.data[k].uses;
    assert_int_equal(uses, 9);
    arena_free(arena);
    plan_free(plan);
    model_free(model);
    cluster_free(cluster);
}

/* ---- a core's costs -------------------------------------------------------------------------- */

/* Nothing is launched on a core and nobody issues it: a prediction is the sum of its kernels. */
static void test_prediction_is_the_sum(void **state)
{
    (void)state;
    struct small s = open_asks();
    char *db = in_folder("sum.sqlite");
    struct simulate_options options = {.profile = db};
    struct prediction *prediction;
    double sum = 0;
    store_all(db, &s.asks, s.cluster->node.device.name, s.asks.len);
    for (size_t i = 0; i < s.asks.len; i++)
        for (size_t k = 0; k < s.asks.data[i].askers.len; k++)
            sum += (s.asks.data[i].work.kernel == KERNEL_OPTIMIZER ? OPTIMIZER_NS : KERNEL_NS) *
                   (double)s.asks.data[i].askers.data[k].uses;
    assert_int_equal(simulate(s.plan, &options, &prediction), WEFT_OK);
    assert_true(fabs((double)prediction->iteration_ns - sum) <= 1);
    prediction_free(prediction);
    close_asks(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asks_are_what_is_simulated),
        cmocka_unit_test(test_askers_are_counted),
        cmocka_unit_test(test_prediction_is_the_sum),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
