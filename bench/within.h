/* within.h - what benches of planners share: a search within so many seconds of a core, whoever else is
 * at work on the machine. */
#ifndef WEFT_BENCH_WITHIN_H
#define WEFT_BENCH_WITHIN_H

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#include "search/planner/planner.h"

static inline void stop_on(weft_status status)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "%s\n", weft_last_error()->message);
    exit(1);
}

/* Of this process. */
static inline double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct answer {
    double s, cpu_s;
    int64_t configs;
    bool fits;
};
static atomic_bool over;

static inline void give_up(int signal)
{
    (void)signal;
    atomic_store(&over, true);
}

/* What Aceso has found after so many configs, whatever the machine is at besides; 0: at its end. */
static inline struct answer best_of_configs(struct plan_request request, int64_t configs)
{
    struct planned *planned;
    double start = cpu_seconds();
    request.options.threads = 1;
    request.options.most_configs = configs;
    stop_on(plan_search(planner_find("aceso"), &request, &planned));
    const struct trial *best = planned->trials.data;
    struct answer answer = {(double)best->iteration_ns * 1e-9, cpu_seconds() - start,
                            planned->candidates, best->fits};
    planned_free(planned);
    return answer;
}

/* What it has found by then; 0 seconds: at its end. */
static inline struct answer best_within(struct plan_request request, double budget_s)
{
    struct itimerval timer = {
        .it_value = {(time_t)budget_s, (suseconds_t)(budget_s * 1e6) % 1000000}};
    atomic_store(&over, false);
    signal(SIGPROF, give_up);
    setitimer(ITIMER_PROF, &timer, NULL);
    request.stop = &over;
    return best_of_configs(request, 0);
}

#endif
