/* test_device_order.c - stages whose devices lie among each other's: by hand, by proof, folded against unfolded, and
 * the estimate beside the simulator. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "checked_plan.h"
#include "search/planner/planner.h"
#include "plan_text.h"

/* tp 2, pp 2, dp 4 on 16 devices, numbered tp, pp, dp: stage 0 has 0 1 4 5 8 9 12 13, stage 1 the others. */
static void by_hand(void **state)
{
    (void)state;
    static const int64_t AT[] = {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15};
    struct device_order order = {.run = 2, .stages = 2, .each = 8};
    for (int64_t i = 0; i < (int64_t)COUNT_OF(AT); i++)
        assert_int_equal(device_at(&order, i), AT[i]);
    /* replicas of device 9: 9 11 13 15, which are 3 7 11 15 */
    struct group replicas = {.first = 9, .levels = 1, .count = {4}, .stride = {2}};
    replicas = group_at(&order, &replicas);
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(group_device(&replicas, i), 3 + 4 * i);
    /* a whole stage is cut into runs */
    struct group whole = group_range(0, 8, 1);
    whole = group_at(&order, &whole);
    assert_int_equal(whole.levels, 2);
    for (int64_t i = 0; i < 8; i++)
        assert_int_equal(group_device(&whole, i), AT[i]);
    /* a send from device 2 to the same place of stage 1, and back */
    struct group send = group_range(2, 2, 8), back = group_range(10, 2, -8);
    send = group_at(&order, &send);
    back = group_at(&order, &back);
    assert_true(send.first == 4 && send.stride[0] == 2 && back.first == 6 && back.stride[0] == -2);
}

static void orders_in_words(void **state)
{
    (void)state;
    struct degrees d = {.tp = 2, .cp = 2, .dp = 4, .pp = 2, .ep = 1};
    static const struct {
        const char *order;
        int64_t run; /* 0: refused */
    } WORDS[] = {
        {"tp-cp-ep-dp-pp", 16}, {"tp-cp-dp-pp", 16},
        {"tp-cp-pp-dp", 4},     {"tp-pp-cp-ep-dp", 2},
        {"pp-tp-cp-dp", 1},     {"tp-pp-dp", 0},
        {"dp-tp-cp-pp", 0},     {"tp-cp-dp-pp-pp", 0},
        {"tp,cp,pp,dp", 0},     {"", 0},
    };
    for (size_t i = 0; i < COUNT_OF(WORDS); i++) {
        int64_t run = 0;
        d.order = WORDS[i].order;
        weft_status status = order_run(&d, &run);
        assert_int_equal(status == WEFT_OK, WORDS[i].run > 0);
        if (status == WEFT_OK)
            assert_int_equal(run, WORDS[i].run);
    }
}

/* A digit of three devices over runs of two would leave groups without a stride. */
static void splits_and_runs(void **state)
{
    (void)state;
    struct split split = split_none();
    split_add(&split, DIM_BATCH, 4);
    split_add(&split, DIM_OUT, 2);
    assert_true(split_suits_run(&split, 2) && split_suits_run(&split, 1) &&
                split_suits_run(&split, 4));
    split = split_none();
    split_add(&split, DIM_BATCH, 2);
    split_add(&split, DIM_OUT, 6);
    assert_true(split_suits_run(&split, 6) && !split_suits_run(&split, 2));
}

/* Gradients that replicas in one node add up go between nodes in the other order, and sends the other way round. */
static void links_follow(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 4, seq: 2048", "dgx-h100:2");
    struct degrees d = {.dp = 4, .tp = 2, .pp = 2, .global_batch = 32, .shard = 1};
    struct plan *plan = plan_of(&o, d);
    d.order = "tp-pp-dp";
    struct plan *other = plan_of(&o, d);
    assert_true(plan->stage_run == 0 && other->stage_run == 2 && !is_same_plan(plan, other));
    struct degrees found;
    assert_true(plan_degrees(other, &found) && found.stage_run == 2);
    double usual = simulated_s(plan, FOLD_ALWAYS), moved = simulated_s(other, FOLD_ALWAYS);
    assert_true(moved > usual);
    plan_free(plan);
    plan_free(other);
    close_both(&o);
}

static void proved_and_estimated(void **state)
{
    (void)state;
    static const struct degrees PLANS[] = {
        {.dp = 4, .tp = 2, .pp = 2, .global_batch = 32, .shard = 1, .order = "tp-pp-dp"},
        {.dp = 2, .tp = 2, .cp = 2, .pp = 2, .global_batch = 16, .order = "tp-cp-pp-dp"},
        {.dp = 2, .tp = 2, .cp = 2, .pp = 2, .global_batch = 16, .order = "tp-pp-cp-dp"},
        {.dp = 8, .pp = 2, .global_batch = 32, .shard = 1, .order = "pp-dp"},
        {.dp = 2, .tp = 2, .pp = 4, .global_batch = 16, .sequence = true, .order = "tp-pp-dp"},
        {.dp = 4, .tp = 1, .pp = 4, .global_batch = 64, .pieces = 2, .order = "tp-pp-dp"},
        {.dp = 4, .tp = 2, .pp = 2, .ep = 4, .global_batch = 16, .order = "tp-pp-dp"},
    };
    struct opened dense = open_both("llama3-8b", "layers: 8, seq: 2048", "dgx-h100:2");
    struct opened mixture = open_both("mixtral-8x7b", "layers: 4, seq: 1024", "dgx-h100:2");
    for (size_t i = 0; i < COUNT_OF(PLANS); i++) {
        struct plan *plan = plan_of(PLANS[i].ep ? &mixture : &dense, PLANS[i]);
        char words[16];
        snprintf(words, sizeof words, "plan %zu", i);
        expect_proof(plan);
        double folded = simulated_s(plan, FOLD_ALWAYS), all = simulated_s(plan, FOLD_NEVER);
        assert_true(fabs(folded / all - 1) < 1e-3);
        expect_estimate(plan, words, 0.02);
        plan_free(plan);
    }
    close_both(&dense);
    close_both(&mixture);
}

/* Plans that are found have the order that is asked for; planners of other plans than degrees refuse it. */
static void planners_keep_it(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 4, seq: 2048", "dgx-h100:2");
    struct plan_request request = {
        .model = o.model,
        .cluster = o.cluster,
        .pins = {.pp = 2, .tp = 2, .global_batch = 32, .order = "tp-pp-dp"},
        .options = {.quick = true}};
    struct planned *planned;
    struct plan *plan;
    assert_int_equal(plan_search(planner_find("auto"), &request, &planned), WEFT_OK);
    for (size_t i = 0; i < planned->trials.len; i++) {
        assert_int_equal(trial_take(&request, &planned->trials.data[i], &plan), WEFT_OK);
        assert_int_equal(plan->stage_run, 2);
        plan_free(plan);
    }
    planned_free(planned);
    request.options.quick = false;
    assert_int_equal(plan_search(planner_find("galvatron"), &request, &planned), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "galvatron numbers devices tp-cp-ep-dp-pp, not tp-pp-dp");
    close_both(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(orders_in_words),
        cmocka_unit_test(splits_and_runs),
        cmocka_unit_test(links_follow),
        cmocka_unit_test(proved_and_estimated),
        cmocka_unit_test(planners_keep_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
