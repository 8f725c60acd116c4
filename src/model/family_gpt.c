/* family_gpt.c - GPT: causal decoder layers with LayerNorm and a plain MLP.
 *
 *   x = embedding(ids) + positions
 *   x = x + dropout(proj(attention(qkv(norm(x)))))        layers times
 *   x = x + dropout(down(gelu(up(norm(x)))))
 *   loss(head(norm(x)))
 *
 * Also GPT-NeoX (rotary positions, both branches from the same x: `parallel`) and OPT (relu). With
 * dropout and an attention that is not flash, a layer is 13 operators (Aceso, Table 2's models).
 */
#include "model/blocks.h"
#include "model/families.h"

enum positions { POSITIONS_LEARNED, POSITIONS_ROTARY, POSITIONS_NONE };

struct options {
    int64_t layers, hidden, heads, ffn, seq, vocab, max_positions;
    double dropout;
    bool tied, bias, parallel;
    int attention, loss, positions, activation, dtype;
};

static const struct options DEFAULTS = {
    .seq = 1024, .vocab = 50257, .dropout = 0.1, .tied = true, .bias = true, .dtype = DTYPE_BF16};

static const char *const POSITIONS[] = {"learned", "rotary", "none", NULL};
static const char *const ACTIVATIONS[] = {"gelu", "relu", NULL};

static const struct field FIELDS[] = {
    OPTION_NEEDED(struct options, layers, MOST_LAYERS),
    OPTION_NEEDED(struct options, hidden, MOST_HIDDEN),
    OPTION_NEEDED(struct options, heads, MOST_HEADS),
    OPTION_COUNT(struct options, ffn, MOST_HIDDEN),
    OPTION_COUNT(struct options, seq, MOST_SEQ),
    OPTION_COUNT(struct options, vocab, MOST_VOCAB),
    OPTION_COUNT(struct options, max_positions, MOST_SEQ),
    OPTION_SHARE(struct options, dropout),
    OPTION_BOOL(struct options, tied),
    OPTION_BOOL(struct options, bias),
    OPTION_BOOL(struct options, parallel),
    OPTION_CHOICE(struct options, attention, ATTENTION_WORDS),
    OPTION_CHOICE(struct options, loss, LOSS_WORDS),
    OPTION_CHOICE(struct options, positions, POSITIONS),
    OPTION_CHOICE(struct options, activation, ACTIVATIONS),
    OPTION_CHOICE(struct options, dtype, DTYPE_WORDS),
};

static int embed(struct builder *b, const struct options *o)
{
    int64_t rows = o->max_positions ? o->max_positions : o->seq;
    int ids = build_tokens(b, o->seq);
    return build_embedding(b, "embedding", ids, o->vocab, o->hidden,
                           o->positions == POSITIONS_LEARNED ? rows : 0);
}

static int layer(struct builder *b, const struct options *o, int x)
{
    struct block_style style = {NORM_LAYER, o->bias, o->dropout > 0, .branch = o->parallel};
    struct attention_block a = {
        .shape = {o->heads, o->heads, o->hidden / o->heads, 0, .causal = true},
        .kernel = (enum attention_kernel)o->attention,
        .rotary = o->positions == POSITIONS_ROTARY};
    struct mlp_block m = {o->ffn ? o->ffn : 4 * o->hidden, (enum activation)o->activation, false};
    if (!o->parallel)
        return block_mlp(b, block_attention(b, x, &style, &a), &style, &m);
    int y = block_attention(b, x, &style, &a);
    y = build_add(b, "sum", y, block_mlp(b, x, &style, &m));
    return block_residual(b, y, x, &style);
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct options *o = options;
    weft_status status;
    TRY(option_divides(where, "heads", o->heads, "hidden", o->hidden));
    int x = embed(b, o);
    int32_t table = build_last_index(b);
    x = build_repeat(b, "layers", o->layers, x);
    x = build_repeat_end(b, layer(b, o, x));
    x = build_layer_norm(b, "norm", x);
    x = o->tied ? build_tied_linear(b, "head", x, table)
                : build_linear(b, "head", x, o->vocab, false);
    block_loss(b, x, o->loss);
    b->model->layers = o->layers;
    b->model->seq = o->seq;
    b->model->dtype = (enum dtype)o->dtype;
done:
    return status;
}

const struct family FAMILY_GPT = {
    "gpt",
    "causal decoder: LayerNorm, GELU, learned positions; GPT-2, GPT-3, GPT-NeoX, OPT",
    FIELDS,
    COUNT_OF(FIELDS),
    sizeof(DEFAULTS),
    &DEFAULTS,
    build,
};
