/* floor.h - passes of many samples as a bound for those of few.
 *
 * More samples at once take no longer per sample, but for kernels that other shapes suit better. With T the passes of
 * FLOOR_SAMPLES samples of a replica, those of b <= FLOOR_SAMPLES take at least
 *
 *   b T / FLOOR_SAMPLES, less one part in FLOOR_ALLOWANCE                                         (1)
 *
 * One table then bounds all numbers of samples. With A_b the operators of b samples, W what passes of FLOOR_SAMPLES wait
 * for besides their operators, and H_b those operators beside which something is sent, of which few samples may hide
 * more, they also take at least
 *
 *   A_b + max(0, b W / FLOOR_SAMPLES, less one part in FLOOR_ALLOWANCE, - (H_b - b H / FLOOR_SAMPLES))   (2)
 *
 * The allowances are what tests/search/test_auto.c and test_auto_cross.c check, not a proof.
 */
#ifndef WEFT_SEARCH_ESTIMATE_FLOOR_H
#define WEFT_SEARCH_ESTIMATE_FLOOR_H

#include "search/estimate/candidate.h"

enum { FLOOR_SAMPLES = 64, FLOOR_ALLOWANCE = 8 };

/* Micro-batches to ask about, so that what only one of many has to do counts least. */
static inline int64_t floor_micro_batches(int64_t micro_batches)
{
    return micro_batches > 1 ? UINT16_MAX : 1;
}

/* (1) per sample, from the passes of FLOOR_SAMPLES. */
static inline double floor_ns(const struct run_estimate *run)
{
    double ns = (double)(run->forward_ns + run->backward_ns) / FLOOR_SAMPLES;
    return ns - ns / FLOOR_ALLOWANCE;
}

/* Whether something may be sent beside an operator's phase (H of (2)): reshards beside gradients of weights that are
 * divided; what goes round a ring beside attention, and what is named beside any. */
static inline bool is_beside(const struct split *split, enum phase phase, unsigned overlap)
{
    bool divided = split_degree(split, DIM_IN) > 1 || split_degree(split, DIM_OUT) > 1;
    bool along = split_degree(split, DIM_SEQ) > 1 || split_degree(split, DIM_KV) > 1;
    return (divided && phase == PHASE_BACKWARD_WEIGHT) || along ||
           overlap & (OVERLAP_PRODUCTS | OVERLAP_EXPERTS | OVERLAP_SHARED);
}

/* What operators take of some samples: A, and H of (2). */
struct floor_operators {
    int64_t all_ns, beside_ns;
};
/* (2); `many` and the waits are of FLOOR_SAMPLES. */
static inline int64_t floor_with_waits_ns(int64_t samples, struct floor_operators few,
                                          struct floor_operators many, int64_t waits_ns)
{
    double share = (double)samples / FLOOR_SAMPLES;
    double waits = share * (double)(waits_ns - waits_ns / FLOOR_ALLOWANCE);
    double hidden = (double)few.beside_ns - share * (double)many.beside_ns;
    double more = waits - (hidden > 0 ? hidden : 0);
    return few.all_ns + (more > 0 ? (int64_t)more : 0);
}

#endif
