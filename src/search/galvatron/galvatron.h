/* galvatron.h - the planner "galvatron": a strategy for every layer and uneven stages, by dynamic
 * programming (Galvatron-BMW), and its parts.
 *
 *   space          what a layer may do on a group of devices (section III)
 *   layerwise      the fastest strategy per layer that fits in memory (section IV-A)
 *   partition      which layers belong to which stage (section IV-B)
 *   layer_search   both, over batches, PP degrees and micro-batches, for any source of layers' costs
 */
#ifndef WEFT_SEARCH_GALVATRON_H
#define WEFT_SEARCH_GALVATRON_H

#include "search/galvatron/layer_search.h"
#include "search/galvatron/layerwise.h"
#include "search/galvatron/partition.h"
#include "search/galvatron/space.h"
#include "search/planner/planner.h"

/* Part of a request: what an experiment fixes and no pin says. All 0: nothing. */
struct galvatron_study {
    int64_t micro_batches; /* so many, whatever samples a replica then has at once */
};

weft_status galvatron_find(const struct plan_request *request, struct planned *out);

#endif
