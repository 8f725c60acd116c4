/* family_t5.c - T5: an encoder over one text, and a decoder over another that reads the first.
 *
 *   encoder layer   x = x + dropout(proj(attention(norm(x)))), x = x + dropout(mlp(norm(x)))
 *   decoder layer   the same, causal, with cross attention to the encoder's output between the two
 *
 * There are no biases; scores get a learned bias by distance (of `buckets` values per head). T5
 * learns it once per stack, here each layer has its own: a ten-thousandth of the parameters. `norm:
 * eager` is the public implementation, which keeps a second copy of each norm's input.
 */
#include "model/blocks.h"
#include "model/families.h"

struct t5_options {
    int64_t layers, decoder_layers, hidden, heads, d_kv, ffn, seq, decoder_seq, vocab, buckets;
    double dropout, norm_epsilon;
    bool tied, ffn_dropout;
    int attention, activation, norm, dtype;
};

static const struct t5_options DEFAULTS = {.seq = 512,
                                           .decoder_seq = 512,
                                           .vocab = 32128,
                                           .buckets = 32,
                                           .dropout = 0.1,
                                           .norm_epsilon = NORM_EPSILON,
                                           .tied = true,
                                           .ffn_dropout = true,
                                           .dtype = DTYPE_BF16};

/* Flash attention cannot add a bias to the scores. */
static const char *const ATTENTIONS[] = {"fused", "eager", NULL};
static const char *const ACTIVATIONS[] = {"relu", "gelu", "gated-gelu", NULL};
static const char *const NORMS[] = {"fused", "eager", NULL};

static const struct field FIELDS[] = {
    OPTION_NEEDED(struct t5_options, layers, MOST_LAYERS),
    OPTION_COUNT(struct t5_options, decoder_layers, MOST_LAYERS),
    OPTION_NEEDED(struct t5_options, hidden, MOST_HIDDEN),
    OPTION_NEEDED(struct t5_options, heads, MOST_HEADS),
    OPTION_COUNT(struct t5_options, d_kv, MOST_DEPTH),
    OPTION_COUNT(struct t5_options, ffn, MOST_HIDDEN),
    OPTION_COUNT(struct t5_options, seq, MOST_SEQ),
    OPTION_COUNT(struct t5_options, decoder_seq, MOST_SEQ),
    OPTION_COUNT(struct t5_options, vocab, MOST_VOCAB),
    OPTION_COUNT(struct t5_options, buckets, MOST_DEPTH),
    OPTION_SHARE(struct t5_options, dropout),
    OPTION_EPSILON(struct t5_options),
    OPTION_BOOL(struct t5_options, tied),
    OPTION_BOOL(struct t5_options, ffn_dropout),
    OPTION_CHOICE(struct t5_options, attention, ATTENTIONS),
    OPTION_CHOICE(struct t5_options, activation, ACTIVATIONS),
    OPTION_CHOICE(struct t5_options, norm, NORMS),
    OPTION_CHOICE(struct t5_options, dtype, DTYPE_WORDS),
};

static struct block_style style_of(const struct t5_options *o)
{
    static const enum norm NORM[] = {NORM_RMS, NORM_RMS_EAGER};
    return (struct block_style){.norm = NORM[o->norm], .dropout = o->dropout > 0};
}

static struct attention_block attention_of(const struct t5_options *o, bool causal, bool bias)
{
    static const enum attention_kernel KERNEL[] = {ATTENTION_FUSED, ATTENTION_EAGER};
    int64_t depth = o->d_kv ? o->d_kv : o->hidden / o->heads;
    return (struct attention_block){.shape = {o->heads, o->heads, depth, 0, causal},
                                    .kernel = KERNEL[o->attention],
                                    .score_bias = bias ? o->buckets * o->heads : 0};
}

static int mlp(struct builder *b, const struct t5_options *o, int x)
{
    static const enum activation ACTIVATION[] = {ACTIVATION_RELU, ACTIVATION_GELU,
                                                 ACTIVATION_GATED_GELU};
    struct block_style style = style_of(o);
    struct mlp_block m = {o->ffn ? o->ffn : 4 * o->hidden, ACTIVATION[o->activation],
                          o->ffn_dropout && o->dropout > 0};
    return block_mlp(b, x, &style, &m);
}

static int encoder_layer(struct builder *b, const struct t5_options *o, int x)
{
    struct block_style style = style_of(o);
    struct attention_block a = attention_of(o, false, true);
    return mlp(b, o, block_attention(b, x, &style, &a));
}

static int decoder_layer(struct builder *b, const struct t5_options *o, int x, int memory)
{
    struct block_style style = style_of(o);
    struct attention_block self = attention_of(o, true, true);
    struct attention_block cross = attention_of(o, false, false);
    x = block_attention(b, x, &style, &self);
    return mlp(b, o, block_cross_attention(b, x, memory, &style, &cross));
}

static int dropped(struct builder *b, const struct t5_options *o, const char *name, int x)
{
    return o->dropout > 0 ? build_dropout(b, name, x) : x;
}

/* The norm after a stack's layers, and the dropout after it. */
static int stack_end(struct builder *b, const struct t5_options *o, int x)
{
    return dropped(b, o, "dropout", block_norm(b, "norm", x, style_of(o).norm));
}

static int encoder(struct builder *b, const struct t5_options *o, int32_t *table)
{
    build_module(b, "encoder");
    int x = build_embedding(b, "embedding", build_tokens(b, o->seq), o->vocab, o->hidden, 0);
    *table = build_last_index(b);
    x = build_repeat(b, "layers", o->layers, dropped(b, o, "embedding_dropout", x));
    x = stack_end(b, o, build_repeat_end(b, encoder_layer(b, o, x)));
    build_module_end(b);
    return x;
}

static int decoder(struct builder *b, const struct t5_options *o, int memory, int32_t table)
{
    int64_t layers = o->decoder_layers ? o->decoder_layers : o->layers;
    build_module(b, "decoder");
    int ids = build_tokens(b, o->decoder_seq);
    int x = build_embedding(b, "embedding", ids, o->vocab, o->hidden, 0);
    if (x >= 0)
        build_last(b)->weight[0].tied_op = table; /* both stacks read one table */
    x = build_repeat(b, "layers", layers, dropped(b, o, "embedding_dropout", x));
    x = stack_end(b, o, build_repeat_end(b, decoder_layer(b, o, x, memory)));
    build_module_end(b);
    b->model->layers = o->layers + layers;
    return x;
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct t5_options *o = options;
    int32_t table;
    weft_status status = WEFT_OK;
    if (!o->d_kv)
        TRY(option_divides(where, "heads", o->heads, "hidden", o->hidden));
    b->norm_epsilon = o->norm_epsilon;
    int x = encoder(b, o, &table);
    x = decoder(b, o, x, table);
    x = o->tied ? build_tied_linear(b, "head", x, table)
                : build_linear(b, "head", x, o->vocab, false);
    build_loss(b, "loss", x);
    b->model->seq = o->seq + o->decoder_seq;
    b->model->dtype = (enum dtype)o->dtype;
done:
    return status;
}

const struct family FAMILY_T5 = FAMILY_OF("t5", "encoder and decoder with relative position bias");
