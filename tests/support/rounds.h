/* rounds.h - how often a random test is repeated. */
#ifndef WEFT_ROUNDS_H
#define WEFT_ROUNDS_H

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

#endif
