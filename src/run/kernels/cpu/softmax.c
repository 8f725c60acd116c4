/* softmax.c - softmax over the keys of plain attention, with a learned bias where it has one.
 *
 *   p_j = e^(x_j + b_j) / sum          dx_j = p_j (dy_j - sum_i p_i dy_i),  db = dx              (1)
 *
 * The bias (weight 0) is T5's or Swin's (shapes.h, 2 and 3).
 *
 * Or the weight is a sink z of each head, a score beside the others whose probability goes nowhere:
 *
 *   p_j = e^(x_j) / (e^z + sum),   dz = -(1 - sum_j p_j) sum_i p_i dy_i                          (2)
 */
#include <math.h>

#include "run/kernels/cpu/cpu.h"

struct softmax {
    int64_t rows, seq, keys;
    struct softmax_bias learned;
    float *x, *y, *z, *bias; /* tiles of a row; the whole bias */
    float *bucket;           /* by distance, for one direction */
};

static int64_t farthest(const struct kernel_call *call)
{
    return call->whole[2] > call->whole[3] ? call->whole[2] : call->whole[3];
}

static int64_t softmax_scratch(const struct kernel_call *call)
{
    struct softmax_bias learned = softmax_bias(call->op);
    int64_t bias = learned.buckets * learned.heads;
    return 3 * call->size[3] + (bias ? bias + farthest(call) : 0);
}

static struct softmax softmax_of(const struct kernel_call *call)
{
    const int64_t *size = call->size;
    struct softmax s = {.rows = size[0] * size[1] * size[2], .seq = size[2], .keys = size[3]};
    s.learned = softmax_bias(call->op);
    s.x = call->scratch;
    s.y = s.x + s.keys;
    s.z = s.y + s.keys;
    s.bias = s.z + s.keys;
    s.bucket = s.bias + s.learned.buckets * s.learned.heads;
    int64_t each = buckets_each_way(call->op, &s.learned);
    for (int64_t i = 0; s.learned.buckets && !s.learned.side && i < farthest(call); i++)
        s.bucket[i] = (float)bucket_of(i, each);
    return s;
}

/* Which number of the bias a key of a row takes. */
static int64_t bias_at(const struct kernel_call *call, const struct softmax *s, int64_t row,
                       int64_t key)
{
    int64_t head = call->begin[1] + row / s->seq % call->size[1];
    int64_t query = call->begin[2] + row % s->seq;
    int64_t side = s->learned.side, heads = s->learned.heads;
    if (side) {
        int64_t dy = key / side - query / side, dx = key % side - query % side;
        int64_t offset = (dy + side - 1) * (2 * side - 1) + dx + side - 1;
        return offset * heads + head % heads;
    }
    int64_t bucket = (int64_t)s->bucket[key > query ? key - query : query - key];
    if (key > query && !call->op->causal && s->learned.buckets > 1)
        bucket += s->learned.buckets / 2;
    return bucket * heads + head;
}

/* Keys that a row sees: all of them, or those up to its own position. */
static int64_t seen(const struct kernel_call *call, const struct softmax *s, int64_t row)
{
    int64_t causal = call->begin[2] + row % s->seq + 1;
    return call->op->causal && causal < s->keys ? causal : s->keys;
}

/* The local number of a row's head, and its sink; -INFINITY: it has none. */
static int64_t head_of(const struct kernel_call *call, const struct softmax *s, int64_t row)
{
    return row / s->seq % call->size[1];
}

static float sink_of(const struct kernel_call *call, const struct softmax *s, int64_t row)
{
    float tile;
    return call->op->sinks
               ? *tile_read(call->dtype, call->weight[0], head_of(call, s, row), 1, &tile)
               : -INFINITY;
}

static void softmax_row(const float *x, int64_t count, float sink, float *y)
{
    float most = fmaxf(row_most(x, count), sink), shift = most > -INFINITY ? most : 0;
    float sum = row_exp(x, count, shift, y) + exp_of(sink - shift); /* nothing seen: all 0 */
    row_scale(y, count, sum > 0 || isnan(sum) ? 1 / sum : 0, y);
}

static const float *with_bias(const struct kernel_call *call, const struct softmax *s, int64_t row,
                              const float *x)
{
    for (int64_t key = 0; key < s->keys; key++)
        s->x[key] = x[key] + s->bias[bias_at(call, s, row, key)];
    return s->x;
}

static void softmax_forward(const struct kernel_call *call)
{
    struct softmax s = softmax_of(call);
    enum dtype dtype = call->dtype;
    const float *bias = NULL;
    if (s.learned.buckets) {
        int64_t count = s.learned.buckets * s.learned.heads;
        bias = tile_read(dtype, call->weight[0], 0, count, s.bias);
        if (bias != s.bias)
            memcpy(s.bias, bias, (size_t)count * sizeof *bias);
    }
    for (int64_t row = 0; row < s.rows; row++) {
        const float *x = tile_read(dtype, call->input[0], row * s.keys, s.keys, s.x);
        float *y = tile_write(dtype, call->output, row * s.keys, s.y);
        int64_t count = seen(call, &s, row);
        softmax_row(bias ? with_bias(call, &s, row, x) : x, count, sink_of(call, &s, row), y);
        memset(y + count, 0, (size_t)(s.keys - count) * sizeof *y);
        tile_done(dtype, call->output, row * s.keys, s.keys, y);
    }
}

VECTOR static void softmax_gradient(const float *restrict p, const float *restrict dy,
                                    int64_t count, float dot, float *restrict dx)
{
    for (int64_t i = 0; i < count; i++)
        dx[i] = p[i] * (dy[i] - dot);
}

static void softmax_input(const struct kernel_call *call)
{
    struct softmax s = softmax_of(call);
    for (int64_t row = 0; call->input_gradient[0] && row < s.rows; row++) {
        int64_t at = row * s.keys;
        const float *p = tile_read(call->dtype, call->output, at, s.keys, s.x);
        const float *dy = tile_read(call->dtype, call->output_gradient, at, s.keys, s.y);
        float *dx = tile_write(call->dtype, call->input_gradient[0], at, s.z);
        softmax_gradient(p, dy, s.keys, row_dot(p, dy, s.keys), dx);
        tile_done(call->dtype, call->input_gradient[0], at, s.keys, dx);
    }
}

static void sinks_gradient(const struct kernel_call *call, const struct softmax *s)
{
    for (int64_t row = 0; row < s->rows; row++) { /* (2) */
        int64_t at = row * s->keys;
        const float *p = tile_read(call->dtype, call->output, at, s->keys, s->x);
        const float *dy = tile_read(call->dtype, call->output_gradient, at, s->keys, s->y);
        call->weight_gradient[0][head_of(call, s, row)] -=
            (1 - row_sum(p, s->keys)) * row_dot(p, dy, s->keys);
    }
}

/* Sums of each row first, where a forward pass has the bias: sums of as many numbers as there are pairs would be less exact. */
static void bias_gradient(const struct kernel_call *call, const struct softmax *s)
{
    int64_t count = s->learned.buckets * s->learned.heads;
    for (int64_t row = 0; row < s->rows; row++) {
        int64_t at = row * s->keys;
        const float *p = tile_read(call->dtype, call->output, at, s->keys, s->x);
        const float *dy = tile_read(call->dtype, call->output_gradient, at, s->keys, s->y);
        softmax_gradient(p, dy, s->keys, row_dot(p, dy, s->keys), s->z);
        memset(s->bias, 0, (size_t)count * sizeof *s->bias);
        for (int64_t key = 0; key < s->keys; key++)
            s->bias[bias_at(call, s, row, key)] += s->z[key];
        row_add(s->bias, count, call->weight_gradient[0]);
    }
}

static void softmax_weight(const struct kernel_call *call)
{
    struct softmax s = softmax_of(call);
    if (call->op->sinks)
        sinks_gradient(call, &s);
    if (s.learned.buckets)
        bias_gradient(call, &s);
}

const struct cpu_kernel CPU_SOFTMAX = {
    .refuses = softmax_refuses,
    .scratch_floats = softmax_scratch,
    .phase = {softmax_forward, softmax_input, softmax_weight},
};
