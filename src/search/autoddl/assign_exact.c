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
 *       each edge at its least.
 *   I2  MOST_BRANCHES ends the branching; the answer's `bound` says what was not proved.
 */
#include <string.h>

#include "search/autoddl/assign.h"
#include "search/autoddl/assign_core.h"

enum { BISECTIONS = 16, MOST_BRANCHES = 4000 };
/* Additions and comparisons of one elimination of all variables; more would take seconds. */
static const double MOST_WORK = 4e10;
/* Times with a smaller relative difference are equal: sums in another order round differently. */
static const double ROUNDING = 1e-9;

/* ---- what is still possible ------------------------------------------------------------------ */

struct exact {
    const struct assign *problem;
    const struct stop *stop;
    struct assigned *best; /* so far */
    double price;          /* w */
    int64_t branches;
};

/* The options that are left, per variable. */
struct left {
    int32_t *count;
    int32_t **option;
};

static struct left all_left(struct arena *keep, const struct assign *p)
{
    struct left left = {ARENA_ARRAY(keep, int32_t, (size_t)p->variables),
                        ARENA_ARRAY(keep, int32_t *, (size_t)p->variables)};
    for (int32_t v = 0; v < p->variables; v++) {
        left.option[v] = ARENA_ARRAY(keep, int32_t, (size_t)p->options[v]);
        for (int32_t i = 0; i < p->options[v]; i++)
            if (isfinite(p->time[v][i]))
                left.option[v][left.count[v]++] = i;
        if (!left.count[v])
            /* Only its first, impossible, option: no assignment has a finite time. */
            left.count[v] = 1;
    }
    return left;
}

static double priced(const struct assign *p, int32_t v, int32_t i, double price)
{
    return p->time[v][i] + price * p->memory[v][i];
}

static double least_priced(const struct assign *p, const struct left *left, int32_t v, double price)
{
    double least = INFINITY;
    for (int32_t k = 0; k < left->count[v]; k++) {
        double own = priced(p, v, left->option[v][k], price);
        least = own < least ? own : least;
    }
    return least;
}

/* Adds to each option at either end of an edge the least that the edge takes, whatever the other
 * end has. */
static void note_edge(const struct assign *p, const struct left *left, int32_t e, double **of,
                      double *all)
{
    int32_t a = p->edge[e].a, b = p->edge[e].b;
    double most = INFINITY;
    struct arena *scratch = arena_new();
    double *column = ARENA_ARRAY(scratch, double, (size_t)left->count[b]);
    for (int32_t k = 0; k < left->count[b]; k++)
        column[k] = INFINITY;
    for (int32_t j = 0; j < left->count[a]; j++) {
        double row = INFINITY;
        for (int32_t k = 0; k < left->count[b]; k++) {
            double one = assign_pair_least(p, e, left->option[a][j], left->option[b][k]);
            row = one < row ? one : row;
            column[k] = one < column[k] ? one : column[k];
        }
        of[a][j] += row;
        most = row < most ? row : most;
    }
    for (int32_t k = 0; k < left->count[b]; k++)
        of[b][k] += column[k];
    *all += most;
    arena_free(scratch);
}

/* Finds the least of v's edges, both within `all` and per option. False: stopped before all were
 * looked at. */
static bool least_edges(const struct exact *e, const struct left *left, struct arena *scratch,
                        double **of, double *own, double *all)
{
    const struct assign *p = e->problem;
    for (int32_t v = 0; v < p->variables; v++)
        of[v] = ARENA_ARRAY(scratch, double, (size_t)left->count[v]);
    for (int32_t i = 0; i < p->edges; i++) {
        double one = 0;
        if (stop_now(e->stop))
            return false;
        note_edge(p, left, i, of, &one);
        *all += one;
        own[p->edge[i].a] += one;
        own[p->edge[i].b] += one;
    }
    return true;
}

/* I1: keeps only options that may be in something that fits and is better than the best. Drops
 * nothing if stopped. */
static void drop_useless(const struct exact *e, struct left *left)
{
    const struct assign *p = e->problem;
    struct arena *scratch = arena_new();
    double **of = ARENA_ARRAY(scratch, double *, (size_t)p->variables);
    double *own = ARENA_ARRAY(scratch, double, (size_t)p->variables);
    double sum = 0;
    bool looked = e->best->fits && least_edges(e, left, scratch, of, own, &sum);
    for (int32_t v = 0; v < p->variables; v++)
        sum += least_priced(p, left, v, e->price);
    double most = e->best->time * (1 + ROUNDING) + (e->price > 0 ? e->price * p->limit : 0);
    for (int32_t v = 0; looked && v < p->variables; v++) {
        double others = sum - least_priced(p, left, v, e->price) - own[v];
        int32_t kept = 0, first = left->option[v][0];
        for (int32_t k = 0; k < left->count[v]; k++)
            if (priced(p, v, left->option[v][k], e->price) + of[v][k] + others <= most)
                left->option[v][kept++] = left->option[v][k];
        if (!kept) /* by rounding: not even the best has an option left */
            left->option[v][kept++] = first;
        left->count[v] = kept;
    }
    arena_free(scratch);
}

/* ---- the minimum of (1) ---------------------------------------------------------------------- */

static void add_edge(struct core *c, struct arena *scratch, const struct assign *p,
                     const struct left *left, int32_t e, double per_time, double price)
{
    int32_t a = p->edge[e].a, b = p->edge[e].b, low = a < b ? a : b, high = a < b ? b : a;
    size_t wide = (size_t)left->count[high];
    double **pair = core_pair(c, a, b);
    if (!*pair)
        *pair = ARENA_ARRAY(scratch, double, (size_t)left->count[low] * wide);
    for (int32_t j = 0; j < left->count[low] && !stop_now(c->stop); j++)
        for (int32_t k = 0; k < left->count[high]; k++) {
            int32_t x = left->option[low][j], y = left->option[high][k];
            int32_t i = a == low ? x : y, o = a == low ? y : x;
            double time = assign_pair_time(p, e, i, o);
            size_t at = (size_t)i * (size_t)p->options[b] + (size_t)o;
            (*pair)[(size_t)j * wide + (size_t)k] +=
                per_time * time + price * p->edge[e].memory[at];
        }
}

/* The problem at a price; with per_time 0 it looks for the least memory alone. */
static struct core core_of(struct arena *scratch, const struct exact *e, const struct left *left,
                           double per_time, double price)
{
    const struct assign *p = e->problem;
    struct core c = core_new(scratch, p->variables, left->count);
    c.stop = e->stop;
    for (int32_t v = 0; v < p->variables; v++) {
        c.own[v] = ARENA_ARRAY(scratch, double, (size_t)left->count[v]);
        for (int32_t k = 0; k < left->count[v]; k++) {
            int32_t i = left->option[v][k];
            c.own[v][k] = per_time * p->time[v][i] + price * p->memory[v][i];
        }
    }
    for (int32_t i = 0; i < p->edges; i++)
        add_edge(&c, scratch, p, left, i, per_time, price);
    return c;
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

/* The assignment of these places in the lists of options that are left; it may become the best. */
static void take_places(struct exact *e, struct arena *scratch, const struct left *left,
                        const int32_t *place, struct assigned *found)
{
    const struct assign *p = e->problem;
    *found = (struct assigned){.option = ARENA_ARRAY(scratch, int32_t, (size_t)p->variables)};
    for (int32_t v = 0; v < p->variables; v++)
        found->option[v] = left->option[v][place[v]];
    assign_evaluate(p, found->option, found);
    keep_if_better(e, found);
}

/* Finds the assignment with the minimum; its options are in `found` (in `scratch`). Returns the
 * minimum. If stopped, `found` is some assignment, and nothing is known about the minimum. */
static double minimise(struct exact *e, struct arena *scratch, const struct left *left,
                       double per_time, double price, struct assigned *found)
{
    struct core c = core_of(scratch, e, left, per_time, price);
    int32_t *place = ARENA_ARRAY(scratch, int32_t, (size_t)e->problem->variables);
    double least = core_eliminate(scratch, &c, place);
    take_places(e, scratch, left, place, found);
    return stop_now(e->stop) ? -INFINITY : least;
}

/* ---- prices ---------------------------------------------------------------------------------- */

static bool interrupted(const struct exact *e)
{
    return stop_now(e->stop);
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

static struct left copy_left(struct arena *keep, const struct assign *p, const struct left *left)
{
    struct left copy = {ARENA_ARRAY(keep, int32_t, (size_t)p->variables),
                        ARENA_ARRAY(keep, int32_t *, (size_t)p->variables)};
    for (int32_t v = 0; v < p->variables; v++) {
        size_t count = (size_t)left->count[v];
        copy.count[v] = left->count[v];
        copy.option[v] = ARENA_ARRAY(keep, int32_t, count);
        memcpy(copy.option[v], left->option[v], count * sizeof(int32_t));
    }
    return copy;
}

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

/* Drops options that do not fit even with all other variables at their smallest. */
static void drop_large(const struct assign *p, struct left *left)
{
    double sum = 0, least[2] = {0, 0};
    for (int pass = 0; pass < 2; pass++)
        for (int32_t v = 0; v < p->variables; v++) {
            int32_t kept = 0;
            least[0] = INFINITY;
            for (int32_t k = 0; k < left->count[v]; k++) {
                double own = p->memory[v][left->option[v][k]];
                least[0] = own < least[0] ? own : least[0];
            }
            sum += pass == 0 ? least[0] : 0;
            for (int32_t k = 0; pass == 1 && k < left->count[v]; k++)
                if (sum - least[0] + p->memory[v][left->option[v][k]] <= p->limit)
                    left->option[v][kept++] = left->option[v][k];
            left->count[v] = pass == 1 ? kept : left->count[v];
        }
}

static bool nothing_left(const struct assign *p, const struct left *left)
{
    for (int32_t v = 0; v < p->variables; v++)
        if (left->count[v] == 0)
            return true;
    return false;
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
    drop_large(p, left);
    if (nothing_left(p, left))
        return INFINITY;
    drop_useless(e, left);
    int32_t v = branching_variable(p, left);
    struct arena *scratch = arena_new();
    double bound = bound_branch(e, scratch, left, &found);
    if (bound < e->best->time * (1 - ROUNDING) && v < 0)
        bound = INFINITY; /* there is one assignment, and it does not fit */
    if (bound < e->best->time * (1 - ROUNDING) && ++e->branches < MOST_BRANCHES &&
        !interrupted(e)) {
        struct left with = copy_left(scratch, p, left), without = copy_left(scratch, p, left);
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
    int32_t **place = ARENA_ARRAY(scratch, int32_t *, (size_t)count);
    struct core c = core_of(scratch, e, left, 1, e->price);
    for (int32_t k = 0; k < count; k++)
        place[k] = ARENA_ARRAY(scratch, int32_t, (size_t)e->problem->variables);
    core_eliminate_but(scratch, &c, v, least, place);
    for (int32_t k = 0; k < count; k++) {
        struct assigned found;
        take_places(e, scratch, left, place[k], &found);
        least[k] = stop_now(e->stop) ? -INFINITY : least[k];
    }
    return least;
}

/* Gives each variable each of its options: drops options that make everything at least as slow as the best; an
 * assignment that fits may become the best. */
static void probe(struct exact *e, struct left *left)
{
    for (int32_t v = 0; v < e->problem->variables && !interrupted(e); v++) {
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

static bool too_wide(const struct assign *p, const struct left *left)
{
    double mark[1] = {0};
    struct arena *scratch = arena_new();
    struct core c = core_new(scratch, p->variables, left->count);
    for (int32_t e = 0; e < p->edges; e++)
        *core_pair(&c, p->edge[e].a, p->edge[e].b) = mark;
    bool wide = core_work(scratch, &c) > MOST_WORK;
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

bool assign_exact(const struct assign *problem, const struct stop *stop, struct assigned *out)
{
    struct arena *scratch = arena_new();
    struct exact e = {.problem = problem, .stop = stop, .best = out};
    struct left left = all_left(scratch, problem);
    bool done = false, fits;
    drop_useless(&e, &left);
    if (!too_wide(problem, &left)) {
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
