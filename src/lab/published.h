/* published.h - published measurements of real training runs, held against predictions.
 *
 * A dataset is a file of rows, one per run. A row is turned into what a user would type: a model with
 * options, a cluster, degrees. What no plan can say is refused with a reason, and counted.
 *
 *   I1  What a framework does is a fact about a dataset, never about one row, and stands in
 *       data/validation/sources.yaml: nothing here looks at what was measured.
 *   I2  Rows are dealt into two halves by a hash of how they ran (half_of): one to fit constants to,
 *       one held out. A row never changes sides, whatever is added beside it.
 *   I3  Every row is read before any is predicted: a damaged file is an error, with its line.
 */
#ifndef WEFT_LAB_PUBLISHED_H
#define WEFT_LAB_PUBLISHED_H

#include "sim/sim.h"

enum half { HALF_FIT, HALF_HELD_OUT, HALF_COUNT };
const char *half_name(enum half half); /* "fit", "held-out" */

/* Parts of an iteration as Fold3D's tables have them; they add up to it. */
enum portion {
    PORTION_FORWARD,
    PORTION_BACKWARD, /* and recomputation */
    PORTION_TENSOR,   /* within the two above, in the tables */
    PORTION_BUBBLE,
    PORTION_DATA,
    PORTION_PIPELINE,
    PORTION_REST, /* optimizer, offload: not in the tables */
    PORTION_COUNT
};
const char *portion_name(enum portion portion);

/* Which device's memory was measured. */
enum memory_place { MEMORY_OF_FULLEST, MEMORY_OF_LAST_STAGE };

/* Measured or predicted; 0: not known. */
struct run_outcome {
    double time_s;
    double memory_bytes, reserved_bytes;
    double portion_s[PORTION_COUNT];
    bool fits; /* predicted: every device has the memory that it needs */
};

/* What a source leaves open of a run that was tuned for speed: taken as Weft finds it fastest. */
enum open_degree { OPEN_MICRO_BATCH = 1, OPEN_PIECES = 2 };

struct published {
    const struct dataset *dataset;
    int line;           /* of the dataset's file */
    const char *name;   /* the case */
    const char *group;  /* what it is compared with: same model and machine; NULL: nothing */
    const char *system; /* of a comparison: "Fold3D" */
    enum half half;
    struct run_outcome measured, predicted;
    int64_t rank; /* measured, within its group; 0: none */
    bool done;    /* predicted */

    /* How it ran, as model_open, cluster_open and plan_from_degrees take it. */
    const char *model, *options, *cluster;
    struct degrees degrees;
    unsigned open;       /* of enum open_degree: not settled yet; until then 1 */
    bool keeps_products; /* of what is recomputed, attention and every other product are kept */
    enum memory_place memory_place;
    bool memory_reserved; /* its memory is what the allocator had reserved, not what was in use */
    const char *assumes;  /* what its source leaves open, and what is taken for it; or NULL */
    const char *reason;   /* why it cannot be expressed; or NULL */
};

struct published_rows {
    struct published *data;
    size_t len, cap;
};

/* What is known of sources beyond their files (data/validation/sources.yaml). */
struct sources;
struct form;
struct machine_names;
struct rules;
struct dataset {
    const char *name, *summary, *source;
    bool compares;        /* its systems with each other, or its ranks */
    bool planned;         /* how people trained large models: worth planning anew */
    bool copied_times;    /* a time that another device has for the same case was not measured */
    const char *gains_of; /* the system whose gain over the others is told; or NULL */
    const struct form *form;
    const struct machine_names *machines;
    const struct rules *practice;
    const struct sources *sources;
};
/* Everything is in `keep`. */
weft_status sources_open(struct arena *keep, const struct sources **out);
/* The same from a text in memory; `file` stands for its name. */
weft_status sources_parse(struct arena *keep, const char *file, const char *text, size_t len,
                          const struct sources **out);
size_t sources_datasets(const struct sources *sources, const struct dataset **out);
/* NULL where there is none: says so, with the nearest name. */
const struct dataset *dataset_find(const struct sources *sources, const char *name);

/* Published answers of planners (published_searches.h). */
enum search_form {
    SEARCH_CELLS,
    SEARCH_CUTS,   /* no cells: pipelines cut three ways */
    SEARCH_CONTEST /* two planners against each other: aceso_contest.h */
};
struct search_table {
    const char *name, *summary, *source;
    enum search_form form;
};
size_t sources_searches(const struct sources *sources, const struct search_table **out);
/* NULL: none of that name. */
const struct search_table *search_table_find(const struct sources *sources, const char *name);

/* From the dataset's file, appended to `out`; its texts are in `keep`. */
weft_status published_read(struct arena *keep, const struct dataset *dataset,
                           struct published_rows *out);
/* The same from a text in memory, which is changed; `file` stands for its name. */
weft_status published_parse(struct arena *keep, const struct dataset *dataset, const char *file,
                            char *text, size_t len, struct published_rows *out);
/* Opens, plans and checks an expressible row. What cannot be done becomes its reason, and is no
 * error: then *out is empty. */
weft_status published_plan(struct arena *keep, struct published *row, struct opened_plan *out);
/* Settles what is open: of the micro-batches and pieces that its batch, stages and layers allow, those
 * that are predicted to be fastest and to fit. Said in `assumes`. */
weft_status published_settle(struct arena *keep, struct published *row);
/* Settles and plans it and simulates the plan. */
weft_status published_predict(struct arena *keep, struct published *row);

/* ---- what comes of it ------------------------------------------------------------------------ */

enum measure { MEASURE_TIME, MEASURE_MEMORY, MEASURE_RESERVED, MEASURE_COUNT };
/* Predicted over measured, less 1; false where one of them is not known. */
bool published_error(const struct published *row, enum measure measure, double *error);

/* Of absolute errors. */
struct errors {
    int64_t rows;
    double mean, median, worst;
};
struct errors published_errors(const struct published_rows *rows, const struct dataset *dataset,
                               enum half half, enum measure measure);

/* How much faster one system is than another, in the same group. */
struct gain {
    const struct published *row, *over;
    double measured, predicted; /* time of `over` over time of `row` */
};
struct gains {
    struct gain *data;
    size_t len, cap;
};
void published_gains(struct arena *keep, const struct published_rows *rows,
                     const struct dataset *dataset, struct gains *out);
/* The place of a row's prediction among those of its group, from 1; 0: it has none. */
int64_t published_rank(const struct published_rows *rows, const struct published *row);

#endif
