/* test_import_lines.c - every line of what Weft exports counts as it did when it is imported: each is left out, and has
 * its first number doubled, one at a time, and the plan that is read then, with its notes, or the error, is held to
 * a file.
 *
 *   data/import/lines.txt   held_lines.h; of a line two hashes, equal where it has no number
 *
 * A line that an earlier file has, too, is changed there only: so blocks depend on those before them, and with fewer
 * rounds none but the first is compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>

#include "exchange/exchange.h"
#include "held_lines.h"

static const char FOLDER[] = WEFT_SOURCE_DIR "/tests/data/export";
static const char FILE_NAME[] = WEFT_SOURCE_DIR "/tests/data/import/lines.txt";

/* A file that is read: who reads it, and its cluster, which its first line names. */
struct exported_file {
    const struct source *source;
    const char *name, *cluster;
    char *text;
    ARRAY(const char *) line;
};
static ARRAY(const char *) known; /* lines of files before */

static unsigned answer_to(const struct exported_file *w, const char *text)
{
    struct arena *scratch = arena_new();
    struct import_input input = {
        .file = w->name, .text = text, .len = strlen(text), .cluster = w->cluster};
    struct opened_plan opened = {0};
    struct texts notes = {0};
    uint64_t hash = HASH_BEGIN;
    if (w->source->read(scratch, &input, &opened, &notes) == WEFT_OK) {
        hash_text(&hash, plan_write(scratch, opened.plan));
        plan_close(&opened);
    } else {
        hash_text(&hash, weft_last_error()->message);
    }
    for (size_t i = 0; i < notes.len; i++)
        hash_text(&hash, notes.data[i]);
    arena_free(scratch);
    return (unsigned)(hash >> 48);
}

/* The file with another line `at`. */
static const char *with_line(const struct exported_file *w, size_t at, const char *line)
{
    size_t len = strlen(w->text) + strlen(line) + w->line.len + 1;
    char *text = arena_alloc(arena, len, 1), *end = text;
    for (size_t i = 0; i < w->line.len; i++)
        end += sprintf(end, "%s\n", i == at ? line : w->line.data[i]);
    return text;
}

static const char *with_twice_the_number(const char *line)
{
    size_t at = strcspn(line, " =");
    while (line[at] && !isdigit((unsigned char)line[at]))
        at++;
    if (!line[at])
        return "";
    char *end;
    double number = strtod(line + at, &end);
    return arena_printf(arena, "%.*s%.12g%s", (int)at, line, 2 * number, end);
}

static bool is_known(const char *line)
{
    for (size_t i = 0; i < known.len; i++)
        if (strcmp(known.data[i], line) == 0)
            return true;
    array_push(arena, &known, line);
    return false;
}

static bool open_exported(const char *name, struct exported_file *w)
{
    size_t len, end = strlen(name);
    bool arguments = end > 5 && strcmp(name + end - 5, ".args") == 0;
    *w = (struct exported_file){.name = name,
                                .source = source_find(arguments ? "megatron" : "torchtitan")};
    if (!arguments && !(end > 5 && strcmp(name + end - 5, ".toml") == 0))
        return false;
    const char *path = arena_printf(arena, "%s/%s", FOLDER, name);
    assert_int_equal(file_read(arena, path, 1 << 20, &w->text, &len), WEFT_OK);
    const char *on = strstr(w->text, " on ");
    assert_non_null(on);
    w->cluster = arena_printf(arena, "%.*s", (int)strcspn(on + 4, ".,\n"), on + 4);
    for (char *rest = arena_copy_text(arena, w->text), *line; (line = strsep(&rest, "\n"));)
        array_push(arena, &w->line, line);
    return true;
}

static const char *block_of(const char *name)
{
    struct exported_file w;
    if (!open_exported(name, &w))
        return NULL;
    const char *block = arena_printf(arena, "# %s %04x\n", name, answer_to(&w, w.text));
    for (size_t i = 0; i < w.line.len; i++) {
        const char *line = w.line.data[i] + strspn(w.line.data[i], " ");
        bool says = *line && (*line != '#' || strstr(line, "weft: "));
        if (!says || is_known(line))
            continue;
        unsigned without = answer_to(&w, with_line(&w, i, ""));
        const char *twice = with_twice_the_number(w.line.data[i]);
        unsigned other = *twice ? answer_to(&w, with_line(&w, i, twice)) : without;
        block = arena_printf(arena, "%s%s %04x %04x\n", block, line, without, other);
    }
    return block;
}

static void lines_count_as_they_did(void **state)
{
    (void)state;
    if (rounds_of(100) < 100)
        skip();
    assert_int_equal(hold_lines(FOLDER, FILE_NAME, block_of), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_count_as_they_did),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
