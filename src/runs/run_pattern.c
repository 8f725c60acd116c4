/* run_pattern.c - how far predictions are from the user's runs, and how that depends on what ran (runs.h).
 *
 *   error = predicted / measured - 1                                                            (1)
 *
 *   I1  A pattern is the mean of signed errors of the runs that share one value of one property.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runs/runs_room.h"

bool run_error(const struct user_run *run, enum run_measure measure, double *error)
{
    const double pairs[][2] = {
        [RUN_TIME] = {run->measured.time_s, run->predicted.time_s},
        [RUN_MEMORY] = {run->measured.memory_bytes, run->predicted.memory_bytes},
        [RUN_RESERVED] = {run->measured.reserved_bytes, run->predicted.reserved_bytes},
    };
    _Static_assert(COUNT_OF(pairs) == RUN_MEASURES, "a measure without a pair");
    if (!run->done || !(pairs[measure][0] > 0) || !(pairs[measure][1] > 0))
        return false;
    *error = pairs[measure][1] / pairs[measure][0] - 1; /* (1) */
    return true;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct run_errors errors_over(struct arena *scratch, const double *error, size_t count)
{
    struct run_errors out = {.rows = (int64_t)count};
    double *size = ARENA_ARRAY(scratch, double, count + 1);
    for (size_t i = 0; i < count; i++) {
        size[i] = fabs(error[i]);
        out.mean += size[i] / (double)count;
        out.bias += error[i] / (double)count;
    }
    qsort(size, count, sizeof *size, by_value);
    if (count > 0) {
        out.median = (size[(count - 1) / 2] + size[count / 2]) / 2;
        out.worst = size[count - 1];
    }
    return out;
}

struct run_errors runs_errors(const struct user_runs *runs, enum run_measure measure)
{
    struct arena *scratch = arena_new();
    double *error = ARENA_ARRAY(scratch, double, runs->len + 1);
    size_t count = 0;
    for (size_t i = 0; i < runs->len; i++)
        count += run_error(&runs->data[i], measure, &error[count]);
    struct run_errors out = errors_over(scratch, error, count);
    arena_free(scratch);
    return out;
}

/* ---- properties ------------------------------------------------------------------------------- */

static int64_t at_least_1(int64_t degree)
{
    return degree ? degree : 1;
}

static const char *number(struct arena *keep, int64_t value)
{
    return arena_printf(keep, "%lld", (long long)value);
}

static const char *model_value(struct arena *keep, const struct user_run *run)
{
    (void)keep;
    return run->model;
}

static const char *devices_value(struct arena *keep, const struct user_run *run)
{
    return number(keep, run->devices);
}

static const char *dp_value(struct arena *keep, const struct user_run *run)
{
    const struct degrees *d = &run->degrees;
    int64_t others = at_least_1(d->tp) * at_least_1(d->pp) * at_least_1(d->cp);
    return number(keep, d->dp ? d->dp : run->devices / others);
}

static const char *tp_value(struct arena *keep, const struct user_run *run)
{
    return number(keep, at_least_1(run->degrees.tp));
}

static const char *pp_value(struct arena *keep, const struct user_run *run)
{
    return number(keep, at_least_1(run->degrees.pp));
}

static const char *dtype_value(struct arena *keep, const struct user_run *run)
{
    (void)keep;
    return dtype_name(run->degrees.dtype);
}

static const char *recompute_value(struct arena *keep, const struct user_run *run)
{
    (void)keep;
    return recompute_name(run->degrees.recompute);
}

static const struct {
    const char *name;
    const char *(*value)(struct arena *keep, const struct user_run *run);
} PROPERTIES[] = {
    {"model", model_value},
    {"devices", devices_value},
    {"dp", dp_value},
    {"tp", tp_value},
    {"pp", pp_value},
    {"type", dtype_value},
    {"recompute", recompute_value},
};

/* In the order in which values first occur. */
static void add_run(struct arena *keep, const char *property, const char *value, double error,
                    struct run_patterns *out)
{
    size_t at = 0;
    struct run_pattern fresh = {property, value, 0, 0};
    while (at < out->len &&
           (out->data[at].property != property || strcmp(out->data[at].value, value) != 0))
        at++;
    if (at == out->len)
        array_push(keep, out, fresh);
    struct run_pattern *pattern = &out->data[at];
    pattern->bias += (error - pattern->bias) / (double)++pattern->rows;
}

static int by_number(const void *a, const void *b)
{
    const struct run_pattern *x = a, *y = b;
    int64_t left, right;
    if (parse_int(x->value, &left) && parse_int(y->value, &right))
        return (left > right) - (left < right);
    return strcmp(x->value, y->value);
}

void runs_patterns(struct arena *keep, const struct user_runs *runs, struct run_patterns *out)
{
    for (size_t p = 0; p < COUNT_OF(PROPERTIES); p++) {
        size_t first = out->len;
        double error;
        for (size_t i = 0; i < runs->len; i++)
            if (run_error(&runs->data[i], RUN_TIME, &error))
                add_run(keep, PROPERTIES[p].name, PROPERTIES[p].value(keep, &runs->data[i]), error,
                        out);
        if (out->len - first < 2)
            out->len = first;
        else
            qsort(out->data + first, out->len - first, sizeof *out->data, by_number);
    }
}
