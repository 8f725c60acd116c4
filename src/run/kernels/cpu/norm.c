/* norm.c - layer norm and RMS norm: each row of features by its own statistics.
 *
 *   layer norm  m = mean(x), r = 1 / sqrt(mean((x - m)^2) + e),  y = g (x - m) r + b             (1)
 *   RMS norm    the same with m = 0 and no b
 *
 * With n = (x - m) r and t = g dy, means over the row's features,
 *
 *   dx = r (t - mean(t) - n mean(t n)),  mean(t) only where m is a mean                          (2)
 *   dg += sum over rows of dy n,  db += sum over rows of dy                                      (3)
 *
 * Kept: r of each row, and m before it where there is one.
 */
#include <math.h>

#include "run/kernels/cpu/cpu.h"

struct norm_rows {
    int64_t rows, width;
    bool centred;
    float epsilon;     /* e of (1) */
    float *x, *dy, *y; /* tiles of a row */
    const float *gain, *bias;
};

/* A layer norm has one head. */
static int64_t rows_of(const struct kernel_call *call)
{
    return call->size[0] * call->size[1] * call->size[3];
}

static int64_t norm_scratch(const struct kernel_call *call)
{
    return 5 * whole_floats(call->dtype, call->size[2]);
}

static struct norm_rows norm_of(const struct kernel_call *call)
{
    struct norm_rows n = {rows_of(call), call->size[2], call->op->kind == OP_LAYER_NORM,
                          (float)call->op->epsilon};
    int64_t tile = whole_floats(call->dtype, n.width);
    n.x = call->scratch;
    n.dy = n.x + tile;
    n.y = n.dy + tile;
    float *room = n.y + tile;
    n.gain = whole_read(call->dtype, call->weight[0], n.width, &room);
    n.bias = n.centred ? whole_read(call->dtype, call->weight[1], n.width, &room) : NULL;
    return n;
}

static int64_t norm_kept(const struct kernel_call *call)
{
    int64_t each = call->op->kind == OP_LAYER_NORM ? 2 : 1;
    return each * rows_of(call) * (int64_t)sizeof(float);
}

struct row_moments {
    float mean, rate; /* m and r of (1) */
};

static struct row_moments kept_moments(const struct kernel_call *call, const struct norm_rows *n,
                                       int64_t row)
{
    const float *kept = call->kept;
    return n->centred ? (struct row_moments){kept[2 * row], kept[2 * row + 1]}
                      : (struct row_moments){0, kept[row]};
}

static void keep_moments(const struct kernel_call *call, const struct norm_rows *n, int64_t row,
                         struct row_moments m)
{
    float *kept = call->kept;
    if (n->centred)
        kept[2 * row] = m.mean;
    kept[n->centred ? 2 * row + 1 : row] = m.rate;
}

static struct row_moments measure(const float *x, const struct norm_rows *n)
{
    float width = (float)n->width, mean = n->centred ? row_sum(x, n->width) / width : 0;
    float square = row_squares(x, n->width, mean) / width;
    return (struct row_moments){mean, 1.0F / sqrtf(square + n->epsilon)};
}

VECTOR static void normalise(const float *restrict x, struct row_moments m,
                             const float *restrict gain, const float *restrict bias, int64_t width,
                             float *restrict y)
{
    if (!bias) {
        for (int64_t i = 0; i < width; i++)
            y[i] = x[i] * m.rate * gain[i];
        return;
    }
    for (int64_t i = 0; i < width; i++)
        y[i] = (x[i] - m.mean) * m.rate * gain[i] + bias[i];
}

static void norm_forward(const struct kernel_call *call)
{
    struct norm_rows n = norm_of(call);
    for (int64_t row = 0; row < n.rows; row++) {
        int64_t at = row * n.width;
        const float *x = tile_read(call->dtype, call->input[0], at, n.width, n.x);
        float *y = tile_write(call->dtype, call->output, at, n.y);
        struct row_moments m = measure(x, &n);
        normalise(x, m, n.gain, n.bias, n.width, y);
        keep_moments(call, &n, row, m);
        tile_done(call->dtype, call->output, at, n.width, y);
    }
}

/* (2) */
VECTOR static void gradient(const float *restrict x, const float *restrict dy, struct row_moments m,
                            const float *restrict gain, bool centred, int64_t width,
                            float *restrict dx)
{
    float sum = 0, along = 0;
#pragma omp simd reduction(+ : sum, along)
    for (int64_t i = 0; i < width; i++) {
        float t = dy[i] * gain[i];
        sum += t;
        along += t * (x[i] - m.mean);
    }
    float shift = centred ? sum / (float)width : 0;
    float slope = along * m.rate * m.rate / (float)width;
    for (int64_t i = 0; i < width; i++)
        dx[i] = m.rate * (dy[i] * gain[i] - shift - (x[i] - m.mean) * slope);
}

static void norm_input(const struct kernel_call *call)
{
    struct norm_rows n = norm_of(call);
    for (int64_t row = 0; call->input_gradient[0] && row < n.rows; row++) {
        int64_t at = row * n.width;
        const float *x = tile_read(call->dtype, call->input[0], at, n.width, n.x);
        const float *dy = tile_read(call->dtype, call->output_gradient, at, n.width, n.dy);
        float *dx = tile_write(call->dtype, call->input_gradient[0], at, n.y);
        gradient(x, dy, kept_moments(call, &n, row), n.gain, n.centred, n.width, dx);
        tile_done(call->dtype, call->input_gradient[0], at, n.width, dx);
    }
}

/* (3) */
VECTOR static void add_gain(const float *restrict x, const float *restrict dy, struct row_moments m,
                            int64_t width, float *restrict gain)
{
    for (int64_t i = 0; i < width; i++)
        gain[i] += dy[i] * (x[i] - m.mean) * m.rate;
}

static void norm_weight(const struct kernel_call *call)
{
    struct norm_rows n = norm_of(call);
    for (int64_t row = 0; row < n.rows; row++) {
        int64_t at = row * n.width;
        const float *x = tile_read(call->dtype, call->input[0], at, n.width, n.x);
        const float *dy = tile_read(call->dtype, call->output_gradient, at, n.width, n.dy);
        add_gain(x, dy, kept_moments(call, &n, row), n.width, call->weight_gradient[0]);
        if (n.centred)
            row_add(dy, n.width, call->weight_gradient[1]);
    }
}

const struct cpu_kernel CPU_LAYER_NORM = {
    .kept_bytes = norm_kept,
    .scratch_floats = norm_scratch,
    .phase = {norm_forward, norm_input, norm_weight},
};
const struct cpu_kernel CPU_RMS_NORM = {
    .kept_bytes = norm_kept,
    .scratch_floats = norm_scratch,
    .phase = {norm_forward, norm_input, norm_weight},
};
