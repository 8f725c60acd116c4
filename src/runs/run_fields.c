/* run_fields.c - fields of a row as values, and a row as a run (runs_room.h).
 *
 *   I1  What a field may be is what the option of the same name takes on the command line, in any case, and a few words
 *       that frameworks have for it.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "runs/runs_room.h"

static const double LARGEST = 1e15; /* no time, rate or size in a table comes near it */

/* What may stand in a field that says nothing. */
static bool says_nothing(const char *text)
{
    return has_word("- n/a na nan null ?", text) || *text == '\0';
}

struct lower_case {
    char text[32]; /* longer words are cut: none of ours is as long */
};

static struct lower_case lower_case(const char *text)
{
    struct lower_case lower = {""};
    for (size_t i = 0; text[i] && i + 1 < sizeof lower.text; i++)
        lower.text[i] = (char)tolower((unsigned char)text[i]);
    return lower;
}

static bool is_one_of(const char *words, const char *text)
{
    return has_word(words, lower_case(text).text);
}

/* ---- readers, one for each kind: NULL, or what was expected ------------------------------------ */

typedef const char *field_reader(struct arena *keep, const struct heading_column *column,
                                 const char *text, struct run_fields *out);

static const char *read_text(struct arena *keep, const struct heading_column *column,
                             const char *text, struct run_fields *out)
{
    const char *copy = arena_copy_text(keep, text);
    memcpy((char *)out + column->offset, &copy, sizeof copy);
    return NULL;
}

static const char *read_count(struct arena *keep, const struct heading_column *column,
                              const char *text, struct run_fields *out)
{
    double real;
    int64_t value = 0;
    (void)keep;
    if (!parse_int(text, &value) && parse_real(text, &real) && real >= 1 && real < 0x1p31)
        value = (double)(int64_t)real == real ? (int64_t)real : 0; /* "8.0" of a spreadsheet */
    if (value < 1 || value > INT32_MAX)
        return "a whole number of at least 1";
    memcpy((char *)out + column->offset, &value, sizeof value);
    return NULL;
}

static const char *read_real(struct arena *keep, const struct heading_column *column,
                             const char *text, struct run_fields *out)
{
    static const char *const EXPECTED[] = {
        [QUANTITY_SECONDS] = "a time above 0, such as 5.1 or 5.1 s",
        [QUANTITY_RATE] = "a rate above 0, such as 38000 or 38k/s",
        [QUANTITY_DEVICE_RATE] = "a rate above 0, such as 2900 or 2.9k/s",
        [QUANTITY_TFLOPS] = "a rate above 0, such as 410 or 410 TFLOP/s",
        [QUANTITY_BYTES] = "a size above 0, such as 72.5 or 72.5 GiB",
    };
    _Static_assert(COUNT_OF(EXPECTED) == QUANTITIES, "a quantity without an example");
    double value, before;
    (void)keep;
    if (!quantity_parse(column->quantity, column->unit, text, &value) || !(value > 0) ||
        value > LARGEST)
        return EXPECTED[column->quantity];
    memcpy(&before, (char *)out + column->offset, sizeof before);
    if (before > 0) /* seconds and milliseconds */
        return "only one of the columns that mean the same";
    memcpy((char *)out + column->offset, &value, sizeof value);
    return NULL;
}

static const char *read_switch(struct arena *keep, const struct heading_column *column,
                               const char *text, struct run_fields *out)
{
    bool on = is_one_of("1 on yes true", text);
    (void)keep;
    if (!on && !is_one_of("0 off no false none", text))
        return "on or off";
    memcpy((char *)out + column->offset, &on, sizeof on);
    return NULL;
}

static const char *read_zero(struct arena *keep, const struct heading_column *column,
                             const char *text, struct run_fields *out)
{
    static const char *const WORDS[] = {"0 none no off false ddp zero0 zero-0 zero_0",
                                        "1 zero1 zero-1 zero_1 distributed on true yes",
                                        "2 zero2 zero-2 zero_2",
                                        "3 zero3 zero-3 zero_3 fsdp fsdp2 full_shard"};
    (void)keep, (void)column;
    for (int level = 0; level < (int)COUNT_OF(WORDS); level++)
        if (is_one_of(WORDS[level], text)) {
            out->degrees.shard = level;
            out->degrees.has_shard = true;
            return NULL;
        }
    return "0, 1, 2, 3 or fsdp";
}

static const char *read_recompute(struct arena *keep, const struct heading_column *column,
                                  const char *text, struct run_fields *out)
{
    (void)column;
    const char *word = is_one_of("0 no off false none", text)  ? "none"
                       : is_one_of("1 yes on true full", text) ? "full"
                                                               : text;
    out->degrees.has_recompute = recompute_parse(keep, word, &out->degrees);
    return out->degrees.has_recompute ? NULL : RECOMPUTE_WORDS;
}

static const char *read_dtype(struct arena *keep, const struct heading_column *column,
                              const char *text, struct run_fields *out)
{
    static const struct {
        const char *words; /* of Composer, Lightning, torchao, NeMo and Megatron-Bridge */
        enum dtype dtype;
    } RECIPES[] = {
        {"full", DTYPE_FP32},
        {"amp_fp16 16_mixed", DTYPE_FP16},
        {"amp_bf16 bf16_mixed", DTYPE_BF16},
        {"mxfp8 amp_fp8 fp8_mx fp8_tensorwise fp8_rowwise fp8_blockwise fp8_current fp8_delayed "
         "fp8_hybrid fp8_cs fp8_ds fp8_sc",
         DTYPE_FP8},
        {"fp4 fp4_nv nvfp4_mixed", DTYPE_NVFP4},
    };
    (void)keep, (void)column;
    enum dtype *dtype = &out->degrees.dtype;
    struct lower_case word = lower_case(text);
    bool known = dtype_from_word(word.text, dtype);
    for (char *c = word.text; *c; c++)
        *c = *c == ' ' || *c == '-' ? '_' : *c;
    for (size_t i = 0; !known && i < COUNT_OF(RECIPES); i++)
        if ((known = has_word(RECIPES[i].words, word.text)))
            *dtype = RECIPES[i].dtype;
    out->degrees.has_dtype |= known;
    return known ? NULL : DTYPE_NAMES;
}

static const char *read_policy(struct arena *keep, const struct heading_column *column,
                               const char *text, struct run_fields *out)
{
    (void)keep, (void)column;
    out->degrees.has_policy = policy_from_name(text, &out->degrees.policy);
    return out->degrees.has_policy ? NULL : "a policy, such as mixed, distributed or fsdp";
}

static const char *read_optimizer(struct arena *keep, const struct heading_column *column,
                                  const char *text, struct run_fields *out)
{
    (void)keep, (void)column;
    return optimizer_from_name(text, &out->degrees.optimizer) ? NULL : UPDATE_WORDS;
}

static const char *read_schedule(struct arena *keep, const struct heading_column *column,
                                 const char *text, struct run_fields *out)
{
    const struct schedule *all;
    size_t count = schedule_all(&all);
    (void)keep, (void)column;
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(text, all[i].name) == 0) {
            out->degrees.schedule = all[i].name;
            return NULL;
        }
    return "a schedule, such as 1f1b or interleaved";
}

static const char *read_overlap(struct arena *keep, const struct heading_column *column,
                                const char *text, struct run_fields *out)
{
    char *rest = arena_copy_text(keep, text), *word;
    (void)column;
    out->degrees.has_overlap = true;
    out->degrees.overlap = 0;
    while ((word = strsep(&rest, ",;+ ")) != NULL)
        if (*word && !overlap_from_name(word, &out->degrees.overlap))
            return OVERLAP_WORDS;
    return NULL;
}

static const char *read_bucket(struct arena *keep, const struct heading_column *column,
                               const char *text, struct run_fields *out)
{
    (void)keep, (void)column;
    out->degrees.has_bucket = bucket_from_text(text, &out->degrees.bucket_bytes);
    return out->degrees.has_bucket ? NULL : "a size such as 25MiB, or whole";
}

/* A name without the release after it: "torchtitan-v0.1" is "torchtitan". */
static const char *without_release(struct arena *keep, const char *name)
{
    size_t len = strcspn(name, "0123456789");
    while (len > 0 && (name[len - 1] == '-' || (len > 1 && name[len - 1] == 'v' && name[len])))
        len--;
    return arena_printf(keep, "%.*s", (int)len, name);
}

/* Whose profile stands for it, whatever its own release: "nemo-25.09" runs Megatron-Core. */
static const char *software_called(struct arena *keep, const char *name)
{
    static const char *const ALSO[][2] = {
        {"megatron megatron-lm nemo megatron-bridge primus", "megatron-core"},
        {"pytorch torch", "pytorch-eager"},
    };
    const char *bare = without_release(keep, name);
    for (size_t i = 0; i < COUNT_OF(ALSO); i++)
        if (has_word(ALSO[i][0], bare))
            return ALSO[i][1];
    return name;
}

/* The last profile whose name begins so: "megatron-core". */
static bool software_begins(const char *name, struct software *out)
{
    const struct software_profile *all;
    size_t count = software_profiles(&all);
    for (size_t i = count; i-- > 0 && *name;)
        if (strncmp(all[i].name, name, strlen(name)) == 0) {
            *out = all[i].record;
            return true;
        }
    return false;
}

/* A profile by its name, by the beginning of it, or, of a release that has none of its own, the last of its name. */
static const char *read_software(struct arena *keep, const struct heading_column *column,
                                 const char *text, struct run_fields *out)
{
    char *plain = arena_copy_text(keep, text);
    (void)column;
    for (char *c = plain; *c; c++)
        *c = *c == ' ' || *c == '_' ? '-' : (char)tolower((unsigned char)*c);
    const char *name = software_called(keep, plain);
    if (software_from_text(name, &out->degrees.software) == WEFT_OK)
        return NULL;
    error_clear();
    if (software_begins(name, &out->degrees.software) ||
        software_begins(without_release(keep, name), &out->degrees.software))
        return NULL;
    return "a profile, such as megatron-core-0.16";
}

static field_reader *const READERS[] = {
    [RUN_TEXT] = read_text,         [RUN_COUNT] = read_count,     [RUN_REAL] = read_real,
    [RUN_SWITCH] = read_switch,     [RUN_ZERO] = read_zero,       [RUN_RECOMPUTE] = read_recompute,
    [RUN_DTYPE] = read_dtype,       [RUN_POLICY] = read_policy,   [RUN_OPTIMIZER] = read_optimizer,
    [RUN_SCHEDULE] = read_schedule, [RUN_OVERLAP] = read_overlap, [RUN_BUCKET] = read_bucket,
    [RUN_SOFTWARE] = read_software,
};
_Static_assert(COUNT_OF(READERS) == RUN_FIELD_KINDS, "a kind of field that nobody reads");

const char *run_field_read(struct arena *keep, const struct heading_column *column,
                           const char *heading, const char *text, struct run_fields *out)
{
    const char *bare = bare_text(keep, text);
    if (says_nothing(bare))
        return NULL;
    const char *expected = READERS[column->kind](keep, column, bare, out);
    return expected ? arena_printf(keep, "%s is '%.40s', expected %s", bare_text(keep, heading),
                                   bare, expected)
                    : NULL;
}

/* ---- the row as a run -------------------------------------------------------------------------- */

static const char *options_of(struct arena *keep, const struct run_fields *fields)
{
    static const char *const NAMES[] = {"layers", "hidden", "heads", "ffn", "vocab", "seq", "lora"};
    _Static_assert(COUNT_OF(NAMES) == RUN_SIZES, "a size without a name");
    const char *options = fields->options;
    for (int i = 0; i < RUN_SIZES; i++)
        if (fields->size[i])
            options = arena_printf(keep, "%s%s%s: %lld", options ? options : "",
                                   options ? ", " : "", NAMES[i], (long long)fields->size[i]);
    return options;
}

/* A device or a machine as the table of names has it: small letters, without its vendor, dashes for blanks. */
static const char *plain_name(struct arena *keep, const char *text)
{
    static const char *const VENDORS[] = {"nvidia ", "amd ", "instinct ", "tesla ", "geforce "};
    for (size_t i = 0; i < COUNT_OF(VENDORS); i++)
        if (strncasecmp(text, VENDORS[i], strlen(VENDORS[i])) == 0)
            text += strlen(VENDORS[i]);
    char *name = arena_copy_text(keep, text);
    for (char *c = name; *c; c++)
        *c = *c == ' ' ? '-' : (char)tolower((unsigned char)*c);
    return name;
}

/* All devices of this cluster and those of a node, 0: there is none of this name. */
struct counted_devices {
    int64_t all, of_node;
};

static struct counted_devices devices_of(struct arena *keep, const char *name)
{
    struct cluster *machine;
    if (cluster_open(cluster_meant(keep, name), &machine)) {
        error_clear();
        return (struct counted_devices){0};
    }
    struct counted_devices devices = {cluster_devices(machine), machine->node.devices};
    cluster_free(machine);
    return devices;
}

/* A preset with a size in this unit, "gb200-nvl72:128gpus" is gb200-nvl72:2x64; NULL: it is a file. */
static const char *sized(struct arena *keep, const char *name, int64_t count, const char *unit)
{
    const char *said = arena_printf(keep, "%s:%lld%s", name, (long long)count, unit);
    const char *meant = cluster_meant(keep, said);
    return meant == said ? NULL : meant;
}

/* The devices of a cluster that a file describes. */
static const char *sized_file(struct arena *keep, const char *name, int64_t all,
                              const char **reason)
{
    int64_t each = devices_of(keep, name).of_node;
    if (each == 0 || all < each)
        return arena_printf(keep, "%s:1x%lld", name, (long long)all);
    if (all % each == 0)
        return arena_printf(keep, "%s:%lld", name, (long long)(all / each));
    *reason = arena_printf(keep, "%lld devices are no whole nodes of %lld", (long long)all,
                           (long long)each);
    return NULL;
}

/* So many nodes: whole ones, unless it is said how many devices of each took part. */
static const char *with_nodes(struct arena *keep, const char *name, const struct run_fields *fields)
{
    const char *whole = sized(keep, name, fields->nodes, "nodes");
    if (!whole)
        whole = arena_printf(keep, "%s:%lld", name, (long long)fields->nodes);
    if (!fields->per_node || devices_of(keep, whole).all == fields->nodes * fields->per_node)
        return whole;
    return arena_printf(keep, "%s:%lldx%lld", name, (long long)fields->nodes,
                        (long long)fields->per_node);
}

static const char *with_devices(struct arena *keep, const char *name, int64_t devices,
                                const char **reason)
{
    const char *meant = sized(keep, name, devices, "gpus");
    return meant ? meant : sized_file(keep, name, devices, reason);
}

/* "8xMI300X": nodes of that name have eight. NULL: nobody calls devices so. */
static const char *counted_device(struct arena *keep, const struct run_fields *fields)
{
    const char *said =
        arena_printf(keep, "%lldx%s", (long long)fields->devices, plain_name(keep, fields->device));
    return cluster_meant(keep, said) == said ? NULL : said;
}

/* The cluster's name with the number of its devices, if the name alone does not say it. Where only a device is named, it
 * stands for the machine that has such devices, or is itself one: "DGX H100". */
static const char *cluster_of(struct arena *keep, const struct run_fields *fields,
                              const char **reason)
{
    const char *name = fields->cluster ? fields->cluster : fields->device, *meant;
    bool sized_by_row = fields->devices || fields->nodes;
    if (!name || (!fields->cluster && !sized_by_row)) {
        *reason = "says neither its cluster nor its device and their number";
        return NULL;
    }
    if (!fields->cluster && fields->devices && (meant = counted_device(keep, fields)))
        return meant;
    if (!devices_of(keep, name).all && devices_of(keep, plain_name(keep, name)).all)
        name = plain_name(keep, name);
    if (strchr(name, ':') || !sized_by_row)
        return name;
    return fields->devices ? with_devices(keep, name, fields->devices, reason)
                           : with_nodes(keep, name, fields);
}

struct user_run run_from_fields(struct arena *keep, const struct run_fields *fields)
{
    struct user_run run = {.name = fields->name,
                           .model = fields->model,
                           .options = options_of(keep, fields),
                           .degrees = fields->degrees,
                           .measured = {0, fields->memory, fields->reserved}};
    bool known = fields->memory > 0 || fields->reserved > 0;
    run.cluster = cluster_of(keep, fields, &run.reason);
    memcpy(run.speed, fields->speed, sizeof run.speed);
    for (int i = 0; i < RUN_SPEEDS; i++)
        known |= fields->speed[i] > 0;
    if (!run.model)
        run.reason = "names no model";
    else if (!known)
        run.reason = "says neither how fast it was nor what memory it took";
    return run;
}
