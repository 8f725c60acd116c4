/* fp8.h - products of weights in 8 bits. Part of kernels.h.
 *
 * Both operands are cast with one scale for each tensor, which is found before the cast ("current scaling"):
 *
 *   s = limit / max |x|     x8 = round(s x)     Y = X8 W8^T / (s_x s_w)                                          (1)
 *
 * Inputs and weights are cast to e4m3, gradients of outputs to e5m2 (Micikevicius et al., 2022, section 3). Sums are fp32,
 * results are rounded to the storage once, and a bias and its gradient never see 8 bits.
 *
 * Or the scale is that of earlier steps ("delayed scaling", as Transformer Engine's DelayedScaling with the most of its history):
 *
 *   s_t = limit / max(a_(t-1), ..., a_(t-H)),   a_t = max |x| over the micro-batches of step t                   (2)
 *
 * so a cast reads its tensor once, and what a tensor has beyond the limit by then becomes the limit.
 *
 *   I1  What is cast is a tensor as it lies on this device: parts of a split tensor have scales of their own.
 *   I2  Nothing of a cast is kept: weights and tensors stay in bf16, and every phase casts what it reads.
 *   I3  A tensor of zeros, or a history of them, has the scale 1; of one that is not finite nothing finite is left, and it
 *       is not remembered.
 *   I4  The first step of a run has no history: (1).
 */
#ifndef WEFT_RUN_KERNELS_FP8_H
#define WEFT_RUN_KERNELS_FP8_H

#include <stdbool.h>
#include <stdint.h>

enum fp8_form { FP8_E4M3, FP8_E5M2, FP8_FORM_COUNT };
/* Bits of the mantissa, exponent of the smallest normal number, the largest number. */
struct fp8_facts {
    int mantissa, least;
    float limit;
};
extern const struct fp8_facts FP8_FORMS[FP8_FORM_COUNT];

/* The operands of a product in its three phases, and what each is cast to. */
enum fp8_operand { FP8_INPUT, FP8_WEIGHT, FP8_GRADIENT, FP8_OPERAND_COUNT };
extern const enum fp8_form FP8_FORM_OF[FP8_OPERAND_COUNT];

/* (2) of one operator: a of operand k is most[k] for this step so far, and most[i stride + k] for the i-th step before. In
 * the device's memory. */
enum { FP8_HISTORY = 1024 }; /* H + 1; Transformer Engine's amax_history_len */
struct fp8_history {
    float *most;    /* NULL: current scaling */
    int64_t stride; /* of all operators */
    bool first;     /* I4 */
};

/* x as it is after the cast and back, x8 / s, by (1), or by (2) where there is a history, which remembers x. */
void fp8_cast(const struct fp8_history *history, enum fp8_operand operand, float *x, int64_t count);

#endif
