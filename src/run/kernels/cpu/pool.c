/* pool.c - the largest number of each window, or the mean of its pixels.
 *
 *   maximum  y = max x, dx of the first largest pixel += dy; its place is kept
 *   mean     y = sum x / pixels of the image in the window, dx += dy / pixels
 *
 *   I1  A model that keeps the places of the largest (kept_fp32) means the maximum; any other mean.
 */
#include <math.h>

#include "run/kernels/cpu/cpu.h"

struct pooling {
    struct window_axis h, w;
    int64_t planes; /* samples times channels */
    bool maximum;
    float *in, *out; /* tiles of a plane */
};

static struct pooling pool_of(const struct kernel_call *call)
{
    return (struct pooling){window_of(call, 0), window_of(call, 1), call->size[0] * call->size[1],
                            call->op->kept_fp32 > 0};
}

static struct pooling pool_open(const struct kernel_call *call)
{
    struct pooling p = pool_of(call);
    p.in = call->scratch;
    p.out = p.in + whole_floats(call->dtype, p.h.in * p.w.in);
    return p;
}

static int64_t pool_scratch(const struct kernel_call *call)
{
    struct pooling p = pool_of(call);
    return whole_floats(call->dtype, p.h.in * p.w.in + p.h.out * p.w.out);
}

static int64_t pool_kept(const struct kernel_call *call)
{
    struct pooling p = pool_of(call);
    return p.maximum ? p.planes * p.h.out * p.w.out * (int64_t)sizeof(int64_t) : 0;
}

/* The place of the first largest pixel in a window. */
static int64_t largest(const struct pooling *p, const float *x, struct window_span v,
                       struct window_span u)
{
    int64_t best = (v.at + v.first) * p->w.in + u.at + u.first;
    for (int64_t i = v.first; i < v.end; i++)
        for (int64_t j = u.first; j < u.end; j++) {
            int64_t place = (v.at + i) * p->w.in + u.at + j;
            if (x[place] > x[best] || isnan(x[place]))
                best = place;
        }
    return best;
}

static float mean(const struct pooling *p, const float *x, struct window_span v,
                  struct window_span u)
{
    float sum = 0;
    for (int64_t i = v.first; i < v.end; i++)
        for (int64_t j = u.first; j < u.end; j++)
            sum += x[(v.at + i) * p->w.in + u.at + j];
    return sum / (float)((v.end - v.first) * (u.end - u.first));
}

static void pool_plane(const struct pooling *p, const float *x, int64_t *place, float *y)
{
    for (int64_t i = 0; i < p->h.out * p->w.out; i++) {
        struct window_span v = span_at(&p->h, i / p->w.out), u = span_at(&p->w, i % p->w.out);
        if (p->maximum)
            place[i] = largest(p, x, v, u);
        y[i] = p->maximum ? x[place[i]] : mean(p, x, v, u);
    }
}

static void pool_forward(const struct kernel_call *call)
{
    struct pooling p = pool_open(call);
    int64_t in = p.h.in * p.w.in, out = p.h.out * p.w.out;
    for (int64_t plane = 0; plane < p.planes; plane++) {
        const float *x = tile_read(call->dtype, call->input[0], plane * in, in, p.in);
        float *y = tile_write(call->dtype, call->output, plane * out, p.out);
        pool_plane(&p, x, p.maximum ? (int64_t *)call->kept + plane * out : NULL, y);
        tile_done(call->dtype, call->output, plane * out, out, y);
    }
}

static void spread_mean(const struct pooling *p, int64_t output, float dy, float *dx)
{
    struct window_span v = span_at(&p->h, output / p->w.out), u = span_at(&p->w, output % p->w.out);
    float each = dy / (float)((v.end - v.first) * (u.end - u.first));
    for (int64_t i = v.first; i < v.end; i++)
        for (int64_t j = u.first; j < u.end; j++)
            dx[(v.at + i) * p->w.in + u.at + j] += each;
}

static void pool_input(const struct kernel_call *call)
{
    struct pooling p = pool_open(call);
    int64_t in = p.h.in * p.w.in, out = p.h.out * p.w.out;
    for (int64_t plane = 0; call->input_gradient[0] && plane < p.planes; plane++) {
        const float *dy = tile_read(call->dtype, call->output_gradient, plane * out, out, p.out);
        float *dx = tile_write(call->dtype, call->input_gradient[0], plane * in, p.in);
        memset(dx, 0, (size_t)in * sizeof *dx);
        for (int64_t i = 0; i < out; i++)
            if (p.maximum)
                dx[((const int64_t *)call->kept)[plane * out + i]] += dy[i];
            else
                spread_mean(&p, i, dy[i], dx);
        tile_done(call->dtype, call->input_gradient[0], plane * in, in, dx);
    }
}

const struct cpu_kernel CPU_POOL = {
    .refuses = image_refuses,
    .kept_bytes = pool_kept,
    .scratch_floats = pool_scratch,
    .phase = {pool_forward, pool_input},
};
