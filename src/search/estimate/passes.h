/* passes.h - inside estimate: how long the passes of one part take on its stage, when nothing from
 * other stages delays them.
 *
 * A *pass* is one slot: a block, with the gathers and the gradient synchronisation beside it. A few
 * passes in the order of the schedule are enough to tell the first, a middle one and the last
 * apart:
 *
 *   forward passes and backward passes in turn   F B F B     1f1b, interleaved
 *   all forward passes first                     F F B B     gpipe, aiao
 *   backward passes in two                       F I W F I W zb-h1
 *   a forward and a backward pass at once        F F (F B) B B   pairs of 1f1b and interleaved
 *
 * There is a third micro-batch where gradients are synchronised with every one (shard 2 and 3): the
 * time by which the second leaves more gradients unfinished than the first is added by each further
 * one (lag). The last micro-batch cannot show this, because gradients that are synchronised once
 * are sent beside it, too. The engine runs these passes on four streams: operators, steps, gathers
 * of weights, gradients. The result is the time of a middle pass, what the first and the last take
 * in addition, and how long gradients continue after the last.
 *
 *   I1  The waits are those of compile/graph.c, item by item instead of run by run.
 *   I5  What layers copy to the host and back (compile/layer_copies.c) goes on two streams more, with the waits that it has there.
 *   I2  Computation and collectives that overlap slow each other down (Galvatron-BMW, section V):
 *       the engine's interference.
 *   I3  The time of a pair is divided between its two passes by their operators: each operator
 *       counts from the end of the one before it, whichever pass that belongs to, and the rest at
 *       the end counts for the last. The second forward pass and the last but one of the backward
 *       passes show what a pass takes that has no other beside it (apart).
 *   I6  Pieces of a stage that are alike, task by task, are run once (`runs` of the plan's times).
 *   I4  A stage that waits for the inputs of a pass gathers the sharded weights of the first units meanwhile. In a
 *       second run inputs come so late that all such gathers are over; by so much less each pass takes then. So it does with
 *       updated weights before the first forward pass.
 */
#ifndef WEFT_SEARCH_ESTIMATE_PASSES_H
#define WEFT_SEARCH_ESTIMATE_PASSES_H

#include "search/estimate/timed.h"

/* One part for one micro-batch, in nanoseconds. */
struct part_work {
    /* Of a middle pass; where the backward pass comes in two, its first half. */
    int64_t forward, backward;
    int64_t weight;         /* the second half, of weight gradients; otherwise 0 */
    int64_t first_more;     /* what the first forward pass takes in addition */
    int64_t gathered;       /* when its weights are gathered, if aligned (pipeline.h, I5) */
    int64_t last_more;      /* what the last backward pass takes in addition */
    int64_t tail;           /* how long gradients continue after the last pass, */
    int64_t lag;            /* and how much longer with every micro-batch after the first */
    int64_t send, back;     /* to the next part; gradients to the part before */
    int64_t host;           /* copying its checkpoints to the host, or back */
    int64_t forward_apart;  /* where passes come in pairs: what a forward pass by itself */
    int64_t backward_apart; /* takes in addition, and a backward pass */
    int64_t forward_less;   /* I4: what a pass takes less if its inputs come late */
    int64_t backward_less;
    int64_t first_less; /* the same of the first forward pass alone, whose weights were updated */
};
/* I6: what was run, of one plan. */
struct pass_runs *pass_runs_new(struct arena *keep);
/* What the sends from one part to another take, or those of their gradients. */
int64_t sends_ns(const struct timed *timed, int32_t from, int32_t to, bool back);
weft_status part_work(const struct timed *timed, int32_t part, struct part_work *out);

/* ---- the same, instance by instance ---------------------------------------------------------- */

enum pass_role {
    PASS_FIRST,
    PASS_FORWARD,
    PASS_BACKWARD,
    PASS_WEIGHT,
    PASS_LAST,
    PASS_FORWARD_APART, /* I3 */
    PASS_BACKWARD_APART,
    PASS_ROLES
};
/* Per role and item: when the item is over, counted from the start of its pass; NULL if there is no
 * such pass. */
struct pass_items {
    const struct block *block[PASS_ROLES];
    int64_t *end_ns[PASS_ROLES];
};
weft_status part_items(const struct timed *timed, int32_t part, struct arena *keep,
                       struct pass_items *out);

#endif
