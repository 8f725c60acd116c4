/* family_bert.c - BERT: encoder layers with the norm after each residual, and two losses.
 *
 *   x = dropout(norm(word + position + segment))
 *   x = norm(x + dropout(proj(attention(qkv(x)))))        layers times
 *   x = norm(x + dropout(down(gelu(up(x)))))
 *   masked words: loss(head(norm(gelu(transform(x)))));  next sentence: loss(nsp(pooler(x[0])))
 */
#include "model/blocks.h"
#include "model/families.h"

struct bert_options {
    int64_t layers, hidden, heads, ffn, seq, vocab, max_positions, document;
    double dropout, norm_epsilon, document_spread;
    bool pooler;
    int attention, dtype;
};

static const struct bert_options DEFAULTS = {.seq = 512,
                                             .vocab = 30522,
                                             .dropout = 0.1,
                                             .norm_epsilon = NORM_EPSILON,
                                             .pooler = true,
                                             .dtype = DTYPE_BF16};

static const struct field FIELDS[] = {
    LAYER_OPTIONS(struct bert_options),
    OPTION_COUNT(struct bert_options, seq, MOST_SEQ),
    OPTION_COUNT(struct bert_options, vocab, MOST_VOCAB),
    OPTION_COUNT(struct bert_options, max_positions, MOST_SEQ),
    OPTION_DOCUMENTS(struct bert_options),
    OPTION_SHARE(struct bert_options, dropout),
    OPTION_EPSILON(struct bert_options),
    OPTION_BOOL(struct bert_options, pooler),
    OPTION_CHOICE(struct bert_options, attention, ATTENTION_WORDS),
    OPTION_CHOICE(struct bert_options, dtype, DTYPE_WORDS),
};

enum { SEGMENTS = 2 }; /* the two sentences of a pair */

static int embed(struct builder *b, const struct bert_options *o)
{
    int64_t positions = o->max_positions ? o->max_positions : o->seq;
    int x = build_embedding(b, "embedding", build_tokens(b, o->seq), o->vocab, o->hidden,
                            positions + SEGMENTS);
    x = build_layer_norm(b, "embedding_norm", x);
    return o->dropout > 0 ? build_dropout(b, "embedding_dropout", x) : x;
}

static int layer(struct builder *b, const struct bert_options *o, int x)
{
    struct block_style style = {NORM_LAYER, .bias = true, .dropout = o->dropout > 0,
                                .post_norm = true};
    struct attention_block a = {.shape = {o->heads, o->heads, o->hidden / o->heads, 0, false},
                                .kernel = (enum attention_kernel)o->attention};
    struct mlp_block m = {o->ffn ? o->ffn : 4 * o->hidden, ACTIVATION_GELU, false};
    return block_mlp(b, block_attention(b, x, &style, &a), &style, &m);
}

static void next_sentence(struct builder *b, const struct bert_options *o, int x)
{
    build_module(b, "next");
    x = build_reshape(b, "first", x, 2, (int64_t[]){1, o->hidden});
    x = build_linear(b, "pooler", x, o->hidden, true);
    build_loss(b, "loss", build_linear(b, "head", x, 2, true));
    build_module_end(b);
}

static void masked_words(struct builder *b, const struct bert_options *o, int x, int32_t table)
{
    build_module(b, "masked");
    x = build_gelu(b, "gelu", build_linear(b, "transform", x, o->hidden, true));
    x = build_tied_linear(b, "head", build_layer_norm(b, "norm", x), table);
    build_loss(b, "loss", x);
    build_module_end(b);
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct bert_options *o = options;
    weft_status status;
    TRY(option_divides(where, "heads", o->heads, "hidden", o->hidden));
    TRY(documents_check(o->document, o->document_spread, o->attention, where));
    b->norm_epsilon = o->norm_epsilon;
    int x = embed(b, o);
    int32_t table = 0; /* the embedding is the first operator */
    x = build_repeat(b, "layers", o->layers, x);
    x = build_repeat_end(b, layer(b, o, x));
    if (o->pooler)
        next_sentence(b, o, x);
    masked_words(b, o, x, table);
    documents_set(b, o->document, o->document_spread, o->seq, false);
    b->model->layers = o->layers;
    b->model->seq = o->seq;
    b->model->dtype = (enum dtype)o->dtype;
done:
    return status;
}

const struct family FAMILY_BERT = FAMILY_TRAINED(
    "bert", "encoder with masked words and next-sentence prediction", FLASH_ATTENTION);
