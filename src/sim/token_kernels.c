/* token_kernels.c - multiprocessors that kernels which send tokens take from computation (item_cost.h).
 *
 *   slowdown = n / (n - s)   of computation beside them, with s of the device's n multiprocessors taken       (1)
 */
#include <math.h>

#include "sim/item_cost.h"

/* An item names the exchange of its first group; those of the other groups come after it. */
static void mark_groups(const struct graph *graph, int32_t first, double by, double *slowdown)
{
    const struct exchange *exchange = graph->exchange;
    for (int32_t i = first; i < graph->exchanges; i++) {
        if (exchange[i].pattern != exchange[first].pattern || exchange[i].group != i - first)
            break;
        slowdown[i] = by;
    }
}

static double fewest_units(const struct cluster *cluster)
{
    double fewest = INFINITY;
    for (int32_t p = 0; p < cluster_pools(cluster); p++)
        fewest = fmin(fewest, cluster_pool(cluster, p)->node.device.units);
    return fewest;
}

const double *token_slowdowns(struct arena *keep, const struct graph *graph)
{
    const struct plan *plan = graph->plan;
    double taken = software_token_sms(&plan->software);
    if (taken <= 0 || taken >= fewest_units(plan->cluster))
        return NULL;
    double *slowdown = ARENA_ARRAY(keep, double, (size_t)graph->exchanges + 1);
    for (int32_t i = 0; i < graph->exchanges; i++)
        slowdown[i] = 1;
    for (int32_t b = 0; b < graph->blocks; b++) {
        int32_t stage = plan_stage_of_part(plan, graph->block[b].part);
        double units = plan_stage_device(plan, stage)->units;
        for (int32_t i = 0; i < graph->block[b].items; i++) {
            const struct item *item = &graph->block[b].item[i];
            if (item->tokens && item->exchange >= 0)
                mark_groups(graph, item->exchange, units / (units - taken), slowdown); /* (1) */
        }
    }
    return slowdown;
}
