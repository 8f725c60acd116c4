/* recommender.c - what DLRM has beside its MLPs, on a GPU (kernels/cpu/recommender.c). */
#include "run/kernels/cuda/room.h"

extern struct cuda_code CUDA_CODE_recommender;
GPU_KERNEL(BAG_FORWARD, recommender, "bag_forward");
GPU_KERNEL(BAG_TABLES, recommender, "bag_tables");
GPU_KERNEL(INTERACTION_FORWARD, recommender, "interaction_forward");
GPU_KERNEL(INTERACTION_INPUT, recommender, "interaction_input");
static struct cuda_kernel BAG_FIRSTS = {.code = &CUDA_CODE_recommender, .name = "bag_firsts"},
                          BAG_LINKS = {.code = &CUDA_CODE_recommender, .name = "bag_links"};

enum { THREADS = 256 };

/* ---- bag ------------------------------------------------------------------------------------- */

/* The `bag` of recommender.cu. */
struct gpu_bag {
    int64_t samples, tables, rows, width, lookups, first_row;
};

static struct gpu_bag bag_of(const struct kernel_call *call)
{
    return (struct gpu_bag){call->size[0], call->size[1],   call->size[2],
                            call->size[3], call->op->top_k, call->begin[2]};
}

static int64_t lookups_of(const struct gpu_bag *b)
{
    return b->samples * b->tables * b->lookups;
}

/* The next lookup of the same id, and whether one is the first of its id. */
static int64_t bag_scratch(const struct kernel_call *call)
{
    struct gpu_bag b = bag_of(call);
    return lookups_of(&b) * (int64_t)(sizeof(int32_t) + sizeof(uint8_t));
}

static void bag_forward(const struct kernel_call *call)
{
    struct gpu_bag b = bag_of(call);
    CUDA_LAUNCH(call->stream, &BAG_FORWARD, call->dtype,
                row_grid(b.samples * b.tables, row_threads(b.width)), &call->input[0],
                &call->weight[0], &call->output, &b);
}

static void bag_weight(const struct kernel_call *call)
{
    struct gpu_bag b = bag_of(call);
    int64_t lookups = lookups_of(&b);
    void *next = call->scratch, *first = (int32_t *)call->scratch + lookups;
    struct cuda_grid warps = {ceil_div(32 * lookups, THREADS), 1, 1, THREADS, 0};
    CUDA_LAUNCH(call->stream, &BAG_FIRSTS, DTYPE_FP32, cuda_elements(lookups), &first, &lookups);
    CUDA_LAUNCH(call->stream, &BAG_LINKS, DTYPE_FP32, warps, &call->input[0], &b, &next, &first);
    CUDA_LAUNCH(call->stream, &BAG_TABLES, call->dtype, row_grid(lookups, row_threads(b.width)),
                &call->input[0], &next, &first, &call->output_gradient, &call->weight_gradient[0],
                &b);
}

const struct gpu_kind GPU_EMBEDDING_BAG = {
    .scratch_bytes = bag_scratch,
    .phase = {bag_forward, NULL, bag_weight},
};

/* ---- interaction ----------------------------------------------------------------------------- */

/* The `pairs` of recommender.cu. */
struct gpu_pairs {
    int64_t vectors, width, first, whole, out;
};

static struct gpu_pairs pairs_of(const struct kernel_call *call)
{
    return (struct gpu_pairs){call->op->size[1], call->size[2], call->begin[2], call->whole[2],
                              call->op->output.size[1]};
}

static void interaction_forward(const struct kernel_call *call)
{
    struct gpu_pairs p = pairs_of(call);
    CUDA_LAUNCH(call->stream, &INTERACTION_FORWARD, call->dtype, row_grid(call->size[0], THREADS),
                &call->input[0], &call->input[1], &call->output, &p);
}

static void interaction_input(const struct kernel_call *call)
{
    struct gpu_pairs p = pairs_of(call);
    CUDA_LAUNCH(call->stream, &INTERACTION_INPUT, call->dtype, row_grid(call->size[0], THREADS),
                &call->input[0], &call->input[1], &call->output_gradient, &call->input_gradient[0],
                &call->input_gradient[1], &p);
}

const struct gpu_kind GPU_INTERACTION = {
    .refuses = interaction_refuses,
    .phase = {interaction_forward, interaction_input},
};
