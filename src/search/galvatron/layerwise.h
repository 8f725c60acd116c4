/* layerwise.h - the fastest strategy for each layer of a stage whose device memory is limited
 * (Galvatron-BMW, section IV-A and Algorithm 3), exactly.
 *
 * Layer l on strategy s takes c(l, s) of time and O_ms(l, s) of model states, keeps O_f(l, s) for
 * its backward pass and needs O_b(l, s) more during it; R(l, s', s) is the reshard between layer
 * l - 1 on s' and layer l on s.
 *
 *   time   = sum_l c(l, s_l) + R(l, s_{l-1}, s_l)                                       (Eq. 4)
 *   memory = max_i { sum_{k<=i} O_f(k) + O_b(i) } + sum_{all k} O_ms(k)                 (Eq. 2)
 *
 * (The recursion in the paper's Appendix A leaves out O_ms of later layers; this code follows Eq.
 * 2.) The answer has the least time with memory <= limit and, among those, the least memory.
 *
 *   I1  Exact in nanoseconds and bytes: nothing is rounded to MB. A larger limit or one more
 *       strategy never makes the answer slower.
 *   I2  The same problem gives the same answer, whatever else runs.
 *   I3  A problem is read-only; threads may solve problems that share their arrays.
 */
#ifndef WEFT_SEARCH_GALVATRON_LAYERWISE_H
#define WEFT_SEARCH_GALVATRON_LAYERWISE_H

#include <stdatomic.h>

#include "base/base.h"

/* The time that means: layers of this kind cannot take the strategy. */
#define LAYERWISE_NEVER INT64_MAX

/* Layers of one kind cost the same; boundaries of one kind reshard the same. */
struct layerwise {
    int32_t layers, strategies, kinds, boundaries;
    const int32_t *kind;     /* per layer */
    const int32_t *boundary; /* per layer: the boundary before it; the first is not read */
    /* Per kind, then strategy; all at least 0. */
    const int64_t *time_ns;     /* c, or LAYERWISE_NEVER */
    const int64_t *kept_bytes;  /* O_f, of all micro-batches in flight */
    const int64_t *peak_bytes;  /* O_b */
    const int64_t *state_bytes; /* O_ms */
    /* R: per boundary, then strategy before it, then strategy after it; at least 0. */
    const int64_t *reshard_ns;
    int64_t limit_bytes;     /* E */
    int64_t most_states;     /* give up the proof after keeping this many states; 0: never */
    const struct stop *stop; /* gives up at any moment; NULL: never */
};

struct layerwise_answer {
    int64_t time_ns, memory_bytes;
    int32_t *strategy;  /* per layer */
    bool exact;         /* false: given up, this is the best so far */
    int64_t least_ns;   /* no plan takes less; equal to time_ns if exact */
    int64_t states;     /* number of states kept during the search */
    int32_t iterations; /* of the relaxation, and rounds of the exact search */
    int32_t rounds;
};

/* WEFT_NO_ANSWER: nothing fits, or the search was stopped before it found anything. */
weft_status layerwise_solve(struct arena *keep, const struct layerwise *problem,
                            struct layerwise_answer *out);

/* Eq. 2 and 4 for given strategies, none of them LAYERWISE_NEVER. */
struct layerwise_cost {
    int64_t time_ns, memory_bytes;
};
struct layerwise_cost layerwise_cost(const struct layerwise *problem, const int32_t *strategy);

#endif
