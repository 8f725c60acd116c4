/* prediction_pools.c - which devices compute what, where a cluster has several types (cluster/pools.h), and which of them
 * are the slower.
 *
 *   dgx-a100 (A100-SXM4-80GB): stage 1, 9 of 32 layers; computes 92 % of the time
 *   the slower devices are those of dgx-a100: 0.39 of the pace of dgx-h100 in large products, 0.28 of the layers
 */
#include "report/prediction.h"
#include "report/report.h"

static int64_t layers_in(const struct plan *plan, int32_t pool)
{
    int64_t layers = 0;
    for (int64_t i = 0; i < plan->instances; i++)
        layers += plan->ends_layer[i] && plan_instance_pool(plan, i) == pool;
    return layers;
}

static double stage_computes(const struct prediction *prediction, int32_t stage)
{
    static const int COMPUTES[] = {PURPOSE_FORWARD, PURPOSE_BACKWARD, PURPOSE_RECOMPUTE,
                                   PURPOSE_OPTIMIZER};
    double ns = 0;
    for (size_t i = 0; i < COUNT_OF(COMPUTES); i++)
        ns += (double)prediction->stage[stage].time_ns[COMPUTES[i]];
    return ns / (double)prediction->iteration_ns;
}

struct pool_share {
    int32_t first, stages; /* which lie here, one after the other */
    double computes;       /* the mean of these: share of the iteration */
    int64_t layers;
};

static struct pool_share share_of(const struct prediction *prediction, int32_t pool)
{
    const struct plan *plan = prediction->plan;
    struct pool_share share = {.layers = layers_in(plan, pool)};
    for (int32_t s = 0; s < plan->stages; s++) {
        if (plan_stage_pool(plan, s) != pool)
            continue;
        share.first = share.stages++ ? share.first : s;
        share.computes += stage_computes(prediction, s);
    }
    share.computes /= share.stages ? share.stages : 1;
    return share;
}

int32_t slowest_pool(const struct plan *plan)
{
    int32_t slowest = 0;
    for (int32_t p = 1; p < cluster_pools(plan->cluster); p++)
        if (plan_pool_pace(plan->cluster, p, plan->dtype) <
            plan_pool_pace(plan->cluster, slowest, plan->dtype))
            slowest = p;
    return slowest;
}

static int32_t fastest_pool(const struct plan *plan)
{
    int32_t fastest = 0;
    for (int32_t p = 1; p < cluster_pools(plan->cluster); p++)
        if (plan_pool_pace(plan->cluster, p, plan->dtype) >
            plan_pool_pace(plan->cluster, fastest, plan->dtype))
            fastest = p;
    return fastest;
}

const char *slower_pool_words(struct arena *keep, const struct plan *plan)
{
    const struct cluster *cluster = plan->cluster;
    int32_t slow = slowest_pool(plan), fast = fastest_pool(plan);
    double pace = plan_pool_pace(cluster, fast, plan->dtype);
    int64_t all = layers_in(plan, slow) + layers_in(plan, fast);
    if (!cluster->pools || slow == fast)
        return NULL;
    return arena_printf(keep,
                        "the slower devices are those of %s: %.2f of the pace of %s in large "
                        "products, %.2f of the layers of both",
                        cluster_pool_name(cluster, slow), 1 / pace,
                        cluster_pool_name(cluster, fast),
                        all ? (double)layers_in(plan, slow) / (double)all : 0);
}

void pools_print(struct arena *scratch, const struct prediction *prediction, FILE *out)
{
    const struct plan *plan = prediction->plan;
    const char *slower = slower_pool_words(scratch, plan);
    for (int32_t p = 0; p < plan->cluster->pools; p++) {
        struct pool_share share = share_of(prediction, p);
        fprintf(out, "%s (%s): stage%s %s, %s; computes %.0f %% of the time\n",
                cluster_pool_name(plan->cluster, p),
                cluster_pool(plan->cluster, p)->node.device.name, share.stages == 1 ? "" : "s",
                number_range(scratch, share.first, share.stages), counted(share.layers, "layer").s,
                100 * share.computes);
    }
    if (slower)
        fprintf(out, "%s\n", slower);
}

json_t *pools_json(const struct prediction *prediction)
{
    const struct plan *plan = prediction->plan;
    json_t *pools = json_array();
    for (int32_t p = 0; p < plan->cluster->pools; p++) {
        struct pool_share share = share_of(prediction, p);
        const struct cluster *own = cluster_pool(plan->cluster, p);
        json_array_append_new(
            pools, json_pack("{s:o, s:o, s:I, s:i, s:i, s:I, s:f, s:f}", "name",
                             json_text(cluster_pool_name(plan->cluster, p)), "device",
                             json_text(own->node.device.name), "nodes", (json_int_t)own->nodes,
                             "first_stage", share.first, "stages", share.stages, "layers",
                             (json_int_t)share.layers, "computes", share.computes, "pace",
                             plan_pool_pace(plan->cluster, p, plan->dtype)));
    }
    return pools;
}
