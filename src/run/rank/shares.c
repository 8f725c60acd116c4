/* shares.c - inputs of a kernel in one fused tensor (shares.h). */
#include "run/rank/shares.h"

static const struct use *use_of(const struct rank *r, int64_t instance, int32_t operand)
{
    const struct graph_uses *uses = r->graph->uses;
    return &uses->use[uses->use_first[instance] + operand];
}

static bool has_steps(const struct reshard *const reshard[2])
{
    return (reshard[0] && reshard[0]->steps) || (reshard[1] && reshard[1]->steps);
}

/* Whether a use reads a part of the same tensor as the first one does, as its operator left it (I1). */
static bool is_beside(const struct use *first, const struct use *use)
{
    const struct joint *joint = use->joint;
    return joint && joint->part && !joint->across && !has_steps(joint->forward) &&
           !has_steps(joint->backward) && use->source == first->source &&
           takes_gradient(joint->from->op) && !joint->to->turn[use->operand];
}

static struct fused share_of(const struct rank *r, int64_t instance, int32_t operand)
{
    return fused_of(r->plan->model, r->local_op[instance].laid->op, operand);
}

int64_t common_share(const struct rank *r, int64_t instance, const struct kernel_call *call)
{
    const struct kernels *kernels = r->options->kernels;
    const struct local_op *local_op = &r->local_op[instance];
    struct kernel_call asked = *call;
    int64_t filled = 0;
    if (!kernels->takes_shares || call->op->kind != OP_ATTENTION || local_op->back)
        return 0;
    for (int32_t k = 0; k < call->op->inputs; k++) {
        if (!is_beside(use_of(r, instance, 0), use_of(r, instance, k)))
            return 0;
        filled += share_of(r, instance, k).part;
    }
    asked.share = share_of(r, instance, 0).whole;
    return filled == asked.share && kernels->takes_shares(&asked) ? asked.share : 0;
}

void *place_in_share(const struct rank *r, int64_t instance, int32_t operand,
                     const struct value *whole)
{
    int64_t first = share_of(r, instance, operand).first;
    return (char *)whole->data + first * dtype_bytes((enum dtype)whole->dtype);
}

struct value *room_in_shares(struct rank *r, int64_t instance, struct kernel_call *call)
{
    const struct laid *laid = r->local_op[instance].laid;
    struct fused share = share_of(r, instance, 0);
    struct layout layout = whole_layout(r, use_of(r, instance, 0)->joint, &laid->input_grad[0]);
    enum dtype dtype = stored_as(r, laid->op->input[0].element);
    int64_t elements = layout_local(&laid->input_grad[0]) / share.part * share.whole;
    struct value *whole = value_new(r, MEMORY_ACTIVATIONS, dtype, &layout, elements);
    for (int32_t k = 0; k < laid->op->inputs; k++)
        call->input_gradient[k] = place_in_share(r, instance, k, whole);
    return whole;
}
