/* fp8.h - products of weights in 8 bits. Part of kernels.h.
 *
 * Both operands are cast with one scale for each tensor, which is found before the cast ("current scaling"):
 *
 *   s = limit / max |x|     x8 = round(s x)     Y = X8 W8^T / (s_x s_w)                                          (1)
 *
 * Inputs and weights are cast to e4m3, gradients of outputs to e5m2 (Micikevicius et al., 2022, section 3). Sums are fp32,
 * results are rounded to the storage once, and a bias and its gradient never see 8 bits.
 *
 *   I1  What is cast is a tensor as it lies on this device: parts of a split tensor have scales of their own.
 *   I2  Nothing of a cast is kept: weights and tensors stay in bf16, and every phase casts what it reads.
 *   I3  A tensor of zeros has the scale 1; of one that is not finite nothing finite is left.
 */
#ifndef WEFT_RUN_KERNELS_FP8_H
#define WEFT_RUN_KERNELS_FP8_H

#include <stdint.h>

enum fp8_form { FP8_E4M3, FP8_E5M2, FP8_FORM_COUNT };
/* Bits of the mantissa, exponent of the smallest normal number, the largest number. */
struct fp8_facts {
    int mantissa, least;
    float limit;
};
extern const struct fp8_facts FP8_FORMS[FP8_FORM_COUNT];

/* x as it is after the cast and back: x8 / s. */
void fp8_round(enum fp8_form form, float *x, int64_t count);

#endif
