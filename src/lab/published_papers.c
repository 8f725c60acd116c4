/* published_papers.c - tables of papers: Fold3D 2 and 3 (five systems side by side, with where their
 * time goes), Proteus V (the order of strategies). */
#include "lab/published_read.h"

#include <string.h>

struct reading {
    struct arena *keep;
    const struct dataset *dataset;
    struct published_rows *out;
};

/* ---- Fold3D ---------------------------------------------------------------------------------- */

enum fold3d_column {
    FOLD3D_GPU,
    FOLD3D_GPUS,
    FOLD3D_MODEL,
    FOLD3D_BATCH,
    FOLD3D_SYSTEM,
    FOLD3D_CONF,
    FOLD3D_DP,
    FOLD3D_PP,
    FOLD3D_TP,
    FOLD3D_SEGMENTS,
    FOLD3D_FORWARD,
    FOLD3D_BACKWARD,
    FOLD3D_BUBBLE,
    FOLD3D_DATA,
    FOLD3D_PIPELINE,
    FOLD3D_MEMORY,
    FOLD3D_HOST,
    FOLD3D_TFLOPS,
    FOLD3D_UTIL,
    FOLD3D_TOTAL,
    FOLD3D_UTIL_AGAIN,
    FOLD3D_RELATIVE,
    FOLD3D_FORMULA,
    FOLD3D_FLAG,
    FOLD3D_COLUMNS
};
static const char *const FOLD3D_NAMES[] = {
    [FOLD3D_GPU] = "gpu",
    [FOLD3D_GPUS] = "n_gpus",
    [FOLD3D_MODEL] = "model",
    [FOLD3D_BATCH] = "global_batch",
    [FOLD3D_SYSTEM] = "system",
    [FOLD3D_CONF] = "conf",
    [FOLD3D_DP] = "dp",
    [FOLD3D_PP] = "pp",
    [FOLD3D_TP] = "tp",
    [FOLD3D_SEGMENTS] = "segments",
    [FOLD3D_FORWARD] = "fwd_ms",
    [FOLD3D_BACKWARD] = "bwd_ms",
    [FOLD3D_BUBBLE] = "bubble_ms",
    [FOLD3D_DATA] = "dp_sync_ms",
    [FOLD3D_PIPELINE] = "pp_sync_ms",
    [FOLD3D_MEMORY] = "gpu_mem_GB",
    [FOLD3D_HOST] = "extra_cpu_mem_GB",
    [FOLD3D_TFLOPS] = "tflops_per_gpu",
    [FOLD3D_UTIL] = "util_pct_printed",
    [FOLD3D_TOTAL] = "total_ms",
    [FOLD3D_UTIL_AGAIN] = "util_pct_recomputed",
    [FOLD3D_RELATIVE] = "tflops_x_total_rel_to_group",
    [FOLD3D_FORMULA] = "megatron_formula_tflops_seq1024",
    [FOLD3D_FLAG] = "flag",
};
_Static_assert(COUNT_OF(FOLD3D_NAMES) == FOLD3D_COLUMNS, "a column without a name");

/* Fold3D, Table 1; sequences of 1024 are what its printed TFLOP/s imply. */
static const struct {
    const char *model, *preset, *options, *why_not;
} FOLD3D_MODELS[] = {
    {"GPT-3 18B", "gpt3-18b", "seq: 1024"},
    {"GPT-3 39B", "gpt3-39b", "seq: 1024, vocab: 51200, attention: fused"},
    {"BERT", "fold3d-bert", NULL},
    {"T-NLG", "t-nlg", NULL},
    {"CPM", "cpm", NULL},
    {"T5", "fold3d-t5", NULL, "2.5 times the FLOPs of its shape in TFLOP/s times time"},
};

/* Section 6: micro-batches of 4; ZeRO-3's replicas get fewer samples than that. */
enum { FOLD3D_MICRO_BATCH = 4 };
/* The pieces of Megatron's interleaved schedule were found by trials and are not printed; bubbles of
 * (p - 1) / (m v) of the printed computing times say 2, and for Fold3D's own segments 4 where the
 * table has lost them. */
enum { FOLD3D_PIECES = 2, FOLD3D_SEGMENTS_USUAL = 4 };

/* Sections 2 and 6: whole layers recomputed. That sequence parallelism is off and sends are whole rests
 * on the printed times alone, which then come out (docs/guide/comparing.md has what speaks against it).
 * Megatron sends beside computation in its interleaved schedule and synchronises gradients at the end,
 * DeepSpeed 3D overlaps neither, ZeRO-3 prefetches; Fold3D overlaps all and offloads checkpoints.
 * Gradients are fp16: the printed times are their bytes' over the network. */
static const struct {
    const char *system;
    int shard;
    bool folded, offload, interleaved;
    bool whole_sends; /* implied by the printed PP.sync */
    unsigned overlap;
    int64_t bucket_bytes;
} FOLD3D_SYSTEMS[] = {
    {"Fold3D", 0, true, true, false, false, OVERLAP_ALL, 0},
    {"Megatron-PTD", 0, false, false, true, true, OVERLAP_PIPELINE, 0},
    {"Megatron-SP", 0, false, false, true, true, OVERLAP_PIPELINE | OVERLAP_TENSOR, 0},
    {"DeepSpeed-3D", 0, false, false, false, true, 0, 0},
    {"DeepSpeed-Z3", 3, false, false, false, false, OVERLAP_ALL, DEFAULT_BUCKET_BYTES},
};

static void set_fold3d_system(struct arena *keep, int64_t segments, struct published *row)
{
    struct degrees *d = &row->degrees;
    for (size_t i = 0; i < COUNT_OF(FOLD3D_SYSTEMS); i++) {
        if (strcmp(row->system, FOLD3D_SYSTEMS[i].system) != 0)
            continue;
        d->shard = FOLD3D_SYSTEMS[i].shard;
        d->offload = FOLD3D_SYSTEMS[i].offload;
        d->whole_sends = FOLD3D_SYSTEMS[i].whole_sends;
        set_overlap(d, FOLD3D_SYSTEMS[i].overlap, FOLD3D_SYSTEMS[i].bucket_bytes);
        if (FOLD3D_SYSTEMS[i].folded) {
            d->segments = segments ? segments : FOLD3D_SEGMENTS_USUAL;
            if (!segments)
                assume(keep, row, "4 segments");
        }
        if (FOLD3D_SYSTEMS[i].interleaved) {
            d->pieces = FOLD3D_PIECES;
            assume(keep, row, "2 pieces per stage");
        }
        return;
    }
    refuse(keep, row, "system unknown: %s", row->system);
}

static void set_fold3d_model(struct arena *keep, const char *model, struct published *row)
{
    for (size_t i = 0; i < COUNT_OF(FOLD3D_MODELS); i++) {
        if (strcmp(model, FOLD3D_MODELS[i].model) != 0)
            continue;
        row->model = FOLD3D_MODELS[i].preset;
        row->options = FOLD3D_MODELS[i].options;
        if (FOLD3D_MODELS[i].why_not)
            refuse(keep, row, "%s prints %s", model, FOLD3D_MODELS[i].why_not);
        return;
    }
    refuse(keep, row, "model unknown: %s", model);
}

static weft_status read_fold3d_outcome(const struct csv *csv, const int *at,
                                       struct run_outcome *out)
{
    static const struct {
        enum fold3d_column column;
        enum portion portion;
    } PORTIONS[] = {
        {FOLD3D_FORWARD, PORTION_FORWARD},   {FOLD3D_BACKWARD, PORTION_BACKWARD},
        {FOLD3D_BUBBLE, PORTION_BUBBLE},     {FOLD3D_DATA, PORTION_DATA},
        {FOLD3D_PIPELINE, PORTION_PIPELINE},
    };
    weft_status status;
    TRY(csv_real(csv, at[FOLD3D_TOTAL], REAL_POSITIVE, &out->time_s));
    TRY(csv_number(csv, at[FOLD3D_MEMORY], &out->memory_bytes));
    out->time_s /= 1e3;
    out->memory_bytes *= 1e9;
    for (size_t i = 0; i < COUNT_OF(PORTIONS); i++) {
        TRY(csv_number(csv, at[PORTIONS[i].column], &out->portion_s[PORTIONS[i].portion]));
        out->portion_s[PORTIONS[i].portion] /= 1e3;
    }
done:
    return status;
}

static weft_status read_fold3d_degrees(const struct csv *csv, const int *at, int64_t *devices,
                                       int64_t *segments, struct degrees *d)
{
    weft_status status;
    TRY(csv_int(csv, at[FOLD3D_GPUS], 1, devices));
    TRY(csv_int(csv, at[FOLD3D_BATCH], 1, &d->global_batch));
    TRY(csv_int(csv, at[FOLD3D_DP], 1, &d->dp));
    TRY(csv_whole(csv, at[FOLD3D_PP], &d->pp));
    TRY(csv_int(csv, at[FOLD3D_TP], 1, &d->tp));
    TRY(csv_whole(csv, at[FOLD3D_SEGMENTS], segments));
    int64_t share = d->global_batch / d->dp;
    d->micro_batch = share < FOLD3D_MICRO_BATCH ? share : FOLD3D_MICRO_BATCH;
    d->sequence = false;
    d->recompute = RECOMPUTE_FULL;
done:
    return status;
}

static weft_status take_fold3d(void *context, const struct csv *csv, const int *at)
{
    struct reading *reading = context;
    struct arena *keep = reading->keep;
    const char *gpu = csv->field[at[FOLD3D_GPU]], *model = csv->field[at[FOLD3D_MODEL]];
    struct published row = {.dataset = reading->dataset, .line = csv->line};
    int64_t devices, segments;
    weft_status status;
    TRY(read_fold3d_degrees(csv, at, &devices, &segments, &row.degrees));
    TRY(read_fold3d_outcome(csv, at, &row.measured));
    row.system = csv->field[at[FOLD3D_SYSTEM]];
    row.group = arena_printf(keep, "%s on %lld %s", model, (long long)devices, gpu);
    row.name = arena_printf(keep, "%s %s %s", gpu, model, row.system);
    row.half = half_of(arena_printf(
        keep, "%s|dp %lld pp %lld tp %lld|%lld", row.name, (long long)row.degrees.dp,
        (long long)row.degrees.pp, (long long)row.degrees.tp, (long long)row.degrees.global_batch));
    bool a100 = strcmp(gpu, "A100") == 0;
    if (!a100 && strcmp(gpu, "V100") != 0)
        refuse(keep, &row, "device unknown: %s", gpu);
    row.cluster = cluster_text(keep, a100 ? "fold3d-a100" : "fold3d-v100", 8, devices);
    set_dtype(&row.degrees, DTYPE_FP16);
    set_policy(&row.degrees, POLICY_MIXED);
    set_fold3d_model(keep, model, &row);
    set_fold3d_system(keep, segments, &row);
    array_push(keep, reading->out, row);
done:
    return status;
}

weft_status read_fold3d(struct arena *keep, const struct dataset *dataset, struct csv *csv,
                        struct published_rows *out)
{
    struct reading reading = {keep, dataset, out};
    return csv_read(csv, FOLD3D_NAMES, FOLD3D_COLUMNS, take_fold3d, &reading);
}

/* ---- Proteus --------------------------------------------------------------------------------- */

enum proteus_column {
    PROTEUS_CLUSTER,
    PROTEUS_GPUS,
    PROTEUS_BATCH,
    PROTEUS_DP,
    PROTEUS_MP,
    PROTEUS_PP,
    PROTEUS_MICRO_BATCHES,
    PROTEUS_ERROR,
    PROTEUS_RANK,
    PROTEUS_RANK_PREDICTED,
    PROTEUS_FLAG,
    PROTEUS_COLUMNS
};
static const char *const PROTEUS_NAMES[] = {
    [PROTEUS_CLUSTER] = "hc",
    [PROTEUS_GPUS] = "gpus",
    [PROTEUS_BATCH] = "global_batch",
    [PROTEUS_DP] = "dp",
    [PROTEUS_MP] = "mp",
    [PROTEUS_PP] = "pp",
    [PROTEUS_MICRO_BATCHES] = "n_micro_batch",
    [PROTEUS_ERROR] = "err_pct",
    [PROTEUS_RANK] = "rank_truth",
    [PROTEUS_RANK_PREDICTED] = "rank_pred",
    [PROTEUS_FLAG] = "flag",
};
_Static_assert(COUNT_OF(PROTEUS_NAMES) == PROTEUS_COLUMNS, "a column without a name");

/* Proteus, Table II. */
static const char *proteus_cluster(const char *name)
{
    static const char *const CLUSTERS[][2] = {
        {"HC1", "titan-xp"}, {"HC2", "dgx-v100"}, {"HC3", "dgx-a100-200g"}};
    for (size_t i = 0; i < COUNT_OF(CLUSTERS); i++)
        if (strcmp(name, CLUSTERS[i][0]) == 0)
            return CLUSTERS[i][1];
    return NULL;
}

static weft_status read_proteus_degrees(const struct csv *csv, const int *at, int64_t *devices,
                                        int64_t *micro_batches, struct published *row)
{
    struct degrees *d = &row->degrees;
    weft_status status;
    TRY(csv_int(csv, at[PROTEUS_GPUS], 1, devices));
    TRY(csv_int(csv, at[PROTEUS_BATCH], 1, &d->global_batch));
    TRY(csv_int(csv, at[PROTEUS_DP], 1, &d->dp));
    TRY(csv_int(csv, at[PROTEUS_MP], 1, &d->tp));
    TRY(csv_int(csv, at[PROTEUS_PP], 1, &d->pp));
    TRY(csv_int(csv, at[PROTEUS_MICRO_BATCHES], 1, micro_batches));
    TRY(csv_int(csv, at[PROTEUS_RANK], 1, &row->rank));
    d->micro_batch = d->global_batch / d->dp / *micro_batches;
done:
    return status;
}

/* GPT-2 in fp32 (TITAN Xp has no fast half), plain attention, DDP's buckets beside the backward pass,
 * sends without scatter and gather (Proteus, sections VI and VIII). How 12 heads were split by 8 is not said; 16 narrower ones have
 * the same weights and products. */
static weft_status take_proteus(void *context, const struct csv *csv, const int *at)
{
    struct reading *reading = context;
    struct arena *keep = reading->keep;
    struct published row = {.dataset = reading->dataset, .line = csv->line};
    const char *hc = csv->field[at[PROTEUS_CLUSTER]], *preset = proteus_cluster(hc);
    int64_t devices, micro_batches;
    weft_status status;
    if (!preset)
        return csv_error(csv, at[PROTEUS_CLUSTER], NULL, "HC1, HC2 or HC3");
    TRY(read_proteus_degrees(csv, at, &devices, &micro_batches, &row));
    row.name = arena_printf(keep, "%s dp %lld x mp %lld x pp %lld (%lld)", hc,
                            (long long)row.degrees.dp, (long long)row.degrees.tp,
                            (long long)row.degrees.pp, (long long)micro_batches);
    row.group = arena_printf(keep, "%s, batch %lld", hc, (long long)row.degrees.global_batch);
    row.half = half_of(row.name);
    row.cluster = cluster_text(keep, preset, 8, devices);
    row.model = "gpt2";
    row.options = "attention: eager, heads: 16";
    assume(keep, &row, "16 heads of 48 in place of 12 of 64, which 8 does not divide");
    set_dtype(&row.degrees, DTYPE_FP32);
    set_policy(&row.degrees, POLICY_FP32);
    set_overlap(&row.degrees, OVERLAP_ALL, DEFAULT_BUCKET_BYTES);
    row.degrees.whole_sends = true;
    array_push(keep, reading->out, row);
done:
    return status;
}

weft_status read_proteus(struct arena *keep, const struct dataset *dataset, struct csv *csv,
                         struct published_rows *out)
{
    struct reading reading = {keep, dataset, out};
    return csv_read(csv, PROTEUS_NAMES, PROTEUS_COLUMNS, take_proteus, &reading);
}
