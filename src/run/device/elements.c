/* elements.c - storage and sums (elements.h). */
#include "run/device/elements.h"

#include <string.h>

/* ---- storage --------------------------------------------------------------------------------- */

VECTOR static void widen_bf16(const uint16_t *restrict from, int64_t count, float *restrict to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = bits_float((uint32_t)from[i] << 16);
}

/* To the nearest, ties to even; NaN stays one. */
VECTOR static void narrow_bf16(const float *restrict from, int64_t count, uint16_t *restrict to)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = float_bits(from[i]);
        uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
        uint32_t quiet = (bits >> 16) | 0x40U;
        to[i] = (uint16_t)((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
    }
}

/* An fp16 number's bits, moved to where fp32 has them, are it times 2^-112: that is also right of numbers below the
 * smallest normal one. An exponent of ones stays one. */
VECTOR static void widen_fp16(const uint16_t *restrict from, int64_t count, float *restrict to)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = from[i], size = (bits & 0x7fffU) << 13;
        uint32_t number = float_bits(bits_float(size) * 0x1p112F);
        uint32_t beyond = size | 0x7f800000U; /* infinite, or no number */
        to[i] =
            bits_float((bits & 0x8000U) << 16 | ((bits & 0x7c00U) == 0x7c00U ? beyond : number));
    }
}

/* Below the smallest normal number fp16 counts in steps of 2^-24, which are those of fp32 between 0.5 and 1. From 65520
 * on, half a step after the largest number, all is infinite. */
VECTOR static void narrow_fp16(const float *restrict from, int64_t count, uint16_t *restrict to)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = float_bits(from[i]), size = bits & 0x7fffffffU;
        uint32_t normal = (size - (112U << 23) + 0xfffU + ((size >> 13) & 1U)) >> 13;
        uint32_t small = float_bits(bits_float(size) + 0.5F) - float_bits(0.5F);
        uint32_t number = size < (113U << 23) ? small : normal;
        uint32_t beyond = size > 0x7f800000U ? 0x7e00U : 0x7c00U;
        to[i] =
            (uint16_t)((bits >> 16 & 0x8000U) | (size >= float_bits(65520.0F) ? beyond : number));
    }
}

void widen(enum dtype dtype, const void *from, int64_t first, int64_t count, float *to)
{
    (dtype == DTYPE_FP16 ? widen_fp16 : widen_bf16)((const uint16_t *)from + first, count, to);
}

void narrow(enum dtype dtype, const float *from, int64_t count, void *to, int64_t first)
{
    (dtype == DTYPE_FP16 ? narrow_fp16 : narrow_bf16)(from, count, (uint16_t *)to + first);
}

void copy_elements(enum dtype dtype, const void *from, int64_t from_first, int64_t count, void *to,
                   int64_t to_first)
{
    int64_t bytes = dtype_bytes(dtype);
    memcpy((char *)to + to_first * bytes, (const char *)from + from_first * bytes,
           (size_t)(count * bytes));
}

/* ---- sums ------------------------------------------------------------------------------------ */

VECTOR void row_add(const float *restrict x, int64_t count, float *restrict y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] += x[i];
}

VECTOR double sum_of_squares(const float *x, int64_t count)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}
