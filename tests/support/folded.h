/* folded.h - a plan's prediction, folded or not; whatever fails, fails the test. */
#ifndef FOLDED_H
#define FOLDED_H

#include "sim/sim.h"

static inline struct prediction *predict(const struct plan *plan, enum fold fold)
{
    struct prediction *prediction = NULL;
    if (simulate(plan, &(struct simulate_options){.fold = fold}, &prediction) != WEFT_OK)
        fail_msg("%s, %s: %s", plan->model->name, plan->schedule, weft_last_error()->message);
    return prediction;
}

/* The plan's iteration with another overlap, which it keeps. */
static inline int64_t iteration_with(struct plan *plan, unsigned overlap)
{
    plan->overlap = overlap;
    struct prediction *prediction = predict(plan, FOLD_AUTO);
    int64_t ns = prediction->iteration_ns;
    prediction_free(prediction);
    return ns;
}

#endif
