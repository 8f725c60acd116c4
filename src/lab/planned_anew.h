/* planned_anew.h - published runs planned anew.
 *
 * The question is the run's own: its model, cluster, global batch, precision, and what its framework
 * does whatever the degrees are (what overlaps, buckets, how stages send). Degrees, schedule, state
 * sharding and recomputation are the planner's to choose.
 *
 *   I1  The planner is not told what was published.
 *   I2  Both plans are simulated alike, as `weft validate` and `weft plan` do.
 */
#ifndef WEFT_LAB_PLANNED_ANEW_H
#define WEFT_LAB_PLANNED_ANEW_H

#include "lab/published.h"
#include "search/search.h"

struct replanned {
    const struct published *row; /* predicted */
    double iteration_s;          /* of the best plan found */
    int64_t peak_bytes;          /* of its fullest stage */
    bool fits;
    const char *text, *found_by; /* "dp 16, tp 2, ...", "galvatron" */
    const char *changes;         /* "tp 8→2, zero 0→1"; "": the published plan was found */
    double search_s;
};
struct replanned_list {
    struct replanned *data;
    size_t len, cap;
};

/* Searches a row that is predicted, and appends; no plan at all is an error. Texts are in `keep`. */
weft_status published_replan(struct arena *keep, struct published *row, struct replanned_list *out);
/* The published plan's predicted time over that of the plan found: 1.1 is 10 % faster. */
double replanned_gain(const struct replanned *replanned);
/* Slower than a published plan that is predicted to fit, by more than rounding. */
bool replanned_lost(const struct replanned *replanned);

#endif
