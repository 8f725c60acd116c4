/* engine_text.h - reads a golden scenario of tests/data/engine. One statement a line, # begins a
 * comment; streams, links, devices and tasks are called by name, tasks also before their line:
 *
 *   link NAME RATE              device NAME SLOWDOWN            stream NAME [DEVICE]
 *   work NAME STREAM DURATION {after TASK} [slows WORK FLOWS]
 *        [= START END]
 *   flow NAME STREAM LATENCY LEAST {over LINK BYTES [times N]} {on DEVICE} {class N} {after TASK}
 *        [= START END]
 *   end NS                      path TASK ...
 *   held TASK LINK              deadlock WORDS ...
 *
 * `held` says which link held a flow below its own pace. Times after = are ns. */
#ifndef ENGINE_TEXT_H
#define ENGINE_TEXT_H

#include <stdlib.h>
#include <string.h>

#include "engine_scenario.h"

enum { MAX_WORDS = 48 };

struct expectation {
    int64_t start_ns[MAX_TASKS], end_ns[MAX_TASKS]; /* -1: nothing expected */
    int64_t end;
    int32_t path[MAX_TASKS], path_length;
    int32_t held[MAX_TASKS]; /* -1: nothing expected */
    const char *deadlock;
};
struct golden {
    struct arena *arena;
    struct scenario scenario;
    struct expectation expect;
    struct map *links, *devices, *streams, *tasks;
};

static int32_t find(const struct map *map, const char *name)
{
    int64_t number = -1;
    if (!map_get(map, name, &number))
        fail_msg("%s is not known", name);
    return (int32_t)number;
}

static int64_t read_ns(const char *text)
{
    int64_t ns = -1;
    if (!parse_duration(text, &ns) && !parse_int(text, &ns))
        fail_msg("%s is no duration", text);
    return ns;
}

static int64_t read_bytes(const char *text)
{
    int64_t bytes = -1;
    if (!parse_bytes(text, &bytes))
        fail_msg("%s is no size", text);
    return bytes;
}

/* ---- options of a task: each takes the words after its own ---------------------------------- */

struct option {
    const char *word;
    int operands;
    void (*read)(struct golden *golden, struct scenario_task *task, char **operand);
};

static void read_after(struct golden *golden, struct scenario_task *task, char **operand)
{
    task->after[task->afters++] = find(golden->tasks, operand[0]);
}

static void read_over(struct golden *golden, struct scenario_task *task, char **operand)
{
    task->use[task->uses++] =
        (struct link_use){find(golden->links, operand[0]), (double)read_bytes(operand[1]), 1};
}

static void read_siblings(struct golden *golden, struct scenario_task *task, char **operand)
{
    (void)golden;
    assert_true(parse_real(operand[0], &task->use[task->uses - 1].times));
}

static void read_on(struct golden *golden, struct scenario_task *task, char **operand)
{
    task->device[task->devices++] = find(golden->devices, operand[0]);
}

static void read_class(struct golden *golden, struct scenario_task *task, char **operand)
{
    (void)golden;
    task->priority = atoi(operand[0]);
}

static void read_times(struct golden *golden, struct scenario_task *task, char **operand)
{
    golden->expect.start_ns[task - golden->scenario.task] = read_ns(operand[0]);
    golden->expect.end_ns[task - golden->scenario.task] = read_ns(operand[1]);
}

static void read_factors(struct golden *golden, struct scenario_task *task, char **operand)
{
    (void)golden;
    assert_true(parse_real(operand[0], &task->slowed));
    assert_true(parse_real(operand[1], &task->slows));
}

static const struct option OPTIONS[] = {
    {"after", 1, read_after},   {"over", 2, read_over}, {"on", 1, read_on},
    {"class", 1, read_class},   {"=", 2, read_times},   {"times", 1, read_siblings},
    {"slows", 2, read_factors},
};

static int read_option(struct golden *golden, struct scenario_task *task, char **word, int words)
{
    for (size_t i = 0; i < COUNT_OF(OPTIONS); i++)
        if (!strcmp(word[0], OPTIONS[i].word) && words > OPTIONS[i].operands) {
            OPTIONS[i].read(golden, task, word + 1);
            return 1 + OPTIONS[i].operands;
        }
    fail_msg("%s is no option of a task", word[0]);
    return words;
}

static void read_task(struct golden *golden, char **word, int words)
{
    struct scenario_task *task = &golden->scenario.task[find(golden->tasks, word[1])];
    task->is_flow = !strcmp(word[0], "flow");
    task->stream = find(golden->streams, word[2]);
    task->ns = read_ns(word[3]);
    task->least_ns = task->is_flow ? read_ns(word[4]) : 0;
    for (int i = task->is_flow ? 5 : 4; i < words;)
        i += read_option(golden, task, word + i, words - i);
}

/* ---- the other statements -------------------------------------------------------------------- */

static void read_link(struct golden *golden, char **word, int words)
{
    (void)words;
    struct scenario *scenario = &golden->scenario;
    map_put(golden->links, word[1], scenario->links);
    assert_true(parse_rate(word[2], &scenario->link_bytes_per_s[scenario->links++]));
}

static void read_device(struct golden *golden, char **word, int words)
{
    (void)words;
    struct scenario *scenario = &golden->scenario;
    map_put(golden->devices, word[1], scenario->devices);
    assert_true(parse_real(word[2], &scenario->slowdown[scenario->devices++]));
}

static void read_stream(struct golden *golden, char **word, int words)
{
    struct scenario *scenario = &golden->scenario;
    map_put(golden->streams, word[1], scenario->streams);
    scenario->stream_device[scenario->streams++] = words > 2 ? find(golden->devices, word[2]) : -1;
}

static void read_end(struct golden *golden, char **word, int words)
{
    (void)words;
    golden->expect.end = read_ns(word[1]);
}

static void read_path(struct golden *golden, char **word, int words)
{
    for (int i = 1; i < words; i++)
        golden->expect.path[golden->expect.path_length++] = find(golden->tasks, word[i]);
}

static void read_held(struct golden *golden, char **word, int words)
{
    (void)words;
    golden->expect.held[find(golden->tasks, word[1])] = find(golden->links, word[2]);
}

static void read_deadlock(struct golden *golden, char **word, int words)
{
    golden->expect.deadlock = word[1];
    for (int i = 2; i < words; i++)
        golden->expect.deadlock =
            arena_printf(golden->arena, "%s %s", golden->expect.deadlock, word[i]);
}

static const struct {
    const char *word;
    int words; /* at least */
    void (*read)(struct golden *golden, char **word, int words);
} STATEMENTS[] = {
    {"link", 3, read_link}, {"device", 3, read_device}, {"stream", 2, read_stream},
    {"work", 4, read_task}, {"flow", 5, read_task},     {"end", 2, read_end},
    {"path", 2, read_path}, {"held", 3, read_held},     {"deadlock", 2, read_deadlock},
};

static void read_statement(struct golden *golden, char **word, int words)
{
    for (size_t i = 0; i < COUNT_OF(STATEMENTS); i++)
        if (!strcmp(word[0], STATEMENTS[i].word) && words >= STATEMENTS[i].words) {
            STATEMENTS[i].read(golden, word, words);
            return;
        }
    fail_msg("%s is no statement", word[0]);
}

static int split_words(char *line, char **word)
{
    int words = 0;
    line[strcspn(line, "#")] = 0;
    for (char *rest = line, *next; (next = strtok_r(rest, " \t", &rest));)
        word[words++] = next;
    return words;
}

/* Tasks are numbered first, so that one may wait for a later one. */
static void name_tasks(struct golden *golden, char *text)
{
    char *word[MAX_WORDS];
    struct scenario *scenario = &golden->scenario;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        if (split_words(line, word) > 1 && (!strcmp(word[0], "work") || !strcmp(word[0], "flow"))) {
            scenario->task[scenario->tasks].name = word[1];
            golden->expect.held[scenario->tasks] = golden->expect.end_ns[scenario->tasks] = -1;
            map_put(golden->tasks, word[1], scenario->tasks++);
        }
}

static struct golden *golden_read(struct arena *arena, const char *path)
{
    char *text, *word[MAX_WORDS];
    size_t length;
    struct golden *golden = ARENA_NEW(arena, struct golden);
    *golden = (struct golden){.arena = arena,
                              .links = map_new(arena),
                              .devices = map_new(arena),
                              .streams = map_new(arena),
                              .tasks = map_new(arena)};
    assert_int_equal(file_read(arena, path, 1 << 16, &text, &length), WEFT_OK);
    name_tasks(golden, arena_copy_text(arena, text));
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        int words = split_words(line, word);
        if (words)
            read_statement(golden, word, words);
    }
    return golden;
}

#endif
