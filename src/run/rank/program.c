/* program.c - the graph's tasks that this rank has a part in, and what they wait for here.
 *
 *   a rank has a part in  its own computation and copies; exchanges of groups it is a member of;
 *                         sends from it and to it
 *
 *   I1  Of a task's dependencies those count that the rank has a part in (rank.h, I3).
 *   I2  The queue of a stream has its tasks in the order of their numbers (graph.h, I4). Receives are
 *       in no queue: they start a slot ahead of the first that waits for them, so that no more
 *       memory is taken, and the sender need not wait.
 *   I3  Weights are gathered when what the iteration before has left of their gradients has come.
 *   I4  Checkpoints that go to the host are gone when the slot after theirs ends (sim/holdings.c, I2): the next one waits
 *       for that, or computation would run ahead of the copies and fill the memory that they are to free.
 */
#include "run/rank/joins.h"

#include <stdlib.h>
#include <string.h>

/* ---- which tasks ----------------------------------------------------------------------------- */

static int64_t own_device(const struct rank *r)
{
    return r->plan->stage[r->stage].first_device + r->device;
}

static bool in_group(const struct rank *r, const struct exchange *e)
{
    struct group group = pattern_group(&r->graph->pattern[e->pattern], e->group);
    for (int64_t i = 0; i < group_size(&group); i++)
        if (group_device(&group, i) == own_device(r))
            return true;
    return false;
}

static bool has_part(const struct rank *r, const struct task *task)
{
    bool mine = r->graph->device[task->device].device == own_device(r);
    if (task->exchange < 0)
        return mine;
    const struct exchange *e = &r->graph->exchange[task->exchange];
    return e->kind == EXCHANGE_COLLECTIVE ? in_group(r, e) : mine;
}

static bool is_deferred(const struct rank *r, const struct task *task)
{
    return task->micro_batch < 0 && (r->plan->overlap & OVERLAP_GRADIENTS);
}

static enum job_kind kind_of_data(const struct rank *r, const struct task *task)
{
    if (task->about < 0)
        return tied_by_task(r, task->reader) ? JOB_TIE : JOB_NOTHING;
    if (task->stream != STREAM_GRADIENT)
        return JOB_GATHER;
    return is_deferred(r, task) ? JOB_DEFERRED : JOB_SYNCHRONISE;
}

static enum job_kind kind_of(const struct rank *r, const struct task *task)
{
    bool mine = r->graph->device[task->device].device == own_device(r);
    if (task->block >= 0 && task->stream == STREAM_COMPUTE)
        return JOB_COMPUTE;
    if (task->block >= 0)
        return task->exchange < 0 ? JOB_SLICES : JOB_STEP;
    switch ((enum purpose)task->purpose) {
    case PURPOSE_OPTIMIZER:
        return JOB_OPTIMIZER;
    case PURPOSE_PIPELINE:
        return mine ? JOB_SEND : JOB_RECEIVE;
    case PURPOSE_OFFLOAD:
        return task->stream == STREAM_TO_HOST ? JOB_TO_HOST : JOB_FROM_HOST;
    default:
        return kind_of_data(r, task);
    }
}

static int32_t *find_jobs(struct rank *r, struct arena *scratch)
{
    const struct graph *graph = r->graph;
    struct program *p = &r->program;
    int32_t *job_of = ARENA_ARRAY(scratch, int32_t, (size_t)graph->tasks);
    p->job = ARENA_ARRAY(r->arena, struct job, (size_t)graph->tasks);
    for (int32_t t = 0; t < graph->tasks; t++) {
        const struct task *task = &graph->task[t];
        job_of[t] = -1;
        if (!has_part(r, task))
            continue;
        job_of[t] = p->jobs;
        p->job[p->jobs++] = (struct job){
            .task = t, .kind = kind_of(r, task), .stream = task->stream, .slot = -1, .group = -1};
    }
    return job_of;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Blocks of micro-batches, in the order in which computation comes to them. */
static int32_t *number_slots(struct rank *r, struct arena *scratch)
{
    const struct graph *graph = r->graph;
    size_t count = (size_t)graph->blocks * (size_t)r->micro_batches;
    int32_t *slot_of = ARENA_ARRAY(scratch, int32_t, count), slots = 0;
    memset(slot_of, -1, count * sizeof *slot_of);
    for (int32_t i = 0; i < r->program.jobs; i++) {
        struct job *job = &r->program.job[i];
        const struct task *task = &graph->task[job->task];
        if (task->block < 0)
            continue;
        int32_t *slot = &slot_of[task->block * r->micro_batches + task->micro_batch];
        if (*slot < 0)
            *slot = slots++;
        job->slot = *slot;
    }
    return slot_of;
}

/* ---- dependencies ---------------------------------------------------------------------------- */

struct edge {
    int32_t before, after;
};
struct edges {
    struct edge *data;
    size_t len, cap;
};

static void add_edge(struct arena *scratch, struct edges *edges, int32_t before, int32_t after)
{
    struct edge edge = {before, after};
    if (before >= 0 && before != after)
        array_push(scratch, edges, edge);
}

/* The latest two copies to the host, and the slots that were the latest when they were asked for. */
struct departures {
    int32_t job[2], slot[2], now; /* now: the current slot */
};

/* I4 */
static void await_departure(struct arena *scratch, struct departures *d, const struct job *job,
                            int32_t number, struct edges *edges)
{
    if (job->kind == JOB_TO_HOST) {
        bool next = d->slot[1] < d->now;
        d->job[0] = next ? d->job[1] : d->job[0];
        d->slot[0] = next ? d->slot[1] : d->slot[0];
        d->job[1] = number;
        d->slot[1] = d->now;
    }
    if (job->kind != JOB_COMPUTE || job->slot <= d->now)
        return;
    d->now = job->slot;
    int32_t gone = d->slot[1] + 2 <= d->now ? 1 : 0;
    if (d->slot[gone] + 2 <= d->now)
        add_edge(scratch, edges, d->job[gone], number);
}

static void find_edges(struct rank *r, struct arena *scratch, const int32_t *job_of,
                       struct edges *edges)
{
    struct departures departures = {{-1, -1}, {-2, -2}, -1};
    const struct graph *graph = r->graph;
    int32_t *deferred = ARENA_ARRAY(scratch, int32_t, (size_t)graph->buckets);
    memset(deferred, -1, (size_t)graph->buckets * sizeof *deferred);
    for (int32_t i = 0; i < r->program.jobs; i++) {
        const struct job *job = &r->program.job[i];
        const struct task *task = &graph->task[job->task];
        bool received = job->kind == JOB_RECEIVE; /* the sender waits */
        for (int64_t d = graph->depends_first[job->task];
             d < graph->depends_first[job->task + 1] && !received; d++)
            add_edge(scratch, edges, job_of[graph->depends[d]], i); /* I1 */
        if (job->kind == JOB_DEFERRED)
            deferred[task->about] = i;
        if (job->kind == JOB_GATHER && deferred[task->about] >= 0)
            add_edge(scratch, edges, deferred[task->about], i); /* I3 */
        await_departure(scratch, &departures, job, i, edges);
    }
}

static void keep_edges(struct rank *r, const struct edges *edges)
{
    struct program *p = &r->program;
    p->after = ARENA_ARRAY(r->arena, int32_t, edges->len);
    for (size_t i = 0; i < edges->len; i++) {
        p->job[edges->data[i].after].dependencies++;
        p->job[edges->data[i].before].afters++;
    }
    int32_t first = 0;
    for (int32_t i = 0; i < p->jobs; i++) {
        p->job[i].first_after = first;
        first += p->job[i].afters;
        p->job[i].afters = 0;
    }
    for (size_t i = 0; i < edges->len; i++) {
        struct job *before = &p->job[edges->data[i].before];
        p->after[before->first_after + before->afters++] = edges->data[i].after;
    }
}

/* ---- queues (I2) ----------------------------------------------------------------------------- */

static void fill_queues(struct rank *r)
{
    struct program *p = &r->program;
    for (int s = 0; s < STREAM_COUNT; s++)
        p->queue[s] = ARENA_ARRAY(r->arena, int32_t, (size_t)p->jobs);
    p->receive = ARENA_ARRAY(r->arena, int32_t, (size_t)p->jobs);
    for (int32_t i = 0; i < p->jobs; i++) {
        struct job *job = &p->job[i];
        if (job->kind != JOB_RECEIVE) {
            p->queue[job->stream][p->queued[job->stream]++] = i;
            continue;
        }
        for (int32_t k = 0; k < job->afters; k++) {
            int32_t slot = p->job[p->after[job->first_after + k]].slot;
            if (slot >= 0 && (job->slot < 0 || slot < job->slot))
                job->slot = slot;
        }
        int32_t at = p->receives++;
        for (; at > 0 && p->job[p->receive[at - 1]].slot > job->slot; at--)
            p->receive[at] = p->receive[at - 1];
        p->receive[at] = i;
    }
}

static void note_sends(struct rank *r)
{
    const struct graph *graph = r->graph;
    struct program *p = &r->program;
    p->sends = ARENA_ARRAY(r->arena, uint8_t, (size_t)r->uses);
    for (int32_t i = 0; i < p->jobs; i++) {
        if (p->job[i].kind != JOB_SEND)
            continue;
        const struct task *task = &graph->task[p->job[i].task];
        const struct task *next = i + 1 < p->jobs && p->job[i + 1].kind == JOB_SEND
                                      ? &graph->task[p->job[i + 1].task]
                                      : NULL;
        bool backward = task->stream == STREAM_PREVIOUS;
        p->sends[graph->uses->use_first[task->reader] + task->about] |= (uint8_t)(1U << backward);
        p->job[i].empties =
            !next || next->reader != task->reader || next->about != task->about ||
            next->stream != task->stream ||
            first_joined(r, next->micro_batch) != first_joined(r, task->micro_batch);
    }
}

/* How much of a bucket is left to the next iteration: nothing where the norm of all is asked for. */
static void note_deferred(struct rank *r)
{
    const struct graph *graph = r->graph;
    for (int32_t i = 0; i < r->program.jobs && !measures_norm(r); i++) {
        const struct task *task = &graph->task[r->program.job[i].task];
        if (r->program.job[i].kind != JOB_DEFERRED ||
            graph->exchange[task->exchange].pattern == graph->bucket[task->about].across)
            continue;
        struct store *s = &r->store[r->store_of[task->about]];
        double share = (double)graph->exchange[task->exchange].bytes /
                       (double)graph->bucket[task->about].bytes;
        s->kept = s->trained_part - (int64_t)(share * (double)s->trained_part);
    }
}

weft_status find_program(struct rank *r)
{
    struct arena *scratch = arena_new();
    struct edges edges = {0};
    int32_t *job_of = find_jobs(r, scratch);
    number_slots(r, scratch);
    find_edges(r, scratch, job_of, &edges);
    keep_edges(r, &edges);
    fill_queues(r);
    note_sends(r);
    note_deferred(r);
    arena_free(scratch);
    return WEFT_OK;
}
