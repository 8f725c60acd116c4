/* published_runs.c - rows of the common columns: what ran, on what, how it was split.
 *
 *   I1  An empty field is something the source does not say. What a plan cannot do without makes the
 *       row one that cannot be expressed, unless the dataset's practice fills it in and says so.
 *   I2  Of two reasons the first in this order is given: device, model, sizes.
 */
#include "lab/published_read.h"

#include <string.h>

enum column {
    COLUMN_DATASET,
    COLUMN_CASE,
    COLUMN_MODEL,
    COLUMN_PARAMS,
    COLUMN_LAYERS,
    COLUMN_HIDDEN,
    COLUMN_FFN,
    COLUMN_HEADS,
    COLUMN_KV_HEADS,
    COLUMN_SEQ,
    COLUMN_VOCAB,
    COLUMN_EXPERTS,
    COLUMN_TOP_K,
    COLUMN_GPU,
    COLUMN_GPUS,
    COLUMN_GPUS_PER_NODE,
    COLUMN_INTRA,
    COLUMN_INTER,
    COLUMN_TP,
    COLUMN_CP,
    COLUMN_EP,
    COLUMN_PP,
    COLUMN_VPP,
    COLUMN_DP,
    COLUMN_MBS,
    COLUMN_GBS,
    COLUMN_MICRO_BATCHES,
    COLUMN_SCHEDULE,
    COLUMN_RECOMPUTE,
    COLUMN_SEQUENCE,
    COLUMN_ZERO,
    COLUMN_PRECISION,
    COLUMN_OVERLAP,
    COLUMN_TIME,
    COLUMN_TOKENS,
    COLUMN_TFLOPS,
    COLUMN_CONVENTION,
    COLUMN_MFU,
    COLUMN_ALLOCATED,
    COLUMN_RESERVED,
    COLUMN_FRAMEWORK,
    COLUMN_SOURCE,
    COLUMN_NOTES,
    COLUMN_COUNT
};
static const char *const COLUMNS[] = {
    [COLUMN_DATASET] = "dataset",
    [COLUMN_CASE] = "case",
    [COLUMN_MODEL] = "model",
    [COLUMN_PARAMS] = "params_b",
    [COLUMN_LAYERS] = "layers",
    [COLUMN_HIDDEN] = "hidden",
    [COLUMN_FFN] = "ffn",
    [COLUMN_HEADS] = "heads",
    [COLUMN_KV_HEADS] = "kv_heads",
    [COLUMN_SEQ] = "seq_len",
    [COLUMN_VOCAB] = "vocab",
    [COLUMN_EXPERTS] = "experts",
    [COLUMN_TOP_K] = "topk",
    [COLUMN_GPU] = "gpu",
    [COLUMN_GPUS] = "gpus",
    [COLUMN_GPUS_PER_NODE] = "gpus_per_node",
    [COLUMN_INTRA] = "intra_link",
    [COLUMN_INTER] = "inter_link",
    [COLUMN_TP] = "tp",
    [COLUMN_CP] = "cp",
    [COLUMN_EP] = "ep",
    [COLUMN_PP] = "pp",
    [COLUMN_VPP] = "vpp",
    [COLUMN_DP] = "dp",
    [COLUMN_MBS] = "mbs",
    [COLUMN_GBS] = "gbs",
    [COLUMN_MICRO_BATCHES] = "num_microbatches",
    [COLUMN_SCHEDULE] = "schedule",
    [COLUMN_RECOMPUTE] = "recompute",
    [COLUMN_SEQUENCE] = "seq_parallel",
    [COLUMN_ZERO] = "zero",
    [COLUMN_PRECISION] = "precision",
    [COLUMN_OVERLAP] = "overlap",
    [COLUMN_TIME] = "iter_time_s",
    [COLUMN_TOKENS] = "tokens_per_s_per_gpu",
    [COLUMN_TFLOPS] = "tflops_per_gpu",
    [COLUMN_CONVENTION] = "flops_convention",
    [COLUMN_MFU] = "mfu_pct",
    [COLUMN_ALLOCATED] = "mem_alloc_gib",
    [COLUMN_RESERVED] = "mem_reserved_gib",
    [COLUMN_FRAMEWORK] = "framework",
    [COLUMN_SOURCE] = "source",
    [COLUMN_NOTES] = "notes",
};
_Static_assert(COUNT_OF(COLUMNS) == COLUMN_COUNT, "a column without a name");

static const struct {
    enum column column;
    size_t offset; /* in struct run */
} TEXTS[] =
    {
        {COLUMN_CASE, offsetof(struct run, name)},
        {COLUMN_MODEL, offsetof(struct run, model)},
        {COLUMN_GPU, offsetof(struct run, gpu)},
        {COLUMN_SCHEDULE, offsetof(struct run, schedule)},
        {COLUMN_RECOMPUTE, offsetof(struct run, recompute)},
        {COLUMN_ZERO, offsetof(struct run, zero)},
        {COLUMN_PRECISION, offsetof(struct run, precision)},
        {COLUMN_OVERLAP, offsetof(struct run, overlap)},
        {COLUMN_NOTES, offsetof(struct run, notes)},
        {COLUMN_SOURCE, offsetof(struct run, source)},
},
  COUNTS[] =
      {
          {COLUMN_LAYERS, offsetof(struct run, layers)},
          {COLUMN_HIDDEN, offsetof(struct run, hidden)},
          {COLUMN_FFN, offsetof(struct run, ffn)},
          {COLUMN_HEADS, offsetof(struct run, heads)},
          {COLUMN_KV_HEADS, offsetof(struct run, kv_heads)},
          {COLUMN_SEQ, offsetof(struct run, seq)},
          {COLUMN_VOCAB, offsetof(struct run, vocab)},
          {COLUMN_EXPERTS, offsetof(struct run, experts)},
          {COLUMN_TOP_K, offsetof(struct run, top_k)},
          {COLUMN_GPUS, offsetof(struct run, devices)},
          {COLUMN_TP, offsetof(struct run, tp)},
          {COLUMN_CP, offsetof(struct run, cp)},
          {COLUMN_EP, offsetof(struct run, ep)},
          {COLUMN_PP, offsetof(struct run, pp)},
          {COLUMN_VPP, offsetof(struct run, pieces)},
          {COLUMN_DP, offsetof(struct run, dp)},
          {COLUMN_MBS, offsetof(struct run, micro_batch)},
          {COLUMN_GBS, offsetof(struct run, global_batch)},
},
  REALS[] = {
      {COLUMN_TIME, offsetof(struct run, time_s)},
      {COLUMN_ALLOCATED, offsetof(struct run, allocated_gib)},
      {COLUMN_RESERVED, offsetof(struct run, reserved_gib)},
};

static weft_status read_sequence(const struct csv *csv, int at, int64_t *out)
{
    *out = 0;
    if (*csv->field[at] == '\0')
        return WEFT_OK;
    return parse_int(csv->field[at], out) && (*out == 0 || *out == 1)
               ? WEFT_OK
               : csv_error(csv, at, NULL, "0 or 1");
}

static weft_status read_run(const struct csv *csv, const int *at, struct run *run)
{
    char *out = (char *)run;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        const char *text = csv->field[at[TEXTS[i].column]];
        memcpy(out + TEXTS[i].offset, &text, sizeof text);
    }
    for (size_t i = 0; i < COUNT_OF(COUNTS); i++) {
        int64_t value;
        TRY(csv_whole(csv, at[COUNTS[i].column], &value));
        memcpy(out + COUNTS[i].offset, &value, sizeof value);
    }
    for (size_t i = 0; i < COUNT_OF(REALS); i++) {
        double value;
        TRY(csv_number(csv, at[REALS[i].column], &value));
        memcpy(out + REALS[i].offset, &value, sizeof value);
    }
    TRY(read_sequence(csv, at[COLUMN_SEQUENCE], &run->sequence));
done:
    return status;
}

/* ---- machines -------------------------------------------------------------------------------- */

/* How sources call their devices, and the machine whose documentation is public. */
static const struct {
    const char *gpu, *preset;
    int64_t per_node;
} MACHINES[] = {
    {"A100-SXM4-80GB", "dgx-a100", 8},
    {"A100", "dgx-a100-800g", 8}, /* vTrain: 800 Gb/s per node */
    {"a100_80gb", "dgx-a100", 8}, /* llm-foundry's README: 1600 Gb/s between nodes */
    {"a100_40gb", "dgx-a100-40gb", 8},
    {"H100-SXM5-80GB", "dgx-h100", 8},
    {"h100_80gb", "dgx-h100", 8},
    {"H200-SXM", "hgx-h200", 8},
    {"H100-96GB-HBM2e-500W", "torchtitan-h100", 8},
    {"B200-SXM", "hgx-b200", 8},
    {"GB200", "gb200-nvl72", 64},
    {"DGX-GB200", "gb200-nvl72", 64}, /* jobs of several racks take 64 of the 72 */
    {"DGX-GB300", "gb300-nvl72", 64},
};

const char *cluster_text(struct arena *keep, const char *preset, int64_t per_node, int64_t devices)
{
    if (devices < per_node)
        return arena_printf(keep, "%s:1x%lld", preset, (long long)devices);
    if (devices % per_node)
        return NULL;
    return arena_printf(keep, "%s:%lldx%lld", preset, (long long)(devices / per_node),
                        (long long)per_node);
}

static void set_cluster(struct arena *keep, const struct run *run, struct published *row)
{
    for (size_t i = 0; i < COUNT_OF(MACHINES); i++) {
        if (strcmp(run->gpu, MACHINES[i].gpu) != 0)
            continue;
        if (!run->devices) {
            refuse(keep, row, "how many devices it ran on is not published");
            return;
        }
        row->cluster = cluster_text(keep, MACHINES[i].preset, MACHINES[i].per_node, run->devices);
        if (!row->cluster)
            refuse(keep, row, "parts of nodes");
        return;
    }
    refuse(keep, row, "device unknown: %s", run->gpu);
}

/* ---- degrees --------------------------------------------------------------------------------- */

void set_dtype(struct degrees *degrees, enum dtype dtype)
{
    degrees->has_dtype = true;
    degrees->dtype = dtype;
}

void set_policy(struct degrees *degrees, enum policy policy)
{
    degrees->has_policy = true;
    degrees->policy = policy;
}

void set_overlap(struct degrees *degrees, unsigned overlap, int64_t bucket_bytes)
{
    degrees->has_overlap = degrees->has_bucket = true;
    degrees->overlap = overlap;
    degrees->bucket_bytes = bucket_bytes;
}

/* Autocast is the type of its products. fp8 is that of weights' products only; tensors are kept and
 * sent in 16 bits, here as in those runs (docs/reference/operators.md). */
static const struct {
    const char *precision;
    enum dtype dtype;
} PRECISIONS[] = {
    {"fp32", DTYPE_FP32},          {"fp16", DTYPE_FP16},       {"bf16", DTYPE_BF16},
    {"amp_bf16", DTYPE_BF16},      {"fp8", DTYPE_FP8},         {"amp_fp8", DTYPE_FP8},
    {"fp8-tensorwise", DTYPE_FP8}, {"fp8-rowwise", DTYPE_FP8}, {"MXFP8", DTYPE_FP8},
    {"NVFP4", DTYPE_NVFP4},
};

static void set_precision(struct arena *keep, const struct run *run, struct published *row)
{
    for (size_t i = 0; i < COUNT_OF(PRECISIONS); i++) {
        if (strcmp(run->precision, PRECISIONS[i].precision) == 0) {
            set_dtype(&row->degrees, PRECISIONS[i].dtype);
            return;
        }
    }
    refuse(keep, row, "type unknown: %s", run->precision);
}

/* "fsdp(zero3)" and the like; FSDP by itself shards everything. */
static int shard_of(const char *zero)
{
    const char *digit = strpbrk(zero, "0123");
    if (strncmp(zero, "fsdp", 4) == 0 && !strstr(zero, "zero"))
        return 3;
    if (strstr(zero, "zero"))
        digit = strstr(zero, "zero") + 4;
    return digit && *digit >= '0' && *digit <= '3' ? *digit - '0' : 0;
}

static void set_recompute(struct arena *keep, const struct run *run, struct published *row)
{
    if (strcmp(run->recompute, "full") == 0) {
        row->degrees.recompute = RECOMPUTE_FULL;
    } else if (strcmp(run->recompute, "selective(core attention)") == 0) {
        row->degrees.recompute = RECOMPUTE_SELECTIVE;
    } else if (strncmp(run->recompute, "selective(", 10) == 0) { /* torchtitan: per operator */
        row->degrees.recompute = RECOMPUTE_FULL;
        row->keeps_products = true;
    } else if (strcmp(run->recompute, "none") != 0 && *run->recompute) {
        refuse(keep, row, "recomputation unknown: %s", run->recompute);
    }
}

static void set_degrees(struct arena *keep, const struct run *run, struct published *row)
{
    struct degrees *d = &row->degrees;
    d->dp = run->dp;
    d->tp = run->tp;
    d->pp = run->pp;
    d->cp = run->cp;
    d->ep = run->ep;
    d->sequence = run->sequence && run->tp > 1;
    d->pieces = run->pieces;
    d->micro_batch = run->micro_batch;
    d->global_batch = run->global_batch;
    d->shard = shard_of(run->zero);
    set_precision(keep, run, row);
    set_recompute(keep, run, row);
}

/* A word that begins with the name of a schedule that has several: "interleaved-1F1B". */
static bool needs_pieces(const char *word)
{
    const struct schedule *all;
    size_t count = schedule_all(&all);
    for (size_t i = 0; i < count; i++)
        if (all[i].least_pieces > 1 && strncmp(word, all[i].name, strlen(all[i].name)) == 0)
            return true;
    return false;
}

/* I1, after the dataset's practice. */
static void check_sizes(struct arena *keep, const struct run *run, struct published *row)
{
    if (!row->degrees.global_batch)
        refuse(keep, row, "global batch not published");
    if (!row->degrees.micro_batch && !(row->open & OPEN_MICRO_BATCH))
        refuse(keep, row, "micro-batch not published");
    if (needs_pieces(run->schedule) && row->degrees.pieces < 2 && !(row->open & OPEN_PIECES))
        refuse(keep, row, "pieces per stage not published");
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const char *how_it_ran(struct arena *keep, const struct run *r)
{
    return arena_printf(
        keep, "%s|%s|%s|%s|%lld devices|tp %lld cp %lld ep %lld pp %lld pieces %lld|%lld of %lld",
        r->name, r->model, r->gpu, r->precision, (long long)r->devices, (long long)r->tp,
        (long long)r->cp, (long long)r->ep, (long long)r->pp, (long long)r->pieces,
        (long long)r->micro_batch, (long long)r->global_batch);
}

static struct published row_of(struct arena *keep, const struct dataset *dataset, int line,
                               const struct run *run)
{
    struct published row = {.dataset = dataset, .line = line, .name = run->name};
    row.half = half_of(how_it_ran(keep, run));
    row.measured.time_s = run->time_s;
    row.measured.memory_bytes = run->allocated_gib * 0x1p30;
    row.measured.reserved_bytes = run->reserved_gib * 0x1p30;
    set_cluster(keep, run, &row); /* I2 */
    set_degrees(keep, run, &row);
    dataset->practice(keep, run, &row);
    check_sizes(keep, run, &row);
    return row;
}

struct reading {
    struct arena *keep;
    const struct dataset *dataset;
    struct published_rows *out;
    ARRAY(struct run) runs;
};

static weft_status take_run(void *context, const struct csv *csv, const int *at)
{
    struct reading *reading = context;
    struct run run = {0};
    weft_status status = read_run(csv, at, &run);
    if (status)
        return status;
    if (strcmp(csv->field[at[COLUMN_DATASET]], reading->dataset->name) != 0)
        return csv_error(csv, at[COLUMN_DATASET], NULL, reading->dataset->name);
    struct published row = row_of(reading->keep, reading->dataset, csv->line, &run);
    array_push(reading->keep, reading->out, row);
    array_push(reading->keep, &reading->runs, run);
    return WEFT_OK;
}

weft_status read_runs(struct arena *keep, const struct dataset *dataset, struct csv *csv,
                      struct published_rows *out)
{
    struct reading reading = {.keep = keep, .dataset = dataset, .out = out};
    return csv_read(csv, COLUMNS, COLUMN_COUNT, take_run, &reading);
}

/* The same test ("gpt/case@platform") with the same time on another device was not run there. */
static bool is_copy(const struct run *run, const struct run *other)
{
    size_t test = strcspn(run->name, "@");
    return run->time_s == other->time_s && strcmp(run->gpu, other->gpu) != 0 &&
           strcspn(other->name, "@") == test && strncmp(run->name, other->name, test) == 0;
}

weft_status read_golden(struct arena *keep, const struct dataset *dataset, struct csv *csv,
                        struct published_rows *out)
{
    struct reading reading = {.keep = keep, .dataset = dataset, .out = out};
    size_t first = out->len;
    weft_status status = csv_read(csv, COLUMNS, COLUMN_COUNT, take_run, &reading);
    for (size_t i = 0; i < reading.runs.len; i++)
        for (size_t j = 0; j < reading.runs.len; j++)
            if (is_copy(&reading.runs.data[i], &reading.runs.data[j]))
                out->data[first + i].measured.time_s = 0;
    return status;
}
