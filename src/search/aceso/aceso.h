/* aceso.h - the planner "aceso": iterative bottleneck alleviation (Aceso, sections 3 and 4). */
#ifndef WEFT_SEARCH_ACESO_H
#define WEFT_SEARCH_ACESO_H

#include "search/planner/planner.h"

/* The most parts that a config may have: stages times pieces. */
enum { ACESO_MOST_PARTS = 128 };
/* On more devices than this it does not polish what it finds, unless it has a budget or starts from plans. */
enum { ACESO_MANY_DEVICES = 512 };

/* Part of a request: what an experiment changes in the search. All 0: nothing. */
struct aceso_study {
    /* Every replica's micro-batch is a multiple of the first, and no step has more samples than the
     * second; 0: no such limit. */
    int64_t least_micro_batch, most_step;
    bool every_stages; /* leave out no number of stages because its plans are slower */
    /* memory is ranked last where all fits, not by a stage's share (heuristic 2) */
    bool memory_last;
    const struct memory_count *count; /* how to count what stages hold; NULL: as Weft does */
};
/* The request's study, or one that changes nothing. */
const struct aceso_study *aceso_study_of(const struct plan_request *request);

weft_status aceso_find(const struct plan_request *request, struct planned *out);

#endif
