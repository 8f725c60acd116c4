/* floor.h - passes of many samples as a bound for those of few.
 *
 * More samples at once take no longer per sample, but for kernels that other shapes suit better. With T the passes of
 * FLOOR_SAMPLES samples of a replica, those of b <= FLOOR_SAMPLES take at least
 *
 *   b T / FLOOR_SAMPLES, less one part in FLOOR_ALLOWANCE                                         (1)
 *
 * One table then bounds all numbers of samples. The allowance is what tests/search/test_auto.c and test_auto_cross.c
 * check, not a proof.
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

#endif
