/* conv.c - convolution on a GPU (kernels/cpu/conv.c): in 16 bits by cuDNN (fused_conv.h); else windows are written as the columns of a matrix C, which
 * cuBLASLt multiplies (products.c says how what lies by rows is given to it).
 *
 *   Y = W C     as   Y' = C' W'             dC = W^T dY   as   dC' = dY' W'^T
 *   dW += dY C^T  as   dW' += C'^T dY'
 *
 *   I1  Some samples at a time (own_columns).
 *   I2  Outputs and gradients of inputs are products of each sample; for the weights' gradient the columns of
 *       all samples stand beside each other, and it is one product.
 */
#include "run/kernels/cuda/fused_conv.h"
#include "run/kernels/cuda/gemm.h"
#include "run/kernels/cuda/images.h"

extern struct cuda_code CUDA_CODE_images;
GPU_KERNEL(COLUMNS_OF, images, "columns_of");
GPU_KERNEL(COLUMNS_BACK, images, "columns_back");
GPU_KERNEL(CHANNELS_FIRST, images, "channels_first");
GPU_KERNEL(ADD_CHANNEL_BIAS, images, "add_channel_bias");
GPU_KERNEL(CHANNEL_SUMS, images, "channel_sums");

enum { THREADS = 512 };

/* As in images.cu. */
struct column_shape {
    int64_t samples, rows, channels, channel;
    int64_t sample_step, row_step;
};

struct gpu_conv {
    struct image_shape shape;
    int64_t batch, in, out;       /* local channels */
    int64_t inner, pixels, image; /* rows and columns of C; elements of an input */
    struct own_columns columns;
};

static struct gpu_conv conv_of(const struct kernel_call *call)
{
    struct gpu_conv c = {image_shape(call), call->size[0], call->size[1], call->size[2]};
    const struct image_shape *s = &c.shape;
    c.inner = c.in / call->op->groups * s->kernel[0] * s->kernel[1];
    c.pixels = s->out[0] * s->out[1];
    c.image = c.in * s->in[0] * s->in[1];
    c.columns = own_columns(call->op, call->size, call->dtype);
    return c;
}

/* Of all phases, those that cuDNN has no kernel for by columns. */
static int64_t conv_scratch(const struct kernel_call *call)
{
    int64_t most = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        int64_t bytes = fused_conv_bytes(call, (enum phase)phase);
        if (bytes < 0)
            bytes = own_columns(call->op, call->size, call->dtype).bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static char *columns_at(const struct kernel_call *call)
{
    return (char *)call->scratch + WORKSPACE;
}

static void *moved(const struct kernel_call *call, const void *from, int64_t elements)
{
    return (char *)(uintptr_t)from + elements * dtype_bytes(call->dtype);
}

static struct column_shape column_shape(const struct gpu_conv *c, int64_t samples, int64_t channel)
{
    return (struct column_shape){samples,  c->inner, c->in, channel, c->inner * c->pixels,
                                 c->pixels};
}

static void write_columns(const struct kernel_call *call, const struct gpu_conv *c, int64_t first,
                          const struct column_shape *columns)
{
    const void *x = moved(call, call->input[0], first * c->image);
    void *to = columns_at(call);
    CUDA_LAUNCH(call->stream, &COLUMNS_OF, call->dtype,
                cuda_elements(columns->samples * c->inner * c->pixels), &x, &to, &c->shape,
                columns);
}

static int64_t samples_from(const struct gpu_conv *c, int64_t first)
{
    return c->batch - first < c->columns.at_once ? c->batch - first : c->columns.at_once;
}

/* Calls `step` for every group's outputs of every few samples. */
static void for_groups(const struct kernel_call *call, const struct gpu_conv *c,
                       void (*step)(const struct kernel_call *, const struct gpu_conv *,
                                    int64_t first, int64_t samples, struct group_outputs o))
{
    for (int64_t first = 0; first < c->batch; first += c->columns.at_once)
        for (struct group_outputs o = group_outputs(call, 0); o.count > 0;
             o = group_outputs(call, o.first + o.count))
            step(call, c, first, samples_from(c, first), o);
}

/* ---- phases ---------------------------------------------------------------------------------- */

static void forward_group(const struct kernel_call *call, const struct gpu_conv *c, int64_t first,
                          int64_t samples, struct group_outputs o)
{
    struct column_shape columns = column_shape(c, samples, o.channel);
    struct gemm g = gemm_of(call->dtype, call->dtype);
    g.m = g.a_step = g.c_step = c->pixels;
    g.n = o.count;
    g.k = g.b_step = c->inner;
    g.batch = samples;
    g.a_apart = columns.sample_step;
    g.c_apart = c->out * c->pixels;
    write_columns(call, c, first, &columns);
    multiply(call, &g, 1, columns_at(call), moved(call, call->weight[0], o.first * c->inner), NULL,
             0, moved(call, call->output, (first * c->out + o.first) * c->pixels));
}

static void conv_forward(const struct kernel_call *call)
{
    struct gpu_conv c = conv_of(call);
    int64_t planes = c.batch * c.out;
    if (!fused_conv(call, PHASE_FORWARD))
        for_groups(call, &c, forward_group);
    if (call->op->weights > 1 && call->adds_once)
        CUDA_LAUNCH(call->stream, &ADD_CHANNEL_BIAS, call->dtype, cuda_elements(planes * c.pixels),
                    &call->output, &call->weight[1], &planes, &c.out, &c.pixels);
}

static void input_group(const struct kernel_call *call, const struct gpu_conv *c, int64_t first,
                        int64_t samples, struct group_outputs o)
{
    struct column_shape columns = column_shape(c, samples, o.channel);
    struct gemm g = gemm_of(call->dtype, DTYPE_FP32);
    g.m = g.a_step = g.c_step = c->pixels;
    g.n = g.b_step = c->inner;
    g.k = o.count;
    g.b_turned = true;
    g.batch = samples;
    g.a_apart = c->out * c->pixels;
    g.c_apart = columns.sample_step;
    void *dc = columns_at(call), *dx = moved(call, call->input_gradient[0], first * c->image);
    multiply(call, &g, 1,
             moved(call, call->output_gradient, (first * c->out + o.first) * c->pixels),
             moved(call, call->weight[0], o.first * c->inner), NULL, 0, dc);
    CUDA_LAUNCH(call->stream, &COLUMNS_BACK, call->dtype,
                cuda_elements(samples * c->image / call->op->groups), &dc, &dx, &c->shape,
                &columns);
}

/* A device that has no outputs of a group leaves its channels zero. */
static void conv_input(const struct kernel_call *call)
{
    struct gpu_conv c = conv_of(call);
    if (!call->input_gradient[0] || fused_conv(call, PHASE_BACKWARD_INPUT))
        return;
    CUDA_DEVICE.clear(call->stream, call->input_gradient[0],
                      c.batch * c.image * dtype_bytes(call->dtype));
    for_groups(call, &c, input_group);
}

static void weight_group(const struct kernel_call *call, const struct gpu_conv *c, int64_t first,
                         int64_t samples, struct group_outputs o)
{
    struct column_shape columns = column_shape(c, samples, o.channel);
    columns.sample_step = c->pixels; /* I2 */
    columns.row_step = samples * c->pixels;
    struct gemm g = gemm_of(call->dtype, DTYPE_FP32);
    g.m = g.c_step = c->inner;
    g.n = o.count;
    g.k = g.a_step = g.b_step = columns.row_step;
    g.a_turned = true;
    const void *dy = moved(call, call->output_gradient, first * c->out * c->pixels);
    void *turned = columns_at(call) + c->columns.columns;
    write_columns(call, c, first, &columns);
    CUDA_LAUNCH(call->stream, &CHANNELS_FIRST, call->dtype,
                cuda_elements(samples * o.count * c->pixels), &dy, &turned, &samples, &c->out,
                &o.first, &o.count, &c->pixels);
    multiply(call, &g, 1, columns_at(call), turned, NULL, 1,
             call->weight_gradient[0] + o.first * c->inner);
}

static void conv_weight(const struct kernel_call *call)
{
    struct gpu_conv c = conv_of(call);
    if (!fused_conv(call, PHASE_BACKWARD_WEIGHT))
        for_groups(call, &c, weight_group);
    if (call->op->weights > 1)
        CUDA_LAUNCH(call->stream, &CHANNEL_SUMS, call->dtype, row_grid(c.out, THREADS),
                    &call->output_gradient, &c.batch, &c.out, &c.pixels, &call->weight_gradient[1]);
}

const struct gpu_kind GPU_CONV = {
    .refuses = image_refuses,
    .scratch_bytes = conv_scratch,
    .phase = {conv_forward, conv_input, conv_weight},
};
