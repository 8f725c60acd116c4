/* test_groups.c - sharded state in groups of replicas, and where tokens go, as facts that planners and targets know.
 *
 *   G1  Where weights are gathered across slow links, the plan found shares them inside nodes, is faster than any that does
 *       not, and says who found it; without a target or software that has groups, none are tried.
 *   G2  A target without groups refuses them and says which have them; the nearest plan has none.
 *   G3  Where tokens go is the same fact, told by the model or by the software.
 *   G4  Multiprocessors taken by tokens: by hand arithmetic, and the estimate beside the simulation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "checked_plan.h"
#include "search/planner/planner.h"
#include "sim/item_cost.h"

/* ---- G1 -------------------------------------------------------------------------------------- */

static struct plan_request ask(const struct opened *o, const char *target)
{
    struct plan_request request = {.model = o->model, .cluster = o->cluster};
    request.target = target ? target_find(target) : NULL;
    request.options.quick = true;
    request.pins.global_batch = 256;
    request.pins.tp = request.pins.pp = request.pins.cp = request.pins.micro_batch = 1;
    request.pins.has_shard = request.pins.has_recompute = true;
    request.pins.shard = 3;
    return request;
}

static int64_t best_of(const struct plan_request *request, int64_t *replicate, const char **who,
                       struct arena *keep)
{
    struct planned *planned;
    if (plan_search(planner_find("auto"), request, &planned))
        fail_msg("%s", weft_last_error()->message);
    const struct trial *best = &planned->trials.data[0];
    assert_true(best->fits);
    *replicate = best->degrees.replicate;
    *who = arena_copy_text(keep, best->found_by);
    int64_t ns = best->iteration_ns;
    planned_free(planned);
    return ns;
}

static void groups_are_found(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 8", "dgx-a100-200g:4");
    struct plan_request request = ask(&o, "megatron"), none = ask(&o, NULL);
    struct arena *arena = arena_new();
    int64_t groups, single;
    const char *who, *other;
    int64_t ns = best_of(&request, &groups, &who, arena);
    assert_int_equal(groups, 4);
    assert_string_equal(who, "auto in groups");
    best_of(&none, &single, &other, arena);
    assert_int_equal(single, 0);
    request.pins.replicate = 1;
    assert_true(ns < best_of(&request, &single, &other, arena));
    arena_free(arena);
    close_both(&o);
}

/* ---- G2 -------------------------------------------------------------------------------------- */

static void targets_without_groups_refuse_them(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 4", "dgx-h100:2");
    struct arena *arena = arena_new();
    struct degrees d = {.dp = 16, .shard = 2, .replicate = 2, .global_batch = 16};
    struct plan *plan = plan_of(&o, d), *nearest;
    struct texts texts = {0};
    assert_int_equal(target_differences(arena, target_find("deepspeed"), plan, &texts, &nearest),
                     WEFT_OK);
    bool told = false;
    for (size_t i = 0; i < texts.len; i++)
        told |= strstr(texts.data[i], "replicate 2") && strstr(texts.data[i], "megatron");
    assert_true(told);
    assert_non_null(nearest);
    assert_int_equal(nearest->replicate, 0);
    plan_free(nearest);
    plan_free(plan);
    arena_free(arena);
    close_both(&o);
}

/* ---- G3, G4 ---------------------------------------------------------------------------------- */

static const char MIXTURE[] = "layers: 4, first_dense: 1, mtp: 0, seq: 1024, experts: 16";

static struct plan *mixture_of(const struct opened *o, const char *software)
{
    struct degrees d = {.dp = 4, .pp = 2, .pieces = 2, .ep = 4, .global_batch = 32};
    d.has_overlap = true;
    d.overlap = OVERLAP_ALL | OVERLAP_EXPERTS;
    assert_int_equal(software_from_text(software, &d.software), WEFT_OK);
    return plan_of(o, d);
}

static void tokens_go_where_either_says(void **state)
{
    (void)state;
    struct opened plain = open_both("deepseek-v3", MIXTURE, "dgx-h100:1");
    struct opened own =
        open_both("deepseek-v3",
                  "layers: 4, first_dense: 1, mtp: 0, seq: 1024, experts: 16, dispatch: devices",
                  "dgx-h100:1");
    struct plan *told = mixture_of(&plain, "default,dispatch=devices");
    struct plan *model = mixture_of(&own, "default"), *none = mixture_of(&plain, "default");
    double by_software = simulated_s(told, FOLD_ALWAYS), by_model = simulated_s(model, FOLD_ALWAYS);
    assert_true(by_software == by_model);
    assert_true(simulated_s(none, FOLD_ALWAYS) > by_software);
    plan_free(told);
    plan_free(model);
    plan_free(none);
    close_both(&plain);
    close_both(&own);
}

/* An H100 has 132 multiprocessors: with 24 of them taken, computation beside tokens takes 132 / 108 = 1.222 of its time. */
static void tokens_take_multiprocessors(void **state)
{
    (void)state;
    struct opened o = open_both("deepseek-v3", MIXTURE, "dgx-h100:1");
    struct plan *none = mixture_of(&o, "default"), *plan = mixture_of(&o, "default,token_sms=24");
    struct arena *arena = arena_new();
    struct graph *graph;
    int taken = 0, other = 0;
    assert_int_equal(graph_compile(plan, &(struct compile_options){FOLD_ALWAYS}, &graph), WEFT_OK);
    const double *slowdown = token_slowdowns(arena, graph);
    for (int32_t i = 0; i < graph->exchanges; i++) {
        taken += fabs(slowdown[i] - 132.0 / 108) < 1e-9;
        other += slowdown[i] == 1;
    }
    assert_true(taken > 0 && other > 0 && taken + other == graph->exchanges);
    graph_free(graph);
    assert_true(simulated_s(plan, FOLD_ALWAYS) > simulated_s(none, FOLD_ALWAYS));
    double folded = simulated_s(plan, FOLD_ALWAYS), all = simulated_s(plan, FOLD_NEVER);
    assert_true(fabs(folded / all - 1) < 1e-3);
    expect_estimate(plan, "token_sms=24", 0.02);
    plan_free(plan);
    plan_free(none);
    arena_free(arena);
    close_both(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_found),
        cmocka_unit_test(targets_without_groups_refuse_them),
        cmocka_unit_test(tokens_go_where_either_says),
        cmocka_unit_test(tokens_take_multiprocessors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
