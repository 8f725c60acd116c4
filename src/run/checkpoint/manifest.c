/* manifest.c - see manifest.h. Hashes are text, as xxhsum prints them: JSON's numbers are signed. */
#include "run/checkpoint/manifest.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char FORMAT[] = "weft-checkpoint";
enum { VERSION = 1, HASH_DIGITS = 16 };

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *files_json(struct arena *scratch, const struct manifest *manifest)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < manifest->files; i++) {
        const struct manifest_file *file = &manifest->file[i];
        const char *hash = arena_printf(scratch, "%016llx", (unsigned long long)file->written.hash);
        json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "name", file->name, "bytes",
                                              (json_int_t)file->written.bytes, "xxh3", hash));
    }
    return list;
}

const char *manifest_text(struct arena *keep, const struct manifest *manifest)
{
    const struct training_state *state = &manifest->state;
    json_t *root =
        json_pack("{s:s, s:i, s:I, s:I, s:I, s:s, s:s, s:o}", "format", FORMAT, "version", VERSION,
                  "step", (json_int_t)state->step, "seed", (json_int_t)state->seed, "samples",
                  (json_int_t)state->samples, "model", state->model, "plan", state->plan, "files",
                  files_json(keep, manifest));
    char *text = json_dumps(root, JSON_INDENT(1));
    const char *copy = arena_printf(keep, "%s\n", text ? text : "");
    free(text);
    json_decref(root);
    return copy;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct file_fields {
    const char *name, *hash;
    int64_t bytes;
};

static bool parse_hash(const char *text, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 16);
    return strspn(text, "0123456789abcdef") == HASH_DIGITS && *end == '\0';
}

static weft_status read_file(const struct doc *node, struct manifest_file *out)
{
    static const struct field FIELDS[] = {
        {"name", FIELD_TEXT, offsetof(struct file_fields, name), .required = true},
        {"bytes", FIELD_INT, offsetof(struct file_fields, bytes), .required = true},
        {"xxh3", FIELD_TEXT, offsetof(struct file_fields, hash), .required = true},
    };
    struct file_fields fields = {0};
    weft_status status = doc_read(node, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &fields);
    if (status != WEFT_OK)
        return status;
    if (strchr(fields.name, '/') || fields.name[0] == '.' || fields.name[0] == '\0')
        return doc_error(node, NULL, "'%s' is no file of the checkpoint's own folder", fields.name);
    if (!parse_hash(fields.hash, &out->written.hash))
        return doc_error(node, NULL, "'%s' is no checksum, expected %d hexadecimal digits",
                         fields.hash, HASH_DIGITS);
    out->name = fields.name;
    out->written.bytes = fields.bytes;
    return WEFT_OK;
}

struct manifest_fields {
    struct training_state state;
    const char *format;
    int64_t version;
    const struct doc *files;
};

static weft_status read_fields(const struct doc *root, struct manifest_fields *out)
{
    static const struct field FIELDS[] = {
        {"format", FIELD_TEXT, offsetof(struct manifest_fields, format), .required = true},
        {"version", FIELD_COUNT, offsetof(struct manifest_fields, version), .required = true},
        {"step", FIELD_INT, offsetof(struct manifest_fields, state.step), .required = true},
        {"seed", FIELD_INT, offsetof(struct manifest_fields, state.seed), .required = true},
        {"samples", FIELD_INT, offsetof(struct manifest_fields, state.samples), .required = true},
        {"model", FIELD_TEXT, offsetof(struct manifest_fields, state.model), .required = true},
        {"plan", FIELD_TEXT, offsetof(struct manifest_fields, state.plan), .required = true},
        {"files", FIELD_DOC, offsetof(struct manifest_fields, files), .required = true},
    };
    const struct doc *format = doc_get(root, "format"), *version = doc_get(root, "version");
    if (!format || strcmp(format->text, FORMAT) != 0)
        return doc_error(root, NULL, "is no checkpoint of Weft, expected \"format\": \"%s\"",
                         FORMAT);
    if (!version || strcmp(version->text, "1") != 0)
        return doc_error(root, "read it with the Weft that wrote it",
                         "is of version %s, expected version %d", version ? version->text : "none",
                         VERSION);
    return doc_read(root, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, out);
}

weft_status manifest_parse(struct arena *keep, const char *path, const char *text, size_t len,
                           struct manifest *out)
{
    weft_status status;
    struct doc *root;
    struct manifest_fields fields = {0};
    *out = (struct manifest){0};
    TRY(doc_parse(keep, arena_copy_text(keep, path), text, len, DOC_JSON, &root));
    TRY(read_fields(root, &fields));
    if (fields.state.step < 0 || fields.state.samples < 0) {
        status = doc_error(root, NULL, "has a step or a number of samples below 0");
        goto done;
    }
    if (fields.files->kind != DOC_LIST || fields.files->count == 0 ||
        fields.files->count > MAX_CHECKPOINT_FILES) {
        status = doc_error(fields.files, NULL, "expected a list of files");
        goto done;
    }
    out->state = fields.state;
    out->file = ARENA_ARRAY(keep, struct manifest_file, fields.files->count);
    for (const struct doc *node = fields.files->first; node; node = node->next)
        TRY(read_file(node, &out->file[out->files++]));
done:
    return status;
}
