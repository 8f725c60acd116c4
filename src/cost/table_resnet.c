/* table_resnet.c - the kernels of one operator of a measured Wide-ResNet.
 *
 * Block i of a stage with p planes and width w: 1x1 to p, 3x3 to w p, 1x1 to 4 p channels, each
 * with a batch norm, and a residual addition. The first block of a stage projects its input before
 * that addition; in the others, the addition's backward only passes the gradient on. Under tensor
 * parallelism algo 0 splits a convolution's output channels, algo 1 its input channels; what it
 * exchanges then is more than one tensor, so the size inside its times is unknown. Nothing else is
 * split.
 */
#include <stdio.h>
#include <string.h>

#include "cost/table.h"

enum { STEM_SIDE = 112, BODY_SIDE = 56, CLASSES = 1024, INDEX_BYTES = 8 };

/* The depth does not matter: only the first block of a stage differs. */
static const struct resnet {
    const char *name;
    int64_t channels, width;
} RESNETS[] = {
    {"resnet_500M", 224, 2},  {"resnet_2B", 448, 2},   {"resnet_4B", 640, 2},
    {"resnet_6_8B", 320, 16}, {"resnet_13B", 320, 16},
};

/* A row and the sizes of its block; the stem and the head are outside of blocks. */
struct block_row {
    struct table_row *row;
    int64_t batch, channels;  /* of the stem */
    int64_t planes, wide, in; /* channels */
    int64_t side, stride;     /* side of the block's output */
    bool first;               /* of its stage */
};

struct kernel_window {
    int64_t size, stride;
};

static void add_conv(struct block_row *b, int64_t in, int64_t out, int64_t side,
                     struct kernel_window w, bool input_gradient)
{
    const struct operator_row *op = b->row->operator;
    if (op->tp > 1) {
        out = op->algo == 0 ? out / op->tp : out;
        in = op->algo == 1 ? in / op->tp : in;
        for (int i = 0; i < DIRECTION_COUNT; i++) {
            b->row->time[i].collective = "channels";
            b->row->time[i].all_reduce_bytes = -1;
        }
    }
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (phase != PHASE_BACKWARD_INPUT || input_gradient)
            row_is(b->row, WORK(KERNEL_CONV, (enum phase)phase, op->matrix_dtype, b->batch, out,
                                side, side, in, w.size, w.size, w.stride));
}

static void add_batch_norm(struct block_row *b, int64_t channels, int64_t side)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        row_is(b->row, WORK(KERNEL_BATCH_NORM, (enum phase)phase, b->row->operator->dtype, b->batch,
                            channels, side * side));
}

/* Passes over an image of this many elements. */
static struct work passes(const struct block_row *b, enum kernel kernel, enum phase phase,
                          int64_t elements, double read, double write)
{
    double bytes = (double)elements * dtype_bytes(b->row->operator->dtype);
    struct work work = bytes_work(kernel, phase, elements, read * bytes, write * bytes);
    work.dtype = b->row->operator->dtype;
    return work;
}

static int64_t elements(const struct block_row *b, int64_t channels, int64_t side)
{
    return b->batch * channels * side * side;
}

static void add_relu(struct block_row *b, int64_t channels, int64_t side)
{
    int64_t n = elements(b, channels, side);
    row_is(b->row, passes(b, KERNEL_ELEMENTWISE, PHASE_FORWARD, n, 1, 1));
    row_is(b->row, passes(b, KERNEL_ELEMENTWISE, PHASE_BACKWARD_INPUT, n, 2, 1));
}

/* ---- stem and head --------------------------------------------------------------------------- */

/* The image has no gradient. */
static void stem_conv(struct block_row *b)
{
    add_conv(b, 3, b->channels, STEM_SIDE, (struct kernel_window){7, 2}, false);
}

static void stem_norm(struct block_row *b)
{
    add_batch_norm(b, b->channels, STEM_SIDE);
}

static void stem_relu(struct block_row *b)
{
    add_relu(b, b->channels, STEM_SIDE);
}

static struct work pool(const struct block_row *b, enum phase phase, int64_t channels, int64_t side,
                        int64_t window)
{
    return WORK(KERNEL_POOL, phase, b->row->operator->dtype, b->batch, channels, side, side,
                window);
}

/* 3 x 3, to a quarter of the pixels, plus the positions of the maxima. */
static void max_pool(struct block_row *b)
{
    double element = dtype_bytes(b->row->operator->dtype);
    double in = (double)elements(b, b->channels, STEM_SIDE) * element;
    double out = in / 4 * (1 + INDEX_BYTES / element);
    struct work forward = pool(b, PHASE_FORWARD, b->channels, STEM_SIDE / 2, 9);
    struct work backward = pool(b, PHASE_BACKWARD_INPUT, b->channels, STEM_SIDE / 2, 9);
    forward.read_bytes = backward.write_bytes = in;
    forward.write_bytes = backward.read_bytes = out;
    row_is(b->row, forward);
    row_is(b->row, backward);
}

static int64_t features(const struct block_row *b)
{
    return b->channels * 32; /* eight times the planes in stage 3, and four times as many out */
}

/* The backward pass spreads one number over the pixels. */
static void mean_pool(struct block_row *b)
{
    int64_t side = BODY_SIDE / 8, n = elements(b, features(b), side);
    struct work forward = pool(b, PHASE_FORWARD, features(b), 1, side * side);
    row_stands_for(b->row, forward);
    row_stands_for(b->row, pool(b, PHASE_BACKWARD_INPUT, features(b), 1, side * side));
    row_ran(b->row, passes(b, KERNEL_POOL, PHASE_FORWARD, n, 1, 0));
    row_ran(b->row, passes(b, KERNEL_ELEMENTWISE, PHASE_BACKWARD_INPUT, n, 0, 1));
}

static void classifier(struct block_row *b)
{
    row_is_linear(b->row, b->batch, CLASSES, features(b));
}

/* ---- a block --------------------------------------------------------------------------------- */

static void conv1(struct block_row *b)
{
    add_conv(b, b->in, b->planes, b->side * b->stride, (struct kernel_window){1, 1}, true);
}

static void conv2(struct block_row *b)
{
    add_conv(b, b->planes, b->wide, b->side, (struct kernel_window){3, b->stride}, true);
}

static void conv3(struct block_row *b)
{
    add_conv(b, b->wide, b->planes * 4, b->side, (struct kernel_window){1, 1}, true);
}

static void norm1(struct block_row *b)
{
    add_batch_norm(b, b->planes, b->side * b->stride);
}

static void norm2(struct block_row *b)
{
    add_batch_norm(b, b->wide, b->side);
}

static void norm3(struct block_row *b)
{
    add_batch_norm(b, b->planes * 4, b->side);
}

static void block_relu(struct block_row *b)
{
    add_relu(b, b->planes * 4, b->side);
}

static void downsample(struct block_row *b)
{
    int64_t n = elements(b, b->planes * 4, b->side);
    if (b->first) {
        add_conv(b, b->in, b->planes * 4, b->side, (struct kernel_window){1, b->stride}, true);
        norm3(b);
        row_several(b->row);
    } else {
        b->row->time[BACKWARD].left_out = SOMETHING_ELSE;
    }
    row_is(b->row, passes(b, KERNEL_ELEMENTWISE, PHASE_FORWARD, n, 2, 1));
}

static const struct {
    const char *name; /* of a block's part, or of a part outside of blocks */
    bool in_block;
    void (*fill)(struct block_row *b);
} OPERATORS[] = {
    {"conv1", false, stem_conv},   {"bn1", false, stem_norm},
    {"relu1", false, stem_relu},   {"maxpool", false, max_pool},
    {"avgpool", false, mean_pool}, {"fc", false, classifier},
    {"conv1", true, conv1},        {"conv2", true, conv2},
    {"conv3", true, conv3},        {"bn1", true, norm1},
    {"bn2", true, norm2},          {"bn3", true, norm3},
    {"relu", true, block_relu},    {"downsample", true, downsample},
};

static void set_block(struct block_row *b, int64_t width, int stage, int index)
{
    b->first = index == 0;
    b->planes = b->channels << stage;
    b->wide = b->planes * width;
    b->in = !b->first ? b->planes * 4 : stage ? b->planes * 2 : b->planes;
    b->stride = stage && b->first ? 2 : 1;
    b->side = BODY_SIDE >> stage;
    b->row->repeated = index > 1; /* the tables repeat the second block's numbers */
}

static void fill_part(struct block_row *b, const char *part, bool in_block)
{
    for (size_t i = 0; i < COUNT_OF(OPERATORS); i++) {
        if (OPERATORS[i].in_block == in_block && strcmp(OPERATORS[i].name, part) == 0) {
            b->row->label = in_block ? OPERATORS[i].name : "stem and head";
            OPERATORS[i].fill(b);
        }
    }
}

/* "block-STAGE-INDEX-PART", or a part outside of blocks. */
static void fill(struct table_row *row, const struct resnet *model)
{
    struct block_row b = {.row = row, .batch = row->operator->batch, .channels = model->channels};
    int stage = 0, index = 0, used = 0;
    const char *op = row->operator->op;
    if (sscanf(op, "block-%1d-%2d-%n", &stage, &index, &used) != 2 || used == 0) {
        fill_part(&b, op, false);
    } else if (stage >= 0 && stage <= 3 && index >= 0) {
        set_block(&b, model->width, stage, index);
        fill_part(&b, op + used, true);
    }
}

void resnet_row(struct table_row *row)
{
    for (size_t i = 0; i < COUNT_OF(RESNETS); i++)
        if (strcmp(RESNETS[i].name, row->operator->model) == 0)
            fill(row, &RESNETS[i]);
}
