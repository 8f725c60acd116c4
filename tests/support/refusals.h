/* refusals.h - golden refusals: broken inputs as text, each with the exact words it is answered with.
 *
 *   # A comment stands between cases.
 *   otherwise: docs/reference/cluster-file.md describes the format
 *
 *   >>> t.yaml
 *   base: dgx-a100
 *   nodes: 0
 *   <<< t.yaml:2: 'nodes' is '0', expected a whole number of at least 1
 *     = the hint
 *
 * Between >>> and <<< is the input, byte by byte; \t, \\ and \xHH are bytes that an editor would not
 * show, and \ at the end of a line leaves the line's end out. Where no hint is given, the one of the
 * line `otherwise:` is expected, or none; (none) is none. After >>> may also stand the words of a
 * command line (test_cli.c). */
#ifndef REFUSALS_H
#define REFUSALS_H

#include <string.h>

#include "base/base.h"

struct refusal {
    const char *golden; /* the file it stands in, and where */
    int line;
    const char *name; /* of the input */
    char *text;
    size_t len;
    const char *message, *hint; /* hint: NULL for none */
};
struct refusals {
    struct arena *arena;
    ARRAY(struct refusal) cases;
};

static inline char refusal_hex(const char *digits)
{
    const char text[] = {digits[0], digits[1], '\0'};
    return (char)strtol(text, NULL, 16);
}

/* One more line of an input. Written over the golden file's own text, which is never shorter. */
static inline void refusal_line(struct refusal *refusal, const char *line)
{
    for (const char *p = line; *p; p++) {
        char byte = *p;
        if (byte == '\\') {
            byte = *++p;
            if (byte == '\0')
                return;
            if (byte == 't')
                byte = '\t';
            if (byte == 'x') {
                byte = refusal_hex(p + 1);
                p += 2;
            }
        }
        refusal->text[refusal->len++] = byte;
    }
    refusal->text[refusal->len++] = '\n';
}

/* What stands after a mark at the start of a line; NULL where the line does not start so. */
static inline const char *refusal_behind(const char *line, const char *mark)
{
    size_t len = strlen(mark);
    return strncmp(line, mark, len) == 0 ? line + len : NULL;
}

static inline struct refusals refusals_read(const char *golden)
{
    struct refusals list = {.arena = arena_new()};
    struct refusal now = {0}; /* its name: NULL outside a case */
    const char *otherwise = NULL, *rest;
    char *text, *line;
    size_t len;
    if (file_read(list.arena, golden, 1 << 20, &text, &len))
        fail_msg("%s", weft_last_error()->message);
    for (int number = 1; (line = strsep(&text, "\n")); number++) {
        if (now.name && (rest = refusal_behind(line, "<<< "))) {
            now.text[now.len] = '\0';
            now.message = rest;
            now.hint = otherwise;
            array_push(list.arena, &list.cases, now);
            now.name = NULL;
        } else if (now.name) {
            refusal_line(&now, line);
        } else if ((rest = refusal_behind(line, ">>> "))) {
            now = (struct refusal){.golden = golden, .line = number, .name = rest, .text = text};
        } else if (list.cases.len && (rest = refusal_behind(line, "  = "))) {
            list.cases.data[list.cases.len - 1].hint = strcmp(rest, "(none)") ? rest : NULL;
        } else if ((rest = refusal_behind(line, "otherwise: "))) {
            otherwise = rest;
        } else if (*line && *line != '#') {
            fail_msg("%s:%d: neither a case nor a comment: %s", golden, number, line);
        }
    }
    if (now.name || list.cases.len == 0)
        fail_msg("%s ends within a case, or has none", golden);
    return list;
}

static inline const char *refusal_words(const char *text)
{
    return text ? text : "(none)";
}

/* Whether an input was refused in its words; says what is different where not. */
static inline bool refused_as_expected(const struct refusal *refusal, weft_status status)
{
    const weft_error *error = weft_last_error();
    const char *message = status ? error->message : "(taken for valid)";
    const char *hint = refusal_words(status ? error->hint : NULL);
    const char *expected = refusal_words(refusal->hint);
    if (status == WEFT_BAD_INPUT && error->status == status &&
        strcmp(message, refusal->message) == 0 && strcmp(hint, expected) == 0)
        return true;
    print_error("%s:%d: answered\n<<< %s\n  = %s\nexpected\n<<< %s\n  = %s\n", refusal->golden,
                refusal->line, message, hint, refusal->message, expected);
    return false;
}

/* Every case of a golden file of tests/data/refusals; all are tried before the test fails. */
static inline void expect_refusals(const char *file,
                                   weft_status (*reads)(const struct refusal *refusal))
{
    char golden[512];
    int failed = 0;
    snprintf(golden, sizeof golden, "%s/tests/data/refusals/%s", WEFT_SOURCE_DIR, file);
    struct refusals list = refusals_read(golden);
    for (size_t i = 0; i < list.cases.len; i++)
        failed += !refused_as_expected(&list.cases.data[i], reads(&list.cases.data[i]));
    arena_free(list.arena);
    assert_int_equal(failed, 0);
}

#endif
