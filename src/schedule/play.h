/* play.h - when each slot of each stage begins and ends, for whoever draws or adds it up. */
#ifndef WEFT_SCHEDULE_PLAY_H
#define WEFT_SCHEDULE_PLAY_H

#include "schedule/schedule.h"

struct played_stage {
    struct slots slots;
    int64_t *start_ns, *end_ns; /* by position in slots */
    size_t done;                /* slots executed so far */
};

struct played {
    struct played_stage *stage;
    int64_t iteration_ns;
};

weft_status play(struct arena *keep, const struct schedule *schedule,
                 const struct pipeline *pipeline, const struct pipeline_times *times,
                 struct played *out);

#endif
