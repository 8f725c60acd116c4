/* passes.h - inside estimate: how long the passes of one part take on its stage, when nothing from
 * other stages is in their way.
 *
 * A *pass* is one slot: a block, with the gathers and the gradient synchronisation beside it. A few
 * passes in the order of the schedule tell the first, a middle one and the last apart:
 *
 *   forward passes and backward passes in turn   F B F B     1f1b, interleaved
 *   all forward passes first                     F F B B     gpipe, aiao
 *   backward passes in two                       F I W F I W zb-h1
 *   a forward and a backward pass at once        F F (F B) B B   pairs of 1f1b and interleaved
 *
 * with a third micro-batch where gradients go with every one (shard 2 and 3): what the second leaves
 * behind more than the first, all leave behind (lag). The last one says nothing of it: gradients that
 * go once go beside it, too. They are run by the engine on four streams: operators, steps, gathers of weights, gradients. Of
 * them come the times of a pass in the middle, what the first and the last take more, and how long
 * gradients go on after the last.
 *
 *   I1  What waits for what is as in compile/graph.c, item by item instead of run by run.
 *   I3  The time of a pair is divided by its operators: each counts from the end of the one before it, whose
 *       ever that was, and what is left at the end counts to the last. The second forward pass and the last
 *       but one of backward passes say what a pass takes that has no other beside it (apart).
 *   I2  Computation and collectives that overlap slow each other down (Galvatron-BMW, section V):
 *       the engine's interference.
 */
#ifndef WEFT_SEARCH_ESTIMATE_PASSES_H
#define WEFT_SEARCH_ESTIMATE_PASSES_H

#include "search/estimate/timed.h"

/* One part for one micro-batch, in nanoseconds. */
struct part_work {
    int64_t forward, backward; /* a pass in the middle; of two backward passes, the first */
    int64_t weight;            /* the second one, of weight gradients; else 0 */
    int64_t first_more,
        last_more;      /* the first forward, the last backward pass takes so much more */
    int64_t tail;       /* gradients still go for so long after the last one, */
    int64_t lag;        /* and so much longer with every micro-batch but the first */
    int64_t send, back; /* to the next part; gradients to the one before */
    int64_t host;       /* its checkpoints' way to the host, or back */
    int64_t forward_apart,
        backward_apart; /* where passes come in pairs: what a pass by itself takes more */
};
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
/* Per role and item, when it is over, from the start of its pass on; NULL where there is no such
 * pass. */
struct pass_items {
    const struct block *block[PASS_ROLES];
    int64_t *end_ns[PASS_ROLES];
};
weft_status part_items(const struct timed *timed, int32_t part, struct arena *keep,
                       struct pass_items *out);

#endif
