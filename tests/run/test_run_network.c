/* test_run_network.c - a slow and uneven network changes nothing that ranks compute. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run_alone.h"
#include "run_rows.h"

static void test_delays_change_nothing(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"interleaved, pp 2, tp 2, sp", "zb-h1, pp 4",
                                        "aiao, pp 2, dp 2, zero 1, tied", "zero 2, small buckets",
                                        "uneven stages, 1 and 3 devices"};
    for (size_t k = 0; k < COUNT_OF(NAMES); k++)
        for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
            struct slowdown slow = {.seed = k, .delay_s = 0.001, .bytes_per_s = 1e9};
            char why[512] = "";
            if (strcmp(ROWS[i].name, NAMES[k]) != 0)
                continue;
            struct plan *plan = plan_of_row(&ROWS[i]);
            if (!agree(plan, &(struct conditions){2, 1, &slow}, why, sizeof why))
                fail_msg("%s: %s", NAMES[k], why);
            plan_free(plan);
        }
}

static bool offloads(const struct plan *plan)
{
    bool any = false;
    for (int64_t i = 0; i < plan->instances; i++)
        any |= plan_choice(plan, i)->recompute && plan_choice(plan, i)->offload;
    return any;
}

/* What waits in host memory has been read by then, however late its last reader comes. In the first two it
 * once had not: a step for what is sent, after another one that took its time. */
static void test_late_steps_find_checkpoints(void **state)
{
    (void)state;
    static const uint64_t FOUND[] = {495, 544};
    int rounds = rounds_of(40), wrong = 0;
    for (int i = -(int)COUNT_OF(FOUND); i < rounds; i++) {
        struct slowdown slow = {.seed = 1, .delay_s = 0.002};
        struct rng rng;
        char why[512] = "";
        rng_seed(&rng, i < 0 ? FOUND[-i - 1] : (uint64_t)i);
        const struct model *model = random_model(&rng);
        struct plan *plan = runnable_plan(&rng, model);
        bool same =
            !offloads(plan) || agree(plan, &(struct conditions){1, 1, &slow}, why, sizeof why);
        if (!same)
            print_message("%d, %s, %s: %s\n", i, model->family, plan->schedule, why);
        wrong += !same;
        plan_free(plan);
    }
    assert_int_equal(wrong, 0);
}

/* Threads sum in the order of the members: runs repeat bit for bit. */
static void test_runs_repeat(void **state)
{
    (void)state;
    struct row row = {"", GPT, 4, {.dp = 2, .tp = 2, .shard = 1, .global_batch = 4}, NULL};
    struct plan *plan = plan_of_row(&row);
    struct slowdown slow = {.seed = 5, .delay_s = 0.0005};
    struct trained *a = run_plan(plan, &(struct conditions){3, 1, NULL});
    struct trained *b = run_plan(plan, &(struct conditions){3, 1, &slow});
    const char *where = "";
    double error = weight_error(a, b, &where);
    if (error > 0)
        fail_msg("%s differs by %.1e", where, error);
    assert_true(a->loss[2] == b->loss[2] && a->loss[2] > 0);
    trained_free(a);
    trained_free(b);
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delays_change_nothing),
        cmocka_unit_test(test_late_steps_find_checkpoints),
        cmocka_unit_test(test_runs_repeat),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_all);
}
