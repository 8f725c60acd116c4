/* products.c - linear layers and the products of plain attention on a GPU, by cuBLASLt
 * (kernels/cpu/matmul.c).
 *
 * cuBLASLt stores matrices by columns, so what lies here by rows is its transpose there:
 *
 *   Y = X W^T + b    as   Y' = W'^T X' + b        dX = dY W   as   dX' = W' dY'
 *   dW += dY^T X     as   dW' += X' dY'^T
 */
#include "run/kernels/cuda/fp8.h"
#include "run/kernels/cuda/shape.h"

extern struct cuda_code CUDA_CODE_moves;
static struct cuda_kernel LIST_HEADS = {.code = &CUDA_CODE_moves, .name = "list_heads"};

/* ---- linear ---------------------------------------------------------------------------------- */

/* Outputs whose rows are padded (cost/own_scratch.h), and their gradients, have zeros at the rows' ends: where they
 * lie, if the call has a pitch, else in a room for some of them. */
struct gpu_linear {
    int64_t rows, in, out, step; /* step: from row to row of padded outputs */
    int64_t at_once;             /* rows of the room; 0: outputs are multiplied where they lie */
    bool padded;
};

static struct gpu_linear linear_of(const struct kernel_call *call)
{
    struct gpu_linear l = {call->size[0] * call->size[1], call->size[2], call->size[3]};
    struct padded_rows padded = padded_rows(call->dtype, l.rows, l.out, call->op->weights);
    l.step = call->pitch ? call->pitch : padded.length;
    l.at_once = call->pitch ? 0 : padded.at_once;
    l.padded = call->pitch || padded.at_once;
    return l;
}

/* Where in the scratch memory, after the workspace, rooms begin: for sums of columns, and as above. */
struct linear_room {
    int64_t columns, rows, weight, casts, bytes;
};

static int64_t take(struct linear_room *room, int64_t bytes)
{
    int64_t at = room->bytes;
    room->bytes += ceil_div(bytes, 256) * 256;
    return at;
}

static struct linear_room linear_room(const struct kernel_call *call)
{
    struct gpu_linear l = linear_of(call);
    struct linear_room room = {.bytes = WORKSPACE};
    int64_t each = dtype_bytes(call->dtype);
    room.columns = take(&room, call->op->weights > 1 ? column_room(l.rows, l.out) : 0);
    room.rows = take(&room, l.at_once * l.step * each);
    room.weight = take(&room, l.padded ? l.step * l.in * each : 0);
    room.casts = take(&room, call->fp8 ? own_cast_bytes(l.rows, l.in, l.out) : 0);
    return room;
}

static int64_t linear_scratch(const struct kernel_call *call)
{
    return linear_room(call).bytes;
}

static char *scratch_at(const struct kernel_call *call, int64_t offset)
{
    return (char *)call->scratch + offset;
}

/* The weights, with zeros for outputs that are not there. */
static const void *spread_weight(const struct kernel_call *call, const struct gpu_linear *l)
{
    char *to = scratch_at(call, linear_room(call).weight);
    int64_t each = dtype_bytes(call->dtype), there = l->out * l->in * each;
    CUDA_DEVICE.copy(call->stream, COPY_ON_DEVICE, to, call->weight[0], there);
    CUDA_DEVICE.clear(call->stream, to + there, (l->step - l->out) * l->in * each);
    return to;
}

static const void *rows_at(const struct kernel_call *call, const void *from, int64_t row,
                           int64_t width)
{
    return (const char *)from + row * width * dtype_bytes(call->dtype);
}

/* Y of `rows` rows of X, with weights of `out` outputs; rows of Y are as far apart. */
static void product_forward(const struct kernel_call *call, const struct gpu_linear *l,
                            const void *x, int64_t rows, const void *weight, int64_t out, void *y)
{
    struct gemm g = gemm_of(call->dtype, output_dtype(call));
    g.m = g.c_step = out;
    g.n = rows;
    g.k = g.a_step = g.b_step = l->in;
    g.a_turned = true;
    g.biased = call->op->weights > 1 && call->adds_once;
    multiply(call, &g, 1, weight, x, call->weight[1], 0, y);
}

/* Of a product in fp8: a phase of it. */
static bool runs_fp8(const struct kernel_call *call, const struct gpu_linear *l,
                     void (*phase)(const struct kernel_call *, const struct fp8_sizes *, void *))
{
    if (call->fp8)
        phase(call, &(struct fp8_sizes){1, 1, l->rows, l->in, l->out},
              scratch_at(call, linear_room(call).casts));
    return call->fp8;
}

static int64_t rows_from(const struct gpu_linear *l, int64_t first)
{
    return l->rows - first < l->at_once ? l->rows - first : l->at_once;
}

static void linear_forward(const struct kernel_call *call)
{
    struct gpu_linear l = linear_of(call);
    if (runs_fp8(call, &l, fp8_forward))
        return;
    const void *weight = l.padded ? spread_weight(call, &l) : call->weight[0];
    if (!l.at_once) {
        product_forward(call, &l, call->input[0], l.rows, weight, l.step, call->output);
        return;
    }
    void *spread = scratch_at(call, linear_room(call).rows);
    for (int64_t first = 0; first < l.rows; first += l.at_once) {
        int64_t rows = rows_from(&l, first);
        product_forward(call, &l, rows_at(call, call->input[0], first, l.in), rows, weight, l.step,
                        spread);
        CUDA_DEVICE.copy_rows(call->stream, call->dtype,
                              (struct row_copy){rows, l.out, l.step, l.out}, spread,
                              (void *)(uintptr_t)rows_at(call, call->output, first, l.out));
    }
}

/* Gradients of outputs, spread over rows with zeros at their ends. */
static const void *spread_gradients(const struct kernel_call *call, const struct gpu_linear *l,
                                    int64_t first)
{
    char *spread = scratch_at(call, linear_room(call).rows);
    int64_t rows = rows_from(l, first), each = dtype_bytes(call->dtype);
    CUDA_DEVICE.clear(call->stream, spread, rows * l->step * each);
    CUDA_DEVICE.copy_rows(call->stream, call->dtype,
                          (struct row_copy){rows, l->out, l->out, l->step},
                          rows_at(call, call->output_gradient, first, l->out), spread);
    return spread;
}

static void product_input(const struct kernel_call *call, const struct gpu_linear *l,
                          const void *dy, int64_t rows, const void *weight, int64_t out, void *dx)
{
    struct gemm g = gemm_of(call->dtype, call->dtype);
    g.m = g.a_step = g.c_step = l->in;
    g.n = rows;
    g.k = g.b_step = out;
    multiply(call, &g, 1, weight, dy, NULL, 0, dx);
}

static void linear_input(const struct kernel_call *call)
{
    struct gpu_linear l = linear_of(call);
    void *dx = call->input_gradient[0];
    if (!dx || runs_fp8(call, &l, fp8_input))
        return;
    const void *weight = l.padded ? spread_weight(call, &l) : call->weight[0];
    if (!l.at_once) {
        product_input(call, &l, call->output_gradient, l.rows, weight, l.step, dx);
        return;
    }
    for (int64_t first = 0; first < l.rows; first += l.at_once)
        product_input(call, &l, spread_gradients(call, &l, first), rows_from(&l, first), weight,
                      l.step, (void *)(uintptr_t)rows_at(call, dx, first, l.in));
}

/* Outputs from `first` on. */
static void product_outputs(const struct kernel_call *call, const struct gpu_linear *l,
                            const void *x, const void *dy, int64_t rows, int64_t step,
                            int64_t first, int64_t outputs)
{
    struct gemm g = gemm_of(call->dtype, DTYPE_FP32);
    g.m = g.a_step = g.c_step = l->in;
    g.n = outputs;
    g.b_step = step;
    g.k = rows;
    g.b_turned = true;
    multiply(call, &g, 1, x, rows_at(call, dy, first, 1), NULL, 1,
             call->weight_gradient[0] + first * l->in);
}

/* An odd number of outputs leaves cuBLASLt its old kernels here, too, whatever the step is: those of the last few
 * are a product of their own. */
static void product_weight(const struct kernel_call *call, const struct gpu_linear *l,
                           const void *x, const void *dy, int64_t rows, int64_t step)
{
    enum { UNIT = 8 };
    int64_t most = l->padded ? l->out / UNIT * UNIT : l->out;
    product_outputs(call, l, x, dy, rows, step, 0, most);
    if (most < l->out)
        product_outputs(call, l, x, dy, rows, step, most, l->out - most);
}

static void linear_weight(const struct kernel_call *call)
{
    struct gpu_linear l = linear_of(call);
    bool cast = runs_fp8(call, &l, fp8_weight);
    if (!l.at_once && !cast)
        product_weight(call, &l, call->input[0], call->output_gradient, l.rows, l.step);
    for (int64_t first = 0; l.at_once && !cast && first < l.rows; first += l.at_once)
        product_weight(call, &l, rows_at(call, call->input[0], first, l.in),
                       spread_gradients(call, &l, first), rows_from(&l, first), l.step);
    if (call->op->weights > 1)
        add_columns(call, call->dtype, call->output_gradient, l.rows, l.out,
                    scratch_at(call, linear_room(call).columns), call->weight_gradient[1]);
}

static const char *linear_refuses(const struct op *op)
{
    return op->output.element == ELEMENT_FP32 ? "the GPU's products have no fp32 outputs yet"
                                              : NULL;
}

const struct gpu_kind GPU_LINEAR = {
    .refuses = linear_refuses,
    .scratch_bytes = linear_scratch,
    .phase = {linear_forward, linear_input, linear_weight},
};

/* ---- scores and context (kernels/cpu/matmul.c) ----------------------------------------------- */

/* What a product's matrix is: rows of queries or of keys, or a number for each pair of them. */
enum head_role { QUERIES, KEYS, PAIRS };

/* A product for each key/value head of each sample: A, B and C, which sums over the query heads of a group or has them all. */
struct head_product {
    struct gemm gemm; /* of one sample's heads, with one query head of each group */
    float alpha;
    enum head_role role[3];
    const void *at[3];
    bool sums;
};

/* Elements from one query head of a group to the next, and from sample to sample. */
struct head_steps {
    int64_t member, sample;
};

static struct head_steps head_steps(const struct attention_shape *s, enum head_role role)
{
    int64_t heads = s->head * s->group;
    const struct head_steps STEPS[] = {
        [QUERIES] = {s->depth, s->seq * heads * s->depth},
        [KEYS] = {0, s->kv * s->head * s->depth},
        [PAIRS] = {s->seq * s->kv, heads * s->seq * s->kv},
    };
    return STEPS[role];
}

static void *matrix_at(const struct kernel_call *call, const struct attention_shape *s,
                       const struct head_product *p, int which, int64_t sample, int64_t member)
{
    struct head_steps steps = head_steps(s, p->role[which]);
    return (char *)(uintptr_t)p->at[which] +
           (sample * steps.sample + member * steps.member) * dtype_bytes(call->dtype);
}

/* As in moves.cu. */
struct listed_heads {
    char *first[3];
    int64_t by_sample[3], by_head[3], samples, heads;
};

static struct listed_heads listed_heads(const struct kernel_call *call,
                                        const struct attention_shape *s,
                                        const struct head_product *p, int64_t member)
{
    int64_t each = dtype_bytes(call->dtype);
    const int64_t apart[] = {p->gemm.a_apart, p->gemm.b_apart, p->gemm.c_apart};
    struct listed_heads l = {.samples = s->batch, .heads = s->head};
    for (int i = 0; i < 3; i++) {
        l.first[i] = matrix_at(call, s, p, i, 0, member);
        l.by_sample[i] = head_steps(s, p->role[i]).sample * each;
        l.by_head[i] = apart[i] * each;
    }
    return l;
}

/* What divides all addresses of a list. */
static int32_t listed_unit(const struct listed_heads *l, int which)
{
    uintptr_t bits =
        (uintptr_t)l->first[which] | (uintptr_t)l->by_sample[which] | (uintptr_t)l->by_head[which];
    return unit_of((const void *)bits);
}

/* All samples at once, by a list of addresses, in 16 bits; false: this one goes sample by sample. In fp32 products stay those of
 * one sample, so that ranks which share a batch compute what one rank does (gemm.c, I2). */
static bool heads_at_once(const struct kernel_call *call, const struct attention_shape *s,
                          const struct head_product *p, int64_t member, float beta)
{
    enum { THREADS = 256 };
    struct gemm g = p->gemm;
    g.batch = s->batch * s->head;
    g.a_apart = g.b_apart = g.c_apart = 0;
    g.listed = true;
    if (call->dtype == DTYPE_FP32 || s->batch < 2 || 3 * g.batch * (int64_t)sizeof(void *) > LISTED)
        return false;
    struct listed_heads l = listed_heads(call, s, p, member);
    g.a_unit = listed_unit(&l, 0);
    g.b_unit = listed_unit(&l, 1);
    g.c_unit = listed_unit(&l, 2);
    void **list = (void **)(void *)((char *)call->scratch + WORKSPACE - LISTED);
    CUDA_LAUNCH(call->stream, &LIST_HEADS, DTYPE_FP32,
                row_grid(ceil_div(g.batch, THREADS), THREADS), &l, &list);
    return multiply_listed(call, &g, p->alpha, list, beta);
}

static void multiply_heads(const struct kernel_call *call, const struct attention_shape *s,
                           const struct head_product *p)
{
    for (int64_t member = 0; member < s->group; member++) {
        float beta = p->sums && member ? 1 : 0;
        bool done = heads_at_once(call, s, p, member, beta);
        for (int64_t i = 0; !done && i < s->batch; i++)
            multiply(call, &p->gemm, p->alpha, matrix_at(call, s, p, 0, i, member),
                     matrix_at(call, s, p, 1, i, member), NULL, beta,
                     matrix_at(call, s, p, 2, i, member));
    }
}

static struct gemm heads_gemm(const struct kernel_call *call, const struct attention_shape *s)
{
    struct gemm g = gemm_of(call->dtype, call->dtype);
    g.batch = s->head;
    return g;
}

/* pairs = alpha queries keys^T */
static void pairs_product(const struct kernel_call *call, float alpha, const void *q, const void *k,
                          void *pairs)
{
    struct attention_shape s = attention_shape_of(call);
    struct gemm g = heads_gemm(call, &s);
    g.m = g.c_step = s.kv;
    g.n = s.seq;
    g.k = s.depth;
    g.a_turned = true;
    g.a_step = s.head * s.depth;
    g.b_step = s.head * s.group * s.depth;
    g.a_apart = s.depth;
    g.b_apart = s.group * s.depth;
    g.c_apart = s.group * s.seq * s.kv;
    multiply_heads(call, &s,
                   &(struct head_product){g, alpha, {KEYS, QUERIES, PAIRS}, {k, q, pairs}, false});
}

/* queries = alpha pairs keys */
static void queries_product(const struct kernel_call *call, float alpha, const void *pairs,
                            const void *k, void *q)
{
    struct attention_shape s = attention_shape_of(call);
    struct gemm g = heads_gemm(call, &s);
    g.m = s.depth;
    g.n = s.seq;
    g.k = g.b_step = s.kv;
    g.a_step = s.head * s.depth;
    g.c_step = s.head * s.group * s.depth;
    g.a_apart = s.depth;
    g.b_apart = s.group * s.seq * s.kv;
    g.c_apart = s.group * s.depth;
    multiply_heads(call, &s,
                   &(struct head_product){g, alpha, {KEYS, PAIRS, QUERIES}, {k, pairs, q}, false});
}

/* keys = alpha pairs^T queries, summed over each group */
static void keys_product(const struct kernel_call *call, float alpha, const void *pairs,
                         const void *q, void *k)
{
    struct attention_shape s = attention_shape_of(call);
    struct gemm g = heads_gemm(call, &s);
    g.m = s.depth;
    g.n = g.b_step = s.kv;
    g.k = s.seq;
    g.b_turned = true;
    g.a_step = s.head * s.group * s.depth;
    g.c_step = s.head * s.depth;
    g.a_apart = s.group * s.depth;
    g.b_apart = s.group * s.seq * s.kv;
    g.c_apart = s.depth;
    multiply_heads(call, &s,
                   &(struct head_product){g, alpha, {QUERIES, PAIRS, KEYS}, {q, pairs, k}, true});
}

static int64_t heads_scratch(const struct kernel_call *call)
{
    (void)call;
    return WORKSPACE;
}

static void score_forward(const struct kernel_call *call)
{
    struct attention_shape s = attention_shape_of(call);
    pairs_product(call, s.scale, call->input[0], call->input[1], call->output);
    if (call->op->causal)
        mask_scores(call);
}

static void score_input(const struct kernel_call *call)
{
    float scale = attention_shape_of(call).scale;
    if (call->input_gradient[0])
        queries_product(call, scale, call->output_gradient, call->input[1],
                        call->input_gradient[0]);
    if (call->input_gradient[1])
        keys_product(call, scale, call->output_gradient, call->input[0], call->input_gradient[1]);
}

static void context_forward(const struct kernel_call *call)
{
    queries_product(call, 1, call->input[0], call->input[1], call->output);
}

static void context_input(const struct kernel_call *call)
{
    if (call->input_gradient[1])
        keys_product(call, 1, call->input[0], call->output_gradient, call->input_gradient[1]);
    if (call->input_gradient[0])
        pairs_product(call, 1, call->output_gradient, call->input[1], call->input_gradient[0]);
}

const struct gpu_kind GPU_SCORE = {
    .scratch_bytes = heads_scratch,
    .phase = {score_forward, score_input},
};
const struct gpu_kind GPU_CONTEXT = {
    .scratch_bytes = heads_scratch,
    .phase = {context_forward, context_input},
};
