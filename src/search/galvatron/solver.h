/* solver.h - inside layerwise: one problem being solved, its bounds and its rounds.
 *
 * States grow from the last layer to the first (front.h says why); they are compared with the
 * tables of relax.h, which go from the first layer to the same place. A state with time t, memory v
 * and strategy s at layer l
 *
 *   cannot end below  t + rest(l, s) and t + rest_w(l, s) - w * (limit - v)                     (1)
 *   can end at        the prefix of a table, if that fits                                       (2)
 *
 * where rest is priced at 0 and rest_w at the price w that makes the bound of the whole tightest.
 * States whose (1) is above a threshold are dropped; what (2) finds is the best plan so far.
 *
 *   I1  A round with threshold T that found a plan of at most T has found the best one: no state of
 *       a faster plan, nor of one as fast with less memory, was dropped.
 *   I2  Bounds are doubles. guarded() is above their rounding errors, so a bound never drops a
 *       state that integers would have kept.
 */
#ifndef WEFT_SEARCH_GALVATRON_SOLVER_H
#define WEFT_SEARCH_GALVATRON_SOLVER_H

#include "search/galvatron/front.h"
#include "search/galvatron/relax.h"

/* The prefixes that complete a state: the fastest, those at the best price, those of fewest
 * bytes. */
enum prefix_table { TABLE_FAST, TABLE_PRICED, TABLE_SMALL, TABLE_COUNT };

/* The fronts of one layer: the front of column c is state[first[c]] to state[end[c] - 1]. */
struct fronts {
    struct front_state *state;
    int64_t *first, *end;
    double *bound; /* per column: the least priced bound of its states */
};

struct solver {
    struct costs costs;
    const struct layerwise *problem; /* that of the costs */
    struct relaxation table[TABLE_COUNT];
    int64_t *least_before; /* per layer: bytes that the layers before it need at least */
    int64_t *peak_before;  /* per layer: the p of front.h */
    int64_t threshold_ns;
    struct fronts *fronts; /* per layer, of this round */
    struct layerwise_answer *best;
    bool found, stopped;
};

/* The two bounds of (1) for states of one layer and column. */
struct bounds {
    double fast, priced, w; /* for a state without bytes; the price of its bytes */
};
struct bounds bounds_at(const struct solver *solver, int64_t at);
double fast_bound(const struct bounds *bounds, const struct front_state *state);
double priced_bound(const struct bounds *bounds, const struct front_state *state);
/* The index of a layer on a strategy in the tables. */
int64_t place(const struct solver *solver, int32_t layer, int32_t strategy);
/* The largest value that a bound may have if the true value is this time: every sum on the way is
 * at most the time plus the priced limit, and there are a few per layer (I2). */
double guarded(const struct solver *solver, double ns);

/* Adds a layer before a state; with a zeroed state, the last layer. */
struct front_state extend(const struct front_state *state, int32_t next,
                          const struct relaxed_cost *cost, int64_t reshard_ns, int32_t strategy);
/* Completes a state with each table (2). */
void complete(struct solver *solver, int32_t layer, const struct front_state *state);
bool told_to_stop(const struct solver *solver);
/* Finds all plans of at most threshold_ns that no other beats, unless stopped. */
void play_round(struct solver *solver);

#endif
