/* popularity.c - tokens of the fullest device, if some experts are chosen more often than others.
 *
 * With exponent a, expert i of n is chosen in proportion to 1 / i^a (a power law; 0: evenly), so the share of the first is
 *
 *   p = min(1 / sum over i of i^-a, 1 / k)                                                     (1)
 *
 * since each token is for k different experts. Nobody knows beforehand which expert that will be. Of d devices with n / d
 * experts each, the one that holds it has it and others of average popularity; in even shares of the tokens
 *
 *   fullest = d (p + (n / d - 1) (1 - p) / (n - 1))                                            (2)
 *
 * which is 1 on one device, and n p if every expert has its own. The other devices wait for this one. An expert with a
 * capacity has its places whatever is chosen.
 */
#include <math.h>

#include "model/model.h"

static double first_share(const struct op *op)
{
    double sum = 0;
    for (int64_t i = 1; i <= op->skewed_experts; i++)
        sum += pow((double)i, -op->routing.skew);
    return fmin(1 / sum, 1 / (double)op->top_k); /* (1) */
}

double op_fullest(const struct op *op, int64_t devices)
{
    double n = (double)op->skewed_experts, d = fmin((double)devices, n);
    if (op->skewed_experts < 2 || devices < 2)
        return 1;
    double p = first_share(op);
    return d * (p + (n / d - 1) * (1 - p) / (n - 1)); /* (2) */
}
