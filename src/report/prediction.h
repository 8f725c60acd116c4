/* prediction.h - the views of a prediction. Whoever shows a prediction (a plan
 * simulated, plans compared, the best of a search) shows it through these.
 *
 *   I1  The same prediction gives the same bytes: what the wall clock says is in none of the texts,
 *       only in the JSON's wall_s, compile_s and simulate_s.
 *   I2  Numbers that are shown with their sum are rounded so that they add up to it.
 *   I3  A stage needs its peak. What its allocator reserves beyond the limit is a warning.
 */
#ifndef WEFT_REPORT_PREDICTION_H
#define WEFT_REPORT_PREDICTION_H

#include <stdio.h>

#include <jansson.h>

#include "sim/sim.h"

/* prediction_text.c: all that people are told. */
struct text32 show_seconds(double ns); /* show_duration, but a minute is "60.0 s" */
void prediction_print(struct arena *scratch, const struct prediction *prediction, FILE *out);
/* The purposes of a stage's time in the order of a breakdown. */
extern const int BREAKDOWN[TIME_COUNT];
/* What the wall clock says, in one line. */
const char *wall_clock_text(struct arena *keep, const struct prediction *prediction);

/* prediction_stages.c: the stages' time and memory with bars. */
void stage_times_print(struct arena *scratch, const struct prediction *prediction, FILE *out);
void stage_memory_print(struct arena *scratch, const struct prediction *prediction, FILE *out);

/* prediction_text.c: at most REPORT_COLUMNS wide; broken at blanks, further lines begin under the
 * first, after the label. */
void print_wrapped(struct arena *scratch, const char *label, const char *text, FILE *out);

/* prediction_timeline.c: who does what when, one line of at most `columns` per stage. */
void timeline_print(struct arena *scratch, const struct prediction *prediction, int columns,
                    FILE *out);

/* prediction_fit.c: I3 */
int32_t fullest_stage(const struct prediction *prediction);
/* "fits: ..." or "does not fit: ...", in one line. */
const char *memory_verdict(struct arena *keep, const struct prediction *prediction);
/* NULL: no stage that fits reserves more than it may. */
const char *reserved_warning(struct arena *keep, const struct prediction *prediction);
/* WEFT_NO_ANSWER with the stage, what is missing and what would help, if it does not fit. */
weft_status must_fit(struct arena *scratch, const struct prediction *prediction);

/* prediction_json.c */
json_t *prediction_json(const struct prediction *prediction);

#endif
