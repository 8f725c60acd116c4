/* threads.c - ranks that are threads of one process: a transport for tests and for one rank.
 *
 * All ranks share a hub. A collective is complete when its last member has started it: that member does
 * the work for all, in the order of the members (transport.h, I4). A send and its receive meet in the same
 * way. A slowed transfer is done at once and reported as over later:
 *
 *   over = max(met, links free) + bytes / bandwidth + delay                                      (1)
 *
 * A rank has one link out and one in. A send takes its sender's out and its receiver's in, a collective both
 * of all members: as the links of a cluster file, which have their bandwidth in each direction.
 *
 *   I1  Everything of the hub is changed under its lock; the work of a collective is done under it
 *       too: no rank waits for that longer than it would for the result.
 *   I2  After a rank has given up, no transfer completes any more: ranks that know of it free their buffers.
 */
#include "run/transport/transport.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run/device/device.h"

struct thread_request {
    struct pending_transfer base;
    int32_t rank, member; /* of its group */
    bool met;
    double over_s;               /* (1) */
    struct thread_request *next; /* of those that have not met */
    struct thread_request *older, *newer;
};

/* One collective of a group, while not all members have started it. */
struct group_meeting {
    int64_t number;
    int32_t arrived;
    struct thread_request **request; /* per member */
    struct group_meeting *next;
};

struct hub_group {
    int32_t members, channel;
    int32_t *member;
    int64_t *started; /* per member: how many */
    struct group_meeting *meetings;
    struct hub_group *next;
};

struct hub {
    pthread_mutex_t lock;
    pthread_cond_t *changed; /* per rank */
    int64_t *events;         /* per rank */
    double *link_free_s;     /* per rank: out, then in */
    int32_t ranks;
    struct slowdown slowdown;
    struct rng rng;
    struct hub_group **group;
    int32_t groups;
    struct thread_request *alone; /* sends and receives that have not met */
    struct thread_request *newest;
    char why[256];
    bool failed;
};

struct threads_transport {
    struct transport base;
    struct hub *hub;
    int64_t seen; /* events */
};

static struct threads_transport *own(struct transport *t)
{
    return (struct threads_transport *)t;
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        abort();
    return memory;
}

struct hub *hub_new(int32_t ranks, const struct slowdown *slowdown)
{
    struct hub *hub = allocate(1, sizeof *hub);
    hub->ranks = ranks;
    hub->changed = allocate((size_t)ranks, sizeof *hub->changed);
    hub->events = allocate((size_t)ranks, sizeof *hub->events);
    hub->link_free_s = allocate(2 * (size_t)ranks, sizeof *hub->link_free_s);
    pthread_mutex_init(&hub->lock, NULL);
    for (int32_t r = 0; r < ranks; r++)
        pthread_cond_init(&hub->changed[r], NULL);
    if (slowdown)
        hub->slowdown = *slowdown;
    rng_seed(&hub->rng, hub->slowdown.seed);
    return hub;
}

static void free_meetings(struct hub_group *group)
{
    while (group->meetings) {
        struct group_meeting *next = group->meetings->next;
        free((void *)group->meetings->request);
        free(group->meetings);
        group->meetings = next;
    }
}

void hub_free(struct hub *hub)
{
    for (int32_t i = 0; i < hub->groups; i++) {
        free_meetings(hub->group[i]);
        free(hub->group[i]->member);
        free(hub->group[i]->started);
        free(hub->group[i]);
    }
    while (hub->newest) { /* where a rank gave up */
        struct thread_request *older = hub->newest->older;
        free(hub->newest);
        hub->newest = older;
    }
    for (int32_t r = 0; r < hub->ranks; r++)
        pthread_cond_destroy(&hub->changed[r]);
    pthread_mutex_destroy(&hub->lock);
    free((void *)hub->group);
    free(hub->changed);
    free(hub->events);
    free(hub->link_free_s);
    free(hub);
}

static void notify(struct hub *hub, int32_t rank)
{
    hub->events[rank]++;
    pthread_cond_signal(&hub->changed[rank]);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static bool is_group(const struct hub_group *group, const int32_t *member, int32_t count,
                     int32_t channel)
{
    return group->members == count && group->channel == channel &&
           memcmp(group->member, member, (size_t)count * sizeof *member) == 0;
}

static struct hub_group *new_group(const int32_t *member, int32_t count, int32_t channel)
{
    struct hub_group *group = allocate(1, sizeof *group);
    group->members = count;
    group->channel = channel;
    group->member = allocate((size_t)count, sizeof *group->member);
    memcpy(group->member, member, (size_t)count * sizeof *member);
    group->started = allocate((size_t)count, sizeof *group->started);
    return group;
}

static weft_status threads_group(struct transport *t, const int32_t *member, int32_t count,
                                 int32_t channel, int32_t *out)
{
    struct hub *hub = own(t)->hub;
    int32_t i = 0;
    pthread_mutex_lock(&hub->lock);
    while (i < hub->groups && !is_group(hub->group[i], member, count, channel))
        i++;
    if (i == hub->groups) {
        size_t bytes = sizeof(struct hub_group *) * ((size_t)hub->groups + 1);
        struct hub_group **more = realloc((void *)hub->group, bytes);
        if (!more)
            abort();
        hub->group = more;
        hub->group[hub->groups++] = new_group(member, count, channel);
    }
    pthread_mutex_unlock(&hub->lock);
    *out = i;
    return WEFT_OK;
}

/* ---- what transfers do ----------------------------------------------------------------------- */

/* to = to op from. */
VECTOR static void combine(enum reduce op, const float *from, int64_t count, float *to)
{
    if (op == REDUCE_SUM)
        for (int64_t i = 0; i < count; i++)
            to[i] += from[i];
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = to[i] > from[i] ? to[i] : from[i];
}

/* Elements first .. first + count of all members' `from`, into `to`, which may be one of them; a tile at
 * a time, which stays in the nearest cache. */
static void reduce_into(struct thread_request **r, int32_t members, int64_t first, int64_t count,
                        void *to)
{
    float tile[TILE], other[TILE];
    enum dtype dtype = r[0]->base.transfer.dtype;
    for (int64_t at = 0; at < count; at += TILE) {
        int64_t now = count - at < TILE ? count - at : TILE;
        const void *own = r[0]->base.transfer.from;
        memcpy(tile, tile_read(dtype, own, first + at, now, tile), (size_t)now * sizeof *tile);
        for (int32_t m = 1; m < members; m++)
            combine(r[0]->base.transfer.op,
                    tile_read(dtype, r[m]->base.transfer.from, first + at, now, other), now, tile);
        if (dtype == DTYPE_FP32)
            memcpy((float *)to + at, tile, (size_t)now * sizeof *tile);
        tile_done(dtype, to, at, now, tile);
    }
}

static size_t element_size(const struct thread_request *r)
{
    return (size_t)dtype_bytes(r->base.transfer.dtype);
}

static void do_all_reduce(struct thread_request **r, int32_t members)
{
    int64_t count = r[0]->base.transfer.count;
    reduce_into(r, members, 0, count, r[0]->base.transfer.to);
    for (int32_t m = 1; count > 0 && m < members; m++) /* nothing may be nowhere */
        memcpy(r[m]->base.transfer.to, r[0]->base.transfer.to, (size_t)count * element_size(r[0]));
}

static void do_reduce_scatter(struct thread_request **r, int32_t members)
{
    int64_t count = r[0]->base.transfer.count;
    for (int32_t m = 0; m < members; m++)
        reduce_into(r, members, m * count, count, r[m]->base.transfer.to);
}

static void do_all_gather(struct thread_request **r, int32_t members)
{
    size_t bytes = (size_t)r[0]->base.transfer.count * element_size(r[0]);
    for (int32_t to = 0; to < members; to++)
        for (int32_t m = 0; m < members; m++)
            memcpy((char *)r[to]->base.transfer.to + (size_t)m * bytes, r[m]->base.transfer.from,
                   bytes);
}

static void do_all_to_all(struct thread_request **r, int32_t members)
{
    size_t each = element_size(r[0]);
    for (int32_t from = 0; from < members; from++) {
        const char *at = r[from]->base.transfer.from;
        for (int32_t to = 0; to < members; to++) {
            char *there = r[to]->base.transfer.to;
            size_t bytes = (size_t)r[from]->base.transfer.from_counts[to] * each;
            for (int32_t m = 0; m < from; m++)
                there += (size_t)r[to]->base.transfer.to_counts[m] * each;
            memcpy(there, at, bytes);
            at += bytes;
        }
    }
}

static void do_broadcast(struct thread_request **r, int32_t members)
{
    const struct transfer *root = &r[r[0]->base.transfer.peer]->base.transfer;
    size_t bytes = (size_t)root->count * element_size(r[0]);
    for (int32_t m = 0; bytes > 0 && m < members; m++)
        if (r[m]->base.transfer.to != root->from)
            memcpy(r[m]->base.transfer.to, root->from, bytes);
}

static void do_send(struct thread_request **r, int32_t members)
{
    (void)members;
    memcpy(r[1]->base.transfer.to, r[0]->base.transfer.from,
           (size_t)r[0]->base.transfer.count * element_size(r[0]));
}

static void (*const WORK[])(struct thread_request **r, int32_t members) = {
    [TRANSFER_ALL_REDUCE] = do_all_reduce, [TRANSFER_REDUCE_SCATTER] = do_reduce_scatter,
    [TRANSFER_ALL_GATHER] = do_all_gather, [TRANSFER_ALL_TO_ALL] = do_all_to_all,
    [TRANSFER_BROADCAST] = do_broadcast,   [TRANSFER_SEND] = do_send,
    [TRANSFER_RECEIVE] = do_send,
};
_Static_assert(COUNT_OF(WORK) == TRANSFER_COUNT, "a transfer without its work");

static double bytes_of(const struct transfer *transfer, int32_t members)
{
    double count = (double)transfer->count;
    if (transfer->kind == TRANSFER_ALL_REDUCE)
        count *= 2.0 * (members - 1) / members;
    else if (transfer->kind == TRANSFER_REDUCE_SCATTER || transfer->kind == TRANSFER_ALL_GATHER)
        count *= members - 1;
    else if (transfer->kind == TRANSFER_ALL_TO_ALL)
        for (int32_t m = 0; m < members; m++)
            count += (double)transfer->from_counts[m];
    return count * (double)dtype_bytes(transfer->dtype);
}

/* way 0 is out, 1 is in */
static double *link_of(struct hub *hub, const struct thread_request *request, int way)
{
    return &hub->link_free_s[2 * request->rank + way];
}

static bool uses_link(const struct thread_request *request, int way)
{
    return request->base.transfer.kind != (way == 0 ? TRANSFER_RECEIVE : TRANSFER_SEND);
}

/* All are there: the work, and when it is over. (1) */
static void meet(struct hub *hub, struct thread_request **r, int32_t members)
{
    const struct slowdown *slow = &hub->slowdown;
    double bytes = bytes_of(&r[0]->base.transfer, members), over_s = wall_seconds();
    WORK[r[0]->base.transfer.kind](r, members);
    for (int32_t m = 0; m < members && slow->bytes_per_s > 0; m++)
        for (int way = 0; way < 2; way++) {
            double free_s = *link_of(hub, r[m], way);
            over_s = uses_link(r[m], way) && free_s > over_s ? free_s : over_s;
        }
    if (slow->bytes_per_s > 0)
        over_s += bytes / slow->bytes_per_s;
    for (int32_t m = 0; m < members; m++) {
        for (int way = 0; way < 2; way++)
            if (uses_link(r[m], way))
                *link_of(hub, r[m], way) = over_s;
        r[m]->over_s = over_s + slow->delay_s * rng_uniform(&hub->rng);
        r[m]->met = true;
        notify(hub, r[m]->rank);
    }
}

/* ---- meeting --------------------------------------------------------------------------------- */

static void join_meeting(struct hub *hub, struct hub_group *group, struct thread_request *request)
{
    while (group->member[request->member] != request->rank)
        request->member++;
    int64_t number = group->started[request->member]++;
    struct group_meeting **at = &group->meetings;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if (!*at) {
        *at = allocate(1, sizeof **at);
        (*at)->number = number;
        (*at)->request = allocate((size_t)group->members, sizeof(struct thread_request *));
    }
    struct group_meeting *meeting = *at;
    meeting->request[request->member] = request;
    if (++meeting->arrived < group->members)
        return;
    *at = meeting->next;
    meet(hub, meeting->request, group->members);
    free((void *)meeting->request);
    free(meeting);
}

static bool answers(const struct thread_request *a, const struct thread_request *b)
{
    return a->base.transfer.kind != b->base.transfer.kind &&
           a->base.transfer.tag == b->base.transfer.tag && a->base.transfer.peer == b->rank &&
           b->base.transfer.peer == a->rank;
}

static void join_pair(struct hub *hub, struct thread_request *request)
{
    struct thread_request **at = &hub->alone;
    while (*at && !answers(*at, request))
        at = &(*at)->next;
    if (!*at) {
        *at = request; /* at the end: in order */
        return;
    }
    struct thread_request *other = *at;
    *at = other->next;
    other->next = NULL;
    bool sends = request->base.transfer.kind == TRANSFER_SEND;
    struct thread_request *pair[] = {sends ? request : other, sends ? other : request};
    meet(hub, pair, 2);
}

static weft_status threads_start(struct transport *t, const struct transfer *transfer,
                                 struct pending_transfer **out)
{
    struct hub *hub = own(t)->hub;
    struct thread_request *request = allocate(1, sizeof *request);
    bool pair = transfer->kind == TRANSFER_SEND || transfer->kind == TRANSFER_RECEIVE;
    request->base.transfer = *transfer;
    request->rank = t->rank;
    *out = &request->base;
    pthread_mutex_lock(&hub->lock);
    request->older = hub->newest;
    if (hub->newest)
        hub->newest->newer = request;
    hub->newest = request;
    if (hub->failed) /* I2 */
        ;
    else if (pair)
        join_pair(hub, request);
    else
        join_meeting(hub, hub->group[transfer->group], request);
    pthread_mutex_unlock(&hub->lock);
    return WEFT_OK;
}

static void forget(struct hub *hub, struct thread_request *request)
{
    if (request->newer)
        request->newer->older = request->older;
    else
        hub->newest = request->older;
    if (request->older)
        request->older->newer = request->newer;
    free(request);
}

static bool threads_test(struct transport *t, struct pending_transfer *of)
{
    struct thread_request *request = (struct thread_request *)of;
    struct hub *hub = own(t)->hub;
    pthread_mutex_lock(&hub->lock);
    bool over = !hub->failed && request->met && wall_seconds() >= request->over_s;
    if (over)
        forget(hub, request);
    pthread_mutex_unlock(&hub->lock);
    return over;
}

/* ---- waiting, and giving up ------------------------------------------------------------------ */

/* Until a slowed transfer of a rank is over, and no longer than that. */
static double until_over(const struct hub *hub, int32_t rank, double seconds)
{
    double now_s = wall_seconds();
    for (const struct thread_request *q = hub->newest; q && hub->slowdown.bytes_per_s > 0;
         q = q->older)
        if (q->rank == rank && q->met && q->over_s > now_s && q->over_s - now_s < seconds)
            seconds = q->over_s - now_s;
    return seconds;
}

static void threads_wait(struct transport *t, double seconds, bool idle)
{
    struct hub *hub = own(t)->hub;
    (void)idle;
    pthread_mutex_lock(&hub->lock);
    struct timespec until = realtime_in(until_over(hub, t->rank, seconds));
    int error = 0;
    while (hub->events[t->rank] == own(t)->seen && !hub->failed && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&hub->changed[t->rank], &hub->lock, &until);
    own(t)->seen = hub->events[t->rank];
    pthread_mutex_unlock(&hub->lock);
}

static void threads_wake(struct transport *t)
{
    struct hub *hub = own(t)->hub;
    pthread_mutex_lock(&hub->lock);
    notify(hub, t->rank);
    pthread_mutex_unlock(&hub->lock);
}

static void threads_abort(struct transport *t, const char *why)
{
    struct hub *hub = own(t)->hub;
    pthread_mutex_lock(&hub->lock);
    if (!hub->failed)
        strncpy(hub->why, why, sizeof hub->why - 1);
    hub->failed = true;
    for (int32_t r = 0; r < hub->ranks; r++)
        notify(hub, r);
    pthread_mutex_unlock(&hub->lock);
}

static const char *threads_failed(struct transport *t)
{
    struct hub *hub = own(t)->hub;
    pthread_mutex_lock(&hub->lock);
    bool failed = hub->failed;
    pthread_mutex_unlock(&hub->lock);
    return failed ? hub->why : NULL;
}

static void threads_close(struct transport *t)
{
    free(t);
}

static const struct transport_kind THREADS = {
    "threads",    threads_group, threads_start,  threads_test,  threads_wait,
    threads_wake, threads_abort, threads_failed, threads_close, .narrow = true};

struct transport *transport_threads(struct hub *hub, int32_t rank)
{
    struct threads_transport *t = allocate(1, sizeof *t);
    t->base = (struct transport){&THREADS, rank, hub->ranks};
    t->hub = hub;
    return &t->base;
}
