/* assign_exact.c - the best assignment, proved to be best.
 *
 * For given costs, elimination finds the least sum (assign_core.h).
 * Memory enters through a price: with w >= 0 per byte,
 *
 *   bound(w) = min_x { time(x) + w * memory(x) } - w * limit  <=  time of anything that fits   (1)
 *
 * A bisection finds the price with the highest bound; the gap between it and the best answer found
 * is closed by branching: an option of the minimum of (1) is fixed, or forbidden.
 *
 *   I1  Before anything else, options are dropped that cannot be in a better answer: by (1), with
 *       each edge at its least; and those that another option of their variable can replace (assign_left.h).
 *   I2  MOST_BRANCHES, and the work that may be done, end the branching; the answer's `bound` says what was not
 *       proved.
 */
#include <string.h>

#include "search/autoddl/assign.h"
#include "search/autoddl/assign_core.h"
#include "search/autoddl/assign_left.h"

enum { BISECTIONS = 16, MOST_BRANCHES = 4000 };
/* Of one elimination of all variables; more would take seconds. */
static const double MOST_STEPS = 4e10;
/* What is worth beginning: the least that fits, the fastest, and a few prices between. */
static const double FEWEST_ELIMINATIONS = 8;
/* Times with a smaller relative difference are equal: sums in another order round differently. */
static const double ROUNDING = 1e-9;

/* ---- the minimum of (1) ---------------------------------------------------------------------- */

struct exact {
    const struct assign *problem;
    struct assign_work *work;
    struct assigned *best; /* so far */
    double price;          /* w */
    int64_t branches;
};

/* The variables that have a choice left as a core: place[k] is the k-th of them. */
struct live {
    struct core core;
    int32_t *place, *at; /* at: of each variable in the core; -1: it has one option */
    double *fixed;       /* what those with one option cost, and the edges between them */
};

static void list_live(struct arena *scratch, struct exact *e, const struct left *left,
                      struct live *out)
{
    size_t variables = (size_t)e->problem->variables;
    int32_t count = 0, *options = ARENA_ARRAY(scratch, int32_t, variables);
    out->fixed = ARENA_ARRAY(scratch, double, 1);
    out->place = ARENA_ARRAY(scratch, int32_t, variables);
    out->at = ARENA_ARRAY(scratch, int32_t, variables);
    for (int32_t v = 0; v < e->problem->variables; v++) {
        out->at[v] = left->count[v] > 1 ? count : -1;
        if (left->count[v] < 2)
            continue;
        out->place[count] = v;
        options[count++] = left->count[v];
    }
    out->core = core_new(scratch, count, options, e->work);
    work_add(e->work, (double)count * count);
}

/* An edge of which one end at most has a choice. */
static void add_fixed_edge(struct live *live, const struct left *left, int32_t a, int32_t b,
                           const double *value)
{
    double *own = live->at[a] >= 0   ? live->core.own[live->at[a]]
                  : live->at[b] >= 0 ? live->core.own[live->at[b]]
                                     : live->fixed;
    for (int32_t k = 0; k < left->count[a] * left->count[b]; k++)
        own[k] += value[k];
}

/* An edge between two of the core: rows are the options of the first. */
static void add_live_edge(struct arena *scratch, struct live *live, const struct left *left,
                          int32_t a, int32_t b, const double *value)
{
    size_t rows = (size_t)left->count[a], columns = (size_t)left->count[b];
    bool turn = live->at[a] > live->at[b];
    double **pair = core_pair(&live->core, live->at[a], live->at[b]);
    if (!*pair)
        *pair = ARENA_ARRAY(scratch, double, rows *columns);
    for (size_t j = 0; j < rows; j++)
        for (size_t k = 0; k < columns; k++)
            (*pair)[turn ? k * rows + j : j * columns + k] += value[j * columns + k];
}

/* What an edge costs at a price, per option that is left of its first end, then of its second. */
static const double *edge_values(struct arena *scratch, const struct exact *e,
                                 const struct left *left, int32_t edge, double per_time,
                                 double price)
{
    const struct assign *p = e->problem;
    int32_t a = p->edge[edge].a, b = p->edge[edge].b;
    size_t entries = (size_t)left->count[a] * (size_t)left->count[b], at = 0;
    double *value = ARENA_ARRAY(scratch, double, entries);
    work_add(e->work, 4 * (double)entries);
    for (int32_t j = 0; j < left->count[a] && !work_over(e->work); j++)
        for (int32_t k = 0; k < left->count[b]; k++) {
            int32_t i = left->option[a][j], o = left->option[b][k];
            double time = assign_pair_time(p, edge, i, o);
            value[at++] = per_time * time + price * assign_pair_memory(p, edge, i, o);
        }
    return value;
}

/* The problem at a price; with per_time 0 it looks for the least memory alone. */
static struct live live_of(struct arena *scratch, struct exact *e, const struct left *left,
                           double per_time, double price)
{
    const struct assign *p = e->problem;
    struct live live;
    list_live(scratch, e, left, &live);
    for (int32_t v = 0; v < p->variables; v++) {
        double *own = live.fixed;
        if (live.at[v] >= 0)
            own = live.core.own[live.at[v]] = ARENA_ARRAY(scratch, double, (size_t)left->count[v]);
        for (int32_t k = 0; k < left->count[v]; k++) {
            int32_t i = left->option[v][k];
            own[k] += per_time * p->time[v][i] + price * p->memory[v][i];
        }
    }
    for (int32_t i = 0; i < p->edges; i++) {
        int32_t a = p->edge[i].a, b = p->edge[i].b;
        const double *value = edge_values(scratch, e, left, i, per_time, price);
        if (live.at[a] >= 0 && live.at[b] >= 0)
            add_live_edge(scratch, &live, left, a, b, value);
        else
            add_fixed_edge(&live, left, a, b, value);
    }
    return live;
}

/* I1: keeps only options that may be in something that fits and is better than the best. */
static void drop_useless(const struct exact *e, struct left *left)
{
    double most =
        e->best->time * (1 + ROUNDING) + (e->price > 0 ? e->price * e->problem->limit : 0);
    if (e->best->fits)
        left_drop_slow(e->problem, e->work, e->price, most, left);
}

static void keep_if_better(struct exact *e, const struct assigned *found)
{
    int32_t *option = e->best->option;
    int64_t tried = ++e->best->tried;
    double bound = e->best->bound;
    if (!assign_better(found, e->best))
        return;
    memcpy(option, found->option, sizeof *option * (size_t)e->problem->variables);
    *e->best = *found;
    e->best->option = option;
    e->best->tried = tried;
    e->best->bound = bound;
}

/* The assignment of these options of the core, counted among those that are left; it may become the best. */
static void take_core(struct exact *e, struct arena *scratch, const struct left *left,
                      const struct live *live, const int32_t *option, struct assigned *found)
{
    const struct assign *p = e->problem;
    *found = (struct assigned){.option = ARENA_ARRAY(scratch, int32_t, (size_t)p->variables)};
    for (int32_t v = 0; v < p->variables; v++)
        found->option[v] = left->option[v][live->at[v] < 0 ? 0 : option[live->at[v]]];
    work_add(e->work, p->variables + p->edges);
    assign_evaluate(p, found->option, found);
    keep_if_better(e, found);
}

/* Finds the assignment with the minimum; its options are in `found` (in `scratch`). Returns the
 * minimum. If stopped, `found` is some assignment, and nothing is known about the minimum. */
static double minimise(struct exact *e, struct arena *scratch, const struct left *left,
                       double per_time, double price, struct assigned *found)
{
    struct live live = live_of(scratch, e, left, per_time, price);
    int32_t *option = ARENA_ARRAY(scratch, int32_t, (size_t)e->problem->variables);
    double least = *live.fixed + core_eliminate(scratch, &live.core, option);
    take_core(e, scratch, left, &live, option, found);
    return work_over(e->work) ? -INFINITY : least;
}

/* ---- prices ---------------------------------------------------------------------------------- */

static bool interrupted(const struct exact *e)
{
    return work_over(e->work);
}

static bool proved(const struct exact *e)
{
    return e->best->fits && e->best->bound >= e->best->time * (1 - ROUNDING);
}

static void try_price(struct exact *e, const struct left *left, double price, bool *fits)
{
    struct arena *scratch = arena_new();
    struct assigned found;
    double least = minimise(e, scratch, left, 1, price, &found);
    double bound = least - (price > 0 ? price * e->problem->limit : 0); /* (1) */
    if (bound > e->best->bound) {
        e->best->bound = bound;
        e->price = price;
    }
    *fits = found.fits;
    arena_free(scratch);
}

/* Finds the price with the highest bound: below it the minimum does not fit, above it does. */
static void bisect(struct exact *e, const struct left *left)
{
    double low = 0, high = e->best->time / fmax(e->problem->limit, 1);
    bool fits = false;
    for (int i = 0; i < BISECTIONS && !fits && !interrupted(e); i++, high *= 8)
        try_price(e, left, high, &fits);
    for (int i = 0; i < BISECTIONS && !proved(e) && !interrupted(e); i++) {
        double price = (low + high) / 2;
        try_price(e, left, price, &fits);
        low = fits ? low : price;
        high = fits ? price : high;
    }
}

/* ---- branches -------------------------------------------------------------------------------- */

/* The variable whose options differ most in memory; -1: all are fixed. */
static int32_t branching_variable(const struct assign *p, const struct left *left)
{
    int32_t at = -1;
    double most = -1;
    for (int32_t v = 0; v < p->variables; v++) {
        double low = INFINITY, high = 0;
        for (int32_t k = 0; k < left->count[v]; k++) {
            double own = p->memory[v][left->option[v][k]];
            low = own < low ? own : low;
            high = own > high ? own : high;
        }
        if (left->count[v] > 1 && high - low > most) {
            most = high - low;
            at = v;
        }
    }
    return at;
}

/* The highest bound of (1) for this branch over a few prices, and the assignment that attains it;
 * INFINITY if its minimum without a price fits: nothing is left to be found. */
static double bound_branch(struct exact *e, struct arena *scratch, const struct left *left,
                           struct assigned *at)
{
    enum { PRICES = 5 };
    double low = 0, high = 4 * e->price, best = -INFINITY;
    for (int i = 0; i <= PRICES; i++) {
        struct assigned found;
        double price = i == 0 ? e->price : i == 1 ? 0 : (low + high) / 2;
        double bound = minimise(e, scratch, left, 1, price, &found) - price * e->problem->limit;
        if (price == 0 && found.fits)
            return INFINITY;
        if (i == 0 || bound > best)
            *at = found;
        best = bound > best ? bound : best;
        if (best >= e->best->time * (1 - ROUNDING))
            return best;
        low = found.fits ? low : price;
        high = found.fits ? price : high;
    }
    return best;
}

/* Returns a bound for everything in this branch that fits. */
static double branch(struct exact *e, struct left *left)
{
    const struct assign *p = e->problem;
    struct assigned found = {0};
    left_drop_large(p, left);
    if (left_nothing(p, left))
        return INFINITY;
    drop_useless(e, left);
    int32_t v = branching_variable(p, left);
    struct arena *scratch = arena_new();
    double bound = bound_branch(e, scratch, left, &found);
    if (bound < e->best->time * (1 - ROUNDING) && v < 0)
        bound = INFINITY; /* there is one assignment, and it does not fit */
    if (bound < e->best->time * (1 - ROUNDING) && ++e->branches < MOST_BRANCHES &&
        !interrupted(e)) {
        struct left with = left_copy(scratch, p, left), without = left_copy(scratch, p, left);
        int32_t kept = 0;
        for (int32_t k = 0; k < left->count[v]; k++)
            if (left->option[v][k] != found.option[v])
                without.option[v][kept++] = left->option[v][k];
        without.count[v] = kept;
        with.count[v] = 1;
        with.option[v][0] = found.option[v];
        double first = branch(e, &with), second = branch(e, &without);
        double both = first < second ? first : second;
        bound = both > bound ? both : bound;
    }
    arena_free(scratch);
    return bound;
}

/* The least sum with each option of a variable, at the price. */
static const double *minimise_each(struct exact *e, struct arena *scratch, const struct left *left,
                                   int32_t v)
{
    int32_t count = left->count[v];
    double *least = ARENA_ARRAY(scratch, double, (size_t)count);
    int32_t **option = ARENA_ARRAY(scratch, int32_t *, (size_t)count);
    struct live live = live_of(scratch, e, left, 1, e->price);
    for (int32_t k = 0; k < count; k++)
        option[k] = ARENA_ARRAY(scratch, int32_t, (size_t)e->problem->variables);
    core_eliminate_but(scratch, &live.core, live.at[v], least, option);
    for (int32_t k = 0; k < count; k++) {
        struct assigned found;
        take_core(e, scratch, left, &live, option[k], &found);
        least[k] = work_over(e->work) ? -INFINITY : *live.fixed + least[k];
    }
    return least;
}

/* Gives each variable each of its options: drops options that make everything at least as slow as the best; an
 * assignment that fits may become the best. */
static void probe(struct exact *e, struct left *left)
{
    for (int32_t v = 0; v < e->problem->variables && !interrupted(e); v++) {
        if (left->count[v] < 2)
            continue;
        struct arena *scratch = arena_new();
        const double *least = minimise_each(e, scratch, left, v);
        int32_t count = left->count[v], kept = 0;
        for (int32_t k = 0; k < count; k++)
            if (least[k] - e->price * e->problem->limit < e->best->time * (1 - ROUNDING))
                left->option[v][kept++] = left->option[v][k];
        left->count[v] = kept;
        arena_free(scratch);
        if (!kept)
            return; /* nothing is better */
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Whether one elimination takes more than a part of the work that may be done. */
static bool too_wide(struct exact *e, const struct left *left)
{
    static double mark[1] = {0};
    const struct assign *p = e->problem;
    const struct assign_work *work = e->work;
    double most = work->most > 0 ? (work->most - work->done) / FEWEST_ELIMINATIONS : MOST_STEPS;
    struct arena *scratch = arena_new();
    struct live live;
    list_live(scratch, e, left, &live);
    for (int32_t i = 0; i < p->edges; i++) {
        int32_t a = live.at[p->edge[i].a], b = live.at[p->edge[i].b];
        if (a >= 0 && b >= 0)
            *core_pair(&live.core, a, b) = mark;
    }
    bool wide = core_work(&live.core) > fmin(most, MOST_STEPS);
    arena_free(scratch);
    return wide;
}

/* Finds something that fits, or the proof that there is nothing. */
static void find_fitting(struct exact *e, const struct left *left)
{
    struct arena *scratch = arena_new();
    struct assigned found;
    if (!e->best->fits)
        minimise(e, scratch, left, 0, 1, &found);
    arena_free(scratch);
}

static void close_gap(struct exact *e, struct left *left)
{
    bisect(e, left);
    if (proved(e) || interrupted(e))
        return;
    drop_useless(e, left);
    probe(e, left);
    probe(e, left);
    double bound = branch(e, left);
    if (bound > e->best->time)
        bound = e->best->time;
    if (bound > e->best->bound)
        e->best->bound = bound;
}

bool assign_exact(const struct assign *problem, struct assign_work *work, struct assigned *out)
{
    struct arena *scratch = arena_new();
    struct exact e = {.problem = problem, .work = work, .best = out};
    struct left left = left_all(scratch, problem);
    bool done = false, fits;
    drop_useless(&e, &left);
    left_drop_dominated(problem, work, &left);
    if (!too_wide(&e, &left)) {
        done = true;
        find_fitting(&e, &left);
        if (out->fits) {
            try_price(&e, &left, 0, &fits);
            if (!proved(&e))
                close_gap(&e, &left);
        }
    }
    arena_free(scratch);
    return done;
}
