/* toml.c - TOML, command lines and assignments of Python as a tree of mappings (toml.h).
 *
 *   value   "text"  'text'  12  1e-4  true  True  None  [value, ...]
 *
 *   I1  Values nest at most DEEPEST deep; what else TOML has (tables in lists, dates, inline tables) is refused.
 *   I2  A key that stands twice has its last value, as on a command line.
 */
#include "exchange/toml.h"

#include <ctype.h>
#include <string.h>

enum { DEEPEST = 8 };

struct toml_reader {
    struct arena *keep;
    const char *file, *next, *end;
    int line;
    struct doc *root;
};

static weft_status wrong(const struct toml_reader *r, const char *expected)
{
    return bad_input(r->file, r->line, NULL, "expected %s", expected);
}

static void skip_blanks(struct toml_reader *r, bool lines)
{
    while (r->next < r->end) {
        if (*r->next == '#')
            while (r->next < r->end && *r->next != '\n')
                r->next++;
        else if (*r->next == ' ' || *r->next == '\t' || *r->next == '\r')
            r->next++;
        else if (lines && *r->next == '\n')
            r->line++, r->next++;
        else
            return;
    }
}

static struct doc *new_node(struct toml_reader *r, enum doc_kind kind, const char *text)
{
    struct doc *node = ARENA_NEW(r->keep, struct doc);
    *node = (struct doc){.kind = kind, .line = r->line, .file = r->file, .text = text};
    return node;
}

static void add_child(struct doc *parent, struct doc *child)
{
    struct doc **last = &parent->first;
    while (*last)
        last = &(*last)->next;
    *last = child;
    parent->count++;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool in_key(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

static weft_status take_text(struct toml_reader *r, struct doc **out)
{
    char quote = *r->next++;
    const char *first = r->next;
    while (r->next < r->end && *r->next != quote && *r->next != '\n' &&
           (unsigned char)*r->next >= ' ')
        r->next += quote == '"' && *r->next == '\\' && r->next + 1 < r->end ? 2 : 1;
    if (r->next >= r->end || *r->next != quote)
        return wrong(r, "a quote at the end of the text");
    *out = new_node(r, DOC_TEXT, arena_copy_bytes(r->keep, first, (size_t)(r->next - first)));
    r->next++;
    return WEFT_OK;
}

/* A number, a truth value or nothing; TOML's underscores go. */
static struct doc *word_node(struct toml_reader *r, const char *word)
{
    static const struct {
        const char *word, *text;
        enum doc_kind kind;
    } WORDS[] = {{"true", "true", DOC_BOOL},   {"True", "true", DOC_BOOL},
                 {"false", "false", DOC_BOOL}, {"False", "false", DOC_BOOL},
                 {"None", "null", DOC_NULL},   {"null", "null", DOC_NULL}};
    double number;
    char *plain = arena_copy_text(r->keep, word), *to = plain;
    for (size_t i = 0; i < COUNT_OF(WORDS); i++)
        if (strcmp(WORDS[i].word, word) == 0)
            return new_node(r, WORDS[i].kind, WORDS[i].text);
    for (const char *c = word; *c; c++)
        if (*c != '_')
            *to++ = *c;
    *to = '\0';
    bool is_number = parse_real(plain, &number);
    return new_node(r, is_number ? DOC_NUMBER : DOC_TEXT, is_number ? plain : word);
}

static weft_status take_value(struct toml_reader *r, int depth, struct doc **out);

static weft_status take_list(struct toml_reader *r, int depth, struct doc **out)
{
    struct doc *list = new_node(r, DOC_LIST, ""), *item;
    r->next++;
    skip_blanks(r, true);
    while (r->next < r->end && *r->next != ']') {
        weft_status status = take_value(r, depth + 1, &item);
        if (status)
            return status;
        add_child(list, item);
        skip_blanks(r, true);
        if (r->next < r->end && *r->next == ',')
            r->next++;
        else if (r->next < r->end && *r->next != ']')
            return wrong(r, "a comma or the end of the list");
        skip_blanks(r, true);
    }
    if (r->next >= r->end)
        return wrong(r, "the end of the list");
    r->next++;
    *out = list;
    return WEFT_OK;
}

static weft_status take_value(struct toml_reader *r, int depth, struct doc **out)
{
    if (r->next < r->end && (*r->next == '"' || *r->next == '\''))
        return take_text(r, out);
    if (r->next < r->end && *r->next == '[')
        return depth < DEEPEST ? take_list(r, depth, out)
                               : wrong(r, "fewer lists in lists"); /* I1 */
    const char *first = r->next;
    while (r->next < r->end && (in_key(*r->next) || strchr("+.():", *r->next)))
        r->next++;
    if (r->next == first)
        return wrong(r, "a text, a number, true, false or a list");
    *out = word_node(r, arena_copy_bytes(r->keep, first, (size_t)(r->next - first)));
    return WEFT_OK;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static struct doc *child_named(const struct doc *map, const char *name)
{
    struct doc *child = map->first;
    while (child && strcmp(child->key, name) != 0)
        child = child->next;
    return child;
}

/* The mapping of this name within another, made if it is not there; NULL: something else has the name. */
static struct doc *section_in(struct toml_reader *r, struct doc *map, const char *name)
{
    struct doc *child = child_named(map, name);
    if (child)
        return child->kind == DOC_MAP ? child : NULL;
    child = new_node(r, DOC_MAP, "");
    child->key = name;
    add_child(map, child);
    return child;
}

/* Sets "a.b.c" in a mapping; dashes are underscores, as tyro has them. I2 */
static weft_status set_path(struct toml_reader *r, struct doc *map, const char *path, size_t len,
                            struct doc *value)
{
    char *rest = arena_copy_bytes(r->keep, path, len), *part = NULL;
    for (char *c = rest; *c; c++)
        *c = *c == '-' ? '_' : *c;
    while (map && (part = strsep(&rest, ".")) != NULL && rest)
        map = section_in(r, map, part);
    if (!map || !part || !*part)
        return bad_input(r->file, r->line, NULL, "'%.*s' is no key", (int)(len > 60 ? 60 : len),
                         path);
    struct doc *older = child_named(map, part);
    value->key = part;
    if (!older) {
        add_child(map, value);
        return WEFT_OK;
    }
    value->next = older->next;
    *older = *value;
    return WEFT_OK;
}

static void start(struct toml_reader *r, struct arena *keep, const struct import_input *input)
{
    *r = (struct toml_reader){.keep = keep,
                              .file = input->file,
                              .next = input->text,
                              .end = input->text + input->len,
                              .line = 1};
    r->root = new_node(r, DOC_MAP, "");
}

/* ---- TOML ------------------------------------------------------------------------------------ */

static weft_status take_header(struct toml_reader *r, struct doc **section)
{
    const char *first = ++r->next;
    while (r->next < r->end && (in_key(*r->next) || *r->next == '.'))
        r->next++;
    if (r->next == first || r->next >= r->end || *r->next != ']')
        return wrong(r, "the name of a section and ]");
    char *rest = arena_copy_bytes(r->keep, first, (size_t)(r->next - first)), *part;
    r->next++;
    *section = r->root;
    while (*section && (part = strsep(&rest, ".")) != NULL)
        *section = section_in(r, *section, part);
    return *section ? WEFT_OK : wrong(r, "a section that is no key");
}

/* key = value */
static weft_status take_pair(struct toml_reader *r, struct doc *section)
{
    struct doc *value;
    const char *first = r->next;
    while (r->next < r->end && (in_key(*r->next) || *r->next == '.'))
        r->next++;
    size_t len = (size_t)(r->next - first);
    skip_blanks(r, false);
    if (!len || r->next >= r->end || *r->next != '=')
        return wrong(r, "a key and =");
    r->next++;
    skip_blanks(r, false);
    weft_status status = take_value(r, 0, &value);
    return status ? status : set_path(r, section, first, len, value);
}

weft_status toml_read(struct arena *keep, const struct import_input *input, struct doc **out)
{
    struct toml_reader r;
    weft_status status = WEFT_OK;
    start(&r, keep, input);
    struct doc *section = r.root;
    for (skip_blanks(&r, true); r.next < r.end; skip_blanks(&r, true)) {
        if (*r.next == '[')
            TRY(take_header(&r, &section));
        else
            TRY(take_pair(&r, section));
        skip_blanks(&r, false);
        if (r.next < r.end && *r.next != '\n')
            TRY(wrong(&r, "the end of the line"));
    }
    *out = r.root;
done:
    return status;
}

/* ---- Python ---------------------------------------------------------------------------------- */

weft_status assignments_read(struct arena *keep, const struct import_input *input, struct doc **out)
{
    static const char CONFIG[] = "config.";
    struct toml_reader r;
    weft_status status = WEFT_OK;
    start(&r, keep, input);
    while (r.next < r.end) {
        skip_blanks(&r, true);
        if ((size_t)(r.end - r.next) > strlen(CONFIG) &&
            memcmp(r.next, CONFIG, strlen(CONFIG)) == 0) {
            r.next += strlen(CONFIG);
            TRY(take_pair(&r, r.root));
        }
        while (r.next < r.end && *r.next != '\n')
            r.next++;
    }
    *out = r.root;
done:
    return status;
}

/* ---- command lines --------------------------------------------------------------------------- */

/* The next word; quotes hold blanks together, a backslash at a line's end is a blank. */
static const char *take_word(struct toml_reader *r)
{
    struct {
        char *data;
        size_t len, cap;
    } word = {0};
    char quote = '\0';
    while (r->next < r->end && (isspace((unsigned char)*r->next) || *r->next == '\\'))
        r->line += *r->next++ == '\n';
    if (r->next >= r->end)
        return NULL;
    for (; r->next < r->end && (quote || !isspace((unsigned char)*r->next)); r->next++) {
        if (quote ? *r->next == quote : *r->next == '\'' || *r->next == '"')
            quote = quote ? '\0' : *r->next;
        else
            array_push(r->keep, &word, *r->next);
    }
    array_push(r->keep, &word, '\0');
    return word.data;
}

static bool is_option(const char *word)
{
    return word && strncmp(word, "--", 2) == 0 && in_key(word[2]);
}

/* A list in brackets, or one word. */
static weft_status option_value(struct toml_reader *r, const char *text, struct doc **out)
{
    struct toml_reader inside = *r;
    inside.next = text;
    inside.end = text + strlen(text);
    if (*text == '[')
        return take_list(&inside, 0, out);
    *out = word_node(r, text);
    return WEFT_OK;
}

weft_status options_read(struct arena *keep, const struct import_input *input, struct doc **out)
{
    struct toml_reader r;
    weft_status status = WEFT_OK;
    start(&r, keep, input);
    const char *word = take_word(&r), *next;
    for (; word; word = next) {
        next = take_word(&r);
        size_t len = strcspn(word, "=");
        bool named =
            is_option(word) && (memchr(word, '.', len) || strncmp(word, "--module", len) == 0 ||
                                strncmp(word, "--config", len) == 0);
        if (!named)
            continue;
        const char *text = word[len] ? word + len + 1 : !next || is_option(next) ? "true" : next;
        struct doc *value;
        TRY(option_value(&r, text, &value));
        TRY(set_path(&r, r.root, word + 2, len - 2, value));
    }
    *out = r.root;
done:
    return status;
}
