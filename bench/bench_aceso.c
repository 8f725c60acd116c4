/* bench_aceso.c - the planner aceso beside its paper's figures (Aceso, section 5).
 *
 *   speed        configs judged in a second on one core; the authors' Python: 340 to 610
 *   convergence  the answer after 20,000 configs over that at the end, for 13B parameters on 32
 *                devices (theirs: 200 s), and over that after 100,000, for 1,000 layers on 8 and on
 *                1,024 (Exp#3); `bench_aceso long` lets the latter end, other names above and below
 *                measure one part
 *   heuristics   hops, improving iterations that improved at the first bottleneck (Exp#5: 90 %), and
 *                that needed more than one hop (68 %); where a descent ends and how many configs it
 *                judges, with heuristic 2 and with primitives in random order
 *   beginnings   where searches end that begin differently (Exp#7)
 */
#include <string.h>

#include "search/aceso/room.h"
#include "within.h"

struct asked {
    struct model *model;
    struct cluster *cluster;
    struct plan_request request;
};

static struct asked ask(const char *model, const char *options, const char *cluster, int64_t batch)
{
    struct asked a = {0};
    stop_on(model_open(model, options, &a.model));
    stop_on(cluster_open(cluster, &a.cluster));
    a.request = (struct plan_request){.model = a.model, .cluster = a.cluster};
    a.request.pins.global_batch = batch;
    a.request.options.space = "paper";
    return a;
}

static void close_asked(struct asked *a)
{
    model_free(a->model);
    cluster_free(a->cluster);
}

/* ---- speed ----------------------------------------------------------------------------------- */

static void time_judge(int32_t stages, bool recompute)
{
    enum { CALLS = 400000, WARM_UP = 20000 };
    struct asked a = ask("gpt3-13b", NULL, "dgx-v100:4", 1024);
    struct problem *p;
    struct judge *judge;
    struct config c;
    struct verdict v;
    struct rng rng;
    bool legal;
    double start = 0;
    stop_on(problem_new(&a.request, &p));
    stop_on(judge_new(p, &judge));
    config_begin(p, stages, BEGIN_BALANCED, &c);
    stop_on(judge_recompute(judge, &c, UINT64_MAX));
    rng_seed(&rng, 1);
    for (int i = 0; i < WARM_UP + CALLS; i++) {
        int32_t part = (int32_t)rng_below(&rng, stages - 1), first = part_first(&c, part);
        struct config_part *own = &c.part[part];
        if (i == WARM_UP)
            start = cpu_seconds();
        own->end = first + 1 + (int32_t)rng_below(&rng, c.part[part + 1].end - first - 1);
        own->recompute_end = own->end;
        set_manner(own, own->manner[0]);
        own->low = own->high = 0;
        if (recompute)
            stop_on(judge_recompute(judge, &c, UINT64_C(3) << part));
        stop_on(judge_config(judge, &c, &v, NULL, &legal));
    }
    double each = (cpu_seconds() - start) / CALLS;
    printf("%2d stages, one cut moved%-32s %8.2f us %10.0f /s\n", stages,
           recompute ? ", recomputation chosen again" : "", each * 1e6, 1 / each);
    judge_free(judge);
    problem_free(p);
    close_asked(&a);
}

/* ---- convergence ----------------------------------------------------------------------------- */

enum { FEW = 20000, MANY = 100000 };

static void converge(const char *model, const char *options, const char *cluster, int64_t batch,
                     int64_t few, int64_t many)
{
    struct asked a = ask(model, options, cluster, batch);
    struct answer first = best_of_configs(a.request, few), last = best_of_configs(a.request, many);
    if (!first.fits || !last.fits)
        printf("  (does not fit)\n");
    printf("%-10s %-12s %9.3f s after %5.2f s of a core (%8lld configs), %9.3f s after %6.2f s "
           "(%8lld): %+.2f %%\n",
           model, cluster, first.s, first.cpu_s, (long long)first.configs, last.s, last.cpu_s,
           (long long)last.configs, 100 * (first.s / last.s - 1));
    close_asked(&a);
}

static void measure_convergence(int64_t many)
{
    static const char LAYERS[] = "layers: 1000, hidden: 512, heads: 8";
    converge("gpt3-13b", NULL, "dgx-v100:4", 1024, FEW, 0);
    converge("gpt3-350m", LAYERS, "dgx-v100:1", 1024, FEW, many);
    converge("gpt3-350m", LAYERS, "dgx-v100:128", 1024, FEW, many);
}

/* ---- heuristics ------------------------------------------------------------------------------ */

static const struct {
    const char *model, *cluster;
    int64_t batch;
} CASES[] = {
    {"gpt3-1.3b", "dgx-v100:1x4", 1024}, {"gpt3-2.6b", "dgx-v100:1", 1024},
    {"gpt3-6.7b", "dgx-v100:2", 1024},   {"t5-3b", "dgx-v100:1x4", 1024},
    {"t5-6b", "dgx-v100:1", 1024},       {"wresnet-2b", "dgx-v100:1x4", 1536},
    {"wresnet-4b", "dgx-v100:1", 1536},
};

enum { HOPS_SHOWN = USUAL_HOPS + 1 };
struct tally_of_steps {
    int64_t improving, first_try, hops[HOPS_SHOWN];
};

/* Descends with every number of stages; the best, and how many configs were judged. */
static double descend(struct problem *p, bool random, uint64_t seed, struct tally_of_steps *tally,
                      int64_t *configs)
{
    int32_t counts[MOST_STAGES], count = problem_stage_counts(p, counts);
    int64_t best = INT64_MAX;
    *configs = 0;
    for (int32_t i = 0; i < count; i++) {
        struct search_result result = {.arena = arena_new()};
        struct search_settings settings = {
            .stages = counts[i], .random_order = random, .seed = seed};
        struct judge *judge;
        stop_on(judge_new(p, &judge));
        stop_on(aceso_search(judge, &settings, DESCEND, &result));
        for (size_t k = 0; k < result.steps.len; k++) {
            const struct search_step *step = &result.steps.data[k];
            tally->improving += step->improved;
            tally->first_try += step->improved && step->bottlenecks_tried == 1;
            tally->hops[step->improved && step->hops < HOPS_SHOWN ? step->hops : 0]++;
        }
        *configs += result.configs;
        if (result.count && !result.found[0].verdict.excess_bytes &&
            result.found[0].verdict.iteration_ns < best)
            best = result.found[0].verdict.iteration_ns;
        judge_free(judge);
        arena_free(result.arena);
    }
    return (double)best * 1e-9;
}

static void measure_heuristics(void)
{
    enum { RUNS = 3 };
    struct tally_of_steps tally = {0}, other = {0};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct asked a = ask(CASES[i].model, NULL, CASES[i].cluster, CASES[i].batch);
        struct problem *p;
        int64_t configs, random_configs = 0;
        double worst = 0, sum = 0;
        stop_on(problem_new(&a.request, &p));
        double best = descend(p, false, 0, &tally, &configs);
        for (int run = 0; run < RUNS; run++) {
            int64_t own;
            double s = descend(p, true, (uint64_t)run + 1, &other, &own);
            worst = s > worst ? s : worst;
            sum += s / RUNS;
            random_configs += own / RUNS;
        }
        printf(
            "%-11s %-13s %9.3f s with heuristic 2 (%7lld configs); random %9.3f s, worst %9.3f s "
            "(%7lld): %+.1f %%\n",
            CASES[i].model, CASES[i].cluster, best, (long long)configs, sum, worst,
            (long long)random_configs, 100 * (sum / best - 1));
        problem_free(p);
        close_asked(&a);
    }
    double all = (double)tally.improving, one = (double)tally.hops[1];
    printf(
        "of %lld improving iterations: %.0f %% at the first bottleneck (the paper: 90 %% of 819), "
        "%.0f %% with more than one hop (68 %%); by hops:",
        (long long)tally.improving, 100 * (double)tally.first_try / all, 100 * (1 - one / all));
    for (int hops = 1; hops < HOPS_SHOWN; hops++)
        printf(" %d: %.0f %%", hops, 100 * (double)tally.hops[hops] / all);
    printf("\n");
}

/* ---- beginnings ------------------------------------------------------------------------------ */

static void measure_beginnings(void)
{
    static const char *const BEGINNINGS[] = {"balanced", "imbalanced-op", "imbalanced-device"};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct asked a = ask(CASES[i].model, NULL, CASES[i].cluster, CASES[i].batch);
        double least = 0, most = 0;
        printf("%-11s %-13s", CASES[i].model, CASES[i].cluster);
        for (size_t b = 0; b < COUNT_OF(BEGINNINGS); b++) {
            a.request.options.initial = BEGINNINGS[b];
            double s = best_of_configs(a.request, FEW).s;
            least = b == 0 || s < least ? s : least;
            most = s > most ? s : most;
            printf(" %s %.3f s,", BEGINNINGS[b], s);
        }
        printf(" %.2f %% apart (the paper: alike)\n", 100 * (most / least - 1));
        close_asked(&a);
    }
}

static void measure_speed(void)
{
    time_judge(4, false);
    time_judge(8, false);
    time_judge(16, false);
    time_judge(8, true);
}

static void measure_short_convergence(void)
{
    measure_convergence(MANY);
}

static void measure_long_convergence(void)
{
    measure_convergence(0);
}

/* All but the last, or the one that is named. */
static const struct {
    const char *name;
    void (*measure)(void);
} PARTS[] = {{"speed", measure_speed},
             {"convergence", measure_short_convergence},
             {"heuristics", measure_heuristics},
             {"beginnings", measure_beginnings},
             {"long", measure_long_convergence}};

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < COUNT_OF(PARTS); i++)
        if (argc > 1 ? strcmp(argv[1], PARTS[i].name) == 0 : i + 1 < COUNT_OF(PARTS))
            PARTS[i].measure();
    return 0;
}
