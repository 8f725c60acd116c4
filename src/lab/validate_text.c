/* validate_text.c - what `weft validate` found, as tables. */
#include <stdio.h>

#include "lab/validate.h"

/* ---- per dataset ----------------------------------------------------------------------------- */

/* A number, or an empty cell if it is not known. */
static void number_cell(struct table *table, bool known, const char *sign, int digits, double value)
{
    if (!known)
        table_cell(table, "%s", "");
    else
        table_cell(table, "%s%.*f", value > 0 ? sign : "", digits, value);
}

static void error_cells(struct table *table, const struct errors *errors)
{
    const double percent[] = {errors->mean * 100, errors->median * 100, errors->worst * 100};
    number_cell(table, errors->rows > 0, "", 0, (double)errors->rows);
    for (size_t i = 0; i < COUNT_OF(percent); i++)
        number_cell(table, errors->rows > 0, "", 1, percent[i]);
}

static void dataset_lines(struct table *table, const struct validation *v,
                          const struct dataset *dataset)
{
    const char *name = dataset->name;
    for (int h = 0; h < HALF_COUNT; h++) {
        if (!v->half[h])
            continue;
        struct counts counts = validation_counts(v, dataset, (enum half)h);
        struct errors time = published_errors(&v->rows, dataset, (enum half)h, MEASURE_TIME);
        struct errors memory = published_errors(&v->rows, dataset, (enum half)h, MEASURE_MEMORY);
        table_cell(table, "%s", name);
        table_cell(table, "%s", half_name((enum half)h));
        table_cell(table, "%lld", (long long)counts.rows);
        table_cell(table, "%lld", (long long)counts.predicted);
        error_cells(table, &time);
        error_cells(table, &memory);
        name = "";
    }
}

static void print_datasets(const struct validation *v)
{
    static const char *const HEADERS[] = {"dataset", "half",  "rows",   "run",  "time",   "mean",
                                          "median",  "worst", "memory", "mean", "median", "worst"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < v->datasets; i++)
        dataset_lines(table, v, v->dataset[i]);
    table_print(table, stdout);
    printf(
        "\nrun: rows that a plan can express. time, memory: rows that have it; absolute errors in "
        "%%.\nHalves by a hash of case, model, devices, degrees and batch of each row.\n");
}

/* ---- decisions ------------------------------------------------------------------------------- */

static void decision_line(struct table *table, const char *name, const struct decisions *d)
{
    table_cell(table, "%s", name);
    table_cell(table, "%lld", (long long)d->choices);
    table_cell(table, "%lld", (long long)d->right);
    table_cell(table, "%.1f", d->regret * 100);
    table_cell(table, "%.1f", d->worst * 100);
    table_cell(table, "%lld", (long long)d->pairs);
    number_cell(table, d->pairs > 0, "", 1,
                d->pairs > 0 ? 100 * (double)d->in_order / (double)d->pairs : 0);
}

static void print_decisions(const struct validation *v)
{
    static const char *const HEADERS[] = {
        "chosen by prediction", "choices", "right", "regret", "worst", "pairs", "in order"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    bool any = false;
    for (size_t i = 0; i < v->datasets; i++) {
        struct decisions decisions = published_decisions(&v->rows, v->dataset[i]);
        any |= decisions.choices > 0;
        if (decisions.choices > 0)
            decision_line(table, v->dataset[i]->name, &decisions);
    }
    if (!any)
        return;
    putchar('\n');
    table_print(table, stdout);
    printf("\nA choice is among measured runs of one model, cluster and batch. regret: how much "
           "slower the run\nis that was predicted to be fastest than the fastest, in %%. in order: "
           "of pairs whose measured\ntimes differ by more than 2 %%, those predicted in their "
           "order, in %%.\n");
}

/* ---- comparisons ----------------------------------------------------------------------------- */

static void print_gains(const struct validation *v, const struct dataset *dataset)
{
    static const char *const HEADERS[] = {"Fold3D's speed over", "measured", "predicted"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct gains gains = {0};
    published_gains(v->arena, &v->rows, dataset, &gains);
    if (!gains.len)
        return;
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < gains.len; i++) {
        const struct gain *gain = &gains.data[i];
        table_cell(table, "%s, %s", gain->over->system, gain->row->group);
        table_cell(table, "%.2f", gain->measured);
        table_cell(table, gain->predicted > 0 ? "%.2f" : "-", gain->predicted);
    }
    putchar('\n');
    table_print(table, stdout);
}

static void print_ranks(const struct validation *v, const struct dataset *dataset)
{
    static const char *const HEADERS[] = {"order", "strategy", "measured", "predicted"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    int rows = 0, right = 0;
    for (size_t i = 0; i < v->rows.len; i++) {
        const struct published *row = &v->rows.data[i];
        if (row->dataset != dataset || !row->rank)
            continue;
        int64_t rank = published_rank(&v->rows, row);
        rows++;
        right += rank == row->rank;
        table_cell(table, "%s", row->group);
        table_cell(table, "%s", row->name);
        table_cell(table, "%lld", (long long)row->rank);
        table_cell(table, rank ? "%lld" : "-", (long long)rank);
    }
    if (!rows)
        return;
    putchar('\n');
    table_print(table, stdout);
    printf("%d of %d in their place\n", right, rows);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void pair_cells(struct table *table, const struct published *row, enum measure measure)
{
    bool time = measure == MEASURE_TIME;
    double measured = time ? row->measured.time_s : row->measured.memory_bytes;
    double predicted = time ? row->predicted.time_s : row->predicted.memory_bytes, error;
    struct text32 left = time ? show_seconds(measured * 1e9) : show_bytes(measured);
    struct text32 right = time ? show_seconds(predicted * 1e9) : show_bytes(predicted);
    bool both = published_error(row, measure, &error);
    table_cell(table, "%s", measured > 0 ? left.s : "");
    table_cell(table, "%s", predicted > 0 ? right.s : "");
    number_cell(table, both, "+", 1, both ? error * 100 : 0);
}

static void print_rows(const struct validation *v, const struct dataset *dataset)
{
    static const char *const HEADERS[] = {"case", "half",   "measured",  "predicted",
                                          "%",    "memory", "predicted", "%"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < v->rows.len; i++) {
        const struct published *row = &v->rows.data[i];
        if (row->dataset != dataset)
            continue;
        table_cell(table, "%s", row->name);
        table_cell(table, "%s", half_name(row->half));
        pair_cells(table, row, MEASURE_TIME);
        pair_cells(table, row, MEASURE_MEMORY);
    }
    printf("\n%s: %s (%s)\n", dataset->name, dataset->summary, dataset->source);
    table_print(table, stdout);
}

static bool has_portions(const struct published *row)
{
    return row->measured.portion_s[PORTION_FORWARD] > 0;
}

/* The portions that some run of the dataset has measured or, of those that add up, that are predicted. */
static int portions_shown(const struct validation *v, const struct dataset *dataset)
{
    for (size_t i = 0; i < v->rows.len; i++) {
        const struct published *row = &v->rows.data[i];
        if (row->dataset == dataset && row->measured.portion_s[PORTION_COPIES] > 0)
            return PORTION_COUNT;
    }
    return PORTION_COPIES;
}

/* The parts of an iteration, measured and predicted, in ms. */
static void print_portions(const struct validation *v, const struct dataset *dataset)
{
    const char *headers[1 + PORTION_COUNT] = {"where time goes, ms: measured, predicted"};
    enum align aligns[1 + PORTION_COUNT] = {ALIGN_LEFT};
    bool any = false;
    int shown = portions_shown(v, dataset);
    if (shown == PORTION_COUNT)
        headers[0] = "ms: measured, predicted";
    for (int p = 0; p < shown; p++) {
        headers[1 + p] = portion_name((enum portion)p);
        aligns[1 + p] = ALIGN_RIGHT;
    }
    struct table *table = table_new(v->arena, 1 + (size_t)shown, headers, aligns);
    for (size_t i = 0; i < v->rows.len; i++) {
        const struct published *row = &v->rows.data[i];
        if (row->dataset != dataset || !has_portions(row) || !row->done)
            continue;
        any = true;
        const struct run_outcome *const both[] = {&row->measured, &row->predicted};
        for (size_t k = 0; k < COUNT_OF(both); k++) {
            table_cell(table, "%s", k == 0 ? row->name : "");
            for (int p = 0; p < shown; p++)
                number_cell(table, both[k]->portion_s[p] > 0, "", 0, both[k]->portion_s[p] * 1e3);
        }
    }
    if (!any)
        return;
    putchar('\n');
    table_print(table, stdout);
}

/* ---- rows that cannot be expressed ----------------------------------------------------------- */

static void print_excuses(const struct validation *v, const char *title,
                          const char *(*text)(const struct published *row))
{
    const char *const headers[] = {title, "rows", "dataset"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_LEFT};
    struct excuses excuses = {0};
    validation_excuses(v, text, &excuses);
    if (!excuses.len)
        return;
    struct table *table = table_new(v->arena, COUNT_OF(headers), headers, ALIGNS);
    for (size_t i = 0; i < excuses.len; i++) {
        table_cell(table, "%s", excuses.data[i].text);
        table_cell(table, "%lld", (long long)excuses.data[i].rows);
        table_cell(table, "%s", excuses.data[i].dataset->name);
    }
    putchar('\n');
    table_print(table, stdout);
}

int validation_print(const struct validation *v)
{
    if (v->plan) {
        replanned_print(v);
        return WEFT_OK;
    }
    if (v->datasets) {
        print_datasets(v);
        print_decisions(v);
        peers_print(v);
        if (v->list_groups) {
            groups_print(v);
            coverage_print(v);
        }
        if (v->refitted) {
            refit_print(v);
            half_fits_print(v);
        }
    }
    for (size_t i = 0; i < v->datasets; i++) {
        if (v->list_rows) {
            print_rows(v, v->dataset[i]);
            print_portions(v, v->dataset[i]);
        }
        if (v->dataset[i]->compares) {
            print_gains(v, v->dataset[i]);
            print_ranks(v, v->dataset[i]);
        }
    }
    print_excuses(v, "assumed where the source says nothing", row_assumes);
    print_excuses(v, "cannot be expressed", row_reason);
    full_runs_print(v);
    searches_print(v);
    return WEFT_OK;
}
