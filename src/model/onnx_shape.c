/* onnx_shape.c - the shapes of a node's outputs from those of its inputs, one rule per operator.
 *
 *   window      out = (in + pads - (dilation (kernel - 1) + 1)) / stride + 1     rounded as asked (1)
 *   broadcast   axes from the right; sizes agree, or one of them is 1                              (2)
 *
 * A rule runs only when the shapes of all the node's inputs are known. It leaves its outputs alone
 * when it has no answer (the shape depends on data): then the shape that the file declares is used,
 * or it stays unknown. It is an error only when the shapes contradict each other.
 */
#include "model/onnx_shape.h"

#include <stdio.h>
#include <string.h>

struct shape shape_of(const struct onnx_value *value)
{
    struct shape shape = {.rank = value->rank};
    memcpy(shape.dim, value->dim, sizeof shape.dim);
    return shape;
}

struct text32 shape_show(const struct onnx_value *value)
{
    struct text32 text = {"("};
    for (int i = 0; i < value->rank; i++) {
        size_t used = strlen(text.s);
        snprintf(text.s + used, sizeof text.s - used, "%s%lld", i ? "," : "",
                 (long long)value->dim[i]);
    }
    size_t used = strlen(text.s);
    snprintf(text.s + used, sizeof text.s - used, ")");
    return text;
}

/* ---- writing and asking ---------------------------------------------------------------------- */

weft_status shape_set(const struct onnx_node *node, int i, const struct shape *shape)
{
    struct onnx_value *value = onnx_out(node, i);
    if (!value)
        return WEFT_OK;
    for (int k = 0; k < shape->rank; k++)
        if (shape->dim[k] < 0 || shape->dim[k] > ONNX_MAX_DIM)
            return onnx_error(node, NULL, "would have an axis of %lld, expected 0 to 2^40",
                              (long long)shape->dim[k]);
    if (!onnx_fits(shape->rank, shape->dim))
        return onnx_error(node, NULL, "would make more than 2^50 elements, expected fewer");
    value->rank = shape->rank;
    memcpy(value->dim, shape->dim, sizeof value->dim);
    value->known = true;
    if (!value->type && onnx_in(node, 0))
        value->type = onnx_in(node, 0)->type;
    return WEFT_OK;
}

weft_status shape_set_typed(const struct onnx_node *node, const struct shape *shape, int type)
{
    if (onnx_out(node, 0))
        onnx_out(node, 0)->type = type;
    return shape_set(node, 0, shape);
}

weft_status shape_set_like(const struct onnx_node *node, int i, const struct onnx_value *like)
{
    struct shape shape = shape_of(like);
    return shape_set(node, i, &shape);
}

void shape_push(struct shape *shape, int64_t dim)
{
    if (shape->rank < ONNX_MAX_RANK)
        shape->dim[shape->rank++] = dim;
}

int64_t shape_to_int(double value)
{
    if (!(value > -0x1p62)) /* NaN counts as the smallest number */
        return -(INT64_C(1) << 62);
    return value < 0x1p62 ? (int64_t)value : INT64_C(1) << 62;
}

/* The elements of a constant input; returns how many, or -1 if they are not known. */
int shape_constants(const struct onnx_node *node, int i, int64_t *out, int most)
{
    const struct onnx_value *value = onnx_in(node, i);
    if (!value || !value->constant || onnx_elements(value) > most)
        return -1;
    int count = (int)onnx_elements(value);
    for (int k = 0; k < count; k++)
        out[k] = shape_to_int(value->constant[k]);
    return count;
}

/* A list that is an attribute in older operator sets and an input in newer ones; -1: absent. */
int shape_list(const struct onnx_node *node, const char *attribute, int input, int64_t *out)
{
    int count = onnx_ints(node, attribute, out, ONNX_MAX_RANK);
    return count >= 0 ? count : shape_constants(node, input, out, ONNX_MAX_RANK);
}

/* An axis that may be counted from either end; -1: out of range. */
int shape_axis(int64_t axis, int rank)
{
    axis += axis < 0 ? rank : 0;
    return axis >= 0 && axis < rank ? (int)axis : -1;
}

weft_status shape_bad_axis(const struct onnx_node *node, int64_t axis, int rank)
{
    return onnx_error(node, NULL, "has axis %lld, expected -%d to %d", (long long)axis, rank,
                      rank - 1);
}

/* ---- elementwise ----------------------------------------------------------------------------- */

static weft_status like_first(const struct onnx_node *node)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < node->outputs && i < 2 && !status; i++) /* a second output is a mask */
        status = shape_set_like(node, i, onnx_in(node, 0));
    return status;
}

static weft_status only_first(const struct onnx_node *node)
{
    return shape_set_like(node, 0, onnx_in(node, 0));
}

bool shape_broadcast(struct shape *all, const struct onnx_value *more) /* (2) */
{
    struct shape out = {.rank = all->rank > more->rank ? all->rank : more->rank};
    for (int i = 1; i <= out.rank; i++) {
        int64_t a = i <= all->rank ? all->dim[all->rank - i] : 1;
        int64_t b = i <= more->rank ? more->dim[more->rank - i] : 1;
        if (a != b && a != 1 && b != 1)
            return false;
        out.dim[out.rank - i] = a == 1 ? b : a;
    }
    *all = out;
    return true;
}

static weft_status broadcast_all(const struct onnx_node *node)
{
    struct shape all = {0};
    int64_t axis;
    if (onnx_ints(node, "axis", &axis, 1) >= 0 && node->graph->opset < 7)
        return only_first(node); /* the one-sided broadcast of old operator sets */
    for (int i = 0; i < node->inputs; i++) {
        const struct onnx_value *value = onnx_in(node, i);
        if (value && !shape_broadcast(&all, value))
            return onnx_error(node, NULL, "has inputs of shapes %s and %s, which do not broadcast",
                              shape_show(onnx_in(node, 0)).s, shape_show(value).s);
    }
    return shape_set(node, 0, &all);
}

/* ---- windows --------------------------------------------------------------------------------- */

enum { MOST_WINDOW = ONNX_MAX_RANK - 2 };

struct sweep {
    int axes;
    int64_t kernel[MOST_WINDOW], stride[MOST_WINDOW], dilation[MOST_WINDOW], pad[MOST_WINDOW * 2];
    bool same; /* auto_pad SAME_*: out = in / stride, rounded up */
    bool round_up;
};

static bool auto_pad_is_same(const struct onnx_node *node)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(node, "auto_pad");
    return attribute && attribute->has_s && attribute->s.len >= 4 &&
           memcmp(attribute->s.data, "SAME", 4) == 0;
}

static weft_status read_sweep(const struct onnx_node *node, int rank, struct sweep *sweep)
{
    *sweep = (struct sweep){.axes = rank - 2,
                            .same = auto_pad_is_same(node),
                            .round_up = onnx_int(node, "ceil_mode", 0) != 0};
    for (int i = 0; i < sweep->axes; i++)
        sweep->kernel[i] = sweep->stride[i] = sweep->dilation[i] = 1;
    const struct onnx_value *weight = onnx_in(node, 1);
    if (onnx_ints(node, "kernel_shape", sweep->kernel, sweep->axes) < 0 && weight)
        for (int i = 0; i < sweep->axes && i + 2 < weight->rank; i++)
            sweep->kernel[i] = weight->dim[i + 2];
    onnx_ints(node, "strides", sweep->stride, sweep->axes);
    onnx_ints(node, "dilations", sweep->dilation, sweep->axes);
    onnx_ints(node, "pads", sweep->pad, sweep->axes * 2);
    for (int i = 0; i < sweep->axes; i++) {
        int64_t pads = sweep->pad[i] | sweep->pad[i + sweep->axes];
        bool ok = sweep->kernel[i] > 0 && sweep->stride[i] > 0 && sweep->dilation[i] > 0 &&
                  sweep->kernel[i] < INT32_MAX && sweep->stride[i] < INT32_MAX &&
                  sweep->dilation[i] < INT32_MAX && pads >= 0 && pads < INT32_MAX;
        if (!ok)
            return onnx_error(node, NULL,
                              "has a window of kernel %lld, stride %lld, dilation %lld, expected "
                              "positive numbers below 2^31",
                              (long long)sweep->kernel[i], (long long)sweep->stride[i],
                              (long long)sweep->dilation[i]);
    }
    return WEFT_OK;
}

static int64_t swept(const struct sweep *sweep, int i, int64_t size) /* (1) */
{
    int64_t stride = sweep->stride[i];
    if (sweep->same)
        return ceil_div(size, stride);
    int64_t room = size + sweep->pad[i] + sweep->pad[i + sweep->axes] -
                   (sweep->dilation[i] * (sweep->kernel[i] - 1) + 1);
    if (room < 0)
        return 0;
    return (sweep->round_up ? ceil_div(room, stride) : room / stride) + 1;
}

static weft_status sweep_over(const struct onnx_node *node, int64_t channels)
{
    const struct onnx_value *x = onnx_in(node, 0);
    struct sweep sweep;
    struct shape out = shape_of(x);
    if (x->rank < 2)
        return onnx_error(node, NULL, "has an input of shape %s, expected (batch, channels, ...)",
                          shape_show(x).s);
    weft_status status = read_sweep(node, x->rank, &sweep);
    if (status)
        return status;
    out.dim[1] = channels;
    for (int i = 0; i < sweep.axes; i++)
        out.dim[i + 2] = swept(&sweep, i, x->dim[i + 2]);
    status = shape_set(node, 0, &out);
    if (status == WEFT_OK && node->outputs > 1)
        status = shape_set(node, 1, &out);
    return status;
}

static weft_status infer_conv(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0), *w = onnx_in(node, 1);
    int64_t group = onnx_int(node, "group", 1);
    if (!w || w->rank != x->rank || x->rank < 3 || group < 1 || group > INT32_MAX ||
        x->dim[1] != w->dim[1] * group)
        return onnx_error(node, NULL, "has input %s, weight %s and group %lld, which do not match",
                          shape_show(x).s, w ? shape_show(w).s : "none", (long long)group);
    return sweep_over(node, w->dim[0]);
}

static weft_status infer_pool(const struct onnx_node *node)
{
    return sweep_over(node, onnx_in(node, 0)->rank > 1 ? onnx_in(node, 0)->dim[1] : 1);
}

static weft_status infer_global_pool(const struct onnx_node *node)
{
    struct shape out = shape_of(onnx_in(node, 0));
    for (int i = 2; i < out.rank; i++)
        out.dim[i] = 1;
    return shape_set(node, 0, &out);
}

/* ---- products -------------------------------------------------------------------------------- */

static weft_status no_product(const struct onnx_node *node)
{
    return onnx_error(node, NULL, "multiplies shapes %s and %s, which do not match",
                      shape_show(onnx_in(node, 0)).s, shape_show(onnx_in(node, 1)).s);
}

static weft_status infer_gemm(const struct onnx_node *node)
{
    const struct onnx_value *a = onnx_in(node, 0), *b = onnx_in(node, 1);
    int64_t ta = onnx_int(node, "transA", 0) != 0, tb = onnx_int(node, "transB", 0) != 0;
    if (!b || a->rank != 2 || b->rank != 2 || a->dim[!ta] != b->dim[tb])
        return b ? no_product(node) : onnx_error(node, NULL, "has one input, expected two");
    struct shape out = {2, {a->dim[ta], b->dim[!tb]}};
    return shape_set(node, 0, &out);
}

static weft_status infer_matmul(const struct onnx_node *node)
{
    const struct onnx_value *a = onnx_in(node, 0), *b = onnx_in(node, 1);
    if (!b || a->rank == 0 || b->rank == 0)
        return onnx_error(node, NULL, "multiplies scalars, expected matrices");
    int64_t inner = b->dim[b->rank > 1 ? b->rank - 2 : 0];
    if (a->dim[a->rank - 1] != inner)
        return no_product(node);
    struct onnx_value stack_b = *b; /* the axes before the matrices are broadcast */
    struct shape out = shape_of(a);
    out.rank = a->rank > 2 ? a->rank - 2 : 0;
    stack_b.rank = b->rank > 2 ? b->rank - 2 : 0;
    if (!shape_broadcast(&out, &stack_b))
        return no_product(node);
    if (a->rank > 1)
        shape_push(&out, a->dim[a->rank - 2]);
    if (b->rank > 1)
        shape_push(&out, b->dim[b->rank - 1]);
    return shape_set(node, 0, &out);
}

/* ---- norms ----------------------------------------------------------------------------------- */

static weft_status infer_batch_norm(const struct onnx_node *node)
{
    weft_status status = shape_set_like(node, 0, onnx_in(node, 0));
    for (int i = 1; i < node->outputs && onnx_in(node, 1) && !status; i++)
        status = shape_set_like(node, i, onnx_in(node, 1));
    return status;
}

static weft_status infer_layer_norm(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0);
    struct shape statistics = shape_of(x);
    int axis = shape_axis(onnx_int(node, "axis", -1), x->rank);
    if (axis < 0)
        return shape_bad_axis(node, onnx_int(node, "axis", -1), x->rank);
    for (int i = axis; i < x->rank; i++)
        statistics.dim[i] = 1;
    weft_status status = shape_set_like(node, 0, x);
    for (int i = 1; i < node->outputs && !status; i++)
        status = shape_set(node, i, &statistics);
    return status;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    const char *types; /* separated by blanks */
    infer_rule *infer;
} RULES[] = {
    {"Relu Gelu Sigmoid Tanh Erf LeakyRelu Elu Selu Celu Mish HardSigmoid HardSwish Softplus "
     "Softsign ThresholdedRelu Clip Exp Log Sqrt Abs Neg Reciprocal Floor Ceil Round Sign Not Sin "
     "Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Identity CastLike Softmax LogSoftmax "
     "Hardmax InstanceNormalization GroupNormalization LpNormalization MeanVarianceNormalization "
     "LRN CumSum ReverseSequence Trilu IsNaN IsInf Bernoulli QuantizeLinear DequantizeLinear "
     "ScatterElements ScatterND Scatter Shrink RandomNormalLike RandomUniformLike EyeLike "
     "RMSNormalization SimplifiedLayerNormalization BitwiseNot PRelu",
     only_first},
    {"Dropout", like_first},
    {"Add Sub Mul Div Pow Min Max Sum Mean And Or Xor Equal Less Greater LessOrEqual "
     "GreaterOrEqual Where Mod BitShift BitwiseAnd BitwiseOr BitwiseXor",
     broadcast_all},
    {"Conv", infer_conv},
    {"MaxPool AveragePool LpPool", infer_pool},
    {"GlobalAveragePool GlobalMaxPool GlobalLpPool", infer_global_pool},
    {"Gemm", infer_gemm},
    {"MatMul", infer_matmul},
    {"BatchNormalization", infer_batch_norm},
    {"LayerNormalization", infer_layer_norm},
    {"Concat", infer_concat},
    {"Reshape", infer_reshape},
    {"Flatten", infer_flatten},
    {"Transpose", infer_transpose},
    {"Squeeze", infer_squeeze},
    {"Unsqueeze", infer_unsqueeze},
    {"Slice", infer_slice},
    {"Split", infer_split},
    {"Gather", infer_gather},
    {"GatherElements", infer_gather_elements},
    {"Expand", infer_expand},
    {"Tile", infer_tile},
    {"Pad", infer_pad},
    {"DepthToSpace SpaceToDepth", infer_depth_to_space},
    {"Resize Upsample", infer_resize},
    {"ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum "
     "ReduceLogSumExp ReduceSumSquare",
     infer_reduce},
    {"ArgMax ArgMin", infer_arg_reduce},
    {"TopK", infer_top_k},
    {"Shape", infer_shape},
    {"Size", infer_size},
    {"Cast", infer_cast},
    {"Constant", infer_constant},
    {"ConstantOfShape", infer_constant_of_shape},
    {"Range", infer_range},
};

static infer_rule *find_rule(const struct onnx_node *node)
{
    for (size_t i = 0; i < COUNT_OF(RULES); i++)
        if (onnx_is(node, RULES[i].types))
            return RULES[i].infer;
    return NULL;
}

weft_status onnx_infer(const struct onnx_node *node)
{
    infer_rule *rule = find_rule(node);
    bool needs_input = rule && rule != infer_constant;
    if (needs_input && (!onnx_in(node, 0) || node->outputs == 0))
        return onnx_error(node, NULL, "has %d inputs and %d outputs, expected at least one of each",
                          node->inputs, node->outputs);
    for (int i = 0; i < node->inputs; i++)
        if (onnx_in(node, i) && !onnx_in(node, i)->known)
            rule = NULL; /* without the inputs' shapes there is no rule */
    weft_status status = rule ? rule(node) : WEFT_OK;
    for (int i = 0; i < node->outputs && !status; i++)
        if (onnx_out(node, i) && !onnx_out(node, i)->known)
            onnx_out(node, i)->known = onnx_out(node, i)->declared;
    return status;
}
