/* work_times.h - what a device takes for work, kept for the next time that the same is asked: a search asks for the same few
 * products again and again.
 *
 *   I1  It never grows: work takes the place of other work with its hash, which is found anew when it is asked for.
 *   I2  It changes no answer: whoever asks gets what was kept for exactly this work.
 *   I3  Any number of threads may ask.
 */
#ifndef WEFT_COST_WORK_TIMES_H
#define WEFT_COST_WORK_TIMES_H

#include "cost/cost.h"

struct work_times;
struct work_times *work_times_new(struct arena *keep);
/* False: it is not known. */
bool work_times_find(struct work_times *times, const struct work *work, struct kernel_cost *out);
void work_times_keep(struct work_times *times, const struct work *work,
                     const struct kernel_cost *cost);

#endif
