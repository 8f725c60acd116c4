/* conv1d.c - a causal depthwise convolution over a sequence with SiLU, and the gated norm.
 *
 *   z_t = b + sum over k < K of w_k x_(t - K + 1 + k),  y = z s(z), s the sigmoid              (1)
 *   dz = dy s(z) (1 + z (1 - s(z))),  dx_t = sum of w_k dz_(t + K - 1 - k)                     (2)
 *   dw_k = sum of dz_t x_(t - K + 1 + k),  db = sum of dz_t                                    (3)
 *
 * of each feature by itself; positions before the first are zero. Kept: the slope of (2), since weights
 * that are sharded are not there for their gradients.
 *
 *   v = x z s(z),  r = 1 / sqrt(mean(v^2) + e),  y = g v r                                     (4)
 *   dv = r (g dy - v r^2 mean(g dy v)),  dx = dv z s(z),  dz = dv x s(z) (1 + z (1 - s(z)))    (5)
 *   dg = sum over rows of dy v r                                                               (6)
 *
 * of each group's features; kept is r.
 */
#include "run/kernels/cpu/cpu.h"

/* ---- convolution ----------------------------------------------------------------------------- */

struct conv1d {
    int64_t batch, seq, features, taps;
    const float *weight; /* (features, taps) */
    float *slope;        /* (batch, seq, features) */
    float *room;
};

static int64_t elements(const struct conv1d *c)
{
    return c->batch * c->seq * c->features;
}

static struct conv1d conv1d_of(const struct kernel_call *call)
{
    int64_t each = call->op->output.size[2] / call->op->size[1];
    return (struct conv1d){.batch = call->size[0],
                           .seq = call->size[2],
                           .features = each * call->size[1],
                           .taps = call->op->kernel[0],
                           .slope = call->kept,
                           .room = call->scratch};
}

static int64_t conv1d_kept(const struct kernel_call *call)
{
    struct conv1d c = conv1d_of(call);
    return elements(&c) * (int64_t)sizeof(float);
}

static int64_t conv1d_scratch(const struct kernel_call *call)
{
    struct conv1d c = conv1d_of(call);
    return 2 * elements(&c) + c.features * (c.taps + 1);
}

/* The position that tap k of position t reads, and whether there is one. */
static bool tap_reads(const struct conv1d *c, int64_t t, int64_t k, int64_t *from)
{
    *from = t - c->taps + 1 + k;
    return *from >= 0;
}

static void conv1d_forward(const struct kernel_call *call)
{
    struct conv1d c = conv1d_of(call);
    const float *x = whole_read(call->dtype, call->input[0], elements(&c), &c.room);
    c.weight = whole_read(call->dtype, call->weight[0], c.features * c.taps, &c.room);
    const float *bias = call->op->weights > 1
                            ? whole_read(call->dtype, call->weight[1], c.features, &c.room)
                            : NULL;
    float *y = whole_write(call->dtype, call->output, elements(&c), &c.room);
    for (int64_t i = 0; i < elements(&c); i++) {
        int64_t f = i % c.features, t = i / c.features % c.seq, from;
        float z = bias ? bias[f] : 0;
        for (int64_t k = 0; k < c.taps; k++)
            if (tap_reads(&c, t, k, &from))
                z += c.weight[f * c.taps + k] * x[i + (from - t) * c.features];
        float s = sigmoid_of(z);
        y[i] = z * s;
        c.slope[i] = s * (1 + z * (1 - s));
    }
    tile_done(call->dtype, call->output, 0, elements(&c), y);
}

static void conv1d_input(const struct kernel_call *call)
{
    struct conv1d c = conv1d_of(call);
    if (!call->input_gradient[0])
        return;
    const float *dy = whole_read(call->dtype, call->output_gradient, elements(&c), &c.room);
    c.weight = whole_read(call->dtype, call->weight[0], c.features * c.taps, &c.room);
    float *dx = whole_write(call->dtype, call->input_gradient[0], elements(&c), &c.room);
    for (int64_t i = 0; i < elements(&c); i++) {
        int64_t f = i % c.features, t = i / c.features % c.seq;
        float sum = 0;
        for (int64_t ahead = 0; ahead < c.taps && t + ahead < c.seq; ahead++) {
            int64_t at = i + ahead * c.features;
            sum += c.weight[f * c.taps + c.taps - 1 - ahead] * dy[at] * c.slope[at];
        }
        dx[i] = sum;
    }
    tile_done(call->dtype, call->input_gradient[0], 0, elements(&c), dx);
}

static void conv1d_weight(const struct kernel_call *call)
{
    struct conv1d c = conv1d_of(call);
    const float *x = whole_read(call->dtype, call->input[0], elements(&c), &c.room);
    const float *dy = whole_read(call->dtype, call->output_gradient, elements(&c), &c.room);
    for (int64_t i = 0; i < elements(&c); i++) {
        int64_t f = i % c.features, t = i / c.features % c.seq, from;
        float dz = dy[i] * c.slope[i];
        for (int64_t k = 0; k < c.taps; k++)
            if (tap_reads(&c, t, k, &from))
                call->weight_gradient[0][f * c.taps + k] += dz * x[i + (from - t) * c.features];
        if (call->op->weights > 1)
            call->weight_gradient[1][f] += dz;
    }
}

const struct cpu_kernel CPU_CONV1D = {
    .kept_bytes = conv1d_kept,
    .scratch_floats = conv1d_scratch,
    .phase = {conv1d_forward, conv1d_input, conv1d_weight},
};

/* ---- gated norm ------------------------------------------------------------------------------ */

struct gated_norm {
    int64_t rows, groups, width; /* rows are those of one group */
    float *rate;                 /* r of every row */
    float *x, *z, *dy, *v, *out; /* of a row */
    const float *gain;
};

static int64_t gated_rows(const struct kernel_call *call)
{
    return call->size[0] * call->size[1] * call->size[2];
}

static int64_t gated_norm_kept(const struct kernel_call *call)
{
    return gated_rows(call) * (int64_t)sizeof(float);
}

static int64_t gated_norm_scratch(const struct kernel_call *call)
{
    return (5 + call->size[1]) * call->size[3];
}

static struct gated_norm gated_norm_of(const struct kernel_call *call)
{
    struct gated_norm n = {gated_rows(call), call->size[1], call->size[3], .rate = call->kept};
    n.x = call->scratch;
    n.z = n.x + n.width;
    n.dy = n.z + n.width;
    n.v = n.dy + n.width;
    n.out = n.v + n.width;
    float *room = n.out + n.width;
    n.gain = whole_read(call->dtype, call->weight[0], n.groups * n.width, &room);
    return n;
}

/* A row of an operand into a place of its own. */
static void read_row(const struct kernel_call *call, const void *from, int64_t row, int64_t width,
                     float *to)
{
    const float *at = tile_read(call->dtype, from, row * width, width, to);
    if (at != to)
        memcpy(to, at, (size_t)width * sizeof *to);
}

/* x, z and v of (4). */
static void read_gated(const struct kernel_call *call, const struct gated_norm *n, int64_t row)
{
    read_row(call, call->input[0], row, n->width, n->x);
    read_row(call, call->input[1], row, n->width, n->z);
    for (int64_t i = 0; i < n->width; i++)
        n->v[i] = n->x[i] * n->z[i] * sigmoid_of(n->z[i]);
}

static void write_row(const struct kernel_call *call, void *to, int64_t row, int64_t width,
                      const float *from)
{
    if (call->dtype == DTYPE_FP32)
        memcpy((float *)to + row * width, from, (size_t)width * sizeof *from);
    else
        narrow(call->dtype, from, width, to, row * width);
}

static void gated_norm_forward(const struct kernel_call *call)
{
    struct gated_norm n = gated_norm_of(call);
    for (int64_t row = 0; row < n.rows; row++) {
        const float *gain = n.gain + row % n.groups * n.width;
        read_gated(call, &n, row);
        float square = row_squares(n.v, n.width, 0) / (float)n.width;
        float rate = 1.0F / sqrtf(square + (float)call->op->epsilon);
        n.rate[row] = rate;
        for (int64_t i = 0; i < n.width; i++)
            n.out[i] = gain[i] * n.v[i] * rate;
        write_row(call, call->output, row, n.width, n.out);
    }
}

/* (5) */
static void gated_norm_input(const struct kernel_call *call)
{
    struct gated_norm n = gated_norm_of(call);
    void *dx = call->input_gradient[0], *dz = call->input_gradient[1];
    for (int64_t row = 0; (dx || dz) && row < n.rows; row++) {
        const float *gain = n.gain + row % n.groups * n.width;
        read_gated(call, &n, row);
        read_row(call, call->output_gradient, row, n.width, n.dy);
        float rate = n.rate[row], along = 0;
        for (int64_t i = 0; i < n.width; i++)
            along += gain[i] * n.dy[i] * n.v[i];
        float pull = rate * rate * along / (float)n.width;
        for (int64_t i = 0; i < n.width; i++)
            n.v[i] = rate * (gain[i] * n.dy[i] - n.v[i] * pull); /* dv */
        for (int64_t i = 0; i < n.width; i++) {
            float z = n.z[i], s = sigmoid_of(z);
            n.out[i] = n.v[i] * n.x[i] * s * (1 + z * (1 - s));
            n.v[i] *= z * s;
        }
        if (dx)
            write_row(call, dx, row, n.width, n.v);
        if (dz)
            write_row(call, dz, row, n.width, n.out);
    }
}

/* (6) */
static void gated_norm_weight(const struct kernel_call *call)
{
    struct gated_norm n = gated_norm_of(call);
    for (int64_t row = 0; row < n.rows; row++) {
        float *gain = call->weight_gradient[0] + row % n.groups * n.width;
        read_gated(call, &n, row);
        read_row(call, call->output_gradient, row, n.width, n.dy);
        for (int64_t i = 0; i < n.width; i++)
            gain[i] += n.dy[i] * n.v[i] * n.rate[row];
    }
}

const struct cpu_kernel CPU_GATED_NORM = {
    .kept_bytes = gated_norm_kept,
    .scratch_floats = gated_norm_scratch,
    .phase = {gated_norm_forward, gated_norm_input, gated_norm_weight},
};
