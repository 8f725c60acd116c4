/* interval.c - how often to save (campaign.h).
 *
 * Of the exact time (expect.c, (3)) only (e^(l (t + C)) - 1) / t depends on the interval t, but for the first stretch;
 * it is least where
 *
 *   (1 - l t) e^(l t) = e^(-l C)     or   l t = 1 + W(-e^(-1 - l C))                             (1)
 *
 * with Lambert's W on (-1/e, 0). Young's interval is the first term of its series in l C, Daly's has three.
 */
#include <math.h>

#include "campaign/room.h"

double mean_time_to_failure(const struct course *course)
{
    return course->failures_per_s > 0 ? 1 / course->failures_per_s : INFINITY;
}

double interval_young(const struct course *course)
{
    return sqrt(2 * course->save_s * mean_time_to_failure(course));
}

double interval_daly(const struct course *course)
{
    double mean = mean_time_to_failure(course), x = course->save_s / (2 * mean);
    if (course->save_s >= 2 * mean)
        return mean;
    return interval_young(course) * (1 + sqrt(x) / 3 + x / 9) - course->save_s;
}

/* What is computed in the whole run, and in an iteration of it; 0: no interval feels that. */
static double computing_s(const struct course *course)
{
    return course->work_s * mean_pace_of(course).factor;
}

static double iteration_s(const struct course *course)
{
    return course->iterations > 0 ? computing_s(course) / course->iterations : 0;
}

/* x in (0, 1) with (1 - x) e^x = e^-c, by halving: the left side falls from 1 to 0. */
static double solve(double c)
{
    double low = 0, high = 1;
    for (int i = 0; i < 200 && low < high; i++) {
        double x = (low + high) / 2;
        if (log1p(-x) + x > -c)
            low = x;
        else
            high = x;
    }
    return (low + high) / 2;
}

double interval_exact(const struct course *course)
{
    double least = fmax(course->lag_s - course->save_s, iteration_s(course)); /* I4, I5 */
    if (course->failures_per_s <= 0)
        return INFINITY;
    double best = solve(course->failures_per_s * course->save_s) / course->failures_per_s;
    return best > least ? best : least;
}

static const double MOST_CHECKPOINTS = 1e12;

static int64_t whole(double checkpoints)
{
    return checkpoints >= 1 ? (int64_t)fmin(round(checkpoints), MOST_CHECKPOINTS) : 1;
}

/* The number of checkpoints if there is one after so many iterations (I5). */
static int64_t checkpoints_after(const struct course *course, double iterations)
{
    return whole(course->iterations / fmax(1, iterations));
}

int64_t checkpoints_every(const struct course *course, double interval_s)
{
    if (course->iterations > 0)
        return checkpoints_after(course, round(interval_s / iteration_s(course)));
    return whole(computing_s(course) / interval_s);
}

static int64_t better(const struct course *course, int64_t n, int64_t other)
{
    return expect(course, other).all_s < expect(course, n).all_s ? other : n;
}

/* The best of those that are whole iterations apart, which is beside the best of all: time is convex in the interval. */
static int64_t whole_iterations(const struct course *course, int64_t checkpoints)
{
    double apart = floor(course->iterations / (double)checkpoints);
    int64_t best = checkpoints_after(course, apart);
    for (int more = -1; more <= 2; more++)
        best = better(course, best, checkpoints_after(course, apart + more));
    return best;
}

int64_t best_checkpoints(const struct course *course)
{
    int64_t near = whole(computing_s(course) / interval_exact(course)), best = near;
    if (course->save_s > 0 || course->lag_s > 0) /* else the number has its limit */
        for (int64_t n = near > 2 ? near - 2 : 1; n <= near + 2; n++)
            best = better(course, best, n);
    return course->iterations > 0 ? whole_iterations(course, best) : best;
}
