/* reserved_shares.c - the sizes that a replay of the allocator takes from the plan (reserved.c): weights of an instance, a
 * device's shares of summed gradients (I4 there), and what is gathered of a layer (I5 there). */
#include "sim/player.h"

#include <math.h>

double instance_parameters(const struct plan *plan, int64_t instance)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    int64_t local[OP_MAX_DIMS];
    double parameters = 0;
    split_local(op, &plan_choice(plan, instance)->split,
                plan_samples(plan, plan_choice(plan, instance)), local);
    for (int32_t i = 0; i < op->weights; i++)
        parameters += operand_elements(op, &op->weight[i].operand, local);
    return parameters;
}

int64_t late_shares(const struct plan *plan, const struct state *state)
{
    double shares = (double)state->bytes[MEMORY_OPTIMIZER] * policy_gradient_bytes(plan->policy) /
                    policy_state_bytes(plan->policy);
    bool whole = (double)state->bytes[MEMORY_GRADIENTS] > shares;
    return policy_memory(plan->policy).own_streams && whole ? (int64_t)shares : 0;
}

double gathered_layer(const struct player *player)
{
    const struct plan *plan = player->plan;
    double most = 0, layer = 0;
    for (int32_t part = player->stage; part < plan->parts;
         part = plan_next_part(plan, part), layer = 0)
        for (int64_t k = 0; k < plan->part[part].count; k++) {
            int64_t i = plan->part[part].first + k;
            if (plan_choice(plan, i)->shard &&
                op_in_layer(plan->model, &plan->model->op[plan->instance[i].op]))
                layer +=
                    instance_parameters(plan, i) * plan_gather_bytes(plan, plan->instance[i].op);
            most = fmax(most, layer);
            layer = plan->ends_layer[i] ? 0 : layer;
        }
    return most;
}
