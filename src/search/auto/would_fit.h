/* would_fit.h - what to change when nothing fits: the first change, cheapest first, with which
 * something does.
 *
 *   I1  A change is tried on top of those before it, by estimate, and simulated before it is named;
 *       more devices are tried with the question as it was.
 */
#ifndef WEFT_SEARCH_AUTO_WOULD_FIT_H
#define WEFT_SEARCH_AUTO_WOULD_FIT_H

#include "search/planner/planner.h"

/* A sentence in `keep`; NULL: stopped on the way. */
weft_status would_fit(const struct plan_request *request, struct cost *cost, struct arena *keep,
                      const char **out);

#endif
