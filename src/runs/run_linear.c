/* run_linear.c - the paces that explain errors best, where errors are linear in the logarithms of the paces: equations (1)
 * and (2) of run_fit.c, and its I1.
 */
#include <math.h>
#include <stdlib.h>

#include "runs/runs_room.h"

enum { REWEIGHTS = 20 };
static const double HUBER = 1.345; /* 95 % efficient if errors are normal (Huber 1964) */
static const double LEAST_SPREAD =
    5e-3; /* runs that are repeated differ by about half a per cent */
static const double ALMOST_NO_PRIOR = 1e-6; /* times the square of the spread */
static const double DETERMINED = 0.5;
static const double LIMIT = 2.3; /* of |x|: ten times as fast or as slow is another machine */

/* The prior's spread of x: how far one machine of a kind may be from another. Clocks and libraries change products by
 * about a tenth; cables, switches and settings of a network change it more, and hosts differ by half. */
static const double PRIOR[] = {
    [PACE_PRODUCTS] = 0.15, [PACE_MEMORY] = 0.15, [PACE_INSIDE] = 0.3,
    [PACE_BETWEEN] = 0.4,   [PACE_HOST] = 0.5,
};
_Static_assert(COUNT_OF(PRIOR) == PACE_COUNT, "a pace without a prior");

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

double linear_error(const struct linear_fit *fit, size_t row, const double *x)
{
    double error = fit->error[row];
    for (int j = 0; j < PACE_COUNT; j++)
        error += fit->slope[row * PACE_COUNT + (size_t)j] * (x[j] - fit->at[j]);
    return error;
}

static bool counts(const struct linear_fit *fit, size_t row)
{
    return !fit->left_out || !fit->left_out[row];
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
            scratch[count++] = fabs(linear_error(fit, i, fit->x));
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
        double error = linear_error(fit, i, fit->x);
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
void linear_solve(struct linear_fit *fit, double *scratch)
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
void linear_solve_determined(struct linear_fit *fit, double *scratch)
{
    for (;;) {
        int worst = -1;
        double most = DETERMINED;
        linear_solve(fit, scratch);
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
