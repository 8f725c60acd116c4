/* read_ahead.h - samples of the next micro-batch, which a thread gathers while the device works on this one; private to the
 * room.
 *
 *   I1  What comes next is a guess: the same input of the micro-batch after this one, or of the first of the next step. Where
 *       something else is asked for, it is gathered then.
 *   I2  Large inputs lie in memory that the device copies from while the host goes on; there are two places of each input: one
 *       is filled while the other one is read.
 */
#ifndef WEFT_RUN_RANK_READ_AHEAD_H
#define WEFT_RUN_RANK_READ_AHEAD_H

#include "run/rank/room.h"

/* The samples of a read in the host's memory until the same input is asked for again; NULL: they are few, and are to be
 * gathered where they go. */
const void *read_ahead(struct rank *r, const struct source_read *read);
/* What comes next is gathered from now on. What was just given is not overwritten before `copied` is over, the event of the
 * device's copy of it; NULL: it was copied. */
void read_ahead_next(struct rank *r, const struct source_read *read, struct device_event *copied);
void read_ahead_free(struct rank *r);

#endif
