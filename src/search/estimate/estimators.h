/* estimators.h - estimators that the searches of one thread keep for each other: what one walk over the grid has found
 * of a layout, the next one finds in its tables.
 *
 *   I1  Estimators with the same settings are one; memory terms are among them, although no table depends on them.
 *   I2  All of it serves one thread, as each estimator does (candidate.h, I2).
 */
#ifndef WEFT_SEARCH_ESTIMATE_ESTIMATORS_H
#define WEFT_SEARCH_ESTIMATE_ESTIMATORS_H

#include "search/estimate/candidate.h"

struct estimators;
struct estimators *estimators_new(void);
void estimators_free(struct estimators *estimators); /* and all estimators in it; NULL: nothing */
/* The estimator with these settings, which is made where there is none. */
weft_status estimators_find(struct estimators *estimators, const struct estimate_settings *settings,
                            struct estimator **out);

#endif
