/* autoddl.h - the planner "autoddl": a split for every operator, with partial sums (AutoDDL), and its
 * parts.
 *
 *   splits          every way to lay one operator over a stage's devices (section 4.2)
 *   assign          one option per variable, with costs of pairs: AutoDDL's searches and an exact one
 *   layout_problem  operators and their splits as such an assignment
 */
#ifndef WEFT_SEARCH_AUTODDL_H
#define WEFT_SEARCH_AUTODDL_H

#include "search/autoddl/assign.h"
#include "search/autoddl/layout_problem.h"
#include "search/autoddl/splits.h"
#include "search/planner/planner.h"

weft_status autoddl_find(const struct plan_request *request, struct planned *out);

#endif
