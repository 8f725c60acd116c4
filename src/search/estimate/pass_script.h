/* pass_script.h - private to passes.c and pass_script.c: the passes of one part as tasks that the engine runs.
 *
 * The tasks are on seven streams: operators, steps between layouts, those of a pair's tokens, gathers of weights,
 * gradients, what layers copy to the host and back; an eighth says when the inputs of passes come, if they come late.
 */
#ifndef WEFT_SEARCH_ESTIMATE_PASS_SCRIPT_H
#define WEFT_SEARCH_ESTIMATE_PASS_SCRIPT_H

#include "search/estimate/pass_order.h"

enum pass_lane {
    LANE_OPS,
    LANE_STEPS,
    LANE_TOKENS,
    LANE_GATHERS,
    LANE_GRADIENTS,
    LANE_TO_HOST,
    LANE_FROM_HOST,
    LANE_INPUTS,
    LANE_COUNT
};

struct pass_wait {
    int32_t task, on;
};
struct pass_script {
    const struct timed *timed;
    struct arena *scratch;
    /* Inputs of a pass come so long after the stage is free for it; 0: they are there. */
    int64_t input_ns;
    ARRAY(int32_t) stream;
    ARRAY(int32_t) flow;
    ARRAY(int64_t) ns;
    ARRAY(struct pass_wait) waits; /* by task, ascending */
    int32_t last[LANE_COUNT];      /* tasks */
    /* The last computation before the unit whose weights were gathered last. */
    int32_t before_unit;
    int32_t come; /* the task that ends when the inputs of the current pass come, or NONE */
    int32_t features, tokens, computed,
        stored;                 /* the latest task of each lane before the current pass */
    bool begun[LANE_COUNT];     /* whether this lane has a task of the current pass yet */
    int32_t *task[MOST_PASSES]; /* per item */
    /* For the passes of a pair, per item: when it is over in the pass's own time (I3). */
    int64_t *own[MOST_PASSES];
    int32_t gradients[MOST_PASSES]; /* the latest gradient task after each pass */
    int32_t input[MOST_PASSES];     /* the task that ends when its inputs come, if they come late */
};

/* Adds the passes and runs them; of the result, only when tasks end is said. */
weft_status run_passes(struct pass_script *s, int32_t part, const struct part_passes *passes,
                       struct engine_result *result);

#endif
