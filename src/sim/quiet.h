/* quiet.h - work that no transfer can slow down, known before anything runs.
 *
 * Seen from a stream s of device d's work, a transfer that touches d runs within
 *
 *   lo = the last place of s that it, or what is before it on its own stream, waits for
 *   hi = the first place of s that waits for it, or for what is after it on its own stream
 *   after lo is over and before hi starts                                                     (1)
 *
 * Work of s between the two may meet it. Work that lies in no such window is *quiet*: it takes the
 * same time as alone, whatever else happens (engine.h, I5).
 *
 *   I1  Only the transfers' own dependencies count, not those of the tasks they depend on: a window
 *       may be wider than necessary, never narrower.
 */
#ifndef WEFT_SIM_QUIET_H
#define WEFT_SIM_QUIET_H

#include "sim/engine.h"

/* The streams of each device, row by row. */
struct streams_of {
    const int64_t *first;
    const int32_t *stream;
};
/* Per task, whether it is quiet; for a graph with interference. `place` is engine_result's. */
bool *find_quiet(struct arena *keep, const struct engine_graph *graph, const int32_t *place,
                 const struct streams_of *streams);

#endif
