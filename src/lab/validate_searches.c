/* validate_searches.c - what `weft validate` found about published searches, as tables and JSON. */
#include <stdio.h>
#include <string.h>

#include "lab/validate.h"

/* The strategy whose search space contains all others. */
static const char LARGEST[] = "Galvatron-BMW";

static int64_t refused_cells(const struct validation *v, const struct search_table *table)
{
    int64_t refused = 0;
    for (size_t i = 0; i < v->cells.len; i++)
        refused += v->cells.data[i].table == table && v->cells.data[i].reason != NULL;
    return refused;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void ratio_cell(struct table *table, int64_t part, int64_t all)
{
    table_cell(table, "%lld of %lld", (long long)part, (long long)all);
}

static void print_agreements(const struct validation *v, const struct search_table *which)
{
    static const char *const HEADERS[] = {"strategy", "cells",  "fits or not", "same batch",
                                          "mean",     "median", "worst"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    struct agreements all = {0};
    search_agreements(v->arena, &v->cells, which, &all);
    for (size_t i = 0; i < all.len; i++) {
        const struct agreement *a = &all.data[i];
        table_cell(table, "%s", a->strategy);
        table_cell(table, "%lld", (long long)a->cells);
        ratio_cell(table, a->fit_agrees, a->cells);
        ratio_cell(table, a->batch_agrees, a->both_fit);
        table_cell(table, "%.1f", a->samples.mean * 100);
        table_cell(table, "%.1f", a->samples.median * 100);
        table_cell(table, "%.1f", a->samples.worst * 100);
    }
    table_print(table, stdout);
}

static void answer_cells(struct table *table, const struct search_answer *answer)
{
    table_cell(table, answer->fits ? "%.2f" : "-", answer->samples_per_s);
    table_cell(table, answer->fits ? "%lld" : "-", (long long)answer->batch);
}

static void print_cells(const struct validation *v, const struct search_table *which)
{
    static const char *const HEADERS[] = {"model", "strategy", "GiB",       "measured",
                                          "batch", "found",    "its batch", "plan"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_LEFT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < v->cells.len; i++) {
        const struct search_cell *cell = &v->cells.data[i];
        if (cell->table != which || !cell->done)
            continue;
        table_cell(table, "%s", cell->model);
        table_cell(table, "%s", cell->strategy);
        table_cell(table, "%lld", (long long)(cell->limit_bytes >> 30));
        answer_cells(table, &cell->measured);
        answer_cells(table, &cell->predicted);
        table_cell(table, "%.26s", cell->layout ? cell->layout : ""); /* its beginning */
    }
    putchar('\n');
    table_print(table, stdout);
}

static void print_search(const struct validation *v, const struct search_table *which)
{
    struct lead lead = search_lead(&v->cells, which, LARGEST);
    int64_t refused = refused_cells(v, which);
    printf("%s: %s (%s)\n", which->name, which->summary, which->source);
    print_agreements(v, which);
    printf("\n%s is the fastest in %lld of %lld columns as measured, in %lld as found.\n", LARGEST,
           (long long)lead.measured, (long long)lead.columns, (long long)lead.predicted);
    printf(
        "fits or not: cells that agree. same batch: of cells that both fill. mean, median, worst:\n"
        "absolute errors of samples per second in %%.\n");
    if (refused)
        printf("%lld cells are left out: no layers of their models were measured, or no strategy "
               "is so called.\n",
               (long long)refused);
    if (v->list_rows)
        print_cells(v, which);
}

/* Cells such as "2 7 9 14" and "12.3"; a cut that does not fit has no speed. */
static void cut_cells(struct arena *arena, struct table *table, const struct cut *cut,
                      int64_t stages)
{
    const char *text = "";
    for (int64_t i = 0; i < stages; i++)
        text = arena_printf(arena, "%s%s%d", text, i ? " " : "", (int)cut->count[i]);
    table_cell(table, "%s", text);
    table_cell(table, cut->fits ? "%.1f" : "-", cut->samples_per_s);
}

static void print_cuts(const struct validation *v, const struct search_table *which)
{
    static const char *const HEADERS[] = {"model",   "GiB",       "by memory", "samples/s",
                                          "by time", "samples/s", "searched",  "samples/s"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_LEFT, ALIGN_RIGHT,
                                        ALIGN_LEFT, ALIGN_RIGHT, ALIGN_LEFT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    struct cut_tally tally = cut_tally_of(&v->cuts);
    for (size_t i = 0; i < v->cuts.len; i++) {
        const struct cut_pipeline *pipeline = &v->cuts.data[i];
        table_cell(table, "%s", pipeline->model);
        table_cell(table, "%lld", (long long)(pipeline->limit_bytes >> 30));
        for (int way = 0; way < CUT_WAYS; way++)
            cut_cells(v->arena, table, &pipeline->cut[way], pipeline->stages);
    }
    printf("%s: %s (%s)\n", which->name, which->summary, which->source);
    table_print(table, stdout);
    printf(
        "\nLayers per stage, and samples per second where it fits. What the search finds is never\n"
        "slower than the others in %lld of %lld pipelines; of %lld that fit when cut by memory,\n"
        "%lld lie between the others in their balance of time and of memory (Eq. 7).\n",
        (long long)tally.never_slower, (long long)tally.pipelines, (long long)tally.memory_fits,
        (long long)tally.between);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *agreements_json(const struct validation *v, const struct search_table *which)
{
    struct agreements all = {0};
    json_t *list = json_array();
    search_agreements(v->arena, &v->cells, which, &all);
    for (size_t i = 0; i < all.len; i++) {
        const struct agreement *a = &all.data[i];
        json_t *errors =
            json_pack("{s:I, s:f, s:f, s:f}", "rows", (json_int_t)a->samples.rows, "mean",
                      a->samples.mean, "median", a->samples.median, "worst", a->samples.worst);
        json_array_append_new(
            list, json_pack("{s:o, s:I, s:I, s:I, s:I, s:o}", "strategy", json_text(a->strategy),
                            "cells", (json_int_t)a->cells, "fit_agrees", (json_int_t)a->fit_agrees,
                            "both_fit", (json_int_t)a->both_fit, "batch_agrees",
                            (json_int_t)a->batch_agrees, "samples_error", errors));
    }
    return list;
}

static json_t *answer_json(const struct search_answer *answer)
{
    json_t *json = json_pack("{s:b}", "fits", (int)answer->fits);
    if (answer->fits) {
        json_object_set_new(json, "batch", json_integer(answer->batch));
        json_object_set_new(json, "samples_per_s", json_real(answer->samples_per_s));
    }
    return json;
}

static json_t *cell_json(const struct search_cell *cell)
{
    json_t *json =
        json_pack("{s:o, s:o, s:I, s:I, s:i, s:o}", "strategy", json_text(cell->strategy), "model",
                  json_text(cell->model), "devices", (json_int_t)cell->devices, "limit_bytes",
                  (json_int_t)cell->limit_bytes, "line", cell->line, "measured",
                  answer_json(&cell->measured));
    if (cell->done)
        json_object_set_new(json, "found", answer_json(&cell->predicted));
    if (cell->layout)
        json_object_set_new(json, "layout", json_text(cell->layout));
    if (cell->reason)
        json_object_set_new(json, "reason", json_text(cell->reason));
    return json;
}

static json_t *search_json(const struct validation *v, const struct search_table *which)
{
    struct lead lead = search_lead(&v->cells, which, LARGEST);
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:o, s:I, s:{s:s, s:I, s:I, s:I}}", "name", which->name,
                  "summary", which->summary, "source", which->source, "strategies",
                  agreements_json(v, which), "refused", (json_int_t)refused_cells(v, which),
                  "fastest", "strategy", LARGEST, "columns", (json_int_t)lead.columns, "measured",
                  (json_int_t)lead.measured, "found", (json_int_t)lead.predicted);
    if (v->list_rows) {
        json_t *cells = json_array();
        for (size_t i = 0; i < v->cells.len; i++)
            if (v->cells.data[i].table == which)
                json_array_append_new(cells, cell_json(&v->cells.data[i]));
        json_object_set_new(json, "results", cells);
    }
    return json;
}

static json_t *cut_json(const struct cut *cut, int64_t stages)
{
    json_t *layers = json_array();
    for (int64_t i = 0; i < stages; i++)
        json_array_append_new(layers, json_integer(cut->count[i]));
    json_t *json = json_pack("{s:b, s:o, s:f, s:f}", "fits", (int)cut->fits, "layers", layers,
                             "alpha_time", cut->alpha_time, "alpha_memory", cut->alpha_memory);
    if (cut->fits)
        json_object_set_new(json, "samples_per_s", json_real(cut->samples_per_s));
    return json;
}

static json_t *cuts_json(const struct validation *v, const struct search_table *which)
{
    struct cut_tally tally = cut_tally_of(&v->cuts);
    json_t *list = json_array();
    for (size_t i = 0; i < v->cuts.len; i++) {
        const struct cut_pipeline *p = &v->cuts.data[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:I, s:I, s:I, s:I, s:b, s:o, s:o, s:o}", "model",
                                        p->model, "devices", (json_int_t)p->devices, "limit_bytes",
                                        (json_int_t)p->limit_bytes, "batch", (json_int_t)p->batch,
                                        "micro_batches", (json_int_t)p->micro_batches, "between",
                                        (int)p->between, "by_memory",
                                        cut_json(&p->cut[CUT_BY_MEMORY], p->stages), "by_time",
                                        cut_json(&p->cut[CUT_BY_TIME], p->stages), "searched",
                                        cut_json(&p->cut[CUT_BY_SEARCH], p->stages)));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:I, s:I}", "name", which->name, "summary",
                     which->summary, "source", which->source, "pipelines", list, "never_slower",
                     (json_int_t)tally.never_slower, "memory_fits", (json_int_t)tally.memory_fits,
                     "lie_between", (json_int_t)tally.between);
}

/* ---- every form ------------------------------------------------------------------------------ */

static const struct {
    void (*print)(const struct validation *v, const struct search_table *which);
    json_t *(*json)(const struct validation *v, const struct search_table *which);
} FORMS[] = {
    [SEARCH_CELLS] = {print_search, search_json},
    [SEARCH_CUTS] = {print_cuts, cuts_json},
    [SEARCH_CONTEST] = {contests_print, contests_json},
    [SEARCH_PLANNED] = {print_search, search_json},
};

void searches_print(const struct validation *v)
{
    for (size_t i = 0; i < v->searches; i++) {
        if (i || v->datasets)
            putchar('\n');
        FORMS[v->searched[i]->form].print(v, v->searched[i]);
    }
}

json_t *searches_json(const struct validation *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->searches; i++)
        json_array_append_new(list, FORMS[v->searched[i]->form].json(v, v->searched[i]));
    return list;
}
