/* propagate_costs.c - what an option of an operator costs, and what it costs to bring an input from one option to another.
 *
 *   work      = FLOPs / peak, of all phases                                                          (1)
 *   gradients = all-reduce of each weight's gradient along axes where it is a partial sum, divided by the micro-batches
 *   halo      = what windows read beyond their part of an image, there, back and again for the gradients of weights
 *
 * A tensor of N bytes over the other axes goes along one axis of d devices, from what its producer holds (S split, B copies,
 * P partial sums) to what its reader wants:
 *
 *   S to B   all-gather of N         P to B   all-reduce of N
 *   S to S'  all-to-all of N / d     P to S   reduce-scatter of N                                    (2)
 *   else nothing moves
 *
 *   I1  Axes are taken one at a time: what an axis holds follows from its dim and from the axes outside it that split the
 *       same dim.
 *   I2  A collective's time is a line through two sizes, on the first stage's devices.
 *   I3  Passes over memory do not count: what lies between products goes the way that moves least.
 */
#include <math.h>

#include "plan/propagate.h"

enum { SMALL_BYTES = 1 << 10, LARGE_BYTES = 1 << 26 }; /* the two sizes of I2 */

weft_status axis_lines(const struct plan *plan, struct mesh_axes *axes)
{
    static const enum collective USED[] = {COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER,
                                           COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALL_TO_ALL,
                                           COLLECTIVE_HALO};
    weft_status status = WEFT_OK;
    for (int32_t a = 0; a < axes->count; a++)
        for (size_t k = 0; k < COUNT_OF(USED); k++) {
            struct mesh_axis *axis = &axes->axis[a];
            struct group group = group_range(0, axis->degree, axis->stride);
            struct collective_cost small, large;
            TRY(collective_time(plan->cluster, USED[k], &group, SMALL_BYTES, &small));
            TRY(collective_time(plan->cluster, USED[k], &group, LARGE_BYTES, &large));
            double slope = (double)(large.ns - small.ns) / (LARGE_BYTES - SMALL_BYTES);
            axis->line[USED[k]] =
                (struct collective_line){1e-9 * (double)small.ns, 1e-9 * fmax(0, slope)};
        }
done:
    return status;
}

static double time_of(const struct mesh_axis *axis, enum collective collective, double bytes)
{
    const struct collective_line *line = &axis->line[collective];
    return line->start_s + bytes * line->s_per_byte;
}

/* What one axis makes of an operand (I1): the stride of a digit is that of its innermost part. */
static struct layout laid_along(const struct plan *plan, const struct op *op,
                                const struct operand *operand, const struct mesh_axes *axes,
                                const struct split_option *option, int32_t axis, enum flow flow)
{
    struct split one = split_none();
    int64_t degree = axes->axis[axis].degree;
    for (int32_t a = 0; a < axis; a++)
        degree *= option->dim[a] == option->dim[axis] ? axes->axis[a].degree : 1;
    split_add(&one, option->dim[axis], degree);
    return layout_of(op, operand, &one, plan->step_samples, flow);
}

/* (2) */
static double moves(const struct mesh_axis *axis, const struct layout *from,
                    const struct layout *to, double bytes)
{
    int64_t before = from->digits ? from->digit[0].hold : HOLD_COPY;
    int64_t after = to->digits ? to->digit[0].hold : HOLD_COPY;
    if (before == HOLD_COPY || before == after)
        return 0;
    if (before == HOLD_PARTIAL)
        return time_of(axis, after > 0 ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE, bytes);
    if (after > 0)
        return time_of(axis, COLLECTIVE_ALL_TO_ALL, bytes / (double)axis->degree);
    return time_of(axis, COLLECTIVE_ALL_GATHER, bytes);
}

/* ---- one operator (1) ------------------------------------------------------------------------ */

static double work_seconds(const struct plan *plan, const struct op *op, const struct split *split)
{
    const struct device *device = plan_stage_device(plan, 0);
    double peak = device->flops[peak_dtype(device, plan->dtype)], seconds = 0;
    int64_t local[OP_MAX_DIMS];
    split_local(op, split, plan->step_samples, local);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        struct work work = op_work(op, local, plan->dtype, (enum phase)phase);
        seconds += peak > 0 ? work.flops / peak : 0;
    }
    return seconds;
}

static double gradient_seconds(const struct plan *plan, const struct op *op,
                               const struct mesh_axes *axes, const struct split_option *option)
{
    double seconds = 0;
    int64_t local[OP_MAX_DIMS];
    split_local(op, &option->split, plan->step_samples, local);
    for (int32_t w = 0; w < op->weights; w++)
        for (int32_t a = 0; a < axes->count; a++) {
            const struct operand *weight = &op->weight[w].operand;
            double bytes = operand_bytes(op, weight, local, plan->dtype);
            if (operand_place(op, weight, option->dim[a], FLOW_GRADIENT) == PLACE_PARTIAL)
                seconds += time_of(&axes->axis[a], COLLECTIVE_ALL_REDUCE, bytes);
        }
    return seconds / (double)plan_micro_batches(plan);
}

/* Along one axis that splits height or width (model.h, halo). */
static double halo_seconds(const struct plan *plan, const struct op *op,
                           const struct mesh_axis *axis, const struct split *split, int place)
{
    int64_t local[OP_MAX_DIMS], parts = split_degree(split, OP_KINDS[op->kind].dims[place].dim);
    struct halo halo = window_halo(op, place, parts);
    split_local(op, split, plan->step_samples, local);
    double row = operand_bytes(op, &op->input[0], local, plan->dtype) / (double)halo.own;
    double times = 2 + op_trains(op);
    if (!op->input_grad || halo.moved == 0)
        return 0;
    return times * time_of(axis, halo.whole ? COLLECTIVE_ALL_GATHER : COLLECTIVE_HALO,
                           row * (double)halo.moved);
}

static double halos_seconds(const struct plan *plan, const struct op *op,
                            const struct mesh_axes *axes, const struct split_option *option)
{
    double seconds = 0;
    for (int32_t a = 0; a < axes->count; a++) {
        int dim = option->dim[a];
        int place = dim == SPLIT_COPY ? -1 : op_find_dim(op->kind, (enum dim)dim);
        if (place >= 0 && window_axis_of(op, place) >= 0)
            seconds += halo_seconds(plan, op, &axes->axis[a], &option->split, place);
    }
    return seconds;
}

double option_seconds(const struct plan *plan, const struct op *op, const struct mesh_axes *axes,
                      const struct split_option *option)
{
    return work_seconds(plan, op, &option->split) + gradient_seconds(plan, op, axes, option) +
           halos_seconds(plan, op, axes, option);
}

/* ---- between two ----------------------------------------------------------------------------- */

/* Bytes of an input on the devices that differ in one axis only. */
static double bytes_beside(const struct plan *plan, const struct split_options *to,
                           const struct split_option *reads, int32_t operand, int32_t axis)
{
    const struct operand *input = &to->op->input[operand];
    int64_t whole[OP_MAX_DIMS];
    op_full_size(to->op, plan->step_samples, whole);
    double bytes = operand_bytes(to->op, input, whole, plan->dtype);
    for (int32_t a = 0; a < to->axes->count; a++)
        if (a != axis && operand_place(to->op, input, reads->dim[a], FLOW_FORWARD) == PLACE_SPLIT)
            bytes /= (double)to->axes->axis[a].degree;
    return bytes;
}

/* An input's producer and reader, and the option of each. */
struct option_pair {
    const struct plan *plan;
    const struct split_options *from, *to;
    const struct split_option *produces, *reads;
    int32_t operand;
};

static double axis_seconds(const struct option_pair *pair, int32_t a, double bytes)
{
    const struct plan *plan = pair->plan;
    const struct op *from = pair->from->op, *to = pair->to->op;
    const struct mesh_axes *axes = pair->to->axes;
    const struct mesh_axis *axis = &axes->axis[a];
    const struct operand *input = &to->input[pair->operand];
    struct layout made =
        laid_along(plan, from, &from->output, axes, pair->produces, a, FLOW_FORWARD);
    struct layout wanted = laid_along(plan, to, input, axes, pair->reads, a, FLOW_FORWARD);
    struct layout whole = made, part = layout_part(plan->model, to, input, &whole);
    layout_pad(from, to, input, wanted.elements, &part);
    double seconds = moves(axis, &made, &whole, bytes) + moves(axis, &part, &wanted, bytes);
    if (!to->input_grad || !op_wants_gradient(from))
        return seconds;
    struct layout back = laid_along(plan, to, input, axes, pair->reads, a, FLOW_GRADIENT);
    struct layout home =
        laid_along(plan, from, &from->output, axes, pair->produces, a, FLOW_GRADIENT);
    struct layout gradient = home, share = layout_part(plan->model, to, input, &gradient);
    layout_pad(from, to, input, wanted.elements, &share);
    return seconds + moves(axis, &back, &share, bytes) + moves(axis, &gradient, &home, bytes);
}

double joint_seconds(const struct plan *plan, const struct split_options *from,
                     const struct split_option *produces, const struct split_options *to,
                     const struct split_option *reads, int32_t operand)
{
    struct option_pair pair = {plan, from, to, produces, reads, operand};
    double seconds = 0;
    for (int32_t a = 0; from->axes == to->axes && a < to->axes->count; a++)
        seconds += axis_seconds(&pair, a, bytes_beside(plan, to, reads, operand, a));
    return seconds;
}
