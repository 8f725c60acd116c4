/* bench_answers.c - what the program takes of the processor to answer a few large questions, as a process.
 *
 * CPU seconds are of all threads, user and system together: others on the machine count little. Quick questions are asked
 * several times, and the fastest run counts. "ratio" is to the limit that is set for the question, above 1 where it is not
 * kept yet. "iteration" is the answer, which must not get longer where the seconds get fewer.
 *
 *   bench_answers [WORDS]   the questions with WORDS in their names; all of them take minutes
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report/report.h"

extern char **environ;

enum { MAX_ARGS = 16 };

static const struct question {
    const char *what;
    double limit_s;
    int runs;
    const char *args[MAX_ARGS];
} QUESTIONS[] = {
    {"GPT-3 175B on 1,024 A100",
     3,
     1,
     {"plan", "gpt3-175b", "dgx-a100:128", "--global-batch", "1536"}},
    {"Llama 3.1 405B on 16,384 H100",
     15,
     1,
     {"plan", "llama3.1-405b", "dgx-h100:2048", "--global-batch", "2048"}},
    {"DeepSeek-V3 on 2,048 H100, quick",
     3,
     1,
     {"plan", "deepseek-v3", "dgx-h100:256", "--global-batch", "15360", "--quick"}},
    {"GPT-3 13B on 512 A100, quick",
     1,
     3,
     {"plan", "gpt3-13b", "dgx-a100:64", "--global-batch", "1024", "--quick"}},
    {"GPT-3 13B on 4,096 A100, quick",
     2,
     3,
     {"plan", "gpt3-13b", "dgx-a100:512", "--global-batch", "4096", "--quick"}},
    {"GPT-3 13B on 32,768 A100, quick",
     4,
     2,
     {"plan", "gpt3-13b", "dgx-a100:4096", "--global-batch", "32768", "--quick"}},
    {"GPT-3 175B on 64 A100, simulated",
     0.012,
     20,
     {"simulate", "gpt3-175b", "dgx-a100:8", "--tp", "8", "--pp", "8", "--virtual", "3", "--sp",
      "--global-batch", "64"}},
};

struct answer {
    double cpu_s, peak_bytes, iteration_s;
};

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

/* The first number of this name in a JSON text; 0: none. */
static double number_in(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    at = at ? strchr(at, ':') : NULL;
    return at ? strtod(at + 1, NULL) : 0;
}

static double iteration_in(const char *path)
{
    char text[4096] = "";
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return number_in(text, "\"iteration_s\"");
}

/* Exit code 1 is an answer, too: that nothing fits. */
static bool run_once(char **argv, const char *path, struct answer *out)
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = 1;
    struct rusage usage;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, path, O_WRONLY | O_TRUNC, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    bool ran = posix_spawn(&child, WEFT_PROGRAM, &actions, NULL, argv, environ) == 0 &&
               wait4(child, &status, 0, &usage) == child && WIFEXITED(status) &&
               WEXITSTATUS(status) <= 1;
    posix_spawn_file_actions_destroy(&actions);
    if (ran)
        *out = (struct answer){seconds(usage.ru_utime) + seconds(usage.ru_stime),
                               (double)usage.ru_maxrss * 1024, iteration_in(path)};
    return ran;
}

static bool ask(struct arena *scratch, const struct question *question, const char *path,
                struct answer *best)
{
    char *argv[MAX_ARGS + 3] = {arena_copy_text(scratch, "weft")};
    int count = 1;
    for (int i = 0; i < MAX_ARGS && question->args[i]; i++)
        argv[count++] = arena_copy_text(scratch, question->args[i]);
    argv[count] = arena_copy_text(scratch, "--json");
    for (int i = 0; i < question->runs; i++) {
        struct answer one;
        if (!run_once(argv, path, &one))
            return false;
        if (i == 0 || one.cpu_s < best->cpu_s)
            *best = one;
    }
    return true;
}

static bool ask_all(struct arena *arena, const char *words, const char *path, struct table *table)
{
    for (size_t i = 0; i < COUNT_OF(QUESTIONS); i++) {
        const struct question *question = &QUESTIONS[i];
        struct answer answer = {0};
        if (!strstr(question->what, words))
            continue;
        if (!ask(arena, question, path, &answer)) {
            fprintf(stderr, "bench_answers: `weft %s` failed\n", question->args[0]);
            return false;
        }
        table_cell(table, "%s", question->what);
        table_cell(table, "%s", show_duration(answer.cpu_s * 1e9).s);
        table_cell(table, "%.2f", answer.cpu_s / question->limit_s);
        table_cell(table, "%s", show_bytes(answer.peak_bytes).s);
        table_cell(table, "%.6g s", answer.iteration_s);
    }
    return true;
}

int main(int argc, char **argv)
{
    static const char *const headers[] = {"question", "CPU", "ratio", "peak memory", "iteration"};
    static const enum align aligns[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT};
    char path[] = "/tmp/bench_answers.XXXXXX";
    int file = mkstemp(path);
    if (file < 0) {
        fprintf(stderr, "bench_answers: no file in /tmp can be made\n");
        return EXIT_FAILURE;
    }
    close(file);
    struct arena *arena = arena_new();
    struct table *table = table_new(arena, COUNT_OF(headers), headers, aligns);
    bool done = ask_all(arena, argc > 1 ? argv[1] : "", path, table);
    table_print(table, stdout);
    unlink(path);
    arena_free(arena);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
