/* softmax.c - softmax over the keys of plain attention on a GPU (kernels/cpu/softmax.c).
 *
 * The gradient of a learned bias is summed in parts of the rows, then over these: in a fixed order (room.h, I2).
 */
#include "run/kernels/cuda/room.h"
#include "run/kernels/cuda/softmax_bias.h"

extern struct cuda_code CUDA_CODE_softmax, CUDA_CODE_softmax_held;
GPU_KERNEL(SOFTMAX_FORWARD, softmax, "softmax_forward");
GPU_KERNEL(SOFTMAX_BIASED, softmax, "softmax_biased");
GPU_KERNEL(SOFTMAX_INPUT, softmax, "softmax_input");
GPU_KERNEL(SOFTMAX_DOTS, softmax, "softmax_dots");
GPU_KERNEL(SOFTMAX_BIAS_PARTS, softmax, "softmax_bias_parts");
GPU_KERNEL(HELD_FORWARD, softmax_held, "softmax_held");
GPU_KERNEL(HELD_BIASED, softmax_held, "softmax_held_biased");
GPU_KERNEL(HELD_INPUT, softmax_held, "softmax_held_input");
GPU_KERNEL(HELD_BIAS, softmax_held, "softmax_held_bias");
static struct cuda_kernel SOFTMAX_SINKS = {.code = &CUDA_CODE_softmax, .name = "softmax_sinks"};

_Static_assert(BIAS_DISTANCES == FARTHEST + 1, "distances beyond are in the last bucket");

enum { THREADS = 256, LONGEST_BIASED = 16384 }; /* keys of a row in shared memory */

static int64_t rows_of(const struct kernel_call *call)
{
    return call->size[0] * call->size[1] * call->size[2];
}

/* A warp for each row that it can hold, else a block. */
static struct cuda_grid key_grid(const struct kernel_call *call)
{
    int64_t rows = rows_of(call), keys = call->size[3];
    if (keys > SOFTMAX_HELD)
        return row_grid(rows, row_threads(keys));
    return (struct cuda_grid){ceil_div(32 * rows, THREADS), 1, 1, THREADS, 0};
}

static bool is_aligned(const void *address)
{
    return (uintptr_t)address % 16 == 0;
}

/* Whether warps hold its rows, in whole packs of 16 bytes (softmax_held.cu). */
static bool is_held(const struct kernel_call *call)
{
    int64_t keys = call->size[3];
    return keys <= SOFTMAX_HELD && keys * dtype_bytes(call->dtype) % 16 == 0 &&
           softmax_bias(call->op).side == 0 && is_aligned(call->input[0]) &&
           is_aligned(call->output) && is_aligned(call->output_gradient) &&
           is_aligned(call->input_gradient[0]);
}

/* ---- the bias -------------------------------------------------------------------------------- */

static const char *gpu_softmax_refuses(const struct op *op)
{
    struct softmax_bias bias = softmax_bias(op);
    const char *why = softmax_refuses(op);
    if (!why && bias.buckets && !bias.side && buckets_each_way(op, &bias) >= 2 * FARTHEST)
        why = "its bias has more buckets than there are distances";
    if (!why && bias.buckets && op->size[3] > LONGEST_BIASED)
        why = "the GPU's biased softmax takes up to 16384 keys";
    return why;
}

static struct bias_shape bias_shape(const struct kernel_call *call)
{
    struct softmax_bias bias = softmax_bias(call->op);
    struct bias_shape s = {.heads = bias.heads,
                           .buckets = bias.buckets,
                           .each = buckets_each_way(call->op, &bias),
                           .side = bias.side,
                           .batch = call->size[0],
                           .local = call->size[1],
                           .seq = call->size[2],
                           .keys = call->size[3],
                           .first_head = call->begin[1],
                           .first_query = call->begin[2],
                           .causal = call->op->causal};
    for (int i = 0; bias.buckets && !bias.side && i < BIAS_DISTANCES; i++)
        s.bucket[i] = (uint8_t)bucket_of(i, s.each);
    return s;
}

/* Parts that the rows of one head are summed in. */
static int64_t bias_parts(const struct kernel_call *call)
{
    enum { ROWS = 64, MOST = 64 };
    int64_t parts = ceil_div(call->size[0] * call->size[2], ROWS);
    return parts < MOST ? parts : MOST;
}

/* A number for each row, and the parts of the bias. */
static int64_t softmax_scratch(const struct kernel_call *call)
{
    struct softmax_bias bias = softmax_bias(call->op);
    int64_t floats = rows_of(call) + bias_parts(call) * bias.buckets * bias.heads;
    return call->op->weights ? floats * (int64_t)sizeof(float) : 0;
}

/* ---- phases ---------------------------------------------------------------------------------- */

static void held_forward(const struct kernel_call *call)
{
    struct bias_shape s = bias_shape(call);
    const void *numbers = call->op->weights ? call->weight[0] : NULL;
    int64_t blocks = ceil_div(s.seq, SOFTMAX_ROWS) * s.batch * s.local;
    CUDA_LAUNCH(call->stream, s.buckets ? &HELD_BIASED : &HELD_FORWARD, call->dtype,
                row_grid(blocks, 32 * SOFTMAX_WARPS), &call->input[0], &numbers, &call->output, &s);
}

static void softmax_forward(const struct kernel_call *call)
{
    int64_t keys = call->size[3], seq = call->size[2], heads = call->size[1];
    int64_t first = call->begin[2], rows = rows_of(call);
    const void *sinks = call->op->sinks ? call->weight[0] : NULL;
    struct cuda_grid grid = key_grid(call);
    struct bias_shape s = bias_shape(call);
    int causal = call->op->causal;
    if (is_held(call))
        held_forward(call);
    else if (s.buckets)
        CUDA_LAUNCH(call->stream, &SOFTMAX_BIASED, call->dtype, grid, &call->input[0],
                    &call->weight[0], &call->output, &rows, &s);
    else
        CUDA_LAUNCH(call->stream, &SOFTMAX_FORWARD, call->dtype, grid, &call->input[0], &sinks,
                    &call->output, &rows, &keys, &seq, &heads, &first, &causal);
}

static void softmax_input(const struct kernel_call *call)
{
    int64_t keys = call->size[3], rows = rows_of(call);
    if (call->input_gradient[0])
        CUDA_LAUNCH(call->stream, is_held(call) ? &HELD_INPUT : &SOFTMAX_INPUT, call->dtype,
                    key_grid(call), &call->output, &call->output_gradient, &call->input_gradient[0],
                    &rows, &keys);
}

static void sinks_gradient(const struct kernel_call *call)
{
    int64_t batch = call->size[0], heads = call->size[1], seq = call->size[2];
    CUDA_LAUNCH(call->stream, &SOFTMAX_SINKS, DTYPE_FP32, row_grid(heads, THREADS), &call->scratch,
                &batch, &heads, &seq, &call->weight_gradient[0]);
}

/* As many warps as have room for a row and the bias's numbers beside the spans of each. */
static struct cuda_grid bias_grid(const struct bias_shape *s, int64_t parts)
{
    enum { MOST_WARPS = 8, MOST_BYTES = 48 << 10, SPAN_BYTES = 2 * 2 * (int)sizeof(int64_t) };
    int64_t spans = s->buckets * SPAN_BYTES, each = (s->buckets + s->keys) * (int64_t)sizeof(float);
    int64_t warps = (MOST_BYTES - spans) / each;
    warps = warps > MOST_WARPS ? MOST_WARPS : warps > 1 ? warps : 1;
    return (struct cuda_grid){s->heads, parts, 1, (int32_t)(32 * warps),
                              (int32_t)(spans + warps * each)};
}

static void bias_gradient(const struct kernel_call *call)
{
    struct bias_shape s = bias_shape(call);
    int64_t parts = bias_parts(call), numbers = s.buckets * s.heads;
    int64_t alike = ceil_div(s.local, s.heads);
    int64_t each = parts ? ceil_div(s.batch * alike * s.seq, parts) : 0;
    void *part = (float *)call->scratch + rows_of(call);
    struct cuda_grid grid = bias_grid(&s, parts), held = {s.heads, parts, 1, 32 * SOFTMAX_WARPS, 0};
    if (is_held(call))
        CUDA_LAUNCH(call->stream, &HELD_BIAS, call->dtype, held, &call->output,
                    &call->output_gradient, &s, &each, &part);
    else
        CUDA_LAUNCH(call->stream, &SOFTMAX_BIAS_PARTS, call->dtype, grid, &call->output,
                    &call->output_gradient, &call->scratch, &s, &each, &part);
    add_parts(call, part, parts, numbers, call->weight_gradient[0]);
}

static void softmax_weight(const struct kernel_call *call)
{
    int64_t keys = call->size[3], rows = rows_of(call);
    bool sinks = call->op->sinks;
    void *dot = sinks ? NULL : call->scratch, *sink = sinks ? call->scratch : NULL;
    if (!call->op->weights)
        return;
    if (sinks || !is_held(call))
        CUDA_LAUNCH(call->stream, &SOFTMAX_DOTS, call->dtype, key_grid(call), &call->output,
                    &call->output_gradient, &rows, &keys, &dot, &sink);
    if (sinks)
        sinks_gradient(call);
    else
        bias_gradient(call);
}

const struct gpu_kind GPU_SOFTMAX = {
    .refuses = gpu_softmax_refuses,
    .scratch_bytes = softmax_scratch,
    .phase = {softmax_forward, softmax_input, softmax_weight},
};
