/* stage_lives.c - what torch.distributed.pipelining holds longer than it is needed (lifetimes.h, I15; FACT_STAGES).
 *
 * pipelining/stage.py has a buffer for what each micro-batch receives, either way (_prepare_forward_infra, _create_grad_recv_info),
 * and a micro-batch's outputs in fwd_cache until its backward pass. _backward.py makes gradients of inputs with retain_graph, so
 * that all a micro-batch keeps, but for its loss, waits for the pass that makes those of weights.
 */
#include "compile/lives.h"

static bool stages_hold(const struct plan *plan)
{
    return software_word(&plan->software, FACT_STAGES) == STAGES_HELD && plan->stages > 1;
}

/* Whether a use reads what another stage has sent. */
static bool is_received(const struct life_trace *t, const struct use *use)
{
    const struct build *b = t->b;
    return use->source >= 0 && b->part_of[use->source] != t->part &&
           stage_of_part(b, b->part_of[use->source]) != stage_of_part(b, t->part);
}

double received_bytes(struct life_trace *t, const struct use *use, double bytes)
{
    if (!stages_hold(t->b->plan) || !is_received(t, use))
        return bytes;
    t->buffers += bytes * (double)plan_micro_batches(t->b->plan);
    return 0;
}

/* The one that is read has a life of its own. */
double buffered_gradient(struct life_trace *t, const struct crossing *crossing)
{
    const struct build *b = t->b;
    double bytes = life_gradient_bytes(t, b->use[crossing->use].source);
    if (stages_hold(b->plan) && parts_are_apart(b, crossing->from_part, crossing->to_part))
        t->buffers += bytes * (double)(plan_micro_batches(b->plan) - 1);
    return bytes;
}

/* At the end of the backward pass: the outputs that went to other parts, and logits. */
static void hold_outputs(struct life_trace *t)
{
    const struct build *b = t->b;
    const struct part *part = &b->plan->part[t->part];
    int64_t last = part->first + part->count - 1;
    for (size_t i = 0; i < b->crossings.len; i++)
        if (b->crossings.data[i].from_part == t->part)
            read_life(t, t->output[life_place(t, b->use[b->crossings.data[i].use].source)]);
    if (laid_of(b, last)->op->kind == OP_LOSS)
        read_life(t, input_life(t, &b->use[b->use_first[last]]));
}

/* At the end of the pass that makes gradients of weights. */
static void hold_for_weights(struct life_trace *t)
{
    for (size_t i = 0; i < t->lives.len; i++) {
        const struct lifetime *life = &t->lives.data[i];
        bool loss = life->instance >= 0 && laid_of(t->b, life->instance)->op->kind == OP_LOSS;
        if (life->born_in == SLOT_FORWARD && life->dies_in == SLOT_BACKWARD_INPUT && !loss)
            read_life(t, (int32_t)i);
    }
}

void hold_longer(struct life_trace *t)
{
    if (!stages_hold(t->b->plan) || t->kind == SLOT_FORWARD)
        return;
    if (t->kind == SLOT_BACKWARD_WEIGHT)
        hold_for_weights(t);
    else
        hold_outputs(t);
}
