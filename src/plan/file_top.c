/* file_top.c - the top of a plan file: its model and cluster, and the settings of the whole
 * plan. */
#include "plan/file.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "plan/room.h"

enum { MOST_PIECES = 1 << 16 };
static const char FORMAT[] = "docs/reference/plan-file.md describes the format";

/* ---- the top of the file --------------------------------------------------------------------- */

/* The names of a FIELD_CHOICE, from the functions that define them. */
static const char *const *dtype_names(void)
{
    static const char *names[DTYPE_COUNT + 1];
    for (int i = 0; i < DTYPE_COUNT; i++)
        names[i] = dtype_name((enum dtype)i);
    return names;
}

static const char *const *policy_names(void)
{
    static const char *names[POLICY_COUNT + 1];
    for (int i = 0; i < POLICY_COUNT; i++)
        names[i] = policy_name((enum policy)i);
    return names;
}

static const char *const *optimizer_names(void)
{
    static const char *names[UPDATE_COUNT + 1];
    for (int i = 0; i < UPDATE_COUNT; i++)
        names[i] = optimizer_name((enum update_rule)i);
    return names;
}

weft_status file_read_root(struct plan_file *file)
{
    const struct field fields[] = {
        {"model", FIELD_TEXT, offsetof(struct file_root, model), true,
         .expected = "a model such as gpt3-13b"},
        {"options", FIELD_DOC, offsetof(struct file_root, options)},
        {"cluster", FIELD_TEXT, offsetof(struct file_root, cluster), true,
         .expected = "a cluster such as dgx-v100:4"},
        {"batch", FIELD_DOC, offsetof(struct file_root, batch)},
        {"dtype", FIELD_CHOICE, offsetof(struct file_root, dtype), false, dtype_names()},
        {"policy", FIELD_CHOICE, offsetof(struct file_root, policy), false, policy_names()},
        {"memory", FIELD_BYTES, offsetof(struct file_root, memory_bytes), .min = 1, .max = 0x1p50},
        {"margin", FIELD_REAL, offsetof(struct file_root, margin_percent), .min = 0,
         .max = MOST_MARGIN_PERCENT},
        {"overlap", FIELD_DOC, offsetof(struct file_root, overlap)},
        {"bucket", FIELD_DOC, offsetof(struct file_root, bucket)},
        {"software", FIELD_DOC, offsetof(struct file_root, software)},
        {"replicate", FIELD_COUNT, offsetof(struct file_root, replicate)},
        {"optimizer_offload", FIELD_REAL, offsetof(struct file_root, optimizer_offload), .min = 0,
         .max = 1},
        {"stage_run", FIELD_COUNT, offsetof(struct file_root, stage_run)},
        {"optimizer", FIELD_CHOICE, offsetof(struct file_root, optimizer), false,
         optimizer_names()},
        {"whole_sends", FIELD_BOOL, offsetof(struct file_root, whole_sends)},
        {"defer_head", FIELD_DOC, offsetof(struct file_root, defer_head)},
        {"propagate", FIELD_BOOL, offsetof(struct file_root, propagate)},
        {"degrees", FIELD_DOC, offsetof(struct file_root, degrees)},
        {"schedule", FIELD_TEXT, offsetof(struct file_root, schedule)},
        {"order", FIELD_DOC, offsetof(struct file_root, order)},
        {"placement", FIELD_DOC, offsetof(struct file_root, placement)},
        {"joins", FIELD_DOC, offsetof(struct file_root, joins)},
        {"pieces", FIELD_COUNT, offsetof(struct file_root, pieces), .min = 1, .max = MOST_PIECES},
        {"segments", FIELD_COUNT, offsetof(struct file_root, segments), .min = 1,
         .max = MOST_PIECES},
        {"group", FIELD_COUNT, offsetof(struct file_root, group), .min = 1, .max = MOST_SAMPLES},
        {"stages", FIELD_DOC, offsetof(struct file_root, stages)},
        {"tree", FIELD_DOC, offsetof(struct file_root, tree)},
        {"choices", FIELD_DOC, offsetof(struct file_root, choices)},
    };
    if (file->doc->kind != DOC_MAP)
        return doc_error(file->doc, FORMAT,
                         "the file holds %s, expected a mapping such as 'model: gpt3-13b'",
                         doc_kind_name(file->doc->kind));
    file->root = (struct file_root){.dtype = -1, .policy = -1, .margin_percent = -1};
    return doc_read(file->doc, fields, COUNT_OF(fields), DOC_REFUSE_UNKNOWN, &file->root);
}

weft_status file_read_batch(struct plan_file *file)
{
    static const struct field FIELDS[] = {
        {"global", FIELD_COUNT, offsetof(struct file_batch, global), .min = 1, .max = MOST_SAMPLES},
        {"micro", FIELD_COUNT, offsetof(struct file_batch, micro), .min = 1, .max = MOST_SAMPLES},
        {"step", FIELD_COUNT, offsetof(struct file_batch, step), .min = 1, .max = MOST_SAMPLES},
    };
    weft_status status = WEFT_OK;
    if (!file->root.batch)
        return WEFT_OK;
    TRY(doc_read(file->root.batch, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &file->batch));
    if (file->batch.micro && file->batch.step)
        return doc_error(file->root.batch, "'step' is 'micro' times the data-parallel degree",
                         "'batch' has a 'micro' and a 'step', expected one of them");
    if (file->batch.micro && !file->root.degrees)
        return doc_error(doc_get(file->root.batch, "micro"),
                         "write 'step': the samples that pass a stage together",
                         "'micro' is per replica, and without 'degrees' there are no replicas");
done:
    return status;
}

struct degree_fields {
    struct degrees degrees;
    int64_t zero;
    const char *recompute, *offload_modules;
};

weft_status file_read_degrees(struct plan_file *file)
{
    const struct field fields[] = {
        {"dp", FIELD_COUNT, offsetof(struct degree_fields, degrees.dp)},
        {"tp", FIELD_COUNT, offsetof(struct degree_fields, degrees.tp)},
        {"pp", FIELD_COUNT, offsetof(struct degree_fields, degrees.pp)},
        {"cp", FIELD_COUNT, offsetof(struct degree_fields, degrees.cp)},
        {"ep", FIELD_COUNT, offsetof(struct degree_fields, degrees.ep)},
        {"etp", FIELD_COUNT, offsetof(struct degree_fields, degrees.etp)},
        {"encoder_tp", FIELD_COUNT, offsetof(struct degree_fields, degrees.encoder_tp)},
        {"encoder_dp", FIELD_COUNT, offsetof(struct degree_fields, degrees.encoder_dp)},
        {"encoder_pp", FIELD_COUNT, offsetof(struct degree_fields, degrees.encoder_pp)},
        {"cp_heads", FIELD_COUNT, offsetof(struct degree_fields, degrees.cp_heads)},
        {"sp", FIELD_BOOL, offsetof(struct degree_fields, degrees.sequence)},
        {"pieces", FIELD_COUNT, offsetof(struct degree_fields, degrees.pieces), .min = 1,
         .max = MOST_PIECES},
        {"segments", FIELD_COUNT, offsetof(struct degree_fields, degrees.segments), .min = 1,
         .max = MOST_PIECES},
        {"group", FIELD_COUNT, offsetof(struct degree_fields, degrees.group), .min = 1,
         .max = MOST_SAMPLES},
        {"zero", FIELD_INT, offsetof(struct degree_fields, zero), .min = 0, .max = 3},
        {"recompute", FIELD_TEXT, offsetof(struct degree_fields, recompute)},
        {"recompute_layers", FIELD_COUNT, offsetof(struct degree_fields, degrees.recompute_layers)},
        {"schedule", FIELD_TEXT, offsetof(struct degree_fields, degrees.schedule)},
        {"layout", FIELD_TEXT, offsetof(struct degree_fields, degrees.layout)},
        {"offload", FIELD_BOOL, offsetof(struct degree_fields, degrees.offload)},
        {"offload_modules", FIELD_TEXT, offsetof(struct degree_fields, offload_modules)},
        {"replicate", FIELD_COUNT, offsetof(struct degree_fields, degrees.replicate)},
        {"optimizer_offload", FIELD_REAL, offsetof(struct degree_fields, degrees.optimizer_offload),
         .min = 0, .max = 1},
        {"order", FIELD_TEXT, offsetof(struct degree_fields, degrees.order)},
    };
    struct degree_fields read = {0};
    weft_status status = WEFT_OK;
    if (file->root.degrees)
        TRY(doc_read(file->root.degrees, fields, COUNT_OF(fields), DOC_REFUSE_UNKNOWN, &read));
    file->degrees = read.degrees;
    file->degrees.shard = (int)read.zero;
    if (read.recompute && !recompute_parse(file->scratch, read.recompute, &file->degrees))
        return doc_error(doc_get(file->root.degrees, "recompute"), NULL,
                         "'recompute' is '%.60s', expected %s", read.recompute, RECOMPUTE_WORDS);
    if (read.offload_modules &&
        !offload_parse(file->scratch, read.offload_modules, &file->degrees.offload_modules))
        return doc_error(doc_get(file->root.degrees, "offload_modules"), NULL,
                         "'offload_modules' is '%.60s', expected %s", read.offload_modules,
                         OFFLOAD_WORDS);
done:
    return status;
}

static weft_status read_overlap_word(const struct doc *word, unsigned *bits)
{
    if (word->kind != DOC_TEXT)
        return doc_error(word, "such as [tensor, gradients]", "'overlap' has %s, expected %s",
                         doc_kind_name(word->kind), OVERLAP_WORDS);
    if (overlap_from_name(word->text, bits))
        return WEFT_OK;
    const char *near = overlap_near(word->text);
    weft_status status = doc_error(word, "such as [tensor, gradients]",
                                   "'overlap' has '%s', expected %s", word->text, OVERLAP_WORDS);
    if (near)
        error_hint("did you mean '%s'?", near);
    return status;
}

static weft_status read_deferral(const struct doc *given, int64_t *count)
{
    if (!given || ((given->kind == DOC_TEXT || given->kind == DOC_NUMBER) &&
                   deferral_from_text(given->text, count)))
        return WEFT_OK;
    return doc_error(given, NULL, "'defer_head' is a number of micro-batches, or all");
}

/* `overlap`, a word or a list of words, and `bucket`. */
weft_status file_read_exchanges(struct plan_file *file)
{
    const struct doc *overlap = file->root.overlap, *bucket = file->root.bucket;
    struct degrees *d = &file->degrees;
    weft_status status = WEFT_OK;
    d->whole_sends = file->root.whole_sends;
    TRY(read_deferral(file->root.defer_head, &file->defer_head));
    d->has_overlap = overlap != NULL;
    d->has_bucket = bucket != NULL;
    if (overlap && overlap->kind != DOC_LIST)
        TRY(read_overlap_word(overlap, &d->overlap));
    for (const struct doc *word = overlap ? overlap->first : NULL; word; word = word->next)
        TRY(read_overlap_word(word, &d->overlap));
    bool scalar = bucket && (bucket->kind == DOC_TEXT || bucket->kind == DOC_NUMBER);
    if (bucket && !(scalar && bucket_from_text(bucket->text, &d->bucket_bytes)))
        return doc_error(bucket, "0 is the same as whole: all gradients of a part at once",
                         "'bucket' is %s%s%s, expected a size such as 25MiB, or whole",
                         scalar ? "'" : "", scalar ? bucket->text : doc_kind_name(bucket->kind),
                         scalar ? "'" : "");
done:
    return status;
}

/* One fact of a mapping; its `base` has been read. */
static weft_status read_fact(const struct doc *fact, struct software *software)
{
    if (strcmp(fact->key, "base") == 0)
        return WEFT_OK;
    if (fact->kind != DOC_TEXT)
        return doc_error(fact, "such as host: graphs", "'%s' is %s, expected a word", fact->key,
                         doc_kind_name(fact->kind));
    return file_error_at(fact, software_set(software, fact->key, fact->text));
}

/* `software`: the name of a profile, or a mapping of facts with the name as its `base`. */
weft_status file_read_software(struct plan_file *file)
{
    const struct doc *software = file->root.software;
    const struct doc *base =
        software && software->kind == DOC_MAP ? doc_get(software, "base") : software;
    weft_status status = WEFT_OK;
    if (software && software->kind != DOC_MAP && software->kind != DOC_TEXT)
        return doc_error(software, "docs/reference/software.md lists the profiles",
                         "'software' is %s, expected a name such as megatron-core-0.16",
                         doc_kind_name(software->kind));
    if (base)
        TRY(file_error_at(
            base, software_from_text(base->text ? base->text : "", &file->degrees.software)));
    for (const struct doc *d = software && software->kind == DOC_MAP ? software->first : NULL; d;
         d = d->next)
        TRY(read_fact(d, &file->degrees.software));
done:
    return status;
}

/* ---- the model and the cluster --------------------------------------------------------------- */

static bool is_word(const char *text)
{
    for (const char *at = text; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '_')
            return false;
    return *text != '\0';
}

static const char *quoted(struct arena *scratch, const char *text)
{
    size_t len = strlen(text), used = 0;
    char *out = ARENA_ARRAY(scratch, char, 2 * len + 3);
    out[used++] = '"';
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"' || text[i] == '\\')
            out[used++] = '\\';
        out[used++] = text[i];
    }
    out[used] = '"';
    return out;
}

/* A document as YAML flow text, as model_open takes it; a collection without its brackets. */
static const char *flow_text(struct arena *scratch, const struct doc *doc)
{
    const char *text = "";
    if (doc->kind != DOC_MAP && doc->kind != DOC_LIST)
        return doc->kind == DOC_TEXT && !is_word(doc->text) ? quoted(scratch, doc->text)
               : doc->kind == DOC_NULL                      ? "null"
                                                            : doc->text;
    for (const struct doc *d = doc->first; d; d = d->next) {
        const char *inner = flow_text(scratch, d);
        const char *open = d->kind == DOC_MAP ? "{" : d->kind == DOC_LIST ? "[" : "";
        const char *close = d->kind == DOC_MAP ? "}" : d->kind == DOC_LIST ? "]" : "";
        const char *key = !d->key ? "" : is_word(d->key) ? d->key : quoted(scratch, d->key);
        text = arena_printf(scratch, "%s%s%s%s%s%s%s", text, d == doc->first ? "" : ", ", key,
                            d->key ? ": " : "", open, inner, close);
    }
    return text;
}

weft_status file_options_text(struct plan_file *file, const char **out)
{
    const struct doc *options = file->root.options;
    *out = NULL;
    if (!options)
        return WEFT_OK;
    if (options->kind != DOC_MAP && options->kind != DOC_TEXT)
        return doc_error(options, "such as {layers: 80, seq: 4096}",
                         "'options' is %s, expected a mapping", doc_kind_name(options->kind));
    *out = options->kind == DOC_TEXT ? options->text : flow_text(file->scratch, options);
    return WEFT_OK;
}

/* A file that a plan file names is looked for next to the plan file first. */
const char *file_beside(const struct plan_file *file, const char *name)
{
    static const char *const ENDINGS[] = {".yaml", ".yml", ".json", ".onnx", ".xml", ".csv"};
    const char *slash = strrchr(file->name, '/');
    char *bare = arena_copy_text(file->scratch, name);
    char *colon = strrchr(bare, ':');
    if (colon)
        *colon = '\0';
    size_t len = strlen(bare);
    for (size_t i = 0; slash && name[0] != '/' && i < COUNT_OF(ENDINGS); i++) {
        size_t end = strlen(ENDINGS[i]);
        int folder = (int)(slash - file->name);
        if (len > end && strcmp(bare + len - end, ENDINGS[i]) == 0 &&
            access(arena_printf(file->scratch, "%.*s/%s", folder, file->name, bare), R_OK) == 0)
            return arena_printf(file->scratch, "%.*s/%s", folder, file->name, name);
    }
    return name;
}

weft_status file_open_both(struct plan_file *file, struct opened_plan *out)
{
    weft_status status;
    struct file_root *root = &file->root;
    const char *options;
    TRY(file_options_text(file, &options));
    root->model = file_beside(file, root->model);
    root->cluster = file_beside(file, root->cluster);
    TRY(file_error_at(root->options ? root->options : doc_get(file->doc, "model"),
                      model_open(root->model, options, &out->model)));
    TRY(file_error_at(doc_get(file->doc, "cluster"), cluster_open(root->cluster, &out->cluster)));
done:
    return status;
}
