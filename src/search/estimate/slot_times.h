/* slot_times.h - inside pipeline: a schedule's slots on uneven stages, played one after the other.
 *
 * A slot starts when the one before it on its stage is over and what it needs has arrived:
 *
 *   end(k) = max{ end(before k on its stage), sent(what k needs) } + ns(k)
 *   sent(k) = max{ end(k), sent(what its part sent before) } + send                             (1)
 *
 * A pass whose inputs come late has gathered its first weights by then (passes.h, I4):
 *
 *   end(k) = max{ end(before k on its stage) + ns(k), sent(what k needs) + ns(k) - less(k) }    (3)
 *
 * Which slot needs which does not depend on times. So, once per shape, the slots are put in an
 * order in which each comes after what it needs (a *score*), and (1) is played along it for each
 * candidate.
 *
 * A pair of slots executed as one is over when both are, and starts when both may:
 *
 *   end(k) = end(k + 1) = max{ end(before k), sent(what k needs), sent(what k + 1 needs) }
 *                         + ns(k) + ns(k + 1)                                                   (2)
 *
 *   I2  What the first forward pass of a stage takes in addition is gathers that begin with the iteration, where (3)
 *       holds.
 *   I3  Where a part takes nothing from the one before it (pipeline.h, I6), its user waits for both, and the backward pass of
 *       what comes before it for the user's.
 *   I1  At most ROUNDS_PLAYED rounds (schedule_round) are played, plus the part of m that is no
 *       whole round. Each further round takes the time between the last forward pass of all (of a
 *       whole group) and the one a round before it on the last stage, which has no warm-up, but no less than the slowest
 *       stage's slots: if another stage is the slowest, the last one can use what was sent ahead
 *       for more rounds than are played.
 *   I4  A slot of several micro-batches (schedule.h, I7) needs the latest of what it is made of, which is that of the last
 *       micro-batch: stages take them in turn, one way and the other.
 *   I5  Candidates that differ in memory or in their gradients alone take the same times: what a play has found is kept, and
 *       half of all steps need not be played.
 */
#ifndef WEFT_SEARCH_ESTIMATE_SLOT_TIMES_H
#define WEFT_SEARCH_ESTIMATE_SLOT_TIMES_H

#include "search/estimate/pipeline.h"

/* When each stage is done with its last slot, and with its first backward pass. */
struct stage_ends {
    int64_t first_backward_ns, end_ns;
};
/* The answer belongs to `orders` and is valid until the next call. */
const struct stage_ends *play_slots(struct orders *orders, const struct pipeline_work *work);

#endif
