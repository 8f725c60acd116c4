/* onnx_emit.c - turns one ONNX node into operators of the model.
 *
 *   convolution   (N, C, d1 ... dk) is the image (C, d1 ... d(k-1), dk); what is left of N joins d1
 *   product       of two activations, (..., m, k) by (..., k, n), is OP_SCORE with one head per
 *                 matrix: 2 m n k FLOPs each
 */
#include "model/blocks.h"
#include "model/onnx_emit.h"

#include <string.h>

/* ---- opaque ---------------------------------------------------------------------------------- */

static struct weight weight_shape(const struct onnx_value *source)
{
    struct weight weight = {.name = "weight", .tied_op = -1};
    weight.operand.axes = source->rank > MAX_AXES || source->rank == 0 ? 1 : (uint8_t)source->rank;
    weight.operand.size[0] = at_least_one(onnx_elements(source));
    for (int i = 0; i < source->rank && weight.operand.axes == source->rank; i++)
        weight.operand.size[i] = at_least_one(source->dim[i]);
    return weight;
}

static void count_opaque(struct onnx_graph *graph, const char *type)
{
    int64_t count = 0;
    map_get(graph->opaque, type, &count);
    if (map_put(graph->opaque, type, count + 1))
        array_push(graph->scratch, &graph->opaque_types, type);
}

weft_status onnx_emit_opaque(const struct onnx_node *node, const char *name)
{
    struct onnx_graph *graph = node->graph;
    ARRAY(int) inputs = {0};
    ARRAY(struct weight) weights = {0};
    const char *type = node->proto->op_type ? node->proto->op_type : "";
    for (int i = 0; i < node->inputs; i++) {
        struct onnx_value *value = onnx_in(node, i);
        if (onnx_is_activation(value))
            array_push(graph->scratch, &inputs, onnx_tensor(node, value));
        if (!onnx_is_free_weight(node, value))
            continue;
        array_push(graph->scratch, &weights, weight_shape(onnx_source(node, value)));
        onnx_source(node, value)->owner = (int32_t)graph->b->ops.len;
    }
    struct onnx_value nothing = {0}, *out = onnx_out(node, 0);
    struct onnx_axes axes = onnx_axes_of(graph, out ? out : &nothing);
    if (out && !out->known)
        graph->unknown_sizes++;
    count_opaque(graph, type);
    int tensor = build_opaque(graph->b, name, type, inputs.data, (int)inputs.len, axes.count,
                              axes.size, weights.data, (int)weights.len);
    if (out)
        out->tensor = tensor;
    return WEFT_OK;
}

/* ---- products -------------------------------------------------------------------------------- */

/* The vector that an Add after a MatMul adds: its bias. */
static struct onnx_value *bias_after(const struct onnx_node *node, int64_t features)
{
    const struct onnx_value *out = onnx_out(node, 0);
    if (!out || out->uses != 1 || out->result)
        return NULL;
    struct onnx_node next = onnx_node_at(node->graph, out->consumer);
    if (!onnx_is(&next, "Add") || next.inputs != 2 || next.outputs != 1)
        return NULL;
    struct onnx_value *bias = onnx_in(&next, onnx_in(&next, 0) == out);
    bool fits = onnx_is_free_weight(node, bias) && bias->rank == 1 && bias->dim[0] == features;
    return fits && onnx_out(&next, 0) ? bias : NULL;
}

static weft_status emit_linear(const struct onnx_node *node, const char *name, int64_t in,
                               int64_t features, struct onnx_value *bias)
{
    struct onnx_axes rows = onnx_row_axes(node->graph, onnx_in(node, 0), in);
    int x = onnx_tensor_as(node, onnx_in(node, 0), &rows, name);
    int y = build_linear(node->graph->b, name, x, at_least_one(features), bias != NULL);
    onnx_claim(node, onnx_in(node, 1));
    onnx_out(node, 0)->tensor = y;
    if (bias)
        onnx_source(node, bias)->owner = build_last_index(node->graph->b);
    return WEFT_OK;
}

static weft_status emit_gemm(const struct onnx_node *node, const char *name)
{
    const struct onnx_value *a = onnx_in(node, 0), *out = onnx_out(node, 0);
    struct onnx_value *c = onnx_in(node, 2);
    bool fits = onnx_is_weight(onnx_in(node, 1)) && onnx_is_activation(a) &&
                (!c || (onnx_is_weight(c) && c->rank <= 1));
    if (!fits)
        return onnx_emit_opaque(node, name);
    bool bias = c && onnx_elements(c) > 1 && onnx_source(node, c)->owner < 0;
    return emit_linear(node, name, a->dim[onnx_int(node, "transA", 0) ? 0 : 1], out->dim[1],
                       bias ? c : NULL);
}

/* A product of two activations: it has as many heads as there are matrices per sample. */
static weft_status emit_batched(const struct onnx_node *node, const char *name)
{
    struct onnx_value *a = onnx_in(node, 0), *b = onnx_in(node, 1), *out = onnx_out(node, 0);
    struct onnx_axes all = onnx_axes_of(node->graph, out);
    bool same = a->rank == b->rank && a->rank >= 2;
    for (int i = 0; same && i + 2 < a->rank; i++)
        same = a->dim[i] == b->dim[i];
    if (!same || a->dim[a->rank - 2] < 1 || b->dim[b->rank - 1] < 1 || a->dim[a->rank - 1] < 1 ||
        (a->rank == 2 && node->graph->batch > 1))
        return onnx_emit_opaque(node, name);
    int64_t m = a->dim[a->rank - 2], n = b->dim[b->rank - 1], k = a->dim[a->rank - 1];
    int64_t heads = at_least_one((int64_t)(onnx_axes_count(&all) / ((double)m * (double)n)));
    struct attention attention = {.heads = heads, .kv_heads = heads, .depth = k};
    struct onnx_axes q = {3, {1, m, heads * k}}, kv = {3, {1, n, heads * k}};
    int left = onnx_tensor_as(node, a, &q, name), right = onnx_tensor_as(node, b, &kv, name);
    out->tensor = build_score(node->graph->b, name, left, right, &attention);
    return WEFT_OK;
}

static weft_status emit_matmul(const struct onnx_node *node, const char *name)
{
    const struct onnx_value *a = onnx_in(node, 0), *b = onnx_in(node, 1);
    if (onnx_is_activation(a) && onnx_is_weight(b) && b->rank == 2) {
        struct onnx_value *bias = bias_after(node, b->dim[1]);
        weft_status status = emit_linear(node, name, b->dim[0], b->dim[1], bias);
        if (bias) {
            struct onnx_node add = onnx_node_at(node->graph, onnx_out(node, 0)->consumer);
            node->graph->fused[add.index] = true;
            onnx_out(&add, 0)->tensor = onnx_out(node, 0)->tensor;
        }
        return status;
    }
    return onnx_is_activation(a) && onnx_is_activation(b) ? emit_batched(node, name)
                                                          : onnx_emit_opaque(node, name);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* ONNX pads each side separately, dilates and rounds up; the builder has a single pad. So the
 * window is built with enough padding, and its output then gets the inferred size. */
static void fit_output(struct builder *b, int tensor, const struct onnx_axes *want)
{
    struct op *op = build_last(b);
    if (tensor < 0)
        return;
    for (int i = 2; i < 4; i++) {
        op->size[op_find_dim(op->kind, i == 2 ? DIM_HEIGHT : DIM_WIDTH)] = want->size[i];
        op->output.size[i] = b->tensors.data[tensor].size[i] = want->size[i];
    }
}

/* Kernel and stride of the two axes that image_axes makes. */
static bool window_of(const struct onnx_node *node, int rank, struct window *w)
{
    int64_t kernel[ONNX_MAX_RANK], stride[ONNX_MAX_RANK] = {1};
    const struct onnx_value *weight = onnx_in(node, 1);
    int axes = onnx_ints(node, "kernel_shape", kernel, ONNX_MAX_RANK);
    if (axes < 0 && weight) {
        axes = weight->rank - 2;
        memcpy(kernel, weight->dim + 2, sizeof kernel[0] * (size_t)axes);
    }
    if (axes < 1 || axes != rank - 2)
        return false;
    onnx_ints(node, "strides", stride, ONNX_MAX_RANK);
    *w = (struct window){1, 1, stride[0], 0, 0};
    for (int i = 0; i < axes; i++) {
        int64_t *side = axes > 1 && i + 1 == axes ? &w->kernel_w : &w->kernel_h;
        if (!checked_mul(*side, kernel[i], side) || *side > INT32_MAX)
            return false;
    }
    w->pad_h = w->kernel_h;
    w->pad_w = w->kernel_w;
    return true;
}

static weft_status emit_conv(const struct onnx_node *node, const char *name)
{
    struct onnx_value *x = onnx_in(node, 0), *out = onnx_out(node, 0), *c = onnx_in(node, 2);
    struct builder *b = node->graph->b;
    struct window window;
    if (!onnx_is_activation(x) || !onnx_is_weight(onnx_in(node, 1)) ||
        !window_of(node, x->rank, &window))
        return onnx_emit_opaque(node, name);
    struct onnx_axes image = onnx_image_axes(node->graph, x),
                     result = onnx_image_axes(node->graph, out);
    int tensor = onnx_tensor_as(node, x, &image, name);
    out->tensor =
        build_conv(b, name, tensor, result.size[1], &window, onnx_int(node, "group", 1), c != NULL);
    onnx_claim(node, onnx_in(node, 1));
    if (c)
        onnx_source(node, c)->owner = build_last_index(b);
    fit_output(b, out->tensor, &result);
    return WEFT_OK;
}

static weft_status emit_pool(const struct onnx_node *node, const char *name)
{
    struct onnx_value *x = onnx_in(node, 0), *out = onnx_out(node, 0);
    struct window window;
    if (!onnx_is_activation(x) || !window_of(node, x->rank, &window))
        return onnx_emit_opaque(node, name);
    struct onnx_axes image = onnx_image_axes(node->graph, x),
                     result = onnx_image_axes(node->graph, out);
    int tensor = onnx_tensor_as(node, x, &image, name);
    out->tensor = build_pool(node->graph->b, name, tensor, &window);
    fit_output(node->graph->b, out->tensor, &result);
    return WEFT_OK;
}

static weft_status emit_global_pool(const struct onnx_node *node, const char *name)
{
    struct onnx_value *x = onnx_in(node, 0);
    struct onnx_axes image = onnx_image_axes(node->graph, x);
    int tensor = onnx_tensor_as(node, x, &image, name);
    onnx_out(node, 0)->tensor = build_global_pool(node->graph->b, name, tensor);
    return WEFT_OK;
}

/* ---- norms, softmax -------------------------------------------------------------------------- */

static weft_status emit_batch_norm(const struct onnx_node *node, const char *name)
{
    struct onnx_value *x = onnx_in(node, 0), *scale = onnx_in(node, 1), *shift = onnx_in(node, 2);
    if (!onnx_is_activation(x) || !onnx_is_weight(scale) || x->rank < 2)
        return onnx_emit_opaque(node, name);
    struct onnx_axes image = onnx_image_axes(node->graph, x);
    int tensor = onnx_tensor_as(node, x, &image, name);
    onnx_out(node, 0)->tensor = build_batch_norm(node->graph->b, name, tensor);
    onnx_claim(node, scale);
    if (shift)
        onnx_source(node, shift)->owner = build_last_index(node->graph->b);
    return WEFT_OK;
}

static weft_status emit_norm(const struct onnx_node *node, const char *name)
{
    struct onnx_value *x = onnx_in(node, 0), *scale = onnx_in(node, 1), *shift = onnx_in(node, 2);
    struct builder *b = node->graph->b;
    if (!onnx_is_activation(x) || !onnx_is_weight(scale) || (shift && !onnx_is_weight(shift)))
        return onnx_emit_opaque(node, name);
    struct onnx_axes rows = onnx_row_axes(node->graph, x, onnx_elements(scale));
    int tensor = onnx_tensor_as(node, x, &rows, name);
    onnx_out(node, 0)->tensor =
        shift ? build_layer_norm(b, name, tensor) : build_rms_norm(b, name, tensor, true);
    onnx_claim(node, scale);
    if (shift)
        onnx_source(node, shift)->owner = build_last_index(b);
    return WEFT_OK;
}

static weft_status emit_softmax(const struct onnx_node *node, const char *name)
{
    struct onnx_value *x = onnx_in(node, 0);
    bool flattens = node->graph->opset < 13;
    int64_t axis = onnx_int(node, "axis", flattens ? 1 : -1), cols = 1;
    axis += axis < 0 ? x->rank : 0;
    if (!onnx_is_activation(x) || axis < 0 || axis >= x->rank)
        return onnx_emit_opaque(node, name);
    for (int i = (int)axis; i < (flattens ? x->rank : (int)axis + 1); i++)
        cols *= at_least_one(x->dim[i]);
    struct onnx_axes all = onnx_axes_of(node->graph, x), rows = onnx_row_axes(node->graph, x, cols);
    struct onnx_axes scores = {4, {1, 1, rows.size[1], cols}};
    bool as_it_is = all.count == 4 && all.size[3] == cols;
    int tensor = onnx_tensor_as(node, x, as_it_is ? &all : &scores, name);
    onnx_out(node, 0)->tensor = build_softmax(node->graph->b, name, tensor, false);
    return WEFT_OK;
}

/* ---- elementwise ----------------------------------------------------------------------------- */

bool onnx_has_free_weight(const struct onnx_node *node)
{
    for (int i = 0; i < node->inputs; i++)
        if (onnx_is_free_weight(node, onnx_in(node, i)))
            return true;
    return false;
}

/* Weights without a place in the operator's kind (learned positions that are added, a class token
 * that is prepended) become learned vectors of the operator appended last. */
void onnx_add_free_weights(const struct onnx_node *node)
{
    for (int i = 0; i < node->inputs; i++) {
        const struct onnx_value *value = onnx_in(node, i);
        if (!onnx_is_free_weight(node, value))
            continue;
        struct onnx_value *source = onnx_source(node, value);
        block_add_weight(node->graph->b, "weight", at_least_one(onnx_elements(source)));
        source->owner = build_last_index(node->graph->b);
    }
}

static void finish_elementwise(const struct onnx_node *node, unsigned keep)
{
    struct builder *b = node->graph->b;
    if (b->status != WEFT_OK)
        return;
    build_last(b)->keep = keep;
    build_last(b)->onnx_type = arena_copy_text(b->arena, node->proto->op_type);
    onnx_add_free_weights(node);
}

/* Activations that keep their input, their output, or nothing. */
static weft_status emit_activation(const struct onnx_node *node, const char *name,
                                   int (*build)(struct builder *, const char *, int), unsigned keep)
{
    struct onnx_value *out = onnx_out(node, 0), *x = NULL;
    for (int i = node->inputs - 1; i >= 0; i--)
        if (onnx_is_activation(onnx_in(node, i)))
            x = onnx_in(node, i);
    if (!x)
        return onnx_emit_opaque(node, name);
    struct onnx_axes axes = onnx_axes_of(node->graph, out);
    out->tensor = build(node->graph->b, name, onnx_tensor_as(node, x, &axes, name));
    finish_elementwise(node, keep);
    return WEFT_OK;
}

static weft_status emit_gelu(const struct onnx_node *node, const char *name)
{
    return emit_activation(node, name, build_gelu, KEEP_INPUT_0);
}

static weft_status emit_keep_output(const struct onnx_node *node, const char *name)
{
    return emit_activation(node, name, build_relu, KEEP_OUTPUT);
}

static weft_status emit_keep_input(const struct onnx_node *node, const char *name)
{
    return emit_activation(node, name, build_silu, KEEP_INPUT_0);
}

static weft_status emit_keep_nothing(const struct onnx_node *node, const char *name)
{
    return emit_activation(node, name, build_silu, 0);
}

static weft_status emit_dropout(const struct onnx_node *node, const char *name)
{
    return emit_activation(node, name, build_dropout, KEEP_MASK);
}

/* Combines the inputs pair by pair from left to right; the intermediate results have the output's
 * shape. */
static weft_status emit_combination(const struct onnx_node *node, const char *name, unsigned keep)
{
    struct onnx_value *out = onnx_out(node, 0), *first = NULL;
    struct onnx_axes axes = onnx_axes_of(node->graph, out);
    int activations = 0;
    for (int i = 0; i < node->inputs; i++) {
        struct onnx_value *value = onnx_in(node, i);
        activations += onnx_is_activation(value);
        if (onnx_is_activation(value) && (!first || onnx_elements(value) > onnx_elements(first)))
            first = value;
    }
    if (activations < 2)
        return emit_activation(node, name, build_silu, keep & KEEP_INPUT_0);
    int sum = onnx_tensor_as(node, first, &axes, name);
    bool skipped = false;
    for (int i = 0; i < node->inputs; i++) {
        struct onnx_value *value = onnx_in(node, i);
        if (!onnx_is_activation(value) || (value == first && !skipped)) {
            skipped |= value == first;
            continue;
        }
        sum = build_add(node->graph->b, name, sum, onnx_tensor(node, value));
        finish_elementwise(node, keep);
    }
    out->tensor = sum;
    return WEFT_OK;
}

static weft_status emit_sum(const struct onnx_node *node, const char *name)
{
    return emit_combination(node, name, 0);
}

static weft_status emit_product(const struct onnx_node *node, const char *name)
{
    return emit_combination(node, name, KEEP_INPUT_0 | KEEP_INPUT_1);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    const char *types; /* separated by blanks */
    emit_rule *emit;
} RULES[] = {
    {"Conv", emit_conv},
    {"Gemm", emit_gemm},
    {"MatMul", emit_matmul},
    {"BatchNormalization", emit_batch_norm},
    {"LayerNormalization RMSNormalization SimplifiedLayerNormalization", emit_norm},
    {"MaxPool AveragePool LpPool", emit_pool},
    {"GlobalAveragePool GlobalMaxPool GlobalLpPool", emit_global_pool},
    {"Softmax LogSoftmax", emit_softmax},
    {"Gelu", emit_gelu},
    {"Relu Sigmoid Tanh Exp Sqrt Reciprocal Clip HardSigmoid Softplus Elu Selu Celu",
     emit_keep_output},
    {"Erf LeakyRelu Mish HardSwish Softsign ThresholdedRelu Log Abs Sin Cos Tan Asin Acos Atan "
     "Sinh "
     "Cosh Asinh Acosh Atanh Shrink",
     emit_keep_input},
    {"Neg Floor Ceil Round Sign Not IsNaN IsInf BitwiseNot", emit_keep_nothing},
    {"Dropout", emit_dropout},
    {"Add Sub Sum Mean And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual Where BitShift "
     "BitwiseAnd BitwiseOr BitwiseXor",
     emit_sum},
    {"Mul Div Pow Min Max Mod PRelu", emit_product},
    {"Identity Cast CastLike Reshape Flatten Squeeze Unsqueeze", onnx_emit_view},
    {"Transpose", onnx_emit_transpose},
    {"Slice Split Expand Tile Pad DepthToSpace SpaceToDepth Resize Upsample GatherElements Trilu "
     "ReverseSequence",
     onnx_emit_move},
    {"Gather", onnx_emit_gather},
    {"Concat", onnx_emit_concat},
};

/* A node that only rearranges a weight still yields that weight. */
static const char REARRANGES[] = "Identity Cast Reshape Flatten Squeeze Unsqueeze Transpose Expand "
                                 "Slice Split Tile DequantizeLinear";

static emit_rule *find_rule(const struct onnx_node *node)
{
    for (size_t i = 0; i < COUNT_OF(RULES); i++)
        if (onnx_is(node, RULES[i].types))
            return RULES[i].emit;
    return NULL;
}

static bool all_known(const struct onnx_node *node)
{
    for (int i = 0; i < node->inputs; i++)
        if (onnx_in(node, i) && !onnx_in(node, i)->known)
            return false;
    return onnx_in(node, 0) && onnx_out(node, 0) && onnx_out(node, 0)->known;
}

/* Constants and rearranged weights need no operator, unless the graph returns them. */
static bool needs_no_operator(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0);
    bool rearranged = x && x->origin == ORIGIN_WEIGHT && onnx_is(node, REARRANGES);
    bool returned = false, folded = node->outputs > 0;
    for (int i = 0; i < node->outputs; i++) {
        struct onnx_value *out = onnx_out(node, i);
        if (out && rearranged) {
            out->origin = ORIGIN_WEIGHT;
            out->source = x->source;
        }
        returned |= out && out->result;
        folded &= !out || out->origin == ORIGIN_FOLDED || out->origin == ORIGIN_WEIGHT;
    }
    return folded && !returned;
}

/* Outputs after the first that someone reads and the rule has not made become parts of the
 * first. */
static void emit_others(const struct onnx_node *node, const char *name)
{
    const struct onnx_value *first = onnx_out(node, 0);
    for (int i = 1; i < node->outputs; i++) {
        struct onnx_value *out = onnx_out(node, i);
        if (!out || out->uses == 0 || out->tensor >= 0 || !first || first->tensor < 0)
            continue;
        struct onnx_axes axes = onnx_axes_of(node->graph, out);
        out->tensor = build_reshape(node->graph->b, name, first->tensor, axes.count, axes.size);
    }
}

weft_status onnx_emit(const struct onnx_node *node)
{
    if (needs_no_operator(node))
        return WEFT_OK;
    const char *name = onnx_enter(node);
    emit_rule *rule = all_known(node) ? find_rule(node) : NULL;
    weft_status status = rule ? rule(node, name) : onnx_emit_opaque(node, name);
    if (status == WEFT_OK)
        emit_others(node, name);
    return status != WEFT_OK ? status : node->graph->b->status;
}
