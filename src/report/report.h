/* report.h - answers for people and for programs: tables, plans, predictions and comparisons, in words and as
 * JSON. */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include <stdio.h>

#include <jansson.h>

#include "report/catalog.h"
#include "report/checked.h"
#include "report/comparison.h"
#include "report/exported.h"
#include "report/gains.h"
#include "report/measured.h"
#include "report/page.h"
#include "report/planned.h"
#include "report/prediction.h"

enum { REPORT_COLUMNS = 100 };

/* A table of text cells with a header line. Columns are as wide as their widest cell, in terminal
 * columns rather than bytes. A table wider than REPORT_COLUMNS is narrowed at its widest column of
 * text, and at the widest column of all once every text is down to a readable minimum; a cell that is
 * cut ends in an ellipsis. */
enum align { ALIGN_LEFT, ALIGN_RIGHT };

struct table;
struct table *table_new(struct arena *arena, size_t columns, const char *const *headers,
                        const enum align *aligns);
/* Adds the next cell, row by row. The text is copied; a character that a terminal would obey instead of
 * showing it (control characters, broken UTF-8) becomes a question mark. */
void table_cell(struct table *table, const char *fmt, ...) PRINTF_LIKE(2, 3);
void table_rule(struct table *table); /* a line before the next row */
void table_print(const struct table *whole, FILE *out);

/* How many terminal columns this UTF-8 text takes. */
size_t text_columns(const char *text);

/* ---- words ----------------------------------------------------------------------------------- */

/* Prints four lines and an empty one: the model and its cluster, the steps, the schedule, and what overlaps. */
void plan_heading(struct arena *scratch, const struct plan *plan, FILE *out);
/* The second and third line of the heading. */
const char *plan_batches(struct arena *keep, const struct plan *plan);
const char *plan_order(struct arena *keep, const struct plan *plan);
const char *number_range(struct arena *keep, int64_t first, int64_t count); /* "8-15", "3" */

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A whole number as a JSON integer, or as a JSON real beyond the range in which a double is exact. */
json_t *json_whole(double value);
/* A text from outside; bytes that are not UTF-8 become question marks. */
json_t *json_text(const char *text);

#endif
