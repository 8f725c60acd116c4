/* assign_left.c - options that are left, and those that need not be looked at (assign_left.h). */
#include "search/autoddl/assign_left.h"

#include <string.h>

struct left left_all(struct arena *keep, const struct assign *p)
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
static bool least_edges(const struct assign *p, struct assign_work *work, const struct left *left,
                        struct arena *scratch, double **of, double *own, double *all)
{
    for (int32_t v = 0; v < p->variables; v++)
        of[v] = ARENA_ARRAY(scratch, double, (size_t)left->count[v]);
    for (int32_t i = 0; i < p->edges; i++) {
        double one = 0;
        if (work_over(work))
            return false;
        work_add(work, (double)left->count[p->edge[i].a] * left->count[p->edge[i].b]);
        note_edge(p, left, i, of, &one);
        *all += one;
        own[p->edge[i].a] += one;
        own[p->edge[i].b] += one;
    }
    return true;
}

void left_drop_slow(const struct assign *p, struct assign_work *work, double price, double most,
                    struct left *left)
{
    struct arena *scratch = arena_new();
    double **of = ARENA_ARRAY(scratch, double *, (size_t)p->variables);
    double *own = ARENA_ARRAY(scratch, double, (size_t)p->variables);
    double sum = 0;
    bool looked = least_edges(p, work, left, scratch, of, own, &sum);
    for (int32_t v = 0; v < p->variables; v++)
        sum += least_priced(p, left, v, price);
    for (int32_t v = 0; looked && v < p->variables; v++) {
        double others = sum - least_priced(p, left, v, price) - own[v];
        int32_t kept = 0, first = left->option[v][0];
        for (int32_t k = 0; k < left->count[v]; k++)
            if (priced(p, v, left->option[v][k], price) + of[v][k] + others <= most)
                left->option[v][kept++] = left->option[v][k];
        if (!kept) /* by rounding: not even the best has an option left */
            left->option[v][kept++] = first;
        left->count[v] = kept;
    }
    arena_free(scratch);
}

struct left left_copy(struct arena *keep, const struct assign *p, const struct left *left)
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

void left_drop_large(const struct assign *p, struct left *left)
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

bool left_nothing(const struct assign *p, const struct left *left)
{
    for (int32_t v = 0; v < p->variables; v++)
        if (left->count[v] == 0)
            return true;
    return false;
}

/* ---- options that another can replace -------------------------------------------------------- */

/* The edges of each variable, and all entries of each edge for one variable's side. */
struct sides {
    const struct assign *problem;
    struct assign_work *work;
    int32_t *first, *edge; /* per variable: where its edges begin */
};

static struct sides list_sides(struct arena *scratch, const struct assign *p,
                               struct assign_work *work)
{
    struct sides sides = {p, work, ARENA_ARRAY(scratch, int32_t, (size_t)p->variables + 2),
                          ARENA_ARRAY(scratch, int32_t, 2 * (size_t)p->edges + 1)};
    for (int32_t e = 0; e < p->edges; e++) {
        sides.first[p->edge[e].a + 2]++;
        sides.first[p->edge[e].b + 2]++;
    }
    for (int32_t v = 0; v < p->variables; v++)
        sides.first[v + 2] += sides.first[v + 1];
    for (int32_t e = 0; e < p->edges; e++) {
        sides.edge[sides.first[p->edge[e].a + 1]++] = e;
        sides.edge[sides.first[p->edge[e].b + 1]++] = e;
    }
    return sides;
}

struct excess {
    double time, memory;
};

/* By how much option i of v may exceed option j on one edge, at most. */
static struct excess edge_excess(const struct sides *sides, const struct left *left, int32_t edge,
                                 int32_t v, int32_t i, int32_t j)
{
    const struct assign *p = sides->problem;
    bool low = p->edge[edge].a == v;
    int32_t u = low ? p->edge[edge].b : p->edge[edge].a;
    struct excess most = {-INFINITY, -INFINITY};
    for (int32_t k = 0; k < left->count[u]; k++) {
        int32_t o = left->option[u][k];
        double time = assign_pair_time(p, edge, low ? i : o, low ? o : i) -
                      assign_pair_time(p, edge, low ? j : o, low ? o : j);
        double memory = assign_pair_memory(p, edge, low ? i : o, low ? o : i) -
                        assign_pair_memory(p, edge, low ? j : o, low ? o : j);
        most.time = time > most.time ? time : most.time;
        most.memory = memory > most.memory ? memory : most.memory;
    }
    work_add(sides->work, left->count[u]);
    return most;
}

/* (1). */
static bool replaces(const struct sides *sides, const struct left *left, int32_t v, int32_t i,
                     int32_t j)
{
    const struct assign *p = sides->problem;
    struct excess sum = {p->time[v][i] - p->time[v][j], p->memory[v][i] - p->memory[v][j]};
    for (int32_t k = sides->first[v]; k < sides->first[v + 1]; k++) {
        struct excess one = edge_excess(sides, left, sides->edge[k], v, i, j);
        sum.time += one.time;
        sum.memory += one.memory;
    }
    return sum.time <= 0 && sum.memory <= 0;
}

static bool is_dominated(const struct sides *sides, const struct left *left, int32_t v, int32_t at)
{
    for (int32_t k = 0; k < left->count[v]; k++)
        if (k != at && replaces(sides, left, v, left->option[v][k], left->option[v][at]))
            return true;
    return false;
}

static bool drop_dominated_of(const struct sides *sides, struct left *left, int32_t v)
{
    int32_t before = left->count[v];
    for (int32_t at = left->count[v] - 1; at >= 0 && !work_over(sides->work); at--)
        if (is_dominated(sides, left, v, at)) {
            left->count[v]--;
            memmove(&left->option[v][at], &left->option[v][at + 1],
                    sizeof(int32_t) * (size_t)(left->count[v] - at));
        }
    return left->count[v] != before;
}

void left_drop_dominated(const struct assign *problem, struct assign_work *work, struct left *left)
{
    struct arena *scratch = arena_new();
    struct sides sides = list_sides(scratch, problem, work);
    bool dropped = true;
    while (dropped && !work_over(work)) {
        dropped = false;
        for (int32_t v = 0; v < problem->variables; v++)
            dropped |= drop_dominated_of(&sides, left, v);
    }
    arena_free(scratch);
}
