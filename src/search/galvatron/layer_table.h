/* layer_table.h - inside galvatron: what layers cost in one setting: a batch, a PP degree and a number
 * of micro-batches.
 *
 * Stages in the same place share their costs. Those that also hold the same number of
 * micro-batches, and take the same besides their layers, are one *class*: a run of layers costs the
 * same on all of them.
 *
 *   I1  Stage i of p holds min(p - i, m) micro-batches (1F1B).
 *   I2  A stage with weights (a, b) minimises a * steady + b * time, with time = steady + once.
 *       With (m - 1, 1) it is the slowest stage, with (0, 1) the others wait for another one.
 *   I3  No plan of a run that fits takes less than
 *         max over prices w of  sum_l min_s { c(l, s) + w (n O_f + O_ms) } - w E               (1)
 *   I4  A reshard that was not asked for counts as 0, which is never too much: a plan that is best
 *       with these is the best, once the reshards on its own path have been asked for.
 *   I5  Strategies that are impossible, or that another one of the same layout beats in every cost
 *       of every kind and place, are left out.
 */
#ifndef WEFT_SEARCH_GALVATRON_LAYER_TABLE_H
#define WEFT_SEARCH_GALVATRON_LAYER_TABLE_H

#include "search/galvatron/layer_search.h"

enum { PRICES = 17 }; /* of a byte: 0, and powers of 2 around what layers pay for it (I3) */

/* Costs per kind, then strategy. */
struct place_costs {
    int32_t number; /* the source's number, or that of the stage */
    int32_t stage;  /* the first stage there: the one that the source is asked about */
    int64_t *steady_ns, *time_ns, *kept_bytes, *peak_bytes, *state_bytes;
    int64_t *reshard_ns; /* per boundary, then the strategies before and after (I4) */
    bool *asked;         /* per boundary, then their layouts */
};
struct stage_class {
    struct place_costs *place;
    int64_t in_flight;
    struct layer_cost beside;
    int64_t limit_bytes; /* for the layers */
    int64_t *kept_bytes; /* for all micro-batches in flight */
    double price[PRICES];
    double *steady_at, *time_at; /* per kind, then price: the summand of (1) */
};

struct layer_table {
    const struct layer_problem *problem;
    struct arena *keep;
    int64_t batch, micro_batches;
    int32_t stages;
    const struct strategies *strategies; /* without those that I5 leaves out */
    const int32_t *layout_of;            /* per strategy: the first one of its layout */
    int32_t *class_of;                   /* per stage */
    ARRAY(struct stage_class) classes;
    ARRAY(struct place_costs *) places;
    int32_t *kinds_before; /* per layer, and one past the last, then kind: how many are before it */
    /* Per layer, and one past the last: sums over the layers before it, in any place. */
    int64_t *least_steady_ns, *least_time_ns;
    /* Costs are bounds, but for those that were found since; what a stage has besides its layers counts as nothing. */
    bool rough;
};

/* The index of a place's reshard at a boundary; with layouts, the index in `asked`. */
static inline size_t reshard_at(const struct layer_table *table, int32_t boundary, int32_t before,
                                int32_t after)
{
    size_t n = table->strategies->len;
    return ((size_t)boundary * n + (size_t)before) * n + (size_t)after;
}

/* The strategies of a group of devices, with their layouts. */
struct group_options {
    struct strategies strategies;
    int32_t *layout_of;
};
struct group_options group_options_new(struct arena *keep, const struct layer_problem *problem,
                                       int64_t group);

/* Asks for the costs of layers; *possible: every layer has a strategy. */
weft_status layer_table_new(struct arena *keep, const struct layer_problem *problem,
                            const struct group_options *options, int64_t batch, int32_t stages,
                            int64_t micro_batches, bool *possible, struct layer_table *out);
/* The same with bounds of costs (layer_search.h, `roughly`), of all strategies. */
weft_status layer_table_roughly(struct arena *keep, const struct layer_problem *problem,
                                const struct group_options *options,
                                const struct layer_question *question, bool *possible,
                                struct layer_table *out);
void place_cost(struct place_costs *place, size_t at, const struct layer_cost *cost);
/* Finds prices and least times of a rough table; to be called again after costs were found. False: a layer has no
 * strategy. */
bool layer_table_prices(struct layer_table *table);
/* A lower bound of any iteration. */
int64_t layer_table_bound_ns(const struct layer_table *table);
/* Makes room for reshards, and finds prices; to be called before runs are looked at. */
void layer_table_classes(struct layer_table *table);
/* Asks for the reshards on a plan's path; *more: one of them takes longer than assumed (I4). */
weft_status layer_table_reshards(struct layer_table *table, int32_t class, struct layer_run run,
                                 const int32_t *strategy, bool *more);

/* A run of layers on a stage with weights (I2), as a problem of layerwise.h; its times are in
 * `keep`. */
struct weights {
    int64_t steady, time;
};
struct layerwise stage_problem(const struct layer_table *table, int32_t class, struct layer_run run,
                               struct weights weights, struct arena *keep);
/* The cost with given strategies, including the stage's own. All LAYERWISE_NEVER if one of them is
 * impossible there. */
struct stage_cost stage_cost_of(const struct layer_table *table, int32_t class,
                                struct layer_run run, const int32_t *strategy);
/* Bounds both times of a run by (1); false: a layer has no strategy on this stage. */
bool stage_bound(const struct layer_table *table, int32_t class, struct layer_run run,
                 struct stage_cost *out);

#endif
