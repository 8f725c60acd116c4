/* validate_coverage.c - `weft validate --groups`: whether intervals hold for runs unlike those that they are made of.
 *
 * Each run that was held out gets an interval (runs/run_interval.c) from the others, less those that share with it
 *
 *   its source and model     as if the model were new,
 *   its source and machine   as if the machine were new,
 *   its source               as if all that this source ran were new.
 *
 * Eight of ten should lie in theirs, whatever was left out.
 *
 *   I1  A run never counts for its own interval: it shares its source with itself.
 *   I2  A run counts only if an interval can be made in each of the three ways, so that the three shares are of the same runs.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/validate.h"

/* ---- who is left out -------------------------------------------------------------------------- */

static bool shares_source(const struct published *a, const struct published *b)
{
    return a->dataset == b->dataset;
}

static bool shares_model(const struct published *a, const struct published *b)
{
    return shares_source(a, b) && strcmp(a->model, b->model) == 0;
}

static bool shares_machine(const struct published *a, const struct published *b)
{
    size_t len = strcspn(a->cluster, ":");
    return shares_source(a, b) && len == strcspn(b->cluster, ":") &&
           strncmp(a->cluster, b->cluster, len) == 0;
}

static const struct {
    const char *key; /* in JSON */
    bool (*leaves_out)(const struct published *a, const struct published *b);
} WAYS[] = {
    [WITHOUT_MODEL] = {"without_model", shares_model},
    [WITHOUT_MACHINE] = {"without_machine", shares_machine},
    [WITHOUT_SOURCE] = {"without_source", shares_source},
};
_Static_assert(COUNT_OF(WAYS) == WITHOUT_COUNT, "a way to leave out without a row");

/* ---- counting --------------------------------------------------------------------------------- */

struct known_run {
    const struct published *row;
    struct residual residual;
};
struct known_runs {
    struct known_run *data;
    size_t len, cap;
};

static void find_runs(const struct validation *v, struct known_runs *out)
{
    for (size_t i = 0; i < v->rows.len; i++) {
        struct known_run run = {.row = &v->rows.data[i]};
        if (row_residual(v, run.row, &run.residual))
            array_push(v->arena, out, run);
    }
}

static bool interval_without(struct arena *scratch, const struct known_runs *runs,
                             const struct known_run *one, enum without way, struct interval *out)
{
    struct residuals others = {0};
    for (size_t i = 0; i < runs->len; i++)
        if (!WAYS[way].leaves_out(one->row, runs->data[i].row))
            array_push(scratch, &others, runs->data[i].residual);
    return interval_among(&others, &one->residual.like, NULL, out);
}

static void count_run(const struct known_runs *runs, const struct known_run *one,
                      struct coverage *sum)
{
    enum { ROUNDING = 1000000000 }; /* an end is a run's own r, through exp and back */
    struct arena *scratch = arena_new();
    struct interval interval[WITHOUT_COUNT];
    bool all = true;
    for (int w = 0; w < WITHOUT_COUNT; w++)
        all = all && interval_without(scratch, runs, one, (enum without)w, &interval[w]);
    sum->runs += all;
    for (int w = 0; all && w < WITHOUT_COUNT; w++) {
        double low = log(interval[w].low), high = log(interval[w].high);
        double r = one->residual.error;
        sum->inside[w] += r >= low - 1.0 / ROUNDING && r <= high + 1.0 / ROUNDING;
        sum->width[w] += high - low;
    }
    arena_free(scratch);
}

struct coverage validation_coverage(const struct validation *v, const struct dataset *dataset)
{
    struct known_runs runs = {0};
    struct coverage sum = {0};
    find_runs(v, &runs);
    for (size_t i = 0; i < runs.len; i++)
        if (!dataset || runs.data[i].row->dataset == dataset)
            count_run(&runs, &runs.data[i], &sum);
    return sum;
}

/* ---- printing --------------------------------------------------------------------------------- */

static void add_line(struct table *table, const char *name, const struct coverage *c)
{
    double runs = (double)c->runs;
    table_cell(table, "%s", name);
    table_cell(table, "%lld", (long long)c->runs);
    for (int w = 0; w < WITHOUT_COUNT; w++)
        table_cell(table, "%.0f", (double)c->inside[w] * 100 / runs);
    table_cell(table, "%.0f", expm1(c->width[WITHOUT_SOURCE] / runs) * 100);
}

void coverage_print(const struct validation *v)
{
    static const char *const HEADERS[] = {"in their intervals, %", "runs",       "new model",
                                          "new machine",           "new source", "width"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    struct coverage all = validation_coverage(v, NULL);
    if (!all.runs)
        return;
    for (size_t i = 0; i < v->datasets; i++) {
        struct coverage c = validation_coverage(v, v->dataset[i]);
        if (c.runs)
            add_line(table, v->dataset[i]->name, &c);
    }
    add_line(table, "all", &all);
    putchar('\n');
    table_print(table, stdout);
    puts("\nRuns held out that lie in the interval for eight of ten, which is made of the other "
         "runs without those of the "
         "same\nsource and model, of the same source and machine, or of the same source; and how "
         "much longer its end is "
         "than its\nbeginning without the source, in %.");
}

json_t *coverage_json(const struct validation *v, const struct dataset *dataset)
{
    struct coverage c = validation_coverage(v, dataset);
    json_t *json = json_pack("{s:I}", "runs", (json_int_t)c.runs);
    for (int w = 0; w < WITHOUT_COUNT; w++)
        json_object_set_new(json, WAYS[w].key, json_integer((json_int_t)c.inside[w]));
    return json;
}
