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
 * The linear problem is solved in run_linear.c.
 *
 *   I1  C = (S' W S / s^2 + P)^-1 is the covariance of x. A part whose standard error stays above DETERMINED of its
 *       prior's is left at its shipped value, the least determined one first.
 *   I2  Whether the values help is asked of runs that had no part in them: each fold with what the others find.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runs/runs_room.h"

enum { ROUNDS = 4, SLOPE_ROUNDS = 2, FOLDS = 8 };
static const double STEP = 0.08; /* of a logarithm, for differences */
/* For values to count as helpful: the gain over the error, over its own standard error, and the share of rows that gain. */
static const double NEEDED_GAIN = 0.02, CERTAIN = 2.5, MOST_ROWS = 0.6;

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

weft_status run_slopes(const struct run_case *one, const struct paces *at, double time_s,
                       double slope[static PACE_COUNT])
{
    weft_status status = WEFT_OK;
    for (int j = 0; j < PACE_COUNT; j++) {
        struct paces faster = *at;
        double then;
        faster.of[j] = pace_of(at, j) * exp(STEP);
        TRY(run_case_time(one, &faster, &then));
        slope[j] = log(time_s / then) / STEP;
    }
done:
    return status;
}

/* The slopes of all cases: rows of PACE_COUNT. */
static weft_status run_sensitivities(struct arena *keep, const struct run_cases *cases,
                                     const struct paces *at, const double *time_s, double **out)
{
    double *slope = ARENA_ARRAY(keep, double, cases->len *PACE_COUNT + 1);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < cases->len; i++)
        TRY(run_slopes(&cases->data[i], at, time_s[i], slope + i * PACE_COUNT));
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

static struct gain_by_row gain_apart(struct arena *arena, const struct linear_fit *fit,
                                     const double *base, double *scratch)
{
    bool *left_out = ARENA_ARRAY(arena, bool, fit->rows + 1);
    size_t folds = fit->rows < FOLDS ? fit->rows : FOLDS;
    struct gain_by_row out = {.rows = fit->rows};
    for (size_t f = 0; f < folds; f++) {
        struct linear_fit part = *fit;
        size_t from = f * fit->rows / folds, to = (f + 1) * fit->rows / folds;
        for (size_t i = 0; i < fit->rows; i++)
            left_out[i] = i >= from && i < to;
        part.left_out = left_out;
        linear_solve(&part, scratch);
        for (size_t i = from; i < to; i++) {
            double before = fabs(exp(-base[i]) - 1);
            double apart = fabs(exp(-linear_error(fit, i, part.x)) - 1);
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
        linear_solve(&one, scratch);
        for (size_t i = 0; i < one.rows; i++)
            left += pow(linear_error(&one, i, one.x), 2);
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
        linear_solve_determined(&fit, spare);
        struct gain_by_row gain = gain_apart(scratch, &fit, base, spare);
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
