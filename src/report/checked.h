/* checked.h - whether a plan can be executed and by whom, for programs. */
#ifndef WEFT_REPORT_CHECKED_H
#define WEFT_REPORT_CHECKED_H

#include <jansson.h>

#include "plan/plan.h"
#include "target/target.h"

/* The size of a graph that was proved; 0 tasks if it was not. */
struct proved {
    int32_t tasks, devices;
};
struct proofs {
    struct proved folded, unfolded;
};

/* What a framework that was asked for does not run of the plan. */
struct asked_target {
    const struct target *target; /* NULL: none was asked for */
    struct texts breaks;
};

int used_choices(const struct plan *plan); /* how many of its choices at least one instance uses */
/* What `weft check --json` prints; `proofs` is NULL if nothing was proved. */
json_t *checked_json(const struct plan *plan, const struct warnings *warnings,
                     const struct proofs *proofs, const struct target_answers *answers,
                     const struct asked_target *asked);

#endif
