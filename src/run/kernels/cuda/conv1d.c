/* conv1d.c - a causal depthwise convolution over a sequence, and the gated norm, on a GPU (kernels/cpu/conv1d.c).
 *
 * Gradients of weights are summed in parts of the rows, then over these: in a fixed order (room.h, I2).
 */
#include "cost/cost.h"
#include "run/kernels/cuda/room.h"

extern struct cuda_code CUDA_CODE_conv1d;
GPU_KERNEL(CONV1D_FORWARD, conv1d, "conv1d_forward");
GPU_KERNEL(CONV1D_INPUT, conv1d, "conv1d_input");
GPU_KERNEL(CONV1D_PARTS, conv1d, "conv1d_parts");
GPU_KERNEL(GATED_NORM_FORWARD, conv1d, "gated_norm_forward");
GPU_KERNEL(GATED_NORM_INPUT, conv1d, "gated_norm_input");
GPU_KERNEL(GATED_NORM_PARTS, conv1d, "gated_norm_parts");

enum {
    THREADS = 256,
    LANES = 32,
    STRIP = 16,
    USUAL_TAPS = 4
}; /* the last three: as in conv1d.cu */

/* ---- convolution ----------------------------------------------------------------------------- */

/* As in conv1d.cu. */
struct gpu_conv1d {
    int64_t rows, seq, features, taps;
};

static struct gpu_conv1d conv1d_of(const struct kernel_call *call)
{
    int64_t each = call->op->output.size[2] / call->op->size[1];
    return (struct gpu_conv1d){call->size[0] * call->size[2], call->size[2], each * call->size[1],
                               call->op->kernel[0]};
}

static int64_t conv1d_kept(const struct kernel_call *call)
{
    return own_conv1d_kept(call->op, call->size);
}

static int64_t conv1d_scratch(const struct kernel_call *call)
{
    struct gpu_conv1d c = conv1d_of(call);
    return column_room(c.rows, c.features * (c.taps + 1));
}

static struct cuda_grid strip_grid(const struct gpu_conv1d *c)
{
    int64_t samples = c->seq ? c->rows / c->seq : 0;
    return (struct cuda_grid){samples * ceil_div(c->seq, STRIP), ceil_div(c->features, THREADS), 1,
                              THREADS, 0};
}

static void conv1d_forward(const struct kernel_call *call)
{
    struct gpu_conv1d c = conv1d_of(call);
    const void *bias = call->op->weights > 1 ? call->weight[1] : NULL;
    CUDA_LAUNCH(call->stream, &CONV1D_FORWARD, call->dtype, strip_grid(&c), &call->input[0],
                &call->weight[0], &bias, &call->output, &call->kept, &c);
}

static void conv1d_input(const struct kernel_call *call)
{
    struct gpu_conv1d c = conv1d_of(call);
    if (call->input_gradient[0])
        CUDA_LAUNCH(call->stream, &CONV1D_INPUT, call->dtype, strip_grid(&c),
                    &call->output_gradient, &call->kept, &call->weight[0], &call->input_gradient[0],
                    &c);
}

static void conv1d_weight(const struct kernel_call *call)
{
    struct gpu_conv1d c = conv1d_of(call);
    int64_t parts = column_parts(c.rows), each = parts ? ceil_div(c.rows, parts) : 0;
    bool biased = call->op->weights > 1;
    struct cuda_grid grid = {ceil_div(c.features, LANES), parts, ceil_div(c.taps, USUAL_TAPS),
                             THREADS, 0};
    float *part = call->scratch, *bias = part + parts * c.features * c.taps;
    CUDA_LAUNCH(call->stream, &CONV1D_PARTS, call->dtype, grid, &call->input[0],
                &call->output_gradient, &call->kept, &c, &each, &part);
    add_parts(call, part, parts, c.features * c.taps, call->weight_gradient[0]);
    if (biased)
        add_parts(call, bias, parts, c.features, call->weight_gradient[1]);
}

const struct gpu_kind GPU_CONV1D = {
    .kept_bytes = conv1d_kept,
    .scratch_bytes = conv1d_scratch,
    .phase = {conv1d_forward, conv1d_input, conv1d_weight},
};

/* ---- gated norm ------------------------------------------------------------------------------ */

static int64_t positions_of(const struct kernel_call *call)
{
    return call->size[0] * call->size[2];
}

static int64_t gated_norm_kept(const struct kernel_call *call)
{
    return positions_of(call) * call->size[1] * (int64_t)sizeof(float);
}

static int64_t gated_norm_scratch(const struct kernel_call *call)
{
    return column_room(positions_of(call), call->size[1] * call->size[3]);
}

static struct cuda_grid group_grid(const struct kernel_call *call)
{
    return row_grid(positions_of(call) * call->size[1], row_threads(call->size[3]));
}

static void gated_norm_forward(const struct kernel_call *call)
{
    int64_t groups = call->size[1], width = call->size[3];
    float epsilon = (float)call->op->epsilon;
    CUDA_LAUNCH(call->stream, &GATED_NORM_FORWARD, call->dtype, group_grid(call), &call->input[0],
                &call->input[1], &call->weight[0], &call->output, &call->kept, &groups, &width,
                &epsilon);
}

static void gated_norm_input(const struct kernel_call *call)
{
    int64_t groups = call->size[1], width = call->size[3];
    if (call->input_gradient[0] || call->input_gradient[1])
        CUDA_LAUNCH(call->stream, &GATED_NORM_INPUT, call->dtype, group_grid(call), &call->input[0],
                    &call->input[1], &call->weight[0], &call->output_gradient, &call->kept,
                    &call->input_gradient[0], &call->input_gradient[1], &groups, &width);
}

static void gated_norm_weight(const struct kernel_call *call)
{
    int64_t groups = call->size[1], width = call->size[3], positions = positions_of(call);
    int64_t parts = column_parts(positions), each = parts ? ceil_div(positions, parts) : 0;
    struct cuda_grid grid = {ceil_div(groups * width, LANES), parts, 1, THREADS, 0};
    CUDA_LAUNCH(call->stream, &GATED_NORM_PARTS, call->dtype, grid, &call->input[0],
                &call->input[1], &call->output_gradient, &call->kept, &positions, &groups, &width,
                &each, &call->scratch);
    add_parts(call, call->scratch, parts, groups * width, call->weight_gradient[0]);
}

const struct gpu_kind GPU_GATED_NORM = {
    .kept_bytes = gated_norm_kept,
    .scratch_bytes = gated_norm_scratch,
    .phase = {gated_norm_forward, gated_norm_input, gated_norm_weight},
};
