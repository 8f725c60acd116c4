/* published_searches.h - published answers of planners, held against Weft's own searches.
 *
 * A table has a cell per strategy, model and memory limit: whether anything fits, the batch that was
 * chosen and the samples per second that were then measured. Weft searches each cell anew, with the
 * layers that the table's authors measured, and chooses the batch itself.
 *
 *   I1  What the authors did is a fact about a strategy, a model or a machine, never about one cell:
 *       nothing here looks at what a cell says.
 *   I2  Every cell is read before any is searched: a damaged file is an error, with its line.
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
    int line; /* of the table's file */
    const char *strategy, *model;
    int64_t devices, limit_bytes;
    struct search_answer measured, predicted;
    const char *layout; /* of the prediction: "2-1-4 x16 | 2-1-4 x16" */
    const char *reason; /* why it cannot be searched; or NULL */
    bool done;
};
struct search_cells {
    struct search_cell *data;
    size_t len, cap;
};

/* From the table's file, appended to `out`; texts are in `keep`. */
weft_status search_cells_read(struct arena *keep, const struct search_table *table,
                              struct search_cells *out);
/* The same from a text in memory, which is changed; `file` stands for its name. */
weft_status search_cells_parse(struct arena *keep, const struct search_table *table,
                               const char *file, char *text, size_t len, struct search_cells *out);
/* `known` may have cells that are done already, which others build on; or be NULL. */
weft_status search_cell_predict(struct arena *keep, const struct search_cells *known,
                                struct search_cell *cell);
/* Of the same table, machine, model and memory limit. */
bool search_same_column(const struct search_cell *a, const struct search_cell *b);

/* ---- what comes of it ------------------------------------------------------------------------ */

/* Of the cells of one strategy that were searched. */
struct agreement {
    const char *strategy;
    int64_t cells, fit_agrees;
    int64_t both_fit, batch_agrees; /* measured and predicted; of these the same batch */
    struct errors samples;          /* of samples per second, where both fit */
};
struct agreements {
    struct agreement *data;
    size_t len, cap;
};
/* In the order of the table. */
void search_agreements(struct arena *keep, const struct search_cells *cells,
                       const struct search_table *table, struct agreements *out);

/* Columns of the table (a model, a limit), and in how many of them no other strategy is faster. */
struct lead {
    int64_t columns, measured, predicted;
};
struct lead search_lead(const struct search_cells *cells, const struct search_table *table,
                        const char *strategy);

/* ---- pipelines cut three ways (Galvatron-BMW, Table V) --------------------------------------- */

enum cut_way { CUT_BY_MEMORY, CUT_BY_TIME, CUT_BY_SEARCH, CUT_WAYS };
enum { CUT_MOST_STAGES = 4 };
struct cut {
    bool fits;
    int32_t count[CUT_MOST_STAGES];  /* layers per stage */
    double samples_per_s;            /* 0: does not fit */
    double alpha_time, alpha_memory; /* Eq. 6 */
};
struct cut_pipeline {
    const char *model;
    int64_t devices, limit_bytes, stages, batch, micro_batches;
    struct cut cut[CUT_WAYS];
    bool between; /* Eq. 7 */
};
struct cut_pipelines {
    struct cut_pipeline *data;
    size_t len, cap;
};
/* Those that fit at all. */
weft_status galvatron_cuts(struct arena *keep, struct cut_pipelines *out);

struct cut_tally {
    int64_t pipelines, never_slower; /* the search's; than either of the others */
    int64_t memory_fits, time_fits;  /* cut that way */
    int64_t between;                 /* of memory_fits */
};
struct cut_tally cut_tally_of(const struct cut_pipelines *pipelines);

#endif
