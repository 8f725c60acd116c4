/* planned_anew.h - plans published runs again.
 *
 * The request is that of the run: its model, cluster, global batch and precision, and what its framework
 * does with any degrees (what overlaps, buckets, how stages send). The planner chooses degrees, schedule,
 * state sharding and recomputation.
 *
 *   I1  The planner does not know what was published.
 *   I2  Both plans are simulated in the same way, as `weft validate` and `weft plan` do.
 */
#ifndef WEFT_LAB_PLANNED_ANEW_H
#define WEFT_LAB_PLANNED_ANEW_H

#include "lab/published.h"
#include "search/search.h"

struct replanned {
    const struct published *row; /* which is predicted */
    double iteration_s;          /* of the best plan that was found */
    int64_t peak_bytes;          /* of its fullest stage */
    bool fits;
    const char *text, *found_by; /* "dp 16, tp 2, ...", "galvatron" */
    const char *changes;         /* "tp 8→2, zero 0→1"; "" if the published plan was found */
    double search_s;
};
struct replanned_list {
    struct replanned *data;
    size_t len, cap;
};

/* Searches for a row that is predicted, and appends the result; an error if there is no plan at all. Texts are
 * allocated in `keep`. */
weft_status published_replan(struct arena *keep, struct published *row, struct replanned_list *out);
/* The predicted time of the published plan divided by that of the plan that was found: 1.1 is 10 % faster. */
double replanned_gain(const struct replanned *replanned);
/* Whether the plan that was found is slower, by more than rounding, than a published plan that is predicted to fit. */
bool replanned_lost(const struct replanned *replanned);

#endif
