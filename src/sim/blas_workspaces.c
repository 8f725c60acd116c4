/* blas_workspaces.c - memory that frameworks give cuBLAS to work in, and keep (FACT_WORKSPACE).
 *
 * PyTorch has a workspace for each of its handles, that of the thread which runs forward and that of autograd's: 32 MiB from
 * Hopper on, else 2 of 4 MiB and 8 of 16 KiB (aten/src/ATen/cuda/CublasHandlePool.cpp), or what CUBLAS_WORKSPACE_CONFIG says:
 * :4096:8, which determinism asks for, is 32 MiB. Transformer Engine has one for its products, 32 MiB from Hopper on, else 4; 4
 * more where the experts of a device are products on streams, and 3 for products in chunks beside exchanges
 * (pytorch/cpp_extensions/gemm.py, get_cublas_workspace):
 *
 *   bytes = 2 h + (1 + 4 (experts on streams) + 3 (overlap: products)) e                                                (1)
 *
 * Megatron-LM's golden values agree: what a rank holds between iterations is 75 to 76 MiB more on H100 and GB200 than on A100,
 * 2 (32 - 8.125) + 28; 27 to 28 MiB where both have :4096:8; 140 MiB with experts on streams, 5 * 28.
 */
#include "cost/cost.h"
#include "plan/plan.h"
#include "sim/player.h"

#define MIB (INT64_C(1) << 20)

enum { HANDLES = 2, EXPERT_STREAMS = 4, CHUNK_STREAMS = 3 };
static const int64_t LARGE = 32 * MIB, SMALL_HANDLE = 8 * MIB + 128 * 1024, SMALL = 4 * MIB;

static const struct {
    bool torch, te, large;
} WORDS[] = {
    [WORKSPACE_NONE] = {false, false, false},  [WORKSPACE_WEFT] = {false, false, false},
    [WORKSPACE_TORCH] = {true, false, false},  [WORKSPACE_TE] = {true, true, false},
    [WORKSPACE_TORCH_8] = {true, false, true}, [WORKSPACE_TE_8] = {true, true, true},
};

static bool has_experts(const struct plan *plan, int32_t stage)
{
    for (int32_t part = stage; part < plan->parts; part = plan_next_part(plan, part))
        for (int64_t k = 0; k < plan->part[part].count; k++) {
            int64_t instance = plan->part[part].first + k;
            if (plan->model->op[plan->instance[instance].op].kind == OP_EXPERT_LINEAR)
                return true;
        }
    return false;
}

struct blas_workspaces blas_workspaces(const struct plan *plan, int32_t stage)
{
    int word = software_word(&plan->software, FACT_WORKSPACE);
    bool large = device_large_workspaces(plan_stage_device(plan, stage));
    bool streams = software_word(&plan->software, FACT_EXPERTS) == EXPERTS_STREAMS;
    int32_t products = 1;
    if (streams && has_experts(plan, stage))
        products += EXPERT_STREAMS;
    if (plan->overlap & OVERLAP_PRODUCTS)
        products += CHUNK_STREAMS;
    return (struct blas_workspaces){
        .handles = WORDS[word].torch ? HANDLES : 0,
        .handle_bytes = large || WORDS[word].large ? LARGE : SMALL_HANDLE,
        .products = WORDS[word].te ? products : 0,
        .product_bytes = large ? LARGE : SMALL,
    };
}

int64_t blas_workspace_bytes(const struct blas_workspaces *w)
{
    return w->handles * w->handle_bytes + w->products * w->product_bytes; /* (1) */
}
