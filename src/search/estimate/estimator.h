/* estimator.h - inside estimate: what plans' and candidates' estimates share. */
#ifndef WEFT_SEARCH_ESTIMATE_ESTIMATOR_H
#define WEFT_SEARCH_ESTIMATE_ESTIMATOR_H

#include "search/estimate/candidate.h"
#include "search/estimate/pipeline.h"
#include "search/estimate/tables.h"

struct estimator {
    struct arena *arena;
    struct estimate_settings settings;
    struct cost *cost;
    struct orders *orders;
    struct flow_cache *flows;
    struct holdings *holdings;
    struct tables *tables; /* NULL: no candidate yet */
};

/* Finds its tables if there are none yet. */
weft_status estimator_tables(struct estimator *estimator);
/* One part's numbers, added to its stage's. */
void note_part(const struct part_work *part, struct stage_estimate *out);
/* When a stage is through, before the optimizer's step. */
void note_end(const struct stage_end *end, struct stage_estimate *out);
/* The slowest and the fullest stage. */
void sum_up_stages(struct estimate *out);

#endif
