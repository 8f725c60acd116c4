/* bench_train.c - how fast one rank trains, beside what OpenBLAS would allow.
 *
 *   allowed = sum over kernels with products of  FLOPs / sgemm's rate on the same shape           (1)
 *
 * over the processor time of a step of the whole runtime: kernels, copies, gradients' norm, optimizer,
 * reading the text. The GPT is README's example, the others are larger. FLOPs of causal attention count the
 * half that is not masked. Rates are the best of several runs, steps the median of many.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cblas.h>

#include "run/run.h"

enum { MOST_RATES = 64, STEPS = 12 };
static const double LONG_ENOUGH_S = 0.03;

static void must(bool right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "bench_train: %s: %s\n", what, weft_last_error()->message);
    exit(EXIT_FAILURE);
}

/* ---- what is allowed (1) --------------------------------------------------------------------- */

static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static float *numbers(int64_t count)
{
    float *x = malloc((size_t)count * sizeof *x);
    must(x != NULL, "no memory");
    for (int64_t i = 0; i < count; i++)
        x[i] = 0.1F * (float)(i % 7);
    return x;
}

struct rate {
    int64_t m, n, k;
    double flops_per_s;
};

static double sgemm_rate(int64_t m, int64_t n, int64_t k)
{
    static struct rate known[MOST_RATES];
    static int count;
    for (int i = 0; i < count; i++)
        if (known[i].m == m && known[i].n == n && known[i].k == k)
            return known[i].flops_per_s;
    float *a = numbers(m * k), *b = numbers(n * k), *c = numbers(m * n);
    double best_s = 1e9, all_s = 0;
    for (int run = 0; run < 4 || all_s < LONG_ENOUGH_S; run++) {
        double begin = thread_seconds();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k, 1, a, (int)k,
                    b, (int)k, 0, c, (int)n);
        double seconds = thread_seconds() - begin;
        best_s = seconds < best_s ? seconds : best_s;
        all_s += seconds;
    }
    free(a);
    free(b);
    free(c);
    must(count < MOST_RATES, "too many shapes");
    known[count++] = (struct rate){m, n, k, 2 * (double)m * (double)n * (double)k / best_s};
    return known[count - 1].flops_per_s;
}

/* The shape of an ask's products and their FLOPs; 0: it has none. */
static double products_of(const struct work *work, int64_t shape[3])
{
    /* batch m n k, or batch heads kv_heads q kv depth value_depth causal (docs/reference/profile.md) */
    const int64_t *s = work->shape;
    bool attends = work->kernel == KERNEL_ATTENTION;
    if (!attends && work->kernel != KERNEL_MATMUL)
        return 0;
    memcpy(shape, attends ? s + 3 : s + 1, 3 * sizeof *shape);
    return work->flops * (attends && s[7] ? (double)(s[4] + 1) / (double)(2 * s[4]) : 1);
}

static double allowed_s(const struct plan *plan, double *flops)
{
    struct arena *arena = arena_new();
    struct asks asks;
    double sum_s = 0;
    must(asks_of_plan(arena, plan, &asks) == WEFT_OK, "asks");
    for (size_t i = 0; i < asks.len; i++) {
        const struct ask *ask = &asks.data[i];
        double uses = 0;
        int64_t shape[3] = {1, 1, 1};
        double work = products_of(&ask->work, shape);
        for (size_t a = 0; a < ask->askers.len; a++)
            uses += (double)ask->askers.data[a].uses;
        if (work <= 0)
            continue;
        work *= uses * (double)plan_micro_batches(plan);
        *flops += work;
        sum_s += work / sgemm_rate(shape[0], shape[1], shape[2]);
    }
    arena_free(arena);
    return sum_s;
}

/* ---- what it takes --------------------------------------------------------------------------- */

struct clock {
    double step_s[STEPS], last_s;
    int steps;
};

static void note_step(void *context, const struct training_news *news)
{
    struct clock *clock = context;
    struct rusage usage;
    (void)news;
    getrusage(RUSAGE_SELF, &usage);
    double now_s = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 +
                   (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
    clock->step_s[clock->steps++] = now_s - clock->last_s;
    clock->last_s = now_s;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The first step has the time before it, too. */
static double median_step_s(const struct plan *plan)
{
    struct arena *arena = arena_new();
    struct clock clock = {0};
    struct training_result result;
    struct training_options options = {
        .plan = plan,
        .data.path = WEFT_SOURCE_DIR "/data/text/harbour.txt",
        .steps = STEPS,
        .seed = -1,
        .rate = {.peak = 1e-3, .steps = STEPS},
        .optimizer = {.kind = OPTIMIZER_ADAMW, .beta1 = 0.9F, .beta2 = 0.999F, .epsilon = 1e-8F},
        .clip = 1,
        .tell = note_step,
        .context = &clock};
    must(train_threads(&options, arena, &result) == WEFT_OK, "training");
    qsort(clock.step_s + 1, STEPS - 1, sizeof(double), by_value);
    arena_free(arena);
    return clock.step_s[1 + (STEPS - 1) / 2];
}

static const struct {
    const char *name, *overrides;
    int64_t micro, global;
} SETTINGS[] = {
    {"README's GPT", NULL, 8, 16},
    {"hidden 256, seq 128", "hidden: 256, heads: 8, seq: 128", 4, 8},
    {"hidden 384, 6 layers, seq 128", "hidden: 384, heads: 6, layers: 6, seq: 128", 4, 4},
};

static void run_setting(size_t i)
{
    struct model *model;
    struct cluster *cluster;
    struct plan *plan;
    struct degrees degrees = {.micro_batch = SETTINGS[i].micro, .global_batch = SETTINGS[i].global};
    must(model_open(WEFT_SOURCE_DIR "/data/models/gpt-tiny.yaml", SETTINGS[i].overrides, &model) ==
             WEFT_OK,
         "model");
    must(cluster_ranks(1, &cluster) == WEFT_OK, "cluster");
    must(plan_from_degrees(model, cluster, &degrees, &plan) == WEFT_OK, "plan");
    double flops = 0, best_s = allowed_s(plan, &flops), step_s = median_step_s(plan);
    double tokens = (double)degrees.global_batch * (double)model->seq;
    printf("%-30s %10.0f %10.0f %8.1f %8.1f %6.0f %%\n", SETTINGS[i].name, tokens / step_s,
           tokens / best_s, flops / step_s / 1e9, flops / best_s / 1e9, 100 * best_s / step_s);
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
}

int main(void)
{
    openblas_set_num_threads(1);
    printf("%-30s %10s %10s %8s %8s %8s\n", "one rank, fp32", "tokens/s", "allowed", "GFLOP/s",
           "sgemm's", "ratio");
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++)
        run_setting(i);
    return EXIT_SUCCESS;
}
