/* record.h - what happened on all ranks, as one trace. */
#ifndef WEFT_RUN_RANK_RECORD_H
#define WEFT_RUN_RANK_RECORD_H

#include "run/transport/transport.h"

struct rank;

/* All ranks call; rank 0 writes, and its error is that of all. */
weft_status record_write(struct rank *rank, const struct rank_agreement *agreement,
                         const char *path);

#endif
