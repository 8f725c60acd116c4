/* planned.h - what a search found, for people and for programs. */
#ifndef WEFT_REPORT_PLANNED_H
#define WEFT_REPORT_PLANNED_H

#include <stdio.h>

#include <jansson.h>

#include "search/search.h"

/* The answer, the best `top` plans tried, what each dimension's next best value would have cost, and
 * the planner's reasons. */
void planned_print(struct arena *scratch, const struct planned *planned,
                   const struct prediction *prediction, int64_t top, FILE *out);
/* The prediction's fields, and the search's beside them; `text` is the plan as its file. */
json_t *planned_json(struct arena *scratch, const struct planned *planned,
                     const struct prediction *prediction, const char *text, int64_t top);

#endif
