/* digest.h - a long text in one short line: how many numbers it has, what they come to, and a hash of the rest.
 *
 *   weight of number i   1 + (i mod 97) / 97, so that two that change places are noticed
 *   numbers              sum of weight * sign * log2(1 + |number| / 1e-9): a digit counts alike in bytes and in seconds
 *
 * A number that changes by 2e-5 of itself changes the sum by more than NOTICED. What two processors make of the same
 * sum of doubles does not. */
#ifndef WEFT_DIGEST_H
#define WEFT_DIGEST_H

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static const double NOTICED = 2e-5; /* twice the last digit that is written */

struct digest {
    int numbers;
    double sum;
    uint32_t words; /* FNV-1a */
};

static void digest_number(struct digest *d, double value)
{
    double weight = 1 + d->numbers++ % 97 / 97.0;
    d->sum += weight * copysign(log2(1 + fabs(value) / 1e-9), value);
}

/* Digits behind a letter belong to a name: a100. */
static inline bool number_begins(const char *text, const char *at)
{
    bool signed_one = *at == '-' && isdigit((unsigned char)at[1]);
    bool in_a_name =
        at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '-');
    return (isdigit((unsigned char)*at) || signed_one) && !in_a_name;
}

static inline struct digest digest_of(const char *text)
{
    struct digest d = {0, 0, 2166136261U};
    for (const char *at = text; *at;) {
        char *end = NULL;
        if (number_begins(text, at)) {
            digest_number(&d, strtod(at, &end));
            at = end;
        } else {
            d.words = (d.words ^ (unsigned char)*at++) * 16777619U;
        }
    }
    return d;
}

#endif
