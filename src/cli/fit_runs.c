/* fit_runs.c - `weft fit --runs`: calibrates a cluster by training runs on it. */
#include <stdio.h>
#include <string.h>

#include "cli/fit.h"
#include "runs/runs.h"

struct fit_runs {
    struct arena *arena;
    const struct fit_runs_options *options;
    struct user_runs runs;
    struct run_cases cases;
    struct run_fit fit;
    const char *cluster; /* that the file is made from */
    char *file;          /* the cluster file's text */
};

/* ---- one machine ----------------------------------------------------------------------------- */

static const char *device_of(const struct run_case *one)
{
    return one->opened.cluster->node.device.name;
}

/* Keeps the runs on the cluster that was named, and refuses devices of several kinds; of the clusters takes the
 * largest. */
static weft_status choose_cluster(struct fit_runs *fit)
{
    const char *named = fit->options->cluster;
    int64_t most = 0;
    for (size_t i = 0; i < fit->cases.len; i++) {
        const struct run_case *one = &fit->cases.data[i];
        weft_status status = cluster_refuse_pools(one->opened.cluster, "a fit to runs");
        if (status)
            return status;
        if (strcmp(device_of(one), device_of(&fit->cases.data[0])) != 0)
            return bad_input(fit->runs.file, one->run->line, "keep the runs of one machine",
                             "runs on %s and %s in one fit", device_of(&fit->cases.data[0]),
                             device_of(one));
        if (one->run->devices <= most)
            continue;
        most = one->run->devices;
        fit->cluster = one->run->cluster;
    }
    fit->cluster = named ? named : fit->cluster;
    return WEFT_OK;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_parts(struct arena *scratch, const struct run_fit *fit)
{
    static const char *const HEADERS[] = {"part", "times as fast", "standard error", ""};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_LEFT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (int j = 0; j < PACE_COUNT; j++) {
        const struct pace_estimate *part = &fit->part[j];
        table_cell(table, "%s", pace_name(j));
        table_cell(table, "%.3f", part->pace);
        if (part->taken)
            table_cell(table, "%.1f %%", part->error * 100);
        else
            table_cell(table, "%s", "");
        if (part->taken)
            table_cell(table, "%s", "");
        else
            table_cell(table, "left as it is: %s", part->why);
    }
    table_print(table, stdout);
}

static void print_fit(const struct fit_runs *fit)
{
    const struct run_fit *found = &fit->fit;
    size_t refused = 0;
    for (size_t i = 0; i < fit->runs.len; i++)
        if (fit->runs.data[i].reason) {
            refused++;
            printf("line %d refused: %s\n", fit->runs.data[i].line, fit->runs.data[i].reason);
        }
    printf("%s%s on %s\n\n", refused ? "\n" : "", counted(found->rows, "run").s, fit->cluster);
    print_parts(fit->arena, found);
    printf("\nmean error %.1f %% with Weft's own numbers, %.1f %% with these, %.1f %% on runs that "
           "had no part in them\n",
           found->before * 100, found->after * 100, found->apart * 100);
    if (found->helps && fit->options->output)
        printf("%s: a cluster for every command\n", fit->options->output);
    else if (found->helps)
        printf("\nAs a cluster file:\n\n%s", fit->file);
}

static json_t *fit_json(const struct fit_runs *fit)
{
    json_t *parts = json_object(), *refused = json_array();
    for (int j = 0; j < PACE_COUNT; j++) {
        const struct pace_estimate *part = &fit->fit.part[j];
        json_t *json = json_pack("{s:f, s:b}", "pace", part->pace, "determined", part->taken);
        json_object_set_new(json, "standard_error",
                            part->taken ? json_real(part->error) : json_null());
        json_object_set_new(json, "reason", part->taken ? json_null() : json_text(part->why));
        json_object_set_new(parts, pace_name(j), json);
    }
    for (size_t i = 0; i < fit->runs.len; i++)
        if (fit->runs.data[i].reason)
            json_array_append_new(refused,
                                  json_pack("{s:i, s:o}", "line", fit->runs.data[i].line, "reason",
                                            json_text(fit->runs.data[i].reason)));
    return json_pack("{s:o, s:I, s:o, s:f, s:f, s:f, s:b, s:o, s:o}", "cluster",
                     json_text(fit->cluster), "rows", (json_int_t)fit->fit.rows, "parts", parts,
                     "error_before", fit->fit.before, "error_after", fit->fit.after, "error_apart",
                     fit->fit.apart, "helps", fit->fit.helps, "refused", refused, "yaml",
                     fit->fit.helps ? json_text(fit->file) : json_null());
}

/* ---- running --------------------------------------------------------------------------------- */

static weft_status no_help(const struct run_fit *fit)
{
    static const double SOME = 0.9; /* of the error: what is called a gain at all */
    if (fit->apart < SOME * fit->before)
        return no_answer(
            "add runs of other degrees, models or sizes, until chance cannot do the same",
            "%s are too few to be sure: with other values, runs that had no part in "
            "them are %.1f %% off, in place of %.1f %%; no file is written",
            counted(fit->rows, "run").s, fit->apart * 100, fit->before * 100);
    return no_answer("`weft validate RUNS.csv` shows the pattern of the errors",
                     "other values do not help: runs that had no part in them are %.1f %% off, "
                     "and %.1f %% with Weft's own numbers; no file is written",
                     fit->apart * 100, fit->before * 100);
}

static weft_status run(struct fit_runs *fit)
{
    const struct fit_runs_options *options = fit->options;
    weft_status status;
    TRY(file_writable(options->output));
    TRY(runs_read(fit->arena, options->runs, &fit->runs));
    TRY(runs_predict(fit->arena, &fit->runs, &fit->cases));
    TRY(choose_cluster(fit));
    TRY(runs_fit(&fit->cases, &fit->fit));
    TRY(run_fit_file(fit->arena, &fit->fit, fit->cluster, options->runs, &fit->file));
    if (fit->fit.helps && options->output)
        TRY(file_write_text(options->output, fit->file));
    if (options->json)
        status = (weft_status)cli_print_json(fit_json(fit));
    else
        print_fit(fit);
    fflush(stdout); /* before anything goes to standard error */
    if (!status && !fit->fit.helps)
        status = no_help(&fit->fit);
done:
    return status;
}

int fit_runs(struct arena *arena, const struct fit_runs_options *options)
{
    struct fit_runs fit = {.arena = arena, .options = options};
    cli_warn_missing();
    weft_status status = run(&fit);
    run_cases_close(&fit.cases);
    return status ? cli_fail(status) : WEFT_OK;
}
