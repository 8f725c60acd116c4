/* titan.h - torchtitan's words, for its exports and imports. Inside this room only. */
#ifndef WEFT_EXCHANGE_TITAN_H
#define WEFT_EXCHANGE_TITAN_H

#include "exchange/room.h"

/* Its words for schedules, those of torch.distributed.pipelining; NULL: none. */
const char *titan_schedule(const char *ours);
/* The schedule whose placement an order of its own has, by whether pieces are several and lie in a zigzag. */
const char *titan_placement(int64_t pieces, bool zigzag);
const char *titan_schedule_ours(const char *theirs);

#endif
