/* order.c - the permutation of windows, epoch by epoch (order.h has the equations). */
#include "run/data/order.h"

#include <math.h>

/* ---- a permutation without memory ------------------------------------------------------------ */

/* Any function keeps a Feistel network a permutation; this one is splitmix64's finalizer (Steele,
 * Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

struct permutation permutation_new(int64_t count, uint64_t seed, int64_t epoch)
{
    struct permutation permutation = {.count = count, .half_bits = 1};
    while (permutation.half_bits < 31 && INT64_C(1) << (2 * permutation.half_bits) < count)
        permutation.half_bits++;
    uint64_t key = mix(seed) ^ mix(~(uint64_t)epoch);
    for (int i = 0; i < ORDER_ROUNDS; i++)
        permutation.key[i] = key = mix(key);
    return permutation;
}

static uint64_t feistel(const struct permutation *permutation, uint64_t x)
{
    int bits = permutation->half_bits;
    uint64_t mask = (UINT64_C(1) << bits) - 1, left = x >> bits, right = x & mask;
    for (int i = 0; i < ORDER_ROUNDS; i++) {
        uint64_t next = left ^ (mix(right ^ permutation->key[i]) >> (64 - bits));
        left = right;
        right = next;
    }
    return left << bits | right;
}

/* The network permutes fewer than 4 * count numbers: on average fewer than four steps. */
int64_t permutation_at(const struct permutation *permutation, int64_t i)
{
    uint64_t x = (uint64_t)i;
    do
        x = feistel(permutation, x);
    while (x >= (uint64_t)permutation->count);
    return (int64_t)x;
}

/* ---- samples --------------------------------------------------------------------------------- */

weft_status order_new(const char *name, int64_t tokens, int64_t window, double validation_fraction,
                      uint64_t seed, struct sample_order *out)
{
    if (!(validation_fraction >= 0 && validation_fraction < 1))
        return bad_argument("give one such as 0.1",
                            "a validation fraction of %g, expected 0 or more and below 1",
                            validation_fraction);
    int64_t windows = tokens > 0 ? (tokens - 1) / window : 0; /* (1) */
    int64_t validation = (int64_t)llround((double)windows * validation_fraction);
    if (windows == 0)
        return bad_input(name, 0, "give more text, or a model with a shorter sequence",
                         "holds %lld tokens, expected at least %lld for one sample",
                         (long long)tokens, (long long)window + 1);
    if (validation == windows || (validation == 0 && validation_fraction > 0))
        return bad_input(name, 0, "give more text, or another validation fraction",
                         "holds %lld samples of %lld tokens; a fraction of %g leaves none for %s",
                         (long long)windows, (long long)window, validation_fraction,
                         validation ? "training" : "validation");
    *out = (struct sample_order){.seed = seed,
                                 .window = window,
                                 .training = windows - validation,
                                 .validation = validation,
                                 .epoch_number = -1};
    return WEFT_OK;
}

int64_t order_training(struct sample_order *order, int64_t i)
{
    int64_t epoch = i / order->training;
    if (epoch != order->epoch_number) {
        order->epoch = permutation_new(order->training, order->seed, epoch);
        order->epoch_number = epoch;
    }
    return permutation_at(&order->epoch, i % order->training) * order->window; /* (2) */
}

int64_t order_validation(const struct sample_order *order, int64_t i)
{
    return (order->training + i) * order->window;
}
