/* test_places.c - which places between instances are alike (search/estimate/places.h), against the definition: the operators
 * next to a place, and for each open tensor who makes it and who reads it as which input.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/outline.h"
#include "random_plan.h"
#include "search/estimate/places.h"

static int64_t op_at(const struct outline *outline, int64_t instance)
{
    return outline->graph->plan->instance[instance].op;
}

/* Whether some tensor that is open at `place` goes from an operator to this input of another one. */
static bool is_open(const struct outline *outline, int64_t place, int64_t from, int64_t to,
                    int64_t operand)
{
    for (int64_t r = place; r < outline->graph->plan->instances; r++) {
        int64_t u = outline->use_first[r] + operand;
        if (op_at(outline, r) == to && u < outline->use_first[r + 1] && outline->source[u] >= 0 &&
            outline->source[u] < place && op_at(outline, outline->source[u]) == from)
            return true;
    }
    return false;
}

/* Whether all that is open at one place is open at the other. */
static bool opens_within(const struct outline *outline, int64_t one, int64_t other)
{
    for (int64_t r = one; r < outline->graph->plan->instances; r++)
        for (int64_t u = outline->use_first[r]; u < outline->use_first[r + 1]; u++)
            if (outline->source[u] >= 0 && outline->source[u] < one &&
                !is_open(outline, other, op_at(outline, outline->source[u]), op_at(outline, r),
                         u - outline->use_first[r]))
                return false;
    return true;
}

static bool are_alike(const struct outline *outline, int64_t one, int64_t other)
{
    return op_at(outline, one - 1) == op_at(outline, other - 1) &&
           op_at(outline, one) == op_at(outline, other) && opens_within(outline, one, other) &&
           opens_within(outline, other, one);
}

static void check_places(const struct outline *outline, const struct places *places)
{
    int64_t instances = outline->graph->plan->instances;
    for (int64_t i = 1; i < instances; i++) {
        assert_in_range(places->kind_of[i], 0, places->kinds - 1);
        assert_int_equal(places->kind_of[places->stand_in[places->kind_of[i]]], places->kind_of[i]);
        for (int64_t k = 1; k < i; k++)
            if (op_at(outline, i) == op_at(outline, k)) /* others are never of one kind */
                assert_int_equal(places->kind_of[i] == places->kind_of[k],
                                 are_alike(outline, i, k));
            else
                assert_int_not_equal(places->kind_of[i], places->kind_of[k]);
    }
}

static void kinds_are_what_is_open(void **state)
{
    (void)state;
    struct cluster *cluster;
    assert_int_equal(cluster_open("dgx-a100:1x1", &cluster), WEFT_OK);
    for (int m = 0; m < SMALL_MODEL_COUNT; m++) {
        struct model *model = open_small(&SMALL_MODELS[m]);
        struct arena *keep = arena_new();
        struct degrees d = {.dp = 1};
        struct outline outline;
        struct plan *plan;
        assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
        assert_int_equal(outline_compile(plan, &outline), WEFT_OK);
        struct places places = places_of_model(keep, &outline);
        check_places(&outline, &places);
        outline_free(&outline);
        plan_free(plan);
        arena_free(keep);
        model_free(model);
    }
    cluster_free(cluster);
}

enum { MOST_INSTANCES = 14, OPERATORS = 4, INPUTS = 2 };

/* Few operators, so that they come again, in any order, also without readers. */
static void draw_outline(struct rng *rng, struct plan *plan, struct outline *outline)
{
    plan->instances = 2 + rng_below(rng, MOST_INSTANCES - 1);
    for (int64_t i = 0, use = 0; i < plan->instances; i++) {
        plan->instance[i].op = (int32_t)rng_below(rng, OPERATORS);
        outline->use_first[i] = use;
        for (int64_t inputs = rng_below(rng, INPUTS + 1); inputs > 0; inputs--)
            outline->source[use++] = rng_below(rng, i + 1) - 1;
        outline->use_first[i + 1] = use;
    }
}

static void kinds_of_any_order(void **state)
{
    (void)state;
    struct instance instance[MOST_INSTANCES] = {{0}};
    int64_t use_first[MOST_INSTANCES + 1], source[INPUTS * MOST_INSTANCES];
    struct plan plan = {.instance = instance};
    struct graph graph = {.plan = &plan};
    struct outline outline = {.graph = &graph, .use_first = use_first, .source = source};
    struct rng rng;
    rng_seed(&rng, 7);
    for (int i = 0; i < 4000; i++) {
        struct arena *keep = arena_new();
        draw_outline(&rng, &plan, &outline);
        struct places places = places_of_model(keep, &outline);
        check_places(&outline, &places);
        arena_free(keep);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kinds_are_what_is_open),
                                       cmocka_unit_test(kinds_of_any_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
