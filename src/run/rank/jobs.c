/* jobs.c - what each kind of job does, whoever runs it: two threads (rank.c) or one in a fixed order
 * (in_order.c).
 *
 *   computation   the items of a task, the optimizer's step
 *   transfers     a job is one transfer after another, with something to do before the first, between two
 *                 and after the last
 */
#include "run/rank/sends.h"
#include "run/rank/times.h"

#include <math.h>
#include <stdlib.h>

/* ---- beginning and end ----------------------------------------------------------------------- */

static void begin_job(struct rank *r, struct job *job)
{
    if (r->options->trace)
        task_begins(r, job);
}

static void end_job(struct rank *r, struct job *job)
{
    pthread_mutex_lock(&r->lock);
    job->over = true;
    r->done++;
    for (int32_t i = 0; i < job->afters; i++)
        r->program.job[r->program.after[job->first_after + i]].waits--;
    if (r->options->trace)
        task_ends(r, job);
    pthread_mutex_unlock(&r->lock);
}

/* ---- computation ----------------------------------------------------------------------------- */

static void run_items(struct rank *r, const struct task *task)
{
    const struct block *block = &r->graph->block[task->block];
    struct spot at = {task->micro_batch, task->block, task->first_item};
    for (; at.item < task->first_item + task->items && !has_failed(r); at.item++) {
        if (task->idle) /* others do (graph.h, I6) */
            ;
        else if (block->item[at.item].kind == ITEM_OP)
            run_op(r, at);
        else
            run_slice(r, at);
        item_over(r, at);
    }
}

/* Never below 1: gradients that are too large for fp16 by themselves are the run's own fault. */
static void adapt_scale(struct loss_scale *s, bool finite)
{
    s->good = finite ? s->good + 1 : 0;
    s->skipped += !finite;
    if (!finite && s->scale > 1)
        s->scale /= 2;
    if (s->good == LOSS_SCALE_GROWTH) {
        s->scale *= 2;
        s->good = 0;
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
    double scaled = r->loss_scale.scale > 0 ? r->loss_scale.scale : 1;
    double limit = r->options->clip > 0 ? (double)r->options->clip : INFINITY;
    r->gradient_norm = sqrt((double)parts[0] + (double)parts[1]) / scaled;
    bool finite = isfinite(r->gradient_norm);
    r->pace[r->step & 1].scale =
        finite ? (float)(clip_factor(r->gradient_norm, limit) / scaled) : NAN;
    if (r->loss_scale.scale > 0)
        adapt_scale(&r->loss_scale, finite);
}

bool measures_norm(const struct rank *r)
{
    return r->options->clip > 0 || r->loss_scale.scale > 0;
}

static void run_optimizer(struct rank *r)
{
    tie_rest(r);
    if (measures_norm(r) && !r->evaluates)
        scale_back(r);
    for (int32_t i = 0; i < r->stores && !has_failed(r); i++) {
        struct store *store = &r->store[i];
        optimize_store(r, store, 0, r->evaluates ? store->trained_part : store->kept, r->step);
    }
}

void compute_job(struct rank *r, struct job *job)
{
    begin_job(r, job);
    if (job->kind == JOB_OPTIMIZER)
        run_optimizer(r);
    else
        run_items(r, &r->graph->task[job->task]);
    const char *why = device_failed(rank_device(r));
    if (why)
        rank_fail(r, "%s", why);
    if (!has_failed(r))
        end_job(r, job);
}

/* ---- transfers ------------------------------------------------------------------------------- */

static struct store *store_of_job(const struct rank *r, const struct job *job)
{
    return &r->store[r->store_of[r->graph->task[job->task].about]];
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
                           store_of_job(r, job)->trained_part, r->step - 1);
        return false;
    case JOB_GATHER:
        return gather_next(r, w);
    case JOB_TIE:
        return first && tie_begin(r, w);
    case JOB_SLICES: {
        struct spot at = {task->micro_batch, task->block, task->first_item};
        if (!task->idle)
            run_slice(r, at);
        item_over(r, at);
        return false;
    }
    case JOB_TO_HOST:
    case JOB_FROM_HOST:
        if (first)
            return checkpoints_begin(r, w);
        checkpoints_end(r, w);
        return false;
    default:
        return false;
    }
}

void fail_by_status(struct rank *r)
{
    rank_fail(r, "%s", weft_last_error()->message);
}

static void start_transfer(struct rank *r, struct errand *w)
{
    bool waits = !w->ahead || w->marked; /* bucket_transfers.c, I1 */
    if (r->transport->kind->start(r->transport, &w->transfer, waits ? &w->request : NULL) !=
        WEFT_OK)
        fail_by_status(r);
}

/* When copies are complete: a send's transfer begins, another job is over. */
static bool copies_are_there(struct rank *r, struct errand *w)
{
    struct job *job = &r->program.job[w->job];
    w->copied = NULL;
    w->copying = false;
    if (job->kind != JOB_SEND)
        return next_transfer(r, job, w, false);
    send_has_left(r, w);
    start_transfer(r, w);
    return true;
}

/* Starts the next transfer of a job, or copies; false: there is none. */
static bool start_next(struct rank *r, struct errand *w, bool first)
{
    struct job *job = &r->program.job[w->job];
    if (!next_transfer(r, job, w, first) || has_failed(r))
        return false;
    if (w->copying)
        return !device_over(rank_device(r), w->copied) || copies_are_there(r, w);
    start_transfer(r, w);
    return true;
}

/* Goes on with a job: true while it has a transfer on its way. */
static bool proceed(struct rank *r, struct errand *w, bool first)
{
    bool active = start_next(r, w, first);
    while (active && w->ahead && !w->marked && !has_failed(r))
        active = start_next(r, w, false);
    return active;
}

static void note_started(struct rank *r, struct job *job)
{
    pthread_mutex_lock(&r->lock);
    job->started = true;
    r->begun[job->stream] += job->kind != JOB_RECEIVE;
    pthread_mutex_unlock(&r->lock);
}

void start_job(struct rank *r, int32_t number)
{
    struct job *job = &r->program.job[number];
    struct errand *w = calloc(1, sizeof *w);
    if (!w)
        memory_ran_out(sizeof *w);
    w->job = number;
    begin_job(r, job);
    note_started(r, job);
    if (job->kind == JOB_SYNCHRONISE || job->kind == JOB_DEFERRED || job->kind == JOB_GATHER)
        bucket_begin(r, job, w);
    bool active = proceed(r, w, true);
    pthread_mutex_lock(&r->lock); /* of the arena: events go there, too */
    if (active)
        array_push(r->arena, &r->active, w);
    pthread_mutex_unlock(&r->lock);
    if (!active)
        errand_free(r, w);
    if ((!active || job->kind == JOB_SEND) && !has_failed(r))
        end_job(r, job);
}

bool errand_is_over(struct rank *r, struct errand *w)
{
    return w->copying ? device_over(rank_device(r), w->copied)
                      : r->transport->kind->test(r->transport, w->request);
}

bool goes_further(struct rank *r, struct errand *w)
{
    struct job *job = &r->program.job[w->job];
    w->request = NULL;
    if (w->copying ? copies_are_there(r, w) : proceed(r, w, false))
        return true;
    if (job->kind != JOB_SEND && !has_failed(r))
        end_job(r, job);
    errand_free(r, w);
    return false;
}
