/* matmul.c - linear layers, one or one for each expert, and the two products of plain attention,
 * by OpenBLAS.
 *
 *   linear    Y = X W^T + b          dX = dY W            dW += dY^T X      db += sum of dY's rows
 *   score     S = a Q K^T            dQ = a dS K          dK = a dS^T Q     a = 1 / sqrt(depth)
 *   context   O = P V                dP = dO V^T          dV = P^T dO
 *
 *   I1  Masked scores (causal, above the diagonal; with a window, before it) are -inf: what is added to them stays so, and the
 *       softmax after makes their probability and their gradient 0.
 *   I2  dK and dV sum over the query heads of a group.
 */
#include <math.h>
#include <pthread.h>

#include "run/kernels/cpu/blas_library.h"
#include "run/kernels/cpu/cpu.h"

/* ---- products -------------------------------------------------------------------------------- */

/* How many threads OpenBLAS takes is a setting of each thread that calls it; setting it is not safe
 * beside another that does. */
static void keep_to_this_thread(void)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    static _Thread_local bool kept;
    if (kept)
        return;
    blas_open(); /* which whoever opened the backend has seen succeed (backends.c) */
    pthread_mutex_lock(&one);
    BLAS.openblas_set_num_threads_(1);
    pthread_mutex_unlock(&one);
    kept = true;
}

void product(int64_t m, int64_t n, int64_t k, float alpha, struct matrix a, struct matrix b,
             float beta, float *c, int64_t c_step)
{
    keep_to_this_thread();
    BLAS.cblas_sgemm_(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
                      b.transposed ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k,
                      alpha, a.at, (blasint)a.step, b.at, (blasint)b.step, beta, c,
                      (blasint)c_step);
}

/* ---- linear ---------------------------------------------------------------------------------- */

/* Groups of rows, group i with the weights of expert i % experts. A linear layer or a router is one
 * group; of experts each has one in every sample. */
struct linear {
    int64_t groups, experts, rows, in, out;
    float *room;
};

/* The dims of linear and router have the same places. */
static struct linear linear_of(const struct kernel_call *call)
{
    const struct op *op = call->op;
    const int64_t *size = call->size;
    if (op->kind != OP_EXPERT_LINEAR)
        return (struct linear){1, 1, size[0] * size[1], size[2], size[3], call->scratch};
    int64_t rows = op->input[0].size[1] / op->size[1] * size[2] / op->size[2];
    return (struct linear){size[0] * size[1], size[1], rows, size[3], size[4], call->scratch};
}

static const char *experts_refuse(const struct op *op)
{
    return op->input[0].size[1] % op->size[1] ? "its tokens are not spread evenly over its experts"
                                              : NULL;
}

static int64_t inputs(const struct linear *l)
{
    return l->groups * l->rows * l->in;
}

static int64_t outputs(const struct linear *l)
{
    return l->groups * l->rows * l->out;
}

static int64_t weights(const struct linear *l)
{
    return l->experts * l->out * l->in;
}

/* Each phase reads two of the three matrices and writes the third. */
static int64_t linear_scratch(const struct kernel_call *call)
{
    struct linear l = linear_of(call);
    return whole_floats(call->dtype, inputs(&l) + outputs(&l) + weights(&l) + l.experts * l.out);
}

/* What group i multiplies. */
static struct matrix input_matrix(const struct linear *l, const float *x, int64_t i)
{
    return (struct matrix){x + i * l->rows * l->in, l->in, false};
}

static struct matrix output_matrix(const struct linear *l, const float *y, int64_t i)
{
    return (struct matrix){y + i * l->rows * l->out, l->out, false};
}

static struct matrix weight_matrix(const struct linear *l, const float *w, int64_t i)
{
    return (struct matrix){w + i % l->experts * l->out * l->in, l->in, false};
}

static struct matrix turned(struct matrix m)
{
    m.transposed = !m.transposed;
    return m;
}

/* What is there before the product is added: the bias, once (kernels.h, I1). */
static bool spread_bias(const struct kernel_call *call, struct linear *l, float *y)
{
    if (call->op->weights < 2 || !call->adds_once)
        return false;
    const float *bias = whole_read(call->dtype, call->weight[1], l->experts * l->out, &l->room);
    for (int64_t row = 0; row < l->groups * l->rows; row++)
        memcpy(y + row * l->out, bias + row / l->rows % l->experts * l->out,
               (size_t)l->out * sizeof *y);
    return true;
}

/* An operand as a product reads it: in the room for what was widened, where a cast may change it. */
static const float *operand(const struct kernel_call *call, enum fp8_operand which,
                            enum dtype dtype, const void *from, int64_t count, float **room)
{
    float *own = *room;
    const float *x = whole_read(dtype, from, count, room);
    if (call->fp8 && x == own)
        fp8_cast(&call->history, which, own, count);
    return x;
}

static void linear_forward(const struct kernel_call *call)
{
    struct linear l = linear_of(call);
    const float *x = operand(call, FP8_INPUT, call->dtype, call->input[0], inputs(&l), &l.room);
    const float *w = operand(call, FP8_WEIGHT, call->dtype, call->weight[0], weights(&l), &l.room);
    float *y = whole_write(output_dtype(call), call->output, outputs(&l), &l.room);
    bool biased = spread_bias(call, &l, y);
    for (int64_t i = 0; i < l.groups; i++)
        product(l.rows, l.out, l.in, 1, input_matrix(&l, x, i), turned(weight_matrix(&l, w, i)),
                biased ? 1 : 0, y + i * l.rows * l.out, l.out);
    tile_done(output_dtype(call), call->output, 0, outputs(&l), y);
}

static void linear_input(const struct kernel_call *call)
{
    struct linear l = linear_of(call);
    if (!call->input_gradient[0])
        return;
    const float *dy = operand(call, FP8_GRADIENT, output_dtype(call), call->output_gradient,
                              outputs(&l), &l.room);
    const float *w = operand(call, FP8_WEIGHT, call->dtype, call->weight[0], weights(&l), &l.room);
    float *dx = whole_write(call->dtype, call->input_gradient[0], inputs(&l), &l.room);
    for (int64_t i = 0; i < l.groups; i++)
        product(l.rows, l.in, l.out, 1, output_matrix(&l, dy, i), weight_matrix(&l, w, i), 0,
                dx + i * l.rows * l.in, l.in);
    tile_done(call->dtype, call->input_gradient[0], 0, inputs(&l), dx);
}

static void linear_weight(const struct kernel_call *call)
{
    struct linear l = linear_of(call);
    const float *x = operand(call, FP8_INPUT, call->dtype, call->input[0], inputs(&l), &l.room);
    float *room = l.room;
    const float *dy = whole_read(output_dtype(call), call->output_gradient, outputs(&l), &l.room);
    for (int64_t row = 0; row < l.groups * l.rows && call->op->weights > 1; row++)
        row_add(dy + row * l.out, l.out,
                call->weight_gradient[1] + row / l.rows % l.experts * l.out);
    if (call->fp8 && dy == room)
        fp8_cast(&call->history, FP8_GRADIENT, room, outputs(&l));
    for (int64_t i = 0; i < l.groups; i++)
        product(l.out, l.in, l.rows, 1, turned(output_matrix(&l, dy, i)), input_matrix(&l, x, i), 1,
                call->weight_gradient[0] + i % l.experts * l.out * l.in, l.in);
}

#define LINEAR                                                                                     \
    .scratch_floats = linear_scratch, .phase = {linear_forward, linear_input, linear_weight}
const struct cpu_kernel CPU_LINEAR = {LINEAR};
const struct cpu_kernel CPU_ROUTER = {LINEAR};
const struct cpu_kernel CPU_EXPERT_LINEAR = {LINEAR, .refuses = experts_refuse};

/* ---- scores and context ---------------------------------------------------------------------- */

/* Batch, key/value heads, query heads of each, queries, keys, width of a head. A buffer of
 * queries is (batch, seq, head group depth), of keys or values (batch, kv, head depth), of scores
 * or probabilities (batch, head group, seq, kv). */
struct heads {
    int64_t batch, head, group, seq, kv, depth;
    float *room;
};

static struct heads heads_of(const struct kernel_call *call)
{
    const int64_t *size = call->size;
    return (struct heads){size[0], size[1], size[2], size[3], size[4], size[5], call->scratch};
}

static int64_t queries(const struct heads *h)
{
    return h->batch * h->seq * h->head * h->group * h->depth;
}

static int64_t keys(const struct heads *h)
{
    return h->batch * h->kv * h->head * h->depth;
}

static int64_t pairs(const struct heads *h)
{
    return h->batch * h->head * h->group * h->seq * h->kv;
}

static int64_t heads_scratch(const struct kernel_call *call)
{
    struct heads h = heads_of(call);
    return whole_floats(call->dtype, 2 * (queries(&h) + keys(&h)) + pairs(&h));
}

/* Where query head i of the batch's samples (i counts through both) begins in each buffer. */
static int64_t query_at(const struct heads *h, int64_t i)
{
    int64_t each = h->head * h->group;
    return (i / each) * h->seq * each * h->depth + i % each * h->depth;
}

static int64_t key_at(const struct heads *h, int64_t i)
{
    int64_t each = h->head * h->group;
    return (i / each) * h->kv * h->head * h->depth + i % each / h->group * h->depth;
}

static int64_t query_step(const struct heads *h)
{
    return h->head * h->group * h->depth;
}

static int64_t key_step(const struct heads *h)
{
    return h->head * h->depth;
}

/* The matrices of query head i. */
static struct matrix query_matrix(const struct heads *h, const float *q, int64_t i)
{
    return (struct matrix){q + query_at(h, i), query_step(h), false};
}

static struct matrix key_matrix(const struct heads *h, const float *k, int64_t i)
{
    return (struct matrix){k + key_at(h, i), key_step(h), false};
}

static struct matrix pair_matrix(const struct heads *h, const float *s, int64_t i)
{
    return (struct matrix){s + i * h->seq * h->kv, h->kv, false};
}

/* pairs = alpha queries keys^T */
static void pairs_product(const struct heads *h, float alpha, const float *q, const float *k,
                          float *s)
{
    for (int64_t i = 0; i < h->batch * h->head * h->group; i++)
        product(h->seq, h->kv, h->depth, alpha, query_matrix(h, q, i), turned(key_matrix(h, k, i)),
                0, s + i * h->seq * h->kv, h->kv);
}

/* queries = alpha pairs keys */
static void queries_product(const struct heads *h, float alpha, const float *s, const float *k,
                            float *q)
{
    for (int64_t i = 0; i < h->batch * h->head * h->group; i++)
        product(h->seq, h->depth, h->kv, alpha, pair_matrix(h, s, i), key_matrix(h, k, i), 0,
                q + query_at(h, i), query_step(h));
}

/* keys = alpha pairs^T queries, summed over each group (I2) */
static void keys_product(const struct heads *h, float alpha, const float *s, const float *q,
                         float *k)
{
    for (int64_t i = 0; i < h->batch * h->head * h->group; i++)
        product(h->kv, h->depth, h->seq, alpha, turned(pair_matrix(h, s, i)), query_matrix(h, q, i),
                i % h->group ? 1 : 0, k + key_at(h, i), key_step(h));
}

static void mask_scores(const struct kernel_call *call, const struct heads *h, float *scores)
{
    for (int64_t row = 0; row < h->batch * h->head * h->group * h->seq; row++) {
        int64_t free = call->begin[3] + row % h->seq - call->begin[4] + 1;
        int64_t hidden = first_seen(call->op, call->begin[3] + row % h->seq) - call->begin[4];
        for (int64_t k = free < 0 ? 0 : free; k < h->kv; k++)
            scores[row * h->kv + k] = -INFINITY; /* I1 */
        for (int64_t k = 0; k < hidden && k < h->kv; k++)
            scores[row * h->kv + k] = -INFINITY;
    }
}

static float score_scale(const struct kernel_call *call)
{
    return 1.0F / sqrtf((float)call->whole[5]);
}

static void score_forward(const struct kernel_call *call)
{
    struct heads h = heads_of(call);
    const float *q = whole_read(call->dtype, call->input[0], queries(&h), &h.room);
    const float *k = whole_read(call->dtype, call->input[1], keys(&h), &h.room);
    float *s = whole_write(call->dtype, call->output, pairs(&h), &h.room);
    pairs_product(&h, score_scale(call), q, k, s);
    if (call->op->causal)
        mask_scores(call, &h, s);
    tile_done(call->dtype, call->output, 0, pairs(&h), s);
}

static void score_input(const struct kernel_call *call)
{
    struct heads h = heads_of(call);
    float alpha = score_scale(call);
    const float *q = whole_read(call->dtype, call->input[0], queries(&h), &h.room);
    const float *k = whole_read(call->dtype, call->input[1], keys(&h), &h.room);
    const float *ds = whole_read(call->dtype, call->output_gradient, pairs(&h), &h.room);
    if (call->input_gradient[0]) {
        float *dq = whole_write(call->dtype, call->input_gradient[0], queries(&h), &h.room);
        queries_product(&h, alpha, ds, k, dq);
        tile_done(call->dtype, call->input_gradient[0], 0, queries(&h), dq);
    }
    if (call->input_gradient[1]) {
        float *dk = whole_write(call->dtype, call->input_gradient[1], keys(&h), &h.room);
        keys_product(&h, alpha, ds, q, dk);
        tile_done(call->dtype, call->input_gradient[1], 0, keys(&h), dk);
    }
}

static void context_forward(const struct kernel_call *call)
{
    struct heads h = heads_of(call);
    const float *p = whole_read(call->dtype, call->input[0], pairs(&h), &h.room);
    const float *v = whole_read(call->dtype, call->input[1], keys(&h), &h.room);
    float *o = whole_write(call->dtype, call->output, queries(&h), &h.room);
    queries_product(&h, 1, p, v, o);
    tile_done(call->dtype, call->output, 0, queries(&h), o);
}

static void context_input(const struct kernel_call *call)
{
    struct heads h = heads_of(call);
    const float *d = whole_read(call->dtype, call->output_gradient, queries(&h), &h.room);
    if (call->input_gradient[1]) {
        struct heads first = h;
        const float *p = whole_read(call->dtype, call->input[0], pairs(&h), &first.room);
        float *dv = whole_write(call->dtype, call->input_gradient[1], keys(&h), &first.room);
        keys_product(&h, 1, p, d, dv);
        tile_done(call->dtype, call->input_gradient[1], 0, keys(&h), dv);
    }
    if (call->input_gradient[0]) { /* in the room of the probabilities */
        const float *v = whole_read(call->dtype, call->input[1], keys(&h), &h.room);
        float *dp = whole_write(call->dtype, call->input_gradient[0], pairs(&h), &h.room);
        pairs_product(&h, 1, d, v, dp);
        tile_done(call->dtype, call->input_gradient[0], 0, pairs(&h), dp);
    }
}

const struct cpu_kernel CPU_SCORE = {
    .scratch_floats = heads_scratch,
    .phase = {score_forward, score_input},
};
const struct cpu_kernel CPU_CONTEXT = {
    .scratch_floats = heads_scratch,
    .phase = {context_forward, context_input},
};
