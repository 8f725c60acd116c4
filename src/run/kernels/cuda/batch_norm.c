/* batch_norm.c - batch norm on a GPU (kernels/cpu/batch_norm.c). Kept: mean and rate of each channel. */
#include "run/kernels/cuda/room.h"

extern struct cuda_code CUDA_CODE_images;
GPU_KERNEL(BATCH_NORM_SUMS, images, "batch_norm_sums");
GPU_KERNEL(BATCH_NORM_FORWARD, images, "batch_norm_forward");
GPU_KERNEL(BATCH_NORM_GRADIENTS, images, "batch_norm_gradients");
GPU_KERNEL(BATCH_NORM_INPUT, images, "batch_norm_input");

enum { THREADS = 512 };

struct gpu_batch_norm {
    int64_t batch, channels, pixels, planes;
    float *mean, *rate, *sums,
        *squares; /* the last two: of each channel, and the number of addends */
};

static struct gpu_batch_norm norm_of(const struct kernel_call *call)
{
    struct gpu_batch_norm n = {call->size[0], call->size[1],
                               axes_product(call, &call->op->output, 2, call->op->output.axes)};
    n.planes = n.batch * n.channels;
    n.mean = call->kept;
    n.rate = n.mean + n.channels;
    n.sums = call->scratch;
    n.squares = n.sums + n.channels + 1;
    return n;
}

static int64_t norm_scratch(const struct kernel_call *call)
{
    return 2 * (call->size[1] + 1) * (int64_t)sizeof(float);
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

static void sum_channels(const struct kernel_call *call, struct gpu_batch_norm *n,
                         const float *sums, float *to)
{
    CUDA_LAUNCH(call->stream, &BATCH_NORM_SUMS, call->dtype, row_grid(n->channels, THREADS),
                &call->input[0], &sums, &n->batch, &n->channels, &n->pixels, &n->mean, &to);
    reduce_sums(call, to, n->channels + 1);
}

static void norm_forward(const struct kernel_call *call)
{
    struct gpu_batch_norm n = norm_of(call);
    sum_channels(call, &n, NULL, n.sums);
    sum_channels(call, &n, n.sums, n.squares);
    CUDA_LAUNCH(call->stream, &BATCH_NORM_FORWARD, call->dtype, cuda_elements(n.planes * n.pixels),
                &call->input[0], &call->weight[0], &call->weight[1], &n.mean, &n.squares, &n.planes,
                &n.channels, &n.pixels, &n.rate, &call->output);
}

static void sum_gradients(const struct kernel_call *call, struct gpu_batch_norm *n, float *along,
                          float *sum, float *addends)
{
    CUDA_LAUNCH(call->stream, &BATCH_NORM_GRADIENTS, call->dtype, row_grid(n->channels, THREADS),
                &call->input[0], &call->output_gradient, &n->mean, &n->rate, &n->batch,
                &n->channels, &n->pixels, &along, &sum, &addends);
}

static void norm_input(const struct kernel_call *call)
{
    struct gpu_batch_norm n = norm_of(call);
    sum_gradients(call, &n, n.sums, n.sums + n.channels, n.sums + 2 * n.channels);
    reduce_sums(call, n.sums, 2 * n.channels + 1);
    if (call->input_gradient[0])
        CUDA_LAUNCH(call->stream, &BATCH_NORM_INPUT, call->dtype,
                    cuda_elements(n.planes * n.pixels), &call->input[0], &call->output_gradient,
                    &call->weight[0], &n.mean, &n.rate, &n.sums, &n.planes, &n.channels, &n.pixels,
                    &call->input_gradient[0]);
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
