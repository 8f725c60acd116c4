/* build_scan.c - the operators of a state-space layer: convolution, selective scan, gated norm.
 *
 * All three are split by groups, the dim `head`: the heads of a group share B and C. Their operands
 * may be parts of one fused tensor, group by group (builder.h, struct fused_part).
 */
#include "model/draft.h"

/* Narrows an operand to the given part of every group. */
static void take_part(struct operand *operand, struct fused_part part, int64_t groups)
{
    if (part.features == 0)
        return;
    draft_narrow(operand, part.features * groups);
    operand->part_first = part.first;
}

static void need_features(struct builder *b, const char *name, int64_t have, int64_t want)
{
    if (b->status == WEFT_OK && have != want)
        b->status = doc_error(b->where, NULL, "'%.60s' reads %lld features, expected %lld", name,
                              (long long)have, (long long)want);
}

int build_conv1d(struct builder *b, const char *name, int x, struct fused_part part, int64_t groups,
                 int64_t kernel, bool bias)
{
    struct op op = draft_op(b, OP_CONV1D, name);
    int64_t features = part.features ? part.features * groups : build_features(b, x);
    op.kernel[0] = (int32_t)kernel;
    draft_dim(&op, DIM_HEAD, groups);
    draft_inputs(b, &op, &x, 1);
    take_part(&op.input[0], part, groups);
    draft_weight(b, &op, "weight", 2, (int64_t[]){features, kernel});
    if (bias)
        draft_weight(b, &op, "bias", 1, &features);
    return draft_append_like(b, &op, x, features);
}

int build_scan(struct builder *b, const char *name, int xbc, int dt, struct fused_part dt_part,
               const struct scan *s)
{
    struct op op = draft_op(b, OP_SCAN, name);
    int64_t inner = s->heads * s->depth;
    int32_t producer = build_tensor(b, xbc)->producer;
    need_features(b, name, build_features(b, xbc), inner + 2 * s->groups * s->state);
    need_features(b, name, dt_part.features ? s->heads : build_features(b, dt), s->heads);
    draft_dim(&op, DIM_HEAD, s->groups);
    draft_dim(&op, DIM_DEPTH, inner / s->groups);
    op.scan_heads = s->heads / s->groups;
    op.scan_state = s->state;
    op.scan_chunk = s->chunk;
    draft_inputs(b, &op, (int[]){xbc, dt}, 2);
    take_part(&op.input[1], dt_part, s->groups);
    if (producer >= 0 && b->ops.data[producer].kind == OP_CONV1D)
        op.keep &= ~(unsigned)KEEP_INPUT_0;
    draft_weight(b, &op, "decay", 1, &s->heads);
    draft_weight(b, &op, "skip", 1, &s->heads);
    draft_weight(b, &op, "step_bias", 1, &s->heads);
    return draft_append_like(b, &op, xbc, inner);
}

int build_gated_norm(struct builder *b, const char *name, int x, int gate,
                     struct fused_part gate_part, int64_t groups)
{
    struct op op = draft_op(b, OP_GATED_NORM, name);
    int64_t features = build_features(b, x);
    need_features(b, name, gate_part.features ? features : build_features(b, gate), features);
    draft_dim(&op, DIM_HEAD, groups);
    draft_dim(&op, DIM_DEPTH, features / groups);
    draft_inputs(b, &op, (int[]){x, gate}, 2);
    take_part(&op.input[1], gate_part, groups);
    draft_weight(b, &op, "weight", 1, &features);
    op.kept_fp32 = build_tensor(b, x)->size[1] * groups; /* the reciprocal root of every row */
    return draft_append_like(b, &op, x, features);
}
