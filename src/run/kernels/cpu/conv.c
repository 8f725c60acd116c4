/* conv.c - convolution as a matrix product of the weights with the windows of an image (im2col).
 *
 *   C[(c i j), (y x)] = X[c, y s + i - pad, x s + j - pad], 0 outside                            (1)
 *   Y = W C + b        dC = W^T dY, added back to where (1) took it        dW += dY C^T
 *
 * with W of (out, in / groups * window), for every group of channels and every sample.
 *
 *   I1  Where `out` is split, a device's outputs may begin in the middle of a group; where `in` is
 *       split there is one group, and the bias is added once (kernels.h, I1).
 */
#include "run/kernels/cpu/cpu.h"

struct conv {
    struct window_axis h, w;
    int64_t batch, in, out; /* local channels */
    int64_t inner, pixels;  /* rows and columns of C */
    bool plain;             /* windows of one pixel: C is X */
    float *columns;         /* C */
    float *room;
};

static bool is_plain(const struct window_axis *w)
{
    return w->kernel == 1 && w->stride == 1 && w->pad == 0 && w->in == w->out;
}

static struct conv conv_of(const struct kernel_call *call)
{
    struct conv c = {window_of(call, 0), window_of(call, 1), call->size[0], call->size[1],
                     call->size[2]};
    c.inner = c.in / call->op->groups * c.h.kernel * c.w.kernel;
    c.pixels = c.h.out * c.w.out;
    c.plain = is_plain(&c.h) && is_plain(&c.w);
    return c;
}

static struct conv conv_open(const struct kernel_call *call)
{
    struct conv c = conv_of(call);
    c.columns = call->scratch;
    c.room = c.columns + (c.plain ? 0 : c.inner * c.pixels);
    return c;
}

static int64_t image_elements(const struct conv *c)
{
    return c->in * c->h.in * c->w.in;
}

static int64_t conv_scratch(const struct kernel_call *call)
{
    struct conv c = conv_of(call);
    int64_t columns = c.plain ? 0 : c.inner * c.pixels;
    return columns +
           whole_floats(call->dtype, image_elements(&c) + c.out * (c.inner + c.pixels + 1));
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Row (channel, i, j) of C: a copy of pixels into it, or an addition of it to pixels. */
static void read_row(const struct conv *c, const float *image, int64_t i, int64_t j,
                     float *restrict row)
{
    struct window_span v = outputs_over(&c->h, i), u = outputs_over(&c->w, j);
    memset(row, 0, (size_t)c->pixels * sizeof *row);
    for (int64_t y = v.first; y < v.end; y++) {
        const float *restrict from = image + (y * c->h.stride + v.at) * c->w.in + u.at;
        float *restrict to = row + y * c->w.out;
        for (int64_t x = u.first; x < u.end; x++)
            to[x] = from[x * c->w.stride];
    }
}

static void add_row(const struct conv *c, const float *row, int64_t i, int64_t j, float *image)
{
    struct window_span v = outputs_over(&c->h, i), u = outputs_over(&c->w, j);
    for (int64_t y = v.first; y < v.end; y++) {
        const float *restrict from = row + y * c->w.out;
        float *restrict to = image + (y * c->h.stride + v.at) * c->w.in + u.at;
        for (int64_t x = u.first; x < u.end; x++)
            to[x * c->w.stride] += from[x];
    }
}

/* C of the channels that `image` begins with. */
static const float *columns_of(const struct conv *c, const float *image)
{
    int64_t window = c->h.kernel * c->w.kernel;
    if (c->plain)
        return image;
    for (int64_t row = 0; row < c->inner; row++)
        read_row(c, image + row / window * c->h.in * c->w.in, row % window / c->w.kernel,
                 row % c->w.kernel, c->columns + row * c->pixels);
    return c->columns;
}

static void add_columns(const struct conv *c, const float *columns, float *image)
{
    int64_t window = c->h.kernel * c->w.kernel;
    for (int64_t row = 0; row < c->inner; row++)
        add_row(c, columns + row * c->pixels, row % window / c->w.kernel, row % c->w.kernel,
                image + row / window * c->h.in * c->w.in);
}

/* ---- phases ---------------------------------------------------------------------------------- */

static void start_outputs(const struct conv *c, const float *bias, float *y)
{
    for (int64_t i = 0; i < c->out * c->pixels; i++)
        y[i] = bias ? bias[i / c->pixels] : 0;
}

static void conv_forward(const struct kernel_call *call)
{
    struct conv c = conv_open(call);
    int64_t image = image_elements(&c), outputs = c.out * c.pixels;
    const float *w = whole_read(call->dtype, call->weight[0], c.out * c.inner, &c.room);
    bool biased = call->op->weights > 1 && call->adds_once;
    const float *bias = biased ? whole_read(call->dtype, call->weight[1], c.out, &c.room) : NULL;
    float *x_tile = c.room, *y_tile = x_tile + whole_floats(call->dtype, image);
    for (int64_t sample = 0; sample < c.batch; sample++) {
        const float *x = tile_read(call->dtype, call->input[0], sample * image, image, x_tile);
        float *y = tile_write(call->dtype, call->output, sample * outputs, y_tile);
        start_outputs(&c, bias, y);
        for (struct group_outputs o = group_outputs(call, 0); o.count > 0;
             o = group_outputs(call, o.first + o.count))
            product(
                o.count, c.pixels, c.inner, 1,
                (struct matrix){w + o.first * c.inner, c.inner, false},
                (struct matrix){columns_of(&c, x + o.channel * c.h.in * c.w.in), c.pixels, false},
                1, y + o.first * c.pixels, c.pixels);
        tile_done(call->dtype, call->output, sample * outputs, outputs, y);
    }
}

static void input_of_group(const struct conv *c, const float *w, const float *dy,
                           struct group_outputs o, float *dx)
{
    float *image = dx + o.channel * c->h.in * c->w.in;
    float *columns = c->plain ? image : c->columns;
    product(c->inner, c->pixels, o.count, 1,
            (struct matrix){w + o.first * c->inner, c->inner, true},
            (struct matrix){dy + o.first * c->pixels, c->pixels, false}, c->plain ? 1 : 0, columns,
            c->pixels);
    if (!c->plain)
        add_columns(c, columns, image);
}

static void conv_input(const struct kernel_call *call)
{
    struct conv c = conv_open(call);
    int64_t image = image_elements(&c), outputs = c.out * c.pixels;
    const float *w = whole_read(call->dtype, call->weight[0], c.out * c.inner, &c.room);
    float *dx_tile = c.room, *dy_tile = dx_tile + whole_floats(call->dtype, image);
    for (int64_t sample = 0; call->input_gradient[0] && sample < c.batch; sample++) {
        const float *dy =
            tile_read(call->dtype, call->output_gradient, sample * outputs, outputs, dy_tile);
        float *dx = tile_write(call->dtype, call->input_gradient[0], sample * image, dx_tile);
        memset(dx, 0, (size_t)image * sizeof *dx);
        for (struct group_outputs o = group_outputs(call, 0); o.count > 0;
             o = group_outputs(call, o.first + o.count))
            input_of_group(&c, w, dy, o, dx);
        tile_done(call->dtype, call->input_gradient[0], sample * image, image, dx);
    }
}

static void add_bias_gradient(const struct conv *c, const float *dy, float *gradient)
{
    for (int64_t channel = 0; channel < c->out; channel++)
        gradient[channel] += row_sum(dy + channel * c->pixels, c->pixels);
}

static void conv_weight(const struct kernel_call *call)
{
    struct conv c = conv_open(call);
    int64_t image = image_elements(&c), outputs = c.out * c.pixels;
    float *x_tile = c.room, *dy_tile = x_tile + whole_floats(call->dtype, image);
    for (int64_t sample = 0; sample < c.batch; sample++) {
        const float *x = tile_read(call->dtype, call->input[0], sample * image, image, x_tile);
        const float *dy =
            tile_read(call->dtype, call->output_gradient, sample * outputs, outputs, dy_tile);
        for (struct group_outputs o = group_outputs(call, 0); o.count > 0;
             o = group_outputs(call, o.first + o.count))
            product(
                o.count, c.inner, c.pixels, 1,
                (struct matrix){dy + o.first * c.pixels, c.pixels, false},
                (struct matrix){columns_of(&c, x + o.channel * c.h.in * c.w.in), c.pixels, true}, 1,
                call->weight_gradient[0] + o.first * c.inner, c.inner);
        if (call->op->weights > 1)
            add_bias_gradient(&c, dy, call->weight_gradient[1]);
    }
}

const struct cpu_kernel CPU_CONV = {
    .refuses = image_refuses,
    .scratch_floats = conv_scratch,
    .phase = {conv_forward, conv_input, conv_weight},
};
