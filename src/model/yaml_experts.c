/* yaml_experts.c - experts and scans in a model file: what they require of their inputs
 * (yaml_kinds.c). */
#include "model/yaml_ops.h"

weft_status yaml_router(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    if (spec->top_k > spec->experts)
        return doc_error(doc_get(spec->at, "top_k"), NULL,
                         "'top_k' is %lld, expected at most 'experts', %lld",
                         (long long)spec->top_k, (long long)spec->experts);
    *out = build_router(r->b, spec->name, spec->x[0], spec->experts, spec->top_k);
    if (doc_get(spec->at, "bias") && spec->bias)
        build_weight(r->b, "bias", 1, &spec->experts);
    return WEFT_OK;
}

/* The operator that made a tensor, if it is of this kind. */
static const struct op *made_by(const struct yaml_reader *r, int tensor, enum op_kind kind)
{
    int32_t producer = build_tensor(r->b, tensor)->producer;
    const struct op *op = producer >= 0 ? &r->b->ops.data[producer] : NULL;
    return op && op->kind == kind ? op : NULL;
}

/* Tokens stay with their experts through activations and further expert products. */
static bool is_dispatched(const struct yaml_reader *r, int tensor)
{
    enum { MOST_STEPS = 100 };
    int32_t producer = build_tensor(r->b, tensor)->producer;
    for (int step = 0; producer >= 0 && step < MOST_STEPS; step++) {
        const struct op *op = &r->b->ops.data[producer];
        if (op->kind == OP_DISPATCH || op->kind == OP_EXPERT_LINEAR)
            return true;
        producer = op->inputs ? build_tensor(r->b, op->input[0].tensor)->producer : -1;
    }
    return false;
}

static weft_status needs(const struct yaml_spec *spec, const char *what)
{
    return doc_error(spec->at, NULL, "'%.60s' does not read %s", spec->name, what);
}

weft_status yaml_dispatch(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    if (!made_by(r, spec->x[1], OP_ROUTER))
        return needs(spec, "the scores of a router, expected as its second input");
    if (yaml_axes(r, spec->x[1]) != 3 || yaml_size(r, spec->x[0], 1) != yaml_size(r, spec->x[1], 1))
        return yaml_differing(r, spec, 0, 1);
    *out = build_dispatch(r->b, spec->name, spec->x[0], spec->x[1]);
    return WEFT_OK;
}

weft_status yaml_expert_linear(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    if (!is_dispatched(r, spec->x[0]))
        return needs(spec, "dispatched tokens, expected as its input");
    *out = build_expert_linear(r->b, spec->name, spec->x[0], spec->out, spec->bias);
    return WEFT_OK;
}

weft_status yaml_combine(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    if (!made_by(r, spec->x[1], OP_ROUTER))
        return needs(spec, "the scores of a router, expected as its second input");
    if (yaml_size(r, spec->x[0], 1) != build_expert_places(r->b, spec->x[1]))
        return yaml_differing(r, spec, 0, 1);
    *out = build_combine(r->b, spec->name, spec->x[0], spec->x[1]);
    return WEFT_OK;
}

/* Refuses groups that do not divide the features, or the heads. */
static weft_status check_groups(const struct yaml_spec *spec, int64_t all, const char *what)
{
    if (all % spec->groups == 0)
        return WEFT_OK;
    return doc_error(spec->at, NULL, "'groups' is %lld, expected a divisor of its %lld %s",
                     (long long)spec->groups, (long long)all, what);
}

weft_status yaml_conv1d(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    weft_status status = check_groups(spec, build_features(r->b, spec->x[0]), "features");
    if (status == WEFT_OK)
        *out = build_conv1d(r->b, spec->name, spec->x[0], (struct fused_part){0}, spec->groups,
                            spec->taps, spec->bias);
    return status;
}

/* The sizes of a scan or delta rule, whose second input has so many numbers for each head. */
static weft_status read_scan(struct yaml_reader *r, struct yaml_spec *spec, int64_t rates,
                             const char *form, struct scan *out)
{
    weft_status status;
    int64_t inner = build_features(r->b, spec->x[0]) - 2 * spec->groups * spec->state;
    TRY(check_groups(spec, spec->heads, "heads"));
    if (inner < 1 || inner % spec->heads)
        TRY(yaml_wrong_shape(r, spec, 0, form));
    if (yaml_axes(r, spec->x[1]) != 3 || build_features(r->b, spec->x[1]) != rates * spec->heads ||
        yaml_size(r, spec->x[0], 1) != yaml_size(r, spec->x[1], 1))
        TRY(yaml_differing(r, spec, 0, 1));
    *out = (struct scan){spec->heads, spec->groups, inner / spec->heads, spec->state, spec->chunk};
done:
    return status;
}

weft_status yaml_scan(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    struct scan s;
    weft_status status =
        read_scan(r, spec, 1, "heads of x, then B and C of `state` in every group", &s);
    if (status == WEFT_OK)
        *out = build_scan(r->b, spec->name, spec->x[0], spec->x[1], (struct fused_part){0}, &s);
    return status;
}

weft_status yaml_delta(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    struct scan s;
    weft_status status =
        read_scan(r, spec, 2, "q and k of `state`, then v of its heads in every group", &s);
    if (status == WEFT_OK)
        *out = build_delta(r->b, spec->name, spec->x[0], spec->x[1], &s);
    return status;
}

weft_status yaml_rms_norm(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    weft_status status = check_groups(spec, build_features(r->b, spec->x[0]), "features");
    if (status == WEFT_OK)
        *out = build_head_norm(r->b, spec->name, spec->x[0], spec->groups);
    return status;
}

weft_status yaml_gated_norm(struct yaml_reader *r, struct yaml_spec *spec, int *out)
{
    if (!yaml_same_shape(r, spec->x[0], spec->x[1]))
        return yaml_differing(r, spec, 0, 1);
    weft_status status = check_groups(spec, build_features(r->b, spec->x[0]), "features");
    if (status == WEFT_OK)
        *out = build_gated_norm(r->b, spec->name, spec->x[0], spec->x[1], (struct fused_part){0},
                                spec->groups);
    return status;
}
