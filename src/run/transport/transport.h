/* transport.h - how ranks exchange buffers: one small table of functions per kind of transport.
 *
 *   I1  One thread of a rank at a time calls its transport; only `wake` may be called beside it.
 *   I2  Everything is nonblocking: `start` takes a transfer, `test` says when it is over. Buffers are
 *       the caller's and stay until then; `from` and `to` of an all-reduce or a broadcast may be the same.
 *   I3  The members of a group start the same collectives in the same order. Sends and receives match
 *       by (sender, receiver, tag), in order; a send may last until its receive has started.
 *   I4  Members are numbered by their place in the list that made the group. Sums are in that order
 *       where the transport can say so (threads), so that runs repeat bit for bit.
 *   I5  When a rank gives up, `failed` tells the others why; no transfer is over from then on.
 *   I6  With `follow`, transfers wait for what the rank's stream was given before they were started. They
 *       match by their order alone: a rank starts all of its transfers, also those of pairs, which have a
 *       group of two, in an order that all ranks keep (rank/order.c).
 *   I7  Numbers travel in fp32, by a `narrow` transport also in bf16. Sums are rounded to what is sent.
 */
#ifndef WEFT_RUN_TRANSPORT_H
#define WEFT_RUN_TRANSPORT_H

#include <time.h>

#include "base/base.h"
#include "run/kernels/kernels.h"

enum transfer_kind {
    TRANSFER_ALL_REDUCE,
    TRANSFER_REDUCE_SCATTER,
    TRANSFER_ALL_GATHER,
    TRANSFER_ALL_TO_ALL,
    TRANSFER_BROADCAST,
    TRANSFER_SEND,
    TRANSFER_RECEIVE,
    TRANSFER_COUNT
};

struct transfer {
    enum transfer_kind kind;
    enum reduce op;
    int32_t group; /* of a collective; with `follow`, also of the pair */
    int32_t peer;  /* of a send or receive; of a broadcast the number of the member that has it */
    int32_t tag;   /* of a send or receive */
    enum dtype dtype; /* fp32 or, by a narrow transport, bf16 (I7) */
    const void *from; /* of a broadcast NULL where it comes to */
    void *to;
    int64_t count; /* elements: of all; scattered or gathered: of one member's */
    const int64_t *from_counts, *to_counts; /* all-to-all: per member; they stay like buffers */
    bool on_host; /* buffers of the host's, whatever device the rank computes on */
};

/* A transfer on its way; each kind of transport begins its own record of one with it. */
struct pending_transfer {
    struct transfer transfer;
};

struct transport;
struct transport_kind {
    const char *name;
    /* A group of ranks, this one among them; all members make their groups in the same order. Groups
     * of the same ranks on different channels do not disturb each other's order (I3). */
    weft_status (*group)(struct transport *t, const int32_t *member, int32_t count, int32_t channel,
                         int32_t *out);
    weft_status (*start)(
        struct transport *t, const struct transfer *transfer,
        struct pending_transfer **out); /* with `stream`, NULL: nobody asks for it */
    bool (*test)(struct transport *t, struct pending_transfer *request); /* true: over, and freed */
    /* Until `wake`, or something may be over, or so long. `idle`: nobody else wants this rank's core. */
    void (*wait)(struct transport *t, double seconds, bool idle);
    void (*wake)(struct transport *t); /* from any thread */
    void (*abort)(struct transport *t, const char *why);
    const char *(*failed)(struct transport *t); /* NULL: nobody has given up */
    void (*close)(struct transport *t);
    /* Of a transport whose transfers are work of the device's streams (I6): the rank's stream goes on after
     * the transfer, which is freed. NULL: the host moves them. */
    void (*follow)(struct transport *t, struct pending_transfer *request);
    /* With `follow`, the stream that a group's collectives run on, after it was made to wait for what the
     * rank's stream was given so far: work between two of them can be given to it. NULL: there is none.
     * A collective of no elements is over when everything before it on that stream is. */
    struct device_stream *(*stream)(struct transport *t, int32_t group);
    bool narrow; /* I7 */
    bool apart;  /* ranks are processes */
};

struct transport {
    const struct transport_kind *kind;
    int32_t rank, ranks;
    const char *note; /* what a user should know of how it works here; NULL: nothing */
};

/* A transfer from its start to its end, for a rank that has nothing else to do meanwhile. */
weft_status transport_run(struct transport *t, const struct transfer *transfer);

/* ---- ranks that are threads of this process -------------------------------------------------- */

/* A slowed transport stands in for a slow network. */
struct slowdown {
    uint64_t seed;
    double delay_s;     /* every transfer takes up to this much longer, at random; 0: none */
    double bytes_per_s; /* through the link of each rank, one transfer after another; 0: no limit */
};
struct hub;
struct hub *hub_new(int32_t ranks, const struct slowdown *slowdown); /* NULL: not slowed */
void hub_free(struct hub *hub);                                      /* after its transports */
struct transport *transport_threads(struct hub *hub, int32_t rank);

/* ---- MPI ------------------------------------------------------------------------------------- */

/* Under any launcher that starts MPI ranks. Fails where Weft was built without MPI. */
weft_status transport_mpi(struct transport **out);

/* ---- TCP --------------------------------------------------------------------------------------- */

/* Ranks that a launcher started without MPI: where rank 0 listens. */
struct rendezvous {
    int32_t rank, ranks;
    const char *host;
    int64_t port;
};
/* Waits until all ranks are connected. */
weft_status transport_sockets(const struct rendezvous *at, struct transport **out);
/* From then on `gone` is called, by a thread of its own, of a rank that was gone without a word for so many seconds while this
 * one still has its transport open: whatever holds up this rank's other threads, somebody knows. */
weft_status sockets_watch(struct transport *t, double patience_s, void (*gone)(int32_t rank));

/* ---- for devices apart from the host ----------------------------------------------------------- */

/* Transfers of a device's memory over a transport of the host's; closing it leaves the inner one open. */
struct transport *transport_staged(struct transport *inner, const struct compute_device *device,
                                   struct device_stream *stream);

/* How a rank's transport carries its device's memory, given one between hosts. */
typedef weft_status transport_carrier(struct transport *host, const struct compute_device *device,
                                      struct device_stream *stream, struct transport **out);

/* Until when pthread_cond_timedwait waits for so long. */
struct timespec realtime_in(double seconds);

#include "run/transport/rank_agreement.h"

#endif
