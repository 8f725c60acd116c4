/* in_order.c - one iteration on a rank that runs ahead of its device: one thread gives the device all jobs,
 * in the order of order.c, and waits for none of them.
 *
 * A transfer goes on beside computation until a job needs what it brings. Only there is it *followed*: what
 * the device is given from then on begins after it (transport.h, I6).
 *
 *   I1  Memory is taken and given back in the order of the stream of computation: a transfer keeps its
 *       buffers until it has been followed, or is over.
 *   I2  A sharded bucket's whole gradients wait for the synchronisation of the one before (bucket_transfers.c, I2).
 *   I3  At the end of an iteration everything has been followed.
 */
#include "run/rank/room.h"

#include <string.h>
#include <time.h>

bool runs_in_order(const struct rank *r)
{
    bool alone = r->transport->ranks == 1 && r->options->replays;
    return r->transport->kind->follow != NULL || alone;
}

/* A rank that is alone may have a transport that does not follow: what it begins is over soon. */
static void follow_transfer(struct rank *r, struct pending_transfer *request)
{
    static const double PATIENCE_S = 0.0001;
    struct transport *t = r->transport;
    if (t->kind->follow)
        t->kind->follow(t, request);
    else
        while (!t->kind->test(t, request) && !t->kind->failed(t))
            t->kind->wait(t, PATIENCE_S, true);
}

/* Follows a transfer and the rest of its job. */
static void follow(struct rank *r, struct errand *w)
{
    do
        if (w->copying)
            device_await(rank_device(r), r->work, w->copied);
        else
            follow_transfer(r, w->request);
    while (goes_further(r, w) && !has_failed(r));
}

/* Of the active ones those that a condition names, in the order in which they were started. */
static void follow_those(struct rank *r,
                         bool (*chosen)(const struct rank *r, const struct errand *w,
                                        const void *context),
                         const void *context)
{
    size_t left = 0;
    for (size_t i = 0; i < r->active.len; i++) {
        struct errand *w = r->active.data[i];
        if (!has_failed(r) && chosen(r, w, context))
            follow(r, w);
        else
            r->active.data[left++] = w;
    }
    r->active.len = left;
}

static bool is_any(const struct rank *r, const struct errand *w, const void *context)
{
    (void)r;
    (void)w;
    (void)context;
    return true;
}

/* What is sent has been copied (sends.c, I1), and nobody waits for it: it is given up when it is over, or
 * when the same stream sends the next. */
static bool is_sent(const struct rank *r, const struct errand *w, const void *context)
{
    const struct job *job = &r->program.job[w->job];
    return job->kind == JOB_SEND && job->stream == *(const uint8_t *)context;
}

/* ---- what a job needs ------------------------------------------------------------------------ */

static bool is_after(const struct rank *r, const struct job *before, int32_t job)
{
    for (int32_t i = 0; i < before->afters; i++)
        if (r->program.after[before->first_after + i] == job)
            return true;
    return false;
}

/* Per stream: the last active one that a job needs. Those before it in the stream are over with it. */
struct needs {
    int32_t last[STREAM_COUNT];
};

static bool is_needed(const struct rank *r, const struct errand *w, const void *context)
{
    const struct needs *needs = context;
    const struct job *job = &r->program.job[w->job];
    return job->kind != JOB_SEND && w->job <= needs->last[job->stream];
}

static void follow_needed(struct rank *r, int32_t number)
{
    struct needs needs;
    const struct job *job = &r->program.job[number];
    for (int s = 0; s < STREAM_COUNT; s++)
        needs.last[s] = -1;
    if (job->kind == JOB_STEP || job->kind == JOB_SLICES) /* of one chain */
        needs.last[job->stream] = number;
    for (size_t i = 0; i < r->active.len; i++) {
        int32_t other = r->active.data[i]->job;
        int32_t *last = &needs.last[r->program.job[other].stream];
        if (*last < other && is_after(r, &r->program.job[other], number))
            *last = other;
    }
    follow_those(r, is_needed, &needs);
}

/* ---- gradients of sharded buckets (I2) ------------------------------------------------------- */

static bool is_whole(const struct rank *r, const struct errand *w, const void *context)
{
    const struct job *job = &r->program.job[w->job];
    (void)context;
    return job->kind == JOB_SYNCHRONISE &&
           r->graph->bucket[r->graph->task[job->task].about].shard >= 2;
}

/* Sums within groups of replicas come before those across (bucket_transfers.c). */
static bool is_of_bucket(const struct rank *r, const struct errand *w, const void *context)
{
    const struct job *job = &r->program.job[w->job];
    return job->stream == STREAM_GRADIENT &&
           r->graph->task[job->task].about == *(const int32_t *)context;
}

struct made_gradients {
    int32_t part, micro_batch;
};

/* Whole gradients of another block or micro-batch. */
static bool is_elsewhere(const struct rank *r, const struct errand *w, const void *context)
{
    const struct made_gradients *made = context;
    const struct task *task = &r->graph->task[r->program.job[w->job].task];
    return is_whole(r, w, NULL) && (task->micro_batch != made->micro_batch ||
                                    r->graph->bucket[task->about].part != made->part);
}

void room_for_gradients(struct rank *r, const struct store *store, int32_t micro_batch)
{
    struct made_gradients made = {r->graph->bucket[store->bucket].part, micro_batch};
    follow_those(r, is_elsewhere, &made);
}

/* ---- an iteration ---------------------------------------------------------------------------- */

static void start_in_order(struct rank *r, int32_t number)
{
    const struct job *job = &r->program.job[number];
    if (job->kind == JOB_SEND)
        follow_those(r, is_sent, &job->stream);
    if (job->kind == JOB_SYNCHRONISE || job->kind == JOB_DEFERRED) {
        follow_those(r, is_whole, NULL);
        follow_those(r, is_of_bucket, &r->graph->task[job->task].about);
    }
    if (job->kind != JOB_RECEIVE)
        r->next[job->stream]++;
    start_job(r, number);
}

void follow_all(struct rank *r)
{
    follow_those(r, is_any, NULL);
}

static int32_t first_optimizer(const struct rank *r)
{
    const struct program *p = &r->program;
    int32_t i = 0;
    while (i < p->jobs && p->job[p->order[i]].kind != JOB_OPTIMIZER)
        i++;
    return i;
}

static void run_some(struct rank *r, int32_t first, int32_t end)
{
    const struct program *p = &r->program;
    for (int32_t i = first; i < end && !has_failed(r); i++) {
        struct job *job = &p->job[p->order[i]];
        const char *why = r->transport->kind->failed(r->transport);
        if (why)
            rank_fail(r, "%s", why);
        follow_needed(r, p->order[i]);
        if (has_failed(r))
            break;
        if (job->kind == JOB_COMPUTE || job->kind == JOB_OPTIMIZER)
            compute_job(r, job);
        else
            start_in_order(r, p->order[i]);
    }
}

void run_in_order(struct rank *r)
{
    int32_t optimizer = first_optimizer(r);
    if (!replay_iteration(r)) {
        replay_begin(r);
        run_some(r, 0, optimizer);
        replay_end(r);
    }
    run_some(r, optimizer, r->program.jobs);
    follow_all(r);
}

void ask_in_order(struct rank *r, const struct transfer *transfer)
{
    struct pending_transfer *request;
    if (has_failed(r))
        return;
    if (r->transport->kind->start(r->transport, transfer, &request) != WEFT_OK)
        fail_by_status(r);
    else
        follow_transfer(r, request);
}

/* A rank that is gone leaves transfers on the device that never end: the host looks whether one is. */
static bool settles(struct rank *r)
{
    static const struct timespec PATIENCE = {.tv_nsec = 20000};
    struct device_event *event = device_record(rank_device(r), r->work);
    while (!device_over(rank_device(r), event)) {
        const char *why = r->transport->kind->failed(r->transport);
        if (why) {
            rank_fail(r, "%s", why);
            return false;
        }
        nanosleep(&PATIENCE, NULL);
    }
    return true;
}

void download(struct rank *r, void *to, const void *from, int64_t bytes)
{
    memset(to, 0, (size_t)bytes);
    if (!runs_in_order(r) || settles(r))
        device_download(rank_device(r), r->work, to, from, bytes);
}
