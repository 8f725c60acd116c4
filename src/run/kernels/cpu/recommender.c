/* recommender.c - what DLRM has beside its MLPs: pooled rows of tables, and products of all pairs.
 *
 *   bag          y[t] = sum over the ids of table t of W[t][id]          dW[t][id] += dy[t]       (1)
 *   interaction  z = (d, <v_i, v_k> for i > k),  v_0 = d, v_t = e_t
 *                dv_i += dz_ik v_k,  dv_k += dz_ik v_i,  dv_0 += the first of dz                  (2)
 *
 * pairs in the order (1, 0), (2, 0), (2, 1), (3, 0), ...
 *
 *   I1  Ids outside the local rows of a split table add nothing: another device has them.
 *   I2  Over split features both parts of z are sums: of d each device has its features and zeros.
 */
#include "run/kernels/cpu/cpu.h"

/* ---- bag ------------------------------------------------------------------------------------- */

struct bag {
    int64_t groups, tables, rows, width, lookups; /* groups: samples times tables */
    float *sum, *row;                             /* tiles of a row */
};

static struct bag bag_of(const struct kernel_call *call)
{
    struct bag b = {call->size[0] * call->size[1],
                    call->size[1],
                    call->size[2],
                    call->size[3],
                    call->op->top_k,
                    call->scratch};
    b.row = b.sum + whole_floats(call->dtype, b.width);
    return b;
}

static int64_t bag_scratch(const struct kernel_call *call)
{
    return whole_floats(call->dtype, 2 * call->size[3]);
}

/* Where the row of lookup k of a group begins in the local tables, or -1 (I1). */
static int64_t looked_up(const struct kernel_call *call, const struct bag *b, int64_t group,
                         int64_t k)
{
    int64_t row = ((const int64_t *)call->input[0])[group * b->lookups + k] - call->begin[2];
    return row < 0 || row >= b->rows ? -1 : (group % b->tables * b->rows + row) * b->width;
}

static void bag_forward(const struct kernel_call *call)
{
    struct bag b = bag_of(call);
    for (int64_t i = 0; i < b.groups; i++) {
        float *y = tile_write(call->dtype, call->output, i * b.width, b.sum);
        memset(y, 0, (size_t)b.width * sizeof *y);
        for (int64_t k = 0; k < b.lookups; k++) {
            int64_t at = looked_up(call, &b, i, k);
            if (at >= 0)
                row_add(tile_read(call->dtype, call->weight[0], at, b.width, b.row), b.width, y);
        }
        tile_done(call->dtype, call->output, i * b.width, b.width, y);
    }
}

static void bag_weight(const struct kernel_call *call)
{
    struct bag b = bag_of(call);
    for (int64_t i = 0; i < b.groups; i++) {
        const float *dy =
            tile_read(call->dtype, call->output_gradient, i * b.width, b.width, b.sum);
        for (int64_t k = 0; k < b.lookups; k++) {
            int64_t at = looked_up(call, &b, i, k);
            if (at >= 0)
                row_add(dy, b.width, call->weight_gradient[0] + at);
        }
    }
}

const struct cpu_kernel CPU_EMBEDDING_BAG = {
    .scratch_floats = bag_scratch,
    .phase = {bag_forward, NULL, bag_weight},
};

/* ---- interaction ----------------------------------------------------------------------------- */

/* Local width, its first feature, width of all; v of one sample in fp32, and their gradients. */
struct pairs {
    int64_t batch, vectors, width, first, whole, out;
    float *v, *dv, *z;
};

static struct pairs pairs_of(const struct kernel_call *call)
{
    struct pairs p = {call->size[0],  call->op->size[1],        call->size[2], call->begin[2],
                      call->whole[2], call->op->output.size[1], call->scratch};
    p.dv = p.v + p.vectors * p.width;
    p.z = p.dv + p.vectors * p.width;
    return p;
}

static int64_t pairs_scratch(const struct kernel_call *call)
{
    return 2 * call->op->size[1] * call->size[2] + call->op->output.size[1];
}

static void read_floats(enum dtype dtype, const void *from, int64_t first, int64_t count, float *to)
{
    if (dtype == DTYPE_FP32)
        memcpy(to, (const float *)from + first, (size_t)count * sizeof *to);
    else
        widen(dtype, from, first, count, to);
}

static void write_floats(enum dtype dtype, const float *from, int64_t count, void *to,
                         int64_t first)
{
    if (dtype == DTYPE_FP32)
        memcpy((float *)to + first, from, (size_t)count * sizeof *from);
    else
        narrow(dtype, from, count, to, first);
}

static void read_vectors(const struct kernel_call *call, const struct pairs *p, int64_t sample)
{
    int64_t rest = (p->vectors - 1) * p->width;
    read_floats(call->dtype, call->input[0], sample * p->width, p->width, p->v);
    read_floats(call->dtype, call->input[1], sample * rest, rest, p->v + p->width);
}

static void interaction_forward(const struct kernel_call *call)
{
    struct pairs p = pairs_of(call);
    for (int64_t sample = 0; sample < p.batch; sample++) {
        float *z = p.z + p.whole;
        read_vectors(call, &p, sample);
        memset(p.z, 0, (size_t)p.whole * sizeof *p.z);
        memcpy(p.z + p.first, p.v, (size_t)p.width * sizeof *p.z); /* I2 */
        for (int64_t i = 1; i < p.vectors; i++)
            for (int64_t k = 0; k < i; k++)
                *z++ = row_dot(p.v + i * p.width, p.v + k * p.width, p.width);
        write_floats(call->dtype, p.z, p.out, call->output, sample * p.out);
    }
}

static void add_times(const float *x, int64_t count, float factor, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] += factor * x[i];
}

/* (2) of one sample */
static void pair_gradients(const struct pairs *p)
{
    const float *dz = p->z + p->whole;
    memset(p->dv, 0, (size_t)(p->vectors * p->width) * sizeof *p->dv);
    memcpy(p->dv, p->z + p->first, (size_t)p->width * sizeof *p->dv);
    for (int64_t i = 1; i < p->vectors; i++)
        for (int64_t k = 0; k < i; k++, dz++) {
            add_times(p->v + k * p->width, p->width, *dz, p->dv + i * p->width);
            add_times(p->v + i * p->width, p->width, *dz, p->dv + k * p->width);
        }
}

static void interaction_input(const struct kernel_call *call)
{
    struct pairs p = pairs_of(call);
    int64_t rest = (p.vectors - 1) * p.width;
    for (int64_t sample = 0; sample < p.batch; sample++) {
        read_vectors(call, &p, sample);
        read_floats(call->dtype, call->output_gradient, sample * p.out, p.out, p.z);
        pair_gradients(&p);
        if (call->input_gradient[0])
            write_floats(call->dtype, p.dv, p.width, call->input_gradient[0], sample * p.width);
        if (call->input_gradient[1])
            write_floats(call->dtype, p.dv + p.width, rest, call->input_gradient[1], sample * rest);
    }
}

const struct cpu_kernel CPU_INTERACTION = {
    .refuses = interaction_refuses,
    .scratch_floats = pairs_scratch,
    .phase = {interaction_forward, interaction_input},
};
