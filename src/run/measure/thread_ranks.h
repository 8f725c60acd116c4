/* thread_ranks.h - ranks that are threads of this process, for a measurement; private to the room. */
#ifndef WEFT_RUN_MEASURE_THREAD_RANKS_H
#define WEFT_RUN_MEASURE_THREAD_RANKS_H

#include "run/transport/transport.h"

/* What every rank does, all at once; `arena` is this rank's own, and freed at the end. */
typedef weft_status rank_measurement(void *context, struct transport *transport,
                                     struct arena *arena);
weft_status on_thread_ranks(int32_t ranks, rank_measurement *measure, void *context);

#endif
