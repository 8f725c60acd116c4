/* batch_norm.c - batch norm: each channel by the statistics of all samples and pixels.
 *
 *   m = mean(x), r = 1 / sqrt(mean((x - m)^2) + e),  y = g (x - m) r + b                         (1)
 *   dx = g r (dy - mean(dy) - n mean(dy n)),  n = (x - m) r                                      (2)
 *   dg += sum of dy n,  db += sum of dy                                                          (3)
 *
 * Means are over the samples of the micro-batch and all pixels, those of other devices included: sums
 * go through `reduce` (kernels.h, I3), with the number of addends after them. Kept: m and r of each
 * channel.
 */
#include <math.h>

#include "run/kernels/cpu/cpu.h"

static const float EPSILON = 1e-5F; /* PyTorch's BatchNorm2d */

struct batch_norm {
    int64_t batch, channels, pixels;
    float *x, *dy, *y;        /* tiles of one channel of one sample */
    float *sum;               /* two numbers per channel and a count, to be reduced */
    const float *gain, *bias; /* fp32 */
    float *mean, *rate;       /* kept */
};

static int64_t pixels_of(const struct kernel_call *call)
{
    return axes_product(call, &call->op->output, 2, call->op->output.axes);
}

static int64_t norm_scratch(const struct kernel_call *call)
{
    int64_t channels = call->size[1];
    return 2 * channels + 1 + whole_floats(call->dtype, 3 * pixels_of(call) + 2 * channels);
}

static int64_t norm_kept(const struct kernel_call *call)
{
    return 2 * call->size[1] * (int64_t)sizeof(float);
}

static struct batch_norm norm_of(const struct kernel_call *call)
{
    struct batch_norm n = {call->size[0], call->size[1], pixels_of(call)};
    int64_t tile = whole_floats(call->dtype, n.pixels);
    n.sum = call->scratch;
    n.x = n.sum + 2 * n.channels + 1;
    n.dy = n.x + tile;
    n.y = n.dy + tile;
    float *room = n.y + tile;
    n.gain = whole_read(call->dtype, call->weight[0], n.channels, &room);
    n.bias = whole_read(call->dtype, call->weight[1], n.channels, &room);
    n.mean = call->kept;
    n.rate = n.mean + n.channels;
    return n;
}

/* Sums of `count` numbers over all devices that have part of the batch; the number of addends of
 * one channel. */
static float reduced(const struct kernel_call *call, struct batch_norm *n, int64_t count)
{
    n->sum[count] = (float)(n->batch * n->pixels);
    if (call->reduce)
        call->reduce(call->context, REDUCE_SUM, n->sum, count + 1);
    return n->sum[count];
}

static int64_t plane_at(const struct batch_norm *n, int64_t plane)
{
    return plane * n->pixels;
}

static const float *plane_of(const struct kernel_call *call, const struct batch_norm *n,
                             int64_t plane)
{
    return tile_read(call->dtype, call->input[0], plane_at(n, plane), n->pixels, n->x);
}

static void measure(const struct kernel_call *call, struct batch_norm *n)
{
    memset(n->sum, 0, (size_t)n->channels * sizeof *n->sum);
    for (int64_t i = 0; i < n->batch * n->channels; i++)
        n->sum[i % n->channels] += row_sum(plane_of(call, n, i), n->pixels);
    float count = reduced(call, n, n->channels);
    for (int64_t c = 0; c < n->channels; c++) {
        n->mean[c] = n->sum[c] / count;
        n->sum[c] = 0;
    }
    for (int64_t i = 0; i < n->batch * n->channels; i++) {
        int64_t c = i % n->channels;
        n->sum[c] += row_squares(plane_of(call, n, i), n->pixels, n->mean[c]);
    }
    count = reduced(call, n, n->channels);
    for (int64_t c = 0; c < n->channels; c++)
        n->rate[c] = 1.0F / sqrtf(n->sum[c] / count + EPSILON);
}

/* y = (x - mean) slope + shift */
VECTOR static void normalise(const float *restrict x, int64_t count, float mean, float slope,
                             float shift, float *restrict y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = (x[i] - mean) * slope + shift;
}

static void norm_forward(const struct kernel_call *call)
{
    struct batch_norm n = norm_of(call);
    measure(call, &n);
    for (int64_t i = 0; i < n.batch * n.channels; i++) {
        int64_t c = i % n.channels, at = plane_at(&n, i);
        float *y = tile_write(call->dtype, call->output, at, n.y);
        normalise(plane_of(call, &n, i), n.pixels, n.mean[c], n.rate[c] * n.gain[c], n.bias[c], y);
        tile_done(call->dtype, call->output, at, n.pixels, y);
    }
}

/* Adds the sums of dy n and of dy, of all planes: (3). */
VECTOR static void add_sums(const float *x, const float *dy, int64_t count, float mean, float rate,
                            float *along, float *sum)
{
    float a = 0, s = 0;
#pragma omp simd reduction(+ : a, s)
    for (int64_t i = 0; i < count; i++) {
        a += dy[i] * (x[i] - mean);
        s += dy[i];
    }
    *along += a * rate;
    *sum += s;
}

static void sum_gradients(const struct kernel_call *call, const struct batch_norm *n, float *along,
                          float *sum)
{
    for (int64_t i = 0; i < n->batch * n->channels; i++) {
        int64_t c = i % n->channels;
        const float *dy =
            tile_read(call->dtype, call->output_gradient, plane_at(n, i), n->pixels, n->dy);
        add_sums(plane_of(call, n, i), dy, n->pixels, n->mean[c], n->rate[c], &along[c], &sum[c]);
    }
}

VECTOR static void gradient(const float *restrict x, const float *restrict dy, int64_t count,
                            const float *restrict factor, float *restrict dx)
{
    for (int64_t i = 0; i < count; i++)
        dx[i] = factor[0] * (dy[i] - factor[1] - (x[i] - factor[3]) * factor[2]);
}

static void norm_input(const struct kernel_call *call)
{
    struct batch_norm n = norm_of(call);
    float *along = n.sum, *sum = n.sum + n.channels;
    memset(n.sum, 0, (size_t)(2 * n.channels) * sizeof *n.sum);
    sum_gradients(call, &n, along, sum);
    float count = reduced(call, &n, 2 * n.channels);
    for (int64_t i = 0; call->input_gradient[0] && i < n.batch * n.channels; i++) {
        int64_t c = i % n.channels, at = plane_at(&n, i);
        const float factor[] = {n.gain[c] * n.rate[c], sum[c] / count, along[c] / count * n.rate[c],
                                n.mean[c]}; /* (2) */
        const float *dy = tile_read(call->dtype, call->output_gradient, at, n.pixels, n.dy);
        float *dx = tile_write(call->dtype, call->input_gradient[0], at, n.y);
        gradient(plane_of(call, &n, i), dy, n.pixels, factor, dx);
        tile_done(call->dtype, call->input_gradient[0], at, n.pixels, dx);
    }
}

static void norm_weight(const struct kernel_call *call)
{
    struct batch_norm n = norm_of(call);
    sum_gradients(call, &n, call->weight_gradient[0], call->weight_gradient[1]);
}

const struct cpu_kernel CPU_BATCH_NORM = {
    .kept_bytes = norm_kept,
    .scratch_floats = norm_scratch,
    .phase = {norm_forward, norm_input, norm_weight},
};
