/* shape.c - the sizes of a transformer, read from its operators.
 *
 * A model does not remember the options it was built from, and may have come from a file. Its sizes
 * are read from its operators: the embedding's table is vocab * hidden, attention has its heads, and
 * so on. A model is then built from these sizes and compared with the original.
 *
 *   I1  A shape that is returned makes a model whose operators compute and keep the same.
 */
#include <stdlib.h>
#include <string.h>

#include "target/room.h"

static const struct {
    const char *family, *preset;
} FAMILIES[] = {
    [SHAPE_GPT] = {"gpt", "gpt2"},
    [SHAPE_LLAMA] = {"llama", "llama3-8b"},
    [SHAPE_MOE] = {"moe", "mixtral-8x7b"},
    [SHAPE_BERT] = {"bert", "bert-large"},
    [SHAPE_HYBRID] = {"hybrid", "nemotron-h-8b"},
};
_Static_assert(COUNT_OF(FAMILIES) == SHAPE_COUNT, "a family without a preset");

/* ---- reading operators ----------------------------------------------------------------------- */

const struct op *op_named(const struct model *model, const char *module, const char *name)
{
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        if (op->place != PLACE_TOWER && strcmp(op->name, name) == 0 &&
            (!module || strcmp(model->module[op->module].name, module) == 0))
            return op;
    }
    return NULL;
}

static const struct op *op_of_kind(const struct model *model, enum op_kind kind)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].place != PLACE_TOWER && model->op[i].kind == kind)
            return &model->op[i];
    return NULL;
}

int64_t size_of(const struct op *op, enum dim dim)
{
    int at = op ? op_find_dim(op->kind, dim) : -1;
    return at >= 0 ? op->size[at] : 0;
}

bool has_bias(const struct op *op)
{
    return op && op->weights > 1;
}

static const char *attention_of(const struct model *model)
{
    static const char *const FLASH[] = {"flash", "flash-v1", "flash-v2"};
    const struct op *flash = op_of_kind(model, OP_ATTENTION);
    if (flash)
        return FLASH[flash->flash >= 0 && flash->flash < (int)COUNT_OF(FLASH) ? flash->flash : 0];
    const struct op *score = op_of_kind(model, OP_SCORE);
    if (score && score->keep & KEEP_BUFFER)
        return "local";
    const struct op *softmax = op_of_kind(model, OP_SOFTMAX);
    return softmax && (softmax->keep & (KEEP_INPUT_0 | KEEP_MASK)) ? "eager" : "fused";
}

/* Which share of each head is rotated; 0: all of it, or what latent attention has apart for it. */
static double rotary_share(const struct model *model, int64_t head_dim)
{
    const struct op *rotary = op_of_kind(model, OP_ROTARY);
    bool part = rotary && rotary->head_depth < head_dim && !op_named(model, "attn", "kv_a");
    return part ? (double)rotary->head_depth / (double)head_dim : 0;
}

static void read_norms(const struct model *model, struct model_shape *s)
{
    const struct op *keys = op_named(model, "attn", "k_norm");
    s->qk_norm = keys != NULL;
    s->wide_qk_norm = keys && s->kv_heads > 1 && size_of(keys, DIM_HEAD) <= 1;
    s->end_norm = op_named(model, "attn", "end_norm") != NULL;
    const struct op *first = op_named(model, "attn", "norm");
    s->no_norm = s->end_norm && !first;
    s->layer_norm = (s->family == SHAPE_LLAMA || s->family == SHAPE_MOE) && first &&
                    first->kind == OP_LAYER_NORM;
}

static void read_attention(const struct model *model, struct model_shape *s)
{
    const struct op *core = op_of_kind(model, OP_ATTENTION);
    if (!core)
        core = op_of_kind(model, OP_SCORE);
    s->kv_heads = size_of(core, DIM_HEAD);
    s->heads = s->kv_heads * size_of(core, DIM_GROUP);
    s->head_dim = size_of(core, DIM_DEPTH);
    s->attention = attention_of(model);
    const struct op *qkv = op_named(model, "attn", "qkv");
    s->qkv_bias = has_bias(qkv ? qkv : op_named(model, "attn", "q"));
    read_norms(model, s);
    s->rotary_share = rotary_share(model, s->head_dim);
    s->apart = op_named(model, "mlp", "gate") || op_named(model, "shared", "gate") ||
               (!s->qk_norm && !(s->rotary_share > 0) && !op_named(model, "attn", "output_gate") &&
                op_named(model, "attn", "k") && !op_named(model, "attn", "kv_a"));
}

static void read_latent(const struct model *model, struct model_shape *s)
{
    s->kv_lora = size_of(op_named(model, "attn", "kv_a"), DIM_OUT);
    if (!s->kv_lora || !s->heads)
        return;
    s->q_lora = size_of(op_named(model, "attn", "q_a"), DIM_OUT);
    s->nope_dim = size_of(op_named(model, "attn", "k_b"), DIM_OUT) / s->heads;
    s->rope_dim = size_of(op_named(model, "attn", "k_rope"), DIM_OUT);
    s->value_dim = size_of(op_named(model, "attn", "v_b"), DIM_OUT) / s->heads;
    s->bare_latent = op_named(model, "attn", "kv_norm") == NULL;
    s->head_dim = 0;
}

static void read_depths(const struct model *model, struct model_shape *s)
{
    for (int32_t i = 0; i < model->ops; i++)
        s->mtp += strcmp(model->module[model->op[i].module].name, "mtp") == 0 &&
                  strcmp(model->op[i].name, "join") == 0;
}

static void read_experts(struct arena *scratch, const struct model *model, struct model_shape *s)
{
    const struct op *router = op_of_kind(model, OP_ROUTER);
    if (!router)
        return;
    const struct op *up = op_of_kind(model, OP_EXPERT_LINEAR);
    s->experts = size_of(up, DIM_EXPERT);
    s->top_k = router->top_k;
    s->routing = router->routing;
    s->copies = op_of_kind(model, OP_DISPATCH)->copies;
    s->capacity = router->capacity;
    s->expert_ffn = size_of(up, DIM_OUT) / (s->family == SHAPE_GPT && !s->gated ? 1 : 2);
    s->expert_bias = s->family == SHAPE_MOE && has_bias(up);
    s->shared_gate = op_named(model, "shared", "scored") != NULL;
    s->shared_ffn = size_of(op_named(model, "shared", "gate_up"), DIM_OUT) / 2;
    if (!s->shared_ffn)
        s->shared_ffn =
            size_of(op_named(model, "shared", s->family == SHAPE_GPT ? "up" : "gate"), DIM_OUT);
    read_period(scratch, model, s);
}

static void read_data(const struct model *model, struct model_shape *s)
{
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        if (op->kind == OP_ATTENTION && op->place != PLACE_TOWER && op->document)
            s->document = op->document;
        if (op->skewed_experts)
            s->skew = op->routing.skew;
    }
}

static const char *data_options(struct arena *keep, const struct model_shape *s)
{
    const char *text =
        s->document ? arena_printf(keep, ", document: %lld", (long long)s->document) : "";
    return s->skew > 0 ? arena_printf(keep, "%s, expert_skew: %.17g", text, s->skew) : text;
}

static const char *ungated_word(const struct model *model)
{
    const struct op *relu = op_of_kind(model, OP_RELU);
    if (op_of_kind(model, OP_GATED))
        return NULL;
    return !relu ? "gelu" : relu->squared ? "relu2" : "relu";
}

static void read_mlp(const struct model *model, struct model_shape *s)
{
    bool decoder = s->family == SHAPE_LLAMA || s->family == SHAPE_MOE;
    const struct op *up = op_named(model, "mlp", "up");
    s->ffn = up ? size_of(up, DIM_OUT) : size_of(op_named(model, "mlp", "gate_up"), DIM_OUT) / 2;
    s->relu = !decoder && op_of_kind(model, OP_RELU) != NULL;
    s->ungated = decoder ? ungated_word(model) : NULL;
    s->gated = s->family == SHAPE_GPT && op_of_kind(model, OP_GATED) != NULL;
    s->bias = has_bias(op_named(model, "attn", "proj"));
    s->proj_bias = s->bias && decoder;
    s->bias &= !s->proj_bias;
    s->parallel = s->family == SHAPE_GPT && op_named(model, "layers", "sum") != NULL;
}

static void read_ends(const struct model *model, struct model_shape *s)
{
    const struct op *embedding = op_of_kind(model, OP_EMBEDDING);
    const struct op *loss = op_of_kind(model, OP_LOSS);
    const struct op *head = op_named(model, s->family == SHAPE_BERT ? "masked" : NULL, "head");
    if (embedding) {
        s->vocab = embedding->weight[0].operand.size[0];
        s->hidden = embedding->weight[0].operand.size[1];
        s->positions = embedding->weights > 1 ? embedding->weight[1].operand.size[0] : 0;
    }
    if (s->family == SHAPE_BERT)
        s->positions -= 2; /* the two rows for the segments of a pair */
    s->tied = head && head->weights && head->weight[0].tied_op >= 0;
    s->loss = !loss                          ? "plain"
              : loss->keep & KEEP_STEPS      ? "eager"
              : !(loss->keep & KEEP_INPUT_0) ? "plain"
              : loss->keep & KEEP_APART      ? "compiled"
                                             : "fused";
    s->dropout = op_of_kind(model, OP_DROPOUT_ADD) != NULL;
    s->pooler = op_named(model, "next", "pooler") != NULL;
}

/* ---- and building them again ----------------------------------------------------------------- */

const char *shape_preset(const struct model_shape *s)
{
    if (s->kv_lora && s->experts)
        return s->q_lora ? "deepseek-v2" : "deepseek-v2-lite";
    return FAMILIES[s->family].preset;
}

static const char *word(bool value)
{
    return value ? "true" : "false";
}

static const char *gpt_experts(struct arena *keep, const struct model_shape *s)
{
    if (!s->experts)
        return "";
    return arena_printf(
        keep, ", experts: %lld, top_k: %lld, expert_ffn: %lld%s", (long long)s->experts,
        (long long)s->top_k, (long long)s->expert_ffn,
        s->shared_ffn ? arena_printf(keep, ", shared_ffn: %lld", (long long)s->shared_ffn) : "");
}

static const char *gpt_options(struct arena *keep, const struct model_shape *s)
{
    return arena_printf(keep,
                        ", loss: %s, bias: %s, positions: %s, activation: %s, parallel: %s%s%s",
                        s->loss, word(s->bias),
                        s->positions ? "learned"
                        : s->rotary  ? "rotary"
                                     : "none",
                        s->geglu   ? "geglu"
                        : s->gated ? "swiglu"
                        : s->relu  ? "relu"
                                   : "gelu",
                        word(s->parallel),
                        s->positions && s->positions != s->seq
                            ? arena_printf(keep, ", max_positions: %lld", (long long)s->positions)
                            : "",
                        gpt_experts(keep, s));
}

static const char *delta_options(struct arena *keep, const struct model_shape *s)
{
    return s->delta_heads ? arena_printf(keep,
                                         ", delta_heads: %lld, delta_key_heads: %lld, delta_dim: "
                                         "%lld, delta_key_dim: %lld, conv: %lld",
                                         (long long)s->delta_heads, (long long)s->delta_key_heads,
                                         (long long)s->delta_dim, (long long)s->delta_key_dim,
                                         (long long)s->conv)
                          : "";
}

static const char *window_options(struct arena *keep, const struct model_shape *s)
{
    const char *text = s->window ? arena_printf(keep, ", window: %lld", (long long)s->window) : "";
    if (s->full_every)
        text = arena_printf(keep, "%s, full_every: %lld", text, (long long)s->full_every);
    text = arena_printf(
        keep, "%s%s%s%s%s", text, delta_options(keep, s), s->chunked ? ", chunked: true" : "",
        s->unrotated ? ", full_rotary: false" : "", s->output_gate ? ", output_gate: true" : "");
    text = arena_printf(keep, "%s%s%s%s%s%s", text, s->end_norm ? ", end_norm: true" : "",
                        s->no_norm      ? ", pre_norm: false"
                        : s->layer_norm ? ", norm: layer"
                                        : "",
                        s->wide_qk_norm ? ", wide_qk_norm: true" : "",
                        s->sinks ? ", sinks: true" : "", s->proj_bias ? ", proj_bias: true" : "");
    const char *activation = s->clamped ? "clamped" : s->geglu ? "geglu" : s->ungated;
    if (activation)
        text = arena_printf(keep, "%s, activation: %s", text, activation);
    return s->rotary_share > 0
               ? arena_printf(keep, "%s, rotary_share: %.12g", text, s->rotary_share)
               : text;
}

static const char *routing_options(struct arena *keep, const struct model_shape *s)
{
    const struct routing *r = &s->routing;
    return arena_printf(keep,
                        ", router: %s, router_scale: %.12g, router_groups: %lld, "
                        "router_group_top_k: %lld, balance: %s, balance_weight: %.12g, "
                        "balance_bias: %s",
                        ROUTER_WORDS[r->scores], r->scale, (long long)r->groups,
                        (long long)r->group_top_k, BALANCE_WORDS[r->balance], r->balance_weight,
                        word(r->balance_bias));
}

const char *shape_free_options(struct arena *keep, const struct model_shape *s)
{
    const char *text = arena_printf(keep, ", norm_epsilon: %.12g", s->norm_epsilon);
    if (s->rotary && s->family != SHAPE_HYBRID)
        text = arena_printf(keep, "%s%s", text, shape_rotary_options(keep, s));
    if (s->family == SHAPE_MOE || (s->family == SHAPE_HYBRID && s->experts))
        text = arena_printf(keep, "%s%s", text, routing_options(keep, s));
    return text;
}

static const char *decoder_options(struct arena *keep, const struct model_shape *s)
{
    const char *heads =
        s->kv_lora ? "" : arena_printf(keep, ", kv_heads: %lld", (long long)s->kv_heads);
    if (s->head_dim)
        heads = arena_printf(keep, "%s, head_dim: %lld", heads, (long long)s->head_dim);
    return arena_printf(keep, "%s, qkv_bias: %s, qk_norm: %s, loss: %s%s%s", heads,
                        word(s->qkv_bias), word(s->qk_norm && !s->kv_lora), s->loss,
                        s->apart ? ", apart: true" : "", window_options(keep, s));
}

static const char *moe_options(struct arena *keep, const struct model_shape *s)
{
    const char *text =
        arena_printf(keep,
                     "%s, experts: %lld, top_k: %lld, expert_ffn: %lld, shared_experts: %d, "
                     "first_dense: %lld, moe_every: %lld",
                     decoder_options(keep, s), (long long)s->experts, (long long)s->top_k,
                     (long long)s->expert_ffn, s->shared_ffn ? 1 : 0, (long long)s->first_dense,
                     (long long)s->moe_every);
    if (s->copies != COPIES_EXPERTS)
        text = arena_printf(keep, "%s, dispatch: %s", text, COPIES_WORDS[s->copies]);
    if (s->capacity > 0)
        text = arena_printf(keep, "%s, capacity: %.12g", text, s->capacity);
    if (s->expert_bias || s->shared_gate)
        text = arena_printf(keep, "%s%s%s", text, s->expert_bias ? ", expert_bias: true" : "",
                            s->shared_gate ? ", shared_gate: true" : "");
    if (s->shared_ffn)
        text = arena_printf(keep, "%s, shared_ffn: %lld", text, (long long)s->shared_ffn);
    return text;
}

/* Of all decoders: latent attention, and layers that predict more tokens. */
static const char *latent_options(struct arena *keep, const struct model_shape *s)
{
    const char *text = s->q_lora ? arena_printf(keep, ", q_lora: %lld", (long long)s->q_lora) : "";
    if (s->kv_lora)
        text =
            arena_printf(keep, "%s, kv_lora: %lld, nope_dim: %lld, rope_dim: %lld, value_dim: %lld",
                         text, (long long)s->kv_lora, (long long)s->nope_dim,
                         (long long)s->rope_dim, (long long)s->value_dim);
    if (s->bare_latent)
        text = arena_printf(keep, "%s, latent_norm: false", text);
    if (s->index_top_k)
        text = arena_printf(keep, "%s, index_top_k: %lld, index_heads: %lld, index_dim: %lld", text,
                            (long long)s->index_top_k, (long long)s->index_heads,
                            (long long)s->index_dim);
    return s->mtp ? arena_printf(keep, "%s, mtp: %lld", text, (long long)s->mtp) : text;
}

static const char *bert_options(struct arena *keep, const struct model_shape *s)
{
    return arena_printf(keep, ", pooler: %s, max_positions: %lld", word(s->pooler),
                        (long long)s->positions);
}

const char *shape_options(struct arena *keep, const struct model_shape *s)
{
    static const char *(*const REST[])(struct arena *, const struct model_shape *) = {
        [SHAPE_GPT] = gpt_options,   [SHAPE_LLAMA] = decoder_options, [SHAPE_MOE] = moe_options,
        [SHAPE_BERT] = bert_options, [SHAPE_HYBRID] = hybrid_options,
    };
    _Static_assert(COUNT_OF(REST) == SHAPE_COUNT, "a family without its options");
    if (s->family == SHAPE_HYBRID)
        return arena_printf(keep, "%s%s", hybrid_options(keep, s), data_options(keep, s));
    const char *text =
        arena_printf(keep,
                     "layers: %lld, hidden: %lld, heads: %lld, seq: %lld, vocab: %lld, "
                     "attention: %s",
                     (long long)s->layers, (long long)s->hidden, (long long)s->heads,
                     (long long)s->seq, (long long)s->vocab, s->attention);
    if (s->ffn)
        text = arena_printf(keep, "%s, ffn: %lld", text, (long long)s->ffn);
    if (s->family != SHAPE_BERT)
        text = arena_printf(keep, "%s, tied: %s", text, word(s->tied));
    if (s->family == SHAPE_GPT || s->family == SHAPE_BERT)
        text = arena_printf(keep, "%s, dropout: %s", text, s->dropout ? "0.1" : "0");
    return arena_printf(keep, "%s%s%s%s%s%s%s", text, REST[s->family](keep, s),
                        latent_options(keep, s), shape_free_options(keep, s),
                        shape_adapters(keep, s), shape_image_options(keep, s),
                        data_options(keep, s));
}

/* In words, what of a model no framework has launch arguments for; NULL: nothing is known. */
static const char *unwritten(const struct model *model)
{
    bool images = model_has_tower(model);
    return images && image_rarity(model)                                  ? image_rarity(model)
           : has_frozen_weights(model) && !has_adapters(model) && !images ? ADAPTERS
           : op_of_kind(model, OP_MIX)                                    ? STREAMS
           : op_named(model, NULL, "keys_c")                              ? "compressed keys"
           : op_of_kind(model, OP_OPAQUE)                                 ? UNKNOWN_OP
                                                                          : NULL;
}

weft_status shape_of_model(const struct model *model, struct model_shape *out)
{
    struct arena *scratch = arena_new();
    struct model *again = NULL;
    weft_status status;
    size_t family = 0;
    *out = (struct model_shape){.layers = model->layers, .seq = model->seq, .moe_every = 1};
    const char *without = unwritten(model);
    if (without)
        TRY(bad_argument(model_has_tower(model)
                             ? "the decoder alone has them: leave the options of the encoder out"
                             : NULL,
                         "%s has %s, for which there are no launch arguments", model->name,
                         without));
    while (family < SHAPE_COUNT && strcmp(model->family, FAMILIES[family].family) != 0)
        family++;
    if (family == SHAPE_COUNT)
        TRY(bad_argument("models of the families gpt, llama, moe, bert and hybrid have them",
                         "%s is of the family %s, for which there are no launch arguments",
                         model->name, model->family));
    out->family = (enum shape_family)family;
    read_ends(model, out);
    read_attention(model, out);
    read_rotary(model, out);
    out->norm_epsilon = model_norm_epsilon(model);
    read_latent(model, out);
    read_depths(model, out);
    read_mlp(model, out);
    read_experts(scratch, model, out);
    read_layers(scratch, model, out);
    read_adapters(model, out);
    read_images(model, out);
    read_data(model, out);
    if (out->family == SHAPE_HYBRID)
        TRY(read_hybrid(scratch, model, out));
    TRY(model_open(shape_preset(out), shape_options(scratch, out), &again));
    const char *difference = model_difference(scratch, model, again); /* I1 */
    if (difference)
        TRY(bad_argument(NULL, "%s is no model of its family's sizes: %s", model->name,
                         difference));
done:
    model_free(again);
    arena_free(scratch);
    return status;
}

const char *attention_rarity(const struct model_shape *s)
{
    return s->delta_heads   ? "the gated delta rule in place of attention"
           : s->index_top_k ? INDEXED_KEYS
           : s->unrotated   ? "layers without positions"
           : s->output_gate ? "gates after attention"
                            : NULL;
}

const char *shape_rarity(const struct model_shape *s)
{
    return attention_rarity(s)              ? attention_rarity(s)
           : s->mtp                         ? "layers that predict more tokens"
           : s->window                      ? "a window of attention"
           : s->capacity > 0                ? "experts that drop tokens"
           : s->shared_gate                 ? SHARED_GATE
           : s->sinks                       ? "sinks of attention"
           : s->clamped                     ? "clamped gates"
           : s->gated                       ? "gates beside LayerNorm"
           : s->bare_latent                 ? "latent attention without norms"
           : s->geglu                       ? "gates of GELU"
           : s->layer_norm                  ? "LayerNorm in a decoder like Llama"
           : s->ungated                     ? "MLPs without gates beside RMSNorm"
           : s->rotary_share > 0            ? "rotary positions in a part of each head"
           : s->wide_qk_norm                ? WIDE_NORMS
           : s->end_norm                    ? "norms after attention and after the MLP"
           : s->proj_bias || s->expert_bias ? "biases after attention or in experts"
                                            : NULL;
}
