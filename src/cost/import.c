/* import.c - files of measurements into the database: which format, which rows, and what became of them.
 *
 *   I1  An error ends the import and the caller's transaction: all files are imported, or none.
 *   I2  Every row of a file is stored, merged, or skipped for a counted reason.
 */
#include <string.h>

#include "cost/profile.h"

enum { IMPORT_MAX_BYTES = 256 << 20 };

/* ---- the formats ----------------------------------------------------------------------------- */

static const char *const FORMATS[] = {
    [FORMAT_AUTO] = "auto",           [FORMAT_ACESO] = "aceso",
    [FORMAT_SAILOR] = "sailor",       [FORMAT_SIMUMAX] = "simumax",
    [FORMAT_GALVATRON] = "galvatron", [FORMAT_WEFT_CSV] = "weft-csv",
    [FORMAT_NCCL] = "nccl",           [FORMAT_AICONFIGURATOR] = "aiconfigurator",
};
_Static_assert(COUNT_OF(FORMATS) == FORMAT_COUNT, "a format without a name");

static const char *import_format_name(enum import_format format)
{
    return FORMATS[format];
}

bool import_format_from_name(const char *name, enum import_format *out)
{
    int at = NAME_INDEX(name, FORMATS);
    if (at >= 0)
        *out = (enum import_format)at;
    return at >= 0;
}

/* The tables that can be imported. A file is of the kind that most of its column names belong
 * to. */
struct csv_kind {
    const char *name;
    enum import_format format;
    const char *signature[6]; /* columns that tell it from the others */
    weft_status (*read)(struct import *import, struct csv *csv);
    const char *origin; /* where its numbers are from; NULL: the file says */
};

#define ACESO          "EuroSys 2024 artifact of Aceso"
#define SAILOR         "SOSP 2025 artifact of Sailor"
#define AICONFIGURATOR "ai-dynamo/aiconfigurator, commit 095f58a5, Apache-2.0"
static const struct csv_kind CSV_KINDS[] = {
    {"aceso operators",
     FORMAT_ACESO,
     {"model", "microbatch", "algo", "forward_us", "backward_us"},
     import_model_operators,
     ACESO},
    {"sailor operators",
     FORMAT_SAILOR,
     {"device", "model", "microbatch", "algo", "forward_us", "backward_us"},
     import_model_operators,
     SAILOR},
    {"aceso collectives",
     FORMAT_ACESO,
     {"collective", "devices", "size_mb", "ms", "samples"},
     import_collectives,
     ACESO},
    {"sailor collectives",
     FORMAT_SAILOR,
     {"device", "collective", "devices", "size_mb", "ms"},
     import_collectives,
     SAILOR},
    {"aceso p2p", FORMAT_ACESO, {"where", "size_mb", "gb_per_s"}, import_p2p_rates, ACESO},
    {"sailor p2p",
     FORMAT_SAILOR,
     {"device", "dtype", "where", "size_mb", "gb_per_s"},
     import_p2p_rates,
     SAILOR},
    {"vtrain all-reduce",
     FORMAT_NCCL,
     {"gpus", "time_out_of_place_ns", "busbw_oop_GBps"},
     import_vtrain,
     "VIA-Research/vTrain, trace/"},
    {"simai bandwidth shares",
     FORMAT_NCCL,
     {"file", "column", "ratio"},
     import_simai,
     "aliyun/SimAI, astra-sim-alibabacloud/inputs/ratio/"},
    {"proteus link times",
     FORMAT_NCCL,
     {"link_7_us", "link_25_us", "link_50_us"},
     import_link_latency,
     "public code of Proteus"},
    {"simumax efficiencies",
     FORMAT_SIMUMAX,
     {"op", "shape", "peak_tflops", "efficiency"},
     import_simumax,
     "MooreThreads/SimuMax, configs/system/"},
    {"aiconfigurator products",
     FORMAT_AICONFIGURATOR,
     {"system", "gemm_dtype", "m", "n", "k", "latency"},
     import_aiconfigurator,
     AICONFIGURATOR},
    {"aiconfigurator attention",
     FORMAT_AICONFIGURATOR,
     {"system", "attn_dtype", "isl", "head_dim", "window_size", "latency"},
     import_aiconfigurator,
     AICONFIGURATOR},
    {"aiconfigurator experts",
     FORMAT_AICONFIGURATOR,
     {"system", "moe_dtype", "num_tokens", "moe_ep_size", "latency"},
     import_aiconfigurator,
     AICONFIGURATOR},
    {"aiconfigurator nccl",
     FORMAT_AICONFIGURATOR,
     {"system", "op_name", "nccl_dtype", "num_gpus", "message_size", "latency"},
     import_aiconfigurator_nccl,
     AICONFIGURATOR},
    {"weft kernels", FORMAT_WEFT_CSV, {"kernel", "phase", "ns"}, import_weft_kernels, NULL},
    {"weft collectives",
     FORMAT_WEFT_CSV,
     {"collective", "nodes", "ns"},
     import_weft_collectives,
     NULL},
    {"weft interference",
     FORMAT_WEFT_CSV,
     {"kernel", "work_slowdown", "transfer_slowdown"},
     import_weft_interference,
     NULL},
};

/* How many columns of the signature the file has, out of how many: a full match beats any other. */
static int match(const struct csv *csv, const struct csv_kind *kind)
{
    int found = 0, missing = 0;
    for (size_t i = 0; i < COUNT_OF(kind->signature) && kind->signature[i]; i++) {
        if (csv_column(csv, kind->signature[i]) >= 0)
            found++;
        else
            missing++;
    }
    return found == 0 ? 0 : 2 * found - missing + (missing == 0 ? 100 : 0);
}

static const struct csv_kind *find_kind(const struct csv *csv, enum import_format format)
{
    const struct csv_kind *best = NULL;
    int best_match = 0;
    for (size_t i = 0; i < COUNT_OF(CSV_KINDS); i++) {
        int matched = match(csv, &CSV_KINDS[i]);
        bool allowed = format == FORMAT_AUTO || format == CSV_KINDS[i].format;
        if (allowed && matched > best_match) {
            best = &CSV_KINDS[i];
            best_match = matched;
        }
    }
    return best;
}

/* ---- one file -------------------------------------------------------------------------------- */

static weft_status read_csv(struct import *import, char *text, size_t len)
{
    struct csv csv;
    weft_status status;
    TRY(csv_open(&csv, import->file, text, len));
    const struct csv_kind *kind = find_kind(&csv, import->options->format);
    if (!kind)
        return bad_input(import->file, csv.line,
                         "docs/reference/profile.md describes the tables Weft reads",
                         "has no known column, beginning with '%.60s'", csv.header[0]);
    import->summary->format = kind->name;
    if (kind->origin)
        TRY(import_source(import, kind->name, kind->origin));
    TRY(kind->read(import, &csv));
    import->summary->read = csv.rows;
done:
    return status;
}

static weft_status read_json(struct import *import, const char *text, size_t len)
{
    struct doc *doc;
    weft_status status;
    if (import->options->format != FORMAT_AUTO && import->options->format != FORMAT_GALVATRON)
        return bad_input(import->file, 0, NULL, "is a JSON document, expected a table of format %s",
                         import_format_name(import->options->format));
    TRY(doc_parse(import->arena, import->file, text, len, DOC_JSON, &doc));
    TRY(import_galvatron(import, doc));
done:
    return status;
}

static bool looks_like_json(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '{';
}

static weft_status count_rows(struct profile *profile, int64_t *out)
{
    int64_t rows;
    weft_status status = WEFT_OK;
    *out = 0;
    for (int table = TABLE_SOURCE + 1; table < TABLE_COUNT; table++) {
        TRY(profile_count(profile, (enum profile_table)table, &rows));
        *out += rows;
    }
done:
    return status;
}

weft_status profile_import_text(struct profile *profile, const char *name, char *text, size_t len,
                                const struct import_options *options, struct arena *keep,
                                struct import_summary *out)
{
    weft_status status;
    int64_t before, after;
    struct import import = {
        .profile = profile, .options = options, .arena = arena_new(), .keep = keep, .summary = out};
    *out = (struct import_summary){.file = arena_copy_text(keep, name), .format = ""};
    import.file = out->file;
    TRY(count_rows(profile, &before));
    TRY(looks_like_json(text) ? read_json(&import, text, len) : read_csv(&import, text, len));
    TRY(import_merge(&import));
    TRY(count_rows(profile, &after));
    out->replaced = out->stored - (after - before);
done:
    arena_free(import.arena);
    return status;
}

weft_status profile_import(struct profile *profile, const char *path,
                           const struct import_options *options, struct arena *keep,
                           struct import_summary *out)
{
    struct arena *scratch = arena_new();
    weft_status status;
    char *text;
    size_t len;
    TRY(file_read(scratch, path, IMPORT_MAX_BYTES, &text, &len));
    TRY(profile_import_text(profile, path, text, len, options, keep, out));
done:
    arena_free(scratch);
    return status;
}
