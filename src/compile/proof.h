/* proof.h - what graph_verify derives from a model and a plan without the compiler's help; private
 * to the room.
 *
 *   serial.c       the model walked operator by operator: which operator reads which output
 *   proof_layouts.c        layouts, and what a step makes of them
 *   weights.c      which bucket a weight is in, and over which devices it is a sum
 *   symbolic.c     a symbolic device: what it holds, what operators and steps make of it
 *   proof_parts.c  what is kept in parts
 *   proof_halo.c   what windows read beyond their part
 *   proof_turns.c  what backward passes with a split of their own read
 *   equivalence.c  the graph's tasks, executed on all of them
 */
#ifndef WEFT_COMPILE_PROOF_H
#define WEFT_COMPILE_PROOF_H

#include "compile/graph.h"

/* One input of one instance. */
struct reading {
    int64_t reader, source; /* instances; source -1: the model's input */
    int32_t operand;
    int32_t next; /* another reading of the same source, -1: none */
    /* numbers of the layouts of the input, forward and backward, and of its gradient */
    int32_t want, back, gradient;
    bool part; /* whether the input is part of a fused tensor */
    /* whether the source is on another stage, or on the stage's devices the other way round */
    bool across;
    bool differentiable; /* whether its gradient goes back to the source */
};

/* One instance. */
struct fact {
    const struct op *op;
    const struct choice *choice;
    int32_t part, stage;
    int32_t run; /* the run of recomputed instances that run again together, -1: none */
    /* its run has saved instances, or stops early, so that only needed instances run again */
    bool spared;
    int32_t output, output_grad; /* numbers of layouts */
    int32_t kept; /* that of what is kept of its output: the same, or in parts (parts.c, I1) */
    /* of its inputs; the next instance's first reading follows the last of them */
    int64_t first_reading;
    int32_t readers;    /* the first in the list of readings of its output, -1: none */
    uint64_t gradients; /* sum of the marks of all readings whose gradients it collects */
    int32_t gradient_count;
    int32_t bucket; /* of its weights, -1: none */
    int64_t owner;  /* the instance whose weights it uses: itself, or the owner of a tied weight */
};

struct proof {
    const struct graph *graph;
    const struct plan *plan;
    const struct model *model;
    struct arena *arena;
    struct fact *fact; /* per instance, and one past the last */
    struct reading *reading;
    int64_t readings;
    /* per part: whether some of its checkpoints wait in host memory */
    bool *offloads;
    ARRAY(struct layout) layouts; /* number 0 is none */
    struct hash_map layout_numbers;
};

/* A mark for one addend of a gradient: a sum of marks tells which addends it has, whatever their
 * order. */
static inline uint64_t mark_of(int64_t number)
{
    return hash_bytes(&number, sizeof number, 1);
}

/* ---- serial.c -------------------------------------------------------------------------------- */

weft_status walk_model(struct proof *p);

/* ---- proof_layouts.c ------------------------------------------------------------------------- */

int32_t number_layout(struct proof *p, const struct layout *layout);
bool same_data(const struct proof *p, const struct reading *reading, int32_t have, int32_t want);
/* What a step makes of a tensor with this layout; 0: the step does not apply. */
int32_t step_result(struct proof *p, const struct reading *reading, int32_t layout,
                    const struct reshard_step *step);
/* The layout on `to` devices when each gets all that its sender among `from` devices holds; 0: not
 * all is there. */
int32_t crossing_result(struct proof *p, const struct reading *reading, int32_t layout,
                        int64_t local, int64_t from, int64_t to);

/* ---- weights.c ------------------------------------------------------------------------------- */

/* Whether so many bytes are a bucket's shares, as they are added up across groups of replicas; two slices may round
 * up twice. */
bool shares_are(const struct graph *graph, const struct bucket *bucket, int64_t bytes);
weft_status find_buckets(struct proof *p);
/* Whether an instance uses a copy of another instance's weights. */
bool is_copy(const struct proof *p, int64_t instance);

/* ---- symbolic.c ------------------------------------------------------------------------------ */

/* What one instance has done on a device for one micro-batch: its phases; and whether the gradients
 * of its weights are summed over all devices. */
enum { MADE = 1, MADE_AGAIN = 2, BACK_INPUT = 4, BACK_WEIGHT = 8, SUMMED = 16 };
/* Of the last instance of a layer that is copied to the host and back (layer_copies.c). */
enum {
    STORED = 32,
    FETCHED = 64,
    FETCHED_WEIGHT = 128,
    COPIED = STORED | FETCHED | FETCHED_WEIGHT
};

/* Whose gradients are included in what a device has of a tied weight's gradient. */
enum heard { HEARD_USER = 1, HEARD_OWNER = 2 };

/* An input on its way from its source, or at its reader. */
struct chain {
    int32_t layout;      /* number, 0: not begun */
    int32_t block, item; /* those of the last step */
    bool gathered;       /* by one of the steps: it does not outlive its pass (blocks.c, I2) */
};

/* A sum of gradients. */
struct gradient_tally {
    uint64_t sum; /* of marks */
    int32_t count;
};
struct moving {
    int32_t layout; /* number, 0: not begun */
    struct gradient_tally tally;
};

/* All symbolic devices. Rows of readings and instances exist per device of the graph and
 * micro-batch. */
struct symbolic_machine {
    struct proof *p;
    int32_t micro_batches;
    int32_t task; /* the current one, for errors */
    uint8_t *made;
    struct chain *chain;
    /* per instance: its output on the way from parts to the whole; NULL: none is kept in parts */
    struct chain *mended;
    /* per reading: on its way to the split of the backward pass; NULL: there are none */
    struct chain *turned;
    int32_t *received; /* per reading: the layout of what a send brought */
    /* gradients of inputs that their reader has made and that have not been sent on */
    bool *pending;
    /* per reading: steps of its halo that have been made since it was last read, and that its gradient owes */
    uint8_t *haloed, *owed;
    struct moving *moving;
    int32_t **floor; /* per block and item (symbolic.c, I2) */
    uint8_t *heard;  /* per device of the graph and tied instance: of enum heard */
    /* per device and bucket: */
    int32_t *gathers;       /* and per micro-batch */
    bool *gathered, *stale; /* sharded by 1 or 2: gathered; read before that */
    bool *deferred;         /* what the previous iteration left has arrived */
    int64_t *synchronised;  /* bytes */
    int64_t *shares_added;  /* bytes, across groups of replicas */
    /* per device: */
    bool *stepped; /* whether its optimizer has made its step */
    bool *host[2]; /* to host, from host: per device, part and micro-batch */
    /* per reading: whether a send of this micro-batch, or of those from it on, has come, forward and backward; NULL: all stages
     * take one micro-batch at a time */
    bool *come[2];
};

weft_status wrong(const struct symbolic_machine *m, int64_t instance, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

static inline size_t row(const struct symbolic_machine *m, int32_t device, int32_t micro_batch,
                         int64_t columns)
{
    return ((size_t)device * (size_t)m->micro_batches + (size_t)micro_batch) * (size_t)columns;
}

/* The micro-batches that a device of the graph takes at once; the row of all of them is that of the first. */
static inline int32_t joins_on(const struct symbolic_machine *m, int32_t device)
{
    return plan_stage_joins(m->p->plan, m->p->graph->device[device].stage);
}

static inline size_t place_in(int32_t device, int64_t number, int64_t columns)
{
    return (size_t)device * (size_t)columns + (size_t)number;
}

/* The row of readings of a device of the graph, in a part that lies on its stage's devices one way or the other: what it
 * sends to the other half and what comes from there are different things (plan_place). */
static inline size_t readings_of(const struct symbolic_machine *m, int32_t device,
                                 int32_t micro_batch, int32_t part)
{
    const struct proof *p = m->p;
    size_t turned = plan_part_is_turned(p->plan, part);
    return row(m, device, micro_batch, p->readings * (1 + p->plan->both_ways)) +
           turned * (size_t)p->readings;
}

struct at {
    int32_t device, micro_batch; /* device of the graph */
    int32_t block, item;
};
/* Executes an operator or a step on one device. */
weft_status do_item(struct symbolic_machine *m, struct at at);
/* Executes a send from one device to another. */
weft_status do_send(struct symbolic_machine *m, const struct reading *reading, enum flow flow,
                    int32_t from, int32_t to, int32_t micro_batch, const struct reshard *reshard);

/* ---- proof_joins.c: stages that take several micro-batches at once (plan.h, I7) ---- */
/* The samples at both ends of a reading that crosses stages. */
struct crossing_samples proof_samples(const struct symbolic_machine *m, const struct reading *r,
                                      bool backward);
int32_t proof_of_samples(struct proof *p, int32_t layout, int64_t have, int64_t want);
/* One send of a reading: where it comes, which micro-batch it begins with, and the first of those that its receiver takes. */
struct arrival {
    int32_t device, micro_batch, first;
    size_t reading;
    bool backward;
};
/* Notes that it has come; whether all have that its receiver takes at once. */
bool proof_all_come(struct symbolic_machine *m, const struct arrival *arrival,
                    const struct crossing_samples *samples);

/* ---- equivalence.c ---- */
/* Executes one task; checks what must hold when all are over. */
weft_status proof_task(struct symbolic_machine *m, int32_t number, enum item_kind preferred);
weft_status proof_all_have_run(struct symbolic_machine *m);
weft_status proof_all_have_gone(const struct symbolic_machine *m);

/* ---- proof_host.c ---- */
/* A copy to the host or back; what a task of a block needs to have come back, and of its own layer. */
weft_status proof_copy(struct symbolic_machine *m, const struct task *task);
weft_status proof_need_host(const struct symbolic_machine *m, const struct task *task);
weft_status proof_need_unit(const struct symbolic_machine *m, const struct task *task);

/* ---- proof_parts.c ---- */
/* Whether the output of an instance is there as it was made, and not in parts; whether a step takes it from its parts towards
 * the whole, which is then noted. */
bool proof_is_mended(const struct symbolic_machine *m, int64_t source, struct at at);
bool proof_mends(struct symbolic_machine *m, const struct reading *r, struct at at);

/* ---- symbolic.c, for proof_halo.c ---- */
weft_status need_input(const struct symbolic_machine *m, const struct reading *r, struct at at);

/* ---- proof_halo.c ---- */
/* One of these steps, either way; whether an operator has what it reads, which is then read; whether a reader's gradient is
 * there and owes nothing. */
weft_status proof_halo(struct symbolic_machine *m, const struct reading *r, struct at at);
weft_status need_halo(struct symbolic_machine *m, const struct reading *r, struct at at);
void proof_owe(struct symbolic_machine *m, int64_t reading, size_t first); /* made now */
bool proof_is_pending(const struct symbolic_machine *m, int32_t reading, size_t first);

/* ---- proof_turns.c ---- */
/* A step of an input to the split of the backward pass; whether that pass finds the input. */
weft_status proof_turn(struct symbolic_machine *m, const struct reading *r, struct at at);
weft_status need_turned(const struct symbolic_machine *m, const struct reading *r, struct at at);

/* ---- proof_subsets.c ---- */
/* Whether a device of the graph has an instance, if that is on its stage (plan/subset.h). */
bool proof_has(const struct symbolic_machine *m, int32_t device, int64_t instance);
/* A broadcast from the device of a group that has the tensor to the others. */
weft_status proof_broadcast(struct symbolic_machine *m, const int32_t *device, int32_t count,
                            const struct task *task);

/* ---- proof_order.c ---- */
/* The tasks of a graph, by stream and by the tasks that wait for them. */
struct task_queues {
    int32_t streams;
    int32_t *order, *first, *next; /* tasks by stream; per stream */
    int32_t *rank;                 /* streams, in the order in which they are preferred */
    int32_t *waits;                /* per task: dependencies that are not over */
    int32_t *after_first, *after;  /* the tasks that wait for each task */
};
struct task_queues proof_queues(const struct graph *graph, struct arena *keep);
weft_status proof_execute(struct proof *p, struct task_queues *q, struct rng *rng);

#endif
