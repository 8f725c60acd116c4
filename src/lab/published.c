/* published.c - the datasets of published measurements, and reading them. */
#include "lab/published_read.h"

#include <stdio.h>
#include <string.h>

enum { MAX_FILE_BYTES = 16 << 20 };

static const struct dataset DATASETS[] = {
    {"megatron_sc21_table1", "GPT 1.7B to 1T on 32 to 3072 A100", "Megatron-LM SC'21, Table 1",
     read_runs, practice_sc21, false, true},
    {"megatron_seqsel_table5", "GPT 175B to 1T on 64 to 512 A100", "Korthikanti et al., Table 5",
     read_runs, practice_seqsel, false, true},
    {"megatron_core_h100", "GPT 7B to 177B on 96 to 2304 H100", "Megatron-Core README", read_runs,
     practice_core_h100, false, true},
    {"vtrain_multi", "GPT 3.6B to 175B on 64 to 512 A100", "vTrain", read_runs, practice_vtrain,
     false, true},
    {"vtrain_single", "small GPT on 2 to 8 A100 of one node", "vTrain", read_runs, practice_vtrain,
     false},
    {"simumax_b200", "truncated Llama 3 and DeepSeek on 8 B200", "SimuMax", read_runs,
     practice_simumax, false},
    {"torchtitan", "Llama 3.1 on 8 to 512 H100 and H200, FSDP2", "torchtitan", read_runs,
     practice_torchtitan, false, true},
    {"weft_h200", "GPT and Llama of 0.1 to 5 B on one H200, FSDP2", "measured for Weft", read_runs,
     practice_weft_h200, false, false},
    {"llm_foundry_fsdp", "MPT on 8 to 256 A100 and H100, FSDP", "MosaicML llm-foundry", read_runs,
     practice_llm_foundry, false, true},
    {"megatron_bridge", "mixtures of experts on GB200 and GB300", "Megatron-Bridge", read_runs,
     practice_bridge, false, true},
    {"megatron_golden", "small regression runs on A100, H100, GB200: memory first", "Megatron-LM",
     read_golden, practice_golden, false},
    {"fold3d_table2", "GPT-3 on A100 and V100 under five systems", "Fold3D, Table 2", read_fold3d,
     NULL, true},
    {"fold3d_table3", "BERT, T-NLG, CPM, T5 on A100 under four systems", "Fold3D, Table 3",
     read_fold3d, NULL, true},
    {"proteus_table5", "order of 13 strategies for GPT-2", "Proteus, Table V", read_proteus, NULL,
     true},
};

size_t published_datasets(const struct dataset **out)
{
    *out = DATASETS;
    return COUNT_OF(DATASETS);
}

const struct dataset *dataset_find(const char *name)
{
    int at = NAME_INDEX(name, DATASETS);
    if (at >= 0)
        return &DATASETS[at];
    bad_argument("`weft validate --help` lists them", "no dataset is called '%.100s'", name);
    hint_near(NEAREST_NAME(name, DATASETS));
    return NULL;
}

const char *half_name(enum half half)
{
    static const char *const NAMES[] = {[HALF_FIT] = "fit", [HALF_HELD_OUT] = "held-out"};
    _Static_assert(COUNT_OF(NAMES) == HALF_COUNT, "a half without a name");
    return NAMES[half];
}

const char *portion_name(enum portion portion)
{
    static const char *const NAMES[] = {
        [PORTION_FORWARD] = "forward", [PORTION_BACKWARD] = "backward",
        [PORTION_TENSOR] = "tp_comm",  [PORTION_BUBBLE] = "bubble",
        [PORTION_DATA] = "dp_comm",    [PORTION_PIPELINE] = "pp_comm",
        [PORTION_REST] = "rest"};
    _Static_assert(COUNT_OF(NAMES) == PORTION_COUNT, "a portion without a name");
    return NAMES[portion];
}

enum half half_of(const char *how)
{
    return hash_bytes(how, strlen(how), 0) & 1 ? HALF_HELD_OUT : HALF_FIT; /* I2 */
}

void refuse(struct arena *keep, struct published *row, const char *fmt, ...)
{
    va_list list;
    if (row->reason)
        return;
    va_start(list, fmt);
    row->reason = arena_vprintf(keep, fmt, list);
    va_end(list);
}

void assume(struct arena *keep, struct published *row, const char *what)
{
    row->assumes = row->assumes ? arena_printf(keep, "%s; %s", row->assumes, what) : what;
}

/* ---- reading --------------------------------------------------------------------------------- */

weft_status csv_whole(const struct csv *csv, int at, int64_t *out)
{
    *out = 0;
    return *csv->field[at] ? csv_int(csv, at, 1, out) : WEFT_OK;
}

weft_status csv_number(const struct csv *csv, int at, double *out)
{
    *out = 0;
    return *csv->field[at] ? csv_real(csv, at, REAL_POSITIVE, out) : WEFT_OK;
}

weft_status published_parse(struct arena *keep, const struct dataset *dataset, const char *file,
                            char *text, size_t len, struct published_rows *out)
{
    struct csv csv;
    weft_status status = csv_open(&csv, file, text, len);
    return status ? status : dataset->read(keep, dataset, &csv, out);
}

weft_status published_path(struct arena *keep, const char *name, char **out)
{
    static const struct shipped MEASUREMENTS = {"WEFT_VALIDATION", "validation",
                                                WEFT_VALIDATION_DIR};
    *out = shipped_file(keep, &MEASUREMENTS, arena_printf(keep, "%s.csv", name));
    return *out ? WEFT_OK
                : failure("%s.csv is not where Weft's data is; WEFT_VALIDATION may name its folder",
                          name);
}

weft_status published_file(struct arena *keep, const char *name, char **path, char **text,
                           size_t *len)
{
    weft_status status;
    TRY(published_path(keep, name, path));
    TRY(file_read(keep, *path, MAX_FILE_BYTES, text, len));
done:
    return status;
}

weft_status published_read(struct arena *keep, const struct dataset *dataset,
                           struct published_rows *out)
{
    char *path, *text;
    size_t len;
    weft_status status;
    TRY(published_file(keep, dataset->name, &path, &text, &len));
    TRY(published_parse(keep, dataset, path, text, len, out));
done:
    return status;
}
