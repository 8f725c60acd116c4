/* family_gpt.c - GPT: causal decoder layers with LayerNorm and a plain MLP.
 *
 *   x = embedding(ids) + positions
 *   x = x + dropout(proj(attention(qkv(norm(x)))))        layers times
 *   x = x + dropout(down(gelu(up(norm(x)))))
 *   loss(head(norm(x)))
 *
 * Also GPT-NeoX (rotary positions, both branches from the same x: `parallel`), OPT (relu), with `experts` Megatron's
 * mixture, in which the MLP of every layer is replaced by experts, with `activation: swiglu` gates, and with `kv_lora`
 * latent attention, whose own positions are rotary beside the learned ones. With dropout and an attention that is not flash, a layer is 13 operators (Aceso, Table 2's
 * models).
 */
#include "model/decoder.h"

enum gpt_positions { POSITIONS_LEARNED, POSITIONS_ROTARY, POSITIONS_NONE };

struct gpt_options {
    int64_t layers, hidden, heads, head_multiple, ffn, seq, vocab, max_positions;
    int64_t document, experts, top_k, expert_ffn, shared_ffn;
    int64_t q_lora, kv_lora, nope_dim, rope_dim, value_dim; /* as a decoder's */
    double document_spread, expert_skew, dropout, norm_epsilon, rope_base;
    bool tied, bias, parallel, latent_norm;
    int attention, loss, positions, activation, dtype;
    bool text_frozen; /* all but the tower */
    struct vision vision;
};

static const struct gpt_options DEFAULTS = {.seq = 1024,
                                            .vocab = 50257,
                                            .top_k = 2,
                                            .dropout = 0.1,
                                            .norm_epsilon = NORM_EPSILON,
                                            .rope_base = ROPE_BASE,
                                            .tied = true,
                                            .bias = true,
                                            .latent_norm = true,
                                            LATENT_DIMS,
                                            .vision = {VISION_DEFAULTS},
                                            .dtype = DTYPE_BF16};

static const char *const POSITIONS[] = {"learned", "rotary", "none", NULL};
static const char *const ACTIVATIONS[] = {"gelu", "relu", "relu2", "swiglu", "geglu", NULL};
_Static_assert(ACTIVATION_GELU == 0 && ACTIVATION_RELU == 1 && ACTIVATION_RELU2 == 2 &&
                   ACTIVATION_GATED == 3 && ACTIVATION_GATED_GELU == 4,
               "the words stand in the order of enum activation");

static const struct field FIELDS[] = {
    LAYER_OPTIONS(struct gpt_options),
    OPTION_COUNT(struct gpt_options, head_multiple, MOST_HEADS),
    OPTION_COUNT(struct gpt_options, seq, MOST_SEQ),
    OPTION_COUNT(struct gpt_options, vocab, MOST_VOCAB),
    OPTION_COUNT(struct gpt_options, max_positions, MOST_SEQ),
    OPTION_DOCUMENTS(struct gpt_options),
    OPTION_COUNT(struct gpt_options, experts, MOST_EXPERTS),
    OPTION_COUNT(struct gpt_options, top_k, MOST_EXPERTS),
    OPTION_COUNT(struct gpt_options, expert_ffn, MOST_HIDDEN),
    OPTION_COUNT(struct gpt_options, shared_ffn, MOST_HIDDEN),
    OPTION_SKEW(struct gpt_options),
    OPTION_SHARE(struct gpt_options, dropout),
    OPTION_BASE(struct gpt_options, rope_base),
    OPTION_EPSILON(struct gpt_options),
    OPTION_BOOL(struct gpt_options, tied),
    OPTION_BOOL(struct gpt_options, bias),
    OPTION_BOOL(struct gpt_options, parallel),
    OPTION_COUNT(struct gpt_options, q_lora, MOST_HIDDEN),
    OPTION_COUNT(struct gpt_options, kv_lora, MOST_HIDDEN),
    OPTION_COUNT(struct gpt_options, nope_dim, MOST_DEPTH),
    OPTION_COUNT(struct gpt_options, rope_dim, MOST_DEPTH),
    OPTION_COUNT(struct gpt_options, value_dim, MOST_DEPTH),
    OPTION_BOOL(struct gpt_options, latent_norm),
    OPTION_CHOICE(struct gpt_options, attention, ATTENTION_WORDS),
    OPTION_CHOICE(struct gpt_options, loss, LOSS_WORDS),
    OPTION_CHOICE(struct gpt_options, positions, POSITIONS),
    OPTION_CHOICE(struct gpt_options, activation, ACTIVATIONS),
    OPTION_CHOICE(struct gpt_options, dtype, DTYPE_WORDS),
    OPTION_BOOL(struct gpt_options, text_frozen),
    VISION_FIELDS(struct gpt_options),
};

/* The text's embedding, after the images' tokens if there are any; *table: the operator that owns it. */
static int embed(struct builder *b, const struct gpt_options *o, int32_t *table)
{
    int64_t rows = o->max_positions ? o->max_positions : o->seq;
    int64_t taken = vision_taken(&o->vision, false);
    b->place = taken ? PLACE_JOIN : PLACE_BODY;
    int x = build_tokens(b, o->seq - taken);
    x = build_embedding(b, "embedding", x, o->vocab, o->hidden,
                        o->positions == POSITIONS_LEARNED ? rows : 0);
    *table = build_last_index(b);
    return vision_join(b, taken, x);
}

static int shared(struct builder *b, const struct gpt_options *o, int x)
{
    struct mlp_block m = {o->shared_ffn, (enum activation)o->activation, false};
    build_module(b, "shared");
    int y = block_feed_forward(b, x, o->bias, &m);
    build_module_end(b);
    return y;
}

static int mixture(struct builder *b, const struct gpt_options *o, int x,
                   const struct block_style *style, const struct mlp_block *m)
{
    struct expert_block e = {o->experts,    o->top_k,        o->expert_ffn ? o->expert_ffn : m->ffn,
                             m->activation, .bias = o->bias, .routing = {ROUTING_DEFAULTS}};
    e.routing.skew = o->expert_skew;
    int in = block_open(b, "mlp", x, style);
    int y = block_experts(b, in, &e);
    if (o->shared_ffn)
        y = build_add(b, "sum", y, shared(b, o, in));
    return block_close(b, y, x, style);
}

/* Without a given width 4 times the hidden size; of a gated MLP 8/3, rounded down to a multiple of 64 (Megatron-LM's
 * arguments.py). */
static int64_t width(const struct gpt_options *o)
{
    if (o->ffn)
        return o->ffn;
    return o->activation >= ACTIVATION_GATED ? o->hidden * 8 / 3 / 64 * 64 : 4 * o->hidden;
}

static int attend(struct builder *b, const struct gpt_options *o, int x,
                  const struct block_style *style)
{
    struct attention_block a = {
        .shape = {o->heads, o->heads, o->hidden / o->heads, 0, .causal = true},
        .kernel = (enum attention_kernel)o->attention,
        .rotary = o->positions == POSITIONS_ROTARY,
        .rope_base = o->rope_base};
    struct decoder latent = {.hidden = o->hidden,
                             .heads = o->heads,
                             .seq = o->seq,
                             .q_lora = o->q_lora,
                             .kv_lora = o->kv_lora,
                             .nope_dim = o->nope_dim,
                             .rope_dim = o->rope_dim,
                             .value_dim = o->value_dim,
                             .latent_norm = o->latent_norm,
                             .attention = o->attention,
                             .rope_base = o->rope_base,
                             .rotary_share = 1};
    if (o->kv_lora)
        return latent_attention(b, &latent, style, 0, x);
    block_pad_heads(b, &a.shape, o->head_multiple);
    return block_attention(b, x, style, &a);
}

static int layer(struct builder *b, const struct gpt_options *o, int x)
{
    struct block_style style = {NORM_LAYER, o->bias, o->dropout > 0, .branch = o->parallel};
    struct mlp_block m = {width(o), (enum activation)o->activation, false};
    int y = attend(b, o, x, &style), from = o->parallel ? x : y;
    int z = o->experts ? mixture(b, o, from, &style, &m) : block_mlp(b, from, &style, &m);
    if (!o->parallel)
        return z;
    y = build_add(b, "sum", y, z);
    return block_residual(b, y, x, &style);
}

static weft_status check_experts(const struct gpt_options *o, const struct doc *where)
{
    if (!o->experts && (o->expert_ffn || o->shared_ffn))
        return doc_error(option_at(where, o->expert_ffn ? "expert_ffn" : "shared_ffn"),
                         "give 'experts' as well",
                         "'%s' is the width of experts, but there are none",
                         o->expert_ffn ? "expert_ffn" : "shared_ffn");
    if (o->experts && o->top_k > o->experts)
        return doc_error(option_at(where, "top_k"), NULL,
                         "'top_k' is %lld, expected at most 'experts', %lld", (long long)o->top_k,
                         (long long)o->experts);
    return WEFT_OK;
}

static weft_status check_latent(const struct gpt_options *o, const struct doc *where)
{
    if (o->q_lora && !o->kv_lora)
        return doc_error(option_at(where, "q_lora"), "give 'kv_lora' as well",
                         "'q_lora' is an option of latent attention, which 'kv_lora' turns on");
    if (o->head_multiple && o->kv_lora)
        return doc_error(option_at(where, "head_multiple"), NULL,
                         "'head_multiple' pads the heads of attention, but not those of 'kv_lora'");
    return WEFT_OK;
}

static weft_status build_tower(struct builder *b, const struct gpt_options *o,
                               const struct doc *where)
{
    const struct vision_user user = {o->seq, o->hidden, o->layers, o->attention, false};
    weft_status status = vision_check(&o->vision, &user, where);
    if (!status && vision_deepstack(&o->vision, false))
        status = doc_error(option_at(where, "vision_taps"), NULL,
                           "'vision_taps' is an option of the families llama and moe");
    if (!status && o->vision.layers)
        vision_build(b, &o->vision, &user);
    return status;
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct gpt_options *o = options;
    weft_status status;
    b->norm_epsilon = o->norm_epsilon;
    TRY(check_latent(o, where));
    TRY(option_divides(where, "heads", o->heads, "hidden", o->hidden));
    TRY(check_experts(o, where));
    TRY(documents_check(o->document, o->document_spread, o->attention, where));
    TRY(build_tower(b, o, where));
    b->frozen = o->text_frozen;
    int32_t table;
    int x = embed(b, o, &table);
    x = build_repeat(b, "layers", o->layers, x);
    x = build_repeat_end(b, layer(b, o, x));
    x = build_layer_norm(b, "norm", x);
    x = o->tied ? build_tied_linear(b, "head", x, table)
                : build_linear(b, "head", x, o->vocab, false);
    block_loss(b, x, o->loss);
    b->frozen = false;
    documents_set(b, o->document, o->document_spread, o->seq, true);
    b->model->layers = o->layers;
    b->model->seq = o->seq;
    b->model->dtype = (enum dtype)o->dtype;
done:
    return status;
}

const struct family FAMILY_GPT = FAMILY_TRAINED(
    "gpt", "causal decoder: LayerNorm, GELU, learned positions; GPT-2, GPT-3, GPT-NeoX, OPT",
    FLASH_ATTENTION);
