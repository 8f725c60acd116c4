/* batch_norm.c - batch norm on a GPU (kernels/cpu/batch_norm.c). Kept: mean and rate of each channel.
 *
 * Sums of a channel are taken in parts of the samples, then over these: enough blocks for all of a GPU, in a fixed order.
 */
#include "run/kernels/cuda/room.h"

extern struct cuda_code CUDA_CODE_batch_norm;
GPU_KERNEL(BATCH_NORM_SUMS, batch_norm, "batch_norm_sums");
GPU_KERNEL(BATCH_NORM_FORWARD, batch_norm, "batch_norm_forward");
GPU_KERNEL(BATCH_NORM_GRADIENTS, batch_norm, "batch_norm_gradients");
GPU_KERNEL(BATCH_NORM_INPUT, batch_norm, "batch_norm_input");
static struct cuda_kernel TOTALS = {.code = &CUDA_CODE_batch_norm, .name = "batch_norm_totals"};
static struct cuda_kernel SQUARES = {.code = &CUDA_CODE_batch_norm, .name = "batch_norm_squares"};
static struct cuda_kernel GRADIENT_TOTALS = {.code = &CUDA_CODE_batch_norm,
                                             .name = "batch_norm_gradient_totals"};

enum { THREADS = 256, MOST_BLOCKS = 2048 };

/* The `norm_shape` of batch_norm.cu. */
struct norm_shape {
    int64_t samples, channels, pixels, parts, each;
};

struct gpu_batch_norm {
    struct norm_shape shape;
    float *mean, *rate;
    float *sums, *squares, *part; /* the first two: of each channel, and the number of addends */
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
    n.mean = call->kept;
    n.rate = n.mean + n.shape.channels;
    n.sums = call->scratch;
    n.squares = n.sums + n.shape.channels + 1;
    n.part = n.squares + n.shape.channels + 1;
    return n;
}

static int64_t norm_scratch(const struct kernel_call *call)
{
    struct norm_shape n = norm_shape(call);
    return 2 * (n.channels + 1 + n.parts * n.channels) * (int64_t)sizeof(float);
}

static int64_t norm_kept(const struct kernel_call *call)
{
    return 2 * call->size[1] * (int64_t)sizeof(float);
}

static void reduce_sums(const struct kernel_call *call, float *sums, int64_t count)
{
    if (call->reduce)
        call->reduce(call->context, REDUCE_SUM, sums, count);
}

static struct cuda_grid part_grid(const struct norm_shape *n)
{
    return (struct cuda_grid){n->channels, n->parts, 1, THREADS, 0};
}

/* A thread takes 16 bytes at a time. */
static struct cuda_grid pack_grid(const struct kernel_call *call, const struct norm_shape *n)
{
    int64_t bytes = n->samples * n->channels * n->pixels * dtype_bytes(call->dtype);
    return cuda_elements(ceil_div(bytes, 16));
}

static struct cuda_grid channel_grid(const struct norm_shape *n)
{
    return (struct cuda_grid){ceil_div(n->channels, THREADS), 1, 1, THREADS, 0};
}

/* Means and squares of channels: sums of all devices come between them. */
static void find_moments(const struct kernel_call *call, struct gpu_batch_norm *n)
{
    float *sums = call->reduce ? n->sums : NULL;
    CUDA_LAUNCH(call->stream, &BATCH_NORM_SUMS, call->dtype, part_grid(&n->shape), &call->input[0],
                &n->shape, &n->part);
    if (sums) {
        CUDA_LAUNCH(call->stream, &TOTALS, DTYPE_FP32, channel_grid(&n->shape), &n->part, &n->shape,
                    &sums);
        reduce_sums(call, sums, n->shape.channels + 1);
    }
    CUDA_LAUNCH(call->stream, &SQUARES, DTYPE_FP32, channel_grid(&n->shape), &n->part, &sums,
                &n->shape, &n->mean, &n->squares);
    reduce_sums(call, n->squares, n->shape.channels + 1);
}

static void norm_forward(const struct kernel_call *call)
{
    struct gpu_batch_norm n = norm_of(call);
    find_moments(call, &n);
    CUDA_LAUNCH(call->stream, &BATCH_NORM_FORWARD, call->dtype, pack_grid(call, &n.shape),
                &call->input[0], &call->weight[0], &call->weight[1], &n.mean, &n.squares, &n.shape,
                &n.rate, &call->output);
}

static void sum_gradients(const struct kernel_call *call, struct gpu_batch_norm *n, float *along,
                          float *sum, float *addends)
{
    CUDA_LAUNCH(call->stream, &BATCH_NORM_GRADIENTS, call->dtype, part_grid(&n->shape),
                &call->input[0], &call->output_gradient, &n->mean, &n->rate, &n->shape, &n->part);
    CUDA_LAUNCH(call->stream, &GRADIENT_TOTALS, DTYPE_FP32, channel_grid(&n->shape), &n->part,
                &n->shape, &along, &sum, &addends);
}

static void norm_input(const struct kernel_call *call)
{
    struct gpu_batch_norm n = norm_of(call);
    int64_t channels = n.shape.channels;
    sum_gradients(call, &n, n.sums, n.sums + channels, n.sums + 2 * channels);
    reduce_sums(call, n.sums, 2 * channels + 1);
    if (call->input_gradient[0])
        CUDA_LAUNCH(call->stream, &BATCH_NORM_INPUT, call->dtype, pack_grid(call, &n.shape),
                    &call->input[0], &call->output_gradient, &call->weight[0], &n.mean, &n.rate,
                    &n.sums, &n.shape, &call->input_gradient[0]);
}

static void norm_weight(const struct kernel_call *call)
{
    struct gpu_batch_norm n = norm_of(call);
    sum_gradients(call, &n, call->weight_gradient[0], call->weight_gradient[1], NULL);
}

const struct gpu_kind GPU_BATCH_NORM = {
    .kept_bytes = norm_kept,
    .scratch_bytes = norm_scratch,
    .phase = {norm_forward, norm_input, norm_weight},
};
