/* report.h - answers for people and programs: tables, plans and predictions in words and as JSON,
 * comparisons. */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include <stdio.h>

#include <jansson.h>

#include "report/comparison.h"
#include "report/measured.h"
#include "report/page.h"
#include "report/planned.h"
#include "report/prediction.h"

enum { REPORT_COLUMNS = 100 };

/* A table of text cells with a header line. Columns are as wide as their widest cell, in terminal
 * columns rather than bytes. A table wider than REPORT_COLUMNS takes the excess from its widest
 * column of text, and from the widest of all once every text is down to a readable minimum; a cell
 * that is cut ends in an ellipsis. */
enum align { ALIGN_LEFT, ALIGN_RIGHT };

struct table;
struct table *table_new(struct arena *arena, size_t columns, const char *const *headers,
                        const enum align *aligns);
/* One cell after the other, row by row. The text is copied; what a terminal would obey rather than
 * show (control characters, broken UTF-8) becomes a question mark. */
void table_cell(struct table *table, const char *fmt, ...) PRINTF_LIKE(2, 3);
void table_rule(struct table *table); /* a line before the next row */
void table_print(const struct table *table, FILE *out);

/* Terminal columns that this UTF-8 text takes. */
size_t text_columns(const char *text);

/* ---- words ----------------------------------------------------------------------------------- */

/* Four lines and an empty one: what is laid over what, in which steps, in which order, what overlaps. */
void plan_heading(struct arena *scratch, const struct plan *plan, FILE *out);
/* The second and the third of them. */
const char *plan_batches(struct arena *keep, const struct plan *plan);
const char *plan_order(struct arena *keep, const struct plan *plan);
const char *number_range(struct arena *keep, int64_t first, int64_t count); /* "8-15", "3" */

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A count that is whole: an integer as far as a double is exact, a real beyond. */
json_t *json_whole(double value);
/* A text that came from outside: bytes that are no UTF-8 become question marks. */
json_t *json_text(const char *text);

#endif
