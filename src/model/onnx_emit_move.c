/* onnx_emit_move.c - ONNX nodes that move elements without computing: views, copies, gathers. */
#include "model/blocks.h"
#include "model/onnx_emit.h"

#include <string.h>

/* The same elements in the same order: the output is the input under another shape. An output of
 * the graph that no operator has made still needs an operator. */
weft_status onnx_emit_view(const struct onnx_node *node, const char *name)
{
    struct onnx_value *x = onnx_in(node, 0), *out = onnx_out(node, 0);
    struct onnx_axes axes = onnx_axes_of(node->graph, out);
    if (!onnx_is_activation(x))
        return onnx_emit_opaque(node, name);
    int tensor = onnx_tensor(node, x);
    bool copied = out->result && x->origin != ORIGIN_NODE;
    out->tensor =
        copied ? build_reshape(node->graph->b, name, tensor, axes.count, axes.size) : tensor;
    return WEFT_OK;
}

weft_status onnx_emit_move(const struct onnx_node *node, const char *name)
{
    struct onnx_value *x = onnx_in(node, 0);
    if (!onnx_is_activation(x) || onnx_has_free_weight(node))
        return onnx_emit_opaque(node, name);
    for (int i = 0; i < node->outputs; i++) {
        struct onnx_value *out = onnx_out(node, i);
        if (!out)
            continue;
        struct onnx_axes axes = onnx_axes_of(node->graph, out);
        out->tensor =
            build_reshape(node->graph->b, name, onnx_tensor(node, x), axes.count, axes.size);
    }
    return WEFT_OK;
}

/* Moving axes of size 1 costs nothing. */
weft_status onnx_emit_transpose(const struct onnx_node *node, const char *name)
{
    const struct onnx_value *x = onnx_in(node, 0), *out = onnx_out(node, 0);
    int i = 0, k = 0;
    for (;; i++, k++) {
        while (i < x->rank && x->dim[i] == 1)
            i++;
        while (k < out->rank && out->dim[k] == 1)
            k++;
        if (i >= x->rank || k >= out->rank || x->dim[i] != out->dim[k])
            break;
    }
    bool free_of_cost = i >= x->rank && k >= out->rank && x->rank <= 2;
    return free_of_cost ? onnx_emit_view(node, name) : onnx_emit_move(node, name);
}

weft_status onnx_emit_gather(const struct onnx_node *node, const char *name)
{
    struct onnx_value *table = onnx_in(node, 0), *ids = onnx_in(node, 1), *out = onnx_out(node, 0);
    bool embedding = onnx_is_weight(table) && onnx_is_float(table->type) && table->rank == 2 &&
                     onnx_int(node, "axis", 0) == 0 && onnx_is_activation(ids) && ids->rank >= 1;
    if (!embedding)
        return onnx_emit_move(node, name);
    struct onnx_axes all = onnx_axes_of(node->graph, ids);
    struct onnx_axes flat = {2, {1, (int64_t)onnx_axes_count(&all)}};
    int tensor = onnx_tensor_as(node, ids, &flat, name);
    out->tensor = build_embedding(node->graph->b, name, tensor, at_least_one(table->dim[0]),
                                  at_least_one(table->dim[1]), 0);
    onnx_claim(node, table);
    return WEFT_OK;
}

weft_status onnx_emit_concat(const struct onnx_node *node, const char *name)
{
    struct onnx_value *out = onnx_out(node, 0);
    ARRAY(int) parts = {0};
    struct onnx_axes axes = onnx_axes_of(node->graph, out);
    for (int i = 0; i < node->inputs; i++)
        if (onnx_in(node, i)->origin != ORIGIN_WEIGHT)
            array_push(node->graph->scratch, &parts, onnx_tensor(node, onnx_in(node, i)));
    if (parts.len == 0)
        return onnx_emit_opaque(node, name);
    out->tensor = build_concat(node->graph->b, name, parts.data, (int)parts.len, 0);
    struct op *op = build_last(node->graph->b); /* sizes as inferred, whatever the axis */
    if (out->tensor < 0)
        return WEFT_OK;
    struct tensor *t = &node->graph->b->tensors.data[out->tensor];
    memset(op->output.dims, -1, sizeof op->output.dims);
    op->output.dims[0][0] = 0;
    op->size[0] = 1;
    op->output.axes = t->axes = (uint8_t)axes.count;
    memcpy(op->output.size, axes.size, sizeof axes.size);
    memcpy(t->size, axes.size, sizeof axes.size);
    onnx_add_free_weights(node);
    return WEFT_OK;
}
