/* onnx_shape.h - helpers of the rules for shape inference. Private to onnx_shape.c and
 * onnx_move.c. */
#ifndef WEFT_MODEL_ONNX_SHAPE_H
#define WEFT_MODEL_ONNX_SHAPE_H

#include "model/onnx.h"

struct shape {
    int rank;
    int64_t dim[ONNX_MAX_RANK];
};

struct shape shape_of(const struct onnx_value *value);
struct text32 shape_show(const struct onnx_value *value); /* "(2,3)" */
void shape_push(struct shape *shape, int64_t dim);
/* Aligns axes from the right; sizes agree, or one of them is 1. */
bool shape_broadcast(struct shape *all, const struct onnx_value *more);

/* Sets the shape of output i, after checking its sizes. */
weft_status shape_set(const struct onnx_node *node, int i, const struct shape *shape);
weft_status shape_set_like(const struct onnx_node *node, int i, const struct onnx_value *like);
/* The same for the first output, if its type is not that of the first input. */
weft_status shape_set_typed(const struct onnx_node *node, const struct shape *shape, int type);

/* The elements of a constant input; returns how many, or -1 if they are not known. */
int shape_constants(const struct onnx_node *node, int i, int64_t *out, int most);
/* A list that is an attribute in older operator sets and an input in newer ones; -1: absent. */
int shape_list(const struct onnx_node *node, const char *attribute, int input, int64_t *out);
/* An axis that may be counted from either end; -1: out of range. */
int shape_axis(int64_t axis, int rank);
weft_status shape_bad_axis(const struct onnx_node *node, int64_t axis, int rank);
int64_t shape_to_int(double value);

/* ---- onnx_move.c ----------------------------------------------------------------------------- */

typedef weft_status infer_rule(const struct onnx_node *node);
infer_rule infer_concat, infer_reshape, infer_flatten, infer_transpose, infer_squeeze,
    infer_unsqueeze, infer_slice, infer_split, infer_gather, infer_gather_elements, infer_expand,
    infer_tile, infer_pad, infer_depth_to_space, infer_resize, infer_reduce, infer_arg_reduce,
    infer_top_k, infer_shape, infer_size, infer_cast, infer_constant, infer_constant_of_shape,
    infer_range;

#endif
