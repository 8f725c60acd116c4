/* layout_floor.h - inside layout_floor: a chain of operators and the options that are left of each. */
#ifndef WEFT_SEARCH_AUTODDL_LAYOUT_FLOOR_H
#define WEFT_SEARCH_AUTODDL_LAYOUT_FLOOR_H

#include "search/autoddl/layout_room.h"

/* An operator and the next one, which reads its output at once. */
struct pair {
    const struct layout_uses *uses; /* NULL: it does not */
    int32_t operand;
    double forward, back; /* how often in (2) */
    double *time;         /* per option that is left of either: at least */
    bool *real;           /* and not less */
};

struct bound {
    const struct layout_problem *p;
    struct arena *scratch;
    int32_t ops;
    double *passes, *updates; /* per operator: how often in (2) */
    struct pair *pair;        /* per operator: with the next */
    int32_t *count, **option; /* per operator: what is left */
    double **before,
        **after;  /* per operator and option that is left: the least up to it and from it
                                  on, its own in both */
    double price; /* of a byte */
    double (*least)(const struct layout_problem *p, const struct layout *from,
                    const struct layout *to, int64_t element_bytes); /* of a reshard */
};

static inline double floor_priced(const struct bound *b, int32_t op, int32_t k)
{
    const struct layout_alone *alone = &b->p->work->alone[op][b->option[op][k]];
    return b->passes[op] * alone->pass + b->updates[op] * alone->least_update +
           b->price * alone->memory;
}

/* What (3) takes off; nothing without a limit, which no price needs. */
static inline double floor_refund(const struct bound *b)
{
    return b->price > 0 ? b->price * b->p->about.limit_bytes : 0;
}

/* How many entries all pairs have. */
double floor_all_pairs(const struct bound *b);
/* What they take at least, by the bound's own measure. */
void floor_fill_pairs(struct bound *b);
/* (3) of layout_floor.c over the chain; the best price is left in b, and its chain. */
double floor_relax_chain(struct bound *b, double below);
/* Options whose class is in no chain below a time go (layout_classes.c); the classes' own floor, or less. */
double floor_drop_classes(struct bound *b, double below);

/* How often the floor counts each operator and pair: passes and updates (layout_counts.c). */
weft_status floor_count_all(struct bound *b);

#endif
