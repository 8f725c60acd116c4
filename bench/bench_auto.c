/* bench_auto.c - what the automatic planner takes for two large questions, on one core.
 *
 * GPT-3 175B on 1,024 A100s and Llama 3.1 405B on 16,384 H100s: all of tp, pp, dp, pieces, segments,
 * micro-batch, ZeRO, sequence parallelism, recomputation and schedule. Seconds are of the processor.
 * The ratio is to Calculon's evaluation of every point (8 ms each, measured elsewhere); here most are
 * ruled out by bounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "search/search.h"

static const double CALCULON_S = 8e-3;

/* Of this thread: others on the machine do not count. */
static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
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

int main(void)
{
    bench("gpt3-175b", NULL, "dgx-a100:128", 1536);
    bench("llama3.1-405b", "seq: 8192", "dgx-h100:2048", 2048);
    return 0;
}
