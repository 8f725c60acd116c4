/* comparison.h - several plans next to each other.
 *
 *   I1  A row for which no plan could be made or found keeps the reason; the other rows are still compared.
 *   I2  Rows are compared only with rows of the same model, so that each model has its own best.
 *   I3  The best has the most samples per second; where rows that are compared have samples of unlike length, the most tokens.
 */
#ifndef WEFT_REPORT_COMPARISON_H
#define WEFT_REPORT_COMPARISON_H

#include <stdio.h>

#include <jansson.h>

#include "sim/sim.h"

/* One plan: the labels that distinguish it, and its result. */
struct compared {
    const char **label; /* per column of labels */
    const char *error;  /* why there is no plan (I1); NULL if it was predicted */
    const char *found;  /* what a planner chose, in words; NULL if none was asked */
    json_t *prediction; /* the fields that `weft simulate --json` would print */
    double iteration_s, samples_per_s, tokens_per_s, tflops_per_device;
    int64_t sample_tokens;
    double cost; /* per million tokens (samples if these are one token); 0 without a price */
    int64_t needed_bytes, limit_bytes; /* on the fullest stage */
    bool fits;
    int64_t time_ns[TIME_COUNT]; /* on the busiest stage */
};
struct comparison {
    struct arena *arena;
    const char **header; /* the columns of labels */
    size_t labels;
    ARRAY(struct compared) rows;
    const char *unit; /* what `cost` is per: "M tokens" */
    bool by_tokens;   /* filled in where it is told (I3) */
};

/* Fills in everything except the labels. */
void compared_from(const struct prediction *prediction, struct compared *out);

void comparison_print(const struct comparison *rows, FILE *out);
json_t *comparison_json(const struct comparison *compared);

#endif
