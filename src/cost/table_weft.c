/* table_weft.c - Weft's own table: times of single kernels, documented in docs/reference/profile.md.
 *
 *   I1  A time is that of the kernel alone, without gaps caused by the host: as
 *       tools/measure_torch.py writes it.
 */

#include "cost/profile.h"
#include "cost/table.h"

enum { DEVICE, KERNEL, PHASE, DTYPE, SHAPE, NS, SAMPLES, SOURCE };
static const char *const COLUMNS[] = {"?device", "kernel", "phase",    "dtype",
                                      "shape",   "ns",     "?samples", "?source"};

static weft_status kernel_of(const struct csv *csv, int at, enum kernel *out)
{
    if (kernel_from_name(csv->field[at], out))
        return WEFT_OK;
    weft_status status = csv_error(csv, at, NULL, "a kernel");
    hint_near(kernel_near(csv->field[at]));
    return status;
}

static weft_status phase_of(const struct csv *csv, int at, struct timing *time)
{
    int phase;
    if (!profile_phase_from_name(csv->field[at], &phase))
        return csv_error(csv, at, NULL, "forward, backward_input, backward_weight or backward");
    time->whole_backward = phase == PHASE_WHOLE_BACKWARD;
    time->kernel.phase = time->whole_backward ? PHASE_BACKWARD_INPUT : (enum phase)phase;
    return WEFT_OK;
}

static weft_status read_kernel(const struct source_table *table, const struct csv *csv,
                               const int *at, struct timing *time)
{
    weft_status status;
    TRY(kernel_of(csv, at[KERNEL], &time->kernel.kernel));
    TRY(phase_of(csv, at[PHASE], time));
    if (!dtype_from_name(csv->field[at[DTYPE]], &time->kernel.dtype))
        TRY(csv_error(csv, at[DTYPE], NULL, DTYPE_NAMES));
    const char *problem = shape_parse(table->scratch, csv->field[at[SHAPE]], &time->kernel);
    if (problem)
        TRY(bad_input(csv->file, csv->line,
                      "docs/reference/profile.md lists every kernel's shape numbers",
                      "shape '%.100s' of a %s: %s", csv->field[at[SHAPE]],
                      kernel_name(time->kernel.kernel), problem));
done:
    return status;
}

static weft_status read_row(void *context, const struct csv *csv, const int *at)
{
    const struct source_table *table = context;
    struct table_row row = {.device = table->device, .samples = 1, .times = 1};
    struct timing *time = &row.time[0];
    weft_status status;
    if (at[DEVICE] >= 0)
        row.device = csv->field[at[DEVICE]];
    if (!row.device || !*row.device)
        TRY(bad_input(csv->file, csv->line, "add a column 'device', or give --device NAME",
                      "does not say which device was measured"));
    TRY(read_kernel(table, csv, at, time));
    TRY(csv_real(csv, at[NS], REAL_POSITIVE, &time->ns));
    if (at[SAMPLES] >= 0)
        TRY(csv_int(csv, at[SAMPLES], 1, &row.samples));
    row.source = at[SOURCE] >= 0 ? csv->field[at[SOURCE]] : "";
    row.label = kernel_name(time->kernel.kernel);
    time->collective = "";
    time->host_free = true; /* I1 */
    time->loss = LOSS_TORCH;
    time->works = time->whole_backward ? 0 : 1;
    time->work[0] = time->kernel;
    TRY(table->sink(table->context, csv, &row));
done:
    return status;
}

weft_status table_weft(struct source_table *table)
{
    return csv_read(table->csv, COLUMNS, COUNT_OF(COLUMNS), read_row, table);
}
