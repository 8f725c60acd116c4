/* pipeline.h - inside estimate: how long an iteration takes on a pipeline of uneven stages.
 *
 * With f_j, b_j the passes of stage j, c_j the send to stage j + 1 plus the one back, w_j = p - 1 -
 * j the forward passes that 1f1b runs ahead, and
 *
 *   r_j = sum over q > j of (f_q + b_q) + sum over q >= j of c_q     (a micro-batch's way down and
 *                                                                     back to stage j)
 *   g   = max over runs s..k of stages of
 *         (sum of f + b over s..k, and of c between them) / (k - s + 1)                       (1)
 *
 * a longest path through 1f1b goes down to some stage j, fills it, stays there, and comes back:
 *
 *   T = max_j { sum over q < j of (f_q + b_q + c_q) + f_j + b_j + fill + (m - 1 - w_j) g_j }    (2)
 *   fill = max(w_j f_j, r_j) + max(w_j b_j, r_j)
 *
 * with g_j = g inside the run of (1), f_j + b_j elsewhere. With m <= w_j + 1 micro-batches all
 * forward passes of stage j come before its backward passes, and fill is max(r_j + (m - 1) max(f_j,
 * b_j), (m - 1) (f_j + b_j)). (1) is a cycle in the order itself: stage s starts the forward pass
 * that comes w_s + 1 - w_k = k - s + 1 micro-batches later when a micro-batch has gone down to
 * stage k and come back. Without sends the maximum is the slowest stage, and with equal stages (2)
 * is (m + p - 1) (f + b).
 *
 * Stage k is done when such a path has come back to it, or when the last micro-batch that a stage j above it sends down has:
 *
 *   E_k = max { max over j >= k of path j of (2), max over j < k of (sum over q < j of (f_q + b_q + c_q) + f_j + b_j
 *               + max(w_j f_j, r_j) + (m - 1 - w_j) g_j + r_j) }  -  sum over q < k of (b_q and the send back to it)    (2b)
 *
 * A slow stage at the front, such as an encoder of images, has backward passes left when the stages below it are done.
 *
 * All-in-all-out runs in waves of m forward (or backward) passes of one part. With a and z the ends
 * of the first and the last pass of a wave, in the order in which the waves run,
 *
 *   a = max(a of the part before + c, z of the stage's wave before) + f
 *   z = max(a + (m - 1) f, z of the part before + c + f, a of the part before + m c + f)       (3)
 *
 * Interleaved and zb-h1 are played slot by slot for a few rounds of p micro-batches; all further
 * rounds are taken to be like the last (slot_times.h).
 *
 * A pair of a forward and a backward pass (ORDER_PAIRED) waits for the inputs of both, takes f + b,
 * and then has the outputs of both; passes by themselves take their times apart. On one stage that
 * is m (f + b) plus what one forward and one backward pass take in addition.
 *
 *   I1  The first micro-batch pays for what its forward passes take in addition, the last one for
 *       its backward passes; then come the remaining gradients and the optimizer. Gradients that
 *       fall further behind with each micro-batch catch up while their stage waits for others. What
 *       is left of a piece's gradients is sent beside the backward passes of the piece before it,
 *       as long as no other gradients come between, and slows them down.
 *   I2  Without OVERLAP_PIPELINE a stage waits for its sends: they are part of its passes.
 *   I3  Offloaded checkpoints come back beside the slot before their backward pass, which is a
 *       forward one where passes take turns; a backward pass that comes right after its forward
 *       pass waits for the checkpoints' way to the host and back.
 *   I4  A part sends one micro-batch after the other: a send that takes longer than the passes sets
 *       the pace.
 *   I5  Aligned gathers begin with the iteration: until the first micro-batch comes to a part, its stage has
 *       gathered, and only the rest is what the first forward pass takes in addition. Gathers of a stage's pieces
 *       come one after the other.
 *   I6  Where a part takes nothing from the one before it, the two begin at once; what the first makes goes straight to the part
 *       that reads it, which waits for both. Slots are played then.
 */
#ifndef WEFT_SEARCH_ESTIMATE_PIPELINE_H
#define WEFT_SEARCH_ESTIMATE_PIPELINE_H

#include "schedule/schedule.h"
#include "search/estimate/passes.h"

/* A part that takes nothing from the one before it, such as a decoder whose first layers read no image (I6). */
struct parted {
    int32_t part; /* 0: there is none */
    int32_t user; /* the first part after it that reads what comes from before it */
    int64_t send_ns, back_ns;
};

/* The slots of a schedule, found once and used again. */
struct orders;
struct orders *orders_new(struct arena *keep);

struct pipeline_work {
    const struct schedule *schedule;
    int32_t stages, pieces;
    int64_t micro_batches;
    /* Part k of stage k % stages; put_in_pipeline was applied to each. */
    const struct part_work *part;
    unsigned overlap; /* of the plan */
    /* Factor by which overlapping computation and collectives slow down. */
    double slowdown;
    int64_t group; /* of micro-batches, as in a plan */
    struct parted parted;
};
/* Applies I2 and I3 to a part's own work. */
void put_in_pipeline(const struct pipeline_work *work, int32_t part, struct part_work *out);
/* I5, for all parts, after put_in_pipeline. */
void begin_gathers(const struct pipeline_work *work, struct part_work *part);
/* The same where gathers are not aligned: only those before the first inputs come are over then (passes.h, I4). */
void gather_before_inputs(const struct pipeline_work *work, struct part_work *part);
/* When each stage is done with its last backward pass, and when its gradients are. */
struct stage_end {
    int64_t computed_ns, synchronised_ns;
    /* What its own passes leave free between its first backward pass and its last. */
    int64_t slack_ns;
};
void pipeline_ends(struct orders *orders, const struct pipeline_work *work, struct stage_end *end);

#endif
