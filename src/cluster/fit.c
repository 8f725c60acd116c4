/* fit.c - the constants of the collective model, from measurements.
 *
 * Equation (1) of fit.h is linear in latency, step, 1/bandwidth and sqrt(half_size)/bandwidth:
 *
 *   T_i = x_0 + x_1 steps_i + x_2 V_i / b_i + x_3 sqrt(V_i) / b_i,   all x >= 0                 (1)
 *
 * where b_i is 1, or with a cluster the bandwidth of its links for sample i, and then 1 / x_2 is
 * the efficiency. The fit minimises
 *
 *   sum_i w_i |predicted_i / T_i - 1|,   w_i = 1 / samples in i's octave of sizes               (2)
 *
 * by least squares whose weights are adjusted until they settle: relative errors, so that small
 * sizes count as much as large ones; weights by octave, so that the few small sizes of a table in
 * steps of 1 MiB still count; absolute values, so that one bad row in ten does not distort the fit
 * of the others.
 *
 *   I1  There are at most 4 unknowns: every subset that may be positive is solved, and the best
 *       kept. That is non-negative least squares without iterations, and exact on exact data.
 *   I2  A constant is fitted only if the samples determine it: 3 sizes over a factor of 4, and for
 *       `step` two numbers of devices.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/placement.h"

enum { LATENCY, STEP, VOLUME, ROOT, UNKNOWNS };
enum { ROUNDS = 16, LEAST_SIZES = 3 };
static const double LEAST_RANGE = 4;    /* largest size over smallest */
static const double SMALL_ERROR = 0.02; /* smaller errors count squared */
static const double NEGLIGIBLE = 1e-9;  /* pivot below which a column adds nothing */

struct row {
    double column[UNKNOWNS];
    double seconds, weight;
};

/* ---- equation 1 ------------------------------------------------------------------------------ */

static weft_status link_bandwidth(const struct cluster *cluster, const struct sample *sample,
                                  double *out)
{
    *out = 1;
    if (!cluster)
        return WEFT_OK;
    int64_t local = sample->devices / sample->nodes;
    struct group group = {
        .levels = 2, .count = {local, sample->nodes}, .stride = {1, cluster->node.devices}};
    if (local < 1 || local > cluster->node.devices || local * sample->nodes != sample->devices ||
        sample->nodes > cluster->nodes) {
        bad_input(sample->file, sample->line, NULL, "%s on %s do not fit on %s",
                  counted(sample->devices, "device").s, counted(sample->nodes, "node").s,
                  cluster->name);
        return WEFT_BAD_INPUT;
    }
    return collective_bandwidth(cluster, sample->collective, &group, out);
}

static weft_status fill_row(const struct cluster *cluster, const struct sample *sample,
                            struct row *row)
{
    double volume = ring_volume(sample->collective, sample->devices) * sample->bytes, bytes_per_s;
    weft_status status = link_bandwidth(cluster, sample, &bytes_per_s);
    if (status != WEFT_OK)
        return status;
    int64_t between = sample->nodes > 1 ? ring_steps(sample->collective, sample->nodes)
                                        : ring_steps(sample->collective, sample->devices);
    row->column[LATENCY] = 1;
    row->column[STEP] = (double)between;
    row->column[VOLUME] = volume / bytes_per_s;
    row->column[ROOT] = sqrt(volume) / bytes_per_s;
    row->seconds = sample->seconds;
    return WEFT_OK;
}

static double predict(const double *x, const struct row *row)
{
    double sum = 0;
    for (int k = 0; k < UNKNOWNS; k++)
        sum += x[k] * row->column[k];
    return sum;
}

/* ---- least squares --------------------------------------------------------------------------- */

/* Solves the normal equations for the unknowns in `mask` by Cholesky; false: not determined, or one
 * of them is negative. Columns are scaled to length 1 first (`scale`). */
static bool solve_subset(double normal[UNKNOWNS][UNKNOWNS], const double *right,
                         const double *scale, unsigned mask, double *x)
{
    double l[UNKNOWNS][UNKNOWNS] = {{0}}, y[UNKNOWNS];
    int which[UNKNOWNS], n = 0;
    for (int k = 0; k < UNKNOWNS; k++)
        if (mask >> k & 1)
            which[n++] = k;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = normal[which[i]][which[j]];
            for (int k = 0; k < j; k++)
                sum -= l[i][k] * l[j][k];
            if (i == j && sum < NEGLIGIBLE)
                return false;
            l[i][j] = i == j ? sqrt(sum) : sum / l[j][j];
        }
        y[i] = right[which[i]];
        for (int k = 0; k < i; k++)
            y[i] -= l[i][k] * y[k];
        y[i] /= l[i][i];
    }
    memset(x, 0, UNKNOWNS * sizeof *x);
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++)
            y[i] -= l[k][i] * y[k];
        y[i] /= l[i][i];
        if (y[i] < 0)
            return false;
        x[which[i]] = y[i] / scale[which[i]];
    }
    return true;
}

static double weighted_residual(const struct row *rows, size_t count, const double *x)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double error = (predict(x, &rows[i]) / rows[i].seconds - 1) * rows[i].weight;
        sum += error * error;
    }
    return sum;
}

/* I1. `allowed` are the unknowns that the samples determine. The square-root term without the
 * volume term would give no bandwidth; a latency alone may fit best, and then there is no bandwidth
 * to be found. */
static bool least_squares(const struct row *rows, size_t count, unsigned allowed, double *best)
{
    double normal[UNKNOWNS][UNKNOWNS] = {{0}}, right[UNKNOWNS] = {0}, scale[UNKNOWNS] = {0};
    for (size_t i = 0; i < count; i++) {
        double factor = rows[i].weight / rows[i].seconds;
        for (int a = 0; a < UNKNOWNS; a++) {
            right[a] += rows[i].column[a] * factor * rows[i].weight;
            for (int b = 0; b < UNKNOWNS; b++)
                normal[a][b] += rows[i].column[a] * rows[i].column[b] * factor * factor;
        }
    }
    for (int k = 0; k < UNKNOWNS; k++)
        scale[k] = sqrt(normal[k][k]);
    for (int a = 0; a < UNKNOWNS; a++) {
        right[a] /= scale[a];
        for (int b = 0; b < UNKNOWNS; b++)
            normal[a][b] /= scale[a] * scale[b];
    }
    double least = INFINITY, x[UNKNOWNS];
    for (unsigned mask = 1; mask < 1u << UNKNOWNS; mask++) {
        bool sound = mask >> VOLUME & 1 || !(mask >> ROOT & 1);
        if ((mask & ~allowed) || !sound || !solve_subset(normal, right, scale, mask, x))
            continue;
        double residual = weighted_residual(rows, count, x);
        if (residual < least) {
            least = residual;
            memcpy(best, x, sizeof x);
        }
    }
    return isfinite(least) && best[VOLUME] > 0;
}

/* The weights of equation 2, by octave. */
static void balance(const struct sample *samples, size_t count, struct row *rows)
{
    int in_octave[64] = {0};
    for (size_t i = 0; i < count; i++)
        in_octave[ilogb(samples[i].bytes) & 63]++;
    for (size_t i = 0; i < count; i++)
        rows[i].weight = sqrt(1.0 / in_octave[ilogb(samples[i].bytes) & 63]);
}

static bool settle(struct row *rows, size_t count, const double *start, unsigned allowed, double *x)
{
    for (int round = 0; round < ROUNDS; round++) {
        if (!least_squares(rows, count, allowed, x))
            return false;
        for (size_t i = 0; i < count; i++) {
            double error = fabs(predict(x, &rows[i]) / rows[i].seconds - 1);
            rows[i].weight = start[i] / sqrt(fmax(error, SMALL_ERROR));
        }
    }
    return true;
}

/* ---- what the samples determine (I2) --------------------------------------------------------- */

static int by_real(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A few sizes in words: "1 MiB and 2 MiB". */
static weft_status refuse_sizes(const struct sample *sample, size_t sizes, double smallest,
                                double largest)
{
    const char *hint = "measure from about 1 KiB to 1 GiB: all_reduce_perf -b 1K -e 1G -f 2";
    if (sizes < LEAST_SIZES)
        return bad_input(sample->file, 0, hint,
                         "%zu distinct size%s of %s cannot tell latency, bandwidth and half size "
                         "apart: at least %d are needed",
                         sizes, sizes == 1 ? "" : "s", collective_name(sample->collective),
                         LEAST_SIZES);
    return bad_input(sample->file, 0, hint,
                     "sizes from %s to %s cannot tell latency from bandwidth: they must span a "
                     "factor of %g",
                     show_bytes(smallest).s, show_bytes(largest).s, LEAST_RANGE);
}

static weft_status check_sizes(const struct sample *samples, size_t count, struct arena *scratch,
                               size_t *sizes)
{
    double *size = ARENA_ARRAY(scratch, double, count);
    for (size_t i = 0; i < count; i++)
        size[i] = samples[i].bytes;
    qsort(size, count, sizeof *size, by_real);
    *sizes = 1;
    for (size_t i = 1; i < count; i++)
        *sizes += size[i] != size[i - 1];
    if (*sizes < LEAST_SIZES || size[count - 1] < LEAST_RANGE * size[0])
        return refuse_sizes(&samples[0], *sizes, size[0], size[count - 1]);
    return WEFT_OK;
}

/* Sets devices, nodes and which unknowns are determined; refuses samples that are not one
 * experiment. */
static weft_status check_runs(const struct sample *samples, size_t count, struct fit *out,
                              unsigned *allowed)
{
    *out = (struct fit){
        .collective = samples[0].collective, .devices = samples[0].devices, .points = count};
    *allowed = 1u << LATENCY | 1u << VOLUME | 1u << ROOT;
    for (size_t i = 0; i < count; i++) {
        const struct sample *sample = &samples[i];
        if (sample->collective != out->collective)
            return bad_input(sample->file, sample->line, "choose one with --collective",
                             "measurements of %s and %s in one fit",
                             collective_name(out->collective), collective_name(sample->collective));
        if ((sample->nodes > 1) != (samples[0].nodes > 1))
            return bad_input(sample->file, sample->line,
                             "fit them one after the other, with --devices",
                             "measurements inside one node and between nodes in one fit");
        if (sample->devices != samples[0].devices)
            out->devices = 0;
        if (sample->devices != samples[0].devices || sample->nodes != samples[0].nodes)
            *allowed |= 1u << STEP;
        out->nodes = sample->nodes > out->nodes ? sample->nodes : out->nodes;
    }
    return WEFT_OK;
}

/* ---- the fit --------------------------------------------------------------------------------- */

static void take_solution(const double *x, const struct cluster *cluster, struct fit *out)
{
    out->latency_s = x[LATENCY];
    out->step_s = x[STEP];
    *(cluster ? &out->efficiency : &out->bus_bytes_per_s) = 1 / x[VOLUME];
    out->half_bytes = (x[ROOT] / x[VOLUME]) * (x[ROOT] / x[VOLUME]);
}

/* 1 - residual over total variation, of the logarithm of the time, because sizes span decades. */
static double log_r2(const struct fit *fit, const struct cluster *cluster,
                     const struct sample *samples, size_t count)
{
    double mean = 0, residual = 0, total = 0, seconds;
    for (size_t i = 0; i < count; i++)
        mean += log(samples[i].seconds) / (double)count;
    for (size_t i = 0; i < count; i++) {
        double measured = log(samples[i].seconds);
        if (fit_seconds(fit, cluster, &samples[i], &seconds) != WEFT_OK)
            return 0;
        residual += (measured - log(seconds)) * (measured - log(seconds));
        total += (measured - mean) * (measured - mean);
    }
    return total > 0 ? 1 - residual / total : 0;
}

/* The relative errors on what it was fitted to. */
static weft_status note_errors(struct fit *fit, const struct cluster *cluster,
                               const struct sample *samples, size_t count)
{
    struct arena *scratch = arena_new();
    double *error = ARENA_ARRAY(scratch, double, count), seconds;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count; i++) {
        TRY(fit_seconds(fit, cluster, &samples[i], &seconds));
        error[i] = fabs(seconds / samples[i].seconds - 1);
    }
    qsort(error, count, sizeof *error, by_real);
    fit->median = error[count / 2];
    fit->p90 = error[count * 9 / 10];
    fit->worst = error[count - 1];
done:
    arena_free(scratch);
    return status;
}

weft_status fit_samples(const struct sample *samples, size_t count, const struct cluster *cluster,
                        struct fit *out)
{
    struct arena *scratch = arena_new();
    unsigned allowed;
    double x[UNKNOWNS] = {0};
    weft_status status;
    if (count == 0) {
        status = bad_argument("check --collective, --devices and --where", "no measurement to fit");
        goto done;
    }
    TRY(check_runs(samples, count, out, &allowed));
    TRY(check_sizes(samples, count, scratch, &out->sizes));
    struct row *rows = ARENA_ARRAY(scratch, struct row, count);
    for (size_t i = 0; i < count; i++)
        TRY(fill_row(cluster, &samples[i], &rows[i]));
    balance(samples, count, rows);
    double *start = ARENA_ARRAY(scratch, double, count);
    for (size_t i = 0; i < count; i++)
        start[i] = rows[i].weight;
    if (!settle(rows, count, start, allowed, x)) {
        status = bad_input(samples[0].file, 0, "include larger sizes",
                           "times that do not grow with the size give no bandwidth");
        goto done;
    }
    take_solution(x, cluster, out);
    TRY(note_errors(out, cluster, samples, count));
    out->r2 = log_r2(out, cluster, samples, count);
done:
    arena_free(scratch);
    return status;
}

weft_status fit_seconds(const struct fit *fit, const struct cluster *cluster,
                        const struct sample *sample, double *out)
{
    struct row row;
    weft_status status = fill_row(cluster, sample, &row);
    if (status != WEFT_OK)
        return status;
    double share = cluster ? fit->efficiency : fit->bus_bytes_per_s;
    double x[UNKNOWNS] = {fit->latency_s, fit->step_s, 1 / share, sqrt(fit->half_bytes) / share};
    *out = predict(x, &row);
    return WEFT_OK;
}

/* Zero means "not measured" in a cluster file, so a constant that was fitted as zero is written as
 * the smallest positive value of its unit. */
const char *fit_yaml(struct arena *keep, const struct fit *fit)
{
    const char *step =
        fit->step_s > 0 ? arena_printf(keep, ", step: %.0fns", fmax(1, fit->step_s * 1e9)) : "";
    const char *speed =
        fit->efficiency > 0
            ? arena_printf(keep, "efficiency: %.4f", fit->efficiency)
            : arena_printf(keep, "bandwidth: %.2fGB/s", fit->bus_bytes_per_s * 1e-9);
    return arena_printf(keep,
                        "collectives:\n  %s:\n    %s: {latency: %.0fns%s, %s, half_size: %.0f}\n",
                        fit->nodes > 1 ? "between" : "inside", collective_name(fit->collective),
                        fmax(1, fit->latency_s * 1e9), step, speed, fmax(1, fit->half_bytes));
}
