/* run_fit.c - the paces of a cluster under which its runs are predicted best.
 *
 * With x the logarithms of the paces, r_i(x) = ln(measured / predicted) and S_ij = d r_i / d x_j >= 0, which is about the
 * share of its time that run i spends on part j,
 *
 *   minimise  sum_i rho(r_i / s) + sum_j (x_j / p_j)^2 / 2                                       (1)
 *
 * rho is Huber's: a square up to HUBER and straight beyond, so that a few odd runs do not decide; s is the spread of the
 * runs that are not odd. The shipped values are the prior: x = 0 with the spread p. Each round simulates all runs at x,
 * takes S by differences, and solves the linear problem by weights that are repeated (Gauss and Newton):
 *
 *   (S' W S / s^2 + P) d = -S' W r / s^2 - P x,   P = diag(1 / p^2)                              (2)
 *
 *   I1  C = (S' W S / s^2 + P)^-1 is the covariance of x. A part whose standard error stays above DETERMINED of its
 *       prior's is left at its shipped value, the least determined one first.
 *   I2  Whether the values help is asked of runs that had no part in them: each fold with what the others find.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runs/runs_room.h"

enum { ROUNDS = 4, SLOPE_ROUNDS = 2, REWEIGHTS = 20, FOLDS = 8, LEAST_RUNS = 3 };
static const double STEP = 0.08;   /* of a logarithm, for differences */
static const double HUBER = 1.345; /* 95 % efficient if errors are normal (Huber 1964) */
static const double LEAST_SPREAD =
    5e-3; /* runs that are repeated differ by about half a per cent */
static const double ALMOST_NO_PRIOR = 1e-6; /* times the square of the spread */
static const double DETERMINED = 0.5;
/* For values to count as helpful: the gain over the error, over its own standard error, and the share of rows that gain. */
static const double NEEDED_GAIN = 0.02, CERTAIN = 2.5, MOST_ROWS = 0.6;
static const double LIMIT = 2.3; /* of |x|: ten times as fast or as slow is another machine */

/* The prior's spread of x: how far one machine of a kind may be from another. Clocks and libraries change products by
 * about a tenth; cables, switches and settings of a network change it more, and hosts differ by half. */
static const double PRIOR[] = {
    [PACE_PRODUCTS] = 0.15, [PACE_MEMORY] = 0.15, [PACE_INSIDE] = 0.3,
    [PACE_BETWEEN] = 0.4,   [PACE_HOST] = 0.5,
};
_Static_assert(COUNT_OF(PRIOR) == PACE_COUNT, "a pace without a prior");

/* Equation (1) with r linear around `at`. */
struct linear_fit {
    size_t rows;
    const double *error, *slope; /* r and S at `at` */
    double at[PACE_COUNT];
    bool open[PACE_COUNT]; /* the parts that are fitted */
    /* Rows from skip to before skip_end are left out. */
    size_t skip, skip_end;
    double x[PACE_COUNT], spread[PACE_COUNT]; /* the answer, and the roots of C's diagonal */
};

/* ---- a small symmetric system ----------------------------------------------------------------- */

/* Inverts a positive definite matrix in place, by Gauss and Jordan. */
static void invert(double a[PACE_COUNT][PACE_COUNT])
{
    for (int k = 0; k < PACE_COUNT; k++) {
        double pivot = a[k][k];
        a[k][k] = 1;
        for (int j = 0; j < PACE_COUNT; j++)
            a[k][j] /= pivot;
        for (int i = 0; i < PACE_COUNT; i++) {
            double factor = a[i][k];
            if (i == k)
                continue;
            a[i][k] = 0;
            for (int j = 0; j < PACE_COUNT; j++)
                a[i][j] -= factor * a[k][j];
        }
    }
}

/* ---- the linear problem ----------------------------------------------------------------------- */

static double error_at(const struct linear_fit *fit, size_t row, const double *x)
{
    double error = fit->error[row];
    for (int j = 0; j < PACE_COUNT; j++)
        error += fit->slope[row * PACE_COUNT + (size_t)j] * (x[j] - fit->at[j]);
    return error;
}

static bool counts(const struct linear_fit *fit, size_t row)
{
    return row < fit->skip || row >= fit->skip_end;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 1.4826 times the median of absolute values, which is the standard deviation if they are normal; larger where the open
 * parts could follow every row. */
static double spread_at(const struct linear_fit *fit, double *scratch)
{
    size_t count = 0;
    double open = 0;
    for (int j = 0; j < PACE_COUNT; j++)
        open += fit->open[j];
    for (size_t i = 0; i < fit->rows; i++)
        if (counts(fit, i))
            scratch[count++] = fabs(error_at(fit, i, fit->x));
    if (count == 0)
        return LEAST_SPREAD;
    qsort(scratch, count, sizeof *scratch, by_value);
    double freedom = (double)count / fmax(1, (double)count - open);
    double median = (scratch[(count - 1) / 2] + scratch[count / 2]) / 2;
    return fmax(LEAST_SPREAD * freedom, 1.4826 * median * sqrt(freedom));
}

/* One solution of (2) with the weights of the last, for a spread s and a prior of this weight. */
static void reweigh(struct linear_fit *fit, double s, double prior)
{
    double matrix[PACE_COUNT][PACE_COUNT] = {{0}}, right[PACE_COUNT] = {0};
    for (size_t i = 0; i < fit->rows; i++) {
        const double *slope = fit->slope + i * PACE_COUNT;
        double error = error_at(fit, i, fit->x);
        double weight = fabs(error) > HUBER * s ? HUBER * s / fabs(error) : 1;
        for (int j = 0; j < PACE_COUNT && counts(fit, i); j++) {
            right[j] -= weight * slope[j] * error / (s * s);
            for (int k = 0; k < PACE_COUNT; k++)
                matrix[j][k] += weight * slope[j] * slope[k] / (s * s);
        }
    }
    for (int j = 0; j < PACE_COUNT; j++) {
        double pull = prior / (PRIOR[j] * PRIOR[j]);
        for (int k = 0; k < PACE_COUNT && !fit->open[j]; k++)
            matrix[j][k] = matrix[k][j] = 0;
        matrix[j][j] += pull;
        right[j] = fit->open[j] ? right[j] - fit->x[j] * pull : 0;
    }
    invert(matrix);
    for (int j = 0; j < PACE_COUNT; j++) {
        for (int k = 0; k < PACE_COUNT; k++)
            fit->x[j] += matrix[j][k] * right[k];
        fit->x[j] = fmax(-LIMIT, fmin(LIMIT, fit->x[j]));
        fit->spread[j] = sqrt(matrix[j][j]);
    }
}

/* The spread is that around what the runs alone say, almost without a prior: before that the error is in it that is to
 * be explained. Then it stays, and the prior counts. */
static void solve(struct linear_fit *fit, double *scratch)
{
    double s = INFINITY;
    for (int j = 0; j < PACE_COUNT; j++)
        fit->x[j] = fit->open[j] ? fit->at[j] : 0;
    for (int i = 0; i < REWEIGHTS; i++) {
        reweigh(fit, i == 0 ? 1 : s, i == 0 ? ALMOST_NO_PRIOR : ALMOST_NO_PRIOR / (s * s));
        s = spread_at(fit, scratch);
    }
    for (int i = 0; i < REWEIGHTS; i++)
        reweigh(fit, s, 1);
}

/* I1 */
static void solve_determined(struct linear_fit *fit, double *scratch)
{
    for (;;) {
        int worst = -1;
        double most = DETERMINED;
        solve(fit, scratch);
        for (int j = 0; j < PACE_COUNT; j++)
            if (fit->open[j] && fit->spread[j] / PRIOR[j] > most) {
                most = fit->spread[j] / PRIOR[j];
                worst = j;
            }
        if (worst < 0)
            return;
        fit->open[worst] = false;
    }
}

/* ---- simulations ------------------------------------------------------------------------------ */

static struct paces paces_at(const double *x)
{
    struct paces paces;
    for (int j = 0; j < PACE_COUNT; j++)
        paces.of[j] = exp(x[j]);
    return paces;
}

/* r of all cases at x, and their times. */
static weft_status errors_at(const struct run_cases *cases, const double *x, double *time_s,
                             double *error)
{
    struct paces paces = paces_at(x);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < cases->len; i++) {
        TRY(run_case_time(&cases->data[i], &paces, &time_s[i]));
        error[i] = log(cases->data[i].run->measured.time_s / time_s[i]);
    }
done:
    return status;
}

/* How the logarithms of the times of all cases fall with those of the paces, by differences: rows of PACE_COUNT. */
static weft_status run_sensitivities(struct arena *keep, const struct run_cases *cases,
                                     const struct paces *at, const double *time_s, double **out)
{
    double *slope = ARENA_ARRAY(keep, double, cases->len *PACE_COUNT + 1);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < cases->len; i++)
        for (int j = 0; j < PACE_COUNT; j++) {
            struct paces faster = *at;
            double then;
            faster.of[j] = pace_of(at, j) * exp(STEP);
            TRY(run_case_time(&cases->data[i], &faster, &then));
            slope[i * PACE_COUNT + (size_t)j] = log(time_s[i] / then) / STEP;
        }
    *out = slope;
done:
    return status;
}

static double mean_error(const double *error, size_t rows)
{
    double sum = 0;
    for (size_t i = 0; i < rows; i++)
        sum += fabs(exp(-error[i]) - 1);
    return rows ? sum / (double)rows : 0;
}

/* Errors with the cluster's own values, `base`, and apart (I2). A mean alone would follow one odd run. */
struct gain_by_row {
    double before, apart, squares; /* sums of absolute errors, and of squared gains */
    size_t rows, better;
};

static struct gain_by_row gain_apart(const struct linear_fit *fit, const double *base,
                                     double *scratch)
{
    size_t folds = fit->rows < FOLDS ? fit->rows : FOLDS;
    struct gain_by_row out = {.rows = fit->rows};
    for (size_t f = 0; f < folds; f++) {
        struct linear_fit part = *fit;
        part.skip = f * fit->rows / folds;
        part.skip_end = (f + 1) * fit->rows / folds;
        solve(&part, scratch);
        for (size_t i = part.skip; i < part.skip_end; i++) {
            double before = fabs(exp(-base[i]) - 1);
            double apart = fabs(exp(-error_at(fit, i, part.x)) - 1);
            out.before += before;
            out.apart += apart;
            out.squares += (before - apart) * (before - apart);
            out.better += apart < before;
        }
    }
    return out;
}

/* What CERTAIN standard errors of a normal distribution are where few rows tell the standard error: Student's, the first two
 * terms of Abramowitz and Stegun, 26.7.5. With 3 rows 6.7, with 8 3.3, with 20 2.8. */
static double certain_of_few(double free)
{
    double z = CERTAIN, z3 = z * z * z, z5 = z3 * z * z;
    return z + (z3 + z) / (4 * free) + (5 * z5 + 16 * z3 + 3 * z) / (96 * free * free);
}

/* The mean gain is more than CERTAIN of its standard errors, and most rows gain. */
static bool gain_is_certain(const struct gain_by_row *gain)
{
    double rows = (double)gain->rows, mean = (gain->before - gain->apart) / rows, free = rows - 1;
    double error = sqrt(fmax(0, gain->squares / rows - mean * mean) / free);
    return gain->apart < gain->before * (1 - NEEDED_GAIN) && mean > certain_of_few(free) * error &&
           (double)gain->better > MOST_ROWS * rows;
}

static void explain_alone(const struct linear_fit *whole, double *scratch, struct run_fit *out)
{
    double all = 0;
    for (size_t i = 0; i < whole->rows; i++)
        all += whole->error[i] * whole->error[i];
    for (int j = 0; j < PACE_COUNT; j++) {
        struct linear_fit one = *whole;
        double left = 0;
        memset(one.open, 0, sizeof one.open);
        one.open[j] = true;
        solve(&one, scratch);
        for (size_t i = 0; i < one.rows; i++)
            left += pow(error_at(&one, i, one.x), 2);
        out->part[j].alone = exp(one.x[j]);
        out->part[j].explains = all > 0 ? fmax(0, 1 - left / all) : 0;
    }
}

static void tell_parts(const struct linear_fit *fit, struct run_fit *out)
{
    for (int j = 0; j < PACE_COUNT; j++) {
        struct pace_estimate *part = &out->part[j];
        double most = 0;
        for (size_t i = 0; i < fit->rows; i++)
            most = fmax(most, fabs(fit->slope[i * PACE_COUNT + (size_t)j]));
        part->taken = fit->open[j];
        part->pace = part->taken ? exp(fit->x[j]) : 1;
        part->error = part->taken ? fit->spread[j] : 0;
        if (!part->taken)
            part->why = most < 0.01 ? "no run spends time on it" : "the runs do not determine it";
    }
}

weft_status runs_explain(const struct run_cases *cases, struct run_fit *out)
{
    struct arena *scratch = arena_new();
    double *time_s = ARENA_ARRAY(scratch, double, cases->len + 1);
    double *error = ARENA_ARRAY(scratch, double, cases->len + 1);
    double *spare = ARENA_ARRAY(scratch, double, cases->len + 1), *slope;
    struct linear_fit fit = {.rows = cases->len, .error = error};
    weft_status status;
    *out = (struct run_fit){.rows = (int64_t)cases->len};
    TRY(errors_at(cases, fit.at, time_s, error));
    TRY(run_sensitivities(scratch, cases, &(struct paces){{0}}, time_s, &slope));
    fit.slope = slope;
    out->before = mean_error(error, fit.rows);
    explain_alone(&fit, spare, out);
done:
    arena_free(scratch);
    return status;
}

weft_status runs_fit(const struct run_cases *cases, struct run_fit *out)
{
    struct arena *scratch = arena_new();
    double *time_s = ARENA_ARRAY(scratch, double, cases->len + 1);
    double *error = ARENA_ARRAY(scratch, double, cases->len + 1);
    double *spare = ARENA_ARRAY(scratch, double, cases->len + 1), *slope = NULL;
    double *base = ARENA_ARRAY(scratch, double, cases->len + 1);
    struct linear_fit fit = {.rows = cases->len, .error = error};
    weft_status status = WEFT_OK;
    *out = (struct run_fit){.rows = (int64_t)cases->len};
    if (cases->len < LEAST_RUNS)
        TRY(no_answer("a fit needs three, better ten or more of different plans",
                      "%zu of the runs can be predicted and have a time", cases->len));
    for (int round = 0; round < ROUNDS; round++) {
        double moved = 0;
        TRY(errors_at(cases, fit.at, time_s, error));
        if (round < SLOPE_ROUNDS) {
            struct paces at = paces_at(fit.at);
            TRY(run_sensitivities(scratch, cases, &at, time_s, &slope));
        }
        fit.slope = slope;
        out->rounds = round + 1;
        for (int j = 0; j < PACE_COUNT; j++)
            fit.open[j] = true;
        if (round == 0) {
            memcpy(base, error, fit.rows * sizeof *base);
            out->before = mean_error(error, fit.rows);
            explain_alone(&fit, spare, out);
        }
        out->after = mean_error(error, fit.rows);
        solve_determined(&fit, spare);
        struct gain_by_row gain = gain_apart(&fit, base, spare);
        out->apart = gain.apart / (double)gain.rows;
        out->helps = gain_is_certain(&gain);
        for (int j = 0; j < PACE_COUNT; j++)
            moved = fmax(moved, fabs(fit.x[j] - fit.at[j]));
        if (moved < 1e-3)
            break;
        memcpy(fit.at, fit.x, sizeof fit.at);
    }
    tell_parts(&fit, out);
done:
    arena_free(scratch);
    return status;
}

struct paces run_fit_paces(const struct run_fit *fit)
{
    struct paces paces = {{0}};
    for (int j = 0; j < PACE_COUNT; j++)
        paces.of[j] = fit->part[j].taken ? fit->part[j].pace : 1;
    return paces;
}
