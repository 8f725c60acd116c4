/* builder.c - appends operators and modules to a growing model, then closes and checks it.
 *
 * Once something is wrong the builder remembers the first error and every later call does nothing;
 * tensors are then -1, which stands for a small dummy, so families need no checks of their own.
 */
#include "model/builder.h"

#include <stdio.h>
#include <string.h>

/* Larger than any real tensor; keeps products of a few of them inside int64_t. */
static const int64_t LARGEST_ELEMENTS = INT64_C(1) << 50;

static const struct tensor DUMMY = {.producer = -1, .carry_module = -1, .view_of = -1, .axes = 3,
                                    .size = {1, 1, 1, 1, 1}};

/* ---- modules ------------------------------------------------------------------------------------ */

static int32_t open_module(struct builder *b, const char *name)
{
    struct module module = {.name = arena_copy_text(b->arena, name), .parent = b->current,
                            .first_op = (int32_t)b->ops.len, .repeat = 1, .stride = 1,
                            .carry_in = -1, .carry_init = -1, .carry_out = -1};
    array_push(b->arena, &b->modules, module);
    b->current = (int32_t)b->modules.len - 1;
    return b->current;
}

struct builder *build_start(const char *name, const char *family, const char *source)
{
    struct arena *arena = arena_new();
    struct builder *b = ARENA_NEW(arena, struct builder);
    b->arena = arena;
    b->model = ARENA_NEW(arena, struct model);
    b->model->arena = arena;
    b->model->name = arena_copy_text(arena, name);
    b->model->family = arena_copy_text(arena, family);
    b->model->source = arena_copy_text(arena, source);
    b->model->seq = 1;
    b->model->dtype = DTYPE_BF16;
    b->current = -1;
    open_module(b, "");
    return b;
}

void build_abandon(struct builder *b)
{
    arena_free(b->arena);
}

void build_module(struct builder *b, const char *name)
{
    open_module(b, name);
}

void build_module_indexed(struct builder *b, const char *name, int64_t index)
{
    struct module *module = &b->modules.data[open_module(b, name)];
    module->first_index = index;
    module->indexed = true;
}

void build_module_end(struct builder *b)
{
    struct module *module = &b->modules.data[b->current];
    module->ops = (int32_t)b->ops.len - module->first_op;
    b->current = module->parent;
}

static int add_tensor(struct builder *b, struct tensor tensor)
{
    array_push(b->arena, &b->tensors, tensor);
    return (int)b->tensors.len - 1;
}

int build_repeat_from(struct builder *b, const char *name, int64_t repeat, int64_t first,
                      int64_t stride, int carried)
{
    struct module *module = &b->modules.data[open_module(b, name)];
    if (b->status == WEFT_OK && repeat < 1)
        b->status = doc_error(b->where, NULL, "'%s' repeats %lld times, expected at least 1", name,
                              (long long)repeat);
    if (b->status != WEFT_OK)
        return -1;
    struct tensor carry = *build_tensor(b, carried);
    carry.producer = carry.view_of = -1;
    carry.carry_module = b->current;
    module->repeat = repeat;
    module->first_index = first;
    module->stride = stride;
    module->indexed = true;
    module->carry_init = carried;
    module->carry_in = add_tensor(b, carry);
    return module->carry_in;
}

int build_repeat(struct builder *b, const char *name, int64_t repeat, int carried)
{
    return build_repeat_from(b, name, repeat, 0, 1, carried);
}

static bool same_shape(const struct tensor *a, const struct tensor *c)
{
    return a->axes == c->axes && memcmp(a->size, c->size, sizeof a->size[0] * a->axes) == 0;
}

int build_repeat_end(struct builder *b, int carried)
{
    struct module *module = &b->modules.data[b->current];
    if (b->status == WEFT_OK &&
        !same_shape(build_tensor(b, module->carry_in), build_tensor(b, carried)))
        b->status = doc_error(b->where, "give the last operator the shape of the first one's input",
                              "'%s' repeats but ends with another shape than it starts from",
                              module->name);
    module->carry_out = carried;
    build_module_end(b);
    return b->status == WEFT_OK ? carried : -1;
}

/* ---- tensors ------------------------------------------------------------------------------------ */

const struct tensor *build_tensor(const struct builder *b, int tensor)
{
    return tensor >= 0 && (size_t)tensor < b->tensors.len ? &b->tensors.data[tensor] : &DUMMY;
}

int64_t build_features(const struct builder *b, int tensor)
{
    const struct tensor *t = build_tensor(b, tensor);
    return t->size[t->axes - 1];
}

static bool sizes_fit(struct builder *b, const char *name, int axes, const int64_t *size)
{
    int64_t elements = 1;
    for (int i = 0; i < axes && b->status == WEFT_OK; i++) {
        bool ok = size[i] > 0 && checked_mul(elements, size[i], &elements) &&
                  elements <= LARGEST_ELEMENTS;
        if (!ok)
            b->status = doc_error(b->where, NULL,
                                  "'%s' would have an axis of %lld, expected positive sizes whose "
                                  "product is below 2^50",
                                  name, (long long)size[i]);
    }
    return b->status == WEFT_OK;
}

static struct tensor shaped(int axes, const int64_t *size, enum element element)
{
    struct tensor tensor = {.producer = -1, .carry_module = -1, .view_of = -1,
                            .axes = (uint8_t)axes, .element = element};
    memcpy(tensor.size, size, sizeof size[0] * (size_t)axes);
    return tensor;
}

int build_input(struct builder *b, int axes, const int64_t *size, enum element element)
{
    return sizes_fit(b, "input", axes, size) ? add_tensor(b, shaped(axes, size, element)) : -1;
}

int build_tokens(struct builder *b, int64_t seq)
{
    return build_input(b, 2, (int64_t[]){1, seq}, ELEMENT_INDEX);
}

int build_image(struct builder *b, int64_t channels, int64_t height, int64_t width)
{
    return build_input(b, 4, (int64_t[]){1, channels, height, width}, ELEMENT_COMPUTE);
}

int build_view(struct builder *b, int x, int axes, const int64_t *size)
{
    if (!sizes_fit(b, "view", axes, size))
        return -1;
    const struct tensor *base = build_tensor(b, x);
    struct tensor view = shaped(axes, size, base->element);
    view.view_of = x;
    view.producer = base->producer;
    return add_tensor(b, view);
}

int build_flatten(struct builder *b, int x)
{
    const struct tensor *t = build_tensor(b, x);
    int64_t all = 1;
    for (int i = 1; i < t->axes; i++)
        all *= t->size[i];
    return build_view(b, x, 2, (int64_t[]){1, all});
}

/* ---- operands ----------------------------------------------------------------------------------- */

/* "batch,seq,head group depth" into positions of the kind's dims. Where the tensor has fewer axes
 * than the text (a linear on (batch, features)), the axes behind the batch are left out. */
static void read_axes(enum op_kind kind, const char *text, int skip, struct operand *operand)
{
    memset(operand->dims, -1, sizeof operand->dims);
    int axis = 0, used = 0;
    for (const char *at = text;;) {
        size_t len = strcspn(at, ", ");
        char word[16] = {0};
        enum dim dim;
        memcpy(word, at, len);
        if (len && axis < MAX_AXES && dim_from_name(word, &dim))
            operand->dims[axis][used++] = (int8_t)op_find_dim(kind, dim);
        at += len;
        if (*at == ',' && axis == 1 && skip > 0)
            skip--, used = 0, memset(operand->dims[1], -1, sizeof operand->dims[1]);
        else if (*at == ',')
            axis++, used = 0;
        if (*at++ == '\0')
            break;
    }
}

static int axes_in(const char *text)
{
    int axes = 1;
    for (; *text; text++)
        axes += *text == ',';
    return axes;
}

/* Elementwise kinds: what the axes mean follows from how many there are. */
static const char *axes_by_rank(int axes)
{
    static const char *const BY_RANK[MAX_AXES + 1] = {
        "", "batch", "batch,hidden", "batch,seq,hidden", "batch,hidden,height,width",
        "batch,hidden,,height,width"};
    return BY_RANK[axes];
}

static struct operand see(enum op_kind kind, int tensor, const struct tensor *t, const char *axes)
{
    struct operand operand = {.tensor = tensor, .element = t->element, .axes = t->axes};
    memcpy(operand.size, t->size, sizeof operand.size);
    if (!axes)
        axes = axes_by_rank(t->axes);
    int extra = axes_in(axes) - t->axes;
    read_axes(kind, axes, extra > 0 ? extra : 0, &operand);
    return operand;
}

/* A dim's size is that of the first axis made of it alone, unless the builder has set it. */
static void sizes_from(struct op *op, const struct operand *operand)
{
    for (int a = 0; a < operand->axes; a++) {
        int dim = operand->dims[a][0];
        if (dim >= 0 && operand->dims[a][1] < 0 && op->size[dim] == 0)
            op->size[dim] = operand->size[a];
    }
}

/* ---- drafting one operator ------------------------------------------------------------------------ */

static void set_dim(struct op *op, enum dim dim, int64_t size)
{
    op->size[op_find_dim(op->kind, dim)] = size;
}

static struct op draft(struct builder *b, enum op_kind kind, const char *name)
{
    return (struct op){.kind = kind, .name = arena_copy_text(b->arena, name), .module = b->current,
                       .keep = OP_KINDS[kind].keep, .kernel = {1, 1}, .stride = {1, 1},
                       .groups = 1};
}

/* Whether gradients flow back through a tensor: not into ids, nor into the model's own inputs. */
static bool wants_gradient(const struct builder *b, int tensor)
{
    const struct tensor *t = build_tensor(b, tensor);
    while (t->view_of >= 0)
        t = build_tensor(b, t->view_of);
    bool differentiable = t->element == ELEMENT_COMPUTE || t->element == ELEMENT_FP32;
    return differentiable && (t->producer >= 0 || t->carry_module >= 0);
}

static void set_inputs(struct builder *b, struct op *op, const int *tensors, int count)
{
    op->input = ARENA_ARRAY(b->arena, struct operand, (size_t)count);
    op->inputs = count;
    for (int i = 0; i < count; i++) {
        const char *axes = i < 3 ? OP_KINDS[op->kind].input[i] : NULL;
        op->input[i] = see(op->kind, tensors[i], build_tensor(b, tensors[i]), axes);
        op->input_grad |= wants_gradient(b, tensors[i]);
        sizes_from(op, &op->input[i]);
    }
}

/* Only the part of the last axis that the operator reads: q within a fused qkv. */
static void narrow(struct operand *operand, int64_t features)
{
    operand->size[operand->axes - 1] = features;
}

static void add_weight(struct builder *b, struct op *op, const char *name, const char *text,
                       int axes, const int64_t *size)
{
    if (!sizes_fit(b, name, axes, size))
        return;
    struct weight *all = ARENA_ARRAY(b->arena, struct weight, (size_t)op->weights + 1);
    if (op->weights)
        memcpy(all, op->weight, sizeof *all * (size_t)op->weights);
    struct weight *weight = &all[op->weights++];
    struct tensor shape = shaped(axes, size, ELEMENT_COMPUTE);
    *weight = (struct weight){.name = name, .tied_op = -1};
    weight->operand = see(op->kind, -1, &shape, text);
    op->weight = all;
}

static int append(struct builder *b, struct op *op, int axes, const int64_t *size,
                  enum element element)
{
    if (b->status != WEFT_OK || !sizes_fit(b, op->name, axes, size))
        return -1;
    struct tensor out = shaped(axes, size, element);
    out.producer = (int32_t)b->ops.len;
    int tensor = add_tensor(b, out);
    op->output = see(op->kind, tensor, &out, OP_KINDS[op->kind].output);
    sizes_from(op, &op->output);
    for (int i = 0; i < OP_MAX_DIMS; i++)
        if (op->size[i] == 0)
            op->size[i] = 1;
    array_push(b->arena, &b->ops, *op);
    return tensor;
}

/* An output with the shape of `like`, but for the size of its last axis. */
static int append_like(struct builder *b, struct op *op, int like, int64_t features)
{
    struct tensor shape = *build_tensor(b, like);
    shape.size[shape.axes - 1] = features;
    return append(b, op, shape.axes, shape.size, ELEMENT_COMPUTE);
}

struct op *build_last(struct builder *b)
{
    static _Thread_local struct op nowhere;
    return b->ops.len ? &b->ops.data[b->ops.len - 1] : &nowhere;
}

int32_t build_last_index(const struct builder *b)
{
    return (int32_t)b->ops.len - 1;
}

/* ---- operators: embeddings and products ------------------------------------------------------------ */

int build_embedding(struct builder *b, const char *name, int ids, int64_t vocab, int64_t width,
                    int64_t positions)
{
    struct op op = draft(b, OP_EMBEDDING, name);
    int64_t seq = build_features(b, ids);
    set_dim(&op, DIM_VOCAB, vocab);
    set_inputs(b, &op, &ids, 1);
    add_weight(b, &op, "weight", "vocab,hidden", 2, (int64_t[]){vocab, width});
    if (positions)
        add_weight(b, &op, "positions", ",hidden", 2, (int64_t[]){positions, width});
    return append(b, &op, 3, (int64_t[]){1, seq, width}, ELEMENT_COMPUTE);
}

int build_embedding_bag(struct builder *b, const char *name, int64_t tables, int64_t rows,
                        int64_t width, int64_t lookups)
{
    struct op op = draft(b, OP_EMBEDDING_BAG, name);
    int ids = build_input(b, 3, (int64_t[]){1, tables, lookups}, ELEMENT_INDEX);
    set_dim(&op, DIM_VOCAB, rows);
    op.top_k = (int32_t)lookups;
    set_inputs(b, &op, &ids, 1);
    add_weight(b, &op, "weight", "table,vocab,hidden", 3, (int64_t[]){tables, rows, width});
    return append(b, &op, 3, (int64_t[]){1, tables, width}, ELEMENT_COMPUTE);
}

int build_linear(struct builder *b, const char *name, int x, int64_t out, bool bias)
{
    struct op op = draft(b, OP_LINEAR, name);
    int64_t in = build_features(b, x);
    set_inputs(b, &op, &x, 1);
    add_weight(b, &op, "weight", "out,in", 2, (int64_t[]){out, in});
    if (bias)
        add_weight(b, &op, "bias", "out", 1, &out);
    return append_like(b, &op, x, out);
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

/* ---- operators: attention ---------------------------------------------------------------------------- */

static void set_heads(struct op *op, const struct attention *a, int64_t seq, int64_t kv)
{
    set_dim(op, DIM_HEAD, a->kv_heads);
    set_dim(op, DIM_GROUP, a->heads / a->kv_heads);
    set_dim(op, DIM_DEPTH, a->depth);
    set_dim(op, DIM_SEQ, seq);
    set_dim(op, DIM_KV, kv);
    op->causal = a->causal;
}

static int64_t positions_of(const struct builder *b, int tensor)
{
    return build_tensor(b, tensor)->size[1];
}

int build_score(struct builder *b, const char *name, int q, int k, const struct attention *a)
{
    struct op op = draft(b, OP_SCORE, name);
    int64_t seq = positions_of(b, q), kv = positions_of(b, k);
    set_heads(&op, a, seq, kv);
    set_inputs(b, &op, (int[]){q, k}, 2);
    narrow(&op.input[0], a->heads * a->depth);
    narrow(&op.input[1], a->kv_heads * a->depth);
    return append(b, &op, 4, (int64_t[]){1, a->heads, seq, kv}, ELEMENT_COMPUTE);
}

int build_context(struct builder *b, const char *name, int probabilities, int v,
                  const struct attention *a)
{
    struct op op = draft(b, OP_CONTEXT, name);
    int64_t seq = build_tensor(b, probabilities)->size[2], kv = positions_of(b, v);
    int64_t depth = a->value_depth ? a->value_depth : a->depth;
    set_heads(&op, a, seq, kv);
    set_dim(&op, DIM_DEPTH, depth);
    set_inputs(b, &op, (int[]){probabilities, v}, 2);
    narrow(&op.input[1], a->kv_heads * depth);
    return append(b, &op, 3, (int64_t[]){1, seq, a->heads * depth}, ELEMENT_COMPUTE);
}

int build_attention(struct builder *b, const char *name, int q, int k, int v,
                    const struct attention *a)
{
    struct op op = draft(b, OP_ATTENTION, name);
    int64_t seq = positions_of(b, q), kv = positions_of(b, k);
    int64_t value = a->value_depth ? a->value_depth : a->depth;
    set_heads(&op, a, seq, kv);
    op.value_depth = value;
    op.kept_fp32 = a->heads * seq; /* the log-sum-exp of each row of scores */
    set_inputs(b, &op, (int[]){q, k, v}, 3);
    narrow(&op.input[0], a->heads * a->depth);
    narrow(&op.input[1], a->kv_heads * a->depth);
    narrow(&op.input[2], a->kv_heads * value);
    return append(b, &op, 3, (int64_t[]){1, seq, a->heads * value}, ELEMENT_COMPUTE);
}

int build_softmax(struct builder *b, const char *name, int x, bool keep_input)
{
    struct op op = draft(b, OP_SOFTMAX, name);
    set_inputs(b, &op, &x, 1);
    if (keep_input)
        op.keep |= KEEP_INPUT_0;
    return append_like(b, &op, x, build_features(b, x));
}

/* ---- operators: bound by bytes ------------------------------------------------------------------------ */

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
    struct op op = draft(b, OP_LAYER_NORM, name);
    int64_t features = build_features(b, x);
    set_inputs(b, &op, &x, 1);
    add_weight(b, &op, "weight", "hidden", 1, &features);
    add_weight(b, &op, "bias", "hidden", 1, &features);
    op.kept_fp32 = 2 * rows_of(b, x); /* mean and reciprocal deviation */
    return append_like(b, &op, x, features);
}

int build_rms_norm(struct builder *b, const char *name, int x, bool fused)
{
    struct op op = draft(b, OP_RMS_NORM, name);
    int64_t features = build_features(b, x);
    set_inputs(b, &op, &x, 1);
    add_weight(b, &op, "weight", "hidden", 1, &features);
    op.kept_fp32 = rows_of(b, x);
    op.kept_elements = fused ? 0 : rows_of(b, x) * features; /* the normalised copy */
    return append_like(b, &op, x, features);
}

static int elementwise(struct builder *b, enum op_kind kind, const char *name, int x, int y,
                       int64_t features)
{
    struct op op = draft(b, kind, name);
    set_inputs(b, &op, (int[]){x, y}, y >= 0 ? 2 : 1);
    if (kind == OP_GATED)
        set_dim(&op, DIM_HIDDEN, features); /* the input's axis is twice as long */
    return append_like(b, &op, x, features);
}

int build_gelu(struct builder *b, const char *name, int x)
{
    return elementwise(b, OP_GELU, name, x, -1, build_features(b, x));
}

int build_relu(struct builder *b, const char *name, int x)
{
    return elementwise(b, OP_RELU, name, x, -1, build_features(b, x));
}

int build_silu(struct builder *b, const char *name, int x)
{
    return elementwise(b, OP_SILU, name, x, -1, build_features(b, x));
}

int build_gated(struct builder *b, const char *name, int gate_up)
{
    return elementwise(b, OP_GATED, name, gate_up, -1, build_features(b, gate_up) / 2);
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
    return elementwise(b, OP_ROTARY, name, x, -1, build_features(b, x));
}

int build_loss(struct builder *b, const char *name, int logits)
{
    struct op op = draft(b, OP_LOSS, name);
    struct tensor t = *build_tensor(b, logits);
    set_inputs(b, &op, &logits, 1);
    op.kept_fp32 = rows_of(b, logits) * t.size[t.axes - 1]; /* probabilities */
    return append(b, &op, t.axes - 1, t.size, ELEMENT_FP32);
}

/* ---- operators: experts --------------------------------------------------------------------------------- */

int build_router(struct builder *b, const char *name, int x, int64_t experts, int64_t top_k)
{
    struct op op = draft(b, OP_ROUTER, name);
    int64_t in = build_features(b, x);
    op.top_k = (int32_t)top_k;
    set_inputs(b, &op, &x, 1);
    add_weight(b, &op, "weight", "expert,in", 2, (int64_t[]){experts, in});
    struct tensor scores = *build_tensor(b, x);
    scores.size[scores.axes - 1] = experts;
    return append(b, &op, scores.axes, scores.size, ELEMENT_FP32);
}

/* The router behind scores, for its number of experts and choices. */
static const struct op *router_of(const struct builder *b, int scores)
{
    static const struct op NONE = {.size = {1, 1, 1, 1}, .top_k = 1};
    int32_t producer = build_tensor(b, scores)->producer;
    return producer >= 0 ? &b->ops.data[producer] : &NONE;
}

int build_dispatch(struct builder *b, const char *name, int x, int scores)
{
    struct op op = draft(b, OP_DISPATCH, name);
    const struct op *router = router_of(b, scores);
    int64_t seq = positions_of(b, x);
    op.top_k = router->top_k;
    set_dim(&op, DIM_EXPERT, build_features(b, scores));
    set_inputs(b, &op, (int[]){x, scores}, 2);
    return append(b, &op, 3, (int64_t[]){1, seq * router->top_k, build_features(b, x)},
                  ELEMENT_COMPUTE);
}

/* The number of experts that the tokens of a tensor are spread over. */
static int64_t experts_of(const struct builder *b, int dispatched)
{
    int32_t producer = build_tensor(b, dispatched)->producer;
    if (producer < 0)
        return 1;
    const struct op *op = &b->ops.data[producer];
    int dim = op_find_dim(op->kind, DIM_EXPERT);
    if (dim >= 0)
        return op->size[dim];
    return op->inputs ? experts_of(b, op->input[0].tensor) : 1;
}

int build_expert_linear(struct builder *b, const char *name, int dispatched, int64_t out, bool bias)
{
    struct op op = draft(b, OP_EXPERT_LINEAR, name);
    int64_t in = build_features(b, dispatched), experts = experts_of(b, dispatched);
    set_dim(&op, DIM_EXPERT, experts);
    set_dim(&op, DIM_SEQ, positions_of(b, dispatched));
    set_inputs(b, &op, &dispatched, 1);
    add_weight(b, &op, "weight", "expert,out,in", 3, (int64_t[]){experts, out, in});
    if (bias)
        add_weight(b, &op, "bias", "expert,out", 2, (int64_t[]){experts, out});
    return append_like(b, &op, dispatched, out);
}

int build_combine(struct builder *b, const char *name, int expert_out, int scores)
{
    struct op op = draft(b, OP_COMBINE, name);
    const struct op *router = router_of(b, scores);
    op.top_k = router->top_k;
    set_dim(&op, DIM_EXPERT, build_features(b, scores));
    set_inputs(b, &op, (int[]){expert_out, scores}, 2);
    int64_t seq = positions_of(b, expert_out) / router->top_k;
    return append(b, &op, 3, (int64_t[]){1, seq, build_features(b, expert_out)}, ELEMENT_COMPUTE);
}

/* ---- operators: images ------------------------------------------------------------------------------------ */

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

/* The output of a window over an image, with this many channels. */
static int append_window(struct builder *b, struct op *op, int x, int64_t channels,
                         const struct window *w)
{
    const struct tensor *t = build_tensor(b, x);
    int64_t size[] = {1, channels, swept(t->size[2], w->pad_h, w->kernel_h, w->stride),
                      swept(t->size[3], w->pad_w, w->kernel_w, w->stride)};
    set_window(op, w);
    int h = op_find_dim(op->kind, DIM_HEIGHT), v = op_find_dim(op->kind, DIM_WIDTH);
    op->size[h] = size[2]; /* the dims are those of the output; the input's are larger */
    op->size[v] = size[3];
    return append(b, op, 4, size, ELEMENT_COMPUTE);
}

int build_conv(struct builder *b, const char *name, int x, int64_t out_channels,
               const struct window *w, int64_t groups, bool bias)
{
    struct op op = draft(b, OP_CONV, name);
    int64_t in = build_tensor(b, x)->size[1];
    op.groups = (int32_t)groups;
    set_inputs(b, &op, &x, 1);
    add_weight(b, &op, "weight", "out,in,,", 4,
               (int64_t[]){out_channels, in / groups, w->kernel_h, w->kernel_w});
    if (bias)
        add_weight(b, &op, "bias", "out", 1, &out_channels);
    return append_window(b, &op, x, out_channels, w);
}

int build_batch_norm(struct builder *b, const char *name, int x)
{
    struct op op = draft(b, OP_BATCH_NORM, name);
    int64_t channels = build_tensor(b, x)->size[1];
    set_inputs(b, &op, &x, 1);
    add_weight(b, &op, "weight", "hidden", 1, &channels);
    add_weight(b, &op, "bias", "hidden", 1, &channels);
    return append_like(b, &op, x, build_features(b, x));
}

int build_pool(struct builder *b, const char *name, int x, const struct window *w)
{
    struct op op = draft(b, OP_POOL, name);
    set_inputs(b, &op, &x, 1);
    return append_window(b, &op, x, build_tensor(b, x)->size[1], w);
}

int build_global_pool(struct builder *b, const char *name, int x)
{
    const struct tensor *t = build_tensor(b, x);
    struct window whole = {t->size[2], t->size[3], 1, 0, 0};
    return build_flatten(b, build_pool(b, name, x, &whole));
}

/* ---- operators: movement ------------------------------------------------------------------------------------ */

int build_concat(struct builder *b, const char *name, const int *parts, int count, int axis)
{
    struct op op = draft(b, OP_CONCAT, name);
    struct tensor out = *build_tensor(b, count ? parts[0] : -1);
    set_inputs(b, &op, parts, count);
    for (int i = 1; i < count; i++)
        out.size[axis] += build_tensor(b, parts[i])->size[axis];
    return append(b, &op, out.axes, out.size, ELEMENT_COMPUTE);
}

int build_interaction(struct builder *b, const char *name, int dense, int sparse)
{
    struct op op = draft(b, OP_INTERACTION, name);
    int64_t vectors = build_tensor(b, sparse)->size[1] + 1;
    set_dim(&op, DIM_TABLE, vectors);
    set_inputs(b, &op, (int[]){dense, sparse}, 2);
    int64_t out = build_features(b, dense) + vectors * (vectors - 1) / 2;
    return append(b, &op, 2, (int64_t[]){1, out}, ELEMENT_COMPUTE);
}

int build_reshape(struct builder *b, const char *name, int x, int axes, const int64_t *size)
{
    struct op op = draft(b, OP_RESHAPE, name);
    set_inputs(b, &op, &x, 1);
    return append(b, &op, axes, size, ELEMENT_COMPUTE);
}

int build_opaque(struct builder *b, const char *name, const char *type, const int *inputs, int count,
                 int axes, const int64_t *size, const struct weight *weights, int weight_count)
{
    struct op op = draft(b, OP_OPAQUE, name);
    op.onnx_type = arena_copy_text(b->arena, type);
    set_inputs(b, &op, inputs, count);
    if (count == 0)
        op.keep &= ~(unsigned)KEEP_INPUT_0;
    for (int i = 0; i < weight_count; i++)
        add_weight(b, &op, weights[i].name, ",,,,", weights[i].operand.axes,
                   weights[i].operand.size);
    return append(b, &op, axes, size, ELEMENT_COMPUTE);
}

/* ---- closing -------------------------------------------------------------------------------------------------- */

/* The innermost repeating module around `module`, or -1. */
static int32_t scope_of(const struct model *model, int32_t module)
{
    while (module >= 0 && model->module[module].carry_in < 0)
        module = model->module[module].parent;
    return module;
}

static struct tensor *storage_of(struct model *model, int tensor)
{
    while (model->tensor[tensor].view_of >= 0)
        tensor = model->tensor[tensor].view_of;
    return &model->tensor[tensor];
}

/* Someone in module `reader` reads `tensor` again in the backward pass. */
static void mark_kept(struct model *model, int tensor, int32_t reader)
{
    struct tensor *t = storage_of(model, tensor);
    if (t->carry_module >= 0) {
        if (t->kept)
            return;
        t->kept = KEPT_WITHIN;
        const struct module *repeat = &model->module[t->carry_module];
        storage_of(model, repeat->carry_out)->kept |= KEPT_NEXT;
        mark_kept(model, repeat->carry_init, repeat->parent);
        return;
    }
    if (t->producer < 0) {
        t->kept |= KEPT_WITHIN;
        return;
    }
    int32_t home = scope_of(model, model->op[t->producer].module);
    int32_t scope = scope_of(model, reader);
    while (scope >= 0 && scope != home) /* a reader in an inner repeat is still within */
        scope = scope_of(model, model->module[scope].parent);
    t->kept |= scope == home ? KEPT_WITHIN : KEPT_AFTER;
}

static void mark_all_kept(struct model *model)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        for (int32_t k = 0; k < op->inputs && k < (int32_t)COUNT_OF(INPUTS); k++)
            if (op->keep & INPUTS[k])
                mark_kept(model, op->input[k].tensor, op->module);
        if (op->keep & KEEP_OUTPUT)
            mark_kept(model, op->output.tensor, op->module);
    }
}

weft_status build_finish(struct builder *b, struct model **out)
{
    weft_status status = b->status;
    struct model *model = b->model;
    while (b->current >= 0)
        build_module_end(b);
    if (status == WEFT_OK && b->ops.len == 0)
        status = doc_error(b->where, NULL, "the model has no operators");
    if (status != WEFT_OK) {
        build_abandon(b);
        return status;
    }
    model->module = b->modules.data;
    model->modules = (int32_t)b->modules.len;
    model->op = b->ops.data;
    model->ops = (int32_t)b->ops.len;
    model->tensor = b->tensors.data;
    model->tensors = (int32_t)b->tensors.len;
    mark_all_kept(model);
    *out = model;
    return WEFT_OK;
}
