/* estimated.h - the estimate of a plan; whatever fails, fails the test. */
#ifndef ESTIMATED_H
#define ESTIMATED_H

#include "search/estimate/candidate.h"

/* Its stages are in `keep`. */
static inline struct estimate estimate_of(struct arena *keep, const struct plan *plan)
{
    struct estimate_settings settings = estimate_settings_of(plan);
    struct estimator *estimator;
    struct estimate out;
    assert_int_equal(estimator_new(&settings, &estimator), WEFT_OK);
    assert_int_equal(estimate_plan(estimator, plan, keep, &out), WEFT_OK);
    estimator_free(estimator);
    return out;
}

#endif
