/* test_orders.c - orders that are found for plans: no slower than schedules of the table when simulated, and within memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "search/search.h"

static struct model *model;
static struct cluster *cluster;

static int open_all(void **state)
{
    (void)state;
    return model_open("gpt3-1.3b", NULL, &model) || cluster_open("dgx-a100:1", &cluster);
}

static int close_all(void **state)
{
    (void)state;
    model_free(model);
    cluster_free(cluster);
    return 0;
}

static int64_t simulated_ns(const struct plan *plan)
{
    struct simulate_options options = {.fold = FOLD_ALWAYS};
    struct prediction *prediction = NULL;
    assert_int_equal(plan_check(plan), WEFT_OK);
    assert_int_equal(simulate(plan, &options, &prediction), WEFT_OK);
    int64_t ns = prediction->iteration_ns;
    prediction_free(prediction);
    return ns;
}

static int64_t named_ns(struct degrees d, const char *name)
{
    struct plan *plan;
    d.schedule = name;
    assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
    int64_t ns = simulated_ns(plan);
    plan_free(plan);
    return ns;
}

/* The simulator knows more than the estimate that an order is found by: a thousandth is allowed for that. */
static void found_orders_are_no_slower_than_named_ones(void **state)
{
    static const struct {
        int64_t pieces;
        const char *name[3];
    } ROWS[] = {{1, {"1f1b", "zb-h1", "zb-h2"}}, {2, {"interleaved", "zb-v", "v-half"}}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct degrees d = {.pp = 8, .pieces = ROWS[i].pieces, .global_batch = 16};
        struct plan *plan;
        assert_int_equal(plan_with_found_order(model, cluster, &d, NULL, &plan), WEFT_OK);
        int64_t found = simulated_ns(plan);
        for (size_t k = 0; k < COUNT_OF(ROWS[i].name); k++)
            assert_true((double)found <= 1.001 * (double)named_ns(d, ROWS[i].name[k]));
        plan_free(plan);
    }
}

/* Where the allocator keeps more than the estimate allows for, the order is found again. */
static void found_orders_fit(void **state)
{
    struct degrees d = {.pp = 4, .dp = 2, .pieces = 2, .global_batch = 32};
    struct simulate_options options = {.fold = FOLD_ALWAYS};
    struct prediction *prediction = NULL;
    struct plan *plan;
    (void)state;
    d.memory.limit_bytes = 18LL << 30;
    assert_int_equal(plan_with_found_order(model, cluster, &d, NULL, &plan), WEFT_OK);
    assert_int_equal(simulate(plan, &options, &prediction), WEFT_OK);
    assert_true(prediction->fits);
    prediction_free(prediction);
    plan_free(plan);
}

static void one_stage_needs_no_order(void **state)
{
    struct degrees d = {.dp = 8, .global_batch = 32};
    struct plan *plan;
    (void)state;
    assert_int_equal(plan_with_found_order(model, cluster, &d, NULL, &plan), WEFT_OK);
    assert_null(plan->listed);
    plan_free(plan);
}

static struct planned *searched(struct plan_request *request)
{
    struct planned *planned = NULL;
    const struct planner *planner = planner_default();
    request->model = model;
    request->cluster = cluster;
    request->options.quick = true;
    if (plan_search(planner, request, &planned))
        fail_msg("%s", weft_last_error()->message);
    return planned;
}

static void planners_try_orders(void **state)
{
    struct plan_request request = {
        .pins = {.pp = 8, .pieces = 2, .global_batch = 16, .schedule = "any"}};
    struct planned *planned = searched(&request);
    struct plan *plan;
    (void)state;
    assert_int_equal(trial_take(&request, &planned->trials.data[0], &plan), WEFT_OK);
    assert_non_null(plan->listed);
    plan_free(plan);
    planned_free(planned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_orders_are_no_slower_than_named_ones),
        cmocka_unit_test(found_orders_fit),
        cmocka_unit_test(one_stage_needs_no_order),
        cmocka_unit_test(planners_try_orders),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
