/* table_simumax.c - SimuMax's table of efficiencies.
 *
 *   time = FLOPs / (efficiency * peak)                                                           (1)
 *
 * with SimuMax's own count of FLOPs: 2mnk for a product, (2 | 5) q^2 heads (depth + value_depth)
 * for attention forward | backward, a causal mask not subtracted although its benchmark sets one.
 *
 *   I1  Efficiencies may exceed 1 (causal attention); times must be positive.
 *   I2  SimuMax gives a plain product its own m, n, k in each layout, and a grouped product those
 *       of the forward in all three stages; here each phase has its own.
 */
#include <string.h>

#include "cost/table.h"

/* ---- "b=1, m=4096, k=5120, n=1536, layout=TN, ..." ------------------------------------------- */

enum { MAX_PAIRS = 16 };
struct pairs {
    size_t count;
    const char *name[MAX_PAIRS], *value[MAX_PAIRS];
};

static void split_pairs(char *text, struct pairs *out)
{
    char *rest = text;
    out->count = 0;
    for (char *pair; (pair = strsep(&rest, ",")) && out->count < MAX_PAIRS;) {
        pair += strspn(pair, " ");
        char *equals = strchr(pair, '=');
        if (!equals)
            continue;
        *equals = '\0';
        out->name[out->count] = pair;
        out->value[out->count++] = equals + 1;
    }
}

static const char *pair_text(const struct pairs *pairs, const char *name)
{
    for (size_t i = 0; i < pairs->count; i++)
        if (strcmp(pairs->name[i], name) == 0)
            return pairs->value[i];
    return "";
}

static bool pair_is(const struct pairs *pairs, const char *name, const char *text)
{
    return strcmp(pair_text(pairs, name), text) == 0;
}

/* Reads all of these numbers; false if one is missing. */
static bool pair_numbers(const struct pairs *pairs, const char *const *names, size_t count,
                         int64_t *out)
{
    for (size_t i = 0; i < count; i++) {
        if (!parse_int(pair_text(pairs, names[i]), &out[i]) || out[i] < 1 || out[i] > 1 << 30)
            return false;
    }
    return true;
}

/* ---- one function per operator --------------------------------------------------------------- */

static const struct {
    const char *layout, *stage;
    enum phase phase;
    int order[4]; /* the positions of the phase's m, n, k among the forward's */
} STAGES[] = {
    {"TN", "fwd", PHASE_FORWARD, {0, 1, 2, 3}},
    {"NN", "bwd_grad_act", PHASE_BACKWARD_INPUT, {0, 1, 3, 2}},
    {"NT", "bwd_grad_w", PHASE_BACKWARD_WEIGHT, {0, 2, 3, 1}},
};

/* The output is also read if it is accumulated into, and may be wider than the operands. */
static void set_output(const struct pairs *pairs, const char *dtype, struct work *work)
{
    if (pair_is(pairs, dtype, "fp32"))
        work->write_bytes *= 4.0 / dtype_bytes(work->dtype);
    if (pair_is(pairs, "accumulate", "True"))
        work->read_bytes += work->write_bytes;
}

static bool matmul(const struct pairs *pairs, struct work *work)
{
    static const char *const NAMES[] = {"b", "m", "n", "k"};
    int64_t shape[WORK_MAX_SHAPE] = {0};
    size_t i = 0;
    while (i < COUNT_OF(STAGES) && !pair_is(pairs, "layout", STAGES[i].layout))
        i++;
    if (i == COUNT_OF(STAGES) || !pair_numbers(pairs, NAMES, COUNT_OF(NAMES), shape))
        return false;
    *work = work_of_shape(KERNEL_MATMUL, STAGES[i].phase, DTYPE_BF16, shape);
    set_output(pairs, "out_dtype", work);
    return true;
}

static bool grouped_matmul(const struct pairs *pairs, struct work *work)
{
    static const char *const NAMES[] = {"ng", "M", "N", "K"};
    int64_t forward[4], shape[WORK_MAX_SHAPE] = {0};
    size_t i = 0;
    while (i < COUNT_OF(STAGES) && !pair_is(pairs, "stage", STAGES[i].stage))
        i++;
    if (i == COUNT_OF(STAGES) || !pair_numbers(pairs, NAMES, COUNT_OF(NAMES), forward))
        return false;
    for (int j = 0; j < 4; j++)
        shape[j] = forward[STAGES[i].order[j]]; /* I2 */
    *work = work_of_shape(KERNEL_GROUPED_MATMUL, STAGES[i].phase, DTYPE_BF16, shape);
    if (STAGES[i].phase == PHASE_BACKWARD_WEIGHT)
        set_output(pairs, "main_grad_dtype", work);
    return true;
}

static bool attention(const struct pairs *pairs, enum phase phase, struct work *work)
{
    static const char *const NAMES[] = {"batch",   "head_num",    "kv_head_num", "seq_len",
                                        "seq_len", "qk_head_dim", "v_head_dim"};
    int64_t shape[WORK_MAX_SHAPE] = {[7] = 1}; /* measured with a causal mask */
    if (!pair_numbers(pairs, NAMES, COUNT_OF(NAMES), shape))
        return false;
    *work = work_of_shape(KERNEL_ATTENTION, phase, DTYPE_BF16, shape);
    double products = phase == PHASE_FORWARD ? 2 : 5;
    double pairs_of_positions = (double)shape[0] * (double)shape[1] * (double)(shape[3] * shape[4]);
    work->flops = products * pairs_of_positions * (double)(shape[5] + shape[6]);
    return true;
}

static bool attention_forward(const struct pairs *pairs, struct work *work)
{
    return attention(pairs, PHASE_FORWARD, work);
}

static bool attention_backward(const struct pairs *pairs, struct work *work)
{
    return attention(pairs, PHASE_BACKWARD_INPUT, work);
}

static const struct simumax_op {
    const char *name, *label;
    bool (*work)(const struct pairs *pairs, struct work *work);
} OPS[] = {
    {"matmul", "matmul", matmul},
    {"group_matmul", "grouped matmul", grouped_matmul},
    {"sdp_fwd", "attention", attention_forward},
    {"sdp_bwd", "attention", attention_backward},
};

static const struct simumax_op *find_op(const char *name)
{
    int at = NAME_INDEX(name, OPS);
    return at < 0 ? NULL : &OPS[at];
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { GPU, OP, SHAPE, PEAK_TFLOPS, EFFICIENCY };
static const char *const COLUMNS[] = {"gpu", "op", "shape", "peak_tflops", "efficiency", "?source"};

static weft_status read_row(void *context, const struct csv *csv, const int *at)
{
    const struct source_table *table = context;
    struct table_row row = {.device = csv->field[at[GPU]], .samples = 1, .times = 1};
    struct timing *time = &row.time[0];
    struct pairs pairs;
    double peak, efficiency;
    weft_status status;
    const struct simumax_op *op = find_op(csv->field[at[OP]]);
    if (!op)
        TRY(csv_error(csv, at[OP], NULL, "matmul, group_matmul, sdp_fwd or sdp_bwd"));
    TRY(csv_real(csv, at[PEAK_TFLOPS], REAL_POSITIVE, &peak));
    TRY(csv_real(csv, at[EFFICIENCY], REAL_POSITIVE, &efficiency));
    split_pairs(arena_copy_text(table->scratch, csv->field[at[SHAPE]]), &pairs);
    if (!op->work(&pairs, &time->kernel))
        TRY(csv_error(csv, at[SHAPE], "as in 'b=1, m=4096, k=5120, n=1536, layout=TN'",
                      "the shape of this operator as name=number pairs"));
    if (strcmp(row.device, "B200-SXM") == 0)
        row.device = "B200-SXM-180GB";
    row.label = op->label;
    time->works = 1;
    time->work[0] = time->kernel;
    time->ns = time->kernel.flops / (efficiency * peak * 1e3); /* (1) */
    time->collective = "";
    TRY(table->sink(table->context, csv, &row));
done:
    return status;
}

weft_status table_simumax(struct source_table *table)
{
    return csv_read(table->csv, COLUMNS, COUNT_OF(COLUMNS), read_row, table);
}
