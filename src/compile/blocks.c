/* blocks.c - the items of every part's passes.
 *
 * Forward, every operator in order: the reshards of its inputs, then the operator. At the end, what
 * other stages read is prepared for sending. Backward, in reverse order:
 *
 *   recomputed operators run forward again, a layer's run of them at a time, before the first of
 *   them is needed; then, per operator,
 *     the gradients of its inputs, their reshards on the way to the producers of those inputs, and
 *     the gradients of its weights                                                            (1)
 *
 * in this order, so that a reshard of (1) may overlap with the product of the weight gradients.
 *
 *   I1  Gradients that reach an operator by the same reshards from several readers are added up
 *       first: the reshard is done once, after the last of these readers has run.
 *   I2  An input that a reshard gathered is kept as its producer holds it (plan/memory.c counts it
 *       so), and gathered again where the backward pass reads it: in matrix products only the
 *       weight gradients read it, so that the gather overlaps with the input gradients. What
 *       several operators of a layer read is gathered once.
 *   I3  Without OVERLAP_TENSOR every item waits for the one before it.
 *   I4  A recomputed operator finds what comes from outside its run in the layout that its reader
 *       had, unless that was gathered (I2): a checkpoint is never a partial sum. What was gathered before in this block, for
 *       operators outside the run, is given up before it is gathered again.
 *   I5  The saved or left-out instances of a run (plan/recompute.c) do not run again, but what
 *       their backward passes read of the run is brought to them again.
 *   I6  With OVERLAP_PRODUCTS a sequence that n devices hold in parts is gathered while the
 *       products of a layer that read it run (forward; its gradient for the products of input
 *       gradients), and scattered while the product that makes it runs (forward), in n chunks: a
 *       device has its own chunk from the start, and each of the n - 1 rounds of the ring brings,
 *       or takes, another one. A product p and its collective c then take
 *
 *         max over k of (k c / (n - 1) + (n - k) p / n)  =  max(p, c + p / n)                  (2)
 *
 *       since the maximum is at k = 0 or k = n - 1: n - 1 chunks run together with the collective
 *       (`rest`), and one runs after it, or before it if it scatters. This also holds for a collective
 *       that begins before its product.
 *   I7  With OVERLAP_KEYS the keys and values of a sequence that n devices hold in parts go round a ring while
 *       fused attention runs, in n chunks, as in (2): each device begins with its own (Ring Attention, Liu et
 *       al., 2023; Transformer Engine's p2p). Backward their gradients follow a step later: of the n chunks n - 2
 *       run beside the gathers, one after them, and the last beside the scatters of the gradients.
 *   I8  What is discarded (plan/recompute.c) is made again before the first that reads it, in a backward pass or when it
 *       runs again itself, as its producer leaves it or gathered; other reshards leave their reader a copy, which stays.
 *   I9  What waits in parts (parts.c) is gathered before a layer's backward pass reads it, or runs forward again.
 *   I10 Tokens on their way to experts and back are beside nothing but by OVERLAP_EXPERTS and OVERLAP_SHARED: frameworks call them between
 *       operators and wait (Megatron-LM, transformer/moe/moe_layer.py; torchtitan and DeepSpeed likewise), also before they
 *       make again what was discarded. The gradient of an expert's weights is a part of the same call as that of its input, and
 *       runs before the tokens go back.
 *   I11 Inputs come to the split of a backward pass that has one of its own (plan/back.c) where that pass reads them, from
 *       the layouts of the forward pass, in which they are kept or were gathered again (I2).
 *   I12 Where the head's weight gradients wait (plan/defer.c), a block of input gradients has all other weight gradients,
 *       too, and one of weight gradients has the head's alone, which is nothing in all parts but the last.
 */
#include "compile/block_writer.h"

#include <string.h>

/* ---- backward -------------------------------------------------------------------------------- */

/* I5; what was gathered is gathered later (I2). */
static void bring_kept(struct block_writer *w, int64_t instance)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    const struct op *op = laid_of(w->b, instance)->op;
    for (int32_t k = 0; k < op->inputs && k < (int32_t)COUNT_OF(INPUTS); k++) {
        int64_t u = w->b->use_first[instance] + k;
        const struct joint *joint = w->b->use[u].joint;
        if (!(op->keep & INPUTS[k]) || !joint || !moves(joint) || gathers(joint))
            continue;
        int32_t there = bring(w, u);
        if (there >= 0 && w->items.data[there].kind == ITEM_STEP)
            w->brought = there > w->brought ? there : w->brought;
    }
}

static void recompute(struct block_writer *w, int64_t first, int64_t last)
{
    w->floor = (int32_t)w->items.len;
    w->recomputing = true;
    for (int64_t i = first; i <= last; i++) {
        if (w->early[i - w->b->plan->part[w->part].first])
            continue;
        if (w->b->rerun[i] == RERUN_FORWARD)
            forward_op(w, i, last, PURPOSE_RECOMPUTE);
        else
            bring_kept(w, i);
    }
    w->recomputing = false;
    w->floor = (int32_t)w->items.len;
}

static void remake(struct block_writer *w, int64_t instance);

/* Makes again what these instances read of earlier ones. */
static void remake_inputs(struct block_writer *w, int64_t first, int64_t last)
{
    const struct build *b = w->b;
    for (int64_t u = b->use_first[first]; u < b->use_first[last + 1]; u++)
        if (b->use[u].source < first && reads_remade(w, &b->use[u]))
            remake(w, b->use[u].source);
}

/* Writes the run that an instance is in, unless that has been done. */
static void remake(struct block_writer *w, int64_t instance)
{
    int64_t first = run_start(w, instance), last = run_end(w, instance);
    bool *remade = &w->remade[first - w->b->plan->part[w->part].first];
    if (*remade)
        return;
    *remade = true;
    remake_inputs(w, first, last);
    recompute(w, first, last);
}

/* Gradients for another stage leave the block; the others go to their producer. */
static void send_back(struct block_writer *w, int64_t u, int32_t needs)
{
    const struct use *use = &w->b->use[u];
    const struct joint *j = use->joint;
    if (!j || use->same_backward != (int32_t)u ||
        !op_wants_gradient(laid_of(w->b, use->source)->op))
        return;
    if (j->across)
        needs = write_steps(w, use, j->backward[0], 0, j->backward[0]->send, FLOW_GRADIENT, needs);
    else
        needs = write_reshard(w, use, j->backward[1], FLOW_GRADIENT,
                              write_reshard(w, use, j->backward[0], FLOW_GRADIENT, needs));
    if (in_part(w, use->source) && w->items.data[needs].kind == ITEM_STEP)
        w->gradient_of[use->source - w->b->plan->part[w->part].first] = needs;
}

/* Brings what other stages sent back for this operator's output to its layout; returns the step
 * after which the output's gradient is there. */
static int32_t receive_back(struct block_writer *w, int64_t instance)
{
    const struct build *b = w->b;
    int32_t needs = w->gradient_of[instance - b->plan->part[w->part].first];
    for (int32_t i = b->crossing_of[instance] - 1; i >= 0; i = b->crossings.data[i].next) {
        const struct crossing *c = &b->crossings.data[i];
        const struct use *use = &b->use[c->use];
        if (use->same_backward != c->use)
            continue;
        const struct joint *j = use->joint;
        needs = write_steps(w, use, j->backward[0], j->backward[0]->send + 1, j->backward[0]->steps,
                            FLOW_GRADIENT, needs);
        needs = write_reshard(w, use, j->backward[1], FLOW_GRADIENT, needs);
    }
    return needs;
}

/* Whether the input of a product stays as it was gathered (lifetimes.h, I16). */
static bool keeps_gathered(const struct block_writer *w, const struct op *op)
{
    return is_product(op->kind) &&
           software_word(&w->b->plan->software, FACT_GATHERED) == GATHERED_KEPT;
}

/* I2: gathers again what the backward pass reads and a reshard had gathered; and what waits in parts (I9). */
static int32_t gather_again(struct block_writer *w, int64_t instance)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    const struct build *b = w->b;
    const struct op *op = laid_of(b, instance)->op;
    int32_t needs = -1;
    for (int32_t k = 0; k < op->inputs && k < (int32_t)COUNT_OF(INPUTS); k++) {
        const struct use *use = &b->use[b->use_first[instance] + k];
        if (!use->joint || use->joint->across || !(op->keep & INPUTS[k]))
            continue;
        int32_t whole = regather(w, use);
        needs = whole > needs ? whole : needs;
        if (!gathers(use->joint) || keeps_gathered(w, op))
            continue;
        int32_t *done = &w->step_of[use->same_forward - w->first_use];
        if (*done < w->floor || *done < w->layer) {
            int32_t after = write_reshard(w, use, use->joint->forward[0], FLOW_FORWARD,
                                          whole > w->last_op ? whole : w->last_op);
            *done = write_reshard(w, use, use->joint->forward[1], FLOW_FORWARD, after);
        }
        needs = *done > needs ? *done : needs;
    }
    int32_t before = (int32_t)w->items.len;
    int32_t turned = write_turns(w, instance, needs > w->last_op ? needs : w->last_op); /* I11 */
    needs = turned >= before ? turned : needs;
    int32_t halo = is_product(op->kind) ? write_halo(w, instance, FLOW_FORWARD, w->last_op) : -1;
    return halo >= before ? halo : needs;
}

bool is_product(enum op_kind kind)
{
    return kind == OP_LINEAR || kind == OP_EXPERT_LINEAR || kind == OP_CONV;
}

/* I6: if a step within the stage brings the output's gradient. */
static void gradient_beside(struct block_writer *w, int64_t instance, int32_t step)
{
    int64_t place = instance - w->b->plan->part[w->part].first;
    if (step < 0 || step != w->gradient_of[place])
        return;
    int32_t chunks = chunks_beside(w, step, COLLECTIVE_ALL_GATHER, instance);
    if (!chunks || w->waited >= step) /* by I3 another operator already waits for the step */
        return;
    write_rest(w, instance, PHASE_BACKWARD_INPUT, PURPOSE_BACKWARD, begins_with_step(w, step),
               chunks, chunks - 1);
    w->chunks[place] = chunks;
}

/* Gives neighbours their gradients of what was read of theirs; returns the item after which the gradient is whole. */
static int32_t return_halo(struct block_writer *w, int64_t instance, int32_t at)
{
    int64_t source = w->b->use[w->b->use_first[instance]].source;
    if (source < 0 || !op_wants_gradient(laid_of(w->b, source)->op))
        return at;
    int32_t last = write_halo(w, instance, FLOW_GRADIENT, at);
    if (last != at && in_part(w, source))
        w->gradient_of[source - w->b->plan->part[w->part].first] = last;
    return last;
}

/* I10 */
static bool weights_first(const struct block_writer *w, const struct op *op)
{
    return op->kind == OP_EXPERT_LINEAR && op_trains(op) && tokens_alone(w);
}

static void backward_op(struct block_writer *w, int64_t instance, bool inputs, bool weights)
{
    const struct build *b = w->b;
    const struct op *op = laid_of(b, instance)->op;
    bool product = is_product(op->kind);
    int32_t needs = -1, gathered = -1;
    if (inputs && op->input_grad) {
        needs = receive_back(w, instance);
        int32_t before = (int32_t)w->items.len;
        if (!product || (weights && op_trains(op)))
            gathered = gather_again(w, instance);
        gradient_beside(w, instance, needs);
        int32_t ring = write_ring(w, instance, PHASE_BACKWARD_INPUT, PURPOSE_BACKWARD, before, 2);
        int32_t at = write_op(w, instance, PHASE_BACKWARD_INPUT, PURPOSE_BACKWARD,
                              product || gathered < needs ? needs : gathered);
        at = return_halo(w, instance, at);
        if (weights && weights_first(w, op)) {
            write_op(w, instance, PHASE_BACKWARD_WEIGHT, PURPOSE_BACKWARD,
                     gathered > needs ? gathered : needs);
            weights = false;
        }
        for (int64_t u = b->use_first[instance]; u < b->use_first[instance + 1]; u++)
            send_back(w, u, at);
        if (ring)
            write_rest(w, instance, PHASE_BACKWARD_INPUT, PURPOSE_BACKWARD, -1, ring, 1);
    } else if (inputs && op_trains(op)) {
        needs = receive_back(w, instance);
    }
    if (weights && op_trains(op)) {
        if (!inputs || !op->input_grad)
            gathered = gather_again(w, instance);
        write_op(w, instance, PHASE_BACKWARD_WEIGHT, PURPOSE_BACKWARD,
                 gathered > needs ? gathered : needs);
    }
}

/* Makes again what the backward pass of an instance reads: its own run, and outputs that others discarded. */
static void remake_for(struct block_writer *w, int64_t instance)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    const struct op *op = laid_of(w->b, instance)->op;
    for (int32_t k = 0; k < op->inputs && k < (int32_t)COUNT_OF(INPUTS); k++) {
        const struct use *use = &w->b->use[w->b->use_first[instance] + k];
        if ((op->keep & INPUTS[k]) && reads_remade(w, use))
            remake(w, use->source);
    }
    if (plan_choice(w->b->plan, instance)->recompute)
        remake(w, instance);
}

static void backward_of(struct block_writer *w, int64_t instance, bool inputs, bool weights)
{
    if (inputs)
        remake_for(w, instance);
    backward_op(w, instance, inputs, weights);
}

/* The backward pass of one instance, and of the shared expert beside the tokens that it sends back; that one waits for them. */
static void backward_beside(struct block_writer *w, int64_t instance, bool weights)
{
    struct shared_run run;
    int64_t first, end;
    bool shared = shared_run_of(w, instance, &run);
    if (shared && instance >= run.first && instance < run.end)
        return;
    backward_of(w, instance, true, weights);
    if (!shared || !runs_beside(&run, instance, &first, &end))
        return;
    int32_t waits = begin_beside(w);
    for (int64_t i = end - 1; i >= first; i--)
        backward_of(w, i, true, weights);
    end_beside(w, waits);
}

/* Whether a block has the weight gradients of this instance (I12). */
static bool has_weights(const struct plan *plan, enum slot_kind kind, int64_t instance)
{
    bool late = plan_defers(plan, instance);
    if (kind == SLOT_BACKWARD)
        return true;
    return kind == SLOT_BACKWARD_WEIGHT ? !plan->defer_head || late : plan->defer_head && !late;
}

static void write_backward(struct block_writer *w, enum slot_kind kind)
{
    const struct plan *plan = w->b->plan;
    const struct part *part = &plan->part[w->part];
    for (int64_t i = part->first + part->count - 1; i >= part->first; i--) {
        bool weights = has_weights(plan, kind, i);
        if (plan->ends_layer[i])
            w->layer = (int32_t)w->items.len;
        if (kind != SLOT_BACKWARD_WEIGHT)
            backward_beside(w, i, weights);
        else
            backward_of(w, i, false, weights);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void write_block(struct build *b, int32_t part, enum slot_kind kind)
{
    const struct part *range = &b->plan->part[part];
    int64_t first_use = b->use_first[range->first];
    size_t uses = (size_t)(b->use_first[range->first + range->count] - first_use);
    struct block_writer w = {.b = b,
                             .part = part,
                             .stage = stage_of_part(b, part),
                             .last_op = -1,
                             .last_step = -1,
                             .waited = -1,
                             .brought = -1,
                             .first_use = first_use};
    w.item_of = ARENA_ARRAY(b->scratch, int32_t, (size_t)range->count);
    w.chunks = ARENA_ARRAY(b->scratch, int32_t, (size_t)range->count);
    w.remade = ARENA_ARRAY(b->scratch, bool, (size_t)range->count);
    w.early = ARENA_ARRAY(b->scratch, bool, (size_t)range->count);
    w.step_of = ARENA_ARRAY(b->scratch, int32_t, uses);
    w.gradient_of = ARENA_ARRAY(b->scratch, int32_t, (size_t)range->count);
    w.whole = ARENA_ARRAY(b->scratch, int32_t, (size_t)range->count);
    memset(w.whole, -1, (size_t)range->count * sizeof *w.whole);
    memset(w.gradient_of, -1, (size_t)range->count * sizeof *w.gradient_of);
    memset(w.item_of, -1, (size_t)range->count * sizeof *w.item_of);
    memset(w.step_of, -1, uses * sizeof *w.step_of);
    if (kind == SLOT_FORWARD)
        write_forward(&w);
    else
        write_backward(&w, kind);
    struct block block = {.part = part, .kind = kind, .items = (int32_t)w.items.len};
    block.item = ARENA_ARRAY(b->keep, struct item, w.items.len);
    if (w.items.len)
        memcpy(block.item, w.items.data, w.items.len * sizeof *block.item);
    b->block_of[kind][part] = (int32_t)b->blocks.len;
    array_push(b->keep, &b->blocks, block);
}

void build_blocks(struct build *b)
{
    enum slot_kind last = SLOT_BACKWARD_WEIGHT;
    struct slots slots = {0};
    int64_t few = plan_fewer_micro_batches(b->plan, PLAN_ROUNDS);
    struct pipeline pipeline = plan_pipeline_of(b->plan, few);
    const struct schedule *schedule = graph_schedule(b->graph);
    bool used[SLOT_KIND_COUNT] = {false};
    b->rerun = plan_reruns(b->scratch, b->plan);
    for (int32_t s = 0; s < (schedule->lists ? b->plan->stages : 1); s++)
        schedule_order(schedule, &pipeline, s, b->scratch, &slots);
    for (size_t i = 0; i < slots.len; i++)
        used[slots.data[i].kind] = true;
    for (int kind = 0; kind <= (int)last; kind++) {
        b->block_of[kind] = ARENA_ARRAY(b->scratch, int32_t, (size_t)b->plan->parts);
        memset(b->block_of[kind], -1, (size_t)b->plan->parts * sizeof(int32_t));
        for (int32_t part = 0; used[kind] && part < b->plan->parts; part++)
            write_block(b, part, (enum slot_kind)kind);
    }
    slice_forward_blocks(b);
}
