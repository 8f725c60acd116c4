/* rank.c - one iteration on one rank: an executor that computes and a communicator that moves.
 *
 * The executor runs the compute stream's tasks in order, each when what it waits for is over. The
 * communicator, meanwhile, looks: it starts the first task of every other stream that is ready, tests what
 * is on its way, and serves the sums that kernels ask for. Whose turn it is to look: progress_thread.c.
 *
 *   I1  Streams are looked at in the order of PRIORITY: what holds up computation first, gradient
 *       buckets last, and of these one slice at a time (bucket_transfers.c, I1).
 *   I2  A stream's next task starts when the one before it is over; a send and a copy to the host when it has started.
 *   I3  When anything fails, here or elsewhere, both threads leave their loops.
 */
#include "run/rank/scales.h"
#include "run/rank/times.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum stream_kind PRIORITY[] = {STREAM_NEXT,    STREAM_PREVIOUS,  STREAM_FEATURE,
                                            STREAM_TOKENS,  STREAM_PARAMETER, STREAM_FROM_HOST,
                                            STREAM_TO_HOST, STREAM_GRADIENT,  STREAM_HOST};
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

/* ---- the executor ---------------------------------------------------------------------------- */

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
        compute_job(r, job);
        if (has_failed(r))
            break;
        await_begun(r);
        await_started(r);
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
    if (runs_in_order(r)) {
        ask_in_order(r, transfer);
        return;
    }
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

/* ---- the communicator ------------------------------------------------------------------------ */

static bool is_ready(struct rank *r, int32_t number)
{
    pthread_mutex_lock(&r->lock);
    bool ready = r->program.job[number].waits == 0;
    pthread_mutex_unlock(&r->lock);
    return ready;
}

/* Copies to the host keep their order by themselves (host_copies.c, I2). */
static bool lets_next_begin(const struct job *job)
{
    return job->over || (job->kind == JOB_TO_HOST && job->started);
}

static bool start_streams(struct rank *r)
{
    const struct program *p = &r->program;
    bool moved = false;
    for (size_t i = 0; i < COUNT_OF(PRIORITY); i++) {
        enum stream_kind s = PRIORITY[i];
        int32_t at = r->next[s];
        bool free_now = at == 0 || lets_next_begin(&p->job[p->queue[s][at - 1]]);
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
        if (has_failed(r) || !errand_is_over(r, w)) {
            r->active.data[left++] = w;
            continue;
        }
        moved = true;
        if (goes_further(r, w))
            r->active.data[left++] = w;
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
    memset(r->begun, 0, sizeof r->begun);
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
        for (int32_t i = 0; i < block->items; i++) /* steps of others have no job here */
            r->progress[b].over[i] =
                block->item[i].pattern >= 0 && !item_is_at(&block->item[i], r->device);
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
    download(r, &own, r->loss_sum, sizeof own);
    if (r->failed)
        return stop_all(r);
    float parts[] = {(float)own, (float)(own - (double)(float)own)};
    weft_status status = sum_over_all(r, parts, COUNT_OF(parts));
    *loss = (double)parts[0] + (double)parts[1];
    return status;
}

static weft_status run_by_threads(struct rank *r)
{
    pthread_t executor;
    if (pthread_create(&executor, NULL, execute, r) != 0)
        return failure("cannot start a thread");
    communicate(r);
    pthread_join(executor, NULL);
    return WEFT_OK;
}

weft_status run_iteration(struct rank *r, double *loss)
{
    weft_status status = WEFT_OK;
    reset(r);
    if (runs_in_order(r))
        run_in_order(r);
    else
        status = run_by_threads(r);
    if (status != WEFT_OK)
        return status;
    if (r->failed)
        return stop_all(r);
    advance_scales(r);
    r->step += !r->evaluates;
    for (int32_t i = 0; i < r->stores && !r->evaluates; i++)
        r->deferred |= r->store[i].kept < r->store[i].trained_part;
    status = mean_loss(r, loss);
    if (status == WEFT_OK)
        times_resolve(r);
    return status;
}

/* In the order of the tasks, which is the same on all members. */
weft_status run_deferred(struct rank *r)
{
    const struct program *p = &r->program;
    for (int32_t i = 0; i < p->jobs && r->deferred; i++) {
        if (p->job[i].kind != JOB_DEFERRED)
            continue;
        start_job(r, i);
        if (runs_in_order(r))
            follow_all(r);
        while (r->active.len && !has_failed(r) && !r->transport->kind->failed(r->transport))
            if (!test_active(r))
                r->transport->kind->wait(r->transport, PATIENCE_S, true);
    }
    const char *why = r->failed ? r->why : r->transport->kind->failed(r->transport);
    r->deferred = false;
    return why ? failure("%s", why) : WEFT_OK;
}
