/* prediction.h - the views of a prediction, through which every command shows one: a simulated plan, compared
 * plans, or the best plan of a search.
 *
 *   I1  The same prediction gives the same bytes: measured wall-clock times are in none of the texts,
 *       only in the JSON's wall_s, compile_s and simulate_s.
 *   I2  Numbers that are shown with their sum are rounded so that they add up to it.
 *   I3  A stage needs what plan.h, (1) says, and there is one verdict on that.
 */
#ifndef WEFT_REPORT_PREDICTION_H
#define WEFT_REPORT_PREDICTION_H

#include <stdio.h>

#include <jansson.h>

#include "sim/sim.h"

/* prediction_text.c: the whole prediction for people. */
void prediction_print(struct arena *scratch, const struct prediction *prediction, FILE *out);
/* The purposes of a stage's time, in the order in which a breakdown lists them. */
extern const int BREAKDOWN[TIME_COUNT];
/* How long it took to compile and to simulate, in one line. */
const char *wall_clock_text(struct arena *keep, const struct prediction *prediction);

/* prediction_stages.c: time and memory of the stages, with bars. */
/* Where devices are of several types (prediction_pools.c): what each computes, and in words which are the slower; else
 * nothing and NULL. */
void pools_print(struct arena *scratch, const struct prediction *prediction, FILE *out);
json_t *pools_json(const struct prediction *prediction);
const char *slower_pool_words(struct arena *keep, const struct plan *plan);
int32_t slowest_pool(const struct plan *plan);
void stage_times_print(struct arena *scratch, const struct prediction *prediction, FILE *out);
void stage_memory_print(struct arena *scratch, const struct prediction *prediction, FILE *out);

/* prediction_text.c: prints a text at most REPORT_COLUMNS wide, broken at blanks; all lines after the first are
 * indented by the width of the label. */
void print_wrapped(struct arena *scratch, const char *label, const char *text, FILE *out);

/* prediction_timeline.c: what each stage does at what time, in one line of at most `columns` per stage. */
void timeline_print(struct arena *scratch, const struct prediction *prediction, int columns,
                    FILE *out);

/* prediction_fit.c (I3). */
int32_t fullest_stage(const struct prediction *prediction);
/* One line that begins with "fits:" or "does not fit:". */
const char *memory_verdict(struct arena *keep, const struct prediction *prediction);
/* If the plan does not fit: WEFT_NO_ANSWER, with the stage, the memory that is missing, and what would help. */
weft_status must_fit(struct arena *scratch, const struct prediction *prediction);

/* prediction_json.c */
json_t *prediction_json(const struct prediction *prediction);

#endif
