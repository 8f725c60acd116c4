/* runs.h - training runs that a user measured: read from a table or a framework's log, predicted, and compared.
 *
 *   table     rows of a CSV file with forgiving headings (run_table.c, run_fields.c)
 *   cases     a row as a plan that can be simulated, on its cluster or on one with other paces (run_cases.c)
 *   pattern   how the errors depend on devices, degrees and type (run_pattern.c)
 *   fit       the paces of a cluster that explain the runs best (run_fit.c, run_linear.c)
 *   interval  how far off predictions of runs like a plan's were (run_interval.c)
 *   logs      what Megatron-LM and torchtitan print (run_log.c)
 *
 *   I1  A row that cannot be understood or predicted is refused with its line and a reason; the others count. Only a
 *       file without rows, model or measurement at all is an error.
 *   I2  Errors are logarithms, r = ln(measured / predicted), so that twice and half are equally far off.
 */
#ifndef WEFT_RUNS_H
#define WEFT_RUNS_H

#include "sim/sim.h"

/* ---- a table of runs ------------------------------------------------------------------------- */

/* How fast it was, in one of these ways, the first of them that is given; 0 if it is not. */
enum run_speed {
    SPEED_SECONDS,
    SPEED_TOKENS,        /* per second, of all devices */
    SPEED_DEVICE_TOKENS, /* of one device */
    SPEED_SAMPLES,
    SPEED_DEVICE_SAMPLES,
    SPEED_DEVICE_TFLOPS, /* as prediction_logged_tflops counts them */
    RUN_SPEEDS
};
struct run_result {
    double time_s, memory_bytes, reserved_bytes; /* 0 if not known */
};
struct user_run {
    int line;
    const char *name;
    const char *model, *options, *cluster; /* as model_open and cluster_open take them */
    struct degrees degrees;
    double speed[RUN_SPEEDS];
    struct run_result measured, predicted;
    bool done, fits;    /* it has been predicted, and whether it was predicted to fit */
    int64_t devices;    /* known since it was predicted */
    const char *reason; /* why it was refused, or NULL */
};
struct user_runs {
    struct user_run *data;
    size_t len, cap;
    const char *file;
    const char *ignored; /* headings that mean nothing here, "a, b"; or NULL */
};
weft_status runs_read(struct arena *keep, const char *path, struct user_runs *out);
/* The same from a text in memory, which is modified. */
weft_status runs_parse(struct arena *keep, const char *file, char *text, size_t len,
                       struct user_runs *out);

/* ---- runs as plans --------------------------------------------------------------------------- */

struct run_case {
    struct user_run *run;
    struct opened_plan opened;
    const char *profile; /* a database of measured times to ask first, NULL: none */
};
struct run_cases {
    struct run_case *data;
    size_t len, cap;
};
/* Opens, plans and predicts all runs; what is impossible gets its reason. Cases are those that were predicted and
 * have a measured time; run_cases_close frees them. */
weft_status runs_predict(struct arena *keep, struct user_runs *runs, struct run_cases *out);
void run_cases_close(struct run_cases *cases);
/* The predicted time of a case on its cluster with other paces. */
weft_status run_case_time(const struct run_case *one, const struct paces *paces, double *time_s);

/* ---- how far off ------------------------------------------------------------------------------ */

/* Of relative errors, predicted / measured - 1. */
struct run_errors {
    int64_t rows;
    double mean, median, worst; /* of absolute errors */
    double bias;                /* the mean of signed errors */
};
enum run_measure { RUN_TIME, RUN_MEMORY, RUN_RESERVED, RUN_MEASURES };
/* False if one of the two is not known. */
bool run_error(const struct user_run *run, enum run_measure measure, double *error);
struct run_errors runs_errors(const struct user_runs *runs, enum run_measure measure);

/* The errors of the runs with one value of one property: "tp" "8". */
struct run_pattern {
    const char *property, *value;
    int64_t rows;
    double bias;
};
struct run_patterns {
    struct run_pattern *data;
    size_t len, cap;
};
/* Properties with one value only are left out. */
void runs_patterns(struct arena *keep, const struct user_runs *runs, struct run_patterns *out);

/* ---- what would explain it (run_fit.c) -------------------------------------------------------- */

struct pace_estimate {
    double pace, error; /* how many times as fast; its standard error as a share of it */
    bool taken;         /* else it is left at 1 */
    const char *why;    /* if not taken */
    /* This pace alone: its best value, and the share of the squared errors that it explains. */
    double alone, explains;
};
struct run_fit {
    struct pace_estimate part[PACE_COUNT];
    int64_t rows;
    int32_t rounds; /* of simulations */
    /* Means of absolute errors: with the values that the cluster has, with those found, and each row with
     * what the other rows find. */
    double before, after, apart;
    bool helps; /* apart is below before, by more than chance */
};
/* Only `alone` and `explains`. */
weft_status runs_explain(const struct run_cases *cases, struct run_fit *out);
weft_status runs_fit(const struct run_cases *cases, struct run_fit *out);
struct paces run_fit_paces(const struct run_fit *fit);
/* The pace of each part that alone makes one run take as long as was measured; 0: there is none (run_explain.c). */
weft_status run_explain(const struct run_case *one, double measured_s, double predicted_s,
                        double pace[static PACE_COUNT]);
/* The text of a cluster file that calibrates this cluster, in `keep`. */
weft_status run_fit_file(struct arena *keep, const struct run_fit *fit, const char *cluster,
                         const char *runs, char **out);

/* ---- the same for errors that are linear in the paces (run_linear.c) --------------------------- */

enum { LEAST_RUNS = 3 }; /* that a fit needs */
/* Equation (1) of run_fit.c with r linear around `at`. */
struct linear_fit {
    size_t rows;
    const double *error, *slope; /* r and S at `at`; PACE_COUNT slopes per row */
    double at[PACE_COUNT];
    bool open[PACE_COUNT];                    /* the parts that are fitted */
    const bool *left_out;                     /* by row; NULL: all count */
    double x[PACE_COUNT], spread[PACE_COUNT]; /* the answer, and the roots of C's diagonal */
};
/* r of a row at other paces than `at`. */
double linear_error(const struct linear_fit *fit, size_t row, const double *x);
/* `scratch` has room for a number per row. The second closes the parts that the rows do not determine. */
void linear_solve(struct linear_fit *fit, double *scratch);
void linear_solve_determined(struct linear_fit *fit, double *scratch);
/* S of one case that takes time_s at these paces, by differences. */
weft_status run_slopes(const struct run_case *one, const struct paces *at, double time_s,
                       double slope[static PACE_COUNT]);

/* ---- a framework's log (run_log.c) ----------------------------------------------------------- */

enum log_number {
    LOG_SECONDS,
    LOG_DEVICE_TOKENS,
    LOG_DEVICE_TFLOPS,
    LOG_MEMORY_BYTES,
    LOG_RANK_BYTES, /* reserved by one of several ranks */
    LOG_NUMBERS
};
struct framework_log {
    int64_t lines;             /* over which the medians are taken */
    double value[LOG_NUMBERS]; /* 0 if no line has it; tokens are per second and device */
};
weft_status run_log_read(struct arena *scratch, const char *path, struct framework_log *out);
/* The same from a text in memory, which is modified. */
weft_status run_log_parse(const char *file, char *text, size_t len, struct framework_log *out);

/* ---- how sure a prediction is (run_interval.c) ------------------------------------------------- */

/* What makes runs alike. */
struct run_likeness {
    const char *arch, *type, *kind; /* of the device, of products, and of the model: "dense" */
    int64_t devices;
};
struct run_likeness plan_likeness(const struct plan *plan);

/* A published run that no constant was fitted to, and r of its prediction (I2). */
struct residual {
    const char *group;    /* runs of one model from one source */
    const char *question; /* the same on one cluster with one batch */
    struct run_likeness like;
    double error;
};
struct residuals {
    struct residual *data;
    size_t len, cap;
};
weft_status residuals_parse(struct arena *keep, const char *file, char *text, size_t len,
                            struct residuals *out);
weft_status residuals_shipped(struct arena *keep, struct residuals *out);

/* Eight of ten runs take between `low` and `high` times their prediction. */
struct interval {
    double low, high;
    int64_t runs;      /* that are alike */
    const char *alike; /* in what: "device, type, model and scale" */
};
/* Runs of the group `without` do not count; NULL: all do. False: there are too few. */
bool interval_among(const struct residuals *all, const struct run_likeness *like,
                    const char *without, struct interval *out);
/* From the runs that ship with the program. */
bool plan_interval(const struct plan *plan, struct interval *out);
/* The share by which the predicted ratio of two plans of one question is off in eight of ten pairs of runs. */
double pair_interval(const struct residuals *all);
/* The same from the runs that ship with the program; 0: nothing is known. */
double plans_apart(void);

#endif
