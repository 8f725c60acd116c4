/* cpu.h - what the CPU kernels share: rows of a table, storage, a vectorised exponential, products.
 *
 *   e^x = 2^n e^r,  n = round(x / ln 2),  r = x - n ln 2 in [-0.347, 0.347]                      (1)
 *   e^r = sum of r^i / i! up to i = 7: the rest is below r^8 / 8! = 5e-9                         (2)
 *
 *   I1  A kernel reads what its kind keeps (model.h, enum keep) and `kept`, nothing else, in a
 *       backward phase; a forward phase may be run again.
 *   I2  Loops run over fp32. bf16 is widened a tile at a time (rows, chunks), or whole where a matrix
 *       product reads it; fp32 is read and written where it lies.
 *   I3  Kernels start no threads: OpenBLAS runs on the caller's.
 */
#ifndef WEFT_RUN_KERNELS_CPU_H
#define WEFT_RUN_KERNELS_CPU_H

#include <math.h>
#include <string.h>

#include "run/kernels/kernels.h"

/* ---- the table ------------------------------------------------------------------------------- */

struct cpu_kernel {
    const char *(*refuses)(const struct op *op);               /* why; NULL: not at all */
    int64_t (*kept_bytes)(const struct kernel_call *call);     /* NULL: none */
    int64_t (*scratch_floats)(const struct kernel_call *call); /* NULL: none */
    void (*phase[PHASE_COUNT])(const struct kernel_call *call);
};
extern const struct cpu_kernel CPU_EMBEDDING, CPU_LINEAR, CPU_SCORE, CPU_CONTEXT, CPU_ATTENTION,
    CPU_SOFTMAX, CPU_LAYER_NORM, CPU_RMS_NORM, CPU_BATCH_NORM, CPU_GELU, CPU_RELU, CPU_SILU,
    CPU_GATED, CPU_DROPOUT, CPU_DROPOUT_ADD, CPU_ADD, CPU_ROTARY, CPU_CONV, CPU_POOL, CPU_CONCAT,
    CPU_LOSS, CPU_RESHAPE, CPU_EMBEDDING_BAG, CPU_INTERACTION, CPU_ROUTER, CPU_DISPATCH,
    CPU_EXPERT_LINEAR, CPU_COMBINE, CPU_CONV1D, CPU_SCAN, CPU_GATED_NORM, CPU_DELTA;
void cpu_optimize(const struct optimizer_step *step);
extern const struct muon_kernels CPU_MUON;
void store_weights(const struct optimizer_step *step); /* as they are stored, if not in fp32 */

/* ---- exponentials --------------------------------------------------------------------------- */

/* (1), (2). Below e^-87.7, the smallest normal number, 0 (n = -127 makes 2^n one); above e^88 no more;
 * NaN stays NaN. */
INLINE float exp_of(float x)
{
    const float log2e = 1.44269504F, ln2_high = 0.693359375F, ln2_low = -2.12194440e-4F;
    const float round = 12582912.0F; /* 1.5 * 2^23: what is added to it loses its fraction */
    /* Between 88 and infinity, by bits: comparisons of floats would have to mind NaN in every lane. */
    const uint32_t sign = 0x80000000U, limit = 0x42b00000U, infinity = 0x7f800000U;
    uint32_t bits = float_bits(x), beyond = (bits & ~sign) - limit;
    float at = bits_float(beyond <= infinity - limit ? (bits & sign) | limit : bits);
    float shifted = at * log2e + round, n = shifted - round;
    float r = (at - n * ln2_high) - n * ln2_low, r2 = r * r;
    /* (2) in pairs: short chains of operations that wait for each other */
    float p = (1.0F / 720) + r * (1.0F / 5040);
    p = (1.0F / 24 + r * (1.0F / 120)) + r2 * p;
    p = (0.5F + r * (1.0F / 6)) + r2 * p;
    p = (1.0F + r) + r2 * p;
    return p * bits_float((float_bits(shifted) + 127) << 23);
}

INLINE float sigmoid_of(float x)
{
    return 1.0F / (1.0F + exp_of(-x));
}

/* ---- operands ------------------------------------------------------------------------------ */

/* A whole operand as fp32, the room for it taken from *room where it is not. */
const float *whole_read(enum dtype dtype, const void *from, int64_t count, float **room);
float *whole_write(enum dtype dtype, void *to, int64_t count, float **room);
/* What whole_read and whole_write take of the scratch memory. */
int64_t whole_floats(enum dtype dtype, int64_t count);

/* ---- rows ------------------------------------------------------------------------------------ */

float row_most(const float *x, int64_t count); /* -INFINITY of none */
float row_sum(const float *x, int64_t count);
float row_squares(const float *x, int64_t count, float mean); /* sum of (x - mean)^2 */
float row_dot(const float *x, const float *y, int64_t count);
/* y = e^(x - shift), x and y the same or apart; the sum. */
float row_exp(const float *x, int64_t count, float shift, float *y);
void row_scale(const float *x, int64_t count, float factor, float *y); /* y = factor x */

/* ---- masks ----------------------------------------------------------------------------------- */

/* The first key that a causal query at this place of its sequence sees, if it sees itself. */
static inline int64_t first_seen(const struct op *op, int64_t query)
{
    if (!op->window)
        return 0;
    return op->chunked ? query / op->window * op->window : query + 1 - op->window;
}

/* ---- products -------------------------------------------------------------------------------- */

/* A matrix stored by rows, `step` elements from one to the next; or its transpose. */
struct matrix {
    const float *at;
    int64_t step;
    bool transposed;
};
/* C = alpha A B + beta C, C of m x n, A of m x k, B of k x n as they are multiplied. */
void product(int64_t m, int64_t n, int64_t k, float alpha, struct matrix a, struct matrix b,
             float beta, float *c, int64_t c_step);

#endif
