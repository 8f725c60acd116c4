/* sends.c - what goes from stage to stage.
 *
 * A crossing is sent at the end of the block that has it, and the first tasks of the block that
 * reads it wait for it. Between stages that do not take equally many micro-batches at once (plan.h, I7) it goes in several
 * sends, each of the largest number that divides both, and is noted under the first micro-batch of each. Stages are walked one after the other, so a task that waits for a later
 * stage's send is noted as a gate, and its wait is added when all sends have numbers.
 */
#include "compile/assembly.h"

#include <string.h>

/* ---- what crosses ---------------------------------------------------------------------------- */

static bool crosses(const struct build *b, int32_t crossing, bool backward)
{
    int32_t number = b->crossings.data[crossing].use;
    const struct use *use = &b->use[number];
    const struct op *source = laid_of(b, use->source)->op;
    if (!backward)
        return use->same_forward == number;
    return use->same_backward == number && laid_of(b, use->reader)->op->input_grad &&
           op_wants_gradient(source);
}

/* The part at either end of a crossing in this direction. */
static int32_t end_of(const struct crossing *c, bool backward, bool sends)
{
    return sends == backward ? c->to_part : c->from_part;
}

static struct by_part sort_crossings(const struct build *b, bool backward, bool sends)
{
    struct by_part out = {ARENA_ARRAY(b->scratch, int32_t, (size_t)b->plan->parts + 2),
                          ARENA_ARRAY(b->scratch, int32_t, b->crossings.len)};
    for (size_t i = 0; i < b->crossings.len; i++)
        if (crosses(b, (int32_t)i, backward))
            out.first[end_of(&b->crossings.data[i], backward, sends) + 2]++;
    for (int32_t p = 0; p < b->plan->parts; p++)
        out.first[p + 2] += out.first[p + 1];
    for (size_t i = 0; i < b->crossings.len; i++)
        if (crosses(b, (int32_t)i, backward))
            out.crossing[out.first[end_of(&b->crossings.data[i], backward, sends) + 1]++] =
                (int32_t)i;
    return out;
}

void prepare_crossings(struct assembly *a)
{
    struct build *b = a->b;
    size_t sends = b->crossings.len * (size_t)a->pipeline.micro_batches;
    for (int backward = 0; backward < 2; backward++) {
        struct crossing_tasks *way = &a->way[backward];
        way->sends = sort_crossings(b, backward, true);
        way->waits = sort_crossings(b, backward, false);
        way->sent = ARENA_ARRAY(b->scratch, int32_t, sends);
        memset(way->sent, NONE, sends * sizeof *way->sent);
        way->exchange = ARENA_ARRAY(b->scratch, int32_t, b->crossings.len);
        memset(way->exchange, NONE, b->crossings.len * sizeof *way->exchange);
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

static int32_t *sent_at(const struct assembly *a, bool backward, int32_t crossing,
                        int32_t micro_batch)
{
    int64_t row = (int64_t)crossing * a->pipeline.micro_batches + micro_batch;
    return &a->way[backward].sent[row];
}

/* Whether a part has no gradients of inputs to compute: then the slot of its weights' gradients
 * receives. */
static bool only_weights(const struct assembly *a, int32_t part)
{
    int32_t block = a->b->block_of[SLOT_BACKWARD_INPUT][part];
    return a->b->blocks.data[block].items == 0;
}

/* The micro-batches of a block at one end of a crossing, and of each send between them. */
struct joined_span {
    int32_t end, each;
};

static struct joined_span span_of(const struct assembly *a, const struct visit *place,
                                  int32_t crossing, bool backward)
{
    const struct plan *plan = a->b->plan;
    const struct use *use = &a->b->use[a->b->crossings.data[crossing].use];
    struct crossing_samples n = joint_samples(plan, use->joint, backward);
    return (struct joined_span){place->slot.micro_batch + pipeline_joins(&a->pipeline, a->stage),
                                (int32_t)(n.each / plan->step_samples)};
}

static void wait_for_send(struct assembly *a, int32_t task, int32_t device, int32_t *sent)
{
    struct gate gate = {task, device, sent};
    if (*sent != NONE)
        wait_for(a, task, *sent + device);
    else
        array_push(a->b->scratch, &a->gates, gate);
}

void gate_block(struct assembly *a, const struct visit *place, int32_t task, int32_t device)
{
    bool backward = place->slot.kind != SLOT_FORWARD;
    const struct by_part *in = &a->way[backward].waits;
    if (place->slot.kind == SLOT_BACKWARD_WEIGHT && !only_weights(a, place->part))
        return;
    for (int32_t i = in->first[place->part]; i < in->first[place->part + 1]; i++) {
        struct joined_span span = span_of(a, place, in->crossing[i], backward);
        for (int32_t m = place->slot.micro_batch; m < span.end; m += span.each)
            wait_for_send(a, task, device, sent_at(a, backward, in->crossing[i], m));
    }
}

void resolve_gates(struct assembly *a)
{
    for (size_t i = 0; i < a->gates.len; i++)
        wait_for(a, a->gates.data[i].task, *a->gates.data[i].sent + a->gates.data[i].device);
}

/* ---- sending --------------------------------------------------------------------------------- */

static const struct reshard *reshard_of(const struct use *use, bool backward)
{
    return backward ? use->joint->backward[0] : use->joint->forward[1];
}

/* The exchange of its first receiver, found once for all micro-batches. */
static int32_t exchange_of(struct assembly *a, int32_t crossing, bool backward)
{
    struct build *b = a->b;
    int32_t *known = &a->way[backward].exchange[crossing];
    const struct crossing *c = &b->crossings.data[crossing];
    const struct use *use = &b->use[c->use];
    const struct reshard *reshard = reshard_of(use, backward);
    if (*known == NONE) {
        int64_t bytes =
            reshard->step[reshard->send].elements *
            element_bytes(use->joint->to->op->input[use->operand].element, b->plan->dtype);
        int32_t from = end_of(c, backward, true), to = end_of(c, backward, false);
        *known = intern_exchange(b, intern_send(b, from, to, reshard), COLLECTIVE_SEND, bytes,
                                 PURPOSE_PIPELINE);
    }
    return *known;
}

static void send(struct assembly *a, int32_t micro_batch, int32_t crossing, bool backward)
{
    const struct build *b = a->b;
    const struct crossing *c = &b->crossings.data[crossing];
    const struct use *use = &b->use[c->use];
    int32_t to = stage_of_part(b, end_of(c, backward, false)), from = a->first_device[a->stage];
    int32_t exchange = exchange_of(a, crossing, backward);
    const struct pattern *pattern = &b->patterns.data[b->exchanges.data[exchange].pattern];
    struct task task = plain_task(backward ? STREAM_PREVIOUS : STREAM_NEXT, micro_batch);
    task.purpose = PURPOSE_PIPELINE;
    task.about = use->operand;
    task.reader = use->reader;
    *sent_at(a, backward, crossing, micro_batch) = (int32_t)a->tasks.len;
    for (int32_t r = 0; r < devices_of(a, to); r++) {
        int64_t sender = a->graph->folded ? 0 : pattern_sender(pattern, r);
        const struct mark *mark = &a->mark[from + sender];
        task.device = from + (int32_t)sender;
        task.exchange = exchange + r;
        int32_t number = add_task(a, task);
        wait_for(a, number, mark->last[STREAM_COMPUTE]);
        wait_for_steps(a, number, mark);
    }
}

void send_crossings(struct assembly *a, const struct visit *place)
{
    bool backward = place->slot.kind != SLOT_FORWARD;
    const struct by_part *out = &a->way[backward].sends;
    if (place->slot.kind == SLOT_BACKWARD_WEIGHT)
        return;
    for (int32_t i = out->first[place->part]; i < out->first[place->part + 1]; i++) {
        struct joined_span span = span_of(a, place, out->crossing[i], backward);
        for (int32_t m = place->slot.micro_batch; m < span.end; m += span.each)
            send(a, m, out->crossing[i], backward);
    }
}
