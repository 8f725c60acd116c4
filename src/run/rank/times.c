/* times.c - when tasks ran, by the clock of whoever did them.
 *
 * A device that works at once is timed by the host. Of one that works behind it, a task begins and ends where its stream of
 * computation comes to marks that the rank gives it before and after the task's own work:
 *
 *   t(mark) = t(first mark) + what the device counts between the two                                              (1)
 *
 * with the first mark's time read when the device had come to it. So a transfer lasts from when the device could begin it
 * until computation went on with what it brought.
 *
 *   I1  Marks are read after the iteration, when the device has come to all of them.
 */
#include "run/rank/times.h"

struct marked_event {
    struct run_event event;
    struct device_event *begin, *end;
};
struct task_times {
    struct device_event *first;
    int64_t first_ns;
    ARRAY(struct marked_event) marked;
};

static int64_t now_ns(const struct rank *r)
{
    return (int64_t)((wall_seconds() - r->started_s) * 1e9);
}

static bool marks(const struct rank *r)
{
    return rank_device(r)->mark != NULL;
}

/* (1): the first mark, once the device has come to it. */
static void mark_first(struct rank *r)
{
    const struct compute_device *device = rank_device(r);
    r->times = ARENA_NEW(r->arena, struct task_times);
    r->times->first = device->mark(r->work);
    device_finish(device, device_record(device, r->work));
    r->times->first_ns = now_ns(r);
}

void task_begins(struct rank *r, struct job *job)
{
    pthread_mutex_lock(&r->lock);
    if (marks(r) && !r->times)
        mark_first(r);
    job->begin_ns = now_ns(r);
    bool copies = job->kind == JOB_TO_HOST || job->kind == JOB_FROM_HOST; /* copies_begin_at */
    job->begin_mark = marks(r) && !r->evaluates && !copies ? rank_device(r)->mark(r->work) : NULL;
    pthread_mutex_unlock(&r->lock);
}

static struct device_event *mark_copies(const struct rank *r, struct device_stream *stream)
{
    return r->options->trace && marks(r) && !r->evaluates ? rank_device(r)->mark(stream) : NULL;
}

/* What they wait for is no part of them. */
void copies_begin_at(struct rank *r, struct job *job, struct device_stream *stream)
{
    const struct compute_device *device = rank_device(r);
    device_await(device, stream, device_record(device, r->work));
    job->begin_mark = mark_copies(r, stream);
}

void copies_end_at(struct rank *r, struct job *job, struct device_stream *stream)
{
    job->end_mark = mark_copies(r, stream);
}

void task_ends(struct rank *r, struct job *job)
{
    struct run_event event = {r->step, job->task, job->begin_ns, now_ns(r)};
    if (r->evaluates)
        return;
    if (marks(r)) {
        struct device_event *end = job->end_mark ? job->end_mark : rank_device(r)->mark(r->work);
        struct device_event *begin =
            job->begin_mark ? job->begin_mark : rank_device(r)->mark(r->work);
        struct marked_event marked = {event, begin, end};
        array_push(r->arena, &r->times->marked, marked);
        job->end_mark = NULL;
    } else {
        array_push(r->arena, &r->events, event);
    }
}

static int64_t time_of(const struct rank *r, struct device_event *mark)
{
    const struct compute_device *device = rank_device(r);
    int64_t at =
        r->times->first_ns + (int64_t)(device->apart(r->times->first, mark) * 1e9); /* (1) */
    device_finish(device, mark);
    return at;
}

void times_resolve(struct rank *r)
{
    for (size_t i = 0; r->times && i < r->times->marked.len; i++) {
        struct marked_event *m = &r->times->marked.data[i];
        device_finish(rank_device(r), device_record(rank_device(r), r->work)); /* I1 */
        m->event.begin_ns = time_of(r, m->begin);
        m->event.end_ns = time_of(r, m->end);
        array_push(r->arena, &r->events, m->event);
    }
    if (r->times)
        r->times->marked.len = 0;
}

void times_free(struct rank *r)
{
    if (r->times)
        device_finish(rank_device(r), r->times->first);
}
