/* order.h - which tokens each sample of a run is.
 *
 * A sample is a window of s + 1 tokens: s inputs, and the same moved by one as targets. Windows
 * start at multiples of s, so that every token is a target once an epoch:
 *
 *   windows = (tokens - 1) / s;  the last  round(windows * fraction)  of them are for validation  (1)
 *   sample i of training is window  P_e(i % n)  of epoch  e = i / n,  n = windows for training    (2)
 *
 * P_e is a pseudo-random permutation of 0 .. n-1 that needs no memory: a Feistel network on the
 * least even number of bits that holds n, walked until it falls below n.
 *
 *   I1  P_e depends on seed, e and n alone: not on ranks, batch sizes or what was read before. So a
 *       run continues with the same samples under another plan.
 *   I2  Every epoch has every window once.
 */
#ifndef WEFT_RUN_DATA_ORDER_H
#define WEFT_RUN_DATA_ORDER_H

#include "base/base.h"

enum { ORDER_ROUNDS = 6 };
struct permutation {
    int64_t count;
    int half_bits;
    uint64_t key[ORDER_ROUNDS];
};
/* Of 0 .. count-1, count > 0. */
struct permutation permutation_new(int64_t count, uint64_t seed, int64_t epoch);
int64_t permutation_at(const struct permutation *permutation, int64_t i);

struct sample_order {
    uint64_t seed;
    int64_t window;               /* s, tokens */
    int64_t training, validation; /* windows; training ones come first */
    struct permutation epoch;     /* of the epoch asked for last */
    int64_t epoch_number;
};
/* Bad input, about the file `name`, where there is no window for training, or none for validation
 * though the fraction is above 0. */
weft_status order_new(const char *name, int64_t tokens, int64_t window, double validation_fraction,
                      uint64_t seed, struct sample_order *out);
/* The first token of sample i of the run, i >= 0; of validation sample i < order->validation. */
int64_t order_training(struct sample_order *order, int64_t i);
int64_t order_validation(const struct sample_order *order, int64_t i);

#endif
