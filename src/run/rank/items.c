/* items.c - operators on the tensors of one micro-batch: what they find, and what they leave.
 *
 *   gradient of an output = sum of what its readers leave, in the order of the uses              (1)
 *   gradient of a loss    = loss scale / rows of the global batch                                (2)
 *
 *   I1  The gradient of a sum's input is that of its output: the same tensor (lifetimes.h, I5).
 *   I2  Tensors are written once. Only a sum that nobody else sees is added to, and a loss that keeps its logits
 *       may leave their gradient in their place.
 */
#include "run/rank/borders.h"
#include "run/rank/inputs.h"
#include "run/rank/operand_name.h"
#include "run/rank/scales.h"
#include "run/rank/shares.h"

#include <stdlib.h>
#include <string.h>

/* ---- a kernel's call ------------------------------------------------------------------------- */

/* What a call reads and writes, as references of its own. */
struct calling {
    struct rank *r;
    struct spot at;
    int64_t instance;
    const struct local_op *local_op;
    struct kernel_call call;
    struct value *input[CALL_INPUTS], *output, *kept, *gradient;
    struct value *input_gradient[CALL_INPUTS];
    void *labels; /* 8-byte indices, in the device's memory */
    int64_t begin[OP_MAX_DIMS];
};

static void sum_for_kernel(void *context, enum reduce op, float *data, int64_t count)
{
    const struct calling *c = context;
    ask_sum(c->r, c->local_op->sums, op, data, count);
}

static struct calling calling_of(struct rank *r, struct spot at)
{
    int64_t instance = r->graph->block[at.block].item[at.item].instance;
    const struct item *item = &r->graph->block[at.block].item[at.item];
    const struct local_op *local_op = &r->local_op[instance];
    if (item->phase != PHASE_FORWARD && local_op->back)
        local_op = local_op->back;
    struct calling c = {.r = r, .at = at, .instance = instance, .local_op = local_op};
    c.call = (struct kernel_call){.op = local_op->laid->op,
                                  .size = local_op->size,
                                  .whole = local_op->whole,
                                  .adds_once = local_op->adds_once,
                                  .dtype = stored_as(r, ELEMENT_COMPUTE),
                                  .fp8 = local_op->fp8,
                                  .history = history_of(r, local_op),
                                  .seed = hash_bytes(&r->step, sizeof r->step, local_op->path_hash),
                                  .dropout = r->evaluates ? 0 : r->options->dropout,
                                  .pitch = local_op->pitch,
                                  .stream = r->work};
    image_rows_of(local_op, c.call.image);
    return c;
}

/* Samples are counted through all micro-batches of the step: a mask is the same whatever their size. */
static void place_samples(struct calling *c)
{
    int batch = op_find_dim(c->call.op->kind, DIM_BATCH);
    memcpy(c->begin, c->local_op->begin, sizeof c->begin);
    if (batch >= 0)
        c->begin[batch] += c->at.micro_batch * c->r->plan->step_samples;
    c->call.begin = c->begin;
}

static struct value *share(struct rank *r, struct value *value)
{
    pthread_mutex_lock(&r->lock);
    value_share(value);
    pthread_mutex_unlock(&r->lock);
    return value;
}

static struct value *share_at(struct rank *r, int32_t micro_batch, int64_t key)
{
    pthread_mutex_lock(&r->lock);
    struct value *value = value_share(*value_at(r, micro_batch, key));
    pthread_mutex_unlock(&r->lock);
    return value;
}

static void find_input(struct calling *c, int32_t k, bool backward)
{
    struct rank *r = c->r;
    int64_t u = r->graph->uses->use_first[c->instance] + k;
    const struct use *use = &r->graph->uses->use[u];
    bool turned = backward && c->local_op->laid->turn[k];
    c->input[k] =
        share_at(r, c->at.micro_batch, turned ? key_of(r, KEY_TURNED, u) : input_key(r, u));
    if (!c->input[k]) {
        rank_fail(r, "%s is not there", operand_name(r, c->instance, k).s);
        return;
    }
    if (!c->input[k]->data) {
        rank_fail(r, "%s is in host memory", operand_name(r, c->instance, k).s);
        return;
    }
    if (use->joint && !turned && !c->call.share)
        c->input[k] = fit_forward(r, use->joint, c->input[k]);
    if (c->local_op->border && use->source >= 0) /* image_borders.c, I2 */
        c->input[k] = border_gather(r, c->local_op->border, k, c->input[k]);
    c->call.input[k] =
        c->call.share ? place_in_share(r, c->instance, k, c->input[k]) : c->input[k]->data;
}

static void find_weights_of(struct calling *c)
{
    const struct op *op = c->call.op;
    for (int32_t w = 0; w < op->weights && w < MAX_KIND_WEIGHTS; w++)
        c->call.weight[w] = weight_data(c->r, c->r->weight_of[c->instance * MAX_KIND_WEIGHTS + w],
                                        c->at.micro_batch);
}

static void find_labels(struct calling *c)
{
    const struct laid *laid = c->local_op->laid;
    struct rank *r = c->r;
    if (laid->op->kind != OP_LOSS)
        return;
    int64_t each = (int64_t)sizeof(int64_t), bytes = layout_local(&laid->output) * each;
    c->labels = rank_device(r)->allocate(r->work, bytes);
    if (!c->labels)
        memory_ran_out((size_t)bytes);
    int32_t input = SOURCE_LABELS - loss_number(r->plan->model, laid->op);
    read_source(r, &(struct source_read){c->at.micro_batch, input, &laid->op->output, &laid->output,
                                         c->local_op->place, each, c->labels});
    c->call.input[laid->op->inputs] = c->labels;
}

static void run_kernel(struct calling *c, enum phase phase)
{
    struct rank *r = c->r;
    int64_t bytes = r->options->kernels->scratch_bytes(&c->call);
    if (c->local_op->sums >= 0) {
        c->call.reduce = sum_for_kernel;
        c->call.context = c;
    }
    if (bytes > r->scratch_bytes || !r->scratch) {
        floats_free(r, MEMORY_WORKSPACE, r->scratch, r->scratch_bytes / (int64_t)sizeof(float));
        r->scratch_bytes = bytes / 64 * 64 + 64;
        r->scratch = floats_counted(r, MEMORY_WORKSPACE, r->scratch_bytes / (int64_t)sizeof(float));
    }
    c->call.scratch = r->scratch;
    if (!has_failed(r))
        r->options->kernels->run(&c->call, phase);
}

static void give_back(struct calling *c)
{
    pthread_mutex_lock(&c->r->lock);
    for (int k = 0; k < CALL_INPUTS; k++)
        value_drop(c->r, c->input[k]);
    value_drop(c->r, c->output);
    value_drop(c->r, c->kept);
    value_drop(c->r, c->gradient);
    pthread_mutex_unlock(&c->r->lock);
    rank_device(c->r)->release(c->r->work, c->labels);
}

/* ---- forward --------------------------------------------------------------------------------- */

static double rows_of(const struct rank *r, const struct op *loss)
{
    const struct batch_source *source = &r->source;
    int32_t labels = SOURCE_LABELS - loss_number(r->plan->model, loss);
    int64_t rows = source->counted ? source->counted(source->context, labels)
                                   : elements_per_sample(&loss->output);
    return (double)r->plan->global_batch * (double)rows;
}

static void count_loss(struct calling *c)
{
    struct rank *r = c->r;
    if (c->local_op->counts)
        rank_device(r)->add_sum(r->work, c->output->data, c->output->count, rows_of(r, c->call.op),
                                r->loss_sum);
}

/* Elements of a tensor with this layout, out of rows of `width`: with those that pad it (kernels.h, pitch). */
static int64_t elements_here(const struct calling *c, const struct layout *layout, int64_t width)
{
    int64_t count = layout_local(layout);
    return c->local_op->pitch ? count / width * c->local_op->pitch : count;
}

/* Of outputs: a loss's are one number for each row. */
static int64_t output_elements(const struct calling *c)
{
    const struct layout *layout = &c->local_op->laid->output;
    return c->call.op->kind == OP_LINEAR ? elements_here(c, layout, c->call.size[3])
                                         : layout_local(layout);
}

static void run_forward(struct calling *c, enum purpose purpose)
{
    struct rank *r = c->r;
    const struct laid *laid = c->local_op->laid;
    const struct graph_uses *uses = r->graph->uses;
    int32_t mb = c->at.micro_batch;
    for (int32_t k = 0; k < laid->op->inputs && k < CALL_INPUTS; k++) {
        int64_t u = uses->use_first[c->instance] + k;
        if (uses->use[u].source < 0)
            put_value(r, mb, key_of(r, KEY_INPUT, u), read_input(r, mb, c->local_op, k));
        find_input(c, k, false);
    }
    find_weights_of(c);
    find_labels(c);
    int64_t kept = r->options->kernels->kept_bytes(&c->call);
    c->output = value_new(r, MEMORY_ACTIVATIONS, stored_as(r, laid->op->output.element),
                          &laid->output, output_elements(c));
    c->call.output = c->output->data;
    if (kept) {
        c->kept = value_new(r, MEMORY_ACTIVATIONS, DTYPE_FP32, &laid->output,
                            ceil_div(kept, (int64_t)sizeof(float)));
        c->call.kept = c->kept->data;
    }
    run_kernel(c, PHASE_FORWARD);
    if (laid->op->kind == OP_LOSS && purpose == PURPOSE_FORWARD)
        count_loss(c);
    put_value(r, mb, key_of(r, KEY_OUTPUT, c->instance), c->output);
    put_value(r, mb, key_of(r, KEY_KEPT, c->instance), c->kept);
    c->output = c->kept = NULL;
}

/* ---- gradients of outputs (1) ---------------------------------------------------------------- */

/* A sum of two, in a tensor that nobody else sees (I2). Takes over both references. */
static struct value *add_values(struct rank *r, struct value *sum, struct value *more)
{
    const struct compute_device *device = rank_device(r);
    if (!sum)
        return more;
    pthread_mutex_lock(&r->lock);
    bool shared = sum->refs > 1;
    pthread_mutex_unlock(&r->lock);
    if (shared) {
        struct value *own = value_new(r, (enum memory_class)sum->memory, (enum dtype)sum->dtype,
                                      &sum->layout, sum->count);
        device->copy(r->work, COPY_ON_DEVICE, own->data, sum->data,
                     sum->count * dtype_bytes((enum dtype)sum->dtype));
        value_release(r, sum);
        sum = own;
    }
    device->add(r->work, (enum dtype)sum->dtype, more->data, sum->count, sum->data);
    value_release(r, more);
    return sum;
}

/* The gradient of a part of a fused tensor, into the sum of the whole: not made whole first. */
static bool add_part(struct rank *r, const struct joint *joint, struct value *sum,
                     struct value *part)
{
    if (!sum || !joint->part || part->layout.elements == sum->layout.elements ||
        sum->dtype != part->dtype)
        return false;
    struct fused share = fused_of(r->plan->model, joint->to->op, joint->operand);
    pthread_mutex_lock(&r->lock);
    bool alone = sum->refs == 1;
    pthread_mutex_unlock(&r->lock);
    if (!alone || part->count / share.part * share.whole != sum->count)
        return false;
    fused_add(r, (enum dtype)sum->dtype, share, part, sum);
    value_release(r, part);
    return true;
}

/* Uses in their order: the list has them the other way round. */
static struct value *add_readers(struct rank *r, int32_t micro_batch, int32_t u)
{
    if (u < 0)
        return NULL;
    const struct use *use = &r->graph->uses->use[u];
    struct value *sum = add_readers(r, micro_batch, use->next);
    if (use->same_backward != u)
        return sum;
    struct value *one =
        share_at(r, micro_batch, key_of(r, use->joint->across ? KEY_BACK : KEY_RAW, u));
    if (!one || add_part(r, use->joint, sum, one))
        return sum;
    return add_values(r, sum, fit_gradient(r, use->joint, one));
}

static struct value *loss_gradient(struct rank *r, const struct laid *laid)
{
    struct value *value = value_new(r, MEMORY_ACTIVATIONS, DTYPE_FP32, &laid->output_grad,
                                    layout_local(&laid->output_grad));
    double gradient = laid->op->kind == OP_LOSS ? 1 / rows_of(r, laid->op) : 0; /* (2) */
    if (r->loss_scale.scale > 0)
        gradient *= r->loss_scale.scale;
    rank_device(r)->fill(r->work, value->data, (float)gradient, value->count);
    return value_as(r, value, stored_as(r, laid->op->output.element));
}

static void find_gradient(struct calling *c)
{
    struct rank *r = c->r;
    int32_t key = key_of(r, KEY_GRADIENT, c->instance), mb = c->at.micro_batch;
    c->gradient = share_at(r, mb, key);
    if (!c->gradient) {
        struct value *sum = add_readers(r, mb, r->graph->uses->last_use[c->instance]);
        if (!sum)
            sum = loss_gradient(r, c->local_op->laid);
        put_value(r, mb, key, sum);
        c->gradient = share_at(r, mb, key);
    }
    c->call.output_gradient = c->gradient->data;
}

/* ---- backward -------------------------------------------------------------------------------- */

static void find_kept(struct calling *c, enum phase phase)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    const struct op *op = c->call.op;
    struct rank *r = c->r;
    if (phase == PHASE_BACKWARD_INPUT && makes_product(op->kind))
        return;
    for (int32_t k = 0; k < op->inputs && k < (int32_t)COUNT_OF(INPUTS); k++)
        if (op->keep & INPUTS[k] && op->kind != OP_POOL) /* whose places are enough */
            find_input(c, k, true);
    if (op->keep & KEEP_OUTPUT) {
        c->output = share_at(r, c->at.micro_batch, key_of(r, KEY_OUTPUT, c->instance));
        c->call.output = c->output ? c->output->data : NULL;
    }
    c->kept = share_at(r, c->at.micro_batch, key_of(r, KEY_KEPT, c->instance));
    c->call.kept = c->kept ? c->kept->data : NULL;
}

/* Whether an operand's gradient is the output's own (I1). */
static bool passes_on(const struct calling *c, int32_t k)
{
    const struct laid *laid = c->local_op->laid;
    return op_passes_on(laid->op, k) && layout_equal(&laid->input_grad[k], &laid->output_grad);
}

static int64_t gradient_elements(const struct calling *c, int32_t k)
{
    const struct layout *layout = &c->local_op->laid->input_grad[k];
    return c->call.op->kind == OP_LOSS ? elements_here(c, layout, c->call.size[2])
                                       : layout_local(layout);
}

/* The tensors that the kernel writes; whether there are any. */
static bool make_room(struct calling *c)
{
    const struct graph_uses *uses = c->r->graph->uses;
    const struct laid *laid = c->local_op->laid;
    bool any = c->call.share > 0;
    if (any)
        c->input_gradient[0] = room_in_shares(c->r, c->instance, &c->call);
    for (int32_t k = 0; !c->call.share && k < laid->op->inputs && k < CALL_INPUTS; k++) {
        const struct use *use = &uses->use[uses->use_first[c->instance] + k];
        if (use->source < 0 || !takes_gradient(use->joint->from->op))
            continue;
        if (passes_on(c, k)) {
            c->input_gradient[k] = share(c->r, c->gradient);
            continue;
        }
        if (c->local_op->overwrites && k == 0) {
            c->input_gradient[k] = share(c->r, c->input[k]);
            c->call.input_gradient[k] = c->input[k]->data;
            any = true;
            continue;
        }
        enum dtype dtype = stored_as(c->r, laid->op->input[k].element);
        c->input_gradient[k] = c->local_op->border
                                   ? border_room(c->r, c->local_op->border, k, dtype)
                                   : value_new(c->r, MEMORY_ACTIVATIONS, dtype,
                                               &laid->input_grad[k], gradient_elements(c, k));
        c->call.input_gradient[k] = c->input_gradient[k]->data;
        any = true;
    }
    return any;
}

static void leave_gradients(struct calling *c)
{
    struct rank *r = c->r;
    const struct graph_uses *uses = r->graph->uses;
    for (int32_t k = 0; k < CALL_INPUTS; k++) {
        if (!c->input_gradient[k])
            continue;
        const struct use *use = &uses->use[uses->use_first[c->instance] + k];
        int64_t key = key_of(r, KEY_RAW, use->same_backward);
        if (c->local_op->border)
            c->input_gradient[k] =
                border_give_back(r, c->local_op->border, k, c->input_gradient[k]);
        pthread_mutex_lock(&r->lock);
        struct value **at = value_at(r, c->at.micro_batch, key), *sum = *at;
        *at = NULL;
        pthread_mutex_unlock(&r->lock);
        put_value(r, c->at.micro_batch, key, add_values(r, sum, c->input_gradient[k]));
    }
}

static void run_backward_input(struct calling *c)
{
    find_gradient(c);
    find_kept(c, PHASE_BACKWARD_INPUT);
    find_weights_of(c);
    find_labels(c);
    if (make_room(c))
        run_kernel(c, PHASE_BACKWARD_INPUT);
    leave_gradients(c);
}

static void run_backward_weight(struct calling *c)
{
    struct rank *r = c->r;
    find_gradient(c);
    find_kept(c, PHASE_BACKWARD_WEIGHT);
    find_weights_of(c);
    for (int32_t w = 0; w < c->call.op->weights && w < MAX_KIND_WEIGHTS; w++) {
        int32_t weight = r->weight_of[c->instance * MAX_KIND_WEIGHTS + w];
        await_room(r, weight, c->at.micro_batch);
        c->call.weight_gradient[w] = gradient_data(r, weight, c->at.micro_batch);
    }
    run_kernel(c, PHASE_BACKWARD_WEIGHT);
}

void run_op(struct rank *r, struct spot at)
{
    const struct item *item = &r->graph->block[at.block].item[at.item];
    struct calling c = calling_of(r, at);
    place_samples(&c);
    c.call.share = common_share(r, c.instance, &c.call);
    if (item->phase == PHASE_FORWARD)
        run_forward(&c, (enum purpose)item->purpose);
    else if (item->phase == PHASE_BACKWARD_INPUT)
        run_backward_input(&c);
    else
        run_backward_weight(&c);
    give_back(&c);
}

/* ---- the end of an item (rank.h, I2) --------------------------------------------------------- */

static void drop_key(struct rank *r, int32_t micro_batch, int32_t key)
{
    uint8_t *spare = &r->spare[(int64_t)micro_batch * r->keys + key];
    if (*spare > 0) {
        --*spare;
        return;
    }
    struct value **at = value_at(r, micro_batch, key);
    value_drop(r, *at);
    *at = NULL;
}

/* What is sent stays until it has gone. */
static void fill_boxes(struct rank *r, int32_t micro_batch, const struct block *block)
{
    const struct graph_uses *uses = r->graph->uses;
    const struct part *part = &r->plan->part[block->part];
    bool forward = block->kind == SLOT_FORWARD;
    if (block->kind == SLOT_BACKWARD_WEIGHT)
        return;
    for (int64_t u = 0; u < r->uses; u++) {
        const struct use *use = &uses->use[u];
        int64_t end = forward ? use->source : use->reader;
        if (!(r->program.sends[u] >> !forward & 1) || end < part->first ||
            end >= part->first + part->count)
            continue;
        struct value *value =
            *value_at(r, micro_batch, key_of(r, forward ? KEY_SENDING : KEY_RAW, u));
        if (!value && forward)
            value = *value_at(r, micro_batch, key_of(r, KEY_OUTPUT, use->source));
        struct value **box =
            value_at(r, micro_batch, key_of(r, forward ? KEY_OUTBOX : KEY_INBOX, u));
        value_drop(r, *box);
        *box = value_share(value);
    }
}

void item_over(struct rank *r, struct spot at)
{
    const struct block *block = &r->graph->block[at.block];
    struct block_progress *p = &r->progress[at.micro_batch * r->graph->blocks + at.block];
    pthread_mutex_lock(&r->lock);
    p->over[at.item] = true;
    while (p->prefix < block->items && p->over[p->prefix]) {
        const struct keys *drop = &r->drops[at.block].after[p->prefix++];
        for (int32_t i = 0; i < drop->count; i++)
            drop_key(r, at.micro_batch, drop->key[i]);
    }
    if (p->prefix == block->items) {
        const struct keys *drop = &r->drops[at.block].after[block->items];
        fill_boxes(r, at.micro_batch, block);
        for (int32_t i = 0; i < drop->count; i++)
            drop_key(r, at.micro_batch, drop->key[i]);
    }
    pthread_mutex_unlock(&r->lock);
}
