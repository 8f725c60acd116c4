/* kernel_dtype.c - the type in which the kernel of an operator computes (cost.h). */
#include "cost/cost.h"

bool attends_in_fp8(const struct software *software, const struct op *op, enum dtype dtype)
{
    return software_word(software, FACT_ATTENTION) == ATTENTION_FP8 && dtype_is_cast(dtype) &&
           op->kind == OP_ATTENTION && !op->flash && !op->shared_depth;
}

enum dtype kernel_dtype(const struct software *software, const struct model *model, int32_t op,
                        enum dtype dtype)
{
    bool fp8 = attends_in_fp8(software, &model->op[op], dtype);
    return fp8 ? DTYPE_FP8 : op_dtype(model, op, dtype);
}
