/* assign.h - every variable takes one of its options; pairs of options cost, too.
 *
 * What is left of AutoDDL's search once operators, splits and links are numbers:
 *
 *   time(x)   = sum_v t_v(x_v) + sum_(a,b) t_ab(x_a, x_b)                                      (1)
 *   memory(x) = sum_v m_v(x_v) + sum_(a,b) m_ab(x_a, x_b) <= limit                             (2)
 *
 * with the least time (1) under (2). Where nothing meets (2), the least memory at a finite time is the
 * answer, as the nearest miss.
 *
 *   I1  Times and memories are at least 0; a variable's time may be INFINITY: never.
 *   I2  Entries of an edge are found when first asked for, by the problem's `find`; one that is not
 *       found yet has the time NAN. Without `find` all are there.
 *   I3  Same problem and seed, same answer. One thread solves a problem, as entries are written.
 */
#ifndef WEFT_SEARCH_AUTODDL_ASSIGN_H
#define WEFT_SEARCH_AUTODDL_ASSIGN_H

#include <math.h>
#include <stdatomic.h>

#include "base/base.h"

struct assign_edge {
    int32_t a, b;          /* variables, different ones */
    double *time, *memory; /* per option of a, then of b */
    double
        *least; /* at most the time, and the time where that is found, as far as anyone asked; NAN:
                      nobody did */
    double most_memory; /* of its entries, at least; INFINITY: nobody knows */
};

struct assign {
    int32_t variables, edges;
    int32_t *options;        /* per variable, at least one */
    double **time, **memory; /* per variable, then option */
    struct assign_edge *edge;
    double limit; /* of (2); INFINITY: none */
    /* Fills in one entry of an edge (I2). */
    void (*find)(void *context, int32_t edge, int32_t a, int32_t b);
    /* At most its time, and quickly; NULL: 0. */
    double (*least)(void *context, int32_t edge, int32_t a, int32_t b);
    void *context;
};

struct assigned {
    int32_t *option; /* per variable */
    double time, memory;
    bool fits;
    double bound;  /* nothing that fits takes less; 0: nobody knows */
    int64_t tried; /* assignments that were compared */
};

/* A problem with room for its numbers, all 0; edges' times are NAN. */
struct assign *assign_new(struct arena *keep, int32_t variables, const int32_t *options,
                          int32_t edges, const int32_t (*ends)[2]);
/* (1) and (2) of one assignment. */
void assign_evaluate(const struct assign *problem, const int32_t *option, struct assigned *out);
/* Entry (a, b) of an edge is there afterwards. */
double assign_pair_time(const struct assign *problem, int32_t edge, int32_t a, int32_t b);
/* Its memory, where its time is there. */
double assign_pair_memory(const struct assign *problem, int32_t edge, int32_t a, int32_t b);
/* Its time if that is there, else at most that. */
double assign_pair_least(const struct assign *problem, int32_t edge, int32_t a, int32_t b);
/* The order of answers: what fits first, then by time, then by memory. */
bool assign_better(const struct assigned *a, const struct assigned *b);

/* ---- searches -------------------------------------------------------------------------------- */

enum assign_search {
    SEARCH_CD,         /* coordinate descent with restarts (AutoDDL, section 4.4) */
    SEARCH_MH,         /* Metropolis-Hastings */
    SEARCH_RANDOM,     /* draws */
    SEARCH_EXHAUSTIVE, /* all of them */
    SEARCH_EXACT,      /* elimination of variables (assign_exact.c) */
    SEARCH_COUNT
};
bool assign_search_from_name(const char *name, enum assign_search *out);

struct assign_options {
    enum assign_search search;
    uint64_t seed;
    int64_t rounds;          /* restarts of cd, steps of mh, draws; 0: ASSIGN_ROUNDS[search] */
    const struct stop *stop; /* answers with the best so far; NULL: nobody stops it */
};
extern const int64_t ASSIGN_ROUNDS[SEARCH_COUNT];

/* `option` lives in `keep`. */
void assign_solve(const struct assign *problem, const struct assign_options *options,
                  struct arena *keep, struct assigned *out);

/* How many assignments there are. */
double assign_count(const struct assign *problem);

/* The exact search alone: false where the graph is too wide for it (assign_exact.c), and `out` is
 * what it began with. On entry `out` is some answer, better than which it looks for. */
bool assign_exact(const struct assign *problem, const struct stop *stop, struct assigned *out);

#endif
