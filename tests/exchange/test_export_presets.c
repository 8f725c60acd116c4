/* test_export_presets.c - every preset that Megatron-LM has: written as its arguments and read again it is the same model, with the
 * same plan. Of the presets that it has not, an error says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "exchange/room.h"
#include "one_arena.h"
#include "same_plan.h"

enum { LEAST_BACK = 80 }; /* presets that come back */

static bool comes_back(const struct plan *plan, const char *cluster)
{
    struct export_result result;
    struct opened_plan again;
    struct texts notes = {0};
    weft_status status = plan_export(arena, plan, "megatron", false, &result);
    if (status) {
        assert_int_equal(status, WEFT_BAD_INPUT);
        error_clear();
        return false;
    }
    struct import_input input = {.file = plan->model->name,
                                 .text = result.text,
                                 .len = strlen(result.text),
                                 .cluster = cluster};
    if (megatron_import(arena, &input, &again, &notes) != WEFT_OK)
        fail_msg("%s: %s", plan->model->name, weft_last_error()->message);
    same_plan(plan, again.plan);
    plan_free(result.written);
    plan_close(&again);
    return true;
}

static void presets_come_back(void **state)
{
    (void)state;
    static const char CLUSTER[] = "dgx-h100:1";
    const struct preset *preset;
    size_t count = model_presets(&preset), back = 0;
    struct cluster *cluster;
    assert_int_equal(cluster_open(CLUSTER, &cluster), WEFT_OK);
    for (size_t i = 0; i < count; i++) {
        struct degrees d = {.dp = 8, .global_batch = 64};
        struct model *model;
        struct plan *plan;
        assert_int_equal(model_open(preset[i].name, NULL, &model), WEFT_OK);
        assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
        back += comes_back(plan, CLUSTER);
        plan_free(plan);
        model_free(model);
    }
    print_message("%zu of %zu presets come back\n", back, count);
    assert_true(back >= LEAST_BACK);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(presets_come_back)};
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
