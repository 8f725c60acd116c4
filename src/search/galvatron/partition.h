/* partition.h - which layers belong to which stage of a pipeline (Galvatron-BMW, section IV-B).
 *
 *   iteration = (m - 1) * max_i steady_i + sum_i time_i                                  (Eq. 5, 9)
 *   alpha     = 1 - max_i cost_i / sum_i cost_i                                             (Eq. 6)
 *
 *   I1  Stages hold consecutive layers, in order, at least one each.
 *   I2  Callbacks say what a stage costs. One run of layers on one stage is searched once.
 *   I3  A stage's cost never falls when its run of layers grows (this is required of
 *       balance_partition's costs; it is true of sums, and of the best time under a memory limit).
 */
#ifndef WEFT_SEARCH_GALVATRON_PARTITION_H
#define WEFT_SEARCH_GALVATRON_PARTITION_H

#include <stdatomic.h>

#include "base/base.h"

struct layer_run {
    int32_t first, count; /* layers */
};

struct stage_cost {
    int64_t time_ns;   /* for one micro-batch, with gradient synchronisation: C */
    int64_t steady_ns; /* without it: C_no_grad_sync */
    int64_t memory_bytes;
};

/* ---- balance: one number per stage, no choices ----------------------------------------------- */

struct balance {
    int32_t layers, stages;
    void *context;
    int64_t (*cost)(void *context, int32_t stage, struct layer_run run); /* I3 */
};
/* count[stage] layers each, so that the largest cost is least (which is the largest alpha if the
 * sum does not depend on the partition: p_t for times and p_m for bytes); among those the least sum
 * of squares, then the most layers in the first stages. Returns the largest cost. */
int64_t balance_partition(const struct balance *balance, int32_t *count);
double balance_degree(const int64_t *cost, int32_t stages); /* Eq. 6 */

/* ---- partitions with a search inside --------------------------------------------------------- */

struct pipeline_problem {
    int32_t layers, stages;
    int64_t micro_batches;   /* m */
    int64_t limit_bytes;     /* E */
    const struct stop *stop; /* NULL: never */
    void *context;
    /* Finds the best strategies of a run as a stage, into strategy[0 .. count - 1]; WEFT_NO_ANSWER
     * if nothing fits. */
    weft_status (*search)(void *context, int32_t stage, struct layer_run run, int32_t *strategy,
                          struct stage_cost *out);
    /* The cost of a run as a stage with given strategies: strategy[0] is that of its first
     * layer. */
    void (*keep)(void *context, int32_t stage, struct layer_run run, const int32_t *strategy,
                 struct stage_cost *out);
};

struct partition {
    int32_t *count;    /* per stage */
    int32_t *strategy; /* per layer */
    struct stage_cost *cost;
    int64_t iteration_ns;
    int32_t tried; /* partitions whose stages were all searched */
};

int64_t pipeline_ns(const struct stage_cost *cost, int32_t stages, int64_t micro_batches);

/* Algorithm 2 for one PP degree: starts from the memory-balanced partition p_m and moves a boundary
 * layer of the slowest stage to a neighbour, as long as, with the current strategies, 1) no stage
 * is slower than the slowest was, 2) none exceeds the limit, 3) none needs more than the largest
 * stage of the time-balanced partition p_t. Searches every partition it reaches; the best is the
 * answer. WEFT_NO_ANSWER: none of them fits. */
weft_status adjust_partition(struct arena *keep, const struct pipeline_problem *problem,
                             const int32_t *memory_balanced, const int32_t *time_balanced,
                             struct partition *out);

#endif
