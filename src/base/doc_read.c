/* doc_read.c - reads a mapping into a struct by a table of fields: the one strict reader for all
 * files. */
#include "base/base.h"

#include <math.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

const char *doc_kind_name(enum doc_kind kind)
{
    static const char *const NAMES[] = {
        [DOC_NULL] = "nothing", [DOC_BOOL] = "true or false", [DOC_NUMBER] = "a number",
        [DOC_TEXT] = "text",    [DOC_LIST] = "a list",        [DOC_MAP] = "a mapping",
    };
    return NAMES[kind];
}

weft_status doc_error(const struct doc *node, const char *hint, const char *fmt, ...)
{
    char what[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (!node)
        return bad_argument(hint, "%s", what);
    return bad_input(node->file, node->line, hint, "%s", what);
}

static bool read_int(const struct doc *node, void *out)
{
    return node->kind == DOC_NUMBER && parse_int(node->text, out);
}

static bool read_count(const struct doc *node, void *out)
{
    int64_t value;
    if (!read_int(node, &value) || value < 1)
        return false;
    *(int64_t *)out = value;
    return true;
}

static bool read_real(const struct doc *node, void *out)
{
    return node->kind == DOC_NUMBER && parse_real(node->text, out);
}

static bool read_bool(const struct doc *node, void *out)
{
    *(bool *)out = strcmp(node->text, "true") == 0;
    return node->kind == DOC_BOOL;
}

static bool read_lines(const struct doc *node, void *out)
{
    *(const char **)out = node->text;
    return node->kind == DOC_TEXT || node->kind == DOC_NUMBER || node->kind == DOC_BOOL;
}

static bool read_text(const struct doc *node, void *out)
{
    return read_lines(node, out) && text_is_plain(node->text);
}

static bool is_scalar(const struct doc *node)
{
    return node->kind == DOC_TEXT || node->kind == DOC_NUMBER;
}

static bool read_bytes(const struct doc *node, void *out)
{
    return is_scalar(node) && parse_bytes(node->text, out) && *(int64_t *)out >= 0;
}

static bool read_rate(const struct doc *node, void *out)
{
    return is_scalar(node) && parse_rate(node->text, out) && *(double *)out >= 0;
}

static bool read_duration(const struct doc *node, void *out)
{
    return is_scalar(node) && parse_duration(node->text, out) && *(int64_t *)out >= 0;
}

static bool read_doc(const struct doc *node, void *out)
{
    *(const struct doc **)out = node;
    return true;
}

/* FIELD_CHOICE is read separately, because it needs the field's words. */
static const struct {
    const char *expected;
    bool (*read)(const struct doc *node, void *out);
    size_t size;
} TYPES[] = {
    [FIELD_COUNT] = {"a whole number of at least 1", read_count, sizeof(int64_t)},
    [FIELD_INT] = {"a whole number", read_int, sizeof(int64_t)},
    [FIELD_REAL] = {"a number", read_real, sizeof(double)},
    [FIELD_BOOL] = {"true or false", read_bool, sizeof(bool)},
    [FIELD_TEXT] = {"text", read_text, sizeof(const char *)},
    [FIELD_LINES] = {"text", read_lines, sizeof(const char *)},
    [FIELD_BYTES] = {"a size such as 80GiB", read_bytes, sizeof(int64_t)},
    [FIELD_RATE] = {"a rate such as 25GB/s or 100Gb/s", read_rate, sizeof(double)},
    [FIELD_DURATION] = {"a duration such as 5us", read_duration, sizeof(int64_t)},
    [FIELD_CHOICE] = {"a word", NULL, sizeof(int)},
    [FIELD_DOC] = {"a value", read_doc, sizeof(const struct doc *)},
};
_Static_assert(COUNT_OF(TYPES) == FIELD_TYPE_COUNT, "a field type without a row");

static weft_status wrong_value(const struct doc *node, const char *expected)
{
    const char *key = node->key ? node->key : "the value";
    bool plain = text_is_plain(node->text);
    if (is_scalar(node) || node->kind == DOC_BOOL)
        return doc_error(node, NULL, "'%s' is '%.60s'%s, expected %s", key, node->text,
                         plain ? "" : " with a control character", expected);
    return doc_error(node, NULL, "'%s' is %s, expected %s", key, doc_kind_name(node->kind),
                     expected);
}

weft_status doc_scalar(const struct doc *node, enum field_type type, void *out)
{
    return TYPES[type].read(node, out) ? WEFT_OK : wrong_value(node, TYPES[type].expected);
}

static weft_status read_choice(const struct doc *node, const struct field *field, void *out)
{
    char all[512] = "one of";
    size_t count = 0;
    for (; field->choices[count]; count++) {
        if (is_scalar(node) && strcmp(field->choices[count], node->text) == 0) {
            *(int *)out = (int)count;
            return WEFT_OK;
        }
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s %s", count ? "," : "", field->choices[count]);
    }
    weft_status status = wrong_value(node, all);
    hint_near(is_scalar(node) ? nearest_word(node->text, field->choices, count) : NULL);
    return status;
}

static double number_at(const struct field *field, const char *at)
{
    double real;
    int64_t whole;
    if (field->type == FIELD_REAL || field->type == FIELD_RATE) {
        memcpy(&real, at, sizeof real);
        return real;
    }
    memcpy(&whole, at, sizeof whole);
    return (double)whole;
}

/* The range of a number of each type when its field gives no narrower one (I5), and how its limits
 * are shown. */
static const struct {
    const char *what;
    struct text32 (*show)(double value);
    double min, max;
} RANGES[FIELD_TYPE_COUNT] = {
    [FIELD_COUNT] = {"a number", NULL, 1, 0x1p53}, /* counts also become doubles */
    [FIELD_INT] = {"a number", NULL, -0x1p63, 0x1p63},
    [FIELD_REAL] = {"a number", NULL, -1e18, 1e18},    /* far below what overflows in a product */
    [FIELD_BYTES] = {"a size", show_bytes, 0, 0x1p50}, /* 1 PiB: no device, no host has more */
    /* a larger value is a typing error, not a wire */
    [FIELD_RATE] = {"a rate", show_rate, 1, 1e15},
    /* 1 s, as the latency of a message or of a kernel's start */
    [FIELD_DURATION] = {"a duration", show_duration, 0, 1e9},
};

static struct text32 show_limit(enum field_type type, double value)
{
    struct text32 text;
    if (RANGES[type].show)
        return RANGES[type].show(value);
    snprintf(text.s, sizeof text.s, "%.12g", value);
    return text;
}

static weft_status check_range(const struct doc *node, const struct field *field, const char *at)
{
    bool own = field->min != 0 || field->max != 0;
    double least = own ? field->min : RANGES[field->type].min;
    double most = own ? field->max : RANGES[field->type].max;
    if (!RANGES[field->type].what)
        return WEFT_OK;
    double value = number_at(field, at);
    if (value >= least && value <= most)
        return WEFT_OK;
    return doc_error(node, NULL, "'%s' is %s, expected %s from %s to %s", node->key, node->text,
                     RANGES[field->type].what, show_limit(field->type, least).s,
                     show_limit(field->type, most).s);
}

static weft_status read_field(const struct doc *node, const struct field *field, void *out)
{
    char *at = (char *)out + field->offset;
    if (field->type == FIELD_CHOICE)
        return read_choice(node, field, at);
    alignas(int64_t) char value[sizeof(int64_t)] = {0};
    if (!TYPES[field->type].read(node, value))
        return wrong_value(node, field->expected ? field->expected : TYPES[field->type].expected);
    weft_status status = check_range(node, field, value);
    if (status == WEFT_OK)
        memcpy(at, value, TYPES[field->type].size);
    return status;
}

static const struct field *find_field(const struct field *fields, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].key, key) == 0)
            return &fields[i];
    return NULL;
}

static weft_status unknown_key(const struct doc *node, const struct field *fields, size_t count)
{
    enum { MOST = 256 };
    const char *keys[MOST];
    size_t known = count < MOST ? count : MOST;
    for (size_t i = 0; i < known; i++)
        keys[i] = fields[i].key;
    weft_status status = doc_error(node, NULL, "'%s' is not a known key here", node->key);
    const char *near = nearest_word(node->key, keys, known);
    if (near) {
        error_hint("did you mean '%s'?", near);
        return status;
    }
    char all[ERROR_HINT_BYTES - sizeof "known keys: , ..."] = "";
    size_t shown = 0, used = 0;
    for (; shown < known && used + strlen(keys[shown]) + 2 < sizeof all; shown++)
        used +=
            (size_t)snprintf(all + used, sizeof all - used, "%s%s", shown ? ", " : "", keys[shown]);
    error_hint("known keys: %s%s", all, shown < known ? ", ..." : "");
    return status;
}

weft_status doc_read(const struct doc *map, const struct field *fields, size_t count,
                     enum doc_unknown unknown, void *out)
{
    if (map->kind != DOC_MAP)
        return wrong_value(map, "a mapping of keys to values");
    for (const struct doc *child = map->first; child; child = child->next) {
        const struct field *field = find_field(fields, count, child->key);
        weft_status status = WEFT_OK;
        if (field && child->kind == DOC_NULL && !field->required)
            continue; /* an explicit null keeps the default */
        if (field)
            status = read_field(child, field, out);
        else if (unknown == DOC_REFUSE_UNKNOWN)
            status = unknown_key(child, fields, count);
        if (status)
            return status;
    }
    for (size_t i = 0; i < count; i++)
        if (fields[i].required && !doc_get(map, fields[i].key))
            return doc_error(map, NULL, "'%s' is missing, expected %s", fields[i].key,
                             fields[i].expected ? fields[i].expected
                                                : TYPES[fields[i].type].expected);
    return WEFT_OK;
}
