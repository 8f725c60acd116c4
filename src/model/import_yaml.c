/* import_yaml.c - Weft's own model files: a family or a preset with options, or operators.
 *
 *     name: my-model                      name: tiny
 *     family: llama                       inputs: {...}
 *     options: {layers: 16, ...}          operators: [...]
 *
 * docs/reference/model-file.md describes the format. Operators written out are in import_yaml_ops.c.
 */
#include "model/import.h"

#include <string.h>

struct model_root {
    const char *name, *family, *base;
    const struct doc *options, *operators;
};

/* Operators that are written out have keys of their own, which another reader reads. */
static const struct field FIELDS[] = {
    {"name", FIELD_TEXT, offsetof(struct model_root, name)},
    {"family", FIELD_TEXT, offsetof(struct model_root, family)},
    {"base", FIELD_TEXT, offsetof(struct model_root, base)},
    {"options", FIELD_DOC, offsetof(struct model_root, options)},
};

static const char *name_of(struct arena *scratch, const struct model_root *root, const char *file)
{
    if (root->name)
        return root->name;
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    const char *dot = strrchr(base, '.');
    return arena_copy_bytes(scratch, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

static weft_status from_preset(struct arena *scratch, const struct model_root *root,
                               const struct doc *doc, const char *file, const struct doc *options,
                               struct model **out)
{
    const struct preset *preset = preset_find(root->base);
    if (preset)
        return preset_build(scratch, preset, name_of(scratch, root, file), file, options, out);
    weft_status status = doc_error(doc_get(doc, "base"), "'weft models' lists the presets",
                                   "'%.60s' is not a preset", root->base);
    hint_near(preset_nearest(root->base));
    return status;
}

weft_status import_yaml(struct arena *scratch, const char *file, const struct doc *doc,
                        const struct doc *overrides, struct model **out)
{
    weft_status status = WEFT_OK;
    struct model_root root = {0};
    const struct family *family = NULL;
    if (doc_get(doc, "operators")) {
        if (overrides)
            return doc_error(overrides, "change the sizes in the file",
                             "options do not apply to operators written out");
        const struct doc *name = doc_get(doc, "name");
        root.name = name && name->kind == DOC_TEXT ? name->text : NULL;
        return import_operators(scratch, name_of(scratch, &root, file), file, doc, out);
    }
    TRY(doc_read(doc, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &root));
    if (!root.family == !root.base)
        return doc_error(doc, NULL, "has %s, expected one of 'family', 'base' and 'operators'",
                         root.family ? "a 'family' and a 'base'" : "no operators");
    if (root.options && root.options->kind != DOC_MAP)
        return doc_error(root.options, NULL, "'options' is %s, expected a mapping",
                         doc_kind_name(root.options->kind));
    struct doc *options = options_merge(scratch, root.options, overrides);
    if (!options->file) /* so that an error about a missing option has a place */
        options->file = doc->file, options->line = doc->line;
    if (root.base)
        return from_preset(scratch, &root, doc, file, options, out);
    TRY(family_find(root.family, doc_get(doc, "family"), &family));
    TRY(family_build(family, name_of(scratch, &root, file), file, options, out));
done:
    return status;
}
