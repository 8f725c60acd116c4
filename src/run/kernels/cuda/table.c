/* table.c - which kernel runs which kind on a GPU. */
#include "run/kernels/cuda/fused_attention.h"

static const struct gpu_kind *const TABLE[OP_KIND_COUNT] = {
    [OP_EMBEDDING] = &GPU_EMBEDDING,
    [OP_LINEAR] = &GPU_LINEAR,
    [OP_SCORE] = &GPU_SCORE,
    [OP_CONTEXT] = &GPU_CONTEXT,
    [OP_ATTENTION] = &GPU_ATTENTION,
    [OP_SOFTMAX] = &GPU_SOFTMAX,
    [OP_LAYER_NORM] = &GPU_LAYER_NORM,
    [OP_RMS_NORM] = &GPU_RMS_NORM,
    [OP_GELU] = &GPU_GELU,
    [OP_RELU] = &GPU_RELU,
    [OP_SILU] = &GPU_SILU,
    [OP_GATED] = &GPU_GATED,
    [OP_DROPOUT] = &GPU_DROPOUT,
    [OP_DROPOUT_ADD] = &GPU_DROPOUT_ADD,
    [OP_ADD] = &GPU_ADD,
    [OP_ROTARY] = &GPU_ROTARY,
    [OP_LOSS] = &GPU_LOSS,
    [OP_ROUTER] = &GPU_ROUTER,
    [OP_DISPATCH] = &GPU_DISPATCH,
    [OP_EXPERT_LINEAR] = &GPU_EXPERT_LINEAR,
    [OP_COMBINE] = &GPU_COMBINE,
    [OP_CONV1D] = &GPU_CONV1D,
    [OP_SCAN] = &GPU_SCAN,
    [OP_GATED_NORM] = &GPU_GATED_NORM,
    [OP_DELTA] = &GPU_DELTA,
    [OP_CONV] = &GPU_CONV,
    [OP_POOL] = &GPU_POOL,
    [OP_BATCH_NORM] = &GPU_BATCH_NORM,
    [OP_CONCAT] = &GPU_CONCAT,
    [OP_RESHAPE] = &GPU_RESHAPE,
    [OP_EMBEDDING_BAG] = &GPU_EMBEDDING_BAG,
    [OP_INTERACTION] = &GPU_INTERACTION,
};

static bool gpu_has(const struct op *op, const char **why)
{
    const struct gpu_kind *kind = TABLE[op->kind];
    *why = kind ? NULL : "the CUDA backend has no kernel of this kind yet";
    if (kind && kind->refuses)
        *why = kind->refuses(op);
    return *why == NULL;
}

static int64_t gpu_kept_bytes(const struct kernel_call *call)
{
    const struct gpu_kind *kind = TABLE[call->op->kind];
    return kind->kept_bytes ? kind->kept_bytes(call) : 0;
}

static int64_t gpu_scratch_bytes(const struct kernel_call *call)
{
    const struct gpu_kind *kind = TABLE[call->op->kind];
    return kind->scratch_bytes ? kind->scratch_bytes(call) : 0;
}

static void gpu_run(const struct kernel_call *call, enum phase phase)
{
    void (*run)(const struct kernel_call *) = TABLE[call->op->kind]->phase[phase];
    if (run)
        run(call);
}

static bool gpu_takes_shares(const struct kernel_call *call)
{
    return call->op->kind == OP_ATTENTION && fused_attention_takes_shares(call);
}

static const struct kernels CUDA_KERNELS = {
    "cuda",       &CUDA_DEVICE, gpu_has,   gpu_kept_bytes,   gpu_scratch_bytes, gpu_run,
    gpu_optimize, true,         &GPU_MUON, gpu_takes_shares, &GPU_CHOICES,
};

weft_status cuda_kernels(int32_t place, const struct kernels **out)
{
    weft_status status;
    TRY(cuda_open(place));
    TRY(products_open());
    *out = &CUDA_KERNELS;
done:
    return status;
}
