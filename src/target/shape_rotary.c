/* shape_rotary.c - rotary positions of a model's shape: their bases, and how they are stretched (model/rope.h). */
#include "target/room.h"

static bool has_window(const struct model *model, int32_t module)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].module == module && model->op[i].window)
            return true;
    return false;
}

void read_rotary(const struct model *model, struct model_shape *s)
{
    double local = 0;
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        if (op->rope_scaling > 0) {
            s->rope_scaling = op->rope_scaling;
            s->stretch = op->stretch;
        }
        if (op->kind == OP_ROTARY)
            *(has_window(model, op->module) ? &local : &s->rope_base) = op->rope_base;
    }
    s->rotary = local > 0 || s->rope_base > 0;
    if (s->rope_base > 0 && local > 0 && local != s->rope_base)
        s->local_rope_base = local;
    else if (local > 0)
        s->rope_base = local;
}

static bool is_yarn(const struct rope_stretch *stretch)
{
    return stretch->kind == ROPE_YARN || stretch->kind == ROPE_YARN_UNROUNDED;
}

bool shape_has_yarn(const struct model_shape *s)
{
    return s->rope_scaling > 0 && is_yarn(&s->stretch);
}

bool shape_has_linear(const struct model_shape *s)
{
    return s->rope_scaling > 0 && s->stretch.kind == ROPE_LINEAR;
}

bool same_stretch(const struct op *a, const struct op *b)
{
    const struct rope_stretch *x = &a->stretch, *y = &b->stretch;
    if (a->rope_scaling != b->rope_scaling)
        return false;
    return !(a->rope_scaling > 0) ||
           (x->kind == y->kind &&
            (!is_yarn(x) || (x->learned == y->learned && x->mscale == y->mscale)));
}

static const char *stretch_options(struct arena *keep, const struct model_shape *s)
{
    const char *text = arena_printf(keep, ", rope_scaling: %.12g", s->rope_scaling);
    if (s->stretch.kind != ROPE_LLAMA3)
        text = arena_printf(keep, "%s, rope_type: %s", text, ROPE_WORDS[s->stretch.kind]);
    if (is_yarn(&s->stretch))
        text = arena_printf(keep, "%s, rope_learned: %lld, rope_mscale: %.12g", text,
                            (long long)s->stretch.learned, s->stretch.mscale);
    return text;
}

const char *shape_rotary_options(struct arena *keep, const struct model_shape *s)
{
    const char *text = arena_printf(keep, ", rope_base: %.12g", s->rope_base);
    if (s->rope_scaling > 0)
        text = arena_printf(keep, "%s%s", text, stretch_options(keep, s));
    return s->local_rope_base > 0
               ? arena_printf(keep, "%s, local_rope_base: %.12g", text, s->local_rope_base)
               : text;
}
