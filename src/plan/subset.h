/* subset.h - operators on some of their stage's devices (Proteus, section IV-C: `map`); part of plan.h.
 *
 * The outermost part of such an operator's split cuts the stage's devices into `degree` equal runs of neighbours, of which
 * one has the operator:
 *
 *   places  run * n / degree  to  (run + 1) * n / degree - 1   of a stage of n devices          (1)
 *
 *   I1  The other devices hold nothing of its weights, state and tensors and do not compute it. They do what comes next as
 *       far as that does not need it: operators on different runs are side by side.
 *   I2  What it reads is brought to its devices as to any others; its output goes to the others by a broadcast, as the
 *       gradients of its inputs do (compile/reshard.c, I6).
 */
#ifndef WEFT_PLAN_SUBSET_H
#define WEFT_PLAN_SUBSET_H

#include "plan/plan.h"

struct layout;

/* Devices of a stage, counted from its first. */
struct device_run {
    int64_t first, devices;
};
/* Those that have an operator with this split: all of them, or (1). */
struct device_run split_run(const struct split *split);
struct device_run layout_run(const struct layout *layout);
static inline bool run_has(struct device_run run, int64_t place)
{
    return place >= run.first && place < run.first + run.devices;
}
/* Whether it is one of the equal runs that so many devices are cut into. */
bool run_is_one_of(struct device_run run, int64_t devices);
/* Whether this is a run of less than all. */
bool split_is_subset(const struct split *split);
/* The split of the devices that have the operator. */
struct split split_inside(const struct split *split);
/* The same on one run of so many devices. False: it is none of theirs, or the split has too many parts. */
bool split_put_on(const struct split *inside, struct device_run run, int64_t devices,
                  struct split *out);
/* "2-3" */
const char *run_text(struct arena *keep, struct device_run run);

/* The same for a tensor. */
bool layout_is_subset(const struct layout *layout);
struct layout layout_inside(const struct layout *layout);

bool plan_has_subsets(const struct plan *plan);
/* One place of a stage for every kind of device that it has: those of a kind have the same operators. Returns how many. */
int64_t plan_kinds_of_places(struct arena *keep, const struct plan *plan, int32_t stage,
                             int64_t **out);
/* plan_stage_memory of one place. */
struct stage_memory plan_place_memory(const struct plan *plan, int32_t stage, int64_t place,
                                      int64_t in_flight);
bool plan_place_has(const struct plan *plan, int64_t instance, int64_t place);

#endif
