/* fused_conv.h - convolution in bf16 and fp16 by cuDNN, where it has a kernel; private to the room.
 *
 *   I1  Gradients of weights are sums in fp32 that are rounded to the storage's type once for each call, and then added to
 *       those in fp32: cuDNN writes no others.
 *   I2  Sums repeat bit for bit (dnn.h, I3).
 */
#ifndef WEFT_RUN_KERNELS_CUDA_FUSED_CONV_H
#define WEFT_RUN_KERNELS_CUDA_FUSED_CONV_H

#include "run/kernels/cuda/room.h"

/* Bytes of scratch memory for a phase; -1: this call goes another way. */
int64_t fused_conv_bytes(const struct kernel_call *call, enum phase phase);
/* Gives the phase, without a bias, to the call's stream; false: this call goes another way. */
bool fused_conv(const struct kernel_call *call, enum phase phase);

#endif
