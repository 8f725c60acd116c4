/* room.h - what the GPU's kernels share: rows of a table, launches, products; private to the room.
 *
 * A kind is a C file that says which kernels run in which phase, over which grid, beside a .cu file with
 * the kernels. What they compute is what the CPU's do (kernels/cpu), whose files have the equations.
 *
 *   I1  Calls are given to the call's stream and not waited for; only `reduce` waits.
 *   I2  Sums are in fp32, in an order that does not change from run to run; fused_attention.h names an exception.
 */
#ifndef WEFT_RUN_KERNELS_CUDA_ROOM_H
#define WEFT_RUN_KERNELS_CUDA_ROOM_H

#include "run/device/cuda/cuda.h"
#include "run/kernels/cuda/cuda.h"

/* ---- the table ------------------------------------------------------------------------------- */

struct gpu_kind {
    const char *(*refuses)(const struct op *op);              /* why; NULL: not at all */
    int64_t (*kept_bytes)(const struct kernel_call *call);    /* NULL: none */
    int64_t (*scratch_bytes)(const struct kernel_call *call); /* NULL: none */
    void (*phase[PHASE_COUNT])(const struct kernel_call *call);
};
extern const struct gpu_kind GPU_EMBEDDING, GPU_LINEAR, GPU_SCORE, GPU_CONTEXT, GPU_ATTENTION,
    GPU_SOFTMAX, GPU_LAYER_NORM, GPU_RMS_NORM, GPU_GELU, GPU_RELU, GPU_SILU, GPU_GATED, GPU_DROPOUT,
    GPU_DROPOUT_ADD, GPU_ADD, GPU_ROTARY, GPU_LOSS, GPU_ROUTER, GPU_DISPATCH, GPU_EXPERT_LINEAR,
    GPU_COMBINE, GPU_CONV, GPU_POOL, GPU_BATCH_NORM, GPU_CONCAT, GPU_RESHAPE, GPU_EMBEDDING_BAG,
    GPU_INTERACTION, GPU_CONV1D, GPU_SCAN, GPU_GATED_NORM, GPU_DELTA;
void gpu_optimize(const struct optimizer_step *step);
extern const struct muon_kernels GPU_MUON;
extern const struct product_choices GPU_CHOICES;
/* What is missing, where products cannot be had. */
weft_status products_open(void);

/* ---- launches -------------------------------------------------------------------------------- */

#define GPU_KERNEL(variable, code_name, text)                                                      \
    static struct cuda_kernel variable = {                                                         \
        .code = &CUDA_CODE_##code_name, .name = (text), .both = true}
/* A block for each row. */
static inline struct cuda_grid row_grid(int64_t rows, int32_t threads)
{
    return (struct cuda_grid){rows, 1, 1, threads, 0};
}

/* Threads of a block that takes a row of so many features, some at a time: whole warps. */
int32_t row_threads(int64_t width);

/* ---- operands -------------------------------------------------------------------------------- */

static inline int64_t elements_of(const struct kernel_call *call)
{
    return axes_product(call, &call->op->output, 0, call->op->output.axes);
}

static inline void call_copy(const struct kernel_call *call, const void *from, void *to,
                             int64_t count)
{
    CUDA_DEVICE.copy(call->stream, COPY_ON_DEVICE, to, from, count * dtype_bytes(call->dtype));
}

/* ---- sums of columns ------------------------------------------------------------------------- */

/* Parts that rows are summed in, before those are. */
int64_t column_parts(int64_t rows);
/* Of dy, or with x of dy times the normed x. */
struct column_operands {
    const void *dy, *x;
    const float *kept;
    int64_t rows, width;
    int centred;
};
void sum_columns(const struct kernel_call *call, enum dtype dtype, struct column_operands c,
                 void *room, float *to);
/* Columns of x, (rows, width), added to `to`; the room is that of column_room bytes. */
void add_columns(const struct kernel_call *call, enum dtype dtype, const void *x, int64_t rows,
                 int64_t width, void *room, float *to);
int64_t column_room(int64_t rows, int64_t width);
/* Sums of parts, (parts, width) in fp32, added to `to`. */
void add_parts(const struct kernel_call *call, const void *part, int64_t parts, int64_t width,
               float *to);

#endif
