/* spans.c - a recurrence gone through backwards (see spans.h). */
#include "run/kernels/cpu/spans.h"

#include <string.h>

#include "base/base.h"

int64_t spans_floats(int64_t seq, int64_t floats)
{
    return (ceil_div(seq, SPAN) + SPAN + 1) * floats;
}

static void mark_starts(const struct spans *s)
{
    memset(s->room, 0, (size_t)s->floats * sizeof *s->room);
    for (int64_t span = 0; (span + 1) * SPAN < s->seq; span++) {
        const float *now = s->room + span * s->floats;
        float *next = s->room + (span + 1) * s->floats;
        for (int64_t t = span * SPAN; t < (span + 1) * SPAN; t++, now = next)
            s->advance(s->walker, t, now, next);
    }
}

void spans_back(const struct spans *s)
{
    float *states = s->room + ceil_div(s->seq, SPAN) * s->floats;
    mark_starts(s);
    for (int64_t span = ceil_div(s->seq, SPAN) - 1; span >= 0; span--) { /* I1 */
        int64_t first = span * SPAN, end = first + SPAN < s->seq ? first + SPAN : s->seq;
        memcpy(states, s->room + span * s->floats, (size_t)s->floats * sizeof *states);
        for (int64_t t = first; t < end; t++)
            s->advance(s->walker, t, states + (t - first) * s->floats,
                       states + (t - first + 1) * s->floats);
        for (int64_t t = end - 1; t >= first; t--)
            s->back(s->walker, t, states + (t - first) * s->floats,
                    states + (t - first + 1) * s->floats);
    }
}
