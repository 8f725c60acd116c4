/* lists.h - lists of slots while they are checked; inside schedule. */
#ifndef WEFT_SCHEDULE_LISTS_H
#define WEFT_SCHEDULE_LISTS_H

#include "schedule/schedule.h"

/* What has come of every piece and micro-batch of every stage so far. */
struct list_states {
    struct pipeline pipeline;
    uint8_t *state; /* by stage, piece and micro-batch */
};
struct list_states list_states_new(struct arena *scratch, const struct pipeline *pipeline);
/* Counts a slot; what is wrong with it, in words, or NULL. */
const char *list_states_take(struct list_states *states, int32_t stage, struct slot slot);

/* Whether the lists are of this shape. */
weft_status lists_suit(const struct schedule *schedule, const struct pipeline *pipeline);
int64_t lists_in_flight(const struct slots *slots);

#endif
