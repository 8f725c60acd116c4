/* bench_galvatron.c - whole searches of Galvatron-BMW's space, costs of layers included.
 *
 * LLaMA2-7B on 8 devices is what Galvatron's newest search takes 114 CPU seconds for (measured
 * elsewhere, on one core of the same kind of machine); 1,000 layers on 1,024 devices is more than it
 * takes at all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "search/galvatron/layer_costs.h"
#include "search/search.h"

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* of one core, whatever else runs */
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void stop_on(weft_status status)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "%s\n", weft_last_error()->message);
    exit(1);
}

struct setting {
    const char *name, *model, *options, *cluster;
    int64_t global_batch;
    double theirs_ms; /* 0: unknown */
};
static const struct setting SETTINGS[] = {
    {"LLaMA2-7B, 8 devices", "llama2-7b", NULL, "dgx-a100:1", 64, 114e3},
    {"BERT-Huge-32, 8 devices", "bert-huge-32", NULL, "titan-rtx:1", 64, 0},
    {"GPT3-13B, 64 devices", "gpt3-13b", NULL, "dgx-a100:8", 512, 0},
    {"1,000 layers, 1,024 devices", "gpt3-6.7b", "layers: 1000", "dgx-a100:128", 2048, 0},
    {"1,000 wide layers", "gpt3-175b", "layers: 1000", "dgx-a100:128", 2048, 0},
    {"1,000 layers, less memory", "gpt3-13b", "layers: 1000", "dgx-v100:128", 4096, 0},
};

static void run(const struct setting *setting)
{
    struct arena *arena = arena_new();
    struct model *model;
    struct cluster *cluster;
    struct plan *plan;
    struct layer_costs *costs;
    struct layer_plans plans;
    stop_on(model_open(setting->model, setting->options, &model));
    stop_on(cluster_open(setting->cluster, &cluster));
    stop_on(plan_new(model, cluster, &plan));
    struct estimate_settings settings = estimate_settings_of(plan);
    double start = now_ms();
    stop_on(layer_costs_new(&settings, &costs));
    struct layer_problem problem = {.source = layer_costs_source(costs),
                                    .space = space_find("bmw"),
                                    .devices = cluster_devices(cluster),
                                    .limit_bytes = plan_room_bytes(plan),
                                    .global_batch = setting->global_batch};
    stop_on(galvatron_search(arena, &problem, &plans));
    double ms = now_ms() - start;
    const struct layer_plan *best = &plans.data[0];
    printf("%-28s %9.1f ms ", setting->name, ms);
    if (setting->theirs_ms > 0)
        printf("%9.0f x", setting->theirs_ms / ms);
    else
        printf("%11s", "");
    printf("  pp %d, %lld micro-batches, %.1f ms; %lld stage searches\n", (int)best->stages,
           (long long)best->micro_batches, (double)best->iteration_ns / 1e6,
           (long long)plans.searched);
    layer_costs_free(costs);
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
    arena_free(arena);
}

int main(void)
{
    printf("%-28s %12s %11s  plan\n", "search, in CPU time", "time", "theirs / it");
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++)
        run(&SETTINGS[i]);
    return EXIT_SUCCESS;
}
