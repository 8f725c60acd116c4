/* aceso.h - the planner "aceso": iterative bottleneck alleviation (Aceso, sections 3 and 4). */
#ifndef WEFT_SEARCH_ACESO_H
#define WEFT_SEARCH_ACESO_H

#include "search/planner/planner.h"

/* Parts that a config may have: stages times pieces. */
enum { ACESO_MOST_PARTS = 128 };

weft_status aceso_find(const struct plan_request *request, struct planned *out);

#endif
