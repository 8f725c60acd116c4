/* rule_text.c - evaluates texts and conditions of rules with the values of a row (sources.h).
 *
 *   text       = characters, {value}
 *   value      = product | product ...      the first that is given and not 0; else the last
 *   product    = factor * factor / factor   from left to right, in whole numbers
 *   factor     = COLUMN, --ARGUMENT or a whole number
 *   condition  = product: >N, <N or a shell pattern
 */
#include <fnmatch.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "lab/published_read.h"

/* A part of a text. */
struct rule_piece {
    const char *at;
    size_t len;
};

static struct rule_piece take_until(struct rule_piece *rest, const char *ends)
{
    size_t len = 0;
    while (len < rest->len && !strchr(ends, rest->at[len]))
        len++;
    struct rule_piece taken = {rest->at, len};
    rest->at += len;
    rest->len -= len;
    return taken;
}

static bool is_number(struct rule_piece p)
{
    size_t digits = 0;
    while (digits < p.len && p.at[digits] >= '0' && p.at[digits] <= '9')
        digits++;
    return digits > 0 && digits == p.len;
}

static bool is_argument(struct rule_piece p)
{
    return p.len > 2 && strncmp(p.at, "--", 2) == 0;
}

static int column_of(const struct form *form, struct rule_piece p)
{
    for (size_t i = 0; i < form->columns; i++)
        if (strlen(form->column[i].name) == p.len &&
            strncmp(form->column[i].name, p.at, p.len) == 0)
            return (int)i;
    return -1;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const char *argument_text(struct arena *keep, const struct run_row *run, struct rule_piece p)
{
    const json_t *value =
        json_object_get(run->arguments, arena_copy_bytes(keep, p.at + 2, p.len - 2));
    if (json_is_string(value))
        return json_string_value(value);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    const char *copy = text ? arena_copy_text(keep, text) : "";
    free(text);
    return copy;
}

static const char *factor_text(struct arena *keep, const struct run_row *run, struct rule_piece p)
{
    if (is_number(p))
        return arena_copy_bytes(keep, p.at, p.len);
    if (is_argument(p))
        return argument_text(keep, run, p);
    return run->csv->field[run->at[column_of(run->form, p)]]; /* I2 */
}

static int64_t factor_number(struct arena *keep, const struct run_row *run, struct rule_piece p)
{
    int64_t value;
    return parse_int(factor_text(keep, run, p), &value) ? value : 0;
}

/* A result that is too large, or a division by 0, is 0. */
static int64_t combine(int64_t left, char sign, int64_t right)
{
    int64_t product;
    if (sign == '*')
        return __builtin_mul_overflow(left, right, &product) ? 0 : product;
    return right > 0 ? left / right : 0;
}

static const char *product_text(struct arena *keep, const struct run_row *run, struct rule_piece p)
{
    struct rule_piece factor = take_until(&p, "*/");
    if (!p.len)
        return factor_text(keep, run, factor);
    int64_t value = factor_number(keep, run, factor);
    while (p.len) {
        char sign = *p.at++;
        p.len--;
        value = combine(value, sign, factor_number(keep, run, take_until(&p, "*/")));
    }
    return arena_printf(keep, "%lld", (long long)value);
}

static const char *value_text(struct arena *keep, const struct run_row *run, struct rule_piece p)
{
    for (;;) {
        const char *text = product_text(keep, run, take_until(&p, "|"));
        if (!p.len || (*text && strcmp(text, "0") != 0))
            return text;
        p.at++;
        p.len--;
    }
}

const char *run_row_fill(struct arena *keep, const struct run_row *run, const char *text)
{
    struct rule_piece rest = {text, strlen(text)};
    const char *out = "";
    for (;;) {
        struct rule_piece plain = take_until(&rest, "{");
        out = arena_printf(keep, "%s%.*s", out, (int)plain.len, plain.at);
        if (!rest.len)
            return out;
        rest.at++;
        rest.len--;
        out = arena_printf(keep, "%s%s", out, value_text(keep, run, take_until(&rest, "}")));
        rest.at++; /* which is there, by I2 */
        rest.len--;
    }
}

/* ---- conditions ------------------------------------------------------------------------------ */

static bool is_bound(const char *pattern, int64_t *bound)
{
    return (*pattern == '<' || *pattern == '>') && parse_int(pattern + 1, bound);
}

static bool matches(const char *text, const char *pattern)
{
    int64_t bound, value;
    if (!is_bound(pattern, &bound))
        return fnmatch(pattern, text, FNM_EXTMATCH) == 0;
    value = parse_int(text, &value) ? value : 0;
    return *pattern == '<' ? value < bound : value > bound;
}

bool run_row_is(struct arena *keep, const struct run_row *run, const struct doc *when)
{
    for (const struct doc *one = when ? when->first : NULL; one; one = one->next) {
        struct rule_piece key = {one->key, strlen(one->key)};
        if (!matches(product_text(keep, run, key), one->text))
            return false;
    }
    return true;
}

/* ---- checking (I2) --------------------------------------------------------------------------- */

static weft_status check_names(const struct form *form, const struct doc *node, struct rule_piece p)
{
    for (;;) {
        struct rule_piece factor = take_until(&p, "*/|");
        if (!is_number(factor) && !is_argument(factor) && column_of(form, factor) < 0)
            return doc_error(node, "a column of the file, or a launch argument such as --spec",
                             "'%s' names '%.*s', which is no column of files of the form %s",
                             node->key ? node->key : "when", (int)factor.len, factor.at,
                             form->name);
        if (!p.len)
            return WEFT_OK;
        p.at++;
        p.len--;
    }
}

weft_status text_check(const struct form *form, const struct doc *node)
{
    struct rule_piece rest = {node->text, strlen(node->text)};
    weft_status status = WEFT_OK;
    for (take_until(&rest, "{"); rest.len; take_until(&rest, "{")) {
        rest.at++;
        rest.len--;
        struct rule_piece value = take_until(&rest, "}");
        if (!rest.len)
            return doc_error(node, NULL, "'%s' has a { without its }", node->key);
        rest.at++;
        rest.len--;
        TRY(check_names(form, node, value));
    }
done:
    return status;
}

weft_status when_check(const struct form *form, const struct doc *when)
{
    weft_status status = WEFT_OK;
    if (when->kind != DOC_MAP)
        return doc_error(when, NULL, "'when' is %s, expected columns and their patterns",
                         doc_kind_name(when->kind));
    for (const struct doc *one = when->first; one; one = one->next) {
        if (one->kind == DOC_LIST || one->kind == DOC_MAP || one->kind == DOC_NULL)
            return doc_error(one, "\"\" is a field without text", "'%s' is %s, expected a pattern",
                             one->key, doc_kind_name(one->kind));
        TRY(check_names(form, one, (struct rule_piece){one->key, strlen(one->key)}));
    }
done:
    return status;
}
