/* liveness.c - which item of a stage reads each tensor last.
 *
 * Every item of a block reads some tensors of its micro-batch and writes some. In the order in which
 * the blocks of a stage run for one micro-batch (forward by part, backward the other way round),
 *
 *   a tensor is given up after the last item that reads it                                      (1)
 *
 * and what nobody reads is given up at once. (lifetimes.h says the same to the simulator.)
 *
 *   I1  What is sent is read at the end of its block.
 *   I2  What is read in a backward block by a recomputed operator that offloads, or by one that offloads what it
 *       keeps, and was made in a forward block, waits in host memory (lifetimes.h, I4, I11): if no other part reads it
 *       forward later, and nobody that offloads nothing reads it in a backward block.
 *   I3  Gathered weights are given up in the block that they were gathered for.
 */
#include "run/rank/room.h"

#include <string.h>

static const bool PER_USE[KEY_KIND_COUNT] = {
    [KEY_INPUT] = true,    [KEY_COPY] = true,    [KEY_TURNED] = true,
    [KEY_RECEIVED] = true, [KEY_SENDING] = true, [KEY_RAW] = true,
    [KEY_BACK] = true,     [KEY_OUTBOX] = true,  [KEY_INBOX] = true};

int32_t key_of(const struct rank *r, enum key_kind kind, int64_t number)
{
    int64_t first = 0;
    for (int k = 0; k < (int)kind; k++)
        first += PER_USE[k] ? r->uses : r->instances;
    return (int32_t)(first + number);
}

bool makes_product(enum op_kind kind)
{
    return kind == OP_LINEAR || kind == OP_EXPERT_LINEAR || kind == OP_CONV;
}

bool takes_gradient(const struct op *op)
{
    return op->input_grad || op->weights;
}

/* ---- the way of an input --------------------------------------------------------------------- */

static const struct use *use_at(const struct rank *r, int64_t use)
{
    return &r->graph->uses->use[use];
}

static bool has_steps(const struct reshard *reshard, int32_t from)
{
    return reshard && from < reshard->steps;
}

/* Whether steps in the reader's block bring it. */
static bool is_brought(const struct joint *j)
{
    if (j->across)
        return has_steps(j->forward[1], j->forward[1]->send + 1);
    return has_steps(j->forward[0], 0) || has_steps(j->forward[1], 0);
}

static int32_t origin_key(const struct rank *r, const struct use *use)
{
    return use->joint->across ? key_of(r, KEY_RECEIVED, use->same_forward)
                              : key_of(r, KEY_OUTPUT, use->source);
}

/* Steps after the send that do what the sender has done. */
static int32_t leading_slices(const struct reshard *reshard)
{
    int32_t at = reshard->send + 1;
    while (at < reshard->steps && reshard->step[at].kind == STEP_SLICE)
        at++;
    return at - reshard->send - 1;
}

/* Whether all that steps would do is done by the sender. */
static bool only_slices(const struct joint *j)
{
    return j->across &&
           leading_slices(j->forward[1]) == j->forward[1]->steps - j->forward[1]->send - 1;
}

int32_t input_key(const struct rank *r, int64_t u)
{
    const struct use *use = use_at(r, u);
    if (use->source < 0)
        return key_of(r, KEY_INPUT, u);
    if (is_brought(use->joint) && !only_slices(use->joint))
        return key_of(r, KEY_COPY, use->same_forward);
    return origin_key(r, use);
}

static bool is_of(const struct reshard *reshard, const struct reshard_step *step, int32_t *index)
{
    bool found = reshard && step >= reshard->step && step < reshard->step + reshard->steps;
    if (found)
        *index = (int32_t)(step - reshard->step);
    return found;
}

/* An output that waits in parts is cut, and later takes the place of what it was. */
static struct step_place parting_place(const struct rank *r, const struct use *use,
                                       const struct reshard_step *step, enum parting parting)
{
    const struct in_parts *in_parts = &r->graph->uses->in_parts[use->source];
    bool cuts = parting == PARTING_SLICE;
    struct step_place place = {.use = use - r->graph->uses->use,
                               .joint = use->joint,
                               .flow = FLOW_FORWARD,
                               .to = key_of(r, cuts ? KEY_PARTS : KEY_OUTPUT, use->source)};
    bool first = step == (cuts ? in_parts->slices : in_parts->gathers)->step;
    place.from = first ? key_of(r, cuts ? KEY_OUTPUT : KEY_PARTS, use->source) : place.to;
    return place;
}

static struct step_place forward_place(const struct rank *r, const struct use *use,
                                       const struct reshard_step *step, bool receives)
{
    const struct joint *j = use->joint;
    struct step_place place = {.use = use - r->graph->uses->use, .joint = j, .flow = FLOW_FORWARD};
    int32_t index = 0;
    place.second = is_of(j->forward[1], step, &index);
    if (!place.second)
        is_of(j->forward[0], step, &index);
    bool first = index == 0 && (!place.second || !has_steps(j->forward[0], 0));
    if (receives) {
        int32_t after = index - j->forward[1]->send - 1, slices = leading_slices(j->forward[1]);
        first = after == slices;
        place.nothing = after < slices;
    }
    place.to = key_of(r, j->across && !receives ? KEY_SENDING : KEY_COPY, use->same_forward);
    place.from = place.to;
    if (first)
        place.from = receives ? origin_key(r, use) : key_of(r, KEY_OUTPUT, use->source);
    return place;
}

static struct step_place gradient_place(const struct rank *r, const struct use *use,
                                        const struct reshard_step *step, bool receives)
{
    const struct joint *j = use->joint;
    struct step_place place = {.use = use - r->graph->uses->use, .joint = j, .flow = FLOW_GRADIENT};
    int32_t index = 0;
    place.second = !is_of(j->backward[0], step, &index);
    place.from = place.to = key_of(r, receives ? KEY_BACK : KEY_RAW, use->same_backward);
    if (receives && !place.second)
        place.nothing = index - j->backward[0]->send - 1 < leading_slices(j->backward[0]);
    return place;
}

/* From the input as the forward pass has read it. */
static struct step_place turning_place(const struct rank *r, const struct use *use,
                                       const struct reshard_step *step)
{
    int64_t u = use - r->graph->uses->use;
    struct step_place place = {.use = u,
                               .joint = use->joint,
                               .flow = FLOW_FORWARD,
                               .second = true,
                               .to = key_of(r, KEY_TURNED, u)};
    bool first = step == use->joint->to->turn[use->operand]->step;
    place.from = first ? input_key(r, u) : place.to;
    return place;
}

struct step_place place_of_step(const struct rank *r, int32_t part, const struct item *item)
{
    const struct graph_uses *uses = r->graph->uses;
    const struct use *use = &uses->use[uses->use_first[item->instance] + item->operand];
    bool reads = uses->part_of[use->reader] == part;
    enum parting parting = parting_of(uses->in_parts, use, item->step);
    if (item->turns)
        return turning_place(r, use, item->step);
    if (parting && item->phase == FLOW_FORWARD)
        return parting_place(r, use, item->step, parting);
    if (item->phase == FLOW_FORWARD)
        return forward_place(r, use, item->step, use->joint->across && reads);
    return gradient_place(r, use, item->step, use->joint->across && !reads);
}

/* ---- what items read and write --------------------------------------------------------------- */

struct version {
    bool live, from_forward;
    int32_t block, item; /* the last access */
};

struct list {
    int32_t *data;
    size_t len, cap;
};

struct tracing {
    struct rank *r;
    struct arena *scratch;
    struct version *version; /* per key */
    struct list **drop;      /* per block: per item, and one past the last */
    struct list *offload;    /* per part */
    int32_t block, item;
    const struct item *at; /* NULL: the end of a block */
};

static bool forward_block(const struct tracing *t, int32_t block)
{
    return t->r->graph->block[block].kind == SLOT_FORWARD;
}

/* I2 */
static bool waits_in_host(const struct tracing *t)
{
    if (!t->at)
        return false;
    const struct choice *choice = plan_choice(t->r->plan, t->at->instance);
    bool again = t->at->purpose == PURPOSE_RECOMPUTE ||
                 (t->at->kind == ITEM_STEP && t->at->phase == FLOW_FORWARD);
    return choice->recompute ? again && choice->offload : choice->offload == OFFLOAD_KEPT;
}

/* I2: one that offloads nothing reads it, too. */
static void stays(struct tracing *t, int32_t key)
{
    struct list *list = &t->offload[t->r->graph->block[t->block].part];
    for (size_t i = 0; i < list->len; i++)
        if (list->data[i] == key)
            list->data[i] = list->data[--list->len];
}

static void reads(struct tracing *t, int32_t key)
{
    struct version *v = &t->version[key];
    const struct block *block = t->r->graph->block;
    bool first_back =
        v->live && v->from_forward && forward_block(t, v->block) && !forward_block(t, t->block);
    if (first_back && waits_in_host(t) && block[v->block].part == block[t->block].part)
        array_push(t->scratch, &t->offload[block[t->block].part], key);
    else if (v->from_forward && !first_back && !forward_block(t, t->block) && t->at &&
             plan_choice(t->r->plan, t->at->instance)->offload == OFFLOAD_NOTHING)
        stays(t, key);
    if (!v->live)
        v->from_forward = forward_block(t, t->block);
    *v = (struct version){true, v->from_forward, t->block, t->item};
}

static void end_version(struct tracing *t, int32_t key)
{
    struct version *v = &t->version[key];
    if (v->live)
        array_push(t->scratch, &t->drop[v->block][v->item], key);
    v->live = false;
}

static void writes(struct tracing *t, int32_t key)
{
    struct version *v = &t->version[key];
    bool replaces = v->live && v->block == t->block && v->item == t->item;
    if (!replaces)
        end_version(t, key);
    *v = (struct version){true, forward_block(t, t->block), t->block, t->item};
}

/* ---- operators and steps --------------------------------------------------------------------- */

static void trace_weights(struct tracing *t, int64_t instance)
{
    const struct rank *r = t->r;
    int32_t bucket = r->graph->uses->bucket_of[instance];
    if (bucket >= 0 && r->graph->bucket[bucket].shard == 3 &&
        r->graph->block[t->block].kind != SLOT_BACKWARD_WEIGHT)
        reads(t, key_of(r, KEY_WEIGHTS, bucket));
}

static void trace_forward(struct tracing *t, int64_t instance)
{
    const struct graph_uses *uses = t->r->graph->uses;
    for (int64_t u = uses->use_first[instance]; u < uses->use_first[instance + 1]; u++) {
        if (uses->use[u].source < 0)
            writes(t, input_key(t->r, u));
        reads(t, input_key(t->r, u));
    }
    writes(t, key_of(t->r, KEY_OUTPUT, instance));
    writes(t, key_of(t->r, KEY_KEPT, instance));
}

/* The gradient of its output, added up by the first of its backward phases. */
static void trace_gradient(struct tracing *t, int64_t instance)
{
    const struct rank *r = t->r;
    const struct graph_uses *uses = r->graph->uses;
    int32_t key = key_of(r, KEY_GRADIENT, instance);
    if (!t->version[key].live) {
        for (int32_t u = uses->last_use[instance]; u >= 0; u = uses->use[u].next)
            if (uses->use[u].same_backward == u &&
                graph_laid(r->graph, uses->use[u].reader)->op->input_grad)
                reads(t, key_of(r, uses->use[u].joint->across ? KEY_BACK : KEY_RAW, u));
        writes(t, key);
    }
    reads(t, key);
}

static void trace_kept(struct tracing *t, int64_t instance, enum phase phase)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    const struct graph_uses *uses = t->r->graph->uses;
    const struct op *op = graph_laid(t->r->graph, instance)->op;
    if (phase == PHASE_BACKWARD_INPUT && makes_product(op->kind))
        return;
    for (int32_t k = 0; k < op->inputs && k < (int32_t)COUNT_OF(INPUTS); k++)
        if (op->keep & INPUTS[k])
            reads(t, graph_laid(t->r->graph, instance)->turn[k]
                         ? key_of(t->r, KEY_TURNED, uses->use_first[instance] + k)
                         : input_key(t->r, uses->use_first[instance] + k));
    if (op->keep & KEEP_OUTPUT)
        reads(t, key_of(t->r, KEY_OUTPUT, instance));
    reads(t, key_of(t->r, KEY_KEPT, instance));
}

static void trace_backward(struct tracing *t, int64_t instance, enum phase phase)
{
    const struct graph_uses *uses = t->r->graph->uses;
    trace_gradient(t, instance);
    trace_kept(t, instance, phase);
    for (int64_t u = uses->use_first[instance];
         phase == PHASE_BACKWARD_INPUT && u < uses->use_first[instance + 1]; u++) {
        const struct use *use = &uses->use[u];
        if (use->source >= 0 && takes_gradient(use->joint->from->op))
            reads(t, key_of(t->r, KEY_RAW, use->same_backward)); /* added to */
    }
}

static void trace_item(struct tracing *t, const struct item *item)
{
    t->at = item;
    if (!item_is_at(item, t->r->device))
        return;
    if (item->kind == ITEM_STEP) {
        struct step_place place = place_of_step(t->r, t->r->graph->block[t->block].part, item);
        if (place.nothing)
            return;
        reads(t, place.from);
        writes(t, place.to);
        return;
    }
    trace_weights(t, item->instance);
    if (item->phase == PHASE_FORWARD)
        trace_forward(t, item->instance);
    else
        trace_backward(t, item->instance, (enum phase)item->phase);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* I1 */
static void trace_sends(struct tracing *t, const struct part *part, bool forward)
{
    const struct rank *r = t->r;
    const struct graph_uses *uses = r->graph->uses;
    for (int64_t u = 0; u < r->uses; u++) {
        const struct use *use = &uses->use[u];
        int64_t end = forward ? use->source : use->reader;
        if (!use->joint || !use->joint->across || end < part->first ||
            end >= part->first + part->count)
            continue;
        if (forward && use->same_forward == u)
            reads(t, has_steps(use->joint->forward[0], 0) || use->joint->forward[1]->send > 0
                         ? key_of(r, KEY_SENDING, u)
                         : key_of(r, KEY_OUTPUT, use->source));
        if (!forward && use->same_backward == u && use->joint->to->op->input_grad &&
            takes_gradient(use->joint->from->op))
            reads(t, key_of(r, KEY_RAW, u));
    }
}

static void trace_block(struct tracing *t, int32_t number)
{
    const struct rank *r = t->r;
    const struct block *block = &r->graph->block[number];
    t->block = number;
    for (t->item = 0; t->item < block->items; t->item++)
        trace_item(t, &block->item[t->item]);
    t->at = NULL;
    if (block->kind != SLOT_BACKWARD_WEIGHT)
        trace_sends(t, &r->plan->part[block->part], block->kind == SLOT_FORWARD);
    for (int32_t b = 0; b < block->buckets; b++)
        end_version(t, key_of(r, KEY_WEIGHTS, block->first_bucket + b)); /* I3 */
}

static void trace_kind(struct tracing *t, int32_t part, enum slot_kind kind)
{
    for (int32_t b = 0; b < t->r->graph->blocks; b++)
        if (t->r->graph->block[b].part == part && t->r->graph->block[b].kind == kind)
            trace_block(t, b);
}

static struct keys keep_list(struct arena *keep, const struct list *list)
{
    struct keys keys = {ARENA_ARRAY(keep, int32_t, list->len), (int32_t)list->len};
    if (list->len)
        memcpy(keys.key, list->data, list->len * sizeof *keys.key);
    return keys;
}

static void keep_lists(struct tracing *t)
{
    struct rank *r = t->r;
    r->drops = ARENA_ARRAY(r->arena, struct drops, (size_t)r->graph->blocks);
    for (int32_t b = 0; b < r->graph->blocks; b++) {
        int32_t items = r->graph->block[b].items;
        r->drops[b].after = ARENA_ARRAY(r->arena, struct keys, (size_t)items + 1);
        for (int32_t i = 0; i <= items; i++)
            r->drops[b].after[i] = keep_list(r->arena, &t->drop[b][i]);
    }
    r->offloads = ARENA_ARRAY(r->arena, struct keys, (size_t)r->plan->parts);
    for (int32_t part = 0; part < r->plan->parts; part++)
        r->offloads[part] = keep_list(r->arena, &t->offload[part]);
}

void find_moments(struct rank *r)
{
    static const enum slot_kind BACK[] = {SLOT_BACKWARD, SLOT_BACKWARD_INPUT, SLOT_BACKWARD_WEIGHT};
    const struct graph *graph = r->graph;
    struct tracing t = {.r = r, .scratch = arena_new()};
    t.version = ARENA_ARRAY(t.scratch, struct version, (size_t)r->keys);
    t.drop = ARENA_ARRAY(t.scratch, struct list *, (size_t)graph->blocks);
    t.offload = ARENA_ARRAY(t.scratch, struct list, (size_t)r->plan->parts);
    for (int32_t b = 0; b < graph->blocks; b++)
        t.drop[b] = ARENA_ARRAY(t.scratch, struct list, (size_t)graph->block[b].items + 1);
    for (int32_t part = r->stage; part < r->plan->parts; part = plan_next_part(r->plan, part))
        trace_kind(&t, part, SLOT_FORWARD);
    for (int32_t piece = (int32_t)r->plan->pieces - 1; piece >= 0; piece--)
        for (size_t k = 0; k < COUNT_OF(BACK); k++)
            trace_kind(&t, plan_part_of_piece(r->plan, r->stage, piece), BACK[k]);
    for (int64_t key = 0; key < r->keys; key++)
        end_version(&t, (int32_t)key);
    keep_lists(&t);
    arena_free(t.scratch);
}
