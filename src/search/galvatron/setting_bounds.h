/* setting_bounds.h - inside galvatron: whether a setting (a batch, a PP degree, a number of micro-batches) is ruled out
 * by bounds of its layers' costs, before these are found.
 *
 *   1. by times alone: Eq. 9 with each kind's fastest strategy by a quick bound                                (1)
 *   2. by times and bytes: all strategies' costs are replaced by quick bounds, and the best partition of these is
 *      bounded as in a search (best_cuts.h, I1). While that is not slow enough, the costs themselves are found of
 *      those strategies that decide it: the least ones at the price of a byte that bounds a stage best
 *      (layer_table.h, (1))                                                                                     (2)
 *
 *   I1  Every number of a layer's bound is at most the cost's, so a setting whose bound is too slow is too slow.
 */
#ifndef WEFT_SEARCH_GALVATRON_SETTING_BOUNDS_H
#define WEFT_SEARCH_GALVATRON_SETTING_BOUNDS_H

#include "search/galvatron/best_cuts.h"

/* *out: every plan of the setting takes at least below_ns, or there is none. */
weft_status setting_is_slower(const struct layer_problem *problem,
                              const struct group_options *options, const struct run_hashes *hashes,
                              struct layer_question question, int64_t below_ns, bool *out);

#endif
