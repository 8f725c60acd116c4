/* test_run_order.c - ranks that run ahead start their transfers in the order that all ranks keep (rank/order.c):
 * over a transport that has no other way to match them they all come through, and bring what they should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "in_turn.h"
#include "late_device.h"
#include "run_alone.h"
#include "run_rows.h"

/* Every other time slices of buckets follow each other on a stream (bucket_transfers.c, I1). */
static bool same_in_order(const struct plan *plan, size_t turn, const struct kernels *kernels,
                          char *why, size_t size)
{
    transport_carrier *carrier = turn % 2 ? carry_ahead : carry_in_turn;
    uint64_t seeds = has_kinks(plan->model) ? 4 : 1;
    bool same = false;
    for (uint64_t seed = 1; seed <= seeds && !same; seed++)
        same = agree(plan, &(struct conditions){2, seed, NULL, carrier, .kernels = kernels}, why,
                     size);
    return same;
}

static void check_rows(size_t step, const struct kernels *kernels)
{
    int wrong = 0;
    for (size_t i = 0; i < COUNT_OF(ROWS); i += step) {
        char why[512] = "";
        if (!is_own_case(i / step))
            continue;
        struct plan *plan = plan_of_row(&ROWS[i]);
        bool same = same_in_order(plan, i / step, kernels, why, sizeof why);
        if (!same)
            print_message("%s, %s: %s\n", ROWS[i].name, plan->model->family, why);
        wrong += !same;
        plan_free(plan);
    }
    assert_int_equal(wrong, 0);
}

static void test_plans_of_the_table(void **state)
{
    (void)state;
    check_rows(COUNT_OF(ROWS) / (size_t)cases_of(COUNT_OF(ROWS)), NULL);
}

/* Transfers of a device's own memory. */
static void test_devices_that_work_behind_their_host(void **state)
{
    struct compute_device device = late_device();
    struct kernels kernels = CPU_KERNELS;
    (void)state;
    if (lab_backend() != &CPU_KERNELS)
        skip();
    kernels.device = &device;
    check_rows(5, &kernels);
}

static void test_random_plans(void **state)
{
    (void)state;
    int wrong = 0, rounds = rounds_of(50);
    for (int round = 0; round < rounds; round++) {
        struct rng rng;
        char why[512] = "";
        if (!is_own_case((size_t)round))
            continue;
        rng_seed(&rng, (uint64_t)round);
        const struct model *model = random_model(&rng);
        struct plan *plan = runnable_plan(&rng, model);
        bool same = same_in_order(plan, (size_t)round, NULL, why, sizeof why);
        if (!same)
            print_message("round %d, %s, %s, %lld ranks: %s\n", round, model->family,
                          plan->schedule, (long long)cluster_devices(plan->cluster), why);
        wrong += !same;
        plan_free(plan);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_of_the_table),
        cmocka_unit_test(test_devices_that_work_behind_their_host),
        cmocka_unit_test(test_random_plans),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_all);
}
