/* words.h - inside galvatron: a layer plan in words, or why there is none. */
#ifndef WEFT_SEARCH_GALVATRON_WORDS_H
#define WEFT_SEARCH_GALVATRON_WORDS_H

#include "search/galvatron/layer_search.h"

/* "pp 2 (13+11 layers), 8 micro-batches, 16x 2-2*-2f, 8x 2-2*-2f-c": layers by their strategy
 * (space.h); operators around them are left out. */
const char *layer_plan_text(struct arena *keep, const struct layer_source *source,
                            const struct layer_plan *plan);

typedef ARRAY(const char *) reason_list;
/* Sentences that say which layers recompute or shard and what they would hold if they did not,
 * which stages have more layers than others, and how balanced they are (Eq. 6). */
weft_status layer_plan_reasons(struct arena *keep, const struct layer_problem *problem,
                               const struct layer_plan *plan, reason_list *out);

/* What a search without a plan returns: stopped, nothing faster than known_ns, nothing possible
 * with any limit, or nothing that fits. */
weft_status say_no_plan(const struct layer_problem *problem, const struct layer_plans *plans);

#endif
