/* rank.c - one iteration on one rank: an executor that computes and a communicator that moves.
 *
 * The executor runs the compute stream's tasks in order, each when what it waits for is over. The
 * communicator, meanwhile, looks: it starts the first task of every other stream that is ready, tests what
 * is on its way, and serves the sums that kernels ask for. Whose turn it is to look: progress_thread.c.
 *
 *   I1  Streams are looked at in the order of PRIORITY: what holds up computation first, gradient
 *       buckets last, and of these one slice at a time (stores.c, I1).
 *   I2  A stream's next task starts when the one before it is over; a send when it has started.
 *   I3  When anything fails, here or elsewhere, both threads leave their loops.
 */
#include "run/rank/room.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum stream_kind PRIORITY[] = {STREAM_NEXT,      STREAM_PREVIOUS,  STREAM_FEATURE,
                                            STREAM_PARAMETER, STREAM_FROM_HOST, STREAM_TO_HOST,
                                            STREAM_GRADIENT};
_Static_assert(COUNT_OF(PRIORITY) == STREAM_COUNT - 1, "all streams but computation");

/* ---- failing --------------------------------------------------------------------------------- */

void rank_fail(struct rank *r, const char *fmt, ...)
{
    va_list args;
    pthread_mutex_lock(&r->lock);
    if (!r->failed) {
        va_start(args, fmt);
        vsnprintf(r->why, sizeof r->why, fmt, args);
        va_end(args);
    }
    r->failed = true;
    pthread_cond_signal(&r->called);
    pthread_mutex_unlock(&r->lock);
}

bool has_failed(struct rank *r)
{
    pthread_mutex_lock(&r->lock);
    bool failed = r->failed;
    pthread_mutex_unlock(&r->lock);
    return failed;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static int64_t now_ns(const struct rank *r)
{
    return (int64_t)((wall_seconds() - r->started_s) * 1e9);
}

static void begin_job(struct rank *r, struct job *job)
{
    if (r->options->trace)
        job->begin_ns = now_ns(r);
}

static void end_job(struct rank *r, struct job *job)
{
    pthread_mutex_lock(&r->lock);
    job->over = true;
    r->done++;
    for (int32_t i = 0; i < job->afters; i++)
        r->program.job[r->program.after[job->first_after + i]].waits--;
    if (r->options->trace && !r->evaluates) {
        struct run_event event = {r->step, job->task, job->begin_ns, now_ns(r)};
        array_push(r->arena, &r->events, event);
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- the executor ---------------------------------------------------------------------------- */

static void run_items(struct rank *r, const struct task *task)
{
    const struct block *block = &r->graph->block[task->block];
    struct spot at = {task->micro_batch, task->block, task->first_item};
    for (; at.item < task->first_item + task->items && !has_failed(r); at.item++) {
        if (block->item[at.item].kind == ITEM_OP)
            run_op(r, at);
        else
            run_slice(r, at);
        item_over(r, at);
    }
}

/* A float holds 24 bits: the rest goes beside it. */
static void scale_back(struct rank *r)
{
    double squares = gradient_squares(r);
    float parts[] = {(float)squares, (float)(squares - (double)(float)squares)};
    ask(r, &(struct transfer){.kind = TRANSFER_ALL_REDUCE,
                              .group = r->world,
                              .from = parts,
                              .to = parts,
                              .count = COUNT_OF(parts),
                              .on_host = true});
    r->gradient_norm = sqrt((double)parts[0] + (double)parts[1]);
    r->pace[r->step & 1].scale =
        isfinite(r->gradient_norm) ? (float)clip_factor(r->gradient_norm, (double)r->options->clip)
                                   : NAN;
}

static void run_optimizer(struct rank *r)
{
    tie_rest(r);
    if (r->options->clip > 0 && !r->evaluates)
        scale_back(r);
    for (int32_t i = 0; i < r->stores && !has_failed(r); i++) {
        struct store *store = &r->store[i];
        optimize_store(r, store, 0, r->evaluates ? store->part : store->kept, r->step);
    }
}

/* Until it may run; false: never. */
static bool await(struct rank *r, const struct job *job)
{
    pthread_mutex_lock(&r->lock);
    bool waits = job->waits > 0, starts = job->slot > r->slot;
    if (starts)
        r->slot = job->slot;
    pthread_mutex_unlock(&r->lock);
    if (waits)
        await_job(r, job);
    else if (starts)
        call_communicator(r); /* receives of the next slot */
    return !has_failed(r);
}

/* Whether there is something to compute at once; else the executor looks for itself. */
static bool goes_on(struct rank *r, int32_t next)
{
    const struct program *p = &r->program;
    pthread_mutex_lock(&r->lock);
    bool on = next < p->queued[STREAM_COMPUTE] && p->job[p->queue[STREAM_COMPUTE][next]].waits == 0;
    pthread_mutex_unlock(&r->lock);
    return on;
}

static void *execute(void *context)
{
    struct rank *r = context;
    for (int32_t i = 0; i < r->program.queued[STREAM_COMPUTE]; i++) {
        struct job *job = &r->program.job[r->program.queue[STREAM_COMPUTE][i]];
        if (!await(r, job))
            break;
        begin_job(r, job);
        if (job->kind == JOB_OPTIMIZER)
            run_optimizer(r);
        else
            run_items(r, &r->graph->task[job->task]);
        const char *why = device_failed(rank_device(r));
        if (why)
            rank_fail(r, "%s", why);
        if (has_failed(r))
            break;
        end_job(r, job);
        await_begun(r);
        if (goes_on(r, i + 1))
            call_communicator(r);
    }
    pthread_mutex_lock(&r->lock);
    r->executor_ended = true;
    pthread_mutex_unlock(&r->lock);
    call_communicator(r);
    return NULL;
}

void ask(struct rank *r, const struct transfer *transfer)
{
    pthread_mutex_lock(&r->lock);
    r->asked = (struct asked){.waiting = true, .transfer = *transfer};
    pthread_mutex_unlock(&r->lock);
    await_asked(r);
    pthread_mutex_lock(&r->lock);
    r->asked.waiting = false;
    pthread_mutex_unlock(&r->lock);
}

void ask_sum(struct rank *r, int32_t group, enum reduce op, float *data, int64_t count)
{
    ask(r, &(struct transfer){.kind = TRANSFER_ALL_REDUCE,
                              .op = op,
                              .group = group,
                              .from = data,
                              .to = data,
                              .count = count});
}

/* ---- the communicator: what jobs do ---------------------------------------------------------- */

static struct store *store_of_job(const struct rank *r, const struct job *job)
{
    return &r->store[r->store_of[r->graph->task[job->task].about]];
}

/* The range of a bucket's parts that goes. */
static void set_range(const struct rank *r, const struct job *job, struct errand *w)
{
    const struct store *s = store_of_job(r, job);
    w->at = job->kind == JOB_DEFERRED ? s->kept : 0;
    w->end = job->kind == JOB_SYNCHRONISE ? s->kept : s->part;
}

static void copy_checkpoints(struct rank *r, const struct task *task)
{
    bool back = task->stream == STREAM_FROM_HOST;
    const struct keys *keys = &r->offloads[task->about];
    for (int32_t i = 0; i < keys->count; i++) {
        pthread_mutex_lock(&r->lock);
        struct value *value = *value_at(r, task->micro_batch, keys->key[i]);
        bool alone = value && value->refs == 1; /* what is still read or sent stays */
        pthread_mutex_unlock(&r->lock);
        if (value && back && value->host)
            value_from_host(r, value);
        else if (alone && !back && value->data)
            value_to_host(r, value);
    }
}

/* The first transfer of a job, or the next; false: the job is over. */
static bool next_transfer(struct rank *r, const struct job *job, struct errand *w, bool first)
{
    const struct task *task = &r->graph->task[job->task];
    switch (job->kind) {
    case JOB_STEP:
        (first ? step_begin : step_end)(r, w);
        return first;
    case JOB_SEND:
        (first ? send_begin : send_end)(r, w);
        return first;
    case JOB_RECEIVE:
        (first ? receive_begin : receive_end)(r, w);
        return first;
    case JOB_SYNCHRONISE:
        if (first)
            drop_outlived(r);
        return synchronise_next(r, w);
    case JOB_DEFERRED:
        if (r->deferred && synchronise_next(r, w))
            return true;
        if (r->deferred)
            optimize_store(r, store_of_job(r, job), store_of_job(r, job)->kept,
                           store_of_job(r, job)->part, r->step - 1);
        return false;
    case JOB_GATHER:
        return gather_next(r, w);
    case JOB_TIE:
        return first && tie_begin(r, w);
    case JOB_SLICES: {
        struct spot at = {task->micro_batch, task->block, task->first_item};
        run_slice(r, at);
        item_over(r, at);
        return false;
    }
    case JOB_TO_HOST:
    case JOB_FROM_HOST:
        copy_checkpoints(r, task);
        return false;
    default:
        return false;
    }
}

static void fail_by_status(struct rank *r)
{
    rank_fail(r, "%s", weft_last_error()->message);
}

/* Goes on with a job: true while it has a transfer on its way. */
static bool proceed(struct rank *r, struct errand *w, bool first)
{
    struct job *job = &r->program.job[w->job];
    if (!next_transfer(r, job, w, first) || has_failed(r))
        return false;
    if (r->transport->kind->start(r->transport, &w->transfer, &w->request) != WEFT_OK)
        fail_by_status(r);
    return true;
}

static void note_started(struct rank *r, struct job *job)
{
    pthread_mutex_lock(&r->lock);
    job->started = true;
    pthread_mutex_unlock(&r->lock);
}

static void start_job(struct rank *r, int32_t number)
{
    struct job *job = &r->program.job[number];
    struct errand *w = calloc(1, sizeof *w);
    if (!w)
        memory_ran_out(sizeof *w);
    w->job = number;
    begin_job(r, job);
    note_started(r, job);
    if (job->kind == JOB_SYNCHRONISE || job->kind == JOB_DEFERRED || job->kind == JOB_GATHER)
        set_range(r, job, w);
    bool active = proceed(r, w, true);
    pthread_mutex_lock(&r->lock); /* of the arena: events go there, too */
    if (active)
        array_push(r->arena, &r->active, w);
    pthread_mutex_unlock(&r->lock);
    if (!active)
        errand_free(r, w);
    if ((!active || job->kind == JOB_SEND) && !has_failed(r)) /* I2 */
        end_job(r, job);
}

/* ---- the communicator: its loop -------------------------------------------------------------- */

static bool is_ready(struct rank *r, int32_t number)
{
    pthread_mutex_lock(&r->lock);
    bool ready = r->program.job[number].waits == 0;
    pthread_mutex_unlock(&r->lock);
    return ready;
}

static bool start_streams(struct rank *r)
{
    const struct program *p = &r->program;
    bool moved = false;
    for (size_t i = 0; i < COUNT_OF(PRIORITY); i++) {
        enum stream_kind s = PRIORITY[i];
        int32_t at = r->next[s];
        bool free_now = at == 0 || p->job[p->queue[s][at - 1]].over;
        if (at == p->queued[s] || !free_now || !is_ready(r, p->queue[s][at]))
            continue;
        r->next[s]++;
        start_job(r, p->queue[s][at]);
        moved = true;
    }
    return moved;
}

static bool start_receives(struct rank *r)
{
    const struct program *p = &r->program;
    bool moved = false;
    pthread_mutex_lock(&r->lock);
    int32_t slot = r->slot;
    pthread_mutex_unlock(&r->lock);
    while (r->next_receive < p->receives && p->job[p->receive[r->next_receive]].slot <= slot + 1) {
        start_job(r, p->receive[r->next_receive++]);
        moved = true;
    }
    return moved;
}

static bool test_active(struct rank *r)
{
    bool moved = false;
    size_t left = 0;
    for (size_t i = 0; i < r->active.len; i++) {
        struct errand *w = r->active.data[i];
        struct job *job = &r->program.job[w->job];
        if (has_failed(r) || !r->transport->kind->test(r->transport, w->request)) {
            r->active.data[left++] = w;
            continue;
        }
        moved = true;
        w->request = NULL;
        if (proceed(r, w, false)) {
            r->active.data[left++] = w;
            continue;
        }
        if (job->kind != JOB_SEND && !has_failed(r))
            end_job(r, job);
        errand_free(r, w);
    }
    r->active.len = left;
    return moved;
}

static bool serve_sum(struct rank *r)
{
    const struct transport_kind *kind = r->transport->kind;
    pthread_mutex_lock(&r->lock);
    bool starts = r->asked.waiting && !r->asked.over && !r->summing;
    pthread_mutex_unlock(&r->lock);
    if (starts && kind->start(r->transport, &r->asked.transfer, &r->summing) != WEFT_OK)
        fail_by_status(r);
    if (!r->summing || !kind->test(r->transport, r->summing))
        return starts;
    r->summing = NULL;
    pthread_mutex_lock(&r->lock);
    r->asked.over = true;
    pthread_mutex_unlock(&r->lock);
    return true;
}

bool look(struct rank *r)
{
    const char *why = r->transport->kind->failed(r->transport);
    if (why)
        rank_fail(r, "%s", why);
    if (has_failed(r))
        return false;
    bool moved = serve_sum(r);
    moved |= start_receives(r);
    moved |= start_streams(r);
    moved |= test_active(r);
    return moved;
}

/* ---- an iteration ---------------------------------------------------------------------------- */

static void reset(struct rank *r)
{
    struct program *p = &r->program;
    memset(r->next, 0, sizeof r->next);
    r->next_receive = r->done = r->slot = 0;
    r->executor_drives = r->executor_ended = false;
    rank_device(r)->clear(r->work, r->loss_sum, sizeof *r->loss_sum);
    for (int32_t i = 0; i < p->jobs; i++) {
        p->job[i].waits = p->job[i].dependencies;
        p->job[i].started = p->job[i].over = false;
    }
    for (int32_t b = 0; b < r->graph->blocks * r->micro_batches; b++) {
        const struct block *block = &r->graph->block[b % r->graph->blocks];
        r->progress[b].prefix = 0;
        memset(r->progress[b].over, 0, (size_t)block->items);
    }
}

static weft_status stop_all(struct rank *r)
{
    r->transport->kind->abort(r->transport, r->why); /* from here on nobody touches a buffer */
    for (size_t i = 0; i < r->active.len; i++)
        errand_free(r, r->active.data[i]);
    r->active.len = 0;
    return failure("%s", r->why);
}

static const double PATIENCE_S = 0.0005; /* between looks at a slowed transport's clock */

/* A blocking sum over all ranks, by the communicator itself. */
static weft_status sum_over_all(struct rank *r, float *data, int64_t count)
{
    struct transfer transfer = {.kind = TRANSFER_ALL_REDUCE,
                                .group = r->world,
                                .from = data,
                                .to = data,
                                .count = count,
                                .on_host = true};
    return transport_run(r->transport, &transfer);
}

/* A float holds 24 bits of it: the rest goes beside it. */
static weft_status mean_loss(struct rank *r, double *loss)
{
    double own;
    device_download(rank_device(r), r->work, &own, r->loss_sum, sizeof own);
    float parts[] = {(float)own, (float)(own - (double)(float)own)};
    weft_status status = sum_over_all(r, parts, COUNT_OF(parts));
    *loss = (double)parts[0] + (double)parts[1];
    return status;
}

weft_status run_iteration(struct rank *r, double *loss)
{
    pthread_t executor;
    reset(r);
    if (pthread_create(&executor, NULL, execute, r) != 0)
        return failure("cannot start a thread");
    communicate(r);
    pthread_join(executor, NULL);
    if (r->failed)
        return stop_all(r);
    r->step += !r->evaluates;
    for (int32_t i = 0; i < r->stores && !r->evaluates; i++)
        r->deferred |= r->store[i].kept < r->store[i].part;
    return mean_loss(r, loss);
}

/* In the order of the tasks, which is the same on all members. */
weft_status run_deferred(struct rank *r)
{
    const struct program *p = &r->program;
    for (int32_t i = 0; i < p->jobs && r->deferred; i++) {
        if (p->job[i].kind != JOB_DEFERRED)
            continue;
        start_job(r, i);
        while (r->active.len && !has_failed(r) && !r->transport->kind->failed(r->transport))
            if (!test_active(r))
                r->transport->kind->wait(r->transport, PATIENCE_S, true);
    }
    const char *why = r->failed ? r->why : r->transport->kind->failed(r->transport);
    r->deferred = false;
    return why ? failure("%s", why) : WEFT_OK;
}
