/* graph.h - the execution graph: what every device does, in which order, and what waits for what.
 *
 * A *block* is what a device does in one slot of its schedule: the forward or backward pass of one
 * part for one micro-batch, as a list of *items* (an operator's phase, a step of a reshard). All
 * micro-batches share their blocks, and so do all devices of a stage: a 1,000-layer model on
 * 100,000 devices is two blocks per part. The graph's *tasks* refer to runs of a block's items and
 * to *exchanges*: collectives, sends, and copies to and from host memory.
 *
 *   I1  Items run in two lanes, operators and steps, each in list order; an item starts when the
 *       one before it in its lane and the item it `needs` are over.
 *   I2  A task's run of items is as long as possible: nothing outside waits for part of it, and no
 *       part of it waits for something outside. What a run sends within itself meets no other
 *       traffic: no other exchange that may run at the same time uses the links of its steps. Steps
 *       that may meet other traffic are tasks of their own.
 *   I3  The devices of a stage do the same at the same time. If their exchanges are alike too
 *       (patterns_alike), one device stands for its stage: the graph is *folded*. Unfolded graphs
 *       have every device.
 *   I4  Tasks are numbered stage by stage in the order of their schedules; a stream runs its tasks
 *       in the order of their numbers.
 *   I5  A stage's compute stream starts with the first forward and ends with the optimizer. What
 *       the previous iteration leaves to this one (gathers of updated weights, deferred slices of
 *       gradient synchronisation) is at its beginning: the graph is one iteration of a steady
 *       state.
 *   I6  If some operators are on some of a stage's devices (plan/subset.h), the graph is never folded; the
 *       others skip their items.
 */
#ifndef WEFT_COMPILE_GRAPH_H
#define WEFT_COMPILE_GRAPH_H

#include "compile/compile.h"
#include "schedule/schedule.h"

enum purpose {
    PURPOSE_FORWARD,
    PURPOSE_BACKWARD,
    PURPOSE_RECOMPUTE,
    PURPOSE_OPTIMIZER,
    PURPOSE_TENSOR,   /* reshards within a stage: tensor and sequence parallelism */
    PURPOSE_EXPERTS,  /* tokens to experts on other devices, and back */
    PURPOSE_CONTEXT,  /* keys, values, queries and results of attention whose sequence is split */
    PURPOSE_DATA,     /* gradient synchronisation, gathers of sharded state */
    PURPOSE_PIPELINE, /* between stages */
    PURPOSE_OFFLOAD,  /* between a device and its host */
    PURPOSE_COUNT
};
/* "forward", "tp_comm": the fields of a breakdown */
const char *purpose_name(enum purpose purpose);

/* Queues of one device. Only the first holds computation; the others never delay it by
 * themselves. */
enum stream_kind {
    STREAM_COMPUTE,
    STREAM_FEATURE, /* steps of reshards that may meet other traffic */
    STREAM_TOKENS, /* of these, beside another pass, those that bring tokens to experts or back (pairs.c, I3) */
    STREAM_GRADIENT,  /* gradient synchronisation */
    STREAM_PARAMETER, /* gathers of sharded weights */
    STREAM_NEXT,      /* activations to the next stage */
    STREAM_PREVIOUS,  /* gradients to the one before */
    STREAM_TO_HOST,
    STREAM_FROM_HOST,
    STREAM_HOST, /* the host's own work: the optimizer's step on state in its memory */
    STREAM_COUNT
};
const char *stream_name(enum stream_kind stream);

/* ---- blocks ---------------------------------------------------------------------------------- */

enum item_kind { ITEM_OP, ITEM_STEP };
struct item {
    uint8_t kind;    /* enum item_kind */
    uint8_t purpose; /* enum purpose */
    uint8_t phase;   /* enum phase of an operator; enum flow of a step */
    /* of a step: the input of `instance` that it brings, or whose gradient it brings */
    int8_t operand;
    int32_t needs; /* an earlier item, -1: none (I1) */
    int64_t instance;
    const struct reshard_step *step;
    int64_t bytes;    /* of a step, per device, as collective_time takes them */
    int32_t pattern;  /* of a step (its groups), -1: a slice */
    int32_t exchange; /* of a step: that of its first group, -1: a slice */
    /* of a product or attention that overlaps with its own collectives (blocks.c, I6, I7), and of a step of
     * such a ring: in how many chunks; else 0 */
    int32_t chunks;
    bool tokens; /* of a step: it brings tokens to experts on other devices, or back */
    /* Whether the item stands for the chunks that overlap with the collective. They take time in a
     * simulation, but an executor computes the whole product in the other item. */
    bool rest;
    int32_t share; /* of a rest: how many of the chunks */
    /* of a step: it brings what windows read beyond their part, or takes its gradient back (halo.c) */
    bool halo;
    /* of a step: it brings an input from the split of the forward pass to that of the backward pass (struct laid, turn) */
    bool turns;
    /* the devices of the stage that have the operator, or make the step (plan/subset.h); no devices: all of them */
    struct device_run run;
};
static inline bool item_is_at(const struct item *item, int64_t place)
{
    return !item->run.devices || run_has(item->run, place);
}
/* Whether the item is an operator's phase that an executor runs. */
static inline bool item_runs(const struct item *item)
{
    return item->kind == ITEM_OP && !item->rest;
}

/* Weights whose gradients are synchronised together, or that are gathered together. */
struct bucket {
    int32_t part;
    int64_t bytes;       /* of gradients, on one device before any sharding */
    int64_t parameters;  /* likewise */
    int64_t first, last; /* instances, in the order of the walk */
    int32_t pattern;     /* the devices over which the gradients are partial sums or copies */
    /* with plan->replicate, the groups of these that then add up their shares; -1: none */
    int32_t across;
    uint8_t shard;         /* 0: all-reduce; 1-3: reduce-scatter, and gathers of the weights */
    int64_t gather_bytes;  /* of weights in the compute dtype, whole */
    int64_t most;          /* bytes of gradients at which it is full; 0: never */
    int64_t left;          /* of bytes: those that the next iteration synchronises (slices.c) */
    bool tied;             /* a weight that other operators use, alone where slices are left */
    struct device_run run; /* the devices of the stage that have it */
};

struct block {
    int32_t part;
    enum slot_kind kind;
    struct item *item;
    int32_t items;
    /* Per bucket of the part (numbered from first_bucket): the first item that reads its weights,
     * and the item that completes its gradients; -1: not in this block. */
    int32_t first_bucket, buckets;
    int32_t *reads, *completes;
    /* Per item: its layer, where what layers keep is copied to the host one by one (layer_copies.c); else NULL. */
    int32_t *unit;
};

/* A block is cut into runs of items, each of which becomes a task (runs.c). These flags say
 * where: */
enum block_cut {
    CUT_STEPS = 1,     /* around every step, which becomes a task of its own */
    CUT_READS = 2,     /* before the first item that reads a bucket */
    CUT_COMPLETES = 4, /* after the item that completes one */
    CUT_UNITS = 8,     /* between layers */
    CUTS = 16
};

struct block_run {
    int32_t first, items;
    bool step;            /* the run is a single step, which is an exchange */
    int32_t after;        /* the run of the other lane that this one needs, -1: none */
    int32_t reads;        /* the bucket that it is the first to read, -1: none */
    int32_t completes;    /* the bucket that it completes, -1: none */
    struct device_run on; /* the devices that have its operators, as its items say */
};
struct block_runs {
    struct block_run *run;
    int32_t count;
};
struct block_runs cut_block(struct arena *keep, const struct block *block, unsigned cuts);

/* A forward and a backward block that are executed as one take turns (pairs.c): one turn is items
 * first .. last - 1 of one of them. */
struct pair_turn {
    bool backward;
    int32_t first, last;
};
struct pair_turns {
    struct pair_turn *data;
    size_t len, cap;
};
struct pair_turns turns_of_pair(struct arena *keep, const struct block *forward,
                                const struct block *backward);

/* ---- exchanges ------------------------------------------------------------------------------- */

/* Groups that exchange at the same time. For a collective: all groups of a stage's devices that
 * differ only in some digits of their numbers (without digits, each device by itself: copies). For
 * a send: all pairs of sender and receiver. */
struct pattern {
    int32_t collective;               /* enum collective */
    int64_t first, devices;           /* of the stage; for a send, of the receivers */
    int64_t from_first, from_devices; /* for a send: of the senders */
    const struct reshard *reshard;    /* for a send: who sends to whom */
    bool turned;    /* for a send: from the other half of the senders (plan_place) */
    int32_t digits; /* for a collective, outermost first */
    int64_t stride[MAX_STEP_DIGITS], degree[MAX_STEP_DIGITS];
    double crossing;           /* of its groups (struct group) */
    struct device_order order; /* where its devices are in the cluster */
};
int64_t pattern_groups(const struct pattern *pattern);
/* Who sends to a receiver, both counted from the first device of their stages. */
int64_t pattern_sender(const struct pattern *pattern, int64_t receiver);
/* Group `i`, in the plan's device numbers; for a send, (sender, receiver). */
struct group pattern_group(const struct pattern *pattern, int64_t i);
/* The same in the cluster's. */
struct group pattern_group_at(const struct pattern *pattern, int64_t i);
/* The number of the group that a device (a receiver, for a send) is in. */
int64_t pattern_group_of(const struct pattern *pattern, int64_t device);

enum exchange_kind { EXCHANGE_COLLECTIVE, EXCHANGE_TO_HOST, EXCHANGE_FROM_HOST };
struct exchange {
    uint8_t kind;    /* enum exchange_kind */
    uint8_t purpose; /* enum purpose */
    int32_t pattern;
    int64_t group;      /* of the pattern; folded: stands for all groups */
    int64_t bytes;      /* as collective_time takes them */
    int32_t collective; /* enum collective: one pattern of digits serves several */
};

/* The optimizer's step on the host for one device of a stage, in equal chunks; 0 of them: there is none (offload.c). */
struct host_step {
    int32_t chunks;
    int64_t parameters; /* of a chunk */
    int32_t down,
        up; /* exchanges of the stage's first device: its gradients, its updated weights */
};

/* ---- the graph ------------------------------------------------------------------------------- */

struct graph_device {
    int32_t stage;
    int64_t device; /* in the cluster; folded: the first of its stage */
};

struct task {
    int64_t parameters; /* of an optimizer step */
    /* the instance whose input or input's gradient a send brings, or whose weight is tied; else
     * -1 */
    int64_t reader;
    int32_t device;                   /* number in the graph */
    int32_t block, first_item, items; /* -1, 0, 0: none; for a step's exchange, its item */
    int32_t exchange;                 /* -1: none */
    int32_t micro_batch;              /* -1: for the whole iteration */
    /* the bucket of PURPOSE_DATA (-1: a tied weight), the part of PURPOSE_OFFLOAD, the operand of a
     * send; else -1 */
    int32_t about;
    uint8_t stream; /* enum stream_kind */
    uint8_t purpose;
    /* a sum of a tied weight's gradients over two stages, which counts as pipelining (task_counts_as) */
    bool across;
    bool idle; /* its device does not have these items (I6): nothing is done, in no time */
};

/* What a task's time counts as: its purpose, but for sums over two stages, which one stage would not need. */
static inline enum purpose task_counts_as(const struct task *task)
{
    return task->across ? PURPOSE_PIPELINE : (enum purpose)task->purpose;
}

struct graph {
    struct arena *arena; /* owns everything below, and itself */
    const struct plan *plan;
    bool folded;
    /* a step shares links with sends and was taken to meet none (compile_options) */
    bool sends_apart;
    bool executed;
    int32_t devices;
    struct graph_device *device;
    int32_t blocks, buckets, patterns, exchanges, tasks;
    struct block *block;
    struct bucket *bucket;
    struct pattern *pattern;
    struct exchange *exchange;
    struct task *task;
    int64_t *depends_first; /* per task: row of `depends` */
    int32_t *depends;
    struct reshards *reshards;
    struct lifetimes *lifetimes; /* of every part's tensors (lifetimes.h) */
    struct graph_uses *uses;     /* which instance reads which output (uses.h) */
};

enum fold { FOLD_AUTO, FOLD_NEVER, FOLD_ALWAYS };
struct compile_options {
    enum fold fold;
    /* for an executor: no products in chunks and no passes in pairs, whatever overlap the plan
     * has */
    bool executed;
    /* the norm of all gradients is needed before the first weight changes: none are left to the next iteration */
    bool norm;
    /* others use the network at the same time: steps between nodes are tasks of their own (I2) */
    bool shared_network;
    /* steps are taken to meet no sends, though they share links: far fewer tasks where groups span nodes (I2) */
    bool sends_apart;
    /* when it asks to stop there is no graph: WEFT_NO_ANSWER; NULL: never */
    const struct stop *stop;
};
/* The plan's schedule; without pairs if the graph is compiled for an executor. */
const struct schedule *graph_schedule(const struct graph *graph);
/* Whether what a part sends, either way, waits in host memory until its receiver wants it (Fold3D, section 4: lazy
 * communication between segments). A segmented schedule's next piece begins when the last micro-batch of this one is
 * through, and within a piece nothing keeps a fast stage from running ahead of a slow one; a plan that offloads has no room
 * on its devices for what waits so long. */
bool graph_waits_in_host(const struct graph *graph, int32_t part);
/* The plan must have passed plan_check. */
weft_status graph_compile(const struct plan *plan, const struct compile_options *options,
                          struct graph **out);
void graph_free(struct graph *graph);

#endif
