/* proof_host.c - what waits in host memory is there when it leaves, and back when it is read (equivalence.c, E6). */
#include "compile/build.h"
#include "compile/proof.h"

static uint8_t *made_at(const struct symbolic_machine *m, int32_t device, int32_t micro_batch,
                        int64_t instance)
{
    return &m->made[row(m, device, micro_batch, m->p->plan->instances) + (size_t)instance];
}

static uint8_t fetched_for(enum slot_kind kind)
{
    return kind == SLOT_BACKWARD_WEIGHT ? FETCHED_WEIGHT : FETCHED;
}

/* A layer's: the pass that it comes back for is the first that has not got it. */
static weft_status copy_layer(struct symbolic_machine *m, const struct task *task, bool back)
{
    uint8_t *made = made_at(m, task->device, task->micro_batch, task->reader);
    if (back && !(*made & STORED))
        return wrong(m, task->reader, "comes back from the host before it went there");
    if (!back && !(*made & MADE))
        return wrong(m, task->reader, "goes to the host before it is there");
    *made |= !back ? STORED : *made & FETCHED ? FETCHED_WEIGHT : FETCHED;
    return WEFT_OK;
}

weft_status proof_copy(struct symbolic_machine *m, const struct task *task)
{
    bool back = m->p->graph->exchange[task->exchange].kind == EXCHANGE_FROM_HOST;
    size_t here = row(m, task->device, task->micro_batch, m->p->plan->parts) + (size_t)task->about;
    const struct part *part = &m->p->plan->part[task->about];
    const uint8_t *last =
        made_at(m, task->device, task->micro_batch, part->first + part->count - 1);
    if (task->reader >= 0)
        return copy_layer(m, task, back);
    if (back && !m->host[0][here])
        return wrong(m, part->first, "comes back from the host before it went there");
    if (!back && !(*last & MADE))
        return wrong(m, part->first, "goes to the host before it is there");
    m->host[back][here] = true;
    return WEFT_OK;
}

weft_status proof_need_unit(const struct symbolic_machine *m, const struct task *task)
{
    const struct graph *graph = m->p->graph;
    const struct block *block = &graph->block[task->block];
    if (!block->unit || block->kind == SLOT_FORWARD)
        return WEFT_OK;
    for (int32_t i = task->first_item; i < task->first_item + task->items; i++) {
        int32_t unit = block->unit[i];
        int64_t last = last_of_unit(m->p->plan, block->part, unit);
        uint8_t want = fetched_for(block->kind);
        bool once = !graph->lifetimes->part[block->part].copies.in[SLOT_BACKWARD_INPUT][unit];
        if (want == FETCHED_WEIGHT && once)
            want = FETCHED;
        if (graph->lifetimes->part[block->part].copies.in[block->kind][unit] &&
            !(*made_at(m, task->device, task->micro_batch, last) & want))
            return wrong(m, block->item[i].instance, "its layer has not come back from the host");
    }
    return WEFT_OK;
}

weft_status proof_need_host(const struct symbolic_machine *m, const struct task *task)
{
    const struct proof *p = m->p;
    const struct block *block = &p->graph->block[task->block];
    size_t here = row(m, task->device, task->micro_batch, p->plan->parts) + (size_t)block->part;
    if (block->kind == SLOT_FORWARD && m->host[0][here])
        return wrong(m, -1, "its checkpoints have gone to the host already");
    if (block->kind == SLOT_FORWARD || block->kind == SLOT_BACKWARD_WEIGHT)
        return proof_need_unit(m, task);
    return p->offloads[block->part] && !m->host[1][here]
               ? wrong(m, -1, "its checkpoints have not come back from the host")
               : proof_need_unit(m, task);
}
