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
/* What other hardware would bring; changes that bring nothing are one line. */
void what_ifs_print(struct arena *scratch, const struct what_ifs *what_ifs, int64_t iteration_ns,
                    FILE *out);
json_t *what_ifs_json(const struct what_ifs *what_ifs);
/* The prediction's fields, and the search's beside them; `text` is the plan as its file. */
json_t *planned_json(struct arena *scratch, const struct planned *planned,
                     const struct prediction *prediction, const char *text, int64_t top);

/* The best plan for each framework and what it costs beside the answer. */
void for_targets_print(struct arena *scratch, const struct for_targets *rows, int64_t iteration_ns,
                       FILE *out);
json_t *for_targets_json(const struct for_targets *rows);

#endif
