/* shape_hybrid.c - the sizes of a decoder whose layers are one block each, by a pattern (family_hybrid.c), and the options
 * that make it again.
 *
 *   I1  A layer's letter is told by an operator that layers of no other letter have; the rest are MLPs.
 */
#include <stdlib.h>
#include <string.h>

#include "target/room.h"

/* I1 */
static char letter_of(const struct op *op)
{
    return op->kind == OP_SCAN                                ? 'M'
           : op->kind == OP_ATTENTION || op->kind == OP_SCORE ? '*'
           : op->kind == OP_ROUTER                            ? 'E'
                                                              : '-';
}

/* The number after "layers." in a path that begins so, or begins with `before` and so; -1: it does not. */
static int64_t layer_number(const char *path, const char *before)
{
    size_t len = strlen(before);
    static const char LAYERS[] = "layers.";
    if (strncmp(path, before, len) != 0 || strncmp(path + len, LAYERS, strlen(LAYERS)) != 0)
        return -1;
    return strtoll(path + len + strlen(LAYERS), NULL, 10);
}

/* A letter for each layer whose path begins so; returns false where there are more than there is room for. */
static bool read_letters(struct arena *scratch, const struct model *model, const char *before,
                         char *letters, int64_t room)
{
    for (int32_t i = 0; i < model->ops; i++)
        for (int64_t copy = 0; copy < op_copies(model, &model->op[i]); copy++) {
            int64_t layer = layer_number(op_path(scratch, model, &model->op[i], copy), before);
            if (layer >= room - 1)
                return false;
            char letter = letter_of(&model->op[i]);
            if (layer >= 0 && (letter != '-' || !letters[layer]))
                letters[layer] = letter;
        }
    return true;
}

static void read_scan(const struct model *model, struct model_shape *s)
{
    const struct op *scan = model_op_of_kind(model, OP_SCAN);
    if (!scan)
        return;
    s->scan_groups = size_of(scan, DIM_HEAD);
    s->scan_heads = s->scan_groups * scan->scan_heads;
    s->scan_depth = size_of(scan, DIM_DEPTH) / scan->scan_heads;
    s->scan_state = scan->scan_state;
}

static void read_widths(const struct model *model, struct model_shape *s)
{
    const struct op *up = model_op_of_kind(model, OP_EXPERT_LINEAR);
    const struct op *shared = op_named(model, "shared", s->gated ? "gate_up" : "up");
    s->expert_ffn = up ? size_of(up, DIM_OUT) / (s->gated ? 2 : 1) : 0;
    s->shared_ffn = size_of(shared, DIM_OUT) / (s->gated ? 2 : 1);
    s->latent = size_of(op_named(model, "experts", "latent_down"), DIM_OUT);
    s->first_dense = 0;
    s->moe_every = 1;
}

weft_status read_hybrid(struct arena *scratch, const struct model *model, struct model_shape *s)
{
    const struct op *proj = op_named(model, "attn", "proj"), *up = op_named(model, "mlp", "up");
    if (!read_letters(scratch, model, "", s->pattern, MOST_LETTERS) ||
        !read_letters(scratch, model, "mtp.0.", s->mtp_pattern, MOST_DEPTH_LETTERS))
        return bad_argument(NULL, "%s has more layers than a pattern of %d letters", model->name,
                            MOST_LETTERS - 1);
    s->gated = model_op_of_kind(model, OP_GATED) != NULL;
    s->layer_norm = model_op_of_kind(model, OP_LAYER_NORM) != NULL;
    s->bias = (proj && proj->weights > 1) || (up && up->weights > 1);
    s->qkv_bias = false; /* that of all products is said by `bias` */
    if (!s->heads)
        s->attention = "flash";
    read_scan(model, s);
    read_widths(model, s);
    return WEFT_OK;
}

/* ---- and building it again ------------------------------------------------------------------- */

/* ", name: value"; nothing where there is none. */
static const char *option(struct arena *keep, const char *text, const char *name, int64_t value)
{
    return value ? arena_printf(keep, "%s, %s: %lld", text, name, (long long)value) : text;
}

const char *hybrid_options(struct arena *keep, const struct model_shape *s)
{
    const struct {
        const char *name;
        int64_t value;
    } SIZES[] = {
        {"hidden", s->hidden},
        {"seq", s->seq},
        {"vocab", s->vocab},
        {"ffn", s->ffn},
        {"heads", s->heads},
        {"kv_heads", s->kv_heads},
        {"head_dim", s->head_dim},
        {"mamba_heads", s->scan_heads},
        {"mamba_dim", s->scan_depth},
        {"state", s->scan_state},
        {"groups", s->scan_groups},
        {"experts", s->experts},
        {"top_k", s->top_k},
        {"expert_ffn", s->expert_ffn},
        {"shared_ffn", s->shared_ffn},
        {"latent", s->latent},
        {"mtp", s->mtp},
    };
    const char *text =
        arena_printf(keep,
                     "pattern: \"%s\", layers: %lld, norm: %s, positions: %s, activation: %s, "
                     "bias: %s, tied: %s, "
                     "dropout: %s, attention: %s, loss: %s",
                     s->pattern, (long long)s->layers, s->layer_norm ? "layer" : "rms",
                     s->rotary      ? "rotary"
                     : s->positions ? "learned"
                                    : "none",
                     s->gated  ? "swiglu"
                     : s->relu ? "relu2"
                               : "gelu",
                     s->bias ? "true" : "false", s->tied ? "true" : "false",
                     s->dropout ? "0.1" : "0", s->attention, s->loss);
    for (size_t i = 0; i < COUNT_OF(SIZES); i++)
        text = option(keep, text, SIZES[i].name, SIZES[i].value);
    if (s->mtp)
        text = arena_printf(keep, "%s, mtp_pattern: \"%s\"", text, s->mtp_pattern);
    if (s->copies != COPIES_EXPERTS)
        text = arena_printf(keep, "%s, dispatch: %s", text, COPIES_WORDS[s->copies]);
    return arena_printf(keep, "%s%s", text, shape_free_options(keep, s));
}
