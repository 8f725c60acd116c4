/* held.h - inside estimate: how full a stage's devices get above their state (Galvatron-BMW, Eq. 2).
 *
 * Every forward pass of part k leaves kept_k, every backward pass adds back_k (below 0, unless a pass
 * of weight gradients is still to come), and either rises above what is there when it starts. With n
 * passes in flight, where passes take turns,
 *
 *   max{ (n - 1) kept + rise of forward, n kept + rise of backward }                             (1)
 *
 * With several pieces the passes in flight change from slot to slot: forward pass w + i and backward
 * pass i (schedule/order.c) are looked at for one round of all pieces. All-in-all-out is fullest
 * where a piece's forward passes end or its backward passes begin. zb-h1 has s passes of weight
 * gradients ahead of it on stage s:
 *
 *   n kept + max{ s back + rise of backward, (s + 1) back + rise of weight }                     (2)
 *
 *   I1  Offloaded checkpoints are here for about three slots: beside the pass that made them, while
 *       they leave, and before they are needed.
 */
#ifndef WEFT_SEARCH_HELD_H
#define WEFT_SEARCH_HELD_H

#include "search/passes.h"

/* One part, bytes of one micro-batch. */
struct part_memory {
    int64_t kept, back;
    int64_t forward_rise, backward_rise, weight_rise;
    int64_t offloaded;
};
/* part[k * stages] is piece k of the stage; in_flight as the schedule says. */
int64_t most_held(enum order order, const struct pipeline *pipeline, int32_t stage,
                  int64_t in_flight, const struct part_memory *part);

#endif
