/* counted.h - memory by somebody else's count, in place of Weft's own: what another system's allocator
 * takes, or what was measured.
 *
 * Of the parts k of a stage, of which n_k micro-batches are held at once,
 *
 *   bytes = sum_k always_k + max over time of sum_k n_k each_k                                   (1)
 *
 *   I1  Who gives a count means it: neither the estimate's memory nor the simulator's is asked then.
 *   I2  A count is asked from several threads at once; it answers the same each time.
 */
#ifndef WEFT_SEARCH_ESTIMATE_COUNTED_H
#define WEFT_SEARCH_ESTIMATE_COUNTED_H

#include "plan/plan.h"

/* A device's bytes for a part: there all the time, and for each micro-batch between its passes. */
struct counted {
    int64_t always, each;
};
/* As `always`: it cannot be. A thousand times what any device has, and a sum of many is a number. */
#define COUNTED_NEVER (INT64_C(1) << 50)

/* Instances first .. last - 1 that lie as was said to lay. */
struct counted_run {
    int64_t first, last;
    const void *laid;
};
struct memory_count {
    const void *context;
    /* What the count knows of operators that lie as `choice` says, which has one for each operator of
     * the model, on so many devices with so many samples in a step; in `keep`. Asked once for every
     * such choice: it may take its time. */
    const void *(*lay)(const void *context, struct arena *keep, const struct choice *choice,
                       int64_t devices, int64_t step_samples);
    /* Of a part, its runs one after the other. */
    struct counted (*part)(const void *context, const struct counted_run *run, int32_t runs);
};

/* What a part adds to a stage over time, of which (1) is the most (stage_memory.h). */
struct part_memory;
void counted_hold(struct counted counted, struct part_memory *out);
/* (1) for every stage of a plan. */
void count_plan(const struct memory_count *count, const struct plan *plan, int64_t *bytes);

#endif
