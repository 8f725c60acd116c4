/* columns.c - the columns of the files with published runs, and reading a row of them (sources.h). */
#include <jansson.h>
#include <string.h>

#include "lab/published_read.h"

#define TEXT(column, member)   {column, RUN_TEXT, offsetof(struct run_row, member), false, 0, 0}
#define COUNT(column, member)  {column, RUN_COUNT, offsetof(struct run_row, member), false, 0, 0}
#define NEEDED(column, member) {column, RUN_COUNT, offsetof(struct run_row, member), true, 0, 0}
#define REAL(column, member, unit)                                                                 \
    {column, RUN_REAL, offsetof(struct run_row, member), false, unit, 0}
#define MILLISECONDS(column, member)                                                               \
    {column, RUN_REAL, offsetof(struct run_row, member), false, 0, 1e3}
#define OTHER(column) {column, RUN_OTHER, 0, false, 0, 0}

/* The columns that most files share (data/validation/README.md). */
static const struct run_column RUNS[] = {
    TEXT("dataset", dataset),
    OTHER("case"),
    TEXT("model", model),
    OTHER("params_b"),
    COUNT("layers", layers),
    COUNT("hidden", hidden),
    COUNT("ffn", ffn),
    COUNT("heads", heads),
    COUNT("kv_heads", kv_heads),
    COUNT("seq_len", seq),
    COUNT("vocab", vocab),
    COUNT("experts", experts),
    COUNT("topk", top_k),
    TEXT("gpu", gpu),
    COUNT("gpus", devices),
    OTHER("gpus_per_node"),
    OTHER("intra_link"),
    OTHER("inter_link"),
    COUNT("tp", tp),
    COUNT("cp", cp),
    COUNT("ep", ep),
    COUNT("pp", pp),
    COUNT("vpp", pieces),
    COUNT("dp", dp),
    COUNT("mbs", micro_batch),
    COUNT("gbs", global_batch),
    OTHER("num_microbatches"),
    TEXT("schedule", schedule),
    TEXT("recompute", recompute),
    {"seq_parallel", RUN_SWITCH, offsetof(struct run_row, sequence), false, 0, 0},
    TEXT("zero", zero),
    TEXT("precision", precision),
    OTHER("overlap"),
    REAL("iter_time_s", measured.time_s, 0),
    OTHER("tokens_per_s_per_gpu"),
    OTHER("tflops_per_gpu"),
    OTHER("flops_convention"),
    OTHER("mfu_pct"),
    REAL("mem_alloc_gib", measured.memory_bytes, 0x1p30),
    REAL("mem_reserved_gib", measured.reserved_bytes, 0x1p30),
    OTHER("framework"),
    OTHER("source"),
    TEXT("notes", notes),
};

/* Fold3D, Tables 2 and 3: several systems, with the parts of their iterations. */
static const struct run_column FOLD3D[] = {
    TEXT("gpu", gpu),
    NEEDED("n_gpus", devices),
    TEXT("model", model),
    NEEDED("global_batch", global_batch),
    TEXT("system", system),
    OTHER("conf"),
    NEEDED("dp", dp),
    COUNT("pp", pp),
    NEEDED("tp", tp),
    COUNT("segments", segments),
    MILLISECONDS("fwd_ms", measured.portion_s[PORTION_FORWARD]),
    MILLISECONDS("bwd_ms", measured.portion_s[PORTION_BACKWARD]),
    MILLISECONDS("bubble_ms", measured.portion_s[PORTION_BUBBLE]),
    MILLISECONDS("dp_sync_ms", measured.portion_s[PORTION_DATA]),
    MILLISECONDS("pp_sync_ms", measured.portion_s[PORTION_PIPELINE]),
    REAL("gpu_mem_GB", measured.memory_bytes, 1e9),
    OTHER("extra_cpu_mem_GB"),
    OTHER("tflops_per_gpu"),
    OTHER("util_pct_printed"),
    {"total_ms", RUN_REAL, offsetof(struct run_row, measured.time_s), true, 0, 1e3},
    OTHER("util_pct_recomputed"),
    OTHER("tflops_x_total_rel_to_group"),
    OTHER("megatron_formula_tflops_seq1024"),
    OTHER("flag"),
};

/* Fold3D, Table 4: computation and copies of its own runs, without the time of an iteration. */
static const struct run_column FOLD3D_COPIES[] = {
    TEXT("gpu", gpu),
    NEEDED("n_gpus", devices),
    TEXT("model", model),
    NEEDED("micro_batch", micro_batch),
    NEEDED("global_batch", global_batch),
    NEEDED("dp", dp),
    NEEDED("pp", pp),
    NEEDED("tp", tp),
    NEEDED("segments", segments),
    OTHER("hidden"),
    OTHER("checkpoint_MB"),
    MILLISECONDS("fwd_ms", measured.portion_s[PORTION_FORWARD]),
    MILLISECONDS("bwd_ms", measured.portion_s[PORTION_BACKWARD]),
    MILLISECONDS("copies_ms", measured.portion_s[PORTION_COPIES]),
};

/* Proteus, Table V: strategies in the order of their speed. */
static const struct run_column PROTEUS[] = {
    TEXT("hc", gpu),
    NEEDED("gpus", devices),
    NEEDED("global_batch", global_batch),
    NEEDED("dp", dp),
    NEEDED("mp", tp),
    NEEDED("pp", pp),
    NEEDED("n_micro_batch", micro_batches),
    OTHER("err_pct"),
    NEEDED("rank_truth", rank),
    OTHER("rank_pred"),
    OTHER("flag"),
};

/* MLPerf Training: a row per submission, with the degrees of the configuration that matches it. */
static const struct run_column MLPERF[] = {
    OTHER("round"),
    OTHER("commit"),
    OTHER("submitter"),
    OTHER("system"),
    OTHER("benchmark"),
    TEXT("accelerator", gpu),
    OTHER("nodes"),
    OTHER("per_node"),
    NEEDED("gpus", devices),
    OTHER("network"),
    OTHER("interconnect"),
    OTHER("framework"),
    OTHER("platform"),
    NEEDED("gbs", global_batch),
    OTHER("grad_accum"),
    OTHER("seq"),
    {"step_s", RUN_REAL, offsetof(struct run_row, measured.time_s), true, 0, 0},
    OTHER("step_min"),
    OTHER("step_max"),
    OTHER("runs"),
    OTHER("points"),
    OTHER("kind"),
    OTHER("minutes_to_target"),
    OTHER("config"),
    OTHER("config_score"),
    OTHER("config_ties"),
    COUNT("tp", tp),
    COUNT("pp", pp),
    COUNT("cp", cp),
    OTHER("vp"),
    COUNT("dp", dp),
    COUNT("mbs", micro_batch),
    OTHER("fp8"),
    OTHER("fp8_recipe"),
    OTHER("fp4"),
    OTHER("tp_overlap"),
    OTHER("cudagraph"),
};

static const struct form FORMS[] = {
    {"runs", RUNS, COUNT_OF(RUNS), "{case}", NULL,
     "{case}|{model}|{gpu}|{precision}|{gpus|0} devices|tp {tp|0} cp {cp|0} ep {ep|0} pp {pp|0} "
     "pieces {vpp|0}|{mbs|0} of {gbs|0}"},
    {"fold3d", FOLD3D, COUNT_OF(FOLD3D), "{gpu} {model} {system}", "{model} on {n_gpus} {gpu}",
     "{gpu} {model} {system}|dp {dp} pp {pp|0} tp {tp}|{global_batch}"},
    {"fold3d-copies", FOLD3D_COPIES, COUNT_OF(FOLD3D_COPIES), "{gpu} {model}", NULL,
     "{gpu} {model}|dp {dp} pp {pp} tp {tp}|{global_batch}"},
    {"proteus", PROTEUS, COUNT_OF(PROTEUS), "{hc} dp {dp} x mp {mp} x pp {pp} ({n_micro_batch})",
     "{hc}, batch {global_batch}", "{hc} dp {dp} x mp {mp} x pp {pp} ({n_micro_batch})"},
    {"mlperf", MLPERF, COUNT_OF(MLPERF), "{benchmark} {gpus} x {accelerator}, {round} {submitter}",
     NULL,
     "{benchmark}|{accelerator}|{fp4}|{gpus} devices|tp {tp|0} cp {cp|0} pp {pp|0} pieces {vp|0}|"
     "{mbs|0} of {gbs}"},
};

const struct form *form_find(const char *name)
{
    int at = NAME_INDEX(name, FORMS);
    return at < 0 ? NULL : &FORMS[at];
}

/* ---- reading a row --------------------------------------------------------------------------- */

static weft_status read_text(const struct run_column *column, const struct csv *csv, int at,
                             char *to)
{
    const char *text = csv->field[at];
    (void)column;
    memcpy(to, &text, sizeof text);
    return WEFT_OK;
}

static weft_status read_count(const struct run_column *column, const struct csv *csv, int at,
                              char *to)
{
    int64_t value = 0;
    weft_status status = WEFT_OK;
    if (*csv->field[at] || column->required)
        status = csv_int(csv, at, 1, &value);
    memcpy(to, &value, sizeof value);
    return status;
}

static weft_status read_real(const struct run_column *column, const struct csv *csv, int at,
                             char *to)
{
    double value = 0;
    weft_status status = WEFT_OK;
    if (*csv->field[at] || column->required)
        status = csv_real(csv, at, REAL_POSITIVE, &value);
    value *= column->times > 0 ? column->times : 1;
    value /= column->over > 0 ? column->over : 1;
    memcpy(to, &value, sizeof value);
    return status;
}

static weft_status read_switch(const struct run_column *column, const struct csv *csv, int at,
                               char *to)
{
    int64_t value = 0;
    (void)column;
    if (*csv->field[at] && (!parse_int(csv->field[at], &value) || (value != 0 && value != 1)))
        return csv_error(csv, at, NULL, "0 or 1");
    memcpy(to, &value, sizeof value);
    return WEFT_OK;
}

/* Launch arguments without a column of their own are a JSON object at the end of the notes. */
static json_t *launch_arguments(const char *notes)
{
    const char *object = notes ? strchr(notes, '{') : NULL;
    return object ? json_loads(object, 0, NULL) : NULL;
}

weft_status run_row_read(const struct form *form, const struct csv *csv, const int *at,
                         struct run_row *out)
{
    static weft_status (*const READERS[])(const struct run_column *column, const struct csv *csv,
                                          int at, char *to) = {
        [RUN_TEXT] = read_text,
        [RUN_COUNT] = read_count,
        [RUN_REAL] = read_real,
        [RUN_SWITCH] = read_switch,
    };
    weft_status status = WEFT_OK;
    *out = (struct run_row){.form = form, .csv = csv, .at = at};
    for (size_t i = 0; i < form->columns; i++) {
        const struct run_column *column = &form->column[i];
        if (column->kind != RUN_OTHER)
            TRY(READERS[column->kind](column, csv, at[i], (char *)out + column->offset));
    }
    out->arguments = launch_arguments(out->notes);
done:
    return status;
}

void run_row_close(struct run_row *run)
{
    json_decref(run->arguments);
    run->arguments = NULL;
}
