/* planner.h - what every planner is asked and answers.
 *
 *   I1  Everything that was tried is remembered with its time and memory, so that an answer can say
 *       what each dimension's next best value would have cost.
 *   I2  The best is the fastest that fits; ties go to less memory, then to what was tried first.
 *   I3  A planner that is stopped answers with the best so far.
 */
#ifndef WEFT_SEARCH_PLANNER_H
#define WEFT_SEARCH_PLANNER_H

#include <stdatomic.h>

#include "sim/sim.h"

/* Dimensions of a plan that degrees can say. */
enum dimension {
    DIMENSION_DP,
    DIMENSION_TP,
    DIMENSION_PP,
    DIMENSION_PIECES,
    DIMENSION_MICRO_BATCH,
    DIMENSION_SHARD,
    DIMENSION_RECOMPUTE,
    DIMENSION_COUNT
};
const char *dimension_name(enum dimension dimension); /* "micro-batch" */

struct trial {
    struct degrees degrees;
    int64_t iteration_ns;
    int64_t peak_bytes, limit_bytes; /* of the fullest stage */
    int32_t stage;                   /* which that is */
    bool fits;
};
int64_t trial_value(const struct trial *trial, enum dimension dimension);
/* "tp 8, pp 2, dp 4, micro-batch 2, zero 1, recompute full"; ones and nones are left out. */
const char *trial_text(struct arena *keep, const struct trial *trial);

struct progress {
    int64_t done, all; /* layouts */
    int64_t trials;
    int64_t best_ns; /* 0: nothing fits so far */
};

struct plan_request {
    const struct model *model;
    const struct cluster *cluster;
    struct degrees
        pins; /* what is not 0, or has_ says it was given, stays; global_batch is needed */
    const char *profile; /* a database before the shipped ones, NULL: none */
    atomic_bool *stop;   /* I3; NULL: nobody stops it */
    /* Called for every trial; NULL: nobody looks. */
    void (*progress)(void *context, const struct progress *progress);
    void *context;
};

struct planned {
    struct arena *arena; /* owns everything below, and itself */
    const char *planner;
    ARRAY(struct trial) trials; /* in the order of I2, what does not fit behind what does */
    bool stopped;
    double search_s;
};

struct planner {
    const char *name;
    const char *summary;
    weft_status (*find)(const struct plan_request *request, struct planned *out);
};
size_t planners(const struct planner **out);
const struct planner *planner_find(const char *name); /* NULL if unknown */
/* Asks one planner. WEFT_NO_ANSWER when nothing can be planned at all; that nothing fits is said by
 * the first trial. */
weft_status plan_search(const struct planner *planner, const struct plan_request *request,
                        struct planned **out);
void planned_free(struct planned *planned);

/* The best trial with another value in this dimension, fitting if any does; NULL: none was tried. */
const struct trial *next_best(const struct planned *planned, enum dimension dimension);

/* ---- for planners ---------------------------------------------------------------------------- */

/* Simulates one choice of degrees and remembers it; *trial is valid until the next. Degrees that
 * make no plan are no error: *trial is NULL. */
weft_status try_degrees(const struct plan_request *request, struct cost *cost,
                        const struct degrees *degrees, struct planned *planned,
                        const struct trial **trial);

weft_status megatron_find(const struct plan_request *request, struct planned *out);

#endif
