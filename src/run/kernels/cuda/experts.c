/* experts.c - mixtures of experts on a GPU: routers, tokens to their experts and back, a product for each
 * expert (kernels/cpu/experts.c, matmul.c).
 *
 *   I1  Scores are fp32 where all else is bf16. Their gradients meet inputs and weights that are widened, some
 *       rows at a time.
 */
#include "run/kernels/cuda/expert_shape.h"
#include "run/kernels/cuda/fp8.h"

extern struct cuda_code CUDA_CODE_experts;
GPU_KERNEL(ROWS_TO_EXPERTS, experts, "rows_to_experts");
GPU_KERNEL(ROWS_FROM_EXPERTS, experts, "rows_from_experts");
GPU_KERNEL(GRADIENTS_TO_EXPERTS, experts, "gradients_to_experts");
GPU_KERNEL(GRADIENTS_OF_SCORES, experts, "gradients_of_scores");
GPU_KERNEL(SPREAD_BIASES, experts, "spread_biases");
GPU_KERNEL(BIAS_GRADIENTS, experts, "bias_gradients");
static struct cuda_kernel CHOOSE_EXPERTS = {.code = &CUDA_CODE_experts, .name = "choose_experts"},
                          FILL_PLACES = {.code = &CUDA_CODE_experts, .name = "fill_places"};

enum { THREADS = 256, WARP = 32, LANES = 32 }; /* the last: as in experts.cu */

/* ---- choices --------------------------------------------------------------------------------- */

static int64_t choices_bytes(const struct kernel_call *call)
{
    int64_t tokens = call->size[0] * call->op->size[2];
    return tokens * call->op->top_k * (int64_t)sizeof(struct token_choice);
}

static const char *experts_refuse(const struct op *op)
{
    return op->top_k > op->size[1] ? "its tokens take more experts than there are" : NULL;
}

static struct expert_shape shape_of(const struct kernel_call *call)
{
    const struct op *op = call->op;
    bool dispatch = op->kind == OP_DISPATCH;
    const struct operand *placed = dispatch ? &op->output : &op->input[0];
    struct expert_shape e = {.batch = call->size[0],
                             .local = call->size[1],
                             .first = call->begin[1],
                             .seq = op->size[2],
                             .width = call->size[3],
                             .all = op->size[1],
                             .chosen = op->top_k,
                             .room = placed->size[1] / op->size[1]};
    e.places = dispatch ? call->size[2] * e.room / e.seq : e.room;
    e.first_place = dispatch ? call->begin[2] * e.room / e.seq : 0;
    e.tokens = dispatch ? e.seq : call->size[2];
    e.first_token = dispatch ? 0 : call->begin[2];
    return e;
}

static void choose(const struct kernel_call *call, const struct expert_shape *e)
{
    struct cuda_grid grid = {ceil_div(e->batch * e->seq * WARP, THREADS), 1, 1, THREADS, 0};
    CUDA_LAUNCH(call->stream, &CHOOSE_EXPERTS, DTYPE_FP32, grid, &call->input[1], &call->kept, e);
    grid = (struct cuda_grid){e->all, e->batch, 1, THREADS, 0};
    CUDA_LAUNCH(call->stream, &FILL_PLACES, DTYPE_FP32, grid, &call->kept, e);
}

static void clear_rows(const struct kernel_call *call, const struct expert_shape *e, void *to)
{
    CUDA_DEVICE.clear(call->stream, to,
                      e->batch * e->local * e->places * e->width * dtype_bytes(call->dtype));
}

static void clear_scores(const struct kernel_call *call, const struct expert_shape *e, void *to)
{
    CUDA_DEVICE.clear(call->stream, to, e->batch * e->seq * e->all * (int64_t)sizeof(float));
}

static void sum_rows(const struct kernel_call *call, const struct expert_shape *e, const void *from,
                     int gated, void *to)
{
    CUDA_LAUNCH(call->stream, &ROWS_FROM_EXPERTS, call->dtype,
                row_grid(e->batch * e->tokens, THREADS), &call->kept, &from, &to, &gated, e);
}

/* ---- dispatch and combine -------------------------------------------------------------------- */

static void dispatch_forward(const struct kernel_call *call)
{
    struct expert_shape e = shape_of(call);
    choose(call, &e);
    clear_rows(call, &e, call->output);
    CUDA_LAUNCH(call->stream, &ROWS_TO_EXPERTS, call->dtype,
                row_grid(e.batch * e.seq * e.chosen, THREADS), &call->kept, &call->input[0],
                &call->output, &e);
}

static void dispatch_input(const struct kernel_call *call)
{
    struct expert_shape e = shape_of(call);
    if (call->input_gradient[0])
        sum_rows(call, &e, call->output_gradient, false, call->input_gradient[0]);
    if (call->input_gradient[1]) /* who goes where has no slope */
        clear_scores(call, &e, call->input_gradient[1]);
}

const struct gpu_kind GPU_DISPATCH = {
    .refuses = experts_refuse,
    .kept_bytes = choices_bytes,
    .phase = {dispatch_forward, dispatch_input},
};

static void combine_forward(const struct kernel_call *call)
{
    struct expert_shape e = shape_of(call);
    choose(call, &e);
    sum_rows(call, &e, call->input[0], true, call->output);
}

static void combine_input(const struct kernel_call *call)
{
    struct expert_shape e = shape_of(call);
    struct cuda_grid grid = row_grid(e.batch * e.tokens, THREADS);
    if (call->input_gradient[0]) {
        clear_rows(call, &e, call->input_gradient[0]);
        CUDA_LAUNCH(call->stream, &GRADIENTS_TO_EXPERTS, call->dtype, grid, &call->kept,
                    &call->output_gradient, &call->input_gradient[0], &e);
    }
    if (call->input_gradient[1]) {
        clear_scores(call, &e, call->input_gradient[1]);
        CUDA_LAUNCH(call->stream, &GRADIENTS_OF_SCORES, call->dtype, grid, &call->kept,
                    &call->output_gradient, &call->input[0], &call->input_gradient[1], &e);
    }
}

const struct gpu_kind GPU_COMBINE = {
    .refuses = experts_refuse,
    .kept_bytes = choices_bytes,
    .phase = {combine_forward, combine_input},
};

/* ---- biases ---------------------------------------------------------------------------------- */

/* Outputs of so many rows for each expert of each sample; a router is one expert, of all samples at once. */
struct biased_rows {
    int64_t samples, experts, rows, width;
};

/* Outputs that a product is added to, so that sums are rounded once: the biases, where nobody else adds them (kernels.h, I1).
 * False: there are none. */
static bool spread_biases(const struct kernel_call *call, struct biased_rows b)
{
    int64_t count = b.samples * b.experts * b.rows * b.width;
    int in_fp32 = output_dtype(call) == DTYPE_FP32;
    if (call->op->weights < 2 || !call->adds_once)
        return false;
    CUDA_LAUNCH(call->stream, &SPREAD_BIASES, call->dtype, cuda_elements(count), &call->weight[1],
                &call->output, &in_fp32, &count, &b.rows, &b.experts, &b.width);
    return true;
}

static void add_bias_gradients(const struct kernel_call *call, struct biased_rows b)
{
    struct cuda_grid grid = {ceil_div(b.width, LANES), b.experts, 1, THREADS, 0};
    if (call->op->weights > 1)
        CUDA_LAUNCH(call->stream, &BIAS_GRADIENTS, output_dtype(call), grid, &call->output_gradient,
                    &b.samples, &b.rows, &b.width, &call->weight_gradient[1]);
}

/* ---- a product for each expert --------------------------------------------------------------- */

struct expert_product {
    int64_t samples, experts, rows, in, out;
};

static struct expert_product product_of(const struct kernel_call *call)
{
    const struct op *op = call->op;
    int64_t rows = op->input[0].size[1] / op->size[1] * call->size[2] / op->size[2];
    return (struct expert_product){call->size[0], call->size[1], rows, call->size[3],
                                   call->size[4]};
}

static const char *expert_linear_refuses(const struct op *op)
{
    return op->input[0].size[1] % op->size[1] ? "its tokens are not spread evenly over its experts"
                                              : NULL;
}

static struct biased_rows rows_of_product(const struct expert_product *p)
{
    return (struct biased_rows){p->samples, p->experts, p->rows, p->out};
}

static struct fp8_sizes cast_sizes(const struct expert_product *p)
{
    return (struct fp8_sizes){p->samples, p->experts, p->rows, p->in, p->out};
}

static int64_t product_scratch(const struct kernel_call *call)
{
    struct expert_product p = product_of(call);
    struct fp8_sizes sizes = cast_sizes(&p);
    return WORKSPACE + (call->fp8 ? fp8_bytes(&sizes) : 0);
}

/* Of products in fp8: a phase of them. */
static bool runs_fp8(const struct kernel_call *call, const struct expert_product *p,
                     void (*phase)(const struct kernel_call *, const struct fp8_sizes *, void *))
{
    struct fp8_sizes sizes = cast_sizes(p);
    if (call->fp8)
        phase(call, &sizes, (char *)call->scratch + WORKSPACE);
    return call->fp8;
}

static void *sample_at(const struct kernel_call *call, const struct expert_product *p,
                       const void *from, int64_t sample, int64_t width)
{
    char *at = (char *)(uintptr_t)from;
    return at + sample * p->experts * p->rows * width * dtype_bytes(call->dtype);
}

static struct gemm experts_gemm(const struct kernel_call *call, const struct expert_product *p,
                                enum dtype out)
{
    struct gemm g = gemm_of(call->dtype, out);
    g.batch = p->experts;
    return g;
}

static void expert_forward(const struct kernel_call *call)
{
    struct expert_product p = product_of(call);
    struct gemm g = experts_gemm(call, &p, call->dtype);
    g.m = g.c_step = p.out;
    g.n = p.rows;
    g.k = g.a_step = g.b_step = p.in;
    g.a_turned = true;
    g.a_apart = p.out * p.in;
    g.b_apart = p.rows * p.in;
    g.c_apart = p.rows * p.out;
    float before = spread_biases(call, rows_of_product(&p)) ? 1 : 0;
    if (runs_fp8(call, &p, fp8_forward))
        return;
    for (int64_t s = 0; s < p.samples; s++)
        multiply(call, &g, 1, call->weight[0], sample_at(call, &p, call->input[0], s, p.in), NULL,
                 before, sample_at(call, &p, call->output, s, p.out));
}

static void expert_input(const struct kernel_call *call)
{
    struct expert_product p = product_of(call);
    struct gemm g = experts_gemm(call, &p, call->dtype);
    g.m = g.a_step = g.c_step = p.in;
    g.n = p.rows;
    g.k = g.b_step = p.out;
    g.a_apart = p.out * p.in;
    g.b_apart = p.rows * p.out;
    g.c_apart = p.rows * p.in;
    if (!call->input_gradient[0] || runs_fp8(call, &p, fp8_input))
        return;
    for (int64_t s = 0; s < p.samples; s++)
        multiply(call, &g, 1, call->weight[0], sample_at(call, &p, call->output_gradient, s, p.out),
                 NULL, 0, sample_at(call, &p, call->input_gradient[0], s, p.in));
}

static void expert_weight(const struct kernel_call *call)
{
    struct expert_product p = product_of(call);
    struct gemm g = experts_gemm(call, &p, DTYPE_FP32);
    g.m = g.a_step = g.c_step = p.in;
    g.n = g.b_step = p.out;
    g.k = p.rows;
    g.b_turned = true;
    g.a_apart = p.rows * p.in;
    g.b_apart = p.rows * p.out;
    g.c_apart = p.out * p.in;
    add_bias_gradients(call, rows_of_product(&p));
    if (runs_fp8(call, &p, fp8_weight))
        return;
    for (int64_t s = 0; s < p.samples; s++)
        multiply(call, &g, 1, sample_at(call, &p, call->input[0], s, p.in),
                 sample_at(call, &p, call->output_gradient, s, p.out), NULL, 1,
                 call->weight_gradient[0]);
}

const struct gpu_kind GPU_EXPERT_LINEAR = {
    .refuses = expert_linear_refuses,
    .scratch_bytes = product_scratch,
    .phase = {expert_forward, expert_input, expert_weight},
};

/* ---- routers (I1) ---------------------------------------------------------------------------- */

struct gpu_router {
    int64_t rows, in, experts, at_once;
    float *weight, *wide; /* widened weights; rows of inputs, or of their gradients */
};

static struct gpu_router router_of(const struct kernel_call *call)
{
    struct gpu_router r = {
        .rows = call->size[0] * call->size[1], .in = call->size[2], .experts = call->size[3]};
    r.at_once = own_router_rows(r.rows, r.in);
    r.weight = (float *)(void *)((char *)call->scratch + WORKSPACE);
    r.wide = r.weight + ceil_div(r.experts * r.in, 64) * 64;
    return r;
}

static int64_t router_scratch(const struct kernel_call *call)
{
    struct gpu_router r = router_of(call);
    int64_t floats = ceil_div(r.experts * r.in, 64) * 64 + r.at_once * r.in;
    return WORKSPACE + floats * (int64_t)sizeof(float);
}

static struct biased_rows rows_of_router(const struct gpu_router *r)
{
    return (struct biased_rows){1, 1, r->rows, r->experts};
}

static void router_forward(const struct kernel_call *call)
{
    struct gpu_router r = router_of(call);
    struct gemm g = gemm_of(call->dtype, output_dtype(call));
    g.m = g.c_step = r.experts;
    g.n = r.rows;
    g.k = g.a_step = g.b_step = r.in;
    g.a_turned = true;
    float before = spread_biases(call, rows_of_router(&r)) ? 1 : 0;
    multiply(call, &g, 1, call->weight[0], call->input[0], NULL, before, call->output);
}

static int64_t rows_from(const struct gpu_router *r, int64_t first)
{
    return r->rows - first < r->at_once ? r->rows - first : r->at_once;
}

static const void *row_at(const struct kernel_call *call, const struct gpu_router *r,
                          const void *from, int64_t row)
{
    return (const char *)from + row * r->in * dtype_bytes(call->dtype);
}

static void router_input(const struct kernel_call *call)
{
    struct gpu_router r = router_of(call);
    const float *dy = call->output_gradient;
    struct gemm g = gemm_of(DTYPE_FP32, DTYPE_FP32);
    if (!call->input_gradient[0])
        return;
    CUDA_DEVICE.cast(call->stream, call->dtype, call->weight[0], DTYPE_FP32, r.weight,
                     r.experts * r.in);
    g.m = g.a_step = g.c_step = r.in;
    g.k = g.b_step = r.experts;
    for (int64_t first = 0; first < r.rows; first += r.at_once) {
        g.n = rows_from(&r, first);
        multiply(call, &g, 1, r.weight, dy + first * r.experts, NULL, 0, r.wide);
        CUDA_DEVICE.cast(call->stream, DTYPE_FP32, r.wide, call->dtype,
                         (void *)(uintptr_t)row_at(call, &r, call->input_gradient[0], first),
                         g.n * r.in);
    }
}

static void router_weight(const struct kernel_call *call)
{
    struct gpu_router r = router_of(call);
    const float *dy = call->output_gradient;
    struct gemm g = gemm_of(DTYPE_FP32, DTYPE_FP32);
    g.m = g.a_step = g.c_step = r.in;
    g.n = g.b_step = r.experts;
    g.b_turned = true;
    for (int64_t first = 0; first < r.rows; first += r.at_once) {
        g.k = rows_from(&r, first);
        CUDA_DEVICE.cast(call->stream, call->dtype, row_at(call, &r, call->input[0], first),
                         DTYPE_FP32, r.wide, g.k * r.in);
        multiply(call, &g, 1, r.wide, dy + first * r.experts, NULL, 1, call->weight_gradient[0]);
    }
    add_bias_gradients(call, rows_of_router(&r));
}

const struct gpu_kind GPU_ROUTER = {
    .scratch_bytes = router_scratch,
    .phase = {router_forward, router_input, router_weight},
};
