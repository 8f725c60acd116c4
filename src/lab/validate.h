/* validate.h - what `weft validate` found, for printing it as text and as JSON. Private to the room. */
#ifndef WEFT_LAB_VALIDATE_H
#define WEFT_LAB_VALIDATE_H

#include "cli/cli.h"
#include "lab/lab.h"

enum { MAX_DATASETS = 32 };

/* What another program predicts for a published run (validate_peers.c). */
struct peer_prediction {
    const struct published *row;
    const char *peer;
    double time_s;
};
struct peer_predictions {
    struct peer_prediction *data;
    size_t len, cap;
};

/* A published run, and how its time falls as parts of the machine get faster (validate_refit.c). */
struct refit_run {
    struct published *row;
    const char *device, *arch;
    double parameters;        /* of the model */
    double share;             /* of the device's peak that large products reach in long runs */
    double error;             /* r (runs.h) */
    double slope[PACE_COUNT]; /* - d ln(time) / d ln(pace) */
};
struct refit_runs {
    struct refit_run *data;
    size_t len, cap;
};

/* What `weft fit --runs` makes of half of one system's runs, one source on one device (validate_half_fits.c). */
struct half_fit {
    const struct dataset *dataset;
    const char *device;
    int64_t runs[HALF_COUNT];
    bool possible; /* there were enough runs to fit */
    struct run_fit fit;
    double before,
        after; /* means of absolute errors of the half held out; equal if nothing was taken */
};
struct half_fits {
    struct half_fit *data;
    size_t len, cap;
};

/* A run that is predicted not to fit, though it ran (validate_full.c). */
struct full_run {
    const struct published *row;
    double limit_bytes;    /* of the device */
    const char *fits_with; /* what would have to be true, in words; NULL: nothing that is known */
};
struct full_runs {
    struct full_run *data;
    size_t len, cap;
};

struct validation {
    struct arena *arena;
    const struct sources *sources;
    const struct dataset *dataset[MAX_DATASETS];
    size_t datasets;
    bool half[HALF_COUNT]; /* which halves were run */
    bool list_rows, list_groups, plan, refitted;
    struct omitted omitted;          /* from predictions of runs */
    struct published_rows rows;      /* of these datasets and halves */
    struct peer_predictions peers;   /* for some of them */
    struct replanned_list replanned; /* with `plan`: for rows that are predicted */
    struct refit_runs refit;         /* with `refitted`: those with a time */
    struct half_fits half_fits;      /* with `refitted` */
    struct full_runs full;
    const struct search_table *searched[MAX_DATASETS];
    size_t searches;
    struct search_cells cells; /* of these tables */
    struct cut_pipelines cuts;
    struct contests contests;
};

/* How many rows of a dataset are in a half, and how many of them are predicted. */
struct counts {
    int64_t rows, predicted;
};
struct counts validation_counts(const struct validation *v, const struct dataset *dataset,
                                enum half half);

/* Rows with the same reason, or the same assumption, in the order of their first. */
struct excuse {
    const struct dataset *dataset;
    const char *text;
    int64_t rows;
};
struct excuses {
    struct excuse *data;
    size_t len, cap;
};
const char *row_reason(const struct published *row);
const char *row_assumes(const struct published *row);
const char *row_full(const struct published *row); /* it ran all the same */
void validation_excuses(const struct validation *v,
                        const char *(*text)(const struct published *row), struct excuses *out);

/* validate_text.c, validate_json.c */
int validation_print(const struct validation *v);
int validation_print_json(const struct validation *v);
/* validate_residuals.c: the errors of the held-out half as a file that the program ships with */
weft_status residuals_write(const struct validation *v, const char *path);
/* False if the row has none: it is in the half to fit, or was not predicted or timed. */
bool row_residual(const struct validation *v, const struct published *row, struct residual *out);
/* validate_runs.c: a file of the user's own runs; returns the exit code */
int validate_runs(struct arena *arena, const char *path, bool json);
/* validate_groups.c: the runs of one model on one kind of machine */
enum { GROUP_WORDS = 32 };
struct group_error {
    const struct dataset *dataset;
    const char *model, *kind;
    char machine[GROUP_WORDS];
    int64_t groups;           /* of a sum over groups */
    int64_t rows[HALF_COUNT]; /* with a time */
    double error[HALF_COUNT]; /* sums of absolute errors */
    double bias;              /* sum of errors of both halves */
};
struct group_errors {
    struct group_error *data;
    size_t len, cap;
};
void validation_groups(const struct validation *v, struct group_errors *out);
/* The sum over the groups of a dataset (and kind, or NULL) that nothing was fitted to. */
struct group_error groups_unseen(const struct group_errors *groups, const struct dataset *dataset,
                                 const char *kind);
/* The sums over the models of each machine of each dataset. */
void groups_by_machine(struct arena *keep, const struct group_errors *groups,
                       struct group_errors *out);
void groups_print(const struct validation *v);
json_t *machines_json(const struct validation *v, const struct dataset *dataset);
/* validate_coverage.c: how many runs lie in the intervals that runs unlike them make */
enum without { WITHOUT_MODEL, WITHOUT_MACHINE, WITHOUT_SOURCE, WITHOUT_COUNT };
struct coverage {
    int64_t runs;
    int64_t inside[WITHOUT_COUNT];
    double width[WITHOUT_COUNT]; /* sums of ln(high / low) */
};
/* Of a dataset's runs, among those of all datasets; NULL: of all runs. */
struct coverage validation_coverage(const struct validation *v, const struct dataset *dataset);
void coverage_print(const struct validation *v);
json_t *coverage_json(const struct validation *v, const struct dataset *dataset);
/* validate_refit.c: devices fitted anew without the runs that are predicted */
weft_status refit_sense(const struct validation *v, struct refit_runs *out);
struct refit_paces {
    const struct refit_run *device; /* one of its runs */
    int64_t runs;
    double x[PACE_COUNT], spread[PACE_COUNT]; /* logarithms of paces, and their standard errors */
    bool taken[PACE_COUNT];
};
struct refit_list {
    struct refit_paces *data;
    size_t len, cap;
};
/* Each device by its runs in the half to fit; those with too few are not listed. */
void refit_devices(struct arena *keep, const struct refit_runs *runs, struct refit_list *out);
/* A run's error by what the runs found that share no model, machine or source with it; false if none says anything. */
bool refit_error(const struct refit_runs *runs, const struct refit_run *one, enum without way,
                 double *error);
struct refit_sum {
    int64_t runs, known[WITHOUT_COUNT];
    double shipped, error[WITHOUT_COUNT], bias[WITHOUT_COUNT]; /* sums */
};
/* Of a dataset's runs; NULL: of all. */
struct refit_sum refit_sum(const struct refit_runs *runs, const struct dataset *dataset);
void refit_print(const struct validation *v);
json_t *refit_json(const struct validation *v, const struct dataset *dataset);
/* validate_full.c: what would have to be true of the rows that ran, but are predicted not to fit */
weft_status full_runs_make(const struct validation *v, struct full_runs *out);
void full_runs_print(const struct validation *v);
json_t *full_runs_json(const struct validation *v, const struct dataset *dataset);
/* validate_half_fits.c: for every system among the runs of `runs` */
weft_status half_fits_make(struct arena *keep, const struct refit_runs *runs,
                           struct half_fits *out);
void half_fits_print(const struct validation *v);
json_t *half_fits_json(const struct validation *v, const struct dataset *dataset);
/* validate_peers.c: other programs on the same rows. Predictions for rows that are not there are passed over. */
weft_status peers_read(struct arena *keep, const struct published_rows *rows,
                       struct peer_predictions *out);
/* The same from a text in memory, which is modified; `file` is the name for messages. */
weft_status peers_parse(struct arena *keep, const char *file, char *text, size_t len,
                        const struct published_rows *rows, struct peer_predictions *out);
struct peer_error {
    const struct dataset *dataset;
    const char *peer;
    int64_t rows;
    double weft, theirs; /* means of absolute errors of time */
};
struct peer_errors {
    struct peer_error *data;
    size_t len, cap;
};
void peers_errors(struct arena *keep, const struct peer_predictions *peers,
                  struct peer_errors *out);
void peers_print(const struct validation *v);
json_t *peers_json(const struct validation *v, const struct dataset *dataset);
/* validate_operators.c: single operators, device by device; the exit code */
struct operator_error {
    const char *device, *layer;
    int64_t rows[HALF_COUNT];
    double median[HALF_COUNT], bias[HALF_COUNT]; /* of |error|, and of the error */
};
struct operator_errors {
    struct operator_error *data;
    size_t len, cap;
};
weft_status operator_errors(struct arena *keep, struct operator_errors *out);
int validate_operators(struct arena *arena, bool json);
/* validate_planned_anew.c: published runs, planned again; the status is WEFT_NO_ANSWER if a plan was slower */
void replanned_print(const struct validation *v);
json_t *replanned_json(const struct validation *v, const struct dataset *dataset);
weft_status replanned_verdict(const struct validation *v);
/* validate_searches.c: published searches */
void searches_print(const struct validation *v);
json_t *searches_json(const struct validation *v);
/* validate_contest.c: the comparison of two planners */
void contests_print(const struct validation *v, const struct search_table *which);
json_t *contests_json(const struct validation *v, const struct search_table *which);

#endif
