/* sampling.h - a median of measured times, and how well it is known; private to the room.
 *
 * Of n samples, whatever they are distributed like, n / 2 +- sqrt(n) / 2 lie below the true median
 * (binomial, one standard deviation). What lies between the samples of those ranks is therefore what
 * the median is known to:
 *
 *   error = (x[high] - x[low]) / (2 median),  low, high = (n - 1) / 2 -+ sqrt(n) / 2, outwards     (1)
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
};

struct sampling sampling_new(struct arena *keep, int64_t most);
void sampling_add(struct sampling *samples, double seconds);
struct spread spread_of(struct sampling *samples); /* of at least one */

#endif
