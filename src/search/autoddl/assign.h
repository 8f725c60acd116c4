/* assign.h - every variable takes one of its options; pairs of options have a cost, too.
 *
 * This is what AutoDDL's search comes down to once operators, splits and links are numbers:
 *
 *   time(x)   = sum_v t_v(x_v) + sum_(a,b) t_ab(x_a, x_b)                                      (1)
 *   memory(x) = sum_v m_v(x_v) + sum_(a,b) m_ab(x_a, x_b) <= limit                             (2)
 *
 * The answer has the least time (1) under (2). If nothing satisfies (2), the answer is the nearest
 * miss: the least memory at a finite time.
 *
 *   I1  Times and memories are at least 0; a variable's time may be INFINITY: the option is
 *       impossible.
 *   I2  Entries of an edge are found when first asked for, by the problem's `find`; one that is not
 *       found yet has the time NAN. Without `find` all entries are filled in.
 *   I3  The same problem and seed have the same answer. One thread solves a problem, because
 *       entries are written.
 */
#ifndef WEFT_SEARCH_AUTODDL_ASSIGN_H
#define WEFT_SEARCH_AUTODDL_ASSIGN_H

#include <math.h>
#include <stdatomic.h>

#include "search/autoddl/work.h"

struct assign_edge {
    int32_t a, b;          /* two different variables */
    double *time, *memory; /* per option of a, then of b */
    /* A lower bound of the time, equal to it once that is found; NAN: not asked for yet. */
    double *least;
    double most_memory; /* at least that of any entry; INFINITY: unknown */
};

struct assign {
    int32_t variables, edges;
    int32_t *options;        /* per variable, at least one */
    double **time, **memory; /* per variable, then option */
    struct assign_edge *edge;
    double limit; /* for (2); INFINITY: none */
    /* Fills in one entry of an edge (I2). */
    void (*find)(void *context, int32_t edge, int32_t a, int32_t b);
    /* A quick lower bound of an entry's time; NULL: 0. */
    double (*least)(void *context, int32_t edge, int32_t a, int32_t b);
    void *context;
};

struct assigned {
    int32_t *option; /* per variable */
    double time, memory;
    bool fits;
    double bound;  /* nothing that fits takes less; 0: unknown */
    int64_t tried; /* assignments that were compared */
};

/* A problem with room for its numbers, all 0; the times of edges are NAN. */
struct assign *assign_new(struct arena *keep, int32_t variables, const int32_t *options,
                          int32_t edges, const int32_t (*ends)[2]);
/* (1) and (2) of one assignment. */
void assign_evaluate(const struct assign *problem, const int32_t *option, struct assigned *out);
/* The time of entry (a, b) of an edge, which is found if it is not there yet. */
double assign_pair_time(const struct assign *problem, int32_t edge, int32_t a, int32_t b);
/* The memory of an entry whose time was found. */
double assign_pair_memory(const struct assign *problem, int32_t edge, int32_t a, int32_t b);
/* The time of an entry if it was found, otherwise its lower bound. */
double assign_pair_least(const struct assign *problem, int32_t edge, int32_t a, int32_t b);
/* The order of answers: those that fit first, then by time, then by memory. */
bool assign_better(const struct assigned *a, const struct assigned *b);

/* ---- searches -------------------------------------------------------------------------------- */

enum assign_search {
    SEARCH_CD,         /* coordinate descent with restarts (AutoDDL, section 4.4) */
    SEARCH_MH,         /* Metropolis-Hastings */
    SEARCH_RANDOM,     /* random draws */
    SEARCH_EXHAUSTIVE, /* all assignments */
    SEARCH_EXACT,      /* elimination of variables (assign_exact.c) */
    SEARCH_COUNT
};
/* A search's name, for Metropolis-Hastings also with the constant of its acceptance, "mh:20"; without it *beta stays. */
bool assign_search_from_name(const char *name, enum assign_search *out, double *beta);

struct assign_options {
    enum assign_search search;
    uint64_t seed;
    double beta; /* of mh: what is slower by a share x is accepted with exp(-beta x); 0: 50 */
    /* restarts of cd, steps of mh, draws; 0: as many as the search is known to need */
    int64_t rounds;
    /* When it says so, the search answers with the best so far; NULL: never. What is done is added to it. */
    struct assign_work *work;
};

/* `option` of the answer is in `keep`. */
void assign_solve(const struct assign *problem, const struct assign_options *options,
                  struct arena *keep, struct assigned *out);

/* The number of all assignments. */
double assign_count(const struct assign *problem);

/* The exact search alone. On entry `out` is some answer; the search looks for a better one. False:
 * the graph is too wide for it (assign_exact.c), and `out` is unchanged. */
bool assign_exact(const struct assign *problem, struct assign_work *work, struct assigned *out);

#endif
