/* sources.h - what is known about published measurements beyond the columns of their files
 * (data/validation/sources.yaml): machines, precisions, and each dataset's practice, which is what its
 * framework does. Inside this room only.
 *
 *   I1  A rule looks at how a row ran (its columns, its launch arguments), never at what was measured.
 *   I2  Names of columns are checked when the file is read, and an error has its line. Later nothing can fail.
 *   I3  Rules are applied in the order of the file. If several give a reason why no plan can express a row, the first
 *       reason stays.
 */
#ifndef WEFT_LAB_SOURCES_H
#define WEFT_LAB_SOURCES_H

#include "lab/published.h"

/* ---- a row as its file has it (columns.c) ---------------------------------------------------- */

enum run_column_kind {
    RUN_OTHER, /* used only by rules */
    RUN_TEXT,
    RUN_COUNT,  /* int64_t */
    RUN_REAL,   /* double */
    RUN_SWITCH, /* int64_t: 0 or 1 */
};
struct run_column {
    const char *name;
    enum run_column_kind kind;
    size_t offset;      /* in struct run_row */
    bool required;      /* otherwise it may be empty and is then 0 */
    double times, over; /* the unit of a real column, as a quotient; 0 stands for 1 */
};

/* A layout of files: its columns, and the texts, as in rules, that name a row. */
struct form {
    const char *name;
    const struct run_column *column;
    size_t columns;
    const char *row_name, *group; /* the group is NULL if rows are not compared */
    const char *half_by;          /* how a row ran, which decides its half */
};
const struct form *form_find(const char *name); /* NULL if there is none */

struct run_row {
    const struct form *form;
    const struct csv *csv;
    const int *at;            /* where the form's columns stand in the file */
    struct json_t *arguments; /* that it was launched with, if they are published; or NULL */
    /* NULL if the form has no such column. */
    const char *dataset, *model, *gpu, *system, *schedule, *recompute, *zero, *precision, *notes;
    int64_t layers, hidden, ffn, heads, kv_heads, seq, vocab, experts, top_k;
    int64_t devices, sequence, rank;
    int64_t tp, cp, ep, pp, pieces, segments, dp, micro_batch, micro_batches, global_batch;
    struct run_outcome measured;
};
weft_status run_row_read(const struct form *form, const struct csv *csv, const int *at,
                         struct run_row *out);
void run_row_close(struct run_row *run);

/* ---- texts and conditions of rules (rule_text.c) --------------------------------------------- */

/* Fills "{a*b/c}" and "{a|b}" in a text with the values of a row (sources.yaml). */
const char *run_row_fill(struct arena *keep, const struct run_row *run, const char *text);
bool run_row_is(struct arena *keep, const struct run_row *run,
                const struct doc *when); /* NULL if always */
/* Checks that all names in a text or condition are columns of this form. */
weft_status text_check(const struct form *form, const struct doc *node);
weft_status when_check(const struct form *form, const struct doc *when);

/* ---- rules (practice.c) ---------------------------------------------------------------------- */

struct rules {
    struct rule *data;
    size_t len, cap;
};
weft_status rules_read(struct arena *keep, const struct form *form, const struct doc *list,
                       struct rules *out);
void rules_apply(struct arena *keep, const struct rules *rules, const struct run_row *run,
                 struct published *row);

/* ---- the file (sources.c) -------------------------------------------------------------------- */

struct machine_name {
    const char *gpu;     /* as the sources call it */
    const char *cluster; /* a preset */
    int64_t devices_per_node;
    int64_t or_per_node; /* where jobs are no multiple of that; 0 if there is no other number */
};
struct machine_names {
    struct machine_name *data;
    size_t len, cap;
};
struct precision_name {
    const char *name;
    enum dtype dtype;
};

struct sources {
    int64_t vocabulary_multiple;
    struct machine_names machines; /* for datasets without their own */
    ARRAY(struct precision_name) precisions;
    ARRAY(struct dataset) datasets;
    ARRAY(struct search_table) searches;
};

#endif
