/* ring_kernels.c - attention whose keys and values go round a ring (compile/blocks.c, I7) is a kernel for each step of it.
 *
 * The results of n steps are merged by passes of their own (Transformer Engine, pytorch/attention/dot_product_attention/
 * context_parallel.py, AttnFuncWithCPAndKVP2P; PyTorch's _SDPAMerger likewise): forward, the first step's output is scaled (2
 * bytes read, 2 written) and each later one is added (4 and 2); backward, the gradients of queries, keys and values likewise.
 * Of causal attention the last device merges whole outputs in each step, and the others wait for it. With r what one more
 * kernel of attention takes to begin and end, attention in n steps takes
 *
 *   t(whole) + (n - 1) r + passes over 4 n - 2 bytes read and 2 n written of each element                            (1)
 */
#include "sim/item_cost.h"

int64_t ring_kernels(const struct plan *plan, const struct item *item)
{
    const struct op *op = &plan->model->op[plan->instance[item->instance].op];
    return op->kind == OP_ATTENTION && item->chunks > 1 ? item->chunks : 1;
}

/* What the steps of a pass make: outputs, or the gradients of queries and of a device's own keys and values. */
static double merged_elements(const struct plan *plan, const struct item *item)
{
    const struct op *op = &plan->model->op[plan->instance[item->instance].op];
    int64_t local[OP_MAX_DIMS];
    double inputs = 0;
    split_local(op, &plan_choice(plan, item->instance)->split,
                plan_samples(plan, plan_choice(plan, item->instance)), local);
    for (int32_t i = 0; i < op->inputs; i++)
        inputs += operand_elements(op, &op->input[i], local) / (i > 0 ? item->chunks : 1);
    return item->phase == PHASE_FORWARD ? operand_elements(op, &op->output, local) : inputs;
}

int64_t ring_merge_ns(struct item_costs *costs, const struct item *item)
{
    const struct plan *plan = costs->plan;
    double steps = (double)ring_kernels(plan, item), elements;
    struct work work[MAX_ITEM_WORKS];
    if (steps <= 1 || !item_works(plan, item->instance, (enum phase)item->phase, work))
        return 0;
    struct cost *own = cost_in_pool(costs->cost, plan_instance_pool(plan, item->instance));
    elements = merged_elements(plan, item);
    struct work merge = {.kernel = KERNEL_ELEMENTWISE,
                         .phase = PHASE_FORWARD,
                         .dtype = plan->dtype,
                         .shape = {(int64_t)(elements * steps)},
                         .read_bytes = elements * (4 * steps - 2),
                         .write_bytes = elements * 2 * steps};
    return (int64_t)((steps - 1) * (double)cost_begin_ns(own, &work[0])) +
           cost_on_device(own, &merge).ns;
}
