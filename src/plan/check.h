/* check.h - what is wrong with a plan, and where. Private to the room: a file adds the line. */
#ifndef WEFT_PLAN_CHECK_H
#define WEFT_PLAN_CHECK_H

#include "plan/plan.h"

enum fault_place { FAULT_NOWHERE, FAULT_BATCH, FAULT_SCHEDULE, FAULT_STAGE, FAULT_INSTANCE };
struct fault {
    enum fault_place place;
    int64_t at; /* the stage or instance */
    const char *message, *hint;
};
/* False: the plan is fine. */
bool plan_find_fault(struct arena *keep, const struct plan *plan, struct fault *out);

#endif
