/* validate_operators.c - `weft validate operators`: operators that others measured, held against what Weft predicts for them.
 *
 * For each device and layer of AIConfigurator's tables (data/profiles/aiconfigurator) the median of |predicted / measured - 1|
 * and of predicted / measured - 1 on both halves. Products, attention and experts are predicted by the formula with the
 * parameters of alone.c, NCCL between measured sizes of the database that ships for the device, DeepEP by dispatch.c.
 *
 *   I1  A row of the held-out half decides nothing: parameters and databases come from the other one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"
#include "lab/published_read.h"
#include "lab/validate.h"

/* One comparison of a time. */
struct held_operator {
    const char *device, *layer;
    bool held_out;
    double ratio; /* predicted / measured */
};
struct held_operators {
    struct arena *arena;
    struct held_operator *data;
    size_t len, cap;
    struct profile *profile; /* of the device that was asked for last */
    const char *profiled;
};

/* ---- NCCL ------------------------------------------------------------------------------------ */

static const char *const NCCL[] = {"system",       "op_name", "nccl_dtype", "num_gpus",
                                   "message_size", "latency", "?samples",   "half"};

static weft_status open_profile(struct held_operators *c, const char *device)
{
    if (c->profiled && strcmp(c->profiled, device) == 0)
        return WEFT_OK;
    profile_close(c->profile);
    c->profile = NULL;
    c->profiled = device;
    return profile_open_shipped(device, &c->profile);
}

static weft_status nccl_row(void *context, const struct csv *csv, const int *at)
{
    enum { SYSTEM, NAME, DTYPE, DEVICES, ELEMENTS, MS, SAMPLES, HALF };
    struct held_operators *c = context;
    const char *device = aiconfigurator_device(csv->field[at[SYSTEM]]);
    enum collective collective = COLLECTIVE_ALL_TO_ALL;
    struct kernel_cost cost;
    int64_t devices, elements;
    double ms;
    weft_status status;
    TRY(open_profile(c, device));
    collective_from_name(csv->field[at[NAME]], &collective);
    TRY(csv_int(csv, at[DEVICES], 1, &devices));
    TRY(csv_int(csv, at[ELEMENTS], 1, &elements));
    TRY(csv_real(csv, at[MS], REAL_POSITIVE, &ms));
    TRY(profile_collective(c->profile, device, collective, devices, 1, 2 * elements, &cost));
    bool held_out = strcmp(csv->field[at[HALF]], "held-out") == 0;
    struct held_operator one = {device, "NCCL", held_out, (double)cost.ns / (ms * 1e6)};
    if (cost.provenance != FROM_NOTHING)
        array_push(c->arena, c, one);
done:
    return status;
}

/* ---- DeepEP ---------------------------------------------------------------------------------- */

static const char *const DEEPEP[] = {"system",
                                     "node_num",
                                     "hidden_size",
                                     "num_token",
                                     "num_topk",
                                     "num_experts",
                                     "half",
                                     "?samples",
                                     "dispatch_transmit_us",
                                     "combine_transmit_us",
                                     "?dispatch_sms"};

static weft_status deepep_row(void *context, const struct csv *csv, const int *at)
{
    enum { SYSTEM, NODES, HIDDEN, TOKENS, CHOICES, EXPERTS, HALF, SAMPLES, DISPATCH };
    static const char *const LAYERS[] = {"DeepEP dispatch", "DeepEP combine"};
    struct held_operators *c = context;
    const char *name = aiconfigurator_device(csv->field[at[SYSTEM]]);
    const struct device *device = name ? device_find(name) : NULL;
    struct dispatch d = {0};
    weft_status status;
    TRY(csv_int(csv, at[NODES], 1, &d.nodes));
    TRY(csv_int(csv, at[HIDDEN], 1, &d.hidden));
    TRY(csv_int(csv, at[TOKENS], 1, &d.tokens));
    TRY(csv_int(csv, at[CHOICES], 1, &d.choices));
    TRY(csv_int(csv, at[EXPERTS], 1, &d.experts));
    d.per_node = name && name[0] == 'G' ? 4 : 8; /* a tray of an NVL72 rack, or a server */
    bool held_out = strcmp(csv->field[at[HALF]], "held-out") == 0;
    for (int i = 0; device && i < 2; i++) {
        double us;
        TRY(csv_real(csv, at[DISPATCH + i], REAL_POSITIVE, &us));
        d.combine = i == 1;
        struct held_operator one = {name, LAYERS[i], held_out,
                                    dispatch_ns(device, &d) / (us * 1e3)};
        array_push(c->arena, c, one);
    }
done:
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static weft_status read_table(struct held_operators *c, const char *folder, const char *name,
                              const char *const *columns, size_t count, csv_row_reader *row)
{
    enum { MOST_BYTES = 64 << 20 };
    const char *path = arena_printf(c->arena, "%s/aiconfigurator/%s", folder, name);
    struct csv csv;
    char *text;
    size_t len;
    weft_status status;
    TRY(file_read(c->arena, path, MOST_BYTES, &text, &len));
    TRY(csv_open(&csv, path, text, len));
    TRY(csv_read(&csv, columns, count, row, c));
done:
    return status;
}

static weft_status compare_all(struct held_operators *c, const char *folder)
{
    struct lone_layers layers = {0};
    weft_status status;
    TRY(lone_layers(folder, c->arena, &layers));
    for (size_t i = 0; i < layers.len; i++) {
        const struct lone_layer *l = &layers.data[i];
        struct held_operator one = {l->device, l->layer, l->held_out,
                                    l->predicted_ns / l->measured_ns};
        array_push(c->arena, c, one);
    }
    TRY(read_table(c, folder, "nccl.csv", NCCL, COUNT_OF(NCCL), nccl_row));
    TRY(read_table(c, folder, "wideep_deepep_normal.csv", DEEPEP, COUNT_OF(DEEPEP), deepep_row));
done:
    return status;
}

/* ---- medians --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return count ? values[count / 2] : 0;
}

static bool of_group(const struct held_operator *a, const struct held_operator *b)
{
    return strcmp(a->device, b->device) == 0 && strcmp(a->layer, b->layer) == 0;
}

static struct operator_error error_of(const struct held_operators *c,
                                      const struct held_operator *group)
{
    struct operator_error error = {.device = group->device, .layer = group->layer};
    double *errors = ARENA_ARRAY(c->arena, double, c->len);
    double *biases = ARENA_ARRAY(c->arena, double, c->len);
    for (int half = 0; half < HALF_COUNT; half++) {
        size_t count = 0;
        for (size_t i = 0; i < c->len; i++) {
            const struct held_operator *one = &c->data[i];
            if (!of_group(one, group) || one->held_out != (half == HALF_HELD_OUT))
                continue;
            errors[count] = fabs(one->ratio - 1);
            biases[count++] = one->ratio - 1;
        }
        error.rows[half] = (int64_t)count;
        error.median[half] = median_of(errors, count);
        error.bias[half] = median_of(biases, count);
    }
    return error;
}

/* The folder that has `aiconfigurator`. */
static weft_status tables_folder(struct arena *keep, char **out)
{
    static const char TABLE[] = "aiconfigurator/gemm.csv";
    weft_status status = published_path(keep, TABLE, out);
    if (status == WEFT_OK)
        (*out)[strlen(*out) - sizeof TABLE] = '\0';
    return status;
}

weft_status operator_errors(struct arena *keep, struct operator_errors *out)
{
    struct held_operators c = {.arena = arena_new()};
    char *folder;
    weft_status status;
    TRY(tables_folder(keep, &folder));
    TRY(compare_all(&c, folder));
    for (size_t i = 0; i < c.len; i++) {
        bool known = false;
        for (size_t j = 0; j < out->len && !known; j++)
            known = strcmp(out->data[j].device, c.data[i].device) == 0 &&
                    strcmp(out->data[j].layer, c.data[i].layer) == 0;
        if (!known)
            array_push(keep, out, error_of(&c, &c.data[i]));
    }
done:
    profile_close(c.profile);
    arena_free(c.arena);
    return status;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_errors(struct arena *scratch, const struct operator_errors *errors)
{
    static const char *const HEADERS[] = {"device",   "operator", "rows",  "fit %",
                                          "held out", "%",        "bias %"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < errors->len; i++) {
        const struct operator_error *e = &errors->data[i];
        table_cell(table, "%s", e->device);
        table_cell(table, "%s", e->layer);
        table_cell(table, "%lld", (long long)e->rows[HALF_FIT]);
        table_cell(table, "%.1f", e->median[HALF_FIT] * 100);
        table_cell(table, "%lld", (long long)e->rows[HALF_HELD_OUT]);
        table_cell(table, "%.1f", e->median[HALF_HELD_OUT] * 100);
        table_cell(table, "%+.1f", e->bias[HALF_HELD_OUT] * 100);
    }
    table_print(table, stdout);
    puts("\nMedians of absolute errors, in %, and of errors (bias) on the held-out half. "
         "Parameters and databases come from\n"
         "the other half; NCCL's is measured itself there, and interpolated between sizes on the "
         "held-out half.");
}

static int print_errors_json(const struct operator_errors *errors)
{
    json_t *list = json_array();
    for (size_t i = 0; i < errors->len; i++) {
        const struct operator_error *e = &errors->data[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:I, s:f, s:I, s:f, s:f}", "device", e->device, "operator",
                            e->layer, "fit_rows", (json_int_t)e->rows[HALF_FIT], "fit_median",
                            e->median[HALF_FIT], "held_out_rows",
                            (json_int_t)e->rows[HALF_HELD_OUT], "held_out_median",
                            e->median[HALF_HELD_OUT], "held_out_bias", e->bias[HALF_HELD_OUT]));
    }
    return cli_print_json(json_pack("{s:o}", "operators", list));
}

int validate_operators(struct arena *arena, bool json)
{
    struct operator_errors errors = {0};
    weft_status status = operator_errors(arena, &errors);
    if (status)
        return cli_fail(status);
    if (json)
        return print_errors_json(&errors);
    print_errors(arena, &errors);
    return WEFT_OK;
}
