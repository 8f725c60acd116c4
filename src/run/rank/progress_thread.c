/* progress_thread.c - which thread of a rank makes its transfers progress: the communicator while the
 * executor computes, the executor itself while it waits.
 *
 * Handing a transfer to another thread and being told of its end takes two turns of the operating system's
 * scheduler, each longer than a small transfer. An executor that waits has nothing better to do than to
 * drive its transfers itself.
 *
 *   I1  The thread that drives holds `driving`: it tests the transport and the active transfers, and starts
 *       what may start (rank.c). It releases `driving` while it sleeps because there is nothing to test.
 *   I2  The communicator sleeps while the executor drives and while no transfer is active. The executor
 *       wakes it when it goes on to compute and leaves transfers active.
 */
#include "run/rank/room.h"

static const double PATIENCE_S = 0.0005; /* between looks at a transport that tells of nothing */
static const double COPY_PATIENCE_S =
    0.00002; /* at copies, whose end nobody tells: what small ones take */

static void wait_a_while(struct rank *r, bool idle)
{
    double patience_s = copies_go_on(r) ? COPY_PATIENCE_S : PATIENCE_S;
    r->transport->kind->wait(r->transport, patience_s, idle);
}

void call_communicator(struct rank *r)
{
    pthread_mutex_lock(&r->lock);
    r->calls++;
    pthread_cond_signal(&r->called);
    pthread_mutex_unlock(&r->lock);
    r->transport->kind->wake(r->transport);
}

static void set_drives(struct rank *r, bool drives)
{
    pthread_mutex_lock(&r->lock);
    r->executor_drives = drives;
    pthread_mutex_unlock(&r->lock);
}

/* ---- an executor that waits ------------------------------------------------------------------ */

/* What it waits for; under the lock. */
struct rank_wait {
    bool (*is_over)(const struct rank *r, const struct rank_wait *wait);
    const struct job *job;
    const struct store *store;
    int32_t micro_batch;
};

static bool is_over(struct rank *r, const struct rank_wait *wait)
{
    pthread_mutex_lock(&r->lock);
    bool over = r->failed || wait->is_over(r, wait);
    pthread_mutex_unlock(&r->lock);
    return over;
}

static void drive(struct rank *r, const struct rank_wait *wait)
{
    if (is_over(r, wait))
        return;
    set_drives(r, true);
    r->transport->kind->wake(r->transport); /* a communicator that holds `driving` and waits */
    pthread_mutex_lock(&r->driving);
    while (!is_over(r, wait))
        if (!look(r))
            wait_a_while(r, true);
    bool leaves = look(r) || r->active.len > 0;
    pthread_mutex_unlock(&r->driving);
    set_drives(r, false);
    if (leaves) /* I2 */
        call_communicator(r);
}

static bool may_run(const struct rank *r, const struct rank_wait *wait)
{
    (void)r;
    return wait->job->waits == 0;
}

void await_job(struct rank *r, const struct job *job)
{
    struct rank_wait wait = {.is_over = may_run, .job = job};
    drive(r, &wait);
}

static bool is_answered(const struct rank *r, const struct rank_wait *wait)
{
    (void)wait;
    return r->asked.over;
}

void await_asked(struct rank *r)
{
    struct rank_wait wait = {.is_over = is_answered};
    drive(r, &wait);
}

/* Whether no whole gradients are in the way (bucket_transfers.c, I2): all that are complete are on their way, and,
 * before some are made, those of other blocks are gone. What is looked at needs nothing more from this
 * executor: the first that does ends it. */
static bool has_room(const struct rank *r, const struct rank_wait *wait)
{
    const struct program *p = &r->program;
    const struct bucket *bucket = r->graph->bucket;
    for (int32_t i = 0; i < p->queued[STREAM_GRADIENT]; i++) {
        const struct job *job = &p->job[p->queue[STREAM_GRADIENT][i]];
        const struct task *task = &r->graph->task[job->task];
        if (job->waits > 0)
            return true;
        if (job->kind != JOB_SYNCHRONISE || bucket[task->about].shard < 2)
            continue;
        bool other = wait->store && (task->micro_batch != wait->micro_batch ||
                                     bucket[task->about].part != bucket[wait->store->bucket].part);
        if (!(other ? job->over : job->started))
            return false;
    }
    return true;
}

void await_room(struct rank *r, int32_t weight, int32_t micro_batch)
{
    struct rank_wait wait = {.is_over = has_room, .micro_batch = micro_batch};
    wait.store = &r->store[r->weight[weight].store];
    if (wait.store->shard < 2 || wait.store->made[micro_batch])
        return;
    if (runs_in_order(r))
        room_for_gradients(r, wait.store, micro_batch);
    else
        drive(r, &wait);
}

void await_begun(struct rank *r)
{
    struct rank_wait wait = {.is_over = has_room};
    if (r->plan->overlap & OVERLAP_GRADIENTS)
        drive(r, &wait);
}

static bool begins_beside(const struct job *job)
{
    return job->kind == JOB_SEND || job->kind == JOB_TO_HOST;
}

/* A send, or a copy to the host, that could begin. */
static bool could_begin(const struct rank *r, enum stream_kind stream)
{
    const struct program *p = &r->program;
    int32_t at = r->begun[stream];
    if (at == p->queued[stream])
        return false;
    const struct job *job = &p->job[p->queue[stream][at]];
    return job->waits == 0 && begins_beside(job) &&
           (at == 0 || begins_beside(&p->job[p->queue[stream][at - 1]]));
}

static bool all_began(const struct rank *r, const struct rank_wait *wait)
{
    (void)wait;
    return !could_begin(r, STREAM_NEXT) && !could_begin(r, STREAM_PREVIOUS) &&
           !could_begin(r, STREAM_TO_HOST);
}

/* What begins later also waits for what the device was given meanwhile. */
void await_started(struct rank *r)
{
    struct rank_wait wait = {.is_over = all_began};
    if (rank_device(r)->record)
        drive(r, &wait);
}

/* ---- the communicator ------------------------------------------------------------------------ */

static int64_t calls_so_far(struct rank *r)
{
    pthread_mutex_lock(&r->lock);
    int64_t calls = r->calls;
    pthread_mutex_unlock(&r->lock);
    return calls;
}

/* Until it is called, or the executor is gone. (I2) */
static void await_call(struct rank *r, int64_t calls, bool nothing)
{
    pthread_mutex_lock(&r->lock);
    while (!r->failed && !r->executor_ended &&
           (r->executor_drives || (nothing && r->calls == calls)))
        pthread_cond_wait(&r->called, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static bool has_ended(struct rank *r)
{
    pthread_mutex_lock(&r->lock);
    bool ended = r->executor_ended;
    pthread_mutex_unlock(&r->lock);
    return ended;
}

static bool is_all_done(struct rank *r)
{
    pthread_mutex_lock(&r->lock);
    bool done = r->done == r->program.jobs;
    pthread_mutex_unlock(&r->lock);
    return done && r->active.len == 0;
}

void communicate(struct rank *r)
{
    for (bool done = false; !done && !has_failed(r);) {
        int64_t calls = calls_so_far(r);
        pthread_mutex_lock(&r->driving);
        bool moved = look(r), nothing = r->active.len == 0;
        done = is_all_done(r);
        if (!moved && !nothing && !done)
            wait_a_while(r, has_ended(r));
        pthread_mutex_unlock(&r->driving);
        await_call(r, calls, !moved && nothing);
    }
}
