/* family_hybrid.c - decoders whose layers are one block each, in the order given by a pattern:
 *
 *   M  state space (Mamba-2)    x = x + out(gated_norm(scan(conv(in(norm(x))))))
 *   *  attention                x = x + proj(attention(qkv(norm(x))))
 *   -  MLP                      x = x + down(act(up(norm(x))))
 *   E  experts                  x = x + up'(combine(experts(dispatch(down'(norm(x)))))) + shared(norm(x))
 *
 * as in Nemotron-H's hybrid_override_pattern. Experts may work in a latent width (down', up':
 * `latent`), while the router and the shared expert read the hidden width. Each of `mtp` depths
 * predicts one more token from the embedding and the output of the depth before it, through layers
 * of its own pattern and the model's head; the depths share their weights:
 *
 *   h' = layers(join(norm(embedding), norm(h))),  loss(head(norm(h')))
 *
 *   I1  Where the pattern repeats itself, it is stored as a repeat: of all repeats that start at a
 *       layer, the one that saves most layers.
 *   I2  The product into a state-space layer makes [gate, x, B, C, dt] of one group after the
 *       other, so that a split by groups takes contiguous features.
 */
#include "model/blocks.h"
#include "model/families.h"

#include <string.h>

enum hybrid_positions { POSITIONS_NONE, POSITIONS_LEARNED, POSITIONS_ROTARY };

struct hybrid_options {
    const char *pattern, *mtp_pattern;
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, seq, vocab;
    int64_t mamba_heads, mamba_dim, state, groups, expand, conv, chunk;
    int64_t document, experts, top_k, expert_ffn, shared_ffn, latent, mtp;
    double document_spread, dropout, norm_epsilon;
    struct routing routing;
    bool tied, bias;
    int dispatch; /* enum token_copies */
    int norm, positions, activation, attention, loss, dtype;
};

/* Nemotron-H's values where it defines them. */
static const struct hybrid_options DEFAULTS = {.mtp_pattern = "*E",
                                               .seq = 8192,
                                               .vocab = 131072,
                                               .mamba_dim = 64,
                                               .state = 128,
                                               .groups = 8,
                                               .expand = 2,
                                               .conv = 4,
                                               .chunk = 128,
                                               .top_k = 2,
                                               .norm_epsilon = NORM_EPSILON,
                                               .routing = {ROUTING_DEFAULTS},
                                               .dtype = DTYPE_BF16};

static const char *const NORMS[] = {"rms", "layer", NULL};
static const char *const POSITIONS[] = {"none", "learned", "rotary", NULL};
static const char *const ACTIVATIONS[] = {"relu2", "gelu", "swiglu", NULL};

enum { MOST_PATTERN = 4096, MOST_TAPS = 64, MOST_DEPTHS = 16 };

static const struct field FIELDS[] = {
    {"pattern", FIELD_TEXT, offsetof(struct hybrid_options, pattern), .required = true},
    OPTION_COUNT(struct hybrid_options, layers, MOST_PATTERN),
    OPTION_NEEDED(struct hybrid_options, hidden, MOST_HIDDEN),
    OPTION_COUNT(struct hybrid_options, heads, MOST_HEADS),
    OPTION_COUNT(struct hybrid_options, kv_heads, MOST_HEADS),
    OPTION_COUNT(struct hybrid_options, head_dim, MOST_DEPTH),
    OPTION_COUNT(struct hybrid_options, ffn, MOST_HIDDEN),
    OPTION_COUNT(struct hybrid_options, seq, MOST_SEQ),
    OPTION_COUNT(struct hybrid_options, vocab, MOST_VOCAB),
    OPTION_DOCUMENTS(struct hybrid_options),
    OPTION_COUNT(struct hybrid_options, mamba_heads, MOST_HEADS),
    OPTION_COUNT(struct hybrid_options, mamba_dim, MOST_DEPTH),
    OPTION_COUNT(struct hybrid_options, state, MOST_DEPTH),
    OPTION_COUNT(struct hybrid_options, groups, MOST_HEADS),
    OPTION_COUNT(struct hybrid_options, expand, MOST_DEPTH),
    OPTION_COUNT(struct hybrid_options, conv, MOST_TAPS),
    OPTION_COUNT(struct hybrid_options, chunk, MOST_SEQ),
    OPTION_COUNT(struct hybrid_options, experts, MOST_EXPERTS),
    OPTION_COUNT(struct hybrid_options, top_k, MOST_EXPERTS),
    OPTION_COUNT(struct hybrid_options, expert_ffn, MOST_HIDDEN),
    OPTION_COUNT(struct hybrid_options, shared_ffn, MOST_HIDDEN),
    OPTION_ROUTING(struct hybrid_options),
    OPTION_COUNT(struct hybrid_options, latent, MOST_HIDDEN),
    {"mtp", FIELD_INT, offsetof(struct hybrid_options, mtp), .min = 0, .max = MOST_DEPTHS},
    {"mtp_pattern", FIELD_TEXT, offsetof(struct hybrid_options, mtp_pattern)},
    OPTION_SHARE(struct hybrid_options, dropout),
    OPTION_EPSILON(struct hybrid_options),
    OPTION_BOOL(struct hybrid_options, tied),
    OPTION_BOOL(struct hybrid_options, bias),
    OPTION_CHOICE(struct hybrid_options, dispatch, COPIES_WORDS),
    OPTION_CHOICE(struct hybrid_options, norm, NORMS),
    OPTION_CHOICE(struct hybrid_options, positions, POSITIONS),
    OPTION_CHOICE(struct hybrid_options, activation, ACTIVATIONS),
    OPTION_CHOICE(struct hybrid_options, attention, ATTENTION_WORDS),
    OPTION_CHOICE(struct hybrid_options, loss, LOSS_WORDS),
    OPTION_CHOICE(struct hybrid_options, dtype, DTYPE_WORDS),
};

static struct block_style style_of(const struct hybrid_options *o)
{
    return (struct block_style){
        .norm = o->norm ? NORM_LAYER : NORM_RMS, .bias = o->bias, .dropout = o->dropout > 0};
}

/* ---- state-space layers ---------------------------------------------------------------------- */

static struct scan scan_of(const struct hybrid_options *o)
{
    int64_t heads = o->mamba_heads ? o->mamba_heads : o->expand * o->hidden / o->mamba_dim;
    return (struct scan){heads, o->groups, o->mamba_dim, o->state, o->chunk};
}

static int mamba_layer(struct builder *b, const struct hybrid_options *o, int x)
{
    struct block_style style = style_of(o);
    struct scan s = scan_of(o);
    int64_t each = s.heads / s.groups, wide = each * s.depth;
    int y = block_open(b, "mamba", x, &style);
    int in = build_linear(b, "in_proj", y, s.groups * (2 * wide + 2 * s.state + each), false);
    y = build_conv1d(b, "conv", in, (struct fused_part){wide, wide + 2 * s.state}, s.groups,
                     o->conv, true); /* I2 */
    y = build_scan(b, "scan", y, in, (struct fused_part){2 * wide + 2 * s.state, each}, &s);
    y = build_gated_norm(b, "gated_norm", y, in, (struct fused_part){0, wide}, s.groups);
    return block_close(b, build_linear(b, "out_proj", y, o->hidden, false), x, &style);
}

/* ---- the other layers ------------------------------------------------------------------------ */

static int attention_layer(struct builder *b, const struct hybrid_options *o, int x)
{
    struct block_style style = style_of(o);
    struct attention_block a = {
        .shape = {.heads = o->heads,
                  .kv_heads = o->kv_heads ? o->kv_heads : o->heads,
                  .depth = o->head_dim ? o->head_dim : o->hidden / o->heads,
                  .causal = true},
        .kernel = (enum attention_kernel)o->attention,
        .rotary = o->positions == POSITIONS_ROTARY,
    };
    return block_attention(b, x, &style, &a);
}

static enum activation activation_of(const struct hybrid_options *o)
{
    static const enum activation ACTIVATION[] = {ACTIVATION_RELU2, ACTIVATION_GELU,
                                                 ACTIVATION_GATED};
    _Static_assert(COUNT_OF(ACTIVATION) == COUNT_OF(ACTIVATIONS) - 1, "one without a word");
    return ACTIVATION[o->activation];
}

static int feed_forward(struct builder *b, const struct hybrid_options *o, int x, int64_t ffn)
{
    struct mlp_block m = {.ffn = ffn, .activation = activation_of(o)};
    return block_feed_forward(b, x, o->bias, &m);
}

static int mlp_layer(struct builder *b, const struct hybrid_options *o, int x)
{
    struct block_style style = style_of(o);
    int y = feed_forward(b, o, block_open(b, "mlp", x, &style), o->ffn ? o->ffn : 4 * o->hidden);
    return block_close(b, y, x, &style);
}

static int experts(struct builder *b, const struct hybrid_options *o, int x)
{
    struct expert_block e = {o->experts,
                             o->top_k,
                             o->expert_ffn ? o->expert_ffn : o->ffn,
                             activation_of(o),
                             .copies = (enum token_copies)o->dispatch,
                             .latent = o->latent,
                             .routing = o->routing};
    return block_experts(b, x, &e);
}

static int expert_layer(struct builder *b, const struct hybrid_options *o, int x)
{
    struct block_style style = style_of(o);
    int in = block_open(b, "mlp", x, &style), y = experts(b, o, in);
    if (o->shared_ffn) {
        build_module(b, "shared");
        int shared = feed_forward(b, o, in, o->shared_ffn);
        build_module_end(b);
        y = build_add(b, "sum", y, shared);
    }
    return block_close(b, y, x, &style);
}

/* ---- the pattern ----------------------------------------------------------------------------- */

static const struct {
    char letter;
    int (*build)(struct builder *b, const struct hybrid_options *o, int x);
} LAYERS[] = {{'M', mamba_layer}, {'*', attention_layer}, {'-', mlp_layer}, {'E', expert_layer}};

static int layer(struct builder *b, const struct hybrid_options *o, char letter, int x)
{
    for (size_t i = 0; i < COUNT_OF(LAYERS); i++)
        if (LAYERS[i].letter == letter)
            return LAYERS[i].build(b, o, x);
    return x;
}

struct repeat {
    int64_t period, times;
};

/* How often the first `period` letters are repeated, the first time included. */
static int64_t times_in_row(const char *at, int64_t rest, int64_t period)
{
    int64_t same = period;
    while (same < rest && at[same] == at[same - period])
        same++;
    return same / period;
}

static struct repeat best_repeat(const char *at, int64_t rest)
{
    enum { LONGEST_PERIOD = 64 }; /* the layers of one period are stored one by one */
    struct repeat best = {1, 1};
    for (int64_t period = 1; period <= rest / 2 && period <= LONGEST_PERIOD; period++) {
        int64_t times = times_in_row(at, rest, period);
        if ((times - 1) * period > (best.times - 1) * best.period)
            best = (struct repeat){period, times};
    }
    return best;
}

static int one_period(struct builder *b, const struct hybrid_options *o, const char *at,
                      int64_t period, int64_t first, int x)
{
    for (int64_t i = 0; i < period; i++) {
        build_module_indexed(b, "layers", first + i);
        x = layer(b, o, at[i], x);
        build_module_end(b);
    }
    return x;
}

static int layers(struct builder *b, const struct hybrid_options *o, const char *pattern,
                  int64_t count, int x)
{
    for (int64_t i = 0; i < count;) { /* I1 */
        struct repeat r = best_repeat(pattern + i, count - i);
        if (r.times == 1) {
            x = one_period(b, o, pattern + i, 1, i, x);
        } else if (r.period == 1) {
            x = build_repeat_from(b, "layers", r.times, i, 1, x);
            x = build_repeat_end(b, layer(b, o, pattern[i], x));
        } else {
            x = build_repeat_from(b, "", r.times, 0, r.period, x);
            x = build_repeat_end(b, one_period(b, o, pattern + i, r.period, i, x));
        }
        i += r.period * r.times;
    }
    return x;
}

/* ---- the ends -------------------------------------------------------------------------------- */

/* The model's own head, or that of the operator that owns the table. */
static void finish(struct builder *b, const struct hybrid_options *o, int x, int32_t table)
{
    struct block_style style = style_of(o);
    x = block_norm(b, "norm", x, style.norm);
    x = table >= 0 ? build_tied_linear(b, "head", x, table)
                   : build_linear(b, "head", x, o->vocab, false);
    block_loss(b, x, o->loss);
}

/* Ties every weight of a depth to that of the first depth, `ops` operators before. */
static void share_weights(struct builder *b, int32_t first, int32_t ops)
{
    for (int32_t i = first; b->status == WEFT_OK && i < (int32_t)b->ops.len; i++)
        if (b->ops.data[i].weights && b->ops.data[i].weight[0].tied_op < 0)
            b->ops.data[i].weight[0].tied_op = i - ops;
}

static void depths(struct builder *b, const struct hybrid_options *o, int embedding, int x,
                   int32_t head)
{
    struct block_style style = style_of(o);
    int64_t count = (int64_t)strlen(o->mtp_pattern);
    for (int64_t depth = 0; depth < o->mtp; depth++) {
        int32_t first = (int32_t)b->ops.len;
        build_module_indexed(b, "mtp", depth);
        int join[] = {block_norm(b, "embedding_norm", embedding, style.norm),
                      block_norm(b, "hidden_norm", x, style.norm)};
        x = build_linear(b, "join", build_concat(b, "concat", join, 2, 2), o->hidden, false);
        for (int64_t i = 0; i < count; i++)
            x = one_period(b, o, o->mtp_pattern + i, 1, i, x);
        finish(b, o, x, head);
        build_module_end(b);
        if (depth > 0)
            share_weights(b, first, (int32_t)b->ops.len - first);
    }
}

/* ---- checks ---------------------------------------------------------------------------------- */

static weft_status check_pattern(const struct hybrid_options *o, const struct doc *where,
                                 const char *key, const char *pattern)
{
    static const char LETTERS[] = "M*-E";
    size_t good = strspn(pattern, LETTERS);
    const struct doc *at = option_at(where, key);
    if (pattern[good])
        return doc_error(at, NULL,
                         "'%s' has '%c' at place %zu, expected M (state space), * (attention), - "
                         "(MLP) or E (experts)",
                         key, pattern[good], good + 1);
    if (good == 0 || good > MOST_PATTERN)
        return doc_error(at, NULL, "'%s' has %zu letters, expected 1 to %d", key, good,
                         MOST_PATTERN);
    if (strchr(pattern, '*') && !o->heads)
        return doc_error(at, NULL, "'%s' has attention, which needs 'heads'", key);
    if (strchr(pattern, 'E') && !o->experts)
        return doc_error(at, NULL, "'%s' has experts, which need 'experts'", key);
    if (strchr(pattern, 'E') && !o->expert_ffn && !o->ffn)
        return doc_error(at, NULL, "'%s' has experts, which need 'expert_ffn' or 'ffn'", key);
    return WEFT_OK;
}

static weft_status check_mamba(const struct hybrid_options *o, const struct doc *where)
{
    weft_status status = WEFT_OK;
    if (!o->mamba_heads)
        TRY(option_divides(where, "mamba_dim", o->mamba_dim, "hidden", o->expand * o->hidden));
    TRY(option_divides(where, "groups", o->groups, "mamba_heads", scan_of(o).heads));
done:
    return status;
}

static weft_status check(const struct hybrid_options *o, const struct doc *where)
{
    weft_status status;
    TRY(check_pattern(o, where, "pattern", o->pattern));
    if (o->mtp)
        TRY(check_pattern(o, where, "mtp_pattern", o->mtp_pattern));
    if (strchr(o->pattern, 'M') || (o->mtp && strchr(o->mtp_pattern, 'M')))
        TRY(check_mamba(o, where));
    if (o->heads && !o->head_dim)
        TRY(option_divides(where, "heads", o->heads, "hidden", o->hidden));
    if (o->heads && o->kv_heads)
        TRY(option_divides(where, "kv_heads", o->kv_heads, "heads", o->heads));
    if (o->experts && o->top_k > o->experts)
        TRY(doc_error(option_at(where, "top_k"), NULL,
                      "'top_k' is %lld, expected at most 'experts', %lld", (long long)o->top_k,
                      (long long)o->experts));
    if (o->mtp && (o->bias || o->norm))
        TRY(doc_error(
            option_at(where, "mtp"), "leave 'bias' and 'norm' out",
            "'mtp' shares weights between its depths, which operators with two weights cannot do"));
done:
    return status;
}

/* The pattern repeated from its beginning until it has `layers` letters. */
static const char *whole_pattern(struct builder *b, const struct hybrid_options *o, int64_t count)
{
    size_t len = strlen(o->pattern);
    char *all = arena_alloc(b->arena, 1, (size_t)count + 1);
    for (int64_t i = 0; i < count; i++)
        all[i] = o->pattern[(size_t)i % len];
    all[count] = '\0';
    return all;
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct hybrid_options *o = options;
    weft_status status;
    TRY(check(o, where));
    TRY(documents_check(o->document, o->document_spread, o->attention, where));
    int64_t count = o->layers ? o->layers : (int64_t)strlen(o->pattern);
    b->norm_epsilon = o->norm_epsilon;
    int embedding = build_embedding(b, "embedding", build_tokens(b, o->seq), o->vocab, o->hidden,
                                    o->positions == POSITIONS_LEARNED ? o->seq : 0);
    int32_t table = build_last_index(b);
    int x = layers(b, o, whole_pattern(b, o, count), count, embedding);
    finish(b, o, x, o->tied ? table : -1);
    int32_t head = o->tied ? table : build_last_index(b) - 1;
    depths(b, o, embedding, x, head);
    documents_set(b, o->document, o->document_spread, o->seq, true);
    b->model->layers = count;
    b->model->seq = o->seq;
    b->model->dtype = (enum dtype)o->dtype;
done:
    return status;
}

const struct family FAMILY_HYBRID =
    FAMILY_OF("hybrid", "layers of state space (Mamba-2), attention, MLP and experts by a "
                        "pattern; Nemotron-H, Mamba-2");
