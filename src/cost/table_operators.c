/* table_operators.c - Aceso's tables of whole operators, and Sailor's, which were made with the same tool.
 *
 * A row names a model and an operator, and times its forward and its backward pass; shapes follow
 * from the model's sizes, the local micro-batch and the tensor degree (table_transformer.c,
 * table_resnet.c).
 *
 *   I1  Sailor's backward time of a linear is the input's gradient alone (data/profiles/README.md),
 *       Aceso's is both gradients.
 */
#include <string.h>

#include "cost/profile.h"
#include "cost/table.h"

/* Sailor's "RTX-2080" multiplies at 57 TFLOP/s and moves 493 GB/s: that is a 2080 Ti, with 54 and
 * 616 at its nominal clock, not a 2080, with 40 and 448. */
static const struct sailor_device SAILOR_DEVICES[] = {
    {"A100-40", "A100-SXM4-40GB", DTYPE_TF32}, {"GH-96", "GH200-96GB", DTYPE_TF32},
    {"RTX-2080", "RTX-2080-Ti", DTYPE_FP32},   {"RTX-3090", "RTX-3090", DTYPE_TF32},
    {"Titan-RTX", "RTX-TITAN", DTYPE_FP32},    {"V100-16", "V100-SXM2-16GB", DTYPE_FP32},
};

weft_status sailor_device(const struct csv *csv, int at, const struct sailor_device **out)
{
    for (size_t i = 0; i < COUNT_OF(SAILOR_DEVICES); i++) {
        if (strcmp(csv->field[at], SAILOR_DEVICES[i].sailor) == 0) {
            *out = &SAILOR_DEVICES[i];
            return WEFT_OK;
        }
    }
    return csv_error(csv, at, NULL, "A100-40, GH-96, RTX-2080, RTX-3090, Titan-RTX or V100-16");
}

enum {
    DEVICE,
    DTYPE,
    MODEL,
    MICROBATCH,
    TP,
    ALGO,
    OP,
    FORWARD_US,
    BACKWARD_US,
    FIRST_SIZE,
    COLUMN_COUNT = FIRST_SIZE + OPERATOR_SIZES
};
static const char *const COLUMNS[COLUMN_COUNT] = {
    "?device",   "?dtype",     "model",          "microbatch",      "tp",
    "algo",      "op",         "forward_us",     "backward_us",     "input_mb",
    "output_mb", "weights_mb", "activations_mb", "fwd_reserved_mb", "bwd_reserved_mb",
};

static weft_status read_device(const struct source_table *table, const struct csv *csv,
                               const int *at, struct operator_row *op, const char **device)
{
    const struct sailor_device *sailor = NULL;
    weft_status status = WEFT_OK;
    *device = table->device ? table->device : ACESO_DEVICE;
    op->dtype = strncmp(op->model, "resnet", 6) == 0 ? DTYPE_FP32 : DTYPE_FP16;
    if (at[DEVICE] >= 0) {
        TRY(sailor_device(csv, at[DEVICE], &sailor));
        *device = sailor->name;
        op->input_gradient_only = true; /* I1 */
    }
    if (at[DTYPE] >= 0 && !dtype_from_name(csv->field[at[DTYPE]], &op->dtype))
        TRY(csv_error(csv, at[DTYPE], NULL, DTYPE_NAMES));
    op->matrix_dtype = op->dtype == DTYPE_FP32 && sailor ? sailor->fp32 : op->dtype;
done:
    return status;
}

static weft_status read_operator(const struct csv *csv, const int *at, struct operator_row *op)
{
    weft_status status;
    TRY(csv_int(csv, at[MICROBATCH], 1, &op->batch));
    TRY(csv_int(csv, at[TP], 1, &op->tp));
    TRY(csv_int(csv, at[ALGO], 0, &op->algo));
    for (int i = 0; i < OPERATOR_SIZES; i++)
        TRY(csv_real(csv, at[FIRST_SIZE + i], REAL_NOT_NEGATIVE, &op->size_mb[i]));
    if (op->batch > 1 << 20 || op->tp > 1 << 10)
        status = csv_error(csv, at[op->tp > 1 << 10 ? TP : MICROBATCH], NULL,
                           "at most 1048576 samples and 1024 devices");
done:
    return status;
}

static weft_status read_row(void *context, const struct csv *csv, const int *at)
{
    const struct source_table *table = context;
    struct operator_row op = {.model = csv->field[at[MODEL]], .op = csv->field[at[OP]]};
    struct table_row row = {.samples = 1, .times = DIRECTION_COUNT, .operator= & op };
    weft_status status;
    TRY(read_device(table, csv, at, &op, &row.device));
    TRY(read_operator(csv, at, &op));
    for (int i = 0; i < DIRECTION_COUNT; i++) {
        TRY(csv_real(csv, at[FORWARD_US + i], REAL_POSITIVE, &row.time[i].ns));
        row.time[i].ns *= 1e3;
        row.time[i].collective = "";
    }
    transformer_row(&row);
    resnet_row(&row);
    for (int i = 0; i < DIRECTION_COUNT; i++)
        timing_leave_out(&row.time[i]);
    TRY(table->sink(table->context, csv, &row));
done:
    return status;
}

weft_status table_operators(struct source_table *table)
{
    return csv_read(table->csv, COLUMNS, COLUMN_COUNT, read_row, table);
}
