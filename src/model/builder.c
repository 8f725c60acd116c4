/* builder.c - appends operators and modules to a growing model, then closes and checks it.
 *
 * After an error the builder remembers the first one and every later call does nothing; tensors are
 * then -1, which stands for a small dummy, so that families need no checks of their own.
 */
#include "model/draft.h"

#include <stdio.h>
#include <string.h>

/* Larger than any real tensor; keeps products of a few of them inside int64_t. */
static const int64_t LARGEST_ELEMENTS = INT64_C(1) << 50;

static const struct tensor DUMMY = {
    .producer = -1, .carry_module = -1, .view_of = -1, .axes = 3, .size = {1, 1, 1, 1, 1}};

/* ---- modules --------------------------------------------------------------------------------- */

static int32_t open_module(struct builder *b, const char *name)
{
    struct module module = {.name = arena_copy_text(b->arena, name),
                            .parent = b->current,
                            .first_op = (int32_t)b->ops.len,
                            .repeat = 1,
                            .stride = 1,
                            .carry_in = -1,
                            .carry_init = -1,
                            .carry_out = -1};
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
    b->norm_epsilon = NORM_EPSILON;
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
    int32_t opened = open_module(b, name); /* may move the modules */
    struct module *module = &b->modules.data[opened];
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
    int32_t opened = open_module(b, name); /* may move the modules */
    struct module *module = &b->modules.data[opened];
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
        b->status =
            doc_error(b->where, "give the last operator the shape of the first one's input",
                      "'%s' repeats but ends with another shape than it starts from", module->name);
    module->carry_out = carried;
    build_module_end(b);
    return b->status == WEFT_OK ? carried : -1;
}

/* ---- tensors --------------------------------------------------------------------------------- */

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
    struct tensor tensor = {.producer = -1,
                            .carry_module = -1,
                            .view_of = -1,
                            .axes = (uint8_t)axes,
                            .element = element};
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

/* ---- operands -------------------------------------------------------------------------------- */

/* Turns "batch,seq,head group depth" into positions of the kind's dims. If the tensor has fewer
 * axes than the text (a linear on (batch, features)), the axes after the batch are left out. */
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

/* Elementwise kinds: the number of axes says what they mean. */
static const char *axes_by_rank(int axes)
{
    static const char *const BY_RANK[MAX_AXES + 1] = {"",
                                                      "batch",
                                                      "batch,hidden",
                                                      "batch,seq,hidden",
                                                      "batch,hidden,height,width",
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

/* A dim has the size of the first axis that is made of it alone, unless the builder has set it. */
static void sizes_from(struct op *op, const struct operand *operand)
{
    for (int a = 0; a < operand->axes; a++) {
        int dim = operand->dims[a][0];
        if (dim >= 0 && operand->dims[a][1] < 0 && op->size[dim] == 0)
            op->size[dim] = operand->size[a];
    }
}

/* ---- drafting one operator ------------------------------------------------------------------- */

void draft_dim(struct op *op, enum dim dim, int64_t size)
{
    op->size[op_find_dim(op->kind, dim)] = size;
}

struct op draft_op(struct builder *b, enum op_kind kind, const char *name)
{
    return (struct op){.kind = kind,
                       .name = arena_copy_text(b->arena, name),
                       .module = b->current,
                       .keep = OP_KINDS[kind].keep,
                       .kernel = {1, 1},
                       .stride = {1, 1},
                       .groups = 1};
}

/* Whether a gradient flows back through a tensor: not into ids, nor into the model's own inputs. */
static bool wants_gradient(const struct builder *b, int tensor)
{
    const struct tensor *t = build_tensor(b, tensor);
    while (t->view_of >= 0)
        t = build_tensor(b, t->view_of);
    bool differentiable = t->element == ELEMENT_COMPUTE || t->element == ELEMENT_FP32;
    if (!differentiable || t->producer < 0)
        return differentiable && t->carry_module >= 0;
    const struct op *from = &b->ops.data[t->producer];
    return from->place == PLACE_TOWER ? op_wants_gradient(from) : !from->frozen || from->input_grad;
}

void draft_inputs(struct builder *b, struct op *op, const int *tensors, int count)
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

/* Keeps only the part of the last axis that the operator reads: q within a fused qkv. */
void draft_narrow(struct operand *operand, int64_t features)
{
    operand->size[operand->axes - 1] = features;
}

void draft_weight(struct builder *b, struct op *op, const char *name, int axes, const int64_t *size)
{
    if (!sizes_fit(b, name, axes, size))
        return;
    struct weight *all = ARENA_ARRAY(b->arena, struct weight, (size_t)op->weights + 1);
    if (op->weights)
        memcpy(all, op->weight, sizeof *all * (size_t)op->weights);
    struct weight *weight = &all[op->weights++];
    struct tensor shape = shaped(axes, size, ELEMENT_COMPUTE);
    *weight = (struct weight){.name = name, .tied_op = -1};
    const char *text =
        op->weights <= MAX_KIND_WEIGHTS ? OP_KINDS[op->kind].weight[op->weights - 1] : NULL;
    /* axes without a name are never split */
    weight->operand = see(op->kind, -1, &shape, text ? text : ",,,,");
    op->weight = all;
}

int draft_append(struct builder *b, struct op *op, int axes, const int64_t *size,
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
    op->frozen = b->frozen || (b->lora.rank > 0 && !b->lora.open);
    op->place = b->place;
    if (op->frozen && (op->kind == OP_LINEAR || op->kind == OP_EXPERT_LINEAR))
        op->keep &= ~(unsigned)KEEP_INPUT_0; /* which only the weight's gradient reads */
    array_push(b->arena, &b->ops, *op);
    return tensor;
}

void build_freeze(struct builder *b, size_t first)
{
    for (size_t i = first; i < b->ops.len; i++) {
        struct op *op = &b->ops.data[i];
        op->frozen = true;
        op->input_grad = false;
        op->keep = 0;
        op->kept_elements = op->kept_fp32 = 0;
    }
}

/* An output with the shape of `like`, except for the size of its last axis. */
int draft_append_like(struct builder *b, struct op *op, int like, int64_t features)
{
    struct tensor shape = *build_tensor(b, like);
    shape.size[shape.axes - 1] = features;
    return draft_append(b, op, shape.axes, shape.size, ELEMENT_COMPUTE);
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

/* ---- closing --------------------------------------------------------------------------------- */

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

/* Notes that an operator in module `reader` reads `tensor` again in the backward pass. */
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
    /* a reader in an inner repeat is still within the same copy */
    while (scope >= 0 && scope != home)
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
