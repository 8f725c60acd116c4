/* hf_rules_layers.c - the rules of rows that say which layer is of which kind (hf.h).
 *
 *   I1  A list with one entry for each layer comes before a number that says the same: transformers builds by the list.
 *   I2  A list becomes one number: in every k-th layer, the last of k, the entry is the one looked for. A list in another
 *       order is refused at the first entry that breaks it.
 */
#include "model/hf_rules.h"

#include <string.h>

static const char BY_HAND[] = "write the model down as operators: see docs/reference/model-file.md";

static bool is_word(const struct doc *entry, const char *word)
{
    return entry->kind == DOC_TEXT && strcmp(entry->text, word) == 0;
}

static bool is_list(const struct doc *value)
{
    return value && value->kind == DOC_LIST && value->count > 0;
}

/* ---- letters --------------------------------------------------------------------------------- */

/* Names of layers, the older ones and those since transformers 5.23. */
static char letter_of(const struct doc *entry)
{
    static const struct {
        const char *name;
        char letter;
    } LETTERS[] = {{"mamba", 'M'}, {"attention", '*'},        {"mlp", '-'},
                   {"moe", 'E'},   {"linear_attention", 'M'}, {"full_attention", '*'}};
    for (size_t i = 0; i < COUNT_OF(LETTERS); i++)
        if (is_word(entry, LETTERS[i].name))
            return LETTERS[i].letter;
    return '\0';
}

/* "M-M*", or [mamba, mlp, mamba, attention], whichever is found first. */
weft_status rule_pattern(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    if (doc_get(r->options, row->option))
        return WEFT_OK; /* given under its other name */
    if (value->kind != DOC_LIST) {
        hf_add(r, row->option, *value);
        return WEFT_OK;
    }
    char *letters = arena_alloc(r->scratch, 1, value->count + 1);
    size_t used = 0;
    for (const struct doc *d = value->first; d; d = d->next, used++) {
        letters[used] = letter_of(d);
        if (!letters[used])
            return doc_error(d, NULL, "'%s' holds '%.40s', expected mamba, attention, mlp or moe",
                             row->key, d->text);
    }
    letters[used] = '\0';
    hf_add_text(r, row->option, value, DOC_TEXT, letters);
    return WEFT_OK;
}

/* ---- every so-many-th layer ------------------------------------------------------------------ */

/* I2: every how many layers one has the entry `mark`; 0: none has. */
static weft_status every_marked(const char *key, const struct doc *list, const char *mark,
                                int64_t *every)
{
    int64_t number = 1;
    *every = 0;
    for (const struct doc *d = list->first; d && !*every; d = d->next, number++)
        if (d->text && strcmp(d->text, mark) == 0)
            *every = number;
    number = 1;
    for (const struct doc *d = list->first; d; d = d->next, number++)
        if ((d->text && strcmp(d->text, mark) == 0) != (*every && number % *every == 0))
            return doc_error(d, BY_HAND,
                             "'%s' breaks its order at layer %lld, expected one layer in %lld, the "
                             "last, to be '%s'",
                             key, (long long)number - 1, (long long)*every, mark);
    return WEFT_OK;
}

static bool all_full(const struct doc *types)
{
    const struct doc *d = is_list(types) ? types->first : NULL;
    bool any = d != NULL;
    while (d && is_word(d, "full_attention"))
        d = d->next;
    return any && !d;
}

weft_status rule_window(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    const struct doc *own = doc_get(r->root, row->key);
    if ((own && own->kind == DOC_NULL) || all_full(doc_get(r->root, "layer_types")))
        return WEFT_OK;
    return hf_checked(r, row, value, FIELD_COUNT);
}

weft_status rule_windowed(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    if (doc_get(r->options, "window"))
        hf_add(r, row->option, *value);
    return WEFT_OK;
}

weft_status rule_full(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    const struct doc *pattern = doc_get(r->root, "sliding_window_pattern");
    int64_t every;
    if (!doc_get(r->options, "window"))
        return WEFT_OK;
    if (value->kind != DOC_LIST)
        return hf_checked(r, row, pattern ? pattern : value, FIELD_COUNT);
    weft_status status = every_marked(row->key, value, "full_attention", &every);
    if (status == WEFT_OK && every)
        hf_add_number(r, row->option, value, every);
    return status;
}

/* The number of a row beside the list of the same that a config may have (I1). */
static weft_status number_beside(const struct doc *value, const struct doc *list, const char *mark,
                                 int64_t *every)
{
    return is_list(list) ? every_marked(list->key, list, mark, every)
                         : doc_scalar(value, FIELD_COUNT, every);
}

weft_status rule_turn(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    const struct doc *list = doc_get(r->root, "layer_types");
    int64_t every;
    weft_status status = number_beside(value, list, "full_attention", &every);
    if (status == WEFT_OK && every == 0)
        status = doc_error(list, BY_HAND, "'%s' has no 'full_attention', expected some", list->key);
    if (status == WEFT_OK)
        hf_add_number(r, row->option, is_list(list) ? list : value, every);
    return status;
}

/* Layers without rotary positions are zeros in a list, which is empty where the number beside it counts. Among windows
 * they have to be the layers that see everything. */
weft_status rule_turned(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    const struct doc *list = doc_get(r->root, "no_rope_layers");
    int64_t every, full = hf_made(r, row->option);
    weft_status status = number_beside(value, list, "0", &every);
    value = is_list(list) ? list : value;
    if (status)
        return status;
    bool windows = doc_get(r->options, "window") && doc_get(r->root, "layer_types");
    if (every && every != full && (full || windows))
        return doc_error(value, BY_HAND,
                         "'%s' leaves every %lldth layer without positions, expected the layers of "
                         "'layer_types' that are 'full_attention'",
                         value->key, (long long)every);
    if (every && !full)
        hf_add_number(r, row->option, value, every);
    hf_add_text(r, "full_rotary", value, DOC_BOOL, every ? "false" : "true");
    return WEFT_OK;
}

/* ---- layers of two kinds of MLP -------------------------------------------------------------- */

weft_status rule_dense(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    const struct doc *list = doc_get(r->root, "mlp_layer_types");
    int64_t dense = 0, number = 0;
    if (!is_list(list))
        return hf_checked(r, row, value, FIELD_INT);
    for (const struct doc *d = list->first; d; d = d->next, number++) {
        dense += is_word(d, "dense") && dense == number;
        if (is_word(d, "dense") != (dense > number))
            return doc_error(d, BY_HAND,
                             "'%s' is 'dense' at layer %lld, expected only the first "
                             "layers to be",
                             list->key, (long long)number);
    }
    hf_add_number(r, row->option, list, dense);
    return WEFT_OK;
}

weft_status rule_listed(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    int64_t layers = hf_made(r, "layers"), every = 0, number = 0, layer;
    for (const struct doc *d = value->first; d; d = d->next) {
        bool whole = parse_int(d->text, &layer);
        every = every || !whole || layer < 0 || layer >= layers ? every : layer + 1;
        if (!whole || layer + 1 != ++number * every)
            return doc_error(d, BY_HAND, "'%s' does not list every so-many-th layer", row->key);
    }
    if (!every || number != layers / every)
        return doc_error(value, BY_HAND,
                         "'%s' lists %lld layers of %lld, expected every so-many-th", row->key,
                         (long long)number, (long long)layers);
    hf_add_number(r, row->option, value, every);
    return WEFT_OK;
}

/* ---- compressed keys ------------------------------------------------------------------------- */

/* How many tokens a key of a layer stands for; the numbers of names are DeepSeek-V4's own where none are given. */
static bool compress_ratio(const struct hf_reading *r, const struct doc *entry, int64_t *out)
{
    static const struct {
        const char *name;
        int64_t usual;
    } KINDS[] = {{"sliding_attention", 0},
                 {"compressed_sparse_attention", 4},
                 {"heavily_compressed_attention", 128}};
    for (size_t i = 0; i < COUNT_OF(KINDS); i++)
        if (is_word(entry, KINDS[i].name)) {
            const struct doc *own = doc_get(doc_get(r->root, "compress_rates"), KINDS[i].name);
            *out = KINDS[i].usual;
            return !own || parse_int(own->text, out);
        }
    return parse_int(entry->text, out);
}

/* None, then two numbers in turn; the last may be that of a layer which predicts another token. */
weft_status rule_compress(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    static const char *const OPTIONS[] = {"compress", "compress_heavy", "compress_first"};
    const struct doc *types = doc_get(r->root, "layer_types");
    (void)row;
    int64_t found[] = {0, 0, 0}, number = 0, own = 0;
    value = is_list(types) ? types : value; /* I1 */
    for (const struct doc *d = value->first; d; d = d->next, number++) {
        int64_t *turn = &found[number % 2];
        bool whole = compress_ratio(r, d, &own);
        found[2] += own == 0 && found[2] == number;
        *turn = *turn ? *turn : own;
        if (!whole || (own != *turn && d->next))
            return doc_error(d, BY_HAND, "'%s' does not have two numbers in turn", value->key);
    }
    for (size_t i = 0; i < COUNT_OF(OPTIONS); i++)
        hf_add_number(r, OPTIONS[i], value, found[i]);
    return WEFT_OK;
}

/* ---- positions ------------------------------------------------------------------------------- */

/* The base of layers with a window, since transformers 5 in a mapping of their own. */
weft_status rule_local(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    const struct doc *own = doc_get(doc_get(r->root, "rope_parameters"), "sliding_attention");
    const struct doc *base = doc_get(own, "rope_theta");
    return hf_checked(r, row, base && !doc_get(r->root, row->key) ? base : value, FIELD_REAL);
}
