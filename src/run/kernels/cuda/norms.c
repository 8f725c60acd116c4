/* norms.c - norms on a GPU (kernels/cpu/norm.c): rows that a warp can hold by norms.cu, others by rows.cu. */
#include "run/kernels/cuda/room.h"

extern struct cuda_code CUDA_CODE_rows, CUDA_CODE_norms;
GPU_KERNEL(NORM_FORWARD, rows, "norm_forward");
GPU_KERNEL(NORM_INPUT, rows, "norm_input");
#define HELD_KERNEL(text) {.code = &CUDA_CODE_norms, .name = (text)}
static struct cuda_kernel NORM_COLUMNS = HELD_KERNEL("norm_columns"),
                          NORM_COLUMN_SUMS = HELD_KERNEL("norm_column_sums");

/* By the 16 bytes that a lane holds at most, as at the end of norms.cu. */
static struct held_norm {
    int64_t packs;
    struct cuda_kernel forward, input;
} HELD[] = {
    {4, HELD_KERNEL("norm_held_forward_4"), HELD_KERNEL("norm_held_input_4")},
    {8, HELD_KERNEL("norm_held_forward_8"), HELD_KERNEL("norm_held_input_8")},
    {16, HELD_KERNEL("norm_held_forward_16"), HELD_KERNEL("norm_held_input_16")},
};

enum { UNIT = 8, LANES = 32, WARPS = 4 }; /* numbers of bf16 in 16 bytes; as in norms.cu */

/* A layer norm has one head. */
static int64_t norm_rows(const struct kernel_call *call)
{
    return call->size[0] * call->size[1] * call->size[3];
}

static int is_centred(const struct kernel_call *call)
{
    return call->op->kind == OP_LAYER_NORM;
}

static bool is_aligned(const void *address)
{
    return (uintptr_t)address % 16 == 0;
}

static bool is_packed(const struct kernel_call *call)
{
    return call->dtype == DTYPE_BF16 && call->size[2] % UNIT == 0 && is_aligned(call->input[0]) &&
           is_aligned(call->output_gradient);
}

/* NULL: this call goes the general way. */
static struct held_norm *held_for(const struct kernel_call *call, const void *out)
{
    const void *bias = is_centred(call) ? call->weight[1] : NULL;
    bool placed = is_aligned(out) && is_aligned(call->weight[0]) && is_aligned(bias);
    for (size_t i = 0; placed && is_packed(call) && i < COUNT_OF(HELD); i++)
        if (call->size[2] <= HELD[i].packs * LANES * UNIT)
            return &HELD[i];
    return NULL;
}

static int64_t norm_kept(const struct kernel_call *call)
{
    return (is_centred(call) ? 2 : 1) * norm_rows(call) * (int64_t)sizeof(float);
}

static int64_t norm_scratch(const struct kernel_call *call)
{
    return (is_centred(call) ? 2 : 1) * column_room(norm_rows(call), call->size[2]);
}

static void norm_forward(const struct kernel_call *call)
{
    int64_t width = call->size[2], rows = norm_rows(call);
    int centred = is_centred(call);
    float epsilon = (float)call->op->epsilon;
    const void *bias = centred ? call->weight[1] : NULL;
    struct held_norm *held = held_for(call, call->output);
    if (held)
        CUDA_LAUNCH(call->stream, &held->forward, call->dtype,
                    row_grid(ceil_div(rows, WARPS), WARPS * LANES), &call->input[0],
                    &call->weight[0], &bias, &call->output, &call->kept, &rows, &width, &centred,
                    &epsilon);
    else
        CUDA_LAUNCH(call->stream, &NORM_FORWARD, call->dtype, row_grid(rows, row_threads(width)),
                    &call->input[0], &call->weight[0], &bias, &call->output, &call->kept, &width,
                    &centred, &epsilon);
}

static void norm_input(const struct kernel_call *call)
{
    int64_t width = call->size[2], rows = norm_rows(call);
    int centred = is_centred(call);
    struct held_norm *held = held_for(call, call->input_gradient[0]);
    if (!call->input_gradient[0])
        return;
    if (held)
        CUDA_LAUNCH(call->stream, &held->input, call->dtype,
                    row_grid(ceil_div(rows, WARPS), WARPS * LANES), &call->input[0],
                    &call->output_gradient, &call->weight[0], &call->kept, &call->input_gradient[0],
                    &rows, &width, &centred);
    else
        CUDA_LAUNCH(call->stream, &NORM_INPUT, call->dtype, row_grid(rows, row_threads(width)),
                    &call->input[0], &call->output_gradient, &call->weight[0], &call->kept,
                    &call->input_gradient[0], &width, &centred);
}

/* Both sums of a layer norm in one pass. */
static void both_columns(const struct kernel_call *call)
{
    enum { THREADS = 256 };
    int64_t rows = norm_rows(call), width = call->size[2], parts = column_parts(rows);
    int64_t each = parts ? ceil_div(rows, parts) : 0;
    struct cuda_grid grid = {ceil_div(width, LANES * UNIT), parts, 1, THREADS, 0};
    CUDA_LAUNCH(call->stream, &NORM_COLUMNS, call->dtype, grid, &call->output_gradient,
                &call->input[0], &call->kept, &rows, &width, &each, &call->scratch);
    grid = (struct cuda_grid){ceil_div(width, LANES), 2, 1, THREADS, 0};
    CUDA_LAUNCH(call->stream, &NORM_COLUMN_SUMS, call->dtype, grid, &call->scratch, &parts, &width,
                &call->weight_gradient[0], &call->weight_gradient[1]);
}

static void norm_weight(const struct kernel_call *call)
{
    struct column_operands c = {call->output_gradient, call->input[0], call->kept,
                                norm_rows(call),       call->size[2],  is_centred(call)};
    if (c.centred && is_packed(call)) {
        both_columns(call);
        return;
    }
    sum_columns(call, call->dtype, c, call->scratch, call->weight_gradient[0]);
    if (c.centred)
        add_columns(call, call->dtype, call->output_gradient, c.rows, c.width, call->scratch,
                    call->weight_gradient[1]);
}

#define NORM                                                                                       \
    {                                                                                              \
        .kept_bytes = norm_kept,                                                                   \
        .scratch_bytes = norm_scratch,                                                             \
        .phase = {norm_forward, norm_input, norm_weight},                                          \
    }
const struct gpu_kind GPU_LAYER_NORM = NORM, GPU_RMS_NORM = NORM;
