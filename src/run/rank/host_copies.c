/* host_copies.c - copies between a rank's device and its host that go on beside computation: checkpoints that wait in host
 * memory, and what is sent from there.
 *
 * Each way has a stream of its own, since devices copy both ways at the same time. A copy begins after what the rank's own
 * stream had been given until then: what it reads was made there, and what it fills may have been read there.
 *
 *   I1  What is copied stays on both sides until the copy is complete. Then a tensor that somebody else has come to read
 *       stays on the device.
 *   I2  Copies of one way are complete in the order in which they began.
 */
#include "run/rank/sends.h"
#include "run/rank/times.h"

#include <stdlib.h>

static void copy_beside(struct rank *r, enum copy_way way, void *to, const void *from,
                        int64_t bytes)
{
    const struct compute_device *device = rank_device(r);
    struct device_stream *stream = r->copies[way == COPY_FROM_HOST];
    device_await(device, stream, device_record(device, r->work));
    device->copy(stream, way, to, from, bytes);
}

/* The errand waits for all that was given to the stream of copies. */
static void await_copies(struct rank *r, struct errand *w, enum copy_way way)
{
    w->copied = device_record(rank_device(r), r->copies[way == COPY_FROM_HOST]);
    w->copying = true;
}

/* ---- what is sent ---------------------------------------------------------------------------- */

void send_from_host(struct rank *r, struct errand *w, struct value *value)
{
    int64_t bytes = value->count * dtype_bytes(w->transfer.dtype);
    w->waiting = host_new(r, bytes);
    w->waiting_bytes = bytes;
    w->transfer.from = w->waiting;
    w->transfer.on_host = true;
    copy_beside(r, COPY_TO_HOST, w->waiting, value->data, bytes);
    await_copies(r, w, COPY_TO_HOST);
    pthread_mutex_lock(&r->lock);
    w->from = value_share(value); /* I1 */
    pthread_mutex_unlock(&r->lock);
}

void send_has_left(struct rank *r, struct errand *w)
{
    value_release(r, w->from);
    w->from = NULL;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* What is still read or sent stays where it is; NULL: this one does. */
static struct value *find_moving(struct rank *r, const struct task *task, int32_t key, bool back)
{
    pthread_mutex_lock(&r->lock);
    struct value *value = *value_at(r, task->micro_batch, key);
    bool moves = value && (back ? value->host && !value->data
                                : value->refs == 1 && value->data && !value->host);
    if (moves)
        value_share(value); /* I1 */
    pthread_mutex_unlock(&r->lock);
    return moves ? value : NULL;
}

static void begin_copy(struct rank *r, struct value *value, bool back)
{
    if (back) {
        value_come_back(r, value);
        copy_beside(r, COPY_FROM_HOST, value->data, value->host, value_bytes(value));
    } else {
        value->host = host_new(r, value_bytes(value));
        copy_beside(r, COPY_TO_HOST, value->host, value->data, value_bytes(value));
    }
}

bool checkpoints_begin(struct rank *r, struct errand *w)
{
    struct job *job = &r->program.job[w->job];
    const struct task *task = &r->graph->task[job->task];
    bool back = job->kind == JOB_FROM_HOST;
    const struct keys *keys = &r->offloads[task->about];
    w->moving = calloc((size_t)keys->count + 1, sizeof(struct value *));
    if (!w->moving)
        memory_ran_out(sizeof(struct value *));
    for (int32_t i = 0; i < keys->count; i++) {
        struct value *value = find_moving(r, task, keys->key[i], back);
        if (!value)
            continue;
        if (!w->moves)
            copies_begin_at(r, job, r->copies[back]);
        begin_copy(r, value, back);
        w->moving[w->moves++] = value;
    }
    if (w->moves == 0)
        return false;
    copies_end_at(r, job, r->copies[back]);
    await_copies(r, w, back ? COPY_FROM_HOST : COPY_TO_HOST);
    return true;
}

void checkpoints_end(struct rank *r, struct errand *w)
{
    bool back = r->program.job[w->job].kind == JOB_FROM_HOST;
    for (int32_t i = 0; i < w->moves; i++) {
        struct value *value = w->moving[i];
        pthread_mutex_lock(&r->lock);
        bool alone = value->refs == 2; /* the key's reference and this errand's */
        pthread_mutex_unlock(&r->lock);
        value_stay(r, value, back || !alone ? SIDE_DEVICE : SIDE_HOST);
    }
    copies_free(r, w);
}

void copies_free(struct rank *r, struct errand *w)
{
    for (int32_t i = 0; i < w->moves; i++)
        value_release(r, w->moving[i]);
    free((void *)w->moving);
    w->moving = NULL;
    w->moves = 0;
}

bool copies_go_on(const struct rank *r)
{
    for (size_t i = 0; i < r->active.len; i++)
        if (r->active.data[i]->copying)
            return true;
    return false;
}
