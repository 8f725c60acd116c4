/* stop.h - when long work should end with what it has: because somebody asks, or at a deadline.
 *
 *   I1  Long work calls stop_now at least every tenth of a second. What is unfinished at that point
 *       is left out of the answer, never treated as finished.
 */
#ifndef WEFT_BASE_STOP_H
#define WEFT_BASE_STOP_H

#include <stdatomic.h>

struct stop {
    const atomic_bool *asked; /* set when somebody asks to stop; NULL: nobody can */
    double deadline_s;        /* in terms of wall_seconds; 0: none */
};
/* A `stop` of NULL never stops. */
static inline bool stop_now(const struct stop *stop)
{
    return stop && ((stop->asked && atomic_load_explicit(stop->asked, memory_order_relaxed)) ||
                    (stop->deadline_s > 0 && wall_seconds() > stop->deadline_s));
}
/* The status of work that was stopped without any result. */
static inline weft_status stop_status(void)
{
    return no_answer(NULL, "it was stopped");
}

#endif
