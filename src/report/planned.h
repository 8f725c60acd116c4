/* planned.h - prints what a search found, for people and for programs. */
#ifndef WEFT_REPORT_PLANNED_H
#define WEFT_REPORT_PLANNED_H

#include <stdio.h>

#include <jansson.h>

#include "search/search.h"

/* Prints the answer, the best `top` plans that were tried, how much slower the best plan with another value of each
 * dimension is, in which terms of the iteration the answer gains over the next best and the simplest, and the planner's reasons. */
void planned_print(struct arena *scratch, const struct planned *planned,
                   const struct prediction *prediction, int64_t top, FILE *out);
/* Prints what other hardware would gain; changes that gain nothing share one line. */
void what_ifs_print(struct arena *scratch, const struct what_ifs *what_ifs, int64_t iteration_ns,
                    FILE *out);
json_t *what_ifs_json(const struct what_ifs *what_ifs);
/* The fields of the prediction and those of the search; `text` is the text of the plan's file. */
json_t *planned_json(struct arena *scratch, const struct planned *planned,
                     const struct prediction *prediction, const char *text, int64_t top);

/* The best plan for each framework and what it costs beside the answer. */
void for_targets_print(struct arena *scratch, const struct for_targets *rows, int64_t iteration_ns,
                       FILE *out);
json_t *for_targets_json(const struct for_targets *rows);

#endif
