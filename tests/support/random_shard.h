/* random_shard.h - shards of small tensors: any shape, padding, digits and range. */
#ifndef WEFT_TESTS_RANDOM_SHARD_H
#define WEFT_TESTS_RANDOM_SHARD_H

#include "run/checkpoint/shard.h"

enum { MOST_AXES = 3 };

/* Whether the device is the first of those that hold the same. */
static inline bool layout_is_first_copy(const struct layout *layout, int64_t device)
{
    for (int64_t i = layout->digits - 1; i >= 0; i--) {
        const struct layout_digit *digit = &layout->digit[i];
        if (digit->hold == HOLD_COPY && device % digit->degree)
            return false;
        if (digit->hold <= HOLD_ON && device % digit->degree != HOLD_ON - digit->hold)
            return false; /* it has none of it */
        device /= digit->degree;
    }
    return true;
}

static inline int64_t shape_elements(int64_t axes, const int64_t *shape)
{
    int64_t elements = 1;
    for (int64_t i = 0; i < axes; i++)
        elements *= shape[i];
    return elements;
}

static inline int64_t random_shape(struct rng *rng, int64_t *shape)
{
    int64_t axes = rng_below(rng, MOST_AXES + 1);
    for (int64_t i = 0; i < axes; i++)
        shape[i] = 1 + rng_below(rng, 12);
    return axes;
}

/* Now and then an axis, mostly the first or last, is larger than the shape says. */
static inline void random_padding(struct rng *rng, int64_t axes, const int64_t *shape,
                                  int64_t *padded)
{
    for (int64_t i = 0; i < axes; i++)
        padded[i] = shape[i] + (rng_below(rng, 4) ? 0 : rng_below(rng, 6));
}

static inline int64_t least_factor(int64_t n)
{
    int64_t factor = 2;
    while (n % factor)
        factor++;
    return factor;
}

/* Devices over the padded elements: their number's factors, from the least stride up, are splits or
 * are left; copies come between. Digits are given in any order of strides. */
static inline struct layout random_layout(struct rng *rng, int64_t elements)
{
    struct layout layout = layout_none(elements);
    struct layout_digit digit[MAX_LAYOUT_DIGITS];
    int64_t count = 0, stride = 1, rest = elements;
    while (rest > 1) {
        int64_t factor = least_factor(rest);
        if (count < 4 && rng_below(rng, 2) == 0)
            digit[count++] = (struct layout_digit){factor, stride};
        stride *= factor;
        rest /= factor;
    }
    if (rng_below(rng, 3) == 0)
        digit[count++] = (struct layout_digit){2 + rng_below(rng, 2), HOLD_COPY};
    while (count > 0) {
        int64_t i = rng_below(rng, count);
        layout_add(&layout, digit[i].degree, digit[i].hold);
        digit[i] = digit[--count];
    }
    return layout;
}

static inline bool shard_holds(const struct shard *shard, int64_t f)
{
    for (int64_t i = 0; i < shard->digits; i++)
        if (f / shard->digit[i].stride % shard->digit[i].degree != shard->digit[i].value)
            return false;
    return true;
}

/* (1) and (2) of shard.h to the letter: the place of every local element, -1 for padding. */
static inline void places_by_definition(const struct shard *shard, int64_t *out)
{
    int64_t elements = shape_elements(shard->axes, shard->padded), met = 0, place = 0;
    for (int64_t f = 0; f < elements; f++) {
        int64_t rest = f;
        bool padding = false;
        for (int64_t i = shard->axes - 1; i >= 0; i--) {
            padding |= rest % shard->padded[i] >= shard->shape[i];
            rest /= shard->padded[i];
        }
        if (shard_holds(shard, f)) {
            if (met >= shard->first && met < shard->first + shard->count)
                out[met - shard->first] = padding ? -1 : place;
            met++;
        }
        place += !padding;
    }
}

#endif
