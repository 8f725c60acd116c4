/* move.c - tensors side by side, and tensors in another shape
 * (shapes.h says which elements a reshape moves where).
 */
#include "run/kernels/cpu/cpu.h"

/* ---- concat ---------------------------------------------------------------------------------- */

/* Part i lies in runs of `run` elements, one in each `step` of the output. */
static void move_parts(const struct kernel_call *call, bool forward)
{
    const struct op *op = call->op;
    int axis = joined_axis(op);
    int64_t step = elements_from(&op->output, axis), at = 0;
    int64_t runs = call->size[0] * elements_from(&op->output, 1) / step;
    for (int i = 0; i < op->inputs; i++) {
        int64_t run = elements_from(&op->input[i], axis);
        for (int64_t n = 0; n < runs; n++)
            if (forward)
                copy_elements(call->dtype, call->input[i], n * run, run, call->output,
                              n * step + at);
            else if (call->input_gradient[i])
                copy_elements(call->dtype, call->output_gradient, n * step + at, run,
                              call->input_gradient[i], n * run);
        at += run;
    }
}

static void concat_forward(const struct kernel_call *call)
{
    move_parts(call, true);
}

static void concat_input(const struct kernel_call *call)
{
    move_parts(call, false);
}

const struct cpu_kernel CPU_CONCAT = {
    .refuses = concat_refuses,
    .phase = {concat_forward, concat_input},
};

/* ---- reshape --------------------------------------------------------------------------------- */

static void clear_elements(enum dtype dtype, void *to, int64_t at, int64_t count)
{
    memset((char *)to + at * dtype_bytes(dtype), 0, (size_t)(count * dtype_bytes(dtype)));
}

static void reshape_forward(const struct kernel_call *call)
{
    struct movement m = movement_of(call->op);
    int64_t zeros = movement_zeros(&m);
    for (int64_t part = 0; part < call->size[0] * m.parts; part++) {
        if (m.front)
            copy_elements(call->dtype, call->weight[0], 0, m.front, call->output, part * m.out);
        int64_t to = part * m.out + m.front;
        for (int64_t i = 0; i < m.rows * m.times; i++, to += m.run)
            copy_elements(call->dtype, call->input[0], part * m.in + i / m.times * m.run, m.run,
                          call->output, to);
        if (zeros)
            clear_elements(call->dtype, call->output, to, zeros);
    }
}

/* The gradients of a row's copies, added up. */
static void reshape_input(const struct kernel_call *call)
{
    struct movement m = movement_of(call->op);
    enum dtype dtype = call->dtype;
    float *sum_tile = call->scratch, *tile = sum_tile + m.run;
    if (!call->input_gradient[0])
        return;
    for (int64_t row = 0; row < call->size[0] * m.parts * m.rows; row++) {
        int64_t at = row / m.rows * m.in + row % m.rows * m.run;
        int64_t from = row / m.rows * m.out + m.front + row % m.rows * m.run * m.times;
        float *sum = tile_write(dtype, call->input_gradient[0], at, sum_tile);
        memset(sum, 0, (size_t)m.run * sizeof *sum);
        for (int64_t i = 0; i < m.times; i++)
            row_add(tile_read(dtype, call->output_gradient, from + i * m.run, m.run, tile), m.run,
                    sum);
        tile_done(dtype, call->input_gradient[0], at, m.run, sum);
    }
    int64_t moved = m.rows * m.run, rest = m.in - moved;
    for (int64_t part = 0; rest && part < call->size[0] * m.parts; part++)
        clear_elements(dtype, call->input_gradient[0], part * m.in + moved, rest);
}

static void reshape_weight(const struct kernel_call *call)
{
    struct movement m = movement_of(call->op);
    for (int64_t part = 0; m.front && part < call->size[0] * m.parts; part++)
        row_add(tile_read(call->dtype, call->output_gradient, part * m.out, m.front, call->scratch),
                m.front, call->weight_gradient[0]);
}

static int64_t reshape_scratch(const struct kernel_call *call)
{
    struct movement m = movement_of(call->op);
    return whole_floats(call->dtype, 2 * m.run + m.front);
}

const struct cpu_kernel CPU_RESHAPE = {
    .refuses = reshape_refuses,
    .scratch_floats = reshape_scratch,
    .phase = {reshape_forward, reshape_input, reshape_weight},
};
