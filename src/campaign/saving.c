/* saving.c - what a checkpoint of a plan takes (campaign.h).
 *
 *   bytes      sum over weights of their parameters * (bytes as weights + bytes of optimizer state)   (1)
 *   copy     = bytes / devices / bandwidth from a device to its host                                  (2)
 *   store    = bytes / bandwidth of the storage                                                       (3)
 *   exchange = bytes / nodes / bandwidth of a node's NICs                                             (4)
 *
 * Every device saves an equal part, whoever else has the same weights. What stands still, what is written in the
 * background, and what is loaded:
 *
 *   sync     (3), nothing, (3)
 *   async    (2), (3), (3)
 *   memory   (2), (4), (4): a copy in the memory of another node, which outlives any one node
 */
#include <string.h>

#include "campaign/campaign.h"

static const struct {
    const char *name, *words;
} SAVINGS[] = {
    [SAVING_SYNC] = {"sync", "training stands still while a checkpoint is written"},
    [SAVING_ASYNC] = {"async", "it is copied to the host and written in the background"},
    [SAVING_MEMORY] = {"memory", "it is copied to the host and to the memory of another node"},
};
_Static_assert(COUNT_OF(SAVINGS) == SAVING_COUNT, "a way of saving without a name");

const char *saving_name(enum saving saving)
{
    return SAVINGS[saving].name;
}

const char *saving_words(enum saving saving)
{
    return SAVINGS[saving].words;
}

bool saving_from_name(const char *name, enum saving *out)
{
    int i = NAME_INDEX(name, SAVINGS);
    if (i >= 0)
        *out = (enum saving)i;
    return i >= 0;
}

/* (1) for one copy of an operator. */
static double saved_bytes(const struct plan *plan, const struct op *op)
{
    double weight = policy_memory(plan->policy).no_weight_shares
                        ? 0 /* the optimizer's fp32 copy is the weight */
                        : policy_weight_bytes(plan->policy);
    double state =
        policy_state_bytes(plan->policy) * optimizer_state_share(plan->optimizer, plan->policy, op);
    return op_parameters(op) * (weight + (op->frozen ? 0 : state));
}

double plan_saved_bytes(const struct plan *plan)
{
    double sum = 0;
    for (int64_t i = 0; i < plan->instances; i++)
        sum += saved_bytes(plan, &plan->model->op[plan->instance[i].op]);
    return sum;
}

static double slowest_nics(const struct cluster *cluster)
{
    double slowest = cluster_pool(cluster, 0)->node.nic_bytes_per_s;
    for (int32_t p = 1; p < cluster_pools(cluster); p++) {
        double own = cluster_pool(cluster, p)->node.nic_bytes_per_s;
        slowest = own < slowest ? own : slowest;
    }
    return slowest;
}

void course_saving(struct course *course, const struct plan *plan, enum saving saving,
                   double storage_bytes_per_s)
{
    const struct cluster *cluster = plan->cluster;
    double bytes = plan_saved_bytes(plan), nodes = (double)cluster->nodes;
    double copy = bytes / (double)cluster_devices(cluster) / cluster->node.device.host_bytes_per_s;
    double store = bytes / storage_bytes_per_s;
    double nic = slowest_nics(cluster);
    double exchange = nic > 0 ? bytes / nodes / nic : 0; /* one node: its own memory */
    bool sync = saving == SAVING_SYNC, memory = saving == SAVING_MEMORY;
    course->save_s = sync ? store : copy;
    course->lag_s = sync ? 0 : memory ? exchange : store;
    course->load_s = memory ? exchange : store;
}

double usual_storage(const struct cluster *cluster)
{
    static const double BYTES_PER_S = 2e12 / 16384; /* of a device; Llama 3, section 3.3.1 */
    return BYTES_PER_S * (double)cluster_devices(cluster);
}
