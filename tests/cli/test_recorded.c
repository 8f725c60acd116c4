/* test_recorded.c - what the program answers to many small questions, held to a file.
 *
 * A line of the file that does not begin with a space is what follows `weft` on the shell's command line, at the root
 * of the tree ($WEFT is the program, $T a folder for files), or what the explorer is asked: its path and its body.
 * Below it stand the exit code, if it is not 0, or the status, and the answer: a line for each member of a JSON object,
 * or for each paragraph of a text, each as its digest (digest.h); last, what the program said beside it: errors, hints
 * and warnings. The file does not say that an answer is right; other tests do. It says that every answer is as it was: a
 * fault in code that these go through shows here even if no other test asks for the number that it changes.
 *
 * After an intended change, `WEFT_RECORD=tests/data/recorded.txt build/tests/test_recorded` writes the answers as they
 * are now. The difference should have no line that was not meant to change; to see what a line is about, ask the
 * program of both builds. */
#include "program.h"

#include "digest.h"
#include "one_arena.h"
#include "one_folder.h"
#include "rounds.h"
#include "serve/serve.h"
#include "without_blas.h"

static const char FILE_NAME[] = WEFT_SOURCE_DIR "/tests/data/recorded.txt";
/* What depends on the machine, on how the work is done, or on how far off predictions of all published runs are. */
static const char *const LEFT_OUT[] = {"compile_s", "simulate_s", "wall_s",
                                       "events",    "interval",   "search_s"};
/* How many plans a search looked at, which has a line of its own: processors that round apart may differ by a few, a
 * bound or an order that is another does by many. Searches of more than one thread are not asked. */
static const char *const LOOKED_AT[] = {"evaluated", "simulated"};
static const double FEW = 0.001;

/* The same in a text: digits of lines with one of these are left out. */
static const char *const COUNTED[] = {"how sure ",    "held out",     " events",
                                      " plans tried", " estimated, ", " other plans within "};

static const char *digest_line(const char *name, const char *text)
{
    struct digest d = digest_of(text);
    return arena_printf(arena, "  %s %d numbers %.5f words %08x\n", name, d.numbers, d.sum,
                        d.words);
}

static void leave_out(json_t *json)
{
    size_t i;
    const char *key;
    json_t *value;
    for (i = 0; json_is_object(json) && i < COUNT_OF(LEFT_OUT); i++)
        json_object_del(json, LEFT_OUT[i]);
    json_object_foreach(json, key, value) leave_out(value);
    json_array_foreach(json, i, value) leave_out(value);
}

static bool is_looked_at(const char *key)
{
    return strcmp(key, LOOKED_AT[0]) == 0 || strcmp(key, LOOKED_AT[1]) == 0;
}

/* A line for each array, object, real number and count, and one for all the rest. */
static const char *object_lines(json_t *object)
{
    const char *key, *lines = "", *rest = "";
    json_t *value;
    leave_out(object);
    json_object_foreach(object, key, value)
    {
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        if (json_is_real(value) || is_looked_at(key))
            lines = arena_printf(arena, "%s  %s %.8g\n", lines, key, json_number_value(value));
        else if (json_is_array(value) || json_is_object(value))
            lines = arena_printf(arena, "%s%s", lines, digest_line(key, text));
        else
            rest = arena_printf(arena, "%s %s: %s", rest, key, text);
        free(text);
    }
    return arena_printf(arena, "%s%s", digest_line("in short", rest), lines);
}

static bool is_counted(const char *line)
{
    for (size_t i = 0; i < COUNT_OF(COUNTED); i++) {
        const char *found = strstr(line, COUNTED[i]);
        if (found && found < strchrnul(line, '\n'))
            return true;
    }
    return false;
}

static void leave_out_digits(char *text)
{
    for (char *line = text; *line; line += line[0] == '\n') {
        bool counted = is_counted(line);
        for (; *line && *line != '\n'; line++)
            if (counted && isdigit((unsigned char)*line))
                *line = '#';
    }
}

static const char *paragraph_lines(char *answer)
{
    const char *lines = "";
    int number = 0;
    leave_out_digits(answer);
    for (char *at = answer, *end; *at; at = end) {
        end = strstr(at, "\n\n");
        end = end ? end + 2 : at + strlen(at);
        char kept = *end;
        *end = '\0';
        const char *name = arena_printf(arena, "paragraph %d", ++number);
        lines = arena_printf(arena, "%s%s", lines, digest_line(name, at));
        *end = kept;
    }
    return lines;
}

/* Names in the folder of the test are as if that were T. */
static char *as_if_in_t(char *text)
{
    size_t len = strlen(folder);
    for (char *at = text; (at = strstr(at, folder)) != NULL;) {
        *at = 'T';
        memmove(at + 1, at + len, strlen(at + len) + 1);
    }
    return text;
}

/* The program's answer, and what it said beside it: errors, hints and warnings. */
static char *told_by_program(const char *arguments, int *code, char **said)
{
    size_t len;
    const char *aside = arena_printf(arena, "%s/said", folder);
    char *text = output_of(arena_printf(arena, "cd '%s' && { '%s' %s\n} 2>'%s'", WEFT_SOURCE_DIR,
                                        WEFT_PROGRAM, arguments, aside),
                           code);
    assert_int_equal(file_read(arena, aside, 1 << 20, said, &len), WEFT_OK);
    without_blas(as_if_in_t(*said));
    return without_blas(as_if_in_t(text));
}

/* The explorer's answer to "/api/v1/CALL {...}". */
static char *told_by_explorer(const char *question, int *code)
{
    char *text = NULL, *path = arena_copy_text(arena, question), *body = strchrnul(path, ' ');
    if (*body)
        *body++ = '\0';
    *code = api_answer_text(path, body, strlen(body), &text);
    return text ? text : strdup(""); /* to a path that nobody knows */
}

/* What a run says beside its answer names what this machine has. */
static bool is_run(const char *question)
{
    return strncmp(question, "train ", strlen("train ")) == 0;
}

/* What is answered now, in lines as the file has them. */
static const char *ask_now(const char *question)
{
    int code;
    char *said = NULL;
    char *text = *question == '/' ? told_by_explorer(question, &code)
                                  : told_by_program(question, &code, &said);
    json_t *json = json_loads(text, 0, NULL);
    const char *lines = json_is_object(json) ? object_lines(json) : paragraph_lines(text);
    if (code)
        lines =
            arena_printf(arena, "  %s %d\n%s", *question == '/' ? "status" : "exit", code, lines);
    if (said && *said && !is_run(question)) {
        leave_out_digits(said);
        lines = arena_printf(arena, "%s%s", lines, digest_line("said", said));
    }
    json_decref(json);
    free(text);
    return lines;
}

/* Word by word. Numbers may differ in their last digit: that of a digest's sum, or of one that is written as it is. */
static bool alike(char *found, char *kept)
{
    double allowed = strstr(kept, " numbers ") ? NOTICED : 0;
    double share = strstr(kept, LOOKED_AT[0]) || strstr(kept, LOOKED_AT[1]) ? FEW : 1e-7;
    for (char *a, *b; (a = strsep(&found, " ")) != NULL;) {
        char *end_a, *end_b;
        if ((b = strsep(&kept, " ")) == NULL)
            return false;
        double is = strtod(a, &end_a), was = strtod(b, &end_b);
        bool numbers = *a && *b && !*end_a && !*end_b;
        if (strcmp(a, b) != 0 && !(numbers && fabs(is - was) <= fmax(allowed, share * fabs(was))))
            return false;
    }
    return kept == NULL;
}

/* The next line of the answer before; without one, nothing. */
static char *next_kept(char **rest)
{
    return *rest && **rest == ' ' ? strsep(rest, "\n") : arena_copy_text(arena, "");
}

static bool tell_change(const char *arguments, const char *is, const char *was)
{
    if (alike(arena_copy_text(arena, is), arena_copy_text(arena, was)))
        return false;
    printf("weft %s\n  was %s\n  is  %s\n", arguments, was, is);
    return true;
}

/* How many lines of the answer are not those on file, which `*rest` moves past. */
static int lines_changed(const char *arguments, const char *answer, char **rest)
{
    int changed = 0;
    char *left = arena_copy_text(arena, answer);
    for (char *is; (is = strsep(&left, "\n")) != NULL && *is;)
        changed += tell_change(arguments, is, next_kept(rest));
    while (*rest && **rest == ' ')
        changed += tell_change(arguments, "", next_kept(rest));
    return changed;
}

/* Where random cases are fewer, these are, too: spread over the file, and none that reads what another wrote.
 * WEFT_ASK='plan ' asks those that begin with it. */
static bool is_asked(const char *line, int number)
{
    const char *only = getenv("WEFT_ASK");
    if (only)
        return strncmp(line, only, strlen(only)) == 0 && !strstr(line, "$T");
    return rounds_of(100) >= 100 || (is_tried((size_t)number) && !strstr(line, "$T"));
}

static void answers_are_as_recorded(void **state)
{
    (void)state;
    char *rest;
    size_t len;
    int number = 0, changed = 0;
    assert_int_equal(file_read(arena, FILE_NAME, 1 << 22, &rest, &len), WEFT_OK);
    while (rest && *rest) {
        const char *line = strsep(&rest, "\n");
        if (*line && *line != '#' && *line != ' ' && is_asked(line, number++))
            changed += lines_changed(line, ask_now(line), &rest);
    }
    assert_int_equal(changed, 0);
}

static void record(const char *name)
{
    char *rest;
    size_t len;
    assert_int_equal(file_read(arena, FILE_NAME, 1 << 22, &rest, &len), WEFT_OK);
    FILE *file = fopen(name, "w"); /* it may be the same */
    assert_non_null(file);
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        if (*line == '#')
            fprintf(file, "%s\n", line);
        else if (*line && *line != ' ')
            fprintf(file, "%s\n%s", line, ask_now(line));
    assert_int_equal(fclose(file), 0);
}

static int prepare(void **state)
{
    return make_arena(state) || make_folder(state) || setenv("T", folder, 1) ||
           setenv("WEFT", WEFT_PROGRAM, 1);
}

static int clear_away(void **state)
{
    return drop_arena(state) || remove_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_as_recorded),
    };
    const char *name = getenv("WEFT_RECORD");
    if (name && prepare(NULL) == 0) {
        record(name);
        return clear_away(NULL);
    }
    return cmocka_run_group_tests(tests, prepare, clear_away);
}
