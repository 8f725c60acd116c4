/* observe.c - measured times as observations, to fit calibrations on and to judge them by.
 *
 *   I1  Half of the times, chosen by a bit of a hash of their row or by the table itself, are held out: no fit uses
 *       them.
 *   I2  Rows that repeat another row's numbers, and times for which it is unknown what ran, are not
 *       used as observations.
 */
#include "cost/calibration.h"

#include <string.h>

enum { FILE_LIMIT = 64 << 20 };

struct observing {
    struct arena *keep;
    struct observations *out;
};

static uint64_t row_hash(const struct csv *csv)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < csv->columns; i++)
        hash = hash_bytes(csv->field[i], strlen(csv->field[i]), hash);
    return hash;
}

static weft_status observe_row(void *context, const struct csv *csv, const struct table_row *row)
{
    struct observing *to = context;
    uint64_t hash = row_hash(csv);
    const struct device *device = device_find(row->device);
    if (!device)
        return bad_input(csv->file, csv->line, NULL, "unknown device '%s'", row->device);
    for (int i = 0; i < row->times && !row->repeated; i++) {
        struct observation o = {device, row->label, row->time[i],
                                row->halved ? row->held_out : hash >> i & 1}; /* I1 */
        if (o.time.works)                                                     /* I2 */
            array_push(to->keep, to->out, o);
    }
    return WEFT_OK;
}

static const struct {
    const char *file;
    weft_status (*read)(struct source_table *table);
} SOURCES[] = {
    [OBSERVED_SIMUMAX] = {"simumax_op_efficiency.csv", table_simumax},
    [OBSERVED_ACESO] = {"aceso/v100_ops.csv", table_operators},
    [OBSERVED_SAILOR] = {"sailor/ops.csv", table_operators},
    [OBSERVED_H200] = {"weft/h200_ops.csv", table_weft},
    [OBSERVED_PRODUCTS] = {"aiconfigurator/gemm.csv", table_aiconfigurator},
    [OBSERVED_ATTENTION] = {"aiconfigurator/context_attention.csv", table_aiconfigurator},
    [OBSERVED_EXPERTS] = {"aiconfigurator/moe.csv", table_aiconfigurator},
};
_Static_assert(COUNT_OF(SOURCES) == OBSERVED_COUNT, "a source without a row");

weft_status observe(const char *folder, enum observed source, struct arena *keep,
                    struct observations *out)
{
    struct observing to = {keep, out};
    const char *path = arena_printf(keep, "%s/%s", folder, SOURCES[source].file);
    struct csv csv;
    char *text;
    size_t len;
    weft_status status;
    struct source_table table = {&csv, keep, NULL, observe_row, &to};
    TRY(file_read(keep, path, FILE_LIMIT, &text, &len));
    TRY(csv_open(&csv, path, text, len));
    TRY(SOURCES[source].read(&table));
done:
    return status;
}
