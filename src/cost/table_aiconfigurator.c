/* table_aiconfigurator.c - AIConfigurator's tables of products, attention and mixtures of experts.
 *
 * They are times of layers as inference runs them, forward passes only, in milliseconds:
 *
 *   gemm               y[m,n] = x[m,k] w[k,n]; in fp8 and nvfp4 with the cast of x, while w was cast
 *                      before                                                                     (1)
 *   context_attention  turns q, k and v by their positions, writes k and v into a cache, and attends:
 *                      causal, with `window_size` keys at most (0: all)                           (2)
 *   moe                tokens to their experts, product, activation, product, and back: every rank of
 *                      ep has E / ep experts, and all tokens reach it that chose them             (3)
 *
 *   I1  Times are of a warm device with clocks at their maximum, launched as a graph: no host. Only the kernels that Python launches
 *       take no less than a launch (BLOCKS_LAUNCH_NS).
 *   I2  Only a time without a cast belongs to one kernel; (3) belongs to none.
 *   I3  Rows whose `half` is "held-out" judge the others: they are not imported.
 */
#include <string.h>

#include "cost/table.h"

static const struct {
    const char *system, *device;
} SYSTEMS[] = {
    {"a100_sxm", "A100-SXM4-80GB"},
    {"h100_sxm", "H100-SXM5-80GB"},
    {"h200_sxm", "H200-SXM-141GB"},
    {"b200_sxm", "B200-SXM-180GB"},
    {"b300_sxm", "B300-SXM-288GB"},
    {"gb200", "GB200"},
    {"gb300", "GB300"},
    {"l40s", "L40S"},
    {"rtx_pro_6000_server", "RTX-PRO-6000"},
};

const char *aiconfigurator_device(const char *system)
{
    for (size_t i = 0; i < COUNT_OF(SYSTEMS); i++)
        if (strcmp(SYSTEMS[i].system, system) == 0)
            return SYSTEMS[i].device;
    return NULL;
}

/* How a layer's numbers are stored: bytes that a cast writes for each element, and the name under which errors are
 * grouped, by table. */
static const struct precision {
    const char *name;
    enum dtype dtype;
    double cast_bytes;
    const char *label[3];
} PRECISIONS[] = {
    {"bfloat16", DTYPE_BF16, 0, {"product bf16", "attention bf16", "experts bf16"}},
    {"fp8", DTYPE_FP8, 1, {"product fp8", "attention fp8", "experts fp8"}},
    /* A scale in fp32 for every 128 elements. */
    {"fp8_block",
     DTYPE_FP8,
     1 + 4.0 / 128,
     {"product fp8 blocks", "attention fp8 blocks", "experts fp8 blocks"}},
    /* A scale in fp8 for every 16 elements. */
    {"nvfp4", DTYPE_NVFP4, 0.5 + 1.0 / 16, {"product nvfp4", "attention nvfp4", "experts nvfp4"}},
};
enum { PRODUCTS, ATTENTION, EXPERTS };

struct layer_reading {
    struct source_table *table;
    int kind;
};

static weft_status precision_of(const struct csv *csv, int at, const struct precision **out)
{
    for (size_t i = 0; i < COUNT_OF(PRECISIONS); i++) {
        if (strcmp(PRECISIONS[i].name, csv->field[at]) == 0) {
            *out = &PRECISIONS[i];
            return WEFT_OK;
        }
    }
    return csv_error(csv, at, NULL, "bfloat16, fp8, fp8_block or nvfp4");
}

/* The columns that all three tables have, in front of each one's own. */
enum { SYSTEM, DTYPE, LATENCY, SAMPLES, HALF, OWN };

static weft_status open_row(const struct layer_reading *r, const struct csv *csv, const int *at,
                            struct table_row *row, const struct precision **precision)
{
    weft_status status;
    struct timing *time = &row->time[0];
    *row = (struct table_row){.samples = 1, .times = 1};
    row->device = aiconfigurator_device(csv->field[at[SYSTEM]]);
    if (!row->device)
        TRY(csv_error(csv, at[SYSTEM], NULL,
                      "a100_sxm, h100_sxm, ... as AIConfigurator names systems"));
    TRY(precision_of(csv, at[DTYPE], precision));
    TRY(csv_real(csv, at[LATENCY], REAL_POSITIVE, &time->ns));
    if (at[SAMPLES] >= 0)
        TRY(csv_int(csv, at[SAMPLES], 1, &row->samples));
    row->held_out = at[HALF] >= 0 && strcmp(csv->field[at[HALF]], "held-out") == 0; /* I3 */
    row->halved = at[HALF] >= 0;
    row->label = (*precision)->label[r->kind];
    time->ns *= 1e6;
    time->host_free = true; /* I1 */
    time->collective = "";
done:
    return status;
}

static weft_status read_numbers(const struct csv *csv, const int *at, int count, int64_t least,
                                int64_t *out)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && status == WEFT_OK; i++)
        status = csv_int(csv, at[i], least, &out[i]);
    return status;
}

static void cast(struct table_row *row, const struct precision *precision, double elements)
{
    if (precision->cast_bytes > 0) {
        row_ran(row, bytes_work(KERNEL_ELEMENTWISE, PHASE_FORWARD, (int64_t)elements, 2 * elements,
                                precision->cast_bytes * elements));
        row_several(row); /* I2 */
    }
}

/* Operands of 4 or 8 bits, an output of 16. */
static struct work low_precision(struct work work, const struct precision *precision, double inputs,
                                 double outputs)
{
    if (precision->cast_bytes > 0) {
        work.read_bytes = precision->cast_bytes * inputs;
        work.write_bytes = 2 * outputs;
    }
    return work;
}

/* ---- one function per table ------------------------------------------------------------------ */

static const char *const GEMM[] = {
    "system", "gemm_dtype", "latency",  "?samples",       "?half",  "m",           "n",
    "k",      "?framework", "?version", "?kernel_source", "?power", "?power_limit"};

/* Of L40S, vLLM's TritonFp8BlockScaledMMKernel, the one library without graphs here: of the half to fit, what takes the device less
 * than 0.2 ms takes 0.34 ms in the median (0.29 to 0.37), whatever its size. */
static const double BLOCKS_LAUNCH_NS = 336e3;

static bool python_launches(const struct table_row *row, const struct precision *precision)
{
    return strcmp(row->device, "L40S") == 0 && precision->dtype == DTYPE_FP8 &&
           precision->cast_bytes > 1;
}

static weft_status gemm_row(void *context, const struct csv *csv, const int *at)
{
    struct layer_reading *r = context;
    struct table_row row;
    const struct precision *precision;
    int64_t s[3];
    weft_status status;
    TRY(open_row(r, csv, at, &row, &precision));
    TRY(read_numbers(csv, at + OWN, 3, 1, s));
    double m = (double)s[0], n = (double)s[1], k = (double)s[2];
    row.time[0].launch_ns = python_launches(&row, precision) ? BLOCKS_LAUNCH_NS : 0;
    cast(&row, precision, m * k);
    row_is(&row,
           low_precision(WORK(KERNEL_MATMUL, PHASE_FORWARD, precision->dtype, 1, s[0], s[1], s[2]),
                         precision, (m + n) * k, m * n)); /* (1) */
    TRY(r->table->sink(r->table->context, csv, &row));
done:
    return status;
}

static const char *const CONTEXT_ATTENTION[] = {"system",   "attn_dtype",     "latency",
                                                "?samples", "?half",          "batch_size",
                                                "isl",      "num_heads",      "num_key_value_heads",
                                                "head_dim", "window_size",    "?framework",
                                                "?version", "?kernel_source", "?kv_cache_dtype",
                                                "?step",    "?power",         "?power_limit"};

static weft_status attention_row(void *context, const struct csv *csv, const int *at)
{
    enum { BATCH, LENGTH, HEADS, KV_HEADS, DEPTH, WINDOW };
    struct layer_reading *r = context;
    struct table_row row;
    const struct precision *precision;
    int64_t s[6];
    weft_status status;
    TRY(open_row(r, csv, at, &row, &precision));
    TRY(read_numbers(csv, at + OWN, 6, 0, s));
    int64_t causal = s[WINDOW] > 0 && s[WINDOW] < s[LENGTH] ? s[WINDOW] : 1; /* (2) */
    double turned =
        (double)(s[BATCH] * s[LENGTH]) * (double)(s[HEADS] + s[KV_HEADS]) * (double)s[DEPTH];
    double written = precision->cast_bytes > 0 ? precision->cast_bytes : 2;
    row_ran(&row, bytes_work(KERNEL_ELEMENTWISE, PHASE_FORWARD, (int64_t)turned, 2 * turned,
                             written * turned));
    row_ran(&row, WORK(KERNEL_ATTENTION, PHASE_FORWARD, precision->dtype, s[BATCH], s[HEADS],
                       s[KV_HEADS], s[LENGTH], s[LENGTH], s[DEPTH], s[DEPTH], causal));
    row_several(&row); /* I2 */
    TRY(r->table->sink(r->table->context, csv, &row));
done:
    return status;
}

static const char *const MOE[] = {
    "system",        "moe_dtype",  "latency",  "?samples",      "?half",       "num_tokens",
    "hidden_size",   "inter_size", "topk",     "num_experts",   "moe_tp_size", "moe_ep_size",
    "kernel_source", "?framework", "?version", "?distribution", "?power",      "?power_limit"};

/* In nvfp4, a kernel that moves tokens takes this much longer for each of them, as bytes: a block of 256 threads takes one
 * row at a time, looks for its expert, and writes its scales to places of their own (TensorRT-LLM,
 * cutlass_kernels/moe_gemm/moe_kernels.cu, expandInputRowsKernel). Fitted on the half to fit: with 0, 1,024, 2,048, 4,096,
 * 8,192 and 16,384 bytes B200's experts are 13.4, 12.8, 12.5, 12.2, 12.4 and 13.9 % off in the mean; the other three devices
 * go from 12.8-13.0 to 11.5-11.6 % with 4,096. In other types it gains nothing. */
static const double NVFP4_ROW_BYTES = 4096;

static double row_bytes(const struct precision *precision)
{
    return precision->dtype == DTYPE_NVFP4 ? NVFP4_ROW_BYTES : 0;
}

/* A kernel that moves elements or computes an activation of them, and then a cast, which reads what the former wrote: one
 * kernel in nvfp4, whose libraries cast on the way (the same file: expandInputRowsKernel, if need_nvfp4_quant, and
 * doActivationKernel, if IsNVFP4, write fp4 and its scales). */
static void ran_cast(struct table_row *row, const struct precision *precision, enum kernel kernel,
                     double read, double elements)
{
    bool one = precision->dtype == DTYPE_NVFP4;
    row_ran(row, bytes_work(kernel, PHASE_FORWARD, (int64_t)elements, read,
                            (one ? precision->cast_bytes : 2) * elements));
    if (!one)
        cast(row, precision, elements);
}

/* The layer of one rank, equation (3). */
static void ran_experts(struct table_row *row, const struct precision *precision, const int64_t *s,
                        bool gated)
{
    enum { TOKENS, HIDDEN, INNER, CHOICES, EXPERT_COUNT, TP, EP };
    int64_t groups = s[EXPERT_COUNT] / s[EP], inner = s[INNER] / s[TP];
    int64_t each = ceil_div(s[TOKENS] * s[CHOICES], s[EXPERT_COUNT]),
            up = gated ? 2 * inner : inner;
    double rows = (double)(groups * each), hidden = (double)s[HIDDEN], g = (double)groups;
    double copied = rows * (2 * hidden + row_bytes(precision));
    enum dtype dtype = precision->dtype;
    ran_cast(row, precision, KERNEL_COPY, copied, rows * hidden); /* to the experts */
    row_ran(row, low_precision(
                     WORK(KERNEL_GROUPED_MATMUL, PHASE_FORWARD, dtype, groups, each, up, s[HIDDEN]),
                     precision, rows * hidden + g * hidden * (double)up, rows * (double)up));
    ran_cast(row, precision, KERNEL_ELEMENTWISE, 2 * rows * (double)up, rows * (double)inner);
    row_ran(row,
            low_precision(
                WORK(KERNEL_GROUPED_MATMUL, PHASE_FORWARD, dtype, groups, each, s[HIDDEN], inner),
                precision, rows * (double)inner + g * hidden * (double)inner, rows * hidden));
    row_ran(row, bytes_work(KERNEL_COPY, PHASE_FORWARD, (int64_t)copied, copied,
                            2 * (double)s[TOKENS] * hidden));
    row_several(row); /* I2 */
}

static weft_status moe_row(void *context, const struct csv *csv, const int *at)
{
    enum { NUMBERS = 7 };
    struct layer_reading *r = context;
    struct table_row row;
    const struct precision *precision;
    int64_t s[NUMBERS];
    weft_status status;
    TRY(open_row(r, csv, at, &row, &precision));
    TRY(read_numbers(csv, at + OWN, NUMBERS, 1, s));
    if (s[4] < s[6] || s[2] < s[5])
        TRY(csv_error(csv, at[OWN + 6], NULL, "no more ranks than experts and inner features"));
    bool gated = !strstr(csv->field[at[OWN + NUMBERS]], "nongated");
    ran_experts(&row, precision, s, gated);
    TRY(r->table->sink(r->table->context, csv, &row));
done:
    return status;
}

static const struct {
    const char *column; /* that tells it from the others */
    const char *const *columns;
    size_t count;
    csv_row_reader *read;
} KINDS[] = {
    [PRODUCTS] = {"gemm_dtype", GEMM, COUNT_OF(GEMM), gemm_row},
    [ATTENTION] = {"attn_dtype", CONTEXT_ATTENTION, COUNT_OF(CONTEXT_ATTENTION), attention_row},
    [EXPERTS] = {"moe_dtype", MOE, COUNT_OF(MOE), moe_row},
};

weft_status table_aiconfigurator(struct source_table *table)
{
    struct layer_reading r = {table, 0};
    while (r.kind + 1 < (int)COUNT_OF(KINDS) && csv_column(table->csv, KINDS[r.kind].column) < 0)
        r.kind++;
    return csv_read(table->csv, KINDS[r.kind].columns, KINDS[r.kind].count, KINDS[r.kind].read, &r);
}
