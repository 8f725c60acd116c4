/* lifetimes.c - follows the passes of a part item by item: what each takes, reads and leaves.
 *
 * For every operator, input and gradient the trace knows the tensor that currently stands for it (a
 * *life*); an item that makes a new one replaces it, an item that reads it extends its life. What
 * the backward pass still reads is thereby kept, without a rule of its own:
 *
 *   dies(tensor) = the last item that reads it, in the order forward, backward                 (1)
 */
#include "compile/lives.h"

#include <math.h>
#include <string.h>

/* ---- lives ----------------------------------------------------------------------------------- */

static bool is_graphed(const struct plan *plan, int64_t instance)
{
    return software_word(&plan->software, FACT_GRAPH_POOLS) == GRAPH_POOLS_OWN && instance >= 0 &&
           op_in_layer(plan->model, &plan->model->op[plan->instance[instance].op]);
}

int32_t take_life(struct life_trace *t, enum held held, int64_t instance, double bytes)
{
    bool graphed = is_graphed(t->b->plan, instance);
    struct lifetime life = {.bytes = (int64_t)ceil(bytes),
                            .instance = instance,
                            .held = (uint8_t)held,
                            .stream = graphed ? MEMORY_GRAPHED : MEMORY_COMPUTED,
                            .born_in = (uint8_t)t->kind,
                            .dies_in = (uint8_t)t->kind,
                            .born = t->at,
                            .dies = t->at,
                            .run = life_run(t, instance)};
    if (life.bytes == 0)
        return NOTHING;
    array_push(t->b->scratch, &t->lives, life);
    return (int32_t)t->lives.len - 1;
}

/* lifetimes.h, I4, I11: whether the first item of the backward pass that reads the tensor lets it wait there. */
static enum offload waits_in_host(const struct life_trace *t)
{
    if (!t->item)
        return OFFLOAD_NOTHING;
    const struct choice *choice = plan_choice(t->b->plan, t->item->instance);
    bool again = t->item->purpose == PURPOSE_RECOMPUTE ||
                 (t->item->kind == ITEM_STEP && t->item->phase == FLOW_FORWARD);
    if (!choice->recompute)
        return choice->offload == OFFLOAD_KEPT ? OFFLOAD_KEPT : OFFLOAD_NOTHING;
    return again ? (enum offload)choice->offload : OFFLOAD_NOTHING;
}

/* I11: whether a later one does. */
static bool may_wait(const struct life_trace *t)
{
    return !t->item || plan_choice(t->b->plan, t->item->instance)->offload != OFFLOAD_NOTHING;
}

void read_life(struct life_trace *t, int32_t number) /* (1) */
{
    if (number == NOTHING)
        return;
    struct lifetime *life = &t->lives.data[number];
    if (life->dies_in == SLOT_FORWARD && t->kind != SLOT_FORWARD) {
        life->offloaded = (uint8_t)waits_in_host(t);
        life->left = life->dies;
        life->back_in = (uint8_t)t->kind;
        life->back = t->at;
    } else if (t->kind != SLOT_FORWARD && !may_wait(t)) {
        life->offloaded = OFFLOAD_NOTHING;
    }
    life->dies_in = (uint8_t)t->kind;
    life->dies = t->at;
}

static bool in_part(const struct life_trace *t, int64_t instance)
{
    return instance >= 0 && t->b->part_of[instance] == t->part;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static double output_bytes(const struct life_trace *t, int64_t instance)
{
    const struct laid *laid = laid_of(t->b, instance);
    return operand_bytes(laid->op, &laid->op->output, laid->local, t->b->plan->dtype);
}

static double step_bytes(const struct life_trace *t, const struct use *use,
                         const struct reshard_step *step)
{
    const struct op *op = laid_of(t->b, use->reader)->op;
    return (double)(step->elements *
                    element_bytes(op->input[use->operand].element, t->b->plan->dtype));
}

/* ---- reshards -------------------------------------------------------------------------------- */

struct joint_steps joint_forward_steps(const struct joint *j)
{
    if (j->across)
        return (struct joint_steps){{NULL, j->forward[1]}, j->forward[1]->send + 1};
    return (struct joint_steps){{j->forward[0], j->forward[1]}, 0};
}

const struct reshard_step *joint_first_step(const struct joint_steps *s)
{
    if (s->reshard[0] && s->reshard[0]->steps)
        return s->reshard[0]->step;
    const struct reshard *r = s->reshard[1];
    return r && s->from < r->steps ? &r->step[s->from] : NULL;
}

static bool in_place(const struct joint_steps *s)
{
    for (int k = 0; k < 2; k++)
        for (int32_t i = k ? s->from : 0; s->reshard[k] && i < s->reshard[k]->steps; i++)
            if (!step_in_place(&s->reshard[k]->step[i]))
                return false;
    return true;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* The tensor that a use's reshard starts from. */
int32_t life_origin(const struct life_trace *t, const struct use *use)
{
    if (in_part(t, use->source)) {
        int64_t place = life_place(t, use->source);
        return t->whole[place] != NOTHING ? t->whole[place] : t->output[place];
    }
    int64_t leader = use->joint ? use->same_forward : use - t->b->use;
    return t->received[leader - t->first_use];
}

/* The tensor that an operator reads as its input. */
int32_t input_life(const struct life_trace *t, const struct use *use)
{
    struct joint_steps steps =
        use->joint ? joint_forward_steps(use->joint) : (struct joint_steps){0};
    return joint_first_step(&steps) ? t->copy[use->same_forward - t->first_use]
                                    : life_origin(t, use);
}

/* I6. */
static void receive_inputs(struct life_trace *t, const struct part *part)
{
    const struct build *b = t->b;
    for (int64_t u = t->first_use; u < b->use_first[part->first + part->count]; u++) {
        const struct use *use = &b->use[u];
        if (in_part(t, use->source) || use->same_forward != u)
            continue;
        double bytes = use->source < 0 ? input_with_halo(t, use) : life_input_bytes(t, use);
        if (use->joint && use->joint->across) {
            struct joint_steps steps = joint_forward_steps(use->joint);
            struct crossing_samples n = joint_samples(b->plan, use->joint, false);
            if (joint_first_step(&steps))
                bytes = step_bytes(t, use, &steps.reshard[1]->step[steps.from - 1]) *
                        (double)(n.to / n.each);
        }
        t->received[u - t->first_use] = take_life(t, use->source < 0 ? HELD_INPUT : HELD_RECEIVED,
                                                  use->reader, received_bytes(t, use, bytes));
    }
}

static void forward_op(struct life_trace *t, int64_t instance)
{
    const struct build *b = t->b;
    const struct laid *laid = laid_of(b, instance);
    take_steps(t, laid, true);
    for (int64_t u = b->use_first[instance]; u < b->use_first[instance + 1]; u++)
        read_life(t, input_life(t, &b->use[u]));
    take_cast(t, instance);
    t->output[life_place(t, instance)] =
        take_life(t, HELD_OUTPUT, instance, output_bytes(t, instance));
    t->whole[life_place(t, instance)] = NOTHING;
    t->extra[life_place(t, instance)] =
        take_life(t, HELD_EXTRA, instance, plan_extra_bytes(b->plan, laid->op, laid->local));
}

/* Of what goes round a ring a device holds the chunk that it reads and the one that comes (blocks.c, I7). */
static double copy_bytes(const struct life_trace *t, const struct use *use)
{
    return life_input_bytes(t, use) * (t->item->chunks > 2 ? 2.0 / t->item->chunks : 1);
}

/* A step of an input's reshard (lifetimes.h, I3). */
static void forward_step(struct life_trace *t, const struct use *use)
{
    if (parting_of(t->b->in_parts, use, t->item->step)) {
        parting_step(t, use);
        return;
    }
    struct joint_steps steps = joint_forward_steps(use->joint);
    int32_t *copy = &t->copy[use->same_forward - t->first_use];
    if (t->item->step != joint_first_step(&steps)) {
        read_life(t, *copy);
        return;
    }
    int32_t from = life_origin(t, use), cast = t->cast[life_place(t, use->reader)];
    if (t->kind != SLOT_FORWARD && t->item->purpose != PURPOSE_RECOMPUTE && cast != NOTHING)
        from = cast; /* gathered again from what is kept */
    read_life(t, from);
    *copy = in_place(&steps) ? from : take_life(t, HELD_COPY, use->reader, copy_bytes(t, use));
}

/* A step before a send. */
static void send_step(struct life_trace *t, const struct use *use)
{
    int32_t before = t->sending;
    if (use - t->b->use != t->sending_use)
        before = t->output[life_place(t, use->source)];
    read_life(t, before);
    t->sending_use = use - t->b->use;
    t->sending = before;
    if (!step_in_place(t->item->step))
        t->sending = take_life(t, HELD_COPY, use->source, step_bytes(t, use, t->item->step));
}

/* At the end of a forward block: the tensors that other stages read. */
static void send_outputs(struct life_trace *t)
{
    const struct build *b = t->b;
    for (size_t i = 0; i < b->crossings.len; i++) {
        const struct crossing *c = &b->crossings.data[i];
        if (c->from_part == t->part)
            read_life(t, t->output[life_place(t, b->use[c->use].source)]);
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Adds a gradient to the sum so far (I5). */
static void add_gradient(struct life_trace *t, int32_t *sum, int32_t more)
{
    read_life(t, *sum);
    read_life(t, more);
    *sum = more;
}

static bool leaves(const struct life_trace *t, const struct use *use)
{
    return use->joint->across || !in_part(t, use->source);
}

/* The gradient of one input, made by its reader's backward pass. */
static void make_gradient(struct life_trace *t, const struct use *use)
{
    const struct build *b = t->b;
    if (!use->joint || !op_wants_gradient(laid_of(b, use->source)->op))
        return;
    const struct op *op = laid_of(b, use->reader)->op;
    bool moves = leaves(t, use) || use->joint->backward[0] || use->joint->backward[1];
    int32_t *sum = moves ? &t->raw[use->same_backward - t->first_use]
                         : &t->gradient[life_place(t, use->source)];
    if (use->joint->part && !moves) { /* each reader writes its part of one tensor */
        if (*sum == NOTHING)
            *sum = take_life(t, HELD_GRADIENT, use->source, life_gradient_bytes(t, use->source));
        read_life(t, *sum);
        return;
    }
    if (op->kind == OP_LOSS &&
        (op->keep & (KEEP_INPUT_0 | KEEP_APART)) == KEEP_INPUT_0) { /* overwrites the logits */
        add_gradient(t, sum, input_life(t, use));
        return;
    }
    double bytes = life_input_gradient_bytes(t, use);
    bool passes = use->operand < 32 && op_passes_on(op, use->operand) && *sum == NOTHING &&
                  bytes == life_gradient_bytes(t, use->reader);
    int32_t own = passes ? t->gradient[life_place(t, use->reader)]
                         : take_life(t, HELD_GRADIENT, use->source, bytes);
    add_gradient(t, sum, own);
}

/* A step that brings a gradient to its producer, or to its send. */
static void gradient_step(struct life_trace *t, const struct use *use)
{
    const struct joint *j = use->joint;
    if (!in_part(t, use->reader)) { /* received: brought to its layout in place */
        read_life(t, t->gradient[life_place(t, use->source)]);
        return;
    }
    int32_t *raw = &t->raw[use->same_backward - t->first_use];
    struct joint_steps steps = {{j->backward[0], j->backward[1]}, 0};
    bool first = *raw != NOTHING && t->item->step == joint_first_step(&steps);
    int32_t before = *raw;
    if (leaves(t, use)) {
        read_life(t, before);
        if (!step_in_place(t->item->step))
            *raw = take_life(t, HELD_GRADIENT, use->source, step_bytes(t, use, t->item->step));
        return;
    }
    int32_t *sum = &t->gradient[life_place(t, use->source)];
    if (!first) {
        read_life(t, *sum);
        return;
    }
    read_life(t, before);
    *raw = NOTHING;
    if (in_place(&steps))
        add_gradient(t, sum, before);
    else
        add_gradient(t, sum,
                     take_life(t, HELD_GRADIENT, use->source, life_gradient_bytes(t, use->source)));
}

static bool in_fp32(enum policy policy)
{
    return policy != POLICY_FP32 && policy_gradient_bytes(policy) == 4;
}

/* I7: gradients of weights that are made as separate tensors before they are added. */
static void weight_gradients(struct life_trace *t, const struct laid *laid)
{
    const struct plan *plan = t->b->plan;
    double elements = 0;
    bool in_layer = op_in_layer(plan->model, laid->op);
    bool added = in_fp32(plan->policy) ? is_product(laid->op->kind) && in_layer
                                       : plan_passes(plan, laid->choice) == 1;
    if (added || laid->choice->shard >= 2 ||
        cluster_all_devices(plan->cluster, device_adds_gradients))
        return;
    for (int32_t i = 0; i < laid->op->weights; i++)
        elements += operand_elements(laid->op, &laid->op->weight[i].operand, laid->local);
    take_life(t, HELD_WEIGHT_GRADIENTS, t->item->instance, elements * dtype_bytes(plan->dtype));
}

static void read_kept(struct life_trace *t, int64_t instance)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    const struct build *b = t->b;
    const struct laid *laid = laid_of(b, instance);
    const struct op *op = laid->op;
    bool all = attention_keeps_cast(b, instance);
    int32_t cast = t->cast[life_place(t, instance)], k = all ? op->inputs : cast != NOTHING;
    read_life(t, op->inputs && laid->turn[0] ? NOTHING : cast);
    for (; k < op->inputs && k < (int32_t)COUNT_OF(INPUTS); k++)
        if ((plan_keeps(b->plan, op) & INPUTS[k]) && !laid->turn[k])
            read_life(t, input_life(t, &b->use[b->use_first[instance] + k]));
    read_turned(t, instance);
    if ((op->keep & KEEP_OUTPUT) && !all)
        read_life(t, t->output[life_place(t, instance)]);
    read_life(t, t->extra[life_place(t, instance)]);
}

static void backward_op(struct life_trace *t, int64_t instance, enum phase phase)
{
    const struct build *b = t->b;
    const struct laid *laid = laid_of(b, instance);
    int32_t *gradient = &t->gradient[life_place(t, instance)];
    if (*gradient == NOTHING) { /* of a loss, or from another part of this stage (I6) */
        int32_t now = t->at;
        t->at = -1;
        *gradient = take_life(t, HELD_GRADIENT, instance, life_gradient_bytes(t, instance));
        t->at = now;
    }
    read_life(t, *gradient);
    if (phase == PHASE_BACKWARD_WEIGHT || !is_product(laid->op->kind))
        read_kept(t, instance);
    if (phase == PHASE_BACKWARD_WEIGHT)
        weight_gradients(t, laid);
    else
        take_steps(t, laid, false);
    for (int64_t u = b->use_first[instance];
         phase == PHASE_BACKWARD_INPUT && u < b->use_first[instance + 1]; u++)
        make_gradient(t, &b->use[u]);
}

/* I6: at the start of a backward block. */
static void receive_gradients(struct life_trace *t)
{
    const struct build *b = t->b;
    for (size_t i = 0; i < b->crossings.len; i++) {
        const struct crossing *c = &b->crossings.data[i];
        const struct use *use = &b->use[c->use];
        if (c->from_part == t->part && use->same_backward == c->use &&
            laid_of(b, use->reader)->op->input_grad &&
            op_wants_gradient(laid_of(b, use->source)->op))
            add_gradient(t, &t->gradient[life_place(t, use->source)],
                         take_life(t, HELD_GRADIENT, use->source, buffered_gradient(t, c)));
    }
}

static void send_gradients(struct life_trace *t, const struct part *part)
{
    for (int64_t u = t->first_use; u < t->b->use_first[part->first + part->count]; u++)
        read_life(t, t->raw[u - t->first_use]);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void follow(struct life_trace *t, const struct item *item)
{
    const struct use *use = NULL;
    if (item->rest)
        return;
    if (item->kind == ITEM_STEP)
        use = &t->b->use[t->b->use_first[item->instance] + item->operand];
    if (item->halo || !use)
        halo_lives(t, use);
    if (!use && item->phase == PHASE_FORWARD)
        forward_op(t, item->instance);
    else if (!use)
        backward_op(t, item->instance, (enum phase)item->phase);
    else if (item->phase == FLOW_GRADIENT && !item->halo)
        gradient_step(t, use);
    else if (item->turns)
        turn_step(t, use);
    else if (in_part(t, use->reader) && !item->halo)
        forward_step(t, use);
    else if (!item->halo)
        send_step(t, use);
}

static void follow_block(struct life_trace *t, const struct block *block)
{
    const struct part *part = &t->b->plan->part[t->part];
    bool forward = block->kind == SLOT_FORWARD;
    t->kind = block->kind;
    t->at = -1;
    t->item = NULL;
    if (forward)
        receive_inputs(t, part);
    else if (block->kind != SLOT_BACKWARD_WEIGHT)
        receive_gradients(t);
    for (t->at = 0; t->at < block->items; t->at++) {
        t->item = &block->item[t->at];
        follow(t, t->item);
    }
    t->item = NULL;
    if (forward)
        send_outputs(t);
    else if (block->kind != SLOT_BACKWARD_WEIGHT)
        send_gradients(t, part);
    hold_longer(t);
    trace_buckets(t->b, block, &t->lives);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int32_t *nothings(struct arena *scratch, int64_t count)
{
    int32_t *all = ARENA_ARRAY(scratch, int32_t, (size_t)count);
    memset(all, NOTHING, (size_t)count * sizeof *all);
    return all;
}

static void trace_part(struct build *b, int32_t number, struct part_lifetimes *out)
{
    const struct part *part = &b->plan->part[number];
    int64_t first_use = b->use_first[part->first];
    int64_t uses = b->use_first[part->first + part->count] - first_use;
    struct life_trace t = {.b = b,
                           .part = number,
                           .first = part->first,
                           .first_use = first_use,
                           .output = nothings(b->scratch, part->count),
                           .extra = nothings(b->scratch, part->count),
                           .gradient = nothings(b->scratch, part->count),
                           .cast = nothings(b->scratch, part->count),
                           .parts = nothings(b->scratch, part->count),
                           .whole = nothings(b->scratch, part->count),
                           .received = nothings(b->scratch, uses),
                           .copy = nothings(b->scratch, uses),
                           .raw = nothings(b->scratch, uses),
                           .turned = nothings(b->scratch, uses),
                           .sending = NOTHING,
                           .sending_use = NOTHING};
    for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
        if (b->block_of[kind][number] >= 0)
            follow_block(&t, &b->blocks.data[b->block_of[kind][number]]);
    copy_by_layer(b, number, &t.lives, &out->copies);
    out->buffers = (int64_t)t.buffers;
    out->lives = (int32_t)t.lives.len;
    out->life = ARENA_ARRAY(b->keep, struct lifetime, t.lives.len);
    for (int32_t i = 0; i < out->lives; i++) {
        struct lifetime *life = &out->life[i];
        *life = t.lives.data[i];
        if (life->held == HELD_WEIGHTS)
            life->memory = MEMORY_WEIGHTS;
        else if (life->held == HELD_WEIGHT_GRADIENTS)
            life->memory = MEMORY_GRADIENTS;
        else /* I2 */
            life->memory = life->born_in == life->dies_in && !life->copied ? MEMORY_WORKSPACE
                                                                           : MEMORY_ACTIVATIONS;
    }
    for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
        if (b->block_of[kind][number] >= 0)
            out->events[kind] =
                block_memory_events(b, out, &b->blocks.data[b->block_of[kind][number]]);
}

void find_lifetimes(struct build *b)
{
    struct lifetimes *all = ARENA_NEW(b->keep, struct lifetimes);
    all->part = ARENA_ARRAY(b->keep, struct part_lifetimes, (size_t)b->plan->parts);
    for (int32_t part = 0; part < b->plan->parts; part++)
        trace_part(b, part, &all->part[part]);
    b->graph->lifetimes = all;
}
