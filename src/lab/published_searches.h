/* published_searches.h - compares published answers of planners with Weft's own searches.
 *
 * A table has a cell per strategy, model and memory limit. It says whether anything fits, which batch was
 * chosen, and how many samples per second were then measured. Weft searches each cell again, with the
 * layers that the table's authors measured, and chooses the batch itself.
 *
 *   I1  What the authors did is a fact about a strategy, a model or a machine, never about one cell.
 *       Nothing here looks at the numbers in a cell.
 *   I2  All cells are read before any is searched; a damaged file is an error with its line.
 */
#ifndef WEFT_LAB_PUBLISHED_SEARCHES_H
#define WEFT_LAB_PUBLISHED_SEARCHES_H

#include "lab/aceso_contest.h"
#include "lab/published.h"
#include "search/search.h"

struct search_answer {
    bool fits;
    int64_t batch;
    double samples_per_s;
};

struct search_cell {
    const struct search_table *table;
    int line; /* in the table's file */
    const char *strategy, *model;
    int64_t devices, limit_bytes;
    struct search_answer measured, predicted;
    const char *layout; /* of the predicted plan: "2-1-4 x16 | 2-1-4 x16" */
    const char *reason; /* why it cannot be searched; or NULL */
    bool done;
};
struct search_cells {
    struct search_cell *data;
    size_t len, cap;
};

/* Reads the table's file and appends to `out`; texts are allocated in `keep`. */
weft_status search_cells_read(struct arena *keep, const struct search_table *table,
                              struct search_cells *out);
/* The same from a text in memory, which is modified; `file` is the name for messages. */
weft_status search_cells_parse(struct arena *keep, const struct search_table *table,
                               const char *file, char *text, size_t len, struct search_cells *out);
/* `known` may be NULL, or have cells that are already searched and on which others build. */
weft_status search_cell_predict(struct arena *keep, const struct search_cells *known,
                                struct search_cell *cell);
/* The same by a planner with Weft's own costs, for a table of that form. */
weft_status search_cell_plan(struct arena *keep, struct search_cell *cell);
/* Whether two cells have the same table, machine, model and memory limit. */
bool search_same_column(const struct search_cell *a, const struct search_cell *b);

/* ---- results --------------------------------------------------------------------------------- */

/* Over the cells of one strategy that were searched. */
struct agreement {
    const char *strategy;
    int64_t cells, fit_agrees;
    int64_t both_fit, batch_agrees; /* measured and predicted; of these, with one batch */
    struct errors samples;          /* of samples per second, if both fit */
};
struct agreements {
    struct agreement *data;
    size_t len, cap;
};
/* In the order of the table. */
void search_agreements(struct arena *keep, const struct search_cells *cells,
                       const struct search_table *table, struct agreements *out);

/* How many columns (a model and a limit) the table has, and in how many of them no other strategy is faster. */
struct lead {
    int64_t columns, measured, predicted;
};
struct lead search_lead(const struct search_cells *cells, const struct search_table *table,
                        const char *strategy);

/* ---- pipelines that are cut in three ways (Galvatron-BMW, Table V) ---------------------------- */

enum cut_way { CUT_BY_MEMORY, CUT_BY_TIME, CUT_BY_SEARCH, CUT_WAYS };
enum { CUT_MOST_STAGES = 4 };
struct cut {
    bool fits;
    int32_t count[CUT_MOST_STAGES];  /* layers per stage */
    double samples_per_s;            /* 0 if it does not fit */
    double alpha_time, alpha_memory; /* Eq. 6 */
};
struct cut_pipeline {
    const char *model;
    int64_t devices, limit_bytes, stages, batch, micro_batches;
    struct cut cut[CUT_WAYS];
    bool between; /* Eq. 7 holds */
};
struct cut_pipelines {
    struct cut_pipeline *data;
    size_t len, cap;
};
/* Cuts the layers of a problem that names its stages and micro-batches, in all three ways: sets `cut` and `between`. */
weft_status galvatron_cut(const struct layer_problem *problem, struct cut_pipeline *out);
/* The pipelines that fit in at least one way. */
weft_status galvatron_cuts(struct arena *keep, struct cut_pipelines *out);

struct cut_tally {
    int64_t pipelines, never_slower; /* where the search's cut is not slower than the others */
    int64_t memory_fits, time_fits;  /* when cut in that way */
    int64_t between;                 /* among memory_fits */
};
struct cut_tally cut_tally_of(const struct cut_pipelines *pipelines);

#endif
