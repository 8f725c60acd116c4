/* import_hf.c - Hugging Face's config.json as options of a family.
 * The tables are in hf.h; here each row is read by its rule.
 *
 * I1  An option has the place of the key it came from, so that an error points into config.json.
 * I2  `seq` of a model with rotary positions is at most LONGEST_SEQ: max_position_embeddings is the longest text that the
 *     model may be used with, not the length of a training sample. It can be overridden.
 * I3  Where a text model has a mapping of its own (`text_config`), next to an image or sound model, only the text
 *     model is read, with a warning. A key that the mapping lacks may stand outside it.
 */
#include "model/import.h"

#include <stdio.h>
#include <string.h>

#include "model/hf.h"

enum { LONGEST_SEQ = 4096, MOST_ARCHITECTURES = 64 };

/* ---- rules ----------------------------------------------------------------------------------- */

struct hf_reading {
    struct arena *scratch;
    const struct doc *root;  /* what describes the text model */
    const struct doc *outer; /* the mapping around it; NULL: none */
    struct doc *options, *last;
    ARRAY(const char *) warnings;
};

static void add_option(struct hf_reading *r, const char *option, struct doc value)
{
    struct doc *copy = ARENA_NEW(r->scratch, struct doc);
    *copy = value;
    copy->key = option;
    copy->next = NULL;
    if (r->last)
        r->last->next = copy;
    else
        r->options->first = copy;
    r->last = copy;
    r->options->count++;
}

/* Adds an option whose value is not literally in the file; errors point at `at` (I1). */
static void add_text(struct hf_reading *r, const char *option, const struct doc *at,
                     enum doc_kind kind, const char *text)
{
    add_option(r, option,
               (struct doc){.kind = kind, .line = at->line, .file = at->file, .text = text});
}

static void add_number(struct hf_reading *r, const char *option, const struct doc *at,
                       int64_t number)
{
    add_text(r, option, at, DOC_NUMBER, arena_printf(r->scratch, "%lld", (long long)number));
}

static weft_status checked(struct hf_reading *r, const struct hf_row *row, const struct doc *value,
                           enum field_type type)
{
    double unused = 0;
    int64_t whole = 0;
    bool flag = false;
    void *out = type == FIELD_REAL ? (void *)&unused : type == FIELD_BOOL ? (void *)&flag : &whole;
    weft_status status = doc_scalar(value, type, out);
    if (status == WEFT_OK && type == FIELD_INT && whole < 0)
        status = doc_error(value, NULL, "'%s' is %lld, expected a whole number of at least 0",
                           value->key, (long long)whole);
    if (status == WEFT_OK)
        add_option(r, row->option, *value);
    return status;
}

static weft_status rule_count(struct hf_reading *r, const struct hf_row *row,
                              const struct doc *value)
{
    return checked(r, row, value, FIELD_COUNT);
}

static weft_status rule_older(struct hf_reading *r, const struct hf_row *row,
                              const struct doc *value)
{
    return doc_get(r->options, row->option) ? WEFT_OK : checked(r, row, value, FIELD_COUNT);
}

static weft_status rule_number(struct hf_reading *r, const struct hf_row *row,
                               const struct doc *value)
{
    return checked(r, row, value, FIELD_INT);
}

static weft_status rule_share(struct hf_reading *r, const struct hf_row *row,
                              const struct doc *value)
{
    return checked(r, row, value, FIELD_REAL);
}

static weft_status rule_bool(struct hf_reading *r, const struct hf_row *row,
                             const struct doc *value)
{
    return checked(r, row, value, FIELD_BOOL);
}

static weft_status rule_as_is(struct hf_reading *r, const struct hf_row *row,
                              const struct doc *value)
{
    add_option(r, row->option, *value);
    return WEFT_OK;
}

static weft_status rule_first(struct hf_reading *r, const struct hf_row *row,
                              const struct doc *value)
{
    int64_t first = 0, next;
    if (value->kind == DOC_NUMBER)
        return rule_count(r, row, value);
    if (value->kind != DOC_LIST || value->count == 0)
        return doc_error(value, NULL, "'%s' is %s, expected a list of numbers", value->key,
                         doc_kind_name(value->kind));
    for (const struct doc *d = value->first; d; d = d->next, first *= 2) {
        weft_status status = doc_scalar(d, FIELD_COUNT, &next);
        if (status)
            return status;
        if (d == value->first)
            first = next;
        if (next != first || first > INT32_MAX)
            return doc_error(d, NULL, "'%s' holds %lld, expected each number to be twice the last",
                             value->key, (long long)next);
    }
    add_number(r, row->option, value, first >> value->count);
    return WEFT_OK;
}

static weft_status rule_seq(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    int64_t positions;
    weft_status status = doc_scalar(value, FIELD_COUNT, &positions);
    if (status == WEFT_OK)
        add_number(r, row->option, value, positions < LONGEST_SEQ ? positions : LONGEST_SEQ);
    return status;
}

static weft_status rule_plus_two(struct hf_reading *r, const struct hf_row *row,
                                 const struct doc *value)
{
    int64_t positions;
    weft_status status = doc_scalar(value, FIELD_COUNT, &positions);
    if (status == WEFT_OK && checked_add(positions, 2, &positions))
        add_number(r, row->option, value, positions);
    return status;
}

/* id2label lists all labels, num_labels counts them. */
static weft_status rule_classes(struct hf_reading *r, const struct hf_row *row,
                                const struct doc *value)
{
    const struct doc *count = doc_get(r->root, "num_labels");
    if (count)
        return checked(r, row, count, FIELD_COUNT);
    if (!doc_get(r->root, row->key)) /* without the key, the default */
        return rule_count(r, row, value);
    if (value->kind != DOC_MAP || value->count == 0)
        return doc_error(value, NULL, "'%s' is %s, expected a mapping of numbers to labels",
                         value->key, doc_kind_name(value->kind));
    add_number(r, row->option, value, (int64_t)value->count);
    return WEFT_OK;
}

struct words {
    const char *theirs, *ours;
};

/* The translation of a word; a word without one is ignored with a warning. */
static weft_status translate(struct hf_reading *r, const struct hf_row *row,
                             const struct doc *value, const struct words *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i].theirs, value->text) != 0)
            continue;
        add_text(r, row->option, value, DOC_TEXT, words[i].ours);
        return WEFT_OK;
    }
    const char *text = arena_printf(r->scratch, "'%s' is '%.40s', which counts as the default",
                                    row->key, value->text);
    array_push(r->scratch, &r->warnings, text);
    return WEFT_OK;
}

static weft_status rule_dtype(struct hf_reading *r, const struct hf_row *row,
                              const struct doc *value)
{
    static const struct words WORDS[] = {
        {"float32", "fp32"}, {"float16", "fp16"}, {"bfloat16", "bf16"}};
    if (doc_get(r->options, "dtype"))
        return WEFT_OK; /* given under its older name */
    return translate(r, row, value, WORDS, COUNT_OF(WORDS));
}

static weft_status rule_act(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    static const struct words WORDS[] = {{"gelu", "gelu"},
                                         {"gelu_new", "gelu"},
                                         {"gelu_fast", "gelu"},
                                         {"gelu_pytorch_tanh", "gelu"},
                                         {"relu", "relu"}};
    return translate(r, row, value, WORDS, COUNT_OF(WORDS));
}

/* A model of masked words only needs no pooled output. */
static weft_status rule_pooler(struct hf_reading *r, const struct hf_row *row,
                               const struct doc *value)
{
    bool pooled = true;
    for (const struct doc *d = value->first; d; d = d->next)
        if (strcmp(d->text, "BertForMaskedLM") == 0)
            pooled = false;
    add_text(r, row->option, value, DOC_BOOL, pooled ? "true" : "false");
    return WEFT_OK;
}

/* "M-M*", or [mamba, mlp, mamba, attention], whichever is found first. */
static weft_status rule_pattern(struct hf_reading *r, const struct hf_row *row,
                                const struct doc *value)
{
    static const struct words WORDS[] = {
        {"mamba", "M"}, {"attention", "*"}, {"mlp", "-"}, {"moe", "E"}};
    if (doc_get(r->options, row->option))
        return WEFT_OK; /* given under its other name */
    if (value->kind != DOC_LIST)
        return rule_as_is(r, row, value);
    char *letters = arena_alloc(r->scratch, 1, value->count + 1);
    size_t used = 0;
    for (const struct doc *d = value->first; d; d = d->next) {
        size_t at = 0;
        while (at < COUNT_OF(WORDS) && strcmp(WORDS[at].theirs, d->text) != 0)
            at++;
        if (at == COUNT_OF(WORDS))
            return doc_error(d, NULL, "'%s' holds '%.40s', expected mamba, attention, mlp or moe",
                             row->key, d->text);
        letters[used++] = WORDS[at].ours[0];
    }
    letters[used] = '\0';
    add_text(r, row->option, value, DOC_TEXT, letters);
    return WEFT_OK;
}

/* ---- sliding windows ------------------------------------------------------------------------- */

static bool is_full(const struct doc *type)
{
    return type->kind == DOC_TEXT && strcmp(type->text, "full_attention") == 0;
}

static bool all_full(const struct doc *types)
{
    const struct doc *d = types && types->kind == DOC_LIST ? types->first : NULL;
    bool any = d != NULL;
    while (d && is_full(d))
        d = d->next;
    return any && !d;
}

static weft_status rule_window(struct hf_reading *r, const struct hf_row *row,
                               const struct doc *value)
{
    const struct doc *own = doc_get(r->root, row->key);
    if ((own && own->kind == DOC_NULL) || all_full(doc_get(r->root, "layer_types")))
        return WEFT_OK;
    return checked(r, row, value, FIELD_COUNT);
}

/* The number of the first layer that sees all keys, counted from 1; 0: none does. */
static int64_t first_full(const struct doc *types)
{
    int64_t number = 1;
    for (const struct doc *d = types->first; d; d = d->next, number++)
        if (is_full(d))
            return number;
    return 0;
}

static weft_status rule_full(struct hf_reading *r, const struct hf_row *row,
                             const struct doc *value)
{
    const struct doc *pattern = doc_get(r->root, "sliding_window_pattern");
    if (!doc_get(r->options, "window"))
        return WEFT_OK;
    if (value->kind != DOC_LIST)
        return checked(r, row, pattern ? pattern : value, FIELD_COUNT);
    int64_t every = first_full(value), number = 1;
    for (const struct doc *d = value->first; d; d = d->next, number++)
        if (is_full(d) != (every && number % every == 0))
            return doc_error(d,
                             "write the model down as operators: see docs/reference/model-file.md",
                             "'%s' breaks its order at layer %lld, expected one layer in %lld, the "
                             "last, to be 'full_attention'",
                             row->key, (long long)number - 1, (long long)every);
    if (every)
        add_number(r, row->option, value, every);
    return WEFT_OK;
}

/* None, then two numbers in turn; the last may be that of a layer which predicts another token. */
static weft_status rule_compress(struct hf_reading *r, const struct hf_row *row,
                                 const struct doc *value)
{
    static const char *const OPTIONS[] = {"compress", "compress_heavy", "compress_first"};
    int64_t found[] = {0, 0, 0}, number = 0, own = 0;
    for (const struct doc *d = value->first; d; d = d->next, number++) {
        int64_t *turn = &found[number % 2];
        bool whole = d->text && parse_int(d->text, &own);
        found[2] += own == 0 && found[2] == number;
        *turn = *turn ? *turn : own;
        if (!whole || (own != *turn && d->next))
            return doc_error(d, NULL, "'%s' does not have two numbers in turn", row->key);
    }
    for (size_t i = 0; i < COUNT_OF(OPTIONS); i++)
        add_number(r, OPTIONS[i], value, found[i]);
    return WEFT_OK;
}

static weft_status rule_silent(struct hf_reading *r, const struct hf_row *row,
                               const struct doc *value)
{
    (void)r, (void)row, (void)value;
    return WEFT_OK;
}

static weft_status rule_expected(struct hf_reading *r, const struct hf_row *row,
                                 const struct doc *value)
{
    bool list = value->kind == DOC_LIST;
    bool same = list ? value->count == 0 : strcmp(value->text, row->otherwise) == 0;
    if (!same)
        array_push(r->scratch, &r->warnings,
                   arena_printf(r->scratch, "'%s' is %.40s, the model is built as if it were %s",
                                row->key, list ? "not empty" : value->text, row->otherwise));
    return WEFT_OK;
}

/* Since transformers 5 it stands in a mapping of its own. */
static weft_status rule_rope(struct hf_reading *r, const struct hf_row *row,
                             const struct doc *value)
{
    const struct doc *nested = doc_get(doc_get(r->root, "rope_parameters"), row->key);
    bool own = doc_get(r->root, row->key) != NULL;
    return checked(r, row, nested && !own ? nested : value, FIELD_REAL);
}

static weft_status rule_normed(struct hf_reading *r, const struct hf_row *row,
                               const struct doc *value)
{
    bool normed;
    weft_status status = doc_scalar(value, FIELD_BOOL, &normed);
    if (status == WEFT_OK)
        add_text(r, row->option, value, DOC_TEXT,
                 ROUTER_WORDS[normed ? ROUTER_SOFTMAX : ROUTER_SOFTMAX_OF_ALL]);
    return status;
}

static weft_status (*const RULES[])(struct hf_reading *, const struct hf_row *,
                                    const struct doc *) = {
    [RULE_COUNT] = rule_count,       [RULE_NUMBER] = rule_number,     [RULE_SHARE] = rule_share,
    [RULE_BOOL] = rule_bool,         [RULE_LIST] = rule_as_is,        [RULE_FIRST] = rule_first,
    [RULE_WORD] = rule_as_is,        [RULE_FIXED] = rule_as_is,       [RULE_SEQ] = rule_seq,
    [RULE_PLUS_TWO] = rule_plus_two, [RULE_CLASSES] = rule_classes,   [RULE_DTYPE] = rule_dtype,
    [RULE_ACT] = rule_act,           [RULE_POOLER] = rule_pooler,     [RULE_PATTERN] = rule_pattern,
    [RULE_OLDER] = rule_older,       [RULE_WINDOW] = rule_window,     [RULE_FULL] = rule_full,
    [RULE_COMPRESS] = rule_compress, [RULE_ROPE] = rule_rope,         [RULE_NORMED] = rule_normed,
    [RULE_SILENT] = rule_silent,     [RULE_EXPECTED] = rule_expected,
};
_Static_assert(COUNT_OF(RULES) == RULE_EXPECTED + 1, "a rule without a function");

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

static weft_status read_row(struct hf_reading *r, const struct hf_row *row)
{
    const struct doc *value = row->key ? doc_get(r->root, row->key) : NULL;
    if (!value && row->key && r->outer) /* I3 */
        value = doc_get(r->outer, row->key);
    bool labels = row->rule == RULE_CLASSES && doc_get(r->root, "num_labels");
    if (value && value->kind == DOC_NULL)
        value = NULL;
    if (!value && !labels && (!row->otherwise || row->rule == RULE_EXPECTED))
        return WEFT_OK;
    if (!value) {
        weft_status status = default_of(r, row, &value);
        if (status)
            return status;
    }
    return RULES[row->rule](r, row, value);
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
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names[i]);
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
    array_push(r->scratch, &r->warnings, "only the text model of 'text_config' is read");
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
    for (size_t i = 0; i < architecture->count; i++)
        TRY(read_row(&r, &architecture->rows[i]));
    TRY(family_find(architecture->family, root, &family));
    TRY(family_build(family, name_of(scratch, file), file,
                     options_merge(scratch, &options, overrides), out));
    for (size_t i = 0; i < r.warnings.len; i++)
        array_push((*out)->arena, &(*out)->warnings,
                   arena_copy_text((*out)->arena, r.warnings.data[i]));
done:
    return status;
}
