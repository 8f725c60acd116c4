/* pool.c - pooling on a GPU (kernels/cpu/pool.c). Kept: where the largest pixel of each window is in its plane. */
#include "run/kernels/cuda/images.h"

extern struct cuda_code CUDA_CODE_images;
GPU_KERNEL(POOL_FORWARD, images, "pool_forward");
GPU_KERNEL(POOL_INPUT, images, "pool_input");

enum { THREADS = 256 };

static int64_t planes_of(const struct kernel_call *call)
{
    return call->size[0] * call->size[1];
}

static int64_t pool_kept(const struct kernel_call *call)
{
    struct image_shape s = image_shape(call);
    int64_t outputs = planes_of(call) * s.out[0] * s.out[1];
    return call->op->kept_fp32 > 0 ? outputs * (int64_t)sizeof(int32_t) : 0;
}

static void *places_of(const struct kernel_call *call)
{
    return call->op->kept_fp32 > 0 ? call->kept : NULL;
}

static void pool_forward(const struct kernel_call *call)
{
    struct image_shape s = image_shape(call);
    int64_t planes = planes_of(call);
    void *places = places_of(call);
    CUDA_LAUNCH(call->stream, &POOL_FORWARD, call->dtype,
                cuda_elements(planes * s.out[0] * s.out[1]), &call->input[0], &call->output,
                &places, &planes, &s);
}

static void pool_input(const struct kernel_call *call)
{
    struct image_shape s = image_shape(call);
    int64_t planes = planes_of(call);
    void *places = places_of(call);
    if (call->input_gradient[0])
        CUDA_LAUNCH(call->stream, &POOL_INPUT, call->dtype, row_grid(planes, THREADS),
                    &call->output_gradient, &places, &call->input_gradient[0], &s);
}

const struct gpu_kind GPU_POOL = {
    .refuses = image_refuses,
    .kept_bytes = pool_kept,
    .phase = {pool_forward, pool_input},
};
