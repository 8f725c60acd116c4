/* onnx_tensors.c - tensors of an ONNX graph: their shapes, and the numbers of constants (onnx_tensors.h). */
#include "model/onnx_tensors.h"

#include <string.h>

/* ---- shapes per sample ----------------------------------------------------------------------- */

/* What is left of the leading dim per sample: 1 for a batch, seq for a merged batch * seq. */
static int64_t lead_of(const struct onnx_graph *graph, const struct onnx_value *value)
{
    int64_t lead = value->rank ? value->dim[0] : 1;
    return lead % graph->batch == 0 ? lead / graph->batch : lead;
}

static void push_axis(struct onnx_axes *axes, int64_t size)
{
    /* the middle axes are merged, because the last ones are features */
    if (axes->count == MAX_AXES)
        axes->size[1] *= axes->size[2], axes->count--,
            memmove(axes->size + 2, axes->size + 3, sizeof axes->size[0] * (MAX_AXES - 3));
    axes->size[axes->count++] = at_least_one(size);
}

struct onnx_axes onnx_axes_of(const struct onnx_graph *graph, const struct onnx_value *value)
{
    struct onnx_axes axes = {1, {1}};
    int64_t lead = lead_of(graph, value);
    if (!value->known)
        lead = 1;
    if (lead > 1)
        push_axis(&axes, lead);
    for (int i = 1; value->known && i < value->rank; i++)
        push_axis(&axes, value->dim[i]);
    if (axes.count == 1)
        push_axis(&axes, 1);
    return axes;
}

double onnx_axes_count(const struct onnx_axes *axes)
{
    double count = 1;
    for (int i = 0; i < axes->count; i++)
        count *= (double)axes->size[i];
    return count;
}

struct onnx_axes onnx_image_axes(const struct onnx_graph *graph, const struct onnx_value *value)
{
    struct onnx_axes axes = {4, {1, 1, lead_of(graph, value), 1}};
    axes.size[1] = value->rank > 1 ? at_least_one(value->dim[1]) : 1;
    for (int i = 2; i < value->rank; i++) {
        bool last = i + 1 == value->rank && value->rank > 3;
        axes.size[last ? 3 : 2] *= at_least_one(value->dim[i]);
    }
    axes.size[2] = at_least_one(axes.size[2]);
    return axes;
}

struct onnx_axes onnx_row_axes(const struct onnx_graph *graph, const struct onnx_value *value,
                               int64_t cols)
{
    struct onnx_axes all = onnx_axes_of(graph, value);
    int64_t rows = (int64_t)(onnx_axes_count(&all) / (double)at_least_one(cols));
    return (struct onnx_axes){3, {1, at_least_one(rows), at_least_one(cols)}};
}

/* ---- tensors --------------------------------------------------------------------------------- */

static enum element element_of(int type)
{
    if (type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL)
        return ELEMENT_BYTE;
    return onnx_is_float(type) || type == 0 ? ELEMENT_COMPUTE : ELEMENT_INDEX;
}

int onnx_tensor(const struct onnx_node *node, struct onnx_value *value)
{
    struct onnx_axes axes = onnx_axes_of(node->graph, value);
    if (value->tensor < 0) {
        if (!value->known)
            node->graph->unknown_sizes++;
        value->tensor = build_input(node->graph->b, axes.count, axes.size, element_of(value->type));
    }
    return value->tensor;
}

int onnx_tensor_as(const struct onnx_node *node, struct onnx_value *value,
                   const struct onnx_axes *want, const char *name)
{
    struct builder *b = node->graph->b;
    int x = onnx_tensor(node, value);
    const struct tensor *t = build_tensor(b, x);
    struct onnx_axes have = {t->axes, {0}};
    memcpy(have.size, t->size, sizeof have.size);
    if (have.count == want->count &&
        memcmp(have.size, want->size, sizeof have.size[0] * (size_t)have.count) == 0)
        return x;
    if (onnx_axes_count(&have) == onnx_axes_count(want))
        return build_view(b, x, want->count, want->size);
    return build_reshape(b, name, x, want->count, want->size);
}

/* ---- weights --------------------------------------------------------------------------------- */

void onnx_claim(const struct onnx_node *node, const struct onnx_value *value)
{
    struct onnx_value *source = onnx_source(node, value);
    struct op *op = build_last(node->graph->b);
    if (source->owner < 0)
        source->owner = build_last_index(node->graph->b);
    else if (op->weights)
        op->weight[0].tied_op = source->owner;
}
