/* layer_costs.h - a model's layers, costed by the estimate: a source for layer_search.h.
 *
 * The sequence of the model's instances is cut after every layer; the operators before, between and
 * after layers are layers of their own, and in a model without layers every operator is one. Layers
 * with the same operators are of one kind. In a layer's cost
 *
 *   steady = forward + backward + gradients of a micro-batch that its own passes do not hide
 *   once   = 1/p of: what the first and the last pass take in addition, gradients that the last
 *            backward pass does not hide, the optimizer step, gathers after it                 (1)
 *
 * because the p stages do this at the same time, and Eq. 9 adds it up.
 *
 * With c_i the time of a micro-batch's transfer from stage i to the next and back, p stages take
 * (sum of f + b, and of c between them) / p per micro-batch at best (pipeline.h, (1)): each of two
 * neighbours has half of c_i besides its layers, and 1/p of that again when the pipeline fills and
 * empties                                                                                      (2)
 *
 *   I1  Costs are found on the model with at most COPIES copies of each repeat: more would give the
 *       same costs, and take longer to compile.
 *   I2  A weight that is tied to one on another stage exists twice: with more than one stage the
 *       user's layer has the owner's state, gradients and step, too; with one stage, a plan has the
 *       state twice if both layers lay it out differently, which no layer knows by itself.
 *   I3  A layer takes at least the time of its operators on a device, which depends only on degrees
 *       and the samples of a replica: found once for each, without compiling anything.
 *   I4  Where that does not rule a setting out, all costs are bounded by those of the strategy that shards nothing: its
 *       passes of many samples (floor.h) or I3's time, what usual layers keep, and its state, as if all devices
 *       shared it if any do. What that strategy holds and takes of a sample depends on few words, and is found once for
 *       them.
 */
#ifndef WEFT_SEARCH_GALVATRON_LAYER_COSTS_H
#define WEFT_SEARCH_GALVATRON_LAYER_COSTS_H

#include "search/estimate/estimate.h"
#include "search/galvatron/layer_search.h"

struct layer_costs;
weft_status layer_costs_new(const struct estimate_settings *settings, struct layer_costs **out);
void layer_costs_free(struct layer_costs *costs);
const struct layer_source *layer_costs_source(const struct layer_costs *costs);
/* From this call on, layers cannot take strategies that contradict the pins: degrees, sequence
 * parallelism, sharding, recomputation and samples of one replica. NULL: no pins. */
void layer_costs_pin(struct layer_costs *costs, const struct degrees *pins);

/* Turns a layer plan into a checked plan with the schedule 1f1b and the settings' fields. */
weft_status layer_costs_plan(struct layer_costs *costs, const struct layer_plan *layers,
                             struct plan **out);

#endif
