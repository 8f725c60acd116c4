/* layout_floor.h - inside layout_floor: a chain of operators, and the options that are left of
 * each. */
#ifndef WEFT_SEARCH_AUTODDL_LAYOUT_FLOOR_H
#define WEFT_SEARCH_AUTODDL_LAYOUT_FLOOR_H

#include "search/autoddl/layout_room.h"

/* An operator and the next one, which reads its output at once. */
struct pair {
    const struct layout_uses *uses; /* NULL: it does not read it */
    int32_t operand;
    double forward, back; /* how often each counts in (2) */
    double *time;         /* per remaining option of either: a lower bound, */
    bool *real;           /* and whether that is the real time */
};

struct bound {
    const struct layout_problem *p;
    struct arena *scratch;
    int32_t ops;
    double *passes, *updates; /* per operator: how often each counts in (2) */
    struct pair *pair;        /* per operator: it and the next one */
    int32_t *count, **option; /* per operator: the remaining options */
    /* Per operator and remaining option: the least up to it, and from it on, its own in both. */
    double **before, **after;
    double price;    /* per byte */
    bool by_degrees; /* the lower bounds of reshards (layout_bound.c, I3) */
};

static inline double floor_priced(const struct bound *b, int32_t op, int32_t k)
{
    const struct layout_alone *alone = &b->p->work->alone[op][b->option[op][k]];
    return b->passes[op] * alone->pass + b->updates[op] * alone->least_update +
           b->price * alone->memory;
}

/* What (3) subtracts; nothing if there is no limit, since the price is 0 then. */
static inline double floor_refund(const struct bound *b)
{
    return b->price > 0 ? b->price * b->p->about.limit_bytes : 0;
}

/* The number of entries of all pairs. */
double floor_all_pairs(const struct bound *b);
/* Fills in their lower bounds. */
void floor_fill_pairs(struct bound *b);
/* (3) of layout_floor.c over the chain; leaves the best price and its chain in b. */
double floor_relax_chain(struct bound *b, double below);
/* Drops options whose class is in no chain below a time (layout_classes.c). Returns the classes'
 * own floor, or less. */
double floor_drop_classes(struct bound *b, double below);

/* Counts how often the floor has each operator and pair: passes and updates (layout_counts.c). */
weft_status floor_count_all(struct bound *b);

#endif
