/* pointwise.c - kinds that treat elements alike, rotary positions and optimizers, on a GPU
 * (kernels/cpu/pointwise.c, rotary.c, optimizer.c). */
#include <math.h>

#include "run/kernels/cuda/room.h"

extern struct cuda_code CUDA_CODE_pointwise;
GPU_KERNEL(ACTIVATION_FORWARD, pointwise, "activation_forward");
GPU_KERNEL(ACTIVATION_INPUT, pointwise, "activation_input");
GPU_KERNEL(GATED_FORWARD, pointwise, "gated_forward");
GPU_KERNEL(GATED_INPUT, pointwise, "gated_input");
GPU_KERNEL(DROPOUT_FORWARD, pointwise, "dropout_forward");
GPU_KERNEL(DROPOUT_INPUT, pointwise, "dropout_input");
GPU_KERNEL(SUM_OF_TWO, pointwise, "sum_of_two");
GPU_KERNEL(GATED_SUM, pointwise, "gated_sum");
GPU_KERNEL(TOKEN_GATE_FORWARD, pointwise, "token_gate_forward");
GPU_KERNEL(TOKEN_GATE_INPUT, pointwise, "token_gate_input");
GPU_KERNEL(GATE_PARTS, pointwise, "gate_parts");
GPU_KERNEL(GATE_GRADIENT, pointwise, "gate_gradient");
GPU_KERNEL(ADD_WEIGHT_FORWARD, pointwise, "add_weight_forward");
GPU_KERNEL(ADD_WEIGHT_GRADIENT, pointwise, "add_weight_gradient");
GPU_KERNEL(ROTARY, pointwise, "rotary");
static struct cuda_kernel ROTARY_TURNS = {.code = &CUDA_CODE_pointwise, .name = "rotary_turns"};
GPU_KERNEL(SGD, pointwise, "sgd");
GPU_KERNEL(ADAM, pointwise, "adam");

/* A thread takes 16 bytes at a time. */
static struct cuda_grid pack_grid(const struct kernel_call *call, int64_t count)
{
    return cuda_elements(ceil_div(count * dtype_bytes(call->dtype), 16));
}

/* ---- activations and gates ------------------------------------------------------------------- */

/* As in pointwise.cu. */
enum activation_form { FORM_GELU, FORM_RELU, FORM_RELU2, FORM_SILU, FORM_SIGMOID, FORM_CLAMPED };

static int form_of(const struct op *op)
{
    static const enum activation_form GATES[GATE_COUNT] = {
        [GATE_SILU] = FORM_SILU,
        [GATE_GELU] = FORM_GELU,
        [GATE_SIGMOID] = FORM_SIGMOID,
        [GATE_CLAMPED] = FORM_CLAMPED,
    };
    if (op->kind == OP_GATED)
        return GATES[op->gate];
    if (op->kind == OP_RELU)
        return op->squared ? FORM_RELU2 : FORM_RELU;
    return op->kind == OP_GELU ? FORM_GELU : FORM_SILU;
}

static void activation_forward(const struct kernel_call *call)
{
    int64_t count = elements_of(call);
    int form = form_of(call->op);
    CUDA_LAUNCH(call->stream, &ACTIVATION_FORWARD, call->dtype, pack_grid(call, count),
                &call->input[0], &call->output, &count, &form);
}

static void activation_input(const struct kernel_call *call)
{
    int64_t count = elements_of(call);
    int form = form_of(call->op);
    const void *seen = call->op->keep & KEEP_OUTPUT ? call->output : call->input[0];
    if (call->input_gradient[0])
        CUDA_LAUNCH(call->stream, &ACTIVATION_INPUT, call->dtype, pack_grid(call, count), &seen,
                    &call->output_gradient, &call->input_gradient[0], &count, &form);
}

/* The second of a pair that stands side by side. */
static void *beside(const struct kernel_call *call, const void *first)
{
    return first ? (char *)(uintptr_t)first + dtype_bytes(call->dtype) : NULL;
}

/* One number for all features of a token. */
static bool gates_tokens(const struct op *op)
{
    return op->inputs == 2 && op->input[0].dims[op->input[0].axes - 1][0] < 0;
}

static struct cuda_grid token_grid(const struct kernel_call *call, int64_t *width)
{
    *width = call->size[op_find_dim(OP_GATED, DIM_HIDDEN)];
    return row_grid(*width ? elements_of(call) / *width : 0, row_threads(*width));
}

static void tokens_forward(const struct kernel_call *call)
{
    int64_t width;
    struct cuda_grid grid = token_grid(call, &width);
    CUDA_LAUNCH(call->stream, &TOKEN_GATE_FORWARD, call->dtype, grid, &call->input[0],
                &call->input[1], &call->output, &width);
}

static void tokens_input(const struct kernel_call *call)
{
    int64_t width;
    struct cuda_grid grid = token_grid(call, &width);
    CUDA_LAUNCH(call->stream, &TOKEN_GATE_INPUT, call->dtype, grid, &call->input[0],
                &call->input[1], &call->output_gradient, &call->input_gradient[0],
                &call->input_gradient[1], &width);
}

static void gated_forward(const struct kernel_call *call)
{
    if (gates_tokens(call->op)) {
        tokens_forward(call);
        return;
    }
    int64_t count = elements_of(call);
    int form = form_of(call->op), step = call->op->inputs == 1 ? 2 : 1;
    const void *up = step == 2 ? beside(call, call->input[0]) : call->input[1];
    CUDA_LAUNCH(call->stream, &GATED_FORWARD, call->dtype, pack_grid(call, count), &call->input[0],
                &up, &call->output, &count, &form, &step);
}

static void gated_input(const struct kernel_call *call)
{
    if (gates_tokens(call->op)) {
        tokens_input(call);
        return;
    }
    int64_t count = elements_of(call);
    int form = form_of(call->op), step = call->op->inputs == 1 ? 2 : 1;
    const void *up = step == 2 ? beside(call, call->input[0]) : call->input[1];
    void *up_gradient = step == 2 ? beside(call, call->input_gradient[0]) : call->input_gradient[1];
    CUDA_LAUNCH(call->stream, &GATED_INPUT, call->dtype, pack_grid(call, count), &call->input[0],
                &up, &call->output_gradient, &call->input_gradient[0], &up_gradient, &count, &form,
                &step);
}

#define ACTIVATION                                                                                 \
    {                                                                                              \
        .phase = {activation_forward, activation_input},                                           \
    }
const struct gpu_kind GPU_GELU = ACTIVATION, GPU_RELU = ACTIVATION, GPU_SILU = ACTIVATION;
const struct gpu_kind GPU_GATED = {.phase = {gated_forward, gated_input}};

/* ---- where elements are ---------------------------------------------------------------------- */

enum { PLACES = 8 };
_Static_assert((int)PLACES >= (int)MAX_AXES, "an axis without a place");
/* As in pointwise.cu. */
struct element_places {
    int64_t axes, size[PLACES], begin[PLACES], whole[PLACES];
};

static struct element_places places_of(const struct kernel_call *call)
{
    const struct operand *out = &call->op->output;
    struct element_places p = {.axes = out->axes};
    for (int i = 0; i < out->axes; i++) {
        struct extent e = axis_extent(call, out, i);
        p.size[i] = e.size;
        p.begin[i] = e.begin;
        p.whole[i] = e.whole;
    }
    return p;
}

/* ---- dropout --------------------------------------------------------------------------------- */

static int64_t dropout_kept(const struct kernel_call *call)
{
    return elements_of(call);
}

static float drop_scale(const struct kernel_call *call)
{
    return call->dropout < 1 ? 1 / (1 - call->dropout) : 0;
}

/* Without anything to drop, masks are neither drawn nor read. */
static void pass_forward(const struct kernel_call *call)
{
    int64_t count = elements_of(call);
    if (call->op->inputs > 1)
        CUDA_LAUNCH(call->stream, &SUM_OF_TWO, call->dtype, pack_grid(call, count), &call->input[0],
                    &call->input[1], &call->output, &count);
    else
        call_copy(call, call->input[0], call->output, count);
}

static void dropout_forward(const struct kernel_call *call)
{
    if (call->dropout == 0) {
        pass_forward(call);
        return;
    }
    struct element_places p = places_of(call);
    int64_t count = elements_of(call);
    uint32_t dropped = (uint32_t)((double)call->dropout * (1 << 24));
    float scale = drop_scale(call);
    const void *residual = call->op->inputs > 1 ? call->input[1] : NULL;
    uint64_t seed = call->seed;
    CUDA_LAUNCH(call->stream, &DROPOUT_FORWARD, call->dtype, cuda_elements(count), &call->input[0],
                &residual, &call->output, &call->kept, &p, &count, &seed, &dropped, &scale);
}

static void copy_gradient(const struct kernel_call *call, int input)
{
    if (input < call->op->inputs && call->input_gradient[input])
        call_copy(call, call->output_gradient, call->input_gradient[input], elements_of(call));
}

static void dropout_input(const struct kernel_call *call)
{
    int64_t count = elements_of(call);
    float scale = drop_scale(call);
    if (call->dropout == 0)
        copy_gradient(call, 0);
    else if (call->input_gradient[0])
        CUDA_LAUNCH(call->stream, &DROPOUT_INPUT, call->dtype, cuda_elements(count),
                    &call->output_gradient, &call->kept, &call->input_gradient[0], &count, &scale);
    copy_gradient(call, 1);
}

#define DROPOUT                                                                                    \
    {                                                                                              \
        .kept_bytes = dropout_kept,                                                                \
        .phase = {dropout_forward, dropout_input},                                                 \
    }
const struct gpu_kind GPU_DROPOUT = DROPOUT, GPU_DROPOUT_ADD = DROPOUT;

/* ---- sums ------------------------------------------------------------------------------------ */

enum { GATE_BLOCKS = 256, GATE_THREADS = 256 };

static bool is_gated(const struct kernel_call *call)
{
    return call->op->inputs > 1 && call->op->weights;
}

static int64_t add_scratch(const struct kernel_call *call)
{
    return is_gated(call) ? GATE_BLOCKS * (int64_t)sizeof(double) : 0;
}

/* `plus` NULL: nothing. */
static void through_gate(const struct kernel_call *call, const void *from, const void *plus,
                         void *to)
{
    int64_t count = elements_of(call);
    CUDA_LAUNCH(call->stream, &GATED_SUM, call->dtype, pack_grid(call, count), &from,
                &call->weight[0], &plus, &to, &count);
}

static void gate_gradient(const struct kernel_call *call)
{
    int64_t count = elements_of(call), blocks = GATE_BLOCKS;
    CUDA_LAUNCH(call->stream, &GATE_PARTS, call->dtype, row_grid(blocks, GATE_THREADS),
                &call->input[0], &call->output_gradient, &count, &call->scratch);
    CUDA_LAUNCH(call->stream, &GATE_GRADIENT, call->dtype, row_grid(1, GATE_THREADS),
                &call->scratch, &blocks, &call->weight[0], &call->weight_gradient[0]);
}

/* Rows of a weight that is added to a sample, or to each part of it. */
static int64_t rows_of_weight(const struct kernel_call *call, const struct element_places *p)
{
    return call->op->weight[0].operand.size[0] / p->whole[p->axes - 1];
}

/* How far local rows that share a row of the weight are apart: as in the whole, if only the outermost axis of rows is cut. */
static int64_t rows_apart(const struct element_places *p, int64_t weight_rows)
{
    for (int64_t i = 2; i < p->axes - 1; i++)
        if (p->size[i] != p->whole[i])
            return 1;
    return weight_rows;
}

static void add_forward(const struct kernel_call *call)
{
    int64_t count = elements_of(call);
    struct element_places p = places_of(call);
    if (is_gated(call)) {
        through_gate(call, call->input[0], call->input[1], call->output);
        return;
    }
    if (call->op->inputs > 1) {
        CUDA_LAUNCH(call->stream, &SUM_OF_TWO, call->dtype, pack_grid(call, count), &call->input[0],
                    &call->input[1], &call->output, &count);
        return;
    }
    int64_t rows = rows_of_weight(call, &p);
    CUDA_LAUNCH(call->stream, &ADD_WEIGHT_FORWARD, call->dtype, cuda_elements(count),
                &call->input[0], &call->weight[0], &call->output, &p, &count, &rows);
}

static void add_input(const struct kernel_call *call)
{
    if (!is_gated(call))
        copy_gradient(call, 0);
    else if (call->input_gradient[0])
        through_gate(call, call->output_gradient, NULL, call->input_gradient[0]);
    copy_gradient(call, 1);
}

static void add_weight(const struct kernel_call *call)
{
    struct element_places p = places_of(call);
    int64_t samples = p.size[0], sample = elements_of(call) / (samples ? samples : 1);
    if (is_gated(call)) {
        gate_gradient(call);
        return;
    }
    if (!call->op->weights)
        return;
    int64_t rows = rows_of_weight(call, &p), apart = rows_apart(&p, rows);
    struct cuda_grid grid = {ceil_div(sample, 256), 1, 1, 256, 0};
    CUDA_LAUNCH(call->stream, &ADD_WEIGHT_GRADIENT, call->dtype, grid, &call->output_gradient,
                &call->weight_gradient[0], &p, &sample, &samples, &rows, &apart);
}

const struct gpu_kind GPU_ADD = {
    .refuses = add_refuses,
    .scratch_bytes = add_scratch,
    .phase = {add_forward, add_input, add_weight},
};

/* ---- rotary positions ------------------------------------------------------------------------ */

static int64_t rotary_scratch(const struct kernel_call *call)
{
    return call->size[1] * call->op->head_depth * (int64_t)sizeof(float);
}

static void rotate(const struct kernel_call *call, const void *from, void *to, float sign)
{
    const struct op *op = call->op;
    int64_t seq = call->size[1], position = call->begin[1], depth = op->head_depth;
    int64_t count = call->size[0] * seq * call->size[2], turns = seq * depth / 2;
    uint32_t positions = (uint32_t)seq, width = (uint32_t)call->size[2], wide = (uint32_t)depth;
    uint32_t feature = (uint32_t)call->begin[2], share = (uint32_t)op->head_share;
    uint32_t turned = (uint32_t)op->head_turned;
    float base = (float)op->rope_base, scaling = (float)op->rope_scaling;
    float learned = ROPE_LEARNED, fast = ROPE_FAST;
    struct cuda_grid grid = {ceil_div(turns, 256), 1, 1, 256, 0};
    if (!to)
        return;
    CUDA_LAUNCH(call->stream, &ROTARY_TURNS, DTYPE_FP32, grid, &call->scratch, &seq, &position,
                &depth, &base, &scaling, &learned, &fast);
    CUDA_LAUNCH(call->stream, &ROTARY, call->dtype, cuda_elements(count / 2), &from, &to,
                &call->scratch, &count, &positions, &width, &feature, &share, &turned, &wide,
                &sign);
}

static void rotary_forward(const struct kernel_call *call)
{
    rotate(call, call->input[0], call->output, 1);
}

static void rotary_input(const struct kernel_call *call)
{
    rotate(call, call->output_gradient, call->input_gradient[0], -1);
}

const struct gpu_kind GPU_ROTARY = {
    .refuses = rotary_refuses,
    .scratch_bytes = rotary_scratch,
    .phase = {rotary_forward, rotary_input},
};

/* ---- optimizers ------------------------------------------------------------------------------ */

/* As in pointwise.cu. */
struct gpu_step {
    float rate, momentum, beta1, beta2, epsilon, coupled, rest, scale, root;
};

void gpu_optimize(const struct optimizer_step *step)
{
    bool apart = step->kind == OPTIMIZER_ADAMW, plain = step->kind == OPTIMIZER_SGD;
    struct gpu_step s = {.rate = step->rate,
                         .momentum = step->momentum,
                         .beta1 = step->beta1,
                         .beta2 = step->beta2,
                         .epsilon = step->epsilon,
                         .coupled = apart ? 0 : step->decay,
                         .rest = apart ? 1 - step->rate * step->decay : 1,
                         .scale = step->scale};
    void *w = step->master, *g = step->gradient, *m = step->moment1, *v = step->moment2;
    void *stored = step->weight;
    int64_t count = step->count;
    if (plain) {
        CUDA_LAUNCH(step->stream, &SGD, step->dtype, cuda_elements(count), &w, &g, &m, &stored,
                    &count, &s);
        return;
    }
    s.rate = (float)(step->rate / (1 - pow((double)step->beta1, (double)step->step)));
    s.root = (float)(1 / sqrt(1 - pow((double)step->beta2, (double)step->step)));
    CUDA_LAUNCH(step->stream, &ADAM, step->dtype, cuda_elements(count), &w, &g, &m, &v, &stored,
                &count, &s);
}
