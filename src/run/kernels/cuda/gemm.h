/* gemm.h - matrix products by cuBLASLt; private to the room.
 *
 * It stores matrices by columns, so what lies here by rows is its transpose there.
 */
#ifndef WEFT_RUN_KERNELS_CUDA_GEMM_H
#define WEFT_RUN_KERNELS_CUDA_GEMM_H

#include "cost/cost.h"
#include "run/kernels/cuda/room.h"

enum { WORKSPACE = OWN_WORKSPACE };

/* C = alpha A B + beta C + bias of m x n, by columns; A is m x k where it is not turned. Batches stand so
 * many elements apart. Two are compared byte by byte: there is no room between members. */
struct gemm {
    int64_t m, n, k, a_step, b_step, c_step;
    int64_t batch, a_apart, b_apart, c_apart;
    int32_t a_turned, b_turned, biased;
    int32_t in, out;                /* enum dtype */
    int32_t a_unit, b_unit, c_unit; /* bytes that the addresses are multiples of */
    int32_t a_cast, b_cast;         /* 0: as `in` says; else 1 + enum fp8_form */
    int32_t scaled;                 /* alpha and beta are in the device's memory */
    int32_t listed;                 /* so are the addresses of a batch's matrices */
};
struct gemm gemm_of(enum dtype in, enum dtype out); /* one matrix, no sizes yet */
/* Into the call's stream; its scratch memory begins with WORKSPACE bytes. */
void multiply(const struct kernel_call *call, const struct gemm *sizes, float alpha, const void *a,
              const void *b, const void *bias, float beta, void *c);
/* The same with alpha and beta in the device's memory; `scaled` is set. */
void multiply_scaled(const struct kernel_call *call, const struct gemm *sizes, const float *factors,
                     const void *a, const void *b, const void *bias, void *c);
/* A batch whose matrices' addresses the device's memory has at `list`: all of A, of B, of C, at LISTED bytes before the end of
 * the workspace or after. The units of addresses are set. False: cuBLASLt has no way, and nothing is done. */
enum { LISTED = 1 << 20 };
bool multiply_listed(const struct kernel_call *call, const struct gemm *sizes, float alpha,
                     void **list, float beta);
/* The largest power of two that divides an address, up to what cuBLASLt asks about. */
int32_t unit_of(const void *address);

#endif
