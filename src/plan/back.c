/* back.c - backward passes with a split of their own (Proteus, section IV-C: `split` of a backward operator).
 *
 * A backward pass reads weights, inputs and the gradient of the output. Under a split of its own
 *
 *   the gradient of the output comes, and those of inputs and weights are made, in that split's layouts, and inputs are brought
 *   there from the layouts of the forward split                                                                        (1)
 *
 *   I1  Weights lie the same way under both splits: they are not moved, and their gradients are made where they are. What
 *       may differ is how the dims that weights lack are laid over the devices.
 *   I2  Nothing but operands is read (op_turns): masks, statistics and outputs that kernels keep stay where they were made.
 */
#include "plan/plan.h"

void choice_set_back(struct choice *choice, const struct split *back)
{
    choice->own_back = !split_equal(back, &choice->split);
    choice->back = choice->own_back ? *back : (struct split){0};
}

/* I1 */
static bool moves_weights(const struct op *op, const struct choice *choice)
{
    bool alike = true;
    for (int32_t i = 0; i < op->weights && alike; i++) {
        const struct operand *weight = &op->weight[i].operand;
        struct layout forward = layout_of(op, weight, &choice->split, 1, FLOW_FORWARD);
        struct layout backward = layout_of(op, weight, &choice->back, 1, FLOW_FORWARD);
        alike = layout_equal(&forward, &backward);
    }
    return !alike;
}

const char *back_refusal(const struct model *model, const struct op *op,
                         const struct choice *choice)
{
    if (!op_turns(model, op))
        return "its backward pass reads more than weights and inputs that other operators made";
    return moves_weights(op, choice) ? "its weights would lie another way" : NULL;
}
