/* fp8.h - products in fp8 (run/kernels/fp8.h) on a GPU, of linear layers and of experts; private to the room.
 *
 *   I1  cuBLASLt multiplies rows by rows only, and sizes that are multiples of 16. What is read by columns is turned as it is
 *       cast. Sizes of another kind, and GPUs without such products, multiply the same numbers in bf16.
 *   I2  Experts' matrices are multiplied at once, sample by sample; a scale is of the tensor of all samples and experts.
 */
#ifndef WEFT_RUN_KERNELS_CUDA_FP8_H
#define WEFT_RUN_KERNELS_CUDA_FP8_H

#include "run/kernels/cuda/gemm.h"

/* Of each product: rows of inputs, their width, and that of outputs; inputs are (sample, expert, row), weights (expert). */
struct fp8_sizes {
    int64_t samples, experts, rows, in, out;
};
/* Where in the call's scratch memory the casts may lie: fp8_bytes of it. */
void fp8_forward(const struct kernel_call *call, const struct fp8_sizes *s, void *room);
void fp8_input(const struct kernel_call *call, const struct fp8_sizes *s, void *room);
void fp8_weight(const struct kernel_call *call, const struct fp8_sizes *s, void *room);
int64_t fp8_bytes(const struct fp8_sizes *s);

#endif
