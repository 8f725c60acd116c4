/* check.h - what is wrong with a plan, and where. Private to the room: a file adds the line. */
#ifndef WEFT_PLAN_CHECK_H
#define WEFT_PLAN_CHECK_H

#include "plan/plan.h"

/* FAULT_BACK: of an instance's backward pass. */
enum fault_place {
    FAULT_NOWHERE,
    FAULT_BATCH,
    FAULT_SCHEDULE,
    FAULT_STAGE,
    FAULT_INSTANCE,
    FAULT_BACK
};
struct fault {
    enum fault_place place;
    int64_t at; /* the number of the stage or instance */
    const char *message, *hint;
};
/* ---- for the checks -------------------------------------------------------------------------- */

struct finding {
    struct arena *keep;
    const struct plan *plan;
    struct fault *out;
};

static inline bool fault(struct finding *f, enum fault_place place, int64_t at, const char *message)
{
    *f->out = (struct fault){.place = place, .at = at, .message = message};
    return true;
}

static inline bool with_hint(struct finding *f, const char *hint)
{
    f->out->hint = hint;
    return true;
}

/* Faults of the operators and their choices (check_op.c). */
bool instances_fault(struct finding *f);
/* Of stages that take several micro-batches at once (joins.c). */
bool joins_fault(struct finding *f);

/* ---- for the callers ------------------------------------------------------------------------- */

/* False: the plan has no fault. */
bool plan_find_fault(struct arena *keep, const struct plan *plan, struct fault *out);

#endif
