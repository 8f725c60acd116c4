/* stage_device.c - which device type computes what, in a cluster of several (cluster/pools.h).
 *
 *   I1  A stage lies in one pool (check_pools.c): its first device stands for all.
 */
#include "plan/plan.h"

int32_t plan_stage_pool(const struct plan *plan, int32_t stage)
{
    return plan->cluster->pools ? cluster_pool_of(plan->cluster, plan->stage[stage].first_device)
                                : 0;
}

int32_t plan_instance_pool(const struct plan *plan, int64_t instance)
{
    if (!plan->cluster->pools)
        return 0;
    return plan_stage_pool(plan, plan_stage_of_part(plan, plan_part_of(plan, instance)));
}

const struct device *plan_stage_device(const struct plan *plan, int32_t stage)
{
    return &cluster_pool(plan->cluster, plan_stage_pool(plan, stage))->node.device;
}

const struct device *plan_instance_device(const struct plan *plan, int64_t instance)
{
    return &cluster_pool(plan->cluster, plan_instance_pool(plan, instance))->node.device;
}

static double reached_in(const struct cluster *cluster, int32_t pool, enum dtype dtype)
{
    return device_product_flops(&cluster_pool(cluster, pool)->node.device, dtype);
}

double plan_pool_pace(const struct cluster *cluster, int32_t pool, enum dtype dtype)
{
    double own = reached_in(cluster, pool, dtype), slowest = own;
    for (int32_t p = 0; p < cluster_pools(cluster); p++)
        if (reached_in(cluster, p, dtype) < slowest)
            slowest = reached_in(cluster, p, dtype);
    return slowest > 0 ? own / slowest : 1;
}
