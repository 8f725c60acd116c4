/* bench_theirs.c - plans that the search program of Aceso's authors found in minutes for Table 3's models
 * (data/validation/aceso_plans.csv), beside Weft's after half a second of a core and at the end. All are
 * simulated alike, with the authors' profiles on their machine, within 28,000 MB by their own count.
 *
 * `bench_theirs MODEL` takes one of them. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "report/duel.h"

static void stop_on(weft_status status)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "%s\n", weft_last_error()->message);
    exit(1);
}

/* Of this process: others may be at work beside it. */
static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static atomic_bool over;

static void stop_now(int signal)
{
    (void)signal;
    atomic_store(&over, true);
}

struct answer {
    double s, cpu_s;
};

/* The budget is seconds of a core; 0: none. */
static struct answer best_within(struct plan_request request, double budget_s)
{
    struct planned *planned;
    struct itimerval timer = {
        .it_value = {(time_t)budget_s, (suseconds_t)(budget_s * 1e6) % 1000000}};
    double start = cpu_seconds();
    atomic_store(&over, false);
    signal(SIGPROF, stop_now);
    setitimer(ITIMER_PROF, &timer, NULL);
    request.stop = &over;
    request.options.threads = 1;
    stop_on(plan_search(planner_find("aceso"), &request, &planned));
    const struct trial *best = planned->trials.data;
    struct answer answer = {best->fits ? (double)best->iteration_ns * 1e-9 : 0,
                            cpu_seconds() - start};
    planned_free(planned);
    return answer;
}

static double slower(const struct answer *answer, const struct duel *duel)
{
    return 100 * (answer->s / duel->theirs_least_s - 1);
}

static void hold_against(const char *model, int64_t devices)
{
    static const char *const SPACES[] = {"artifact", "paper"};
    static const double BUDGET_S = 0.35; /* what it is about then comes to an end within 0.5 s */
    struct arena *keep = arena_new();
    struct duel duel = {.family = "GPT-3", .model = model, .devices = devices};
    struct duel_stand stand;
    stop_on(duel_stand_up(keep, duel.family, model, devices, &stand));
    stop_on(duel_predict_theirs(keep, &stand.request, &duel));
    printf("%-10s on %2lld: theirs %7.2f s, by their own model %7.2f s; their fastest %7.2f s\n",
           model, (long long)devices, duel.theirs_s, duel.theirs->predicted_s, duel.theirs_least_s);
    stand.request.options.every_stages = false; /* as `weft plan` asks */
    for (size_t i = 0; i < COUNT_OF(SPACES); i++) {
        stand.request.options.space = SPACES[i];
        struct answer first = best_within(stand.request, BUDGET_S),
                      last = best_within(stand.request, 0);
        printf(
            "  %-8s %7.2f s (%+.1f %%) after %4.2f s of a core, %7.2f s (%+.1f %%) after %5.2f s\n",
            SPACES[i], first.s, slower(&first, &duel), first.cpu_s, last.s, slower(&last, &duel),
            last.cpu_s);
    }
    duel_take_down(&stand);
    arena_free(keep);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *model;
        int64_t devices;
    } CASES[] = {{"gpt3-1.3b", 4}, {"gpt3-2.6b", 8}, {"gpt3-6.7b", 16}, {"gpt3-13b", 32}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < COUNT_OF(CASES); i++)
        if (argc < 2 || strcmp(argv[1], CASES[i].model) == 0)
            hold_against(CASES[i].model, CASES[i].devices);
    return 0;
}
