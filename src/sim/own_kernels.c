/* own_kernels.c - what Weft's own kernels on a GPU take beyond the formulas, which are of other libraries' (FACT_WORKSPACE: weft).
 *
 * Images lie in planes. cuDNN's convolutions in 16 bits take pixels whose channels lie side by side: it lays out again what it
 * reads, weights among it, and what it writes, by a kernel each, unless the convolution is a product of matrices that begin at
 * whole 16 bytes (convolution_is_laid_out). Gradients of weights come in 16 bits and are added to those in fp32 by one more.
 *
 *   T = T(convolution) + T(reads and writes x) + T(reads and writes y and w)                          (1)
 *
 * These, batch norms, scans and delta rules are slower than the formulas have them: the table says by how much.
 *
 *   I1  Times that were measured are as they are: they have all of this.
 */
#include "sim/item_cost.h"

static struct work layout_change(const struct plan *plan, double elements)
{
    double bytes = elements * dtype_bytes(plan->dtype);
    return (struct work){.kernel = KERNEL_ELEMENTWISE,
                         .phase = PHASE_FORWARD,
                         .dtype = plan->dtype,
                         .shape = {(int64_t)elements},
                         .read_bytes = bytes,
                         .write_bytes = bytes};
}

/* (1) without its first term. */
static int64_t layout_ns(const struct item_costs *costs, int64_t instance, enum phase phase)
{
    const struct plan *plan = costs->plan;
    int32_t number = plan->instance[instance].op;
    const struct op *op = &plan->model->op[number];
    struct cost *cost = cost_in_pool(costs->cost, plan_instance_pool(plan, instance));
    int64_t local[OP_MAX_DIMS];
    split_local(op, choice_split(plan_choice(plan, instance), phase != PHASE_FORWARD),
                plan_samples(plan, plan_choice(plan, instance)), local);
    if (!convolution_is_laid_out(op, local, op_dtype(plan->model, number, plan->dtype)))
        return 0;
    double weights = operand_elements(op, &op->weight[0].operand, local);
    struct work images = layout_change(plan, operand_elements(op, &op->input[0], local));
    struct work rest = layout_change(plan, operand_elements(op, &op->output, local) + weights);
    return cost_on_device(cost, &images).ns + cost_on_device(cost, &rest).ns;
}

/* By phase, what kernels took over what is predicted, which counts (1), and beside it: on an H200, `weft profile measure`.
 *
 * Convolutions and batch norms: ResNet-50 with 32 images, the latter with 64, too, which tells the two apart (a norm is two kernels that
 * are over before they have filled the device; gradients of its weights are kept by that of its input). Of 64 images' convolutions the
 * factors are 1.54, 1.28 and 1.48, of VGG-16's 1.75, 1.21 and 2.16. Scans: data/models/small-hybrid.yaml; delta rules: 32 heads of 128
 * features. Weft's states are those of chunks of 64 positions, in fp32. */
static const struct own_pace {
    enum op_kind kind;
    double factor[PHASE_COUNT], more_ns[PHASE_COUNT];
} OWN[] = {
    {OP_CONV, {1.6, 1.3, 1.6}, {0, 0, 0}},
    {OP_BATCH_NORM, {1, 1.57, 0}, {16500, 14400, 3700}},
    {OP_SCAN, {4.1, 4.9, 1}, {0, 0, 0}},
    {OP_DELTA, {5.5, 8.4, 1}, {0, 0, 0}},
};

static int64_t own_ns(enum op_kind kind, enum phase phase, int64_t ns)
{
    for (size_t i = 0; i < COUNT_OF(OWN); i++)
        if (OWN[i].kind == kind)
            return (int64_t)((double)ns * OWN[i].factor[phase] + OWN[i].more_ns[phase]);
    return ns;
}

int64_t own_kernels_ns(const struct item_costs *costs, int64_t instance, enum phase phase,
                       const struct kernel_cost *cost)
{
    const struct plan *plan = costs->plan;
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    if (software_word(&plan->software, FACT_WORKSPACE) != WORKSPACE_WEFT ||
        cost->provenance != FROM_FORMULA) /* I1 */
        return 0;
    int64_t laid_out = op->kind == OP_CONV ? layout_ns(costs, instance, phase) : 0;
    return own_ns(op->kind, phase, cost->ns + laid_out) - cost->ns;
}
