/* spans.h - a recurrence gone through backwards, for kernels that pass a state from position to position.
 *
 *   I1  Only the states at the start of every SPAN positions are held; those of a span are made again from there when
 *       the way back comes to it.
 */
#ifndef WEFT_RUN_KERNELS_CPU_SPANS_H
#define WEFT_RUN_KERNELS_CPU_SPANS_H

#include <stdint.h>

enum { SPAN = 64 };

struct spans {
    int64_t seq, floats; /* positions; of one state */
    float *room;         /* spans_floats of them */
    void *walker;        /* given to both functions */
    /* The state after position t from the one before it, which may be the same place. */
    void (*advance)(void *walker, int64_t t, const float *before, float *after);
    void (*back)(void *walker, int64_t t, const float *before, const float *after);
};

int64_t spans_floats(int64_t seq, int64_t floats);
/* Calls `back` for every position, from the last to the first. The first state is zero. */
void spans_back(const struct spans *s);

#endif
