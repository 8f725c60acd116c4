/* room.h - one rank of a run; private to the room.
 *
 * A rank is one device of the graph. Two threads work for it: the *executor* runs the tasks of its
 * compute stream, the *communicator* (the thread that called us) those of all others; an executor that
 * waits does so in its place (progress_thread.c).
 *
 *   program.c   its tasks: which of the graph's it has a part in, and what they wait for here
 *   liveness.c  which tensors live when: who is the last to read each
 *   buffers.c   tensors with their layouts, counted
 *   memberships.c  what an operator computes here: local sizes, groups of its sums, its kernel's call
 *   borders.c   inputs that it reads beyond its part; image_borders.c rows of images
 *   items.c     operators and steps, on the tensors of one micro-batch
 *   steps.c     a step of a reshard as a transfer
 *   host_copies.c  copies to the host and back, beside computation
 *   sends.c     sends between stages
 *   weights.c   the weights of this device, and what they begin with
 *   stores.c    weights, gradients and optimizer state by buckets
 *   matrices.c  Muon's matrices, of which a part is here
 *   bucket_transfers.c  gradients and weights of a bucket between the members that share it
 *   ties.c      gradients of tied weights
 *   jobs.c      what each kind of task does
 *   rank.c      the two threads, and one iteration
 *   order.c, in_order.c  one thread instead, on a device whose transfers are work of its streams
 *   progress_thread.c  which of them looks after transfers
 *   open.c      a rank is opened, runs its steps, shows its weights
 *   times.c     when tasks ran, by the device's clock
 *   record.c    what happened on all ranks, as one trace
 *   replay.c    an iteration's work recorded once and replayed
 *
 *   I1  What both threads see is changed under `lock`; tensors are counted references, and what a
 *       kernel reads or a transfer fills is not changed meanwhile.
 *   I2  A tensor is given up when every item up to the last one that reads it is over, in the order of
 *       the block's list: the two lanes of a block may run apart.
 *   I3  A task waits for those of its dependencies that this rank has a part in. The others are
 *       waited for by their own ranks: a collective is over when all members have started it.
 */
#ifndef WEFT_RUN_RANK_ROOM_H
#define WEFT_RUN_RANK_ROOM_H

#include <pthread.h>

#include "run/rank/rank.h"
#include "run/rank/replay.h"
#include "run/rank/spread.h"

/* ---- tensors (buffers.c) --------------------------------------------------------------------- */

struct value {
    void *data;
    int64_t count; /* elements */
    struct layout layout;
    int32_t refs, to_come; /* sends that it is joined from which have not come yet (joins.c) */
    uint8_t memory;        /* enum memory_class */
    uint8_t dtype;         /* as it is stored: fp32, bf16 or fp16 */
    void *host;            /* where it waits while data is NULL, or is copied to or from */
};
static inline int64_t value_bytes(const struct value *value)
{
    return value->count * dtype_bytes((enum dtype)value->dtype);
}

/* Whose memory: the device's, or the host's where tensors wait. */
enum memory_side { SIDE_DEVICE, SIDE_HOST };
/* Memory that is kept for the next of its size. */
struct buffer_shelf {
    enum memory_side side;
    int64_t bytes, asked; /* asked: when last */
    ARRAY(void *) spares;
};
struct buffers {
    int64_t held[MEMORY_CLASS_COUNT], now, host_now;
    struct run_memory most;
    ARRAY(struct buffer_shelf) shelves;
    int64_t spare[2], asked; /* bytes that are kept, by side; how often memory was asked for */
};
void buffers_clear(struct rank *r);
/* value_share and value_drop under the rank's lock, the others take it; `floats_*` are no tensors of a pass. */
struct value *value_new(struct rank *r, enum memory_class memory, enum dtype dtype,
                        const struct layout *layout, int64_t elements);
struct value *value_share(struct value *value);
void value_drop(struct rank *r, struct value *value); /* NULL: nothing */
void value_release(struct rank *r, struct value *value);
/* The same numbers in another dtype. Takes over and gives back a reference. */
struct value *value_as(struct rank *r, struct value *value, enum dtype dtype);
/* How elements of an operand are stored under this plan. */
enum dtype stored_as(const struct rank *r, enum element element);
/* Floats that so many elements take up. */
static inline int64_t floats_of(enum dtype dtype, int64_t elements)
{
    return ceil_div(elements * dtype_bytes(dtype), (int64_t)sizeof(float));
}
float *floats_new(struct rank *r, enum memory_class memory, int64_t elements);
float *floats_counted(struct rank *r, enum memory_class memory, int64_t elements); /* zeroed */
void floats_free(struct rank *r, enum memory_class memory, float *floats, int64_t elements);
/* Memory of the host's, counted. */
void *host_new(struct rank *r, int64_t bytes);
void host_free(struct rank *r, void *copy, int64_t bytes); /* NULL: nothing */
/* Room on the device for a tensor that is in host memory; of one that is in both it stays in one. */
void value_come_back(struct rank *r, struct value *value);
void value_stay(struct rank *r, struct value *value, enum memory_side side);

/* ---- what is where, per micro-batch ---------------------------------------------------------- */

enum key_kind {
    KEY_OUTPUT,   /* per instance: its output */
    KEY_PARTS,    /* what is kept of it between the passes, if that is a part (compile/parts.c) */
    KEY_KEPT,     /* its statistics */
    KEY_GRADIENT, /* of its output, added up */
    KEY_INPUT,    /* per use: the model's own input */
    KEY_COPY,     /* what steps made of an input */
    KEY_TURNED,   /* that, as the backward pass is split */
    KEY_RECEIVED, /* what another stage sent */
    KEY_SENDING,  /* what steps made of an output, for another stage */
    KEY_RAW,      /* the gradient of an input, on its way back */
    KEY_BACK,     /* that, at its source's stage */
    KEY_OUTBOX,   /* what is to be sent forward, */
    KEY_INBOX,    /* and backward */
    KEY_WEIGHTS,  /* per bucket: gathered (shard 3) */
    KEY_KIND_COUNT
};

struct keys {
    int32_t *key;
    int32_t count;
};
/* Per block and item, and one past the last: what nobody reads any more (liveness.c). */
struct drops {
    struct keys *after;
};

/* How far a block is, of one micro-batch (I2). */
struct block_progress {
    bool *over; /* per item */
    int32_t prefix;
};

/* ---- operators (memberships.c) --------------------------------------------------------------- */

struct local_op {
    const struct laid *laid;
    int64_t place; /* of this device in its splits (plan_place) */
    int64_t size[OP_MAX_DIMS], begin[OP_MAX_DIMS], whole[OP_MAX_DIMS];
    /* Of a loss: no device before this one has the same rows; its gradient takes the logits' place. */
    bool adds_once, counts, overwrites;
    bool fp8;      /* kernels.h */
    int32_t scale; /* its number among those whose casts are remembered (scales.h) */
    int32_t sums;  /* the group of its sums in the middle (kernels.h, I3), -1: nobody else */
    int64_t pitch; /* kernels.h; 0: rows follow each other */
    struct border_moves *border; /* NULL: it reads its own part of its inputs */
    uint64_t path_hash;
    const struct local_op *back; /* of a backward pass with a split of its own; NULL: the same */
};

/* ---- weights (weights.c) --------------------------------------------------------------------- */

/* One weight of one instance, as it lies here. */
struct held_weight {
    int64_t instance;
    int32_t weight, store;
    const char *name; /* "layers.0.attn.qkv.weight" */
    struct layout layout;
    int64_t elements, count, first; /* of the whole without padding; here; where in its bucket */
    int64_t share,
        place;        /* each member's part of it, and where that is in a member's part of all */
    bool contributes; /* its gradients to the sum: of copies, one does */
    int64_t rows, columns; /* of each of its matrices, if Muon updates them; else 0 */
};

/* A bucket's weights, gradients and optimizer state. */
struct store {
    int32_t bucket, shard;
    int32_t first_weight, weights_count; /* of the rank's held weights */
    int32_t members, member;             /* that share the state; 1 without sharding */
    int64_t count, part;     /* elements of all weights here, and of one member's part */
    int32_t trained_weights; /* which come first (stores.c, I3); their elements, places, */
    int64_t trained, trained_part, second_part; /* and those with a second moment */
    int64_t kept;                               /* of the trained part: what is not deferred */
    void *weights;                              /* as stored: whole; with shard 3 the part */
    float *master;            /* NULL: the weights are; else whole, with sharding the part */
    float *gradients;         /* whole; with shard 2 and 3 the part */
    float *moment1, *moment2; /* of the part */
    struct value **made;      /* per micro-batch, with shard 2 and 3: whole gradients */
};
/* Whole gradients whose sum is over, until those of the next bucket are complete (bucket_transfers.c, I2). */
struct outlived {
    struct store *store; /* NULL: none */
    int32_t micro_batch;
};

/* ---- tasks (program.c) ----------------------------------------------------------------------- */

enum job_kind {
    JOB_COMPUTE,
    JOB_OPTIMIZER,
    JOB_STEP,
    JOB_SLICES, /* steps without a transfer */
    JOB_SEND,
    JOB_RECEIVE,
    JOB_SYNCHRONISE,
    JOB_DEFERRED, /* what the iteration before has left */
    JOB_GATHER,
    JOB_TIE,
    JOB_TO_HOST,
    JOB_FROM_HOST,
    JOB_NOTHING, /* what other tasks do for it */
    JOB_KIND_COUNT
};

struct job {
    int32_t task;
    enum job_kind kind;
    uint8_t stream;
    int32_t dependencies, first_after, afters; /* in `after` */
    int32_t slot;  /* of a block's, and of a receive: of the first that waits for it; else -1 */
    int32_t group; /* of the transport, -1: none */
    bool empties;  /* of a send: nobody else is sent the same */
    /* In this iteration. */
    int32_t waits;
    bool started, over;
    int64_t begin_ns;
    struct device_event *begin_mark, *end_mark; /* times.c */
};

struct program {
    struct job *job;
    int32_t jobs;
    int32_t *after;
    int32_t *queue[STREAM_COUNT], queued[STREAM_COUNT]; /* jobs, in order; without receives */
    int32_t *receive, receives;                         /* by slot */
    int32_t *order; /* all jobs, for a rank that runs ahead (order.c); else NULL */
    uint8_t *sends; /* per use: bits of enum flow, what this rank sends of it */
};

/* A transfer at work. */
struct errand {
    int32_t job;
    struct pending_transfer *request;
    struct transfer transfer;
    /* Of a step or a send. */
    struct move move;
    struct value *from,
        *result;       /* as they travel; of what is sent from the host, until its copy is there */
    enum dtype stored; /* what becomes of the result */
    int32_t key;
    float *out, *in;             /* staged */
    int64_t out_count, in_count; /* floats */
    void *waiting;               /* of a send: its copy in host memory (sends.c, I1) */
    int64_t waiting_bytes;
    int64_t *counts;
    /* Of copies beside computation (host_copies.c): until the event is over, and of which tensors. */
    struct device_event *copied;
    bool copying;
    struct value **moving;
    int32_t moves;
    /* Of gradients and weights: how much of it has gone. */
    int64_t at, end;
    /* its slices follow each other on the stream of their group (bucket_transfers.c, I1) */
    bool ahead;
    bool marked;                  /* the last of them has been given to it */
    struct device_stream *stream; /* what packs and unpacks them */
};

/* A group of the transport: one for all exchanges of the same ranks on one channel. */
struct pooled {
    int32_t *member;
    int32_t count, channel, group;
};

/* A transfer that the executor waits for: a sum that a kernel asks for, a border. */
struct asked {
    bool waiting, over;
    struct transfer transfer;
};

struct rank {
    struct arena *arena;
    const struct run_options *options;
    const struct graph *graph;
    const struct plan *plan;
    struct transport *transport;
    int32_t stage;
    int64_t device; /* of the stage, from 0 */
    int32_t micro_batches;
    int64_t instances, uses;

    struct local_op *local_op; /* per instance */
    struct held_weight *weight;
    int32_t weights;
    int32_t *weight_of; /* per instance and place: its held weight, -1: not here */
    struct store *store;
    int32_t stores;
    int32_t *store_of; /* per bucket, -1: not here */
    struct outlived outlived;
    struct tie *tie;
    int32_t ties;

    struct drops *drops;   /* per block */
    struct keys *offloads; /* per part: what waits in host memory */
    int64_t keys;
    struct value **value; /* per micro-batch and key */
    uint8_t *spare;       /* the same: how often it is made again while it is in use (buffers.c) */
    struct block_progress *progress; /* per micro-batch and block */

    struct program program;
    int32_t next[STREAM_COUNT];  /* of the queues */
    int32_t begun[STREAM_COUNT]; /* the same, under the lock: how many have been started */
    int32_t next_receive, slot, done;
    ARRAY(struct errand *) active;
    struct asked asked;
    struct pending_transfer *summing; /* what was asked for, on its way: the communicator's */
    int32_t world, stage_group;       /* of all ranks; of this stage's, -1: not asked for */
    ARRAY(struct pooled) pool;

    pthread_mutex_t lock;
    struct buffers buffers;
    /* Computation and what transfers do here; copies to the host, and back. NULL: the device works at once. */
    struct device_stream *work, *copies[2];
    ARRAY(void *) shown;          /* copies for the host (open.c) */
    struct scale_history *scales; /* scales.h; NULL: scales are those of the tensors themselves */
    double *loss_sum; /* in the device's memory: what this rank's rows add to the mean */
    void *scratch;
    int64_t scratch_bytes;

    int64_t step; /* from 0 */
    /* Of this step and the one before, by the last bit of their numbers: what is left is optimized as if it were not. */
    struct pace {
        float rate, scale;
    } pace[2];
    float rate;
    double gradient_norm;
    struct loss_scale loss_scale;
    struct rank_replay replay;
    struct batch_source source; /* of this iteration */
    int64_t first_sample;
    bool evaluates;          /* changes no weight */
    bool deferred;           /* gradients of the step before are still to be synchronised */
    pthread_mutex_t driving; /* progress_thread.c, I1 */
    pthread_cond_t called;   /* what the communicator sleeps on */
    int64_t calls;           /* so far */
    bool executor_drives, executor_ended; /* in this iteration */
    bool failed;
    char why[256];
    double started_s;
    ARRAY(struct run_event) events;
    struct task_times *times;
};

static inline const struct compute_device *rank_device(const struct rank *r)
{
    return r->options->kernels->device;
}

/* How numbers that are stored so travel between ranks (transport.h, I7). */
static inline enum dtype travels_as(const struct rank *r, enum dtype stored)
{
    return r->transport->kind->narrow ? stored : DTYPE_FP32;
}

static inline struct value **value_at(const struct rank *r, int32_t micro_batch, int64_t key)
{
    return &r->value[(int64_t)micro_batch * r->keys + key];
}

int32_t key_of(const struct rank *r, enum key_kind kind, int64_t number);
void put_value(struct rank *r, int32_t micro_batch, int64_t key, struct value *value); /* locks */
void rank_fail(struct rank *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
bool has_failed(struct rank *r);

/* ---- memberships.c --------------------------------------------------------------------------- */

bool has_instance(const struct rank *r, int64_t instance); /* whether it is computed here */
weft_status find_local_ops(struct rank *r);
weft_status make_groups(struct rank *r);
/* The transport's group of these ranks, made once. */
weft_status group_for(struct rank *r, const int32_t *member, int32_t count, int32_t channel,
                      int32_t *out);

/* ---- liveness.c ------------------------------------------------------------------------------ */

void find_moments(struct rank *r);
/* What an operator reads as its input: a key. */
int32_t input_key(const struct rank *r, int64_t use);
bool makes_product(enum op_kind kind); /* with weights */
bool takes_gradient(const struct op *op);

/* One step of a use's reshards: whose tensor it continues or begins with, and makes. */
struct step_place {
    int64_t use;
    const struct joint *joint;
    enum flow flow;
    int32_t from, to; /* keys */
    bool second;      /* of the second reshard of the joint */
    bool nothing;     /* what the sender has done already: a slice of what came */
};
struct step_place place_of_step(const struct rank *r, int32_t part, const struct item *item);

/* ---- items.c --------------------------------------------------------------------------------- */

struct spot {
    int32_t micro_batch, block, item;
};
void run_op(struct rank *r, struct spot at);
void run_slice(struct rank *r, struct spot at);
/* I2 */
void item_over(struct rank *r, struct spot at);

static inline struct runs rank_runs(const struct rank *r, enum dtype dtype, const void *from,
                                    void *to, const struct move *move)
{
    return runs_between(rank_device(r), r->work, dtype, from, to, move->run);
}

/* ---- steps.c --------------------------------------------------------------------------------- */

void step_begin(struct rank *r, struct errand *work);
void step_end(struct rank *r, struct errand *work);
/* With what it still holds: after a failure. */
void errand_free(struct rank *r, struct errand *work);
/* Adds a part of a fused tensor, of these elements, to the whole. */
void fused_add(struct rank *r, enum dtype dtype, struct fused share, const struct value *part,
               struct value *whole);
/* A tensor as the next step of its way takes it: a part of a fused one or the whole of a part, and
 * with the padding of the other side. Takes over and gives back a reference. */
struct value *fit_forward(struct rank *r, const struct joint *joint, struct value *value);
struct value *fit_gradient(struct rank *r, const struct joint *joint, struct value *value);
/* Of a fused tensor's gradient, given that of a part's. */
struct layout whole_layout(const struct rank *r, const struct joint *joint,
                           const struct layout *part);

/* ---- weights.c, stores.c --------------------------------------------------------------------- */

weft_status find_weights(struct rank *r);
/* Of devices that have the same of a weight the first shows it; those that share its state show their part. */
bool shows_weight(const struct rank *r, const struct held_weight *held);
bool first_of_copies(const struct rank *r, const struct held_weight *held); /* whoever owns it */
void make_stores(struct rank *r);
void fill_weights(struct rank *r);
void free_stores(struct rank *r);
const void *weight_data(const struct rank *r, int32_t weight, int32_t micro_batch);
float *gradient_data(struct rank *r, int32_t weight, int32_t micro_batch);
/* Where in fp32 elements from `first` on are of what lies here: of the member's part with sharding. */
float *master_data(const struct rank *r, const struct held_weight *held, int64_t first);
/* A weight's elements as they lie here, from `first` on: stored, and the master's with them. */
void set_weight(struct rank *r, const struct held_weight *held, int64_t first, int64_t count,
                const float *from);
/* Where a member's part of it begins, and how much of that there is. */
float *gradient_part(const struct rank *r, int32_t weight, int64_t *count);
void optimize_store(struct rank *r, struct store *store, int64_t first, int64_t end, int64_t step);
/* Of this rank's part of all gradients, without what others have too. */
double gradient_squares(struct rank *r);

/* ---- bucket_transfers.c ---------------------------------------------------------------------- */

/* The range of a bucket's parts that a job moves. */
void bucket_begin(const struct rank *r, const struct job *job, struct errand *work);
/* Of a bucket's gradients and weights: the next transfer; false: that was all. */
bool synchronise_next(struct rank *r, struct errand *work);
void drop_outlived(struct rank *r);
bool gather_next(struct rank *r, struct errand *work);

/* ---- ties.c ---------------------------------------------------------------------------------- */

weft_status find_ties(struct rank *r);
bool tied_by_task(const struct rank *r, int64_t user);
bool tie_begin(struct rank *r, struct errand *work); /* false: nothing to do */
/* Those that no task does: before the optimizer's step, by the executor. */
void tie_rest(struct rank *r);

/* ---- program.c, rank.c ----------------------------------------------------------------------- */

weft_status find_program(struct rank *r);
/* Starts and tests what can be; whether anything moved. By who holds `driving`. */
bool look(struct rank *r);
/* From the executor: a transfer, until it is over or the run has failed. */
void ask(struct rank *r, const struct transfer *transfer);
/* For kernels and ties: a sum over a group. */
void ask_sum(struct rank *r, int32_t group, enum reduce op, float *data, int64_t count);
weft_status run_iteration(struct rank *r, double *loss);

/* ---- rank.c ---------------------------------------------------------------------------------- */

/* What an iteration has left to the next. */
weft_status run_deferred(struct rank *r);

#include "run/rank/progress.h"

#endif
