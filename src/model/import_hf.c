/* import_hf.c - Hugging Face's config.json as options of a family.
 * The tables are in hf.h; here each row is read by its rule (hf_rules.c).
 *
 * I1  An option has the place of the key it came from, so that an error points into config.json, and an error that the
 *     family finds names the key, not the option that was made of it.
 * I2  `seq` of a model with rotary positions is at most LONGEST_SEQ: max_position_embeddings is the longest text that the
 *     model may be used with, not the length of a training sample. It can be overridden.
 * I3  Where a text model has a mapping of its own (`text_config`), a key that the mapping lacks may stand outside it.
 * I4  A mapping `vision_config` of a known encoder (hf_vision.c) becomes a tower; another, or one of sound, is left out
 *     with a warning.
 * I5  What positions are like stands in the text model's mapping or, since transformers 5, in `rope_parameters` there; if
 *     that has a mapping for each kind of layer, the one of layers that see everything counts.
 */
#include "model/import.h"

#include <stdio.h>
#include <string.h>

#include "model/hf_rules.h"

enum { MOST_ARCHITECTURES = 64 };

/* ---- reading a config ------------------------------------------------------------------------ */

/* The default of a row as a node that has the place of the whole config. */
static weft_status default_of(struct hf_reading *r, const struct hf_row *row,
                              const struct doc **out)
{
    struct doc *node;
    weft_status status = doc_parse(r->scratch, r->root->file, row->otherwise,
                                   strlen(row->otherwise), DOC_YAML, &node);
    if (status)
        return status;
    node->line = r->root->line;
    node->key = row->key ? row->key : row->option;
    *out = node;
    return WEFT_OK;
}

/* I5 */
static const struct doc *positions_of(const struct doc *root)
{
    const struct doc *all = doc_get(root, "rope_parameters");
    const struct doc *full = doc_get(all, "full_attention");
    return full ? full : all;
}

static weft_status read_row(struct hf_reading *r, const struct hf_row *row)
{
    const struct doc *value = row->key ? doc_get(r->root, row->key) : NULL;
    if (!value && row->key) /* I5 */
        value = doc_get(positions_of(r->root), row->key);
    if (!value && row->key && r->outer) /* I3 */
        value = doc_get(r->outer, row->key);
    bool labels = row->rule == RULE_CLASSES && doc_get(r->root, "num_labels");
    if (value && value->kind == DOC_NULL)
        value = NULL;
    if (!value && !labels && (!row->otherwise || row->rule == RULE_EXPECTED))
        return WEFT_OK;
    if (row->key && row->option)
        array_push(r->scratch, value ? &r->given : &r->usual, row);
    if (!value) {
        weft_status status = default_of(r, row, &value);
        if (status)
            return status;
    }
    return hf_apply(r, row, value);
}

/* I1; what the user set is called as the user called it. */
static weft_status keys_named(const struct hf_reading *r, const struct doc *overrides,
                              weft_status status)
{
    const struct hf_row_list *const lists[] = {&r->given, &r->usual};
    for (size_t k = 0; k < COUNT_OF(lists) && status == WEFT_BAD_INPUT; k++)
        for (size_t i = 0; i < lists[k]->len; i++) {
            const struct hf_row *row = lists[k]->data[i];
            if (!overrides || !doc_get(overrides, row->option))
                error_rename(row->option, row->key);
        }
    return status;
}

static weft_status find_architecture(const struct doc *root, const struct hf_architecture **out)
{
    const struct doc *type = doc_get(root, "model_type");
    const struct hf_architecture *architectures;
    const char *names[MOST_ARCHITECTURES];
    char all[1000] = "";
    size_t used = 0, count = hf_architectures(&architectures);
    if (!type || type->kind != DOC_TEXT)
        return doc_error(type ? type : root, NULL, "has no 'model_type', expected the name of one");
    for (size_t i = 0; i < count && i < MOST_ARCHITECTURES; i++) {
        names[i] = architectures[i].type;
        if (!strstr(names[i], "_text")) /* of a mapping inside a config */
            used +=
                (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names[i]);
        if (strcmp(type->text, names[i]) == 0) {
            *out = &architectures[i];
            return WEFT_OK;
        }
    }
    weft_status status =
        doc_error(type, "write the model down as operators: see docs/reference/model-file.md",
                  "'model_type' is '%.60s', expected one of %s", type->text, all);
    hint_near(nearest_word(type->text, names, count));
    return status;
}

static bool has_row(const struct hf_architecture *architecture, const char *key)
{
    for (size_t i = 0; i < architecture->count; i++)
        if (architecture->rows[i].key && strcmp(architecture->rows[i].key, key) == 0)
            return true;
    return false;
}

/* One warning for all keys that nobody read and that may mean something. */
static void mention_unread(struct hf_reading *r, const struct hf_architecture *architecture)
{
    const char *names = NULL;
    for (const struct doc *d = r->root->first; d; d = d->next)
        if (d->kind != DOC_NULL && !has_row(architecture, d->key) && !hf_is_silent(d->key))
            names = names ? arena_printf(r->scratch, "%s, %.40s", names, d->key)
                          : arena_printf(r->scratch, "%.40s", d->key);
    if (names)
        array_push(r->scratch, &r->warnings,
                   arena_printf(r->scratch, "keys that were not read: %s", names));
}

/* Goes to the text model of a config that describes others, too (I3). */
static void enter_text(struct hf_reading *r)
{
    const struct doc *text = doc_get(r->root, "text_config");
    if (!text || text->kind != DOC_MAP)
        return;
    r->outer = r->root;
    r->root = text;
}

/* Says which models beside the text's are left out (I4). */
static void mention_others(struct hf_reading *r, const struct doc *root, bool tower)
{
    static const char *const OTHERS[] = {"vision_config", "audio_config"};
    for (size_t i = tower; i < COUNT_OF(OTHERS); i++)
        if (doc_get(root, OTHERS[i]))
            array_push(r->scratch, &r->warnings,
                       arena_printf(r->scratch, "the model of '%s' is left out", OTHERS[i]));
}

static weft_status read_table(struct hf_reading *r, const struct hf_rows *table)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < table->count && status == WEFT_OK; i++)
        status = read_row(r, &table->rows[i]);
    return status;
}

static bool has_field(const struct family *family, const char *key)
{
    for (size_t i = 0; i < family->field_count; i++)
        if (strcmp(family->fields[i].key, key) == 0)
            return true;
    return false;
}

/* Adds the options of a tower beside a family that can have one (I4). */
static weft_status read_vision(struct hf_reading *r, const struct doc *root,
                               const struct family *family)
{
    const struct doc *vision = doc_get(root, "vision_config");
    struct hf_rows encoder, join;
    weft_status status = WEFT_OK;
    bool known =
        vision && has_field(family, "vision_layers") && hf_vision(root, vision, &encoder, &join);
    mention_others(r, root, known);
    if (!known)
        return WEFT_OK;
    r->outer = NULL;
    r->root = vision;
    TRY(read_table(r, &encoder));
    r->root = root;
    TRY(read_table(r, &join));
done:
    return status;
}

/* "gpt2" from some/gpt2/config.json, "big" from some/big.json. */
static const char *name_of(struct arena *scratch, const char *file)
{
    const char *end = strrchr(file, '/'), *base = end ? end + 1 : file;
    if (strcmp(base, "config.json") != 0 || !end) {
        const char *dot = strrchr(base, '.');
        size_t len = dot && dot > base ? (size_t)(dot - base) : strlen(base);
        return arena_copy_bytes(scratch, base, len);
    }
    const char *start = end;
    while (start > file && start[-1] != '/')
        start--;
    return arena_copy_bytes(scratch, start, (size_t)(end - start));
}

weft_status import_hf(struct arena *scratch, const char *file, const struct doc *root,
                      const struct doc *overrides, struct model **out)
{
    weft_status status = WEFT_OK;
    const struct hf_architecture *architecture = NULL;
    const struct family *family = NULL;
    struct doc options = {.kind = DOC_MAP, .line = root->line, .file = root->file, .text = ""};
    struct hf_reading r = {.scratch = scratch, .root = root, .options = &options};
    enter_text(&r);
    TRY(find_architecture(doc_get(r.root, "model_type") ? r.root : root, &architecture));
    mention_unread(&r, architecture);
    TRY(read_table(&r, &(struct hf_rows){architecture->rows, architecture->count}));
    TRY(family_find(architecture->family, root, &family));
    TRY(read_vision(&r, root, family));
    status = family_build(family, name_of(scratch, file), file,
                          options_merge(scratch, &options, overrides), out);
    TRY(keys_named(&r, overrides, status));
    for (size_t i = 0; i < r.warnings.len; i++)
        array_push((*out)->arena, &(*out)->warnings,
                   arena_copy_text((*out)->arena, r.warnings.data[i]));
done:
    return status;
}
