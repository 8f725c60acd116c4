/* forbid.h - what a plan must not do: the counterpart of pins.
 *
 *   word          forbids
 *   pp            any pipeline, that is any value above the smallest (of recompute: none; of sp and defer-head: off)
 *   zero=3        this one value
 *
 * The words are those of the degrees on the command line: dp tp pp cp ep virtual segments
 * microbatch zero recompute schedule sp defer-head.
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
    FORBID_DEFER_HEAD,
    FORBID_SCHEDULE,
    FORBID_COUNT
};
struct forbid {
    enum forbid_word word;
    bool all;             /* every value above the smallest */
    int64_t value;        /* otherwise this one value */
    const char *schedule; /* for FORBID_SCHEDULE */
};
struct forbids {
    struct forbid *data;
    size_t len, cap;
};
/* Reads a text such as "pp,zero=3,recompute=full" and adds what it forbids to a list in `keep`. */
weft_status forbid_parse(struct arena *keep, const char *text, struct forbids *out);
/* The degrees must be complete. */
bool degrees_forbidden(const struct forbids *forbids, const struct degrees *degrees);
/* For any plan: whether any of its instances does what is forbidden. */
bool plan_forbidden(const struct forbids *forbids, const struct plan *plan);

#endif
