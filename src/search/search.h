/* search.h - finding plans: the estimate, and the planners that choose by it.
 *
 *   estimate   how long a plan or candidate takes and what it holds, without simulating it
 *   planner    what every planner is asked and answers: requests, trials, what is forbidden, what-if
 *   galvatron  layer by layer, by dynamic programming (Galvatron-BMW)
 *   autoddl    operator by operator, with partial sums (AutoDDL)
 *   aceso      bottleneck by bottleneck (Aceso)
 *   auto       every combination of degrees, and what all planners find together
 *
 * search.c has the table of planners and asks one of them. But for planners and the estimate, what is
 * here knows nothing of models or links: a planner fills plain arrays with times and bytes from any cost
 * source and reads back which entry was chosen. Nothing is global; several threads may solve different
 * problems at once.
 */
#ifndef WEFT_SEARCH_H
#define WEFT_SEARCH_H

#include "search/aceso/aceso.h"
#include "search/auto/auto.h"
#include "search/autoddl/autoddl.h"
#include "search/estimate/estimate.h"
#include "search/galvatron/galvatron.h"
#include "search/planner/planner.h"

#endif
