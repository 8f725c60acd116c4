/* elements.c - storage and sums (elements.h). */
#include "run/device/elements.h"

#include <string.h>

/* ---- storage --------------------------------------------------------------------------------- */

VECTOR static void widen_all(const uint16_t *restrict from, int64_t count, float *restrict to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = bits_float((uint32_t)from[i] << 16);
}

/* To the nearest, ties to even; NaN stays one. */
VECTOR static void narrow_all(const float *restrict from, int64_t count, uint16_t *restrict to)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = float_bits(from[i]);
        uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
        uint32_t quiet = (bits >> 16) | 0x40U;
        to[i] = (uint16_t)((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
    }
}

void widen(const void *from, int64_t first, int64_t count, float *to)
{
    widen_all((const uint16_t *)from + first, count, to);
}

void narrow(const float *from, int64_t count, void *to, int64_t first)
{
    narrow_all(from, count, (uint16_t *)to + first);
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
