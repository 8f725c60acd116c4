/* habits.c - the settings that a framework has for a plan, where nobody asked for others: the policy of its
 * state, what overlaps, the order of experts' devices, and the software that it is predicted with.
 *
 *   I1  A plan that was settled is written without a note that the framework decides otherwise.
 *   I2  Nobody asked for a policy that is the usual one of the type, or for software that is the default or another target's
 *       own: a plan that was made for none or for that one has them.
 */
#include "cluster/cluster.h"
#include "cost/cost.h"
#include "target/room.h"

static bool is_narrow(enum dtype dtype)
{
    return dtype != DTYPE_FP32 && dtype != DTYPE_TF32;
}

unsigned target_policies(const struct target *target, enum dtype dtype, int shard)
{
    const struct abilities *can = &target->can;
    unsigned sharded = can->policies ? can->policies : ~0U;
    unsigned whole = can->whole_policies ? can->whole_policies : sharded;
    return !is_narrow(dtype) ? 1U << POLICY_FP32 : shard == 0 ? whole : sharded;
}

enum policy target_policy(const struct target *target, enum dtype dtype, int shard)
{
    unsigned policies = target_policies(target, dtype, shard);
    enum policy policy = target->can.usual_policy;
    if (policy && is_narrow(dtype))
        return policy;
    policy = policy_for(dtype);
    while (!(policies & 1U << policy))
        policy = (enum policy)((policy + 1) % POLICY_COUNT);
    return policy;
}

int highest_shard(const struct plan *plan)
{
    int shard = 0;
    for (int64_t i = 0; i < plan->instances; i++)
        shard = plan_choice(plan, i)->shard > shard ? plan_choice(plan, i)->shard : shard;
    return shard;
}

/* Of what is wanted, what the framework does. */
static unsigned overlap_of(const struct abilities *can, unsigned wanted, bool stages, bool pieces,
                           bool gathered)
{
    unsigned overlap = wanted & (can->may_overlap | (pieces ? can->pieces_overlap : 0));
    overlap |= can->overlaps | (gathered ? can->gathered_overlap : 0);
    overlap &= ~(stages ? can->stages_wait : 0);
    return (overlap & can->joint_overlap) == can->joint_overlap ? overlap
                                                                : overlap & ~can->joint_overlap;
}

/* The same of a whole plan. */
static unsigned plan_overlap(const struct target *target, const struct plan *plan)
{
    return overlap_of(&target->can, plan->overlap, plan->stages > 1, plan->pieces > 1,
                      highest_shard(plan) == 3);
}

void target_settle(const struct target *target, const struct degrees *asked, struct plan *plan)
{
    int shard = highest_shard(plan);
    if (target->can.experts_outside)
        put_experts_outside(plan);
    if (!asked->has_policy)
        plan->policy = target_policy(target, plan->dtype, shard);
    if (!asked->has_overlap)
        plan->overlap = plan_overlap(target, plan);
    if (!asked->has_bucket && target->can.whole_gradients)
        plan->bucket_bytes = 0;
}

void target_run_as(const struct target *target, struct plan *plan)
{
    plan->overlap = plan_overlap(target, plan);
    if (target->can.whole_gradients)
        plan->bucket_bytes = 0;
}

weft_status target_software(const struct target *target, const struct cluster *cluster,
                            enum dtype dtype, struct software *out)
{
    weft_status status = software_from_text(target->software, out);
    if (!status && dtype == DTYPE_FP8 && software_word(out, FACT_FP8_RECIPE) == RECIPE_DELAYED &&
        cluster_all_devices(cluster, device_scales_blocks))
        out->word[FACT_FP8_RECIPE] = RECIPE_BLOCKS;
    return status;
}

/* I2 */
static bool is_a_targets_software(const struct plan *plan)
{
    struct software own;
    for (size_t i = 0; i < target_count(); i++) {
        const struct target *target = target_at(i);
        if (target->software &&
            target_software(target, plan->cluster, plan->dtype, &own) == WEFT_OK &&
            software_same(&own, &plan->software))
            return true;
    }
    return software_is_default(&plan->software);
}

weft_status target_adopt(const struct target *target, struct plan *plan)
{
    struct degrees old = {.software = plan->software}, own = {0};
    weft_status status = WEFT_OK;
    if (plan->policy == policy_for(plan->dtype))
        plan->policy = target_policy(target, plan->dtype, highest_shard(plan));
    if (!is_a_targets_software(plan))
        return WEFT_OK;
    if (target->software)
        TRY(target_software(target, plan->cluster, plan->dtype, &own.software));
    if (plan->bucket_bytes == degrees_bucket_bytes(&old)) {
        bool whole = target->can.whole_unless_overlapped && !(plan->overlap & OVERLAP_GRADIENTS);
        plan->bucket_bytes = whole ? 0 : degrees_bucket_bytes(&own);
    }
    plan->software = own.software;
done:
    return status;
}

weft_status target_settle_pins(const struct target *target, const struct model *model,
                               const struct cluster *cluster, struct degrees *pins)
{
    enum dtype dtype = pins->has_dtype ? pins->dtype : model->dtype;
    if (!pins->has_policy) {
        pins->has_policy = true;
        pins->policy = target_policy(target, dtype, 1);
    }
    if (!pins->has_overlap) {
        pins->has_overlap = true;
        pins->overlap = overlap_of(&target->can, OVERLAP_ALL, pins->pp > 1, true, true);
    }
    return target->software && software_is_default(&pins->software)
               ? target_software(target, cluster, dtype, &pins->software)
               : WEFT_OK;
}
