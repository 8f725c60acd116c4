/* windows.c - rows of images that windows read (windows.h). */
#include "model/model.h"

int window_axis_of(const struct op *op, int place)
{
    enum dim dim = OP_KINDS[op->kind].dims[place].dim;
    const struct operand *image = &op->input[0];
    if ((op->kind != OP_CONV && op->kind != OP_POOL) || (dim != DIM_HEIGHT && dim != DIM_WIDTH))
        return -1;
    for (int axis = 0; axis < image->axes; axis++)
        if (image->dims[axis][0] == place)
            return axis;
    return -1;
}

/* Height is the first number of a window, width the second. */
static int which(const struct op *op, int place)
{
    return OP_KINDS[op->kind].dims[place].dim == DIM_WIDTH;
}

int64_t window_pad(const struct op *op, int place)
{
    int64_t in = op->input[0].size[window_axis_of(op, place)];
    int64_t missing =
        (op->size[place] - 1) * op->stride[which(op, place)] + op->kernel[which(op, place)] - in;
    return missing > 0 ? ceil_div(missing, 2) : 0;
}

/* (1), and the part's own rows. */
static struct image_rows reach(const struct op *op, int place, int64_t parts, int64_t part)
{
    int64_t in = op->input[0].size[window_axis_of(op, place)], out = op->size[place] / parts;
    int64_t stride = op->stride[which(op, place)], pad = window_pad(op, place), own = in / parts;
    struct image_rows rows = {part * out * stride - pad,
                              ((part + 1) * out - 1) * stride + op->kernel[which(op, place)] - pad};
    rows.first = rows.first < 0 ? 0 : rows.first;
    rows.end = rows.end > in ? in : rows.end;
    rows.first = rows.first < part * own ? rows.first : part * own;
    rows.end = rows.end > (part + 1) * own ? rows.end : (part + 1) * own;
    return rows;
}

/* What a part lacks before its own rows, and after them; nothing where there is no such part. */
struct lack {
    int64_t before, after;
};

static struct lack lack_of(const struct op *op, int place, int64_t parts, int64_t part)
{
    if (part < 0 || part == parts)
        return (struct lack){0};
    struct image_rows rows = reach(op, place, parts, part);
    int64_t own = op->input[0].size[window_axis_of(op, place)] / parts;
    return (struct lack){part * own - rows.first, rows.end - (part + 1) * own};
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct halo window_halo(const struct op *op, int place, int64_t parts)
{
    int64_t in = op->input[0].size[window_axis_of(op, place)];
    struct halo halo = {.own = in / parts};
    for (int64_t part = 0; part < parts; part++) {
        struct lack lack = lack_of(op, place, parts, part);
        int64_t gets = lack.before + lack.after;
        int64_t gives =
            lack_of(op, place, parts, part - 1).after + lack_of(op, place, parts, part + 1).before;
        halo.moved = larger(halo.moved, larger(gets, gives));
        halo.rows = larger(halo.rows, halo.own + gets);
        halo.whole |= lack.before > halo.own || lack.after > halo.own;
    }
    if (halo.whole)
        halo.rows = halo.moved = in;
    return halo;
}

struct image_rows window_rows(const struct op *op, int place, int64_t parts, int64_t part)
{
    if (window_halo(op, place, parts).whole)
        return (struct image_rows){0, op->input[0].size[window_axis_of(op, place)]};
    return reach(op, place, parts, part);
}
