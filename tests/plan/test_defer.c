/* test_defer.c - gradients of the head's weights that wait for the end of the passes (plan/defer.c): the order, by hand;
 * what it computes is what the model does; it takes no time but its own, and what waits is held; estimates know it, and searches
 * for targets that do it find it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "checked_plan.h"
#include "rounds.h"
#include "plan/order.h"
#include "search/planner/planner.h"

static const struct degrees TWO_STAGES = {
    .tp = 2, .pp = 2, .global_batch = 6, .micro_batch = 1, .has_dtype = true, .dtype = DTYPE_BF16};

static struct opened open_small(void)
{
    return open_both("gpt2", "layers: 4, hidden: 256, heads: 4, seq: 128, vocab: 8000",
                     "dgx-a100:1x4");
}

static struct plan *deferring(const struct opened *o, int64_t count)
{
    struct degrees d = TWO_STAGES;
    d.defer_head = count;
    d.dp = 1;
    return plan_of(o, d);
}

/* Of six micro-batches the first two wait. Backward passes are in two, one right after the other where nothing waits. */
static void order_of_the_last_stage(void **state)
{
    (void)state;
    struct opened o = open_small();
    struct arena *arena = arena_new();
    struct plan *plan = deferring(&o, 2);
    struct pipeline pipeline = plan_pipeline(plan);
    struct slots first = {0}, last = {0};
    schedule_order(plan_schedule(plan), &pipeline, 0, arena, &first);
    schedule_order(plan_schedule(plan), &pipeline, 1, arena, &last);
    assert_string_equal(slots_text(arena, &first, &pipeline),
                        "F0 F1 I0 W0 F2 I1 W1 F3 I2 W2 F4 I3 W3 F5 I4 W4 I5 W5");
    assert_string_equal(slots_text(arena, &last, &pipeline),
                        "F0 I0 F1 I1 F2 I2 W2 F3 I3 W3 F4 I4 W4 F5 I5 W5 W0 W1");
    assert_string_equal(plan->schedule, "1f1b");
    assert_null(plan_own_order(plan));
    plan_free(plan);
    arena_free(arena);
    close_both(&o);
}

static struct prediction *predicted(const struct plan *plan)
{
    struct prediction *prediction;
    struct simulate_options options = {.fold = FOLD_ALWAYS};
    assert_int_equal(simulate(plan, &options, &prediction), WEFT_OK);
    return prediction;
}

/* Each is proved, alike folded and unfolded. In the last of six forward passes, five products of 128 x 256 by 8000 / 2 wait,
 * each with a gradient of 128 x 4000 in bf16 and an input of 128 x 256, beside what one micro-batch keeps: 128 x 4000 in
 * fp32 of the loss, and less than that of two layers. The iteration is shorter, as stage 0 has its gradients earlier. */
static void what_waits_is_held(void **state)
{
    (void)state;
    struct opened o = open_small();
    static const int64_t COUNTS[] = {0, 2, DEFER_ALL};
    int64_t ns[COUNT_OF(COUNTS)], held[COUNT_OF(COUNTS)];
    for (size_t i = 0; i < COUNT_OF(COUNTS); i++) {
        struct plan *plan = deferring(&o, COUNTS[i]);
        expect_proof(plan);
        struct prediction *p = predicted(plan);
        ns[i] = p->iteration_ns;
        held[i] = p->stage[1].memory.bytes[MEMORY_ACTIVATIONS];
        assert_true(fabs(simulated_s(plan, FOLD_NEVER) * 1e9 - (double)ns[i]) < 1);
        prediction_free(p);
        plan_free(plan);
    }
    assert_true(ns[2] < ns[1] && ns[1] < ns[0]);
    int64_t each = 2 * 128 * (4000 + 256), one = 2 * 4 * 128 * 4000;
    assert_true(held[0] < one);
    assert_true(held[2] > 5 * each && held[2] < 5 * each + one);
    close_both(&o);
}

static void expect_refused(const struct opened *o, struct degrees d, const char *words)
{
    struct plan *plan = NULL;
    d.defer_head = 1;
    assert_int_equal(plan_from_degrees(o->model, o->cluster, &d, &plan), WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, words));
    error_clear();
}

static void where_nothing_can_wait(void **state)
{
    (void)state;
    struct opened o = open_small();
    expect_refused(&o, (struct degrees){.tp = 4}, "one stage");
    expect_refused(&o, (struct degrees){.tp = 2, .pp = 2, .schedule = "zb-h1"}, "zb-h1");
    expect_refused(&o, (struct degrees){.dp = 2, .pp = 2, .shard = 2}, "sharded gradients");
    close_both(&o);
}

static void files_say_it(void **state)
{
    (void)state;
    struct opened o = open_small();
    struct arena *arena = arena_new();
    struct plan *plan = deferring(&o, DEFER_ALL);
    struct opened_plan again;
    plan_set_names(plan, "gpt2", "layers: 4, hidden: 256, heads: 4, seq: 128, vocab: 8000",
                   "dgx-a100:1x4");
    const char *text = plan_write(arena, plan);
    assert_non_null(strstr(text, "\"defer_head\": \"all\""));
    assert_null(strstr(text, "\"order\""));
    if (plan_parse(arena, "plan.json", text, strlen(text), &again) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    assert_int_equal(again.plan->defer_head, DEFER_ALL);
    assert_true(fabs(simulated_s(again.plan, FOLD_AUTO) - simulated_s(plan, FOLD_AUTO)) < 1e-9);
    plan_close(&again);
    plan_free(plan);
    arena_free(arena);
    close_both(&o);
}

/* As plans and as candidates, whose tables leave the other weights in their passes, in one piece and in two. */
static void estimates_know_it(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 8", "dgx-h100:1");
    static const int64_t COUNTS[] = {2, 6, DEFER_ALL};
    for (size_t i = 0; i < 2 * COUNT_OF(COUNTS); i++) {
        struct degrees d = {.dp = 2, .pp = 4, .shard = 1, .global_batch = 32, .micro_batch = 1};
        d.pieces = 1 + (int64_t)(i % 2);
        d.defer_head = COUNTS[i / 2];
        struct plan *plan = plan_of(&o, d);
        expect_estimate(plan, "a head that waits", 0.005);
        plan_free(plan);
    }
    close_both(&o);
}

/* The best plan for a target; whether its head waits. */
static int64_t found_for(const struct opened *o, const char *target, struct arena *keep,
                         const struct trial **best)
{
    struct plan_request request = {.model = o->model, .cluster = o->cluster};
    struct planned *planned;
    request.target = target ? target_find(target) : NULL;
    request.options.quick = true;
    request.pins = (struct degrees){.tp = 2, .pp = 4, .global_batch = 16, .micro_batch = 1};
    if (plan_search(planner_find("auto"), &request, &planned))
        fail_msg("%s", weft_last_error()->message);
    struct trial *first = ARENA_NEW(keep, struct trial);
    *first = planned->trials.data[0];
    first->found_by = arena_copy_text(keep, first->found_by);
    first->text = arena_copy_text(keep, first->text);
    int64_t waits = first->plan ? first->plan->defer_head : 0;
    planned_free(planned);
    *best = first;
    return waits;
}

static void searches_find_it(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 8", "dgx-h100:1");
    struct arena *arena = arena_new();
    const struct trial *megatron, *other;
    assert_int_not_equal(found_for(&o, "megatron", arena, &megatron), 0);
    assert_non_null(strstr(megatron->found_by, "and defer-head"));
    assert_non_null(strstr(megatron->text, "defer-head"));
    assert_int_equal(found_for(&o, NULL, arena, &other), 0);
    arena_free(arena);
    close_both(&o);
}

static struct plan_request pinned_request(const struct opened *o, int64_t count)
{
    struct plan_request request = {.model = o->model, .cluster = o->cluster};
    request.pins = (struct degrees){.global_batch = 16, .defer_head = count};
    return request;
}

/* Whichever planner searches, nothing that misses the pin is a trial, and plans that cannot have it are none. */
static void pins_are_kept(void **state)
{
    (void)state;
    struct opened o = open_small();
    static const char *const PLANNERS[] = {"auto", "megatron", "aceso", "autoddl"};
    for (size_t i = 0; i < COUNT_OF(PLANNERS); i++) {
        if (!is_tried(i))
            continue;
        struct plan_request request = pinned_request(&o, 2);
        struct planned *planned;
        request.options.max_hops = 2;
        if (plan_search(planner_find(PLANNERS[i]), &request, &planned))
            fail_msg("%s: %s", PLANNERS[i], weft_last_error()->message);
        for (size_t k = 0; k < planned->trials.len; k++) {
            const struct trial *t = &planned->trials.data[k];
            if ((t->plan ? t->plan->defer_head : t->degrees.defer_head) != 2)
                fail_msg("%s: %s", t->found_by, t->text);
            assert_true((t->plan ? t->plan->stages : t->degrees.pp) > 1);
        }
        planned_free(planned);
    }
    close_both(&o);
}

static void expect_no_search(const struct plan_request *request, const char *planner,
                             const char *words)
{
    struct planned *planned;
    assert_int_not_equal(plan_search(planner_find(planner), request, &planned), WEFT_OK);
    assert_non_null(strstr(weft_last_error()->message, words));
    error_clear();
}

static void pins_that_cannot_be_kept(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 8", "dgx-h100:1");
    struct plan_request request = pinned_request(&o, DEFER_ALL);
    expect_no_search(&request, "galvatron", "'galvatron' found can have what is asked for");
    request.pins.schedule = "any";
    expect_no_search(&request, "auto", "schedule any has another place");
    request.pins.schedule = "zb-h1";
    expect_no_search(&request, "auto", "schedule zb-h1 has another place");
    request = pinned_request(&o, DEFER_ALL);
    request.pins.pp = 1;
    expect_no_search(&request, "auto", "one stage");
    close_both(&o);
}

/* The same search as in searches_find_it. */
static void forbidden_is_not_found(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 8", "dgx-h100:1");
    struct arena *arena = arena_new();
    struct plan_request request = {.model = o.model, .cluster = o.cluster};
    struct planned *planned;
    request.target = target_find("megatron");
    request.options.quick = true;
    request.pins = (struct degrees){.tp = 2, .pp = 4, .global_batch = 16, .micro_batch = 1};
    assert_int_equal(forbid_parse(arena, "defer-head", &request.forbids), WEFT_OK);
    assert_int_equal(plan_search(planner_find("auto"), &request, &planned), WEFT_OK);
    for (size_t k = 0; k < planned->trials.len; k++)
        assert_true(!planned->trials.data[k].plan || !planned->trials.data[k].plan->defer_head);
    planned_free(planned);
    assert_int_not_equal(forbid_parse(arena, "defer-head=2", &request.forbids), WEFT_OK);
    error_clear();
    arena_free(arena);
    close_both(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_of_the_last_stage), cmocka_unit_test(what_waits_is_held),
        cmocka_unit_test(where_nothing_can_wait),  cmocka_unit_test(files_say_it),
        cmocka_unit_test(estimates_know_it),       cmocka_unit_test(searches_find_it),
        cmocka_unit_test(pins_are_kept),           cmocka_unit_test(pins_that_cannot_be_kept),
        cmocka_unit_test(forbidden_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
