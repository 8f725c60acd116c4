/* buffers.c - the tensors of a pass, and how much memory all of them take.
 *
 * An iteration makes tensors of the same sizes as the one before it. Memory that a tensor gives up is
 * therefore kept for the next tensor of its size: pages that are new to a process cost as much time as a
 * kernel that fills them.
 *
 *   I1  The bytes held and the bytes kept together never exceed the most that was ever held, of the device's memory and of
 *       the host's: to give up memory of the host for the device's would stop the device, which waits for neither.
 */
#include "run/rank/sends.h"

#include <stdlib.h>
#include <string.h>

/* ---- blocks of memory ------------------------------------------------------------------------ */

/* A sanitizer cannot see the wrong use of memory that is kept, so under one nothing is. */
#if defined(__SANITIZE_ADDRESS__) || defined(WEFT_SANITIZED)
static const bool KEEPS = false;
#else
static const bool KEEPS = true;
#endif

/* So that tensors of about one size share a shelf. */
static int64_t rounded(int64_t bytes)
{
    enum { GRAIN = 64 };
    return (bytes + GRAIN) / GRAIN * GRAIN;
}

static void release(const struct rank *r, enum memory_side side, void *memory)
{
    if (side == SIDE_HOST)
        rank_device(r)->release_host(memory);
    else
        rank_device(r)->release(r->work, memory);
}

static struct buffer_shelf *shelf_for(struct rank *r, enum memory_side side, int64_t bytes)
{
    struct buffers *b = &r->buffers;
    for (size_t i = 0; i < b->shelves.len; i++)
        if (b->shelves.data[i].bytes == bytes && b->shelves.data[i].side == side)
            return &b->shelves.data[i];
    struct buffer_shelf made = {.side = side, .bytes = bytes};
    array_push(r->arena, &b->shelves, made);
    return &b->shelves.data[b->shelves.len - 1];
}

static void *shelf_pop(struct buffers *b, struct buffer_shelf *shelf)
{
    b->spare[shelf->side] -= shelf->bytes;
    return shelf->spares.data[--shelf->spares.len];
}

/* Of the size that was asked for longest ago; false: there is none. */
static bool throw_away(struct rank *r, enum memory_side side)
{
    struct buffers *b = &r->buffers;
    struct buffer_shelf *oldest = NULL;
    for (size_t i = 0; i < b->shelves.len; i++) {
        struct buffer_shelf *shelf = &b->shelves.data[i];
        if (shelf->side == side && shelf->spares.len && (!oldest || shelf->asked < oldest->asked))
            oldest = shelf;
    }
    if (oldest)
        release(r, oldest->side, shelf_pop(b, oldest));
    return oldest != NULL;
}

/* I1 */
static bool is_too_much(const struct buffers *b, enum memory_side side, int64_t more)
{
    bool host = side == SIDE_HOST;
    return (host ? b->host_now : b->now) + b->spare[side] + more >
           (host ? b->most.host_peak : b->most.peak);
}

/* The caller of this and the next function holds the lock. */
static void *take(struct rank *r, enum memory_side side, int64_t size)
{
    struct buffers *b = &r->buffers;
    int64_t bytes = rounded(size);
    struct buffer_shelf *shelf = shelf_for(r, side, bytes);
    shelf->asked = ++b->asked;
    if (shelf->spares.len && !r->replay.recording)
        return shelf_pop(b, shelf);
    while (is_too_much(b, side, bytes) && throw_away(r, side))
        ;
    void *memory = side == SIDE_HOST ? rank_device(r)->allocate_host(bytes)
                                     : rank_device(r)->allocate(r->work, bytes);
    if (!memory)
        memory_ran_out((size_t)bytes);
    return memory;
}

static void give(struct rank *r, enum memory_side side, void *memory, int64_t size)
{
    struct buffer_shelf *shelf = shelf_for(r, side, rounded(size));
    if (!memory || !KEEPS || r->replay.recording) {
        release(r, side, memory);
        return;
    }
    array_push(r->arena, &shelf->spares, memory);
    r->buffers.spare[side] += shelf->bytes;
}

void buffers_clear(struct rank *r)
{
    while (throw_away(r, SIDE_DEVICE) || throw_away(r, SIDE_HOST))
        ;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void count(struct rank *r, enum memory_class memory, int64_t bytes)
{
    struct buffers *b = &r->buffers;
    b->held[memory] += bytes;
    b->now += bytes;
    if (b->now <= b->most.peak)
        return;
    b->most.peak = b->now;
    memcpy(b->most.at_peak, b->held, sizeof b->held);
}

static int64_t bytes_of(int64_t elements)
{
    return elements * (int64_t)sizeof(float);
}

static void drop_host(struct rank *r, void *copy, int64_t bytes)
{
    if (copy)
        r->buffers.host_now -= bytes;
    give(r, SIDE_HOST, copy, bytes);
}

struct value *value_new(struct rank *r, enum memory_class memory, enum dtype dtype,
                        const struct layout *layout, int64_t elements)
{
    struct value *value = malloc(sizeof *value);
    if (!value)
        memory_ran_out(sizeof *value);
    *value = (struct value){.count = elements,
                            .layout = *layout,
                            .refs = 1,
                            .memory = (uint8_t)memory,
                            .dtype = (uint8_t)dtype};
    pthread_mutex_lock(&r->lock);
    value->data = take(r, SIDE_DEVICE, value_bytes(value));
    count(r, memory, value_bytes(value));
    pthread_mutex_unlock(&r->lock);
    return value;
}

struct value *value_share(struct value *value)
{
    if (value)
        value->refs++;
    return value;
}

void value_drop(struct rank *r, struct value *value)
{
    if (!value || --value->refs)
        return;
    if (value->data)
        count(r, (enum memory_class)value->memory, -value_bytes(value));
    give(r, SIDE_DEVICE, value->data, value_bytes(value));
    drop_host(r, value->host, value_bytes(value));
    free(value);
}

void value_release(struct rank *r, struct value *value)
{
    pthread_mutex_lock(&r->lock);
    value_drop(r, value);
    pthread_mutex_unlock(&r->lock);
}

struct value *value_as(struct rank *r, struct value *value, enum dtype dtype)
{
    if (value->dtype == dtype)
        return value;
    struct value *out =
        value_new(r, (enum memory_class)value->memory, dtype, &value->layout, value->count);
    rank_device(r)->cast(r->work, (enum dtype)value->dtype, value->data, dtype, out->data,
                         value->count);
    value_release(r, value);
    return out;
}

/* tf32 is a way to multiply what is stored as fp32, fp8 what is stored as bf16. */
enum dtype stored_as(const struct rank *r, enum element element)
{
    static const enum dtype STORED[DTYPE_COUNT] = {
        [DTYPE_FP32] = DTYPE_FP32, [DTYPE_TF32] = DTYPE_FP32, [DTYPE_FP16] = DTYPE_FP16,
        [DTYPE_BF16] = DTYPE_BF16, [DTYPE_FP8] = DTYPE_BF16,  [DTYPE_NVFP4] = DTYPE_BF16};
    return element == ELEMENT_COMPUTE ? STORED[r->plan->dtype] : DTYPE_FP32;
}

float *floats_new(struct rank *r, enum memory_class memory, int64_t elements)
{
    pthread_mutex_lock(&r->lock);
    float *floats = take(r, SIDE_DEVICE, bytes_of(elements));
    count(r, memory, bytes_of(elements));
    pthread_mutex_unlock(&r->lock);
    return floats;
}

float *floats_counted(struct rank *r, enum memory_class memory, int64_t elements)
{
    float *floats = floats_new(r, memory, elements);
    rank_device(r)->clear(r->work, floats, bytes_of(elements));
    return floats;
}

void floats_free(struct rank *r, enum memory_class memory, float *floats, int64_t elements)
{
    if (!floats)
        return;
    pthread_mutex_lock(&r->lock);
    count(r, memory, -bytes_of(elements));
    give(r, SIDE_DEVICE, floats, bytes_of(elements));
    pthread_mutex_unlock(&r->lock);
}

/* ---- in the host's memory --------------------------------------------------------------------- */

void *host_new(struct rank *r, int64_t bytes)
{
    pthread_mutex_lock(&r->lock);
    void *host = take(r, SIDE_HOST, bytes);
    r->buffers.host_now += bytes;
    if (r->buffers.host_now > r->buffers.most.host_peak)
        r->buffers.most.host_peak = r->buffers.host_now;
    pthread_mutex_unlock(&r->lock);
    return host;
}

void host_free(struct rank *r, void *copy, int64_t bytes)
{
    if (!copy)
        return;
    pthread_mutex_lock(&r->lock);
    drop_host(r, copy, bytes);
    pthread_mutex_unlock(&r->lock);
}

void value_come_back(struct rank *r, struct value *value)
{
    int64_t bytes = value_bytes(value);
    pthread_mutex_lock(&r->lock);
    value->data = take(r, SIDE_DEVICE, bytes);
    count(r, (enum memory_class)value->memory, bytes);
    pthread_mutex_unlock(&r->lock);
}

void value_stay(struct rank *r, struct value *value, enum memory_side side)
{
    int64_t bytes = value_bytes(value);
    pthread_mutex_lock(&r->lock);
    if (side == SIDE_HOST) {
        count(r, (enum memory_class)value->memory, -bytes);
        give(r, SIDE_DEVICE, value->data, bytes);
        value->data = NULL;
    } else {
        drop_host(r, value->host, bytes);
        value->host = NULL;
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- by key ---------------------------------------------------------------------------------- */

void put_value(struct rank *r, int32_t micro_batch, int64_t key, struct value *value)
{
    pthread_mutex_lock(&r->lock);
    struct value **at = value_at(r, micro_batch, key);
    if (*at) /* what is to be given up later is gone already */
        r->spare[(int64_t)micro_batch * r->keys + key]++;
    value_drop(r, *at);
    *at = value;
    pthread_mutex_unlock(&r->lock);
}
