/* titan_schedules.c - torchtitan's words for schedules (titan.h). */
#include <string.h>

#include "exchange/titan.h"

static const struct {
    const char *ours, *theirs;
} SCHEDULES[] = {{"1f1b", "1F1B"}, {"interleaved", "Interleaved1F1B"}, {"gpipe", "GPipe"}};

const char *titan_schedule(const char *ours)
{
    for (size_t i = 0; i < COUNT_OF(SCHEDULES); i++)
        if (strcmp(SCHEDULES[i].ours, ours) == 0)
            return SCHEDULES[i].theirs;
    return NULL;
}

/* torchtitan/distributed/pipeline_parallel.py: the schedule's name says where parts go, also where a CSV says the order. */
const char *titan_placement(int64_t pieces, bool zigzag)
{
    return zigzag ? "ZBVZeroBubble" : pieces > 1 ? "Interleaved1F1B" : "1F1B";
}

const char *titan_schedule_ours(const char *theirs)
{
    for (size_t i = 0; i < COUNT_OF(SCHEDULES); i++)
        if (strcmp(SCHEDULES[i].theirs, theirs) == 0)
            return SCHEDULES[i].ours;
    return NULL;
}
