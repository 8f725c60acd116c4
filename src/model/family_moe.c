/* family_moe.c - mixtures of experts: LLaMA's layers, some with many MLPs of which each token takes
 * top_k.
 *
 *   x = x + combine(experts(dispatch(norm(x)))) + shared(norm(x))
 *
 * The first `first_dense` layers have one MLP of width `ffn`; after them, every `moe_every`-th
 * layer is a mixture.
 *
 *   I1  A repeated body is one period: the least number of layers after which mixtures (moe_every)
 *       and windows (full_every) recur. A model is stored as at most the dense layers, one period,
 *       and the layers that do not fill a period.
 */
#include "model/decoder.h"

struct moe_options {
    struct decoder decoder; /* first, so that its fields' offsets also hold in this struct */
    int64_t experts, top_k, expert_ffn, shared_experts, shared_ffn, first_dense, moe_every;
    struct routing routing;
    bool expert_bias, shared_gate;
    int dispatch;    /* enum token_copies */
    double capacity; /* of an expert, in even shares of the tokens; 0: every token finds a place */
};
_Static_assert(offsetof(struct moe_options, decoder) == 0, "the decoder's fields would miss it");

static const struct moe_options DEFAULTS = {
    .decoder = {DECODER_DEFAULTS}, .top_k = 2, .moe_every = 1, .routing = {ROUTING_DEFAULTS}};

static const struct field FIELDS[] = {
    DECODER_FIELDS,
    {"compress", FIELD_COUNT, offsetof(struct moe_options, decoder.compress), .min = 2,
     .max = MOST_SEQ},
    {"compress_heavy", FIELD_COUNT, offsetof(struct moe_options, decoder.compress_heavy), .min = 2,
     .max = MOST_SEQ},
    {"compress_first", FIELD_INT, offsetof(struct moe_options, decoder.compress_first), .min = 0,
     .max = MOST_PERIOD},
    {"o_groups", FIELD_COUNT, offsetof(struct moe_options, decoder.o_groups), .min = 1,
     .max = MOST_HEADS},
    {"o_lora", FIELD_COUNT, offsetof(struct moe_options, decoder.o_lora), .min = 1,
     .max = MOST_HIDDEN},
    {"streams", FIELD_COUNT, offsetof(struct moe_options, decoder.streams), .min = 2, .max = 64},
    OPTION_NEEDED(struct moe_options, experts, MOST_EXPERTS),
    OPTION_COUNT(struct moe_options, top_k, MOST_EXPERTS),
    OPTION_COUNT(struct moe_options, expert_ffn, MOST_HIDDEN),
    OPTION_BOOL(struct moe_options, expert_bias),
    {"shared_experts", FIELD_INT, offsetof(struct moe_options, shared_experts), .min = 0,
     .max = MOST_EXPERTS},
    OPTION_COUNT(struct moe_options, shared_ffn, MOST_HIDDEN),
    OPTION_BOOL(struct moe_options, shared_gate),
    {"first_dense", FIELD_INT, offsetof(struct moe_options, first_dense), .min = 0,
     .max = MOST_LAYERS},
    OPTION_COUNT(struct moe_options, moe_every, MOST_LAYERS),
    OPTION_CHOICE(struct moe_options, dispatch, COPIES_WORDS),
    {"capacity", FIELD_REAL, offsetof(struct moe_options, capacity), .min = 0, .max = 1e3},
    OPTION_ROUTING(struct moe_options),
};

/* ---- experts --------------------------------------------------------------------------------- */

static int64_t expert_ffn(const struct moe_options *o)
{
    return o->expert_ffn ? o->expert_ffn : decoder_mlp(&o->decoder).ffn;
}

static int experts(struct builder *b, const struct moe_options *o, int x)
{
    struct expert_block e = {o->experts,
                             o->top_k,
                             expert_ffn(o),
                             decoder_activation(&o->decoder),
                             .bias = o->expert_bias,
                             .router_bias = o->expert_bias,
                             .copies = (enum token_copies)o->dispatch,
                             .routing = o->routing,
                             .capacity = o->capacity};
    if (e.routing.groups == 1) /* of one group there is nothing to choose */
        e.routing.groups = e.routing.group_top_k = 0;
    return block_experts(b, x, &e);
}

/* One number for each token, of which its shared expert's output is multiplied by the sigmoid. */
static int token_score(struct builder *b, int x)
{
    int y = build_linear(b, "score", x, 1, false);
    if (y >= 0)
        build_last(b)->by_stream = true;
    return y;
}

static int shared(struct builder *b, const struct moe_options *o, int x)
{
    int64_t each = o->shared_ffn ? o->shared_ffn : expert_ffn(o);
    struct mlp_block m = {.ffn = o->shared_experts * each,
                          .activation = decoder_activation(&o->decoder)};
    build_module(b, "shared");
    int score = o->shared_gate ? token_score(b, x) : -1;
    int y = block_feed_forward(b, x, false, &m);
    if (o->shared_gate)
        y = build_token_gate(b, "scored", score, y);
    build_module_end(b);
    return y;
}

static int mixture(struct builder *b, const struct moe_options *o, int x,
                   const struct block_style *style)
{
    int in = block_open(b, "mlp", x, style);
    int y = experts(b, o, in);
    if (o->shared_experts)
        y = build_add(b, "sum", y, shared(b, o, in));
    return block_close(b, y, x, style);
}

/* ---- layers ---------------------------------------------------------------------------------- */

static bool is_mixture(const struct moe_options *o, int64_t layer)
{
    return layer >= o->first_dense && (layer - o->first_dense + 1) % o->moe_every == 0;
}

static bool alike(const void *options, int64_t one, int64_t other)
{
    const struct moe_options *o = options;
    return is_mixture(o, one) == is_mixture(o, other) && decoder_alike(&o->decoder, one, other) &&
           compressed_rate(&o->decoder, one) == compressed_rate(&o->decoder, other);
}

static int layer(struct builder *b, const void *options, int64_t number, int x)
{
    const struct moe_options *o = options;
    struct block_style style = decoder_style(&o->decoder, number);
    struct mlp_block m = decoder_mlp(&o->decoder);
    x = decoder_attend(b, &o->decoder, number, x);
    x = is_mixture(o, number) ? mixture(b, o, x, &style) : block_mlp(b, x, &style, &m);
    return decoder_deepen(b, number, x);
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t multiple = a;
    while (multiple % b)
        multiple += a;
    return multiple;
}

static int64_t period_of(const struct moe_options *o)
{
    return common_multiple(o->moe_every, decoder_period(&o->decoder));
}

static int layers(struct builder *b, const struct layer_row *row, int x)
{
    const struct moe_options *o = row->options;
    int64_t dense = o->first_dense, windows = o->decoder.compress ? 1 : decoder_period(&o->decoder);
    int64_t deep = decoder_deepstack(&o->decoder);
    if (dense < o->decoder.compress_first)
        dense = o->decoder.compress_first;
    dense = dense < deep ? deep : dense;
    x = windows > 1 && !deep ? decoder_rows(b, row, 0, dense, windows, x)
                             : decoder_runs(b, row, 0, dense, x);
    return decoder_rows(b, row, dense, o->decoder.layers - dense, period_of(o), x); /* I1 */
}

static weft_status check(const struct moe_options *o, const struct doc *where)
{
    if (o->top_k > o->experts)
        return doc_error(option_at(where, "top_k"), NULL,
                         "'top_k' is %lld, expected at most 'experts', %lld", (long long)o->top_k,
                         (long long)o->experts);
    if (o->shared_gate && !o->shared_experts)
        return doc_error(option_at(where, "shared_gate"), "shared_experts: 1",
                         "'shared_gate' is a gate of shared experts, and there are none");
    if (o->first_dense > o->decoder.layers)
        return doc_error(option_at(where, "first_dense"), NULL,
                         "'first_dense' is %lld, expected at most 'layers', %lld",
                         (long long)o->first_dense, (long long)o->decoder.layers);
    if (o->moe_every > MOST_PERIOD)
        return doc_error(option_at(where, "moe_every"), NULL,
                         "'moe_every' is %lld, expected at most %d", (long long)o->moe_every,
                         MOST_PERIOD);
    if (period_of(o) > MOST_PERIOD)
        return doc_error(
            option_at(where, "full_every"), NULL,
            "'full_every' and 'moe_every' come together every %lld layers, expected at "
            "most %d",
            (long long)period_of(o), MOST_PERIOD);
    if (o->routing.groups &&
        (o->experts % o->routing.groups || o->routing.group_top_k > o->routing.groups))
        return doc_error(option_at(where, "router_groups"), NULL,
                         "%lld of %lld groups of %lld experts, expected a number of groups that "
                         "divides the experts, and at most as many of them",
                         (long long)o->routing.group_top_k, (long long)o->routing.groups,
                         (long long)o->experts);
    return decoder_check(&o->decoder, where);
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct moe_options *o = options;
    weft_status status = check(o, where);
    if (status == WEFT_OK)
        decoder_build(b, &o->decoder, &(struct layer_row){o, alike, layer}, layers);
    return status;
}

const struct family FAMILY_MOE = FAMILY_OF(
    "moe", "mixture of experts on LLaMA's layers; Mixtral, Qwen3, DeepSeek, Llama 4, Kimi");
