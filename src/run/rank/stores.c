/* stores.c - a bucket's weights, gradients and optimizer state on this device, and what moves them.
 *
 * The members that share a bucket's state each have a part of it: their shares of every weight, one
 * after the other (weights.c, I2). Without sharding there is one member and its part is all. A
 * *range* of parts is the same places of all members' parts:
 *
 *   place p of member m's part  =  element m * share + (p - place) of the weight it falls in      (1)
 *
 *   gradients  shard 0  all-reduce of a range, in place
 *              shard 1  reduce-scatter: each member's part of the sum, in the place of its own addend
 *              shard 2, 3  the same for each micro-batch, added to the part that is kept
 *   weights    all-gather of a range
 *
 *   I1  A bucket goes in slices of slice_bytes, so that other transfers come in between; at once on a
 *       device whose streams let them (in_order.c).
 *   I2  What padding a share has beyond the weight's end is zero.
 *   I3  Whole gradients of a bucket live until the next one's are complete, and computation waits with the
 *       one after that until they are gone; with the next block's, until all of this one's are
 *       (lifetimes.h, I7): how much memory a run takes does not depend on how fast its transfers are.
 *   I4  Weights in bf16 have a master in fp32 where their optimizer state is; gradients and what is
 *       sent are fp32.
 */
#include "run/rank/room.h"

#include <math.h>

#include <string.h>

/* ---- places of a range (1) ------------------------------------------------------------------- */

/* A run of places within one weight. */
struct stretch {
    const struct held_weight *held;
    int64_t at;     /* in the member's share */
    int64_t within; /* in the range */
    int64_t count;
};

static bool stretch_of(const struct rank *r, int32_t weight, int64_t first, int64_t end,
                       struct stretch *out)
{
    const struct held_weight *held = &r->weight[weight];
    int64_t from = first > held->place ? first : held->place;
    int64_t to = end < held->place + held->share ? end : held->place + held->share;
    *out = (struct stretch){held, from - held->place, from - first, to - from};
    return from < to;
}

/* Of a member's places of a stretch, those that are there (I2). */
static int64_t real_count(const struct stretch *s, int32_t member)
{
    int64_t left = s->held->count - (member * s->held->share + s->at);
    return left < 0 ? 0 : left < s->count ? left : s->count;
}

static int64_t element_of(const struct stretch *s, int32_t member)
{
    return s->held->first + member * s->held->share + s->at;
}

#define FOR_STRETCHES(r, store, first, end, s)                                                     \
    for (int32_t weight_ = (store)->first_weight;                                                  \
         weight_ < (store)->first_weight + (store)->weights_count; weight_++)                      \
        if (stretch_of((r), weight_, (first), (end), &(s)))

static void copy(const struct rank *r, float *to, const float *from, int64_t count)
{
    rank_device(r)->copy(r->work, COPY_ON_DEVICE, to, from, count * (int64_t)sizeof *to);
}

static void clear(const struct rank *r, float *to, int64_t count)
{
    rank_device(r)->clear(r->work, to, count * (int64_t)sizeof *to);
}

/* ---- how weights are stored ------------------------------------------------------------------ */

static enum dtype dtype_of(const struct rank *r)
{
    return stored_as(r, ELEMENT_COMPUTE);
}

static void read_stored(const struct rank *r, const void *from, int64_t first, int64_t count,
                        float *to)
{
    const char *at = (const char *)from + first * dtype_bytes(dtype_of(r));
    rank_device(r)->cast(r->work, dtype_of(r), at, DTYPE_FP32, to, count);
}

static void write_stored(const struct rank *r, const float *from, int64_t count, void *to,
                         int64_t first)
{
    char *at = (char *)to + first * dtype_bytes(dtype_of(r));
    rank_device(r)->cast(r->work, DTYPE_FP32, from, dtype_of(r), at, count);
}

/* Where an element of what lies here is in the store's weights. */
static int64_t stored_at(const struct store *s, const struct held_weight *held, int64_t first)
{
    return s->shard == 3 ? held->place + first - s->member * held->share : held->first + first;
}

float *master_data(const struct rank *r, const struct held_weight *held, int64_t first)
{
    const struct store *s = &r->store[held->store];
    if (!s->master)
        return (float *)s->weights + stored_at(s, held, first);
    return s->master +
           (s->shard ? held->place + first - s->member * held->share : held->first + first);
}

void set_weight(struct rank *r, const struct held_weight *held, int64_t first, int64_t count,
                const float *from)
{
    const struct store *s = &r->store[held->store];
    int64_t begin = s->shard ? s->member * held->share : 0;
    int64_t end = s->shard ? begin + held->share : held->count;
    write_stored(r, from, count, s->weights, stored_at(s, held, first));
    begin = begin > first ? begin : first;
    end = end < first + count ? end : first + count;
    if (s->master && begin < end)
        copy(r, master_data(r, held, begin), from + (begin - first), end - begin);
}

/* ---- making them ----------------------------------------------------------------------------- */

static int64_t weight_floats(const struct rank *r, const struct store *s)
{
    int64_t count = s->shard == 3 ? s->part : s->count;
    return ceil_div(count * dtype_bytes(dtype_of(r)), (int64_t)sizeof(float));
}

static int64_t master_floats(const struct store *s)
{
    return s->shard ? s->part : s->count;
}

void make_stores(struct rank *r)
{
    const struct optimizer_step *o = &r->options->optimizer;
    for (int32_t i = 0; i < r->stores; i++) {
        struct store *s = &r->store[i];
        s->weights = floats_counted(r, MEMORY_WEIGHTS, weight_floats(r, s));
        if (dtype_of(r) != DTYPE_FP32)
            s->master = floats_counted(r, MEMORY_OPTIMIZER, master_floats(s));
        s->gradients = floats_counted(r, MEMORY_GRADIENTS, s->shard >= 2 ? s->part : s->count);
        if (o->kind != OPTIMIZER_SGD || o->momentum > 0)
            s->moment1 = floats_counted(r, MEMORY_OPTIMIZER, s->part);
        if (o->kind != OPTIMIZER_SGD)
            s->moment2 = floats_counted(r, MEMORY_OPTIMIZER, s->part);
        s->made = ARENA_ARRAY(r->arena, struct value *, (size_t)r->micro_batches);
    }
}

void free_stores(struct rank *r)
{
    for (int32_t i = 0; i < r->stores; i++) {
        struct store *s = &r->store[i];
        floats_free(r, MEMORY_WEIGHTS, s->weights, weight_floats(r, s));
        floats_free(r, MEMORY_OPTIMIZER, s->master, master_floats(s));
        floats_free(r, MEMORY_GRADIENTS, s->gradients, s->shard >= 2 ? s->part : s->count);
        floats_free(r, MEMORY_OPTIMIZER, s->moment1, s->part);
        floats_free(r, MEMORY_OPTIMIZER, s->moment2, s->part);
        for (int32_t b = 0; s->made && b < r->micro_batches; b++)
            value_drop(r, s->made[b]);
    }
}

/* ---- for operators --------------------------------------------------------------------------- */

const void *weight_data(const struct rank *r, int32_t weight, int32_t micro_batch)
{
    const struct held_weight *held = &r->weight[weight];
    const struct store *s = &r->store[held->store];
    const char *whole = s->weights;
    if (s->shard == 3) {
        const struct value *gathered = *value_at(r, micro_batch, key_of(r, KEY_WEIGHTS, s->bucket));
        whole = gathered ? gathered->data : NULL;
    }
    return whole ? whole + held->first * dtype_bytes(dtype_of(r)) : NULL;
}

float *gradient_data(struct rank *r, int32_t weight, int32_t micro_batch)
{
    const struct held_weight *held = &r->weight[weight];
    struct store *s = &r->store[held->store];
    if (s->shard < 2)
        return s->gradients + held->first;
    if (!s->made[micro_batch]) {
        struct layout none = layout_none(s->count);
        s->made[micro_batch] = value_new(r, MEMORY_GRADIENTS, DTYPE_FP32, &none, s->count);
        clear(r, s->made[micro_batch]->data, s->count);
    }
    return (float *)s->made[micro_batch]->data + held->first;
}

float *gradient_part(const struct rank *r, int32_t weight, int64_t *count)
{
    const struct held_weight *held = &r->weight[weight];
    const struct store *s = &r->store[held->store];
    struct stretch all = {held, 0, 0, held->share};
    *count = real_count(&all, s->member);
    return s->shard < 2 ? s->gradients + element_of(&all, s->member) : s->gradients + held->place;
}

/* ---- gradients ------------------------------------------------------------------------------- */

static int64_t slice_of(const struct rank *r, const struct store *s)
{
    int64_t bytes = r->options->slice_bytes ? r->options->slice_bytes : DEFAULT_SLICE_BYTES;
    int64_t places = runs_in_order(r) ? s->part : bytes / (int64_t)sizeof(float) / s->members;
    return places > 0 ? places : 1;
}

static const struct task *task_of(const struct rank *r, const struct errand *w)
{
    return &r->graph->task[r->program.job[w->job].task];
}

static void pack_gradients(const struct rank *r, const struct store *s, const float *whole,
                           int64_t first, int64_t count, float *out)
{
    struct stretch at;
    FOR_STRETCHES(r, s, first, first + count, at)
    {
        for (int32_t m = 0; m < s->members && at.held->contributes; m++)
            copy(r, out + m * count + at.within, whole + element_of(&at, m), real_count(&at, m));
    }
}

static void take_sum(const struct rank *r, struct store *s, int64_t first, int64_t count,
                     const float *in)
{
    struct stretch at;
    FOR_STRETCHES(r, s, first, first + count, at)
    {
        int64_t real = real_count(&at, s->member);
        if (s->shard == 1)
            copy(r, s->gradients + element_of(&at, s->member), in + at.within, real);
        if (s->shard >= 2)
            rank_device(r)->add(r->work, DTYPE_FP32, in + at.within, real,
                                s->gradients + at.held->place + at.at);
    }
}

/* What is packed is zero where nothing is (I2). */
static void stage(struct rank *r, struct errand *w, int64_t out, int64_t in)
{
    w->out_count = out;
    w->out = floats_counted(r, MEMORY_WORKSPACE, out);
    w->in_count = in;
    w->in = floats_new(r, MEMORY_WORKSPACE, in);
    w->transfer.from = w->out;
    w->transfer.to = w->in;
}

static void unstage(struct rank *r, struct errand *w)
{
    floats_free(r, MEMORY_WORKSPACE, w->out, w->out_count);
    floats_free(r, MEMORY_WORKSPACE, w->in, w->in_count);
    w->out = w->in = NULL;
}

/* The next slice's places; false: none are left. */
static bool next_slice(const struct rank *r, const struct store *s, struct errand *w)
{
    int64_t slice = slice_of(r, s);
    w->at += w->transfer.count;
    w->transfer = (struct transfer){.group = r->program.job[w->job].group};
    w->transfer.count = w->end - w->at < slice ? w->end - w->at : slice;
    return w->transfer.count > 0;
}

/* Whether the next bucket to be synchronised is of the same block. (I3) */
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

static void move_shares(struct rank *r, struct store *s, int64_t first, int64_t count, float *data,
                        bool back)
{
    struct stretch at;
    FOR_STRETCHES(r, s, first, first + count, at)
    {
        float *own = own_share(s, &at), *here = data + at.within;
        copy(r, back ? own : here, back ? here : own, real_count(&at, s->member));
    }
}

/* Shares are added up across groups of replicas (compile/buckets.c, 3). */
static bool add_up_next(struct rank *r, struct errand *w, struct store *s)
{
    if (w->out)
        move_shares(r, s, w->at, w->transfer.count, w->out, true);
    unstage(r, w);
    if (!next_slice(r, s, w))
        return false;
    int64_t count = w->transfer.count;
    stage(r, w, count, 0);
    move_shares(r, s, w->at, count, w->out, false);
    w->transfer.kind = TRANSFER_ALL_REDUCE;
    w->transfer.to = w->out;
    return true;
}

static bool goes_across(const struct rank *r, const struct task *task)
{
    return r->graph->exchange[task->exchange].pattern == r->graph->bucket[task->about].across;
}

bool synchronise_next(struct rank *r, struct errand *w)
{
    struct store *s = &r->store[r->store_of[task_of(r, w)->about]];
    int32_t micro_batch = task_of(r, w)->micro_batch;
    if (goes_across(r, task_of(r, w)))
        return add_up_next(r, w, s);
    if (w->in)
        take_sum(r, s, w->at, w->transfer.count, w->in);
    unstage(r, w);
    bool more = next_slice(r, s, w);
    int64_t count = w->transfer.count;
    if (more && s->shard == 0) {
        w->transfer.kind = TRANSFER_ALL_REDUCE;
        w->transfer.from = w->transfer.to = s->gradients + w->at;
    } else if (more) {
        const float *whole = s->shard == 1 ? s->gradients
                                           : gradient_data(r, s->first_weight, micro_batch) -
                                                 r->weight[s->first_weight].first;
        w->transfer.kind = TRANSFER_REDUCE_SCATTER;
        stage(r, w, s->members * count, count);
        pack_gradients(r, s, whole, w->at, count, w->out);
    } else if (s->shard >= 2) {
        r->outlived = (struct outlived){s, micro_batch};
        if (!is_followed(r, w))
            drop_outlived(r);
    }
    return more;
}

/* ---- weights --------------------------------------------------------------------------------- */

static void pack_weights(const struct rank *r, const struct store *s, int64_t first, int64_t count,
                         float *out)
{
    struct stretch at;
    FOR_STRETCHES(r, s, first, first + count, at)
    {
        int64_t from = stored_at(s, at.held, s->member * at.held->share + at.at);
        read_stored(r, s->weights, from, real_count(&at, s->member), out + at.within);
    }
}

static void unpack_weights(const struct rank *r, const struct store *s, int64_t first,
                           int64_t count, const float *in, void *whole)
{
    struct stretch at;
    FOR_STRETCHES(r, s, first, first + count, at)
    {
        for (int32_t m = 0; m < s->members; m++)
            write_stored(r, in + m * count + at.within, real_count(&at, m), whole,
                         element_of(&at, m));
    }
}

/* With shard 3 they are gathered for one pass, and may be there still from another. */
static void keep_gathered(struct rank *r, const struct store *s, struct errand *w)
{
    int32_t micro_batch = task_of(r, w)->micro_batch;
    struct value **at = value_at(r, micro_batch, key_of(r, KEY_WEIGHTS, s->bucket));
    pthread_mutex_lock(&r->lock);
    if (*at) {
        r->spare_weights[micro_batch * r->graph->buckets + s->bucket]++;
        value_drop(r, w->result);
    } else {
        *at = w->result;
    }
    pthread_mutex_unlock(&r->lock);
    w->result = NULL;
}

bool gather_next(struct rank *r, struct errand *w)
{
    struct store *s = &r->store[r->store_of[task_of(r, w)->about]];
    struct layout none = layout_none(s->count);
    if (s->shard == 3 && !w->result)
        w->result = value_new(r, MEMORY_WEIGHTS, dtype_of(r), &none, s->count);
    if (w->in)
        unpack_weights(r, s, w->at, w->transfer.count, w->in,
                       s->shard == 3 ? w->result->data : s->weights);
    unstage(r, w);
    bool more = next_slice(r, s, w);
    if (more) {
        w->transfer.kind = TRANSFER_ALL_GATHER;
        stage(r, w, w->transfer.count, s->members * w->transfer.count);
        pack_weights(r, s, w->at, w->transfer.count, w->out);
    } else if (s->shard == 3) {
        keep_gathered(r, s, w);
    }
    return more;
}

/* ---- the optimizer's step -------------------------------------------------------------------- */

static void clear_gradients(const struct rank *r, struct store *s, int64_t first, int64_t end)
{
    struct stretch at;
    FOR_STRETCHES(r, s, first, end, at)
    {
        for (int32_t m = 0; m < s->members && s->shard < 2; m++)
            clear(r, s->gradients + element_of(&at, m), real_count(&at, m));
        if (s->shard >= 2)
            clear(r, s->gradients + at.held->place + at.at, at.count);
    }
}

void optimize_store(struct rank *r, struct store *s, int64_t first, int64_t end, int64_t step)
{
    struct stretch at;
    FOR_STRETCHES(r, s, first, end, at)
    {
        int64_t place = at.held->place + at.at, element = element_of(&at, s->member);
        struct optimizer_step o = r->options->optimizer;
        o.step = step + 1;
        o.rate = r->pace[step & 1].rate;
        o.scale = r->pace[step & 1].scale;
        o.count = real_count(&at, s->member);
        o.dtype = dtype_of(r);
        o.stream = r->work;
        o.master = master_data(r, at.held, s->member * at.held->share + at.at);
        if (s->master)
            o.weight =
                (char *)s->weights +
                stored_at(s, at.held, s->member * at.held->share + at.at) * dtype_bytes(o.dtype);
        o.gradient = s->gradients + (s->shard >= 2 ? place : element);
        o.moment1 = s->moment1 ? s->moment1 + place : NULL;
        o.moment2 = s->moment2 ? s->moment2 + place : NULL;
        if (o.count > 0 && !r->evaluates && isfinite(o.scale))
            r->options->kernels->optimize(&o);
    }
    clear_gradients(r, s, first, end);
}

double gradient_squares(struct rank *r)
{
    double sum = 0, *there = (double *)(void *)floats_counted(r, MEMORY_WORKSPACE, 2);
    for (int32_t i = 0; i < r->weights; i++) {
        int64_t count;
        const float *gradient = gradient_part(r, i, &count);
        if (!shows_weight(r, &r->weight[i]))
            continue;
        rank_device(r)->add_squares(r->work, gradient, count, there);
    }
    download(r, &sum, there, sizeof sum);
    floats_free(r, MEMORY_WORKSPACE, (float *)(void *)there, 2);
    return sum;
}
