/* step_time.h - how long a collective takes that all groups of a stage run at the same time, as the
 * simulator computes it (sim/flows.h), one step at a time and remembered.
 *
 *   time = max(T(bytes), T(1) + bytes * s)                                                     (1)
 *
 * with T the collective_time of one group alone, and s the seconds per byte when the groups share
 * each other's links: flows.h (4) for a message so large that nothing else counts.
 *
 *   I1  A step is identified by its collective, its digits and its bytes: stages of one size that
 *       begin at a node's first device have equal times.
 */
#ifndef WEFT_SEARCH_AUTODDL_STEP_TIME_H
#define WEFT_SEARCH_AUTODDL_STEP_TIME_H

#include "sim/sim.h"

struct step_times;
/* For a stage of this many devices that starts at device 0. */
struct step_times *step_times_new(struct arena *keep, const struct cluster *cluster,
                                  int64_t devices);
/* For the same stage with other steps: shares what collectives of the same groups have in common with `other`, which
 * one thread uses at a time. */
struct step_times *step_times_beside(struct arena *keep, struct step_times *other);

/* In ns. A step that cannot be timed marks the table as bad, and takes 0. */
double step_time(struct step_times *times, enum collective collective,
                 const struct step_groups *groups, int64_t bytes);
/* The time of a reshard within the stage; slices are free. */
double reshard_time(struct step_times *times, const struct reshard *reshard, int64_t element_bytes);
weft_status step_times_status(const struct step_times *times);

#endif
