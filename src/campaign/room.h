/* room.h - what the files of this room share. Private to it. */
#ifndef WEFT_CAMPAIGN_ROOM_H
#define WEFT_CAMPAIGN_ROOM_H

#include "campaign/campaign.h"

/* How fast a course runs in the mean, and what it waits for. */
struct mean_pace {
    double factor;        /* by which computing takes longer: jitter, stragglers, a node less */
    double losses_per_s;  /* nodes that go into repair while it computes */
    double wait_s;        /* of a loss, in the mean, for a node */
    double returns_per_s; /* planned restarts because a node came back */
};
struct mean_pace mean_pace_of(const struct course *course);

#endif
