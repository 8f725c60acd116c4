/* sampling.c - medians, their errors, and means (sampling.h has the equations). */
#include "run/measure/sampling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct sampling sampling_new(struct arena *keep, int64_t most)
{
    return (struct sampling){ARENA_ARRAY(keep, double, (size_t)most), 0, most};
}

/* What takes no time by the clock takes its finest step. */
void sampling_add(struct sampling *samples, double seconds)
{
    if (samples->count < samples->room)
        samples->ns[samples->count++] = fmax(seconds * 1e9, 1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct spread spread_of(struct sampling *samples)
{
    int64_t n = samples->count, last = n - 1;
    const double *x = samples->ns;
    double middle = (double)last / 2, reach = sqrt((double)n) / 2;
    int64_t low = (int64_t)fmax(floor(middle - reach), 0);
    int64_t high = (int64_t)fmin(ceil(middle + reach), (double)last);
    qsort(samples->ns, (size_t)n, sizeof *samples->ns, by_value);
    double median = (x[last / 2] + x[n / 2]) / 2;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += fmin(x[i], 2 * median);
    return (struct spread){median, fmax((x[high] - x[low]) / 2, 1) / median, /* (1), I1 */
                           sum / (double)n};                                 /* (2) */
}

double core_wait_seconds(void)
{
    unsigned long long ran_ns, waited_ns = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &ran_ns, &waited_ns) != 2)
        waited_ns = 0;
    fclose(file);
    return (double)waited_ns / 1e9;
}
