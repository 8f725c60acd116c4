/* bench_cost.c - what one question about a kernel's time costs.
 *
 * A search asks millions of them. Each kind of answer stands as a ratio to the analytic formula
 * alone, asked in the same run; opening the databases stands as how many of those fit in it.
 */
#include <stdio.h>
#include <time.h>

#include "cost/cost.h"
#include "report/report.h"

enum { CALLS = 1000000 };

/* On a V100 with the shipped profile: in the database, between two of its rows, half of a time for
 * both gradients, and far from anything measured. */
static const struct {
    const char *what;
    enum phase phase;
    int64_t shape[4];
} QUESTIONS[] = {
    {"measured", PHASE_FORWARD, {1, 2048, 8192, 2048}},
    {"interpolated", PHASE_FORWARD, {1, 3000, 8192, 2048}},
    {"share of a backward", PHASE_BACKWARD_INPUT, {1, 2048, 2048, 8192}},
    {"formula", PHASE_FORWARD, {7, 3001, 333, 77}},
};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static struct work question(size_t i)
{
    struct work work = {.kernel = KERNEL_MATMUL, .phase = QUESTIONS[i].phase, .dtype = DTYPE_FP16};
    work.flops = 2;
    for (int j = 0; j < 4; j++) {
        work.shape[j] = QUESTIONS[i].shape[j];
        work.flops *= (double)work.shape[j];
    }
    return work;
}

static double formula_ns(const struct device *device)
{
    const struct calibration *calibration = calibration_for(device);
    struct work work = question(COUNT_OF(QUESTIONS) - 1);
    volatile int64_t sum = 0;
    double start = now_ns();
    for (int i = 0; i < CALLS; i++)
        sum += analytic_ns(device, calibration, &work);
    return (now_ns() - start) / CALLS;
}

static double answer_ns(struct cost *cost, size_t number, const char **provenance)
{
    struct work work = question(number);
    volatile int64_t sum = 0;
    *provenance = provenance_name(cost_of(cost, &work).provenance);
    double start = now_ns();
    for (int i = 0; i < CALLS; i++)
        sum += cost_of(cost, &work).ns;
    return (now_ns() - start) / CALLS;
}

int main(void)
{
    static const char *const HEADERS[] = {"question", "answer", "time", "to the formula"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT};
    const struct device *device = device_find("V100-SXM2-32GB");
    struct arena *arena = arena_new();
    struct table *table = table_new(arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    struct cost *cost;
    double baseline = formula_ns(device), start = now_ns();
    if (cost_open(device, NULL, &cost) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error()->message);
        return 1;
    }
    double opening = now_ns() - start;
    table_cell(table, "opening");
    table_cell(table, "-");
    table_cell(table, "%s", show_duration(opening).s);
    table_cell(table, "%.0f", opening / baseline);
    for (size_t i = 0; i < COUNT_OF(QUESTIONS); i++) {
        const char *provenance;
        double each = answer_ns(cost, i, &provenance);
        table_cell(table, "%s", QUESTIONS[i].what);
        table_cell(table, "%s", provenance);
        table_cell(table, "%s", show_duration(each).s);
        table_cell(table, "%.2f", each / baseline);
    }
    table_print(table, stdout);
    cost_close(cost);
    arena_free(arena);
    return 0;
}
