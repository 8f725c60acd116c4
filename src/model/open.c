/* open.c - what a model's name means: a preset, a file by its extension, or a folder with a
 * config. */
#include "model/import.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/onnx.h"

/* ---- options --------------------------------------------------------------------------------- */

weft_status options_parse(struct arena *scratch, const char *text, struct doc **out)
{
    *out = NULL;
    if (!text || text[strspn(text, " \t\r\n")] == '\0')
        return WEFT_OK;
    const char *flow = arena_printf(scratch, "{%s}", text);
    return doc_parse(scratch, "given options", flow, strlen(flow), DOC_YAML, out);
}

static void append_copy(struct arena *scratch, struct doc *map, struct doc **last,
                        const struct doc *child)
{
    struct doc *copy = ARENA_NEW(scratch, struct doc);
    *copy = *child;
    copy->next = NULL;
    if (*last)
        (*last)->next = copy;
    else
        map->first = copy;
    *last = copy;
    map->count++;
}

struct doc *options_merge(struct arena *scratch, const struct doc *under, const struct doc *over)
{
    const struct doc *place = under ? under : over;
    struct doc *map = ARENA_NEW(scratch, struct doc), *last = NULL;
    *map = (struct doc){.kind = DOC_MAP, .text = ""};
    if (place)
        map->file = place->file, map->line = place->line, map->key = place->key;
    for (const struct doc *d = under ? under->first : NULL; d; d = d->next)
        append_copy(scratch, map, &last, doc_get(over, d->key) ? doc_get(over, d->key) : d);
    for (const struct doc *d = over ? over->first : NULL; d; d = d->next)
        if (!doc_get(under, d->key))
            append_copy(scratch, map, &last, d);
    return map;
}

/* ---- presets and families -------------------------------------------------------------------- */

const struct preset *preset_find(const char *name)
{
    const struct preset *presets;
    size_t count = model_presets(&presets);
    int at = name_index(name, presets, sizeof *presets, count);
    return at < 0 ? NULL : &presets[at];
}

/* Letters and digits of a name in lower case, with points, which tell llama3.1 from llama31; without the owner that it
 * has at Hugging Face (Meta's names repeat it), and without a first release and the word for a model that was trained
 * further. */
static const char *bare_name(struct arena *scratch, const char *name)
{
    static const char *const ENDS[] = {"-v0.1", "-instruct", "-base", "-it", "-chat", "-hf"};
    static const char OWNER[] = "meta-";
    const char *slash = strrchr(name, '/');
    name = slash ? slash + 1 : name;
    if (strncasecmp(name, OWNER, strlen(OWNER)) == 0)
        name += strlen(OWNER);
    char *bare = arena_copy_text(scratch, name);
    size_t len = strlen(bare), kept = 0;
    for (size_t i = 0; i < COUNT_OF(ENDS); i++) {
        size_t end = strlen(ENDS[i]);
        if (len > end && strcasecmp(bare + len - end, ENDS[i]) == 0)
            bare[len -= end] = '\0';
    }
    for (size_t i = 0; i < len; i++)
        if (isalnum((unsigned char)bare[i]) || bare[i] == '.')
            bare[kept++] = (char)tolower((unsigned char)bare[i]);
    bare[kept] = '\0';
    return bare;
}

/* The only preset of which a name is another spelling, such as meta-llama/Llama-3.1-8B; NULL: none. */
static const struct preset *preset_meant(struct arena *scratch, const char *name)
{
    const struct preset *presets, *meant = NULL;
    size_t count = model_presets(&presets);
    const char *bare = bare_name(scratch, name);
    for (size_t i = 0; i < count; i++)
        if (strcmp(bare_name(scratch, presets[i].name), bare) == 0) {
            if (meant)
                return NULL;
            meant = &presets[i];
        }
    return meant;
}

const struct preset *preset_of(struct arena *scratch, const char *name)
{
    const struct preset *preset = preset_find(name);
    return preset || file_exists(name) ? preset : preset_meant(scratch, name);
}

const char *preset_nearest(const char *name)
{
    const struct preset *presets;
    size_t count = model_presets(&presets);
    return nearest_name(name, presets, sizeof *presets, count);
}

weft_status family_find(const char *name, const struct doc *where, const struct family **out)
{
    enum { MOST = 64 };
    const struct family *const *families;
    const char *names[MOST];
    char all[256] = "";
    size_t count = model_families(&families), used = 0;
    for (size_t i = 0; i < count && i < MOST; i++) {
        names[i] = families[i]->name;
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names[i]);
        if (strcmp(name, names[i]) == 0) {
            *out = families[i];
            return WEFT_OK;
        }
    }
    weft_status status =
        doc_error(where, NULL, "'%.60s' is not a family, expected one of %s", name, all);
    hint_near(nearest_word(name, names, count));
    return status;
}

weft_status preset_build(struct arena *scratch, const struct preset *preset, const char *name,
                         const char *source, const struct doc *options, struct model **out)
{
    weft_status status = WEFT_OK;
    struct doc *own = NULL;
    const struct family *family = NULL;
    const char *flow = arena_printf(scratch, "{%s}", preset->options);
    const char *file = arena_printf(scratch, "preset %s", preset->name);
    TRY(doc_parse(scratch, file, flow, strlen(flow), DOC_YAML, &own));
    TRY(family_find(preset->family, own, &family));
    TRY(family_build(family, name, source, options_merge(scratch, own, options), out));
done:
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef weft_status open_rule(struct arena *scratch, const char *path, const struct doc *overrides,
                              struct model **out);

static bool has_ending(const char *path, const char *ending)
{
    size_t len = strlen(path), end = strlen(ending);
    return len > end && strcmp(path + len - end, ending) == 0;
}

static weft_status open_document(struct arena *scratch, const char *path,
                                 const struct doc *overrides, struct model **out)
{
    struct doc *root;
    weft_status status = doc_load(scratch, path, &root);
    if (status)
        return status;
    bool hugging_face = doc_get(root, "model_type") != NULL;
    bool own = doc_get(root, "family") || doc_get(root, "base") || doc_get(root, "operators");
    if (!hugging_face && !own && root->kind == DOC_MAP && has_ending(path, ".json"))
        return doc_error(root, NULL, "has no 'model_type', expected a Hugging Face config");
    return hugging_face ? import_hf(scratch, path, root, overrides, out)
                        : import_yaml(scratch, path, root, overrides, out);
}

/* The file is mapped, not read, because its weights are never looked at. */
static weft_status open_onnx(struct arena *scratch, const char *path, const struct doc *overrides,
                             struct model **out)
{
    (void)scratch;
    weft_status status;
    struct stat info;
    void *bytes = NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &info) != 0) {
        status = bad_input(path, 0, NULL, "cannot be opened: %s", strerror(errno));
        goto done;
    }
    if (info.st_size > ONNX_MAX_BYTES) {
        status =
            bad_input(path, 0, "export the weights as external data", "is %s, expected at most %s",
                      show_bytes((double)info.st_size).s, show_bytes((double)ONNX_MAX_BYTES).s);
        goto done;
    }
    size_t len = (size_t)info.st_size;
    if (len)
        bytes = mmap(NULL, len, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED) {
        bytes = NULL;
        status = failure("%s: cannot be mapped: %s", path, strerror(errno));
        goto done;
    }
    status = import_onnx(path, bytes, len, overrides, out);
done:
    if (bytes)
        munmap(bytes, (size_t)info.st_size);
    if (file >= 0)
        close(file);
    return status;
}

static const struct {
    const char *ending;
    open_rule *open;
} ENDINGS[] = {
    {".yaml", open_document},
    {".yml", open_document},
    {".json", open_document},
    {".onnx", open_onnx},
};

static open_rule *rule_of(const char *path)
{
    for (size_t i = 0; i < COUNT_OF(ENDINGS); i++)
        if (has_ending(path, ENDINGS[i].ending))
            return ENDINGS[i].open;
    return NULL;
}

static weft_status unknown_model(const char *name)
{
    weft_status status =
        bad_argument("'weft models' lists the presets",
                     "'%.100s' is neither a preset nor a file, expected a model", name);
    hint_near(preset_nearest(name));
    return status;
}

static weft_status open_folder(struct arena *scratch, const char *path, const struct doc *overrides,
                               struct model **out)
{
    struct stat info;
    const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
    const char *config = arena_printf(scratch, "%s%sconfig.json", path, slash);
    if (stat(config, &info) != 0)
        return bad_input(path, 0, NULL, "is a folder without config.json, expected a model");
    return open_document(scratch, config, overrides, out);
}

/* A file that came with the question is a document. */
static weft_status open_given(struct arena *scratch, const char *path, const struct doc *overrides,
                              struct model **out)
{
    if (!file_exists(path))
        return unknown_model(path);
    return open_document(scratch, path, overrides, out);
}

static weft_status open_path(struct arena *scratch, const char *path, const struct doc *overrides,
                             struct model **out)
{
    struct stat info;
    open_rule *rule = rule_of(path);
    if (files_given())
        return open_given(scratch, path, overrides, out);
    if (stat(path, &info) != 0)
        return rule || strchr(path, '/')
                   ? bad_input(path, 0, NULL, "cannot be opened: %s", strerror(errno))
                   : unknown_model(path);
    if (S_ISDIR(info.st_mode))
        return open_folder(scratch, path, overrides, out);
    if (!S_ISREG(info.st_mode))
        return bad_input(path, 0, NULL, "is a device or pipe, expected a file");
    if (!rule)
        return bad_input(path, 0, NULL,
                         "has an unknown extension, expected .yaml, .yml, .json or .onnx");
    return rule(scratch, path, overrides, out);
}

weft_status model_open(const char *name, const char *overrides, struct model **out)
{
    weft_status status = WEFT_OK;
    struct arena *scratch = arena_new();
    struct doc *options = NULL;
    const struct preset *preset = preset_of(scratch, name);
    TRY(options_parse(scratch, overrides, &options));
    if (preset)
        TRY(preset_build(scratch, preset, preset->name, preset->source, options, out));
    else
        TRY(open_path(scratch, name, options, out));
done:
    arena_free(scratch);
    return status;
}
