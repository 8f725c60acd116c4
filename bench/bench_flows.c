/* bench_flows.c - what it costs to find the flows of a folded graph, by the size of its cluster.
 *
 * Every stage has tensor-parallel groups of 8, data-parallel groups over the rest, sends to its
 * neighbours and copies to its hosts. "ratio" is the time per device over that of the first row, 1.0
 * where time is linear in devices.
 */
#include <stdio.h>
#include <time.h>

#include "sim/flows.h"

enum { TENSOR = 8, BUCKETS = 10, RUNS = 5, PATTERNS = 5, EXCHANGES = 2 * BUCKETS + 6 };
static const int64_t BUCKET_BYTES = 25 << 20, SEND_BYTES = 16 << 20;

static const struct {
    const char *cluster;
    int32_t stages;
    int64_t devices; /* of a stage */
} ROWS[] = {
    {"dgx-a100:128", 8, 128},     {"dgx-a100:2048", 16, 1024},
    {"dgx-a100:2048", 64, 256},   {"dgx-a100-200g:2048", 16, 1024},
    {"dgx-a100:12500", 20, 5000}, {"dgx-a100-200g:12500", 20, 5000},
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct pattern digit(int64_t first, int64_t devices, int64_t stride, int64_t degree)
{
    return (struct pattern){.collective = COLLECTIVE_ALL_REDUCE,
                            .first = first,
                            .devices = devices,
                            .digits = degree > 1,
                            .stride = {stride},
                            .degree = {degree}};
}

static struct pattern send(int64_t from, int64_t to, int64_t devices, const struct reshard *reshard)
{
    return (struct pattern){.collective = COLLECTIVE_SEND,
                            .first = to,
                            .devices = devices,
                            .from_first = from,
                            .from_devices = devices,
                            .reshard = reshard};
}

/* The last stage sends to the one before, as the others do to the next. */
static int32_t stage_patterns(int32_t stage, int32_t stages, int64_t devices,
                              const struct reshard *reshard, struct pattern *out)
{
    int64_t first = stage * devices, other = first + (stage + 1 < stages ? devices : -devices);
    out[0] = digit(first, devices, 1, TENSOR);
    out[1] = digit(first, devices, TENSOR, devices / TENSOR);
    out[2] = send(first, other, devices, reshard);
    out[3] = send(other, first, devices, reshard);
    out[4] = digit(first, devices, 1, 1);
    return PATTERNS;
}

static void stage_exchanges(int32_t pattern, struct exchange *out)
{
    static const enum collective STATE[] = {COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALL_GATHER};
    int32_t n = 0;
    for (int32_t b = 0; b < 2 * BUCKETS; b++)
        out[n++] = (struct exchange){.pattern = pattern + 1,
                                     .bytes = BUCKET_BYTES + b / 2,
                                     .collective = (int32_t)STATE[b % 2]};
    out[n++] = (struct exchange){.pattern = pattern, .bytes = SEND_BYTES};
    out[n++] = (struct exchange){
        .pattern = pattern, .bytes = SEND_BYTES, .collective = COLLECTIVE_ALL_TO_ALL};
    for (int32_t p = 2; p < 4; p++)
        out[n++] = (struct exchange){
            .pattern = pattern + p, .bytes = SEND_BYTES, .collective = COLLECTIVE_SEND};
    for (uint8_t kind = EXCHANGE_TO_HOST; kind <= EXCHANGE_FROM_HOST; kind++)
        out[n++] = (struct exchange){.kind = kind, .pattern = pattern + 4, .bytes = SEND_BYTES};
}

/* The best of a few runs; the first of them also finds the cluster's rings. */
static double best_s(const struct cluster *cluster, const struct pattern *patterns, int32_t count,
                     const struct exchange *exchanges, int32_t exchange_count, struct flows *out,
                     struct arena *keep)
{
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
        double start = now_s();
        if (flows_find(cluster, patterns, count, exchanges, exchange_count, true, keep, out))
            return -1;
        double took = now_s() - start;
        best = run == 0 || took < best ? took : best;
    }
    return best;
}

int main(void)
{
    double base = 0;
    printf("%-20s %8s %7s %9s %9s %7s %7s %6s %6s\n", "cluster", "devices", "stages", "exchanges",
           "ms", "us/ptn", "links", "alike", "ratio");
    for (size_t row = 0; row < COUNT_OF(ROWS); row++) {
        struct cluster *cluster;
        struct arena *arena = arena_new();
        int32_t stages = ROWS[row].stages, patterns = 0, exchanges = stages * EXCHANGES;
        struct pattern *pattern = ARENA_ARRAY(arena, struct pattern, (size_t)stages * PATTERNS);
        struct exchange *exchange = ARENA_ARRAY(arena, struct exchange, (size_t)exchanges);
        struct reshard reshard = {.from_devices = ROWS[row].devices,
                                  .to_devices = ROWS[row].devices};
        struct flows flows;
        if (cluster_open(ROWS[row].cluster, &cluster))
            return 1;
        for (int32_t s = 0; s < stages; s++) {
            stage_exchanges(patterns, exchange + s * EXCHANGES);
            patterns += stage_patterns(s, stages, ROWS[row].devices, &reshard, pattern + patterns);
        }
        double s = best_s(cluster, pattern, patterns, exchange, exchanges, &flows, arena);
        double each = s / (double)(stages * ROWS[row].devices);
        base = row == 0 ? each : base;
        printf("%-20s %8lld %7d %9d %9.2f %7.1f %7d %6s %6.2f\n", ROWS[row].cluster,
               (long long)(stages * ROWS[row].devices), stages, exchanges, s * 1e3,
               s * 1e6 / patterns, flows.links, flows.alike ? "yes" : "no", each / base);
        cluster_free(cluster);
        arena_free(arena);
    }
    return 0;
}
