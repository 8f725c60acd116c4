/* layout_operator.c - the cost of one option of an operator: (1) and (3) of layout_problem.h. */
#include <math.h>

#include "search/autoddl/layout_room.h"

static double parameters_of(const struct op *op, const int64_t *local)
{
    double parameters = 0;
    for (int32_t i = 0; i < op->weights; i++)
        parameters += operand_elements(op, &op->weight[i].operand, local);
    return parameters;
}

/* Gradients are sent in buckets: less than a bucket takes its share of the bucket's time. */
static double sync_time(const struct layout_problem *p, const struct step_groups *groups,
                        double bytes)
{
    double whole = bytes < DEFAULT_BUCKET_BYTES ? DEFAULT_BUCKET_BYTES : bytes;
    return step_time(p->work->times, COLLECTIVE_ALL_REDUCE, groups, (int64_t)whole) * bytes / whole;
}

struct layout_state_times layout_state_time(const struct layout_problem *p, const struct op *op,
                                            const struct choice *choice, bool sync)
{
    const struct layout_case *about = &p->about;
    int64_t local[OP_MAX_DIMS];
    if (!op->weights)
        return (struct layout_state_times){0};
    split_local(op, &choice->split, about->step_samples, local);
    double parameters = parameters_of(op, local), members = 1;
    struct layout gradient =
        layout_of(op, &op->weight[0].operand, &choice->split, about->step_samples, FLOW_GRADIENT);
    struct step_groups groups = sync_groups(&gradient, choice->shard > 0);
    for (int64_t i = 0; i < groups.digits; i++)
        members *= (double)groups.degree[i];
    if (layout_by_volume(p))
        return (struct layout_state_times){.sync = 2 * (members - 1) / members * parameters};
    struct op own = *op;
    struct weight weight = op->weight[0];
    weight.tied_op = -1;
    own.weight = op->weight[0].tied_op < 0 ? op->weight : &weight;
    struct op_memory memory = op_memory(about->model, &own, local, about->dtype, about->policy, 1);
    double updated = choice->shard ? ceil(parameters / members) : parameters;
    return (struct layout_state_times){sync ? sync_time(p, &groups, memory.gradients) : 0,
                                       (double)optimizer_ns(&p->work->costs, 0, (int64_t)updated),
                                       updated};
}

/* What neighbours exchange for an operator's windows once. */
static double halo_time(const struct layout_problem *p, const struct op *op,
                        const struct choice *choice)
{
    struct reshard_step step[MAX_HALO_STEPS];
    if (!op->input_grad) /* the model's own images come with what is lacking */
        return 0;
    struct layout image =
        layout_of(op, &op->input[0], &choice->split, p->about.step_samples, FLOW_FORWARD);
    int64_t local = layout_local(&image);
    struct reshard halo = {.step = step};
    halo.steps = halo_steps(op, &choice->split, FLOW_FORWARD, &local, step);
    for (int32_t i = 0; i < halo.steps; i++)
        halo.volume += step_volume(&step[i]);
    return layout_by_volume(p) ? halo.volume
                               : reshard_time(p->work->times, &halo,
                                              element_bytes(op->input[0].element, p->about.dtype));
}

/* Forward, and where it runs again; back, beside the gradients of weights; and for these, beside those of inputs
 * (compile/halo.c). */
static double all_halos(const struct layout_problem *p, const struct op *op,
                        const struct choice *choice, const struct layout_alone *alone)
{
    if (op_find_dim(op->kind, DIM_HEIGHT) < 0 ||
        window_axis_of(op, op_find_dim(op->kind, DIM_HEIGHT)) < 0)
        return 0;
    double once = halo_time(p, op, choice), again = op_trains(op) ? once : 0;
    return once * (choice->recompute ? 2 : 1) + fmax(0, once - alone->weights) +
           fmax(0, again - alone->inputs);
}

static struct layout_alone compute_time(const struct layout_problem *p, int64_t instance,
                                        bool again)
{
    struct item_costs *costs = &p->work->costs;
    double forward = (double)item_cost(costs, instance, PHASE_FORWARD)->device.ns;
    double inputs = (double)item_cost(costs, instance, PHASE_BACKWARD_INPUT)->device.ns;
    double weights = (double)item_cost(costs, instance, PHASE_BACKWARD_WEIGHT)->device.ns;
    return (struct layout_alone){
        .pass = forward * (again ? 2 : 1) + inputs + weights, .inputs = inputs, .weights = weights};
}

double layout_partial_degree(const struct layout *layout)
{
    double degree = 1;
    for (int64_t i = 0; i < layout->digits; i++)
        degree *= layout->digit[i].hold == HOLD_PARTIAL ? (double)layout->digit[i].degree : 1;
    return degree;
}

/* The bytes that a recomputed operator leaves: the carried input of its layer, counted at its first
 * reader. */
static double checkpoint_bytes(const struct layout_problem *p, const struct op *op,
                               const int64_t *local)
{
    const struct model *model = p->about.model;
    double bytes = 0;
    for (int32_t i = 0; i < op->inputs; i++) {
        int32_t tensor = tensor_storage(model, op->input[i].tensor);
        bool first = model->tensor[tensor].carry_module >= 0;
        for (const struct op *other = model->op; first && other < op; other++)
            for (int32_t k = 0; k < other->inputs; k++)
                first &= tensor_storage(model, other->input[k].tensor) != tensor;
        bytes += first ? operand_bytes(op, &op->input[i], local, p->about.dtype) : 0;
    }
    return bytes;
}

static double kept_bytes(const struct layout_problem *p, int32_t number, int32_t option,
                         const struct choice *choice)
{
    const struct op *op = &p->about.model->op[number];
    int64_t local[OP_MAX_DIMS];
    split_local(op, &choice->split, p->about.step_samples, local);
    if (choice->recompute)
        return checkpoint_bytes(p, op, local);
    double kept = op_kept_bytes(p->about.model, op, local, p->about.dtype);
    if (p->about.model->tensor[op->output.tensor].kept)
        kept -= operand_bytes(op, &op->output, local, p->about.dtype) *
                (1 - 1 / layout_partial_degree(&p->work->laid[number].output[option])); /* I2 */
    return kept > 0 ? kept : 0;
}

static bool has_tie(const struct layout_problem *p, int32_t number)
{
    return layout_tied_to(&p->about.model->op[number]) >= 0;
}

/* I3: on one stage, the state of a tied weight belongs to its owner. */
static bool owns_state(const struct layout_problem *p, int32_t number)
{
    return !has_tie(p, number) || p->about.stages > 1;
}

weft_status layout_fill_option(struct layout_problem *p, int32_t number, int32_t option)
{
    struct layout_work *w = p->work;
    const struct op *op = &p->about.model->op[number];
    struct choice choice = layout_choice(p, number, option);
    int64_t micro_batches = p->about.global_batch / p->about.step_samples, at = w->first[number];
    double in_flight = (double)(micro_batches < p->about.stages ? micro_batches : p->about.stages);
    bool apart = has_tie(p, number) && p->about.stages > 1;
    weft_status status;
    TRY(plan_choose(w->plan, at, &choice));
    struct stage_memory state =
        apart ? plan_tied_state(w->plan, at) : plan_instance_state(w->plan, at);
    struct layout_alone alone = {0};
    if (!layout_by_volume(p))
        alone = compute_time(p, at, choice.recompute);
    alone.halo = all_halos(p, op, &choice, &alone);
    struct layout_state_times once = {0};
    if (owns_state(p, number))
        once = layout_state_time(p, op, &choice, false);
    alone.least_update = once.updated * w->parameter_ns;
    alone.time = w->copies[number] * (w->each * (alone.pass + alone.halo) + w->once * once.update);
    alone.memory =
        w->copies[number] / p->about.stages *
        (stage_memory_state(&state) + in_flight * kept_bytes(p, number, option, &choice));
    w->alone[number][option] = alone;
done:
    return status;
}

void layout_fill_sync(struct layout_problem *p, int32_t number, int32_t option)
{
    struct layout_alone *alone = &p->work->alone[number][option];
    struct choice choice = layout_choice(p, number, option);
    if (!owns_state(p, number))
        return;
    struct layout_state_times once =
        layout_state_time(p, &p->about.model->op[number], &choice, true);
    alone->sync = p->work->copies[number] * p->work->once * once.sync;
    alone->time = p->work->copies[number] * (p->work->each * (alone->pass + alone->halo) +
                                             p->work->once * (once.sync + once.update));
}
