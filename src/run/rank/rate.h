/* rate.h - the learning rate of each step, and how far gradients are scaled back.
 *
 * With warm-up over w steps, n steps in all, and s counted from 0:
 *
 *   s < w    rate = peak * (s + 1) / w                                                          (1)
 *   s >= w   t = min(1, (s - w) / (n - w)),  rate = least + (peak - least) * shape(t)           (2)
 *            shape: constant 1, linear 1 - t, cosine (1 + cos(pi * t)) / 2
 *
 *   I1  The rate depends on the step alone, so a resumed run continues with the same rates.
 *   I2  0 <= least <= rate <= peak after the warm-up; after step n it stays at shape(1).
 */
#ifndef WEFT_RUN_RANK_RATE_H
#define WEFT_RUN_RANK_RATE_H

#include "base/base.h"

enum rate_shape { RATE_CONSTANT, RATE_LINEAR, RATE_COSINE, RATE_SHAPE_COUNT };
const char *rate_shape_name(enum rate_shape shape);
bool rate_shape_from_name(const char *name, enum rate_shape *out);
const char *rate_shape_near(const char *name); /* the name that a misspelt one meant, or NULL */

struct rate_schedule {
    enum rate_shape shape;
    double peak, least;
    int64_t warmup, steps; /* w, n */
};
/* That (1) and (2) make sense: 0 <= least <= peak, peak above 0, w <= n. */
weft_status rate_check(const struct rate_schedule *rate);
double rate_at(const struct rate_schedule *rate, int64_t step);

/* What gradients of this norm are multiplied with so that it is at most `limit`; a limit of 0 or
 * less is none. A norm that is not a number gives what is not a number: the run has to end. */
double clip_factor(double norm, double limit);

#endif
