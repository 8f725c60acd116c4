/* test_space.c - Galvatron-BMW's decision trees: their counts, their leaves by name, their splits.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "search/galvatron/words.h"
#include "search/search.h"

/* ---- counting -------------------------------------------------------------------------------- */

static size_t count_group(const struct space *space, int64_t group)
{
    struct arena *arena = arena_new();
    struct strategies strategies = {0};
    space_strategies(arena, space, group, &strategies);
    size_t count = strategies.len;
    arena_free(arena);
    return count;
}

static size_t count_all(const struct space *space, int64_t devices)
{
    struct arena *arena = arena_new();
    struct pp_degrees pp = {0};
    size_t count = 0;
    space_pp_degrees(arena, space, devices, &pp);
    for (size_t i = 0; i < pp.len; i++)
        count += count_group(space, devices / pp.data[i]);
    arena_free(arena);
    return count;
}

/* Section III-B: 68 strategies of 8 devices, 44 after takeaway #3; half of them without CKPT. */
static void counts_of_the_paper(void **unused)
{
    (void)unused;
    struct space mixed = *space_find("bmw"), mixed_plain = *space_find("galvatron");
    mixed.flags |= SPACE_MIX;
    mixed_plain.flags |= SPACE_MIX;
    assert_int_equal(count_all(&mixed, 8), 68);
    assert_int_equal(count_all(space_find("bmw"), 8), 44);
    assert_int_equal(count_all(space_find("base"), 8), 44);
    assert_int_equal(count_all(&mixed_plain, 8), 34);
    assert_int_equal(count_all(space_find("galvatron"), 8), 22);
    assert_int_equal(count_all(space_find("bi-obj"), 8), 22);
    assert_int_equal(count_all(space_find("galvatron"), 16), 37);
    assert_int_equal(count_all(space_find("galvatron"), 32), 56);
    assert_int_equal(count_all(space_find("galvatron"), 64), 79);
    for (int g = 1; g <= 10; g++)
        assert_int_equal(count_group(space_find("galvatron"), 1LL << g), 4 * g - 1);
    assert_int_equal(count_group(space_find("galvatron"), 1), 1);
}

/* The rows of Table II on 8 devices. */
static void counts_of_the_rows(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        size_t count;
    } ROWS[] = {{"dp", 1},    {"tp", 1},    {"pp", 1},         {"sdp", 1},   {"3d", 1},
                {"dp+tp", 6}, {"dp+pp", 4}, {"galvatron", 22}, {"base", 44}, {"bmw", 44}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++)
        assert_int_equal(count_all(space_find(ROWS[i].name), 8), ROWS[i].count);
    assert_null(space_find("4d"));
    const struct space *all;
    assert_true(space_all(&all) > COUNT_OF(ROWS));
}

/* ---- names ----------------------------------------------------------------------------------- */

struct names {
    const char **data;
    size_t len, cap;
};

static void name_all(struct arena *arena, const struct space *space, int64_t devices,
                     struct names *out)
{
    struct pp_degrees pp = {0};
    space_pp_degrees(arena, space, devices, &pp);
    for (size_t i = 0; i < pp.len; i++) {
        struct strategies strategies = {0};
        space_strategies(arena, space, devices / pp.data[i], &strategies);
        for (size_t s = 0; s < strategies.len; s++)
            array_push(arena, out, strategy_text(arena, &strategies.data[s], pp.data[i]));
    }
}

static bool holds(const struct names *names, const char *name)
{
    size_t found = 0;
    for (size_t i = 0; i < names->len; i++)
        found += strcmp(names->data[i], name) == 0;
    assert_true(found <= 1);
    return found == 1;
}

static void names_of_8_devices(void **unused)
{
    (void)unused;
    static const char *const EXPECTED[] = {
        "1-1-8",   "1-1-8f",  "1-2-4*", "1-2-4f*", "1-2*-4", "1-2*-4f", "1-4-2*",  "1-4-2f*",
        "1-4*-2",  "1-4*-2f", "1-8-1",  "2-1-4",   "2-1-4f", "2-2-2*",  "2-2-2f*", "2-2*-2",
        "2-2*-2f", "2-4-1",   "4-1-2",  "4-1-2f",  "4-2-1",  "8-1-1"};
    struct arena *arena = arena_new();
    struct names names = {0};
    name_all(arena, space_find("galvatron"), 8, &names);
    assert_int_equal(names.len, COUNT_OF(EXPECTED));
    for (size_t i = 0; i < COUNT_OF(EXPECTED); i++)
        assert_true(holds(&names, EXPECTED[i]));
    arena_free(arena);
}

static void names_of_the_rows(void **unused)
{
    (void)unused;
    static const struct {
        const char *space, *name;
    } ROWS[] = {{"dp", "1-1-8"},   {"tp", "1-8-1"},  {"pp", "8-1-1"},
                {"sdp", "1-1-8f"}, {"3d", "2-2*-2"}, {"bmw", "2-2*-2f-c"}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct arena *arena = arena_new();
        struct names names = {0};
        name_all(arena, space_find(ROWS[i].space), 8, &names);
        assert_true(holds(&names, ROWS[i].name));
        arena_free(arena);
    }
}

/* Every name of a space is its own, also with DP inside SDP and with all of Weft's ways. */
static void names_are_distinct(void **unused)
{
    (void)unused;
    struct space all = *space_find("weft");
    all.flags |= SPACE_MIX;
    struct arena *arena = arena_new();
    struct names names = {0};
    name_all(arena, &all, 12, &names);
    assert_true(names.len > 200);
    for (size_t i = 0; i < names.len; i++)
        assert_true(holds(&names, names.data[i]));
    arena_free(arena);
}

/* ---- strategies ------------------------------------------------------------------------------ */

/* Ordered factorisations of 12 into two ways: 12 alone twice; 2*6, 6*2, 3*4, 4*3 in two orders. */
static void groups_of_any_size(void **unused)
{
    (void)unused;
    assert_int_equal(count_group(space_find("dp+tp"), 12), 2 + 4 * 2);
    assert_int_equal(count_group(space_find("dp+tp"), 7), 2);
    assert_int_equal(count_all(space_find("dp+pp"), 12), 6);
}

static void invariants_of_weft(void **unused)
{
    (void)unused;
    struct arena *arena = arena_new();
    struct strategies strategies = {0};
    space_strategies(arena, space_find("weft"), 24, &strategies);
    for (size_t i = 0; i < strategies.len; i++) {
        const struct strategy *s = &strategies.data[i];
        bool sdp = strategy_degree(s, WAY_SDP) > 1, dp = strategy_degree(s, WAY_DP) > 1;
        assert_int_equal(strategy_devices(s), 24);
        assert_false(sdp && dp);
        assert_int_equal(s->shard == 3, sdp);
        assert_true(s->shard % 3 == 0 || dp);
        assert_true(!s->sequence || strategy_degree(s, WAY_TP) > 1);
    }
    arena_free(arena);
}

static void names(void **unused)
{
    (void)unused;
    struct arena *arena = arena_new();
    struct strategy strategy = {
        3, {{WAY_SDP, 2}, {WAY_EP, 4}, {WAY_TP, 2}}, .shard = 3, .recompute = true};
    assert_string_equal(strategy_text(arena, &strategy, 2), "2-2*-2f-ep4**-c");
    arena_free(arena);
}

/* Answers name strategies in the words of the command line, and count layers, not what is around them. */
static void plans_in_words(void **unused)
{
    (void)unused;
    struct arena *arena = arena_new();
    struct strategy sharded = {1, {{WAY_SDP, 8}}, .shard = 3, .recompute = true};
    struct strategy experts = {
        3, {{WAY_DP, 2}, {WAY_EP, 2}, {WAY_TP, 2}}, .shard = 1, .sequence = true};
    struct strategy turned = {3, {{WAY_TP, 2}, {WAY_SDP, 2}, {WAY_DP, 2}}, .shard = 3};
    struct strategy layer[] = {sharded, sharded, sharded, experts, turned};
    struct layer_source source = {.layers = 5, .around = (const bool[5]){true}};
    struct layer_plan plan = {.global_batch = 32,
                              .micro_batches = 1,
                              .stages = 1,
                              .count = (int32_t[]){5},
                              .strategy = layer};
    assert_string_equal(layer_plan_text(arena, &source, &plan),
                        "2 layers dp 8 zero 3 recompute full, "
                        "1 layer dp 4 tp 2 sp ep 2 zero 1, "
                        "1 layer dp 4 tp 2 outside zero 3 replicate 2, 32 samples per step");
    layer[3] = layer[4] = sharded;
    plan.stages = 2, plan.micro_batches = 4, plan.count = (int32_t[]){3, 2};
    assert_string_equal(layer_plan_text(arena, &source, &plan),
                        "pp 2 (2+2 layers), dp 8 zero 3 recompute full, 8 samples per step");
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_of_the_paper), cmocka_unit_test(counts_of_the_rows),
        cmocka_unit_test(names_of_8_devices),  cmocka_unit_test(names_of_the_rows),
        cmocka_unit_test(names_are_distinct),  cmocka_unit_test(groups_of_any_size),
        cmocka_unit_test(invariants_of_weft),  cmocka_unit_test(names),
        cmocka_unit_test(plans_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
