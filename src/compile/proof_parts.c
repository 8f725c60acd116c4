/* proof_parts.c - outputs that are kept in parts, on symbolic devices (symbolic.c, I6): which blocks find them so, and the
 * steps that make them whole again. */
#include "compile/proof.h"

static struct chain *mended_at(const struct symbolic_machine *m, int64_t source, struct at at)
{
    return &m->mended[row(m, at.device, at.micro_batch, m->p->plan->instances) + (size_t)source];
}

/* Whether this block finds the parts: a backward block of the part of the model that has kept them. */
static bool finds_parts(const struct symbolic_machine *m, const struct fact *source, struct at at)
{
    const struct block *block = &m->p->graph->block[at.block];
    return source->kept != source->output && block->kind != SLOT_FORWARD &&
           block->part == source->part;
}

bool proof_is_mended(const struct symbolic_machine *m, int64_t source, struct at at)
{
    const struct fact *fact = &m->p->fact[source];
    if (!finds_parts(m, fact, at))
        return true;
    const struct chain *c = mended_at(m, source, at);
    return c->layout == fact->output && c->block == at.block;
}

bool proof_mends(struct symbolic_machine *m, const struct reading *r, struct at at)
{
    const struct fact *source = &m->p->fact[r->source];
    const struct reshard_step *step = m->p->graph->block[at.block].item[at.item].step;
    uint8_t made =
        m->made[row(m, at.device, at.micro_batch, m->p->plan->instances) + (size_t)r->source];
    if (!finds_parts(m, source, at) || !(made & MADE))
        return false;
    struct chain *c = mended_at(m, r->source, at);
    bool goes_on = c->layout && c->layout != source->output && c->block == at.block;
    int32_t result = step_result(m->p, r, goes_on ? c->layout : source->kept, step);
    if (result)
        *c = (struct chain){result, at.block, at.item, false};
    return result != 0;
}
