/* stage_memory.h - inside estimate: how full a stage's devices get above their state (Galvatron-BMW, Eq. 2).
 *
 * Every forward pass of part k leaves kept_k, which its backward pass takes away (in two: the first
 * adds back_k, the pass of weight gradients takes away the rest), and either rises above what is there
 * when it starts. With n passes in flight, where passes take turns,
 *
 *   max{ (n - 1) kept + rise of forward, n kept + rise of backward }                             (1)
 *
 * and where passes come in pairs, either may be fullest when the other is:
 *
 *   (n - 1) kept + rise of forward + rise of backward                                            (4)
 *
 * zb-h1 on stage s is through with k <= s passes of input gradients before the first of weight
 * gradients, and with w = p - s - 1 forward passes more:
 *
 *   max over k of { (w + k) kept + k back + rise of forward,
 *                   (w + k + 1) kept + k back + rise of backward },
 *   (w + s + 1) kept + (s + 1) back + rise of weight                                             (2)
 *
 * All-in-all-out runs through its m v forward passes and back. Of passes 0 .. i - 1, with K(i) what
 * they keep and O(i) what of that is offloaded,
 *
 *   forward pass i    K(i) - O(i - 1) + rise        backward pass i    K(i + 1) - O(i - 1) + rise  (3)
 *
 * where the last two passes' checkpoints stay; within a piece (3) is linear from its second pass on,
 * so that its first two and its last passes are looked at. Everything else (several pieces that take
 * turns, offload where passes take turns) is played slot by slot.
 *
 *   I1  When offloaded checkpoints are away is as in sim/holdings.c, I2.
 *   I2  Where passes take turns, a stage is fullest within a few rounds of p micro-batches: more of
 *       them are not played.
 *   I3  The passes of a micro-batch give back all that they take: only where backward passes come in
 *       two does it matter what the first of them adds.
 *   I4  What a slot finds held is a sum over pieces of kept_k and back_k, each times a number of passes.
 *       Where one of the same piece and kind before it found as many of each, and nothing is offloaded,
 *       the stage is no fuller than then: what comes after the last slot that is not so is not played.
 */
#ifndef WEFT_SEARCH_ESTIMATE_STAGE_MEMORY_H
#define WEFT_SEARCH_ESTIMATE_STAGE_MEMORY_H

#include "search/estimate/passes.h"

/* One part, bytes of one micro-batch. */
struct part_memory {
    int64_t kept, back;
    int64_t forward_rise, backward_rise, weight_rise;
    int64_t offloaded;
};

/* Slots of stages with their checkpoints, found once. */
struct holdings;
struct holdings *holdings_new(struct arena *keep);

/* part[k * stages] is piece k of the stage. */
int64_t most_held(struct holdings *holdings, const struct schedule *schedule,
                  const struct pipeline *pipeline, int32_t stage, const struct part_memory *part);

#endif
