/* sampling.h - what measured times are in the middle and what they add up to; private to the room.
 *
 * Of n samples, whatever they are distributed like, n / 2 +- sqrt(n) / 2 lie below the true median
 * (binomial, one standard deviation). What lies between the samples of those ranks is therefore what
 * the median is known to:
 *
 *   error = (x[high] - x[low]) / (2 median),  low, high = (n - 1) / 2 -+ sqrt(n) / 2, outwards     (1)
 *
 * A step takes as long as its kernels together, and many samples add up to their mean, not to their median. Other programs on the
 * same processor, also those of other virtual machines, make some samples longer and none shorter. One that is at work on the other
 * thread of a core takes half of it; what takes more than twice the median is an accident that a step seldom meets, and counts as
 * twice the median:
 *
 *   expected = mean over i of min(x[i], 2 median)                                                   (2)
 *
 *   I1  An error is never below 1 ns over the median: clocks do not tell more.
 */
#ifndef WEFT_RUN_MEASURE_SAMPLING_H
#define WEFT_RUN_MEASURE_SAMPLING_H

#include "base/base.h"

struct sampling {
    double *ns; /* sorted by spread_of */
    int64_t count, room;
};
struct spread {
    double median_ns, error; /* (1) */
    double expected_ns;      /* (2) */
};

struct sampling sampling_new(struct arena *keep, int64_t most);
void sampling_add(struct sampling *samples, double seconds);
struct spread spread_of(struct sampling *samples); /* of at least one */

/* What this thread has waited for a core so far, as Linux counts it; 0 where it does not. */
double core_wait_seconds(void);

#endif
