/* bucket_transfers.c - gradients and weights of a bucket on their way between the members that share it.
 *
 *   gradients  shard 0  all-reduce of a range (stores.c, 1), in place
 *              shard 1  reduce-scatter: each member's part of the sum, in the place of its own addend
 *              shard 2, 3  the same for each micro-batch, added to the part that is kept
 *   weights    all-gather of a range
 *
 *   I1  What is packed for its way goes in slices, so that little memory is staged and other transfers come
 *       in between. With a transport that has a stream for it (transport.h) a job is *ahead*: it gives that
 *       stream all of its slices at once, packing and unpacking between them, through the same staging
 *       memory. An empty transfer marks their end, and nothing is given up before it has been followed.
 *   I2  Whole gradients of a bucket live until the next one's are complete, and computation waits with the
 *       one after that until they are gone; with the next block's, until all of this one's are
 *       (lifetimes.h, I7): how much memory a run takes does not depend on how fast its transfers are.
 *   I3  Gradients travel in fp32, weights as they are stored where the transport can carry that.
 */
#include "run/rank/stretch.h"

/* Of all members together: 80 us at 400 GB/s, several times what starting a collective takes, and little beside
 * the gradients of a large model. */
enum { AHEAD_SLICE_BYTES = 32 << 20 };

/* ---- slices ---------------------------------------------------------------------------------- */

static const struct task *task_of(const struct rank *r, const struct errand *w)
{
    return &r->graph->task[r->program.job[w->job].task];
}

static struct store *store_of(const struct rank *r, const struct errand *w)
{
    return &r->store[r->store_of[task_of(r, w)->about]];
}

static bool goes_across(const struct rank *r, const struct task *task)
{
    return r->graph->exchange[task->exchange].pattern == r->graph->bucket[task->about].across;
}

void bucket_begin(const struct rank *r, const struct job *job, struct errand *w)
{
    const struct store *s = store_of(r, w);
    bool staged = job->kind == JOB_GATHER || s->shard > 0 || goes_across(r, task_of(r, w));
    w->at = job->kind == JOB_DEFERRED ? s->kept : 0;
    w->end = job->kind == JOB_SYNCHRONISE ? s->kept
             : job->kind == JOB_DEFERRED  ? s->trained_part
                                          : s->part;
    w->ahead = staged && r->transport->kind->stream;
}

static int64_t slice_of(const struct rank *r, const struct store *s, const struct errand *w)
{
    int64_t usual = w->ahead ? AHEAD_SLICE_BYTES : DEFAULT_SLICE_BYTES;
    int64_t bytes = r->options->slice_bytes ? r->options->slice_bytes : usual;
    int64_t places = bytes / (int64_t)sizeof(float) / s->members;
    if (runs_in_order(r) && !w->ahead)
        return s->part;
    return places > 0 ? places : 1;
}

/* The next slice's places; false: none are left. */
static bool next_slice(const struct rank *r, const struct store *s, struct errand *w)
{
    int64_t slice = slice_of(r, s, w);
    w->at += w->transfer.count;
    w->transfer = (struct transfer){.group = r->program.job[w->job].group};
    w->transfer.count = w->end - w->at < slice ? w->end - w->at : slice;
    return w->transfer.count > 0;
}

/* After the last slice of a job that is ahead; false: there is nothing to mark (I1). */
static bool mark_end(struct errand *w)
{
    w->marked = w->ahead;
    w->transfer.kind = TRANSFER_ALL_REDUCE;
    w->transfer.count = 0;
    return w->ahead;
}

/* ---- staging --------------------------------------------------------------------------------- */

/* Room for a slice, in floats: that of the slice before, if it is still there. The first is the largest. */
static void stage(struct rank *r, struct errand *w, int64_t out, int64_t in)
{
    if (!w->out && out) {
        w->out_count = out;
        w->out = floats_new(r, MEMORY_WORKSPACE, out);
    }
    if (!w->in && in) {
        w->in_count = in;
        w->in = floats_new(r, MEMORY_WORKSPACE, in);
    }
    w->stream = w->ahead ? r->transport->kind->stream(r->transport, w->transfer.group) : r->work;
    w->transfer.from = w->out;
    w->transfer.to = w->in;
}

static void unstage(struct rank *r, struct errand *w)
{
    floats_free(r, MEMORY_WORKSPACE, w->out, w->out_count);
    floats_free(r, MEMORY_WORKSPACE, w->in, w->in_count);
    w->out = w->in = NULL;
}

/* Between two slices. */
static void slice_over(struct rank *r, struct errand *w)
{
    if (!w->ahead)
        unstage(r, w);
}

static void copy(const struct rank *r, const struct errand *w, float *to, const float *from,
                 int64_t count)
{
    rank_device(r)->copy(w->stream, COPY_ON_DEVICE, to, from, count * (int64_t)sizeof *to);
}

/* What is packed is zero where nothing is: of `count` elements those after the first `real` ones. */
static void clear_rest(const struct rank *r, const struct errand *w, void *to, enum dtype dtype,
                       int64_t real, int64_t count)
{
    int64_t each = dtype_bytes(dtype);
    if (real < count)
        rank_device(r)->clear(w->stream, (char *)to + real * each, (count - real) * each);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static void pack_gradients(const struct rank *r, const struct errand *w, const struct store *s,
                           const float *whole)
{
    struct stretch at;
    int64_t count = w->transfer.count;
    FOR_STRETCHES(r, s, w->at, w->at + count, at)
    {
        for (int32_t m = 0; m < s->members; m++) {
            float *to = w->out + m * count + at.within;
            int64_t real = at.held->contributes ? real_count(&at, m) : 0;
            copy(r, w, to, whole + element_of(&at, m), real);
            clear_rest(r, w, to, DTYPE_FP32, real, at.count);
        }
    }
}

static void take_sum(const struct rank *r, const struct errand *w, const struct store *s)
{
    struct stretch at;
    FOR_STRETCHES(r, s, w->at, w->at + w->transfer.count, at)
    {
        int64_t real = real_count(&at, s->member);
        if (s->shard == 1)
            copy(r, w, s->gradients + element_of(&at, s->member), w->in + at.within, real);
        if (s->shard >= 2)
            rank_device(r)->add(w->stream, DTYPE_FP32, w->in + at.within, real,
                                s->gradients + at.held->place + at.at);
    }
}

/* Whether the next bucket to be synchronised is of the same block. (I2) */
static bool is_followed(const struct rank *r, const struct errand *w)
{
    const struct program *p = &r->program;
    int32_t next = r->next[STREAM_GRADIENT];
    if (next == p->queued[STREAM_GRADIENT] || !(r->plan->overlap & OVERLAP_GRADIENTS))
        return false;
    const struct job *job = &p->job[p->queue[STREAM_GRADIENT][next]];
    const struct task *task = &r->graph->task[job->task], *own = task_of(r, w);
    return job->kind == JOB_SYNCHRONISE && task->micro_batch == own->micro_batch &&
           r->graph->bucket[task->about].part == r->graph->bucket[own->about].part;
}

void drop_outlived(struct rank *r)
{
    struct outlived *o = &r->outlived;
    pthread_mutex_lock(&r->lock);
    if (o->store) {
        value_drop(r, o->store->made[o->micro_batch]);
        o->store->made[o->micro_batch] = NULL;
        o->store = NULL;
    }
    pthread_mutex_unlock(&r->lock);
}

/* A member's own share of a bucket's gradients, after the sum within its group of replicas. */
static float *own_share(const struct store *s, const struct stretch *at)
{
    return s->shard == 1 ? s->gradients + element_of(at, s->member)
                         : s->gradients + at->held->place + at->at;
}

static void move_shares(const struct rank *r, const struct errand *w, const struct store *s,
                        bool back)
{
    struct stretch at;
    FOR_STRETCHES(r, s, w->at, w->at + w->transfer.count, at)
    {
        float *own = own_share(s, &at), *here = w->out + at.within;
        int64_t real = real_count(&at, s->member);
        copy(r, w, back ? own : here, back ? here : own, real);
        if (!back)
            clear_rest(r, w, here, DTYPE_FP32, real, at.count);
    }
}

/* Shares are added up across groups of replicas (compile/buckets.c, 3). */
static bool add_up_next(struct rank *r, struct errand *w, struct store *s)
{
    if (w->out)
        move_shares(r, w, s, true);
    slice_over(r, w);
    if (!next_slice(r, s, w))
        return mark_end(w);
    stage(r, w, w->transfer.count, 0);
    move_shares(r, w, s, false);
    w->transfer.kind = TRANSFER_ALL_REDUCE;
    w->transfer.to = w->out;
    return true;
}

static void begin_slice(struct rank *r, struct errand *w, struct store *s)
{
    int64_t count = w->transfer.count;
    if (s->shard == 0) {
        w->transfer.kind = TRANSFER_ALL_REDUCE;
        w->transfer.from = w->transfer.to = s->gradients + w->at;
        return;
    }
    const float *whole = s->gradients;
    if (s->shard >= 2)
        whole = gradient_data(r, s->first_weight, task_of(r, w)->micro_batch) -
                r->weight[s->first_weight].first;
    w->transfer.kind = TRANSFER_REDUCE_SCATTER;
    stage(r, w, s->members * count, count);
    pack_gradients(r, w, s, whole);
}

static bool synchronise_over(struct rank *r, struct errand *w, struct store *s)
{
    unstage(r, w);
    if (s->shard < 2 || goes_across(r, task_of(r, w)))
        return false;
    r->outlived = (struct outlived){s, task_of(r, w)->micro_batch};
    if (!is_followed(r, w))
        drop_outlived(r);
    return false;
}

bool synchronise_next(struct rank *r, struct errand *w)
{
    struct store *s = store_of(r, w);
    if (w->marked)
        return synchronise_over(r, w, s);
    if (goes_across(r, task_of(r, w)))
        return add_up_next(r, w, s);
    if (w->in)
        take_sum(r, w, s);
    slice_over(r, w);
    if (!next_slice(r, s, w))
        return mark_end(w) || synchronise_over(r, w, s);
    begin_slice(r, w, s);
    return true;
}

/* ---- weights --------------------------------------------------------------------------------- */

static char *place_in(void *data, enum dtype dtype, int64_t element)
{
    return (char *)data + element * dtype_bytes(dtype);
}

static void pack_weights(const struct rank *r, const struct errand *w, const struct store *s,
                         enum dtype stored)
{
    struct stretch at;
    enum dtype sent = w->transfer.dtype;
    FOR_STRETCHES(r, s, w->at, w->at + w->transfer.count, at)
    {
        int64_t from = stored_at(s, at.held, s->member * at.held->share + at.at);
        int64_t real = real_count(&at, s->member);
        char *to = place_in(w->out, sent, at.within);
        rank_device(r)->cast(w->stream, stored, place_in(s->weights, stored, from), sent, to, real);
        clear_rest(r, w, to, sent, real, at.count);
    }
}

static void unpack_weights(const struct rank *r, const struct errand *w, const struct store *s,
                           enum dtype stored, void *whole)
{
    struct stretch at;
    enum dtype sent = w->transfer.dtype;
    int64_t count = w->transfer.count;
    FOR_STRETCHES(r, s, w->at, w->at + count, at)
    {
        for (int32_t m = 0; m < s->members; m++)
            rank_device(r)->cast(w->stream, sent, place_in(w->in, sent, m * count + at.within),
                                 stored, place_in(whole, stored, element_of(&at, m)),
                                 real_count(&at, m));
    }
}

/* With shard 3 they are gathered for one pass, and may be there still from another. */
static void keep_gathered(struct rank *r, const struct store *s, struct errand *w)
{
    int32_t micro_batch = task_of(r, w)->micro_batch;
    struct value **at = value_at(r, micro_batch, key_of(r, KEY_WEIGHTS, s->bucket));
    pthread_mutex_lock(&r->lock);
    if (*at) {
        r->spare[micro_batch * r->keys + key_of(r, KEY_WEIGHTS, s->bucket)]++;
        value_drop(r, w->result);
    } else {
        *at = w->result;
    }
    pthread_mutex_unlock(&r->lock);
    w->result = NULL;
}

static bool gather_over(struct rank *r, struct errand *w, const struct store *s)
{
    unstage(r, w);
    if (s->shard == 3)
        keep_gathered(r, s, w);
    return false;
}

/* A part that is stored as it is sent lies in the order of its places: it is sent from there. */
static void begin_gather(struct rank *r, struct errand *w, const struct store *s, enum dtype stored)
{
    enum dtype sent = travels_as(r, stored);
    int64_t count = w->transfer.count;
    bool direct = s->shard == 3 && sent == stored;
    w->transfer.kind = TRANSFER_ALL_GATHER;
    w->transfer.dtype = sent;
    stage(r, w, direct ? 0 : floats_of(sent, count), floats_of(sent, s->members * count));
    if (direct)
        w->transfer.from = place_in(s->weights, stored, w->at);
    else
        pack_weights(r, w, s, stored);
}

bool gather_next(struct rank *r, struct errand *w)
{
    const struct store *s = store_of(r, w);
    enum dtype stored = stored_as(r, ELEMENT_COMPUTE);
    struct layout none = layout_none(s->count);
    if (w->marked)
        return gather_over(r, w, s);
    if (s->shard == 3 && !w->result)
        w->result = value_new(r, MEMORY_WEIGHTS, stored, &none, s->count);
    if (w->in)
        unpack_weights(r, w, s, stored, s->shard == 3 ? w->result->data : s->weights);
    slice_over(r, w);
    if (!next_slice(r, s, w))
        return mark_end(w) || gather_over(r, w, s);
    begin_gather(r, w, s, stored);
    return true;
}
