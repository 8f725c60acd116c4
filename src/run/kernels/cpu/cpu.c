/* cpu.c - the CPU backend: which kernel runs which kind, and operands as kernels read them. */
#include "run/kernels/cpu/cpu.h"

static const struct cpu_kernel *const TABLE[] = {
    [OP_EMBEDDING] = &CPU_EMBEDDING,
    [OP_EMBEDDING_BAG] = &CPU_EMBEDDING_BAG,
    [OP_LINEAR] = &CPU_LINEAR,
    [OP_SCORE] = &CPU_SCORE,
    [OP_CONTEXT] = &CPU_CONTEXT,
    [OP_ATTENTION] = &CPU_ATTENTION,
    [OP_SOFTMAX] = &CPU_SOFTMAX,
    [OP_LAYER_NORM] = &CPU_LAYER_NORM,
    [OP_RMS_NORM] = &CPU_RMS_NORM,
    [OP_BATCH_NORM] = &CPU_BATCH_NORM,
    [OP_GELU] = &CPU_GELU,
    [OP_RELU] = &CPU_RELU,
    [OP_SILU] = &CPU_SILU,
    [OP_GATED] = &CPU_GATED,
    [OP_DROPOUT] = &CPU_DROPOUT,
    [OP_DROPOUT_ADD] = &CPU_DROPOUT_ADD,
    [OP_ADD] = &CPU_ADD,
    [OP_ROTARY] = &CPU_ROTARY,
    [OP_ROUTER] = &CPU_ROUTER,
    [OP_DISPATCH] = &CPU_DISPATCH,
    [OP_EXPERT_LINEAR] = &CPU_EXPERT_LINEAR,
    [OP_COMBINE] = &CPU_COMBINE,
    [OP_CONV1D] = &CPU_CONV1D,
    [OP_SCAN] = &CPU_SCAN,
    [OP_GATED_NORM] = &CPU_GATED_NORM,
    [OP_DELTA] = &CPU_DELTA,
    [OP_INDEX] = NULL,
    [OP_MIX] = NULL,
    [OP_CONV] = &CPU_CONV,
    [OP_POOL] = &CPU_POOL,
    [OP_CONCAT] = &CPU_CONCAT,
    [OP_INTERACTION] = &CPU_INTERACTION,
    [OP_LOSS] = &CPU_LOSS,
    [OP_RESHAPE] = &CPU_RESHAPE,
    [OP_OPAQUE] = NULL,
};
_Static_assert(COUNT_OF(TABLE) == OP_KIND_COUNT, "a kind without a row");

static bool cpu_has(const struct op *op, const char **why)
{
    const struct cpu_kernel *kernel = TABLE[op->kind];
    *why = kernel ? NULL : "the CPU backend has no kernel of this kind";
    if (kernel && kernel->refuses)
        *why = kernel->refuses(op);
    return *why == NULL;
}

static int64_t cpu_kept_bytes(const struct kernel_call *call)
{
    const struct cpu_kernel *kernel = TABLE[call->op->kind];
    return kernel->kept_bytes ? kernel->kept_bytes(call) : 0;
}

static int64_t cpu_scratch_bytes(const struct kernel_call *call)
{
    const struct cpu_kernel *kernel = TABLE[call->op->kind];
    int64_t floats = kernel->scratch_floats ? kernel->scratch_floats(call) : 0;
    return floats * (int64_t)sizeof(float);
}

static void cpu_run(const struct kernel_call *call, enum phase phase)
{
    void (*run)(const struct kernel_call *) = TABLE[call->op->kind]->phase[phase];
    if (run)
        run(call);
}

const struct kernels CPU_KERNELS = {
    "cpu",   &CPU_DEVICE,  cpu_has, cpu_kept_bytes, cpu_scratch_bytes,
    cpu_run, cpu_optimize, false,   &CPU_MUON,
};

/* ---- operands ------------------------------------------------------------------------------ */

static float *take(float **room, int64_t count)
{
    float *taken = *room;
    *room += count;
    return taken;
}

int64_t whole_floats(enum dtype dtype, int64_t count)
{
    return dtype == DTYPE_FP32 ? 0 : count;
}

const float *whole_read(enum dtype dtype, const void *from, int64_t count, float **room)
{
    if (!from) /* sharded weights are not there for their gradients */
        return NULL;
    return tile_read(dtype, from, 0, count, take(room, whole_floats(dtype, count)));
}

float *whole_write(enum dtype dtype, void *to, int64_t count, float **room)
{
    return tile_write(dtype, to, 0, take(room, whole_floats(dtype, count)));
}
