/* search.h - finding plans: the estimate, and the planners that choose by it.
 *
 *   estimate   how long a plan or candidate takes and how much memory it needs, without simulating it
 *   planner    what every planner is asked and answers: requests, trials, what is forbidden, what-if
 *   galvatron  layer by layer, by dynamic programming (Galvatron-BMW)
 *   autoddl    operator by operator, with partial sums (AutoDDL)
 *   aceso      bottleneck by bottleneck (Aceso)
 *   auto       every combination of degrees, and what all planners find together
 *
 * search.c holds the table of planners and asks one of them. Apart from the planners and the
 * estimate, nothing in this room knows about models or links: a planner fills plain arrays with
 * times and bytes from any cost source and reads back which entry was chosen. Nothing is global;
 * several threads may solve different problems at once.
 */
#ifndef WEFT_SEARCH_H
#define WEFT_SEARCH_H

#include "search/aceso/aceso.h"
#include "search/auto/auto.h"
#include "search/autoddl/autoddl.h"
#include "search/estimate/estimate.h"
#include "search/galvatron/galvatron.h"
#include "search/planner/planner.h"

/* ---- targets (for_each_target.c) --------------------------------------------------------------- */

/* The best plan of one framework, for a request that has an answer. */
struct for_target {
    const struct target *target;
    bool runs_it;         /* the framework runs the answer itself */
    const char *text;     /* describes its best plan; NULL: there is none, */
    const char *instead;  /* and this is why */
    int64_t iteration_ns; /* of that plan */
};
struct for_targets {
    struct for_target *data;
    size_t len, cap;
};
/* A row for the usual release of each framework, in `keep`, predicted with its own software unless the request has
 * another than the default. If a framework does not run the answer, or it does not fit there, its best plan is
 * looked for with a search of about a second. */
weft_status search_each_target(const struct plan_request *request, const struct plan *plan,
                               const struct trial *answer, struct arena *keep,
                               struct for_targets *out);

#endif
