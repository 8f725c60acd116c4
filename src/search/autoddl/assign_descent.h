/* assign_descent.h - inside assign: what those searches share that try one assignment after
 * another. */
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
    struct assign_work *work;
    int32_t *first_edge, *edge_of; /* per variable: its edges */
    int32_t *option;
    struct queued *queue; /* scratch: the options of a variable */
    bool *open;           /* per variable: it has no option yet, so its edges do not count */
    bool *settled;        /* per variable: it was looked at since its neighbours last moved, */
    double *settled_at;   /* when this was all memory in use */
    double *most_memory;  /* per variable: at least that of any of its options with its edges */
    int32_t *region;      /* scratch: variables */
    double price;         /* per byte of excess (4) */
    double memory_price;  /* per byte: w of (4) */
    struct rng rng;
    struct assigned best;
    bool found; /* whether best was set */
};

/* (4) of assign_descent.c. */
static inline double descent_judged(const struct descent *d, double time, double memory)
{
    double excess = memory - d->problem->limit, sum = time + d->memory_price * memory;
    return excess > 0 ? sum + d->price * excess : sum;
}

static inline bool descent_stopped(const struct descent *d)
{
    return work_over(d->work);
}

/* Lists the edges of each variable and its largest memory, and makes room for its options. */
void descent_index(struct arena *scratch, struct descent *d);
/* Starts with the option of each variable that is fastest by itself. */
void descent_alone(struct descent *d);
/* Keeps the current options and their cost if nothing before was better. */
void descent_note(struct descent *d, struct assigned *now);
/* Coordinate descent. */
void descent_search(struct descent *d, int64_t rounds);

#endif
