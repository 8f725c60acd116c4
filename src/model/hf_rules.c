/* hf_rules.c - how each rule of a row turns a value of config.json into an option (hf.h). */
#include "model/hf_rules.h"

#include <math.h>
#include <string.h>

#include "model/model.h"

enum { LONGEST_SEQ = 4096 }; /* import_hf.c, I2 */

/* ---- rules ----------------------------------------------------------------------------------- */

void hf_add(struct hf_reading *r, const char *option, struct doc value)
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
void hf_add_text(struct hf_reading *r, const char *option, const struct doc *at, enum doc_kind kind,
                 const char *text)
{
    hf_add(r, option, (struct doc){.kind = kind, .line = at->line, .file = at->file, .text = text});
}

void hf_add_number(struct hf_reading *r, const char *option, const struct doc *at, int64_t number)
{
    hf_add_text(r, option, at, DOC_NUMBER, arena_printf(r->scratch, "%lld", (long long)number));
}

int64_t hf_made(const struct hf_reading *r, const char *option)
{
    const struct doc *value = doc_get(r->options, option);
    int64_t number = 0;
    return value && value->text && parse_int(value->text, &number) ? number : 0;
}

weft_status hf_checked(struct hf_reading *r, const struct hf_row *row, const struct doc *value,
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
        hf_add(r, row->option, *value);
    return status;
}

static weft_status rule_count(struct hf_reading *r, const struct hf_row *row,
                              const struct doc *value)
{
    return hf_checked(r, row, value, FIELD_COUNT);
}

static weft_status rule_older(struct hf_reading *r, const struct hf_row *row,
                              const struct doc *value)
{
    return doc_get(r->options, row->option) ? WEFT_OK : hf_checked(r, row, value, FIELD_COUNT);
}

static weft_status rule_number(struct hf_reading *r, const struct hf_row *row,
                               const struct doc *value)
{
    return hf_checked(r, row, value, FIELD_INT);
}

static weft_status rule_share(struct hf_reading *r, const struct hf_row *row,
                              const struct doc *value)
{
    return hf_checked(r, row, value, FIELD_REAL);
}

static weft_status rule_bool(struct hf_reading *r, const struct hf_row *row,
                             const struct doc *value)
{
    return hf_checked(r, row, value, FIELD_BOOL);
}

static weft_status rule_as_is(struct hf_reading *r, const struct hf_row *row,
                              const struct doc *value)
{
    hf_add(r, row->option, *value);
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
    hf_add_number(r, row->option, value, first >> value->count);
    return WEFT_OK;
}

static weft_status rule_seq(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    int64_t positions;
    weft_status status = doc_scalar(value, FIELD_COUNT, &positions);
    if (status == WEFT_OK)
        hf_add_number(r, row->option, value, positions < LONGEST_SEQ ? positions : LONGEST_SEQ);
    return status;
}

static weft_status rule_plus_two(struct hf_reading *r, const struct hf_row *row,
                                 const struct doc *value)
{
    int64_t positions;
    weft_status status = doc_scalar(value, FIELD_COUNT, &positions);
    if (status == WEFT_OK && checked_add(positions, 2, &positions))
        hf_add_number(r, row->option, value, positions);
    return status;
}

/* id2label lists all labels, num_labels counts them. */
static weft_status rule_classes(struct hf_reading *r, const struct hf_row *row,
                                const struct doc *value)
{
    const struct doc *count = doc_get(r->root, "num_labels");
    if (count)
        return hf_checked(r, row, count, FIELD_COUNT);
    if (!doc_get(r->root, row->key)) /* without the key, the default */
        return rule_count(r, row, value);
    if (value->kind != DOC_MAP || value->count == 0)
        return doc_error(value, NULL, "'%s' is %s, expected a mapping of numbers to labels",
                         value->key, doc_kind_name(value->kind));
    hf_add_number(r, row->option, value, (int64_t)value->count);
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
        hf_add_text(r, row->option, value, DOC_TEXT, words[i].ours);
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
    enum dtype dtype = DTYPE_COUNT;
    if (doc_get(r->options, "dtype"))
        return WEFT_OK; /* given under its older name */
    if (!dtype_from_word(value->text, &dtype))
        return translate(r, row, value, NULL, 0);
    hf_add_text(r, row->option, value, DOC_TEXT, dtype_name(dtype));
    return WEFT_OK;
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
    hf_add_text(r, row->option, value, DOC_BOOL, pooled ? "true" : "false");
    return WEFT_OK;
}

/* ---- others --------------------------------------------------------------------------------- */

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

static double real_under(const struct doc *map, const char *key)
{
    const struct doc *node = doc_get(map, key);
    double value = 0;
    if (node && doc_scalar(node, FIELD_REAL, &value))
        error_clear();
    return value;
}

/* The numbers beside Llama 3.1's factor are the same in all its configs, and fixed in Megatron-LM (ROPE_LEARNED). */
static bool is_llama3(const struct doc *value)
{
    return real_under(value, "low_freq_factor") == 1 &&
           real_under(value, "high_freq_factor") == ROPE_FAST &&
           real_under(value, "original_max_position_embeddings") == ROPE_LEARNED;
}

/* Its betas are those of all configs, and both scales of attention the same or none. */
/* The factor of scores that yarn has of itself, which a file may write out. */
static bool is_usual_factor(const struct doc *value)
{
    double given = real_under(value, "attention_factor");
    return given == 0 || fabs(given - (0.1 * log(real_under(value, "factor")) + 1)) < 1e-4;
}

static bool is_yarn(const struct doc *value)
{
    double fast = real_under(value, "beta_fast"), slow = real_under(value, "beta_slow");
    return (fast == 0 || fast == YARN_FAST) && (slow == 0 || slow == 1) &&
           real_under(value, "mscale") == real_under(value, "mscale_all_dim") &&
           is_usual_factor(value);
}

static void add_yarn(struct hf_reading *r, const struct doc *value)
{
    const struct doc *whole = doc_get(value, "truncate"), *mscale = doc_get(value, "mscale"),
                     *learned = doc_get(value, "original_max_position_embeddings");
    bool unrounded = whole && whole->text && strcmp(whole->text, "false") == 0;
    learned = learned ? learned : doc_get(r->root, "max_position_embeddings");
    hf_add_text(r, "rope_type", value, DOC_TEXT,
                ROPE_WORDS[unrounded ? ROPE_YARN_UNROUNDED : ROPE_YARN]);
    if (learned)
        hf_add(r, "rope_learned", *learned);
    if (mscale)
        hf_add(r, "rope_mscale", *mscale);
}

static weft_status rule_stretch(struct hf_reading *r, const struct hf_row *row,
                                const struct doc *value)
{
    const struct doc *full = doc_get(value, "full_attention");
    value = full && full->kind == DOC_MAP ? full : value;
    const struct doc *type = doc_get(value, "rope_type"), *factor = doc_get(value, "factor");
    type = type ? type : doc_get(value, "type");
    if (value->kind != DOC_MAP || !type || !type->text || strcmp(type->text, "default") == 0 ||
        strcmp(type->text, "mrope") == 0) /* positions of images, which are not stretched */
        return WEFT_OK;
    bool linear = strcmp(type->text, "linear") == 0;
    bool yarn = strcmp(type->text, "yarn") == 0 && is_yarn(value);
    if (factor && (linear || yarn || (strcmp(type->text, "llama3") == 0 && is_llama3(value)))) {
        if (doc_get(r->options, row->option))
            return WEFT_OK;
        if (linear)
            hf_add_text(r, "rope_type", value, DOC_TEXT, ROPE_WORDS[ROPE_LINEAR]);
        if (yarn)
            add_yarn(r, value);
        return hf_checked(r, row, factor, FIELD_REAL);
    }
    array_push(r->scratch, &r->warnings,
               arena_printf(r->scratch,
                            "'%s' is of type %.40s, and positions are not stretched so here: times "
                            "and bytes are the same, exported files lack it",
                            row->key, type->text));
    return WEFT_OK;
}

static weft_status rule_rotated(struct hf_reading *r, const struct hf_row *row,
                                const struct doc *value)
{
    int64_t rotated, depth = hf_made(r, "head_dim");
    weft_status status = doc_scalar(value, FIELD_COUNT, &rotated);
    if (status)
        return status;
    if (rotated > depth)
        return doc_error(value, NULL, "'%s' is %lld, expected at most the %lld of a head",
                         value->key, (long long)rotated, (long long)depth);
    hf_add_text(r, row->option, value, DOC_NUMBER,
                arena_printf(r->scratch, "%.17g", (double)rotated / (double)depth));
    return WEFT_OK;
}

static weft_status rule_normed(struct hf_reading *r, const struct hf_row *row,
                               const struct doc *value)
{
    bool normed;
    weft_status status = doc_scalar(value, FIELD_BOOL, &normed);
    if (status == WEFT_OK)
        hf_add_text(r, row->option, value, DOC_TEXT,
                    ROUTER_WORDS[normed ? ROUTER_SOFTMAX : ROUTER_SOFTMAX_OF_ALL]);
    return status;
}

static weft_status (*const RULES[])(struct hf_reading *, const struct hf_row *,
                                    const struct doc *) = {
    [RULE_COUNT] = rule_count,       [RULE_NUMBER] = rule_number,   [RULE_SHARE] = rule_share,
    [RULE_BOOL] = rule_bool,         [RULE_LIST] = rule_as_is,      [RULE_FIRST] = rule_first,
    [RULE_WORD] = rule_as_is,        [RULE_FIXED] = rule_as_is,     [RULE_SEQ] = rule_seq,
    [RULE_PLUS_TWO] = rule_plus_two, [RULE_CLASSES] = rule_classes, [RULE_DTYPE] = rule_dtype,
    [RULE_ACT] = rule_act,           [RULE_POOLER] = rule_pooler,   [RULE_PATTERN] = rule_pattern,
    [RULE_OLDER] = rule_older,       [RULE_WINDOW] = rule_window,   [RULE_FULL] = rule_full,
    [RULE_COMPRESS] = rule_compress, [RULE_TURN] = rule_turn,       [RULE_NORMED] = rule_normed,
    [RULE_STRETCH] = rule_stretch,   [RULE_PIXELS] = rule_pixels,   [RULE_EVERY] = rule_every,
    [RULE_ROTATED] = rule_rotated,   [RULE_SIDE] = rule_side,       [RULE_SHRINK] = rule_shrink,
    [RULE_MERGED] = rule_merged,     [RULE_TABLE] = rule_table,     [RULE_AFTER] = rule_after,
    [RULE_SHAPES] = rule_shapes,     [RULE_CROSS] = rule_cross,     [RULE_DENSE] = rule_dense,
    [RULE_TURNED] = rule_turned,     [RULE_LOCAL] = rule_local,     [RULE_WINDOWED] = rule_windowed,
    [RULE_LISTED] = rule_listed,     [RULE_SILENT] = rule_silent,   [RULE_EXPECTED] = rule_expected,
};
_Static_assert(COUNT_OF(RULES) == RULE_EXPECTED + 1, "a rule without a function");

weft_status hf_apply(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
{
    return RULES[row->rule](r, row, value);
}
