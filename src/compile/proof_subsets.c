/* proof_subsets.c - operators on some of a stage's devices, as a proof sees them (plan/subset.h).
 *
 *   I1  Only the devices that have an operator run it, and each of these once in every phase.
 *   I2  A broadcast gives what one device of a group has, and its readers' gradients, to the others, which have nothing
 *       of it before.
 */
#include "compile/proof.h"

bool proof_has(const struct symbolic_machine *m, int32_t device, int64_t instance)
{
    const struct plan *plan = m->p->plan;
    const struct graph_device *at = &m->p->graph->device[device];
    const struct split *split = &plan_choice(plan, instance)->split;
    if (!split_is_subset(split) || m->p->fact[instance].stage != at->stage)
        return true;
    return run_has(split_run(split), at->device - plan->stage[at->stage].first_device);
}

/* The member whose digit has the value that holds the tensor; -1: none does. */
static int32_t root_of(const struct symbolic_machine *m, const int32_t *device, int32_t count,
                       const struct step_digit *digit)
{
    const struct graph *graph = m->p->graph;
    int32_t root = -1;
    for (int32_t k = 0; k < count; k++) {
        const struct graph_device *at = &graph->device[device[k]];
        int64_t place = at->device - graph->plan->stage[at->stage].first_device;
        if (place / digit->mesh_stride % digit->degree == HOLD_ON - digit->before)
            root = device[k];
    }
    return root;
}

weft_status proof_broadcast(struct symbolic_machine *m, const int32_t *device, int32_t count,
                            const struct task *task)
{
    const struct proof *p = m->p;
    const struct block *block = &p->graph->block[task->block];
    const struct item *item = &block->item[task->first_item];
    int32_t root = root_of(m, device, count, &item->step->digit[0]);
    size_t number = (size_t)(p->fact[item->instance].first_reading + item->operand);
    if (root < 0 || item->step->digits != 1)
        return wrong(m, item->instance, "a broadcast comes from no device of its group");
    weft_status status =
        do_item(m, (struct at){root, task->micro_batch, task->block, task->first_item});
    size_t from = readings_of(m, root, task->micro_batch, block->part) + number;
    for (int32_t k = 0; !status && k < count; k++) {
        size_t to = readings_of(m, device[k], task->micro_batch, block->part) + number;
        if (device[k] == root)
            continue;
        if (item->phase == FLOW_FORWARD)
            m->chain[to] = m->chain[from]; /* I2 */
        else
            m->moving[to] = m->moving[from];
    }
    return status;
}
