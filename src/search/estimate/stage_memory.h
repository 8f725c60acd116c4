/* stage_memory.h - inside estimate: how full a stage's devices get above their state
 * (Galvatron-BMW, Eq. 2).
 *
 * Every forward pass of part k leaves kept_k, which its backward pass frees (where that comes in
 * two, the first half adds back_k, and the pass of weight gradients frees the rest), and each pass
 * rises above what is there when it starts. With n passes in flight, where passes take turns,
 *
 *   max{ (n - 1) kept + rise of forward, n kept + rise of backward }                             (1)
 *
 * zb-h1 on stage s finishes k <= s passes of input gradients before the first one of weight
 * gradients, and has run w = p - s - 1 forward passes ahead:
 *
 *   max over k of { (w + k) kept + k back + rise of forward,
 *                   (w + k + 1) kept + k back + rise of backward },
 *   (w + s + 1) kept + (s + 1) back + rise of weight                                             (2)
 *
 * All-in-all-out runs through its m v forward passes and back. With K(i) what passes 0 .. i - 1
 * keep and O(i) the offloaded part of that,
 *
 *   forward pass i    K(i) - O(i - 1) + rise        backward pass i    K(i + 1) - O(i - 1) + rise  (3)
 *
 * where the checkpoints of the last two passes stay; within a piece (3) is linear from its second
 * pass on, so that only its first two and its last passes are looked at. Where passes come in
 * pairs, the one takes what the other frees, layer by layer; what a layer takes before the other has freed as much is
 * left out:
 *
 *   (n - 1) kept + max{ 0, kept of forward - kept of backward } + rise of forward - kept + rise of backward  (4)
 *
 * Everything else (several pieces that take turns, offload where passes take turns) is played slot
 * by slot.
 *
 *   I1  Offloaded checkpoints are away as in sim/holdings.c, I2.
 *   I2  Where passes take turns, a stage is fullest within a few rounds of p micro-batches: no more
 *       of them are played.
 *   I3  The passes of a micro-batch free all that they allocate: only where backward passes come in
 *       two does it matter what the first half adds.
 *   I4  What is held when a slot starts is a sum over pieces of kept_k and back_k, each times a
 *       number of passes. If an earlier slot of the same piece and kind found at least as many of
 *       each, and nothing is offloaded, the stage is no fuller than it was then. Nothing is played
 *       after the last slot for which this is not so.
 */
#ifndef WEFT_SEARCH_ESTIMATE_STAGE_MEMORY_H
#define WEFT_SEARCH_ESTIMATE_STAGE_MEMORY_H

#include "search/estimate/passes.h"

/* One part; bytes for one micro-batch. */
struct part_memory {
    int64_t kept, back;
    int64_t forward_rise, backward_rise, weight_rise;
    int64_t offloaded;
};

/* The slots of stages with their checkpoints, found once and used again. */
struct holdings;
struct holdings *holdings_new(struct arena *keep);

/* part[k * stages] is piece k of the stage. */
int64_t most_held(struct holdings *holdings, const struct schedule *schedule,
                  const struct pipeline *pipeline, int32_t stage, const struct part_memory *part);

#endif
