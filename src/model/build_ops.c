/* build_ops.c - the operators that a builder can append, each with its operands and what it keeps.
 *
 * Every function drafts one operator (draft.h): its inputs give the sizes of most dims, the others
 * are set by name; the weights follow the kind's row; the call that sets the output appends it.
 */
#include "model/draft.h"

#include <math.h>

/* ---- operators: embeddings and products ------------------------------------------------------ */

int build_embedding(struct builder *b, const char *name, int ids, int64_t vocab, int64_t width,
                    int64_t positions)
{
    struct op op = draft_op(b, OP_EMBEDDING, name);
    int64_t seq = build_features(b, ids);
    draft_dim(&op, DIM_VOCAB, vocab);
    draft_inputs(b, &op, &ids, 1);
    draft_weight(b, &op, "weight", 2, (int64_t[]){vocab, width});
    if (positions)
        draft_weight(b, &op, "positions", 2, (int64_t[]){positions, width});
    return draft_append(b, &op, 3, (int64_t[]){1, seq, width}, ELEMENT_COMPUTE);
}

int build_embedding_bag(struct builder *b, const char *name, int64_t tables, int64_t rows,
                        int64_t width, int64_t lookups)
{
    struct op op = draft_op(b, OP_EMBEDDING_BAG, name);
    int ids = build_input(b, 3, (int64_t[]){1, tables, lookups}, ELEMENT_INDEX);
    draft_dim(&op, DIM_VOCAB, rows);
    op.top_k = (int32_t)lookups;
    draft_inputs(b, &op, &ids, 1);
    draft_weight(b, &op, "weight", 3, (int64_t[]){tables, rows, width});
    return draft_append(b, &op, 3, (int64_t[]){1, tables, width}, ELEMENT_COMPUTE);
}

static int plain_linear(struct builder *b, const char *name, int x, int64_t out, bool bias)
{
    struct op op = draft_op(b, OP_LINEAR, name);
    int64_t in = build_features(b, x);
    draft_inputs(b, &op, &x, 1);
    draft_weight(b, &op, "weight", 2, (int64_t[]){out, in});
    if (bias)
        draft_weight(b, &op, "bias", 1, &out);
    return draft_append_like(b, &op, x, out);
}

/* ---- adapters: y + B A x of rank r beside a frozen product (LoRA, Hu et al., 2021, Eq. 3) -------- */

const char *const LORA_WORDS[] = {"attention", "qkv", "all", NULL};

/* Products whose input tensor parallelism splits by features (rows) and those that it splits by outputs. */
static const struct {
    const char *name;
    bool rows, attention;
} ADAPTED[] = {
    {"qkv", false, true},   {"q", false, true},   {"k", false, true},
    {"v", false, true},     {"proj", true, true}, {"gate_up", false, false},
    {"gate", false, false}, {"up", false, false}, {"down", true, false},
};

/* The product's place in ADAPTED; -1: it has no adapter. */
static int adapter_of(const struct builder *b, const char *name)
{
    int at = b->lora.rank > 0 ? NAME_INDEX(name, ADAPTED) : -1;
    if (at < 0 || b->lora.modules == LORA_ALL)
        return at;
    bool wanted = ADAPTED[at].attention && (b->lora.modules == LORA_ATTENTION || !ADAPTED[at].rows);
    return wanted ? at : -1;
}

/* The narrow tensor between A and B is summed or gathered, never the wide one: beside a product split by outputs A is
 * laid out like the residual stream, beside one split by inputs B is. */
static int adapt(struct builder *b, const char *name, int x, int y, bool rows)
{
    int64_t out = build_features(b, y);
    b->lora.open = true;
    int narrow = plain_linear(b, arena_printf(b->arena, "%s_a", name), x, b->lora.rank, false);
    if (narrow >= 0)
        build_last(b)->by_stream = !rows;
    int wide = plain_linear(b, arena_printf(b->arena, "%s_b", name), narrow, out, false);
    if (wide >= 0)
        build_last(b)->by_stream = rows;
    int sum = build_add(b, arena_printf(b->arena, "%s_sum", name), y, wide);
    b->lora.open = false;
    return sum;
}

int build_linear(struct builder *b, const char *name, int x, int64_t out, bool bias)
{
    int y = plain_linear(b, name, x, out, bias), at = adapter_of(b, name);
    return at >= 0 && y >= 0 ? adapt(b, name, x, y, ADAPTED[at].rows) : y;
}

int build_tied_linear(struct builder *b, const char *name, int x, int32_t embedding_op)
{
    int64_t vocab = 1;
    if (embedding_op >= 0 && (size_t)embedding_op < b->ops.len)
        vocab = b->ops.data[embedding_op].weight[0].operand.size[0];
    int logits = build_linear(b, name, x, vocab, false);
    if (logits >= 0)
        build_last(b)->weight[0].tied_op = embedding_op;
    return logits;
}

/* ---- operators: attention -------------------------------------------------------------------- */

static void set_heads(struct op *op, const struct attention *a, int64_t seq, int64_t kv)
{
    draft_dim(op, DIM_HEAD, a->kv_heads);
    draft_dim(op, DIM_GROUP, a->heads / a->kv_heads);
    draft_dim(op, DIM_DEPTH, a->depth);
    draft_dim(op, DIM_SEQ, seq);
    draft_dim(op, DIM_KV, kv);
    op->causal = a->causal;
    op->window = a->window;
    op->chunked = a->chunked;
}

static int64_t positions_of(const struct builder *b, int tensor)
{
    return build_tensor(b, tensor)->size[1];
}

int build_score(struct builder *b, const char *name, int q, int k, const struct attention *a)
{
    struct op op = draft_op(b, OP_SCORE, name);
    int64_t seq = positions_of(b, q), kv = positions_of(b, k);
    set_heads(&op, a, seq, kv);
    draft_inputs(b, &op, (int[]){q, k}, 2);
    draft_narrow(&op.input[0], a->heads * a->depth);
    draft_narrow(&op.input[1], a->kv_heads * a->depth);
    return draft_append(b, &op, 4, (int64_t[]){1, a->heads, seq, kv}, ELEMENT_COMPUTE);
}

int build_context(struct builder *b, const char *name, int probabilities, int v,
                  const struct attention *a)
{
    struct op op = draft_op(b, OP_CONTEXT, name);
    int64_t seq = build_tensor(b, probabilities)->size[2], kv = positions_of(b, v);
    int64_t depth = a->value_depth ? a->value_depth : a->depth;
    set_heads(&op, a, seq, kv);
    draft_dim(&op, DIM_DEPTH, depth);
    draft_inputs(b, &op, (int[]){probabilities, v}, 2);
    draft_narrow(&op.input[1], a->kv_heads * depth);
    return draft_append(b, &op, 3, (int64_t[]){1, seq, a->heads * depth}, ELEMENT_COMPUTE);
}

int build_attention(struct builder *b, const char *name, int q, int k, int v,
                    const struct attention *a)
{
    struct op op = draft_op(b, OP_ATTENTION, name);
    int64_t seq = positions_of(b, q), kv = positions_of(b, k);
    int64_t value = a->value_depth ? a->value_depth : a->depth;
    set_heads(&op, a, seq, kv);
    op.value_depth = value;
    op.kept_fp32 = a->heads * seq; /* the log-sum-exp of each row of scores */
    draft_inputs(b, &op, (int[]){q, k, v}, 3);
    draft_narrow(&op.input[0], a->heads * a->depth);
    draft_narrow(&op.input[1], a->kv_heads * a->depth);
    draft_narrow(&op.input[2], a->kv_heads * value);
    return draft_append(b, &op, 3, (int64_t[]){1, seq, a->heads * value}, ELEMENT_COMPUTE);
}

int build_softmax(struct builder *b, const char *name, int x, bool keep_input)
{
    struct op op = draft_op(b, OP_SOFTMAX, name);
    draft_inputs(b, &op, &x, 1);
    if (keep_input)
        op.keep |= KEEP_INPUT_0;
    return draft_append_like(b, &op, x, build_features(b, x));
}

void build_weight(struct builder *b, const char *name, int axes, const int64_t *size)
{
    if (b->status == WEFT_OK)
        draft_weight(b, build_last(b), name, axes, size);
}

void build_sinks(struct builder *b, int64_t heads)
{
    build_weight(b, "sinks", 1, &heads);
    if (b->status == WEFT_OK)
        build_last(b)->sinks = true;
}

/* ---- operators: bound by bytes --------------------------------------------------------------- */

static int64_t rows_of(const struct builder *b, int x)
{
    const struct tensor *t = build_tensor(b, x);
    int64_t rows = 1;
    for (int i = 0; i + 1 < t->axes; i++)
        rows *= t->size[i];
    return rows;
}

int build_layer_norm(struct builder *b, const char *name, int x)
{
    struct op op = draft_op(b, OP_LAYER_NORM, name);
    int64_t features = build_features(b, x);
    draft_inputs(b, &op, &x, 1);
    draft_weight(b, &op, "weight", 1, &features);
    draft_weight(b, &op, "bias", 1, &features);
    op.kept_fp32 = 2 * rows_of(b, x); /* mean and reciprocal deviation */
    op.epsilon = b->norm_epsilon;
    return draft_append_like(b, &op, x, features);
}

int build_rms_norm(struct builder *b, const char *name, int x, bool fused)
{
    int y = build_head_norm(b, name, x, 1);
    if (y >= 0 && !fused) /* the normalised copy */
        build_last(b)->kept_elements = rows_of(b, x) * build_features(b, x);
    return y;
}

static int elementwise(struct builder *b, enum op_kind kind, const char *name, int x, int y,
                       int64_t features)
{
    struct op op = draft_op(b, kind, name);
    draft_inputs(b, &op, (int[]){x, y}, y >= 0 ? 2 : 1);
    if (kind == OP_GATED && y >= 0)
        op.keep |= KEEP_INPUT_1;
    else if (kind == OP_GATED)
        draft_dim(&op, DIM_HIDDEN, features); /* the input's last axis is twice as long */
    return draft_append_like(b, &op, x, features);
}

int build_gelu(struct builder *b, const char *name, int x)
{
    return elementwise(b, OP_GELU, name, x, -1, build_features(b, x));
}

int build_relu(struct builder *b, const char *name, int x)
{
    return elementwise(b, OP_RELU, name, x, -1, build_features(b, x));
}

int build_squared_relu(struct builder *b, const char *name, int x)
{
    int y = build_relu(b, name, x);
    if (y >= 0) {
        build_last(b)->squared = true;
        build_last(b)->keep = KEEP_INPUT_0; /* the slope is 2x: the backward pass reads x */
    }
    return y;
}

int build_silu(struct builder *b, const char *name, int x)
{
    return elementwise(b, OP_SILU, name, x, -1, build_features(b, x));
}

int build_gated(struct builder *b, const char *name, int gate_up)
{
    return elementwise(b, OP_GATED, name, gate_up, -1, build_features(b, gate_up) / 2);
}

int build_gated_pair(struct builder *b, const char *name, int gate, int up)
{
    return elementwise(b, OP_GATED, name, gate, up, build_features(b, gate));
}

int build_dropout(struct builder *b, const char *name, int x)
{
    return elementwise(b, OP_DROPOUT, name, x, -1, build_features(b, x));
}

int build_dropout_add(struct builder *b, const char *name, int x, int residual)
{
    return elementwise(b, OP_DROPOUT_ADD, name, x, residual, build_features(b, x));
}

int build_add(struct builder *b, const char *name, int x, int y)
{
    return elementwise(b, OP_ADD, name, x, y, build_features(b, x));
}

int build_rotary(struct builder *b, const char *name, int x)
{
    int y = elementwise(b, OP_ROTARY, name, x, -1, build_features(b, x));
    if (y >= 0)
        build_last(b)->rope_base = ROPE_BASE;
    return y;
}

int build_loss(struct builder *b, const char *name, int logits)
{
    struct op op = draft_op(b, OP_LOSS, name);
    struct tensor t = *build_tensor(b, logits);
    draft_inputs(b, &op, &logits, 1);
    op.kept_fp32 = rows_of(b, logits) * t.size[t.axes - 1]; /* probabilities */
    return draft_append(b, &op, t.axes - 1, t.size, ELEMENT_FP32);
}

int build_fused_loss(struct builder *b, const char *name, int logits, bool apart)
{
    struct op op = draft_op(b, OP_LOSS, name);
    struct tensor t = *build_tensor(b, logits);
    draft_inputs(b, &op, &logits, 1);
    op.keep |= KEEP_INPUT_0 | (apart ? KEEP_APART : 0);
    return draft_append(b, &op, t.axes - 1, t.size, ELEMENT_FP32);
}

/* ---- operators: experts ---------------------------------------------------------------------- */

int build_router(struct builder *b, const char *name, int x, int64_t experts, int64_t top_k)
{
    struct op op = draft_op(b, OP_ROUTER, name);
    int64_t in = build_features(b, x);
    op.top_k = (int32_t)top_k;
    op.routing = (struct routing){ROUTING_DEFAULTS};
    draft_inputs(b, &op, &x, 1);
    draft_weight(b, &op, "weight", 2, (int64_t[]){experts, in});
    struct tensor scores = *build_tensor(b, x);
    scores.size[scores.axes - 1] = experts;
    return draft_append(b, &op, scores.axes, scores.size, ELEMENT_FP32);
}

/* The router that made these scores, for its number of experts and of choices. */
static const struct op *router_of(const struct builder *b, int scores)
{
    static const struct op NONE = {.size = {1, 1, 1, 1}, .top_k = 1};
    int32_t producer = build_tensor(b, scores)->producer;
    return producer >= 0 ? &b->ops.data[producer] : &NONE;
}

int64_t build_expert_places(const struct builder *b, int scores)
{
    const struct op *router = router_of(b, scores);
    int64_t experts = build_features(b, scores), chosen = positions_of(b, scores) * router->top_k;
    if (router->capacity > 0)
        return experts * (int64_t)ceil(router->capacity * (double)chosen / (double)experts);
    return experts * ceil_div(chosen, experts);
}

int build_dispatch(struct builder *b, const char *name, int x, int scores)
{
    struct op op = draft_op(b, OP_DISPATCH, name);
    op.top_k = router_of(b, scores)->top_k;
    draft_dim(&op, DIM_EXPERT, build_features(b, scores));
    draft_inputs(b, &op, (int[]){x, scores}, 2);
    return draft_append(b, &op, 3,
                        (int64_t[]){1, build_expert_places(b, scores), build_features(b, x)},
                        ELEMENT_COMPUTE);
}

/* The number of experts that the tokens of a tensor are distributed over. */
static int64_t experts_of(const struct builder *b, int dispatched)
{
    int32_t producer = build_tensor(b, dispatched)->producer;
    while (producer >= 0) {
        const struct op *op = &b->ops.data[producer];
        int dim = op_find_dim(op->kind, DIM_EXPERT);
        if (dim >= 0)
            return op->size[dim];
        producer = op->inputs ? build_tensor(b, op->input[0].tensor)->producer : -1;
    }
    return 1;
}

int build_expert_linear(struct builder *b, const char *name, int dispatched, int64_t out, bool bias)
{
    struct op op = draft_op(b, OP_EXPERT_LINEAR, name);
    int64_t in = build_features(b, dispatched), experts = experts_of(b, dispatched);
    draft_dim(&op, DIM_EXPERT, experts);
    draft_dim(&op, DIM_SEQ, positions_of(b, dispatched));
    draft_inputs(b, &op, &dispatched, 1);
    draft_weight(b, &op, "weight", 3, (int64_t[]){experts, out, in});
    if (bias)
        draft_weight(b, &op, "bias", 2, (int64_t[]){experts, out});
    return draft_append_like(b, &op, dispatched, out);
}

int build_combine(struct builder *b, const char *name, int expert_out, int scores)
{
    struct op op = draft_op(b, OP_COMBINE, name);
    op.top_k = router_of(b, scores)->top_k;
    draft_dim(&op, DIM_EXPERT, build_features(b, scores));
    draft_inputs(b, &op, (int[]){expert_out, scores}, 2);
    return draft_append(b, &op, 3,
                        (int64_t[]){1, positions_of(b, scores), build_features(b, expert_out)},
                        ELEMENT_COMPUTE);
}

/* ---- operators: images ----------------------------------------------------------------------- */

static void set_window(struct op *op, const struct window *w)
{
    op->kernel[0] = (int32_t)w->kernel_h;
    op->kernel[1] = (int32_t)w->kernel_w;
    op->stride[0] = op->stride[1] = (int32_t)w->stride;
}

static int64_t swept(int64_t size, int64_t pad, int64_t kernel, int64_t stride)
{
    int64_t room = size + 2 * pad - kernel;
    return room < 0 || stride < 1 ? 0 : room / stride + 1;
}

/* Appends a window operator over an image, with so many output channels. */
static int append_window(struct builder *b, struct op *op, int x, int64_t channels,
                         const struct window *w)
{
    const struct tensor *t = build_tensor(b, x);
    int64_t size[] = {1, channels, swept(t->size[2], w->pad_h, w->kernel_h, w->stride),
                      swept(t->size[3], w->pad_w, w->kernel_w, w->stride)};
    set_window(op, w);
    int h = op_find_dim(op->kind, DIM_HEIGHT), v = op_find_dim(op->kind, DIM_WIDTH);
    op->size[h] = size[2]; /* the dims are those of the output; those of the input are larger */
    op->size[v] = size[3];
    return draft_append(b, op, 4, size, ELEMENT_COMPUTE);
}

int build_conv(struct builder *b, const char *name, int x, int64_t out_channels,
               const struct window *w, int64_t groups, bool bias)
{
    struct op op = draft_op(b, OP_CONV, name);
    int64_t in = build_tensor(b, x)->size[1];
    op.groups = (int32_t)groups;
    draft_inputs(b, &op, &x, 1);
    draft_weight(b, &op, "weight", 4,
                 (int64_t[]){out_channels, in / groups, w->kernel_h, w->kernel_w});
    if (bias)
        draft_weight(b, &op, "bias", 1, &out_channels);
    return append_window(b, &op, x, out_channels, w);
}

int build_batch_norm(struct builder *b, const char *name, int x)
{
    struct op op = draft_op(b, OP_BATCH_NORM, name);
    int64_t channels = build_tensor(b, x)->size[1];
    draft_inputs(b, &op, &x, 1);
    draft_weight(b, &op, "weight", 1, &channels);
    draft_weight(b, &op, "bias", 1, &channels);
    return draft_append_like(b, &op, x, build_features(b, x));
}

int build_pool(struct builder *b, const char *name, int x, const struct window *w)
{
    struct op op = draft_op(b, OP_POOL, name);
    draft_inputs(b, &op, &x, 1);
    return append_window(b, &op, x, build_tensor(b, x)->size[1], w);
}

int build_global_pool(struct builder *b, const char *name, int x)
{
    const struct tensor *t = build_tensor(b, x);
    struct window whole = {t->size[2], t->size[3], 1, 0, 0};
    return build_flatten(b, build_pool(b, name, x, &whole));
}

/* ---- operators: movement --------------------------------------------------------------------- */

int build_concat(struct builder *b, const char *name, const int *parts, int count, int axis)
{
    struct op op = draft_op(b, OP_CONCAT, name);
    struct tensor out = *build_tensor(b, count ? parts[0] : -1);
    draft_inputs(b, &op, parts, count);
    for (int i = 1; i < count; i++)
        out.size[axis] += build_tensor(b, parts[i])->size[axis];
    return draft_append(b, &op, out.axes, out.size, ELEMENT_COMPUTE);
}

int build_interaction(struct builder *b, const char *name, int dense, int sparse)
{
    struct op op = draft_op(b, OP_INTERACTION, name);
    int64_t vectors = build_tensor(b, sparse)->size[1] + 1;
    draft_dim(&op, DIM_TABLE, vectors);
    draft_inputs(b, &op, (int[]){dense, sparse}, 2);
    int64_t out = build_features(b, dense) + vectors * (vectors - 1) / 2;
    return draft_append(b, &op, 2, (int64_t[]){1, out}, ELEMENT_COMPUTE);
}

int build_reshape(struct builder *b, const char *name, int x, int axes, const int64_t *size)
{
    struct op op = draft_op(b, OP_RESHAPE, name);
    draft_inputs(b, &op, &x, 1);
    return draft_append(b, &op, axes, size, ELEMENT_COMPUTE);
}

int build_opaque(struct builder *b, const char *name, const char *type, const int *inputs,
                 int count, int axes, const int64_t *size, const struct weight *weights,
                 int weight_count)
{
    struct op op = draft_op(b, OP_OPAQUE, name);
    op.onnx_type = arena_copy_text(b->arena, type);
    draft_inputs(b, &op, inputs, count);
    if (count == 0)
        op.keep &= ~(unsigned)KEEP_INPUT_0;
    for (int i = 0; i < weight_count; i++)
        draft_weight(b, &op, weights[i].name, weights[i].operand.axes, weights[i].operand.size);
    return draft_append(b, &op, axes, size, ELEMENT_COMPUTE);
}
