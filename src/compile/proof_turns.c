/* proof_turns.c - inputs on their way from the split of a forward pass to that of its backward pass (symbolic.c, I8).
 *
 *   I1  The first of the steps finds the input as the forward split has it; what steps of another block, or of another run of
 *       recomputation, have brought is gone.
 */
#include "compile/proof.h"

static struct chain *turned_at(const struct symbolic_machine *m, const struct reading *r,
                               struct at at)
{
    size_t first = readings_of(m, at.device, at.micro_batch, m->p->graph->block[at.block].part);
    return &m->turned[first + (size_t)(r - m->p->reading)];
}

/* The first of the steps that follow each other up to this one. */
static int32_t first_of_steps(const struct block *block, int32_t item)
{
    while (item > 0 && block->item[item - 1].kind == ITEM_STEP)
        item--;
    return item;
}

weft_status proof_turn(struct symbolic_machine *m, const struct reading *r, struct at at)
{
    struct proof *p = m->p;
    const struct block *block = &p->graph->block[at.block];
    struct chain *c = turned_at(m, r, at);
    bool goes_on = c->layout && c->block == at.block && c->item >= first_of_steps(block, at.item);
    if (block->kind == SLOT_FORWARD || r->back == r->want)
        return wrong(m, r->reader, "input %d is brought to another split than it is read in",
                     r->operand);
    if (!goes_on) {
        weft_status status = need_input(m, r, at);
        if (status)
            return status;
    }
    int32_t layout = step_result(p, r, goes_on ? c->layout : r->want, block->item[at.item].step);
    *c = (struct chain){layout, at.block, at.item, false};
    return layout ? WEFT_OK
                  : wrong(m, r->reader, "a %s of input %d does not lead to the backward split",
                          step_name(block->item[at.item].step->kind), r->operand);
}

weft_status need_turned(const struct symbolic_machine *m, const struct reading *r, struct at at)
{
    if (r->source < 0 || r->back == r->want)
        return need_input(m, r, at);
    const struct chain *c = turned_at(m, r, at);
    if (c->layout && c->block == at.block && same_data(m->p, r, c->layout, r->back))
        return WEFT_OK;
    return wrong(m, r->reader, "input %d is not there as its backward pass is split", r->operand);
}
