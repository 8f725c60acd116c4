/* staged.c - a transport of the host's memory for ranks whose numbers lie elsewhere: what is sent is copied
 * to the host first, what came is copied back. Copies go beside computation, on streams of their own.
 *
 *   I1  What is sent is as it was when the transfer was started, after what the rank's stream had been given until then.
 *       A transfer is over when whatever that stream is given later finds what it brought.
 *   I2  Buffers of the host's own (on_host) go through as they are.
 *   I3  Transfers go on to the inner transport in the order in which they were started, each when its copy to the host
 *       is complete (transport.h, I3).
 *   I4  Memory of the host is kept for the next transfer of about its size: to take some anew stops the device.
 */
#include "run/transport/transport.h"

#include <stdlib.h>
#include <string.h>

enum { SIZES = 48 };                        /* powers of two, of bytes */
static const double LEAVING_WAIT_S = 20e-6; /* between looks at a copy: what small ones take */

/* Memory of the host's (I4). */
struct host_room {
    struct host_room *next;
    struct device_event *read; /* when a copy out of it is complete; NULL: none is on its way */
    int size;
    void *memory;
};

struct staged_transfer {
    struct pending_transfer base; /* as it was asked for */
    struct pending_transfer *inner;
    struct staged_transfer *next;
    struct host_room *from, *to; /* copies; NULL: it has none */
    int64_t arrives;             /* bytes of `to` */
    struct device_event *left;   /* its copy is complete */
    struct device_event *vacant; /* what it fills is nobody's any more */
    bool started;                /* by the inner transport */
};

struct staged {
    struct transport base;
    struct transport *inner;
    const struct compute_device *device;
    struct device_stream *stream;             /* the rank's own */
    struct device_stream *leaving, *arriving; /* copies to the host, and back */
    int32_t *members;                         /* by group */
    int32_t groups;
    struct host_room *spare[SIZES];
    struct staged_transfer *first; /* of those on their way, in the order of I3 */
};

static struct staged *staged_of(struct transport *t)
{
    return (struct staged *)(void *)t;
}

static weft_status staged_group(struct transport *t, const int32_t *member, int32_t count,
                                int32_t channel, int32_t *out)
{
    struct staged *s = staged_of(t);
    weft_status status;
    TRY(s->inner->kind->group(s->inner, member, count, channel, out));
    if (*out >= s->groups) {
        int32_t *grown = realloc(s->members, ((size_t)*out + 1) * sizeof *grown);
        if (!grown)
            TRY(failure("out of memory"));
        s->members = grown;
        s->groups = *out + 1;
    }
    s->members[*out] = count;
done:
    return status;
}

static int64_t sum_of(const int64_t *counts, int32_t members)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < members; i++)
        sum += counts[i];
    return sum;
}

/* Elements that leave and arrive. */
static void count_elements(const struct staged *s, const struct transfer *x, int64_t *leaves,
                           int64_t *arrives)
{
    bool pair = x->kind == TRANSFER_SEND || x->kind == TRANSFER_RECEIVE;
    int32_t members = pair ? 1 : s->members[x->group];
    *leaves = *arrives = x->count;
    switch (x->kind) {
    case TRANSFER_REDUCE_SCATTER:
        *leaves *= members;
        break;
    case TRANSFER_ALL_GATHER:
        *arrives *= members;
        break;
    case TRANSFER_ALL_TO_ALL:
        *leaves = sum_of(x->from_counts, members);
        *arrives = sum_of(x->to_counts, members);
        break;
    case TRANSFER_BROADCAST:
        *leaves = x->from ? x->count : 0;
        break;
    case TRANSFER_SEND:
        *arrives = 0;
        break;
    case TRANSFER_RECEIVE:
        *leaves = 0;
        break;
    default:
        break;
    }
}

/* ---- memory of the host (I4) ----------------------------------------------------------------- */

static void room_free(const struct staged *s, struct host_room *room)
{
    device_finish(s->device, room->read);
    s->device->release_host(room->memory);
    free(room);
}

static struct host_room *room_new(const struct staged *s, int size)
{
    struct host_room *room = calloc(1, sizeof *room);
    void *memory = s->device->allocate_host((int64_t)1 << size);
    if (!room || !memory)
        memory_ran_out((size_t)1 << size);
    room->size = size;
    room->memory = memory;
    return room;
}

static bool is_read(const struct staged *s, struct host_room *room)
{
    if (room->read && !device_over(s->device, room->read))
        return false;
    room->read = NULL;
    return true;
}

static struct host_room *room_take(struct staged *s, int64_t bytes)
{
    int size = 0;
    while ((int64_t)1 << size < bytes)
        size++;
    for (struct host_room **at = &s->spare[size]; *at; at = &(*at)->next)
        if (is_read(s, *at)) {
            struct host_room *room = *at;
            *at = room->next;
            return room;
        }
    return room_new(s, size);
}

static void room_give(struct staged *s, struct host_room *room)
{
    if (!room)
        return;
    room->next = s->spare[room->size];
    s->spare[room->size] = room;
}

/* ---- transfers ------------------------------------------------------------------------------- */

static void forget(struct staged *s, struct staged_transfer *w)
{
    struct staged_transfer **at = &s->first;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    room_give(s, w->from);
    room_give(s, w->to);
    free(w);
}

/* I3. What the inner transport refuses ends the run. */
static void start_left(struct staged *s)
{
    for (struct staged_transfer *w = s->first; w; w = w->next) {
        struct transfer inner = w->base.transfer;
        if (w->started)
            continue;
        if (w->left && !device_over(s->device, w->left))
            return;
        w->left = NULL;
        w->started = true;
        if (w->from)
            inner.from = w->from->memory;
        if (w->to)
            inner.to = w->to->memory;
        if (s->inner->kind->start(s->inner, &inner, &w->inner) != WEFT_OK) {
            s->inner->kind->abort(s->inner, weft_last_error()->message);
            return;
        }
    }
}

/* I1 */
static void copy_out(struct staged *s, struct staged_transfer *w, int64_t bytes)
{
    w->from = room_take(s, bytes);
    device_await(s->device, s->leaving, device_record(s->device, s->stream));
    s->device->copy(s->leaving, COPY_TO_HOST, w->from->memory, w->base.transfer.from, bytes);
    w->left = device_record(s->device, s->leaving);
}

static void copy_back(struct staged *s, struct staged_transfer *w)
{
    device_await(s->device, s->arriving, w->vacant);
    w->vacant = NULL;
    s->device->copy(s->arriving, COPY_FROM_HOST, w->base.transfer.to, w->to->memory, w->arrives);
    w->to->read = device_record(s->device, s->arriving);
    device_await(s->device, s->stream, device_record(s->device, s->arriving));
}

static weft_status staged_start(struct transport *t, const struct transfer *transfer,
                                struct pending_transfer **out)
{
    struct staged *s = staged_of(t);
    struct staged_transfer *w = calloc(1, sizeof *w), **last = &s->first;
    int64_t leaves = 0, arrives = 0, each = dtype_bytes(transfer->dtype);
    if (!w)
        memory_ran_out(sizeof *w);
    w->base.transfer = *transfer;
    while (*last)
        last = &(*last)->next;
    *last = w;
    if (!transfer->on_host)
        count_elements(s, transfer, &leaves, &arrives);
    if (leaves)
        copy_out(s, w, leaves * each);
    w->arrives = arrives * each;
    if (arrives) {
        w->to = room_take(s, w->arrives);
        w->vacant = device_record(s->device, s->stream);
    }
    *out = &w->base;
    start_left(s);
    return WEFT_OK;
}

static bool staged_test(struct transport *t, struct pending_transfer *request)
{
    struct staged *s = staged_of(t);
    struct staged_transfer *w = (struct staged_transfer *)(void *)request;
    start_left(s);
    if (!w->inner || !s->inner->kind->test(s->inner, w->inner))
        return false;
    if (w->to)
        copy_back(s, w);
    forget(s, w);
    return true;
}

static bool is_leaving(const struct staged *s)
{
    for (const struct staged_transfer *w = s->first; w; w = w->next)
        if (!w->started)
            return true;
    return false;
}

/* Nobody wakes a rank whose copy is complete. */
static void staged_wait(struct transport *t, double seconds, bool idle)
{
    struct transport *inner = staged_of(t)->inner;
    bool leaving = is_leaving(staged_of(t));
    inner->kind->wait(inner, leaving && seconds > LEAVING_WAIT_S ? LEAVING_WAIT_S : seconds, idle);
}

static void staged_wake(struct transport *t)
{
    struct transport *inner = staged_of(t)->inner;
    inner->kind->wake(inner);
}

static void staged_abort(struct transport *t, const char *why)
{
    struct transport *inner = staged_of(t)->inner;
    inner->kind->abort(inner, why);
}

static const char *staged_failed(struct transport *t)
{
    struct transport *inner = staged_of(t)->inner;
    return inner->kind->failed(inner);
}

/* The inner one is its owner's. */
static void staged_close(struct transport *t)
{
    struct staged *s = staged_of(t);
    while (s->first) { /* where a rank gave up */
        device_finish(s->device, s->first->left);
        device_finish(s->device, s->first->vacant);
        forget(s, s->first);
    }
    for (int size = 0; size < SIZES; size++)
        while (s->spare[size]) {
            struct host_room *room = s->spare[size];
            s->spare[size] = room->next;
            room_free(s, room);
        }
    device_stream_free(s->device, s->leaving);
    device_stream_free(s->device, s->arriving);
    free(s->members);
    free(t);
}

#define STAGED_KIND(is_narrow)                                                                     \
    {"staged",    staged_group, staged_start,  staged_test,  staged_wait,                          \
     staged_wake, staged_abort, staged_failed, staged_close, .narrow = (is_narrow)}
static const struct transport_kind STAGED = STAGED_KIND(false), NARROW = STAGED_KIND(true);

struct transport *transport_staged(struct transport *inner, const struct compute_device *device,
                                   struct device_stream *stream)
{
    struct staged *s = calloc(1, sizeof *s);
    if (!s)
        memory_ran_out(sizeof *s);
    const struct transport_kind *kind = inner->kind->narrow ? &NARROW : &STAGED;
    *s = (struct staged){.base = {kind, inner->rank, inner->ranks},
                         .inner = inner,
                         .device = device,
                         .stream = stream,
                         .leaving = device_stream(device),
                         .arriving = device_stream(device)};
    return &s->base;
}
