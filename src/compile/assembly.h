/* assembly.h - the slots of all stages as tasks, and what these wait for; private to the room.
 *
 * Per stage, in the order of its schedule, a slot's block is cut into runs (runs.c), and every run
 * becomes one task on each of the stage's devices, a step's run one task for each group. Further
 * tasks are for gradients and gathered weights, for what crosses stages, and for checkpoints to and
 * from the host.
 *
 *   walk.c       the slots of one stage, in order, and the end of its iteration
 *   emit.c       a slot's block
 *   exchanges.c  collectives of a stage's groups: steps, gradients, gathers of weights
 *   sends.c      from stage to stage
 *   offload.c    checkpoints to the host and back
 *   ties.c       gradients of weights that several stages have
 *   shared_links.c   which steps may meet other traffic
 *   graph.c      the whole
 *
 *   I1  Blocks are barriers: a block's first tasks wait for all of the block before it. So are
 *       pairs of blocks (pairs.c), whose runs alternate.
 *   I2  A block is one task per device if nothing waits for part of it, its steps meet no other
 *       traffic (graph.h, I2), and no gradients are synchronised meanwhile, which would slow down
 *       its computation but not its steps.
 *   I3  A group's exchange waits for all its members, and for the exchange before it on the same
 *       stream of each of them.
 */
#ifndef WEFT_COMPILE_ASSEMBLY_H
#define WEFT_COMPILE_ASSEMBLY_H

#include "compile/build.h"

enum { NONE = -1 };

/* ---- tasks and what they wait for ------------------------------------------------------------ */

struct wait {
    int32_t task, on;
};

/* The latest task of each stream, and other positions, of one device of the current stage. */
struct mark {
    int32_t last[STREAM_COUNT];
    /* the last tasks of both lanes before the unit that was gathered last */
    int32_t before_unit[2];
    int32_t features, tokens,
        computed;   /* the latest steps and computation before the current block */
    int32_t stored; /* the latest copy of a layer to the host */
};

/* A block's task that waits for what another stage sends that has not been walked yet. */
struct gate {
    int32_t task, device; /* of the receiving stage, from 0 */
    const int32_t *sent;  /* the first task that sends, once it has a number */
};

/* The end of the iteration on one device. */
struct ending {
    int32_t computed, optimizer; /* the last task before the optimizer's step, and that step */
};

/* The crossings of one direction, sorted by part. */
struct by_part {
    int32_t *first; /* per part, and one past the last */
    int32_t *crossing;
};

/* What crosses stages in one direction. */
struct crossing_tasks {
    struct by_part sends, waits; /* by the part that sends; by the part that waits */
    int32_t *sent;               /* per crossing and micro-batch: the first task */
    int32_t *exchange; /* per crossing: the exchange of its first receiver; NONE: not known yet */
};

/* Whether a block has steps, and whether their links also carry sends or copies to and from the
 * host (shared_links.c). */
enum meeting { WITHOUT_STEPS, MEETS_NOBODY, MEETS_OTHERS };

struct assembly {
    struct build *b;
    struct graph *graph;
    const struct schedule *schedule;
    struct pipeline pipeline;
    ARRAY(struct task) tasks;
    ARRAY(struct wait) waits;
    ARRAY(struct gate) gates;
    /* per stage, and one past the last: its first device of the graph */
    int32_t *first_device;
    struct mark *mark;             /* per device of the graph */
    struct crossing_tasks way[2];  /* forward, backward */
    struct block_runs *runs[CUTS]; /* per block, those that have been cut so far */
    struct ending *ending;         /* per device of the graph */
    int32_t *stored; /* per piece and micro-batch: the first task that copied it to the host */
    int32_t **stored_units; /* the same per part, micro-batch and layer (layer_copies.c) */
    enum meeting *met;      /* per block */
    int32_t stage;
    bool shared_network, sends_apart; /* compile_options */
    /* while the first forward slot of a piece is walked that waits for slices (slices.c): the latest of them, per device of
     * the stage; else NULL */
    const int32_t *slices;
    bool synchronising; /* whether gradients of this stage are being synchronised already */
    const struct stop *stop;
};

static inline void wait_for(struct assembly *a, int32_t task, int32_t on)
{
    struct wait wait = {task, on};
    if (on != NONE && on != task)
        array_push(a->b->scratch, &a->waits, wait);
}
/* For the device's latest steps. */
static inline void wait_for_steps(struct assembly *a, int32_t task, const struct mark *mark)
{
    wait_for(a, task, mark->last[STREAM_FEATURE]);
    wait_for(a, task, mark->last[STREAM_TOKENS]);
}

static inline int32_t add_task(struct assembly *a, struct task task)
{
    int32_t number = (int32_t)a->tasks.len;
    array_push(a->b->keep, &a->tasks, task);
    a->mark[task.device].last[task.stream] = number;
    return number;
}

static inline int32_t devices_of(const struct assembly *a, int32_t stage)
{
    return a->first_device[stage + 1] - a->first_device[stage];
}

/* The place in the graph of one of the cluster's devices, which must belong to this stage. */
static inline int32_t graph_device(const struct assembly *a, int32_t stage, int64_t device)
{
    int64_t place = a->graph->folded ? 0 : device - a->b->plan->stage[stage].first_device;
    return a->first_device[stage] + (int32_t)place;
}

static inline const struct bucket *bucket_at(const struct assembly *a, int32_t bucket)
{
    return &a->b->buckets.data[bucket];
}

/* ---- slots (walk.c) -------------------------------------------------------------------------- */

/* One slot, and whether it is the first or the last of its kind. */
struct visit {
    struct slot slot;
    int32_t part, block;
    bool first_forward, last_backward; /* of its piece */
    bool completes;                    /* whether it completes gradients of weights */
    bool fetches;                      /* whether it needs checkpoints from the host */
};

/* The slots of the current stage, and the end of its iteration. */
void walk_stage(struct assembly *a, const struct slots *slots);
void emit_block(struct assembly *a, const struct visit *place);
/* A forward and a backward slot that are executed as one; what either sends is sent when it is
 * over. */
void emit_pair(struct assembly *a, const struct visit place[2]);

/* ---- exchanges within a stage (exchanges.c) -------------------------------------------------- */

/* What an exchange waits for on each of its members. */
enum after {
    AFTER_NOTHING,
    AFTER_RUN,   /* the member's latest computation */
    AFTER_BLOCK, /* that, and its latest step */
    AFTER_UNIT   /* what came before the unit that was gathered last */
};

/* A task for gradients and weights without block, exchange or device: the starting point of all of
 * these. */
struct task plain_task(enum stream_kind stream, int32_t micro_batch);
/* Adds one task for each group of a pattern (I3). The tasks have consecutive numbers; returns the
 * first. */
int32_t add_exchange(struct assembly *a, struct task task, int32_t pattern,
                     enum collective collective, int64_t bytes, enum after after);

/* The highest state sharding of the part's buckets. */
int most_sharded(const struct assembly *a, int32_t part);
bool has_exchange(const struct assembly *a, int32_t part);
/* Whether the weights of this bucket are gathered for this slot. */
bool gathered_for(const struct assembly *a, const struct visit *place, const struct bucket *bucket);
/* Gathers a bucket one unit ahead: the gather waits for what came before the unit that is in
 * use. */
void gather_ahead(struct assembly *a, const struct bucket *bucket, int32_t micro_batch);
/* Synchronises the gradients that this slot has completed, if this is their time. */
void synchronise_completed(struct assembly *a, const struct visit *place,
                           const struct bucket *bucket);
/* Synchronises what the previous iteration left of this part's gradients. */
void synchronise_deferred(struct assembly *a, int32_t part);
/* Without overlap: called after a slot, and after all slots of a stage. */
void synchronise_slot(struct assembly *a, const struct visit *place);
void synchronise_rest(struct assembly *a);
/* After the optimizer's step, for weights that are not gathered ahead. */
void gather_updated(struct assembly *a);

/* ---- between stages, to the host, ties, shared links ----------------------------------------- */

void prepare_crossings(struct assembly *a);
/* Makes one of the first tasks of a block wait for what comes from other stages. */
void gate_block(struct assembly *a, const struct visit *place, int32_t task, int32_t device);
void send_crossings(struct assembly *a, const struct visit *place);
/* Adds the waits for sends, now that all sends have numbers. */
void resolve_gates(struct assembly *a);

/* Where a block is among its layers, if these are copied one by one (layer_copies.c). */
struct unit_turn {
    int32_t unit; /* -1: not begun */
    int32_t gate,
        ahead; /* the first of the tasks that its own runs wait for, and the next unit's */
    bool computed, stepped; /* whether a run of this lane has waited */
};
/* Before an item is emitted: adds the copies that begin with its layer. */
void enter_unit(struct assembly *a, const struct visit *place, int32_t item,
                struct unit_turn *turn);

/* One copy for each device, after its task `after`; a copy back also waits for the copy to the
 * host. */
void copy_checkpoints(struct assembly *a, enum exchange_kind kind, const struct visit *place,
                      int64_t bytes, const int32_t *after);

/* The host's part of the optimizer's step for one device, after its own; returns the last task. */
int32_t step_on_host(struct assembly *a, const struct host_step *step, int32_t device,
                     int32_t after);

/* Called when all stages have their tasks. */
void tie_gradients(struct assembly *a);
weft_status find_meetings(struct assembly *a);

#endif
