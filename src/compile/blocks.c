/* blocks.c - the items of every part's passes.
 *
 * Forward, every operator in order: the reshards of its inputs, then itself. What other stages read
 * is prepared for its send at the end. Backward, in reverse order:
 *
 *   recomputed operators run forward again, a layer's run of them at a time, before the first of
 *   them is needed; then, per operator,
 *     the gradients of its inputs, their reshards on the way to the producers of those inputs, and
 *     the gradients of its weights                                                            (1)
 *
 * in this order, so that a reshard of (1) may go on beside the product of the weight gradients.
 *
 *   I1  Gradients that reach an operator by the same reshards from several readers are added up
 *       first: the reshard comes once, behind the last of them to run.
 *   I2  An input that a reshard gathered is kept as its producer holds it (plan/memory.c counts so),
 *       and gathered again where the backward pass reads it: by weight gradients alone in matrix
 *       products, where it goes on beside the input gradients. What several operators of a layer
 *       read comes once.
 *   I4  A recomputed operator finds what came from outside its run as its reader had it, unless that
 *       was gathered (I2): a checkpoint is no partial sum.
 *   I3  Without OVERLAP_TENSOR every item waits for the one before it.
 *   I5  Of a run, what is saved or left out (plan/again.c) does not run, but what its backward pass reads
 *       of the run is brought to it again.
 */
#include "compile/build.h"

#include <string.h>

struct writer {
    struct build *b;
    int32_t part, stage;
    ARRAY(struct item) items;
    int32_t last_op, last_step; /* items, -1: none */
    int32_t *item_of;           /* per instance of the part: its latest item in this block, or -1 */
    int32_t *step_of;     /* per use of the part: the last item of its forward reshard, or -1 */
    int32_t *gradient_of; /* per instance: the step that brought its output's gradient, or -1 */
    int64_t first_use;
    int32_t floor; /* items before this one are of another run: what they resharded is gone */
    int32_t layer; /* the first item of the layer's backward pass */
    int32_t
        brought; /* the last step for what does not run again (I5): the next operator waits, or -1 */
    bool again;  /* recomputing */
};

/* ---- items ----------------------------------------------------------------------------------- */

static int32_t push(struct writer *w, struct item item)
{
    bool overlaps = w->b->plan->overlap & OVERLAP_TENSOR;
    int32_t at = (int32_t)w->items.len, other = item.kind == ITEM_OP ? w->last_step : w->last_op;
    if (item.kind == ITEM_OP && w->brought > item.needs) /* I5 */
        item.needs = w->brought;
    if (!overlaps) /* I3 */
        item.needs = other;
    if (item.kind == ITEM_OP)
        w->brought = -1;
    array_push(w->b->scratch, &w->items, item);
    *(item.kind == ITEM_OP ? &w->last_op : &w->last_step) = at;
    return at;
}

static int32_t push_op(struct writer *w, int64_t instance, enum phase phase, enum purpose purpose,
                       int32_t needs)
{
    int32_t at = push(w, (struct item){ITEM_OP, (uint8_t)purpose, (uint8_t)phase, -1, needs,
                                       instance, NULL, 0, -1, -1});
    w->item_of[instance - w->b->plan->part[w->part].first] = at;
    return at;
}

static int32_t push_step(struct writer *w, const struct use *use, const struct reshard_step *step,
                         enum flow flow, int32_t needs)
{
    const struct op *op = laid_of(w->b, use->reader)->op;
    int64_t bytes =
        step->elements * element_bytes(op->input[use->operand].element, w->b->plan->dtype);
    struct item item = {ITEM_STEP,
                        PURPOSE_TENSOR,
                        (uint8_t)flow,
                        (int8_t)use->operand,
                        needs,
                        use->reader,
                        step,
                        bytes,
                        -1,
                        -1};
    if (step->kind != STEP_SLICE) {
        item.pattern = intern_step(w->b, w->stage, step);
        item.exchange =
            intern_exchange(w->b, item.pattern, (enum collective)step->kind, bytes, PURPOSE_TENSOR);
    }
    return push(w, item);
}

/* Steps [first, last) of a reshard; the last item of them, or `needs` if there are none. */
static int32_t push_steps(struct writer *w, const struct use *use, const struct reshard *reshard,
                          int32_t first, int32_t last, enum flow flow, int32_t needs)
{
    for (int32_t i = first; reshard && i < last; i++)
        needs = push_step(w, use, &reshard->step[i], flow, needs);
    return needs;
}

static int32_t all_steps(struct writer *w, const struct use *use, const struct reshard *reshard,
                         enum flow flow, int32_t needs)
{
    return push_steps(w, use, reshard, 0, reshard ? reshard->steps : 0, flow, needs);
}

/* ---- forward --------------------------------------------------------------------------------- */

static bool in_part(const struct writer *w, int64_t instance)
{
    return instance >= 0 && w->b->part_of[instance] == w->part;
}

/* The item that makes the tensor, or -1: it is there before the block. */
static int32_t made_by(const struct writer *w, int64_t source)
{
    return in_part(w, source) ? w->item_of[source - w->b->plan->part[w->part].first] : -1;
}

static bool gathers(const struct joint *joint)
{
    for (size_t k = 0; k < COUNT_OF(joint->forward); k++)
        for (int32_t i = 0; joint->forward[k] && i < joint->forward[k]->steps; i++)
            if (joint->forward[k]->step[i].kind == COLLECTIVE_ALL_GATHER)
                return true;
    return false;
}

/* Brings one input; the item after which it is there. */
static int32_t bring(struct writer *w, int64_t u)
{
    const struct use *use = &w->b->use[u];
    if (!use->joint)
        return -1;
    int32_t *done = &w->step_of[use->same_forward - w->first_use];
    int32_t needs = made_by(w, use->source);
    if (*done >= w->floor)
        return *done;
    const struct joint *j = use->joint;
    if (w->again && needs < w->floor && !gathers(j))
        return -1; /* I4 */
    if (j->across)
        needs = push_steps(w, use, j->forward[1], j->forward[1]->send + 1, j->forward[1]->steps,
                           FLOW_FORWARD, needs);
    else
        needs = all_steps(w, use, j->forward[1], FLOW_FORWARD,
                          all_steps(w, use, j->forward[0], FLOW_FORWARD, needs));
    if (needs >= 0 && w->items.data[needs].kind == ITEM_STEP)
        *done = needs;
    return needs;
}

static void forward_op(struct writer *w, int64_t instance, enum purpose purpose)
{
    const struct build *b = w->b;
    int32_t needs = -1;
    for (int64_t u = b->use_first[instance]; u < b->use_first[instance + 1]; u++) {
        int32_t there = bring(w, u);
        if (there >= 0 && w->items.data[there].kind == ITEM_STEP && there > needs)
            needs = there;
    }
    push_op(w, instance, PHASE_FORWARD, purpose, needs);
}

/* What comes before the sends of this part's tensors. */
static void prepare_sends(struct writer *w)
{
    const struct build *b = w->b;
    for (size_t i = 0; i < b->crossings.len; i++) {
        const struct crossing *c = &b->crossings.data[i];
        const struct use *use = &b->use[c->use];
        if (c->from_part != w->part || use->same_forward != c->use)
            continue;
        int32_t needs =
            all_steps(w, use, use->joint->forward[0], FLOW_FORWARD, made_by(w, use->source));
        push_steps(w, use, use->joint->forward[1], 0, use->joint->forward[1]->send, FLOW_FORWARD,
                   needs);
    }
}

static void write_forward(struct writer *w)
{
    const struct part *part = &w->b->plan->part[w->part];
    for (int64_t i = part->first; i < part->first + part->count; i++)
        forward_op(w, i, PURPOSE_FORWARD);
    prepare_sends(w);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The first instance of the run of recomputed ones that ends with this one: within its layer. */
static int64_t run_start(const struct writer *w, int64_t last)
{
    const struct plan *plan = w->b->plan;
    int64_t i = last;
    while (i > plan->part[w->part].first && !plan->ends_layer[i - 1] &&
           plan_choice(plan, i - 1)->recompute)
        i--;
    return i;
}

/* I5; what was gathered is gathered later (I2). */
static void bring_kept(struct writer *w, int64_t instance)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    const struct op *op = laid_of(w->b, instance)->op;
    for (int32_t k = 0; k < op->inputs && k < (int32_t)COUNT_OF(INPUTS); k++) {
        int64_t u = w->b->use_first[instance] + k;
        const struct joint *joint = w->b->use[u].joint;
        if (!(op->keep & INPUTS[k]) || !joint || gathers(joint))
            continue;
        int32_t there = bring(w, u);
        if (there >= 0 && w->items.data[there].kind == ITEM_STEP)
            w->brought = there > w->brought ? there : w->brought;
    }
}

static void recompute(struct writer *w, int64_t last)
{
    w->floor = (int32_t)w->items.len;
    w->again = true;
    for (int64_t i = run_start(w, last); i <= last; i++) {
        if (w->b->again[i] == AGAIN_MADE)
            forward_op(w, i, PURPOSE_RECOMPUTE);
        else
            bring_kept(w, i);
    }
    w->again = false;
    w->floor = (int32_t)w->items.len;
}

static bool wants_gradient(const struct op *op)
{
    return op->input_grad || op->weights;
}

/* Gradients that go to another stage leave the block; the rest goes to its producer. */
static void send_back(struct writer *w, int64_t u, int32_t needs)
{
    const struct use *use = &w->b->use[u];
    const struct joint *j = use->joint;
    if (!j || use->same_backward != (int32_t)u || !wants_gradient(laid_of(w->b, use->source)->op))
        return;
    if (j->across)
        needs = push_steps(w, use, j->backward[0], 0, j->backward[0]->send, FLOW_GRADIENT, needs);
    else
        needs = all_steps(w, use, j->backward[1], FLOW_GRADIENT,
                          all_steps(w, use, j->backward[0], FLOW_GRADIENT, needs));
    if (in_part(w, use->source) && w->items.data[needs].kind == ITEM_STEP)
        w->gradient_of[use->source - w->b->plan->part[w->part].first] = needs;
}

/* What other stages sent back for this operator's output, brought to its layout; the step after
 * which the output's gradient is there. */
static int32_t receive_back(struct writer *w, int64_t instance)
{
    const struct build *b = w->b;
    int32_t needs = w->gradient_of[instance - b->plan->part[w->part].first];
    for (int32_t i = b->crossing_of[instance] - 1; i >= 0; i = b->crossings.data[i].next) {
        const struct crossing *c = &b->crossings.data[i];
        const struct use *use = &b->use[c->use];
        if (use->same_backward != c->use)
            continue;
        const struct joint *j = use->joint;
        needs = push_steps(w, use, j->backward[0], j->backward[0]->send + 1, j->backward[0]->steps,
                           FLOW_GRADIENT, needs);
        needs = all_steps(w, use, j->backward[1], FLOW_GRADIENT, needs);
    }
    return needs;
}

/* I2: what the backward pass reads again and a reshard had gathered. */
static int32_t gather_again(struct writer *w, int64_t instance)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    const struct build *b = w->b;
    const struct op *op = laid_of(b, instance)->op;
    int32_t needs = -1;
    for (int32_t k = 0; k < op->inputs && k < (int32_t)COUNT_OF(INPUTS); k++) {
        const struct use *use = &b->use[b->use_first[instance] + k];
        if (!use->joint || use->joint->across || !(op->keep & INPUTS[k]) || !gathers(use->joint))
            continue;
        int32_t *done = &w->step_of[use->same_forward - w->first_use];
        if (*done < w->floor || *done < w->layer) {
            int32_t after = all_steps(w, use, use->joint->forward[0], FLOW_FORWARD, w->last_op);
            *done = all_steps(w, use, use->joint->forward[1], FLOW_FORWARD, after);
        }
        needs = *done > needs ? *done : needs;
    }
    return needs;
}

bool is_product(enum op_kind kind)
{
    return kind == OP_LINEAR || kind == OP_EXPERT_LINEAR || kind == OP_CONV;
}

static void backward_op(struct writer *w, int64_t instance, bool inputs, bool weights)
{
    const struct build *b = w->b;
    const struct op *op = laid_of(b, instance)->op;
    bool product = is_product(op->kind);
    int32_t needs = -1, gathered = -1;
    if (inputs && op->input_grad) {
        needs = receive_back(w, instance);
        if (!product || weights)
            gathered = gather_again(w, instance);
        int32_t at = push_op(w, instance, PHASE_BACKWARD_INPUT, PURPOSE_BACKWARD,
                             product || gathered < needs ? needs : gathered);
        for (int64_t u = b->use_first[instance]; u < b->use_first[instance + 1]; u++)
            send_back(w, u, at);
    } else if (inputs) {
        needs = receive_back(w, instance);
    }
    if (weights && op->weights) {
        if (!inputs || !op->input_grad)
            gathered = gather_again(w, instance);
        push_op(w, instance, PHASE_BACKWARD_WEIGHT, PURPOSE_BACKWARD,
                gathered > needs ? gathered : needs);
    }
}

static void write_backward(struct writer *w, bool inputs, bool weights)
{
    const struct plan *plan = w->b->plan;
    const struct part *part = &plan->part[w->part];
    int64_t done = part->first + part->count; /* instances from here on are there again */
    for (int64_t i = part->first + part->count - 1; i >= part->first; i--) {
        if (plan->ends_layer[i])
            w->layer = (int32_t)w->items.len;
        if (inputs && plan_choice(plan, i)->recompute && i < done) {
            done = run_start(w, i);
            recompute(w, i);
        }
        backward_op(w, i, inputs, weights);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void write_block(struct build *b, int32_t part, enum slot_kind kind)
{
    const struct part *range = &b->plan->part[part];
    int64_t first_use = b->use_first[range->first];
    size_t uses = (size_t)(b->use_first[range->first + range->count] - first_use);
    struct writer w = {.b = b,
                       .part = part,
                       .stage = stage_of_part(b, part),
                       .last_op = -1,
                       .last_step = -1,
                       .brought = -1,
                       .first_use = first_use};
    w.item_of = ARENA_ARRAY(b->scratch, int32_t, (size_t)range->count);
    w.step_of = ARENA_ARRAY(b->scratch, int32_t, uses);
    w.gradient_of = ARENA_ARRAY(b->scratch, int32_t, (size_t)range->count);
    memset(w.gradient_of, -1, (size_t)range->count * sizeof *w.gradient_of);
    memset(w.item_of, -1, (size_t)range->count * sizeof *w.item_of);
    memset(w.step_of, -1, uses * sizeof *w.step_of);
    if (kind == SLOT_FORWARD)
        write_forward(&w);
    else
        write_backward(&w, kind != SLOT_BACKWARD_WEIGHT, kind != SLOT_BACKWARD_INPUT);
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
    struct pipeline pipeline = {b->plan->stages, (int32_t)b->plan->pieces,
                                (int32_t)plan_micro_batches(b->plan)};
    const struct schedule *schedule = schedule_find(b->plan->schedule);
    bool used[SLOT_KIND_COUNT] = {false};
    b->again = plan_again(b->scratch, b->plan);
    schedule->order(&pipeline, 0, b->scratch, &slots);
    for (size_t i = 0; i < slots.len; i++)
        used[slots.data[i].kind] = true;
    for (int kind = 0; kind <= (int)last; kind++) {
        b->block_of[kind] = ARENA_ARRAY(b->scratch, int32_t, (size_t)b->plan->parts);
        memset(b->block_of[kind], -1, (size_t)b->plan->parts * sizeof(int32_t));
        for (int32_t part = 0; used[kind] && part < b->plan->parts; part++)
            write_block(b, part, (enum slot_kind)kind);
    }
}
