/* slot_times.h - inside pipeline: a schedule's slots on uneven stages, played one after the other.
 *
 * A slot starts when the one before it on its stage is over and what it needs has come:
 *
 *   end(k) = max{ end(before k on its stage), sent(what k needs) } + ns(k)
 *   sent(k) = max{ end(k), sent(what its part sent before) } + send                             (1)
 *
 * Which slot needs which does not depend on times: a shape's slots are put in an order in which each
 * comes after what it needs once (a *score*), and (1) is played along it for each candidate.
 *
 * A pair of slots executed as one is over when both are, and starts when both may:
 *
 *   end(k) = end(k + 1) = max{ end(before k), sent(what k needs), sent(what k + 1 needs) }
 *                         + ns(k) + ns(k + 1)                                                   (2)
 *
 *   I1  Of more than ROUNDS_PLAYED rounds of p micro-batches so many are played, and what m is more
 *       than whole rounds; the others each take what the last forward pass of all and the one a round
 *       before it are apart on the last stage, which no warm-up is ahead of, but no less than the
 *       slowest stage's slots: where that is another stage, the last one lives on what was sent ahead
 *       for more rounds than are played.
 */
#ifndef WEFT_SEARCH_ESTIMATE_SLOT_TIMES_H
#define WEFT_SEARCH_ESTIMATE_SLOT_TIMES_H

#include "search/estimate/pipeline.h"

/* When each stage is through with its last slot, and with its first backward pass. */
struct stage_ends {
    int64_t first_backward_ns, end_ns;
};
/* The answer is the orders' own, until they are asked again. */
const struct stage_ends *play_slots(struct orders *orders, const struct pipeline_work *work);

#endif
