/* import_times.c - tables of kernels and operators into the database.
 *
 *   I1  A time that belongs to one kernel goes to the table `kernel` (table.h).
 *   I2  A row about a model's operator also goes to the table `operator` as it was published:
 *       times, memory, and which of its two times include a collective.
 */
#include <string.h>

#include "cost/profile.h"
#include "cost/table.h"

static void import_time(struct import *import, const struct table_row *row,
                        const struct timing *time)
{
    struct measurement m = {.device = row->device,
                            .work = time->kernel,
                            .whole_backward = time->whole_backward,
                            .ns = time->ns,
                            .samples = row->samples,
                            .source = import->source_name};
    if (!time->left_out)
        import_measure(import, &m);
    else if (time == row->time || row->time[FORWARD].left_out != time->left_out) /* once a row */
        import_skip(import, time->left_out);
}

static struct profile_value time_value(double ns)
{
    return ns < 1e3 * OUT_OF_MEMORY_US ? V_REAL(ns) : V_NULL;
}

/* I2 */
static weft_status store_operator(struct import *import, const struct table_row *row)
{
    enum { BEFORE_SIZES = 11 };
    const struct operator_row *op = row->operator;
    struct profile_value values[BEFORE_SIZES + OPERATOR_SIZES + 1] = {
        V_TEXT(row->device),
        V_TEXT(dtype_name(op->dtype)),
        V_TEXT(op->model),
        V_TEXT(op->op),
        V_INT(op->batch),
        V_INT(op->tp),
        V_INT(op->algo),
        time_value(row->time[FORWARD].ns),
        time_value(row->time[BACKWARD].ns),
        V_TEXT(row->time[FORWARD].collective),
        V_TEXT(row->time[BACKWARD].collective)};
    for (int i = 0; i < OPERATOR_SIZES; i++)
        values[BEFORE_SIZES + i] = V_INT((int64_t)(op->size_mb[i] * MIB + 0.5));
    values[BEFORE_SIZES + OPERATOR_SIZES] = V_INT(import->source);
    return import_row(import, TABLE_OPERATOR, values, COUNT_OF(values));
}

weft_status import_own_source(struct import *import, const struct csv *csv, const char *source)
{
    const char *name = *source ? source : "measured by the user";
    if (!import->source_name)
        return import_source(import, name, "");
    if (strcmp(import->source_name, name) == 0)
        return WEFT_OK;
    return csv_error(csv, csv_column(csv, "source"), "one file, one source: split the file",
                     "the source of the rows before");
}

static weft_status import_table_row(void *context, const struct csv *csv,
                                    const struct table_row *row)
{
    struct import *import = context;
    weft_status status = row->source ? import_own_source(import, csv, row->source) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    if (!import_wants(import, row->device) || !row->label) {
        import_skip(import, row->label ? "another device"
                                       : "a model or operator whose shapes Weft does not know");
        return WEFT_OK;
    }
    if (row->held_out) {
        import_skip(import, "held out: it judges the others");
        return WEFT_OK;
    }
    for (int i = 0; i < row->times; i++)
        import_time(import, row, &row->time[i]);
    return row->operator? store_operator(import, row) : WEFT_OK;
}

static struct source_table table_of(struct import *import, struct csv *csv)
{
    return (struct source_table){csv, import->arena, import->options->device, import_table_row,
                                 import};
}

weft_status import_simumax(struct import *import, struct csv *csv)
{
    struct source_table table = table_of(import, csv);
    return table_simumax(&table);
}

weft_status import_aiconfigurator(struct import *import, struct csv *csv)
{
    struct source_table table = table_of(import, csv);
    return table_aiconfigurator(&table);
}

weft_status import_weft_kernels(struct import *import, struct csv *csv)
{
    struct source_table table = table_of(import, csv);
    return table_weft(&table);
}

weft_status import_model_operators(struct import *import, struct csv *csv)
{
    struct source_table table = table_of(import, csv);
    return table_operators(&table);
}
