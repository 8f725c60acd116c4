/* estimate.h - how long a plan takes and what memory it needs, without simulating it.
 *
 *   candidate.h  the question and its answer: what every planner asks
 *   tables.h     what a run of instances takes on a stage, found once per row of choices
 *   estimator.h  what plans' and candidates' estimates share
 *   estimators.h estimators by their settings, which searches keep for each other
 *   places.h     which places between instances are alike
 *   counted.h    memory by another system's count
 *   floor.h      a bound for few samples from the passes of many
 */
#ifndef WEFT_SEARCH_ESTIMATE_H
#define WEFT_SEARCH_ESTIMATE_H

#include "search/estimate/candidate.h"
#include "search/estimate/counted.h"
#include "search/estimate/estimator.h"
#include "search/estimate/estimators.h"
#include "search/estimate/floor.h"
#include "search/estimate/places.h"
#include "search/estimate/tables.h"

#endif
