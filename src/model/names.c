/* names.c - the words for dims, phases and kernels in plans, databases and JSON. */
#include "model/model.h"

static const char *const DIMS[] = {
    [DIM_BATCH] = "batch", [DIM_SEQ] = "seq",       [DIM_KV] = "kv",
    [DIM_HEAD] = "head",   [DIM_GROUP] = "group",   [DIM_DEPTH] = "depth",
    [DIM_IN] = "in",       [DIM_OUT] = "out",       [DIM_HIDDEN] = "hidden",
    [DIM_VOCAB] = "vocab", [DIM_EXPERT] = "expert", [DIM_HEIGHT] = "height",
    [DIM_WIDTH] = "width", [DIM_TABLE] = "table",
};
_Static_assert(COUNT_OF(DIMS) == DIM_COUNT, "a dim without a name");

const char *const ROPE_WORDS[] = {[ROPE_LLAMA3] = "llama3",
                                  [ROPE_LINEAR] = "linear",
                                  [ROPE_YARN] = "yarn",
                                  [ROPE_YARN_UNROUNDED] = "yarn-unrounded",
                                  [ROPE_KIND_COUNT] = NULL};

const char *const GATE_WORDS[] = {[GATE_SILU] = "silu",
                                  [GATE_GELU] = "gelu",
                                  [GATE_SIGMOID] = "sigmoid",
                                  [GATE_CLAMPED] = "clamped",
                                  [GATE_COUNT] = NULL};

const char *const ROUTER_WORDS[] = {[ROUTER_SOFTMAX] = "softmax",
                                    [ROUTER_SOFTMAX_OF_ALL] = "softmax-of-all",
                                    [ROUTER_SIGMOID] = "sigmoid",
                                    [ROUTER_SIGMOID + 1] = NULL};
const char *const COPIES_WORDS[] = {[COPIES_EXPERTS] = "experts",
                                    [COPIES_DEVICES] = "devices",
                                    [COPIES_NODES] = "nodes",
                                    [COPIES_NODES + 1] = NULL};
const char *const BALANCE_WORDS[] = {[BALANCE_BATCH] = "batch",
                                     [BALANCE_SEQUENCE] = "sequence",
                                     [BALANCE_NONE] = "none",
                                     [BALANCE_NONE + 1] = NULL};

static const char *const PHASES[] = {
    [PHASE_FORWARD] = "forward",
    [PHASE_BACKWARD_INPUT] = "backward_input",
    [PHASE_BACKWARD_WEIGHT] = "backward_weight",
};
_Static_assert(COUNT_OF(PHASES) == PHASE_COUNT, "a phase without a name");

static const struct {
    const char *name;
    const char *shape[WORK_MAX_SHAPE + 1];
} KERNELS[] = {
    [KERNEL_MATMUL] = {"matmul", {"batch", "m", "n", "k"}},
    [KERNEL_GROUPED_MATMUL] = {"grouped_matmul", {"groups", "m", "n", "k"}},
    [KERNEL_ATTENTION] = {"attention",
                          {"batch", "heads", "kv_heads", "q", "kv", "depth", "value_depth",
                           "causal"}},
    [KERNEL_ATTENTION_V1] = {"attention_v1",
                             {"batch", "heads", "kv_heads", "q", "kv", "depth", "value_depth",
                              "causal"}},
    [KERNEL_ATTENTION_V2] = {"attention_v2",
                             {"batch", "heads", "kv_heads", "q", "kv", "depth", "value_depth",
                              "causal"}},
    [KERNEL_CONV] = {"conv",
                     {"images", "out_channels", "height", "width", "in_channels", "kernel_h",
                      "kernel_w", "stride"}},
    [KERNEL_NORM] = {"norm", {"rows", "cols"}},
    [KERNEL_BATCH_NORM] = {"batch_norm", {"images", "channels", "pixels"}},
    [KERNEL_SOFTMAX] = {"softmax", {"rows", "cols", "causal"}},
    [KERNEL_ELEMENTWISE] = {"elementwise", {"elements"}},
    [KERNEL_DROPOUT] = {"dropout", {"elements"}},
    [KERNEL_EMBEDDING] = {"embedding", {"rows", "width", "vocab"}},
    [KERNEL_LOSS] = {"loss", {"rows", "classes"}},
    [KERNEL_LOSS_COMPILED] = {"loss_compiled", {"rows", "classes"}},
    [KERNEL_POOL] = {"pool", {"images", "channels", "height", "width", "window"}},
    [KERNEL_SCAN] = {"scan", {"batch", "groups", "heads", "seq", "depth", "state", "chunk"}},
    [KERNEL_DELTA] = {"delta", {"batch", "groups", "heads", "seq", "depth", "state", "chunk"}},
    [KERNEL_COPY] = {"copy", {"bytes"}},
    [KERNEL_OPTIMIZER] = {"optimizer", {"parameters"}},
};
_Static_assert(COUNT_OF(KERNELS) == KERNEL_COUNT, "a kernel without a row");

const char *dim_name(enum dim dim)
{
    return DIMS[dim];
}

bool dim_from_name(const char *name, enum dim *out)
{
    int at = NAME_INDEX(name, DIMS);
    if (at >= 0)
        *out = (enum dim)at;
    return at >= 0;
}

const char *phase_name(enum phase phase)
{
    return PHASES[phase];
}

const char *kernel_name(enum kernel kernel)
{
    return KERNELS[kernel].name;
}

const char *const *kernel_shape_names(enum kernel kernel)
{
    return KERNELS[kernel].shape;
}

bool kernel_from_name(const char *name, enum kernel *out)
{
    int at = NAME_INDEX(name, KERNELS);
    if (at >= 0)
        *out = (enum kernel)at;
    return at >= 0;
}

const char *kernel_near(const char *name)
{
    return NEAREST_NAME(name, KERNELS);
}
