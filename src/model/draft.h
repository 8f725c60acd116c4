/* draft.h - drafting one operator: the internals of the builder that build_ops.c needs.
 *
 * An operator is drafted, gets inputs, dims and weights, and is appended with its output's shape.
 * After an error all of these functions do nothing, and the output is -1.
 */
#ifndef WEFT_MODEL_DRAFT_H
#define WEFT_MODEL_DRAFT_H

#include "model/builder.h"

struct op draft_op(struct builder *b, enum op_kind kind, const char *name);
void draft_dim(struct op *op, enum dim dim, int64_t size);
/* A dim that makes up an axis alone takes that axis's size, unless it was set before. */
void draft_inputs(struct builder *b, struct op *op, const int *tensors, int count);
/* Keeps only the part of the last axis that the operator reads: q within a fused qkv. */
void draft_narrow(struct operand *operand, int64_t features);
/* Adds the next weight of the kind's row. */
void draft_weight(struct builder *b, struct op *op, const char *name, int axes,
                  const int64_t *size);
int draft_append(struct builder *b, struct op *op, int axes, const int64_t *size,
                 enum element element);
/* Appends with an output of the shape of `like`, except for the size of its last axis. */
int draft_append_like(struct builder *b, struct op *op, int like, int64_t features);

#endif
