/* graph.c - all stages' slots as tasks, and what they wait for.
 *
 * Per stage, in the order of its schedule: a slot's block is cut into runs (runs.c) and every run
 * becomes a task of each of the stage's devices, a step's run one task of each group. Beside them
 *
 *   gradients    a bucket's synchronisation starts when the last micro-batch has completed it; with
 *                shard 2 and 3 when any has
 *   weights      with shard 3 gathered before each pass of a bucket, while the one before it is
 *                used; with shard 1 and 2 once, after the optimizer's step (graph.h, I5)
 *   crossings    sent at the end of the block that has them, waited for by the block that reads them
 *   checkpoints  that are offloaded leave behind their forward block and come back one slot ahead
 *
 * A folded schedule (aiao) synchronises the gradients of each piece but the first in two slices: one
 * behind its last backward slot, beside the backward slots of the next piece, and one in the next
 * iteration, beside the forward slots of the piece before; sizes go by the FLOPs of the passes
 * (Fold3D 4, Algorithm 2).
 *
 *   I1  Blocks are barriers: a block's first tasks wait for all of the block before it.
 *   I2  A block is one task per device where nobody waits for its inside, its steps meet no other
 *       traffic (graph.h, I2), and no gradients are synchronised beside it, which would slow its
 *       computation down but not its steps.
 *   I3  A group's exchange waits for all its members, and for the exchange before it on the same
 *       stream of each of them.
 */
#include "compile/build.h"

#include <string.h>

const char *purpose_name(enum purpose purpose)
{
    static const char *const NAMES[] = {
        [PURPOSE_FORWARD] = "forward",     [PURPOSE_BACKWARD] = "backward",
        [PURPOSE_RECOMPUTE] = "recompute", [PURPOSE_OPTIMIZER] = "optimizer",
        [PURPOSE_TENSOR] = "tp_comm",      [PURPOSE_DATA] = "dp_comm",
        [PURPOSE_PIPELINE] = "pp_comm",    [PURPOSE_OFFLOAD] = "offload",
    };
    _Static_assert(COUNT_OF(NAMES) == PURPOSE_COUNT, "a purpose without a name");
    return NAMES[purpose];
}

const char *stream_name(enum stream_kind stream)
{
    static const char *const NAMES[] = {
        [STREAM_COMPUTE] = "compute",    [STREAM_FEATURE] = "features",
        [STREAM_GRADIENT] = "gradients", [STREAM_PARAMETER] = "parameters",
        [STREAM_NEXT] = "to next stage", [STREAM_PREVIOUS] = "to previous stage",
        [STREAM_TO_HOST] = "to host",    [STREAM_FROM_HOST] = "from host",
    };
    _Static_assert(COUNT_OF(NAMES) == STREAM_COUNT, "a stream without a name");
    return NAMES[stream];
}

/* What the links of a block's steps may be shared with; it has steps. */
enum meeting { MEETS_SENDS, MEETS_GRADIENTS, MEETINGS, HAS_STEPS = MEETINGS };

/* ---- tasks and what they wait for ------------------------------------------------------------ */

enum { NONE = -1 };

struct wait {
    int32_t task, on;
};

/* The latest task of each stream, and other marks of one device of the stage at hand. */
struct mark {
    int32_t last[STREAM_COUNT];
    int32_t before_unit[2]; /* the tasks of either lane before the unit that was gathered last */
    int32_t features, computed; /* the latest step and computation before the block at hand */
};

/* A block's task that waits for what other stages send. */
struct gate {
    int32_t task, crossing, micro_batch, device; /* of the receiving stage, from 0 */
    bool backward;
};

/* The end of a device's iteration. */
struct ending {
    int32_t computed, optimizer; /* the last task before the optimizer's step, and that */
};

/* Crossings by part. */
struct by_part {
    int32_t *first; /* per part, and one behind */
    int32_t *crossing;
};

struct assembly {
    struct build *b;
    struct graph *graph;
    struct pipeline pipeline;
    ARRAY(struct task) tasks;
    ARRAY(struct wait) waits;
    ARRAY(struct gate) gates;
    int32_t *first_device;   /* per stage: its first device of the graph, and one behind */
    struct mark *mark;       /* per device of the graph */
    int32_t *sent[2];        /* forward, backward: per crossing and micro-batch, the first task */
    struct runs *runs[CUTS]; /* per block, cut so far */
    struct ending *ending;   /* per device of the graph */
    int32_t *stored; /* per piece and micro-batch: the first task that took it to the host */
    struct by_part leaving, arriving; /* by from_part, by to_part */
    uint8_t *met;   /* per block: whether it has steps, and what their links may meet (meetings) */
    bool *meets[2]; /* per pattern: its links are also those of sends; of gradients */
    int32_t stage;
    bool synchronising; /* gradients of this stage have begun to go */
};

static void wait_for(struct assembly *a, int32_t task, int32_t on)
{
    struct wait wait = {task, on};
    if (on != NONE && on != task)
        array_push(a->b->scratch, &a->waits, wait);
}

static int32_t add_task(struct assembly *a, struct task task)
{
    int32_t number = (int32_t)a->tasks.len;
    array_push(a->b->keep, &a->tasks, task);
    a->mark[task.device].last[task.stream] = number;
    return number;
}

static int32_t devices_of(const struct assembly *a, int32_t stage)
{
    return a->first_device[stage + 1] - a->first_device[stage];
}

/* The place in the graph of one of the cluster's devices, which is of this stage. */
static int32_t graph_device(const struct assembly *a, int32_t stage, int64_t device)
{
    int64_t place = a->graph->folded ? 0 : device - a->b->plan->stage[stage].first_device;
    return a->first_device[stage] + (int32_t)place;
}

/* ---- exchanges within a stage ---------------------------------------------------------------- */

/* What an exchange waits for of each of its members. */
enum after {
    AFTER_NOTHING,
    AFTER_RUN,   /* its latest computation */
    AFTER_BLOCK, /* that, and its latest step */
    AFTER_UNIT   /* what came before the unit that was gathered last */
};

static void wait_for_member(struct assembly *a, int32_t task, const struct mark *mark,
                            enum after after)
{
    if (after == AFTER_RUN || after == AFTER_BLOCK)
        wait_for(a, task, mark->last[STREAM_COMPUTE]);
    if (after == AFTER_BLOCK)
        wait_for(a, task, mark->last[STREAM_FEATURE]);
    if (after == AFTER_UNIT) {
        wait_for(a, task, mark->before_unit[0]);
        wait_for(a, task, mark->before_unit[1]);
    }
}

/* One task for each group of a pattern (I3). The tasks are numbered in a row; the first. */
static int32_t add_exchange(struct assembly *a, struct task task, int32_t pattern,
                            enum collective collective, int64_t bytes, enum after after)
{
    const struct pattern *p = &a->b->patterns.data[pattern];
    int32_t first_exchange =
        intern_exchange(a->b, pattern, collective, bytes, (enum purpose)task.purpose);
    int64_t groups = a->graph->folded ? 1 : pattern_groups(p);
    int32_t first = (int32_t)a->tasks.len;
    for (int64_t g = 0; g < groups; g++) {
        struct group group = pattern_group(p, g);
        int64_t members = a->graph->folded ? 1 : group_size(&group);
        int32_t lead = graph_device(a, a->stage, group_device(&group, 0));
        task.exchange = first_exchange + (int32_t)g;
        task.device = lead;
        int32_t number = (int32_t)a->tasks.len, waited = NONE;
        for (int64_t i = 0; i < members; i++) {
            struct mark *mark = &a->mark[graph_device(a, a->stage, group_device(&group, i))];
            int32_t before = mark->last[task.stream];
            wait_for_member(a, number, mark, after);
            if (before != NONE && before != waited && a->tasks.data[before].device != lead)
                wait_for(a, number, waited = before); /* the lead's stream keeps its own order */
            mark->last[task.stream] = number;
        }
        add_task(a, task);
    }
    return first;
}

/* ---- buckets --------------------------------------------------------------------------------- */

static struct task exchange_task(enum stream_kind stream, int32_t micro_batch)
{
    return (struct task){.stream = (uint8_t)stream,
                         .purpose = PURPOSE_DATA,
                         .block = NONE,
                         .exchange = NONE,
                         .micro_batch = micro_batch,
                         .about = NONE,
                         .reader = NONE};
}

static struct task bucket_task(const struct assembly *a, enum stream_kind stream,
                               int32_t micro_batch, const struct bucket *bucket)
{
    struct task task = exchange_task(stream, micro_batch);
    task.about = (int32_t)(bucket - a->b->buckets.data);
    return task;
}

/* So much of the bucket's gradients, behind what every device computed last. */
static void synchronise(struct assembly *a, const struct bucket *bucket, int64_t bytes,
                        int32_t micro_batch, enum after after)
{
    enum collective collective = bucket->shard ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE;
    if (bucket->pattern >= 0 && bytes > 0)
        add_exchange(a, bucket_task(a, STREAM_GRADIENT, micro_batch, bucket), bucket->pattern,
                     collective, bytes, after);
}

static void gather(struct assembly *a, const struct bucket *bucket, int32_t micro_batch,
                   enum after after)
{
    if (bucket->pattern >= 0)
        add_exchange(a, bucket_task(a, STREAM_PARAMETER, micro_batch, bucket), bucket->pattern,
                     COLLECTIVE_ALL_GATHER, bucket->gather_bytes, after);
}

/* A gather one unit ahead: it waits for what came before the unit in use. */
static void gather_ahead(struct assembly *a, const struct bucket *bucket, int32_t micro_batch)
{
    bool ahead = a->b->plan->overlap & OVERLAP_PARAMETERS;
    gather(a, bucket, micro_batch, ahead ? AFTER_UNIT : AFTER_BLOCK);
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        a->mark[d].before_unit[0] = a->mark[d].last[STREAM_COMPUTE];
        a->mark[d].before_unit[1] = NONE;
    }
}

/* ---- what goes on beside a slot -------------------------------------------------------------- */

/* One slot, and what it is the first or the last of. */
struct visit {
    struct slot slot;
    int32_t part, block;
    bool first_forward, last_backward; /* of its piece */
    bool completes;                    /* gradients of weights */
    bool fetches;                      /* checkpoints from the host */
};

static const struct bucket *bucket_at(const struct assembly *a, int32_t bucket)
{
    return &a->b->buckets.data[bucket];
}

static int most_sharded(const struct assembly *a, int32_t part)
{
    int shard = 0;
    for (int32_t i = a->b->first_bucket[part]; i < a->b->first_bucket[part + 1]; i++)
        if (bucket_at(a, i)->shard > shard)
            shard = bucket_at(a, i)->shard;
    return shard;
}

static bool has_exchange(const struct assembly *a, int32_t part)
{
    for (int32_t i = a->b->first_bucket[part]; i < a->b->first_bucket[part + 1]; i++)
        if (bucket_at(a, i)->pattern >= 0)
            return true;
    return false;
}

/* Whether this slot's gradients of the bucket are the sum of all micro-batches, or go each time. */
static bool goes_now(const struct visit *place, const struct bucket *bucket)
{
    return place->completes && (place->last_backward || bucket->shard >= 2);
}

/* Whether the weights of this bucket are gathered for this slot. */
static bool gathered_for(const struct assembly *a, const struct visit *place,
                         const struct bucket *bucket)
{
    bool ahead = a->b->plan->overlap & OVERLAP_PARAMETERS;
    if (bucket->shard == 3)
        return place->slot.kind != SLOT_BACKWARD_WEIGHT;
    return bucket->shard && ahead && place->first_forward;
}

/* Whether a part of this piece's gradients is left to the next iteration (top of file). */
static bool defers(const struct assembly *a, int32_t piece)
{
    const struct schedule *schedule = schedule_find(a->b->plan->schedule);
    return schedule->segmented && (a->b->plan->overlap & OVERLAP_GRADIENTS) && piece > 0 &&
           piece < a->pipeline.pieces;
}

/* What of a bucket is left. What goes each time goes whole. */
static int64_t deferred_bytes(const struct assembly *a, const struct bucket *bucket)
{
    const struct plan *plan = a->b->plan;
    if (!defers(a, bucket->part / plan->stages) || bucket->shard >= 2)
        return 0;
    bool again = plan_choice(plan, plan->part[bucket->part].first)->recompute;
    int64_t forward = 1, backward = again ? 3 : 2;
    return bucket->bytes * forward / (forward + backward);
}

static unsigned cuts_of(const struct assembly *a, const struct visit *place)
{
    const struct build *b = a->b;
    int shard = most_sharded(a, place->part);
    bool overlap = b->plan->overlap & OVERLAP_GRADIENTS;
    unsigned cuts = 0;
    if (shard == 3 || (shard && place->first_forward && (b->plan->overlap & OVERLAP_PARAMETERS)))
        cuts |= CUT_READS;
    if (place->completes && overlap && has_exchange(a, place->part) &&
        (place->last_backward || shard >= 2))
        cuts |= CUT_COMPLETES;
    return cuts;
}

/* I2: whether nothing goes on beside the block's steps, so that folded it is one task. */
static bool is_whole(const struct assembly *a, int32_t block, unsigned cuts)
{
    return !cuts && !a->synchronising && !(a->met[block] & 1 << MEETS_SENDS);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static const struct runs *runs_of(struct assembly *a, int32_t block, unsigned cuts)
{
    if (!a->runs[cuts])
        a->runs[cuts] = ARENA_ARRAY(a->b->scratch, struct runs, a->b->blocks.len);
    struct runs *runs = &a->runs[cuts][block];
    if (!runs->run)
        *runs = cut_block(a->b, &a->b->blocks.data[block], cuts);
    return runs;
}

static bool crosses(const struct assembly *a, const struct crossing *c, bool backward)
{
    const struct build *b = a->b;
    const struct use *use = &b->use[c->use];
    const struct op *source = laid_of(b, use->source)->op;
    if (!backward)
        return use->same_forward == c->use;
    return use->same_backward == c->use && laid_of(b, use->reader)->op->input_grad &&
           (source->input_grad || source->weights);
}

/* Whether a part has nothing to do for the gradients of inputs: then its weights' slot receives. */
static bool only_weights(const struct assembly *a, int32_t part)
{
    int32_t block = a->b->block_of[SLOT_BACKWARD_INPUT][part];
    return a->b->blocks.data[block].items == 0;
}

/* The first tasks of a block wait for what comes from other stages, and from the host. */
static void gate(struct assembly *a, const struct visit *place, int32_t task, int32_t device)
{
    bool backward = place->slot.kind != SLOT_FORWARD;
    const struct by_part *in = backward ? &a->leaving : &a->arriving;
    if (place->fetches)
        wait_for(a, task, a->mark[a->first_device[a->stage] + device].last[STREAM_FROM_HOST]);
    if (place->slot.kind == SLOT_BACKWARD_WEIGHT && !only_weights(a, place->part))
        return;
    for (int32_t i = in->first[place->part]; i < in->first[place->part + 1]; i++) {
        int32_t c = in->crossing[i];
        struct gate gate = {task, c, place->slot.micro_batch, device, backward};
        if (crosses(a, &a->b->crossings.data[c], backward))
            array_push(a->b->scratch, &a->gates, gate);
    }
}

/* Where the runs of the block at hand ended up, device by device. */
struct emission {
    const struct visit *place;
    const struct block *block;
    const struct runs *runs;
    int32_t *task;          /* per run: the task of its first device or group */
    bool computed, stepped; /* a run of either lane has been emitted */
};

static int32_t task_of_run(const struct assembly *a, const struct emission *e, int32_t run,
                           int32_t device)
{
    const struct run *r = &e->runs->run[run];
    if (!r->step || a->graph->folded)
        return e->task[run] + (r->step ? 0 : device - a->first_device[a->stage]);
    const struct item *item = &e->block->item[r->first];
    if (item->pattern < 0)
        return e->task[run] + (device - a->first_device[a->stage]);
    const struct pattern *pattern = &a->b->patterns.data[item->pattern];
    int64_t own = a->graph->device[device].device;
    return e->task[run] + (int32_t)pattern_group_of(pattern, own);
}

static enum purpose purpose_of(const struct emission *e, const struct run *run)
{
    return (enum purpose)e->block->item[run->first].purpose;
}

/* I1: the first task of either lane of a block waits for all of the block before it, for what comes
 * from other stages, and for whatever the plan does not overlap. */
static void begin_block(struct assembly *a, const struct emission *e, int32_t task, int32_t device)
{
    const struct mark *mark = &a->mark[device];
    unsigned overlap = a->b->plan->overlap;
    gate(a, e->place, task, device - a->first_device[a->stage]);
    wait_for(a, task, mark->features);
    wait_for(a, task, mark->computed);
    if (!(overlap & OVERLAP_GRADIENTS))
        wait_for(a, task, mark->last[STREAM_GRADIENT]);
    if (!(overlap & OVERLAP_PIPELINE)) {
        wait_for(a, task, mark->last[STREAM_NEXT]);
        wait_for(a, task, mark->last[STREAM_PREVIOUS]);
    }
}

static void emit_compute(struct assembly *a, struct emission *e, int32_t run)
{
    const struct run *r = &e->runs->run[run];
    e->task[run] = (int32_t)a->tasks.len;
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        struct mark before = a->mark[d];
        int32_t task =
            add_task(a, (struct task){d, STREAM_COMPUTE, (uint8_t)purpose_of(e, r),
                                      (int32_t)(e->block - a->b->blocks.data), r->first, r->items,
                                      NONE, e->place->slot.micro_batch, 0, NONE, NONE});
        if (r->after >= 0)
            wait_for(a, task, task_of_run(a, e, r->after, d));
        if (r->reads >= 0 && gathered_for(a, e->place, bucket_at(a, r->reads)))
            wait_for(a, task, before.last[STREAM_PARAMETER]);
        if (!e->computed)
            begin_block(a, e, task, d);
    }
    e->computed = true;
}

/* Slices take no time, but a run may wait for them. */
static void emit_slice(struct assembly *a, const struct task *like)
{
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        struct task task = *like;
        task.device = d;
        int32_t before = a->mark[d].last[STREAM_FEATURE]; /* of a group that another one leads */
        wait_for(a, add_task(a, task), before);
    }
}

static void emit_step(struct assembly *a, struct emission *e, int32_t run)
{
    const struct run *r = &e->runs->run[run];
    const struct item *item = &e->block->item[r->first];
    struct task task = exchange_task(STREAM_FEATURE, e->place->slot.micro_batch);
    task.purpose = PURPOSE_TENSOR;
    task.block = (int32_t)(e->block - a->b->blocks.data);
    task.first_item = r->first;
    task.items = r->items;
    e->task[run] = (int32_t)a->tasks.len;
    if (item->pattern < 0)
        emit_slice(a, &task);
    else
        add_exchange(a, task, item->pattern, (enum collective)item->step->kind, item->bytes,
                     AFTER_NOTHING);
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        int32_t number = task_of_run(a, e, run, d);
        if (r->after >= 0)
            wait_for(a, number, task_of_run(a, e, r->after, d));
        if (!e->stepped)
            begin_block(a, e, number, d);
    }
    e->stepped = true;
}

static void emit_block(struct assembly *a, const struct visit *place)
{
    unsigned cuts = cuts_of(a, place);
    bool steps = a->met[place->block], whole = steps && is_whole(a, place->block, cuts);
    if (steps && !(whole && a->graph->folded))
        cuts |= CUT_STEPS;
    struct emission e = {.place = place,
                         .block = &a->b->blocks.data[place->block],
                         .runs = runs_of(a, place->block, cuts)};
    e.task = ARENA_ARRAY(a->b->scratch, int32_t, (size_t)e.runs->count);
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        a->mark[d].features = a->mark[d].last[STREAM_FEATURE];
        a->mark[d].computed = a->mark[d].last[STREAM_COMPUTE];
    }
    for (int32_t i = 0; i < e.runs->count; i++) {
        const struct run *r = &e.runs->run[i];
        if (r->reads >= 0 && gathered_for(a, place, bucket_at(a, r->reads)))
            gather_ahead(a, bucket_at(a, r->reads), place->slot.micro_batch);
        if (r->step)
            emit_step(a, &e, i);
        else
            emit_compute(a, &e, i);
        if (r->completes >= 0 && goes_now(place, bucket_at(a, r->completes))) {
            const struct bucket *bucket = bucket_at(a, r->completes);
            synchronise(a, bucket, bucket->bytes - deferred_bytes(a, bucket),
                        place->slot.micro_batch, AFTER_RUN);
            a->synchronising = true;
        }
    }
    for (int32_t d = a->first_device[a->stage]; whole && d < a->first_device[a->stage + 1]; d++) {
        a->mark[d].before_unit[0] = a->mark[d].last[STREAM_COMPUTE]; /* no gather beside it */
        a->mark[d].before_unit[1] = a->mark[d].last[STREAM_FEATURE];
    }
}

/* ---- sends ----------------------------------------------------------------------------------- */

static void send(struct assembly *a, const struct visit *place, int32_t crossing, bool backward)
{
    const struct build *b = a->b;
    const struct crossing *c = &b->crossings.data[crossing];
    const struct use *use = &b->use[c->use];
    const struct joint *j = use->joint;
    const struct reshard *reshard = backward ? j->backward[0] : j->forward[1];
    int32_t to = stage_of_part(b, backward ? c->from_part : c->to_part);
    int32_t pattern = intern_send(a->b, a->stage, to, reshard);
    int64_t bytes = reshard->step[reshard->send].elements *
                    element_bytes(b->plan, &j->to->op->input[use->operand]);
    int32_t exchange = intern_exchange(a->b, pattern, COLLECTIVE_SEND, bytes, PURPOSE_PIPELINE);
    struct task task =
        exchange_task(backward ? STREAM_PREVIOUS : STREAM_NEXT, place->slot.micro_batch);
    task.purpose = PURPOSE_PIPELINE;
    task.about = use->operand;
    task.reader = use->reader;
    a->sent[backward][(int64_t)crossing * a->pipeline.micro_batches + place->slot.micro_batch] =
        (int32_t)a->tasks.len;
    for (int32_t r = 0; r < devices_of(a, to); r++) {
        int64_t sender = a->graph->folded ? 0 : reshard_sender(reshard, r);
        const struct mark *mark = &a->mark[a->first_device[a->stage] + sender];
        task.device = a->first_device[a->stage] + (int32_t)sender;
        task.exchange = exchange + r;
        int32_t number = (int32_t)a->tasks.len;
        wait_for(a, number, mark->last[STREAM_COMPUTE]);
        wait_for(a, number, mark->last[STREAM_FEATURE]);
        add_task(a, task);
    }
}

static void send_all(struct assembly *a, const struct visit *place)
{
    bool backward = place->slot.kind != SLOT_FORWARD;
    if (place->slot.kind == SLOT_BACKWARD_WEIGHT)
        return;
    const struct by_part *out = backward ? &a->arriving : &a->leaving;
    for (int32_t i = out->first[place->part]; i < out->first[place->part + 1]; i++)
        if (crosses(a, &a->b->crossings.data[out->crossing[i]], backward))
            send(a, place, out->crossing[i], backward);
}

/* The tasks that wait for sends, now that all have numbers. */
static void resolve_gates(struct assembly *a)
{
    for (size_t i = 0; i < a->gates.len; i++) {
        const struct gate *g = &a->gates.data[i];
        int64_t row = (int64_t)g->crossing * a->pipeline.micro_batches + g->micro_batch;
        wait_for(a, g->task, a->sent[g->backward][row] + g->device);
    }
}

/* ---- offload --------------------------------------------------------------------------------- */

/* One copy for each device, behind its task `after`, and where it comes back, behind its going. */
static void copy(struct assembly *a, enum exchange_kind kind, const struct visit *place,
                 int64_t bytes, const int32_t *after)
{
    bool out = kind == EXCHANGE_TO_HOST;
    int32_t exchange = intern_copy(a->b, kind, a->stage, bytes);
    int32_t *stored =
        &a->stored[place->slot.piece * a->pipeline.micro_batches + place->slot.micro_batch];
    if (out)
        *stored = (int32_t)a->tasks.len;
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        int32_t place_in_stage = d - a->first_device[a->stage];
        struct task task =
            exchange_task(out ? STREAM_TO_HOST : STREAM_FROM_HOST, place->slot.micro_batch);
        task.purpose = PURPOSE_OFFLOAD;
        task.about = place->part;
        task.device = d;
        task.exchange = exchange + place_in_stage;
        int32_t number = add_task(a, task);
        wait_for(a, number, after[place_in_stage]);
        wait_for(a, number, *stored + place_in_stage);
    }
}

/* ---- the slots of a stage -------------------------------------------------------------------- */

struct slot_marks {
    bool *seen_forward;     /* per piece */
    int32_t *last_backward; /* per piece: the slot's number */
};

static struct slot_marks mark_slots(struct assembly *a, const struct slots *slots)
{
    size_t pieces = (size_t)a->pipeline.pieces;
    struct slot_marks marks = {ARENA_ARRAY(a->b->scratch, bool, pieces),
                               ARENA_ARRAY(a->b->scratch, int32_t, pieces)};
    for (size_t i = 0; i < slots->len; i++)
        if (slots->data[i].kind == SLOT_BACKWARD || slots->data[i].kind == SLOT_BACKWARD_WEIGHT)
            marks.last_backward[slots->data[i].piece] = (int32_t)i;
    return marks;
}

static struct visit place_of(struct assembly *a, const struct slots *slots, size_t i,
                             struct slot_marks *marks)
{
    struct slot slot = slots->data[i];
    int32_t part = slot.piece * a->pipeline.stages + a->stage;
    struct visit place = {.slot = slot, .part = part, .block = a->b->block_of[slot.kind][part]};
    place.first_forward = slot.kind == SLOT_FORWARD && !marks->seen_forward[slot.piece];
    marks->seen_forward[slot.piece] |= place.first_forward;
    place.completes = slot.kind == SLOT_BACKWARD || slot.kind == SLOT_BACKWARD_WEIGHT;
    place.last_backward = place.completes && marks->last_backward[slot.piece] == (int32_t)i;
    return place;
}

/* What the iteration before has left of the gradients of this piece: it goes while the piece before
 * computes, and this one waits for it. */
static void deferred_slices(struct assembly *a, int32_t part)
{
    int32_t first = (int32_t)a->tasks.len;
    for (int32_t i = a->b->first_bucket[part]; i < a->b->first_bucket[part + 1]; i++)
        synchronise(a, bucket_at(a, i), deferred_bytes(a, bucket_at(a, i)), NONE, AFTER_BLOCK);
    if ((int32_t)a->tasks.len > first)
        a->synchronising = true;
}

static void before_first_forward(struct assembly *a, const struct visit *place)
{
    if (defers(a, place->slot.piece + 1))
        deferred_slices(a, place->part + a->pipeline.stages);
}

/* The first forward slot of a piece whose gradients were deferred waits for all of them: they are
 * the latest on the gradient stream. */
static void wait_for_slices(struct assembly *a, const struct visit *place, const int32_t *slices,
                            int32_t first_task)
{
    if (!defers(a, place->slot.piece))
        return;
    for (int32_t t = first_task; t < (int32_t)a->tasks.len; t++)
        if (a->tasks.data[t].stream == STREAM_COMPUTE)
            wait_for(a, t, slices[a->tasks.data[t].device - a->first_device[a->stage]]);
}

static void latest(const struct assembly *a, enum stream_kind stream, int32_t *out)
{
    for (int32_t d = 0; d < devices_of(a, a->stage); d++)
        out[d] = a->mark[a->first_device[a->stage] + d].last[stream];
}

/* Without overlap, gradients go when all is computed; each time, with shard 2 and 3, and then the
 * next slot waits for them. */
static void synchronise_after(struct assembly *a, const struct visit *place)
{
    for (int32_t i = a->b->first_bucket[place->part]; i < a->b->first_bucket[place->part + 1]; i++)
        if (place->completes && bucket_at(a, i)->shard >= 2)
            synchronise(a, bucket_at(a, i), bucket_at(a, i)->bytes, place->slot.micro_batch,
                        AFTER_BLOCK);
}

static void emit_slots(struct assembly *a, const struct slots *slots)
{
    const struct plan *plan = a->b->plan;
    size_t devices = (size_t)devices_of(a, a->stage);
    bool overlap = plan->overlap & OVERLAP_GRADIENTS;
    struct slot_marks marks = mark_slots(a, slots);
    int32_t *slices = ARENA_ARRAY(a->b->scratch, int32_t, devices);
    int32_t *ahead = ARENA_ARRAY(a->b->scratch, int32_t, devices); /* end of the slot before last */
    int32_t *now = ARENA_ARRAY(a->b->scratch, int32_t, devices);
    int64_t *host = ARENA_ARRAY(a->b->scratch, int64_t, (size_t)a->pipeline.pieces);
    for (int32_t p = 0; p < a->pipeline.pieces; p++)
        host[p] = (int64_t)plan_part_memory(plan, p * a->pipeline.stages + a->stage).host;
    latest(a, STREAM_COMPUTE, ahead);
    for (size_t i = 0; i < slots->len; i++) {
        struct visit place = place_of(a, slots, i, &marks);
        latest(a, STREAM_GRADIENT, slices);
        if (place.first_forward)
            before_first_forward(a, &place);
        place.fetches = host[place.slot.piece] && place.slot.kind != SLOT_FORWARD &&
                        place.slot.kind != SLOT_BACKWARD_WEIGHT;
        latest(a, STREAM_COMPUTE, now);
        if (place.fetches)
            copy(a, EXCHANGE_FROM_HOST, &place, host[place.slot.piece], ahead);
        int32_t first_task = (int32_t)a->tasks.len;
        emit_block(a, &place);
        if (place.first_forward)
            wait_for_slices(a, &place, slices, first_task);
        memcpy(ahead, now, devices * sizeof *ahead);
        send_all(a, &place);
        if (host[place.slot.piece] && place.slot.kind == SLOT_FORWARD) {
            latest(a, STREAM_COMPUTE, now);
            copy(a, EXCHANGE_TO_HOST, &place, host[place.slot.piece], now);
        }
        if (!overlap && most_sharded(a, place.part) >= 2)
            synchronise_after(a, &place);
    }
}

/* ---- the end of an iteration ----------------------------------------------------------------- */

static int64_t optimizer_parameters(const struct assembly *a, int32_t part)
{
    int64_t parameters = 0;
    for (int32_t i = a->b->first_bucket[part]; i < a->b->first_bucket[part + 1]; i++) {
        const struct bucket *bucket = bucket_at(a, i);
        int64_t replicas = 1;
        for (int32_t k = 0; bucket->shard && k < a->b->patterns.data[bucket->pattern].digits; k++)
            replicas *= a->b->patterns.data[bucket->pattern].degree[k];
        parameters += ceil_div(bucket->parameters, replicas);
    }
    return parameters;
}

static void synchronise_rest(struct assembly *a)
{
    const struct build *b = a->b;
    if (b->plan->overlap & OVERLAP_GRADIENTS)
        return;
    for (int32_t part = a->stage; part < b->plan->parts; part += b->plan->stages)
        for (int32_t i = b->first_bucket[part]; i < b->first_bucket[part + 1]; i++)
            if (bucket_at(a, i)->shard < 2)
                synchronise(a, bucket_at(a, i), bucket_at(a, i)->bytes, NONE, AFTER_BLOCK);
}

static void finish_stage(struct assembly *a)
{
    const struct build *b = a->b;
    int64_t parameters = 0;
    synchronise_rest(a);
    for (int32_t part = a->stage; part < b->plan->parts; part += b->plan->stages)
        parameters += optimizer_parameters(a, part);
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        struct mark before = a->mark[d];
        struct task task = {.device = d,
                            .stream = STREAM_COMPUTE,
                            .purpose = PURPOSE_OPTIMIZER,
                            .block = NONE,
                            .exchange = NONE,
                            .micro_batch = NONE,
                            .parameters = parameters,
                            .about = NONE,
                            .reader = NONE};
        int32_t number = add_task(a, task);
        wait_for(a, number, before.last[STREAM_GRADIENT]);
        wait_for(a, number, before.last[STREAM_FEATURE]);
        a->ending[d] = (struct ending){before.last[STREAM_COMPUTE], number};
    }
    for (int32_t part = a->stage; part < b->plan->parts; part += b->plan->stages)
        for (int32_t i = b->first_bucket[part]; i < b->first_bucket[part + 1]; i++) {
            int shard = bucket_at(a, i)->shard;
            if ((shard == 1 || shard == 2) && !(b->plan->overlap & OVERLAP_PARAMETERS))
                gather(a, bucket_at(a, i), NONE, AFTER_BLOCK);
        }
}

/* ---- tied weights ---------------------------------------------------------------------------- */

/* A tied weight's user with a copy of its own, and what its gradients go through. */
struct tie {
    int64_t owner, user;
    struct task task;
};

/* Device by device, where both lie alike. */
static void add_up_pairs(struct assembly *a, const struct tie *t, int32_t low, int32_t high)
{
    const struct build *b = a->b;
    struct layout layout = weight_layout(b, t->user, FLOW_GRADIENT);
    int64_t replicas = laid_of(b, t->user)->choice->shard
                           ? layout_devices(&layout) / (layout.elements / layout_local(&layout))
                           : 1;
    int32_t exchange =
        intern_exchange(a->b, intern_pairs(a->b, low, high), COLLECTIVE_ALL_REDUCE,
                        ceil_div(gradient_bytes(b, t->user), replicas), PURPOSE_DATA);
    for (int32_t d = 0; d < devices_of(a, low); d++) {
        struct task task = t->task;
        int32_t ends[] = {a->first_device[low] + d, a->first_device[high] + d};
        int32_t number = (int32_t)a->tasks.len;
        for (size_t i = 0; i < COUNT_OF(ends); i++) {
            wait_for(a, number, a->mark[ends[i]].last[STREAM_COMPUTE]);
            wait_for(a, number, a->mark[ends[i]].last[STREAM_GRADIENT]);
            a->mark[ends[i]].last[STREAM_GRADIENT] = number;
        }
        task.device = ends[0];
        task.exchange = exchange + d;
        add_task(a, task);
    }
}

static void add_steps(struct assembly *a, const struct tie *t, int32_t stage,
                      const struct reshard *reshard, int32_t first, int32_t last)
{
    int64_t bytes = gradient_bytes(a->b, t->user);
    struct layout layout = weight_layout(a->b, t->user, FLOW_GRADIENT);
    int64_t each = bytes / layout_local(&layout);
    a->stage = stage;
    for (int32_t i = first; i < last; i++) {
        const struct reshard_step *step = &reshard->step[i];
        if (step->kind != STEP_SLICE)
            add_exchange(a, t->task, intern_step(a->b, stage, step), (enum collective)step->kind,
                         step->elements * each, AFTER_BLOCK);
    }
}

static void add_sends(struct assembly *a, const struct tie *t, int32_t from, int32_t to,
                      const struct reshard *reshard)
{
    int64_t each = gradient_bytes(a->b, t->user);
    struct layout layout = weight_layout(a->b, t->user, FLOW_GRADIENT);
    int64_t bytes = reshard->step[reshard->send].elements * (each / layout_local(&layout));
    int32_t exchange = intern_exchange(a->b, intern_send(a->b, from, to, reshard), COLLECTIVE_SEND,
                                       bytes, PURPOSE_DATA);
    for (int32_t r = 0; r < devices_of(a, to); r++) {
        int64_t sender = a->graph->folded ? 0 : reshard_sender(reshard, r);
        struct task task = t->task;
        task.device = a->first_device[from] + (int32_t)sender;
        task.exchange = exchange + r;
        int32_t receiver = a->first_device[to] + r, number = (int32_t)a->tasks.len;
        wait_for(a, number, a->mark[task.device].last[STREAM_COMPUTE]);
        wait_for(a, number, a->mark[task.device].last[STREAM_GRADIENT]);
        wait_for(a, number, a->mark[receiver].last[STREAM_GRADIENT]);
        add_task(a, task);
        a->mark[receiver].last[STREAM_GRADIENT] = number;
    }
}

/* From one's layout to the other's: whole gradients, as copies where they were partial sums. */
static void bring_gradient(struct assembly *a, const struct tie *t, int64_t from, int64_t to)
{
    struct layout have = weight_layout(a->b, from, FLOW_FORWARD);
    struct layout want = weight_layout(a->b, to, FLOW_FORWARD);
    int32_t low = stage_of_part(a->b, a->b->part_of[from]);
    int32_t high = stage_of_part(a->b, a->b->part_of[to]);
    if (low == high) {
        const struct reshard *reshard = reshard_within(a->graph->reshards, &have, &want);
        add_steps(a, t, low, reshard, 0, reshard->steps);
        return;
    }
    const struct reshard *reshard = reshard_between(a->graph->reshards, &have, &want, false);
    add_steps(a, t, low, reshard, 0, reshard->send);
    add_sends(a, t, low, high, reshard);
    add_steps(a, t, high, reshard, reshard->send + 1, reshard->steps);
}

/* The gradients of a copy and of its owner are added up before either's optimizer step: by pairs of
 * devices as Megatron-LM does where both lie alike, else there and back. */
static void tie(struct assembly *a, const struct tie *t)
{
    const struct build *b = a->b;
    int32_t from = stage_of_part(b, b->part_of[t->owner]);
    int32_t to = stage_of_part(b, b->part_of[t->user]);
    struct layout own = weight_layout(b, t->owner, FLOW_GRADIENT);
    struct layout other = weight_layout(b, t->user, FLOW_GRADIENT);
    bool alike = layout_equal(&own, &other) &&
                 laid_of(b, t->owner)->choice->shard == laid_of(b, t->user)->choice->shard;
    if (alike && from == to)
        return;
    if (alike) {
        add_up_pairs(a, t, from < to ? from : to, from < to ? to : from);
        return;
    }
    bring_gradient(a, t, t->user, t->owner);
    bring_gradient(a, t, t->owner, t->user);
}

static void tie_all(struct assembly *a)
{
    const struct build *b = a->b;
    for (int32_t d = 0; d < a->graph->devices; d++)
        a->mark[d].last[STREAM_COMPUTE] = a->ending[d].computed; /* behind it, before the step */
    for (int64_t i = 0; i < b->plan->instances; i++) {
        struct tie t = {owner_of(b, i), i, exchange_task(STREAM_GRADIENT, NONE)};
        t.task.reader = i;
        if (t.owner != i && holds_weights(b, i))
            tie(a, &t);
    }
    for (int32_t d = 0; d < a->graph->devices; d++)
        wait_for(a, a->ending[d].optimizer, a->mark[d].last[STREAM_GRADIENT]);
}

/* ---- which steps may meet other traffic (I2) ------------------------------------------------- */

struct link_set {
    uint64_t *slot; /* 0: empty */
    size_t size, used;
};

static uint64_t link_key(struct link_id link)
{
    int64_t key[] = {link.unit, link.tier, link.link, link.reverse};
    return hash_bytes(key, sizeof key, 0) | 1;
}

static bool set_has(const struct link_set *set, uint64_t key)
{
    for (size_t at = key & (set->size - 1); set->size && set->slot[at];
         at = (at + 1) & (set->size - 1))
        if (set->slot[at] == key)
            return true;
    return false;
}

static void set_add(struct arena *keep, struct link_set *set, uint64_t key)
{
    if (2 * (set->used + 1) > set->size) {
        struct link_set old = *set;
        *set = (struct link_set){.size = old.size ? 2 * old.size : 256};
        set->slot = ARENA_ARRAY(keep, uint64_t, set->size);
        for (size_t i = 0; i < old.size; i++)
            if (old.slot[i])
                set_add(keep, set, old.slot[i]);
    }
    size_t at = key & (set->size - 1);
    while (set->slot[at] && set->slot[at] != key)
        at = (at + 1) & (set->size - 1);
    set->used += !set->slot[at];
    set->slot[at] = key;
}

/* Links of the pattern's first group, as far as it lies in two nodes: nodes are alike. */
static weft_status links_of(struct assembly *a, const struct pattern *pattern,
                            struct traffic_list *out)
{
    struct group group = pattern_group(pattern, 0);
    int64_t near = 2 * a->b->plan->cluster->node.devices;
    for (int32_t i = 0; i < group.levels && group.stride[i] > 0; i++) {
        int64_t count = ceil_div(near, group.stride[i]);
        count = count < 2 ? 2 : count;
        group.count[i] = group.count[i] < count ? group.count[i] : count;
    }
    out->len = 0;
    return collective_traffic(a->b->plan->cluster, (enum collective)pattern->collective, &group,
                              1 << 20, a->b->scratch, out);
}

/* What each pattern is for: bits of 1 << meeting. */
static uint8_t *sort_patterns(const struct assembly *a)
{
    struct build *b = a->b;
    for (size_t i = 0; i < b->crossings.len; i++) {
        const struct crossing *c = &b->crossings.data[i];
        int32_t from = stage_of_part(b, c->from_part), to = stage_of_part(b, c->to_part);
        const struct joint *j = b->use[c->use].joint;
        intern_send(b, from, to, j->forward[1]);
        intern_send(b, to, from, j->backward[0]);
    }
    uint8_t *bits = ARENA_ARRAY(b->scratch, uint8_t, b->patterns.len);
    for (size_t p = 0; p < b->patterns.len; p++)
        bits[p] = (b->patterns.data[p].collective == COLLECTIVE_SEND) << MEETS_SENDS;
    for (size_t i = 0; i < b->buckets.len; i++)
        if (b->buckets.data[i].pattern >= 0)
            bits[b->buckets.data[i].pattern] |= 1 << MEETS_GRADIENTS;
    return bits;
}

static uint8_t meetings_of(const struct assembly *a, const struct block *block)
{
    uint8_t met = 0;
    for (int32_t i = 0; i < block->items; i++) {
        int32_t pattern = block->item[i].pattern;
        if (pattern < 0)
            continue;
        met |= 1 << HAS_STEPS;
        for (int k = 0; k < MEETINGS; k++)
            met |= (uint8_t)(a->meets[k][pattern] << k);
    }
    return met;
}

static weft_status find_meetings(struct assembly *a)
{
    const struct build *b = a->b;
    const uint8_t *bits = sort_patterns(a);
    struct link_set set[MEETINGS] = {{0}};
    struct traffic_list *links = ARENA_ARRAY(b->scratch, struct traffic_list, b->patterns.len);
    weft_status status = WEFT_OK;
    for (size_t p = 0; p < b->patterns.len; p++) {
        TRY(links_of(a, &b->patterns.data[p], &links[p]));
        for (int k = 0; k < MEETINGS; k++)
            for (size_t i = 0; (bits[p] & 1 << k) && i < links[p].len; i++)
                set_add(b->scratch, &set[k], link_key(links[p].data[i].link));
    }
    for (int k = 0; k < MEETINGS; k++) {
        a->meets[k] = ARENA_ARRAY(b->scratch, bool, b->patterns.len);
        for (size_t p = 0; p < b->patterns.len; p++)
            for (size_t i = 0; i < links[p].len; i++)
                a->meets[k][p] |= set_has(&set[k], link_key(links[p].data[i].link));
    }
    a->met = ARENA_ARRAY(b->scratch, uint8_t, b->blocks.len);
    for (size_t i = 0; i < b->blocks.len; i++)
        a->met[i] = meetings_of(a, &b->blocks.data[i]);
done:
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static struct by_part sort_crossings(const struct build *b, bool leaving)
{
    struct by_part out = {ARENA_ARRAY(b->scratch, int32_t, (size_t)b->plan->parts + 2),
                          ARENA_ARRAY(b->scratch, int32_t, b->crossings.len)};
    for (size_t i = 0; i < b->crossings.len; i++) {
        const struct crossing *c = &b->crossings.data[i];
        out.first[(leaving ? c->from_part : c->to_part) + 2]++;
    }
    for (int32_t p = 0; p < b->plan->parts; p++)
        out.first[p + 2] += out.first[p + 1];
    for (size_t i = 0; i < b->crossings.len; i++) {
        const struct crossing *c = &b->crossings.data[i];
        out.crossing[out.first[(leaving ? c->from_part : c->to_part) + 1]++] = (int32_t)i;
    }
    return out;
}

static void place_devices(struct assembly *a)
{
    const struct plan *plan = a->b->plan;
    struct graph *graph = a->graph;
    a->first_device = ARENA_ARRAY(a->b->scratch, int32_t, (size_t)plan->stages + 1);
    for (int32_t s = 0; s < plan->stages; s++) {
        int64_t devices = graph->folded ? 1 : plan->stage[s].devices;
        a->first_device[s + 1] = a->first_device[s] + (int32_t)devices;
    }
    graph->devices = a->first_device[plan->stages];
    graph->device = ARENA_ARRAY(graph->arena, struct graph_device, (size_t)graph->devices);
    for (int32_t s = 0; s < plan->stages; s++)
        for (int32_t d = a->first_device[s]; d < a->first_device[s + 1]; d++)
            graph->device[d] =
                (struct graph_device){s, plan->stage[s].first_device + (d - a->first_device[s])};
}

static void prepare(struct assembly *a)
{
    const struct build *b = a->b;
    place_devices(a);
    size_t devices = (size_t)a->graph->devices;
    a->mark = ARENA_ARRAY(b->scratch, struct mark, devices);
    memset(a->mark, -1, devices * sizeof *a->mark);
    a->ending = ARENA_ARRAY(b->scratch, struct ending, devices);
    size_t sends = b->crossings.len * (size_t)a->pipeline.micro_batches;
    for (int i = 0; i < 2; i++) {
        a->sent[i] = ARENA_ARRAY(b->scratch, int32_t, sends);
        memset(a->sent[i], -1, sends * sizeof(int32_t));
    }
    a->stored = ARENA_ARRAY(b->scratch, int32_t,
                            (size_t)a->pipeline.pieces *(size_t)a->pipeline.micro_batches);
    a->leaving = sort_crossings(b, true);
    a->arriving = sort_crossings(b, false);
}

/* Waits, sorted by the task that waits. */
static void write_dependencies(struct assembly *a)
{
    struct graph *graph = a->graph;
    int64_t *first = ARENA_ARRAY(graph->arena, int64_t, a->tasks.len + 2);
    for (size_t i = 0; i < a->waits.len; i++)
        first[a->waits.data[i].task + 2]++;
    for (size_t t = 0; t < a->tasks.len; t++)
        first[t + 2] += first[t + 1];
    graph->depends = ARENA_ARRAY(graph->arena, int32_t, a->waits.len);
    for (size_t i = 0; i < a->waits.len; i++)
        graph->depends[first[a->waits.data[i].task + 1]++] = a->waits.data[i].on;
    graph->depends_first = first;
}

static weft_status assemble(struct build *b)
{
    const struct plan *plan = b->plan;
    const struct schedule *schedule = schedule_find(plan->schedule);
    struct assembly a = {
        .b = b,
        .graph = b->graph,
        .pipeline = {plan->stages, (int32_t)plan->pieces, (int32_t)plan_micro_batches(plan)}};
    weft_status status;
    prepare(&a);
    TRY(find_meetings(&a));
    for (a.stage = 0; a.stage < plan->stages; a.stage++) {
        struct slots slots = {0};
        a.synchronising = false;
        schedule->order(&a.pipeline, a.stage, b->scratch, &slots);
        emit_slots(&a, &slots);
        finish_stage(&a);
    }
    resolve_gates(&a);
    tie_all(&a);
    write_dependencies(&a);
    b->graph->tasks = (int32_t)a.tasks.len;
    b->graph->task = a.tasks.data;
done:
    return status;
}

static weft_status compile(struct graph *graph)
{
    struct build b = {
        .graph = graph, .plan = graph->plan, .keep = graph->arena, .scratch = arena_new()};
    weft_status status;
    b.interned = intern_new(b.scratch);
    find_uses(&b);
    build_blocks(&b);
    build_buckets(&b);
    find_lifetimes(&b);
    TRY(assemble(&b));
    graph->block = b.blocks.data;
    graph->blocks = (int32_t)b.blocks.len;
    graph->bucket = b.buckets.data;
    graph->buckets = (int32_t)b.buckets.len;
    graph->pattern = b.patterns.data;
    graph->patterns = (int32_t)b.patterns.len;
    graph->exchange = b.exchanges.data;
    graph->exchanges = (int32_t)b.exchanges.len;
done:
    arena_free(b.scratch);
    return status;
}

weft_status graph_compile(const struct plan *plan, const struct compile_options *options,
                          struct graph **out)
{
    struct arena *arena = arena_new();
    struct graph *graph = ARENA_NEW(arena, struct graph);
    *graph = (struct graph){.arena = arena,
                            .plan = plan,
                            .reshards = reshards_new(),
                            .folded = options->fold != FOLD_NEVER};
    weft_status status = compile(graph);
    if (status)
        graph_free(graph);
    else
        *out = graph;
    return status;
}

void graph_free(struct graph *graph)
{
    if (!graph)
        return;
    reshards_free(graph->reshards);
    arena_free(graph->arena);
}
