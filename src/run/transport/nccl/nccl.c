/* nccl.c - transfers of GPUs' memory by NCCL (nccl.h).
 *
 *   I1  A group is a communicator, a pair of ranks is one too. They are made one after the other in an order
 *       that all ranks keep (run/rank/memberships.c): making one blocks until all of its members are there.
 *   I2  Every channel has a stream of its own for what is collective or sent, and one for what is received.
 *       A communicator takes few of a GPU's processors (MOST_BLOCKS): all streams' transfers can be at work
 *       at the same time, so none waits for a place that another one holds.
 *   I4  A rank that is gone must not keep another one: making a communicator is waited for by a look at the hosts now and
 *       then, and communicators are aborted all at once, because aborting one waits for the kernels of all.
 *   I3  The host's buffers go by the transport between hosts, and so do identities of communicators and the
 *       reason why a rank gives up.
 */
#include "run/transport/nccl/nccl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run/transport/nccl/library.h"

/* ---- the transport --------------------------------------------------------------------------- */

struct nccl_group {
    ncclComm_t comm;
    int32_t members, channel, host;
};
struct nccl_stream {
    int32_t channel;
    bool receives;
    struct device_stream *stream;
};
enum { MOST_STREAMS = 32, MOST_BLOCKS = 16, MOST_BLOCKS_OF_PAIR = 4 };

struct nccl {
    struct transport base;
    struct transport *host;
    const struct compute_device *device;
    struct device_stream *work;
    struct nccl_group *group;
    int32_t groups;
    struct nccl_stream stream[MOST_STREAMS]; /* I2 */
    int32_t streams;
    bool aborted;
    char why[256];
};

struct nccl_transfer {
    struct pending_transfer base;
    struct pending_transfer *host; /* NULL: it is the GPU's */
    struct device_event *over;
};

static struct nccl *nccl_of(struct transport *t)
{
    return (struct nccl *)(void *)t;
}

static weft_status check(ncclResult_t result, const char *what)
{
    return result == ncclSuccess ? WEFT_OK
                                 : failure("NCCL: %s: %s", what, NCCL(ncclGetErrorString)(result));
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* The first member's identity of a new communicator, to all. */
static weft_status share_identity(struct nccl *s, const struct nccl_group *group, bool first,
                                  ncclUniqueId *id)
{
    enum { WORDS = sizeof *id / sizeof(float) };
    ncclUniqueId *all = calloc((size_t)group->members, sizeof *all);
    weft_status status;
    if (!all)
        return failure("out of memory");
    if (first)
        TRY(check(NCCL(ncclGetUniqueId)(id), "a communicator gets its identity"));
    TRY(transport_run(s->host, &(struct transfer){.kind = TRANSFER_ALL_GATHER,
                                                  .group = group->host,
                                                  .from = id,
                                                  .to = all,
                                                  .count = WORDS,
                                                  .on_host = true}));
    *id = all[0];
done:
    free(all);
    return status;
}

/* What a thread of its own makes: nobody waits for one that has lost its other members (I4). */
struct new_communicator {
    struct nccl *transport;
    ncclUniqueId id;
    ncclConfig_t config;
    int32_t members, self;
    ncclComm_t comm;
    ncclResult_t result;
    atomic_bool over;
};

static void *make_apart(void *context)
{
    struct new_communicator *c = context;
    struct nccl *s = c->transport;
    device_finish(s->device, device_record(s->device, s->work)); /* this thread is the GPU's, too */
    c->result = NCCL(ncclCommInitRankConfig)(&c->comm, c->members, c->id, c->self, &c->config);
    atomic_store(&c->over, true);
    return NULL;
}

static const char *host_failed(const struct nccl *s)
{
    s->host->kind->wait(s->host, 0, false); /* who is gone is noticed by looking */
    return s->host->kind->failed(s->host);
}

static weft_status await_communicator(struct nccl *s, struct new_communicator *c, ncclComm_t *out)
{
    static const struct timespec PATIENCE = {.tv_nsec = 200000};
    pthread_t thread;
    if (pthread_create(&thread, NULL, make_apart, c) != 0)
        return failure("cannot start a thread");
    while (!atomic_load(&c->over)) {
        const char *why = host_failed(s);
        if (why) {
            pthread_detach(thread); /* it keeps what it was given */
            return failure("%s", why);
        }
        nanosleep(&PATIENCE, NULL);
    }
    pthread_join(thread, NULL);
    ncclResult_t result = c->result;
    *out = c->comm;
    free(c);
    return check(result, "a communicator is made");
}

static weft_status make_communicator(struct nccl *s, struct nccl_group *group, int32_t self)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id = {0};
    struct new_communicator *made = calloc(1, sizeof *made);
    weft_status status;
    if (!made)
        return failure("out of memory");
    config.maxCTAs = group->members == 2 ? MOST_BLOCKS_OF_PAIR : MOST_BLOCKS;
    TRY(share_identity(s, group, self == 0, &id));
    made->transport = s;
    made->id = id;
    made->config = config;
    made->members = group->members;
    made->self = self;
    return await_communicator(s, made, &group->comm);
done:
    free(made);
    return status;
}

static weft_status nccl_group(struct transport *t, const int32_t *member, int32_t count,
                              int32_t channel, int32_t *out)
{
    struct nccl *s = nccl_of(t);
    struct nccl_group made = {.members = count, .channel = channel};
    int32_t self = 0;
    weft_status status;
    struct nccl_group *grown = realloc(s->group, ((size_t)s->groups + 1) * sizeof *grown);
    if (!grown)
        return failure("out of memory");
    s->group = grown;
    while (member[self] != t->rank)
        self++;
    TRY(s->host->kind->group(s->host, member, count, channel, &made.host));
    TRY(make_communicator(s, &made, self));
    s->group[s->groups] = made;
    *out = s->groups++;
done:
    return status;
}

/* I2 */
static struct device_stream *stream_for(struct nccl *s, int32_t channel, bool receives)
{
    for (int32_t i = 0; i < s->streams; i++)
        if (s->stream[i].channel == channel && s->stream[i].receives == receives)
            return s->stream[i].stream;
    if (s->streams == MOST_STREAMS)
        return s->stream[0].stream;
    struct device_stream *made = device_stream(s->device);
    s->stream[s->streams++] = (struct nccl_stream){channel, receives, made};
    return made;
}

/* ---- transfers ------------------------------------------------------------------------------- */

static ncclDataType_t type_of(const struct transfer *x)
{
    return x->dtype == DTYPE_BF16 ? ncclBfloat16 : x->dtype == DTYPE_FP16 ? ncclHalf : ncclFloat;
}

static ncclResult_t all_to_all(const struct transfer *x, const struct nccl_group *group,
                               cudaStream_t stream)
{
    const char *from = x->from;
    char *to = x->to;
    int64_t each = dtype_bytes(x->dtype);
    ncclResult_t result = NCCL(ncclGroupStart)();
    for (int32_t m = 0; m < group->members && result == ncclSuccess; m++) {
        if (x->from_counts[m] > 0)
            result =
                NCCL(ncclSend)(from, (size_t)x->from_counts[m], type_of(x), m, group->comm, stream);
        if (x->to_counts[m] > 0 && result == ncclSuccess)
            result =
                NCCL(ncclRecv)(to, (size_t)x->to_counts[m], type_of(x), m, group->comm, stream);
        from += x->from_counts[m] * each;
        to += x->to_counts[m] * each;
    }
    ncclResult_t ended = NCCL(ncclGroupEnd)();
    return result == ncclSuccess ? ended : result;
}

static ncclResult_t enqueue(const struct transfer *x, const struct nccl_group *group,
                            cudaStream_t stream)
{
    ncclRedOp_t op = x->op == REDUCE_MAX ? ncclMax : ncclSum;
    ncclDataType_t type = type_of(x);
    size_t count = (size_t)x->count;
    switch (x->kind) {
    case TRANSFER_ALL_REDUCE:
        return NCCL(ncclAllReduce)(x->from, x->to, count, type, op, group->comm, stream);
    case TRANSFER_REDUCE_SCATTER:
        return NCCL(ncclReduceScatter)(x->from, x->to, count, type, op, group->comm, stream);
    case TRANSFER_ALL_GATHER:
        return NCCL(ncclAllGather)(x->from, x->to, count, type, group->comm, stream);
    case TRANSFER_ALL_TO_ALL:
        return all_to_all(x, group, stream);
    case TRANSFER_BROADCAST: /* of others it reads no `from` */
        return NCCL(ncclBroadcast)(x->from ? x->from : x->to, x->to, count, type, x->peer,
                                   group->comm, stream);
    case TRANSFER_SEND: /* the sender is the first of a pair */
        return NCCL(ncclSend)(x->from, count, type, 1, group->comm, stream);
    case TRANSFER_RECEIVE:
        return NCCL(ncclRecv)(x->to, count, type, 0, group->comm, stream);
    default:
        return ncclInvalidArgument;
    }
}

static bool is_empty(const struct transfer *x)
{
    return x->kind != TRANSFER_ALL_TO_ALL && x->count == 0;
}

static weft_status start_on_gpu(struct nccl *s, const struct transfer *x, struct device_event **out)
{
    const struct nccl_group *group = &s->group[x->group];
    struct device_stream *stream = stream_for(s, group->channel, x->kind == TRANSFER_RECEIVE);
    weft_status status = WEFT_OK;
    if (!stream)
        return failure("the GPU has no more streams");
    device_await(s->device, stream, device_record(s->device, s->work));
    if (!is_empty(x))
        TRY(check(enqueue(x, group, cuda_stream_handle(stream)), "a transfer is started"));
    if (out)
        *out = device_record(s->device, stream);
done:
    return status;
}

static struct device_stream *nccl_stream(struct transport *t, int32_t group)
{
    struct nccl *s = nccl_of(t);
    struct device_stream *stream = stream_for(s, s->group[group].channel, false);
    if (stream)
        device_await(s->device, stream, device_record(s->device, s->work));
    return stream;
}

static weft_status nccl_start(struct transport *t, const struct transfer *transfer,
                              struct pending_transfer **out)
{
    struct nccl *s = nccl_of(t);
    if (!out)
        return start_on_gpu(s, transfer, NULL);
    struct nccl_transfer *w = calloc(1, sizeof *w);
    weft_status status;
    if (!w)
        return failure("out of memory");
    w->base.transfer = *transfer;
    if (transfer->on_host) {
        struct transfer by_host = *transfer;
        by_host.group = s->group[transfer->group].host;
        TRY(s->host->kind->start(s->host, &by_host, &w->host));
    } else {
        TRY(start_on_gpu(s, transfer, &w->over));
    }
    *out = &w->base;
done:
    if (status != WEFT_OK)
        free(w);
    return status;
}

static bool nccl_test(struct transport *t, struct pending_transfer *request)
{
    struct nccl *s = nccl_of(t);
    struct nccl_transfer *w = (struct nccl_transfer *)(void *)request;
    bool over = w->host ? s->host->kind->test(s->host, w->host) : device_over(s->device, w->over);
    if (over)
        free(w);
    return over;
}

static void nccl_follow(struct transport *t, struct pending_transfer *request)
{
    static const double PATIENCE_S = 0.001;
    struct nccl *s = nccl_of(t);
    struct nccl_transfer *w = (struct nccl_transfer *)(void *)request;
    while (w->host && !s->host->kind->test(s->host, w->host) && !t->kind->failed(t))
        s->host->kind->wait(s->host, PATIENCE_S, true);
    if (!w->host)
        device_await(s->device, s->work, w->over);
    free(w);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void nccl_wait(struct transport *t, double seconds, bool idle)
{
    struct transport *host = nccl_of(t)->host;
    host->kind->wait(host, seconds, idle);
}

static void nccl_wake(struct transport *t)
{
    struct transport *host = nccl_of(t)->host;
    host->kind->wake(host);
}

static void *abort_one(void *comm)
{
    NCCL(ncclCommAbort)(comm);
    return NULL;
}

/* I4 */
static void abort_all(struct nccl *s)
{
    pthread_t *thread = calloc((size_t)s->groups + 1, sizeof *thread);
    int32_t started = 0;
    while (thread && !s->aborted && started < s->groups &&
           pthread_create(&thread[started], NULL, abort_one, s->group[started].comm) == 0)
        started++;
    for (int32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    s->aborted = true;
    free(thread);
}

static void nccl_abort(struct transport *t, const char *why)
{
    struct nccl *s = nccl_of(t);
    s->host->kind->abort(s->host, why);
    abort_all(s);
}

static const char *nccl_failed(struct transport *t)
{
    struct nccl *s = nccl_of(t);
    const char *why = host_failed(s);
    for (int32_t i = 0; i < s->groups && !why && !s->why[0] && !s->aborted; i++) {
        ncclResult_t state = ncclSuccess;
        NCCL(ncclCommGetAsyncError)(s->group[i].comm, &state);
        if (state != ncclSuccess && state != ncclInProgress)
            snprintf(s->why, sizeof s->why, "NCCL: another rank cannot be reached: %s",
                     NCCL(ncclGetErrorString)(state));
    }
    return why ? why : s->why[0] ? s->why : NULL;
}

static void nccl_close(struct transport *t)
{
    struct nccl *s = nccl_of(t);
    if (nccl_failed(t))
        abort_all(s);
    for (int32_t i = 0; i < s->streams; i++)
        device_stream_free(s->device, s->stream[i].stream);
    for (int32_t i = 0; i < s->groups && !s->aborted; i++)
        NCCL(ncclCommDestroy)(s->group[i].comm);
    free(s->group);
    free(s);
}

static const struct transport_kind BY_NCCL = {
    .name = "nccl",
    .group = nccl_group,
    .start = nccl_start,
    .test = nccl_test,
    .wait = nccl_wait,
    .wake = nccl_wake,
    .abort = nccl_abort,
    .failed = nccl_failed,
    .close = nccl_close,
    .follow = nccl_follow,
    .stream = nccl_stream,
    .narrow = true,
};

/* Whether no rank lacks the library. */
static weft_status agree_on_library(struct transport *host, bool *all_have)
{
    int32_t *all = calloc((size_t)host->ranks, sizeof *all), group;
    float lacking = nccl_missing() ? 1 : 0;
    weft_status status;
    if (!all)
        return failure("out of memory");
    for (int32_t i = 0; i < host->ranks; i++)
        all[i] = i;
    TRY(host->kind->group(host, all, host->ranks, 0, &group));
    TRY(transport_run(host, &(struct transfer){.kind = TRANSFER_ALL_REDUCE,
                                               .group = group,
                                               .from = &lacking,
                                               .to = &lacking,
                                               .count = 1,
                                               .on_host = true}));
    *all_have = lacking < 0.5F;
done:
    free(all);
    return status;
}

weft_status carry_by_nccl(struct transport *host, const struct compute_device *device,
                          struct device_stream *stream, struct transport **out)
{
    bool all_have = false;
    weft_status status;
    TRY(agree_on_library(host, &all_have));
    if (!all_have) {
        *out = transport_staged(host, device, stream);
        (*out)->note = through_host;
        return WEFT_OK;
    }
    struct nccl *s = calloc(1, sizeof *s);
    if (!s)
        return failure("out of memory");
    *s = (struct nccl){.base = {&BY_NCCL, host->rank, host->ranks},
                       .host = host,
                       .device = device,
                       .work = stream};
    *out = &s->base;
done:
    return status;
}
