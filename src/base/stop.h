/* stop.h - when long work ends with what it has: somebody asks for it, or a moment has come.
 *
 *   I1  Whoever works for long asks often enough that less than a tenth of a second passes in between; what is
 *       half done then is left out of the answer, never taken for done.
 */
#ifndef WEFT_BASE_STOP_H
#define WEFT_BASE_STOP_H

#include <stdatomic.h>

struct stop {
    const atomic_bool *asked; /* NULL: nobody asks */
    double deadline_s;        /* of wall_seconds; 0: none */
};
/* NULL: never. */
static inline bool stop_now(const struct stop *stop)
{
    return stop && ((stop->asked && atomic_load_explicit(stop->asked, memory_order_relaxed)) ||
                    (stop->deadline_s > 0 && wall_seconds() > stop->deadline_s));
}
/* What stopped work returns that has nothing to show. */
static inline weft_status stop_status(void)
{
    return no_answer(NULL, "it was stopped");
}

#endif
