/* fp8.h - a linear layer's products in fp8 (run/kernels/fp8.h) on a GPU; private to the room.
 *
 *   I1  cuBLASLt multiplies rows by rows only, and sizes that are multiples of 16. What is read by columns is turned as it is
 *       cast. Sizes of another kind, and GPUs without such products, multiply the same numbers in bf16.
 */
#ifndef WEFT_RUN_KERNELS_CUDA_FP8_H
#define WEFT_RUN_KERNELS_CUDA_FP8_H

#include "run/kernels/cuda/gemm.h"

struct fp8_sizes {
    int64_t rows, in, out;
};
/* Where in the call's scratch memory the casts may lie: own_cast_bytes of it (cost/own_scratch.h). */
void fp8_forward(const struct kernel_call *call, const struct fp8_sizes *s, void *room);
void fp8_input(const struct kernel_call *call, const struct fp8_sizes *s, void *room);
void fp8_weight(const struct kernel_call *call, const struct fp8_sizes *s, void *room);

/* Two tensors as numbers that a cast makes of them, in bf16, and what their product is multiplied by (gemm.h, scaled). */
struct fp8_tensor {
    const void *from;
    int64_t count;
    enum fp8_form form;
};
struct fp8_pair {
    const void *left, *right;
    const float *factors;
};
int64_t fp8_pair_bytes(int64_t left, int64_t right); /* of the room, by elements */
struct fp8_pair fp8_pair(const struct kernel_call *call, const struct fp8_tensor *left,
                         const struct fp8_tensor *right, float before, void *room);

#endif
