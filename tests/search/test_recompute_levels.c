/* test_recompute_levels.c - which lists of modules planners try to recompute, and that they find what these gain.
 *
 *   L1  Levels recompute more and more; modules come by what they free for their time, measured here plan by plan.
 *   L2  Lists are tried where the target or the software has them, and a pin leaves one level.
 *   L3  The grid with lists is exact: its best are those of estimating every point, and no bound is above its estimate.
 *   L4  Where activations are too large, the plan found recomputes a list, is faster than the best without lists, and the
 *       answer says which list that is.
 *   L5  Aceso and Galvatron keep a list that is pinned; Galvatron's layers choose one of their own where the software has them.
 *   L6  Where nothing recomputed does not fit and all layers do, auto and Megatron's grid find the fewest layers that fit;
 *       a pinned number stays.
 *   L7  Planners that choose layer by layer keep every pin of recomputation and offload, also those that their searches do
 *       not know (put_pins.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checked_plan.h"
#include "estimated.h"
#include "rounds.h"
#include "search/auto/grid.h"
#include "search/planner/recompute_levels.h"

static const char SMALL[] = "layers: 4, first_dense: 1, mtp: 0, seq: 512, experts: 8";

static struct plan_request ask(const struct opened *o, const char *software)
{
    struct plan_request request = {.model = o->model, .cluster = o->cluster};
    request.pins.global_batch = 16;
    assert_int_equal(software_from_text(software, &request.pins.software), WEFT_OK);
    return request;
}

/* ---- L1 -------------------------------------------------------------------------------------- */

/* What a micro-batch keeps with a level, and the estimated time of an iteration. */
struct measured {
    double kept_bytes;
    int64_t iteration_ns;
};
static struct measured measure_level(const struct opened *o, const struct plan_request *request,
                                     const struct recompute_level *level)
{
    struct degrees d = request->pins;
    struct arena *arena = arena_new();
    d.dp = 8;
    d.ep = 8;
    d.recompute = level->recompute;
    d.modules = level->modules;
    struct plan *plan = plan_of(o, d);
    struct measured out = {plan_stage_memory(plan, 0, 1).activations,
                           estimate_of(arena, plan).iteration_ns};
    plan_free(plan);
    arena_free(arena);
    return out;
}

/* Bytes that a list frees per nanosecond. */
static double gain_of(const struct opened *o, const struct plan_request *request, unsigned modules)
{
    struct measured none = measure_level(o, request, &(struct recompute_level){RECOMPUTE_NONE, 0});
    struct measured with =
        measure_level(o, request, &(struct recompute_level){RECOMPUTE_SELECTIVE, modules});
    return (none.kept_bytes - with.kept_bytes) /
           (double)(with.iteration_ns - none.iteration_ns + 1);
}

/* A list that begins with another module frees less for its time. */
static void the_first_module_frees_most(void **state)
{
    (void)state;
    static const char *const WORDS[] = {"core_attn", "mlp", "moe", "shared_experts"};
    struct opened o = open_both("deepseek-v3", SMALL, "dgx-h100:1");
    struct plan_request request = ask(&o, "megatron-core-0.16");
    struct recompute_levels levels;
    assert_int_equal(recompute_levels(&request, &levels), WEFT_OK);
    double first = gain_of(&o, &request, levels.level[2].modules);
    for (size_t i = 0; i < COUNT_OF(WORDS); i++)
        assert_true(first > gain_of(&o, &request, module_from_name(WORDS[i])));
    close_both(&o);
}

static void levels_recompute_more_and_more(void **state)
{
    (void)state;
    struct opened o = open_both("deepseek-v3", SMALL, "dgx-h100:1");
    struct plan_request request = ask(&o, "megatron-core-0.16");
    struct recompute_levels levels;
    assert_int_equal(recompute_levels(&request, &levels), WEFT_OK);
    assert_int_equal(levels.len, MOST_RECOMPUTE_LEVELS);
    assert_int_equal(levels.level[0].recompute, RECOMPUTE_NONE);
    assert_int_equal(levels.level[levels.len - 1].recompute, RECOMPUTE_FULL);
    for (int i = 2; i < levels.len - 1; i++) {
        struct measured less = measure_level(&o, &request, &levels.level[i - 1]);
        struct measured more = measure_level(&o, &request, &levels.level[i]);
        unsigned before = levels.level[i - 1].modules, now = levels.level[i].modules;
        assert_int_equal(modules_without_parts(before | now), now);
        assert_true(more.kept_bytes < less.kept_bytes);
        assert_true(more.iteration_ns >= less.iteration_ns);
    }
    close_both(&o);
}

/* ---- L2 -------------------------------------------------------------------------------------- */

static int levels_of(const struct plan_request *request)
{
    struct recompute_levels levels;
    assert_int_equal(recompute_levels(request, &levels), WEFT_OK);
    return levels.len;
}

static void lists_are_tried_where_there_are_any(void **state)
{
    (void)state;
    struct opened o = open_both("deepseek-v3", SMALL, "dgx-h100:1");
    struct plan_request plain = ask(&o, "default"), core = ask(&o, "megatron-core-0.19");
    struct plan_request titan = ask(&o, "torchtitan-2025"), target = plain, pinned = core;
    target.target = target_find("megatron");
    pinned.pins.has_recompute = true;
    pinned.pins.recompute = RECOMPUTE_FULL;
    assert_int_equal(levels_of(&plain), RECOMPUTE_COUNT);
    assert_int_equal(levels_of(&titan), RECOMPUTE_COUNT);
    assert_true(levels_of(&core) > RECOMPUTE_COUNT);
    assert_true(levels_of(&target) > RECOMPUTE_COUNT);
    assert_int_equal(levels_of(&pinned), 1);
    close_both(&o);
}

/* ---- L3 -------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const struct grid_point *x = a, *y = b;
    return x->fits != y->fits
               ? y->fits - x->fits
               : (x->iteration_ns > y->iteration_ns) - (x->iteration_ns < y->iteration_ns);
}

static void the_grid_with_lists_is_exact(void **state)
{
    (void)state;
    static const enum dtype TYPES[] = {DTYPE_BF16, DTYPE_FP8};
    struct opened o = open_both("deepseek-v3", SMALL, "dgx-h100:1");
    for (size_t t = 0; t < (size_t)cases_of(COUNT_OF(TYPES)); t++) {
        struct plan_request request = ask(&o, "megatron-core-0.16");
        struct arena *arena = arena_new();
        struct grid all, best;
        struct cost *cost;
        int lists = 0;
        request.pins.micro_batch = request.pins.tp = request.pins.cp = 1;
        request.pins.pp = 2;
        request.pins.has_dtype = true;
        request.pins.dtype = TYPES[t];
        assert_int_equal(cost_open(&o.cluster->node.device, NULL, &cost), WEFT_OK);
        assert_int_equal(grid_estimate_all(&request, cost, arena, &all), WEFT_OK);
        assert_int_equal(grid_search(&request, cost, 8, arena, &best), WEFT_OK);
        for (size_t i = 0; i < all.best.len; i++) {
            const struct grid_point *p = &all.best.data[i];
            assert_true(p->bound_ns <= p->iteration_ns);
            assert_true(p->bound_bytes <= p->peak_bytes);
            lists += p->degrees.modules != 0;
        }
        assert_true(lists > 0);
        qsort(all.best.data, all.best.len, sizeof *all.best.data, by_time);
        for (size_t i = 0; i < best.best.len; i++)
            assert_int_equal(best.best.data[i].iteration_ns, all.best.data[i].iteration_ns);
        cost_close(cost);
        arena_free(arena);
    }
    close_both(&o);
}

/* ---- L4 -------------------------------------------------------------------------------------- */

static const struct trial *best_of(const struct plan_request *request, struct planned **out)
{
    assert_int_equal(plan_search(planner_find("auto"), request, out), WEFT_OK);
    assert_true((*out)->trials.data[0].fits);
    return &(*out)->trials.data[0];
}

static void a_list_is_found_and_named(void **state)
{
    (void)state;
    struct opened o = open_both("mixtral-8x7b", "layers: 4, seq: 8192", "dgx-h100:1");
    struct plan_request request = ask(&o, "megatron-core-0.16"), plain = ask(&o, "default");
    struct arena *arena = arena_new();
    struct planned *with, *without;
    request.target = target_find("megatron@0.16");
    request.options.quick = true;
    request.pins.tp = request.pins.cp = request.pins.pp = 1;
    request.pins.ep = 8;
    request.pins.micro_batch = 1;
    request.pins.has_shard = true;
    request.pins.shard = 1;
    request.pins.memory.limit_bytes = INT64_C(22) << 30;
    request.pins.has_overlap = true; /* plans that hide tokens have lists of their own */
    request.pins.overlap = OVERLAP_ALL;
    plain = request;
    assert_int_equal(forbid_parse(arena, "recompute=selective", &plain.forbids), WEFT_OK);
    const struct trial *list = best_of(&request, &with), *other = best_of(&plain, &without);
    assert_true(list->iteration_ns < other->iteration_ns);
    assert_true(list->degrees.modules != 0);
    const char *text = trial_value_text(arena, list, DIMENSION_RECOMPUTE);
    assert_non_null(strstr(text, "layernorm"));
    assert_non_null(strstr(list->text, text));
    assert_non_null(next_best(with, DIMENSION_RECOMPUTE));
    planned_free(with);
    planned_free(without);
    arena_free(arena);
    close_both(&o);
}

/* ---- L5 -------------------------------------------------------------------------------------- */

static void other_planners_keep_a_list(void **state)
{
    (void)state;
    static const char *const PLANNERS[] = {"aceso", "galvatron"};
    struct opened o = open_both("mixtral-8x7b", "layers: 2, seq: 512", "dgx-h100:1");
    for (size_t i = 0; i < COUNT_OF(PLANNERS); i++) {
        struct plan_request request = ask(&o, "megatron-core-0.16");
        struct planned *planned;
        struct plan *plan;
        request.pins.has_recompute = true;
        request.pins.recompute = RECOMPUTE_SELECTIVE;
        request.pins.modules = module_from_name("moe_act") | module_from_name("layernorm");
        request.pins.pp = 1;
        request.options.most_configs = 64;
        assert_int_equal(plan_search(planner_find(PLANNERS[i]), &request, &planned), WEFT_OK);
        assert_int_equal(trial_take(&request, &planned->trials.data[0], &plan), WEFT_OK);
        assert_true(plan_recomputes_modules(plan, request.pins.modules));
        plan_free(plan);
        planned_free(planned);
    }
    close_both(&o);
}

/* In 20 GiB activations of all experts are too much; the list that frees them suffices. */
static void layers_choose_a_list(void **state)
{
    (void)state;
    struct opened o = open_both("qwen3-30b-a3b", "layers: 8, seq: 4096", "dgx-h100:1");
    struct plan_request request = ask(&o, "megatron-core-0.16");
    struct planned *planned;
    struct plan *plan;
    request.pins.global_batch = 64;
    request.pins.pp = request.pins.tp = request.pins.cp = 1;
    request.pins.memory.limit_bytes = INT64_C(20) << 30;
    assert_int_equal(plan_search(planner_find("galvatron"), &request, &planned), WEFT_OK);
    assert_int_equal(trial_take(&request, &planned->trials.data[0], &plan), WEFT_OK);
    bool listed = false;
    for (int32_t i = 0; i < plan->choices; i++)
        listed |= plan->choice[i].discard; /* which whole layers do not */
    if (!listed)
        fail_msg("%s", planned->trials.data[0].text);
    plan_free(plan);
    planned_free(planned);
    close_both(&o);
}

/* ---- L6 -------------------------------------------------------------------------------------- */

static struct plan_request ask_for_layers(const struct opened *o)
{
    struct plan_request request = ask(o, "megatron-core-0.16");
    request.pins.dp = 8;
    request.pins.tp = request.pins.pp = request.pins.cp = 1;
    request.pins.micro_batch = 2;
    request.pins.has_shard = true;
    request.pins.shard = 1;
    request.pins.memory.limit_bytes = INT64_C(28) << 30;
    request.options.quick = true;
    return request;
}

/* The fewest, each number simulated by itself. */
static int64_t fewest_layers(const struct opened *o, const struct plan_request *request)
{
    for (int64_t n = 1; n <= o->model->layers; n++) {
        struct degrees d = request->pins;
        d.recompute = RECOMPUTE_FULL;
        d.recompute_layers = n;
        struct plan *plan = plan_of(o, d);
        struct prediction *p;
        assert_int_equal(simulate(plan, &(struct simulate_options){0}, &p), WEFT_OK);
        bool fits = p->fits;
        prediction_free(p);
        plan_free(plan);
        if (fits)
            return n;
    }
    return 0;
}

static void the_fewest_layers_are_found(void **state)
{
    (void)state;
    struct opened o = open_both("llama3.2-1b", "seq: 8192", "dgx-a100:1");
    struct plan_request request = ask_for_layers(&o);
    int64_t fewest = fewest_layers(&o, &request);
    assert_true(fewest > 1 && fewest < o.model->layers);
    static const char *const PLANNERS[] = {"auto", "megatron"};
    for (size_t i = 0; i < COUNT_OF(PLANNERS); i++) {
        struct planned *planned;
        char words[32];
        snprintf(words, sizeof words, "recompute-layers %lld", (long long)fewest);
        assert_int_equal(plan_search(planner_find(PLANNERS[i]), &request, &planned), WEFT_OK);
        if (!strstr(planned->trials.data[0].text, words))
            fail_msg("%s: %s, not %s", PLANNERS[i], planned->trials.data[0].text, words);
        assert_true(planned->trials.data[0].fits);
        planned_free(planned);
    }
    close_both(&o);
}

static void a_number_of_layers_stays(void **state)
{
    (void)state;
    struct opened o = open_both("llama3.2-1b", "seq: 8192", "dgx-a100:1");
    struct plan_request request = ask_for_layers(&o);
    struct planned *planned;
    request.pins.has_recompute = true;
    request.pins.recompute = RECOMPUTE_FULL;
    request.pins.recompute_layers = 15;
    assert_int_equal(plan_search(planner_find("auto"), &request, &planned), WEFT_OK);
    for (size_t i = 0; i < planned->trials.len; i++)
        assert_int_equal(planned->trials.data[i].degrees.recompute_layers, 15);
    planned_free(planned);
    close_both(&o);
}

/* ---- L7 -------------------------------------------------------------------------------------- */

static int64_t recomputed(const struct plan *plan, bool discards)
{
    int64_t count = 0;
    for (int64_t i = 0; i < plan->instances; i++)
        count += plan_choice(plan, i)->recompute && plan_choice(plan, i)->discard == discards;
    return count;
}

/* Of two layers, all of the first of each part, and nothing of the others. */
static bool has_first_layers(const struct plan *plan)
{
    for (int32_t p = 0; p < plan->parts; p++) {
        int64_t layer = 0;
        for (int64_t i = plan->part[p].first; i < plan->part[p].first + plan->part[p].count; i++) {
            bool inside = op_in_layer(plan->model, &plan->model->op[plan->instance[i].op]);
            if (plan_choice(plan, i)->recompute != (inside && layer == 0))
                return false;
            layer += plan->ends_layer[i];
        }
    }
    return true;
}

/* Scores, softmax and context of each layer. */
static bool has_scores(const struct plan *plan)
{
    for (int64_t i = 0; i < plan->instances; i++) {
        enum op_kind kind = plan->model->op[plan->instance[i].op].kind;
        if (kind == OP_SCORE && !plan_choice(plan, i)->recompute)
            return false;
        if (kind == OP_LINEAR && plan_choice(plan, i)->recompute)
            return false;
    }
    return recomputed(plan, true) == 0;
}

static bool has_modules(const struct plan *plan)
{
    return recomputed(plan, true) > 0 &&
           plan_recomputes_modules(plan, module_from_name("moe") | module_from_name("layernorm"));
}

static bool has_checkpoints_away(const struct plan *plan)
{
    for (int64_t i = 0; i < plan->instances; i++)
        if (op_in_layer(plan->model, &plan->model->op[plan->instance[i].op]) &&
            plan_choice(plan, i)->offload != OFFLOAD_CHECKPOINTS)
            return false;
    return true;
}

static bool has_kept_away(const struct plan *plan)
{
    return plan_offload_modules(plan) == offload_from_name("qkv_linear");
}

/* Every trial of every planner that says of each layer or operator what it does, whichever of them its search knows. */
static void every_planner_keeps_every_pin(void **state)
{
    (void)state;
    static const char *const PLANNERS[] = {"galvatron", "aceso", "autoddl"};
    static const struct {
        const char *recompute;
        int64_t layers;
        bool offload;
        const char *away;
        bool (*has)(const struct plan *plan);
    } PINS[] = {
        {"full", 1, false, "none", has_first_layers},
        {"selective", 0, false, "none", has_scores},
        {"moe,layernorm", 0, false, "none", has_modules},
        {"full", 0, true, "none", has_checkpoints_away},
        {"none", 0, false, "qkv_linear", has_kept_away},
    };
    struct opened o = open_both(
        "gpt3-350m", "layers: 2, seq: 512, attention: fused, experts: 8, top_k: 1", "dgx-a100:1");
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(PLANNERS) * COUNT_OF(PINS); i++) {
        size_t p = i % COUNT_OF(PINS);
        if (!is_tried(i))
            continue;
        struct plan_request request = ask(&o, "default");
        struct planned *planned;
        assert_true(recompute_parse(arena, PINS[p].recompute, &request.pins));
        assert_true(offload_parse(arena, PINS[p].away, &request.pins.offload_modules));
        request.pins.has_recompute = true;
        request.pins.recompute_layers = PINS[p].layers;
        request.pins.offload = PINS[p].offload;
        request.options.most_configs = 64;
        const char *name = PLANNERS[i / COUNT_OF(PINS)];
        if (plan_search(planner_find(name), &request, &planned))
            fail_msg("%s, %s: %s", name, PINS[p].recompute, weft_last_error()->message);
        for (size_t t = 0; t < planned->trials.len; t++) {
            struct plan *plan;
            assert_int_equal(trial_take(&request, &planned->trials.data[t], &plan), WEFT_OK);
            if (!PINS[p].has(plan))
                fail_msg("%s, %s, row %zu: %s", name, PINS[p].recompute, p,
                         planned->trials.data[t].text);
            plan_free(plan);
        }
        planned_free(planned);
    }
    arena_free(arena);
    close_both(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_recompute_more_and_more),
        cmocka_unit_test(the_first_module_frees_most),
        cmocka_unit_test(lists_are_tried_where_there_are_any),
        cmocka_unit_test(the_grid_with_lists_is_exact),
        cmocka_unit_test(a_list_is_found_and_named),
        cmocka_unit_test(other_planners_keep_a_list),
        cmocka_unit_test(layers_choose_a_list),
        cmocka_unit_test(the_fewest_layers_are_found),
        cmocka_unit_test(a_number_of_layers_stays),
        cmocka_unit_test(every_planner_keeps_every_pin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
