/* expert_kernels.c - what experts without fused kernels take beside their products (FACT_EXPERTS: streams).
 *
 * Transformer Engine's grouped layers cast the tokens of each expert, put the scales of both operands in the order that
 * products read, and start the product, expert by expert. These kernels are short, and the host cannot run ahead: it waits
 * for the numbers of tokens in each layer (Megatron-LM, transformer/moe/experts.py: tokens_per_expert.tolist()). So each
 * costs what it takes to call it:
 *
 *   ns = experts of the device * kernels of the phase * cost_call_ns                                               (1)
 *
 * Between the products PyTorch's own kernels run over all tokens (the same file, and fusions/fused_bias_geglu.py): the
 * bias of the second product times the token's score, in fp32, expert by expert and then put together; clamps of both
 * halves of a gate; and the gradient of the score, a sum over the features of the activation. Their bytes for each element
 * of the output stand in BYTES (2): those that an elementwise kernel moves in that time.
 *
 * Tokens that a plain all-to-all brings lie in the order of the devices that they are from. Where a device has several
 * experts, all copies are read and written once more to lie in the order of these, and again on their way back
 * (transformer/moe/token_dispatcher.py: sort_chunks_by_idxs; torchtitan likewise), in each pass                 (4)
 *
 * Whatever runs the experts, kernels that send a token once to each device with some of its experts handle copy by copy: with
 * t tokens of a device, each for r of the d devices (cost/dispatch.c, 1),
 *
 *   ns = t r COPY_NS   in each pass, unless it is hidden beside the other pass of a pair (OVERLAP_EXPERTS)       (3)
 */
#include "sim/item_cost.h"

static bool by_expert(const struct plan *plan)
{
    return software_word(&plan->software, FACT_EXPERTS) == EXPERTS_STREAMS;
}

/* Kernels of one expert, by phase: the product, and in fp8 or nvfp4 a cast and two orders of scales; the gradient of the
 * output was cast both ways for the input's gradient. */
int64_t expert_calls(const struct plan *plan, const struct work *work)
{
    static const int64_t KERNELS[PHASE_COUNT] = {
        [PHASE_FORWARD] = 4, [PHASE_BACKWARD_INPUT] = 4, [PHASE_BACKWARD_WEIGHT] = 3};
    if (work->kernel != KERNEL_GROUPED_MATMUL || !by_expert(plan))
        return 0;
    return work->shape[0] * (dtype_is_cast(work->dtype) ? KERNELS[work->phase] : 1);
}

enum eager { EAGER_BIAS, EAGER_SCORE, EAGER_CLAMP, EAGER_COUNT };

/* (2), measured on an H200 with PyTorch 2.11, 65,536 tokens of 2,880 features and 2 or 16 experts, in milliseconds beside a
 * copy's 4.27 TB/s: bias 2.04 and 2.63 (2.33 and 3.04 with 16), clamps 1.40 and 2.83, scores' gradient 1.06 with that of the
 * activation. An elementwise kernel moves 3.4 TB/s there, and moves 10 of the 19 bytes of a gate's gradient anyway. */
static const double BYTES[EAGER_COUNT][PHASE_COUNT] = {
    [EAGER_BIAS] = {[PHASE_FORWARD] = 40, [PHASE_BACKWARD_INPUT] = 51},
    [EAGER_SCORE] = {[PHASE_BACKWARD_INPUT] = 9},
    [EAGER_CLAMP] = {[PHASE_FORWARD] = 26, [PHASE_BACKWARD_INPUT] = 51}};

static enum op_kind producer_kind(const struct model *model, const struct op *op)
{
    int32_t producer = model->tensor[tensor_storage(model, op->input[0].tensor)].producer;
    return producer < 0 ? OP_KIND_COUNT : model->op[producer].kind;
}

static double eager_bytes(const struct plan *plan, const struct op *op, enum phase phase)
{
    enum op_kind before = producer_kind(plan->model, op);
    double bytes = 0;
    if (op->kind == OP_EXPERT_LINEAR && op->weights > 1 && op_is_activation(before))
        return BYTES[EAGER_BIAS][phase];
    if (!op_is_activation(op->kind) || before != OP_EXPERT_LINEAR)
        return 0;
    if (software_word(&plan->software, FACT_SCORES) == SCORES_ACTIVATION)
        bytes += BYTES[EAGER_SCORE][phase];
    if (op->kind == OP_GATED && op->gate == GATE_CLAMPED)
        bytes += BYTES[EAGER_CLAMP][phase];
    return bytes;
}

static double eager_pass_bytes(const struct plan *plan, int64_t instance, enum phase phase)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    int64_t local[OP_MAX_DIMS];
    split_local(op, &plan_choice(plan, instance)->split,
                plan_samples(plan, plan_choice(plan, instance)), local);
    return eager_bytes(plan, op, phase) * operand_elements(op, &op->output, local);
}

/* The devices over which the experts are spread to which a dispatch sends, or from which a combination gets. */
static int64_t expert_devices(const struct plan *plan, int64_t instance, bool away)
{
    int64_t beside = instance + (away ? 1 : -1);
    if (beside < 0 || beside >= plan->instances)
        return 1;
    const struct op *op = &plan->model->op[plan->instance[beside].op];
    return op->kind == OP_EXPERT_LINEAR
               ? split_degree(&plan_choice(plan, beside)->split, DIM_EXPERT)
               : 1;
}

/* (4) */
static double regroup_bytes(const struct plan *plan, int64_t instance)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    bool away = op->kind == OP_DISPATCH;
    int experts = op_find_dim(op->kind, DIM_EXPERT);
    if ((!away && op->kind != OP_COMBINE) || experts < 0 ||
        plan_token_copies(&plan->software, op) != COPIES_EXPERTS)
        return 0;
    int64_t local[OP_MAX_DIMS], devices = expert_devices(plan, instance, away);
    if (devices < 2 || op->size[experts] <= devices)
        return 0;
    split_local(op, &plan_choice(plan, instance)->split,
                plan_samples(plan, plan_choice(plan, instance)), local);
    return 2 * dtype_bytes(plan->dtype) *
           operand_elements(op, away ? &op->output : &op->input[0], local);
}

double expert_pass_bytes(const struct plan *plan, int64_t instance, enum phase phase)
{
    return regroup_bytes(plan, instance) +
           (by_expert(plan) ? eager_pass_bytes(plan, instance, phase) : 0);
}

/* Nanoseconds: Megatron-Bridge's runs that dispatch by HybridEP, the half to fit, groups of model and device alike. DeepEP alone
 * takes 2.2 to 7.1 for a dispatch and 0 to 1.6 for a combination (cost/dispatch.c). */
#define COPY_NS 1.9

int64_t expert_copies_ns(const struct plan *plan, int64_t instance)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    bool away = op->kind == OP_DISPATCH;
    if ((!away && op->kind != OP_COMBINE) || (plan->overlap & OVERLAP_EXPERTS) ||
        plan_token_copies(&plan->software, op) == COPIES_EXPERTS)
        return 0;
    int64_t local[OP_MAX_DIMS], devices = expert_devices(plan, instance, away);
    int width = op_find_dim(op->kind, DIM_HIDDEN), experts = op_find_dim(op->kind, DIM_EXPERT);
    if (devices < 2 || width < 0 || experts < 0)
        return 0;
    split_local(op, &plan_choice(plan, instance)->split,
                plan_samples(plan, plan_choice(plan, instance)), local);
    const struct operand *tokens = away ? &op->input[0] : &op->output;
    struct dispatch d = {.choices = op->top_k, .experts = op->size[experts]};
    double count = operand_elements(op, tokens, local) / (double)local[width];
    return (int64_t)(count * dispatch_reach(&d, (double)devices) * COPY_NS); /* (3) */
}
