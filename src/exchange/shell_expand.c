/* shell_expand.c - what stands for $NAME, ${NAME:-word}, $((sum)) and $(command) in a script.
 *
 *   ${NAME}        its value                    ${NAME[@]}    the elements of an array
 *   ${NAME:-word}  word, if it is not set       ${NAME:=word} the same, and sets it
 *   ${NAME:+word}  word, if it is set           ${NAME:?word} its value
 *
 * Without the colon, what is set to nothing counts as set. What is not known here stays as it is written, in doubt.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "exchange/shell_room.h"

enum { DEEPEST = 32 };

/* ---- what an expansion leaves in a word ------------------------------------------------------- */

/* Outside of quotes blanks in a value separate words, as elements of an array do: ARGS="--num-layers 24 --bf16". */
static void put_text(struct shell_reader *r, struct open_word *word, const struct shell_text *text,
                     bool whole, bool elements)
{
    size_t name;
    bool one = r->whole || is_assignment(r, &word->text, &name);
    word->expanded = true;
    if (!values_expand(r->values, text->len)) {
        r->too_many = true;
        return;
    }
    for (size_t i = 0; i < text->len; i++) {
        struct shell_letter letter = text->data[i];
        bool parts = whole ? letter.parts && elements : isspace((unsigned char)letter.c) != 0;
        if (!one && parts) {
            end_word(r, word);
            word->expanded = true;
            continue;
        }
        array_push(r->scratch, &word->text, letter);
    }
}

/* What is written from `first` up to here, in doubt. */
static void put_written(struct shell_reader *r, struct open_word *word, const char *first,
                        const struct doubt *doubt)
{
    word->expanded = true;
    for (; first < r->next; first++)
        put_letter(r, word, *first, doubt);
}

static const struct doubt *doubt_of_name(struct shell_reader *r, const char *name)
{
    bool own = isdigit((unsigned char)*name) || *name == '@' || *name == '*' || *name == '#';
    return doubt_new(r->scratch, own ? DOUBT_ARGUMENT : DOUBT_UNSET, name, r->line);
}

/* ---- $(command), $((sum)) -------------------------------------------------------------------- */

/* Reads a sum up to its two parentheses, with what its expansions stand for. */
static void take_terms(struct shell_reader *r, struct open_word *terms)
{
    int open = 0;
    r->depth++;
    while (r->next < r->end && (open || !follows(r, "))"))) {
        open += *r->next == '(';
        open -= *r->next == ')';
        take_part(r, terms);
    }
    r->depth--;
    r->next += r->end - r->next < 2 ? r->end - r->next : 2;
}

/* The same with the values of variables that stand in it without a dollar sign. */
static struct shell_text with_values(struct shell_reader *r, const struct shell_text *terms)
{
    struct open_word out = {0};
    const char *plain = shell_plain(r->scratch, terms);
    for (size_t i = 0, len; i < terms->len; i += len) {
        for (len = 0; i + len < terms->len && in_name(plain[i + len]);)
            len++;
        if (!len || isdigit((unsigned char)plain[i]) || terms->data[i].doubt) {
            len = len ? len : 1;
            for (size_t k = 0; k < len; k++)
                array_push(r->scratch, &out.text, terms->data[i + k]);
            continue;
        }
        const char *name = arena_copy_bytes(r->scratch, plain + i, len);
        const struct shell_text *value = values_get(r->values, name);
        if (value)
            put_text(r, &out, value, true, false);
        else
            put_letter(r, &out, '?', doubt_of_name(r, name));
    }
    return out.text;
}

/* A sum with a term in doubt is in doubt. */
static void take_sum(struct shell_reader *r, struct open_word *word)
{
    const char *first = r->next;
    struct open_word terms = {0};
    char digits[24];
    int64_t value;
    bool outer = r->whole;
    r->next += strlen("$((");
    r->whole = true;
    take_terms(r, &terms);
    struct shell_text known = with_values(r, &terms.text);
    r->whole = outer;
    const struct doubt *doubt = shell_doubt(&known);
    word->expanded = true;
    if (doubt || !sum_value(shell_plain(r->scratch, &known), &value)) {
        doubt = doubt ? doubt : doubt_new(r->scratch, DOUBT_SUM, "", r->line);
        put_written(r, word, first, doubt);
        return;
    }
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    for (const char *at = digits; *at; at++)
        put_letter(r, word, *at, NULL);
}

static void take_output(struct shell_reader *r, struct open_word *word)
{
    const char *first = r->next++;
    if (*first == '$') {
        skip_parentheses(r);
    } else {
        const char *last = memchr(r->next, '`', (size_t)(r->end - r->next));
        for (last = last ? last + 1 : r->end; r->next < last; r->next++)
            r->line += *r->next == '\n';
    }
    put_written(r, word, first, doubt_new(r->scratch, DOUBT_OUTPUT, "", r->line));
}

/* ---- ${NAME} --------------------------------------------------------------------------------- */

/* Of letters that all stand for a variable that is not set, there is nothing. */
static bool is_nothing(const struct shell_text *text, bool colon)
{
    for (size_t i = 0; text && i < text->len; i++) {
        const struct doubt *doubt = text->data[i].doubt;
        if (!doubt || (doubt->kind != DOUBT_UNSET && doubt->kind != DOUBT_ARGUMENT))
            return false;
    }
    return !text || text->len || colon;
}

/* Reads up to the brace. */
static struct shell_text take_operand(struct shell_reader *r)
{
    struct open_word operand = {.line = r->line};
    bool outer = r->whole;
    r->whole = true;
    r->depth++;
    while (r->next < r->end && *r->next != '}')
        take_part(r, &operand);
    r->depth--;
    r->whole = outer;
    r->next += r->next < r->end;
    return operand.text;
}

static void skip_braces(struct shell_reader *r)
{
    int open = 0;
    do {
        open += *r->next == '{';
        open -= *r->next == '}';
        r->line += *r->next++ == '\n';
    } while (open && r->next < r->end);
}

struct braces {
    const char *first, *name;
    bool elements, colon;
    char sign; /* '}' where there is none */
};

/* Reads `${NAME`, `[@]`, `:` and the sign; false: it is none of these. */
static bool take_head(struct shell_reader *r, struct braces *b)
{
    b->first = r->next;
    const char *at = r->next + 2, *name = at;
    while (at < r->end && in_name(*at))
        at++;
    b->name = arena_copy_bytes(r->scratch, name, (size_t)(at - name));
    bool array = r->end - at >= 3 && *at == '[' && strchr("@*", at[1]) && at[2] == ']';
    b->elements = array && at[1] == '@';
    at += array ? 3 : 0;
    b->colon = at < r->end && *at == ':';
    at += b->colon;
    if (at >= r->end || name == at || !strchr(b->colon ? "-=+?" : "-=+?}", *at))
        return false;
    b->sign = *at;
    r->next = at + 1;
    return *b->name != '\0';
}

static void take_braced(struct shell_reader *r, struct open_word *word, bool quoted)
{
    static const struct shell_text EMPTY = {0};
    struct braces b = {0};
    if (r->depth >= DEEPEST || !take_head(r, &b)) {
        const char *first = r->next++;
        if (r->next < r->end)
            skip_braces(r);
        put_written(r, word, first, doubt_new(r->scratch, DOUBT_FORM, "", r->line));
        return;
    }
    const struct shell_text *value = values_get(r->values, b.name);
    struct shell_text operand = {0};
    bool nothing = is_nothing(value, b.colon);
    if (b.sign != '}')
        operand = take_operand(r);
    if (nothing && b.sign == '=')
        values_set(r->values, b.name, &operand, r->line);
    if (b.sign == '+')
        value = nothing ? &EMPTY : &operand;
    else if (nothing && (b.sign == '-' || b.sign == '='))
        value = &operand;
    if (value)
        put_text(r, word, value, quoted, b.elements);
    else
        put_written(r, word, b.first, doubt_of_name(r, b.name));
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void take_plain(struct shell_reader *r, struct open_word *word, bool quoted)
{
    const char *first = r->next++;
    while (r->next < r->end && in_name(*r->next) && !isdigit((unsigned char)first[1]))
        r->next++;
    if (r->next == first + 1 && r->next < r->end && (in_name(*r->next) || strchr("@*#?", *r->next)))
        r->next++;
    const char *name = arena_copy_bytes(r->scratch, first + 1, (size_t)(r->next - first) - 1);
    const struct shell_text *value = *name ? values_get(r->values, name) : NULL;
    if (value)
        put_text(r, word, value, quoted, false);
    else if (*name)
        put_written(r, word, first, doubt_of_name(r, name));
    else
        put_letter(r, word, *first, NULL);
}

void take_expansion(struct shell_reader *r, struct open_word *word, bool quoted)
{
    if (r->depth < DEEPEST && follows(r, "$(("))
        take_sum(r, word);
    else if (*r->next == '`' || follows(r, "$("))
        take_output(r, word);
    else if (follows(r, "${"))
        take_braced(r, word, quoted);
    else
        take_plain(r, word, quoted);
}
