/* life_sizes.c - bytes of inputs, and of gradients, which have the sizes of the backward pass (lifetimes.h, I14). */
#include "compile/lives.h"

double life_input_bytes(const struct life_trace *t, const struct use *use)
{
    const struct laid *laid = laid_of(t->b, use->reader);
    return operand_bytes(laid->op, &laid->op->input[use->operand], laid->local, t->b->plan->dtype);
}

double life_gradient_bytes(const struct life_trace *t, int64_t instance)
{
    const struct laid *laid = laid_of(t->b, instance);
    return operand_bytes(laid->op, &laid->op->output, laid->back, t->b->plan->dtype);
}

double life_input_gradient_bytes(const struct life_trace *t, const struct use *use)
{
    const struct laid *laid = laid_of(t->b, use->reader);
    return operand_bytes(laid->op, &laid->op->input[use->operand], laid->back, t->b->plan->dtype);
}
