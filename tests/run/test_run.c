/* test_run.c - plans that run on several ranks compute what one rank computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "late_device.h"
#include "rounds.h"
#include "run_alone.h"
#include "run_rows.h"
#include "search/planner/planner.h"

enum { STEPS = 6, FEWEST_STEPS = 4, LONGEST = 20 }; /* LONGEST: with WEFT_TEST_PERCENT=340 */

static void test_plans_compute_what_one_rank_does(void **state)
{
    (void)state;
    int wrong = 0, some = rounds_of(STEPS), steps = some > FEWEST_STEPS ? some : FEWEST_STEPS;
    steps = steps < LONGEST ? steps : LONGEST;
    const char *only = getenv("WEFT_RUN_ROW");
    size_t step = rounds_of(100) < 100 && !only ? 3 : 1;
    for (size_t i = 0; i < COUNT_OF(ROWS); i += step) {
        char why[512] = "";
        if ((only && !strstr(ROWS[i].name, only)) || !lab_runs(models[ROWS[i].model]) ||
            !is_own_case(i / step))
            continue;
        struct plan *plan = plan_of_row(&ROWS[i]);
        bool same = same_runs(plan, steps, why, sizeof why);
        if (!same || only)
            print_message("%-2zu %s, %s: %s\n", i, ROWS[i].name, plan->model->family, why);
        wrong += !same;
        plan_free(plan);
    }
    assert_int_equal(wrong, 0);
}

static void test_random_plans(void **state)
{
    (void)state;
    int rounds = rounds_of(40), wrong = 0;
    for (int round = 0; round < rounds; round++)
        wrong += is_own_case((size_t)round) && !random_round(round, (uint64_t)round, 4, NULL);
    assert_int_equal(wrong, 0);
}

/* ---- orders that are found --------------------------------------------------------------------- */

static void test_found_orders_compute_what_one_rank_does(void **state)
{
    (void)state;
    for (int64_t pieces = 1; pieces <= 2; pieces++) {
        struct degrees d = {.pp = 2, .pieces = pieces, .global_batch = 6, .schedule = "any"};
        struct plan *plan = NULL;
        char why[512] = "";
        d.has_dtype = true;
        d.dtype = DTYPE_FP32;
        assert_int_equal(plan_with_found_order(models[GPT], clusters[2], &d, NULL, &plan), WEFT_OK);
        assert_non_null(plan->listed);
        assert_int_equal(plan_check(plan), WEFT_OK);
        if (!same_runs(plan, FEWEST_STEPS, why, sizeof why))
            fail_msg("%s", why);
        plan_free(plan);
    }
}

/* ---- devices apart from the host -------------------------------------------------------------- */

/* The losses of the same ranks on a device that shares its memory, digit by digit: sums are in the same order. */
static void same_on(const struct compute_device *device, const struct row *row)
{
    struct plan *plan = plan_of_row(row);
    struct kernels kernels = CPU_KERNELS;
    struct laboratory lab = {
        .plan = plan, .options = lab_options(plan->model), .steps = FEWEST_STEPS};
    lab.options.dropout = 0.1F;
    struct trained *shared = run_lab(&lab);
    kernels.device = device;
    lab.options.kernels = &kernels;
    struct trained *all = run_lab(&lab);
    if (shared->status != WEFT_OK)
        fail_msg("%s: %s", row->name, shared->why);
    if (all->status != WEFT_OK)
        fail_msg("%s: %s", row->name, all->why);
    for (int64_t k = 0; k < lab.steps; k++)
        if (!(all->loss[k] == shared->loss[k]))
            fail_msg("%s: %.17g in place of %.17g", row->name, all->loss[k], shared->loss[k]);
    trained_free(shared);
    trained_free(all);
    plan_free(plan);
}

/* The same on a device whose memory the host does not share: whatever it reads or writes without asking the
 * device is lost on the way. */
static void test_devices_apart_from_the_host(void **state)
{
    struct compute_device device = CPU_DEVICE;
    (void)state;
    device.shared = false;
    if (lab_backend() != &CPU_KERNELS)
        skip();
    for (size_t i = 0; i < COUNT_OF(ROWS); i += 5)
        if (is_tried(i / 5))
            same_on(&device, &ROWS[i]);
}

/* Copies of transfers and of what waits in host memory go on beside computation: nothing is reused before
 * they are complete, nothing is read before. */
static void test_devices_that_work_behind_their_host(void **state)
{
    struct compute_device device = late_device();
    (void)state;
    if (lab_backend() != &CPU_KERNELS)
        skip();
    for (size_t i = 0, tried = 0; i < COUNT_OF(ROWS); i++)
        if ((i % 7 == 0 || strstr(ROWS[i].name, "aiao") || strstr(ROWS[i].name, "offload")) &&
            is_tried(tried++))
            same_on(&device, &ROWS[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_compute_what_one_rank_does),
        cmocka_unit_test(test_random_plans),
        cmocka_unit_test(test_found_orders_compute_what_one_rank_does),
        cmocka_unit_test(test_devices_apart_from_the_host),
        cmocka_unit_test(test_devices_that_work_behind_their_host),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_all);
}
