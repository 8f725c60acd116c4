/* assign_descent.h - inside assign: what the searches share that try one assignment after another. */
#ifndef WEFT_SEARCH_AUTODDL_ASSIGN_DESCENT_H
#define WEFT_SEARCH_AUTODDL_ASSIGN_DESCENT_H

#include "search/autoddl/assign.h"

struct queued {
    double least;
    int32_t option;
};
struct descent {
    const struct assign *problem;
    const struct assign_options *options;
    int32_t *first_edge, *edge_of; /* per variable: its edges */
    int32_t *option;
    struct queued *queue; /* scratch: a variable's options */
    bool *open;           /* per variable: it has no option yet, and its edges do not count */
    bool *settled;        /* per variable: it was looked at since its neighbours moved, */
    double *settled_at;   /* with so much memory in all */
    double *most_memory;  /* per variable: at least that of any of its options, with its edges */
    int32_t *region;      /* scratch: variables */
    double price;         /* of a byte too much (4) */
    double memory_price;  /* of any byte: w */
    struct rng rng;
    struct assigned best;
    bool found; /* best is something */
};

/* (4) of assign_descent.c. */
static inline double descent_judged(const struct descent *d, double time, double memory)
{
    double excess = memory - d->problem->limit, sum = time + d->memory_price * memory;
    return excess > 0 ? sum + d->price * excess : sum;
}

static inline bool descent_stopped(const struct descent *d)
{
    return stop_now(d->options->stop);
}

/* The edges of each variable, the most memory of each, and room for its options. */
void descent_index(struct arena *scratch, struct descent *d);
/* Begins with whatever is fastest alone. */
void descent_alone(struct descent *d);
/* Keeps the options at hand, and what they come to, if nothing before was better. */
void descent_note(struct descent *d, struct assigned *now);
/* Coordinate descent. */
void descent_search(struct descent *d, int64_t rounds);

#endif
