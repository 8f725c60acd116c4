/* forbid.h - what a plan must not do: the other half of pins.
 *
 *   word          forbids
 *   pp            any pipeline: a value above the least (of recompute: none; of sp: off)
 *   zero=3        this value
 *
 * Words are those of degrees on the command line: dp tp pp cp ep virtual segments microbatch zero
 * recompute schedule sp.
 */
#ifndef WEFT_SEARCH_PLANNER_FORBID_H
#define WEFT_SEARCH_PLANNER_FORBID_H

#include "plan/plan.h"

enum forbid_word {
    FORBID_DP,
    FORBID_TP,
    FORBID_PP,
    FORBID_CP,
    FORBID_EP,
    FORBID_VIRTUAL,
    FORBID_SEGMENTS,
    FORBID_MICRO_BATCH,
    FORBID_ZERO,
    FORBID_RECOMPUTE,
    FORBID_SP,
    FORBID_SCHEDULE,
    FORBID_COUNT
};
struct forbid {
    enum forbid_word word;
    bool all;             /* whatever is above the least value */
    int64_t value;        /* else this one */
    const char *schedule; /* of FORBID_SCHEDULE */
};
struct forbids {
    struct forbid *data;
    size_t len, cap;
};
/* "pp,zero=3,recompute=full", added to a list in `keep`. */
weft_status forbid_parse(struct arena *keep, const char *text, struct forbids *out);
/* Of degrees that are complete. */
bool degrees_forbidden(const struct forbids *forbids, const struct degrees *degrees);
/* Of any plan: what any of its instances does. */
bool plan_forbidden(const struct forbids *forbids, const struct plan *plan);

#endif
