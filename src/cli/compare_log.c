/* compare_log.c - `weft compare --measured` with a log of a framework in place of a trace. */
#include "cli/compare_log.h"

#include <stdio.h>

/* A trace is JSON; everything else is a framework's log. */
bool is_run_log(const char *path)
{
    FILE *file = fopen(path, "r");
    int c = file ? fgetc(file) : '{';
    while (c == ' ' || c == '\n' || c == '\r' || c == '\t')
        c = fgetc(file);
    if (file)
        fclose(file);
    return c != '{' && c != '[';
}

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

weft_status tell_run_log(struct arena *scratch, const struct framework_log *log,
                         const struct prediction *prediction, bool json)
{
    static const char *const HEADERS[] = {"", "measured", "predicted", "ratio"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    double measured = logged_s(log, prediction->plan);
    double predicted = (double)prediction->iteration_ns * 1e-9;
    double memory = log->value[LOG_MEMORY_BYTES];
    double reserved = (double)prediction->stage[fullest_stage(prediction)].memory.reserved;
    if (json)
        return (weft_status)cli_print_json(json_pack(
            "{s:I, s:{s:f, s:f, s:f}, s:{s:f, s:f}}", "steps", (json_int_t)log->lines, "iteration",
            "measured_s", measured, "predicted_s", predicted, "ratio", measured / predicted,
            "memory", "measured_bytes", memory, "predicted_bytes", reserved));
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    put_pair(table, "iteration", show_duration(measured * 1e9).s, show_duration(predicted * 1e9).s,
             measured / predicted);
    if (memory > 0)
        put_pair(table, "reserved memory", show_bytes(memory).s, show_bytes(reserved).s,
                 memory / reserved);
    plan_heading(scratch, prediction->plan, stdout);
    table_print(table, stdout);
    printf("\nmedian of %s; ratio: measured over predicted\n",
           counted(log->lines, "logged step").s);
    return WEFT_OK;
}
