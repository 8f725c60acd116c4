/* assign_descent.c - coordinate descent with restarts (assign_descent.h).
 *
 * Coordinate descent (AutoDDL, section 4.4) gives each variable in turn the option that is best
 * with all others as they are, until nothing changes, and then starts again elsewhere. An option's
 * share of (1) is its own time and that of the variable's edges, so a step looks only at those:
 *
 *   share(v, i) = t_v(i) + sum of t_vb(i, x_b) over v's edges                                  (3)
 *
 * and likewise for memory. An assignment that does not fit pays for its excess at a price that
 * makes any excess worse than any time saved:
 *
 *   judged = time + PENALTY * largest time * excess / limit + w * memory                       (4)
 *
 * A descent that meets this wall stays there; so if memory is limited, some descents start with a
 * price w on every byte, and end without. Neighbours that agree are hard to change one by one; so a
 * descent starts at the best so far with one variable drawn again, and those around it, up to some
 * distance, take the options that suit it best.
 *
 * A variable that was looked at is not looked at again before a neighbour moves, or memory matters
 * to it:
 *
 *   I1  Without an excess, (4) differs between options of v only by (3) and their own memory,
 *       whatever variables have that are not neighbours. No option has an excess if all memory
 *       together with v's largest is below the limit.
 */
#include "search/autoddl/assign_descent.h"

#include <stdlib.h>
#include <string.h>

/* ---- one variable among others (3) ----------------------------------------------------------- */

void descent_index(struct arena *scratch, struct descent *d)
{
    const struct assign *p = d->problem;
    int32_t at = 0, most = 0;
    d->first_edge = ARENA_ARRAY(scratch, int32_t, (size_t)p->variables + 1);
    d->edge_of = ARENA_ARRAY(scratch, int32_t, 2 * (size_t)p->edges + 1);
    for (int32_t v = 0; v < p->variables; v++) {
        for (int32_t i = 0; i < p->options[v]; i++)
            d->most_memory[v] = fmax(d->most_memory[v], p->memory[v][i]);
        for (int32_t e = 0; e < p->edges; e++)
            if (p->edge[e].a == v || p->edge[e].b == v) {
                d->edge_of[at++] = e;
                d->most_memory[v] += p->edge[e].most_memory;
            }
        d->first_edge[v + 1] = at;
        most = p->options[v] > most ? p->options[v] : most;
    }
    d->queue = ARENA_ARRAY(scratch, struct queued, (size_t)most);
}

struct cost_share {
    double time, memory;
};

/* The options at both ends of an edge when v has option i. */
static struct ends {
    int32_t a, b;
} ends_of(const struct descent *d, int32_t edge, int32_t v, int32_t i)
{
    const struct assign_edge *e = &d->problem->edge[edge];
    return (struct ends){e->a == v ? i : d->option[e->a], e->b == v ? i : d->option[e->b]};
}

static bool counts(const struct descent *d, int32_t edge, int32_t v)
{
    const struct assign_edge *e = &d->problem->edge[edge];
    return !d->open[e->a == v ? e->b : e->a];
}

static struct cost_share share_of(const struct descent *d, int32_t v, int32_t i)
{
    const struct assign *p = d->problem;
    struct cost_share s = {p->time[v][i], p->memory[v][i]};
    for (int32_t k = d->first_edge[v]; k < d->first_edge[v + 1]; k++) {
        struct ends at = ends_of(d, d->edge_of[k], v, i);
        if (!counts(d, d->edge_of[k], v))
            continue;
        s.time += assign_pair_time(p, d->edge_of[k], at.a, at.b);
        s.memory += assign_pair_memory(p, d->edge_of[k], at.a, at.b);
    }
    return s;
}

/* A lower bound of (3)'s time. */
static double least_of(const struct descent *d, int32_t v, int32_t i)
{
    double least = d->problem->time[v][i];
    for (int32_t k = d->first_edge[v]; k < d->first_edge[v + 1]; k++) {
        struct ends at = ends_of(d, d->edge_of[k], v, i);
        if (!counts(d, d->edge_of[k], v))
            continue;
        least += assign_pair_least(d->problem, d->edge_of[k], at.a, at.b);
    }
    return least;
}

void descent_note(struct descent *d, struct assigned *now)
{
    now->option = d->option;
    d->best.tried++;
    if (d->found && !assign_better(now, &d->best))
        return;
    d->found = true;
    int32_t *own = d->best.option;
    int64_t tried = d->best.tried;
    memcpy(own, d->option, sizeof *own * (size_t)d->problem->variables);
    d->best = *now;
    d->best.option = own;
    d->best.tried = tried;
}

/* ---- coordinate descent ---------------------------------------------------------------------- */

static int by_least(const void *a, const void *b)
{
    const struct queued *x = a, *y = b;
    return x->least != y->least ? (x->least > y->least) - (x->least < y->least)
                                : x->option - y->option;
}

/* Lists lower bounds of (4) for each option but the current one, with the others' memory given and
 * their time left out. Edges that are not needed are not found. */
static int32_t list_options(struct descent *d, int32_t v, double other_memory)
{
    int32_t count = 0, edges = d->first_edge[v + 1] - d->first_edge[v];
    work_add(d->work, (double)d->problem->options[v] * (1 + edges));
    for (int32_t i = 0; i < d->problem->options[v]; i++) {
        double least = i == d->option[v] && !d->open[v] ? INFINITY : least_of(d, v, i);
        double excess = other_memory + d->problem->memory[v][i] - d->problem->limit;
        least += d->memory_price * d->problem->memory[v][i] + (excess > 0 ? d->price * excess : 0);
        if (isfinite(least))
            d->queue[count++] = (struct queued){least, i};
    }
    return count;
}

/* Keeps, in order, the listed options that are below a value even with `others` added. */
static int32_t sort_below(struct descent *d, int32_t count, double others, double below)
{
    int32_t kept = 0;
    for (int32_t k = 0; k < count; k++)
        if (d->queue[k].least + others < below)
            d->queue[kept++] = d->queue[k];
    qsort(d->queue, (size_t)kept, sizeof *d->queue, by_least);
    return kept;
}

/* Whether v need not be looked at again: by I1, or because nothing moved at all. */
static bool is_settled(const struct descent *d, int32_t v, double memory)
{
    double before = d->settled_at[v], most = memory > before ? memory : before;
    return d->settled[v] && (memory == before || most + d->most_memory[v] <= d->problem->limit);
}

static void unsettle_neighbours(struct descent *d, int32_t v)
{
    for (int32_t k = d->first_edge[v]; k < d->first_edge[v + 1]; k++) {
        const struct assign_edge *e = &d->problem->edge[d->edge_of[k]];
        d->settled[e->a == v ? e->b : e->a] = false;
    }
}

static bool descend_one(struct descent *d, int32_t v, struct assigned *now)
{
    if (is_settled(d, v, now->memory))
        return false;
    struct cost_share old = share_of(d, v, d->option[v]), taken = old;
    double best = descent_judged(d, now->time, now->memory);
    double other_memory = now->memory - old.memory;
    double others = now->time - old.time + d->memory_price * other_memory;
    int32_t at = d->option[v];
    int32_t count = sort_below(d, list_options(d, v, other_memory), others, best);
    for (int32_t k = 0; k < count && d->queue[k].least + others < best; k++) {
        struct cost_share s = share_of(d, v, d->queue[k].option);
        double would =
            descent_judged(d, now->time - old.time + s.time, now->memory - old.memory + s.memory);
        d->best.tried++;
        if (would < best * (1 - 1e-12)) {
            best = would;
            taken = s;
            at = d->queue[k].option;
        }
    }
    bool moved = at != d->option[v];
    if (moved)
        unsettle_neighbours(d, v);
    d->option[v] = at;
    now->time += taken.time - old.time;
    now->memory += taken.memory - old.memory;
    d->settled[v] = true;
    d->settled_at[v] = now->memory;
    return moved;
}

/* ---- where descents begin -------------------------------------------------------------------- */

/* The part of its own time that a variable ignores if it looks more at its neighbours than at
 * itself. */
static double forgotten(const struct descent *d, int32_t v, int32_t i, bool devoted)
{
    static const double DEVOTION = 0.99;
    return devoted ? DEVOTION * d->problem->time[v][i] : 0;
}

static void consider(struct descent *d, int32_t v, const struct queued *at, bool devoted,
                     double *best)
{
    double forgets = forgotten(d, v, at->option, devoted);
    if (at->least - forgets >= *best)
        return;
    struct cost_share s = share_of(d, v, at->option);
    double sum = s.time + d->memory_price * s.memory - forgets;
    if (sum < *best) {
        *best = sum;
        d->option[v] = at->option;
    }
}

/* Takes the option that suits best those neighbours that have one. The least is looked at before
 * the others are sorted, because it leaves few of them. */
static void follow_neighbours(struct descent *d, int32_t v, bool devoted)
{
    int32_t count = list_options(d, v, 0), least = 0, kept = 0;
    double best = INFINITY;
    for (int32_t k = 1; k < count; k++)
        least = d->queue[k].least < d->queue[least].least ? k : least;
    if (count)
        consider(d, v, &d->queue[least], devoted, &best);
    for (int32_t k = 0; k < count; k++)
        if (d->queue[k].least - forgotten(d, v, d->queue[k].option, devoted) < best)
            d->queue[kept++] = d->queue[k];
    qsort(d->queue, (size_t)kept, sizeof *d->queue, by_least);
    for (int32_t k = 0; k < kept; k++)
        consider(d, v, &d->queue[k], devoted, &best);
    d->open[v] = false;
}

/* Lists variables by their distance from the first one. */
static int32_t find_region(struct descent *d, int32_t first, int32_t most)
{
    int32_t count = 1;
    d->region[0] = first;
    d->open[first] = true;
    for (int32_t at = 0; at < count && count < most; at++)
        for (int32_t k = d->first_edge[d->region[at]];
             k < d->first_edge[d->region[at] + 1] && count < most; k++) {
            const struct assign_edge *e = &d->problem->edge[d->edge_of[k]];
            int32_t other = e->a == d->region[at] ? e->b : e->a;
            if (d->open[other])
                continue;
            d->open[other] = true;
            d->region[count++] = other;
        }
    return count;
}

/* Of a few random options, the one that is fastest by itself. */
static int32_t draw_option(struct descent *d, int32_t v)
{
    enum { DRAWS = 3 };
    int32_t best = (int32_t)rng_below(&d->rng, d->problem->options[v]);
    for (int i = 1; i < DRAWS; i++) {
        int32_t other = (int32_t)rng_below(&d->rng, d->problem->options[v]);
        best = d->problem->time[v][other] < d->problem->time[v][best] ? other : best;
    }
    return best;
}

/* Draws one variable of a region again; the others in it follow. Variables outside stay. */
static void redraw(struct descent *d, int32_t most, bool devoted)
{
    int32_t first = (int32_t)rng_below(&d->rng, d->problem->variables);
    int32_t count = find_region(d, first, most);
    d->option[first] = draw_option(d, first);
    d->open[first] = false;
    for (int32_t i = 1; i < count; i++)
        follow_neighbours(d, d->region[i], devoted);
}

void descent_alone(struct descent *d)
{
    for (int32_t v = 0; v < d->problem->variables; v++) {
        d->option[v] = 0;
        for (int32_t i = 1; i < d->problem->options[v]; i++)
            if (d->problem->time[v][i] < d->problem->time[v][d->option[v]])
                d->option[v] = i;
    }
}

static double least_memory(const struct assign *p, int32_t v, int32_t *option)
{
    double least = INFINITY;
    for (int32_t i = 0; i < p->options[v]; i++)
        if (p->memory[v][i] < least && isfinite(p->time[v][i])) {
            least = p->memory[v][i];
            *option = i;
        }
    return least;
}

/* Whether not even the least memory of each variable fits; if so, that is the answer to stay
 * with. */
static bool cannot_fit(struct descent *d)
{
    const struct assign *p = d->problem;
    double sum = 0;
    for (int32_t v = 0; v < p->variables; v++)
        sum += least_memory(p, v, &d->option[v]);
    return isfinite(sum) && sum > p->limit;
}

/* Prices to start with, in multiples of the best time over the limit. */
static const double PRICES[] = {0, 1, 0.25, 0.5, 2};
/* Two descents in this many start with all variables drawn again. */
enum { ANYWHERE = 4 };

static void begin(struct descent *d, int64_t round)
{
    const struct assign *p = d->problem;
    double price = PRICES[(size_t)round % COUNT_OF(PRICES)];
    bool priced = round && isfinite(p->limit) && p->limit > 0;
    d->memory_price = priced ? price * d->best.time / p->limit : 0;
    if (round == 0) {
        descent_alone(d);
        return;
    }
    memcpy(d->option, d->best.option, sizeof *d->option * (size_t)p->variables);
    bool anywhere = round % ANYWHERE < 2;
    int32_t most = anywhere ? p->variables : 1 + (int32_t)rng_below(&d->rng, p->variables);
    redraw(d, most, round % 2 == 0);
}

/* Sweeps end: every move makes (4) smaller, and there are finitely many assignments. */
static void descend(struct descent *d, struct assigned *now)
{
    bool moved = true;
    memset(d->settled, 0, sizeof *d->settled * (size_t)d->problem->variables);
    while (moved) {
        moved = false;
        for (int32_t v = 0; v < d->problem->variables; v++)
            moved |= descend_one(d, v, now);
    }
}

void descent_search(struct descent *d, int64_t rounds)
{
    struct assigned smallest = {0};
    if (cannot_fit(d)) {
        assign_evaluate(d->problem, d->option, &smallest);
        descent_note(d, &smallest);
        return;
    }
    for (int64_t r = 0; r < rounds && !(r && descent_stopped(d)); r++) {
        struct assigned now = {0};
        begin(d, r);
        assign_evaluate(d->problem, d->option, &now);
        if (d->memory_price > 0)
            descend(d, &now);
        d->memory_price = 0;
        descend(d, &now);
        assign_evaluate(d->problem, d->option, &now);
        descent_note(d, &now);
    }
}
