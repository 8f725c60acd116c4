/* model_difference.c - whether two models compute and keep the same, operator by operator (target.h). */
#include <string.h>

#include "target/room.h"

static bool same_weights(const struct op *a, const struct op *b)
{
    if (a->weights != b->weights)
        return false;
    for (int32_t i = 0; i < a->weights; i++) {
        const struct weight *x = &a->weight[i], *y = &b->weight[i];
        if (x->tied_op != y->tied_op || x->operand.axes != y->operand.axes ||
            memcmp(x->operand.size, y->operand.size, sizeof x->operand.size) != 0)
            return false;
    }
    return true;
}

static bool same_op(const struct op *a, const struct op *b)
{
    return a->kind == b->kind && memcmp(a->size, b->size, sizeof a->size) == 0 &&
           a->inputs == b->inputs && a->keep == b->keep && a->kept_elements == b->kept_elements &&
           a->kept_fp32 == b->kept_fp32 && a->frozen == b->frozen && a->causal == b->causal &&
           a->flash == b->flash && a->value_depth == b->value_depth && a->top_k == b->top_k &&
           a->copies == b->copies && a->window == b->window && a->chunked == b->chunked &&
           a->capacity == b->capacity && a->document == b->document &&
           a->skewed_experts == b->skewed_experts &&
           (!a->skewed_experts || a->routing.skew == b->routing.skew) &&
           a->shared_depth == b->shared_depth && a->sinks == b->sinks && a->gate == b->gate &&
           a->squared == b->squared && a->scan_heads == b->scan_heads &&
           a->scan_state == b->scan_state && a->scan_chunk == b->scan_chunk && same_weights(a, b);
}

static bool same_free(const struct op *a, const struct op *b)
{
    const struct routing *x = &a->routing, *y = &b->routing;
    return a->epsilon == b->epsilon && a->rope_base == b->rope_base && same_stretch(a, b) &&
           a->head_turned == b->head_turned && x->scores == y->scores && x->balance == y->balance &&
           x->balance_weight == y->balance_weight && x->balance_bias == y->balance_bias &&
           x->groups == y->groups && x->group_top_k == y->group_top_k && x->scale == y->scale;
}

const char *model_difference(struct arena *keep, const struct model *a, const struct model *b)
{
    if (a->ops != b->ops)
        return arena_printf(keep, "%d operators, not %d", (int)a->ops, (int)b->ops);
    for (int32_t i = 0; i < a->ops; i++) {
        const struct op *x = &a->op[i], *y = &b->op[i];
        if (!same_op(x, y) || !same_free(x, y))
            return arena_printf(keep, "%s differs", op_path(keep, a, x, 0));
        if (op_copies(a, x) != op_copies(b, y))
            return arena_printf(keep, "%s occurs %lld times, not %lld", op_path(keep, a, x, 0),
                                (long long)op_copies(a, x), (long long)op_copies(b, y));
    }
    return NULL;
}
