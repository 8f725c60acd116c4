/* moves.c - tensors side by side, and in another shape, on a GPU (kernels/cpu/move.c). */
#include "run/kernels/cuda/room.h"

extern struct cuda_code CUDA_CODE_moves;
GPU_KERNEL(MOVED_INPUT, moves, "moved_input");
GPU_KERNEL(MOVED_WEIGHT, moves, "moved_weight");

enum { THREADS = 256 };

static void *moved(const struct kernel_call *call, const void *from, int64_t elements)
{
    return (char *)(uintptr_t)from + elements * dtype_bytes(call->dtype);
}

static void copy_rows(const struct kernel_call *call, struct row_copy rows, const void *from,
                      void *to)
{
    if (rows.rows && rows.width)
        CUDA_DEVICE.copy_rows(call->stream, call->dtype, rows, from, to);
}

/* ---- concat ---------------------------------------------------------------------------------- */

/* Part i lies in rows of `run` elements, one in each `step` of the output: to there, or its gradient back. */
static void move_parts(const struct kernel_call *call, bool back)
{
    const struct op *op = call->op;
    int axis = joined_axis(op);
    int64_t step = elements_from(&op->output, axis), at = 0;
    int64_t rows = call->size[0] * elements_from(&op->output, 1) / step;
    for (int i = 0; i < op->inputs; i++) {
        int64_t run = elements_from(&op->input[i], axis);
        if (!back)
            copy_rows(call, (struct row_copy){rows, run, run, step}, call->input[i],
                      moved(call, call->output, at));
        else if (call->input_gradient[i])
            copy_rows(call, (struct row_copy){rows, run, step, run},
                      moved(call, call->output_gradient, at), call->input_gradient[i]);
        at += run;
    }
}

static void concat_forward(const struct kernel_call *call)
{
    move_parts(call, false);
}

static void concat_input(const struct kernel_call *call)
{
    move_parts(call, true);
}

const struct gpu_kind GPU_CONCAT = {
    .refuses = concat_refuses,
    .phase = {concat_forward, concat_input},
};

/* ---- reshape --------------------------------------------------------------------------------- */

static void reshape_forward(const struct kernel_call *call)
{
    struct movement m = movement_of(call->op);
    int64_t samples = call->size[0] * m.parts;
    if (movement_zeros(&m))
        CUDA_DEVICE.clear(call->stream, call->output, samples * m.out * dtype_bytes(call->dtype));
    copy_rows(call, (struct row_copy){samples, m.front, 0, m.out}, call->weight[0], call->output);
    if (m.times == 1) {
        copy_rows(call, (struct row_copy){samples, m.run, m.in, m.out}, call->input[0],
                  moved(call, call->output, m.front));
        return;
    }
    for (int64_t i = 0; i < m.times; i++) /* rows of all samples: no weight stands between them */
        copy_rows(call, (struct row_copy){samples * m.rows, m.run, m.run, m.run * m.times},
                  call->input[0], moved(call, call->output, i * m.run));
}

static void reshape_input(const struct kernel_call *call)
{
    struct movement m = movement_of(call->op);
    int64_t samples = call->size[0] * m.parts;
    if (call->input_gradient[0])
        CUDA_LAUNCH(call->stream, &MOVED_INPUT, call->dtype, cuda_elements(samples * m.in),
                    &call->output_gradient, &call->input_gradient[0], &samples, &m);
}

static void reshape_weight(const struct kernel_call *call)
{
    struct movement m = movement_of(call->op);
    struct cuda_grid grid = {ceil_div(m.front, THREADS), 1, 1, THREADS, 0};
    int64_t samples = call->size[0] * m.parts;
    if (m.front)
        CUDA_LAUNCH(call->stream, &MOVED_WEIGHT, call->dtype, grid, &call->output_gradient,
                    &call->weight_gradient[0], &samples, &m);
}

const struct gpu_kind GPU_RESHAPE = {
    .refuses = reshape_refuses,
    .phase = {reshape_forward, reshape_input, reshape_weight},
};
