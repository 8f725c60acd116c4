/* buffers.c - tensors of a pass, and how much memory all of them take. */
#include "run/cpu.h"
#include "run/rank.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 }; /* bytes of a cache line */

static void *take(size_t bytes)
{
    size_t rounded = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    void *memory = aligned_alloc(ALIGNMENT, rounded);
    if (!memory)
        abort();
    return memory;
}

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
    struct value *value = take(sizeof *value);
    *value = (struct value){.count = elements,
                            .layout = *layout,
                            .refs = 1,
                            .memory = (uint8_t)memory,
                            .dtype = (uint8_t)dtype};
    value->data = take((size_t)value_bytes(value));
    pthread_mutex_lock(&r->lock);
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
    free(value->data);
    free(value->host);
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

float *floats_counted(struct rank *r, enum memory_class memory, int64_t elements)
{
    float *floats = take((size_t)bytes_of(elements));
    memset(floats, 0, (size_t)bytes_of(elements));
    pthread_mutex_lock(&r->lock);
    count(r, memory, bytes_of(elements));
    pthread_mutex_unlock(&r->lock);
    return floats;
}

void floats_free(struct rank *r, enum memory_class memory, float *floats, int64_t elements)
{
    if (!floats)
        return;
    pthread_mutex_lock(&r->lock);
    count(r, memory, -bytes_of(elements));
    pthread_mutex_unlock(&r->lock);
    free(floats);
}

/* ---- to the host and back -------------------------------------------------------------------- */

void value_to_host(struct rank *r, struct value *value)
{
    void *host = take((size_t)value_bytes(value));
    memcpy(host, value->data, (size_t)value_bytes(value));
    pthread_mutex_lock(&r->lock);
    value->host = host;
    r->buffers.host_now += value_bytes(value);
    if (r->buffers.host_now > r->buffers.most.host_peak)
        r->buffers.most.host_peak = r->buffers.host_now;
    count(r, (enum memory_class)value->memory, -value_bytes(value));
    free(value->data);
    value->data = NULL;
    pthread_mutex_unlock(&r->lock);
}

void value_from_host(struct rank *r, struct value *value)
{
    void *data = take((size_t)value_bytes(value));
    memcpy(data, value->host, (size_t)value_bytes(value));
    pthread_mutex_lock(&r->lock);
    count(r, (enum memory_class)value->memory, value_bytes(value));
    value->data = data;
    r->buffers.host_now -= value_bytes(value);
    free(value->host);
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
