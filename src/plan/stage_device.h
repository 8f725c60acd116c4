/* stage_device.h - which device type computes what, in a cluster of several (stage_device.c); part of plan.h. */
#ifndef WEFT_PLAN_STAGE_DEVICE_H
#define WEFT_PLAN_STAGE_DEVICE_H

#include "plan/plan.h"

/* The pool that a stage or an instance is in (cluster/pools.h), and the device type that computes it; in a cluster of one
 * node type 0, and its device. */
int32_t plan_stage_pool(const struct plan *plan, int32_t stage);
int32_t plan_instance_pool(const struct plan *plan, int64_t instance);
const struct device *plan_stage_device(const struct plan *plan, int32_t stage);
const struct device *plan_instance_device(const struct plan *plan, int64_t instance);
/* The pace of a pool's devices in large products of the plan's type, over that of the slowest pool (device_product_flops). */
double plan_pool_pace(const struct cluster *cluster, int32_t pool, enum dtype dtype);

#endif
