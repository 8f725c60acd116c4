/* sockets.c - ranks that are processes connected by TCP: a transport without MPI.
 *
 * Rank 0 listens where all expect it. Each rank tells it where it listens itself, gets the list of all, and connects
 * to the ranks before it: every two ranks have one connection. Transfers are made of messages between two:
 *
 *   all-gather      own part to all
 *   reduce-scatter  each member's block to it, and the sum of what comes
 *   all-reduce      a reduce-scatter of equal chunks, then an all-gather of their sums
 *   all-to-all      each member's part to it
 *   broadcast       a chunk to each member, then an all-gather of these among those that they came to
 *
 * so that a rank of n sends (n - 1) / n of its data, twice for an all-reduce: as little as any algorithm does; of a broadcast
 * all of it by the member that has it, and (n - 2) / (n - 1) by each other.
 *
 *   I1  Messages of a group have its key, which is the same on all members, and the number of the transfer in the
 *       group; those of a pair the tag.
 */
#include "run/transport/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/transport/chunks.h"
#include "run/transport/lookout.h"
#include "run/transport/sockets_room.h"

struct socket_group {
    uint64_t key;
    int32_t *member;
    int32_t members, self;
    int64_t started;
};

struct sockets {
    struct transport base;
    struct connections connections;
    struct socket_group *group;
    int32_t groups;
    struct socket_transfer *open; /* those that are not over, the latest first */
    struct lookout *lookout;      /* NULL: nobody asked for one */
};

struct socket_transfer {
    struct pending_transfer base;
    int32_t left;  /* messages */
    int32_t phase; /* of an all-reduce or a broadcast: 0, 1 */
    int64_t number;
    float *rooms; /* what others add */
    struct socket_transfer *next;
};

static struct sockets *sockets_of(struct transport *t)
{
    return (struct sockets *)(void *)t;
}

static void sockets_wait(struct transport *t, double seconds, bool idle)
{
    (void)idle;
    pump(&sockets_of(t)->connections, seconds > 0 ? (int)(seconds * 1e3) + 1 : 0);
}

static void sockets_wake(struct transport *t)
{
    wake_up(&sockets_of(t)->connections);
}

/* ---- transfers ------------------------------------------------------------------------------- */

static weft_status sockets_group(struct transport *t, const int32_t *member, int32_t count,
                                 int32_t channel, int32_t *out)
{
    struct sockets *s = sockets_of(t);
    struct socket_group *grown = realloc(s->group, ((size_t)s->groups + 1) * sizeof *grown);
    if (!grown)
        return failure("out of memory");
    s->group = grown;
    struct socket_group *group = &s->group[s->groups];
    *group = (struct socket_group){.members = count};
    size_t bytes = (size_t)count * sizeof *member;
    group->member = make_room(bytes);
    memcpy(group->member, member, bytes);
    while (member[group->self] != t->rank)
        group->self++;
    group->key = hash_bytes(member, bytes, (uint64_t)channel);
    for (int32_t i = 0; i < s->groups; i++) /* the same members again */
        group->key += s->group[i].key == group->key;
    group->key = group->key < FIRST_KEY ? group->key + FIRST_KEY : group->key;
    *out = s->groups++;
    return WEFT_OK;
}

static struct message_head head_of(const struct socket_group *g, const struct socket_transfer *w,
                                   int64_t count)
{
    return (struct message_head){g->key, 2 * w->number + w->phase, count * (int64_t)sizeof(float)};
}

/* Each member's chunk to it; rooms for those that they send of the own one. */
static void exchange_addends(struct sockets *s, struct socket_group *g, struct socket_transfer *w)
{
    const struct transfer *x = &w->base.transfer;
    struct float_span own = chunk_of(x, g->members, g->self);
    w->rooms = make_room((size_t)(g->members * own.count) * sizeof *w->rooms);
    for (int32_t m = 0; m < g->members; m++) {
        struct float_span theirs = chunk_of(x, g->members, m);
        if (m == g->self)
            continue;
        send_message(&s->connections, g->member[m], head_of(g, w, theirs.count),
                     (const float *)x->from + theirs.first, &w->left);
        ask_for(&s->connections, g->member[m], head_of(g, w, own.count), w->rooms + m * own.count,
                &w->left);
    }
}

/* Own numbers to all, and those of all. */
static void exchange_all(struct sockets *s, struct socket_group *g, struct socket_transfer *w)
{
    const struct transfer *x = &w->base.transfer;
    struct float_span own = chunk_of(x, g->members, g->self);
    float *to = x->to;
    const float *from = x->kind == TRANSFER_ALL_REDUCE ? to + own.first : x->from;
    if (x->kind == TRANSFER_ALL_GATHER)
        memcpy(to + own.first, from, (size_t)own.count * sizeof(float));
    for (int32_t m = 0; m < g->members; m++) {
        struct float_span theirs = chunk_of(x, g->members, m);
        if (m == g->self)
            continue;
        send_message(&s->connections, g->member[m], head_of(g, w, own.count), from, &w->left);
        ask_for(&s->connections, g->member[m], head_of(g, w, theirs.count), to + theirs.first,
                &w->left);
    }
}

static void exchange_parts(struct sockets *s, struct socket_group *g, struct socket_transfer *w)
{
    const struct transfer *x = &w->base.transfer;
    const float *from = x->from;
    float *to = x->to;
    const float *own_from = from;
    float *own_to = to;
    for (int32_t m = 0; m < g->members; m++) {
        if (m == g->self) {
            own_from = from;
            own_to = to;
        } else {
            send_message(&s->connections, g->member[m], head_of(g, w, x->from_counts[m]), from,
                         &w->left);
            ask_for(&s->connections, g->member[m], head_of(g, w, x->to_counts[m]), to, &w->left);
        }
        from += x->from_counts[m];
        to += x->to_counts[m];
    }
    memcpy(own_to, own_from, (size_t)x->from_counts[g->self] * sizeof(float));
}

/* Chunks from the member that has all to the others. */
static void spread_chunks(struct sockets *s, struct socket_group *g, struct socket_transfer *w)
{
    const struct transfer *x = &w->base.transfer;
    struct float_span own = chunk_of(x, g->members, g->self);
    if (g->self != x->peer) {
        ask_for(&s->connections, g->member[x->peer], head_of(g, w, own.count),
                (float *)x->to + own.first, &w->left);
        return;
    }
    for (int32_t m = 0; m < g->members; m++) {
        struct float_span theirs = chunk_of(x, g->members, m);
        if (m != g->self)
            send_message(&s->connections, g->member[m], head_of(g, w, theirs.count),
                         (const float *)x->from + theirs.first, &w->left);
    }
    if (x->to != x->from)
        memcpy(x->to, x->from, (size_t)x->count * sizeof(float));
}

/* Chunks among those that they came to. */
static void share_chunks(struct sockets *s, struct socket_group *g, struct socket_transfer *w)
{
    const struct transfer *x = &w->base.transfer;
    struct float_span own = chunk_of(x, g->members, g->self);
    float *to = x->to;
    for (int32_t m = 0; g->self != x->peer && m < g->members; m++) {
        struct float_span theirs = chunk_of(x, g->members, m);
        if (m == g->self || m == x->peer)
            continue;
        send_message(&s->connections, g->member[m], head_of(g, w, own.count), to + own.first,
                     &w->left);
        ask_for(&s->connections, g->member[m], head_of(g, w, theirs.count), to + theirs.first,
                &w->left);
    }
}

static void start_pair(struct sockets *s, struct socket_transfer *w)
{
    const struct transfer *x = &w->base.transfer;
    struct message_head head = {KEY_PAIRS, x->tag, x->count * (int64_t)sizeof(float)};
    if (x->kind == TRANSFER_SEND)
        send_message(&s->connections, x->peer, head, x->from, &w->left);
    else
        ask_for(&s->connections, x->peer, head, x->to, &w->left);
}

static void start_collective(struct sockets *s, struct socket_transfer *w)
{
    struct socket_group *g = &s->group[w->base.transfer.group];
    w->number = g->started++;
    if (w->base.transfer.kind == TRANSFER_ALL_GATHER)
        exchange_all(s, g, w);
    else if (w->base.transfer.kind == TRANSFER_ALL_TO_ALL)
        exchange_parts(s, g, w);
    else if (w->base.transfer.kind == TRANSFER_BROADCAST)
        spread_chunks(s, g, w);
    else
        exchange_addends(s, g, w);
}

static weft_status sockets_start(struct transport *t, const struct transfer *transfer,
                                 struct pending_transfer **out)
{
    struct sockets *s = sockets_of(t);
    struct socket_transfer *w = make_room(sizeof *w);
    bool pair = transfer->kind == TRANSFER_SEND || transfer->kind == TRANSFER_RECEIVE;
    w->base.transfer = *transfer;
    w->next = s->open;
    s->open = w;
    (pair ? start_pair : start_collective)(s, w);
    pump(&s->connections, 0);
    *out = &w->base;
    return WEFT_OK;
}

/* All of its messages are there: what is left to do; false: there are more messages. */
static bool finish(struct sockets *s, struct socket_transfer *w)
{
    bool spread = w->base.transfer.kind == TRANSFER_BROADCAST && w->phase == 0;
    if (!w->rooms && !spread)
        return true;
    struct socket_group *g = &s->group[w->base.transfer.group];
    if (spread) {
        w->phase = 1;
        share_chunks(s, g, w);
        return w->left == 0;
    }
    sum_addends(&w->base.transfer, g->members, g->self, w->rooms);
    free(w->rooms);
    w->rooms = NULL;
    if (w->base.transfer.kind != TRANSFER_ALL_REDUCE)
        return true;
    w->phase = 1;
    exchange_all(s, g, w);
    return w->left == 0;
}

static void end_transfer(struct sockets *s, struct socket_transfer *w)
{
    struct socket_transfer **link = &s->open;
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    free(w->rooms);
    free(w);
}

static bool sockets_test(struct transport *t, struct pending_transfer *request)
{
    struct sockets *s = sockets_of(t);
    struct socket_transfer *w = (struct socket_transfer *)(void *)request;
    if (w->left)
        pump(&s->connections, 0);
    if (s->connections.why[0] || w->left || !finish(s, w))
        return false;
    end_transfer(s, w);
    return true;
}

/* ---- the end --------------------------------------------------------------------------------- */

static const char *sockets_failed(struct transport *t)
{
    struct sockets *s = sockets_of(t);
    return s->connections.why[0] ? s->connections.why : NULL;
}

static void sockets_abort(struct transport *t, const char *why)
{
    struct sockets *s = sockets_of(t);
    if (s->connections.why[0])
        return;
    tell_all(&s->connections, KEY_ABORT, why);
    snprintf(s->connections.why, sizeof s->connections.why, "%s", why);
}

static void sockets_close(struct transport *t)
{
    struct sockets *s = sockets_of(t);
    lookout_free(s->lookout);
    /* The reason reaches all before they see that this one is gone. */
    char why[sizeof s->connections.why];
    snprintf(why, sizeof why, "%s", s->connections.why);
    tell_all(&s->connections, why[0] ? KEY_ABORT : KEY_END, why);
    connections_close(&s->connections);
    while (s->open) /* where somebody has given up */
        end_transfer(s, s->open);
    for (int32_t i = 0; i < s->groups; i++)
        free(s->group[i].member);
    free(s->group);
    free(s);
}

static const struct transport_kind SOCKETS = {
    "sockets",    sockets_group, sockets_start,  sockets_test,  sockets_wait,
    sockets_wake, sockets_abort, sockets_failed, sockets_close, .apart = true,
};

weft_status sockets_watch(struct transport *t, double patience_s, void (*gone)(int32_t rank))
{
    struct sockets *s = sockets_of(t);
    s->lookout = lookout_new(&s->connections, patience_s, gone);
    return s->lookout ? WEFT_OK : failure("cannot start a thread that looks after other ranks");
}

weft_status transport_sockets(const struct rendezvous *at, struct transport **out)
{
    struct sockets *s = make_room(sizeof *s);
    int *connection = make_room((size_t)at->ranks * sizeof *connection);
    weft_status status;
    s->base = (struct transport){.kind = &SOCKETS, .rank = at->rank, .ranks = at->ranks};
    TRY(connect_all(at, connection));
    TRY(connections_open(&s->connections, connection, at->ranks));
    *out = &s->base;
    s = NULL;
done:
    free(connection);
    free(s);
    return status;
}
