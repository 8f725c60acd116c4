/* onnx_tensors.h - the values of an ONNX graph as tensors of the builder; private to the room.
 *
 * Tensors of the builder are per sample (onnx.h, I4) and have at most five axes; a consumer asks for
 * the shape that its kind needs and gets a view. Reshapes therefore cost nothing here.
 *
 *   I1  A weight belongs to the first operator that uses it and is tied to later ones.
 */
#ifndef WEFT_MODEL_ONNX_TENSORS_H
#define WEFT_MODEL_ONNX_TENSORS_H

#include "model/blocks.h"
#include "model/onnx.h"

struct onnx_axes {
    int count;
    int64_t size[MAX_AXES];
};
struct onnx_axes onnx_axes_of(const struct onnx_graph *graph, const struct onnx_value *value);
double onnx_axes_count(const struct onnx_axes *axes); /* elements */
/* The tensor as (batch, channels, rows, columns). */
struct onnx_axes onnx_image_axes(const struct onnx_graph *graph, const struct onnx_value *value);
/* The tensor as (batch, rows, cols), where each row holds `cols` consecutive elements. */
struct onnx_axes onnx_row_axes(const struct onnx_graph *graph, const struct onnx_value *value,
                               int64_t cols);

int onnx_tensor(const struct onnx_node *node, struct onnx_value *value);
/* The value under another shape: a view if the number of elements is the same, else a copy. */
int onnx_tensor_as(const struct onnx_node *node, struct onnx_value *value,
                   const struct onnx_axes *want, const char *name);

/* Makes this the first weight of the operator appended last, which then owns it or is tied to the
 * owner. */
void onnx_claim(const struct onnx_node *node, const struct onnx_value *value);

static inline int64_t at_least_one(int64_t size)
{
    return size > 0 ? size : 1;
}

static inline struct onnx_value *onnx_source(const struct onnx_node *node,
                                             const struct onnx_value *value)
{
    return &node->graph->values.data[value->source];
}

/* Whether a value is used as a weight and is not computed. */
static inline bool onnx_is_weight(const struct onnx_value *value)
{
    return value && value->known && value->origin != ORIGIN_NODE;
}

static inline bool onnx_is_free_weight(const struct onnx_node *node, const struct onnx_value *value)
{
    return value && value->origin == ORIGIN_WEIGHT && onnx_source(node, value)->owner < 0;
}

static inline bool onnx_is_activation(const struct onnx_value *value)
{
    return value && (value->origin == ORIGIN_NODE || value->origin == ORIGIN_INPUT);
}

#endif
