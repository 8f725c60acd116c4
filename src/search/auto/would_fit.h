/* would_fit.h - what to change when nothing fits: the first change, cheapest first, that makes a plan
 * fit.
 *
 *   I1  Changes are tried one on top of the other, by estimate, and simulated before they are
 *       named; more devices are tried with the original request.
 */
#ifndef WEFT_SEARCH_AUTO_WOULD_FIT_H
#define WEFT_SEARCH_AUTO_WOULD_FIT_H

#include "search/planner/planner.h"

/* A sentence in `keep`; NULL: the search was stopped. */
weft_status would_fit(const struct plan_request *request, struct cost *cost, struct arena *keep,
                      const char **out);

#endif
