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

weft_status galvatron_find(const struct plan_request *request, struct planned *out);

#endif
