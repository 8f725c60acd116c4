/* assign.c - problems, and the cost of an assignment: (1) and (2) of assign.h. */
#include "search/autoddl/assign.h"

struct assign *assign_new(struct arena *keep, int32_t variables, const int32_t *options,
                          int32_t edges, const int32_t (*ends)[2])
{
    struct assign *p = ARENA_NEW(keep, struct assign);
    *p = (struct assign){.variables = variables, .edges = edges, .limit = INFINITY};
    p->options = ARENA_ARRAY(keep, int32_t, (size_t)variables);
    p->time = ARENA_ARRAY(keep, double *, (size_t)variables);
    p->memory = ARENA_ARRAY(keep, double *, (size_t)variables);
    p->edge = ARENA_ARRAY(keep, struct assign_edge, (size_t)edges);
    for (int32_t v = 0; v < variables; v++) {
        p->options[v] = options[v];
        p->time[v] = ARENA_ARRAY(keep, double, (size_t)options[v]);
        p->memory[v] = ARENA_ARRAY(keep, double, (size_t)options[v]);
    }
    for (int32_t e = 0; e < edges; e++) {
        size_t entries = (size_t)options[ends[e][0]] * (size_t)options[ends[e][1]];
        p->edge[e] = (struct assign_edge){ends[e][0],
                                          ends[e][1],
                                          ARENA_ARRAY(keep, double, entries),
                                          ARENA_ARRAY(keep, double, entries),
                                          ARENA_ARRAY(keep, double, entries),
                                          INFINITY};
        for (size_t i = 0; i < entries; i++)
            p->edge[e].time[i] = p->edge[e].least[i] = NAN;
    }
    return p;
}

static size_t entry_of(const struct assign *p, int32_t edge, int32_t a, int32_t b)
{
    return (size_t)a * (size_t)p->options[p->edge[edge].b] + (size_t)b;
}

double assign_pair_time(const struct assign *p, int32_t edge, int32_t a, int32_t b)
{
    size_t at = entry_of(p, edge, a, b);
    if (isnan(p->edge[edge].time[at])) {
        p->find(p->context, edge, a, b); /* I2 */
        p->edge[edge].least[at] = p->edge[edge].time[at];
    }
    return p->edge[edge].time[at];
}

double assign_pair_least(const struct assign *p, int32_t edge, int32_t a, int32_t b)
{
    size_t at = entry_of(p, edge, a, b);
    double *least = &p->edge[edge].least[at], time;
    if (isnan(*least)) {
        time = p->edge[edge].time[at];
        *least = !isnan(time) ? time : p->least ? p->least(p->context, edge, a, b) : 0;
    }
    return *least;
}

double assign_pair_memory(const struct assign *p, int32_t edge, int32_t a, int32_t b)
{
    return p->edge[edge].memory[entry_of(p, edge, a, b)];
}

void assign_evaluate(const struct assign *p, const int32_t *option, struct assigned *out)
{
    double time = 0, memory = 0;
    for (int32_t v = 0; v < p->variables; v++) {
        time += p->time[v][option[v]];
        memory += p->memory[v][option[v]];
    }
    for (int32_t e = 0; e < p->edges; e++) {
        int32_t a = option[p->edge[e].a], b = option[p->edge[e].b];
        time += assign_pair_time(p, e, a, b);
        memory += assign_pair_memory(p, e, a, b);
    }
    out->time = time;
    out->memory = memory;
    out->fits = memory <= p->limit && isfinite(time);
}

bool assign_better(const struct assigned *a, const struct assigned *b)
{
    if (a->fits != b->fits)
        return a->fits;
    if (isfinite(a->time) != isfinite(b->time))
        return isfinite(a->time);
    if (!a->fits && a->memory != b->memory)
        return a->memory < b->memory;
    return a->time < b->time || (a->time == b->time && a->memory < b->memory);
}

double assign_count(const struct assign *p)
{
    double count = 1;
    for (int32_t v = 0; v < p->variables; v++)
        count *= p->options[v];
    return count;
}
