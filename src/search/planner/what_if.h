/* what_if.h - what limits a plan, said by what would change if the hardware did.
 *
 *   I1  A faster part: the same plan simulated on the cluster that has it. More memory: the fastest of
 *       the plans tried that would then fit. Nothing is searched again, so a change brings at least
 *       what is said here.
 */
#ifndef WEFT_SEARCH_PLANNER_WHAT_IF_H
#define WEFT_SEARCH_PLANNER_WHAT_IF_H

#include "search/planner/planner.h"

/* A usual step between devices' memories. */
#define WHAT_IF_MORE_BYTES (INT64_C(16) << 30)

struct what_if {
    const char *change; /* "2x the network", "16 GiB more memory" */
    const char *plan;   /* the one that would be used, NULL: the same */
    int64_t iteration_ns;
};
struct what_ifs {
    struct what_if *data;
    size_t len, cap;
};
/* Of the plan of the answer's first trial; in `keep`. */
weft_status what_if(const struct plan_request *request, const struct planned *planned,
                    const struct plan *plan, struct arena *keep, struct what_ifs *out);

#endif
