/* bench_simulate.c - what one prediction costs: a plan's graph compiled and simulated.
 *
 * Each case runs several times in a process of its own; the median counts, and the process' peak of
 * memory. Opening the profile database is not counted: a search opens it once. "ratio" is a peer's
 * time for a question like it over ours, below 1 where the peer is faster. The peers' figures are
 * published or were measured with their own code on comparable cores, in other runs than these:
 *
 *   Proteus    5.1 s    GPT-2 on 32 devices, compile and simulate
 *   SimuMax    1.9 s    GPT-3 175B, tp 8, pp 8 interleaved, on 64 devices
 *   Calculon   8-14 ms  one closed-form evaluation, without a simulation; 11 stands for it
 *   SimAI      9 s      9,216 devices, fewer than in either row it stands beside
 *
 * The last row simulates every device by itself: "ns/event" is what one event of that costs.
 *
 *   bench_simulate [WORDS]   the cases with WORDS in their names
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/sim.h"

enum { RUNS = 5 };

struct peer {
    const char *name;
    double ms;
};
static const struct peer PROTEUS = {"Proteus", 5100}, SIMUMAX = {"SimuMax", 1900},
                         CALCULON = {"Calculon", 11}, SIMAI = {"SimAI", 9000};

static const struct trial {
    const char *what, *model, *options, *cluster;
    struct degrees degrees;
    enum fold fold;
    double target_ms; /* 0: none */
    const struct peer *peer;
} TRIALS[] = {
    {"GPT-2, dp 32", "gpt2", NULL, "dgx-v100:4", {.dp = 32}, .target_ms = 5, .peer = &PROTEUS},
    {"GPT-3 175B, tp 8, pp 8 x 3",
     "gpt3-175b",
     NULL,
     "dgx-a100:8",
     {.tp = 8, .pp = 8, .pieces = 3, .global_batch = 64},
     .target_ms = 5,
     .peer = &SIMUMAX},
    {"1T, tp 8, pp 64, 512 micro-batches",
     "gpt3-175b",
     "layers: 128, hidden: 25600, heads: 160",
     "dgx-a100:384",
     {.tp = 8, .pp = 64, .global_batch = 3072, .recompute = RECOMPUTE_FULL},
     .target_ms = 50,
     .peer = &CALCULON},
    {"Llama 3.1 405B, tp 8, pp 16",
     "llama3.1-405b",
     NULL,
     "dgx-h100:2048",
     {.tp = 8, .pp = 16, .global_batch = 2048},
     .target_ms = 100,
     .peer = &SIMAI},
    {"Llama 3.1 405B, tp 8, pp 20",
     "llama3.1-405b",
     NULL,
     "dgx-h100:12500",
     {.tp = 8, .pp = 20, .global_batch = 10000},
     .target_ms = 500,
     .peer = &SIMAI},
    {"GPT-3 13B, tp 4, pp 4, unfolded",
     "gpt3-13b",
     NULL,
     "dgx-a100:32",
     {.tp = 4, .pp = 4, .global_batch = 512},
     .fold = FOLD_NEVER},
};

/* ---- one case -------------------------------------------------------------------------------- */

struct outcome {
    bool ran;
    double ms, event_ns;
    int64_t tasks, devices;
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static weft_status time_plan(const struct plan *plan, enum fold fold, struct outcome *out)
{
    double ms[RUNS];
    weft_status status = WEFT_OK;
    for (int i = 0; i < RUNS; i++) {
        struct prediction *prediction;
        TRY(simulate(plan, &(struct simulate_options){.fold = fold}, &prediction));
        ms[i] = (prediction->compile_s + prediction->simulate_s) * 1e3;
        out->tasks = prediction->graph->tasks;
        out->event_ns = (double)prediction->result.events;
        prediction_free(prediction);
    }
    qsort(ms, RUNS, sizeof *ms, by_size);
    out->ms = ms[RUNS / 2];
    out->event_ns = out->ms * 1e6 / out->event_ns;
    out->devices = cluster_devices(plan->cluster);
    out->ran = true;
done:
    return status;
}

static struct outcome run_trial(const struct trial *trial)
{
    struct opened_plan opened = {0};
    struct outcome out = {0};
    weft_status status;
    TRY(model_open(trial->model, trial->options, &opened.model));
    TRY(cluster_open(trial->cluster, &opened.cluster));
    TRY(plan_from_degrees(opened.model, opened.cluster, &trial->degrees, &opened.plan));
    TRY(plan_check(opened.plan));
    TRY(time_plan(opened.plan, trial->fold, &out));
done:
    if (status)
        fprintf(stderr, "%s: %s\n", trial->what, weft_last_error()->message);
    plan_close(&opened);
    return out;
}

/* In a process of its own, so that its peak of memory is its own. */
static bool run_apart(const struct trial *trial, struct outcome *out, double *peak_bytes)
{
    int ends[2], status = 1;
    struct rusage usage;
    if (pipe(ends) != 0)
        return false;
    pid_t child = fork();
    if (child == 0) {
        struct outcome found = run_trial(trial);
        bool told = write(ends[1], &found, sizeof found) == (ssize_t)sizeof found;
        _exit(told ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    close(ends[1]);
    bool heard = child > 0 && read(ends[0], out, sizeof *out) == (ssize_t)sizeof *out;
    close(ends[0]);
    if (child < 0 || wait4(child, &status, 0, &usage) != child)
        return false;
    *peak_bytes = (double)usage.ru_maxrss * 1024;
    return heard && status == 0 && out->ran;
}

static void print_row(const struct trial *trial, const struct outcome *out, double peak_bytes)
{
    char target[16] = "-", ratio[48] = "-";
    if (trial->target_ms > 0)
        snprintf(target, sizeof target, "%.0f", trial->target_ms);
    if (trial->peer)
        snprintf(ratio, sizeof ratio, "%.1f (%s)", trial->peer->ms / out->ms, trial->peer->name);
    printf("%-36s %8lld %8lld %8.2f %8s %9.0f %10s  %s\n", trial->what, (long long)out->devices,
           (long long)out->tasks, out->ms, target, out->event_ns, show_bytes(peak_bytes).s, ratio);
}

int main(int argc, char **argv)
{
    const char *words = argc > 1 ? argv[1] : "";
    int failed = EXIT_SUCCESS;
    printf("%-36s %8s %8s %8s %8s %9s %10s  %s\n", "plan", "devices", "tasks", "ms", "target",
           "ns/event", "peak", "ratio");
    for (size_t i = 0; i < COUNT_OF(TRIALS); i++) {
        struct outcome out;
        double peak_bytes = 0;
        if (!strstr(TRIALS[i].what, words))
            continue;
        fflush(stdout);
        if (run_apart(&TRIALS[i], &out, &peak_bytes))
            print_row(&TRIALS[i], &out, peak_bytes);
        else
            failed = EXIT_FAILURE;
    }
    return failed;
}
