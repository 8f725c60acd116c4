/* counted.h - memory by another system's count in place of Weft's own: what that system's allocator
 * takes, or what was measured.
 *
 * For the parts k of a stage, with n_k micro-batches of part k held at once,
 *
 *   bytes = sum_k always_k + max over time of sum_k n_k each_k                                   (1)
 *
 *   I1  Where a count is given, it alone decides: neither the estimate's memory nor the simulator's
 *       is used.
 *   I2  A count is called from several threads at once and must return the same answer each time.
 */
#ifndef WEFT_SEARCH_ESTIMATE_COUNTED_H
#define WEFT_SEARCH_ESTIMATE_COUNTED_H

#include "plan/plan.h"

/* A device's bytes for a part: those that are always there, and those held for each micro-batch
 * between its passes. */
struct counted {
    int64_t always, each;
};
/* The value of `always` that means "impossible": a thousand times the memory of any device, yet
 * small enough that sums of many do not overflow. */
#define COUNTED_NEVER (INT64_C(1) << 50)

/* Instances first .. last - 1 with the layout that `lay` prepared. */
struct counted_run {
    int64_t first, last;
    const void *laid;
};
struct memory_count {
    const void *context;
    /* Prepares what the count needs to know about the layout in `choice`, which has one entry per
     * operator of the model, on this many devices with this many samples in a step; the result is
     * in `keep`. Called once for every such layout, so it may be slow. */
    const void *(*lay)(const void *context, struct arena *keep, const struct choice *choice,
                       int64_t devices, int64_t step_samples);
    /* Counts a part, given its runs in order. */
    struct counted (*part)(const void *context, const struct counted_run *run, int32_t runs);
};

/* A part's contribution to its stage over time, of which (1) takes the maximum (stage_memory.h). */
struct part_memory;
void counted_hold(struct counted counted, struct part_memory *out);
/* Computes (1) for every stage of a plan. */
void count_plan(const struct memory_count *count, const struct plan *plan, int64_t *bytes);

#endif
