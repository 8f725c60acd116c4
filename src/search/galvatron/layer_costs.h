/* layer_costs.h - a model's layers, costed by the estimate: a source for layer_search.h.
 *
 * The walk of the model is cut after every layer; what stands before, between and after layers is a
 * layer of its own, and in a model without layers every operator is. Layers with the same operators
 * are of one kind. In a layer's cost
 *
 *   steady = forward + backward + gradients of a micro-batch that its own passes do not hide
 *   once   = 1/p of: what the first and the last pass take more, gradients that the last backward
 *            pass does not hide, the optimizer's step, gathers after it                        (1)
 *
 * as the p stages do this at the same time, and Eq. 9 adds it up.
 *
 * With c_i a micro-batch's way from stage i to the next and back, p stages pass on micro-batches in
 * (sum of f + b, and of c between them) / p at best (pipeline.h, (1)): each of two neighbours has
 * half of c_i beside its layers, and 1/p of that again when the pipeline fills and empties     (2)
 *
 *   I1  Costs are found on the model with at most COPIES copies of each repeat: more would cost the
 *       same, and take longer to compile.
 *   I2  A weight that is tied to one on another stage is there twice: with more than one stage the
 *       user's layer has the owner's state, gradients and step, too; with one, a plan has the state
 *       where both layers lay it differently, which no layer knows by itself.
 *   I3  A layer takes at least what its operators do on a device, which depends on degrees and samples
 *       of a replica only: found once for each, without compiling anything.
 *   I4  Closer than that, what the usual layer takes is found as for a table where nothing is
 *       recomputed or sharded: most settings are out before the other strategies are looked at.
 */
#ifndef WEFT_SEARCH_GALVATRON_LAYER_COSTS_H
#define WEFT_SEARCH_GALVATRON_LAYER_COSTS_H

#include "search/estimate/estimate.h"
#include "search/galvatron/layer_search.h"

struct layer_costs;
weft_status layer_costs_new(const struct estimate_settings *settings, struct layer_costs **out);
void layer_costs_free(struct layer_costs *costs);
const struct layer_source *layer_costs_source(const struct layer_costs *costs);
/* From here on layers cannot take strategies that are against the pins: degrees, sequence
 * parallelism, sharding, recomputation and samples of one replica. NULL: none. */
void layer_costs_pin(struct layer_costs *costs, const struct degrees *pins);

/* The plan of a layer plan, 1f1b, with the settings' fields; checked. */
weft_status layer_costs_plan(struct layer_costs *costs, const struct layer_plan *layers,
                             struct plan **out);

#endif
