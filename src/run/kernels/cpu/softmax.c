/* softmax.c - softmax over the keys of plain attention, with a learned bias where it has one.
 *
 *   p_j = e^(x_j + b_j) / sum          dx_j = p_j (dy_j - sum_i p_i dy_i),  db = dx              (1)
 *
 * The bias (weight 0) is T5's: one number per head and bucket of the distance between key and query,
 * stored (bucket, head). With n buckets for one direction, e = n / 2 of them stand for one distance,
 * the others grow with its logarithm up to 128 (Raffel et al., 2020, 2.1):
 *
 *   bucket(d) = d,  d < e;   e + (n - e) ln(d / e) / ln(128 / e), at most n - 1                  (2)
 *
 * A causal softmax has one direction; another one has half of the buckets for keys ahead.
 *
 * Or it is Swin's: keys and queries are the w * w places of a window, and with (2 w - 1)^2 numbers for
 * each of H heads, stored (offset, head), a key takes the one of its offset (dy, dx) from the query:
 *
 *   offset(dy, dx) = (dy + w - 1) (2 w - 1) + dx + w - 1                                         (3)
 *
 * The windows' heads stand one after the other: head i of all is head i % H.
 *
 * Or the weight is a sink z of each head, a score beside the others whose probability goes nowhere:
 *
 *   p_j = e^(x_j) / (e^z + sum),   dz = -(1 - sum_j p_j) sum_i p_i dy_i                          (4)
 */
#include <math.h>

#include "run/kernels/cpu/cpu.h"

enum { FARTHEST = 128 }; /* T5's relative_attention_max_distance */

struct softmax {
    int64_t rows, seq, keys, buckets;
    int64_t side, heads;     /* of a window: w and H; 0: the bias is T5's */
    float *x, *y, *z, *bias; /* tiles of a row; the whole bias */
    float *bucket;           /* by distance, for one direction */
};

static int64_t bias_elements(const struct op *op)
{
    return op->weights && !op->sinks ? op->weight[0].operand.size[0] : 0;
}

/* The w of (3), 0: there is none. */
static int64_t window_side(const struct op *op)
{
    int64_t side = 1, bias = bias_elements(op);
    while (side * side < op->size[3])
        side++;
    int64_t offsets = (2 * side - 1) * (2 * side - 1), heads = bias / offsets;
    bool fits = bias && side * side == op->size[3] && op->size[2] == op->size[3] && !op->causal &&
                bias % offsets == 0 && op->size[1] % heads == 0;
    return fits ? side : 0;
}

static const char *softmax_refuses(const struct op *op)
{
    return bias_elements(op) % op->size[1] && !window_side(op)
               ? "its bias is not one number per head and distance"
               : NULL;
}

static int64_t farthest(const struct kernel_call *call)
{
    return call->whole[2] > call->whole[3] ? call->whole[2] : call->whole[3];
}

static int64_t softmax_scratch(const struct kernel_call *call)
{
    int64_t bias = bias_elements(call->op);
    return 3 * call->size[3] + (bias ? bias + farthest(call) : 0);
}

static int64_t bucket_of(int64_t distance, int64_t buckets)
{
    int64_t exact = buckets / 2 > 1 ? buckets / 2 : 1;
    if (distance < exact)
        return distance < buckets ? distance : buckets - 1;
    double share = log((double)distance / (double)exact) / log((double)FARTHEST / (double)exact);
    int64_t bucket = exact + (int64_t)(share * (double)(buckets - exact));
    return bucket < buckets ? bucket : buckets - 1;
}

static struct softmax softmax_of(const struct kernel_call *call)
{
    const int64_t *size = call->size;
    struct softmax s = {.rows = size[0] * size[1] * size[2], .seq = size[2], .keys = size[3]};
    int64_t bias = bias_elements(call->op);
    s.x = call->scratch;
    s.y = s.x + s.keys;
    s.z = s.y + s.keys;
    s.bias = s.z + s.keys;
    s.bucket = s.bias + bias;
    if (!bias)
        return s;
    s.buckets = bias / call->op->size[1];
    s.side = window_side(call->op);
    if (s.side) {
        s.heads = bias / ((2 * s.side - 1) * (2 * s.side - 1));
        s.buckets = bias / s.heads;
        return s;
    }
    int64_t each = call->op->causal || s.buckets < 2 ? s.buckets : s.buckets / 2;
    for (int64_t i = 0; i < farthest(call); i++)
        s.bucket[i] = (float)bucket_of(i, each);
    return s;
}

/* Which number of the bias a key of a row takes. */
static int64_t bias_at(const struct kernel_call *call, const struct softmax *s, int64_t row,
                       int64_t key)
{
    int64_t head = call->begin[1] + row / s->seq % call->size[1];
    int64_t query = call->begin[2] + row % s->seq;
    if (s->side) { /* (3) */
        int64_t dy = key / s->side - query / s->side, dx = key % s->side - query % s->side;
        int64_t offset = (dy + s->side - 1) * (2 * s->side - 1) + dx + s->side - 1;
        return offset * s->heads + head % s->heads;
    }
    int64_t bucket = (int64_t)s->bucket[key > query ? key - query : query - key];
    if (key > query && !call->op->causal && s->buckets > 1)
        bucket += s->buckets / 2;
    return bucket * call->op->size[1] + head;
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
    if (s.buckets) {
        bias = tile_read(dtype, call->weight[0], 0, bias_elements(call->op), s.bias);
        if (bias != s.bias)
            memcpy(s.bias, bias, (size_t)bias_elements(call->op) * sizeof *bias);
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
    for (int64_t row = 0; row < s->rows; row++) { /* (4) */
        int64_t at = row * s->keys;
        const float *p = tile_read(call->dtype, call->output, at, s->keys, s->x);
        const float *dy = tile_read(call->dtype, call->output_gradient, at, s->keys, s->y);
        call->weight_gradient[0][head_of(call, s, row)] -=
            (1 - row_sum(p, s->keys)) * row_dot(p, dy, s->keys);
    }
}

static void softmax_weight(const struct kernel_call *call)
{
    struct softmax s = softmax_of(call);
    if (call->op->sinks)
        sinks_gradient(call, &s);
    for (int64_t row = 0; s.buckets && row < s.rows; row++) {
        int64_t at = row * s.keys;
        const float *p = tile_read(call->dtype, call->output, at, s.keys, s.x);
        const float *dy = tile_read(call->dtype, call->output_gradient, at, s.keys, s.y);
        softmax_gradient(p, dy, s.keys, row_dot(p, dy, s.keys), s.z);
        for (int64_t key = 0; key < s.keys; key++)
            call->weight_gradient[0][bias_at(call, &s, row, key)] += s.z[key];
    }
}

const struct cpu_kernel CPU_SOFTMAX = {
    .refuses = softmax_refuses,
    .scratch_floats = softmax_scratch,
    .phase = {softmax_forward, softmax_input, softmax_weight},
};
