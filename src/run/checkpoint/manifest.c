/* manifest.c - writing and reading checkpoint.json (manifest.h). Hashes are text, as xxhsum prints them: JSON's numbers are signed. */
#include "run/checkpoint/manifest.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char FORMAT[] = "weft-checkpoint";
enum { VERSION = 2, HASH_DIGITS = 16 };

/* ---- writing --------------------------------------------------------------------------------- */

static const char *hash_text(struct arena *keep, uint64_t hash)
{
    return arena_printf(keep, "%0*llx", HASH_DIGITS, (unsigned long long)hash);
}

static json_t *files_json(struct arena *scratch, const struct manifest *manifest)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < manifest->files; i++) {
        const struct manifest_file *file = &manifest->file[i];
        const char *hash = hash_text(scratch, file->written.hash);
        json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "name", file->name, "bytes",
                                              (json_int_t)file->written.bytes, "xxh3", hash));
    }
    return list;
}

static json_t *settings_json(const struct training_state *state)
{
    json_t *settings = json_object();
    for (int64_t i = 0; i < state->settings; i++)
        json_object_set_new(settings, state->setting[i].name, json_string(state->setting[i].value));
    return settings;
}

static json_t *body_json(struct arena *scratch, const struct manifest *manifest)
{
    const struct training_state *state = &manifest->state;
    json_t *body =
        json_pack("{s:s, s:i, s:s, s:I, s:I, s:I, s:s, s:s, s:o, s:o}", "format", FORMAT, "version",
                  VERSION, "run", hash_text(scratch, state->run), "step", (json_int_t)state->step,
                  "seed", (json_int_t)state->seed, "samples", (json_int_t)state->samples, "model",
                  state->model, "plan", state->plan, "settings", settings_json(state), "files",
                  files_json(scratch, manifest));
    if (state->loss_scale > 0)
        json_object_update_new(body, json_pack("{s:I, s:I, s:I}", "loss_scale",
                                               (json_int_t)state->loss_scale, "good_steps",
                                               (json_int_t)state->good_steps, "skipped_steps",
                                               (json_int_t)state->skipped_steps));
    return body;
}

/* (1) */
static uint64_t body_hash(const json_t *body)
{
    char *text = json_dumps(body, JSON_COMPACT);
    uint64_t hash = text ? hash_bytes(text, strlen(text), 0) : 0;
    free(text);
    return hash;
}

const char *manifest_text(struct arena *keep, const struct manifest *manifest)
{
    json_t *root = body_json(keep, manifest);
    json_object_set_new(root, "xxh3", json_string(hash_text(keep, body_hash(root))));
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

static weft_status parse_hash(const struct doc *node, const char *text, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 16);
    if (strspn(text, "0123456789abcdef") == HASH_DIGITS && *end == '\0')
        return WEFT_OK;
    return doc_error(node, NULL, "'%s' is no checksum, expected %d hexadecimal digits", text,
                     HASH_DIGITS);
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
    out->name = fields.name;
    out->written.bytes = fields.bytes;
    return parse_hash(node, fields.hash, &out->written.hash);
}

struct manifest_fields {
    struct training_state state;
    const char *format, *run, *hash;
    int64_t version;
    const struct doc *settings, *files;
};

static weft_status read_fields(const struct doc *root, struct manifest_fields *out)
{
    static const struct field FIELDS[] = {
        {"format", FIELD_TEXT, offsetof(struct manifest_fields, format), .required = true},
        {"version", FIELD_COUNT, offsetof(struct manifest_fields, version), .required = true},
        {"run", FIELD_TEXT, offsetof(struct manifest_fields, run), .required = true},
        {"step", FIELD_INT, offsetof(struct manifest_fields, state.step), .required = true},
        {"seed", FIELD_INT, offsetof(struct manifest_fields, state.seed), .required = true},
        {"samples", FIELD_INT, offsetof(struct manifest_fields, state.samples), .required = true},
        {"model", FIELD_TEXT, offsetof(struct manifest_fields, state.model), .required = true},
        {"plan", FIELD_LINES, offsetof(struct manifest_fields, state.plan), .required = true},
        {"settings", FIELD_DOC, offsetof(struct manifest_fields, settings), .required = true},
        {"loss_scale", FIELD_COUNT, offsetof(struct manifest_fields, state.loss_scale)},
        {"good_steps", FIELD_INT, offsetof(struct manifest_fields, state.good_steps)},
        {"skipped_steps", FIELD_INT, offsetof(struct manifest_fields, state.skipped_steps)},
        {"files", FIELD_DOC, offsetof(struct manifest_fields, files), .required = true},
        {"xxh3", FIELD_TEXT, offsetof(struct manifest_fields, hash), .required = true},
    };
    const struct doc *format = doc_get(root, "format"), *version = doc_get(root, "version");
    if (!format || strcmp(format->text, FORMAT) != 0)
        return doc_error(root, NULL, "is no checkpoint of Weft, expected \"format\": \"%s\"",
                         FORMAT);
    int64_t number;
    if (!version || !parse_int(version->text, &number) || number != VERSION)
        return doc_error(root, "read it with the Weft that wrote it",
                         "is of version %s, expected version %d", version ? version->text : "none",
                         VERSION);
    return doc_read(root, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, out);
}

static weft_status read_settings(struct arena *keep, const struct doc *node,
                                 struct training_state *out)
{
    if (node->kind != DOC_MAP || node->count > MAX_SETTINGS)
        return doc_error(node, NULL, "expected settings by name");
    struct setting *setting = ARENA_ARRAY(keep, struct setting, (size_t)node->count + 1);
    for (const struct doc *child = node->first; child; child = child->next) {
        if (child->kind != DOC_TEXT)
            return doc_error(child, NULL, "expected the value of a setting");
        setting[out->settings++] = (struct setting){child->key, child->text};
    }
    out->setting = setting;
    return WEFT_OK;
}

static weft_status read_files(struct arena *keep, const struct doc *files, struct manifest *out)
{
    weft_status status = WEFT_OK;
    if (files->kind != DOC_LIST || files->count == 0 || files->count > MAX_CHECKPOINT_FILES)
        return doc_error(files, NULL, "expected a list of files");
    out->file = ARENA_ARRAY(keep, struct manifest_file, files->count);
    for (const struct doc *node = files->first; node; node = node->next)
        TRY(read_file(node, &out->file[out->files++]));
done:
    return status;
}

/* I1 */
static weft_status check_hash(struct arena *scratch, const struct doc *root, uint64_t stated,
                              const struct manifest *manifest)
{
    json_t *body = body_json(scratch, manifest);
    uint64_t found = body_hash(body);
    json_decref(body);
    return found == stated
               ? WEFT_OK
               : doc_error(root, NULL, "has the checksum %s, expected its checksum to be %s",
                           hash_text(scratch, found), hash_text(scratch, stated));
}

weft_status manifest_parse(struct arena *keep, const char *path, const char *text, size_t len,
                           struct manifest *out)
{
    weft_status status;
    struct doc *root;
    struct manifest_fields fields = {0};
    uint64_t hash;
    *out = (struct manifest){0};
    TRY(doc_parse(keep, arena_copy_text(keep, path), text, len, DOC_JSON, &root));
    TRY(read_fields(root, &fields));
    out->state = fields.state;
    if (out->state.step < 0 || out->state.samples < 0)
        TRY(doc_error(root, NULL, "has a step or a number of samples below 0"));
    TRY(parse_hash(root, fields.run, &out->state.run));
    TRY(read_settings(keep, fields.settings, &out->state));
    TRY(read_files(keep, fields.files, out));
    TRY(parse_hash(root, fields.hash, &hash));
    TRY(check_hash(keep, root, hash, out));
done:
    return status;
}
