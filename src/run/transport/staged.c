/* staged.c - a transport of the host's memory for ranks whose numbers lie elsewhere: what is sent is copied
 * to the host first, what came is copied back.
 *
 *   I1  A transfer starts when what its rank's stream was given before is done. It is over when the copy
 *       back is in the stream: whatever the stream is given later finds it.
 *   I2  Buffers of the host's own (on_host) go through as they are.
 */
#include "run/transport/transport.h"

#include <stdlib.h>
#include <string.h>

struct staged {
    struct transport base;
    struct transport *inner;
    const struct compute_device *device;
    struct device_stream *stream;
    int32_t *members; /* by group */
    int32_t groups;
};

struct staged_transfer {
    struct pending_transfer base; /* as it was asked for */
    struct pending_transfer *inner;
    float *from, *to; /* copies; NULL: it has none */
    int64_t arrives;  /* elements of `to` */
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

static void free_transfer(struct staged_transfer *w)
{
    free(w->from);
    free(w->to);
    free(w);
}

static weft_status staged_start(struct transport *t, const struct transfer *transfer,
                                struct pending_transfer **out)
{
    struct staged *s = staged_of(t);
    struct staged_transfer *w = calloc(1, sizeof *w);
    int64_t leaves = 0;
    weft_status status = WEFT_OK;
    if (!w)
        return failure("out of memory");
    w->base.transfer = *transfer;
    struct transfer inner = *transfer;
    if (!transfer->on_host) {
        count_elements(s, transfer, &leaves, &w->arrives);
        w->from = malloc(((size_t)leaves + 1) * sizeof *w->from);
        w->to = malloc(((size_t)w->arrives + 1) * sizeof *w->to);
        if (!w->from || !w->to)
            TRY(failure("out of memory"));
        if (leaves)
            device_download(s->device, s->stream, w->from, transfer->from,
                            leaves * (int64_t)sizeof *w->from);
        bool comes_here = transfer->kind == TRANSFER_BROADCAST && !transfer->from;
        inner.from = comes_here ? NULL : w->from;
        inner.to = w->to;
    }
    TRY(s->inner->kind->start(s->inner, &inner, &w->inner));
    *out = &w->base;
done:
    if (status != WEFT_OK)
        free_transfer(w);
    return status;
}

static bool staged_test(struct transport *t, struct pending_transfer *request)
{
    struct staged *s = staged_of(t);
    struct staged_transfer *w = (struct staged_transfer *)(void *)request;
    if (!s->inner->kind->test(s->inner, w->inner))
        return false;
    if (w->arrives)
        s->device->upload(s->stream, request->transfer.to, w->to,
                          w->arrives * (int64_t)sizeof *w->to);
    free_transfer(w);
    return true;
}

static void staged_wait(struct transport *t, double seconds, bool idle)
{
    struct transport *inner = staged_of(t)->inner;
    inner->kind->wait(inner, seconds, idle);
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
    free(staged_of(t)->members);
    free(t);
}

static const struct transport_kind STAGED = {
    "staged",    staged_group, staged_start,  staged_test,  staged_wait,
    staged_wake, staged_abort, staged_failed, staged_close,
};

struct transport *transport_staged(struct transport *inner, const struct compute_device *device,
                                   struct device_stream *stream)
{
    struct staged *s = calloc(1, sizeof *s);
    if (!s)
        memory_ran_out(sizeof *s);
    *s = (struct staged){.base = {&STAGED, inner->rank, inner->ranks},
                         .inner = inner,
                         .device = device,
                         .stream = stream};
    return &s->base;
}
