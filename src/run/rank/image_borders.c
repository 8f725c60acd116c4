/* image_borders.c - rows and columns of images that windows read beyond their part (model/windows.h).
 *
 * An image on a device is `outer` times `own` rows of `inner` elements. Along one axis,
 *
 *   before the call   each device gets from the ones beside it the rows that it lacks
 *   after it          it returns the gradients of these rows, which their owners add to theirs
 *
 * in pairs of neighbours. Height goes first, then width with the rows that have come by then; gradients the other way round.
 * Where windows read beyond the neighbours, too, all parts of the axis are gathered, and their gradients reduced.
 *
 *   I1  Pairs exchange in an order that both keep: those that begin with an even part, then the others.
 *   I2  The model's own images are read with what is lacking (inputs.c).
 */
#include "run/rank/borders.h"

enum { BEFORE, AFTER, SIDES };

/* ---- which rows, and with whom --------------------------------------------------------------- */

/* The number of one of this dim's parts on a device, and the device that has another one and is the same otherwise. */
static int64_t part_of(const struct split *split, int dim, int64_t device)
{
    int64_t mesh = split_devices(split), part = 0;
    for (int32_t i = 0; i < split->parts; i++) {
        mesh /= split->part[i].degree;
        if (split->part[i].dim == dim)
            part = part * split->part[i].degree + device / mesh % split->part[i].degree;
    }
    return part;
}

static int64_t device_with(const struct split *split, int dim, int64_t device, int64_t part)
{
    int64_t mesh = 1;
    for (int32_t i = split->parts - 1; i >= 0; i--) {
        int64_t degree = split->part[i].degree;
        if (split->part[i].dim == dim) {
            device += (part % degree - device / mesh % degree) * mesh;
            part /= degree;
        }
        mesh *= degree;
    }
    return device;
}

static void find_rows(const struct op *op, int place, struct border_axis *a)
{
    a->own = op->input[0].size[window_axis_of(op, place)] / a->parts;
    a->rows = window_rows(op, place, a->parts, a->index);
    if (window_halo(op, place, a->parts).whole)
        return;
    a->takes[BEFORE] = a->index * a->own - a->rows.first;
    a->takes[AFTER] = a->rows.end - (a->index + 1) * a->own;
    if (a->index > 0)
        a->gives[BEFORE] = window_rows(op, place, a->parts, a->index - 1).end - a->index * a->own;
    if (a->index + 1 < a->parts)
        a->gives[AFTER] =
            (a->index + 1) * a->own - window_rows(op, place, a->parts, a->index + 1).first;
}

/* I1: the side that goes first. */
static int first_side(const struct border_axis *a)
{
    return a->index % 2 ? BEFORE : AFTER;
}

/* The rank that has a part of this dim, and of the others what this one has. */
static int32_t rank_with(const struct rank *r, const struct local_op *local_op, int dim,
                         int64_t part)
{
    const struct split *split = &local_op->laid->choice->split;
    int32_t of = r->graph->uses->part_of[local_op - r->local_op];
    int64_t place = device_with(split, dim, local_op->place, part);
    return (int32_t)(r->plan->stage[r->stage].first_device + plan_place(r->plan, of, place));
}

static weft_status find_pair(struct rank *r, const struct local_op *local_op, int dim, int side,
                             struct border_axis *a)
{
    int64_t low = side == BEFORE ? a->index - 1 : a->index;
    a->beside[side] = -1;
    if (low < 0 || low + 1 >= a->parts || !(a->takes[side] || a->gives[side]))
        return WEFT_OK;
    int32_t member[] = {rank_with(r, local_op, dim, low), rank_with(r, local_op, dim, low + 1)};
    return group_for(r, member, COUNT_OF(member), STREAM_COMPUTE, &a->beside[side]);
}

static weft_status find_partners(struct rank *r, const struct local_op *local_op, int dim,
                                 bool whole, struct border_axis *a)
{
    weft_status status;
    a->group = -1;
    if (whole) {
        int32_t *member = ARENA_ARRAY(r->arena, int32_t, (size_t)a->parts);
        for (int64_t part = 0; part < a->parts; part++)
            member[part] = rank_with(r, local_op, dim, part);
        return group_for(r, member, (int32_t)a->parts, STREAM_COMPUTE, &a->group);
    }
    TRY(find_pair(r, local_op, dim, first_side(a), a));
    TRY(find_pair(r, local_op, dim, !first_side(a), a));
done:
    return status;
}

/* The same split, where every device has all rows of what its windows reach over the borders of. */
static struct split without_rows(const struct op *op, const struct split *split)
{
    struct split out = split_none();
    for (int32_t i = 0; i < split->parts; i++) {
        int dim = split->part[i].dim;
        int place = dim == SPLIT_COPY ? -1 : op_find_dim(op->kind, (enum dim)dim);
        split_add(&out, place >= 0 && reads_whole(op, place) ? SPLIT_COPY : dim,
                  split->part[i].degree);
    }
    return out;
}

weft_status find_image_border(struct rank *r, struct local_op *local_op)
{
    const struct op *op = local_op->laid->op;
    const struct split *split = &local_op->laid->choice->split;
    struct border_moves *border = local_op->border;
    struct split rows = without_rows(op, split);
    weft_status status = WEFT_OK;
    border->layout = local_op->laid->input[0];
    border->gradient = local_op->laid->input_grad[0];
    border->source = layout_of(op, &op->input[0], &rows,
                               plan_samples(r->plan, local_op->laid->choice), FLOW_FORWARD);
    for (int place = 0; place < op_dims(op->kind); place++) {
        int dim = OP_KINDS[op->kind].dims[place].dim;
        if (!reads_whole(op, place) || split_degree(split, dim) == 1)
            continue;
        struct border_axis *a = &border->axis[border->axes++];
        a->axis = dim == DIM_WIDTH;
        a->parts = split_degree(split, dim);
        a->index = part_of(split, dim, local_op->place);
        a->inner = a->axis ? 1 : op->input[0].size[3] / split_degree(split, DIM_WIDTH);
        find_rows(op, place, a);
        TRY(find_partners(r, local_op, dim, window_halo(op, place, a->parts).whole, a));
    }
done:
    return status;
}

void image_rows_of(const struct local_op *local_op, struct image_rows *out)
{
    const struct border_moves *border = local_op->border;
    for (int32_t i = 0; border && i < border->axes; i++)
        out[border->axis[i].axis] = border->axis[i].rows;
}

/* ---- along one axis -------------------------------------------------------------------------- */

static int64_t rows_given(const struct border_axis *a)
{
    return a->rows.end - a->rows.first;
}

/* Some rows of an image, out of `have` or into it. */
static struct row_copy some_rows(const struct border_axis *a, int64_t outer, int64_t rows,
                                 int64_t from, int64_t to)
{
    return (struct row_copy){outer, rows * a->inner, from * a->inner, to * a->inner};
}

static char *row_at(const struct border_axis *a, const struct value *value, int64_t row)
{
    return (char *)value->data + row * a->inner * dtype_bytes((enum dtype)value->dtype);
}

static struct value *rows_new(struct rank *r, const struct value *like, enum dtype dtype,
                              int64_t count)
{
    return value_new(r, MEMORY_WORKSPACE, dtype, &like->layout, count);
}

/* Gives a neighbour `out` (taken over) and returns as many elements of its own as are asked for. */
static struct value *swap(struct rank *r, const struct border_axis *a, int side, struct value *out,
                          int64_t wanted)
{
    enum dtype stored = (enum dtype)out->dtype;
    int other = side == BEFORE ? 0 : 1; /* in the pair */
    out = value_as(r, out, DTYPE_FP32);
    struct value *in = rows_new(r, out, DTYPE_FP32, wanted);
    int64_t sends[2] = {0}, takes[2] = {0};
    sends[other] = out->count;
    takes[other] = wanted;
    ask(r, &(struct transfer){.kind = TRANSFER_ALL_TO_ALL,
                              .group = a->beside[side],
                              .from = out->data,
                              .to = in->data,
                              .count = out->count,
                              .from_counts = sends,
                              .to_counts = takes});
    value_release(r, out);
    return value_as(r, in, stored);
}

/* Rows of `value`, which has `have` of them, from `first` on. */
static struct value *take_rows(struct rank *r, const struct border_axis *a,
                               const struct value *value, int64_t have, int64_t first, int64_t rows)
{
    int64_t outer = value->count / (have * a->inner);
    enum dtype dtype = (enum dtype)value->dtype;
    struct value *out = rows_new(r, value, dtype, outer * rows * a->inner);
    if (out->count)
        rank_device(r)->copy_rows(r->work, dtype, some_rows(a, outer, rows, have, rows),
                                  row_at(a, value, first), out->data);
    return out;
}

static void lay_rows(struct rank *r, const struct border_axis *a, const struct value *rows,
                     int64_t count, struct value *into, int64_t have, int64_t first, bool adds)
{
    const struct compute_device *device = rank_device(r);
    enum dtype dtype = (enum dtype)into->dtype;
    struct row_copy copy = some_rows(a, into->count / (have * a->inner), count, count, have);
    if (rows->count)
        (adds ? device->add_rows : device->copy_rows)(r->work, dtype, copy, rows->data,
                                                      row_at(a, into, first));
}

/* The own rows, and those of the neighbours around them. */
static void bring_side(struct rank *r, const struct border_axis *a, int side,
                       const struct value *own, struct value *given)
{
    int64_t first = side == BEFORE ? 0 : a->own - a->gives[side];
    int64_t to = side == BEFORE ? 0 : a->takes[BEFORE] + a->own;
    if (a->beside[side] < 0)
        return;
    struct value *out = take_rows(r, a, own, a->own, first, a->gives[side]);
    int64_t each = own->count / a->own;
    struct value *in = swap(r, a, side, out, each * a->takes[side]);
    lay_rows(r, a, in, a->takes[side], given, rows_given(a), to, false);
    value_release(r, in);
}

/* Returns what was taken, and adds what comes back to the own rows. */
static void return_side(struct rank *r, const struct border_axis *a, int side,
                        const struct value *given, struct value *own)
{
    int64_t first = side == BEFORE ? 0 : a->takes[BEFORE] + a->own;
    int64_t to = side == BEFORE ? 0 : a->own - a->gives[side];
    if (a->beside[side] < 0)
        return;
    struct value *out = take_rows(r, a, given, rows_given(a), first, a->takes[side]);
    int64_t each = own->count / a->own;
    struct value *in = swap(r, a, side, out, each * a->gives[side]);
    lay_rows(r, a, in, a->gives[side], own, a->own, to, true);
    value_release(r, in);
}

/* ---- all parts of an axis -------------------------------------------------------------------- */

static void gather_axis(struct rank *r, const struct border_axis *a, struct value *own,
                        struct value *given)
{
    int64_t all = a->parts * own->count;
    struct value *sent = value_as(r, take_rows(r, a, own, a->own, 0, a->own), DTYPE_FP32);
    struct value *blocks = rows_new(r, own, DTYPE_FP32, all);
    ask(r, &(struct transfer){.kind = TRANSFER_ALL_GATHER,
                              .group = a->group,
                              .from = sent->data,
                              .to = blocks->data,
                              .count = own->count});
    value_release(r, sent);
    blocks = value_as(r, blocks, (enum dtype)own->dtype);
    struct value part = *blocks;
    part.count = own->count;
    for (int64_t i = 0; i < a->parts; i++) {
        part.data = (char *)blocks->data + i * own->count * dtype_bytes((enum dtype)own->dtype);
        lay_rows(r, a, &part, a->own, given, rows_given(a), i * a->own, false);
    }
    value_release(r, blocks);
}

static void reduce_axis(struct rank *r, const struct border_axis *a, const struct value *given,
                        struct value *own)
{
    enum dtype stored = (enum dtype)own->dtype;
    struct value *blocks = rows_new(r, own, stored, a->parts * own->count);
    for (int64_t i = 0; i < a->parts; i++)
        rank_device(r)->copy_rows(
            r->work, stored,
            some_rows(a, own->count / (a->own * a->inner), a->own, rows_given(a), a->own),
            row_at(a, given, i * a->own),
            (char *)blocks->data + i * own->count * dtype_bytes(stored));
    blocks = value_as(r, blocks, DTYPE_FP32);
    struct value *sum = rows_new(r, own, DTYPE_FP32, own->count);
    ask(r, &(struct transfer){.kind = TRANSFER_REDUCE_SCATTER,
                              .group = a->group,
                              .from = blocks->data,
                              .to = sum->data,
                              .count = own->count});
    value_release(r, blocks);
    sum = value_as(r, sum, stored);
    lay_rows(r, a, sum, a->own, own, a->own, 0, false);
    value_release(r, sum);
}

/* ---- for a call ------------------------------------------------------------------------------ */

static struct value *axis_gather(struct rank *r, const struct border_axis *a, struct value *own)
{
    struct value *given = value_new(r, MEMORY_ACTIVATIONS, (enum dtype)own->dtype, &own->layout,
                                    own->count / a->own * rows_given(a));
    if (a->group >= 0) {
        gather_axis(r, a, own, given);
    } else {
        lay_rows(r, a, own, a->own, given, rows_given(a), a->takes[BEFORE], false);
        bring_side(r, a, first_side(a), own, given);
        bring_side(r, a, !first_side(a), own, given);
    }
    value_release(r, own);
    return given;
}

static struct value *axis_give_back(struct rank *r, const struct border_axis *a,
                                    struct value *given)
{
    struct value *own = value_new(r, MEMORY_ACTIVATIONS, (enum dtype)given->dtype, &given->layout,
                                  given->count / rows_given(a) * a->own);
    if (a->group >= 0) {
        reduce_axis(r, a, given, own);
    } else {
        struct value *rows = take_rows(r, a, given, rows_given(a), a->takes[BEFORE], a->own);
        lay_rows(r, a, rows, a->own, own, a->own, 0, false);
        value_release(r, rows);
        return_side(r, a, first_side(a), given, own);
        return_side(r, a, !first_side(a), given, own);
    }
    value_release(r, given);
    return own;
}

struct value *image_gather(struct rank *r, const struct border_moves *border, struct value *value)
{
    for (int32_t i = 0; i < border->axes; i++)
        value = axis_gather(r, &border->axis[i], value);
    return value;
}

struct value *image_room(struct rank *r, const struct border_moves *border, enum dtype dtype)
{
    int64_t count = layout_local(&border->layout);
    for (int32_t i = 0; i < border->axes; i++)
        count = count / border->axis[i].own * rows_given(&border->axis[i]);
    return value_new(r, MEMORY_ACTIVATIONS, dtype, &border->gradient, count);
}

struct value *image_give_back(struct rank *r, const struct border_moves *border,
                              struct value *value)
{
    for (int32_t i = border->axes - 1; i >= 0; i--)
        value = axis_give_back(r, &border->axis[i], value);
    return value;
}

/* Height first: of whole rows, whose elements are those of all columns. */
struct value *image_cut(struct rank *r, const struct border_moves *border, struct value *value)
{
    for (int32_t i = 0; i < border->axes; i++) {
        struct border_axis a = border->axis[i];
        if (a.axis == 0 && border->axes == 2)
            a.inner *= border->axis[1].parts;
        struct value *cut = take_rows(r, &a, value, a.own * a.parts, a.rows.first, rows_given(&a));
        cut->layout = border->layout;
        value_release(r, value);
        value = cut;
    }
    return value;
}
