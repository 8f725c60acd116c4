/* comparison.c - writes a comparison of plans as tables and as JSON. */
#include "report/report.h"
#include "runs/runs.h"

#include <string.h>

void compared_from(const struct prediction *prediction, struct compared *out)
{
    const struct plan *plan = prediction->plan;
    const struct stage_peak *memory = &prediction->stage[fullest_stage(prediction)].memory;
    const struct stage_prediction *busiest = &prediction->stage[prediction->busiest];
    double seconds = (double)prediction->iteration_ns * 1e-9;
    double dollars_per_s =
        plan->cluster->node.device.price_per_hour / 3600 * (double)cluster_devices(plan->cluster);
    double tokens = (double)plan->global_batch * (double)plan->model->seq;
    out->prediction = prediction_json(prediction);
    out->iteration_s = seconds;
    out->samples_per_s = (double)plan->global_batch / seconds;
    out->tokens_per_s = tokens / seconds;
    out->sample_tokens = plan->model->seq;
    out->tflops_per_device = prediction_tflops(prediction);
    out->cost = dollars_per_s * seconds / tokens * 1e6;
    out->needed_bytes = stage_needed(memory);
    out->limit_bytes = memory->limit;
    out->fits = prediction->fits;
    for (int t = 0; t < TIME_COUNT; t++)
        out->time_ns[t] = busiest->time_ns[t];
}

/* ---- what is best ---------------------------------------------------------------------------- */

/* Whether two rows may be compared (I2). */
static bool same_model(const struct comparison *comparison, const struct compared *a,
                       const struct compared *b)
{
    for (size_t i = 0; i < comparison->labels; i++)
        if (strcmp(comparison->header[i], "model") == 0 && strcmp(a->label[i], b->label[i]) != 0)
            return false;
    return true;
}

static bool unlike_samples(const struct comparison *comparison, const struct compared *a,
                           const struct compared *b)
{
    return !a->error && !b->error && a->sample_tokens != b->sample_tokens &&
           same_model(comparison, a, b);
}

/* The same rows, and whether tokens are what they have in common (I3). */
static struct comparison judged(const struct comparison *comparison)
{
    const struct compared *rows = comparison->rows.data;
    struct comparison out = *comparison;
    out.by_tokens = false;
    for (size_t i = 0; i < comparison->rows.len && !out.by_tokens; i++)
        for (size_t k = 0; k < i && !out.by_tokens; k++)
            out.by_tokens = unlike_samples(comparison, &rows[i], &rows[k]);
    return out;
}

/* What more of is better, a second (I3). */
static double rate_of(const struct comparison *comparison, const struct compared *row)
{
    return comparison->by_tokens ? row->tokens_per_s : row->samples_per_s;
}

/* Among the rows that `of` is compared with, the one with the highest rate that fits, or of all if none fits. NULL if
 * none was predicted. */
static const struct compared *best_of(const struct comparison *comparison,
                                      const struct compared *of)
{
    const struct compared *best = NULL;
    for (size_t i = 0; i < comparison->rows.len; i++) {
        const struct compared *row = &comparison->rows.data[i];
        if (!row->error && same_model(comparison, of, row) &&
            (!best || row->fits > best->fits ||
             (row->fits == best->fits && rate_of(comparison, row) > rate_of(comparison, best))))
            best = row;
    }
    return best;
}

/* Whether both answer one question: their model, cluster and batch are the same. */
static bool same_question(const struct compared *a, const struct compared *b)
{
    static const char *const FIELDS[] = {"model", "cluster", "devices", "global_batch"};
    for (size_t i = 0; i < COUNT_OF(FIELDS); i++)
        if (!json_equal(json_object_get(a->prediction, FIELDS[i]),
                        json_object_get(b->prediction, FIELDS[i])))
            return false;
    return true;
}

/* Whether a row is nearer to its best one than predictions of runs tell two plans apart, a share of the time. */
static bool is_near(const struct comparison *comparison, const struct compared *row, double apart)
{
    const struct compared *best = best_of(comparison, row);
    return !row->error && row != best && row->fits && best->fits && same_question(row, best) &&
           rate_of(comparison, best) <= rate_of(comparison, row) * (1 + apart);
}

static bool any_cost(const struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->rows.len; i++)
        if (comparison->rows.data[i].cost > 0)
            return true;
    return false;
}

/* ---- tables ---------------------------------------------------------------------------------- */

enum { MOST_COLUMNS = 24 };
struct columns {
    const char *header[MOST_COLUMNS];
    enum align align[MOST_COLUMNS];
    size_t len;
};

static void add_column(struct columns *columns, const char *header, enum align align)
{
    if (columns->len == MOST_COLUMNS)
        return;
    columns->header[columns->len] = header;
    columns->align[columns->len++] = align;
}

static void add_labels(const struct comparison *comparison, struct columns *columns)
{
    for (size_t i = 0; i < comparison->labels; i++)
        add_column(columns, comparison->header[i], ALIGN_LEFT);
}

/* If an axis has labels longer than this, the tables cut them at the first "+" ("aiao+segments=4" becomes "aiao"),
 * provided that they still differ. */
enum { LONG_LABEL = 24 };

static bool is_cut(const struct comparison *comparison, size_t axis)
{
    bool any_long = false;
    for (size_t r = 0; r < comparison->rows.len; r++) {
        const char *label = comparison->rows.data[r].label[axis];
        size_t len = strcspn(label, "+");
        any_long |= strlen(label) > LONG_LABEL;
        for (size_t o = 0; o < r; o++) {
            const char *other = comparison->rows.data[o].label[axis];
            if (strcmp(other, label) != 0 && strcspn(other, "+") == len &&
                strncmp(other, label, len) == 0)
                return false;
        }
    }
    return any_long && strcmp(comparison->header[axis], "plan") != 0; /* file names are kept */
}

static void label_cells(const struct comparison *comparison, const struct compared *row,
                        struct table *table)
{
    for (size_t i = 0; i < comparison->labels; i++) {
        const char *label = row->label[i];
        size_t len = is_cut(comparison, i) ? strcspn(label, "+") : strlen(label);
        table_cell(table, "%.*s", (int)len, label);
    }
}

static void rate_cells(const struct comparison *comparison, const struct compared *row,
                       struct table *table)
{
    const struct compared *best = best_of(comparison, row);
    double slower = rate_of(comparison, best) / rate_of(comparison, row) - 1;
    table_cell(table, "%s", show_seconds(row->iteration_s * 1e9).s);
    table_cell(table, "%s", show_count(row->samples_per_s).s);
    if (comparison->by_tokens)
        table_cell(table, "%s", show_count(row->tokens_per_s).s);
    table_cell(table, "%s", row == best ? "best" : show_change(slower).s);
    table_cell(table, row->tflops_per_device < 1 ? "%.3g" : "%.1f", row->tflops_per_device);
    table_cell(table, "%s", show_bytes((double)row->needed_bytes).s);
    table_cell(table, "%.0f %%%s", 100 * (double)row->needed_bytes / (double)row->limit_bytes,
               row->fits ? "" : " !");
}

static void print_rates(const struct comparison *comparison, FILE *out)
{
    static const char *const RATES[] = {"iteration", "samples/s", "tokens/s", "slower",
                                        "TFLOP/s",   "memory",    "of it"};
    enum { TOKENS = 2 };
    struct columns columns = {.len = 0};
    bool cost = any_cost(comparison);
    add_labels(comparison, &columns);
    for (size_t i = 0; i < COUNT_OF(RATES); i++)
        if (i != TOKENS || comparison->by_tokens)
            add_column(&columns, RATES[i], ALIGN_RIGHT);
    if (cost)
        add_column(&columns, arena_printf(comparison->arena, "cost per %s", comparison->unit),
                   ALIGN_RIGHT);
    struct table *table = table_new(comparison->arena, columns.len, columns.header, columns.align);
    for (size_t i = 0; i < comparison->rows.len; i++) {
        const struct compared *row = &comparison->rows.data[i];
        if (row->error)
            continue;
        label_cells(comparison, row, table);
        rate_cells(comparison, row, table);
        if (cost)
            table_cell(table, "%s",
                       row->cost > 0 ? arena_printf(comparison->arena, "%.4g", row->cost) : "");
    }
    table_print(table, out);
}

static bool any_time(const struct comparison *comparison, int time)
{
    for (size_t i = 0; i < comparison->rows.len; i++)
        if (!comparison->rows.data[i].error && comparison->rows.data[i].time_ns[time] > 0)
            return true;
    return false;
}

/* How each row's iteration divides into purposes, as shares of its own time. */
static void print_times(const struct comparison *comparison, FILE *out)
{
    struct columns columns = {.len = 0};
    add_labels(comparison, &columns);
    for (int i = 0; i < TIME_COUNT; i++)
        if (any_time(comparison, BREAKDOWN[i]))
            add_column(&columns, time_name(BREAKDOWN[i]), ALIGN_RIGHT);
    struct table *table = table_new(comparison->arena, columns.len, columns.header, columns.align);
    for (size_t i = 0; i < comparison->rows.len; i++) {
        const struct compared *row = &comparison->rows.data[i];
        if (row->error)
            continue;
        label_cells(comparison, row, table);
        for (int t = 0; t < TIME_COUNT; t++)
            if (any_time(comparison, BREAKDOWN[t]))
                table_cell(table, "%.1f %%",
                           (double)row->time_ns[BREAKDOWN[t]] / row->iteration_s * 1e-7);
    }
    fputs("\nwhere time goes, on the busiest stage\n\n", out);
    table_print(table, out);
}

static struct iteration_terms timed_row(const struct comparison *comparison,
                                        const struct compared *row)
{
    return (struct iteration_terms){row->time_ns, row->iteration_s * rate_of(comparison, row)};
}

/* In which terms its model's best row gains over this one; null for the best itself. */
static json_t *row_gains(const struct comparison *comparison, const struct compared *row)
{
    const struct compared *best = best_of(comparison, row);
    if (row->error || best == row)
        return json_null();
    struct iteration_terms own = timed_row(comparison, best), other = timed_row(comparison, row);
    return json_pack("{s:o, s:o}", "terms_s", term_gains_json(own, other), "words",
                     json_text(term_gains_text(comparison->arena, own, other)));
}

static void print_found(const struct comparison *comparison, FILE *out)
{
    struct columns columns = {.len = 0};
    bool any = false;
    add_labels(comparison, &columns);
    add_column(&columns, "what the planner chose", ALIGN_LEFT);
    struct table *table = table_new(comparison->arena, columns.len, columns.header, columns.align);
    for (size_t i = 0; i < comparison->rows.len; i++) {
        const struct compared *row = &comparison->rows.data[i];
        if (row->error || !row->found)
            continue;
        label_cells(comparison, row, table);
        table_cell(table, "%s", row->found);
        any = true;
    }
    if (!any)
        return;
    putc('\n', out);
    table_print(table, out);
}

static const char *row_text(const struct comparison *comparison, const struct compared *row)
{
    const char *text = "";
    for (size_t i = 0; i < comparison->labels; i++)
        text = arena_printf(comparison->arena, "%s%s%s %s", text, i ? ", " : "",
                            comparison->header[i], row->label[i]);
    return text;
}

/* The rows that may be as fast as the one called best. */
static void print_near(const struct comparison *comparison, FILE *out)
{
    double apart = plans_apart();
    int64_t count = 0;
    for (size_t i = 0; i < comparison->rows.len; i++)
        count += is_near(comparison, &comparison->rows.data[i], apart);
    if (count == 0)
        return;
    fputc('\n', out);
    print_wrapped(comparison->arena, "",
                  arena_printf(comparison->arena,
                               "%s within %.0f %% of the best, which is as near as predictions "
                               "tell two plans apart in 8 of 10 pairs of measured runs: %s may be "
                               "the fastest.",
                               counted(count, "other").s, apart * 100,
                               count == 1 ? "it" : "any of them"),
                  out);
}

static void print_errors(const struct comparison *comparison, FILE *out)
{
    bool first = true;
    for (size_t i = 0; i < comparison->rows.len; i++) {
        const struct compared *row = &comparison->rows.data[i];
        if (!row->error)
            continue;
        fprintf(out, "%s%s: %s\n", first ? "\nnot compared:\n" : "", row_text(comparison, row),
                row->error);
        first = false;
    }
}

void comparison_print(const struct comparison *rows, FILE *out)
{
    const struct comparison own = judged(rows), *comparison = &own;
    bool predicted = false;
    for (size_t i = 0; i < comparison->rows.len; i++)
        predicted |= !comparison->rows.data[i].error;
    if (predicted) {
        print_rates(comparison, out);
        print_near(comparison, out);
        print_times(comparison, out);
    }
    print_found(comparison, out);
    print_errors(comparison, out);
}

json_t *comparison_json(const struct comparison *compared)
{
    const struct comparison own = judged(compared), *comparison = &own;
    json_t *rows = json_array();
    double apart = plans_apart();
    for (size_t i = 0; i < comparison->rows.len; i++) {
        const struct compared *row = &comparison->rows.data[i];
        json_t *labels = json_object();
        for (size_t l = 0; l < comparison->labels; l++)
            json_object_set_new(labels, comparison->header[l], json_text(row->label[l]));
        json_array_append_new(
            rows,
            json_pack("{s:o, s:b, s:b, s:o, s:o, s:o, s:o, s:o}", "labels", labels, "best",
                      row == best_of(comparison, row), "near_best", is_near(comparison, row, apart),
                      "best_gains", row_gains(comparison, row), "error",
                      row->error ? json_text(row->error) : json_null(), "found",
                      row->found ? json_text(row->found) : json_null(), "cost",
                      row->cost > 0 ? json_real(row->cost) : json_null(), "prediction",
                      row->prediction ? json_incref(row->prediction) : json_null()));
    }
    return json_pack("{s:s, s:s, s:o}", "cost_per", comparison->unit, "ranked_by",
                     comparison->by_tokens ? "tokens_per_s" : "samples_per_s", "rows", rows);
}
