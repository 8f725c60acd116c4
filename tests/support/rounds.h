/* rounds.h - how often a random test is repeated. */
#ifndef WEFT_ROUNDS_H
#define WEFT_ROUNDS_H

#include <math.h>
#include <stdio.h>
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

/* Whether a case of a table is tried: where rounds are fewer, so are these, spread over the table from the first on. */
static inline bool is_tried(size_t number)
{
    size_t percent = (size_t)rounds_of(100);
    return percent >= 100 || number * percent % 100 < percent;
}

/* Whether a case is this process's: with WEFT_TEST_PART=3/16 every sixteenth one, from the third on, so that sixteen processes
 * share a test (tools/in-parts.sh). */
static inline bool is_own_case(size_t number)
{
    const char *text = getenv("WEFT_TEST_PART");
    unsigned part = 1, parts = 1;
    if (text && (sscanf(text, "%u/%u", &part, &parts) != 2 || part < 1 || part > parts)) {
        fprintf(stderr, "WEFT_TEST_PART is to be such as 3/16, not '%s'\n", text);
        exit(1);
    }
    return number % parts == part - 1;
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
