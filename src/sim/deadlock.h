/* deadlock.h - which tasks wait for each other. */
#ifndef WEFT_SIM_DEADLOCK_H
#define WEFT_SIM_DEADLOCK_H

#include "sim/engine.h"

/* The error of a graph that stopped with pending tasks: names a cycle of them, found by walking
 * back from one that is stuck. */
weft_status deadlock(const struct engine_graph *graph, const struct engine_result *result,
                     const int32_t *pending);

#endif
