/* stage_memory.h - what a stage's operators take on a device; part of plan.h, which has plans before it. */
#ifndef WEFT_PLAN_STAGE_MEMORY_H
#define WEFT_PLAN_STAGE_MEMORY_H

#include "plan/plan.h"

/* The memory of one device of a stage (the fullest), in bytes, from op_memory. */
struct stage_memory {
    double parameters; /* a count */
    double weights, gradients, optimizer;
    double late;        /* of the gradients: those that exist only since the backward pass */
    double step;        /* only while the optimizer runs: copies of gradients, roots of moments */
    double single;      /* the same, of the tensor that takes most */
    double activations; /* kept for `in_flight` micro-batches */
    double workspace;   /* of the operator that needs most */
    double host;        /* checkpoints and state in host memory */
};
struct stage_memory plan_stage_memory(const struct plan *plan, int32_t stage, int64_t in_flight);
/* Whether an operator's weights are gathered in one byte, as they were cast for products of fp8. */
bool plan_gathers_cast(const struct plan *plan, int32_t op);
/* Bytes of a parameter of an operator as it is gathered: the policy's, or one where products of fp8 hold what was cast. */
int plan_gather_bytes(const struct plan *plan, int32_t op);
/* Weights, gradients and optimizer state of one instance; a tied weight counts for its owner. */
struct stage_memory plan_instance_state(const struct plan *plan, int64_t instance);
/* The same, found once for each operator and choice. */
struct instance_states {
    const struct plan *plan;
    struct arena *scratch;
    struct stage_memory **known; /* per operator, then choice; NULL: not asked for yet */
};
struct instance_states instance_states_new(struct arena *scratch, const struct plan *plan);
const struct stage_memory *instance_state_of(struct instance_states *states, int64_t instance);
/* The same for a copy of its tied weight. */
struct stage_memory plan_tied_state(const struct plan *plan, int64_t instance);
double stage_memory_total(const struct stage_memory *memory); /* on the device */

#endif
