/* pins.h - inside planner: what a request pins: checks it, and explains pins that leave no plan. */
#ifndef WEFT_SEARCH_AUTO_PINS_H
#define WEFT_SEARCH_AUTO_PINS_H

#include "search/planner/planner.h"

/* Before a search: refuses pins that no plan of this model can have, whichever planner searches. */
weft_status pins_check(const struct plan_request *request);
/* After a search that found nothing: WEFT_NO_ANSWER, with the pins and the values that would work;
 * WEFT_OK if the pins are not the reason. */
weft_status pins_refuse(const struct plan_request *request);
/* The target that is asked for; without one, that whose software is pinned; NULL: none. */
const struct target *pins_target(const struct plan_request *request);

#endif
