/* test_reshard_bound.c - the lower bounds of a reshard (layout_bound.c) beside what devices and nodes receive,
 * counted element by element.
 *
 *   L1  Between any two layouts without partial sums, neither bound exceeds what a device receives on average,
 *       nor what a node does; the one by splits is just that for most layouts whose splits do not overlap in part.
 *   L2  Partial sums and parts of a tensor, by hand.
 *   L3  The bound of a pair of options is at most its time, also where products hide reshards.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "autoddl_problem.h"
#include "random_plan.h"
#include "search/autoddl/layout_room.h"

/* ---- L1 -------------------------------------------------------------------------------------- */

enum { PRIMES = 6, ELEMENTS = 2 * 2 * 2 * 2 * 3 * 3 };

/* A layout over so many devices: its digits split the elements at strides of a random order of primes, or
 * hold copies. */
static struct layout draw_layout(struct rng *rng, int64_t devices)
{
    int64_t prime[PRIMES] = {2, 2, 2, 2, 3, 3}, stride[PRIMES], at = 1;
    struct layout layout = layout_none(ELEMENTS);
    for (int i = PRIMES - 1; i > 0; i--) {
        int j = (int)rng_below(rng, i + 1);
        int64_t other = prime[j];
        prime[j] = prime[i];
        prime[i] = other;
    }
    for (int i = 0; i < PRIMES; at *= prime[i++])
        stride[i] = at;
    while (devices > 1) {
        int i = (int)rng_below(rng, PRIMES + 2);
        int64_t copies = devices % 2 ? 3 : 2;
        if (i >= PRIMES) {
            assert_true(layout_add(&layout, copies, HOLD_COPY));
            devices /= copies;
        } else if (stride[i] && devices % prime[i] == 0) {
            assert_true(layout_add(&layout, prime[i], stride[i]));
            stride[i] = 0;
            devices /= prime[i];
        }
    }
    return layout;
}

static bool holds(const struct layout *layout, int64_t device, int64_t element)
{
    for (int64_t i = layout->digits - 1; i >= 0; device /= layout->digit[i--].degree) {
        const struct layout_digit *digit = &layout->digit[i];
        if (digit->hold > 0 && element / digit->hold % digit->degree != device % digit->degree)
            return false;
    }
    return true;
}

static bool any_holds(const struct layout *layout, int64_t first, int64_t devices, int64_t element)
{
    bool any = false;
    for (int64_t i = 0; i < devices; i++)
        any |= holds(layout, first + i, element);
    return any;
}

/* Elements that a node of so many devices wants and does not have, on average over all nodes. */
static double received(const struct layout *from, const struct layout *to, int64_t within)
{
    int64_t devices = layout_devices(from), sum = 0;
    for (int64_t first = 0; first < devices; first += within)
        for (int64_t f = 0; f < ELEMENTS; f++)
            sum += any_holds(to, first, within, f) && !any_holds(from, first, within, f);
    return (double)(sum * within) / (double)devices;
}

static bool overlap_in_part(const struct layout_digit *a, const struct layout_digit *b)
{
    return a->hold > 0 && b->hold > 0 && a->hold % (b->hold * b->degree) &&
           b->hold % (a->hold * a->degree) && (a->hold != b->hold || a->degree != b->degree);
}

static bool overlap(const struct layout *a, const struct layout *b)
{
    for (int64_t i = 0; i < a->digits; i++)
        for (int64_t k = 0; k < b->digits; k++)
            if (overlap_in_part(&a->digit[i], &b->digit[k]))
                return true;
    return false;
}

/* Devices whose links take one nanosecond per byte, or nodes. */
struct links {
    struct cluster cluster;
    struct layout_work work;
    struct layout_problem problem;
};

static void make_links(struct links *l, int64_t within, double byte_ns, double node_byte_ns)
{
    l->cluster = (struct cluster){.node.devices = within};
    l->work = (struct layout_work){.byte_ns = byte_ns, .node_byte_ns = node_byte_ns};
    l->problem = (struct layout_problem){.about.cluster = &l->cluster, .work = &l->work};
}

static void bounds_are_below_what_is_received(void **state)
{
    static const int64_t SHAPES[][2] = {{8, 2}, {8, 4}, {12, 2}, {12, 3}, {12, 4}, {12, 6}, {9, 3}};
    enum { ROUNDS = 2000 };
    int exact = 0, known = 0;
    struct rng rng;
    (void)state;
    rng_seed(&rng, 21);
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t *shape = SHAPES[i % (int)COUNT_OF(SHAPES)];
        struct layout from = draw_layout(&rng, shape[0]), to = draw_layout(&rng, shape[0]);
        for (int nodes = 0; nodes < 2; nodes++) {
            struct links l;
            make_links(&l, shape[1], !nodes, nodes);
            double all = received(&from, &to, nodes ? shape[1] : 1) * (1 + 1e-9);
            double least = layout_least_of_reshard(&l.problem, &from, &to, 1);
            assert_true(least <= all);
            assert_true(layout_least_by_degrees(&l.problem, &from, &to, 1) <= all);
            known += !nodes && !overlap(&from, &to);
            exact += !nodes && !overlap(&from, &to) && least >= all * (1 - 1e-8);
        }
    }
    print_message("%d of %d pairs of layouts do not overlap, %d bounds are exact\n", known, ROUNDS,
                  exact);
    assert_true(2 * exact > known);
}

/* ---- L2 -------------------------------------------------------------------------------------- */

struct digits {
    int64_t elements;
    struct layout_digit digit[3]; /* degree 0: there are no more */
};

static struct layout lay(const struct digits *digits)
{
    struct layout layout = layout_none(digits->elements);
    for (size_t i = 0; i < COUNT_OF(digits->digit) && digits->digit[i].degree; i++)
        assert_true(layout_add(&layout, digits->digit[i].degree, digits->digit[i].hold));
    return layout;
}

static void sums_and_parts_by_hand(void **state)
{
    static const struct {
        const char *what;
        struct digits from, to;
        bool floor_only;
        double least, by_degrees; /* elements per device */
    } CASES[] = {
        {"two splits that change places: half of the devices have all they want",
         {8, {{2, 4}, {2, 1}}},
         {8, {{2, 1}, {2, 4}}},
         false,
         1,
         0},
        {"each device adds its fourth of two addends that two devices have each",
         {8, {{2, HOLD_PARTIAL}, {2, HOLD_COPY}}},
         {8, {{4, 2}}},
         false,
         2,
         2},
        {"the same for all: each fourth comes from three others",
         {8, {{2, HOLD_PARTIAL}, {2, HOLD_COPY}}},
         {8, {{4, HOLD_COPY}}},
         true,
         8,
         8},
        {"of a sum only a half is read", {8, {{2, HOLD_PARTIAL}}}, {4, {{2, 2}}}, false, 2, 2},
        {"a part goes back into its whole, of which the rest is nobody's",
         {8, {{4, 2}}},
         {32, {{4, 8}}},
         false,
         0,
         0},
        {"a gather", {8, {{4, 2}}}, {8, {{4, HOLD_COPY}}}, false, 6, 6},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct layout from = lay(&CASES[i].from), to = lay(&CASES[i].to);
        struct links l;
        make_links(&l, 4, 1, 0);
        l.work.floor_only = CASES[i].floor_only;
        double least = layout_least_of_reshard(&l.problem, &from, &to, 1);
        double by_degrees = layout_least_by_degrees(&l.problem, &from, &to, 1);
        if (fabs(least - CASES[i].least) > 1e-9 || fabs(by_degrees - CASES[i].by_degrees) > 1e-9)
            fail_msg("%s: %g and %g", CASES[i].what, least, by_degrees);
    }
}

/* ---- L3 -------------------------------------------------------------------------------------- */

static void pairs_take_at_least_their_bound(void **state)
{
    static const struct layout_exposed EXPOSED[] = {{1, 1}, {0.25, 0.5}, {0.5, LAYOUT_BESIDE}};
    struct cluster *cluster = open_named("dgx-a100:2x2");
    struct model *model;
    struct cost *cost;
    struct rng rng;
    int some = 0;
    (void)state;
    rng_seed(&rng, 22);
    assert_int_equal(model_open("gpt3-1.3b", "layers: 2, seq: 512", &model), WEFT_OK);
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    for (size_t k = 0; k < COUNT_OF(EXPOSED); k++) {
        struct layout_problem *p = open_problem(model, cluster, cost, 8, 1);
        layout_expose(p, EXPOSED[k]);
        for (int i = 0; i < rounds_of(300); i++) {
            int32_t edge = (int32_t)rng_below(&rng, p->assign->edges);
            const struct layout_uses *uses = &p->work->edges.data[edge];
            int32_t a = (int32_t)rng_below(&rng, p->assign->options[uses->a]);
            int32_t b = (int32_t)rng_below(&rng, p->assign->options[uses->b]);
            if (uses->tie)
                continue;
            double least = layout_least_of_pair(p, edge, a, b);
            assert_true(least <= assign_pair_time(p->assign, edge, a, b) * (1 + 1e-9));
            some += least > 0;
        }
        layout_problem_free(p);
    }
    assert_true(some > 0);
    cost_close(cost);
    model_free(model);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_below_what_is_received),
        cmocka_unit_test(sums_and_parts_by_hand),
        cmocka_unit_test(pairs_take_at_least_their_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
