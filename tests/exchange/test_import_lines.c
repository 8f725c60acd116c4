/* test_import_lines.c - every line of what Weft exports counts as it did when it is imported: each is changed, one at a
 * time, and the plan that is read then, with its notes, or the error, is held to a file.
 *
 *   data/import/lines.txt     held_lines.h; arguments and TOML: a hash of each line left out, and with twice its number
 *   data/import/amounts.txt   the same files: with 0 for its number, and with one more in its list
 *   data/import/json.txt      JSON of DeepSpeed, Galvatron and Aceso: all four
 *
 * A hash is that of the line left out where a change is none. A line that an earlier file has, too, is changed there only: so
 * blocks depend on those before them, and with fewer rounds none but the first is compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>

#include "exchange/exchange.h"
#include "held_lines.h"

static const char FOLDER[] = WEFT_SOURCE_DIR "/tests/data/export";

/* A file that is read: who reads it, its cluster, and its model where it does not describe one. Comments on top say so, or
 * the command that predicts it. */
struct exported_file {
    const struct source *source;
    const char *name, *model, *cluster;
    char *text;
    ARRAY(const char *) line;
};
static ARRAY(const char *) known; /* lines of files before */

static unsigned answer_to(const struct exported_file *w, const char *text)
{
    struct arena *scratch = arena_new();
    struct import_input input = {.file = w->name,
                                 .text = text,
                                 .len = strlen(text),
                                 .model = w->model,
                                 .cluster = w->cluster};
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

/* ---- changes of a line; "" where there is nothing to change ---------------------------------- */

static const char *left_out(const char *line)
{
    (void)line;
    return "";
}

/* With another first number: so many times as much. */
static const char *with_times_the_number(const char *line, double times)
{
    size_t at = strcspn(line, " =:");
    while (line[at] && !isdigit((unsigned char)line[at]))
        at++;
    if (!line[at])
        return "";
    char *end;
    double number = strtod(line + at, &end);
    return arena_printf(arena, "%.*s%.12g%s", (int)at, line, times * number, end);
}

static const char *with_twice_the_number(const char *line)
{
    return with_times_the_number(line, 2);
}

static const char *with_zero(const char *line)
{
    return with_times_the_number(line, 0);
}

/* "1,1,2" becomes "1,1,2,2". */
static const char *with_one_more(const char *line)
{
    const char *last = strrchr(line, ',');
    size_t digits = last ? strspn(last + 1, "0123456789") : 0;
    while (last && !digits && last > line) { /* a comma between members is not in a list */
        while (--last > line && *last != ',')
            ;
        digits = *last == ',' ? strspn(last + 1, "0123456789") : 0;
    }
    if (!digits)
        return "";
    int end = (int)(last + 1 - line + (ptrdiff_t)digits);
    return arena_printf(arena, "%.*s%.*s%s", end, line, (int)digits + 1, last, line + end);
}

typedef const char *line_change(const char *line);

/* ---- files ----------------------------------------------------------------------------------- */

static bool is_known(const char *line)
{
    for (size_t i = 0; i < known.len; i++)
        if (strcmp(known.data[i], line) == 0)
            return true;
    array_push(arena, &known, line);
    return false;
}

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name), own = strlen(end);
    return len > own && strcmp(name + len - own, end) == 0;
}

static void read_lines(struct exported_file *w)
{
    size_t len;
    const char *path = arena_printf(arena, "%s/%s", FOLDER, w->name);
    assert_int_equal(file_read(arena, path, 1 << 20, &w->text, &len), WEFT_OK);
    for (char *rest = arena_copy_text(arena, w->text), *line; (line = strsep(&rest, "\n"));)
        array_push(arena, &w->line, line);
}

static bool open_exported(const char *name, struct exported_file *w)
{
    bool arguments = ends_with(name, ".args");
    *w = (struct exported_file){.name = name,
                                .source = source_find(arguments ? "megatron" : "torchtitan")};
    if (!arguments && !ends_with(name, ".toml"))
        return false;
    read_lines(w);
    const char *on = strstr(w->text, " on ");
    assert_non_null(on);
    w->cluster = arena_printf(arena, "%.*s", (int)strcspn(on + 4, ".,\n"), on + 4);
    return true;
}

/* Of "weft simulate MODEL CLUSTER --flags". */
static bool open_json(const char *name, struct exported_file *w)
{
    static const char COMMAND[] = "weft simulate ";
    bool deepspeed = ends_with(name, ".deepspeed.json"), aceso = ends_with(name, ".aceso.json");
    *w = (struct exported_file){.name = name,
                                .source = source_find(deepspeed ? "deepspeed"
                                                      : aceso   ? "aceso"
                                                                : "galvatron")};
    if (!ends_with(name, ".json") || ends_with(name, ".plan.json"))
        return false;
    read_lines(w);
    const char *model = strstr(w->text, COMMAND);
    if (!model)
        return false;
    model += strlen(COMMAND);
    const char *cluster = model + strcspn(model, " ") + 1;
    w->model = aceso ? NULL : arena_printf(arena, "%.*s", (int)(cluster - model) - 1, model);
    w->cluster = arena_printf(arena, "%.*s", (int)strcspn(cluster, " "), cluster);
    return true;
}

static const char *block_with(const struct exported_file *w, line_change *const *changes,
                              size_t count)
{
    const char *block = arena_printf(arena, "# %s %04x\n", w->name, answer_to(w, w->text));
    for (size_t i = 0; i < w->line.len; i++) {
        const char *line = w->line.data[i] + strspn(w->line.data[i], " ");
        bool says = *line && (*line != '#' || strstr(line, "weft: "));
        if (!says || is_known(line))
            continue;
        unsigned without = answer_to(w, with_line(w, i, ""));
        block = arena_printf(arena, "%s%s", block, line);
        for (size_t c = 0; c < count; c++) {
            const char *changed = changes[c](w->line.data[i]);
            block = arena_printf(arena, "%s %04x", block,
                                 *changed ? answer_to(w, with_line(w, i, changed)) : without);
        }
        block = arena_printf(arena, "%s\n", block);
    }
    return block;
}

/* ---- what is held ---------------------------------------------------------------------------- */

static const char *lines_of(const char *name)
{
    static line_change *const CHANGES[] = {left_out, with_twice_the_number};
    struct exported_file w;
    return open_exported(name, &w) ? block_with(&w, CHANGES, COUNT_OF(CHANGES)) : NULL;
}

static const char *amounts_of(const char *name)
{
    static line_change *const CHANGES[] = {with_zero, with_one_more};
    struct exported_file w;
    return open_exported(name, &w) ? block_with(&w, CHANGES, COUNT_OF(CHANGES)) : NULL;
}

static const char *json_of(const char *name)
{
    static line_change *const CHANGES[] = {left_out, with_twice_the_number, with_zero,
                                           with_one_more};
    struct exported_file w;
    return open_json(name, &w) ? block_with(&w, CHANGES, COUNT_OF(CHANGES)) : NULL;
}

static void hold(const char *file, const char *(*block_of)(const char *name))
{
    if (rounds_of(100) < 100)
        skip();
    known.len = 0;
    assert_int_equal(hold_lines(FOLDER, file, block_of), 0);
}

static void lines_count_as_they_did(void **state)
{
    (void)state;
    hold(WEFT_SOURCE_DIR "/tests/data/import/lines.txt", lines_of);
}

static void amounts_count_as_they_did(void **state)
{
    (void)state;
    hold(WEFT_SOURCE_DIR "/tests/data/import/amounts.txt", amounts_of);
}

static void json_counts_as_it_did(void **state)
{
    (void)state;
    hold(WEFT_SOURCE_DIR "/tests/data/import/json.txt", json_of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_count_as_they_did),
        cmocka_unit_test(amounts_count_as_they_did),
        cmocka_unit_test(json_counts_as_it_did),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
