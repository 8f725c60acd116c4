/* borders.c - inputs that an operator reads beyond its own part (kernels.h, I5).
 *
 * Images have their rows exchanged between neighbours (image_borders.c). Of experts' tokens, a split dim is undone for the
 * call alone: the devices that differ in its digits gather the input, and give back each its part of the sum of their
 * gradients:
 *
 *   input     split -> copies          an all-gather, for every pass that reads it
 *   gradient  addends -> split         a reduce-scatter
 *
 * No step of an executed graph does this; the simulator counts what images exchange (compile/halo.c), and takes the
 * gathering of tokens for free.
 *
 *   I1  Groups are made in the order of instances, and asked in the order of the executor's items: the
 *       same on all members.
 */
#include "run/rank/borders.h"

bool reads_whole(const struct op *op, int place)
{
    enum dim dim = OP_KINDS[op->kind].dims[place].dim;
    int axis = dim == DIM_WIDTH;
    if (op->kind == OP_DISPATCH || op->kind == OP_COMBINE)
        return dim == DIM_SEQ;
    if ((op->kind != OP_CONV && op->kind != OP_POOL) || (dim != DIM_HEIGHT && dim != DIM_WIDTH))
        return false;
    return op->kernel[axis] > op->stride[axis] ||
           op->input[0].size[2 + axis] != op->size[place] * op->stride[axis];
}

/* The digits of the splits to undo, outermost first. */
static struct reshard_step digits_of(const struct laid *laid)
{
    const struct split *split = &laid->choice->split;
    struct reshard_step step = {.kind = COLLECTIVE_ALL_GATHER};
    int64_t mesh = split_devices(split);
    for (int32_t i = 0; i < split->parts; i++) {
        int dim = split->part[i].dim;
        int place = dim == SPLIT_COPY ? -1 : op_find_dim(laid->op->kind, (enum dim)dim);
        mesh /= split->part[i].degree;
        if (place >= 0 && reads_whole(laid->op, place))
            step.digit[step.digits++] =
                (struct step_digit){.mesh_stride = mesh, .degree = split->part[i].degree};
    }
    return step;
}

static bool find_moves(const struct laid *laid, struct reshard_step step, struct border_moves *out)
{
    bool fit = true;
    for (int32_t k = 0; k < laid->op->inputs && k < CALL_INPUTS; k++) {
        struct move addends;
        struct reshard_step back = step;
        for (int32_t i = 0; i < step.digits; i++) {
            struct step_digit *digit = &step.digit[i];
            digit->before = layout_hold(&laid->input[k], digit->mesh_stride, digit->degree);
            digit->after = HOLD_COPY;
            back.digit[i].before = digit->before;
            back.digit[i].after = HOLD_PARTIAL;
        }
        fit &= move_of(&laid->input[k], &step, &out->gather[k]) &&
               move_of(&laid->input_grad[k], &back, &addends);
        for (int32_t i = 0; i < step.digits; i++) {
            back.digit[i].after = back.digit[i].before;
            back.digit[i].before = HOLD_PARTIAL;
        }
        fit = fit && move_of(&addends.after, &back, &out->give_back[k]);
    }
    return fit;
}

weft_status find_border(struct rank *r, struct local_op *local_op)
{
    struct reshard_step step = digits_of(local_op->laid);
    int64_t first = r->plan->stage[r->stage].first_device;
    if (!step.digits)
        return WEFT_OK;
    struct border_moves *border = ARENA_NEW(r->arena, struct border_moves);
    local_op->border = border;
    if (local_op->laid->op->kind == OP_CONV || local_op->laid->op->kind == OP_POOL)
        return find_image_border(r, local_op);
    if (!find_moves(local_op->laid, step, border))
        return failure("a split of %s does not fit how its inputs lie", local_op->laid->op->name);
    struct group group = step_group(&step, local_op->place);
    int32_t part = r->graph->uses->part_of[local_op - r->local_op];
    int32_t count = (int32_t)group_size(&group);
    int32_t *member = ARENA_ARRAY(r->arena, int32_t, (size_t)count);
    for (int32_t i = 0; i < count; i++)
        member[i] = (int32_t)(first + plan_place(r->plan, part, group_device(&group, i)));
    return group_for(r, member, count, STREAM_COMPUTE, &border->group);
}

/* ---- for a call ------------------------------------------------------------------------------ */

struct value *border_gather(struct rank *r, const struct border_moves *border, int32_t operand,
                            struct value *value)
{
    const struct move *move = &border->gather[operand];
    if (border->axes)
        return image_gather(r, border, value);
    enum dtype stored = (enum dtype)value->dtype;
    value = value_as(r, value, DTYPE_FP32);
    int64_t all = move->members * move->before_count;
    float *blocks = floats_counted(r, MEMORY_WORKSPACE, all);
    ask(r, &(struct transfer){.kind = TRANSFER_ALL_GATHER,
                              .group = border->group,
                              .from = value->data,
                              .to = blocks,
                              .count = move->before_count});
    struct value *whole = value_new(r, MEMORY_ACTIVATIONS, DTYPE_FP32, &move->after, move->count);
    struct runs runs = rank_runs(r, DTYPE_FP32, blocks, whole->data, move);
    move_gather(move, &runs);
    floats_free(r, MEMORY_WORKSPACE, blocks, all);
    value_release(r, value);
    return value_as(r, whole, stored);
}

struct value *border_room(struct rank *r, const struct border_moves *border, int32_t operand,
                          enum dtype dtype)
{
    const struct move *move = &border->give_back[operand];
    if (border->axes)
        return image_room(r, border, dtype);
    return value_new(r, MEMORY_ACTIVATIONS, dtype, &move->before, move->before_count);
}

struct value *border_give_back(struct rank *r, const struct border_moves *border, int32_t operand,
                               struct value *value)
{
    const struct move *move = &border->give_back[operand];
    if (border->axes)
        return image_give_back(r, border, value);
    enum dtype stored = (enum dtype)value->dtype;
    value = value_as(r, value, DTYPE_FP32);
    float *blocks = floats_counted(r, MEMORY_WORKSPACE, value->count);
    struct value *part = value_new(r, MEMORY_ACTIVATIONS, DTYPE_FP32, &move->after, move->count);
    struct runs runs = rank_runs(r, DTYPE_FP32, value->data, blocks, move);
    move_scatter(move, &runs);
    ask(r, &(struct transfer){.kind = TRANSFER_REDUCE_SCATTER,
                              .group = border->group,
                              .from = blocks,
                              .to = part->data,
                              .count = move->count});
    floats_free(r, MEMORY_WORKSPACE, blocks, value->count);
    value_release(r, value);
    return value_as(r, part, stored);
}
