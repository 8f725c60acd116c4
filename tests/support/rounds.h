/* rounds.h - how often a random test is repeated. */
#ifndef WEFT_ROUNDS_H
#define WEFT_ROUNDS_H

#include <math.h>
#include <stdlib.h>

#include "base/base.h"

/* How many rounds of a test: more or fewer where WEFT_TEST_PERCENT says so. */
static int rounds_of(int rounds)
{
    const char *text = getenv("WEFT_TEST_PERCENT");
    int64_t percent = 100;
    if (text)
        parse_int(text, &percent);
    rounds = (int)(rounds * percent / 100);
    return rounds > 0 ? rounds : 1;
}

/* How many of a table's cases: fewer where rounds are fewer, never more than there are. */
static inline int cases_of(size_t cases)
{
    int some = rounds_of((int)cases);
    return some < (int)cases ? some : (int)cases;
}

/* The place, in ascending order of n drawn cases, up to which all must be good if nine tenths are: of fewer cases, as
 * many more may be bad as chance makes of them, three standard deviations. */
static inline int nine_tenths(int n)
{
    int at = n * 9 / 10, chance = (int)ceil(3 * sqrt(0.09 * n));
    if (rounds_of(100) >= 100)
        return at;
    return at > chance ? at - chance : 0;
}

#endif
