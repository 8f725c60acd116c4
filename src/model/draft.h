/* draft.h - drafting one operator: what build_ops.c needs of the builder's inside.
 *
 * An operator is drafted, gets inputs, dims and weights, and is appended with its output's shape.
 * After an error all of these do nothing, and the output is -1.
 */
#ifndef WEFT_MODEL_DRAFT_H
#define WEFT_MODEL_DRAFT_H

#include "model/builder.h"

struct op draft_op(struct builder *b, enum op_kind kind, const char *name);
void draft_dim(struct op *op, enum dim dim, int64_t size);
/* Dims that an axis is made of alone take that axis's size, unless set before. */
void draft_inputs(struct builder *b, struct op *op, const int *tensors, int count);
/* Only the part of the last axis that the operator reads: q within a fused qkv. */
void draft_narrow(struct operand *operand, int64_t features);
/* The next weight of the kind's row. */
void draft_weight(struct builder *b, struct op *op, const char *name, int axes,
                  const int64_t *size);
int draft_append(struct builder *b, struct op *op, int axes, const int64_t *size,
                 enum element element);
/* An output with the shape of `like`, but for the size of its last axis. */
int draft_append_like(struct builder *b, struct op *op, int like, int64_t features);

#endif
