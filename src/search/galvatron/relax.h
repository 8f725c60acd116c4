/* relax.h - inside layerwise: what the layers before a given one must at least cost.
 *
 * Lagrangian relaxation of the memory limit E: for any price w >= 0 of a byte, a plan that fits
 * takes
 *
 *   time >= min over plans of { time + w * bytes } - w * E                                      (1)
 *
 * where bytes = sum O_f + O_ms + O_b(last) <= memory of Eq. 2. The minimum is a shortest path from
 * the first layer; its value up to every (layer, strategy) is a row of the table:
 *
 *   rest(0, s) = 0,  rest(l, s) = min_s' { rest(l - 1, s') + cost(l - 1, s') + R(l, s', s) }    (2)
 *
 * Strategies with equal rows of R send alike, those with equal columns receive alike: DP and SDP,
 * with and without recompute, are one row and one column. Tables and fronts are per column.
 *
 *   I1  Shifting a row shifts the next one, and a larger row never gives a smaller one. So in a run
 *       of equal layers, once a row exceeds the one before it by at least d everywhere, n layers
 *       later it does so by at least n * d: the rows of such a steady run are filled in, not
 *       computed.
 *   I2  rest is a lower bound up to the rounding of doubles; the plan it belongs to is exact in
 *       integers.
 */
#ifndef WEFT_SEARCH_GALVATRON_RELAX_H
#define WEFT_SEARCH_GALVATRON_RELAX_H

#include "search/galvatron/layerwise.h"

/* One matrix R without repeated rows and columns. */
struct reshard_matrix {
    int32_t rows, columns;
    int32_t *row_of, *column_of; /* per strategy */
    int64_t *ns;                 /* per row, then column */
    /* Per column a, then column b: how much more, at most, any row sends to a than to b. A state
     * that arrives at a in time t is thus no worse than one that arrives at b in t plus this. */
    int64_t *excess_ns;
};

/* A problem, with what all its tables need. */
struct costs {
    /* As given, but without strategies that another one with equal rows and columns beats in every
     * respect: their times are LAYERWISE_NEVER. */
    struct layerwise problem;
    struct reshard_matrix *reshards; /* per boundary */
    struct reshard_matrix first;     /* before the first layer: one column */
    double *row, *sent;              /* scratch: one per strategy */
};
struct costs costs_new(struct arena *keep, const struct layerwise *problem);
/* The reshards before a layer. */
const struct reshard_matrix *reshards_at(const struct costs *costs, int32_t layer);
int64_t reshard_cost(const struct costs *costs, int32_t layer, int32_t before, int32_t column);

/* One layer on one strategy. */
struct relaxed_cost {
    int64_t time_ns, kept_bytes, peak_bytes, state_bytes;
};
struct relaxed_cost layer_cost(const struct layerwise *problem, int32_t layer, int32_t strategy);

/* All layers before a given one together: they turn a need n of memory after them (without states)
 * into kept + max(peak, n). */
struct prefix {
    int64_t time_ns, kept_bytes, peak_bytes, state_bytes;
    int32_t previous; /* the strategy of the layer before */
};

struct price {
    double ns, bytes; /* prices of a nanosecond and of a byte */
};
struct relaxation {
    struct price price;
    int32_t width;         /* number of columns per layer */
    double *rest;          /* per layer, then column: (2) */
    bool *steady;          /* per layer: its row is the one before, shifted (I1) */
    struct prefix *prefix; /* per layer, then column: the plan that attains (2) */
};
struct relaxation relax_new(struct arena *keep, const struct costs *costs);
void relax_fill(struct relaxation *relaxation, const struct costs *costs, struct price price);
void relax_prefixes(struct relaxation *relaxation, const struct costs *costs);

/* The price of a byte that makes (1) tightest: 0 if the fastest plan fits. `least` has the bytes
 * and the time of the plan with the fewest bytes, which fits. Sets the number of tables filled. */
struct point {
    int64_t time_ns, bytes;
};
double relax_price(struct arena *scratch, const struct costs *costs, struct point least,
                   int32_t *iterations);

#endif
