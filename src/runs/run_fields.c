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
    double value, before;
    (void)keep;
    if (!parse_real(text, &value) || !(value > 0) || value > LARGEST)
        return "a number above 0";
    memcpy(&before, (char *)out + column->offset, sizeof before);
    value *= column->unit;
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
        const char *words; /* of Composer, Lightning, torchao and Megatron-Bridge */
        enum dtype dtype;
    } RECIPES[] = {
        {"full", DTYPE_FP32},
        {"amp_fp16 16-mixed", DTYPE_FP16},
        {"amp_bf16 bf16-mixed bf16_mixed", DTYPE_BF16},
        {"mxfp8 amp_fp8 fp8_mx fp8-tensorwise fp8-rowwise fp8_cs", DTYPE_FP8},
    };
    (void)keep, (void)column;
    enum dtype *dtype = &out->degrees.dtype;
    bool known = dtype_from_word(lower_case(text).text, dtype);
    for (size_t i = 0; !known && i < COUNT_OF(RECIPES); i++)
        if ((known = is_one_of(RECIPES[i].words, text)))
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

/* A profile by its name, or the last whose name begins so: "megatron-core", "torchtitan". */
static const char *read_software(struct arena *keep, const struct heading_column *column,
                                 const char *text, struct run_fields *out)
{
    const struct software_profile *all;
    size_t count = software_profiles(&all);
    char *name = arena_copy_text(keep, text);
    (void)column;
    for (char *c = name; *c; c++)
        *c = *c == ' ' || *c == '_' ? '-' : (char)tolower((unsigned char)*c);
    if (is_one_of("megatron megatron-lm nemo megatron-bridge", name))
        name = arena_copy_text(keep, "megatron-core");
    if (is_one_of("pytorch torch", name))
        name = arena_copy_text(keep, "pytorch-eager");
    if (software_from_text(name, &out->degrees.software) == WEFT_OK)
        return NULL;
    error_clear();
    for (size_t i = count; i-- > 0;)
        if (strncmp(all[i].name, name, strlen(name)) == 0) {
            out->degrees.software = all[i].record;
            return NULL;
        }
    return "a profile, such as megatron-core-0.16 (docs/reference/software.md)";
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
    char *bare = arena_copy_text(keep, text + strspn(text, " \t"));
    size_t len = strlen(bare);
    while (len > 0 && (bare[len - 1] == ' ' || bare[len - 1] == '\t'))
        bare[--len] = '\0';
    if (says_nothing(bare))
        return NULL;
    const char *expected = READERS[column->kind](keep, column, bare, out);
    return expected ? arena_printf(keep, "%s is '%.40s', expected %s", heading, bare, expected)
                    : NULL;
}

/* ---- the row as a run -------------------------------------------------------------------------- */

static const char *options_of(struct arena *keep, const struct run_fields *fields)
{
    static const char *const NAMES[] = {"layers", "hidden", "heads", "ffn", "vocab", "seq"};
    _Static_assert(COUNT_OF(NAMES) == RUN_SIZES, "a size without a name");
    const char *options = fields->options;
    for (int i = 0; i < RUN_SIZES; i++)
        if (fields->size[i])
            options = arena_printf(keep, "%s%s%s: %lld", options ? options : "",
                                   options ? ", " : "", NAMES[i], (long long)fields->size[i]);
    return options;
}

/* The cluster's name with the number of its devices, if the name alone does not say it. */
static const char *cluster_of(struct arena *keep, const struct run_fields *fields,
                              const char **reason)
{
    struct cluster *machine;
    const char *name = fields->cluster;
    if (!name && fields->device && fields->devices)
        return arena_printf(keep, "%s:%lld", fields->device, (long long)fields->devices);
    if (!name) {
        *reason = "says neither its cluster nor its device and their number";
        return NULL;
    }
    if (fields->nodes && !strchr(name, ':') && !fields->devices)
        return arena_printf(keep, "%s:%lld", name, (long long)fields->nodes);
    if (!fields->devices || strchr(name, ':'))
        return name;
    if (cluster_open(name, &machine)) {
        *reason = arena_copy_text(keep, weft_last_error()->message);
        error_clear();
        return NULL;
    }
    int64_t each = machine->node.devices, all = fields->devices;
    cluster_free(machine);
    if (all < each)
        return arena_printf(keep, "%s:1x%lld", name, (long long)all);
    if (all % each == 0)
        return arena_printf(keep, "%s:%lld", name, (long long)(all / each));
    *reason = arena_printf(keep, "%lld devices are no whole nodes of %lld", (long long)all,
                           (long long)each);
    return NULL;
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
