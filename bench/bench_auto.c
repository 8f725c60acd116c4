/* bench_auto.c - what the automatic planner takes for two large questions, on one core; or, with `duel
 * COUNT [SEED]`, how it compares with every other planner by itself on random problems of 16 to 512
 * devices (minutes; seconds are of all threads).
 *
 * GPT-3 175B on 1,024 A100s and Llama 3.1 405B on 16,384 H100s: all of tp, pp, dp, pieces, segments,
 * micro-batch, ZeRO, sequence parallelism, recomputation and schedule. Seconds are of the processor.
 * The ratio is to Calculon's evaluation of every point (8 ms each, measured elsewhere); here most are
 * ruled out by bounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "search/search.h"

static const double CALCULON_S = 8e-3;

/* Of the processor: others on the machine do not count. */
static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double now_s(void)
{
    return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

static void stop_on(weft_status status)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "%s\n", weft_last_error()->message);
    exit(1);
}

static void bench(const char *model_name, const char *options, const char *cluster_name,
                  int64_t batch)
{
    struct arena *scratch = arena_new();
    struct model *model;
    struct cluster *cluster;
    struct cost *cost;
    struct grid grid;
    struct planned *planned;
    stop_on(model_open(model_name, options, &model));
    stop_on(cluster_open(cluster_name, &cluster));
    stop_on(cost_open(&cluster->node.device, NULL, &cost));
    struct plan_request request = {
        .model = model, .cluster = cluster, .pins = {.global_batch = batch}};
    double begin = now_s();
    stop_on(grid_search(&request, cost, 16, scratch, &grid));
    double grid_s = now_s() - begin;
    cluster_free(cluster); /* with the rings that were found: the second search starts anew */
    stop_on(cluster_open(cluster_name, &cluster));
    request.cluster = cluster;
    begin = now_s();
    stop_on(plan_search(planner_find("auto"), &request, &planned));
    double all_s = now_s() - begin;
    printf("%s on %s, global batch %lld\n", model_name, cluster_name, (long long)batch);
    printf("  grid    %8.3f s  %7lld points  %6lld estimates  %10.0f x Calculon\n", grid_s,
           (long long)grid.points, (long long)grid.estimates,
           (double)grid.points * CALCULON_S / grid_s);
    printf("  auto    %8.3f s  %7zu simulations; best %.3f s: %s\n", all_s, planned->trials.len,
           (double)planned->trials.data[0].iteration_ns * 1e-9, planned->trials.data[0].text);
    planned_free(planned);
    cost_close(cost);
    cluster_free(cluster);
    model_free(model);
    arena_free(scratch);
}

/* ---- duels ----------------------------------------------------------------------------------- */

/* Real widths and few layers, so that each takes seconds. */
static const struct {
    const char *model, *options;
} MODELS[] = {
    {"gpt3-1.3b", "layers: 12"},   {"gpt3-6.7b", "layers: 8"},   {"gpt3-13b", "layers: 6"},
    {"gpt3-175b", "layers: 4"},    {"llama3-8b", "layers: 8"},   {"llama2-70b", "layers: 8"},
    {"mixtral-8x7b", "layers: 4"}, {"t5-large-32", "layers: 4"}, {"bert-huge-32", "layers: 8"}};
static const char *const CLUSTERS[] = {"dgx-a100", "dgx-h100", "dgx-v100"};
enum { LEAST_NODES = 2, DOUBLINGS = 6, SAMPLES_DOUBLINGS = 4 };

struct duel {
    struct model *model;
    struct cluster *cluster;
    struct plan_request request;
    char text[96];
};

static struct duel draw_duel(struct rng *rng)
{
    size_t model = (size_t)rng_below(rng, COUNT_OF(MODELS));
    const char *cluster = CLUSTERS[rng_below(rng, COUNT_OF(CLUSTERS))];
    int64_t nodes = (int64_t)LEAST_NODES << rng_below(rng, DOUBLINGS);
    struct duel duel = {0};
    snprintf(duel.text, sizeof duel.text, "%s:%lld", cluster, (long long)nodes);
    stop_on(model_open(MODELS[model].model, MODELS[model].options, &duel.model));
    stop_on(cluster_open(duel.text, &duel.cluster));
    int64_t batch = cluster_devices(duel.cluster) << rng_below(rng, SAMPLES_DOUBLINGS);
    snprintf(duel.text, sizeof duel.text, "%s {%s} %s:%lld batch %lld", MODELS[model].model,
             MODELS[model].options, cluster, (long long)nodes, (long long)batch);
    duel.request = (struct plan_request){
        .model = duel.model, .cluster = duel.cluster, .pins = {.global_batch = batch}};
    return duel;
}

/* The best that fits, in ns; 0: none does. */
static int64_t best_of(const struct planner *planner, const struct plan_request *request,
                       double *cpu_s)
{
    struct planned *planned = NULL;
    double begin = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    weft_status status = plan_search(planner, request, &planned);
    *cpu_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - begin;
    if (status == WEFT_FAILURE)
        stop_on(status);
    error_clear();
    int64_t best =
        planned && planned->trials.data[0].fits ? planned->trials.data[0].iteration_ns : 0;
    planned_free(planned);
    return best;
}

/* How often and by how much one planner beats auto. */
struct tally {
    int64_t answers, beaten;
    double most, cpu_s;
};

static void run_duel(struct duel *duel, struct tally *tally)
{
    const struct planner *all;
    size_t count = planners(&all);
    double own_s;
    int64_t own = best_of(planner_find("auto"), &duel->request, &own_s);
    printf("%-48s auto %9.4f s (%5.1f)", duel->text, (double)own * 1e-9, own_s);
    for (size_t i = 0; i < count; i++) {
        double cpu_s = own_s;
        int64_t best = own;
        if (strcmp(all[i].name, "auto") != 0)
            best = best_of(&all[i], &duel->request, &cpu_s);
        double ahead = best && own ? (double)own / (double)best - 1 : best ? 1 : 0;
        tally[i].answers += best > 0;
        tally[i].beaten += ahead > 0;
        tally[i].most = ahead > tally[i].most ? ahead : tally[i].most;
        tally[i].cpu_s += cpu_s;
        if (strcmp(all[i].name, "auto") != 0)
            printf(", %s %+.2f %% (%.1f)", all[i].name,
                   best && own ? 100 * ((double)best / (double)own - 1) : 0, cpu_s);
    }
    printf("\n");
    fflush(stdout);
    cluster_free(duel->cluster);
    model_free(duel->model);
}

static void run_duels(int64_t count, uint64_t seed)
{
    enum { MOST_PLANNERS = 16 };
    struct tally tally[MOST_PLANNERS] = {0};
    const struct planner *all;
    size_t planner_count = planners(&all);
    struct rng rng;
    rng_seed(&rng, seed);
    for (int64_t i = 0; i < count; i++) {
        struct duel duel = draw_duel(&rng);
        run_duel(&duel, tally);
    }
    for (size_t i = 0; i < planner_count; i++)
        printf("%-10s %lld answers, beats auto %lld times, by %.2f %% at most; %.1f s each\n",
               all[i].name, (long long)tally[i].answers, (long long)tally[i].beaten,
               100 * tally[i].most, tally[i].cpu_s / (double)count);
}

int main(int argc, char **argv)
{
    int64_t count = 0, seed = 1;
    if (argc > 2 && strcmp(argv[1], "duel") == 0 && parse_int(argv[2], &count)) {
        if (argc > 3)
            parse_int(argv[3], &seed);
        run_duels(count, (uint64_t)seed);
        return 0;
    }
    bench("gpt3-175b", NULL, "dgx-a100:128", 1536);
    bench("llama3.1-405b", "seq: 8192", "dgx-h100:2048", 2048);
    return 0;
}
