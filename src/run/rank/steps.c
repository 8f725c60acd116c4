/* steps.c - a step of a reshard as a transfer.
 *
 *   all-reduce      as it lies, in place where nobody else sees the tensor
 *   reduce-scatter  packed into one block per member
 *   all-gather      unpacked from one block per member
 *   all-to-all      both
 *   broadcast       from the one that has it, on one run of a stage's devices, to the others (plan/subset.h)
 *
 *   I1  A fused tensor becomes its part, and a tensor with other padding the one that is wanted,
 *       between the steps where the compiler looks at it under the other layout (uses.h, I1).
 *   I2  Numbers travel and are summed as they are stored where the transport can (transport.h, I7), else in
 *       fp32.
 */
#include "run/rank/operand_name.h"
#include "run/rank/sends.h"

#include <stdlib.h>
#include <string.h>

/* ---- the same tensor under another layout (I1) ----------------------------------------------- */

/* Rows of a tensor of this rank's stage whose last axis is padded. */
static int64_t rows_of(const struct rank *r, const struct operand *operand)
{
    int64_t rows = r->plan->step_samples * plan_stage_joins(r->plan, r->stage);
    for (int axis = 0; axis + 1 < operand->axes; axis++)
        rows *= operand->size[axis];
    return rows;
}

/* All elements are here, with other padding at the end of each row. */
static struct value *pad(struct rank *r, const struct joint *joint, struct value *value,
                         int64_t elements)
{
    int64_t rows = rows_of(r, &joint->to->op->input[joint->operand]);
    int64_t have = value->count / rows, want = elements / rows, both = have < want ? have : want;
    struct layout layout = value->layout;
    enum dtype dtype = (enum dtype)value->dtype;
    const struct compute_device *device = rank_device(r);
    layout.elements = elements;
    struct value *out = value_new(r, MEMORY_ACTIVATIONS, dtype, &layout, elements);
    device->clear(r->work, out->data, elements * dtype_bytes(dtype));
    device->copy_rows(r->work, dtype, (struct row_copy){rows, both, have, want}, value->data,
                      out->data);
    value_release(r, value);
    return out;
}

/* A part of a fused tensor, of these elements, out of the whole. */
static void fused_take(struct rank *r, enum dtype dtype, struct fused share,
                       const struct value *whole, struct value *part)
{
    const char *first = (const char *)whole->data + share.first * dtype_bytes(dtype);
    rank_device(r)->copy_rows(
        r->work, dtype,
        (struct row_copy){part->count / share.part, share.part, share.whole, share.part}, first,
        part->data);
}

void fused_add(struct rank *r, enum dtype dtype, struct fused share, const struct value *part,
               struct value *whole)
{
    char *first = (char *)whole->data + share.first * dtype_bytes(dtype);
    rank_device(r)->add_rows(
        r->work, dtype,
        (struct row_copy){part->count / share.part, share.part, share.part, share.whole},
        part->data, first);
}

static bool is_padded(const struct value *value, int64_t elements)
{
    return value->layout.elements != elements && layout_is_copies(&value->layout);
}

struct value *fit_forward(struct rank *r, const struct joint *joint, struct value *value)
{
    const struct op *op = joint->to->op;
    struct crossing_samples n = joint_samples(r->plan, joint, false);
    int64_t here = r->plan->step_samples * plan_stage_joins(r->plan, r->stage);
    int64_t elements = joint->to->input[joint->operand].elements / n.to * here;
    if (!joint->part)
        return is_padded(value, elements) ? pad(r, joint, value, elements) : value;
    if (value->layout.elements != joint->from->output.elements)
        return value; /* a part already */
    struct fused share = fused_of(r->plan->model, op, joint->operand);
    struct layout whole = value->layout;
    struct layout layout = layout_part(r->plan->model, op, &op->input[joint->operand], &whole);
    enum dtype dtype = (enum dtype)value->dtype;
    struct value *part =
        value_new(r, MEMORY_ACTIVATIONS, dtype, &layout, value->count / share.whole * share.part);
    fused_take(r, dtype, share, value, part);
    value_release(r, value);
    return part;
}

/* Elements of a gradient at the operator that made its tensor. */
static int64_t gradient_elements(const struct rank *r, const struct joint *joint)
{
    struct crossing_samples n = joint_samples(r->plan, joint, true);
    int64_t here = r->plan->step_samples * plan_stage_joins(r->plan, r->stage);
    return joint->from->output_grad.elements / n.to * here;
}

struct layout whole_layout(const struct rank *r, const struct joint *joint,
                           const struct layout *part)
{
    struct fused share = fused_of(r->plan->model, joint->to->op, joint->operand);
    struct layout layout = layout_none(gradient_elements(r, joint));
    for (int64_t i = 0; i < part->digits; i++) {
        int64_t hold = part->digit[i].hold;
        layout_add(&layout, part->digit[i].degree,
                   hold > 0 ? hold * share.whole / share.part : hold);
    }
    return layout;
}

struct value *fit_gradient(struct rank *r, const struct joint *joint, struct value *value)
{
    int64_t elements = gradient_elements(r, joint);
    if (!joint->part)
        return is_padded(value, elements) ? pad(r, joint, value, elements) : value;
    if (value->layout.elements == elements)
        return value; /* the whole already */
    struct fused share = fused_of(r->plan->model, joint->to->op, joint->operand);
    struct layout layout = whole_layout(r, joint, &value->layout);
    enum dtype dtype = (enum dtype)value->dtype;
    struct value *whole =
        value_new(r, MEMORY_ACTIVATIONS, dtype, &layout, value->count / share.part * share.whole);
    rank_device(r)->clear(r->work, whole->data, whole->count * dtype_bytes(dtype));
    fused_add(r, dtype, share, value, whole);
    value_release(r, value);
    return whole;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static struct spot spot_of(const struct task *task)
{
    return (struct spot){task->micro_batch, task->block, task->first_item};
}

/* Whether this item is the last that reads it, and all before are over. */
static bool dies_here(const struct rank *r, struct spot at, int32_t key)
{
    const struct keys *drops = &r->drops[at.block].after[at.item];
    bool found = false;
    if (r->spare[(int64_t)at.micro_batch * r->keys + key])
        return false; /* it has been made again for others */
    for (int32_t i = 0; i < drops->count && !found; i++)
        found = drops->key[i] == key;
    return found && r->progress[at.micro_batch * r->graph->blocks + at.block].prefix == at.item;
}

static struct value *take(struct rank *r, struct spot at, const struct step_place *place)
{
    pthread_mutex_lock(&r->lock);
    struct value **slot = value_at(r, at.micro_batch, place->from), *value = *slot;
    if (place->from == place->to || dies_here(r, at, place->from))
        *slot = NULL;
    else
        value_share(value);
    pthread_mutex_unlock(&r->lock);
    if (!value)
        return NULL;
    if (place->flow == FLOW_FORWARD)
        return place->second ? fit_forward(r, place->joint, value) : value;
    return place->second || !place->joint->part ? fit_gradient(r, place->joint, value) : value;
}

static bool is_alone(struct rank *r, const struct value *value)
{
    pthread_mutex_lock(&r->lock);
    bool alone = value->refs == 1;
    pthread_mutex_unlock(&r->lock);
    return alone;
}

struct value *room_for(struct rank *r, const struct value *from, const struct move *move)
{
    return value_new(r, MEMORY_ACTIVATIONS, (enum dtype)from->dtype, &move->after, move->count);
}

/* How a tensor lies before it is broadcast (compile/uses.c). */
static struct layout before_broadcast(const struct rank *r, const struct step_place *place)
{
    const struct joint *j = place->joint;
    const struct op *op = j->to->op;
    if (place->flow == FLOW_GRADIENT)
        return j->to->input_grad[j->operand];
    struct layout whole = j->from->output;
    struct layout part = layout_part(r->plan->model, op, &op->input[j->operand], &whole);
    layout_pad(j->from->op, op, &op->input[j->operand], j->to->input[j->operand].elements, &part);
    return part;
}

/* What the step makes of what it finds; NULL after an error. */
static struct value *find_move(struct rank *r, struct spot at, struct move *move,
                               struct step_place *place)
{
    const struct block *block = &r->graph->block[at.block];
    const struct item *item = &block->item[at.item];
    *place = place_of_step(r, block->part, item);
    if (place->nothing)
        return NULL;
    struct value *value = take(r, at, place);
    /* it may have come as a copy, and stayed when that left other devices */
    struct layout before = before_broadcast(r, place);
    if (!value)
        rank_fail(r, "what the %s of %s brings is not there", step_name(item->step->kind),
                  operand_name(r, item->instance, item->operand).s);
    else if (!move_of(item->step->kind == COLLECTIVE_BROADCAST ? &before : &value->layout,
                      item->step, move))
        rank_fail(r, "the %s of %s does not fit how it lies", step_name(item->step->kind),
                  operand_name(r, item->instance, item->operand).s);
    if (value && !value->data)
        rank_fail(r, "what the %s of %s brings is in host memory", step_name(item->step->kind),
                  operand_name(r, item->instance, item->operand).s);
    return value;
}

/* A tensor stays as it is where its reader is, and leaves the others. */
static bool stays_here(const struct rank *r, const struct reshard_step *step)
{
    const struct step_digit *digit = &step->digit[0];
    return r->device / digit->mesh_stride % digit->degree == HOLD_ON - digit->after;
}

void run_slice(struct rank *r, struct spot at)
{
    const struct reshard_step *step = r->graph->block[at.block].item[at.item].step;
    struct move move;
    struct step_place place;
    struct value *value = find_move(r, at, &move, &place);
    if (value && !has_failed(r) && step->kind == STEP_LEAVE && stays_here(r, step)) {
        put_value(r, at.micro_batch, place.to, value);
        return;
    }
    if (!value || has_failed(r) || step->kind == STEP_LEAVE) {
        value_release(r, value);
        return;
    }
    struct value *result = room_for(r, value, &move);
    struct runs runs = rank_runs(r, (enum dtype)value->dtype, value->data, result->data, &move);
    move_slice(&move, r->device, &runs);
    value_release(r, value);
    put_value(r, at.micro_batch, place.to, result);
}

void stage_out(struct rank *r, struct errand *w, int64_t count)
{
    w->out_count = floats_of(w->transfer.dtype, count);
    w->out = floats_new(r, MEMORY_WORKSPACE, w->out_count);
    w->transfer.from = w->out;
}

static void stage_in(struct rank *r, struct errand *w, int64_t count)
{
    w->in_count = floats_of(w->transfer.dtype, count);
    w->in = floats_new(r, MEMORY_WORKSPACE, w->in_count);
    w->transfer.to = w->in;
}

static void begin_all_reduce(struct rank *r, struct errand *w)
{
    w->result = is_alone(r, w->from) ? w->from : room_for(r, w->from, &w->move);
    w->transfer.from = w->from->data;
    w->transfer.to = w->result->data;
    w->transfer.count = w->from->count;
}

/* One block after the other is how they lie. */
static bool is_plain(const struct move *move, bool before)
{
    return move->digits == 1 && (before ? move->digit[0].before == move->before_count
                                        : move->digit[0].after == move->count);
}

static void begin_reduce_scatter(struct rank *r, struct errand *w)
{
    w->transfer.from = w->from->data;
    if (!is_plain(&w->move, false)) {
        stage_out(r, w, w->from->count);
        struct runs runs = rank_runs(r, w->transfer.dtype, w->from->data, w->out, &w->move);
        move_scatter(&w->move, &runs);
    }
    w->result = room_for(r, w->from, &w->move);
    w->transfer.to = w->result->data;
    w->transfer.count = w->move.count;
}

static void begin_all_gather(struct rank *r, struct errand *w)
{
    w->transfer.from = w->from->data;
    w->result = room_for(r, w->from, &w->move);
    w->transfer.to = w->result->data;
    if (!is_plain(&w->move, true))
        stage_in(r, w, w->move.count);
    w->transfer.count = w->move.before_count;
}

static void begin_all_to_all(struct rank *r, struct errand *w)
{
    int32_t member = move_member(&w->move, r->device);
    int64_t leaves = 0;
    size_t bytes = 2 * (size_t)w->move.members * sizeof *w->counts;
    w->counts = malloc(bytes);
    if (!w->counts)
        memory_ran_out(bytes);
    w->transfer.from_counts = w->counts;
    w->transfer.to_counts = w->counts + w->move.members;
    move_counts(&w->move, member, w->counts, w->counts + w->move.members);
    for (int32_t m = 0; m < w->move.members; m++)
        leaves += w->counts[m];
    stage_out(r, w, leaves);
    struct runs runs = rank_runs(r, w->transfer.dtype, w->from->data, w->out, &w->move);
    move_pack(&w->move, member, &runs);
    stage_in(r, w, w->move.count);
    w->result = room_for(r, w->from, &w->move);
}

/* Room, where a broadcast brings a tensor that is not here. */
static struct value *find_room(struct rank *r, struct spot at, struct move *move,
                               struct step_place *place)
{
    const struct block *block = &r->graph->block[at.block];
    const struct item *item = &block->item[at.item];
    *place = place_of_step(r, block->part, item);
    struct layout layout = before_broadcast(r, place);
    enum dtype dtype = stored_as(r, place->joint->to->op->input[place->joint->operand].element);
    struct value *room = value_new(r, MEMORY_ACTIVATIONS, dtype, &layout, layout_local(&layout));
    if (!move_of(&layout, item->step, move))
        rank_fail(r, "the broadcast of %s does not fit how it lies",
                  operand_name(r, item->instance, item->operand).s);
    return room;
}

/* The number of the member that has what is broadcast. */
static int32_t root_of(const struct reshard_step *step)
{
    return HOLD_ON - step->digit[0].before;
}

static bool is_root(const struct rank *r, const struct reshard_step *step)
{
    const struct step_digit *digit = &step->digit[0];
    return r->device / digit->mesh_stride % digit->degree == root_of(step);
}

/* What arrives is written to the room that was made for it. */
static void begin_broadcast(struct rank *r, struct errand *w)
{
    const struct task *task = &r->graph->task[r->program.job[w->job].task];
    const struct reshard_step *step = r->graph->block[task->block].item[task->first_item].step;
    begin_all_reduce(r, w);
    w->transfer.peer = root_of(step);
    if (!is_root(r, step))
        w->transfer.from = NULL;
}

static const struct {
    enum transfer_kind kind;
    void (*begin)(struct rank *r, struct errand *w);
} STEPS[COLLECTIVE_COUNT] = {
    [COLLECTIVE_ALL_REDUCE] = {TRANSFER_ALL_REDUCE, begin_all_reduce},
    [COLLECTIVE_ALL_GATHER] = {TRANSFER_ALL_GATHER, begin_all_gather},
    [COLLECTIVE_REDUCE_SCATTER] = {TRANSFER_REDUCE_SCATTER, begin_reduce_scatter},
    [COLLECTIVE_ALL_TO_ALL] = {TRANSFER_ALL_TO_ALL, begin_all_to_all},
    [COLLECTIVE_BROADCAST] = {TRANSFER_BROADCAST, begin_broadcast},
};

void step_begin(struct rank *r, struct errand *w)
{
    const struct job *job = &r->program.job[w->job];
    const struct task *task = &r->graph->task[job->task];
    const struct item *item = &r->graph->block[task->block].item[task->first_item];
    struct step_place place;
    bool absent = item->step->kind == COLLECTIVE_BROADCAST && !is_root(r, item->step);
    w->from = (absent ? find_room : find_move)(r, spot_of(task), &w->move, &place);
    w->key = place.to;
    if (!w->from || has_failed(r))
        return;
    w->stored = (enum dtype)w->from->dtype;
    w->transfer.dtype = travels_as(r, w->stored);
    w->from = value_as(r, w->from, w->transfer.dtype);
    w->transfer.kind = STEPS[item->step->kind].kind;
    w->transfer.group = job->group;
    STEPS[item->step->kind].begin(r, w);
}

void give_back(struct rank *r, struct errand *w)
{
    floats_free(r, MEMORY_WORKSPACE, w->out, w->out_count);
    floats_free(r, MEMORY_WORKSPACE, w->in, w->in_count);
    host_free(r, w->waiting, w->waiting_bytes);
    free(w->counts);
    w->waiting = NULL;
    w->out = w->in = NULL;
    w->counts = NULL;
}

void errand_free(struct rank *r, struct errand *w)
{
    if (w->from != w->result)
        value_release(r, w->from);
    value_release(r, w->result);
    device_finish(rank_device(r), w->copied);
    copies_free(r, w);
    give_back(r, w);
    free(w);
}

void step_end(struct rank *r, struct errand *w)
{
    const struct task *task = &r->graph->task[r->program.job[w->job].task];
    struct runs runs = rank_runs(r, w->transfer.dtype, w->in, w->result->data, &w->move);
    if (w->transfer.kind == TRANSFER_ALL_GATHER && w->in)
        move_gather(&w->move, &runs);
    if (w->transfer.kind == TRANSFER_ALL_TO_ALL)
        move_unpack(&w->move, move_member(&w->move, r->device), &runs);
    w->result->layout = w->move.after;
    give_back(r, w);
    if (w->from != w->result)
        value_release(r, w->from);
    put_value(r, task->micro_batch, w->key, value_as(r, w->result, w->stored));
    w->from = w->result = NULL;
    item_over(r, spot_of(task));
}
