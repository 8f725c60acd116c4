/* bench_auto.c - what the automatic planner's quick search takes for two large questions, on one core; or,
 * with `duel COUNT [SEED [LEAST MOST]]`, how auto compares with every other planner by itself on random
 * problems of LEAST to MOST devices, 4 to 512 by default (minutes; seconds are of all threads). From 1,024 on
 * they are deep models as they are trained (minutes each).
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
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
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
    struct plan_request request = {.model = model,
                                   .cluster = cluster,
                                   .pins = {.global_batch = batch},
                                   .options = {.threads = 1, .quick = true}};
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
    printf("  quick   %8.3f s  %7zu simulations; best %.3f s: %s\n", all_s, planned->trials.len,
           (double)planned->trials.data[0].iteration_ns * 1e-9, planned->trials.data[0].text);
    planned_free(planned);
    cost_close(cost);
    cluster_free(cluster);
    model_free(model);
    arena_free(scratch);
}

/* ---- duels ----------------------------------------------------------------------------------- */

/* Real widths and few layers, so that each takes seconds. */
static const struct duel_model {
    const char *model, *options;
} MODELS[] = {
    {"gpt3-1.3b", "layers: 12"},   {"gpt3-6.7b", "layers: 8"},   {"gpt3-13b", "layers: 6"},
    {"gpt3-175b", "layers: 4"},    {"llama3-8b", "layers: 8"},   {"llama2-70b", "layers: 8"},
    {"mixtral-8x7b", "layers: 4"}, {"t5-large-32", "layers: 4"}, {"bert-huge-32", "layers: 8"}};
/* And all layers, on so many devices that these times layers are more than DEEP_LAYERS. */
static const struct duel_model DEEP[] = {
    {"gpt3-175b", NULL},         {"gpt3-530b", NULL},         {"gpt3-1t", NULL},
    {"llama3.1-405b", NULL},     {"llama3-70b", NULL},        {"gpt3-39b", "layers: 96"},
    {"gpt3-13b", "layers: 160"}, {"opt-66b", NULL},           {"mixtral-8x22b", NULL},
    {"deepseek-v2", NULL},       {"gpt3-6.7b", "layers: 128"}};
static const char *const CLUSTERS[] = {"dgx-a100", "dgx-h100", "dgx-v100"};
static const char *const LARGE_CLUSTERS[] = {"dgx-a100",      "dgx-h100",      "hgx-h200",
                                             "dgx-a100-200g", "dgx-a100-40gb", "hgx-b200"};
enum { DEEP_FROM = 1024, DEEP_LAYERS = 1024 * 80 };
enum { PER_NODE = 8, SAMPLES_DOUBLINGS = 4, ONE_IN = 5, PINNED_DOUBLINGS = 4 };

struct duel {
    struct model *model;
    struct cluster *cluster;
    struct plan_request request;
    char text[160];
};

/* Some dimensions pinned, some devices short of memory, as users have them. */
static struct degrees draw_pins(struct rng *rng, const struct cluster *cluster)
{
    struct degrees pins = {.global_batch = cluster_devices(cluster)
                                           << rng_below(rng, SAMPLES_DOUBLINGS)};
    if (rng_below(rng, ONE_IN) == 0)
        pins.tp = INT64_C(1) << rng_below(rng, PINNED_DOUBLINGS);
    if (rng_below(rng, ONE_IN) == 0)
        pins.pp = INT64_C(1) << rng_below(rng, PINNED_DOUBLINGS);
    if (rng_below(rng, ONE_IN) == 0) {
        pins.has_shard = true;
        pins.shard = (int)rng_below(rng, 4);
    }
    if (rng_below(rng, ONE_IN) == 0)
        pins.memory.limit_bytes = INT64_C(4) << (30 + rng_below(rng, 3));
    return pins;
}

static void say_pin(struct duel *duel, const char *name, int64_t value)
{
    size_t len = strlen(duel->text);
    snprintf(duel->text + len, sizeof duel->text - len, " %s %lld", name, (long long)value);
}

static struct duel draw_duel(struct rng *rng, int64_t least, int64_t most)
{
    bool deep = least >= DEEP_FROM;
    const struct duel_model *model =
        deep ? &DEEP[rng_below(rng, COUNT_OF(DEEP))] : &MODELS[rng_below(rng, COUNT_OF(MODELS))];
    const char *cluster = deep ? LARGE_CLUSTERS[rng_below(rng, COUNT_OF(LARGE_CLUSTERS))]
                               : CLUSTERS[rng_below(rng, COUNT_OF(CLUSTERS))];
    int64_t sizes = 1;
    struct duel duel = {0};
    while (least << sizes <= most)
        sizes++;
    int64_t devices = least << rng_below(rng, sizes);
    stop_on(model_open(model->model, model->options, &duel.model));
    while (deep && devices * duel.model->layers <= DEEP_LAYERS)
        devices *= 2;
    int64_t nodes = devices > PER_NODE ? devices / PER_NODE : 1;
    snprintf(duel.text, sizeof duel.text, "%s:%lldx%lld", cluster, (long long)nodes,
             (long long)(devices / nodes));
    stop_on(cluster_open(duel.text, &duel.cluster));
    struct degrees pins = draw_pins(rng, duel.cluster);
    snprintf(duel.text, sizeof duel.text, "%s {%s} %s, %lld devices", model->model,
             model->options ? model->options : "", cluster, (long long)devices);
    say_pin(&duel, "batch", pins.global_batch);
    if (pins.tp)
        say_pin(&duel, "tp", pins.tp);
    if (pins.pp)
        say_pin(&duel, "pp", pins.pp);
    if (pins.has_shard)
        say_pin(&duel, "zero", pins.shard);
    if (pins.memory.limit_bytes)
        say_pin(&duel, "GiB", pins.memory.limit_bytes >> 30);
    duel.request =
        (struct plan_request){.model = duel.model, .cluster = duel.cluster, .pins = pins};
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
struct duel_tally {
    int64_t answers, beaten;
    double most, cpu_s;
};

static void run_duel(struct duel *duel, struct duel_tally *tally)
{
    const struct planner *all;
    size_t count = planners(&all);
    double own_s;
    int64_t own = best_of(planner_find("auto"), &duel->request, &own_s);
    printf("%-64s auto %9.4f s (%5.1f)", duel->text, (double)own * 1e-9, own_s);
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
        if (strcmp(all[i].name, "auto") == 0)
            continue;
        if (best && own)
            printf(", %s %+.2f %% (%.1f)", all[i].name, 100 * ((double)best / (double)own - 1),
                   cpu_s);
        else
            printf(", %s %s (%.1f)", all[i].name, best ? "alone" : "none", cpu_s);
    }
    printf("\n");
    fflush(stdout);
    cluster_free(duel->cluster);
    model_free(duel->model);
}

static void run_duels(int64_t count, uint64_t seed, int64_t least, int64_t most)
{
    enum { MOST_PLANNERS = 16 };
    struct duel_tally tally[MOST_PLANNERS] = {0};
    const struct planner *all;
    size_t planner_count = planners(&all);
    struct rng rng;
    rng_seed(&rng, seed);
    for (int64_t i = 0; i < count; i++) {
        struct duel duel = draw_duel(&rng, least, most);
        run_duel(&duel, tally);
    }
    for (size_t i = 0; i < planner_count; i++)
        printf("%-10s %lld answers, beats auto %lld times, by %.2f %% at most; %.1f s each\n",
               all[i].name, (long long)tally[i].answers, (long long)tally[i].beaten,
               100 * tally[i].most, tally[i].cpu_s / (double)count);
}

int main(int argc, char **argv)
{
    int64_t numbers[] = {0, 1, 4, 512}; /* count, seed, least and most devices */
    if (argc > 2 && strcmp(argv[1], "duel") == 0) {
        for (size_t i = 0; i < COUNT_OF(numbers) && i + 2 < (size_t)argc; i++)
            if (!parse_int(argv[i + 2], &numbers[i]) || numbers[i] < 1) {
                fprintf(stderr, "bench_auto duel COUNT [SEED [LEAST MOST]], not '%s'\n",
                        argv[i + 2]);
                return 2;
            }
        run_duels(numbers[0], (uint64_t)numbers[1], numbers[2], numbers[3]);
        return 0;
    }
    bench("gpt3-175b", NULL, "dgx-a100:128", 1536);
    bench("llama3.1-405b", "seq: 8192", "dgx-h100:2048", 2048);
    return 0;
}
