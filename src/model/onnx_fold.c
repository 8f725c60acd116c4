/* onnx_fold.c - the arithmetic that exporters leave in a graph to compute shapes.
 *
 * Such tensors are small (ONNX_MAX_CONSTANT elements) and made from other constants and from
 * shapes. A rule fills `out->constant`; a node whose inputs are not all constant has none. Numbers
 * are doubles: sizes are exact up to 2^53, far above ONNX_MAX_DIM.
 */
#include "model/onnx.h"

#include <math.h>
#include <string.h>

typedef bool fold_rule(const struct onnx_node *node, double *out, int64_t count);

static bool fold_shape(const struct onnx_node *node, double *out, int64_t count)
{
    const struct onnx_value *x = onnx_in(node, 0);
    int64_t start = onnx_int(node, "start", 0);
    start += start < 0 ? x->rank : 0;
    start = start < 0 ? 0 : start;
    for (int64_t i = 0; i < count; i++)
        out[i] = (double)x->dim[start + i];
    return true;
}

static bool fold_size(const struct onnx_node *node, double *out, int64_t count)
{
    (void)count;
    *out = (double)onnx_elements(onnx_in(node, 0));
    return true;
}

static bool fold_constant(const struct onnx_node *node, double *out, int64_t count)
{
    const Onnx__AttributeProto *value = onnx_attribute(node, "value");
    const Onnx__AttributeProto *number = onnx_attribute(node, "value_int");
    const Onnx__AttributeProto *real = onnx_attribute(node, "value_float");
    const Onnx__AttributeProto *ints = onnx_attribute(node, "value_ints");
    const double *values = NULL;
    if (value && value->t)
        values = onnx_tensor_values(node->graph->scratch, value->t);
    for (int64_t i = 0; i < count && values; i++)
        out[i] = values[i];
    for (int64_t i = 0; i < count && ints && (size_t)i < ints->n_ints; i++)
        out[i] = (double)ints->ints[i];
    if (number || real)
        *out = number ? (double)number->i : (double)real->f;
    return values || number || real || ints;
}

static bool fold_fill(const struct onnx_node *node, double *out, int64_t count)
{
    const Onnx__AttributeProto *value = onnx_attribute(node, "value");
    const double *fill = NULL;
    if (value && value->t)
        fill = onnx_tensor_values(node->graph->scratch, value->t);
    for (int64_t i = 0; i < count; i++)
        out[i] = fill ? fill[0] : 0;
    return true;
}

static bool fold_range(const struct onnx_node *node, double *out, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = onnx_in(node, 0)->constant[0] + (double)i * onnx_in(node, 2)->constant[0];
    return true;
}

/* The same elements in the same order under another shape. */
static bool fold_copy(const struct onnx_node *node, double *out, int64_t count)
{
    if (onnx_elements(onnx_in(node, 0)) < count)
        return false;
    memcpy(out, onnx_in(node, 0)->constant, sizeof *out * (size_t)count);
    return true;
}

static bool is_integer(int type)
{
    return type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 ||
           type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
}

static bool fold_cast(const struct onnx_node *node, double *out, int64_t count)
{
    if (!fold_copy(node, out, count))
        return false;
    for (int64_t i = 0; i < count && is_integer((int)onnx_int(node, "to", 0)); i++)
        out[i] = trunc(out[i]);
    return true;
}

/* Only vectors: shape computations join nothing else. */
static bool fold_concat(const struct onnx_node *node, double *out, int64_t count)
{
    int64_t used = 0;
    for (int i = 0; i < node->inputs; i++) {
        const struct onnx_value *part = onnx_in(node, i);
        if (part->rank != 1 || used + part->dim[0] > count)
            return false;
        memcpy(out + used, part->constant, sizeof *out * (size_t)part->dim[0]);
        used += part->dim[0];
    }
    return used == count;
}

static bool fold_gather(const struct onnx_node *node, double *out, int64_t count)
{
    const struct onnx_value *x = onnx_in(node, 0), *ids = onnx_in(node, 1);
    if (x->rank != 1 || onnx_elements(ids) != count)
        return false;
    for (int64_t i = 0; i < count; i++) {
        double at = ids->constant[i] + (ids->constant[i] < 0 ? (double)x->dim[0] : 0);
        if (!(at >= 0 && at < (double)x->dim[0]))
            return false;
        out[i] = x->constant[(int64_t)at];
    }
    return true;
}

/* The first one found of several attributes or inputs that mean the same in older and newer
 * operator sets. */
static bool first_number(const struct onnx_node *node, const char *name, int input,
                         double otherwise, double *out)
{
    int64_t listed;
    const struct onnx_value *value = onnx_in(node, input);
    *out = otherwise;
    if (onnx_ints(node, name, &listed, 1) > 0)
        *out = (double)listed;
    else if (value && (!value->constant || onnx_elements(value) < 1))
        return false;
    else if (value)
        *out = value->constant[0];
    return true;
}

static bool fold_slice(const struct onnx_node *node, double *out, int64_t count)
{
    const struct onnx_value *x = onnx_in(node, 0);
    double start, step;
    if (x->rank != 1 || !first_number(node, "starts", 1, 0, &start) ||
        !first_number(node, "steps", 4, 1, &step))
        return false;
    double size = (double)x->dim[0];
    start += start < 0 ? size : 0;
    start = fmin(fmax(start, 0), step < 0 ? size - 1 : size);
    for (int64_t i = 0; i < count; i++) {
        double at = start + (double)i * step;
        if (!(at >= 0 && at < size))
            return false;
        out[i] = x->constant[(int64_t)at];
    }
    return true;
}

static bool fold_product(const struct onnx_node *node, double *out, int64_t count)
{
    const struct onnx_value *x = onnx_in(node, 0);
    *out = 1;
    for (int64_t i = 0; i < onnx_elements(x); i++)
        *out *= x->constant[i];
    return count == 1;
}

/* ---- elementwise ----------------------------------------------------------------------------- */

static double apply(const char *type, double a, double b, bool whole)
{
    static const char *const TYPES[] = {"Add", "Sub", "Mul", "Div", "Min", "Max", "Equal", "Mod"};
    size_t i = 0;
    while (i < COUNT_OF(TYPES) && strcmp(type, TYPES[i]) != 0)
        i++;
    double quotient = b != 0 ? a / b : 0;
    const double results[COUNT_OF(TYPES) + 1] = {
        a + b,      a - b,      a * b,  whole ? trunc(quotient) : quotient,
        fmin(a, b), fmax(a, b), a == b, b != 0 ? fmod(a, b) : 0};
    return results[i];
}

/* Two vectors of one length, or a vector and a scalar. */
static bool fold_binary(const struct onnx_node *node, double *out, int64_t count)
{
    const struct onnx_value *a = onnx_in(node, 0), *b = onnx_in(node, 1);
    int64_t na = onnx_elements(a), nb = b ? onnx_elements(b) : 0;
    if ((na != count && na != 1) || (nb != count && nb != 1))
        return false;
    for (int64_t i = 0; i < count; i++)
        out[i] = apply(node->proto->op_type, a->constant[na == 1 ? 0 : i],
                       b->constant[nb == 1 ? 0 : i], is_integer(a->type));
    return true;
}

static bool fold_where(const struct onnx_node *node, double *out, int64_t count)
{
    const struct onnx_value *part[3] = {onnx_in(node, 0), onnx_in(node, 1), onnx_in(node, 2)};
    for (int k = 0; k < 3; k++)
        if (!part[k] || (onnx_elements(part[k]) != count && onnx_elements(part[k]) != 1))
            return false;
    for (int64_t i = 0; i < count; i++) {
        int64_t at[3];
        for (int k = 0; k < 3; k++)
            at[k] = onnx_elements(part[k]) == 1 ? 0 : i;
        int chosen = part[0]->constant[at[0]] != 0 ? 1 : 2;
        out[i] = part[chosen]->constant[at[chosen]];
    }
    return true;
}

static bool fold_unary(const struct onnx_node *node, double *out, int64_t count)
{
    const char *type = node->proto->op_type;
    double (*f)(double) = strcmp(type, "Floor") == 0  ? floor
                          : strcmp(type, "Ceil") == 0 ? ceil
                          : strcmp(type, "Sqrt") == 0 ? sqrt
                                                      : fabs;
    bool negate = strcmp(type, "Neg") == 0;
    if (!fold_copy(node, out, count))
        return false;
    for (int64_t i = 0; i < count; i++)
        out[i] = negate ? -out[i] : f(out[i]);
    return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    const char *type;
    fold_rule *fold;
    bool of_shape; /* reads its input's shape rather than its elements */
} RULES[] = {
    {"Shape", fold_shape, true},         {"Size", fold_size, true},
    {"Constant", fold_constant, true},   {"ConstantOfShape", fold_fill, false},
    {"Range", fold_range, false},        {"Cast", fold_cast, false},
    {"Identity", fold_copy, false},      {"Squeeze", fold_copy, false},
    {"Unsqueeze", fold_copy, false},     {"Reshape", fold_copy, false},
    {"Flatten", fold_copy, false},       {"Concat", fold_concat, false},
    {"Gather", fold_gather, false},      {"Slice", fold_slice, false},
    {"ReduceProd", fold_product, false}, {"Add", fold_binary, false},
    {"Sub", fold_binary, false},         {"Mul", fold_binary, false},
    {"Div", fold_binary, false},         {"Min", fold_binary, false},
    {"Max", fold_binary, false},         {"Mod", fold_binary, false},
    {"Equal", fold_binary, false},       {"Where", fold_where, false},
    {"Floor", fold_unary, false},        {"Ceil", fold_unary, false},
    {"Sqrt", fold_unary, false},         {"Abs", fold_unary, false},
    {"Neg", fold_unary, false},
};

static bool all_constant(const struct onnx_node *node)
{
    for (int i = 0; i < node->inputs; i++) {
        const struct onnx_value *value = onnx_in(node, i);
        if (value && (!value->constant || !value->known))
            return false;
    }
    return node->inputs > 0 && onnx_in(node, 0);
}

/* A constant weight may define a shape, but what is computed from a weight is not constant, because
 * the weight changes in training. */
static bool reads_weight(const struct onnx_node *node)
{
    for (int i = 0; i < node->inputs; i++)
        if (onnx_in(node, i) && onnx_in(node, i)->origin == ORIGIN_WEIGHT)
            return true;
    return false;
}

void onnx_fold(const struct onnx_node *node)
{
    struct onnx_value *out = onnx_out(node, 0);
    if (!out || node->outputs != 1 || !out->known || reads_weight(node))
        return;
    int64_t count = onnx_elements(out);
    for (size_t i = 0; i < COUNT_OF(RULES); i++) {
        if (!onnx_is(node, RULES[i].type))
            continue;
        bool ready =
            onnx_is(node, "Constant") ||
            (RULES[i].of_shape ? onnx_in(node, 0) && onnx_in(node, 0)->known : all_constant(node));
        if (!ready)
            return;
        out->origin = ORIGIN_FOLDED;
        if (count > ONNX_MAX_CONSTANT)
            return;
        double *values = ARENA_ARRAY(node->graph->scratch, double, (size_t)count + 1);
        if (RULES[i].fold(node, values, count))
            out->constant = values;
        return;
    }
}
