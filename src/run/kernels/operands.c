/* operands.c - facts about a call that are the same for every backend (operands.h). */
#include "run/kernels/operands.h"

struct extent axis_extent(const struct kernel_call *call, const struct operand *operand, int axis)
{
    int dim = operand->dims[axis][0];
    if (dim < 0 || call->op->size[dim] == 0)
        return (struct extent){operand->size[axis], 0, operand->size[axis]};
    int64_t each = operand->size[axis] / call->op->size[dim]; /* two in a fused gate and up */
    return (struct extent){call->size[dim] * each, call->begin[dim] * each,
                           call->whole[dim] * each};
}

int64_t axes_product(const struct kernel_call *call, const struct operand *operand, int from,
                     int to)
{
    int64_t all = 1;
    for (int axis = from; axis < to; axis++)
        all *= axis_extent(call, operand, axis).size;
    return all;
}

bool loss_is_fused(const struct op *op)
{
    return (op->keep & KEEP_INPUT_0) != 0;
}

int64_t loss_columns(const struct kernel_call *call)
{
    int64_t left = call->whole[2] - call->begin[2];
    if (left < 0)
        return 0;
    return left < call->size[2] ? left : call->size[2];
}

const char *add_refuses(const struct op *op)
{
    int64_t sample = 1, weight = op->weights == 1 ? op->weight[0].operand.size[0] : 0;
    for (int i = 1; i < op->output.axes; i++)
        sample *= op->output.size[i];
    bool rows = weight && weight % op->output.size[op->output.axes - 1] == 0;
    if (op->inputs == 2 && (op->weights == 0 || weight == 1))
        return NULL;
    return op->inputs == 1 && rows && (sample % weight == 0 || weight > sample)
               ? NULL
               : "it adds neither two tensors nor a weight that covers a sample or some of its "
                 "rows";
}

const char *embedding_refuses(const struct op *op)
{
    return op->weights > 1 && op->weight[1].operand.size[0] < op->size[1]
               ? "it has fewer learned positions than the sequence"
               : NULL;
}

const char *rotary_refuses(const struct op *op)
{
    if (op->head_depth == 0)
        return "the model does not say how wide its heads are (depth, in a model file)";
    return op->head_depth % 2 ? "its heads have an odd number of features" : NULL;
}

const char *attention_refuses(const struct op *op)
{
    return op->shared_depth ? "an index chooses its keys" : NULL;
}
