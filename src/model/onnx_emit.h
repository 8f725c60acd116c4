/* onnx_emit.h - rules that turn a node into operators; private to onnx_emit.c and
 * onnx_emit_move.c. */
#ifndef WEFT_MODEL_ONNX_EMIT_H
#define WEFT_MODEL_ONNX_EMIT_H

#include "model/onnx_tensors.h"

typedef weft_status emit_rule(const struct onnx_node *node, const char *name);

/* ---- onnx_emit.c: rules for any node, with its own weights ---- */
emit_rule onnx_emit_opaque;
bool onnx_has_free_weight(const struct onnx_node *node);
void onnx_add_free_weights(const struct onnx_node *node);

/* ---- onnx_emit_move.c ---- */
emit_rule onnx_emit_view, onnx_emit_move, onnx_emit_transpose, onnx_emit_gather, onnx_emit_concat;

#endif
