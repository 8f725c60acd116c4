/* device_order.h - where the devices of a plan lie in the cluster (device_order.c has the equation); part of plan.h.
 *
 *   I1  Plans, graphs and executors number devices stage by stage. Only what asks the cluster (links, nodes, times
 *       of collectives) and what people are shown goes through device_at and group_at.
 */
#ifndef WEFT_PLAN_DEVICE_ORDER_H
#define WEFT_PLAN_DEVICE_ORDER_H

#include "plan/plan.h"

/* All 0: the cluster numbers devices as the plan does. */
struct device_order {
    int64_t run, stages, each; /* neighbours in a run; stages; devices of a stage */
};
struct device_order plan_device_order(const struct plan *plan);
/* The cluster's number of a plan's device; the same for a group of them. */
int64_t device_at(const struct device_order *order, int64_t device);
struct group group_at(const struct device_order *order, const struct group *group);
/* The devices of a stage: "0-7", or "0-1, 8-9, ...". */
const char *stage_devices_text(struct arena *keep, const struct plan *plan, int32_t stage);

/* The run that degrees->order stands for; the degrees are complete. */
weft_status order_run(const struct degrees *degrees, int64_t *run);
/* The order that gives this stage_run; NULL: none does. */
const char *order_text(const struct degrees *degrees);
/* Whether all groups of a split's devices are strided in the cluster. */
bool split_suits_run(const struct split *split, int64_t run);

#endif
