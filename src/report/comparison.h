/* comparison.h - plans side by side.
 *
 *   I1  A row that makes no plan, or finds none, keeps its reason; the others are compared all the same.
 *   I2  Rows are compared with those of the same model: where models are an axis, each has its best.
 */
#ifndef WEFT_REPORT_COMPARISON_H
#define WEFT_REPORT_COMPARISON_H

#include <stdio.h>

#include <jansson.h>

#include "sim/sim.h"

/* One plan: what sets it apart, and what became of it. */
struct compared {
    const char **label; /* per column of labels */
    const char *error;  /* I1; NULL: predicted */
    const char *found;  /* what a planner chose, in words; NULL: none was asked */
    json_t *prediction; /* its fields of `weft simulate --json` */
    double iteration_s, samples_per_s, tflops_per_device;
    double
        cost; /* of a million tokens (samples where a sample is one token); 0: no price is known */
    int64_t peak_bytes, limit_bytes;
    bool fits;
    int64_t time_ns[TIME_COUNT]; /* of the busiest stage */
};
struct comparison {
    struct arena *arena;
    const char **header; /* of the labels */
    size_t labels;
    ARRAY(struct compared) rows;
    const char *unit; /* what `cost` is per: "M tokens" */
};

/* Fills in all but the labels. */
void compared_from(const struct prediction *prediction, struct compared *out);

void comparison_print(const struct comparison *comparison, FILE *out);
json_t *comparison_json(const struct comparison *comparison);

#endif
