/* validate_runs.c - `weft validate RUNS.csv`: the user's own runs held against their predictions. */
#include <stdio.h>

#include "lab/validate.h"
#include "runs/runs.h"

/* What is known about a file of runs. */
struct runs_answer {
    struct user_runs runs;
    struct run_patterns patterns;
    struct run_fit fit;
    bool explained; /* the fit has what each pace alone explains */
};

static void percent_cell(struct table *table, bool known, double value)
{
    if (known)
        table_cell(table, "%+.1f", value * 100);
    else
        table_cell(table, "%s", "");
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_rows(struct arena *scratch, const struct user_runs *runs)
{
    static const char *const HEADERS[] = {"line", "run",    "measured",  "predicted",
                                          "%",    "memory", "predicted", "%"};
    static const enum align ALIGNS[] = {ALIGN_RIGHT, ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < runs->len; i++) {
        const struct user_run *run = &runs->data[i];
        bool reserved = !(run->measured.memory_bytes > 0);
        double memory = reserved ? run->measured.reserved_bytes : run->measured.memory_bytes;
        double needed = reserved ? run->predicted.reserved_bytes : run->predicted.memory_bytes;
        double time = 0, bytes = 0;
        bool timed = run_error(run, RUN_TIME, &time);
        bool sized = run_error(run, reserved ? RUN_RESERVED : RUN_MEMORY, &bytes);
        if (!run->done)
            continue;
        table_cell(table, "%d", run->line);
        table_cell(table, "%s", run->name);
        table_cell(table, "%s", timed ? show_seconds(run->measured.time_s * 1e9).s : "");
        table_cell(table, "%s", show_seconds(run->predicted.time_s * 1e9).s);
        percent_cell(table, timed, time);
        table_cell(table, "%s", memory > 0 ? show_bytes(memory).s : "");
        table_cell(table, "%s", show_bytes(needed).s);
        percent_cell(table, sized, bytes);
    }
    table_print(table, stdout);
}

static void print_errors(const char *what, const struct run_errors *errors)
{
    if (errors->rows)
        printf("%-16s %s: mean %.1f %%, median %.1f, worst %.1f; on average %+.1f %%\n", what,
               counted(errors->rows, "run").s, errors->mean * 100, errors->median * 100,
               errors->worst * 100, errors->bias * 100);
}

static void print_patterns(struct arena *scratch, const struct run_patterns *patterns)
{
    static const char *const HEADERS[] = {"pattern", "value", "runs", "on average %"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    const char *last = NULL;
    if (!patterns->len)
        return;
    for (size_t i = 0; i < patterns->len; i++) {
        const struct run_pattern *pattern = &patterns->data[i];
        table_cell(table, "%s", pattern->property == last ? "" : pattern->property);
        table_cell(table, "%s", pattern->value);
        table_cell(table, "%lld", (long long)pattern->rows);
        percent_cell(table, true, pattern->bias);
        last = pattern->property;
    }
    putchar('\n');
    table_print(table, stdout);
}

static void print_explained(struct arena *scratch, const struct run_fit *fit)
{
    static const char *const HEADERS[] = {"what would explain it", "times as fast", "explains"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    int best = 0;
    for (int j = 0; j < PACE_COUNT; j++) {
        best = fit->part[j].explains > fit->part[best].explains ? j : best;
        table_cell(table, "%s", pace_name(j));
        table_cell(table, "%.2f", fit->part[j].alone);
        table_cell(table, "%.0f %%", fit->part[j].explains * 100);
    }
    putchar('\n');
    table_print(table, stdout);
    if (fit->part[best].explains > 0.1)
        printf(
            "\nThe pace of %s, %.2f times Weft's own, explains most of the squared errors: `weft "
            "fit --runs`\ncalibrates a cluster by it.\n",
            pace_name(best), fit->part[best].alone);
    else
        printf("\nNo pace of the cluster's parts explains these errors.\n");
}

static void print_refused(struct arena *scratch, const struct user_runs *runs)
{
    static const char *const HEADERS[] = {"line", "refused because"};
    static const enum align ALIGNS[] = {ALIGN_RIGHT, ALIGN_LEFT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    bool any = false;
    for (size_t i = 0; i < runs->len; i++)
        if (runs->data[i].reason) {
            any = true;
            table_cell(table, "%d", runs->data[i].line);
            table_cell(table, "%s", runs->data[i].reason);
        }
    if (any) {
        putchar('\n');
        table_print(table, stdout);
    }
    if (runs->ignored)
        printf("\nignored columns: %s\n", runs->ignored);
}

/* Runs that ran and, as they are described, were predicted not to fit: mostly state that was sharded, or layers that were
 * recomputed, without the table saying so. */
static bool does_not_fit(const struct user_run *run)
{
    return run->done && !run->fits;
}

/* More than any model is off: a comma for thousands that was read as a decimal point, or seconds for milliseconds. */
static bool is_far_off(const struct user_run *run)
{
    static const double FAR = 10; /* times */
    double ratio = run->measured.time_s > 0 ? run->predicted.time_s / run->measured.time_s : 1;
    return run->done && (ratio > FAR || ratio * FAR < 1);
}

/* "what: line 2, 5; hint", if there are such lines. */
static void print_lines(struct arena *scratch, const struct user_runs *runs,
                        bool (*is)(const struct user_run *), const char *what, const char *hint)
{
    const char *lines = NULL;
    for (size_t i = 0; i < runs->len; i++)
        if (is(&runs->data[i]))
            lines = arena_printf(scratch, "%s%s%d", lines ? lines : "", lines ? ", " : "",
                                 runs->data[i].line);
    if (lines)
        printf("%s: line %s\n  %s\n", what, lines, hint);
}

static size_t count_done(const struct user_runs *runs)
{
    size_t done = 0;
    for (size_t i = 0; i < runs->len; i++)
        done += runs->data[i].done;
    return done;
}

static void print_answer(struct arena *scratch, const struct runs_answer *answer)
{
    struct run_errors time = runs_errors(&answer->runs, RUN_TIME);
    struct run_errors memory = runs_errors(&answer->runs, RUN_MEMORY);
    struct run_errors reserved = runs_errors(&answer->runs, RUN_RESERVED);
    if (!count_done(&answer->runs)) {
        printf("None of %s could be predicted.\n", counted((int64_t)answer->runs.len, "run").s);
        print_refused(scratch, &answer->runs);
        return;
    }
    print_rows(scratch, &answer->runs);
    putchar('\n');
    print_lines(scratch, &answer->runs, does_not_fit, "predicted not to fit in memory",
                "the columns zero, recompute and software may say why they did");
    print_lines(scratch, &answer->runs, is_far_off, "more than ten times off",
                "are these numbers in the unit of their heading?");
    print_errors("time", &time);
    print_errors("memory", &memory);
    print_errors("reserved memory", &reserved);
    print_patterns(scratch, &answer->patterns);
    if (answer->explained)
        print_explained(scratch, &answer->fit);
    print_refused(scratch, &answer->runs);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *errors_json(const struct user_runs *runs, enum run_measure measure)
{
    struct run_errors errors = runs_errors(runs, measure);
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "rows", (json_int_t)errors.rows, "mean",
                     errors.mean, "median", errors.median, "worst", errors.worst, "bias",
                     errors.bias);
}

static json_t *result_json(const struct run_result *result)
{
    json_t *json = json_object();
    if (result->time_s > 0)
        json_object_set_new(json, "time_s", json_real(result->time_s));
    if (result->memory_bytes > 0)
        json_object_set_new(json, "memory_bytes", json_real(result->memory_bytes));
    if (result->reserved_bytes > 0)
        json_object_set_new(json, "reserved_bytes", json_real(result->reserved_bytes));
    return json;
}

static json_t *run_json(const struct user_run *run)
{
    json_t *json = json_pack("{s:o, s:i}", "case", json_text(run->name), "line", run->line);
    if (run->reason)
        json_object_set_new(json, "reason", json_text(run->reason));
    if (!run->done)
        return json;
    json_object_set_new(json, "measured", result_json(&run->measured));
    json_object_set_new(json, "predicted", result_json(&run->predicted));
    json_object_set_new(json, "fits", json_boolean(run->fits));
    return json;
}

static json_t *answer_json(const struct runs_answer *answer)
{
    json_t *rows = json_array(), *patterns = json_array(), *explains = json_array();
    for (size_t i = 0; i < answer->runs.len; i++)
        json_array_append_new(rows, run_json(&answer->runs.data[i]));
    for (size_t i = 0; i < answer->patterns.len; i++) {
        const struct run_pattern *p = &answer->patterns.data[i];
        json_array_append_new(patterns, json_pack("{s:s, s:o, s:I, s:f}", "property", p->property,
                                                  "value", json_text(p->value), "rows",
                                                  (json_int_t)p->rows, "bias", p->bias));
    }
    for (int j = 0; j < PACE_COUNT && answer->explained; j++)
        json_array_append_new(explains, json_pack("{s:s, s:f, s:f}", "part", pace_name(j), "pace",
                                                  answer->fit.part[j].alone, "explains",
                                                  answer->fit.part[j].explains));
    json_t *json =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "file", json_text(answer->runs.file),
                  "time_error", errors_json(&answer->runs, RUN_TIME), "memory_error",
                  errors_json(&answer->runs, RUN_MEMORY), "reserved_error",
                  errors_json(&answer->runs, RUN_RESERVED), "results", rows, "patterns", patterns,
                  "explains", explains);
    if (answer->runs.ignored)
        json_object_set_new(json, "ignored", json_text(answer->runs.ignored));
    return json;
}

/* ---- running --------------------------------------------------------------------------------- */

int validate_runs(struct arena *arena, const char *path, bool json)
{
    struct runs_answer answer = {0};
    struct run_cases cases = {0};
    weft_status status;
    TRY(runs_read(arena, path, &answer.runs));
    TRY(runs_predict(arena, &answer.runs, &cases));
    runs_patterns(arena, &answer.runs, &answer.patterns);
    if (cases.len > 1) {
        TRY(runs_explain(&cases, &answer.fit));
        answer.explained = true;
    }
done:
    run_cases_close(&cases);
    if (status)
        return cli_fail(status);
    if (json)
        return cli_print_json(answer_json(&answer));
    print_answer(arena, &answer);
    return count_done(&answer.runs) ? WEFT_OK : WEFT_NO_ANSWER;
}
