/* joins.c - stages that take several micro-batches at once (plan.h, I7; Proteus, section IV-B: n_micro_batch of a subgraph).
 *
 * A stage that takes k micro-batches at once computes of k times as many samples what it would compute of each, in kernels and
 * collectives k times as large. Between it and a stage that takes fewer, a tensor goes in several sends.
 *
 *   I1  Every device joins its shares of each of these micro-batches, so that joining and dividing them moves nothing. With D
 *       the most parts of the batch that an operator of any such stage has, samples are in the order
 *
 *         share of D, micro-batch, sample of the share                                                       (1)
 *
 *       and an operator with fewer parts has whole shares: its number of parts divides D.
 *   I2  No operator of such a stage reads one sample for another.
 */
#include "plan/check.h"
#include "plan/order.h"
#include "plan/sources.h"

int64_t plan_samples(const struct plan *plan, const struct choice *choice)
{
    return plan->step_samples * choice_joins(choice);
}

int64_t plan_passes(const struct plan *plan, const struct choice *choice)
{
    return plan_micro_batches(plan) / choice_joins(choice);
}

int32_t plan_stage_joins(const struct plan *plan, int32_t stage)
{
    struct pipeline pipeline = plan_pipeline(plan);
    return pipeline_joins(&pipeline, stage);
}

weft_status plan_join_stages(struct plan *plan)
{
    weft_status status = WEFT_OK;
    for (int32_t p = 0; p < plan->parts; p++) {
        int32_t joins = plan_stage_joins(plan, plan_stage_of_part(plan, p));
        for (int64_t i = plan->part[p].first; i < plan->part[p].first + plan->part[p].count; i++) {
            struct choice choice = *plan_choice(plan, i);
            if (choice_joins(&choice) == joins)
                continue;
            choice.joins = joins > 1 ? joins : 0;
            TRY(plan_choose(plan, i, &choice));
        }
    }
done:
    return status;
}

/* ---- what such a stage cannot have ----------------------------------------------------------- */

int64_t plan_joined_parts(const struct plan *plan)
{
    int64_t most = 1;
    for (int64_t i = 0; i < plan->instances; i++)
        for (int backward = 0; backward < 2 && choice_joins(plan_choice(plan, i)) > 1; backward++) {
            const struct split *split = choice_split(plan_choice(plan, i), backward);
            int64_t degree = split_degree(split, DIM_BATCH);
            most = degree > most ? degree : most;
        }
    return most;
}

/* Whether an input is a part of a fused tensor from a stage that takes another number at once: its parts are cut out and put
 * together for one number of samples. */
static bool reads_part_from_afar(const struct instance_index *index, int64_t i)
{
    const struct plan *plan = index->plan;
    const struct op *op = &plan->model->op[plan->instance[i].op];
    for (int32_t k = 0; k < op->inputs; k++) {
        const struct operand *input = &op->input[k];
        const struct tensor *tensor = &plan->model->tensor[input->tensor];
        int64_t source = instance_source(index, &plan->instance[i], input->tensor);
        if (source >= 0 && input->axes && tensor->axes == input->axes &&
            tensor->size[input->axes - 1] != input->size[input->axes - 1] &&
            choice_joins(plan_choice(plan, source)) != choice_joins(plan_choice(plan, i)))
            return true;
    }
    return false;
}

static const char *join_refusal(const struct instance_index *index, int64_t i, int64_t most)
{
    const struct plan *plan = index->plan;
    const struct choice *choice = plan_choice(plan, i);
    bool batch_norm = plan->model->op[plan->instance[i].op].kind == OP_BATCH_NORM;
    if (reads_part_from_afar(index, i))
        return "it reads a part of a fused tensor from a stage that takes another number";
    if (choice_joins(choice) == 1)
        return NULL;
    for (int backward = 0; backward < 2; backward++)
        if (most % split_degree(choice_split(choice, backward), DIM_BATCH)) /* I1 */
            return "its parts of the batch are not made of those of other operators";
    return batch_norm ? "its statistics would be of all of them" : NULL; /* I2 */
}

bool joins_fault(struct finding *f)
{
    const struct plan *plan = f->plan;
    if (!plan_pipeline(plan).joins)
        return false;
    struct instance_index index = plan_index(f->keep, plan);
    int64_t most = plan_joined_parts(plan);
    for (int64_t i = 0; i < plan->instances; i++) {
        const char *why = join_refusal(&index, i, most);
        if (!why)
            continue;
        fault(f, FAULT_INSTANCE, i,
              arena_printf(f->keep, "%s: its stage takes %s at once, but %s",
                           plan_path(f->keep, plan, i),
                           counted(choice_joins(plan_choice(plan, i)), "micro-batch").s, why));
        return with_hint(f, "cut the stages elsewhere, or give them one number of micro-batches");
    }
    return false;
}
