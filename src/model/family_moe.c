/* family_moe.c - mixtures of experts: LLaMA's layers, some with many MLPs of which each token takes
 * top_k, and optionally DeepSeek's latent attention.
 *
 *   x = x + combine(experts(dispatch(norm(x)))) + shared(norm(x))
 *
 * The first `first_dense` layers have one MLP of width `ffn`; behind them, every `moe_every`-th
 * layer is a mixture. Latent attention (`kv_lora`) computes queries and keys as
 *
 *   q = q_b(norm(q_a(x)))             or q(x) without `q_lora`
 *   k = (k_b(norm(kv_a(x))), k_rope(x) for every head),  v = v_b(norm(kv_a(x)))
 *
 * I1  A repeated body is one period of moe_every layers, so a model is stored as at most the dense
 *     layer, one period, and the layers that do not fill a period.
 */
#include "model/decoder.h"

struct options {
    struct decoder decoder; /* first: its fields are offsets into this struct as well */
    int64_t experts, top_k, expert_ffn, shared_experts, shared_ffn, first_dense, moe_every;
    int64_t q_lora, kv_lora, nope_dim, rope_dim, value_dim;
    bool
        tokens_once; /* DeepEP and HybridEP; else once for each expert, as Megatron-LM's alltoall */
};
_Static_assert(offsetof(struct options, decoder) == 0, "the decoder's fields would miss it");

static const struct options DEFAULTS = {.decoder = {DECODER_DEFAULTS},
                                        .top_k = 2,
                                        .moe_every = 1,
                                        .nope_dim = 128,
                                        .rope_dim = 64,
                                        .value_dim = 128};

static const struct field FIELDS[] = {
    DECODER_FIELDS,
    OPTION_NEEDED(struct options, experts, MOST_EXPERTS),
    OPTION_COUNT(struct options, top_k, MOST_EXPERTS),
    OPTION_COUNT(struct options, expert_ffn, MOST_HIDDEN),
    {"shared_experts", FIELD_INT, offsetof(struct options, shared_experts), .min = 0,
     .max = MOST_EXPERTS},
    OPTION_COUNT(struct options, shared_ffn, MOST_HIDDEN),
    {"first_dense", FIELD_INT, offsetof(struct options, first_dense), .min = 0, .max = MOST_LAYERS},
    OPTION_COUNT(struct options, moe_every, MOST_LAYERS),
    OPTION_COUNT(struct options, q_lora, MOST_HIDDEN),
    OPTION_COUNT(struct options, kv_lora, MOST_HIDDEN),
    OPTION_COUNT(struct options, nope_dim, MOST_DEPTH),
    OPTION_COUNT(struct options, rope_dim, MOST_DEPTH),
    OPTION_COUNT(struct options, value_dim, MOST_DEPTH),
    OPTION_BOOL(struct options, tokens_once),
};

/* ---- latent attention ------------------------------------------------------------------------ */

/* Of every so many features, the first `rope_dim` turn. */
static int latent_rotary(struct builder *b, const struct options *o, const char *name, int x,
                         int64_t each)
{
    int y = build_rotary(b, name, x);
    if (y >= 0) {
        build_last(b)->head_depth = build_last(b)->head_turned = o->rope_dim;
        build_last(b)->head_share = each;
    }
    return y;
}

static int latent_queries(struct builder *b, const struct options *o, int x)
{
    int64_t out = o->decoder.heads * (o->nope_dim + o->rope_dim);
    if (o->q_lora)
        x = build_rms_norm(b, "q_norm", build_linear(b, "q_a", x, o->q_lora, false), true);
    x = build_linear(b, o->q_lora ? "q_b" : "q", x, out, false);
    return latent_rotary(b, o, "q_rotary", x, o->nope_dim + o->rope_dim);
}

/* Each head's key: its own part from the latent, and the rotated part that all heads share. */
static int latent_keys(struct builder *b, const struct options *o, int latent, int x)
{
    int64_t heads = o->decoder.heads;
    int own = build_linear(b, "k_b", latent, heads * o->nope_dim, false);
    int shared = build_linear(b, "k_rope", x, o->rope_dim, false);
    shared = latent_rotary(b, o, "k_rotary", shared, o->rope_dim);
    shared = build_reshape(b, "k_expand", shared, 3,
                           (int64_t[]){1, o->decoder.seq, heads * o->rope_dim});
    return build_concat(b, "k", (int[]){own, shared}, 2, 2);
}

static int latent_attention(struct builder *b, const struct options *o, int x,
                            const struct block_style *style)
{
    const struct decoder *d = &o->decoder;
    struct attention_block a = decoder_attention(d);
    a.shape = (struct attention){d->heads, d->heads, o->nope_dim + o->rope_dim, o->value_dim, true};
    int y = block_open(b, "attn", x, style);
    int q = latent_queries(b, o, y);
    int latent = build_linear(b, "kv_a", y, o->kv_lora, false);
    latent = build_rms_norm(b, "kv_norm", latent, true);
    int k = latent_keys(b, o, latent, y);
    int v = build_linear(b, "v_b", latent, d->heads * o->value_dim, false);
    y = block_core(b, q, k, v, style, &a);
    return block_close(b, build_linear(b, "proj", y, d->hidden, false), x, style);
}

static int attention(struct builder *b, const struct options *o, int x)
{
    struct block_style style = decoder_style();
    if (o->kv_lora)
        return latent_attention(b, o, x, &style);
    struct attention_block a = decoder_attention(&o->decoder);
    return block_attention(b, x, &style, &a);
}

/* ---- experts --------------------------------------------------------------------------------- */

static int64_t expert_ffn(const struct options *o)
{
    return o->expert_ffn ? o->expert_ffn : decoder_mlp(&o->decoder).ffn;
}

/* Of the dispatch or combine that was built last. */
static void set_once(struct builder *b, const struct options *o, int y)
{
    if (y >= 0)
        build_last(b)->once = o->tokens_once;
}

static int experts(struct builder *b, const struct options *o, int x)
{
    build_module(b, "experts");
    int scores = build_router(b, "router", x, o->experts, o->top_k);
    int y = build_dispatch(b, "dispatch", x, scores);
    set_once(b, o, y);
    y = build_expert_linear(b, "gate_up", y, 2 * expert_ffn(o), false);
    y = build_gated(b, "gated", y);
    y = build_expert_linear(b, "down", y, o->decoder.hidden, false);
    y = build_combine(b, "combine", y, scores);
    set_once(b, o, y);
    build_module_end(b);
    return y;
}

static int shared(struct builder *b, const struct options *o, int x)
{
    int64_t each = o->shared_ffn ? o->shared_ffn : expert_ffn(o);
    struct mlp_block m = {.ffn = o->shared_experts * each, .activation = ACTIVATION_GATED};
    build_module(b, "shared");
    int y = block_feed_forward(b, x, false, &m);
    build_module_end(b);
    return y;
}

static int mixture(struct builder *b, const struct options *o, int x)
{
    struct block_style style = decoder_style();
    int in = block_open(b, "mlp", x, &style);
    int y = experts(b, o, in);
    if (o->shared_experts)
        y = build_add(b, "sum", y, shared(b, o, in));
    return block_close(b, y, x, &style);
}

/* ---- layers ---------------------------------------------------------------------------------- */

static int dense_layer(struct builder *b, const struct options *o, int x)
{
    struct block_style style = decoder_style();
    struct mlp_block m = decoder_mlp(&o->decoder);
    return block_mlp(b, attention(b, o, x), &style, &m);
}

static int dense_layers(struct builder *b, const struct options *o, int64_t first, int64_t count,
                        int x)
{
    if (count == 0)
        return x;
    x = build_repeat_from(b, "layers", count, first, 1, x);
    return build_repeat_end(b, dense_layer(b, o, x));
}

/* One period, its layers numbered on from `first`: dense ones, then the mixture. */
static int period(struct builder *b, const struct options *o, int64_t first, int x)
{
    for (int64_t i = 0; i < o->moe_every; i++) {
        build_module_indexed(b, "layers", first + i);
        bool last = i == o->moe_every - 1;
        x = last ? mixture(b, o, attention(b, o, x)) : dense_layer(b, o, x);
        build_module_end(b);
    }
    return x;
}

static int layers(struct builder *b, const struct options *o, int x)
{
    int64_t dense = o->first_dense, rest = o->decoder.layers - dense;
    int64_t periods = rest / o->moe_every, tail = rest % o->moe_every;
    x = dense_layers(b, o, 0, dense, x);
    if (periods) { /* I1 */
        x = build_repeat_from(b, "", periods, 0, o->moe_every, x);
        x = build_repeat_end(b, period(b, o, dense, x));
    }
    return dense_layers(b, o, o->decoder.layers - tail, tail, x);
}

static weft_status check(const struct options *o, const struct doc *where)
{
    enum { MOST_PERIOD = 64 }; /* the layers of one period are stored one by one */
    if (o->top_k > o->experts)
        return doc_error(option_at(where, "top_k"), NULL,
                         "'top_k' is %lld, expected at most 'experts', %lld", (long long)o->top_k,
                         (long long)o->experts);
    if (o->first_dense > o->decoder.layers)
        return doc_error(option_at(where, "first_dense"), NULL,
                         "'first_dense' is %lld, expected at most 'layers', %lld",
                         (long long)o->first_dense, (long long)o->decoder.layers);
    if (o->moe_every > MOST_PERIOD)
        return doc_error(option_at(where, "moe_every"), NULL,
                         "'moe_every' is %lld, expected at most %d", (long long)o->moe_every,
                         MOST_PERIOD);
    if (o->q_lora && !o->kv_lora)
        return doc_error(option_at(where, "q_lora"), "give 'kv_lora' as well",
                         "'q_lora' is an option of latent attention, which 'kv_lora' turns on");
    return o->kv_lora ? WEFT_OK : decoder_check(&o->decoder, where);
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct options *o = options;
    int32_t table;
    weft_status status;
    TRY(check(o, where));
    int x = layers(b, o, decoder_start(b, &o->decoder, &table));
    decoder_end(b, &o->decoder, x, table);
done:
    return status;
}

const struct family FAMILY_MOE = {
    "moe",
    "mixture of experts on LLaMA's layers; Mixtral, Qwen-MoE, DeepSeek",
    FIELDS,
    COUNT_OF(FIELDS),
    sizeof(DEFAULTS),
    &DEFAULTS,
    build,
};
