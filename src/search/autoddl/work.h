/* work.h - inside assign: how much of a search may be done, counted and not timed, so that the answer is the same on every
 * machine.
 *
 *   A step looks at one entry of an edge or at one option of a variable: about a nanosecond.
 */
#ifndef WEFT_SEARCH_AUTODDL_WORK_H
#define WEFT_SEARCH_AUTODDL_WORK_H

#include "base/base.h"

struct assign_work {
    const struct stop *stop; /* NULL: nobody asks it to stop */
    double done, most;       /* steps; most 0: no bound */
};

static inline void work_add(struct assign_work *work, double steps)
{
    work->done += steps;
}
/* Whether the bound is reached. */
static inline bool work_spent(const struct assign_work *work)
{
    return work->most > 0 && work->done >= work->most;
}
/* Whether a search has to end: its answer is the best so far. */
static inline bool work_over(const struct assign_work *work)
{
    return work_spent(work) || stop_now(work->stop);
}

#endif
