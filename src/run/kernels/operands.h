/* operands.h - how operands of a call lie, and what no backend's kernels can run. */
#ifndef WEFT_RUN_KERNELS_OPERANDS_H
#define WEFT_RUN_KERNELS_OPERANDS_H

#include "run/kernels/kernels.h"

/* Of outputs: fp32 where the model says so, as of router scores. */
static inline enum dtype output_dtype(const struct kernel_call *call)
{
    return call->op->output.element == ELEMENT_FP32 ? DTYPE_FP32 : call->dtype;
}

/* One axis of an operand: local elements, the first one's index, elements of the whole. */
struct extent {
    int64_t size, begin, whole;
};
/* Of an axis made of at most one dim. */
struct extent axis_extent(const struct kernel_call *call, const struct operand *operand, int axis);
/* Elements of all axes in from <= axis < to. */
int64_t axes_product(const struct kernel_call *call, const struct operand *operand, int from,
                     int to);

/* Of a loss: whether it keeps the logits and computes probabilities again, and how many of its local columns exist,
 * without the padding of a split after the end of the whole. */
bool loss_is_fused(const struct op *op);
int64_t loss_columns(const struct kernel_call *call);

/* Why an operator of a kind cannot be run; NULL: it can. */
const char *add_refuses(const struct op *op);
const char *embedding_refuses(const struct op *op);
const char *rotary_refuses(const struct op *op);
const char *attention_refuses(const struct op *op);

#endif
