/* test_answers.c - what planners answer to small problems, held to a file: the plan, how long it takes, and what they
 * say of the next best. A search that goes another way is noticed even where its answer is sound. Numbers are rounded
 * to four digits, so that processors agree. */
#include "program.h"

#include "one_arena.h"
#include "rounds.h"

static const char FILE_NAME[] = WEFT_SOURCE_DIR "/tests/data/answers.txt";

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* A choice's split and flags, without where it holds. */
static const char *choice_text(const json_t *choice)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)choice);
    json_object_del(copy, "at");
    char *dumped = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
    const char *text =
        arena_printf(arena, " %s*%zu", dumped, json_array_size(json_object_get(choice, "at")));
    free(dumped);
    json_decref(copy);
    return text;
}

static const char *plan_told(const json_t *plan)
{
    size_t i;
    const json_t *item;
    const char *text = arena_printf(arena, "  %s, %lld pieces, steps of %lld; stages",
                                    json_string_value(json_object_get(plan, "schedule")),
                                    (long long)number(plan, "pieces"),
                                    (long long)number(json_object_get(plan, "batch"), "step"));
    json_array_foreach(json_object_get(plan, "stages"), i, item) text =
        arena_printf(arena, "%s %lld until %s", text, (long long)number(item, "devices"),
                     json_string_value(json_object_get(item, "until")));
    text = arena_printf(arena, "%s\n ", text);
    json_array_foreach(json_object_get(plan, "choices"), i, item) text =
        arena_printf(arena, "%s%s", text, choice_text(item));
    return text;
}

static const char *answer_told(const char *arguments)
{
    json_t *json = json_of(arena_printf(arena, "plan %s --json", arguments));
    size_t i;
    const json_t *why;
    const char *text = arena_printf(arena, "%s\n  %.4g s; found by %s\n%s\n", arguments,
                                    number(json, "iteration_s"),
                                    json_string_value(json_object_get(json, "planner")),
                                    plan_told(json_object_get(json, "plan")));
    json_array_foreach(json_object_get(json, "why"), i, why)
    {
        const json_t *next = json_object_get(why, "next_best");
        const char *plan = json_string_value(json_object_get(next, "plan"));
        text = arena_printf(arena, "%s  %s %s: else %s, %.4g s\n", text,
                            json_string_value(json_object_get(why, "dimension")),
                            json_string_value(json_object_get(why, "value")), plan ? plan : "none",
                            number(next, "iteration_s"));
    }
    json_decref(json);
    return text;
}

/* Lines that do not begin with a space are arguments; what stands below them is the answer. */
static void answers_are_those_on_file(void **state)
{
    (void)state;
    char *golden, *copy;
    size_t len;
    int left = rounds_of(10), wrong = 0; /* fewer of them where random cases are fewer, too */
    assert_int_equal(file_read(arena, FILE_NAME, 1 << 20, &golden, &len), WEFT_OK);
    copy = arena_copy_text(arena, golden);
    for (char *rest = copy, *line; (line = strsep(&rest, "\n")) != NULL && *line;) {
        if (*line == '#' || *line == ' ' || left-- <= 0)
            continue;
        const char *answer = answer_told(line);
        if (strstr(golden, answer))
            continue;
        fputs(answer, stdout);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_on_file),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
