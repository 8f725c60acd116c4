/* slow.c - iterations that wait for the slowest node (campaign.h).
 *
 * If the nodes' parts of an iteration are normally distributed around 1 with deviation j, and the iteration takes as
 * long as the slowest of n, its mean is
 *
 *   1 + j E(max of n standard normals),   E max = integral of (x n f(x) F(x)^(n-1))               (1)
 *
 * A straggler slows all nodes down by s from when it appears until it is replaced, T later. With r of them per second
 * of computing, the share of time with at least one is p = 1 - e^(-r T), and the work takes longer by
 *
 *   1 / (1 - p + p / s)                                                                            (2)
 */
#include <math.h>

#include "campaign/room.h"

/* (1) as the integral of 1 - F^n above 0 less that of F^n below it, by Simpson's rule. */
static double expected_most(int64_t n)
{
    enum { STEPS = 2000 };
    static const double FAR =
        12; /* where what is left out is below 1e-30 of a deviation for any n */
    double sum = 0, h = FAR / STEPS;
    for (int i = 0; i <= STEPS; i++) {
        double x = h * i, weight = i == 0 || i == STEPS ? 1 : i % 2 ? 4 : 2;
        double above = 0.5 * erfc(x / sqrt(2)); /* 1 - F(x) = F(-x) */
        double not_below = -expm1((double)n * log1p(-above));
        sum += weight * (not_below - pow(above, (double)n));
    }
    return sum * h / 3;
}

double jitter_factor(double jitter, int64_t nodes)
{
    return jitter > 0 && nodes > 1 ? 1 + jitter * expected_most(nodes) : 1;
}

double straggler_factor(const struct course *course)
{
    double slower = course->straggler_slower > 1 ? course->straggler_slower : 1;
    double p = -expm1(-course->stragglers_per_s * course->straggler_s);
    return 1 / (1 - p + p / slower);
}
