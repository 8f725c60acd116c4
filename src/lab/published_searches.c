/* published_searches.c - reads tables of published searches, and counts how far Weft's own answers agree. */
#include "lab/published_searches.h"

#include <math.h>
#include <string.h>

#include "lab/published_read.h"

/* ---- reading --------------------------------------------------------------------------------- */

enum cell_column {
    COLUMN_DEVICES,
    COLUMN_MEMORY,
    COLUMN_CLUSTER,
    COLUMN_STRATEGY,
    COLUMN_MODEL,
    COLUMN_OOM,
    COLUMN_SAMPLES,
    COLUMN_BATCH,
    COLUMN_COUNT
};
static const char *const COLUMNS[] = {
    [COLUMN_DEVICES] = "devices",       [COLUMN_MEMORY] = "memory_gib",
    [COLUMN_CLUSTER] = "cluster",       [COLUMN_STRATEGY] = "strategy",
    [COLUMN_MODEL] = "model",           [COLUMN_OOM] = "oom",
    [COLUMN_SAMPLES] = "samples_per_s", [COLUMN_BATCH] = "batch",
};
_Static_assert(COUNT_OF(COLUMNS) == COLUMN_COUNT, "a column without a name");

struct cell_reading {
    struct arena *keep;
    const struct search_table *table;
    struct search_cells *out;
};

static weft_status take_cell(void *context, const struct csv *csv, const int *at)
{
    struct cell_reading *reading = context;
    struct search_cell cell = {.table = reading->table, .line = csv->line};
    struct search_answer *measured = &cell.measured;
    int64_t memory_gib, oom;
    weft_status status;
    TRY(csv_int(csv, at[COLUMN_DEVICES], 1, &cell.devices));
    TRY(csv_int(csv, at[COLUMN_MEMORY], 1, &memory_gib));
    TRY(csv_int(csv, at[COLUMN_OOM], 0, &oom));
    if (oom > 1 || memory_gib > 1 << 20)
        return csv_error(csv, at[oom > 1 ? COLUMN_OOM : COLUMN_MEMORY], NULL,
                         oom > 1 ? "0 or 1" : "a device's memory in GiB");
    if (!oom) {
        TRY(csv_real(csv, at[COLUMN_SAMPLES], REAL_POSITIVE, &measured->samples_per_s));
        TRY(csv_int(csv, at[COLUMN_BATCH], 1, &measured->batch));
    }
    measured->fits = !oom;
    cell.limit_bytes = memory_gib * ((int64_t)1 << 30);
    cell.strategy = arena_copy_text(reading->keep, csv->field[at[COLUMN_STRATEGY]]);
    cell.model = arena_copy_text(reading->keep, csv->field[at[COLUMN_MODEL]]);
    array_push(reading->keep, reading->out, cell);
done:
    return status;
}

weft_status search_cells_parse(struct arena *keep, const struct search_table *table,
                               const char *file, char *text, size_t len, struct search_cells *out)
{
    struct cell_reading reading = {keep, table, out};
    struct csv csv;
    weft_status status = csv_open(&csv, file, text, len);
    return status ? status : csv_read(&csv, COLUMNS, COLUMN_COUNT, take_cell, &reading);
}

weft_status search_cells_read(struct arena *keep, const struct search_table *table,
                              struct search_cells *out)
{
    char *path, *text;
    size_t len;
    weft_status status;
    TRY(published_file(keep, table->file ? table->file : table->name, &path, &text, &len));
    TRY(search_cells_parse(keep, table, path, text, len, out));
done:
    return status;
}

/* ---- agreement ------------------------------------------------------------------------------- */

static void add_cell(struct arena *keep, const struct search_cell *cell, struct agreement *a,
                     struct error_list *errors)
{
    bool both = cell->measured.fits && cell->predicted.fits;
    a->cells++;
    a->fit_agrees += cell->measured.fits == cell->predicted.fits;
    if (!both)
        return;
    a->both_fit++;
    a->batch_agrees += cell->measured.batch == cell->predicted.batch;
    array_push(keep, errors,
               fabs(cell->predicted.samples_per_s / cell->measured.samples_per_s - 1));
}

void search_agreements(struct arena *keep, const struct search_cells *cells,
                       const struct search_table *table, struct agreements *out)
{
    struct error_list none = {0}, *errors = ARENA_ARRAY(keep, struct error_list, cells->len + 1);
    for (size_t i = 0; i < cells->len; i++) {
        const struct search_cell *cell = &cells->data[i];
        struct agreement agreement = {.strategy = cell->strategy};
        size_t at = 0;
        if (cell->table != table || !cell->done)
            continue;
        while (at < out->len && strcmp(out->data[at].strategy, cell->strategy) != 0)
            at++;
        if (at == out->len) {
            array_push(keep, out, agreement);
            errors[at] = none;
        }
        add_cell(keep, cell, &out->data[at], &errors[at]);
    }
    for (size_t i = 0; i < out->len; i++)
        out->data[i].samples = errors_of(errors[i].data, errors[i].len);
}

bool search_same_column(const struct search_cell *a, const struct search_cell *b)
{
    return a->table == b->table && a->devices == b->devices && a->limit_bytes == b->limit_bytes &&
           strcmp(a->model, b->model) == 0;
}

struct lead search_lead(const struct search_cells *cells, const struct search_table *table,
                        const char *strategy)
{
    struct lead lead = {0};
    for (size_t i = 0; i < cells->len; i++) {
        const struct search_cell *own = &cells->data[i];
        bool measured = true, predicted = true;
        if (own->table != table || !own->done || strcmp(own->strategy, strategy) != 0)
            continue;
        for (size_t j = 0; j < cells->len; j++) {
            const struct search_cell *other = &cells->data[j];
            if (!search_same_column(own, other) || !other->done)
                continue;
            measured &= own->measured.samples_per_s >= other->measured.samples_per_s;
            predicted &= own->predicted.samples_per_s >= other->predicted.samples_per_s;
        }
        lead.columns++;
        lead.measured += measured;
        lead.predicted += predicted;
    }
    return lead;
}
