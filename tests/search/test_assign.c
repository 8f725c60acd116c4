/* test_assign.c - one option for each variable (search/autoddl/assign.h): searches against brute force on random graphs.
 *
 *   P1  The exact search finds what trying everything finds, with memory limited and not; no search
 *       finds more than there is. With less work than the proof takes it ends sooner, and says so.
 *   P2  A descent ends where no single change is better; bounds of edges do not change where it goes.
 *   P3  The constant of Metropolis-Hastings says what is accepted.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autoddl_problem.h"
#include "rounds.h"

enum { MOST_VARIABLES = 7, MOST_EDGES = 24 };

struct shape {
    int32_t variables, edges;
    int32_t end[MOST_EDGES][2];
};

static void add_edge(struct shape *shape, int32_t a, int32_t b)
{
    shape->end[shape->edges][0] = a;
    shape->end[shape->edges++][1] = b;
}

static struct shape chain(int32_t variables)
{
    struct shape shape = {.variables = variables};
    for (int32_t v = 1; v < variables; v++)
        add_edge(&shape, v - 1, v);
    return shape;
}

/* An edge, some of whose edges in turn become two in series or in parallel. */
static struct shape series_parallel(struct rng *rng, int32_t variables)
{
    struct shape shape = {.variables = 2};
    add_edge(&shape, 0, 1);
    while (shape.variables < variables) {
        int32_t *e = shape.end[rng_below(rng, shape.edges)];
        if (rng_below(rng, 3) == 0 && shape.edges + 2 < MOST_EDGES) {
            add_edge(&shape, e[1], e[0]); /* two edges between one pair, in either direction */
            continue;
        }
        int32_t end = e[1], middle = shape.variables++;
        e[1] = middle;
        add_edge(&shape, middle, end);
    }
    return shape;
}

/* Anything, wide graphs among them. */
static struct shape tangle(struct rng *rng, int32_t variables)
{
    struct shape shape = {.variables = variables};
    for (int32_t v = 1; v < variables; v++)
        for (int32_t u = 0; u < v; u++)
            if (rng_below(rng, 3) && shape.edges < MOST_EDGES)
                add_edge(&shape, u, v);
    return shape;
}

static double draw_cost(struct rng *rng, bool small)
{
    return small ? (double)rng_below(rng, 4) : rng_uniform(rng) * 1000;
}

static struct assign *draw_problem(struct arena *keep, struct rng *rng, const struct shape *shape)
{
    int32_t options[MOST_VARIABLES];
    bool small = rng_below(rng, 3) == 0, edges_hold = rng_below(rng, 2);
    double all = 0;
    for (int32_t v = 0; v < shape->variables; v++)
        options[v] = 1 + (int32_t)rng_below(rng, 4);
    struct assign *p = assign_new(keep, shape->variables, options, shape->edges, shape->end);
    for (int32_t v = 0; v < p->variables; v++)
        for (int32_t i = 0; i < options[v]; i++) {
            p->time[v][i] = i && rng_below(rng, 10) == 0 ? INFINITY : draw_cost(rng, small);
            p->memory[v][i] = draw_cost(rng, small);
            all += p->memory[v][i] / options[v];
        }
    for (int32_t e = 0; e < p->edges; e++)
        for (int32_t i = 0; i < options[p->edge[e].a] * options[p->edge[e].b]; i++) {
            p->edge[e].time[i] = draw_cost(rng, small);
            p->edge[e].memory[i] = edges_hold ? draw_cost(rng, small) / 4 : 0;
        }
    if (rng_below(rng, 3))
        p->limit = all * (0.4 + rng_uniform(rng));
    return p;
}

static void check_exact(struct rng *rng, const struct shape *shape)
{
    struct arena *keep = arena_new();
    struct assign *p = draw_problem(keep, rng, shape);
    struct assigned all = solve(p, SEARCH_EXHAUSTIVE, keep), found = solve(p, SEARCH_EXACT, keep);
    struct assigned again = {0};
    assert_int_equal(all.tried, (int64_t)assign_count(p));
    assert_int_equal(found.fits, all.fits);
    assign_evaluate(p, found.option, &again);
    assert_true(fabs(again.time - found.time) <= 1e-9 * (1 + found.time));
    assert_true(fabs(again.memory - found.memory) <= 1e-9 * (1 + found.memory));
    if (all.fits) {
        assert_true(fabs(found.time - all.time) <= 1e-8 * (1 + all.time));
        assert_true(found.bound >= all.time - 1e-6 * (1 + all.time)); /* and says so */
        assert_true(found.bound <= all.time + 1e-6 * (1 + all.time));
    } else {
        assert_true(fabs(found.memory - all.memory) <= 1e-9 * (1 + all.memory));
    }
    arena_free(keep);
}

static void exact_is_exhaustive_on_chains(void **state)
{
    struct rng rng;
    (void)state;
    rng_seed(&rng, 1);
    for (int i = 0; i < 300; i++) {
        struct shape shape = chain(2 + (int32_t)rng_below(&rng, MOST_VARIABLES - 1));
        check_exact(&rng, &shape);
    }
}

static void exact_is_exhaustive_on_series_parallel_graphs(void **state)
{
    struct rng rng;
    (void)state;
    rng_seed(&rng, 2);
    for (int i = 0; i < 300; i++) {
        struct shape shape =
            series_parallel(&rng, 3 + (int32_t)rng_below(&rng, MOST_VARIABLES - 2));
        check_exact(&rng, &shape);
    }
}

static void exact_is_exhaustive_on_any_graph(void **state)
{
    struct rng rng;
    (void)state;
    rng_seed(&rng, 3);
    for (int i = 0; i < rounds_of(200); i++) {
        struct shape shape = tangle(&rng, 2 + (int32_t)rng_below(&rng, MOST_VARIABLES - 1));
        check_exact(&rng, &shape);
    }
}

/* A chain with an edge over each second variable and little room: proving the best takes long. */
static struct assign *long_problem(struct arena *keep, struct rng *rng)
{
    enum { VARIABLES = 60, OPTIONS = 6 };
    int32_t options[VARIABLES], ends[2 * VARIABLES][2], edges = 0;
    for (int32_t v = 0; v < VARIABLES; v++) {
        options[v] = OPTIONS;
        for (int32_t far = 1; far <= 2 && v >= far; far++, edges++)
            ends[edges][0] = v - far, ends[edges][1] = v;
    }
    struct assign *p = assign_new(keep, VARIABLES, options, edges, (const int32_t(*)[2])ends);
    for (int32_t v = 0; v < VARIABLES; v++)
        for (int32_t i = 0; i < OPTIONS; i++) {
            p->time[v][i] = draw_cost(rng, false);
            p->memory[v][i] = 1500 - p->time[v][i] + draw_cost(rng, false);
        }
    for (int32_t e = 0; e < edges; e++)
        for (int32_t i = 0; i < OPTIONS * OPTIONS; i++)
            p->edge[e].time[i] = draw_cost(rng, false) / 4;
    p->limit = 1300.0 * VARIABLES;
    return p;
}

/* A search ends at its bound of work, whatever the problem, always at the same answer, whose bound is still one. */
static void work_is_bounded(void **state)
{
    const double most[] = {1e3, 1e5, 1e6};
    struct arena *keep = arena_new();
    struct rng rng;
    (void)state;
    rng_seed(&rng, 17);
    struct assign *p = long_problem(keep, &rng);
    for (size_t i = 0; i < COUNT_OF(most); i++) {
        struct assigned found[2], again = {0};
        for (int k = 0; k < 2; k++) {
            struct assign_work work = {.most = most[i]};
            struct assign_options options = {.search = SEARCH_EXACT, .seed = 7, .work = &work};
            assign_solve(p, &options, keep, &found[k]);
            assert_true(work_spent(&work) && work.done < most[i] + 1e5);
        }
        assert_true(found[0].time == found[1].time && found[0].bound == found[1].bound);
        assert_memory_equal(found[0].option, found[1].option,
                            sizeof(int32_t) * (size_t)p->variables);
        assign_evaluate(p, found[0].option, &again);
        assert_true(again.time == found[0].time && again.fits == found[0].fits);
        assert_true(found[0].fits && found[0].bound < found[0].time);
    }
    arena_free(keep);
}

/* No search is better than all; a descent ends where no single change is better. */
static void searches_find_what_there_is(void **state)
{
    struct rng rng;
    int64_t best[SEARCH_COUNT] = {0};
    int rounds = rounds_of(100);
    (void)state;
    rng_seed(&rng, 4);
    for (int i = 0; i < rounds; i++) {
        struct arena *keep = arena_new();
        struct shape shape = tangle(&rng, 2 + (int32_t)rng_below(&rng, MOST_VARIABLES - 1));
        struct assign *p = draw_problem(keep, &rng, &shape);
        struct assigned all = solve(p, SEARCH_EXHAUSTIVE, keep);
        for (int s = 0; s < SEARCH_COUNT; s++) {
            struct assigned found = solve(p, (enum assign_search)s, keep), check = {0};
            assign_evaluate(p, found.option, &check);
            assert_true(check.time == found.time && check.memory == found.memory);
            assert_false(assign_better(&found, &all) && found.time < all.time * (1 - 1e-9));
            best[s] += found.fits == all.fits && found.time <= all.time * (1 + 1e-9);
        }
        arena_free(keep);
    }
    assert_int_equal(best[SEARCH_EXHAUSTIVE], rounds);
    assert_true(best[SEARCH_CD] >= rounds * 8 / 10);
}

/* Whether no other option of one variable alone is faster, and fits. */
static bool no_change_is_better(const struct assign *p, const struct assigned *found)
{
    bool none = true;
    for (int32_t v = 0; v < p->variables; v++) {
        int32_t own = found->option[v];
        for (int32_t i = 0; i < p->options[v]; i++) {
            struct assigned with = {0};
            found->option[v] = i;
            assign_evaluate(p, found->option, &with);
            none &= !(with.fits && with.time < found->time * (1 - 1e-9));
        }
        found->option[v] = own;
    }
    return none;
}

/* A descent does not look again at what nothing near has changed for, and ends all the same where no single
 * change is better; where edges are known to hold no memory it looks less, with the same answer. */
static void settled_variables_are_at_their_best(void **state)
{
    struct assign_options one = {.search = SEARCH_CD, .rounds = 1};
    struct rng rng;
    (void)state;
    rng_seed(&rng, 5);
    for (int i = 0; i < rounds_of(300); i++) {
        struct arena *keep = arena_new();
        struct shape shape = tangle(&rng, 2 + (int32_t)rng_below(&rng, MOST_VARIABLES - 1));
        struct assign *p = draw_problem(keep, &rng, &shape);
        for (int32_t e = 0; e < p->edges; e++)
            for (int32_t k = 0; k < p->options[p->edge[e].a] * p->options[p->edge[e].b]; k++)
                p->edge[e].memory[k] = 0;
        struct assigned more, less;
        assign_solve(p, &one, keep, &more);
        for (int32_t e = 0; e < p->edges; e++)
            p->edge[e].most_memory = 0;
        assign_solve(p, &one, keep, &less);
        assert_memory_equal(less.option, more.option, sizeof *more.option * (size_t)p->variables);
        assert_true(!less.fits || no_change_is_better(p, &less));
        arena_free(keep);
    }
}

static void find_entry(void *context, int32_t edge, int32_t a, int32_t b)
{
    struct assign **both = context; /* to, from */
    int32_t at = a * both[0]->options[both[0]->edge[edge].b] + b;
    both[0]->edge[edge].time[at] = both[1]->edge[edge].time[at];
    both[0]->edge[edge].memory[at] = both[1]->edge[edge].memory[at];
}

/* The same problem, of whose edges nothing is known before it is asked for. */
static struct assign *unknown_copy(struct arena *keep, struct assign *p, const struct shape *shape)
{
    struct assign *copy = assign_new(keep, p->variables, p->options, p->edges, shape->end);
    struct assign **both = ARENA_ARRAY(keep, struct assign *, 2);
    both[0] = copy, both[1] = p;
    for (int32_t v = 0; v < p->variables; v++) {
        memcpy(copy->time[v], p->time[v], sizeof(double) * (size_t)p->options[v]);
        memcpy(copy->memory[v], p->memory[v], sizeof(double) * (size_t)p->options[v]);
    }
    copy->limit = p->limit;
    copy->find = find_entry;
    copy->context = both;
    return copy;
}

/* What a bound leaves out would not have been taken: descents go the same way whether bounds are 0 or what they bound. */
static void bounds_change_no_descent(void **state)
{
    struct rng rng;
    (void)state;
    rng_seed(&rng, 11);
    for (int i = 0; i < rounds_of(400); i++) {
        struct arena *keep = arena_new();
        struct shape shape = tangle(&rng, 3 + (int32_t)rng_below(&rng, MOST_VARIABLES - 2));
        struct assign *p = draw_problem(keep, &rng, &shape);
        for (int32_t v = 0; v < p->variables; v++) /* of two that are alike, either may be taken */
            for (int32_t k = 0; k < p->options[v]; k++)
                p->time[v][k] += 1e-3 * rng_uniform(&rng);
        struct assign *unknown = unknown_copy(keep, p, &shape);
        struct assign_options few = {.search = SEARCH_CD, .seed = (uint64_t)i, .rounds = 2};
        struct assigned told, asked;
        assign_solve(p, &few, keep, &told);
        assign_solve(unknown, &few, keep, &asked);
        assert_memory_equal(told.option, asked.option, sizeof *told.option * (size_t)p->variables);
        arena_free(keep);
    }
}

/* The constant of Metropolis-Hastings: its name, and that it changes what is accepted. */
static void metropolis_takes_its_constant(void **state)
{
    static const char *const WRONG[] = {"mh:", "mh:0", "mh:-1", "mh:x", "mh:inf", "cd:2"};
    enum assign_search search = SEARCH_CD;
    double beta = 0;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(WRONG); i++)
        assert_false(assign_search_from_name(WRONG[i], &search, &beta));
    assert_true(assign_search_from_name("mh", &search, &beta) && search == SEARCH_MH && beta == 0);
    assert_true(assign_search_from_name("mh:0.5", &search, &beta) && beta == 0.5);
    /* One variable with options of 1, 2, ... 64, in 50 steps: nearly anything is accepted, or only what is no slower. */
    enum { OPTIONS = 64, STEPS = 50 };
    struct arena *arena = arena_new();
    struct assign *problem = assign_new(arena, 1, (int32_t[]){OPTIONS}, 0, NULL);
    problem->limit = INFINITY;
    for (int32_t i = 0; i < OPTIONS; i++)
        problem->time[0][i] = (double)(i + 1);
    struct assigned warm, cold;
    struct assign_options options = {.search = SEARCH_MH, .seed = 1, .rounds = STEPS, .beta = 1e-9};
    assign_solve(problem, &options, arena, &warm);
    options.beta = 1e9;
    assign_solve(problem, &options, arena, &cold);
    assert_int_equal(warm.tried, STEPS + 1);
    assert_in_range(cold.tried, 2, STEPS / 2);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_is_exhaustive_on_chains),
        cmocka_unit_test(exact_is_exhaustive_on_series_parallel_graphs),
        cmocka_unit_test(exact_is_exhaustive_on_any_graph),
        cmocka_unit_test(work_is_bounded),
        cmocka_unit_test(searches_find_what_there_is),
        cmocka_unit_test(settled_variables_are_at_their_best),
        cmocka_unit_test(bounds_change_no_descent),
        cmocka_unit_test(metropolis_takes_its_constant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
