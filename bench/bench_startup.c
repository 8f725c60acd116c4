/* bench_startup.c - how long the program takes to answer about something very large.
 *
 * A 1,000-layer model and 100,000 devices must cost what one layer and one node cost. Each question
 * is asked as a process, several times; the fastest run counts, and stands as a ratio to a process
 * that does nothing (`weft --version`) in the same run.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "report/report.h"

extern char **environ;

enum { RUNS = 20, MAX_ARGS = 8 };

struct question {
    const char *what;
    const char *args[MAX_ARGS];
};

/* The first is the baseline. */
static const struct question QUESTIONS[] = {
    {"process start", {"--version"}},
    {"40 layers", {"inspect", "gpt3-13b"}},
    {"1,000 layers", {"inspect", "gpt3-13b", "--set", "layers=1000"}},
    {"4 nodes of 8", {"clusters", "dgx-h100:4"}},
    {"12,500 nodes of 8", {"clusters", "dgx-h100:12500"}},
};

struct timing {
    double wall_ns;
    double peak_bytes;
};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static bool run_once(char **argv, struct timing *out)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child;
    int status = 1;
    struct rusage usage;
    double start_ns = now_ns();
    bool ran = posix_spawn(&child, WEFT_PROGRAM, &actions, NULL, argv, environ) == 0 &&
               wait4(child, &status, 0, &usage) == child && WIFEXITED(status) &&
               WEXITSTATUS(status) == 0;
    posix_spawn_file_actions_destroy(&actions);
    if (ran)
        *out = (struct timing){now_ns() - start_ns, (double)usage.ru_maxrss * 1024};
    return ran;
}

/* The fastest wall time and the largest peak of all runs. */
static bool ask(struct arena *scratch, const struct question *question, struct timing *best)
{
    char *argv[MAX_ARGS + 2] = {arena_copy_text(scratch, "weft")};
    for (int i = 0; i < MAX_ARGS && question->args[i]; i++)
        argv[i + 1] = arena_copy_text(scratch, question->args[i]);
    *best = (struct timing){1e18, 0};
    for (int i = 0; i < RUNS; i++) {
        struct timing sample;
        if (!run_once(argv, &sample))
            return false;
        best->wall_ns = sample.wall_ns < best->wall_ns ? sample.wall_ns : best->wall_ns;
        best->peak_bytes =
            sample.peak_bytes > best->peak_bytes ? sample.peak_bytes : best->peak_bytes;
    }
    return true;
}

int main(void)
{
    static const char *const headers[] = {"question", "wall", "ratio", "peak memory", "ratio"};
    static const enum align aligns[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT};
    struct arena *arena = arena_new();
    struct table *table = table_new(arena, COUNT_OF(headers), headers, aligns);
    struct timing baseline = {0};
    for (size_t i = 0; i < COUNT_OF(QUESTIONS); i++) {
        struct timing sample;
        if (!ask(arena, &QUESTIONS[i], &sample)) {
            fprintf(stderr, "bench_startup: `weft %s` failed\n", QUESTIONS[i].args[0]);
            arena_free(arena);
            return EXIT_FAILURE;
        }
        if (i == 0)
            baseline = sample;
        table_cell(table, "%s", QUESTIONS[i].what);
        table_cell(table, "%s", show_duration(sample.wall_ns).s);
        table_cell(table, "%.2f", sample.wall_ns / baseline.wall_ns);
        table_cell(table, "%s", show_bytes(sample.peak_bytes).s);
        table_cell(table, "%.2f", sample.peak_bytes / baseline.peak_bytes);
    }
    table_print(table, stdout);
    arena_free(arena);
    return EXIT_SUCCESS;
}
