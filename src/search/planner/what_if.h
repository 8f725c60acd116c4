/* what_if.h - what limits a plan, shown by what would change with better hardware.
 *
 *   I1  For a faster part, the same plan is simulated on the cluster that has it. For more memory,
 *       the answer is the fastest of the plans tried that would then fit. Nothing is searched
 *       again, so a change gains at least what is stated here.
 */
#ifndef WEFT_SEARCH_PLANNER_WHAT_IF_H
#define WEFT_SEARCH_PLANNER_WHAT_IF_H

#include "search/planner/planner.h"

/* A usual step between devices' memories. */
#define WHAT_IF_MORE_BYTES (INT64_C(16) << 30)

struct what_if {
    const char *change; /* "2x the network", "16 GiB more memory" */
    const char *plan;   /* the plan that would be used; NULL: the same one */
    int64_t iteration_ns;
};
struct what_ifs {
    struct what_if *data;
    size_t len, cap;
};
/* Asks about the plan of the answer's first trial; the result is in `keep`. */
weft_status what_if(const struct plan_request *request, const struct planned *planned,
                    const struct plan *plan, struct arena *keep, struct what_ifs *out);

#endif
