/* schedule.h - the order of work on one stage of a pipeline, as data.
 *
 * A schedule is a function from (stage, shape) to a list of slots; the compiler turns slots into
 * tasks. Its row holds every fact about it, and nobody else compares its name (tests/checks/check-names.py):
 * whoever adds a schedule adds a row and its order (schedule.c) and a test, and nothing else.
 *
 *   I1  A stage's list holds, for every piece and micro-batch, exactly one forward slot and one
 *       backward slot (or one input- and one weight-gradient slot), the forward first.
 *   I2  Executed in list order with every slot waiting for its inputs from the neighbouring
 *       stages, the lists of all stages never deadlock.
 *   I3  Piece k of stage s follows piece k of stage s - 1; piece k of stage 0 follows piece k - 1
 *       of the last stage. In a zigzag every other piece goes the other way, from the last stage to
 *       stage 0: a stage that has the end of a piece has the beginning of the next one.
 *   I4  Lists that were read from a file or found (`lists`) take the place of `order`; they are of one
 *       shape, and I1 and I2 were checked when they were made.
 *   I5  A pair that is executed as one (ORDER_PAIRED) waits for the inputs of both and has the outputs of
 *       both at its end: I2 holds for such lists, too.
 *   I6  A schedule that goes both ways (DualPipe) is a zigzag of two pieces whose stages have two halves: where a piece ends,
 *       what goes on changes to the other half's devices. The pipelines from both ends of 2 p stages, each with every
 *       part of the model, are such a zigzag of p stages, folded in the middle.
 *   I7  A stage may take several micro-batches at once (`joins`, of listed orders with one piece alone): its slots are then of
 *       the first of them. A slot waits for the slots of its neighbours that have any of its micro-batches, and these for it.
 */
#ifndef WEFT_SCHEDULE_H
#define WEFT_SCHEDULE_H

#include "base/base.h"

enum slot_kind {
    SLOT_FORWARD,
    SLOT_BACKWARD,
    SLOT_BACKWARD_INPUT,
    SLOT_BACKWARD_WEIGHT,
    SLOT_KIND_COUNT
};

struct slot {
    enum slot_kind kind;
    int32_t piece;
    int32_t micro_batch;
};

struct pipeline {
    int32_t stages, pieces, micro_batches;
    /* micro-batches that a piece takes one after the other before the stage's next piece does, where pieces take
     * turns; 0: as many as pipeline_group says */
    int32_t group;
    const int32_t *joins; /* by stage: the micro-batches of a slot (I7); NULL: one each */
};
static inline int32_t pipeline_joins(const struct pipeline *pipeline, int32_t stage)
{
    return pipeline->joins ? pipeline->joins[stage] : 1;
}
/* Of the slot of a stage that has this micro-batch: its first one (I7). */
static inline int32_t pipeline_first(const struct pipeline *pipeline, int32_t stage, int32_t m)
{
    return m - m % pipeline_joins(pipeline, stage);
}
/* The given group, or else the smallest that divides the micro-batches, or leaves a last one of no fewer than there are
 * stages: a stage whose groups are smaller waits for each of them to come round. */
int32_t pipeline_group(const struct pipeline *pipeline);

struct slots {
    struct slot *data;
    size_t len, cap;
};

/* The lists of all stages, of one shape (I4). */
struct slot_lists {
    struct pipeline pipeline;
    struct slots *stage;
};

/* The part of the model that piece `piece` of a stage is (I3), and back. */
static inline int32_t part_of_piece(bool zigzag, int32_t stages, int32_t stage, int32_t piece)
{
    return piece * stages + (zigzag && piece % 2 ? stages - 1 - stage : stage);
}
static inline int32_t stage_with_part(bool zigzag, int32_t stages, int32_t part)
{
    return zigzag && part / stages % 2 ? stages - 1 - part % stages : part % stages;
}
/* The part that is the next piece of the same stage. */
static inline int32_t next_part_of_stage(bool zigzag, int32_t stages, int32_t part)
{
    return zigzag ? 2 * stages * (part / stages + 1) - 1 - part : part + stages;
}

/* How the passes of one part follow each other once the pipeline is full: what the estimate runs and
 * counts memory by. */
enum order {
    ORDER_IN_TURN,        /* a forward, then a backward pass */
    ORDER_FORWARDS_FIRST, /* of a piece all forward passes, and later all its backward passes */
    ORDER_SPLIT,          /* in turn, backward passes in two: input gradients, weight gradients */
    ORDER_PAIRED,         /* a forward and a backward pass at once, of two micro-batches */
    ORDER_COUNT
};

/* What a stage has of the model where nobody names a schedule, and this one is meant. */
enum usual { USUAL_NEVER, USUAL_ONE_PIECE, USUAL_PIECES, USUAL_SEGMENTS };

struct schedule {
    const char *name;
    const char *summary;
    /* Refuses shapes it cannot order, with the nearest one it can. The other two expect its yes. */
    weft_status (*check)(const struct pipeline *pipeline);
    void (*order)(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                  struct slots *out);
    /* Most micro-batches whose activations a stage holds at once, all pieces together: held from
     * the forward slot to the end of the backward, or weight-gradient, slot. */
    int64_t (*in_flight)(const struct pipeline *pipeline, int32_t stage);
    enum order passes;
    bool segmented; /* pieces are segments: gradients of one synchronise while the next computes */
    int64_t least_pieces, most_pieces; /* of the model per stage; most 0: any number */
    enum usual usual;
    bool searched; /* planners try it: no other row is the same, slot by slot */
    bool alone;    /* of use on one stage, too */
    /* Of ORDER_PAIRED: forward slots before the first that goes on at once with the backward slot
     * right after it in the list, as all later ones do; else NULL. */
    int64_t (*ahead)(const struct pipeline *pipeline, int32_t stage);
    bool zigzag;    /* I3 */
    bool both_ways; /* I6 */
    bool played;    /* no closed form holds: estimates play its slots, one after the other */
    bool grouped;   /* pieces take turns by groups of micro-batches (struct pipeline) */
    const struct slot_lists *lists; /* I4; NULL: what `order` says */
};
/* ---- orders as data (lists.c, file.c) -------------------------------------------------------- */

/* Lists as a schedule of their own, once I1 and I2 are checked; what is wrong is said of `file`. The lists are
 * not copied. */
weft_status schedule_of_lists(struct arena *keep, const char *name, const char *file,
                              const struct slot_lists *lists, bool zigzag, struct schedule **out);
/* How long a stage takes for a pass of all micro-batches that it takes at once. */
struct slot_lengths {
    int64_t forward_ns, backward_ns;
};
/* 1f1b of one piece, whose stages may take several micro-batches at once (I7), with so many passes in flight on each stage at
 * most; 0: as many as in 1f1b (limited.c). The order is that of stages with these times; NULL: of equal ones. */
weft_status schedule_limited(struct arena *keep, const struct pipeline *pipeline,
                             const int64_t *limit, const struct slot_lengths *passes,
                             struct schedule **out);
struct schedule *schedule_copy(struct arena *keep, const struct schedule *listed);
/* A file of lists: Weft's own, or torchtitan's CSV. */
weft_status schedule_read(struct arena *keep, const char *name, const char *text, size_t len,
                          struct schedule **out);
weft_status schedule_load(struct arena *keep, const char *path, struct schedule **out);
/* The keys `order`, `placement` and `joins` of a document, which may have others. */
weft_status schedule_from_doc(struct arena *keep, const char *name, const struct doc *doc,
                              struct schedule **out);
bool schedule_is_file(const char *name); /* whether a schedule's name is that of a file */
bool schedule_is_any(const char *name);  /* whether it asks for an order that is found */
enum schedule_format { SCHEDULE_WEFT, SCHEDULE_CSV };
const char *schedule_write(struct arena *keep, const struct schedule *schedule,
                           const struct pipeline *pipeline, enum schedule_format format);
/* A stage's list in Weft's words, "F0 F1 B0 B1". */
const char *slots_text(struct arena *keep, const struct slots *slots,
                       const struct pipeline *pipeline);
extern const char *const SCHEDULE_PLACEMENTS[]; /* by `zigzag`, and NULL */

/* What a row's functions, or its lists, say: whether it orders this shape; a stage's list; the most
 * micro-batches that it holds. */
weft_status schedule_check(const struct schedule *schedule, const struct pipeline *pipeline);
void schedule_order(const struct schedule *schedule, const struct pipeline *pipeline, int32_t stage,
                    struct arena *keep, struct slots *out);
struct slot_lists *schedule_lists(struct arena *keep, const struct schedule *schedule,
                                  const struct pipeline *pipeline); /* of all stages */
int64_t schedule_in_flight(const struct schedule *schedule, const struct pipeline *pipeline,
                           int32_t stage);
/* Micro-batches after which a schedule repeats itself: its group, or as many as there are stages. */
int64_t schedule_round(const struct schedule *schedule, const struct pipeline *pipeline);
const struct schedule *schedule_find(const char *name); /* NULL if unknown */
size_t schedule_all(const struct schedule **out);
/* The one that is meant where nobody names any; segments are the pieces of a segmented one. */
const struct schedule *schedule_default(int64_t pieces, int64_t segments);
/* The first whose passes follow each other so; of ORDER_PAIRED one that has pairs on any number of stages. */
const struct schedule *schedule_with(enum order passes);
/* A plain order that every shape has, with backward passes whole or in two: what parts are timed in before there is an order
 * of their own. It is no row of the table. */
const struct schedule *schedule_of_any_shape(bool zigzag, bool split);
/* What planners try: schedules, those of one piece first, by number from 0; NULL: there are no more. */
const struct schedule *schedule_searched(size_t number);
/* Pieces, one number of them after another, from the first one after 0; 0: there are no more. Of segments,
 * too: Fold3D found 2 to 4 best (its section 6), but where layers divide by others these may be
 * better. */
int64_t schedule_next_pieces(const struct schedule *schedule, int64_t pieces);
/* The same schedule with forward and backward passes in pairs, each of which is executed as one, for which
 * one forward pass more runs ahead; itself where it has no such pairs. */
const struct schedule *schedule_paired(const struct schedule *schedule, int32_t stages);
/* Whether slot `i` of a stage's list and the one after it are a pair. */
bool slots_paired(const struct schedule *schedule, const struct pipeline *pipeline, int32_t stage,
                  const struct slots *slots, size_t i);

/* "F3", "B3", "I3" (input gradients), "W3" (weight gradients); with several pieces "F3a" is the
 * first, "F3b" the second, and from 27 pieces on "F3.26" the last. */
struct text32 slot_label(struct slot slot, const struct pipeline *pipeline);

/* One iteration when the stages execute their lists in order, each slot as soon as its inputs are
 * there: the reference that theory is held against, slot by slot. The times add up in int64_t. */
struct pipeline_times {
    const int64_t *forward_ns, *backward_ns; /* by stage, then piece */
    const int64_t *weight_ns; /* the part of backward_ns a weight-gradient slot takes; NULL: half */
    int64_t transfer_ns;      /* from a stage to another, either way */
    const int64_t *send_ns,
        *back_ns; /* by part, instead: to the part after it, to the one before */
};
weft_status schedule_play(const struct schedule *schedule, const struct pipeline *pipeline,
                          const struct pipeline_times *times, int64_t *iteration_ns);

/* ---- orders that are found (find.h) ---------------------------------------------------------- */

/* What a pass of a part changes in memory: what it keeps for its backward pass, what its input gradients keep in
 * addition for the weight gradients, and how far each pass rises above what was held at its start. */
struct order_memory {
    int64_t kept, back;
    int64_t forward_rise, backward_rise, weight_rise;
};
struct order_question {
    struct pipeline pipeline;
    bool zigzag;
    /* By part, in ns; a whole backward pass takes as long as its two halves. */
    const int64_t *forward_ns, *input_ns, *weight_ns;
    const int64_t *send_ns, *back_ns;  /* by part: to the part after it, to the one before */
    const struct order_memory *memory; /* by part */
    const int64_t *limit_bytes;        /* by stage, for what passes hold; NULL: no limit */
    bool unsplit;                      /* backward passes stay whole */
    bool heuristic;                    /* without branch and bound, for tests */
    uint64_t seed;
};
struct order_answer {
    struct schedule *schedule; /* called "any" */
    int64_t ns, bound_ns;      /* its time; no order takes less than the bound */
    bool proved;               /* whether no order takes less than this one */
    /* The best schedule of the table that fits, and its time; NULL: none does. */
    const struct schedule *named;
    int64_t named_ns;
};
/* Finds an order that is at least as good as every schedule of the table with these pieces, within the limits of
 * memory. WEFT_NO_ANSWER: no order was found that fits. */
weft_status schedule_find_order(struct arena *keep, const struct order_question *question,
                                struct order_answer *out);

#endif
