/* test_reshard.c - reshards between layouts: what arrives (reshard_machine.h executes them), and that no
 * other path moves less.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/path.h"
#include "reshard_machine.h"
#include "rounds.h"

/* ---- every pair ------------------------------------------------------------------------------ */

enum { MAX_LAYOUTS = 2048 };
struct layouts {
    int count;
    struct layout all[MAX_LAYOUTS];
};

static void add_distinct(struct layouts *list, const struct layout *layout)
{
    for (int i = 0; i < list->count; i++)
        if (layout_equal(&list->all[i], layout))
            return;
    assert_true(list->count < MAX_LAYOUTS);
    list->all[list->count++] = *layout;
}

/* All layouts on `devices` more, inside what `begun` has: every degree, hold and stride. */
static void enumerate(struct layouts *list, const struct layout *begun, int64_t devices)
{
    if (devices == 1)
        add_distinct(list, begun);
    for (int64_t degree = 2; degree <= devices; degree++)
        for (int64_t hold = HOLD_PARTIAL; devices % degree == 0 && hold <= begun->elements;
             hold++) {
            struct layout next = *begun;
            if (hold > 0 && !independent(begun, degree, hold))
                continue;
            layout_add(&next, degree, hold);
            enumerate(list, &next, devices / degree);
        }
}

/* Strides stand for axes and for dims inside axes, so 16 elements are all of 16, 2 x 8, 4 x 4,
 * 2 x 2 x 4, ..., with contiguous and strided splits. */
static void test_all_pairs_of_layouts(void **state)
{
    (void)state;
    static const struct {
        int64_t devices, elements;
    } CASES[] = {{1, 4},  {2, 12}, {3, 18}, {4, 16}, {4, 24},
                 {5, 25}, {6, 36}, {7, 49}, {8, 16}, {8, 32}};
    static struct layouts list;
    for (size_t c = 0; c < COUNT_OF(CASES); c++) {
        struct reshards *reshards = reshards_new();
        struct layout none = layout_none(CASES[c].elements);
        list.count = 0;
        enumerate(&list, &none, CASES[c].devices);
        for (int i = 0; i < list.count; i++)
            for (int k = 0; k < list.count; k++)
                if (!has_partial(&list.all[k]))
                    verify(reshard_within(reshards, &list.all[i], &list.all[k]), &list.all[i],
                           &list.all[k]);
        reshards_free(reshards);
        printf("%lld devices, %lld elements, %d layouts\n", (long long)CASES[c].devices,
               (long long)CASES[c].elements, list.count);
        print_seen("  all pairs");
    }
}

/* ---- random pairs ---------------------------------------------------------------------------- */

static void test_random_pairs(void **state)
{
    (void)state;
    static const struct {
        int64_t devices, elements;
    } CASES[] = {{12, 144}, {12, 288}, {16, 256}, {16, 192}, {24, 576}, {24, 288}, {18, 324}};
    struct reshards *reshards = reshards_new();
    struct rng rng;
    rng_seed(&rng, 1);
    for (size_t c = 0; c < COUNT_OF(CASES); c++)
        for (int i = 0; i < rounds_of(700); i++) {
            struct layout from = random_layout(&rng, CASES[c].elements, CASES[c].devices, true);
            struct layout to = random_layout(&rng, CASES[c].elements, CASES[c].devices, false);
            verify(reshard_within(reshards, &from, &to), &from, &to);
        }
    reshards_free(reshards);
    print_seen("random pairs");
}

/* Seven binary digits that all change are more than a search takes: all is gathered and sliced. */
static void test_many_digits(void **state)
{
    (void)state;
    enum { DIGITS = 7 };
    struct reshards *reshards = reshards_new();
    for (int shift = 1; shift < DIGITS; shift++) {
        struct layout from = layout_none(256), to = from;
        for (int i = 0; i < DIGITS; i++) {
            layout_add(&from, 2, i ? INT64_C(1) << i : HOLD_PARTIAL);
            layout_add(&to, 2, INT64_C(1) << (i + shift) % DIGITS);
        }
        assert_int_equal(from.digits, DIGITS);
        verify(reshard_within(reshards, &from, &to), &from, &to);
    }
    reshards_free(reshards);
    print_seen("many digits");
}

static void test_random_pairs_between_stages(void **state)
{
    (void)state;
    static const int64_t DEVICES[] = {1, 2, 3, 4, 6, 8, 12};
    struct reshards *reshards = reshards_new();
    struct rng rng;
    rng_seed(&rng, 2);
    for (size_t a = 0; a < COUNT_OF(DEVICES); a++)
        for (size_t b = 0; b < COUNT_OF(DEVICES); b++)
            for (int i = 0; i < rounds_of(60); i++) {
                struct layout from = random_layout(&rng, 144, DEVICES[a], true);
                struct layout to = random_layout(&rng, 144, DEVICES[b], false);
                const struct reshard *reshard = reshard_between(reshards, &from, &to, i % 2);
                int64_t had = layout_local(&from), wanted = layout_local(&to);
                verify(reshard, &from, &to);
                if (a == b) /* what crosses is the smaller of the two */
                    assert_true(reshard->step[reshard->send].elements <=
                                (had < wanted ? had : wanted));
            }
    struct layout copies = layout_none(144),
                  parts = copies; /* a receiver's quarter is all it is sent */
    layout_add(&copies, 2, HOLD_COPY);
    layout_add(&parts, 4, 36);
    const struct reshard *quarters = reshard_between(reshards, &copies, &parts, false);
    assert_int_equal(quarters->step[quarters->send].elements, 36);
    reshards_free(reshards);
    print_seen("between stages");
}

/* ---- the least volume ------------------------------------------------------------------------ */

/* All layouts of three binary digits over 16 elements, all steps between any two: the volume of
 * every path's best, by Floyd and Warshall. */
enum { BITS = 3, HOLDS = 6, GRID = HOLDS * HOLDS * HOLDS };
static const int64_t GRID_HOLD[HOLDS] = {HOLD_COPY, HOLD_PARTIAL, 1, 2, 4, 8};
static const int64_t GRID_ELEMENTS = 16;

static bool grid_layout(int state, int64_t *hold, struct layout *layout)
{
    *layout = layout_none(GRID_ELEMENTS);
    unsigned used = 0;
    for (int i = 0; i < BITS; i++, state /= HOLDS) {
        hold[i] = GRID_HOLD[state % HOLDS];
        if (hold[i] > 0 && used & (unsigned)hold[i])
            return false;
        used |= hold[i] > 0 ? (unsigned)hold[i] : 0;
        layout_add(layout, 2, hold[i]);
    }
    return true;
}

/* The volume of one step, infinite where no collective does it. */
static double grid_step(const int64_t *from, const int64_t *to, double in, double out)
{
    static const double NEVER = 1e9;
    int moved = 0, summed = 0, scattered = 0, gathered = 0, sliced = 0, unsummed = 0;
    for (int i = 0; i < BITS; i++) {
        bool moves = from[i] != to[i];
        moved += moves;
        summed += moves && from[i] == HOLD_PARTIAL;
        unsummed += moves && to[i] == HOLD_PARTIAL;
        scattered += moves && from[i] == HOLD_PARTIAL && to[i] > 0;
        gathered += moves && from[i] > 0 && to[i] == HOLD_COPY;
        sliced += moves && from[i] == HOLD_COPY && to[i] > 0;
    }
    double share = 1 - 1.0 / (1 << moved);
    if (unsummed || (summed && summed != moved))
        return NEVER;
    if (sliced == moved)
        return 0;
    if (summed)
        return scattered == moved ? share * in : scattered == 0 ? 2 * share * in : NEVER;
    return gathered == moved ? share * out : in == out ? share * in : NEVER;
}

static void test_least_volume_among_all_paths(void **state)
{
    (void)state;
    static double best[GRID][GRID];
    static struct layout layout[GRID];
    static int64_t hold[GRID][BITS];
    static bool exists[GRID];
    struct reshards *reshards = reshards_new();
    int64_t pairs = 0, equal = 0;
    double worst = 1;
    for (int i = 0; i < GRID; i++)
        exists[i] = grid_layout(i, hold[i], &layout[i]);
    for (int i = 0; i < GRID; i++)
        for (int k = 0; k < GRID; k++)
            best[i][k] = exists[i] && exists[k]
                             ? grid_step(hold[i], hold[k], (double)layout_local(&layout[i]),
                                         (double)layout_local(&layout[k]))
                             : 1e9;
    for (int m = 0; m < GRID; m++)
        for (int i = 0; i < GRID; i++)
            for (int k = 0; k < GRID; k++)
                if (best[i][m] + best[m][k] < best[i][k])
                    best[i][k] = best[i][m] + best[m][k];
    for (int i = 0; i < GRID; i++)
        for (int k = 0; k < GRID; k++) {
            if (!exists[i] || !exists[k] || has_partial(&layout[k]))
                continue;
            double volume = reshard_within(reshards, &layout[i], &layout[k])->volume;
            assert_true(volume >= best[i][k] - 1e-9);
            pairs++;
            equal += volume <= best[i][k] + 1e-9;
            if (best[i][k] > 0 && volume / best[i][k] > worst)
                worst = volume / best[i][k];
        }
    printf("least volume: %lld of %lld pairs, the worst %.3f times the least\n", (long long)equal,
           (long long)pairs, worst);
    assert_true(equal * 100 >= pairs * 92 && worst <= 1.5);
    reshards_free(reshards);
}

/* ---- paths of other sizes -------------------------------------------------------------------- */

/* Digits on a tensor of three axes, each layout's splits of an axis from the inside out. */
static struct mesh draw_mesh(struct rng *rng)
{
    static const int64_t ODD[] = {1, 3, 5, 7, 9, 16};
    int64_t axis[3], used[2][3] = {{1, 1, 1}, {1, 1, 1}}, devices = 1;
    struct mesh mesh = {.elements = 1, .digits = 1 + (int32_t)rng_below(rng, 5)};
    for (int k = 0; k < 3; k++) {
        axis[k] = mesh.elements;
        mesh.elements *= 64 * ODD[rng_below(rng, COUNT_OF(ODD))];
    }
    for (int32_t i = 0; i < mesh.digits; i++) {
        int64_t degree = rng_below(rng, 3) ? 2 : 4, hold[2];
        for (int side = 0; side < 2; side++) {
            int64_t k = rng_below(rng, side == 0 ? 5 : 4);
            hold[side] = k == 4 ? HOLD_PARTIAL : k == 3 ? HOLD_COPY : axis[k] * used[side][k];
            if (k < 3 && used[side][k] * degree > 64)
                hold[side] = HOLD_COPY;
            else if (k < 3)
                used[side][k] *= degree;
        }
        mesh.digit[i] = (struct step_digit){devices, degree, hold[0], hold[1]};
        devices *= degree;
    }
    return mesh;
}

static double volume_of_steps(const struct step_list *steps)
{
    double volume = 0;
    for (size_t i = 0; i < steps->len; i++)
        volume += step_volume(&steps->data[i]);
    return volume;
}

/* A path known from a tensor of another size is what a search of its own finds. */
static void test_paths_of_other_sizes(void **state)
{
    struct arena *keep = arena_new();
    struct paths *paths = paths_new(keep);
    struct rng rng;
    (void)state;
    rng_seed(&rng, 11);
    for (int i = 0; i < rounds_of(3000); i++) {
        struct mesh mesh = draw_mesh(&rng);
        struct step_list own = {0}, known = {0};
        find_path(keep, &mesh, &own);
        paths_find(paths, keep, &mesh, &known);
        assert_int_equal(own.len, known.len);
        assert_true(fabs(volume_of_steps(&own) - volume_of_steps(&known)) <=
                    1e-9 * (double)mesh.elements);
        for (int32_t d = 0; known.len && d < mesh.digits; d++) { /* each digit arrives */
            int64_t hold = mesh.digit[d].before;
            for (size_t s = 0; s < known.len; s++)
                for (int32_t k = 0; k < known.data[s].digits; k++) {
                    const struct step_digit *at = &known.data[s].digit[k];
                    if (at->mesh_stride != mesh.digit[d].mesh_stride)
                        continue;
                    assert_int_equal(at->before, hold);
                    assert_int_equal(at->degree, mesh.digit[d].degree);
                    hold = at->after;
                }
            assert_int_equal(hold, mesh.digit[d].after);
        }
    }
    arena_free(keep);
}

/* Of 24 elements on 2 x 3 x 2 devices, that are copied, divided and summed, each device has a third. */
static void test_only_divided_elements_are_elsewhere(void **state)
{
    (void)state;
    struct layout layout = layout_none(24);
    assert_true(layout_add(&layout, 2, HOLD_COPY));
    assert_int_equal(layout_local(&layout), 24);
    assert_true(layout_add(&layout, 3, 8));
    assert_int_equal(layout_local(&layout), 8);
    assert_true(layout_add(&layout, 2, HOLD_PARTIAL));
    assert_int_equal(layout_local(&layout), 8);
    assert_int_equal(layout_devices(&layout), 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_divided_elements_are_elsewhere),
        cmocka_unit_test(test_all_pairs_of_layouts),
        cmocka_unit_test(test_random_pairs),
        cmocka_unit_test(test_many_digits),
        cmocka_unit_test(test_random_pairs_between_stages),
        cmocka_unit_test(test_least_volume_among_all_paths),
        cmocka_unit_test(test_paths_of_other_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
