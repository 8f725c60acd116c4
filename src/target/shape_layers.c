/* shape_layers.c - what of a decoder's shape differs from layer to layer: which layers see all keys, which have the gated
 * delta rule in place of attention, which have no rotary positions, which have experts.
 *
 *   I1  Layers recur: of those that see a window, or have the delta rule, every `full_every`-th is one that sees all keys.
 *       Where all see all keys, the `full_every`-th are those without positions (SmolLM3).
 */
#include <stdlib.h>
#include <string.h>

#include "target/room.h"

static bool sees_all(const struct op *op)
{
    return (op->kind == OP_ATTENTION || op->kind == OP_SCORE) && !op->window;
}

/* Which layers have an operator of this kind, by the numbers in the paths of its copies. */
static bool *layers_with(struct arena *scratch, const struct model *model,
                         bool (*is)(const struct op *))
{
    bool *with = ARENA_ARRAY(scratch, bool, (size_t)model->layers + 1);
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        bool counts = op->place != PLACE_TOWER && is(op);
        for (int64_t copy = 0; counts && copy < op_copies(model, op); copy++) {
            const char *path = op_path(scratch, model, op, copy),
                       *digit = strpbrk(path, "0123456789");
            bool after = strncmp(path, "mtp.", 4) == 0; /* has numbers of its own */
            int64_t layer = digit && !after ? strtoll(digit, NULL, 10) : model->layers;
            if (layer < model->layers)
                with[layer] = true;
        }
    }
    return with;
}

/* The number of the first layer that is (or is not) marked; as many as there are where none is. */
static int64_t first_layer(const struct model_shape *s, const bool *marked, bool value)
{
    int64_t first = 0;
    while (first < s->layers && marked[first] != value)
        first++;
    return first;
}

static void read_gates(const struct model *model, struct model_shape *s)
{
    for (int32_t i = 0; i < model->ops; i++) {
        s->window = model->op[i].window ? model->op[i].window : s->window;
        s->chunked |= model->op[i].chunked;
        s->sinks |= model->op[i].sinks;
        s->clamped |= model->op[i].gate == GATE_CLAMPED;
        s->geglu |= model->op[i].gate == GATE_GELU;
    }
    s->output_gate = op_named(model, "attn", "output_gate") != NULL;
}

static void read_delta(const struct model *model, struct model_shape *s)
{
    const struct op *delta = model_op_of_kind(model, OP_DELTA);
    const struct op *conv = op_named(model, "delta", "conv");
    if (!delta || !conv)
        return;
    s->delta_key_heads = size_of(delta, DIM_HEAD);
    s->delta_heads = s->delta_key_heads * delta->scan_heads;
    s->delta_dim = size_of(delta, DIM_DEPTH) / delta->scan_heads;
    s->delta_key_dim = delta->scan_state;
    s->conv = conv->kernel[0];
}

/* What the index chooses from is all keys, though attention sees so many of them as a window would. */
static void read_index(const struct model *model, struct model_shape *s)
{
    const struct op *index = model_op_of_kind(model, OP_INDEX);
    if (!index)
        return;
    s->index_heads = size_of(index, DIM_HEAD);
    s->index_dim = size_of(index, DIM_DEPTH);
    s->index_top_k = s->window;
    s->window = 0;
}

static bool is_rotary(const struct op *op)
{
    return op->kind == OP_ROTARY;
}

/* I1 */
void read_layers(struct arena *scratch, const struct model *model, struct model_shape *s)
{
    read_gates(model, s);
    read_delta(model, s);
    read_index(model, s);
    int64_t full = first_layer(s, layers_with(scratch, model, sees_all), true);
    int64_t bare = first_layer(s, layers_with(scratch, model, is_rotary), false);
    if ((s->window || s->delta_heads) && full < s->layers)
        s->full_every = full + 1;
    s->unrotated = s->rotary && !s->delta_heads && bare < s->layers;
    if (s->unrotated && !s->full_every)
        s->full_every = bare + 1;
}

static bool is_router(const struct op *op)
{
    return op->kind == OP_ROUTER;
}

bool *shape_mixtures(struct arena *keep, const struct model_shape *s)
{
    bool *mixture = ARENA_ARRAY(keep, bool, (size_t)s->layers + 1);
    for (int64_t i = s->first_dense; i < s->layers && s->experts; i++)
        mixture[i] = (i - s->first_dense + 1) % s->moe_every == 0;
    return mixture;
}

void read_period(struct arena *scratch, const struct model *model, struct model_shape *s)
{
    const bool *routed = layers_with(scratch, model, is_router);
    s->first_dense = 0;
    while (s->first_dense < s->layers && !routed[s->first_dense])
        s->first_dense++;
    int64_t next = s->first_dense + 1;
    while (next < s->layers && !routed[next])
        next++;
    s->moe_every = next < s->layers ? next - s->first_dense : 1;
    if (s->moe_every > 1) /* the last layer of each period is the one with experts */
        s->first_dense = s->first_dense >= s->moe_every - 1 ? s->first_dense - s->moe_every + 1 : 0;
}

/* ---- adapters -------------------------------------------------------------------------------- */

static const struct op *first_adapter(const struct model *model)
{
    const struct op *fused = op_named(model, "attn", "qkv_a");
    bool latent = op_named(model, "attn", "kv_a") != NULL;
    return fused || latent ? fused : op_named(model, "attn", "q_a");
}

bool has_adapters(const struct model *model)
{
    return first_adapter(model) != NULL;
}

void read_adapters(const struct model *model, struct model_shape *s)
{
    s->lora = size_of(first_adapter(model), DIM_OUT);
    s->lora_modules = op_named(model, NULL, "down_a")     ? LORA_ALL
                      : op_named(model, "attn", "proj_a") ? LORA_ATTENTION
                                                          : LORA_QKV;
}

const char *shape_adapters(struct arena *keep, const struct model_shape *s)
{
    return s->lora ? arena_printf(keep, ", lora: %lld, lora_modules: %s", (long long)s->lora,
                                  LORA_WORDS[s->lora_modules])
                   : "";
}
