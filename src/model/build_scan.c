/* build_scan.c - the operators of layers with a state: convolution, selective scan, delta rule, gated norm; and the norm of
 * single heads.
 *
 * All are split by groups, the dim `head`: the heads of a group share B and C. Their operands
 * may be parts of one fused tensor, group by group (builder.h, struct fused_part).
 */
#include <string.h>

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

/* What it reads is made again from the input of the convolution before it. */
static void keep_only_convolved(struct builder *b, struct op *op, int tensor)
{
    int32_t producer = build_tensor(b, tensor)->producer;
    if (producer >= 0 && b->ops.data[producer].kind == OP_CONV1D)
        op->keep &= ~(unsigned)KEEP_INPUT_0;
}

int build_scan(struct builder *b, const char *name, int xbc, int dt, struct fused_part dt_part,
               const struct scan *s)
{
    struct op op = draft_op(b, OP_SCAN, name);
    int64_t inner = s->heads * s->depth;
    need_features(b, name, build_features(b, xbc), inner + 2 * s->groups * s->state);
    need_features(b, name, dt_part.features ? s->heads : build_features(b, dt), s->heads);
    draft_dim(&op, DIM_HEAD, s->groups);
    draft_dim(&op, DIM_DEPTH, inner / s->groups);
    op.scan_heads = s->heads / s->groups;
    op.scan_state = s->state;
    op.scan_chunk = s->chunk;
    draft_inputs(b, &op, (int[]){xbc, dt}, 2);
    take_part(&op.input[1], dt_part, s->groups);
    keep_only_convolved(b, &op, xbc);
    draft_weight(b, &op, "decay", 1, &s->heads);
    draft_weight(b, &op, "skip", 1, &s->heads);
    draft_weight(b, &op, "step_bias", 1, &s->heads);
    return draft_append_like(b, &op, xbc, inner);
}

int build_delta(struct builder *b, const char *name, int qkv, int rates, const struct scan *s)
{
    struct op op = draft_op(b, OP_DELTA, name);
    int64_t inner = s->heads * s->depth;
    need_features(b, name, build_features(b, qkv), inner + 2 * s->groups * s->state);
    need_features(b, name, build_features(b, rates), 2 * s->heads);
    draft_dim(&op, DIM_HEAD, s->groups);
    draft_dim(&op, DIM_DEPTH, inner / s->groups);
    op.scan_heads = s->heads / s->groups;
    op.scan_state = s->state;
    op.scan_chunk = s->chunk;
    draft_inputs(b, &op, (int[]){qkv, rates}, 2);
    keep_only_convolved(b, &op, qkv);
    /* the inverse of each chunk's triangle, in the compute dtype */
    op.kept_elements = build_tensor(b, qkv)->size[1] * s->heads * s->chunk;
    draft_weight(b, &op, "decay", 1, &s->heads);
    draft_weight(b, &op, "step_bias", 1, &s->heads);
    return draft_append_like(b, &op, qkv, inner);
}

int build_index(struct builder *b, const char *name, int q, int k, int weights, int64_t heads)
{
    struct op op = draft_op(b, OP_INDEX, name);
    int64_t depth = build_features(b, k), seq = build_tensor(b, q)->size[1];
    need_features(b, name, build_features(b, q), heads * depth);
    need_features(b, name, build_features(b, weights), heads);
    draft_dim(&op, DIM_HEAD, heads);
    draft_dim(&op, DIM_DEPTH, depth);
    draft_inputs(b, &op, (int[]){q, k, weights}, 3);
    return draft_append(b, &op, 2, (int64_t[]){1, seq}, ELEMENT_FP32);
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
    op.epsilon = b->norm_epsilon;
    return draft_append_like(b, &op, x, features);
}

int build_head_norm(struct builder *b, const char *name, int x, int64_t heads)
{
    struct op op = draft_op(b, OP_RMS_NORM, name);
    const struct tensor *t = build_tensor(b, x);
    int64_t features = build_features(b, x), width = features / heads;
    draft_dim(&op, DIM_HEAD, heads);
    draft_dim(&op, DIM_HIDDEN, width);
    op.kept_fp32 = (t->axes > 2 ? t->size[1] : 1) * heads; /* the reciprocal root of every row */
    op.epsilon = b->norm_epsilon;
    draft_inputs(b, &op, &x, 1);
    draft_weight(b, &op, "weight", 1, &width);
    return draft_append_like(b, &op, x, features);
}

int build_token_gate(struct builder *b, const char *name, int gate, int up)
{
    struct op op = draft_op(b, OP_GATED, name);
    draft_dim(&op, DIM_HIDDEN, build_features(b, up));
    draft_inputs(b, &op, (int[]){gate, up}, 2);
    memset(op.input[0].dims[op.input[0].axes - 1], -1, sizeof op.input[0].dims[0]);
    op.keep |= KEEP_INPUT_1;
    op.gate = GATE_SIGMOID;
    return draft_append_like(b, &op, up, build_features(b, up));
}
