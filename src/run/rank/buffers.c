/* buffers.c - tensors of a pass, and how much memory all of them take.
 *
 * A step makes tensors of the same sizes as the one before. What is given up is kept for the next of its
 * size: pages that are new to a process cost as much time as a kernel that fills them.
 *
 *   I1  What is held and what is kept are together no more than the most that was ever held.
 */
#include "run/kernels/cpu/cpu.h"
#include "run/rank/room.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 }; /* bytes of a cache line */

/* ---- blocks of memory ------------------------------------------------------------------------ */

/* Sanitizers see no mistake with memory that is kept. */
#if defined(__SANITIZE_ADDRESS__) || defined(WEFT_SANITIZED)
static const bool KEEPS = false;
#else
static const bool KEEPS = true;
#endif

static int64_t rounded(int64_t bytes)
{
    return (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
}

static struct shelf *shelf_for(struct rank *r, int64_t bytes)
{
    struct buffers *b = &r->buffers;
    for (size_t i = 0; i < b->shelves.len; i++)
        if (b->shelves.data[i].bytes == bytes)
            return &b->shelves.data[i];
    array_push(r->arena, &b->shelves, (struct shelf){.bytes = bytes});
    return &b->shelves.data[b->shelves.len - 1];
}

static void *shelf_pop(struct buffers *b, struct shelf *shelf)
{
    struct spare *spare = shelf->first;
    shelf->first = spare->next;
    b->spare -= shelf->bytes;
    return spare;
}

/* Of the size that was asked for longest ago; false: there is none. */
static bool throw_away(struct buffers *b)
{
    struct shelf *oldest = NULL;
    for (size_t i = 0; i < b->shelves.len; i++) {
        struct shelf *shelf = &b->shelves.data[i];
        if (shelf->first && (!oldest || shelf->asked < oldest->asked))
            oldest = shelf;
    }
    if (oldest)
        free(shelf_pop(b, oldest));
    return oldest != NULL;
}

/* Under the lock, as the next. */
static void *take(struct rank *r, int64_t size)
{
    struct buffers *b = &r->buffers;
    int64_t bytes = rounded(size);
    struct shelf *shelf = shelf_for(r, bytes);
    shelf->asked = ++b->asked;
    if (shelf->first)
        return shelf_pop(b, shelf);
    while (b->now + b->spare + bytes > b->most.peak && throw_away(b)) /* I1 */
        ;
    void *memory = aligned_alloc(ALIGNMENT, (size_t)bytes);
    if (!memory)
        abort();
    return memory;
}

static void give(struct rank *r, void *memory, int64_t size)
{
    struct shelf *shelf = shelf_for(r, rounded(size));
    struct spare *spare = memory;
    if (!memory || !KEEPS) {
        free(memory);
        return;
    }
    spare->next = shelf->first;
    shelf->first = spare;
    r->buffers.spare += shelf->bytes;
}

void buffers_clear(struct rank *r)
{
    while (throw_away(&r->buffers))
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

static int64_t value_bytes(const struct value *value)
{
    return value->count * dtype_bytes((enum dtype)value->dtype);
}

struct value *value_new(struct rank *r, enum memory_class memory, enum dtype dtype,
                        const struct layout *layout, int64_t elements)
{
    struct value *value = malloc(sizeof *value);
    if (!value)
        abort();
    *value = (struct value){.count = elements,
                            .layout = *layout,
                            .refs = 1,
                            .memory = (uint8_t)memory,
                            .dtype = (uint8_t)dtype};
    pthread_mutex_lock(&r->lock);
    value->data = take(r, value_bytes(value));
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
    if (value->host)
        r->buffers.host_now -= value_bytes(value);
    give(r, value->data, value_bytes(value));
    give(r, value->host, value_bytes(value));
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
    if (dtype == DTYPE_FP32)
        widen(value->data, 0, value->count, out->data);
    else
        narrow(value->data, value->count, out->data, 0);
    value_release(r, value);
    return out;
}

/* tf32 is a way to multiply what is stored as fp32. */
enum dtype stored_as(const struct rank *r, enum element element)
{
    return element == ELEMENT_COMPUTE && r->plan->dtype == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_FP32;
}

float *floats_new(struct rank *r, enum memory_class memory, int64_t elements)
{
    pthread_mutex_lock(&r->lock);
    float *floats = take(r, bytes_of(elements));
    count(r, memory, bytes_of(elements));
    pthread_mutex_unlock(&r->lock);
    return floats;
}

float *floats_counted(struct rank *r, enum memory_class memory, int64_t elements)
{
    float *floats = floats_new(r, memory, elements);
    memset(floats, 0, (size_t)bytes_of(elements));
    return floats;
}

void floats_free(struct rank *r, enum memory_class memory, float *floats, int64_t elements)
{
    if (!floats)
        return;
    pthread_mutex_lock(&r->lock);
    count(r, memory, -bytes_of(elements));
    give(r, floats, bytes_of(elements));
    pthread_mutex_unlock(&r->lock);
}

/* ---- to the host and back -------------------------------------------------------------------- */

void value_to_host(struct rank *r, struct value *value)
{
    int64_t bytes = value_bytes(value);
    pthread_mutex_lock(&r->lock);
    void *host = take(r, bytes);
    pthread_mutex_unlock(&r->lock);
    memcpy(host, value->data, (size_t)bytes);
    pthread_mutex_lock(&r->lock);
    value->host = host;
    r->buffers.host_now += bytes;
    if (r->buffers.host_now > r->buffers.most.host_peak)
        r->buffers.most.host_peak = r->buffers.host_now;
    count(r, (enum memory_class)value->memory, -bytes);
    give(r, value->data, bytes);
    value->data = NULL;
    pthread_mutex_unlock(&r->lock);
}

void value_from_host(struct rank *r, struct value *value)
{
    int64_t bytes = value_bytes(value);
    pthread_mutex_lock(&r->lock);
    void *data = take(r, bytes);
    count(r, (enum memory_class)value->memory, bytes);
    pthread_mutex_unlock(&r->lock);
    memcpy(data, value->host, (size_t)bytes);
    pthread_mutex_lock(&r->lock);
    value->data = data;
    r->buffers.host_now -= bytes;
    give(r, value->host, bytes);
    value->host = NULL;
    pthread_mutex_unlock(&r->lock);
}

/* ---- by key ---------------------------------------------------------------------------------- */

void put_value(struct rank *r, int32_t micro_batch, int64_t key, struct value *value)
{
    pthread_mutex_lock(&r->lock);
    struct value **at = value_at(r, micro_batch, key);
    value_drop(r, *at);
    *at = value;
    pthread_mutex_unlock(&r->lock);
}
