/* onnx_move.c - shapes of nodes that move, select, reduce or create elements (see onnx_shape.c). */
#include "model/onnx_shape.h"

#include <string.h>

/* ---- movement -------------------------------------------------------------------------------- */

weft_status infer_concat(const struct onnx_node *node)
{
    struct shape out = shape_of(onnx_in(node, 0));
    int64_t given = onnx_int(node, "axis", 1);
    int axis = shape_axis(given, out.rank);
    if (axis < 0)
        return shape_bad_axis(node, given, out.rank);
    for (int i = 1; i < node->inputs; i++) {
        const struct onnx_value *more = onnx_in(node, i);
        bool fits = more && more->rank == out.rank;
        for (int k = 0; fits && k < out.rank; k++)
            fits = k == axis || more->dim[k] == out.dim[k];
        if (!fits || !checked_add(out.dim[axis], more->dim[axis], &out.dim[axis]))
            return onnx_error(
                node, NULL, "joins shapes %s and %s along axis %d, which do not match",
                shape_show(onnx_in(node, 0)).s, more ? shape_show(more).s : "none", axis);
    }
    return shape_set(node, 0, &out);
}

weft_status infer_reshape(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0);
    int64_t want[ONNX_MAX_RANK], known = 1, all = onnx_elements(x);
    int rank = shape_list(node, "shape", 1, want), open = -1;
    struct shape out = {0};
    if (rank < 0)
        return WEFT_OK;
    for (int i = 0; i < rank; i++) {
        bool copied = want[i] == 0 && !onnx_int(node, "allowzero", 0) && i < x->rank;
        shape_push(&out, copied ? x->dim[i] : want[i]);
        if (want[i] == -1)
            open = i;
        else if (out.dim[i] < 0 || !checked_mul(known, out.dim[i], &known))
            return onnx_error(node, NULL,
                              "has an axis of %lld in its new shape, expected -1 or more",
                              (long long)want[i]);
    }
    if (open >= 0)
        out.dim[open] = known > 0 ? all / known : 0;
    if (open >= 0)
        known *= out.dim[open];
    if (known != all)
        return onnx_error(node, NULL, "turns %lld elements %s into %lld", (long long)all,
                          shape_show(x).s, (long long)known);
    return shape_set(node, 0, &out);
}

weft_status infer_flatten(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0);
    int64_t axis = onnx_int(node, "axis", 1);
    axis += axis < 0 ? x->rank : 0;
    struct shape out = {2, {1, 1}};
    if (axis < 0 || axis > x->rank)
        return shape_bad_axis(node, axis, x->rank);
    for (int i = 0; i < x->rank; i++)
        if (!checked_mul(out.dim[i >= axis], x->dim[i], &out.dim[i >= axis]))
            return onnx_error(node, NULL, "would have an axis beyond 2^63");
    return shape_set(node, 0, &out);
}

weft_status infer_transpose(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0);
    int64_t perm[ONNX_MAX_RANK];
    struct shape out = {.rank = x->rank};
    int count = onnx_ints(node, "perm", perm, ONNX_MAX_RANK);
    if (count >= 0 && count != x->rank)
        return onnx_error(node, NULL, "permutes %d axes, expected the %d of its input", count,
                          x->rank);
    for (int i = 0; i < x->rank; i++) {
        int from = count < 0 ? x->rank - 1 - i : shape_axis(perm[i], x->rank);
        if (from < 0)
            return shape_bad_axis(node, perm[i], x->rank);
        out.dim[i] = x->dim[from];
    }
    return shape_set(node, 0, &out);
}

/* Sets a flag for each axis that a list names; false if one is out of range. */
static bool flag_axes(const int64_t *axes, int count, int rank, bool *flags)
{
    memset(flags, 0, sizeof *flags * ONNX_MAX_RANK);
    for (int i = 0; i < count; i++) {
        int axis = shape_axis(axes[i], rank);
        if (axis < 0 || axis >= ONNX_MAX_RANK)
            return false;
        flags[axis] = true;
    }
    return true;
}

static weft_status bad_axes(const struct onnx_node *node)
{
    return onnx_error(node, NULL, "names an axis that its input %s lacks",
                      shape_show(onnx_in(node, 0)).s);
}

weft_status infer_squeeze(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0);
    int64_t axes[ONNX_MAX_RANK];
    bool flags[ONNX_MAX_RANK];
    struct shape out = {0};
    int count = shape_list(node, "axes", 1, axes);
    if (count < 0 && onnx_in(node, 1))
        return WEFT_OK;
    if (count >= 0 && !flag_axes(axes, count, x->rank, flags))
        return bad_axes(node);
    for (int i = 0; i < x->rank; i++)
        if (count < 0 ? x->dim[i] != 1 : !flags[i])
            shape_push(&out, x->dim[i]);
    return shape_set(node, 0, &out);
}

weft_status infer_unsqueeze(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0);
    int64_t axes[ONNX_MAX_RANK];
    bool flags[ONNX_MAX_RANK];
    struct shape out = {0};
    int count = shape_list(node, "axes", 1, axes), from = 0;
    if (count < 0)
        return WEFT_OK;
    int rank = x->rank + count;
    if (rank > ONNX_MAX_RANK || !flag_axes(axes, count, rank, flags))
        return bad_axes(node);
    for (int i = 0; i < rank; i++)
        shape_push(&out, flags[i] ? 1 : from < x->rank ? x->dim[from++] : 1);
    return shape_set(node, 0, &out);
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static int64_t sliced(int64_t size, int64_t start, int64_t end, int64_t step)
{
    start += start < 0 ? size : 0;
    end += end < 0 ? size : 0;
    if (step > 0) {
        start = clamp(start, 0, size);
        end = clamp(end, 0, size);
        return end > start ? ceil_div(end - start, step) : 0;
    }
    start = clamp(start, 0, size - 1);
    end = clamp(end, -1, size - 1);
    return start > end ? ceil_div(start - end, -step) : 0;
}

weft_status infer_slice(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0);
    int64_t start[ONNX_MAX_RANK], end[ONNX_MAX_RANK], axes[ONNX_MAX_RANK], step[ONNX_MAX_RANK];
    struct shape out = shape_of(x);
    int count = shape_list(node, "starts", 1, start), ends = shape_list(node, "ends", 2, end);
    int named = shape_list(node, "axes", 3, axes), steps = shape_list(node, "steps", 4, step);
    bool unknown = count < 0 || ends != count || (onnx_in(node, 3) && named < count) ||
                   (onnx_in(node, 4) && steps < count);
    if (unknown)
        return WEFT_OK;
    for (int i = 0; i < count; i++) {
        int axis = named < 0 ? i : shape_axis(axes[i], x->rank);
        int64_t by = steps < 0 ? 1 : step[i];
        if (axis < 0 || axis >= x->rank || by == 0)
            return bad_axes(node);
        out.dim[axis] = sliced(x->dim[axis], start[i], end[i], by);
    }
    return shape_set(node, 0, &out);
}

weft_status infer_split(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0);
    int64_t parts[ONNX_MAX_CONSTANT];
    int axis = shape_axis(onnx_int(node, "axis", 0), x->rank);
    if (axis < 0)
        return shape_bad_axis(node, onnx_int(node, "axis", 0), x->rank);
    int count = onnx_ints(node, "split", parts, ONNX_MAX_CONSTANT);
    if (count < 0)
        count = shape_constants(node, 1, parts, ONNX_MAX_CONSTANT);
    if (count < 0 && onnx_in(node, 1))
        return WEFT_OK;
    int64_t even = node->outputs ? ceil_div(x->dim[axis], node->outputs) : 0, left = x->dim[axis];
    weft_status status = WEFT_OK;
    for (int i = 0; i < node->outputs && !status; i++) {
        struct shape out = shape_of(x);
        out.dim[axis] = count > i ? parts[i] : even < left ? even : left;
        left -= out.dim[axis];
        status = shape_set(node, i, &out);
    }
    return status;
}

weft_status infer_gather(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0), *ids = onnx_in(node, 1);
    int axis = shape_axis(onnx_int(node, "axis", 0), x->rank);
    struct shape out = {0};
    if (!ids || axis < 0 || x->rank - 1 + ids->rank > ONNX_MAX_RANK)
        return shape_bad_axis(node, onnx_int(node, "axis", 0), x->rank);
    for (int i = 0; i < axis; i++)
        shape_push(&out, x->dim[i]);
    for (int i = 0; i < ids->rank; i++)
        shape_push(&out, ids->dim[i]);
    for (int i = axis + 1; i < x->rank; i++)
        shape_push(&out, x->dim[i]);
    return shape_set(node, 0, &out);
}

weft_status infer_gather_elements(const struct onnx_node *node)
{
    return onnx_in(node, 1) ? shape_set_like(node, 0, onnx_in(node, 1)) : WEFT_OK;
}

weft_status infer_expand(const struct onnx_node *node)
{
    struct onnx_value target = {0};
    struct shape out = shape_of(onnx_in(node, 0));
    target.rank = shape_constants(node, 1, target.dim, ONNX_MAX_RANK);
    if (target.rank < 0)
        return WEFT_OK;
    if (!shape_broadcast(&out, &target))
        return onnx_error(node, NULL, "expands %s to %s, which do not broadcast",
                          shape_show(onnx_in(node, 0)).s, shape_show(&target).s);
    return shape_set(node, 0, &out);
}

weft_status infer_tile(const struct onnx_node *node)
{
    int64_t times[ONNX_MAX_RANK];
    struct shape out = shape_of(onnx_in(node, 0));
    if (shape_constants(node, 1, times, ONNX_MAX_RANK) != out.rank)
        return WEFT_OK;
    for (int i = 0; i < out.rank; i++)
        if (!checked_mul(out.dim[i], times[i], &out.dim[i]))
            return onnx_error(node, NULL, "repeats an axis beyond 2^63 elements");
    return shape_set(node, 0, &out);
}

weft_status infer_pad(const struct onnx_node *node)
{
    int64_t pads[ONNX_MAX_RANK * 2];
    struct shape out = shape_of(onnx_in(node, 0));
    int count = onnx_ints(node, "pads", pads, ONNX_MAX_RANK * 2);
    if (count < 0)
        count = shape_constants(node, 1, pads, ONNX_MAX_RANK * 2);
    if (count != out.rank * 2 || onnx_in(node, 3))
        return WEFT_OK;
    for (int i = 0; i < out.rank; i++)
        out.dim[i] += clamp(pads[i], -ONNX_MAX_DIM, ONNX_MAX_DIM) +
                      clamp(pads[i + out.rank], -ONNX_MAX_DIM, ONNX_MAX_DIM);
    return shape_set(node, 0, &out);
}

weft_status infer_depth_to_space(const struct onnx_node *node)
{
    struct shape out = shape_of(onnx_in(node, 0));
    int64_t block = onnx_int(node, "blocksize", 1);
    bool deepen = strcmp(node->proto->op_type, "SpaceToDepth") == 0;
    if (out.rank != 4 || block < 1 || block > 65536)
        return onnx_error(node, NULL, "has blocks of %lld in %s, expected an image",
                          (long long)block, shape_show(onnx_in(node, 0)).s);
    out.dim[1] = deepen ? out.dim[1] * block * block : out.dim[1] / (block * block);
    out.dim[2] = deepen ? out.dim[2] / block : out.dim[2] * block;
    out.dim[3] = deepen ? out.dim[3] / block : out.dim[3] * block;
    return shape_set(node, 0, &out);
}

/* Sizes take precedence over scales; Upsample has its scales where Resize has its region. */
weft_status infer_resize(const struct onnx_node *node)
{
    struct shape out = shape_of(onnx_in(node, 0));
    int64_t sizes[ONNX_MAX_RANK];
    const struct onnx_value *scales = onnx_in(node, node->inputs == 2 ? 1 : 2);
    if (onnx_attribute(node, "axes"))
        return WEFT_OK;
    if (shape_constants(node, 3, sizes, ONNX_MAX_RANK) == out.rank && out.rank > 0) {
        memcpy(out.dim, sizes, sizeof out.dim);
        return shape_set(node, 0, &out);
    }
    if (!scales || !scales->constant || onnx_elements(scales) != out.rank)
        return WEFT_OK;
    for (int i = 0; i < out.rank; i++)
        out.dim[i] = shape_to_int((double)out.dim[i] * scales->constant[i]);
    return shape_set(node, 0, &out);
}

/* ---- reductions ------------------------------------------------------------------------------ */

weft_status infer_reduce(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0);
    int64_t axes[ONNX_MAX_RANK];
    bool flags[ONNX_MAX_RANK], keep = onnx_int(node, "keepdims", 1) != 0;
    struct shape out = {0};
    int count = shape_list(node, "axes", 1, axes);
    if (count < 0 && onnx_in(node, 1))
        return WEFT_OK;
    if (count <= 0 && onnx_int(node, "noop_with_empty_axes", 0))
        return shape_set_like(node, 0, onnx_in(node, 0));
    if (!flag_axes(axes, count > 0 ? count : 0, x->rank, flags))
        return bad_axes(node);
    for (int i = 0; i < x->rank; i++) {
        bool reduced = count <= 0 || flags[i];
        if (!reduced || keep)
            shape_push(&out, reduced ? 1 : x->dim[i]);
    }
    return shape_set(node, 0, &out);
}

weft_status infer_arg_reduce(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0);
    int axis = shape_axis(onnx_int(node, "axis", 0), x->rank);
    struct shape out = {0};
    if (axis < 0)
        return shape_bad_axis(node, onnx_int(node, "axis", 0), x->rank);
    for (int i = 0; i < x->rank; i++)
        if (i != axis || onnx_int(node, "keepdims", 1))
            shape_push(&out, i == axis ? 1 : x->dim[i]);
    return shape_set(node, 0, &out);
}

weft_status infer_top_k(const struct onnx_node *node)
{
    const struct onnx_value *x = onnx_in(node, 0);
    struct shape out = shape_of(x);
    int axis = shape_axis(onnx_int(node, "axis", -1), x->rank);
    int64_t k = onnx_int(node, "k", -1);
    if (axis < 0)
        return shape_bad_axis(node, onnx_int(node, "axis", -1), x->rank);
    if (k < 0 && shape_constants(node, 1, &k, 1) != 1)
        return WEFT_OK;
    out.dim[axis] = k;
    weft_status status = shape_set(node, 0, &out);
    return status ? status : shape_set(node, 1, &out);
}

/* ---- shapes and constants -------------------------------------------------------------------- */

weft_status infer_shape(const struct onnx_node *node)
{
    int64_t rank = onnx_in(node, 0)->rank;
    int64_t start = onnx_int(node, "start", 0), end = onnx_int(node, "end", rank);
    start = clamp(start + (start < 0 ? rank : 0), 0, rank);
    end = clamp(end + (end < 0 ? rank : 0), 0, rank);
    struct shape out = {1, {end > start ? end - start : 0}};
    return shape_set_typed(node, &out, ONNX__TENSOR_PROTO__DATA_TYPE__INT64);
}

weft_status infer_size(const struct onnx_node *node)
{
    struct shape out = {0};
    return shape_set_typed(node, &out, ONNX__TENSOR_PROTO__DATA_TYPE__INT64);
}

weft_status infer_cast(const struct onnx_node *node)
{
    struct shape out = shape_of(onnx_in(node, 0));
    int64_t to = onnx_int(node, "to", 0);
    return shape_set_typed(node, &out, to > 0 && to < 64 ? (int)to : onnx_in(node, 0)->type);
}

weft_status infer_constant(const struct onnx_node *node)
{
    const Onnx__AttributeProto *value = onnx_attribute(node, "value");
    const Onnx__AttributeProto *ints = onnx_attribute(node, "value_ints");
    const Onnx__AttributeProto *floats = onnx_attribute(node, "value_floats");
    struct shape out = {0};
    if (ints || floats)
        shape_push(&out, (int64_t)(ints ? ints->n_ints : floats->n_floats));
    if (value && value->t && onnx_out(node, 0)) {
        onnx_out(node, 0)->type = value->t->data_type;
        if (value->t->n_dims > ONNX_MAX_RANK)
            return onnx_error(node, NULL, "has %zu axes, expected at most %d", value->t->n_dims,
                              ONNX_MAX_RANK);
        for (size_t i = 0; i < value->t->n_dims; i++)
            shape_push(&out, value->t->dims[i]);
    }
    return shape_set(node, 0, &out);
}

weft_status infer_constant_of_shape(const struct onnx_node *node)
{
    struct shape out = {0};
    out.rank = shape_constants(node, 0, out.dim, ONNX_MAX_RANK);
    return out.rank < 0 ? WEFT_OK : shape_set(node, 0, &out);
}

weft_status infer_range(const struct onnx_node *node)
{
    const struct onnx_value *part[3] = {onnx_in(node, 0), onnx_in(node, 1), onnx_in(node, 2)};
    for (int i = 0; i < 3; i++)
        if (!part[i] || !part[i]->constant || onnx_elements(part[i]) != 1)
            return WEFT_OK;
    double step = part[2]->constant[0], span = part[1]->constant[0] - part[0]->constant[0];
    if (step == 0)
        return onnx_error(node, NULL, "steps by 0, expected another number");
    double count = span / step;
    int64_t whole = shape_to_int(count);
    struct shape out = {1, {count > 0 ? whole + (count > (double)whole) : 0}};
    return shape_set(node, 0, &out);
}
