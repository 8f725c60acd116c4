/* published_errors.c - how far predictions are from what was measured.
 *
 *   error = predicted / measured - 1                                                          (1)
 *
 *   I1  Means, medians and worst cases are those of absolute errors.
 */
#include "lab/published_read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double value_of(const struct run_outcome *outcome, enum measure measure)
{
    const double values[] = {
        [MEASURE_TIME] = outcome->time_s,
        [MEASURE_MEMORY] = outcome->memory_bytes,
        [MEASURE_RESERVED] = outcome->reserved_bytes,
    };
    _Static_assert(COUNT_OF(values) == MEASURE_COUNT, "a measure without a value");
    return values[measure];
}

bool published_error(const struct published *row, enum measure measure, double *error)
{
    double measured = value_of(&row->measured, measure);
    double predicted = value_of(&row->predicted, measure);
    if (!row->done || !(measured > 0) || !(predicted > 0))
        return false;
    *error = predicted / measured - 1; /* (1) */
    return true;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct errors errors_of(double *error, size_t count)
{
    struct errors out = {.rows = (int64_t)count};
    if (!count)
        return out;
    qsort(error, count, sizeof *error, by_size);
    for (size_t i = 0; i < count; i++)
        out.mean += error[i] / (double)count;
    out.median = (error[(count - 1) / 2] + error[count / 2]) / 2;
    out.worst = error[count - 1];
    return out;
}

struct errors published_errors(const struct published_rows *rows, const struct dataset *dataset,
                               enum half half, enum measure measure)
{
    struct arena *scratch = arena_new();
    struct error_list all = {0};
    double error;
    for (size_t i = 0; i < rows->len; i++) {
        const struct published *row = &rows->data[i];
        if (row->dataset == dataset && row->half == half && published_error(row, measure, &error))
            array_push(scratch, &all, fabs(error));
    }
    struct errors out = errors_of(all.data, all.len);
    arena_free(scratch);
    return out;
}

/* ---- comparisons ----------------------------------------------------------------------------- */

static bool same_group(const struct published *a, const struct published *b)
{
    return a->dataset == b->dataset && a->group && b->group && strcmp(a->group, b->group) == 0;
}

void published_gains(struct arena *keep, const struct published_rows *rows,
                     const struct dataset *dataset, struct gains *out)
{
    for (size_t i = 0; i < rows->len; i++) {
        const struct published *row = &rows->data[i];
        if (row->dataset != dataset || !row->system || !dataset->gains_of ||
            strcmp(row->system, dataset->gains_of) != 0)
            continue;
        for (size_t j = 0; j < rows->len; j++) {
            const struct published *over = &rows->data[j];
            if (over == row || !same_group(row, over))
                continue;
            struct gain gain = {row, over, over->measured.time_s / row->measured.time_s, 0};
            if (row->done && over->done)
                gain.predicted = over->predicted.time_s / row->predicted.time_s;
            array_push(keep, out, gain);
        }
    }
}

int64_t published_rank(const struct published_rows *rows, const struct published *row)
{
    int64_t rank = 1;
    if (!row->done || !row->rank)
        return 0;
    for (size_t i = 0; i < rows->len; i++)
        rank += same_group(row, &rows->data[i]) && rows->data[i].done &&
                rows->data[i].predicted.time_s < row->predicted.time_s;
    return rank;
}
