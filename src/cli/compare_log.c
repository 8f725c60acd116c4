/* compare_log.c - `weft compare --measured` with a log of a framework in place of a trace. */
#include "cli/compare_log.h"

#include <math.h>
#include <stdio.h>

/* The next character that is no blank. */
static int next_sign(FILE *file)
{
    int c = fgetc(file);
    while (c == ' ' || c == '\n' || c == '\r' || c == '\t')
        c = fgetc(file);
    return c;
}

/* A trace is a JSON object or a list of them; everything else is a framework's log, whose lines may begin with "[2026-". */
bool is_run_log(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    int first = next_sign(file);
    if (first == '[')
        first = next_sign(file);
    fclose(file);
    return first != '{' && first != ']';
}

struct logged_run {
    const struct framework_log *log;
    double measured_s, predicted_s;
    double memory, reserved; /* bytes; memory is 0 if no line says it */
    struct interval interval;
    bool sure; /* it has one */
};
static const double AS_PREDICTED = 0.03; /* nothing to explain: less than predictions are off */

static void put_pair(struct table *table, const char *what, const char *measured,
                     const char *predicted, double ratio)
{
    table_cell(table, "%s", what);
    table_cell(table, "%s", measured);
    table_cell(table, "%s", predicted);
    table_cell(table, "%.2f", ratio);
}

/* What a log says of an iteration, in seconds: itself, or tokens of one device. */
static double logged_s(const struct framework_log *log, const struct plan *plan)
{
    double tokens = (double)plan->global_batch * (double)plan->model->seq /
                    (double)cluster_devices(plan->cluster);
    return log->value[LOG_SECONDS] > 0 ? log->value[LOG_SECONDS]
                                       : tokens / log->value[LOG_DEVICE_TOKENS];
}

static json_t *explained_json(const double pace[])
{
    json_t *json = json_object();
    for (int part = 0; part < PACE_COUNT; part++)
        json_object_set_new(json, pace_name(part),
                            pace[part] > 0 ? json_real(pace[part]) : json_null());
    return json;
}

static void print_explained(struct arena *scratch, const double pace[])
{
    static const char *const HEADERS[] = {"what would explain it", "times as fast"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (int part = 0; part < PACE_COUNT; part++) {
        table_cell(table, "%s", pace_name(part));
        if (pace[part] > 0)
            table_cell(table, "%.2f", pace[part]);
        else
            table_cell(table, "no pace does");
    }
    putchar('\n');
    table_print(table, stdout);
    printf("\nEach part alone, beside Weft's own numbers for it.\n");
}

static bool is_inside(const struct logged_run *run)
{
    double ratio = run->measured_s / run->predicted_s;
    return ratio >= run->interval.low && ratio <= run->interval.high;
}

static void print_interval(const struct logged_run *run)
{
    printf("predicted %s to %s in 8 of 10, by %s, held out: the run is %s\n",
           show_seconds(run->predicted_s * run->interval.low * 1e9).s,
           show_seconds(run->predicted_s * run->interval.high * 1e9).s,
           counted(run->interval.runs, "run").s, is_inside(run) ? "within" : "outside");
}

static json_t *interval_json(const struct logged_run *run)
{
    if (!run->sure)
        return json_null();
    return json_pack("{s:f, s:f, s:I, s:b}", "low_s", run->predicted_s * run->interval.low,
                     "high_s", run->predicted_s * run->interval.high, "runs",
                     (json_int_t)run->interval.runs, "inside", is_inside(run));
}

static void print_pairs(struct arena *scratch, const struct logged_run *run)
{
    static const char *const HEADERS[] = {"", "measured", "predicted", "ratio"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    put_pair(table, "iteration", show_seconds(run->measured_s * 1e9).s,
             show_seconds(run->predicted_s * 1e9).s, run->measured_s / run->predicted_s);
    if (run->memory > 0)
        put_pair(table, "reserved memory", show_bytes(run->memory).s, show_bytes(run->reserved).s,
                 run->memory / run->reserved);
    table_print(table, stdout);
    printf("\nmedian of %s; ratio: measured over predicted\n",
           counted(run->log->lines, "logged step").s);
    if (run->sure)
        print_interval(run);
}

weft_status tell_run_log(struct arena *scratch, const struct framework_log *log,
                         const struct run_case *one, const struct prediction *prediction, bool json)
{
    struct logged_run run = {
        .log = log,
        .measured_s = logged_s(log, one->opened.plan),
        .predicted_s = (double)prediction->iteration_ns * 1e-9,
        .memory = log->value[LOG_MEMORY_BYTES],
        .reserved = (double)prediction->stage[fullest_stage(prediction)].memory.reserved};
    double ratio = run.measured_s / run.predicted_s, pace[PACE_COUNT];
    bool explains = json || fabs(ratio - 1) > AS_PREDICTED;
    run.sure = plan_interval(one->opened.plan, &run.interval);
    weft_status status = WEFT_OK;
    if (explains)
        TRY(run_explain(one, run.measured_s, run.predicted_s, pace));
    if (json)
        return (weft_status)cli_print_json(json_pack(
            "{s:I, s:{s:f, s:f, s:f, s:o}, s:{s:f, s:f}, s:o}", "steps", (json_int_t)log->lines,
            "iteration", "measured_s", run.measured_s, "predicted_s", run.predicted_s, "ratio",
            ratio, "interval", interval_json(&run), "memory", "measured_bytes", run.memory,
            "predicted_bytes", run.reserved, "explained_by", explained_json(pace)));
    plan_heading(scratch, one->opened.plan, stdout);
    print_pairs(scratch, &run);
    if (explains)
        print_explained(scratch, pace);
done:
    return status;
}
