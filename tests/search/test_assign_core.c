/* test_assign_core.c - elimination of variables (assign_core.h) against every assignment there is, on random graphs: with
 * one option or several, without edges, in chains and rings, and with more than two neighbours everywhere. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "one_arena.h"
#include "rounds.h"
#include "search/autoddl/assign_core.h"

enum { MOST_VARIABLES = 7, MOST_OPTIONS = 3 };

/* The same graph as numbers, which elimination does not use up. */
struct graph_case {
    int32_t variables, options[MOST_VARIABLES];
    double own[MOST_VARIABLES][MOST_OPTIONS];
    bool edge[MOST_VARIABLES][MOST_VARIABLES]; /* a < b */
    double pair[MOST_VARIABLES][MOST_VARIABLES][MOST_OPTIONS][MOST_OPTIONS];
};

static struct graph_case draw_case(struct rng *rng)
{
    struct graph_case c = {.variables = 1 + (int32_t)rng_below(rng, MOST_VARIABLES)};
    int64_t dense = rng_below(rng, 4); /* of three pairs, how many have an edge */
    for (int32_t a = 0; a < c.variables; a++)
        c.options[a] = 1 + (int32_t)rng_below(rng, MOST_OPTIONS);
    for (int32_t a = 0; a < c.variables; a++) {
        for (int32_t i = 0; i < c.options[a]; i++)
            c.own[a][i] = (double)rng_below(rng, 50);
        for (int32_t b = a + 1; b < c.variables; b++) {
            c.edge[a][b] = rng_below(rng, 3) < dense;
            for (int32_t i = 0; i < c.options[a]; i++)
                for (int32_t j = 0; j < c.options[b]; j++)
                    c.pair[a][b][i][j] = (double)rng_below(rng, 50);
        }
    }
    return c;
}

static struct core core_of(const struct graph_case *c, struct assign_work *work)
{
    struct core core = core_new(arena, c->variables, c->options, work);
    for (int32_t a = 0; a < c->variables; a++) {
        core.own[a] = ARENA_ARRAY(arena, double, (size_t)c->options[a]);
        memcpy(core.own[a], c->own[a], (size_t)c->options[a] * sizeof(double));
        for (int32_t b = a + 1; b < c->variables; b++) {
            if (!c->edge[a][b])
                continue;
            double *pair = ARENA_ARRAY(arena, double, (size_t)(c->options[a] * c->options[b]));
            for (int32_t i = 0; i < c->options[a]; i++)
                for (int32_t j = 0; j < c->options[b]; j++)
                    pair[i * c->options[b] + j] = c->pair[a][b][i][j];
            *core_pair(&core, b, a) = pair;
        }
    }
    return core;
}

static double sum_of(const struct graph_case *c, const int32_t *option)
{
    double sum = 0;
    for (int32_t a = 0; a < c->variables; a++) {
        sum += c->own[a][option[a]];
        for (int32_t b = a + 1; b < c->variables; b++)
            sum += c->edge[a][b] ? c->pair[a][b][option[a]][option[b]] : 0;
    }
    return sum;
}

/* The least of all assignments; with `keep`, of those in which it has option `fixed`. */
static double least_of_all(const struct graph_case *c, int32_t keep, int32_t fixed)
{
    int32_t option[MOST_VARIABLES] = {0}, at = 0;
    double least = INFINITY;
    while (at < c->variables) {
        if (keep < 0 || option[keep] == fixed)
            least = fmin(least, sum_of(c, option));
        for (at = 0; at < c->variables && ++option[at] == c->options[at]; at++)
            option[at] = 0;
    }
    return least;
}

static void the_least_sum_of_all_assignments(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 18);
    for (int round = 0; round < rounds_of(400); round++) {
        struct graph_case c = draw_case(&rng);
        struct assign_work work = {0};
        struct core core = core_of(&c, &work);
        int32_t option[MOST_VARIABLES] = {0}, kept[MOST_OPTIONS][MOST_VARIABLES] = {0};
        int32_t *rows[MOST_OPTIONS] = {kept[0], kept[1], kept[2]};
        double least[MOST_OPTIONS], sum = core_eliminate(arena, &core, option);
        assert_true(sum == least_of_all(&c, -1, 0));
        assert_true(sum_of(&c, option) == sum);
        core = core_of(&c, &work);
        int32_t keep = (int32_t)rng_below(&rng, c.variables);
        core_eliminate_but(arena, &core, keep, least, rows);
        for (int32_t k = 0; k < c.options[keep]; k++) {
            assert_true(least[k] == least_of_all(&c, keep, k));
            assert_int_equal(kept[k][keep], k);
            assert_true(sum_of(&c, kept[k]) == least[k]);
        }
    }
}

/* Two ends, two joints of three options, and one alone: 3 * 3 for each end, 3 * 3 for a joint, then 3 and 3. */
static void work_is_counted(void **state)
{
    (void)state;
    struct graph_case c = {.variables = 5, .options = {3, 3, 3, 3, 3}};
    struct assign_work work = {0};
    for (int32_t a = 0; a < 3; a++)
        c.edge[a][a + 1] = true;
    struct core core = core_of(&c, &work);
    assert_true(core_work(&core) == 9 + 9 + 9 + 3 + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_sum_of_all_assignments),
        cmocka_unit_test(work_is_counted),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
