/* kernel_cases.h - random operators of every kind that has a CPU kernel, odd sizes among them, each in
 * a lab of its own. Included after cmocka. */
#ifndef WEFT_KERNEL_CASES_H
#define WEFT_KERNEL_CASES_H

#include <string.h>

#include "kernel_lab.h"
#include "model/builder.h"

static int64_t from_to(struct rng *rng, int64_t least, int64_t most)
{
    return least + rng_below(rng, most - least + 1);
}

static bool maybe(struct rng *rng)
{
    return rng_below(rng, 2) != 0;
}

static int sequence(struct builder *b, int64_t seq, int64_t features)
{
    return build_input(b, 3, (int64_t[]){1, seq, features}, ELEMENT_COMPUTE);
}

/* Of 1 to `most` positions and so many features. */
static int any_sequence(struct builder *b, struct rng *rng, int64_t most, int64_t least_features,
                        int64_t most_features)
{
    int64_t seq = from_to(rng, 1, most);
    return sequence(b, seq, from_to(rng, least_features, most_features));
}

static int image(struct builder *b, struct rng *rng, int64_t channels)
{
    int64_t height = from_to(rng, 4, 11);
    return build_image(b, channels, height, from_to(rng, 4, 11));
}

/* Of two to four axes. */
static int any_shape(struct builder *b, struct rng *rng, int64_t features)
{
    int64_t size[] = {1, from_to(rng, 1, 5), from_to(rng, 1, 6), features};
    int axes = (int)from_to(rng, 2, 4);
    size[axes - 1] = features;
    return build_input(b, axes, size, ELEMENT_COMPUTE);
}

static void make_embedding(struct builder *b, struct rng *rng)
{
    int64_t seq = from_to(rng, 1, 9), vocabulary = from_to(rng, 2, 13), width = from_to(rng, 1, 17);
    build_embedding(b, "op", build_tokens(b, seq), vocabulary, width,
                    maybe(rng) ? seq + rng_below(rng, 3) : 0);
}

static void make_linear(struct builder *b, struct rng *rng)
{
    int64_t in = from_to(rng, 1, 40);
    int x = maybe(rng) ? build_input(b, 2, (int64_t[]){1, in}, ELEMENT_COMPUTE)
                       : sequence(b, from_to(rng, 1, 9), in);
    int64_t out = from_to(rng, 1, 40);
    build_linear(b, "op", x, out, maybe(rng));
}

/* Rows that are no multiple of 16 bytes, and many of them. */
static void make_odd_linear(struct builder *b, struct rng *rng)
{
    int64_t rows = from_to(rng, 70, 90), in = from_to(rng, 1, 9), out = 1001 + from_to(rng, 0, 6);
    build_linear(b, "op", sequence(b, rows, in), out, maybe(rng));
}

static struct attention draw_heads(struct rng *rng)
{
    int64_t kv_heads = from_to(rng, 1, 3);
    return (struct attention){kv_heads * from_to(rng, 1, 3), kv_heads, from_to(rng, 1, 9), 0,
                              maybe(rng)};
}

/* A window on causal attention, now and then one that is longer than the sequence. */
static int64_t draw_span(struct rng *rng, const struct attention *a, int64_t seq)
{
    return a->causal && maybe(rng) ? from_to(rng, LEAST_WINDOW, seq + 2) : 0;
}

static void make_score(struct builder *b, struct rng *rng)
{
    struct attention a = draw_heads(rng);
    int64_t seq = from_to(rng, 1, 12), kv = a.causal ? seq : from_to(rng, 1, 12);
    a.window = draw_span(rng, &a, seq);
    a.chunked = a.window && maybe(rng);
    build_score(b, "op", sequence(b, seq, a.heads * a.depth), sequence(b, kv, a.kv_heads * a.depth),
                &a);
}

static void make_context(struct builder *b, struct rng *rng)
{
    struct attention a = draw_heads(rng);
    int64_t seq = from_to(rng, 1, 12), kv = from_to(rng, 1, 12);
    int p = build_input(b, 4, (int64_t[]){1, a.heads, seq, kv}, ELEMENT_COMPUTE);
    build_context(b, "op", p, sequence(b, kv, a.kv_heads * a.depth), &a);
}

static void attention_of(struct builder *b, struct rng *rng, int64_t seq, int64_t kv)
{
    struct attention a = draw_heads(rng);
    a.value_depth = maybe(rng) ? from_to(rng, 1, 9) : 0;
    a.causal = a.causal && seq == kv;
    a.window = draw_span(rng, &a, seq);
    a.chunked = a.window && maybe(rng);
    int64_t value = a.value_depth ? a.value_depth : a.depth;
    build_attention(b, "op", sequence(b, seq, a.heads * a.depth),
                    sequence(b, kv, a.kv_heads * a.depth), sequence(b, kv, a.kv_heads * value), &a);
    if (maybe(rng))
        build_sinks(b, a.heads);
}

static void make_attention(struct builder *b, struct rng *rng)
{
    int64_t seq = from_to(rng, 1, 80);
    attention_of(b, rng, seq, maybe(rng) ? seq : from_to(rng, 1, 80));
}

/* More than a block of keys, several of queries. */
static void make_long_attention(struct builder *b, struct rng *rng)
{
    int64_t seq = from_to(rng, 257, 300);
    attention_of(b, rng, seq, seq);
}

/* Heads as wide as models have them, for which a device may have kernels of their own. */
static void make_wide_attention(struct builder *b, struct rng *rng)
{
    int64_t kv_heads = from_to(rng, 1, 2), seq = from_to(rng, 1, 80);
    struct attention a = {kv_heads * from_to(rng, 1, 2), kv_heads, maybe(rng) ? 64 : 128, 0,
                          maybe(rng)};
    int64_t kv = a.causal ? seq : from_to(rng, 1, 80);
    a.window = draw_span(rng, &a, seq);
    a.chunked = a.window && maybe(rng);
    build_attention(b, "op", sequence(b, seq, a.heads * a.depth),
                    sequence(b, kv, a.kv_heads * a.depth), sequence(b, kv, a.kv_heads * a.depth),
                    &a);
}

/* Long enough for a library's kernels: every query sees all keys, or all before it. */
static void make_plain_attention(struct builder *b, struct rng *rng)
{
    int64_t kv_heads = from_to(rng, 1, 2), seq = from_to(rng, 64, 100);
    struct attention a = {kv_heads * from_to(rng, 1, 2), kv_heads, 8 * from_to(rng, 3, 9), 0,
                          maybe(rng)};
    int64_t kv = a.causal ? seq : from_to(rng, 64, 100);
    build_attention(b, "op", sequence(b, seq, a.heads * a.depth),
                    sequence(b, kv, a.kv_heads * a.depth), sequence(b, kv, a.kv_heads * a.depth),
                    &a);
}

/* A weight of this many numbers that no split touches. */
static void give_weight(struct builder *b, int64_t elements)
{
    struct op *op = build_last(b);
    op->weight = ARENA_NEW(b->arena, struct weight);
    op->weights = 1;
    op->weight->tied_op = -1;
    op->weight->operand = (struct operand){.tensor = -1, .axes = 1, .size = {elements}};
    memset(op->weight->operand.dims, -1, sizeof op->weight->operand.dims);
}

static void make_softmax(struct builder *b, struct rng *rng)
{
    int64_t heads = from_to(rng, 1, 4), seq = from_to(rng, 1, 9);
    bool causal = maybe(rng);
    int64_t size[] = {1, heads, seq, causal ? seq : from_to(rng, 1, 40)};
    int y = build_softmax(b, "op", build_input(b, 4, size, ELEMENT_COMPUTE), false);
    build_last(b)->causal = y >= 0 && causal;
    if (maybe(rng)) /* a bias of the scores, as T5's */
        give_weight(b, heads * from_to(rng, 1, 12));
    else if (maybe(rng))
        build_sinks(b, heads);
}

/* Rows of whole 16 bytes, with keys farther than the distances that have a bucket of their own. */
static void make_wide_softmax(struct builder *b, struct rng *rng)
{
    int64_t heads = from_to(rng, 1, 2), keys = 8 * from_to(rng, 15, 18);
    bool causal = maybe(rng);
    int64_t size[] = {1, heads, causal ? keys : from_to(rng, 1, 40), keys};
    build_softmax(b, "op", build_input(b, 4, size, ELEMENT_COMPUTE), false);
    build_last(b)->causal = causal;
    if (maybe(rng))
        give_weight(
            b, heads * from_to(rng, 12,
                               40)); /* a few buckets' gradients would be small sums of thousands */
    else if (!causal)
        build_sinks(b, heads);
}

/* Swin's: the heads of several windows, and a bias by offset. */
static void make_window_softmax(struct builder *b, struct rng *rng)
{
    int64_t side = from_to(rng, 1, 4), heads = from_to(rng, 1, 3), places = side * side;
    int64_t size[] = {1, heads * from_to(rng, 1, 3), places, places};
    build_softmax(b, "op", build_input(b, 4, size, ELEMENT_COMPUTE), false);
    give_weight(b, heads * (2 * side - 1) * (2 * side - 1));
}

static double any_epsilon(struct rng *rng)
{
    static const double EPSILONS[] = {1e-5, 1e-6, 0.5};
    return EPSILONS[rng_below(rng, COUNT_OF(EPSILONS))];
}

static void make_layer_norm(struct builder *b, struct rng *rng)
{
    b->norm_epsilon = any_epsilon(rng);
    build_layer_norm(b, "op", any_sequence(b, rng, 9, 2, 50));
}

static void make_rms_norm(struct builder *b, struct rng *rng)
{
    b->norm_epsilon = any_epsilon(rng);
    build_rms_norm(b, "op", any_sequence(b, rng, 9, 1, 50), true);
}

static void make_batch_norm(struct builder *b, struct rng *rng)
{
    build_batch_norm(b, "op", image(b, rng, from_to(rng, 1, 5)));
}

static void make_gelu(struct builder *b, struct rng *rng)
{
    build_gelu(b, "op", any_shape(b, rng, from_to(rng, 1, 300)));
}

static void make_relu(struct builder *b, struct rng *rng)
{
    build_relu(b, "op", any_shape(b, rng, from_to(rng, 1, 300)));
}

static void make_silu(struct builder *b, struct rng *rng)
{
    build_silu(b, "op", any_shape(b, rng, from_to(rng, 1, 300)));
}

static void make_gated(struct builder *b, struct rng *rng)
{
    int64_t seq = from_to(rng, 1, 9);
    build_gated(b, "op", sequence(b, seq, 2 * from_to(rng, 1, 300)));
    build_last(b)->gate = (enum gating)rng_below(rng, GATE_COUNT);
}

static void make_gated_pair(struct builder *b, struct rng *rng)
{
    int64_t seq = from_to(rng, 1, 9), width = from_to(rng, 1, 300);
    int gate = sequence(b, seq, width);
    build_gated_pair(b, "op", gate, sequence(b, seq, width));
    build_last(b)->gate = (enum gating)rng_below(rng, GATE_COUNT);
}

static void make_token_gate(struct builder *b, struct rng *rng)
{
    int64_t seq = from_to(rng, 1, 9), width = from_to(rng, 2, 600);
    int gate = sequence(b, seq, 1);
    build_token_gate(b, "op", gate, sequence(b, seq, width));
}

static void make_dropout(struct builder *b, struct rng *rng)
{
    build_dropout(b, "op", any_shape(b, rng, from_to(rng, 1, 300)));
}

static void make_dropout_add(struct builder *b, struct rng *rng)
{
    int64_t seq = from_to(rng, 1, 9), features = from_to(rng, 1, 300);
    build_dropout_add(b, "op", sequence(b, seq, features), sequence(b, seq, features));
}

static void make_add(struct builder *b, struct rng *rng)
{
    int64_t seq = from_to(rng, 1, 9), features = from_to(rng, 1, 300);
    build_add(b, "op", sequence(b, seq, features), sequence(b, seq, features));
}

static void make_positions(struct builder *b, struct rng *rng)
{
    int64_t seq = from_to(rng, 1, 9), features = from_to(rng, 1, 40);
    build_add(b, "op", sequence(b, seq, features), -1);
    give_weight(b, seq * features);
}

static void make_gated_add(struct builder *b, struct rng *rng)
{
    make_add(b, rng);
    give_weight(b, 1);
    build_last(b)->keep |= KEEP_INPUT_0;
}

/* A table of one of several equal parts of a sample, or one of which the sample takes the first rows. */
static void make_tiles(struct builder *b, struct rng *rng)
{
    int64_t rows = from_to(rng, 1, 4), features = from_to(rng, 1, 40), tiles = from_to(rng, 2, 4);
    bool more = maybe(rng);
    build_add(b, "op", sequence(b, more ? rows : rows * tiles, features), -1);
    give_weight(b, (more ? rows * tiles : rows) * features);
}

static void make_rotary(struct builder *b, struct rng *rng)
{
    int64_t depth = 2 * from_to(rng, 1, 5), share = from_to(rng, 1, 4), heads = from_to(rng, 1, 3);
    build_rotary(b, "op", sequence(b, from_to(rng, 1, 9), heads * share * depth));
    build_last(b)->head_depth = depth;
    build_last(b)->head_share = share * depth;
    build_last(b)->head_turned = from_to(rng, 1, share) * depth;
    build_last(b)->rope_scaling = maybe(rng) ? 8 : 0;
}

static void make_router(struct builder *b, struct rng *rng)
{
    int64_t experts = from_to(rng, 1, 8);
    build_router(b, "op", any_sequence(b, rng, 9, 1, 20), experts, 1);
    if (maybe(rng))
        build_weight(b, "bias", 1, &experts);
}

/* Scores of tokens whose number times top_k the experts divide, or do not. */
static int draw_scores(struct builder *b, struct rng *rng, int64_t *seq)
{
    int64_t experts = from_to(rng, 1, 6), top_k = from_to(rng, 1, experts < 3 ? experts : 3);
    *seq = maybe(rng) ? experts * from_to(rng, 1, 4) : from_to(rng, 1, 24);
    return build_router(b, "router", sequence(b, *seq, 3), experts, top_k);
}

static void make_dispatch(struct builder *b, struct rng *rng)
{
    int64_t seq;
    int scores = draw_scores(b, rng, &seq);
    build_dispatch(b, "op", sequence(b, seq, from_to(rng, 1, 20)), scores);
}

static void make_combine(struct builder *b, struct rng *rng)
{
    int64_t seq;
    int scores = draw_scores(b, rng, &seq);
    build_combine(b, "op", sequence(b, build_expert_places(b, scores), from_to(rng, 1, 20)),
                  scores);
}

static void make_expert_linear(struct builder *b, struct rng *rng)
{
    int64_t seq;
    int scores = draw_scores(b, rng, &seq);
    int x = build_dispatch(b, "dispatch", sequence(b, seq, from_to(rng, 1, 20)), scores);
    int64_t out = from_to(rng, 1, 20);
    build_expert_linear(b, "op", x, out, maybe(rng));
}

static struct window draw_window(struct rng *rng)
{
    int64_t kernel = from_to(rng, 1, 4);
    return (struct window){kernel, maybe(rng) ? kernel : from_to(rng, 1, 4), from_to(rng, 1, 2),
                           rng_below(rng, kernel / 2 + 1), 0};
}

static void make_conv(struct builder *b, struct rng *rng)
{
    int64_t groups = maybe(rng) ? 1 : from_to(rng, 1, 3);
    struct window w = draw_window(rng);
    int x = image(b, rng, groups * from_to(rng, 1, 4));
    int64_t channels = groups * from_to(rng, 1, 4);
    build_conv(b, "op", x, channels, &w, groups, maybe(rng));
}

static void make_pool(struct builder *b, struct rng *rng)
{
    struct window w = draw_window(rng);
    build_pool(b, "op", image(b, rng, from_to(rng, 1, 4)), &w);
    build_last(b)->kept_fp32 = maybe(rng); /* the maximum, or the mean */
}

static void make_concat(struct builder *b, struct rng *rng)
{
    int parts[CALL_INPUTS], count = (int)from_to(rng, 2, maybe(rng) ? 4 : CALL_INPUTS);
    int axis = (int)from_to(rng, 1, 2);
    int64_t size[] = {1, from_to(rng, 1, 5), from_to(rng, 1, 5)};
    for (int i = 0; i < count; i++) {
        size[axis] = from_to(rng, 1, 5);
        parts[i] = build_input(b, 3, size, ELEMENT_COMPUTE);
    }
    build_concat(b, "op", parts, count, axis);
}

static void make_embedding_bag(struct builder *b, struct rng *rng)
{
    int64_t tables = from_to(rng, 1, 5), rows = from_to(rng, 2, 13), width = from_to(rng, 1, 17);
    build_embedding_bag(b, "op", tables, rows, width, from_to(rng, 1, 3));
}

static void make_interaction(struct builder *b, struct rng *rng)
{
    int64_t tables = from_to(rng, 1, 5), width = from_to(rng, 1, 12);
    int dense = build_input(b, 2, (int64_t[]){1, width}, ELEMENT_COMPUTE);
    build_interaction(b, "op", dense,
                      build_input(b, 3, (int64_t[]){1, tables, width}, ELEMENT_COMPUTE));
}

static void make_loss(struct builder *b, struct rng *rng)
{
    int64_t seq = from_to(rng, 1, 9);
    int x = sequence(b, seq, from_to(rng, 1, maybe(rng) ? 2 : 60));
    if (maybe(rng))
        build_loss(b, "op", x);
    else
        build_fused_loss(b, "op", x, maybe(rng));
}

static void make_squared_relu(struct builder *b, struct rng *rng)
{
    build_squared_relu(b, "op", any_shape(b, rng, from_to(rng, 1, 40)));
}

static void make_conv1d(struct builder *b, struct rng *rng)
{
    int64_t groups = from_to(rng, 1, 4), features = groups * from_to(rng, 1, 6);
    int64_t seq = from_to(rng, 1, 9), kernel = from_to(rng, 1, 5);
    build_conv1d(b, "op", sequence(b, seq, features), (struct fused_part){0}, groups, kernel,
                 maybe(rng));
}

/* Features of one tensor for a scan or a delta rule, in groups whose heads share two vectors. */
static struct scan scan_sizes(struct rng *rng, int64_t least_state)
{
    struct scan s = {.groups = from_to(rng, 1, 3), .depth = from_to(rng, 1, 5), .chunk = 16};
    s.heads = s.groups * from_to(rng, 1, 3);
    s.state = from_to(rng, least_state, 7);
    return s;
}

static void scan_of(struct builder *b, const struct scan *s, int64_t seq)
{
    int xbc = sequence(b, seq, s->heads * s->depth + 2 * s->groups * s->state);
    build_scan(b, "op", xbc, sequence(b, seq, s->heads), (struct fused_part){0}, s);
}

static void delta_of(struct builder *b, const struct scan *s, int64_t seq)
{
    int qkv = sequence(b, seq, s->heads * s->depth + 2 * s->groups * s->state);
    build_delta(b, "op", qkv, sequence(b, seq, 2 * s->heads), s);
}

static void make_delta(struct builder *b, struct rng *rng)
{
    struct scan s = scan_sizes(rng, 2);
    delta_of(b, &s, from_to(rng, 1, 12));
}

static void make_scan(struct builder *b, struct rng *rng)
{
    struct scan s = scan_sizes(rng, 1);
    scan_of(b, &s, from_to(rng, 1, 12));
}

/* Over several spans of a kernel, the last one whole or ragged; states and heads from a few numbers to many. */
static struct scan long_sizes(struct rng *rng)
{
    struct scan s = {.groups = from_to(rng, 1, 2), .depth = from_to(rng, 1, 24), .chunk = 16};
    s.heads = s.groups * from_to(rng, 1, 2);
    s.state = from_to(rng, 2, 40);
    return s;
}

static int64_t long_sequence(struct rng *rng)
{
    return maybe(rng) ? 64 * from_to(rng, 1, 3) : from_to(rng, 65, 200);
}

static void make_long_delta(struct builder *b, struct rng *rng)
{
    struct scan s = long_sizes(rng);
    delta_of(b, &s, long_sequence(rng));
}

static void make_long_scan(struct builder *b, struct rng *rng)
{
    struct scan s = long_sizes(rng);
    scan_of(b, &s, long_sequence(rng));
}

/* Wider than the GPU's tiles of 64, in one direction or both. */
static struct scan wide_sizes(struct rng *rng)
{
    bool deep = maybe(rng);
    return (struct scan){.groups = 1,
                         .heads = from_to(rng, 1, 2),
                         .depth = from_to(rng, deep ? 60 : 1, 80),
                         .state = from_to(rng, deep ? 2 : 60, 140),
                         .chunk = 16};
}

static void make_wide_scan(struct builder *b, struct rng *rng)
{
    struct scan s = wide_sizes(rng);
    scan_of(b, &s, from_to(rng, 40, 70));
}

static void make_wide_delta(struct builder *b, struct rng *rng)
{
    struct scan s = wide_sizes(rng);
    delta_of(b, &s, from_to(rng, 40, 70));
}

static void make_gated_norm(struct builder *b, struct rng *rng)
{
    int64_t groups = from_to(rng, 1, 4), seq = from_to(rng, 1, 9);
    int64_t features = groups * from_to(rng, 2, 9);
    b->norm_epsilon = any_epsilon(rng);
    build_gated_norm(b, "op", sequence(b, seq, features), sequence(b, seq, features),
                     (struct fused_part){0}, groups);
}

/* One of the movements that families mean: the same, fewer, a weight in front, repeated rows. */
static void make_reshape(struct builder *b, struct rng *rng)
{
    int64_t seq = from_to(rng, 1, 6), width = from_to(rng, 1, 6), times = from_to(rng, 2, 4);
    int x = sequence(b, seq, width);
    switch (rng_below(rng, 6)) {
    case 0:
        build_reshape(b, "op", x, 2, (int64_t[]){1, seq * width});
        break;
    case 1:
        build_reshape(b, "op", x, 2, (int64_t[]){1, width});
        break;
    case 2:
        build_reshape(b, "op", x, 3, (int64_t[]){1, seq + 1, width});
        give_weight(b, width);
        break;
    case 3: /* a row before each of the sequence's */
        build_reshape(b, "op", x, 3, (int64_t[]){1, 2 * seq, width});
        give_weight(b, width);
        break;
    case 4:
        build_reshape(b, "op", x, 3, (int64_t[]){1, times * seq, width});
        build_last(b)->padded = true;
        break;
    default:
        build_reshape(b, "op", x, 3, (int64_t[]){1, seq, times * width});
        break;
    }
}

static const struct {
    enum op_kind kind;
    void (*make)(struct builder *b, struct rng *rng);
    int rounds;
} CASES[] = {
    {OP_EMBEDDING, make_embedding, 40},
    {OP_LINEAR, make_linear, 60},
    {OP_SCORE, make_score, 40},
    {OP_CONTEXT, make_context, 40},
    {OP_ATTENTION, make_attention, 30},
    {OP_ATTENTION, make_long_attention, 1},
    {OP_SOFTMAX, make_softmax, 60},
    {OP_SOFTMAX, make_window_softmax, 30},
    {OP_SOFTMAX, make_wide_softmax, 3},
    {OP_LAYER_NORM, make_layer_norm, 30},
    {OP_RMS_NORM, make_rms_norm, 30},
    {OP_BATCH_NORM, make_batch_norm, 30},
    {OP_GELU, make_gelu, 20},
    {OP_RELU, make_relu, 20},
    {OP_RELU, make_squared_relu, 20},
    {OP_SILU, make_silu, 20},
    {OP_GATED, make_gated, 60},
    {OP_GATED, make_gated_pair, 60},
    {OP_GATED, make_token_gate, 60},
    {OP_DROPOUT, make_dropout, 20},
    {OP_DROPOUT_ADD, make_dropout_add, 20},
    {OP_ADD, make_add, 20},
    {OP_ADD, make_positions, 20},
    {OP_ADD, make_gated_add, 20},
    {OP_ADD, make_tiles, 20},
    {OP_ROTARY, make_rotary, 40},
    {OP_CONV1D, make_conv1d, 40},
    {OP_SCAN, make_scan, 40},
    {OP_SCAN, make_long_scan, 3},
    {OP_SCAN, make_wide_scan, 2},
    {OP_DELTA, make_delta, 40},
    {OP_DELTA, make_long_delta, 3},
    {OP_DELTA, make_wide_delta, 2},
    {OP_GATED_NORM, make_gated_norm, 40},
    {OP_CONV, make_conv, 80},
    {OP_POOL, make_pool, 60},
    {OP_CONCAT, make_concat, 30},
    {OP_ROUTER, make_router, 40},
    {OP_DISPATCH, make_dispatch, 40},
    {OP_EXPERT_LINEAR, make_expert_linear, 40},
    {OP_COMBINE, make_combine, 40},
    {OP_EMBEDDING_BAG, make_embedding_bag, 30},
    {OP_INTERACTION, make_interaction, 30},
    {OP_LOSS, make_loss, 60},
    {OP_RESHAPE, make_reshape, 40},
    {OP_ATTENTION, make_wide_attention, 2},
    {OP_LINEAR, make_odd_linear, 1},
    {OP_ATTENTION, make_plain_attention, 2},
};

/* ---- a lab of one operator ------------------------------------------------------------------- */

/* Not near 0, where a relu has no slope. */
static double draw_number(struct rng *rng)
{
    double x = bf16_value(2 * rng_uniform(rng) - 1);
    return fabs(x) < 0.05 ? 0.5 : x;
}

/* Another number than the 250 on each side: the largest in a window is one. */
static double unlike_neighbours(int64_t i)
{
    return (double)(i * 37 % 251 - 125) / 128;
}

/* On both sides of where a clamped gate is cut off, and not near it. */
static double draw_wide(struct rng *rng)
{
    double x = 10 * draw_number(rng);
    return fabs(fabs(x) - 7) < 0.25 ? 5 : x;
}

static double *draw_numbers(struct lab *lab, const struct operand *operand)
{
    int64_t count = elements_in(lab->op, operand, lab->whole);
    double *numbers = ARENA_ARRAY(lab->arena, double, (size_t)count);
    bool scores = operand->element == ELEMENT_FP32 && operand != &lab->op->output;
    bool apart = lab->op->kind == OP_POOL || scores; /* which one is largest has no slope */
    for (int64_t i = 0; i < count; i++)
        numbers[i] = apart                           ? unlike_neighbours(i)
                     : lab->op->gate == GATE_CLAMPED ? bf16_value(draw_wide(&lab->rng))
                                                     : draw_number(&lab->rng);
    return numbers;
}

static void draw_ids(struct lab *lab)
{
    bool loss = lab->op->kind == OP_LOSS;
    const struct operand *operand = loss ? &lab->op->output : &lab->op->input[0];
    int64_t count = elements_in(lab->op, operand, lab->whole);
    int64_t vocab = loss && lab->op->size[2] == 1 ? 2 : lab->op->size[2];
    lab->ids = ARENA_ARRAY(lab->arena, int64_t, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        lab->ids[i] = loss && rng_below(&lab->rng, 6) == 0 ? -1 : rng_below(&lab->rng, vocab);
}

static int64_t seen_first(const struct op *op, int64_t query)
{
    int64_t window = op->window;
    return !window ? 0 : op->chunked ? query - query % window : query - window + 1;
}

/* What a softmax after would make of the gradient of masked scores (cpu_matmul.c, I1). */
static void clear_masked(struct lab *lab)
{
    int64_t seq = lab->op->size[3], kv = lab->op->size[4];
    int64_t count = elements_in(lab->op, &lab->op->output, lab->whole);
    for (int64_t i = 0; i < count; i++)
        if (i % kv > i / kv % seq || i % kv < seen_first(lab->op, i / kv % seq))
            lab->output_gradient[i] = 0;
}

static void lab_open(struct lab *lab, void (*make)(struct builder *, struct rng *), uint64_t seed)
{
    memset(lab, 0, sizeof *lab);
    rng_seed(&lab->rng, seed);
    struct builder *b = build_start("lab", "test", "test");
    make(b, &lab->rng);
    assert_int_equal(build_finish(b, &lab->model), WEFT_OK);
    lab->arena = arena_new();
    lab->op = &lab->model->op[lab->model->ops - 1];
    lab->batch = 1 + rng_below(&lab->rng, 3);
    lab->seed = seed;
    lab->dropout = (float)rng_uniform(&lab->rng) * 0.6F;
    op_full_size(lab->op, lab->batch, lab->whole);
    if (lab->op->kind == OP_LOSS || lab->op->kind == OP_EMBEDDING ||
        lab->op->kind == OP_EMBEDDING_BAG)
        draw_ids(lab);
    for (int i = 0; i < lab->op->inputs; i++)
        lab->input[i] = draw_numbers(lab, &lab->op->input[i]);
    for (int i = 0; i < lab->op->weights; i++)
        lab->weight[i] = draw_numbers(lab, &lab->op->weight[i].operand);
    lab->output_gradient = draw_numbers(lab, &lab->op->output);
    if (lab->op->kind == OP_SCORE && lab->op->causal)
        clear_masked(lab);
}

static void lab_close(struct lab *lab)
{
    arena_free(lab->arena);
    model_free(lab->model);
}

#endif
