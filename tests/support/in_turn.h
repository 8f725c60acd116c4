/* in_turn.h - a transport as a GPU's library is one, between ranks that are threads: transfers match by their
 * order, not by tags, and a rank has one at a time on its way. If ranks start them in orders that contradict
 * each other, nothing moves any more, or the wrong numbers come. With carry_ahead what is packed and unpacked
 * between transfers is work of their stream, too (transport.h, stream): here that is the rank's own, and transfers that
 * nobody asks for are done at once. Memory of a device apart goes through the host's (staged.c).
 */
#ifndef WEFT_TESTS_IN_TURN_H
#define WEFT_TESTS_IN_TURN_H

#include <stdlib.h>

#include "run/transport/transport.h"

struct turn {
    struct pending_transfer base;
    struct pending_transfer *inner;
    struct turn *next;
    bool started, over;
};
struct in_turn {
    struct transport base;
    struct transport *host; /* or what stages for it */
    struct device_stream *stream;
    bool staged;
    struct turn *first, *last;
    int32_t sent[64][64]; /* by sender and receiver: how many so far */
};

static struct in_turn *in_turn_of(struct transport *t)
{
    return (struct in_turn *)(void *)t;
}

static weft_status in_turn_group(struct transport *t, const int32_t *member, int32_t count,
                                 int32_t channel, int32_t *out)
{
    struct transport *host = in_turn_of(t)->host;
    return host->kind->group(host, member, count, channel, out);
}

static weft_status in_turn_start(struct transport *t, const struct transfer *transfer,
                                 struct pending_transfer **out)
{
    struct in_turn *s = in_turn_of(t);
    struct turn *turn = calloc(1, sizeof *turn);
    if (!turn)
        abort();
    if (!out && transfer->on_host)
        abort();
    turn->base.transfer = *transfer;
    if (transfer->kind == TRANSFER_SEND)
        turn->base.transfer.tag = s->sent[t->rank][transfer->peer]++;
    else if (transfer->kind == TRANSFER_RECEIVE)
        turn->base.transfer.tag = s->sent[transfer->peer][t->rank]++;
    *(s->last ? &s->last->next : &s->first) = turn;
    s->last = turn;
    if (out)
        *out = &turn->base;
    else
        t->kind->follow(t, &turn->base);
    return WEFT_OK;
}

/* Moves the first one on. */
static bool in_turn_move(struct in_turn *s)
{
    struct turn *turn = s->first;
    if (!turn)
        return false;
    if (!turn->started) {
        turn->started = true;
        if (s->host->kind->start(s->host, &turn->base.transfer, &turn->inner) != WEFT_OK)
            abort();
    }
    if (!s->host->kind->test(s->host, turn->inner))
        return false;
    turn->over = true;
    s->first = turn->next;
    if (!s->first)
        s->last = NULL;
    return true;
}

static bool in_turn_test(struct transport *t, struct pending_transfer *request)
{
    struct turn *turn = (struct turn *)(void *)request;
    while (in_turn_move(in_turn_of(t)))
        ;
    if (!turn->over)
        return false;
    free(turn);
    return true;
}

static void in_turn_follow(struct transport *t, struct pending_transfer *request)
{
    struct transport *host = in_turn_of(t)->host;
    while (!in_turn_test(t, request) && !host->kind->failed(host))
        host->kind->wait(host, 0.001, true);
}

static void in_turn_wait(struct transport *t, double seconds, bool idle)
{
    struct transport *host = in_turn_of(t)->host;
    host->kind->wait(host, seconds, idle);
}

static void in_turn_wake(struct transport *t)
{
    struct transport *host = in_turn_of(t)->host;
    host->kind->wake(host);
}

static void in_turn_abort(struct transport *t, const char *why)
{
    struct transport *host = in_turn_of(t)->host;
    host->kind->abort(host, why);
}

static const char *in_turn_failed(struct transport *t)
{
    struct transport *host = in_turn_of(t)->host;
    return host->kind->failed(host);
}

static void in_turn_close(struct transport *t)
{
    struct in_turn *s = in_turn_of(t);
    while (s->first) {
        struct turn *turn = s->first;
        s->first = turn->next;
        free(turn);
    }
    if (s->staged)
        s->host->kind->close(s->host);
    free(s);
}

static const struct transport_kind IN_TURN = {
    "in turn",    in_turn_group, in_turn_start,  in_turn_test,  in_turn_wait,
    in_turn_wake, in_turn_abort, in_turn_failed, in_turn_close, in_turn_follow,
};

static struct device_stream *in_turn_stream(struct transport *t, int32_t group)
{
    (void)group;
    return in_turn_of(t)->stream;
}

static const struct transport_kind AHEAD = {
    "ahead",       in_turn_group,  in_turn_start, in_turn_test,   in_turn_wait,   in_turn_wake,
    in_turn_abort, in_turn_failed, in_turn_close, in_turn_follow, in_turn_stream, .narrow = true,
};

static weft_status carry_by(const struct transport_kind *kind, struct transport *host,
                            const struct compute_device *device, struct device_stream *stream,
                            struct transport **out)
{
    struct in_turn *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->base = (struct transport){.kind = kind, .rank = host->rank, .ranks = host->ranks};
    s->staged = !device->shared;
    s->host = s->staged ? transport_staged(host, device, stream) : host;
    s->stream = stream;
    *out = &s->base;
    return WEFT_OK;
}

static inline weft_status carry_in_turn(struct transport *host, const struct compute_device *device,
                                        struct device_stream *stream, struct transport **out)
{
    return carry_by(&IN_TURN, host, device, stream, out);
}

static inline weft_status carry_ahead(struct transport *host, const struct compute_device *device,
                                      struct device_stream *stream, struct transport **out)
{
    return carry_by(&AHEAD, host, device, stream, out);
}

#endif
