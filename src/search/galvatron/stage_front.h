/* stage_front.h - inside galvatron: what a run of layers can do as a stage, when it may be the slowest
 * one and when it is not.
 *
 * A stage's *options* are the pairs (steady, time) that its strategies reach within the memory
 * limit and of which none beats another. In
 *
 *   iteration = (m - 1) * max_i steady_i + sum_i time_i                                         (1)
 *
 * options before the one with the least (m - 1) steady + time, or after the one with the least
 * time, are of no use: they lose more in one term than they gain in the other. Between the two are
 * those that are best for some weights (a, b), found by layerwise_solve. Below the line through two
 * neighbours of these there is nothing; above it there may be more, found by growing partial plans
 * layer by layer.
 *
 *   I1  Options are sorted by steady ascending, time descending. A *bound* has no strategies: it
 *       says that whatever is still unknown is no better than it.
 *   I2  What is not known yet is found when it is asked for: the search asks for bounds that look
 *       better than any plan.
 */
#ifndef WEFT_SEARCH_GALVATRON_STAGE_FRONT_H
#define WEFT_SEARCH_GALVATRON_STAGE_FRONT_H

#include "search/galvatron/layer_table.h"

enum option_kind {
    OPTION_PLAN,
    OPTION_UNKNOWN, /* the whole run: nothing was searched yet */
    OPTION_LINE,    /* between two plans: no weights were tried yet */
    OPTION_ABOVE    /* between two plans, above their line */
};
struct option {
    enum option_kind kind;
    struct stage_cost cost; /* for a bound: at least this */
    int32_t *strategy;      /* for a plan: per layer of the run */
    struct weights weights; /* for OPTION_ABOVE: its line, */
    int64_t least;          /* and a lower bound of any plan's weighted times */
};
struct stage_run {
    int32_t class;
    struct layer_run run; /* one of several equal runs */
    struct option *data;
    size_t len, cap;
};

struct stage_fronts {
    struct layer_table *table;
    struct arena *keep;
    int64_t searched; /* calls of layerwise_solve */
    bool exact;       /* the search has given up nothing */
};

/* A run about which nothing is known but bounds; it has no options if it is impossible. */
void stage_run_open(struct stage_fronts *fronts, int32_t class, struct layer_run run,
                    struct stage_run *out);
/* The number of the option with the least time among those with a steady time below `below_ns`; -1:
 * none. *time_ns is a lower bound for such a stage. */
int32_t stage_run_pick(const struct stage_run *run, int64_t below_ns, int64_t *time_ns);
/* Replaces a bound by plans and tighter bounds, or removes it. WEFT_NO_ANSWER: stopped. */
weft_status stage_run_refine(struct stage_fronts *fronts, struct stage_run *run, int32_t option);

/* Appends all plans whose steady time is in [from.steady, to.steady) and whose time is in [to.time,
 * from.time), of which none beats another. False: there were too many partial plans
 * (stage_labels.c). */
typedef ARRAY(struct option) option_list;
bool stage_plans_between(const struct stage_fronts *fronts, const struct stage_run *run,
                         const struct stage_cost *from, const struct stage_cost *to,
                         option_list *out);

#endif
