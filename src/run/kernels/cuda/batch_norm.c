/* batch_norm.c - batch norm on a GPU (kernels/cpu/batch_norm.c). Kept: mean and rate of each channel.
 *
 * Sums of a channel are taken in parts of the samples, then over these: enough blocks for all of a GPU, in a fixed order.
 *
 *   I1  Where nobody else has part of the batch, images are read twice in either direction, once for sums and once for what
 *       is written, by one kernel each.
 *   I2  Gradients of weights are sums that the gradients of inputs are made of: those are kept, and a phase for the weights
 *       after one for the inputs finds them (as in scan.c).
 */
#include "run/kernels/cuda/room.h"

extern struct cuda_code CUDA_CODE_batch_norm;
GPU_KERNEL(BATCH_NORM_SUMS, batch_norm, "batch_norm_sums");
GPU_KERNEL(BATCH_NORM_FORWARD, batch_norm, "batch_norm_forward");
GPU_KERNEL(BATCH_NORM_GRADIENTS, batch_norm, "batch_norm_gradients");
GPU_KERNEL(BATCH_NORM_INPUT, batch_norm, "batch_norm_input");
GPU_KERNEL(BATCH_NORM_WEIGHT, batch_norm, "batch_norm_weight");
static struct cuda_kernel TOTALS = {.code = &CUDA_CODE_batch_norm, .name = "batch_norm_totals"};
static struct cuda_kernel SQUARES = {.code = &CUDA_CODE_batch_norm, .name = "batch_norm_squares"};
static struct cuda_kernel GRADIENT_TOTALS = {.code = &CUDA_CODE_batch_norm,
                                             .name = "batch_norm_gradient_totals"};

enum { THREADS = 256, WARP = 32, MOST_BLOCKS = 2048 };

/* The `norm_shape` of batch_norm.cu. */
struct norm_shape {
    int64_t samples, channels, pixels, parts, each;
};

/* The `norm_kept` of batch_norm.cu. */
struct norm_kept {
    float *mean, *rate, *along, *sum, *todo;
};

struct gpu_batch_norm {
    struct norm_shape shape;
    struct norm_kept kept;
    /* sums of each channel and their number: of the gradients two, and all of one array, or NULL where no other device has any */
    float *sums, *squares;
    float *part;
};

static struct norm_shape norm_shape(const struct kernel_call *call)
{
    struct norm_shape n = {call->size[0], call->size[1],
                           axes_product(call, &call->op->output, 2, call->op->output.axes), 1, 0};
    if (n.channels > 0 && n.samples > 0) {
        int64_t wanted = ceil_div(MOST_BLOCKS, n.channels);
        n.each = ceil_div(n.samples, wanted < n.samples ? wanted : n.samples);
        n.parts = ceil_div(n.samples, n.each);
    }
    return n;
}

static struct gpu_batch_norm norm_of(const struct kernel_call *call)
{
    struct gpu_batch_norm n = {.shape = norm_shape(call)};
    int64_t channels = n.shape.channels;
    float *kept = call->kept, *scratch = call->scratch;
    n.kept = (struct norm_kept){kept, kept + channels, kept + 2 * channels, kept + 3 * channels,
                                kept + 4 * channels};
    n.sums = call->reduce ? scratch : NULL;
    n.squares = call->reduce ? scratch + channels + 1 : NULL;
    n.part = scratch + 2 * (channels + 1);
    return n;
}

static int64_t norm_scratch(const struct kernel_call *call)
{
    struct norm_shape n = norm_shape(call);
    return 2 * (n.channels + 1 + n.parts * n.channels) * (int64_t)sizeof(float);
}

static int64_t norm_kept(const struct kernel_call *call)
{
    return (4 * call->size[1] + 1) * (int64_t)sizeof(float);
}

static struct cuda_grid part_grid(const struct norm_shape *n)
{
    return (struct cuda_grid){n->channels, n->parts, 1, THREADS, 0};
}

/* Sums and squares over all devices: those come between them. */
static void reduce_moments(const struct kernel_call *call, struct gpu_batch_norm *n)
{
    int64_t count = n->shape.channels + 1;
    struct cuda_grid grid = row_grid(n->shape.channels, WARP);
    CUDA_LAUNCH(call->stream, &TOTALS, DTYPE_FP32, grid, &n->part, &n->shape, &n->sums);
    call->reduce(call->context, REDUCE_SUM, n->sums, count);
    CUDA_LAUNCH(call->stream, &SQUARES, DTYPE_FP32, grid, &n->part, &n->sums, &n->shape,
                &n->squares);
    call->reduce(call->context, REDUCE_SUM, n->squares, count);
}

static void norm_forward(const struct kernel_call *call)
{
    struct gpu_batch_norm n = norm_of(call);
    CUDA_LAUNCH(call->stream, &BATCH_NORM_SUMS, call->dtype, part_grid(&n.shape), &call->input[0],
                &n.shape, &n.part);
    if (call->reduce)
        reduce_moments(call, &n);
    CUDA_LAUNCH(call->stream, &BATCH_NORM_FORWARD, call->dtype, part_grid(&n.shape),
                &call->input[0], &call->weight[0], &call->weight[1], &n.part, &n.sums, &n.squares,
                &n.shape, &n.kept, &call->output);
}

static void norm_input(const struct kernel_call *call)
{
    struct gpu_batch_norm n = norm_of(call);
    if (!call->input_gradient[0] && !call->reduce)
        return;
    CUDA_LAUNCH(call->stream, &BATCH_NORM_GRADIENTS, call->dtype, part_grid(&n.shape),
                &call->input[0], &call->output_gradient, &n.shape, &n.kept, &n.part);
    if (call->reduce) {
        CUDA_LAUNCH(call->stream, &GRADIENT_TOTALS, DTYPE_FP32, row_grid(n.shape.channels, WARP),
                    &n.part, &n.shape, &n.kept, &n.sums);
        call->reduce(call->context, REDUCE_SUM, n.sums, 2 * n.shape.channels + 1);
    }
    if (call->input_gradient[0])
        CUDA_LAUNCH(call->stream, &BATCH_NORM_INPUT, call->dtype, part_grid(&n.shape),
                    &call->input[0], &call->output_gradient, &call->weight[0], &n.part, &n.sums,
                    &n.shape, &n.kept, &call->input_gradient[0]);
}

/* I2 */
static void norm_weight(const struct kernel_call *call)
{
    struct gpu_batch_norm n = norm_of(call);
    n.shape.parts = 1;
    n.shape.each = n.shape.samples;
    CUDA_LAUNCH(call->stream, &BATCH_NORM_WEIGHT, call->dtype, part_grid(&n.shape), &call->input[0],
                &call->output_gradient, &n.shape, &n.kept, &call->weight_gradient[0],
                &call->weight_gradient[1]);
}

const struct gpu_kind GPU_BATCH_NORM = {
    .kept_bytes = norm_kept,
    .scratch_bytes = norm_scratch,
    .phase = {norm_forward, norm_input, norm_weight},
};
