/* tied.c - which instances hold a weight that several operators use.
 *
 *   I1  A tied weight is held by its owner only, if both have the same layout in the same part. In
 *       all other cases its user has a copy of it, with gradients and optimizer state:
 *       Megatron-LM's head on the last stage, or a head next to the embedding that is split another
 *       way.
 */
#include "plan/plan.h"

int64_t plan_weight_owner(const struct plan *plan, int64_t instance)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    int32_t tied = op->weights ? op->weight[0].tied_op : -1;
    for (int64_t i = 0; tied >= 0 && i < plan->instances; i++)
        if (plan->instance[i].op == tied && plan->instance[i].copy == 0)
            return i;
    return instance;
}

/* The first weight is the one that may be tied. */
bool weights_alike(const struct op *one, const struct choice *with, const struct op *other,
                   const struct choice *other_with, int64_t batch)
{
    bool alike = with->shard == other_with->shard;
    for (int flow = FLOW_FORWARD; flow <= FLOW_GRADIENT && alike; flow++) {
        struct layout a =
            layout_of(one, &one->weight[0].operand, choice_split(with, flow == FLOW_GRADIENT),
                      batch, (enum flow)flow);
        struct layout b =
            layout_of(other, &other->weight[0].operand,
                      choice_split(other_with, flow == FLOW_GRADIENT), batch, (enum flow)flow);
        alike = layout_equal(&a, &b);
    }
    return alike;
}

bool plan_weights_alike(const struct plan *plan, int64_t one, int64_t other)
{
    const struct op *op = plan->model->op;
    return weights_alike(&op[plan->instance[one].op], plan_choice(plan, one),
                         &op[plan->instance[other].op], plan_choice(plan, other),
                         plan->step_samples);
}

static bool same_part(const struct plan *plan, int64_t one, int64_t other)
{
    int32_t part = 0;
    while (one >= plan->part[part].first + plan->part[part].count)
        part++;
    return other >= plan->part[part].first &&
           other < plan->part[part].first + plan->part[part].count;
}

/* I1 */
bool plan_holds_weights(const struct plan *plan, int64_t instance)
{
    int64_t owner = plan_weight_owner(plan, instance);
    if (plan->model->op[plan->instance[instance].op].weights == 0)
        return false;
    return owner == instance || !same_part(plan, owner, instance) ||
           !plan_weights_alike(plan, owner, instance);
}
