/* doc.c - from text to the tree: libyaml's events for YAML, jansson for JSON. */
#include "base/base.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

static struct doc *new_node(struct arena *keep, const char *file, int line, enum doc_kind kind)
{
    struct doc *node = ARENA_NEW(keep, struct doc);
    *node = (struct doc){.kind = kind, .line = line, .file = file, .text = ""};
    return node;
}

static weft_status too_many_nodes(const char *file, int line)
{
    return bad_input(file, line, NULL, "holds more than the %d values that Weft reads",
                     DOC_MAX_NODES);
}

static weft_status too_deep(const char *file, int line)
{
    return bad_input(file, line, NULL, "is nested deeper than the %d levels that Weft reads",
                     DOC_MAX_DEPTH);
}

static void append_child(struct doc *parent, struct doc **last, struct doc *child)
{
    if (*last)
        (*last)->next = child;
    else
        parent->first = child;
    *last = child;
    parent->count++;
}

const struct doc *doc_get(const struct doc *map, const char *key)
{
    if (!map || map->kind != DOC_MAP)
        return NULL;
    for (const struct doc *child = map->first; child; child = child->next)
        if (strcmp(child->key, key) == 0)
            return child;
    return NULL;
}

/* ---- YAML ------------------------------------------------------------------------------------ */

struct yaml_source {
    yaml_parser_t parser;
    struct arena *keep;
    const char *file, *text;
    size_t nodes;
};

/* The line of a byte offset: libyaml gives no mark for bytes that are not valid text. */
static int line_of(const char *text, size_t offset)
{
    int line = 1;
    for (size_t i = 0; i < offset; i++)
        line += text[i] == '\n';
    return line;
}

static weft_status next_event(struct yaml_source *source, yaml_event_t *event)
{
    if (yaml_parser_parse(&source->parser, event))
        return WEFT_OK;
    const yaml_parser_t *p = &source->parser;
    const char *problem = p->problem ? p->problem : "unreadable";
    if (p->error == YAML_READER_ERROR)
        return bad_input(source->file, line_of(source->text, p->problem_offset),
                         "save it as UTF-8 text", "is not text: %s", problem);
    return bad_input(source->file, (int)p->problem_mark.line + 1,
                     "check the indentation and the quotes around here", "is not valid YAML: %s",
                     problem);
}

/* The kind of a scalar: plain ones may be numbers or booleans, quoted ones are always text. */
static enum doc_kind scalar_kind(const char *text, bool plain)
{
    double number;
    if (!plain)
        return DOC_TEXT;
    if (*text == '\0' || strcmp(text, "null") == 0 || strcmp(text, "~") == 0)
        return DOC_NULL;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return DOC_BOOL;
    return parse_real(text, &number) ? DOC_NUMBER : DOC_TEXT;
}

static weft_status yaml_node(struct yaml_source *source, yaml_event_t *event, int depth,
                             struct doc **out);

/* `seen` maps the keys read so far to their lines. */
static weft_status yaml_key(struct yaml_source *source, const yaml_event_t *event,
                            struct map **seen, const char **out)
{
    int line = (int)event->start_mark.line + 1;
    int64_t older;
    if (event->type != YAML_SCALAR_EVENT)
        return bad_input(source->file, line, NULL, "expected a key, found a nested value");
    const char *key = arena_copy_bytes(source->keep, (const char *)event->data.scalar.value,
                                       event->data.scalar.length);
    if (!*seen)
        *seen = map_new(source->keep);
    if (map_get(*seen, key, &older))
        return bad_input(source->file, line, "keep one of the two",
                         "'%s' appears twice, first in line %d", key, (int)older);
    map_put(*seen, key, line);
    *out = key;
    return WEFT_OK;
}

static void delete_event(void *event)
{
    yaml_event_delete(event);
}

static void delete_parser(void *parser)
{
    yaml_parser_delete(parser);
}

/* The children of a list or mapping, up to its closing event. */
static weft_status yaml_children(struct yaml_source *source, struct doc *parent,
                                 yaml_event_type_t end, int depth)
{
    weft_status status = WEFT_OK;
    struct doc *last = NULL;
    struct map *seen = NULL;
    yaml_event_t event = {0};
    struct hold hold;
    if (depth >= DOC_MAX_DEPTH)
        return too_deep(source->file, parent->line);
    hold_push(&hold, delete_event, &event);
    for (;;) {
        struct doc *child = NULL;
        const char *key = NULL;
        TRY(next_event(source, &event));
        int line = (int)event.start_mark.line + 1;
        if (event.type == end)
            goto done;
        if (parent->kind == DOC_MAP) {
            TRY(yaml_key(source, &event, &seen, &key));
            yaml_event_delete(&event);
            TRY(next_event(source, &event));
        }
        TRY(yaml_node(source, &event, depth + 1, &child));
        yaml_event_delete(&event);
        child->key = key;
        if (key)
            child->line = line;
        append_child(parent, &last, child);
    }
done:
    hold_pop(&hold);
    yaml_event_delete(&event);
    return status;
}

static weft_status yaml_node(struct yaml_source *source, yaml_event_t *event, int depth,
                             struct doc **out)
{
    int line = (int)event->start_mark.line + 1;
    if (++source->nodes > DOC_MAX_NODES)
        return too_many_nodes(source->file, line);
    switch (event->type) {
    case YAML_SCALAR_EVENT: {
        bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        const char *text = arena_copy_bytes(source->keep, (const char *)event->data.scalar.value,
                                            event->data.scalar.length);
        *out = new_node(source->keep, source->file, line, scalar_kind(text, plain));
        (*out)->text = text;
        return WEFT_OK;
    }
    case YAML_SEQUENCE_START_EVENT:
        *out = new_node(source->keep, source->file, line, DOC_LIST);
        return yaml_children(source, *out, YAML_SEQUENCE_END_EVENT, depth);
    case YAML_MAPPING_START_EVENT:
        *out = new_node(source->keep, source->file, line, DOC_MAP);
        return yaml_children(source, *out, YAML_MAPPING_END_EVENT, depth);
    case YAML_ALIAS_EVENT:
        return bad_input(source->file, line, "write the value out",
                         "uses a YAML alias (*%s), which Weft does not read",
                         (const char *)event->data.alias.anchor);
    default:
        return bad_input(source->file, line, NULL, "is empty, expected a mapping");
    }
}

static weft_status yaml_parse(struct arena *keep, const char *file, const char *text, size_t len,
                              struct doc **out)
{
    weft_status status = WEFT_OK;
    struct yaml_source source = {.keep = keep, .file = file, .text = text};
    yaml_event_t event = {0};
    struct hold hold, hold_event;
    if (!yaml_parser_initialize(&source.parser))
        return failure("libyaml could not start");
    hold_push(&hold, delete_parser, &source.parser);
    hold_push(&hold_event, delete_event, &event);
    yaml_parser_set_input_string(&source.parser, (const unsigned char *)text, len);
    do { /* the starts of the stream and of the document come before the root */
        yaml_event_delete(&event);
        TRY(next_event(&source, &event));
    } while (event.type == YAML_STREAM_START_EVENT || event.type == YAML_DOCUMENT_START_EVENT);
    TRY(yaml_node(&source, &event, 0, out));
    do {
        yaml_event_delete(&event);
        TRY(next_event(&source, &event));
    } while (event.type == YAML_DOCUMENT_END_EVENT);
    if (event.type != YAML_STREAM_END_EVENT)
        status = bad_input(file, (int)event.start_mark.line + 1, "split the file",
                           "starts a second YAML document, expected one");
done:
    hold_pop(&hold_event);
    hold_pop(&hold);
    yaml_event_delete(&event);
    yaml_parser_delete(&source.parser);
    return status;
}

/* ---- JSON ---------------------------------------------------------------------------------------
 * jansson checks the syntax but keeps no lines. It keeps the order of keys, so a scanner that walks
 * the text in step with the tree supplies them. */

struct json_source {
    struct arena *keep;
    const char *file;
    const char *at; /* the scanner's position: the text before it has been walked */
    int line;
    size_t nodes;
};

/* Skips white space and separators up to the next key, value or closing bracket; returns its
 * line. */
static int json_next(struct json_source *source)
{
    for (; *source->at && strchr(" \t\r\n,:", *source->at); source->at++)
        source->line += *source->at == '\n';
    return source->line;
}

/* Skips one string, number or word. */
static void json_skip_scalar(struct json_source *source)
{
    const char *at = source->at;
    if (*at != '"') {
        source->at = at + strcspn(at, " \t\r\n,]}");
        return;
    }
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1])
            at++;
    source->at = *at ? at + 1 : at;
}

/* The length of a word here that stands for a number that is not finite (I4); 0: there is none. */
static size_t not_finite(const char *at)
{
    static const char *const WORDS[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < COUNT_OF(WORDS); i++)
        if (strncmp(at, WORDS[i], strlen(WORDS[i])) == 0)
            return strlen(WORDS[i]);
    return 0;
}

/* A copy of the text of equal length in which each such word is replaced by 0 and blanks, since
 * jansson refuses them. A word is replaced only where a value may begin; anywhere else jansson
 * refuses it. */
static char *with_finite_numbers(struct arena *keep, const char *text, size_t len)
{
    char *copy = arena_copy_bytes(keep, text, len), before = '[';
    bool quoted = false;
    for (char *at = copy; *at; at++) {
        size_t word = quoted || !strchr("[:,", before) ? 0 : not_finite(at);
        if (word) {
            memset(at, ' ', word);
            *at = '0';
            at += word - 1;
        } else if (quoted && *at == '\\' && at[1]) {
            at++;
        } else if (*at == '"') {
            quoted = !quoted;
        }
        if (!strchr(" \t\r\n", *at) || word)
            before = word ? '0' : *at;
    }
    return copy;
}

static enum doc_kind json_kind(const json_t *value)
{
    static const enum doc_kind KINDS[] = {
        [JSON_OBJECT] = DOC_MAP,     [JSON_ARRAY] = DOC_LIST,  [JSON_STRING] = DOC_TEXT,
        [JSON_INTEGER] = DOC_NUMBER, [JSON_REAL] = DOC_NUMBER, [JSON_TRUE] = DOC_BOOL,
        [JSON_FALSE] = DOC_BOOL,     [JSON_NULL] = DOC_NULL,
    };
    return KINDS[json_typeof(value)];
}

static const char *json_text(struct arena *keep, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return arena_copy_text(keep, json_string_value(value));
    case JSON_INTEGER:
        return arena_printf(keep, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    case JSON_REAL:
        return arena_printf(keep, "%.17g", json_real_value(value));
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    default:
        return "";
    }
}

static weft_status json_node(struct json_source *source, json_t *value, int depth,
                             struct doc **out);

static weft_status json_children(struct json_source *source, json_t *value, int depth,
                                 struct doc *node)
{
    weft_status status = WEFT_OK;
    struct doc *last = NULL, *child;
    const char *key;
    json_t *item;
    json_object_foreach(value, key, item)
    {
        int line = json_next(source);
        json_skip_scalar(source);
        TRY(json_node(source, item, depth + 1, &child));
        child->key = arena_copy_text(source->keep, key);
        child->line = line; /* I1 */
        append_child(node, &last, child);
    }
    size_t i;
    json_array_foreach(value, i, item)
    {
        TRY(json_node(source, item, depth + 1, &child));
        append_child(node, &last, child);
    }
    json_next(source);
    source->at++; /* the closing bracket */
done:
    return status;
}

static weft_status json_node(struct json_source *source, json_t *value, int depth, struct doc **out)
{
    int line = json_next(source);
    struct doc *node = new_node(source->keep, source->file, line, json_kind(value));
    *out = node;
    if (++source->nodes > DOC_MAX_NODES)
        return too_many_nodes(source->file, line);
    if (depth >= DOC_MAX_DEPTH)
        return too_deep(source->file, line);
    size_t word = node->kind == DOC_NUMBER ? not_finite(source->at) : 0;
    node->text =
        word ? arena_copy_bytes(source->keep, source->at, word) : json_text(source->keep, value);
    if (node->kind != DOC_MAP && node->kind != DOC_LIST) {
        json_skip_scalar(source);
        return WEFT_OK;
    }
    source->at++; /* the opening bracket */
    return json_children(source, value, depth, node);
}

static void forget_json(void *json)
{
    json_decref(json);
}

static weft_status json_parse(struct arena *keep, const char *file, const char *text, size_t len,
                              struct doc **out)
{
    if (len >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        return bad_input(file, 1, "save it as UTF-8 text", "is UTF-16, expected UTF-8");
    size_t mark = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* of UTF-8 */
    json_error_t error;
    const char *finite = with_finite_numbers(keep, text + mark, len - mark);
    json_t *root = json_loadb(finite, len - mark, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return bad_input(file, error.line > 0 ? error.line : 1, NULL, "is not valid JSON: %s",
                         error.text);
    struct hold hold;
    hold_push(&hold, forget_json, root);
    char *copy = arena_copy_bytes(keep, text + mark, len - mark); /* its end is marked by NUL */
    struct json_source source = {.keep = keep, .file = file, .at = copy, .line = 1};
    weft_status status = json_node(&source, root, 0, out);
    hold_pop(&hold);
    json_decref(root);
    return status;
}

/* ---- either ---------------------------------------------------------------------------------- */

weft_status doc_parse(struct arena *keep, const char *name, const char *text, size_t len,
                      enum doc_format format, struct doc **out)
{
    const char *file = arena_copy_text(keep, name);
    return format == DOC_JSON ? json_parse(keep, file, text, len, out)
                              : yaml_parse(keep, file, text, len, out);
}

weft_status doc_load(struct arena *keep, const char *path, struct doc **out)
{
    char *text;
    size_t len, path_len = strlen(path);
    weft_status status = file_read(keep, path, DOC_MAX_BYTES, &text, &len);
    if (status)
        return status;
    bool json = path_len > 5 && strcmp(path + path_len - 5, ".json") == 0;
    return doc_parse(keep, path, text, len, json ? DOC_JSON : DOC_YAML, out);
}
