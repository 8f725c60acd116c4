/* mpi.c - ranks of MPI (MPI 3.1: nonblocking collectives, communicators made by their members alone).
 *
 *   I1  MPI is asked for MPI_THREAD_SERIALIZED: one thread at a time makes its calls.
 *   I2  A transfer has at most INT_MAX elements at once: MPI 3 counts in int. Larger ones are refused;
 *       gradient buckets are sliced below that (bucket_transfers.c, I1).
 *   I3  A rank that gives up ends all ranks by MPI_Abort, so no other rank has to be told.
 *   I4  MPI is opened when a run asks for it (mpi_library.h).
 *   I5  Sums are made of messages: each member's chunk goes to it, and of an all-reduce the sums go to all. Open MPI's own
 *       nonblocking ones bring everything to one rank and back wherever a group has two members or the numbers stay in place,
 *       which takes twice as long (all-reduce) or three times (reduce-scatter) on a network of 100 Mbit/s. Messages of a
 *       sum have its number in the group as their tag, since its second part begins whenever the first is over.
 *   I6  Over TCP, Open MPI asks before it sends a message of more than 64 KiB, and the answer has to wait for whatever the
 *       other has given to the same connection: two ranks that send to each other then do so one after the other. Longer
 *       messages are sent at once, unless whoever starts the run has set these parameters.
 */
#include "run/transport/transport.h"

#ifdef WEFT_MPI

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "run/transport/chunks.h"
#include "run/transport/mpi_library.h"

struct mpi_request {
    struct pending_transfer base;
    MPI_Request handle;
    int *counts; /* of an all-to-all: both sides' counts and places */
    struct sum *sum;
};

/* A sum on its way (I5). */
struct sum {
    const struct mpi_group *group;
    int tag, messages;
    float *rooms;          /* what others add; NULL: it has been added */
    MPI_Request message[]; /* to and from every other member */
};

struct mpi_group {
    MPI_Comm comm;
    int32_t members, self;
    int64_t sums; /* so many were started */
};

struct mpi_transport {
    struct transport base;
    bool initialised; /* by us */
    int largest_tag;
    int32_t active; /* transfers that are not over */
    bool crowded;   /* more ranks on this machine than cores */
    pthread_mutex_t lock;
    pthread_cond_t woken;
    int64_t wakes, seen;
    int32_t groups, room;
    struct mpi_group **group;
};

static struct mpi_transport *own(struct transport *t)
{
    return (struct mpi_transport *)t;
}

static weft_status check(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS)
        return WEFT_OK;
    MPI_Error_string(code, text, &length);
    return failure("MPI: %s: %s", what, text);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static weft_status make(const int32_t *member, int32_t count, MPI_Comm *out)
{
    MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
    int *ranks = malloc((size_t)count * sizeof *ranks);
    weft_status status = WEFT_OK;
    if (!ranks)
        return failure("out of memory");
    for (int32_t i = 0; i < count; i++)
        ranks[i] = member[i];
    TRY(check(MPI_Comm_group(MPI_COMM_WORLD, &world), "the group of all ranks"));
    TRY(check(MPI_Group_incl(world, count, ranks, &group), "a group"));
    TRY(check(MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, out), "a communicator"));
done:
    if (group != MPI_GROUP_NULL)
        MPI_Group_free(&group);
    if (world != MPI_GROUP_NULL)
        MPI_Group_free(&world);
    free(ranks);
    return status;
}

static weft_status mpi_group(struct transport *t, const int32_t *member, int32_t count,
                             int32_t channel, int32_t *out)
{
    struct mpi_transport *m = own(t);
    (void)channel; /* every call makes a communicator of its own */
    if (m->groups == m->room) {
        m->room = m->room ? 2 * m->room : 16;
        struct mpi_group **more = realloc(m->group, (size_t)m->room * sizeof *more);
        if (!more)
            return failure("out of memory");
        m->group = more;
    }
    struct mpi_group *group = calloc(1, sizeof *group);
    if (!group)
        return failure("out of memory");
    group->members = count;
    while (member[group->self] != t->rank)
        group->self++;
    weft_status status = make(member, count, &group->comm);
    if (status == WEFT_OK) {
        m->group[m->groups] = group;
        *out = m->groups++;
    } else {
        free(group);
    }
    return status;
}

/* ---- transfers ------------------------------------------------------------------------------- */

/* Counts of both sides, and where each member's begin. */
static weft_status lay_out(const struct transfer *x, int members, struct mpi_request *request)
{
    int *counts = malloc(4 * (size_t)members * sizeof *counts);
    int64_t out = 0, in = 0;
    if (!counts)
        return failure("out of memory");
    for (int i = 0; i < members; i++) {
        counts[i] = (int)x->from_counts[i];
        counts[members + i] = (int)out;
        counts[2 * members + i] = (int)x->to_counts[i];
        counts[3 * members + i] = (int)in;
        out += x->from_counts[i];
        in += x->to_counts[i];
    }
    request->counts = counts;
    return out > INT_MAX || in > INT_MAX ? failure("an all-to-all of more than 2^31 elements")
                                         : WEFT_OK;
}

static weft_status start_all_to_all(const struct transfer *x, const struct mpi_group *group,
                                    struct mpi_request *request)
{
    int members = group->members;
    weft_status status;
    TRY(lay_out(x, members, request));
    int *c = request->counts;
    TRY(check(MPI_Ialltoallv(x->from, c, c + members, MPI_FLOAT, x->to, c + 2 * members,
                             c + 3 * members, MPI_FLOAT, group->comm, &request->handle),
              "all-to-all"));
done:
    return status;
}

/* MPI's goes from and to one buffer. */
static weft_status start_broadcast(const struct transfer *x, MPI_Comm comm,
                                   struct mpi_request *request)
{
    if (x->from && x->from != x->to)
        memcpy(x->to, x->from, (size_t)x->count * sizeof(float));
    return check(MPI_Ibcast(x->to, (int)x->count, MPI_FLOAT, x->peer, comm, &request->handle),
                 "broadcast");
}

static weft_status begin_receive(struct sum *s, int from, float *to, int64_t count)
{
    if (count == 0)
        return WEFT_OK;
    return check(MPI_Irecv(to, (int)count, MPI_FLOAT, from, s->tag, s->group->comm,
                           &s->message[s->messages++]),
                 "receiving a part of a sum");
}

static weft_status begin_send(struct sum *s, int to, const float *from, int64_t count)
{
    if (count == 0)
        return WEFT_OK;
    return check(MPI_Isend(from, (int)count, MPI_FLOAT, to, s->tag, s->group->comm,
                           &s->message[s->messages++]),
                 "sending a part of a sum");
}

/* Each member's chunk to it, and what they add to the own one. */
static weft_status exchange_addends(struct sum *s, const struct transfer *x)
{
    const struct mpi_group *g = s->group;
    struct float_span own = chunk_of(x, g->members, g->self);
    weft_status status = WEFT_OK;
    for (int32_t m = 0; m < g->members; m++) {
        struct float_span theirs = chunk_of(x, g->members, m);
        if (m == g->self)
            continue;
        TRY(begin_receive(s, m, s->rooms + m * own.count, own.count));
        TRY(begin_send(s, m, (const float *)x->from + theirs.first, theirs.count));
    }
done:
    return status;
}

/* The sum of the own chunk to all, and theirs. */
static weft_status exchange_sums(struct sum *s, const struct transfer *x)
{
    const struct mpi_group *g = s->group;
    struct float_span own = chunk_of(x, g->members, g->self);
    float *to = x->to;
    weft_status status = WEFT_OK;
    s->tag++;
    s->messages = 0;
    for (int32_t m = 0; m < g->members; m++) {
        struct float_span theirs = chunk_of(x, g->members, m);
        if (m == g->self)
            continue;
        TRY(begin_receive(s, m, to + theirs.first, theirs.count));
        TRY(begin_send(s, m, to + own.first, own.count));
    }
done:
    return status;
}

static weft_status start_sum(const struct transfer *x, struct mpi_group *group, int largest_tag,
                             struct mpi_request *request)
{
    size_t messages = 2 * ((size_t)group->members - 1);
    struct float_span own = chunk_of(x, group->members, group->self);
    struct sum *s = calloc(1, sizeof *s + messages * sizeof s->message[0]);
    request->sum = s;
    if (s)
        s->rooms = malloc((size_t)(group->members * own.count + 1) * sizeof *s->rooms);
    if (!s || !s->rooms)
        return failure("out of memory");
    s->group = group;
    s->tag = (int)(2 * (group->sums++ % (largest_tag / 2)));
    return exchange_addends(s, x);
}

static weft_status start_collective(struct mpi_transport *m, const struct transfer *x,
                                    struct mpi_request *request)
{
    struct mpi_group *group = m->group[x->group];
    int count = (int)x->count;
    switch (x->kind) {
    case TRANSFER_ALL_REDUCE:
    case TRANSFER_REDUCE_SCATTER:
        return start_sum(x, group, m->largest_tag, request);
    case TRANSFER_ALL_GATHER:
        return check(MPI_Iallgather(x->from, count, MPI_FLOAT, x->to, count, MPI_FLOAT, group->comm,
                                    &request->handle),
                     "all-gather");
    case TRANSFER_BROADCAST:
        return start_broadcast(x, group->comm, request);
    default:
        return start_all_to_all(x, group, request);
    }
}

static weft_status start_pair(struct transport *t, const struct transfer *x,
                              struct mpi_request *request)
{
    if (x->tag > own(t)->largest_tag)
        return failure("this MPI numbers messages up to %d; the plan's graph has more tasks",
                       own(t)->largest_tag);
    if (x->kind == TRANSFER_SEND)
        return check(MPI_Isend(x->from, (int)x->count, MPI_FLOAT, x->peer, x->tag, MPI_COMM_WORLD,
                               &request->handle),
                     "send");
    return check(MPI_Irecv(x->to, (int)x->count, MPI_FLOAT, x->peer, x->tag, MPI_COMM_WORLD,
                           &request->handle),
                 "receive");
}

static void free_request(struct mpi_request *request)
{
    if (!request)
        return;
    if (request->sum)
        free(request->sum->rooms);
    free(request->sum);
    free(request->counts);
    free(request);
}

static weft_status mpi_start(struct transport *t, const struct transfer *x,
                             struct pending_transfer **out)
{
    struct mpi_request *request = calloc(1, sizeof *request);
    bool pair = x->kind == TRANSFER_SEND || x->kind == TRANSFER_RECEIVE;
    weft_status status;
    if (!request)
        return failure("out of memory");
    request->base.transfer = *x;
    if (x->count > INT_MAX) /* I2 */
        TRY(failure("a transfer of %lld elements, expected fewer than 2^31", (long long)x->count));
    TRY(pair ? start_pair(t, x, request) : start_collective(own(t), x, request));
    own(t)->active++;
    *out = &request->base;
    request = NULL;
done:
    free_request(request);
    return status;
}

/* What is left to do when the messages are there; false: there are more. */
static bool sum_is_over(struct sum *s, const struct transfer *x)
{
    int over = 0;
    if (MPI_Testall(s->messages, s->message, &over, MPI_STATUSES_IGNORE) != MPI_SUCCESS || !over)
        return false;
    if (!s->rooms)
        return true;
    sum_addends(x, s->group->members, s->group->self, s->rooms);
    free(s->rooms);
    s->rooms = NULL;
    return x->kind == TRANSFER_REDUCE_SCATTER ||
           (exchange_sums(s, x) == WEFT_OK && sum_is_over(s, x));
}

static bool mpi_test(struct transport *t, struct pending_transfer *of)
{
    struct mpi_request *request = (struct mpi_request *)of;
    int over = 0;
    if (request->sum)
        over = sum_is_over(request->sum, &of->transfer);
    else if (MPI_Test(&request->handle, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return false;
    if (!over)
        return false;
    own(t)->active--;
    free_request(request);
    return true;
}

/* ---- waiting, and giving up ------------------------------------------------------------------ */

/* MPI makes progress only inside its calls. A rank that has nothing to compute tests all the time, unless
 * other ranks want its core; during computation it tests rarely, and not at all while no transfer is
 * active. */
static void mpi_wait(struct transport *t, double seconds, bool idle)
{
    static const double LOOK_S =
        50e-6; /* a message of 64 KiB through shared memory takes as long */
    struct mpi_transport *m = own(t);
    if (m->active && idle && !m->crowded) {
        sched_yield();
        return;
    }
    if (m->active && seconds > LOOK_S)
        seconds = LOOK_S;
    struct timespec until = realtime_in(seconds);
    pthread_mutex_lock(&m->lock);
    int error = 0;
    while (m->wakes == m->seen && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&m->woken, &m->lock, &until);
    m->seen = m->wakes;
    pthread_mutex_unlock(&m->lock);
}

static void mpi_wake(struct transport *t)
{
    struct mpi_transport *m = own(t);
    pthread_mutex_lock(&m->lock);
    m->wakes++;
    pthread_cond_signal(&m->woken);
    pthread_mutex_unlock(&m->lock);
}

static void mpi_abort(struct transport *t, const char *why)
{
    fprintf(stderr, "rank %d: %s\n", t->rank, why);
    MPI_Abort(MPI_COMM_WORLD, WEFT_FAILURE);
}

static const char *mpi_failed(struct transport *t)
{
    (void)t;
    return NULL; /* I3 */
}

static void mpi_close(struct transport *t)
{
    struct mpi_transport *m = own(t);
    for (int32_t i = 0; i < m->groups; i++) {
        MPI_Comm_free(&m->group[i]->comm);
        free(m->group[i]);
    }
    free(m->group);
    pthread_cond_destroy(&m->woken);
    pthread_mutex_destroy(&m->lock);
    if (m->initialised)
        MPI_Finalize();
    free(m);
}

static const struct transport_kind MPI_RANKS = {"mpi",     mpi_group,    mpi_start, mpi_test,
                                                mpi_wait,  mpi_wake,     mpi_abort, mpi_failed,
                                                mpi_close, .apart = true};

static weft_status find_crowd(bool *out)
{
    MPI_Comm machine = MPI_COMM_NULL;
    int ranks = 0;
    weft_status status;
    TRY(check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine),
              "the ranks of this machine"));
    TRY(check(MPI_Comm_size(machine, &ranks), "their number"));
    *out = ranks > sysconf(_SC_NPROCESSORS_ONLN);
done:
    if (machine != MPI_COMM_NULL)
        MPI_Comm_free(&machine);
    return status;
}

#ifdef OPEN_MPI
/* I6 */
static const char *const SETTINGS[] = {"OMPI_MCA_btl_tcp_eager_limit",
                                       "OMPI_MCA_btl_tcp_rndv_eager_limit",
                                       "OMPI_MCA_btl_tcp_max_send_size"};
static const char EAGER_BYTES[] = "2097152"; /* two slices (rank.h, DEFAULT_SLICE_BYTES) */
#else
static const char *const SETTINGS[] = {NULL};
static const char EAGER_BYTES[] = "";
#endif

static void send_at_once(void)
{
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++)
        if (SETTINGS[i])
            setenv(SETTINGS[i], EAGER_BYTES, 0);
}

weft_status transport_mpi(struct transport **out)
{
    struct mpi_transport *m = calloc(1, sizeof *m);
    int started = 0, provided = 0, rank = 0, ranks = 0, found = 0, *largest = NULL;
    weft_status status;
    if (!m)
        return failure("out of memory");
    TRY(mpi_library_open());
    TRY(check(MPI_Initialized(&started), "whether it has started"));
    send_at_once();
    m->initialised = !started;
    if (!started)
        TRY(check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided), "starting"));
    else
        TRY(check(MPI_Query_thread(&provided), "its threads"));
    if (provided < MPI_THREAD_SERIALIZED)
        TRY(failure("this MPI does not bear calls from several threads, one at a time"));
    TRY(find_crowd(&m->crowded));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&largest, &found);
    m->largest_tag = found ? *largest : 32767; /* what MPI promises */
    m->base = (struct transport){&MPI_RANKS, rank, ranks};
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->woken, NULL);
    *out = &m->base;
    m = NULL;
done:
    free(m);
    return status;
}

#else

weft_status transport_mpi(struct transport **out)
{
    *out = NULL;
    return failure("this Weft was built without MPI: build it where Open MPI is installed");
}

#endif
