/* published.h - compares published measurements of real training runs with predictions.
 *
 * A dataset is a file of rows, one per run. A row is turned into what a user would type: a model with
 * options, a cluster, and degrees. A row that no plan can express is refused with a reason, and counted.
 *
 *   I1  What a framework does is a fact about a dataset, never about one row, and stands in
 *       data/validation/sources.yaml. Nothing here looks at what was measured.
 *   I2  Rows are divided into two halves by a hash of how they ran (half_of): one to fit constants to, and
 *       one that is held out. A row always stays in its half, whatever rows are added.
 *   I3  All rows are read before any is predicted; a damaged file is an error with its line.
 */
#ifndef WEFT_LAB_PUBLISHED_H
#define WEFT_LAB_PUBLISHED_H

#include "runs/runs.h"
#include "sim/sim.h"

enum half { HALF_FIT, HALF_HELD_OUT, HALF_COUNT };
const char *half_name(enum half half); /* "fit", "held-out" */

/* The parts of an iteration in Fold3D's tables; all but the last add up to the iteration. */
enum portion {
    PORTION_FORWARD,
    PORTION_BACKWARD, /* with recomputation */
    PORTION_TENSOR,   /* in the tables it is part of the two above */
    PORTION_BUBBLE,
    PORTION_DATA,
    PORTION_PIPELINE,
    PORTION_REST,   /* optimizer and offload, which are not in the tables */
    PORTION_COPIES, /* between device and host, beside the others (Table 4) */
    PORTION_COUNT
};
const char *portion_name(enum portion portion);

/* On which device memory was measured. The last stage's may be the most of a step and of what Megatron-LM does after it to
 * log the norm of weights (calc_params_l2_norm), which copies to fp32 those that its optimizer has no fp32 copy of. */
enum memory_place { MEMORY_OF_FULLEST, MEMORY_OF_LAST_STAGE, MEMORY_OF_LOGGED_NORM };

/* What fits into a device's memory: all that an allocator reserves, only what it allocates of that, or not even this. */
enum memory_fit { FITS_RESERVED, FITS_ALLOCATED, FITS_NOT, MEMORY_FITS };

/* Measured or predicted values; 0 if not known. */
struct run_outcome {
    double time_s;
    double memory_bytes, reserved_bytes;
    double portion_s[PORTION_COUNT];
    bool fits; /* predicted: every device has the memory that it needs, and a margin */
    enum memory_fit memory_fit; /* the same without margin */
};

/* Degrees that a source does not state about a run that was tuned for speed; Weft takes the fastest values. */
enum open_degree { OPEN_MICRO_BATCH = 1, OPEN_PIECES = 2 };

struct published {
    const struct dataset *dataset;
    int line;           /* in the dataset's file */
    const char *name;   /* the case */
    const char *group;  /* rows of one group are compared (same model and machine); or NULL */
    const char *system; /* in a comparison: "Fold3D" */
    enum half half;
    struct run_outcome measured, predicted;
    int64_t rank;             /* measured, within its group; 0 if it has none */
    struct run_likeness like; /* since it was predicted */
    bool done;                /* it has been predicted */
    const char *plan_file;    /* the plan's text, since it was predicted */

    /* How it ran, as model_open, cluster_open and plan_from_degrees take it. */
    const char *model, *options, *cluster;
    struct degrees degrees;
    unsigned open;       /* of enum open_degree: those not settled yet, which are 1 until then */
    bool keeps_products; /* recomputation keeps attention and every other product */
    enum memory_place memory_place;
    bool memory_reserved; /* the memory is what the allocator had reserved, not what was in use */
    const char *assumes;  /* what the source does not state, and what is assumed; or NULL */
    const char *reason;   /* why it cannot be expressed; or NULL */
};

struct published_rows {
    struct published *data;
    size_t len, cap;
};

/* What is known about sources beyond their files (data/validation/sources.yaml). */
struct sources;
struct form;
struct machine_names;
struct rules;
struct dataset {
    const char *name, *summary, *source;
    bool compares; /* it compares systems with each other, or ranks strategies */
    bool planned;  /* runs of large models, which are planned again */
    /* of tiny models with settings for debugging: their times are not of training */
    bool functional_tests;
    bool copied_times;    /* a time that also stands at another device was copied, not measured */
    const char *gains_of; /* the system whose gain over the others is shown; or NULL */
    const char *halves; /* what decides a row's half, as in rules: whole groups; NULL: how it ran */
    const struct form *form;
    const struct machine_names *machines;
    const struct rules *practice;
    const struct sources *sources;
};
/* Everything is allocated in `keep`. */
weft_status sources_open(struct arena *keep, const struct sources **out);
/* The same from a text in memory; `file` is the name for messages. */
weft_status sources_parse(struct arena *keep, const char *file, const char *text, size_t len,
                          const struct sources **out);
size_t sources_datasets(const struct sources *sources, const struct dataset **out);
/* NULL and an error that suggests the nearest name if there is none. */
const struct dataset *dataset_find(const struct sources *sources, const char *name);

/* Published answers of planners (published_searches.h). */
enum search_form {
    SEARCH_CELLS,
    SEARCH_CUTS,    /* has no cells: pipelines that are cut in three ways */
    SEARCH_CONTEST, /* compares two planners (aceso_contest.h) */
    SEARCH_PLANNED  /* cells that are planned as a user would (galvatron_plans.c) */
};
struct search_table {
    const char *name, *summary, *source;
    enum search_form form;
    const char *file; /* whose file it reads, if not its own: "galvatron_table2"; or NULL */
    /* SEARCH_PLANNED: the planner, the preset, the type, and options of the models or NULL */
    const char *planner, *cluster, *dtype, *options;
};
size_t sources_searches(const struct sources *sources, const struct search_table **out);
/* NULL if there is none of that name. */
const struct search_table *search_table_find(const struct sources *sources, const char *name);

/* Reads the dataset's file and appends to `out`; texts are allocated in `keep`. */
weft_status published_read(struct arena *keep, const struct dataset *dataset,
                           struct published_rows *out);
/* The same from a text in memory, which is modified; `file` is the name for messages. */
weft_status published_parse(struct arena *keep, const struct dataset *dataset, const char *file,
                            char *text, size_t len, struct published_rows *out);
/* Opens, plans and checks an expressible row. If that is impossible, the row gets the reason, *out is empty, and
 * the call does not fail. */
weft_status published_plan(struct arena *keep, struct published *row, struct opened_plan *out);
/* Settles what is open: takes the micro-batch and the pieces, among those that batch, stages and layers allow, that
 * are predicted to fit and to be fastest, and notes them in `assumes`. */
weft_status published_settle(struct arena *keep, struct published *row);
/* Settles and plans a row, and simulates the plan. */
weft_status published_predict(struct arena *keep, struct published *row);
/* The same for the row `at`, when those before it have been predicted: what ran the same plan is not simulated again. */
weft_status published_predict_next(struct arena *keep, struct published_rows *rows, size_t at,
                                   struct omitted omitted);

/* ---- results --------------------------------------------------------------------------------- */

enum measure { MEASURE_TIME, MEASURE_MEMORY, MEASURE_RESERVED, MEASURE_COUNT };
/* predicted / measured - 1; false if one of them is not known. */
bool published_error(const struct published *row, enum measure measure, double *error);

/* Statistics of absolute errors. */
struct errors {
    int64_t rows;
    double mean, median, worst;
};
struct errors published_errors(const struct published_rows *rows, const struct dataset *dataset,
                               enum half half, enum measure measure);

/* What comes of choosing by prediction among runs that were measured (published_choices.c). */
struct decisions {
    int64_t choices, right; /* groups of runs that answer one question; the fastest was chosen */
    double regret, worst;   /* how much slower the chosen run is: the mean, and the worst */
    int64_t pairs, in_order;
};
struct decisions published_decisions(const struct published_rows *rows,
                                     const struct dataset *dataset);

/* How much faster one system is than another, in the same group. */
struct gain {
    const struct published *row, *over;
    double measured, predicted; /* time of `over` divided by time of `row` */
};
struct gains {
    struct gain *data;
    size_t len, cap;
};
void published_gains(struct arena *keep, const struct published_rows *rows,
                     const struct dataset *dataset, struct gains *out);
/* The place of a row's prediction among those of its group, from 1; 0 if it has none. */
int64_t published_rank(const struct published_rows *rows, const struct published *row);

#endif
