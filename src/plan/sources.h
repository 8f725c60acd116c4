/* sources.h - which instance made what another one reads; part of plan.h. */
#ifndef WEFT_PLAN_SOURCES_H
#define WEFT_PLAN_SOURCES_H

#include "plan/plan.h"

/* Instances by operator and copy. */
struct instance_index {
    const struct plan *plan;
    int64_t *first; /* per operator: where the instances of its copies begin in `at` */
    int64_t *at;
};
struct instance_index plan_index(struct arena *keep, const struct plan *plan);
/* The instance that made the tensor that this one reads, -1: it is the model's input. */
int64_t instance_source(const struct instance_index *index, const struct instance *reader,
                        int32_t tensor);

#endif
