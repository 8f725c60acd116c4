/* record.h - what happened on all ranks, as one trace; private to the room. */
#ifndef WEFT_RUN_RECORD_H
#define WEFT_RUN_RECORD_H

#include "run/council.h"
#include "run/run.h"

/* All ranks call; rank 0 writes, and its error is that of all. */
weft_status record_write(struct rank *rank, const struct council *council, const char *path);

#endif
