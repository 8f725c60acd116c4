/* stores.c - a bucket's weights, gradients and optimizer state on this device (bucket_transfers.c moves them).
 *
 * The members that share a bucket's state each have a part of it: their shares of every weight, one
 * after the other (weights.c, I2). Without sharding there is one member and its part is all. A
 * *range* of parts is the same places of all members' parts:
 *
 *   place p of member m's part  =  element m * share + (p - place) of the weight it falls in      (1)
 *
 *   I1  What padding a share has beyond the weight's end is zero.
 *   I3  In a store, weights that are updated element by element come first, then matrices that are updated whole (Muon),
 *       which have one moment, then those that are frozen (LoRA), which have neither gradients nor moments nor masters.
 *   I2  Weights in bf16 have a master in fp32 where their optimizer state is; gradients are fp32.
 */
#include "run/rank/matrices.h"

#include <math.h>

#include <string.h>

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

static void write_stored(const struct rank *r, const float *from, int64_t count, void *to,
                         int64_t first)
{
    char *at = (char *)to + first * dtype_bytes(dtype_of(r));
    rank_device(r)->cast(r->work, DTYPE_FP32, from, dtype_of(r), at, count);
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
    if (s->master && begin < end && !is_frozen(s, held))
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
    return s->shard ? s->trained_part : s->trained;
}

static int64_t gradient_floats(const struct store *s)
{
    return s->shard >= 2 ? s->trained_part : s->trained;
}

void make_stores(struct rank *r)
{
    const struct optimizer_step *o = &r->options->optimizer;
    for (int32_t i = 0; i < r->stores; i++) {
        struct store *s = &r->store[i];
        s->weights = floats_counted(r, MEMORY_WEIGHTS, weight_floats(r, s));
        if (dtype_of(r) != DTYPE_FP32)
            s->master = floats_counted(r, MEMORY_OPTIMIZER, master_floats(s));
        s->gradients = floats_counted(r, MEMORY_GRADIENTS, gradient_floats(s));
        if (o->kind != OPTIMIZER_SGD || o->momentum > 0)
            s->moment1 = floats_counted(r, MEMORY_OPTIMIZER, s->trained_part);
        if (o->kind != OPTIMIZER_SGD)
            s->moment2 = floats_counted(r, MEMORY_OPTIMIZER, s->second_part);
        s->made = ARENA_ARRAY(r->arena, struct value *, (size_t)r->micro_batches);
    }
}

void free_stores(struct rank *r)
{
    for (int32_t i = 0; i < r->stores; i++) {
        struct store *s = &r->store[i];
        floats_free(r, MEMORY_WEIGHTS, s->weights, weight_floats(r, s));
        floats_free(r, MEMORY_OPTIMIZER, s->master, master_floats(s));
        floats_free(r, MEMORY_GRADIENTS, s->gradients, gradient_floats(s));
        floats_free(r, MEMORY_OPTIMIZER, s->moment1, s->trained_part);
        floats_free(r, MEMORY_OPTIMIZER, s->moment2, s->second_part);
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
        struct layout none = layout_none(s->trained);
        s->made[micro_batch] = value_new(r, MEMORY_GRADIENTS, DTYPE_FP32, &none, s->trained);
        clear(r, s->made[micro_batch]->data, s->trained);
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

/* Without sharding places, elements and what is stored are the same numbers (weights.c, I2): all of a store's
 * weights are one call. */
static bool is_plain(const struct store *s)
{
    return s->members == 1 && s->part == s->count;
}

/* ---- the optimizer's step -------------------------------------------------------------------- */

static void clear_gradients(const struct rank *r, struct store *s, int64_t first, int64_t end)
{
    struct stretch at;
    if (is_plain(s)) {
        clear(r, s->gradients + first, end - first);
        return;
    }
    FOR_STRETCHES(r, s, first, end, at)
    {
        for (int32_t m = 0; m < s->members && s->shard < 2; m++)
            clear(r, s->gradients + element_of(&at, m), real_count(&at, m));
        if (s->shard >= 2)
            clear(r, s->gradients + at.held->place + at.at, at.count);
    }
}

/* Elements that lie one after the other in all of the store's arrays, from these places on. */
struct step_range {
    int64_t count, place, element, stored;
    float *master;
};

static struct optimizer_step step_of(const struct rank *r, const struct store *s,
                                     const struct step_range *range, int64_t step)
{
    struct optimizer_step o = r->options->optimizer;
    o.step = step + 1 - r->loss_scale.skipped;
    o.rate = r->pace[step & 1].rate;
    o.scale = r->pace[step & 1].scale;
    o.count = range->count;
    o.dtype = dtype_of(r);
    o.stream = r->work;
    o.master = range->master;
    if (s->master)
        o.weight = (char *)s->weights + range->stored * dtype_bytes(o.dtype);
    o.gradient = s->gradients + (s->shard >= 2 ? range->place : range->element);
    o.moment1 = s->moment1 ? s->moment1 + range->place : NULL;
    o.moment2 = s->moment2 ? s->moment2 + range->place : NULL;
    return o;
}

static bool steps_now(const struct rank *r, const struct optimizer_step *o)
{
    return o->count > 0 && !r->evaluates && isfinite(o->scale);
}

/* Of Muon, what is no matrix is updated by AdamW. */
static void optimize_range(const struct rank *r, const struct store *s,
                           const struct step_range *range, int64_t step)
{
    struct optimizer_step o = step_of(r, s, range, step);
    if (o.kind == OPTIMIZER_MUON)
        o.kind = OPTIMIZER_ADAMW;
    if (steps_now(r, &o))
        r->options->kernels->optimize(&o);
}

/* I3: of each the member's part; all devices of the stage come here, also those whose part is empty (matrices.c, I2). */
static void optimize_matrices(struct rank *r, const struct store *s, int64_t step)
{
    for (int32_t i = s->first_weight; i < s->first_weight + s->trained_weights; i++) {
        const struct held_weight *held = &r->weight[i];
        struct stretch all = {held, 0, 0, held->share};
        int64_t own = s->member * held->share;
        if (!held->rows)
            continue;
        struct step_range range = {real_count(&all, s->member), held->place,
                                   element_of(&all, s->member), stored_at(s, held, own),
                                   master_data(r, held, own)};
        struct optimizer_step o = step_of(r, s, &range, step);
        if (!r->evaluates && isfinite(o.scale))
            update_matrix(r, held, &o);
    }
}

void optimize_store(struct rank *r, struct store *s, int64_t first, int64_t end, int64_t step)
{
    struct stretch at;
    if (is_plain(s)) {
        float *master = s->master ? s->master : s->weights;
        int64_t last = end < s->second_part ? end : s->second_part;
        optimize_range(
            r, s, &(struct step_range){last - first, first, first, first, master + first}, step);
    } else
        FOR_STRETCHES(r, s, first, end < s->second_part ? end : s->second_part, at)
        {
            int64_t own = s->member * at.held->share + at.at;
            optimize_range(r, s,
                           &(struct step_range){real_count(&at, s->member), at.held->place + at.at,
                                                element_of(&at, s->member),
                                                stored_at(s, at.held, own),
                                                master_data(r, at.held, own)},
                           step);
        }
    if (end > s->second_part)
        optimize_matrices(r, s, step);
    clear_gradients(r, s, first, end);
}

static bool shows_all(const struct rank *r, const struct store *s)
{
    for (int32_t i = s->first_weight; i < s->first_weight + s->trained_weights; i++)
        if (!shows_weight(r, &r->weight[i]))
            return false;
    return true;
}

static void add_squares_of(const struct rank *r, const struct store *s, double *sum)
{
    if (is_plain(s) && shows_all(r, s)) {
        rank_device(r)->add_squares(r->work, s->gradients, s->trained, sum);
        return;
    }
    for (int32_t i = s->first_weight; i < s->first_weight + s->trained_weights; i++) {
        int64_t count;
        const float *gradient = gradient_part(r, i, &count);
        if (shows_weight(r, &r->weight[i]))
            rank_device(r)->add_squares(r->work, gradient, count, sum);
    }
}

double gradient_squares(struct rank *r)
{
    double sum = 0, *there = (double *)(void *)floats_counted(r, MEMORY_WORKSPACE, 2);
    for (int32_t i = 0; i < r->stores; i++)
        add_squares_of(r, &r->store[i], there);
    download(r, &sum, there, sizeof sum);
    floats_free(r, MEMORY_WORKSPACE, (float *)(void *)there, 2);
    return sum;
}
