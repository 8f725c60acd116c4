/* bench_estimate.c - how many plans a search can ask about in a second.
 *
 * A GPT of 48 layers on 8 nodes of 8 A100s, 8 stages. Candidates cut the model anew each time, at any
 * operator; a moved cut leaves the other stages as they were. Tables and borders are found on the
 * way, and what that takes is a row of its own. Ratios are to the simulator on the same plan, and
 * to one evaluation of Calculon (8 to 14 ms, measured elsewhere).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "search/search.h"
#include "sim/sim.h"

enum { STAGES = 8, CALLS = 1000000, WARM_UP = 10000, PLANS = 50 };
static const double CALCULON_NS = 8e6; /* its faster one */

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); /* whatever else the machine does */
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void stop_on(weft_status status)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "%s\n", weft_last_error()->message);
    exit(1);
}

/* Another cut between stages s and s + 1, at any of their operators. */
static void move_cut(struct rng *rng, struct candidate *c, int32_t s)
{
    int64_t first = c->run[s].first, last = c->run[s + 1].last;
    int64_t cut = first + 1 + rng_below(rng, last - first - 1);
    c->run[s].last = c->run[s + 1].first = cut;
}

static void even_cuts(struct candidate *c, int64_t instances)
{
    for (int32_t s = 0; s < STAGES; s++) {
        c->run[s].first = instances * s / STAGES;
        c->run[s].last = instances * (s + 1) / STAGES;
    }
}

static void print_row(const char *what, double ns, double simulate_ns)
{
    printf("%-28s %12.2f us  %12.0f /s  %10.1f x simulate  %10.1f x Calculon\n", what, ns * 1e-3,
           1e9 / ns, simulate_ns / ns, CALCULON_NS / ns);
}

static double time_plans(struct estimator *e, const struct plan *plan, double *simulate_ns)
{
    struct arena *scratch = arena_new();
    struct estimate estimate;
    double start = now_ns();
    for (int i = 0; i < PLANS; i++)
        stop_on(estimate_plan(e, plan, scratch, &estimate));
    double ns = (now_ns() - start) / PLANS;
    start = now_ns();
    for (int i = 0; i < PLANS; i++) {
        struct prediction *p;
        stop_on(simulate(plan, &(struct simulate_options){0}, &p));
        prediction_free(p);
    }
    *simulate_ns = (now_ns() - start) / PLANS;
    arena_free(scratch);
    return ns;
}

/* A plan as a candidate, when the tables are there. */
static double time_as_candidate(struct estimator *e, const struct plan *plan)
{
    struct arena *scratch = arena_new();
    struct estimate estimate;
    double start = now_ns();
    for (int i = 0; i < PLANS; i++) {
        struct candidate *c;
        stop_on(candidate_of_plan(e, plan, scratch, &c));
        stop_on(estimate_candidate(e, c, &estimate));
    }
    double ns = (now_ns() - start) / PLANS;
    arena_free(scratch);
    return ns;
}

/* Every cut moves every time. */
static double time_candidates(struct estimator *e, struct candidate *c, int64_t instances,
                              int calls, int64_t *sum)
{
    struct rng rng;
    struct estimate estimate;
    rng_seed(&rng, 1);
    even_cuts(c, instances);
    double start = now_ns();
    for (int i = 0; i < calls; i++) {
        for (int32_t s = 0; s + 1 < STAGES; s++)
            move_cut(&rng, c, s);
        stop_on(estimate_candidate(e, c, &estimate));
        *sum += estimate.iteration_ns;
    }
    return (now_ns() - start) / calls;
}

static double time_moves(struct estimator *e, struct candidate *c, int64_t instances, int64_t *sum)
{
    struct rng rng;
    struct estimate estimate;
    rng_seed(&rng, 2);
    even_cuts(c, instances);
    stop_on(estimate_candidate(e, c, &estimate));
    double start = now_ns();
    for (int i = 0; i < CALLS; i++) {
        int32_t s = (int32_t)rng_below(&rng, STAGES - 1);
        move_cut(&rng, c, s);
        stop_on(estimate_moved(e, c, s, &estimate));
        *sum += estimate.iteration_ns;
    }
    return (now_ns() - start) / CALLS;
}

static void bench(const char *schedule, int64_t pieces)
{
    struct arena *scratch = arena_new();
    struct model *model;
    struct cluster *cluster;
    struct plan *plan;
    struct estimator *estimator;
    struct candidate *c;
    int64_t sum = 0;
    double simulate_ns;
    struct degrees degrees = {.tp = 2,
                              .pp = STAGES,
                              .pieces = pieces,
                              .schedule = schedule,
                              .micro_batch = 1,
                              .global_batch = 256};
    stop_on(model_open("gpt3-13b", "layers: 48", &model));
    stop_on(cluster_open("dgx-a100:8", &cluster));
    stop_on(plan_from_degrees(model, cluster, &degrees, &plan));
    struct estimate_settings settings = estimate_settings_of(plan);
    stop_on(estimator_new(&settings, &estimator));
    stop_on(candidate_of_plan(estimator, plan, scratch, &c));
    printf("%s, %d stages, %lld micro-batches, %lld operators\n", schedule, STAGES,
           (long long)plan_micro_batches(plan), (long long)plan->instances);
    double plan_ns = time_plans(estimator, plan, &simulate_ns);
    print_row("simulate", simulate_ns, simulate_ns);
    print_row("estimate_plan", plan_ns, simulate_ns);
    double first_ns = time_candidates(estimator, c, plan->instances, WARM_UP, &sum) * WARM_UP;
    double ns = time_candidates(estimator, c, plan->instances, CALLS, &sum);
    print_row("candidate_of_plan, and that", time_as_candidate(estimator, plan), simulate_ns);
    print_row("estimate_candidate", ns, simulate_ns);
    print_row("estimate_moved", time_moves(estimator, c, plan->instances, &sum), simulate_ns);
    printf("%-28s %12.2f ms\n", "tables and borders, once", (first_ns - ns * WARM_UP) * 1e-6);
    estimator_free(estimator);
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
    arena_free(scratch);
}

int main(void)
{
    bench("1f1b", 1);
    bench("gpipe", 1);
    bench("zb-h1", 1);
    return 0;
}
