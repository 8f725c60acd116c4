/* op_memory.c - the memory that one operator needs on one device.
 *
 *   weights, gradients, optimizer = local parameters * bytes by policy                            (1)
 *   kept        what its backward pass reads again (op_kept_bytes)
 *   recomputed  only its inputs stay, and the rest is computed again
 *   workspace   backward: the gradients of its output and of its inputs, besides what is kept      (2)
 *   step        Adam reads gradient, weight and two moments and writes the last three in fp32 (16 +
 *               12 bytes); around it the gradients' norm is read (4), and in mixed precision they
 *               are copied to fp32 (2 + 4), unscaled (4 + 4), clipped (4 + 4) and weights copied to
 *               16 bits (4 + 2), as Megatron-LM's Float16Optimizer does; under fsdp Adam alone   (3)
 *   (4) what else holds memory, and when. Megatron-LM copies 16-bit gradients to fp32 before the step and frees
 *       the copies before the next iteration; gradients in fp32 it takes as they are (Float16OptimizerWithFloat16Params
 *       and DistributedOptimizer, _copy_model_grads_to_main_grads and zero_grad, core_v0.16.1). FSDP2 gathers 16-bit
 *       weights from fp32 shares, which are counted as the optimizer's; adds gradients of micro-batches up whole
 *       unless each is synchronised, which the exported script asks for with shard 3 alone; and has none between
 *       a step and the next backward pass (zero_grad sets them to None). An optimizer that goes through all
 *       tensors operation by operation (software.h, foreach) holds the roots of all second moments during its step.
 *
 *   I1  A tied weight counts where it is owned, so a sum over operators counts it once.
 *   I2  A distributed optimizer divides its state, not weights or gradients, by the replicas.
 */

#include "cost/optimizers.h"

static const struct {
    const char *name;
    double weight, gradient, optimizer; /* bytes per parameter */
    double read, write;                 /* bytes per parameter of a step: (3) */
    bool divided;                       /* optimizer state is spread over the replicas (I2) */
    struct policy_memory memory;        /* (4) */
} POLICIES[] = {
    [POLICY_FP32] = {"fp32", 4, 4, 8, 20, 12, false, {.moment = 4}},
    [POLICY_MIXED] = {"mixed", 2, 2, 12, 34, 26, false, {.moment = 4, .gradient_copy = 4}},
    [POLICY_MIXED_FP32_GRADIENTS] =
        {"mixed-fp32-gradients", 2, 4, 12, 32, 22, false, {.moment = 4}},
    [POLICY_DISTRIBUTED] = {"distributed", 2, 4, 12, 32, 22, true, {.moment = 4}},
    [POLICY_PURE_BF16] = {"pure-bf16", 2, 2, 4, 10, 6, false, {.moment = 2}},
    [POLICY_FSDP] = {"fsdp",
                     2,
                     4,
                     12,
                     16,
                     12,
                     false,
                     {.moment = 4,
                      .no_weight_shares = true,
                      .adds_whole = true,
                      .frees_gradients = true,
                      .own_streams = true}},
    /* half of the moments' 8 + 8 bytes; gradients of 16 bits are read so */
    [POLICY_BF16_MOMENTS] = {"bf16-moments", 2, 4, 8, 28, 18, false, {.moment = 2}},
    [POLICY_BF16_MOMENTS_GRADIENTS] =
        {"bf16-moments-gradients", 2, 2, 8, 24, 18, false, {.moment = 2}},
    [POLICY_FP8_WEIGHTS] = {"fp8-weights", 2, 4, 12, 32, 21, false, {.moment = 4}},
};
_Static_assert(COUNT_OF(POLICIES) == POLICY_COUNT, "a policy without a row");

const char *policy_name(enum policy policy)
{
    return POLICIES[policy].name;
}

bool policy_from_name(const char *name, enum policy *out)
{
    int at = NAME_INDEX(name, POLICIES);
    if (at >= 0)
        *out = (enum policy)at;
    return at >= 0;
}

struct policy_memory policy_memory(enum policy policy)
{
    return POLICIES[policy].memory;
}

int policy_weight_bytes(enum policy policy)
{
    return (int)POLICIES[policy].weight;
}

int policy_gradient_bytes(enum policy policy)
{
    return (int)POLICIES[policy].gradient;
}

double policy_state_bytes(enum policy policy)
{
    return POLICIES[policy].optimizer;
}

int policy_gather_bytes(enum policy policy, enum dtype dtype)
{
    return policy == POLICY_FP8_WEIGHTS ? 1 : (int)dtype_bytes(dtype);
}

static double local_parameters(const struct op *op, const int64_t *local)
{
    double parameters = 0;
    for (int32_t i = 0; i < op->weights; i++)
        if (op->weight[i].tied_op < 0) /* I1 */
            parameters += operand_elements(op, &op->weight[i].operand, local);
    return parameters;
}

/* Operands that are parts of one tensor (q, k and v of a fused projection) have sizes of their
 * own. */
static double input_bytes(const struct op *op, const int64_t *local, enum dtype dtype)
{
    double bytes = 0;
    for (int32_t i = 0; i < op->inputs; i++)
        bytes += operand_bytes(op, &op->input[i], local, dtype);
    return bytes;
}

struct op_memory op_memory(const struct model *model, const struct op *op, const int64_t *local,
                           enum dtype dtype, enum policy policy, int64_t replicas)
{
    double parameters = local_parameters(op, local), inputs = input_bytes(op, local, dtype);
    double trained = op->frozen ? 0 : parameters;
    double divisor = POLICIES[policy].divided ? (double)replicas : 1;
    return (struct op_memory){
        /* (1); what is never updated needs no second layout beside the one that is gathered */
        .weights =
            parameters * (op->frozen && policy == POLICY_FP8_WEIGHTS ? 1 : POLICIES[policy].weight),
        .gradients = trained * POLICIES[policy].gradient,
        .optimizer = trained * POLICIES[policy].optimizer / divisor,
        .updated = trained / divisor,
        .kept = op_kept_bytes(model, op, local, dtype),
        .kept_recomputed = inputs,
        /* (2) */
        .workspace = operand_bytes(op, &op->output, local, dtype) + (op->input_grad ? inputs : 0),
    };
}

struct work optimizer_work(int64_t parameters, enum dtype dtype, enum policy policy,
                           enum update_rule optimizer, int step)
{
    struct step_bytes more = optimizer_step_bytes(optimizer, step);
    return (struct work){.kernel = KERNEL_OPTIMIZER,
                         .phase = PHASE_FORWARD,
                         .dtype = dtype,
                         .shape = {parameters},
                         .read_bytes = (double)parameters * (POLICIES[policy].read + more.read),
                         .write_bytes = (double)parameters * (POLICIES[policy].write + more.write)};
}
