/* validate_json.c - what `weft validate` found, as JSON (docs/reference/json.md). */
#include "lab/validate.h"

/* Numbers that are not known are left out. */
static void set_number(json_t *json, const char *key, double value)
{
    if (value > 0)
        json_object_set_new(json, key, json_real(value));
}

static json_t *errors_json(const struct validation *v, const struct dataset *dataset,
                           enum half half, enum measure measure)
{
    struct errors errors = published_errors(&v->rows, dataset, half, measure);
    return json_pack("{s:I, s:f, s:f, s:f}", "rows", (json_int_t)errors.rows, "mean", errors.mean,
                     "median", errors.median, "worst", errors.worst);
}

static json_t *half_json(const struct validation *v, const struct dataset *dataset, enum half half)
{
    struct counts counts = validation_counts(v, dataset, half);
    return json_pack("{s:s, s:I, s:I, s:o, s:o, s:o}", "half", half_name(half), "rows",
                     (json_int_t)counts.rows, "run", (json_int_t)counts.predicted, "time_error",
                     errors_json(v, dataset, half, MEASURE_TIME), "memory_error",
                     errors_json(v, dataset, half, MEASURE_MEMORY), "reserved_error",
                     errors_json(v, dataset, half, MEASURE_RESERVED));
}

static json_t *decisions_json(const struct validation *v, const struct dataset *dataset)
{
    struct decisions d = published_decisions(&v->rows, dataset);
    return json_pack("{s:I, s:I, s:f, s:f, s:I, s:I}", "choices", (json_int_t)d.choices, "right",
                     (json_int_t)d.right, "mean_regret", d.regret, "worst_regret", d.worst, "pairs",
                     (json_int_t)d.pairs, "in_order", (json_int_t)d.in_order);
}

static json_t *outcome_json(const struct run_outcome *outcome)
{
    json_t *json = json_object(), *portions = json_object();
    set_number(json, "time_s", outcome->time_s);
    set_number(json, "memory_bytes", outcome->memory_bytes);
    set_number(json, "reserved_bytes", outcome->reserved_bytes);
    for (int p = 0; p < PORTION_COUNT; p++)
        set_number(portions, portion_name((enum portion)p), outcome->portion_s[p]);
    if (json_object_size(portions))
        json_object_set_new(json, "breakdown", portions);
    else
        json_decref(portions);
    return json;
}

static json_t *row_json(const struct published *row)
{
    json_t *json =
        json_pack("{s:o, s:i, s:s, s:o}", "case", json_text(row->name), "line", row->line, "half",
                  half_name(row->half), "measured", outcome_json(&row->measured));
    if (row->done) {
        json_object_set_new(json, "predicted", outcome_json(&row->predicted));
        json_object_set_new(json, "fits", json_boolean(row->predicted.fits));
    }
    if (row->reason)
        json_object_set_new(json, "reason", json_text(row->reason));
    if (row->assumes)
        json_object_set_new(json, "assumes", json_text(row->assumes));
    if (!row->reason) {
        json_object_set_new(json, "model", json_text(row->model));
        json_object_set_new(json, "options", json_text(row->options ? row->options : ""));
        json_object_set_new(json, "cluster", json_text(row->cluster));
    }
    return json;
}

static json_t *rows_json(const struct validation *v, const struct dataset *dataset)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < v->rows.len; i++)
        if (v->rows.data[i].dataset == dataset)
            json_array_append_new(rows, row_json(&v->rows.data[i]));
    return rows;
}

static json_t *excuses_json(const struct validation *v, const struct dataset *dataset,
                            const char *key, const char *(*text)(const struct published *row))
{
    struct excuses excuses = {0};
    json_t *list = json_array();
    validation_excuses(v, text, &excuses);
    for (size_t i = 0; i < excuses.len; i++)
        if (excuses.data[i].dataset == dataset)
            json_array_append_new(list,
                                  json_pack("{s:o, s:I}", key, json_text(excuses.data[i].text),
                                            "rows", (json_int_t)excuses.data[i].rows));
    return list;
}

static json_t *gains_json(const struct validation *v, const struct dataset *dataset)
{
    struct gains gains = {0};
    json_t *list = json_array();
    published_gains(v->arena, &v->rows, dataset, &gains);
    for (size_t i = 0; i < gains.len; i++) {
        const struct gain *gain = &gains.data[i];
        json_t *json = json_pack("{s:o, s:o, s:f}", "group", json_text(gain->row->group), "over",
                                 json_text(gain->over->system), "measured_gain", gain->measured);
        set_number(json, "predicted_gain", gain->predicted);
        json_array_append_new(list, json);
    }
    return list;
}

static json_t *ranks_json(const struct validation *v, const struct dataset *dataset)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->rows.len; i++) {
        const struct published *row = &v->rows.data[i];
        if (row->dataset == dataset && row->rank)
            json_array_append_new(
                list, json_pack("{s:o, s:o, s:I, s:I}", "group", json_text(row->group), "case",
                                json_text(row->name), "measured_rank", (json_int_t)row->rank,
                                "predicted_rank", (json_int_t)published_rank(&v->rows, row)));
    }
    return list;
}

static json_t *dataset_json(const struct validation *v, const struct dataset *dataset)
{
    json_t *halves = json_array();
    for (int h = 0; h < HALF_COUNT; h++)
        if (v->half[h])
            json_array_append_new(halves, half_json(v, dataset, (enum half)h));
    json_t *json = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "name", dataset->name, "summary",
                             dataset->summary, "source", dataset->source, "halves", halves,
                             "refused", excuses_json(v, dataset, "reason", row_reason), "assumed",
                             excuses_json(v, dataset, "assumes", row_assumes));
    json_object_set_new(json, "full", excuses_json(v, dataset, "reason", row_full));
    json_object_set_new(json, "full_runs", full_runs_json(v, dataset));
    json_object_set_new(json, "decisions", decisions_json(v, dataset));
    json_object_set_new(json, "peers", peers_json(v, dataset));
    if (dataset->compares) {
        json_object_set_new(json, "gains", gains_json(v, dataset));
        json_object_set_new(json, "ranks", ranks_json(v, dataset));
    }
    if (v->list_groups) {
        json_object_set_new(json, "machines", machines_json(v, dataset));
        json_object_set_new(json, "intervals", coverage_json(v, dataset));
    }
    if (v->refitted) {
        json_object_set_new(json, "refitted", refit_json(v, dataset));
        json_object_set_new(json, "fitted_by_half", half_fits_json(v, dataset));
    }
    if (v->plan)
        json_object_set_new(json, "planned", replanned_json(v, dataset));
    if (v->list_rows)
        json_object_set_new(json, "results", rows_json(v, dataset));
    return json;
}

int validation_print_json(const struct validation *v)
{
    json_t *datasets = json_array();
    for (size_t i = 0; i < v->datasets; i++)
        json_array_append_new(datasets, dataset_json(v, v->dataset[i]));
    json_t *json = json_pack("{s:o}", "datasets", datasets);
    if (v->searches)
        json_object_set_new(json, "searches", searches_json(v));
    return cli_print_json(json);
}
