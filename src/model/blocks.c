/* blocks.c - attention, MLP, loss and the two ends of a block, for every transformer family (see
 * blocks.h). */
#include "model/blocks.h"

#include <string.h>

const char *const ATTENTION_WORDS[] = {"flash",    "fused", "eager", "flash-v1",
                                       "flash-v2", "local", NULL};
const char *const LOSS_WORDS[] = {"plain", "fused", "compiled", "eager", NULL};
const char *const DTYPE_WORDS[] = {"fp32", "tf32", "fp16", "bf16", "fp8", "nvfp4", NULL};
_Static_assert(COUNT_OF(DTYPE_WORDS) == DTYPE_COUNT + 1, "a dtype without a word");

void block_add_weight(struct builder *b, const char *name, int64_t elements)
{
    if (b->status != WEFT_OK)
        return;
    struct op *op = build_last(b);
    struct weight *all = ARENA_ARRAY(b->arena, struct weight, (size_t)op->weights + 1);
    if (op->weights)
        memcpy(all, op->weight, sizeof *all * (size_t)op->weights);
    struct weight *weight = &all[op->weights++];
    *weight = (struct weight){.name = name, .tied_op = -1};
    weight->operand = (struct operand){.tensor = -1, .axes = 1, .size = {elements}};
    memset(weight->operand.dims, -1, sizeof weight->operand.dims);
    op->weight = all;
}

/* ---- ends of a block ------------------------------------------------------------------------- */

int block_norm(struct builder *b, const char *name, int x, enum norm norm)
{
    return norm == NORM_LAYER ? build_layer_norm(b, name, x)
                              : build_rms_norm(b, name, x, norm == NORM_RMS);
}

/* x + tanh(gate) y, with one gate for all elements. */
static int gated_add(struct builder *b, int y, int x)
{
    int sum = build_add(b, "add", y, x);
    block_add_weight(b, "gate", 1);
    if (sum >= 0)
        build_last(b)->keep |= KEEP_INPUT_0;
    return sum;
}

int block_residual(struct builder *b, int y, int x, const struct block_style *style)
{
    if (style->gated)
        return gated_add(b, y, x);
    return style->dropout ? build_dropout_add(b, "dropout_add", y, x) : build_add(b, "add", y, x);
}

int block_open(struct builder *b, const char *module, int x, const struct block_style *style)
{
    build_module(b, module);
    if (style->streams)
        x = streams_in(b, x, style->streams);
    return style->post_norm || style->no_norm ? x : block_norm(b, "norm", x, style->norm);
}

int block_close(struct builder *b, int y, int x, const struct block_style *style)
{
    if (style->end_norm)
        y = block_norm(b, "end_norm", y, style->norm);
    if (style->streams)
        y = streams_out(b, y, x, style->streams);
    else if (!style->branch)
        y = block_residual(b, y, x, style);
    if (style->post_norm)
        y = block_norm(b, "norm", y, style->norm);
    build_module_end(b);
    return y;
}

/* ---- attention ------------------------------------------------------------------------------- */

static int softmax(struct builder *b, int scores, const struct attention_block *a)
{
    bool local = a->kernel == ATTENTION_LOCAL, eager = a->kernel == ATTENTION_EAGER || local;
    /* where() applies the mask: its backward pass keeps the mask, not its input. masked_fill_(), as in
     * Megatron-LM, has one mask for all samples, heads and layers. */
    bool masked = a->shape.causal && !a->score_bias;
    int x = build_softmax(b, "softmax", scores, eager && !masked);
    if (eager && masked && !local && x >= 0)
        build_last(b)->keep |= KEEP_MASK;
    if (!eager && x >= 0)
        build_last(b)->causal = a->shape.causal;
    if (a->score_bias)
        block_add_weight(b, "relative_bias", a->score_bias);
    else if (a->sinks)
        build_sinks(b, a->shape.heads);
    return x;
}

int flash_version(enum attention_kernel kernel)
{
    static const int VERSIONS[] = {
        [ATTENTION_FLASH] = 0,    [ATTENTION_FUSED] = -1,   [ATTENTION_EAGER] = -1,
        [ATTENTION_FLASH_V1] = 1, [ATTENTION_FLASH_V2] = 2, [ATTENTION_LOCAL] = -1};
    return VERSIONS[kernel];
}

int block_core(struct builder *b, int q, int k, int v, const struct block_style *style,
               const struct attention_block *a)
{
    if (flash_version(a->kernel) >= 0) {
        int y = build_attention(b, "attention", q, k, v, &a->shape);
        if (y >= 0)
            build_last(b)->flash = flash_version(a->kernel);
        if (a->sinks)
            build_sinks(b, a->shape.heads);
        return y;
    }
    int scores = build_score(b, "score", q, k, &a->shape);
    if (a->kernel == ATTENTION_LOCAL && scores >= 0)
        build_last(b)->keep |= KEEP_BUFFER;
    int p = softmax(b, scores, a);
    if (style->dropout)
        p = build_dropout(b, "dropout", p);
    return build_context(b, "context", p, v, &a->shape);
}

/* Windows are independent attentions: their number multiplies that of the heads. */
static int windowed_core(struct builder *b, int qkv, const struct block_style *style,
                         const struct attention_block *a)
{
    int64_t seq = build_tensor(b, qkv)->size[1], windows = seq / a->window;
    int64_t inner = a->shape.heads * a->shape.depth;
    struct attention_block each = *a;
    each.shape.heads *= windows;
    each.shape.kv_heads *= windows;
    qkv = build_view(b, qkv, 3, (int64_t[]){1, a->window, windows * 3 * inner});
    int y = block_core(b, qkv, qkv, qkv, style, &each);
    return build_view(b, y, 3, (int64_t[]){1, seq, inner});
}

/* Of every `share` heads (a key/value head with its queries, key and value) the first `turned` are
 * rotated. */
static int rotated(struct builder *b, const char *name, int x, const struct attention_block *a,
                   int64_t share, int64_t turned)
{
    if (!a->rotary)
        return x;
    int y = build_rotary(b, name, x);
    if (y >= 0) {
        int64_t depth = a->shape.depth;
        build_last(b)->head_depth = a->rotated ? a->rotated : depth;
        if (a->rope_base > 0)
            build_last(b)->rope_base = a->rope_base;
        build_last(b)->rope_scaling = a->rope_scaling;
        build_last(b)->stretch = a->stretch;
        build_last(b)->head_share = share * depth;
        build_last(b)->head_turned = a->rotated ? a->rotated : turned * depth;
    }
    return y;
}

static int gated_output(struct builder *b, int x, int y)
{
    int gate = build_linear(b, "output_gate", x, build_features(b, y), false);
    y = build_gated_pair(b, "gated_output", gate, y);
    if (y >= 0)
        build_last(b)->gate = GATE_SIGMOID;
    return y;
}

static bool is_apart(const struct attention_block *a)
{
    return a->qk_norm || a->apart || a->rotated || a->output_gate;
}

/* The RMS norm of each head, or of all as one vector. */
static int query_norm(struct builder *b, const char *name, int x, int64_t heads,
                      const struct attention_block *a)
{
    if (!a->qk_norm)
        return x;
    return a->wide_qk_norm ? build_rms_norm(b, name, x, true) : build_head_norm(b, name, x, heads);
}

static int apart_core(struct builder *b, int x, const struct block_style *style,
                      const struct attention_block *a)
{
    int64_t depth = a->shape.depth, kv = a->shape.kv_heads * depth;
    int q = build_linear(b, "q", x, a->shape.heads * depth, a->qkv_bias);
    int k = build_linear(b, "k", x, kv, a->qkv_bias);
    int v = build_linear(b, "v", x, kv, a->qkv_bias);
    q = query_norm(b, "q_norm", q, a->shape.heads, a);
    k = query_norm(b, "k_norm", k, a->shape.kv_heads, a);
    q = rotated(b, "q_rotary", q, a, 1, 1);
    k = rotated(b, "k_rotary", k, a, 1, 1);
    int y = block_core(b, q, k, v, style, a);
    return a->output_gate ? gated_output(b, x, y) : y;
}

static int fused_core(struct builder *b, int x, const struct block_style *style,
                      const struct attention_block *a)
{
    int64_t out = (a->shape.heads + 2 * a->shape.kv_heads) * a->shape.depth;
    int64_t group = a->shape.heads / a->shape.kv_heads;
    int qkv = build_linear(b, "qkv", x, out, style->bias || a->qkv_bias);
    qkv = rotated(b, "rotary", qkv, a, group + 2, group + 1);
    return a->window ? windowed_core(b, qkv, style, a) : block_core(b, qkv, qkv, qkv, style, a);
}

/* Reorders the tokens into windows, or back (shifted in every other Swin layer). */
static int reordered(struct builder *b, const char *name, int x, const struct attention_block *a)
{
    struct tensor t = *build_tensor(b, x);
    return a->window ? build_reshape(b, name, x, t.axes, t.size) : x;
}

int block_attention(struct builder *b, int x, const struct block_style *style,
                    const struct attention_block *a)
{
    int64_t hidden = build_features(b, x);
    int y = reordered(b, "partition", block_open(b, "attn", x, style), a);
    y = is_apart(a) ? apart_core(b, y, style, a) : fused_core(b, y, style, a);
    y = build_linear(b, "proj", y, hidden, style->bias || a->proj_bias);
    return block_close(b, reordered(b, "reverse", y, a), x, style);
}

static int64_t rounded_up(int64_t count, int64_t multiple)
{
    return ceil_div(count, multiple) * multiple;
}

static void warn_of_padding(struct builder *b, int64_t heads, int64_t more)
{
    struct model *model = b->model;
    if (model->warnings.len) /* of another layer */
        return;
    array_push(b->arena, &model->warnings,
               arena_printf(b->arena,
                            "attention has %lld heads: %lld more than the model's are computed, so "
                            "that they can be split",
                            (long long)heads, (long long)more));
}

void block_pad_heads(struct builder *b, struct attention *a, int64_t multiple)
{
    int64_t before = a->heads, group = a->heads / a->kv_heads;
    if (multiple < 2)
        return;
    int64_t each = multiple / common_divisor(a->kv_heads, multiple);
    int64_t deeper = a->kv_heads * rounded_up(group, each);
    int64_t wider = rounded_up(a->kv_heads, multiple) * group;
    a->heads = deeper < wider ? deeper : wider;
    a->kv_heads = deeper < wider ? a->kv_heads : wider / group;
    if (a->heads > before)
        warn_of_padding(b, a->heads, a->heads - before);
}

/* Keys and values of a memory as one product, or apart with norms of queries and keys. */
static int memory_core(struct builder *b, int q, int memory, const struct block_style *style,
                       const struct attention_block *a)
{
    int64_t kv = a->shape.kv_heads * a->shape.depth;
    if (!is_apart(a)) {
        int both = build_linear(b, "kv", memory, 2 * kv, style->bias);
        return block_core(b, q, both, both, style, a);
    }
    int k = build_linear(b, "k", memory, kv, style->bias);
    int v = build_linear(b, "v", memory, kv, style->bias);
    q = build_head_norm(b, "q_norm", q, a->shape.heads);
    k = build_head_norm(b, "k_norm", k, a->shape.kv_heads);
    return block_core(b, q, k, v, style, a);
}

int block_cross_attention(struct builder *b, int x, int memory, const struct block_style *style,
                          const struct attention_block *a)
{
    int64_t inner = a->shape.heads * a->shape.depth;
    int q = build_linear(b, "q", block_open(b, "cross", x, style), inner, style->bias);
    int y = memory_core(b, q, memory, style, a);
    y = build_linear(b, "proj", y, build_features(b, x), style->bias);
    return block_close(b, y, x, style);
}

/* ---- MLP ------------------------------------------------------------------------------------- */

static const struct {
    const char *up, *name;
    int (*build)(struct builder *b, const char *name, int x);
    int width; /* features of `up`'s output, in multiples of ffn */
    enum gating gate;
} ACTIVATIONS[] = {
    [ACTIVATION_GELU] = {"up", "gelu", build_gelu, 1},
    [ACTIVATION_RELU] = {"up", "relu", build_relu, 1},
    [ACTIVATION_RELU2] = {"up", "relu2", build_squared_relu, 1},
    [ACTIVATION_GATED] = {"gate_up", "gated", build_gated, 2, GATE_SILU},
    [ACTIVATION_GATED_GELU] = {"gate_up", "gated", build_gated, 2, GATE_GELU},
    [ACTIVATION_GATED_CLAMPED] = {"gate_up", "gated", build_gated, 2, GATE_CLAMPED},
};
_Static_assert(COUNT_OF(ACTIVATIONS) == ACTIVATION_COUNT, "an activation without a row");

static int activation(struct builder *b, int up, enum activation activation)
{
    int y = ACTIVATIONS[activation].build(b, ACTIVATIONS[activation].name, up);
    if (y >= 0)
        build_last(b)->gate = ACTIVATIONS[activation].gate;
    return y;
}

static int activated(struct builder *b, int x, bool bias, const struct mlp_block *m)
{
    int y = build_linear(b, ACTIVATIONS[m->activation].up, x,
                         m->ffn * ACTIVATIONS[m->activation].width, bias);
    return activation(b, y, m->activation);
}

static int gate_and_up(struct builder *b, int x, bool bias, const struct mlp_block *m)
{
    int gate = build_linear(b, "gate", x, m->ffn, bias);
    int y = build_gated_pair(b, "gated", gate, build_linear(b, "up", x, m->ffn, bias));
    if (y >= 0)
        build_last(b)->gate = ACTIVATIONS[m->activation].gate;
    return y;
}

int block_feed_forward(struct builder *b, int x, bool bias, const struct mlp_block *m)
{
    int64_t hidden = build_features(b, x);
    bool apart = m->apart && ACTIVATIONS[m->activation].width == 2;
    int y = apart ? gate_and_up(b, x, bias, m) : activated(b, x, bias, m);
    if (m->dropout)
        y = build_dropout(b, "dropout", y);
    return build_linear(b, "down", y, hidden, bias);
}

int block_mlp(struct builder *b, int x, const struct block_style *style, const struct mlp_block *m)
{
    int y = block_feed_forward(b, block_open(b, "mlp", x, style), style->bias, m);
    return block_close(b, y, x, style);
}

/* A product into the latent width or back, of the tokens that each device has (Megatron's
 * "duplicated"). */
static int latent(struct builder *b, const char *name, int x, int64_t width)
{
    int y = build_linear(b, name, x, width, false);
    if (y >= 0)
        build_last(b)->by_stream = true;
    return y;
}

/* Tells the dispatch or combine appended last where tokens go. */
static int set_copies(struct builder *b, int y, const struct expert_block *e)
{
    if (y >= 0) {
        build_last(b)->copies = e->copies;
        build_last(b)->routing = e->routing;
    }
    return y;
}

/* Tells the operator appended last how unevenly its tokens come. */
static int set_skew(struct builder *b, int y, const struct expert_block *e)
{
    if (y >= 0 && e->routing.skew > 0 && e->capacity == 0) {
        build_last(b)->routing.skew = e->routing.skew;
        build_last(b)->top_k = (int32_t)e->top_k;
        build_last(b)->skewed_experts = e->experts;
    }
    return y;
}

int block_experts(struct builder *b, int x, const struct expert_block *e)
{
    int64_t hidden = build_features(b, x), up = e->ffn * ACTIVATIONS[e->activation].width;
    build_module(b, "experts");
    int scores = build_router(b, "router", x, e->experts, e->top_k);
    if (scores >= 0) {
        build_last(b)->routing = e->routing;
        build_last(b)->capacity = e->capacity;
    }
    if (e->router_bias)
        build_weight(b, "bias", 1, &e->experts);
    int y = e->latent ? latent(b, "latent_down", x, e->latent) : x;
    y = set_copies(b, build_dispatch(b, "dispatch", y, scores), e);
    y = set_skew(b, build_expert_linear(b, ACTIVATIONS[e->activation].up, y, up, e->bias), e);
    y = set_skew(b, activation(b, y, e->activation), e);
    y = set_skew(b, build_expert_linear(b, "down", y, e->latent ? e->latent : hidden, e->bias), e);
    y = set_copies(b, build_combine(b, "combine", y, scores), e);
    if (e->latent)
        y = latent(b, "latent_up", y, hidden);
    build_module_end(b);
    return y;
}

/* ---- the loss -------------------------------------------------------------------------------- */

int block_loss(struct builder *b, int logits, int loss)
{
    if (loss == LOSS_FUSED || loss == LOSS_COMPILED)
        return build_fused_loss(b, "loss", logits, loss == LOSS_COMPILED);
    int y = build_loss(b, "loss", logits);
    if (y >= 0 && loss == LOSS_EAGER)
        build_last(b)->keep |= KEEP_STEPS;
    return y;
}

/* ---- images ---------------------------------------------------------------------------------- */

int block_patches(struct builder *b, int64_t image, int64_t patch, int64_t hidden)
{
    struct window w = {patch, patch, patch, 0, 0};
    int64_t side = image / patch;
    int x = build_conv(b, "patches", build_image(b, 3, image, image), hidden, &w, 1, true);
    return build_view(b, x, 3, (int64_t[]){1, side * side, hidden});
}
