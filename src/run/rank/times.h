/* times.h - when tasks ran; private to the room. */
#ifndef WEFT_RUN_RANK_TIMES_H
#define WEFT_RUN_RANK_TIMES_H

#include "run/rank/room.h"

void task_begins(struct rank *r, struct job *job);
void task_ends(struct rank *r, struct job *job); /* under the rank's lock */
/* Of copies beside computation, after task_begins and before task_ends: from here, and until here, of their stream. */
void copies_begin_at(struct rank *r, struct job *job, struct device_stream *stream);
void copies_end_at(struct rank *r, struct job *job, struct device_stream *stream);
void times_resolve(struct rank *r); /* when the device has done all of an iteration */
void times_free(struct rank *r);

#endif
