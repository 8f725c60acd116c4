/* assign_solve.c - the searches by name, and those that know nothing about their problem (assign.h).
 *
 * Metropolis-Hastings accepts a change of one variable with min(1, exp(-beta * (new - old))), in
 * multiples of the least value so far (AutoDDL, section 4.4: beta is chosen by the user).
 */
#include <math.h>
#include <string.h>

#include "search/autoddl/assign_descent.h"

static const int64_t ASSIGN_ROUNDS[] = {
    [SEARCH_CD] = 100,       [SEARCH_MH] = 20000, [SEARCH_RANDOM] = 20000,
    [SEARCH_EXHAUSTIVE] = 0, [SEARCH_EXACT] = 30,
};

static const char *const SEARCH_NAMES[] = {
    [SEARCH_CD] = "cd",         [SEARCH_MH] = "mh",
    [SEARCH_RANDOM] = "random", [SEARCH_EXHAUSTIVE] = "exhaustive",
    [SEARCH_EXACT] = "exact",
};
_Static_assert(COUNT_OF(SEARCH_NAMES) == SEARCH_COUNT, "a search without a name");

bool assign_search_from_name(const char *name, enum assign_search *out, double *beta)
{
    static const char MH_WITH[] = "mh:";
    double given;
    if (strncmp(name, MH_WITH, strlen(MH_WITH)) == 0) {
        if (!parse_real(name + strlen(MH_WITH), &given) || !(given > 0) || !isfinite(given))
            return false;
        *beta = given;
        name = SEARCH_NAMES[SEARCH_MH];
    }
    int at = NAME_INDEX(name, SEARCH_NAMES);
    if (at >= 0)
        *out = (enum assign_search)at;
    return at >= 0;
}

/* An excess of a thousandth of the limit is as bad as all variables at their slowest plus
 * everything in the assignment that a search starts with. */
static double price_of(const struct assign *p, const int32_t *option)
{
    static const double PENALTY = 1000;
    struct assigned begun;
    assign_evaluate(p, option, &begun);
    double sum = isfinite(begun.time) ? begun.time : 0;
    for (int32_t v = 0; v < p->variables; v++) {
        double most = 0;
        for (int32_t i = 0; i < p->options[v]; i++)
            if (isfinite(p->time[v][i]) && p->time[v][i] > most)
                most = p->time[v][i];
        sum += most;
    }
    return isinf(p->limit) ? 0 : PENALTY * sum / (p->limit > 1 ? p->limit : 1);
}

static void draw(struct descent *d)
{
    for (int32_t v = 0; v < d->problem->variables; v++)
        d->option[v] = (int32_t)rng_below(&d->rng, d->problem->options[v]);
}

static void metropolis_hastings(struct descent *d, int64_t rounds)
{
    static const double USUAL_BETA = 50; /* something a tenth slower is accepted once in exp(5) */
    double beta = d->options->beta > 0 ? d->options->beta : USUAL_BETA;
    struct assigned now = {0};
    draw(d);
    assign_evaluate(d->problem, d->option, &now);
    descent_note(d, &now);
    double scale = isfinite(now.time) && now.time > 0 ? now.time : 1;
    for (int64_t r = 0; r < rounds && !descent_stopped(d); r++) {
        int32_t v = (int32_t)rng_below(&d->rng, d->problem->variables), old = d->option[v];
        double u = rng_uniform(&d->rng), before = descent_judged(d, now.time, now.memory);
        struct assigned next = {0};
        d->option[v] = (int32_t)rng_below(&d->rng, d->problem->options[v]);
        assign_evaluate(d->problem, d->option, &next);
        double after = descent_judged(d, next.time, next.memory);
        if (!(after <= before) && !(u < exp(-beta * (after - before) / scale))) {
            d->option[v] = old;
            continue;
        }
        now = next;
        scale = isfinite(now.time) && now.time < scale ? now.time : scale;
        descent_note(d, &now);
    }
}

static void random_draws(struct descent *d, int64_t rounds)
{
    for (int64_t r = 0; r < rounds && !(r && descent_stopped(d)); r++) {
        struct assigned now = {0};
        draw(d);
        assign_evaluate(d->problem, d->option, &now);
        descent_note(d, &now);
    }
}

/* Counts through all assignments, the last variable fastest. */
static void exhaustive(struct descent *d, int64_t rounds)
{
    const struct assign *p = d->problem;
    int32_t v = 0;
    (void)rounds;
    memset(d->option, 0, sizeof *d->option * (size_t)p->variables);
    while (v >= 0 && !(d->best.tried && descent_stopped(d))) {
        struct assigned now = {0};
        assign_evaluate(p, d->option, &now);
        descent_note(d, &now);
        for (v = p->variables - 1; v >= 0 && ++d->option[v] == p->options[v]; v--)
            d->option[v] = 0;
    }
    if (v < 0 && d->best.fits)
        d->best.bound = d->best.time;
}

void assign_solve(const struct assign *problem, const struct assign_options *options,
                  struct arena *keep, struct assigned *out)
{
    static void (*const SEARCHES[])(struct descent *, int64_t) = {
        [SEARCH_CD] = descent_search,    [SEARCH_MH] = metropolis_hastings,
        [SEARCH_RANDOM] = random_draws,  [SEARCH_EXHAUSTIVE] = exhaustive,
        [SEARCH_EXACT] = descent_search,
    };
    _Static_assert(COUNT_OF(SEARCHES) == SEARCH_COUNT, "a search without a function");
    struct arena *scratch = arena_new();
    struct assign_work unbounded = {0}, *work = options->work ? options->work : &unbounded;
    struct descent d = {.problem = problem, .options = options, .work = work};
    int64_t rounds = options->rounds ? options->rounds : ASSIGN_ROUNDS[options->search];
    d.settled = ARENA_ARRAY(scratch, bool, (size_t)problem->variables);
    d.settled_at = ARENA_ARRAY(scratch, double, (size_t)problem->variables);
    d.most_memory = ARENA_ARRAY(scratch, double, (size_t)problem->variables);
    descent_index(scratch, &d);
    d.option = ARENA_ARRAY(scratch, int32_t, (size_t)problem->variables);
    d.open = ARENA_ARRAY(scratch, bool, (size_t)problem->variables);
    d.region = ARENA_ARRAY(scratch, int32_t, (size_t)problem->variables);
    d.best.option = ARENA_ARRAY(keep, int32_t, (size_t)problem->variables);
    rng_seed(&d.rng, options->seed);
    descent_alone(&d);
    d.price = price_of(problem, d.option);
    SEARCHES[options->search](&d, rounds);
    *out = d.best;
    if (options->search == SEARCH_EXACT && !assign_exact(problem, work, out)) {
        /* The graph is too wide for the exact search. */
        descent_search(&d, ASSIGN_ROUNDS[SEARCH_CD]);
        *out = d.best;
    }
    arena_free(scratch);
}
