/* test_facts_lines.c - what is known about sources, with one line at a time left out or with another value: which are refused,
 * and in which words, is held to a file.
 *
 *   data/lab/NAME.yaml    some of data/validation/NAME.yaml, a key on a line
 *   data/lab/lines.txt    held_lines.h; per line the hashes of four answers: without it and what is below it, and with a word, an
 *                         empty list and -1 for that. 0000 is a file that is taken
 *
 * The words of refusals are what is held; other tests say what is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "held_lines.h"
#include "lab/aceso_contest.h"
#include "lab/galvatron_facts.h"
#include "lab/published.h"

static const char FOLDER[] = WEFT_SOURCE_DIR "/tests/data/lab";
static const char *const VALUES[] = {"other", "[]", "-1"};

static weft_status read_facts_of(struct arena *scratch, const char *name, const char *text)
{
    const struct sources *sources;
    const struct contest_facts *contest;
    const struct galvatron_facts *galvatron;
    if (strcmp(name, "sources.yaml") == 0)
        return sources_parse(scratch, name, text, strlen(text), &sources);
    if (strcmp(name, "aceso.yaml") == 0)
        return contest_facts_parse(scratch, name, text, strlen(text), &contest);
    return galvatron_facts_parse(scratch, name, text, strlen(text), &galvatron);
}

static unsigned answer_to(const char *name, const char *text)
{
    struct arena *scratch = arena_new();
    uint64_t hash = 0;
    if (read_facts_of(scratch, name, text) != WEFT_OK) {
        hash = HASH_BEGIN;
        hash_text(&hash, weft_last_error()->message);
        if (weft_last_error()->hint)
            hash_text(&hash, weft_last_error()->hint);
    }
    error_clear();
    arena_free(scratch);
    return (unsigned)(hash >> 48);
}

/* Where a line and what is below it end: the lines that stand further in, and the list of a key. */
static const char *end_of(const char *line)
{
    size_t in = strspn(line, " -");
    const char *end = line + strcspn(line, "\n");
    for (bool below = end[-1] == ':'; below && *end;) {
        size_t next = strspn(end + 1, " ");
        below = next > in || (next == in && end[1 + next] == '-');
        end += below ? 1 + strcspn(end + 1, "\n") : 0;
    }
    return end;
}

/* The text with another line in place of the one that begins at `line`, and of what is below it. */
static const char *with_line(const char *text, const char *line, const char *other)
{
    return arena_printf(arena, "%.*s%s%s", (int)(line - text), text, other, end_of(line));
}

static const char *with_value(const char *line, int len, const char *value)
{
    const char *colon = memmem(line, (size_t)len, ": ", 2);
    int key = colon ? (int)(colon - line) + 1 : len;
    if (!colon && line[len - 1] != ':')
        key = (int)strspn(line, " -");
    return arena_printf(arena, "%.*s %s", key, line, value);
}

static const char *block_of(const char *name)
{
    char *text;
    size_t len;
    if (!strstr(name, ".yaml"))
        return NULL;
    const char *path = arena_printf(arena, "%s/%s", FOLDER, name);
    assert_int_equal(file_read(arena, path, 1 << 20, &text, &len), WEFT_OK);
    const char *block = arena_printf(arena, "# %s %04x\n", name, answer_to(name, text));
    int number = 1;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1, number++) {
        int own = (int)strcspn(line, "\n");
        if (*line == '#')
            continue;
        block = arena_printf(arena, "%s%d %.*s %04x", block, number, own, line,
                             answer_to(name, with_line(text, line, "")));
        for (size_t v = 0; v < COUNT_OF(VALUES); v++)
            block = arena_printf(
                arena, "%s %04x", block,
                answer_to(name, with_line(text, line, with_value(line, own, VALUES[v]))));
        block = arena_printf(arena, "%s\n", block);
    }
    return block;
}

static void lines_are_refused_as_they_were(void **state)
{
    (void)state;
    if (rounds_of(100) < 100)
        skip();
    assert_int_equal(hold_lines(FOLDER, WEFT_SOURCE_DIR "/tests/data/lab/lines.txt", block_of), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_are_refused_as_they_were)};
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
