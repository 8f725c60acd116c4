/* rules_state.c - rules about the order of work, state, precision and recomputation (rules.c). */
#include <string.h>

#include "schedule/schedule.h"
#include "target/room.h"

/* ---- order and state ------------------------------------------------------------------------- */

bool knows_schedule(const struct target *target, const char *schedule)
{
    for (const char *const *name = target->can.schedules; name && *name; name++)
        if (strcmp(*name, schedule) == 0)
            return true;
    return !target->can.schedules;
}
static bool broken_schedule(const struct numbers *n)
{
    if (!can(n)->schedules || !n->d->schedule)
        return false;
    if (n->d->listed)
        return !can(n)->orders || (n->d->listed->lists->pipeline.joins && !can(n)->joins);
    return !knows_schedule(n->target, n->d->schedule);
}
static const char *text_schedule(struct arena *keep, const struct numbers *n)
{
    if (n->d->listed && can(n)->orders)
        return arena_printf(keep, "stages that take several micro-batches at once: %s has none",
                            framework(n));
    return arena_printf(keep, "schedule %s: %s does not know it", n->d->schedule, framework(n));
}
static void mend_schedule(struct numbers *n)
{
    n->d->segments = 1;
    n->d->listed = NULL;
    n->d->schedule =
        n->d->pieces > 1 ? schedule_default(n->d->pieces, 1)->name : can(n)->schedules[0];
}

static unsigned shards_of(const struct numbers *n)
{
    const struct degrees *d = n->d;
    unsigned shards = d->pp > 1 ? can(n)->pipeline_shards : can(n)->shards;
    bool alone = d->tp == 1 && d->cp == 1 && d->pp == 1 && d->ep == 1;
    return can(n)->lone_replicas && !alone && d->dp * d->cp > 1 ? shards & ~(unsigned)SHARD_0
                                                                : shards;
}
static bool broken_shard(const struct numbers *n)
{
    return !(shards_of(n) & 1U << n->d->shard);
}
static const char *text_shard(struct arena *keep, const struct numbers *n)
{
    bool elsewhere = can(n)->shards & 1U << n->d->shard;
    return arena_printf(keep, "state sharding %d: %s has no such level%s", n->d->shard,
                        framework(n), elsewhere ? " beside other degrees" : "");
}
/* I2 */
static void mend_shard(struct numbers *n)
{
    unsigned shards = shards_of(n);
    int shard = n->d->shard;
    while (shard < 4 && !(shards & 1U << shard))
        shard++;
    if (shard == 4)
        for (shard = n->d->shard; shard > 0 && !(shards & 1U << shard);)
            shard--;
    n->d->shard = shard;
}

/* Without sharded state there is nothing to share. */
static bool broken_replicate(const struct numbers *n)
{
    return n->d->replicate > 1 && n->d->shard && !can(n)->replicates;
}
static const char *text_replicate(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "replicate %lld: %s divides state by all replicas",
                        (long long)n->d->replicate, framework(n));
}
static void mend_replicate(struct numbers *n)
{
    n->d->replicate = 0;
}

static bool broken_dtype(const struct numbers *n)
{
    return !(can(n)->dtypes & 1U << dtype_of(n));
}
static const char *text_dtype(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "dtype %s: %s has no such products", dtype_name(dtype_of(n)),
                        framework(n));
}
static void mend_dtype(struct numbers *n)
{
    n->d->has_dtype = true;
    n->d->dtype = DTYPE_BF16;
}

static bool broken_half_experts(const struct numbers *n)
{
    return n->d->ep > 1 && !can(n)->half_experts && dtype_of(n) == DTYPE_FP16;
}
static const char *text_half_experts(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "ep %lld in fp16: %s needs bf16", (long long)n->d->ep, framework(n));
}

static bool broken_policy(const struct numbers *n)
{
    return n->d->has_policy &&
           !(target_policies(n->target, dtype_of(n), n->d->shard) & 1U << n->d->policy);
}
static const char *text_policy(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "policy %s in %s with state sharding %d: %s has none of it",
                        policy_name(n->d->policy), dtype_name(dtype_of(n)), n->d->shard,
                        framework(n));
}
/* The policy with as many bytes per gradient, if there is one. */
static void mend_policy(struct numbers *n)
{
    unsigned policies = target_policies(n->target, dtype_of(n), n->d->shard);
    bool wide = n->d->policy == POLICY_DISTRIBUTED || n->d->policy == POLICY_FSDP;
    n->d->policy = wide && (policies & 1U << POLICY_MIXED_FP32_GRADIENTS)
                       ? POLICY_MIXED_FP32_GRADIENTS
                       : target_policy(n->target, dtype_of(n), n->d->shard);
}

static bool lacks_optimizer(const struct numbers *n)
{
    return n->target->optimizers && !n->target->optimizers[n->d->optimizer];
}
static bool broken_optimizer(const struct numbers *n)
{
    bool matrices = n->d->optimizer == UPDATE_MUON && can(n)->matrix_shards;
    return lacks_optimizer(n) || (matrices && !(can(n)->matrix_shards & 1U << n->d->shard));
}
static const char *text_optimizer(struct arena *keep, const struct numbers *n)
{
    const char *name = optimizer_name(n->d->optimizer);
    return lacks_optimizer(n)
               ? arena_printf(keep, "optimizer %s: %s has none such", name, framework(n))
               : arena_printf(keep,
                              "optimizer %s with state sharding %d: %s shares out whole matrices",
                              name, n->d->shard, framework(n));
}
static void mend_optimizer(struct numbers *n)
{
    if (lacks_optimizer(n))
        n->d->optimizer = UPDATE_ADAMW;
    else
        n->d->shard = 1;
}

/* ---- recomputation --------------------------------------------------------------------------- */

static bool broken_products(const struct numbers *n)
{
    return *n->block == BLOCK_PRODUCTS && !can(n)->products;
}
static const char *text_products(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "recomputation of all but products: %s recomputes whole layers",
                        framework(n));
}
static void mend_block(struct numbers *n)
{
    *n->block = 0;
}

static bool broken_block(const struct numbers *n)
{
    return *n->block > 0 && !can(n)->block && !n->target->layerwise;
}
static const char *text_block(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "recomputation of %s per part: %s recomputes all or none",
                        counted(*n->block, "layer").s, framework(n));
}

static bool broken_selective(const struct numbers *n)
{
    return n->d->recompute == RECOMPUTE_SELECTIVE && !can(n)->selective;
}
static const char *text_selective(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "selective recomputation: %s recomputes whole layers", framework(n));
}
static void mend_selective(struct numbers *n)
{
    n->d->recompute = RECOMPUTE_FULL;
    n->d->modules = 0;
}

static bool broken_offload(const struct numbers *n)
{
    return n->d->offload && !can(n)->offload;
}
static const char *text_offload(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "offload: %s keeps checkpoints on the device", framework(n));
}
static void mend_offload(struct numbers *n)
{
    n->d->offload = false;
}

static bool broken_offload_kept(const struct numbers *n)
{
    return n->d->offload && n->d->recompute == RECOMPUTE_NONE && !can(n)->offload_kept;
}
static const char *text_offload_kept(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "offload without recomputation: %s moves checkpoints alone",
                        framework(n));
}

/* Of Megatron-Core's modules, the inputs of one are the outputs of another, which that reads again. */
static bool broken_offload_modules(const struct numbers *n)
{
    unsigned modules = n->d->offload_modules, projection = offload_from_name("attn_proj");
    bool alone = modules & projection && !(modules & offload_from_name("core_attn"));
    return modules && (!can(n)->offload_modules || (alone && !n->target->any));
}
static const char *text_offload_modules(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "offload-modules %s: %s %s",
                        offload_text(keep, n->d->offload_modules), framework(n),
                        can(n)->offload_modules ? "moves attn_proj with core_attn only"
                                                : "keeps these on the device");
}
static void mend_offload_modules(struct numbers *n)
{
    n->d->offload_modules &= can(n)->offload_modules ? ~offload_from_name("attn_proj") : 0;
}

static bool broken_host_state(const struct numbers *n)
{
    return n->d->optimizer_offload > 0 && (!can(n)->host_state || n->d->shard < 1);
}
static const char *text_host_state(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "optimizer-offload %g: %s %s", n->d->optimizer_offload, framework(n),
                        can(n)->host_state ? "does this with zero 1 and above"
                                           : "updates weights on the device");
}
static void mend_host_state(struct numbers *n)
{
    n->d->optimizer_offload = 0;
}

static bool broken_uneven(const struct numbers *n)
{
    return *n->part_layers && !can(n)->uneven;
}
static const char *text_uneven(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "uneven stages: %s deals layers out equally", framework(n));
}
static void mend_uneven(struct numbers *n)
{
    *n->part_layers = NULL;
}

/* Megatron-LM has one other order, tp-cp-ep-pp-dp, and there as many replicas of experts as of layers
 * (megatron/core/parallel_state.py: order.endswith("pp") or expert_data_parallel_size == data_parallel_size). */
static bool broken_order(const struct numbers *n)
{
    const struct degrees *d = n->d;
    int64_t etp = d->etp ? d->etp : d->tp, ep = d->ep > 1 ? d->ep : 1;
    if (!d->stage_run || n->target->any)
        return false;
    return !can(n)->stage_runs || d->stage_run != d->tp * d->cp ||
           (ep > 1 && ep * etp != d->tp * d->cp);
}
static const char *text_order(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "order %s: %s numbers these devices otherwise",
                        order_text(n->d) ? order_text(n->d) : "of devices", framework(n));
}
static void mend_order(struct numbers *n)
{
    n->d->stage_run = 0;
}

static bool broken_deferral(const struct numbers *n)
{
    return n->d->defer_head && !can(n)->defers_head;
}
static const char *text_deferral(struct arena *keep, const struct numbers *n)
{
    return arena_printf(keep, "defer-head: %s makes the head's weight gradients in its pass",
                        framework(n));
}
static void mend_deferral(struct numbers *n)
{
    n->d->defer_head = 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct target_rule ALL[] = {
    {broken_schedule, text_schedule, mend_schedule},
    {broken_shard, text_shard, mend_shard},
    {broken_replicate, text_replicate, mend_replicate},
    {broken_optimizer, text_optimizer, mend_optimizer},
    {broken_dtype, text_dtype, mend_dtype},
    {broken_half_experts, text_half_experts, mend_dtype},
    {broken_policy, text_policy, mend_policy},
    {broken_products, text_products, mend_block},
    {broken_block, text_block, mend_block},
    {broken_selective, text_selective, mend_selective},
    {broken_offload, text_offload, mend_offload},
    {broken_host_state, text_host_state, mend_host_state},
    {broken_offload_kept, text_offload_kept, mend_offload},
    {broken_offload_modules, text_offload_modules, mend_offload_modules},
    {broken_uneven, text_uneven, mend_uneven},
    {broken_order, text_order, mend_order},
    {broken_deferral, text_deferral, mend_deferral},
};
const struct target_rules STATE_RULES = {ALL, COUNT_OF(ALL)};
