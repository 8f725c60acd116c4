/* stage_front.h - inside galvatron: what a run of layers can do as a stage, when it may be the slowest
 * one and when it is not.
 *
 * A stage's *options* are the pairs (steady, time) that its strategies reach within the memory limit
 * and of which none beats another. In
 *
 *   iteration = (m - 1) * max_i steady_i + sum_i time_i                                         (1)
 *
 * options below that of the least (m - 1) steady + time, or after that of the least time, are of no
 * use: what they gain in one term they lose in the other. Between the two lie those that some
 * weights (a, b) make best, found by layerwise_solve, and below each line through two of these
 * nothing, but above it perhaps more, found by growing partial plans layer by layer.
 *
 *   I1  Options stand by steady ascending, time descending. A *bound* has no strategies: it says
 *       that whatever is still unknown is no better than it.
 *   I2  What is not known yet is found when somebody asks for it: the search asks for bounds that
 *       look better than any plan.
 */
#ifndef WEFT_SEARCH_GALVATRON_STAGE_FRONT_H
#define WEFT_SEARCH_GALVATRON_STAGE_FRONT_H

#include "search/galvatron/layer_table.h"

enum option_kind {
    OPTION_PLAN,
    OPTION_UNKNOWN, /* the whole run: nothing was searched */
    OPTION_LINE,    /* between two plans: no weights were tried */
    OPTION_ABOVE    /* between two plans, above their line */
};
struct option {
    enum option_kind kind;
    struct stage_cost cost; /* of a bound: at least */
    int32_t *strategy;      /* of a plan, per layer of the run */
    struct weights weights; /* of OPTION_ABOVE: its line, */
    int64_t least;          /* and what no plan's weighted times are below */
};
struct stage_run {
    int32_t class;
    struct layer_run run; /* one of the alike */
    struct option *data;
    size_t len, cap;
};

struct stage_fronts {
    struct layer_table *table;
    struct arena *keep;
    int64_t searched; /* calls of layerwise_solve */
    bool exact;       /* nothing was given up */
};

/* A run of which nothing is known but bounds; no options: it cannot be. */
void stage_run_open(struct stage_fronts *fronts, int32_t class, struct layer_run run,
                    struct stage_run *out);
/* The least time of a stage whose steady time is below `below_ns`: the option's number, -1: none.
 * *time_ns is at least what such a stage takes. */
int32_t stage_run_pick(const struct stage_run *run, int64_t below_ns, int64_t *time_ns);
/* Replaces a bound by plans and tighter bounds, or takes it away. WEFT_NO_ANSWER: stopped. */
weft_status stage_run_refine(struct stage_fronts *fronts, struct stage_run *run, int32_t option);

/* Appends all plans whose steady time is in [from.steady, to.steady) and time in [to.time, from.time)
 * of which none beats another. False: too many partial plans on the way (stage_labels.c). */
typedef ARRAY(struct option) option_list;
bool stage_plans_between(const struct stage_fronts *fronts, const struct stage_run *run,
                         const struct stage_cost *from, const struct stage_cost *to,
                         option_list *out);

#endif
