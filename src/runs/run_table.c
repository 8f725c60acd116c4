/* run_table.c - a CSV file of runs, whoever wrote its headings.
 *
 * A heading is compared in small letters, with every run of other characters than letters and digits as one
 * underscore: "Time (s)" is time_s. Each field has several spellings, and some a unit:
 *
 *   value = number in the file * unit                                                            (1)
 *
 *   I1  Two columns of one meaning are an error, because nobody can say which counts; headings that mean nothing here
 *       are listed and ignored.
 *   I2  An empty field, "-", "n/a", "na" and "none" say nothing, except where "none" is a word of the field.
 *   I3  Fields are parted by commas; where the headings have none, by semicolons or tabs, and then a comma between digits
 *       is a decimal point.
 *   I4  A line that begins with '#' and a blank is a remark. ("#" alone may head a column of numbers.)
 */
#include "runs/runs_room.h"

#include <ctype.h>
#include <string.h>

enum { MAX_FILE_BYTES = 16 << 20 };

#define FIELD(kind, member) kind, offsetof(struct run_fields, member)
#define SPEED(which, unit, quantity)                                                               \
    RUN_REAL, offsetof(struct run_fields, speed[which]), unit, quantity
#define BYTES(member, unit) RUN_REAL, offsetof(struct run_fields, member), unit, QUANTITY_BYTES

static const struct heading_column COLUMNS[] = {
    {"name", "name case run label id", FIELD(RUN_TEXT, name)},
    {"model", "model model_name preset", FIELD(RUN_TEXT, model)},
    {"options", "options model_options set", FIELD(RUN_TEXT, options)},
    {"layers", "layers num_layers n_layers", FIELD(RUN_COUNT, size[RUN_LAYERS])},
    {"hidden", "hidden hidden_size d_model", FIELD(RUN_COUNT, size[RUN_HIDDEN])},
    {"heads", "heads num_heads num_attention_heads n_heads", FIELD(RUN_COUNT, size[RUN_HEADS])},
    {"ffn", "ffn ffn_hidden_size intermediate_size", FIELD(RUN_COUNT, size[RUN_FFN])},
    {"vocab", "vocab vocab_size", FIELD(RUN_COUNT, size[RUN_VOCAB])},
    {"sequence",
     "seq seq_len sequence sequence_length seq_length seqlen context context_length max_seq_len",
     FIELD(RUN_COUNT, size[RUN_SEQ])},
    {"rank of LoRA", "lora lora_rank lora_r peft_dim", FIELD(RUN_COUNT, size[RUN_LORA])},
    {"cluster", "cluster machine system platform hardware", FIELD(RUN_TEXT, cluster)},
    {"device", "device gpu accelerator gpu_type gpu_model device_type", FIELD(RUN_TEXT, device)},
    {"devices",
     "devices gpus n_gpus num_gpus ngpus gpu_count n_devices num_devices world_size accelerators",
     FIELD(RUN_COUNT, devices)},
    {"nodes", "nodes n_nodes num_nodes nnodes hosts", FIELD(RUN_COUNT, nodes)},
    {"devices of a node",
     "gpus_per_node devices_per_node gpus_node ngpus_per_node nproc_per_node num_gpus_per_node",
     FIELD(RUN_COUNT, per_node)},
    {"dp", "dp data_parallel data_parallel_size data_parallel_degree dp_size dp_degree replicas",
     FIELD(RUN_COUNT, degrees.dp)},
    {"tp",
     "tp tensor_parallel tensor_parallel_size tensor_model_parallel_size tensor_parallel_degree "
     "tp_size tp_degree mp model_parallel_size",
     FIELD(RUN_COUNT, degrees.tp)},
    {"pp",
     "pp pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size "
     "pipeline_parallel_degree pp_size pp_degree stages",
     FIELD(RUN_COUNT, degrees.pp)},
    {"cp", "cp context_parallel context_parallel_size context_parallel_degree cp_size",
     FIELD(RUN_COUNT, degrees.cp)},
    {"ep", "ep expert_parallel expert_parallel_size expert_model_parallel_size ep_size",
     FIELD(RUN_COUNT, degrees.ep)},
    {"etp", "etp expert_tensor_parallel_size", FIELD(RUN_COUNT, degrees.etp)},
    {"virtual", "virtual vpp vp virtual_pipeline virtual_pipeline_size pieces interleave",
     FIELD(RUN_COUNT, degrees.pieces)},
    {"micro-batch", "micro_batch microbatch micro_batch_size microbatch_size mbs",
     FIELD(RUN_COUNT, degrees.micro_batch)},
    {"global batch", "global_batch global_batch_size gbs batch batch_size",
     FIELD(RUN_COUNT, degrees.global_batch)},
    {"sequence parallelism", "sp sequence_parallel seq_parallel sequence_parallelism",
     FIELD(RUN_SWITCH, degrees.sequence)},
    {"state sharding", "zero zero_stage shard sharding zero_level", FIELD(RUN_ZERO, degrees)},
    {"recomputation",
     "recompute recomputation recompute_granularity activation_checkpointing ac checkpointing",
     FIELD(RUN_RECOMPUTE, degrees)},
    {"type", "dtype precision type data_type", FIELD(RUN_DTYPE, degrees)},
    {"policy", "policy", FIELD(RUN_POLICY, degrees)},
    {"optimizer", "optimizer optimiser", FIELD(RUN_OPTIMIZER, degrees)},
    {"schedule", "schedule pipeline_schedule", FIELD(RUN_SCHEDULE, degrees)},
    {"overlap", "overlap", FIELD(RUN_OVERLAP, degrees)},
    {"bucket", "bucket bucket_size", FIELD(RUN_BUCKET, degrees)},
    {"software", "software framework trainer", FIELD(RUN_SOFTWARE, degrees)},
    {"seconds",
     "seconds s time time_s iter_time_s iter_time iteration_s iteration_time_s step_s step_time_s "
     "step_time seconds_per_iteration seconds_per_step s_per_iteration s_per_step sec_per_step",
     SPEED(SPEED_SECONDS, 1, QUANTITY_SECONDS)},
    {"milliseconds",
     "milliseconds ms time_ms iter_time_ms iteration_ms iteration_time_ms step_ms step_time_ms "
     "elapsed_time_per_iteration_ms ms_per_step ms_per_iteration",
     SPEED(SPEED_SECONDS, 1e-3, QUANTITY_SECONDS)},
    {"tokens per second", "tokens_per_s tokens_per_second tokens_s tokens_sec throughput_tokens_s",
     SPEED(SPEED_TOKENS, 1, QUANTITY_RATE)},
    {"tokens per second and device",
     "tps tokens_per_s_per_gpu tokens_per_s_per_device tokens_s_gpu tokens_sec_gpu "
     "tokens_per_second_per_gpu tokens_gpu_s tokens_per_gpu_per_second tgs",
     SPEED(SPEED_DEVICE_TOKENS, 1, QUANTITY_DEVICE_RATE)},
    {"samples per second",
     "samples_per_s samples_per_second samples_s samples_sec sequences_per_s images_per_s",
     SPEED(SPEED_SAMPLES, 1, QUANTITY_RATE)},
    {"samples per second and device",
     "samples_per_s_per_gpu samples_s_gpu samples_per_s_per_device",
     SPEED(SPEED_DEVICE_SAMPLES, 1, QUANTITY_DEVICE_RATE)},
    {"TFLOP/s per device",
     "tflops tflops_per_gpu tflops_per_device tflop_s_gpu tflop_s_per_gpu tflop_s_per_device "
     "model_tflops_per_gpu tflops_gpu tflops_s_gpu tflops_s_per_gpu tflops_sec_gpu "
     "throughput_per_gpu_tflop_s_gpu",
     SPEED(SPEED_DEVICE_TFLOPS, 1, QUANTITY_TFLOPS)},
    {"memory in GiB",
     "memory memory_gib mem_gib mem peak_memory peak_memory_gib peak_mem peak_mem_gib "
     "max_memory_gib "
     "max_mem_gib mem_alloc_gib max_allocated_gib",
     BYTES(memory, 0x1p30)},
    {"memory in GB", "memory_gb mem_gb peak_memory_gb peak_mem_gb max_memory_gb max_mem_gb",
     BYTES(memory, 1e9)},
    {"memory in MiB", "memory_mib mem_mib peak_memory_mib peak_mem_mib memory_mb max_allocated_mb",
     BYTES(memory, 0x1p20)},
    {"memory in bytes",
     "memory_bytes mem_bytes peak_memory_bytes max_memory_bytes max_allocated_bytes "
     "mem_max_allocated_bytes max_memory_allocated",
     BYTES(memory, 1)},
    {"reserved memory in GiB", "reserved reserved_gib mem_reserved_gib max_reserved_gib",
     BYTES(reserved, 0x1p30)},
};

/* Stands for a comma that is a part of its field, where others part fields, until the field is read. */
static const char COMMA = '\x1f';

const char *bare_text(struct arena *keep, const char *text)
{
    char *bare = arena_copy_text(keep, text + strspn(text, " \t"));
    size_t len = strlen(bare);
    while (len > 0 && (bare[len - 1] == ' ' || bare[len - 1] == '\t'))
        bare[--len] = '\0';
    for (char *c = bare; *c; c++)
        *c = *c == COMMA ? ',' : *c;
    return bare;
}

/* ---- headings -------------------------------------------------------------------------------- */

/* Small letters and underscores. */
static const char *plain_heading(struct arena *keep, const char *heading)
{
    char *out = arena_copy_text(keep, heading), *to = out;
    for (const char *c = heading; *c; c++) {
        bool word = isalnum((unsigned char)*c);
        if (word)
            *to++ = (char)tolower((unsigned char)*c);
        else if (to > out && to[-1] != '_')
            *to++ = '_';
    }
    while (to > out && to[-1] == '_')
        to--;
    *to = '\0';
    return out;
}

bool has_word(const char *words, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = words; len > 0 && *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == len && strncmp(at, word, len) == 0)
            return true;
    return false;
}

static int column_of(const char *heading)
{
    for (size_t i = 0; i < COUNT_OF(COLUMNS); i++)
        if (has_word(COLUMNS[i].spellings, heading))
            return (int)i;
    return -1;
}

/* at[c] is the place of column c in the file, or -1. */
static weft_status bind(struct arena *keep, const struct csv *csv, int *at, struct user_runs *out)
{
    for (size_t c = 0; c < COUNT_OF(COLUMNS); c++)
        at[c] = -1;
    for (size_t i = 0; i < csv->columns; i++) {
        const char *heading = bare_text(keep, csv->header[i]);
        int column = column_of(plain_heading(keep, heading));
        if (column < 0) {
            out->ignored =
                out->ignored ? arena_printf(keep, "%s, %s", out->ignored, heading) : heading;
            continue;
        }
        if (at[column] >= 0) /* I1 */
            return bad_input(
                csv->file, csv->line, "leave one of them out", "columns '%s' and '%s' both mean %s",
                bare_text(keep, csv->header[at[column]]), heading, COLUMNS[column].meaning);
        at[column] = (int)i;
    }
    return WEFT_OK;
}

static weft_status check_columns(const struct csv *csv, const int *at)
{
    static const char HINT[] = "docs/reference/runs.md lists the columns";
    bool model = false, measured = false;
    for (size_t c = 0; c < COUNT_OF(COLUMNS); c++) {
        model |= at[c] >= 0 && COLUMNS[c].offset == offsetof(struct run_fields, model);
        measured |= at[c] >= 0 && COLUMNS[c].kind == RUN_REAL;
    }
    if (!model)
        return bad_input(csv->file, csv->line, HINT, "has no column 'model'");
    if (!measured)
        return bad_input(csv->file, csv->line, HINT,
                         "has no column with what was measured, such as 'seconds'");
    return WEFT_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct user_run read_row(struct arena *keep, const struct csv *csv, int fields,
                                const int *at)
{
    struct run_fields row = {0};
    const char *wrong = NULL;
    if ((size_t)fields != csv->columns)
        wrong = arena_printf(keep, "has %d fields, expected the %zu of the header", fields,
                             csv->columns);
    for (size_t c = 0; c < COUNT_OF(COLUMNS) && !wrong; c++)
        if (at[c] >= 0)
            wrong = run_field_read(keep, &COLUMNS[c], csv->header[at[c]], csv->field[at[c]], &row);
    struct user_run run = run_from_fields(keep, &row);
    run.line = csv->line;
    run.reason = wrong ? wrong : run.reason;
    if (!run.name)
        run.name = arena_printf(keep, "line %d", csv->line);
    return run;
}

/* ---- separators ------------------------------------------------------------------------------ */

/* What parts the headings, or ',' (I3). */
static char separator_of(const char *text, size_t len)
{
    size_t blank = strspn(text, " \r\n");
    text += blank < len ? blank : len;
    len -= blank < len ? blank : len;
    const char *end = memchr(text, '\n', len);
    size_t line = end ? (size_t)(end - text) : len;
    if (memchr(text, ',', line))
        return ',';
    return memchr(text, ';', line) ? ';' : memchr(text, '\t', line) ? '\t' : ',';
}

static bool is_decimal_comma(const char *text, size_t len, size_t at)
{
    return text[at] == ',' && at > 0 && at + 1 < len && isdigit((unsigned char)text[at - 1]) &&
           isdigit((unsigned char)text[at + 1]);
}

static void part_by_commas(char *text, size_t len)
{
    char separator = separator_of(text, len);
    bool quoted = false;
    for (size_t i = 0; i < len && separator != ','; i++) {
        quoted ^= text[i] == '"';
        if (text[i] == separator && !quoted)
            text[i] = ',';
        else if (is_decimal_comma(text, len, i) && !quoted)
            text[i] = '.';
        else if (text[i] == ',' && !quoted)
            text[i] = COMMA; /* it parts nothing: "core_attn,mlp" */
    }
}

/* I4: the line stays, so that those after it keep their numbers. */
static void blank_remarks(char *text, size_t len)
{
    bool begins = true, remark = false;
    for (size_t i = 0; i < len; i++) {
        remark = begins ? text[i] == '#' && i + 1 < len && text[i + 1] == ' ' : remark;
        begins = text[i] == '\n';
        if (remark && !begins)
            text[i] = ' ';
    }
}

weft_status runs_parse(struct arena *keep, const char *file, char *text, size_t len,
                       struct user_runs *out)
{
    struct csv csv;
    int at[COUNT_OF(COLUMNS)], fields;
    weft_status status;
    *out = (struct user_runs){.file = file};
    blank_remarks(text, len);
    part_by_commas(text, len);
    TRY(csv_open(&csv, file, text, len));
    TRY(bind(keep, &csv, at, out));
    TRY(check_columns(&csv, at));
    while ((fields = csv_next(&csv)) >= 0)
        array_push(keep, out, read_row(keep, &csv, fields, at));
    if (out->len == 0)
        status = bad_input(file, 0, NULL, "has a header and no runs");
done:
    return status;
}

weft_status runs_read(struct arena *keep, const char *path, struct user_runs *out)
{
    char *text;
    size_t len;
    weft_status status = file_read(keep, path, MAX_FILE_BYTES, &text, &len);
    return status ? status : runs_parse(keep, path, text, len, out);
}
