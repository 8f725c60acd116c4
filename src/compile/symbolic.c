/* symbolic.c - what a device holds, and what operators, steps and sends make of it.
 *
 * Values are not numbers but records of where they came from: an output exists or not, in a layout;
 * a gradient is a set of readers, added up.
 *
 *   I1  An operator finds each input in exactly the layout that its split demands: as the source
 *       left it, as a send brought it, or as the last of the steps left it.
 *   I2  In a backward block an input is what the forward pass kept or what was recomputed: outputs
 *       of the reader's own run of recomputation, and those that were discarded, only after they were
 *       recomputed. A gathered tensor is gone when its pass is over (blocks.c, I2), unless it came from another stage; so a
 *       recomputation gathers again, and so does the backward pass after it: `floor` is the last
 *       operator of the other kind, and steps before it do not count. For a step it is the last
 *       operator of either kind: the steps of a reshard follow each other. One that brings an input to
 *       another split finds it as its operator does.
 *   I3  Before an operator's backward phases the gradient of each of its readers has arrived
 *       exactly once.
 *   I4  A reshard of gradients takes along those of readers in the same part with the same layout;
 *       the parts of a fused tensor never share a reshard.
 *   I5  Weights are read only when they are whole: gathered for this pass with shard 3; and not
 *       before what the previous iteration left to this one has arrived.
 *   I6  An output that is kept in parts is read in a backward block only after its parts were gathered there (parts.c).
 *   I7  Windows that read beyond their part of an image find it with its halo, exchanged since they last read it; the
 *       gradient of what they read reaches its source after it has gone back to the neighbours (proof_halo.c).
 *   I8  A backward pass with a split of its own finds its inputs in that split's layouts, brought there in its own block
 *       (proof_turns.c).
 */
#include "compile/proof.h"

#include <stdio.h>
#include <string.h>

weft_status wrong(const struct symbolic_machine *m, int64_t instance, const char *fmt, ...)
{
    const struct task *task = &m->p->graph->task[m->task];
    char what[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return failure("task %d (stage %d, micro-batch %d, %s, %s): %s%s%s", m->task,
                   m->p->graph->device[task->device].stage, task->micro_batch,
                   purpose_name((enum purpose)task->purpose),
                   stream_name((enum stream_kind)task->stream),
                   instance < 0 ? "" : plan_path(m->p->arena, m->p->plan, instance),
                   instance < 0 ? "" : ": ", what);
}

static const struct item *item_at(const struct symbolic_machine *m, struct at at)
{
    return &m->p->graph->block[at.block].item[at.item];
}

static bool forward_block(const struct symbolic_machine *m, int32_t block)
{
    return m->p->graph->block[block].kind == SLOT_FORWARD;
}

static int32_t stage_of(const struct symbolic_machine *m, int32_t device)
{
    return m->p->graph->device[device].stage;
}

static size_t readings_at(const struct symbolic_machine *m, struct at at)
{
    return readings_of(m, at.device, at.micro_batch, m->p->graph->block[at.block].part);
}

/* Whether an instance is on this device, in a part that lies there as the block's does. */
static bool is_here(const struct symbolic_machine *m, int64_t instance, struct at at)
{
    const struct fact *fact = &m->p->fact[instance];
    const struct plan *plan = m->p->plan;
    return fact->stage == stage_of(m, at.device) &&
           plan_part_is_turned(plan, fact->part) ==
               plan_part_is_turned(plan, m->p->graph->block[at.block].part);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static bool same_run(const struct symbolic_machine *m, const struct reading *r)
{
    const struct fact *fact = m->p->fact;
    return fact[r->reader].run >= 0 && fact[r->reader].run == fact[r->source].run &&
           !fact[r->source].choice->saved;
}

/* Whether its backward pass reads what was made again of an output that was discarded; in another part it has kept what it
 * read. */
static bool reads_remade(const struct symbolic_machine *m, const struct reading *r)
{
    const struct fact *fact = m->p->fact;
    return fact[r->source].choice->discard && fact[r->reader].part == fact[r->source].part;
}

/* The layout in which the source's output exists: as the source left it, or in a backward block as it was kept. 0: it
 * does not. */
static int32_t source_there(const struct symbolic_machine *m, const struct reading *r, struct at at)
{
    const struct fact *source = &m->p->fact[r->source];
    if (!is_here(m, r->source, at))
        return 0;
    uint8_t made =
        m->made[row(m, at.device, at.micro_batch, m->p->plan->instances) + (size_t)r->source];
    bool again = !forward_block(m, at.block) && (same_run(m, r) || reads_remade(m, r));
    if (!(made & (again ? MADE_AGAIN : MADE)))
        return 0;
    return again || proof_is_mended(m, r->source, at) ? source->output : source->kept;
}

/* I2, for what steps have brought. */
static bool outlives(const struct symbolic_machine *m, const struct reading *r,
                     const struct chain *c, struct at at)
{
    if (forward_block(m, at.block))
        return c->block == at.block;
    bool above = c->block == at.block && c->item > m->floor[at.block][at.item];
    if (above)
        return true;
    bool of_forward = forward_block(m, c->block);
    if (item_at(m, at)->purpose == PURPOSE_RECOMPUTE)
        return !c->gathered && !same_run(m, r);
    if (c->gathered && !r->across)
        return false;
    return !of_forward || !same_run(m, r);
}

static bool shares(const struct reading *a, const struct reading *b)
{
    return a == b || (!a->part && !b->part); /* I4 */
}

static bool input_there(const struct symbolic_machine *m, const struct reading *r, struct at at)
{
    const struct proof *p = m->p;
    size_t first = readings_at(m, at);
    int32_t left = source_there(m, r, at);
    if (left && same_data(p, r, left, r->want))
        return true;
    for (int32_t i = p->fact[r->source].readers; i >= 0; i = p->reading[i].next) {
        int32_t received = m->received[first + (size_t)i];
        const struct chain *c = &m->chain[first + (size_t)i];
        if (!shares(r, &p->reading[i]))
            continue;
        if (received && same_data(p, r, received, r->want))
            return true;
        if (c->layout && same_data(p, r, c->layout, r->want) && outlives(m, r, c, at))
            return true;
    }
    return false;
}

weft_status need_input(const struct symbolic_machine *m, const struct reading *r, struct at at)
{
    const struct proof *p = m->p;
    const struct op *op = p->fact[r->reader].op;
    if (r->source < 0 || input_there(m, r, at)) /* I1 */
        return WEFT_OK;
    return wrong(m, r->reader, "input %d of %s is not there as %s", r->operand,
                 plan_path(p->arena, p->plan, r->source),
                 layout_text(p->arena, op, &op->input[r->operand],
                             plan_samples(p->plan, p->fact[r->reader].choice),
                             &p->layouts.data[r->want]));
}

/* ---- weights (I5) ---------------------------------------------------------------------------- */

/* Gradients of a weight that others use too are complete only at the end of an iteration. */
static bool is_tied(const struct proof *p, const struct bucket *bucket)
{
    int32_t number = (int32_t)(bucket - p->graph->bucket);
    bool tied = false;
    for (int64_t i = 0; i < p->plan->instances; i++)
        if (p->fact[i].owner != i)
            tied |= p->fact[i].bucket == number || p->fact[p->fact[i].owner].bucket == number;
    return tied;
}

static weft_status need_weights(struct symbolic_machine *m, int64_t instance, struct at at)
{
    const struct proof *p = m->p;
    int32_t number = p->fact[instance].bucket;
    const struct bucket *bucket = &p->graph->bucket[number];
    size_t here = place_in(at.device, number, p->graph->buckets);
    int32_t gathers = m->gathers[here * (size_t)m->micro_batches + (size_t)at.micro_batch];
    if (bucket->shard == 3 && gathers < (forward_block(m, at.block) ? 1 : 2))
        return wrong(m, instance, "its weights are not gathered");
    if (bucket->left > 0 && is_tied(p, bucket))
        return wrong(m, instance,
                     "a slice of a tied weight's gradients is left to the next iteration");
    if (bucket->left > 0 && !m->deferred[here])
        return wrong(m, instance, "the rest of its gradients has not come");
    m->stale[here] |= !m->gathered[here];
    return WEFT_OK;
}

/* ---- gradients ------------------------------------------------------------------------------- */

static void add_tally(struct gradient_tally *sum, struct gradient_tally one)
{
    sum->sum += one.sum;
    sum->count += one.count;
}

/* I3 */
static weft_status need_gradient(const struct symbolic_machine *m, int64_t instance, struct at at)
{
    const struct proof *p = m->p;
    const struct fact *fact = &p->fact[instance];
    size_t first = readings_at(m, at);
    struct gradient_tally come = {0};
    for (int32_t i = fact->readers; i >= 0; i = p->reading[i].next) {
        const struct reading *r = &p->reading[i];
        const struct moving *moving = &m->moving[first + (size_t)i];
        if (proof_is_pending(m, i, first) && same_data(p, r, r->gradient, fact->output_grad))
            add_tally(&come, (struct gradient_tally){mark_of(i), 1});
        if (moving->layout && same_data(p, r, moving->layout, fact->output_grad))
            add_tally(&come, moving->tally);
    }
    if (come.sum == fact->gradients && come.count == fact->gradient_count)
        return WEFT_OK;
    return wrong(m, instance, "%d of its readers' gradients have come, expected %d", come.count,
                 fact->gradient_count);
}

static void make_gradients(struct symbolic_machine *m, int64_t instance, struct at at)
{
    const struct proof *p = m->p;
    size_t first = readings_at(m, at);
    for (int64_t i = p->fact[instance].first_reading; i < p->fact[instance + 1].first_reading; i++)
        if (p->reading[i].differentiable)
            proof_owe(m, i, first);
}

/* I4: the gradients that are resharded with this reading's gradient. */
static struct gradient_tally collect(struct symbolic_machine *m, const struct reading *r,
                                     size_t first)
{
    const struct proof *p = m->p;
    struct gradient_tally sum = {0};
    for (int32_t i = p->fact[r->source].readers; i >= 0; i = p->reading[i].next) {
        bool *pending = &m->pending[first + (size_t)i];
        const struct reading *other = &p->reading[i];
        if (!proof_is_pending(m, i, first) || !shares(r, other) || other->gradient != r->gradient ||
            p->fact[other->reader].part != p->fact[r->reader].part)
            continue;
        add_tally(&sum, (struct gradient_tally){mark_of(i), 1});
        *pending = false;
    }
    return sum;
}

/* ---- operators ------------------------------------------------------------------------------- */

static bool is_product(enum op_kind kind)
{
    return kind == OP_LINEAR || kind == OP_EXPERT_LINEAR || kind == OP_CONV;
}

static weft_status do_forward(struct symbolic_machine *m, int64_t instance, struct at at,
                              uint8_t *made)
{
    const struct proof *p = m->p;
    const struct fact *fact = &p->fact[instance];
    bool again = item_at(m, at)->purpose == PURPOSE_RECOMPUTE;
    weft_status status = WEFT_OK;
    if (again != !forward_block(m, at.block) ||
        (again && (!fact->choice->recompute || fact->choice->saved)))
        TRY(wrong(m, instance, "runs forward in a pass that is not its own"));
    for (int64_t i = fact->first_reading; i < fact[1].first_reading; i++) {
        TRY(need_input(m, &p->reading[i], at));
        TRY(need_halo(m, &p->reading[i], at));
    }
    if (fact->op->weights)
        TRY(need_weights(m, instance, at));
    if (*made & (again ? MADE_AGAIN : MADE))
        TRY(wrong(m, instance, "runs forward twice"));
    *made |= again ? MADE_AGAIN : MADE;
done:
    return status;
}

/* The run whose results an instance's backward pass reads: the forward run, or the
 * recomputation. */
static uint8_t wanted_run(const struct fact *fact)
{
    const struct op *op = fact->op;
    bool keeps = (op->keep & (KEEP_OUTPUT | KEEP_MASK)) || op->kept_elements || op->kept_fp32;
    bool again = fact->choice->recompute && !fact->choice->saved;
    return again && (keeps || !fact->spared) ? MADE_AGAIN : MADE;
}

static weft_status need_kept(struct symbolic_machine *m, int64_t instance, struct at at,
                             uint8_t made)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    const struct proof *p = m->p;
    const struct fact *fact = &p->fact[instance];
    bool product_inputs =
        is_product(fact->op->kind) && item_at(m, at)->phase == PHASE_BACKWARD_INPUT;
    weft_status status = WEFT_OK;
    for (int64_t i = fact->first_reading; i < fact[1].first_reading && !product_inputs; i++)
        if (p->reading[i].operand < (int32_t)COUNT_OF(INPUTS) &&
            (fact->op->keep & INPUTS[p->reading[i].operand]))
            TRY(need_turned(m, &p->reading[i], at));
    if (item_at(m, at)->phase == PHASE_BACKWARD_WEIGHT && fact->op->inputs)
        TRY(need_halo(m, &p->reading[fact->first_reading], at));
    if (!(made & wanted_run(fact)))
        TRY(wrong(m, instance, "runs backward before it has run forward"));
done:
    return status;
}

static weft_status do_backward(struct symbolic_machine *m, int64_t instance, struct at at,
                               uint8_t *made)
{
    bool inputs = item_at(m, at)->phase == PHASE_BACKWARD_INPUT;
    uint8_t bit = inputs ? BACK_INPUT : BACK_WEIGHT;
    weft_status status;
    TRY(need_gradient(m, instance, at));
    TRY(need_kept(m, instance, at, *made));
    if (*made & bit)
        TRY(wrong(m, instance, "runs backward twice"));
    *made |= bit;
    if (inputs && m->p->fact[instance].op->weights)
        TRY(need_weights(m, instance, at));
    if (inputs)
        make_gradients(m, instance, at);
done:
    return status;
}

static weft_status do_op(struct symbolic_machine *m, struct at at)
{
    const struct item *item = item_at(m, at);
    const struct fact *fact = &m->p->fact[item->instance];
    size_t first = row(m, at.device, at.micro_batch, m->p->plan->instances);
    uint8_t *made = &m->made[first + (size_t)item->instance];
    if (fact->stage != stage_of(m, at.device) || fact->part != m->p->graph->block[at.block].part ||
        !proof_has(m, at.device, item->instance))
        return wrong(m, item->instance, "does not belong to this stage's part");
    if (item->phase == PHASE_FORWARD)
        return do_forward(m, item->instance, at, made);
    return do_backward(m, item->instance, at, made);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static weft_status bad_step(const struct symbolic_machine *m, const struct reading *r, struct at at)
{
    return wrong(m, r->reader, "a %s of input %d does not fit its layout",
                 step_name(item_at(m, at)->step->kind), r->operand);
}

/* The first step of a reshard, applied to what the source left or to what a send brought, for this reader or for one that
 * wants the same: a step may also fit what came for a reader with another layout, but does not lead to this one's. 0: it
 * fits none of them. `there` says whether anything exists. */
static int32_t first_step(struct symbolic_machine *m, const struct reading *r, struct at at,
                          bool *there)
{
    struct proof *p = m->p;
    const struct reshard_step *step = item_at(m, at)->step;
    size_t first = readings_at(m, at);
    int32_t result = 0;
    int32_t left = source_there(m, r, at);
    *there = left > 0;
    if (*there)
        result = step_result(p, r, left, step);
    if (!r->across || !is_here(m, r->reader, at))
        return result;
    for (int32_t i = p->fact[r->source].readers; i >= 0 && !result; i = p->reading[i].next) {
        int32_t received = m->received[first + (size_t)i];
        if (!received || !shares(r, &p->reading[i]) || p->reading[i].want != r->want)
            continue;
        *there = true;
        result = step_result(p, r, received, step);
    }
    return result;
}

static weft_status step_forward(struct symbolic_machine *m, const struct reading *r, struct at at)
{
    struct proof *p = m->p;
    const struct reshard_step *step = item_at(m, at)->step;
    size_t first = readings_at(m, at);
    struct chain *c = &m->chain[first + (size_t)(r - p->reading)];
    bool goes_on = c->layout && c->block == at.block && c->item > m->floor[at.block][at.item];
    bool there = true;
    int32_t result = goes_on ? step_result(p, r, c->layout, step) : 0;
    if (!result && !proof_is_mended(m, r->source, at) && !same_run(m, r) && !reads_remade(m, r))
        return proof_mends(m, r, at) ? WEFT_OK : bad_step(m, r, at);
    if (!result) {
        goes_on = false;
        result = first_step(m, r, at, &there);
    }
    if (!result && proof_mends(m, r, at)) /* once more, for another layer */
        return WEFT_OK;
    if (!there)
        return wrong(m, r->reader, "input %d is to be resharded before it is there", r->operand);
    if (!result)
        return bad_step(m, r, at);
    bool gathered = step->kind == COLLECTIVE_ALL_GATHER || (goes_on && c->gathered);
    *c = (struct chain){result, at.block, at.item, gathered};
    return WEFT_OK;
}

static weft_status step_gradient(struct symbolic_machine *m, const struct reading *r, struct at at)
{
    struct proof *p = m->p;
    size_t first = readings_at(m, at);
    struct moving *moving = &m->moving[first + (size_t)(r - p->reading)];
    if (!moving->layout)
        *moving = (struct moving){r->gradient, collect(m, r, first)};
    if (!moving->tally.count)
        return wrong(m, r->reader, "the gradient of input %d is to be resharded before it is there",
                     r->operand);
    moving->layout = step_result(p, r, moving->layout, item_at(m, at)->step);
    return moving->layout ? WEFT_OK : bad_step(m, r, at);
}

weft_status do_item(struct symbolic_machine *m, struct at at)
{
    const struct item *item = item_at(m, at);
    if (item->kind == ITEM_OP)
        return item_runs(item) ? do_op(m, at) : WEFT_OK;
    const struct reading *r =
        &m->p->reading[m->p->fact[item->instance].first_reading + item->operand];
    if (r->source < 0)
        return wrong(m, r->reader, "a step brings the model's input");
    if (item->halo)
        return proof_halo(m, r, at);
    if (item->turns)
        return proof_turn(m, r, at);
    return item->phase == FLOW_FORWARD ? step_forward(m, r, at) : step_gradient(m, r, at);
}

/* ---- sends ----------------------------------------------------------------------------------- */

/* Elements on each sender: what receivers slice away at once is not sent. */
static int64_t elements_before_slices(const struct reshard *reshard)
{
    int64_t elements = reshard->step[reshard->send].elements;
    for (int32_t i = reshard->send + 1; i < reshard->steps && reshard->step[i].kind == STEP_SLICE;
         i++)
        elements *= step_members(&reshard->step[i]);
    return elements;
}

weft_status do_send(struct symbolic_machine *m, const struct reading *r, enum flow flow,
                    int32_t from, int32_t to, int32_t micro_batch, const struct reshard *reshard)
{
    struct proof *p = m->p;
    size_t number = (size_t)(r - p->reading);
    bool back = flow == FLOW_GRADIENT;
    int32_t sends = p->fact[back ? r->reader : r->source].part;
    int32_t receives = p->fact[back ? r->source : r->reader].part;
    struct crossing_samples n = proof_samples(m, r, back);
    int32_t sent = micro_batch - micro_batch % joins_on(m, from);
    int32_t taken = micro_batch - micro_batch % joins_on(m, to);
    size_t first = readings_of(m, from, sent, sends), here = first + number;
    size_t there = readings_of(m, to, taken, receives) + number;
    int64_t senders = p->plan->stage[stage_of(m, from)].devices;
    int64_t receivers = p->plan->stage[stage_of(m, to)].devices;
    int32_t layout;
    if (back) {
        struct moving *moving = &m->moving[here];
        if (!moving->layout)
            *moving = (struct moving){r->gradient, collect(m, r, first)};
        layout = moving->tally.count ? moving->layout : 0;
    } else {
        uint8_t made = m->made[row(m, from, sent, p->plan->instances) + (size_t)r->source];
        layout = m->chain[here].layout;
        if (!layout && (made & MADE))
            layout = p->fact[r->source].output;
    }
    if (!layout)
        return wrong(m, r->reader, "input %d is to be sent before it is there", r->operand);
    layout = proof_of_samples(p, layout, n.from, n.each);
    layout = crossing_result(p, r, layout, elements_before_slices(reshard), senders, receivers);
    if (!layout)
        return wrong(m, r->reader, "what is sent of input %d does not have its layout", r->operand);
    layout = proof_of_samples(p, layout, n.each, n.to);
    if (!proof_all_come(m, &(struct arrival){to, micro_batch, taken, number, back}, &n))
        return WEFT_OK;
    if (back)
        m->moving[there] = (struct moving){layout, m->moving[here].tally};
    else
        m->received[there] = layout;
    return WEFT_OK;
}
