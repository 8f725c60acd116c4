/* recompute.c - which instances run forward again in the backward pass.
 *
 * Consecutive recomputed instances of a layer are one *run*, which runs again before the first of
 * them is needed. A run without saved instances runs again as a whole (Megatron-LM's checkpoints).
 * If the software's checkpoints stop early, the last instances of it that are not needed do not run again.
 * In a run with saved instances (PyTorch's selective checkpointing) only the needed ones run again:
 *
 *   needed = its own backward pass reads its output, mask or statistics, or the backward pass of a
 *            reader in the run reads its output, or a reader in the run that runs again reads it  (1)
 *
 * An output that others read in their backward passes stays after the forward pass, but for one that is *discarded*
 * (Megatron-LM's layernorm, moe_act and mla_up_proj): the run then runs again before the first of these passes, which read
 * what it makes. Readers in other parts have copies of their own.
 */
#include "plan/room.h"

/* The copy of module `above` that the operator's copy lies in. */
static int64_t copy_within(const struct model *model, const struct instance *instance,
                           int32_t above)
{
    int64_t copy = instance->copy;
    int32_t at = model->op[instance->op].module;
    for (; at >= 0 && at != above; at = model->module[at].parent)
        copy /= model->module[at].repeat;
    return copy % model->module[above].repeat;
}

int32_t plan_origin(const struct model *model, const struct instance *reader, int32_t tensor,
                    bool *carried)
{
    tensor = tensor_storage(model, tensor);
    const struct tensor *t = &model->tensor[tensor];
    *carried = t->carry_module >= 0;
    if (!*carried)
        return tensor;
    const struct module *m = &model->module[t->carry_module];
    bool first = copy_within(model, reader, t->carry_module) == 0;
    return tensor_storage(model, first ? m->carry_init : m->carry_out);
}

struct recomputed_run {
    const struct plan *plan;
    int64_t first, end; /* instances */
    uint8_t *rerun;     /* enum rerun, per instance */
};

static const struct op *op_of(const struct plan *plan, int64_t instance)
{
    return &plan->model->op[plan->instance[instance].op];
}

/* Whether instance `reader` of the run reads the tensor in the backward pass. */
static bool wants(const struct recomputed_run *r, int64_t reader, int32_t tensor)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    const struct op *op = op_of(r->plan, reader);
    bool any = false, carried;
    for (int32_t k = 0; k < op->inputs; k++) {
        bool keeps = k < (int32_t)COUNT_OF(INPUTS) && (plan_keeps(r->plan, op) & INPUTS[k]);
        if (plan_origin(r->plan->model, &r->plan->instance[reader], op->input[k].tensor,
                        &carried) == tensor)
            any |= keeps || r->rerun[reader] == RERUN_FORWARD;
    }
    return any;
}

static bool needed(const struct recomputed_run *r, int64_t instance)
{
    const struct op *op = op_of(r->plan, instance);
    int32_t tensor = tensor_storage(r->plan->model, op->output.tensor);
    bool any = (op->keep & (KEEP_OUTPUT | KEEP_MASK)) || op->kept_elements || op->kept_fp32 ||
               plan_choice(r->plan, instance)->discard;
    for (int64_t reader = instance + 1; reader < r->end && !any; reader++)
        any = wants(r, reader, tensor);
    return any; /* (1) */
}

static bool stops_early(const struct plan *plan)
{
    return software_word(&plan->software, FACT_CHECKPOINTS) == CHECKPOINTS_EARLY;
}

static void close_run(const struct recomputed_run *r)
{
    bool saves = false, early = stops_early(r->plan);
    for (int64_t i = r->first; i < r->end; i++)
        saves |= plan_choice(r->plan, i)->saved;
    for (int64_t i = r->end - 1; i >= r->first; i--) {
        early = early && !needed(r, i);
        bool whole = !saves && !early;
        r->rerun[i] = whole || (needed(r, i) && !plan_choice(r->plan, i)->saved) ? RERUN_FORWARD
                      : needed(r, i)                                             ? RERUN_SAVED
                                                                                 : RERUN_LEFT_OUT;
    }
}

const uint8_t *plan_reruns(struct arena *keep, const struct plan *plan)
{
    struct recomputed_run run = {.plan = plan};
    run.rerun = ARENA_ARRAY(keep, uint8_t, (size_t)plan->instances);
    for (int32_t part = 0; part < plan->parts; part++) {
        int64_t end = plan->part[part].first + plan->part[part].count;
        for (run.first = plan->part[part].first; run.first < end; run.first = run.end) {
            run.end = run.first + 1;
            if (!plan_choice(plan, run.first)->recompute)
                continue;
            while (run.end < end && !plan->ends_layer[run.end - 1] &&
                   plan_choice(plan, run.end)->recompute)
                run.end++;
            close_run(&run);
        }
    }
    return run.rerun;
}

/* ---- the first layers of each part ------------------------------------------------------------ */

weft_status plan_recompute_first(struct plan *plan, int64_t n)
{
    weft_status status = WEFT_OK;
    for (int32_t p = 0; p < plan->parts; p++) {
        int64_t done = 0;
        for (int64_t i = plan->part[p].first; i < plan->part[p].first + plan->part[p].count; i++) {
            const struct op *op = op_of(plan, i);
            struct choice choice = *plan_choice(plan, i);
            bool backward = !op->frozen || op->input_grad;
            choice.recompute = done < n && backward && op_in_layer(plan->model, op);
            done += plan->ends_layer[i] && !in_tower(plan, i);
            TRY(plan_choose(plan, i, &choice));
        }
    }
done:
    return status;
}

int64_t plan_first_recomputed(const struct plan *plan)
{
    int64_t layers = 0;
    for (int64_t i = plan->part[0].first; i < plan->part[0].first + plan->part[0].count; i++) {
        const struct op *op = op_of(plan, i);
        bool backward = !op->frozen || op->input_grad;
        if (op_in_layer(plan->model, op) && backward && !plan_choice(plan, i)->recompute)
            break;
        layers += plan->ends_layer[i] && !in_tower(plan, i);
    }
    return layers;
}
