/* estimator.h - inside estimate: what plans' and candidates' estimates share. */
#ifndef WEFT_SEARCH_ESTIMATE_ESTIMATOR_H
#define WEFT_SEARCH_ESTIMATE_ESTIMATOR_H

#include "search/estimate/candidate.h"
#include "search/estimate/pipeline.h"
#include "search/estimate/stage_memory.h"
#include "search/estimate/tables.h"

struct estimator {
    struct arena *arena;
    struct estimate_settings settings;
    struct cost *cost;
    struct orders *orders;
    struct flow_cache *flows;
    bool shares_flows; /* with other estimators (estimate_settings) */
    struct holdings *holdings;
    struct tables *tables; /* NULL: no candidate was estimated yet */
};

/* Makes the estimator's tables if there are none yet. */
weft_status estimator_tables(struct estimator *estimator);
/* Adds one part's numbers to those of its stage. */
void note_part(const struct part_work *part, struct stage_estimate *out);
/* Notes when a stage is done, before the optimizer step. */
void note_end(const struct stage_end *end, struct stage_estimate *out);
/* A part as the latest estimate of a candidate found it: its passes in the pipeline, what they hold, and what its stage holds
 * for it all the time; `stand_in` once for the stage. */
struct candidate_part {
    struct part_work work;
    struct part_memory memory;
    int64_t state_bytes, stand_in_bytes;
};
struct candidate_part candidate_part(const struct candidate *candidate, int32_t part);
/* Notes what a stage's devices have for tensors. */
void note_limit(const struct cluster *cluster, const struct memory_terms *terms,
                const struct stage *on, struct stage_estimate *out);
/* Finds the slowest and the fullest stage. */
void sum_up_stages(struct estimate *out);

#endif
