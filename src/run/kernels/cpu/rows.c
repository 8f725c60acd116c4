/* rows.c - what several kernels do to a row of fp32 numbers. */
#include "run/kernels/cpu/cpu.h"

/* Lane by lane: a maximum that minds NaN may not be reordered by the compiler itself. */
VECTOR float row_most(const float *x, int64_t count)
{
    enum { LANES = 16 };
    float lane[LANES], most = -INFINITY;
    int64_t i = 0;
    for (int k = 0; k < LANES; k++)
        lane[k] = -INFINITY;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    for (int k = 0; k < LANES; k++)
        most = lane[k] > most ? lane[k] : most;
    for (; i < count; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

VECTOR float row_sum(const float *x, int64_t count)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += x[i];
    return sum;
}

VECTOR float row_squares(const float *x, int64_t count, float mean)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

VECTOR float row_dot(const float *x, const float *y, int64_t count)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

VECTOR float row_exp(const float *x, int64_t count, float shift, float *y)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) {
        y[i] = exp_of(x[i] - shift);
        sum += y[i];
    }
    return sum;
}

VECTOR void row_scale(const float *x, int64_t count, float factor, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] * factor;
}
