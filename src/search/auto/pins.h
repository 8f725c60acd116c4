/* pins.h - inside planner: what a request pins, where nothing can be planned with it. */
#ifndef WEFT_SEARCH_AUTO_PINS_H
#define WEFT_SEARCH_AUTO_PINS_H

#include "search/planner/planner.h"

/* Before a search: what no plan of this model can have, whoever searches. */
weft_status pins_check(const struct plan_request *request);
/* After a search that found nothing: WEFT_NO_ANSWER, with the pins and the values that would do. WEFT_OK: it
 * is not for the pins. */
weft_status pins_refuse(const struct plan_request *request);

#endif
