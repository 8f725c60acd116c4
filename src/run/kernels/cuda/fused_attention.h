/* fused_attention.h - attention by cuDNN, where it has a kernel that is quicker than ours; private to the room.
 *
 *   I1  What is kept is what flash.cu keeps, so the two passes may go either way.
 *   I2  Gradients of queries are sums of fp32 in the order in which blocks end, which differs from run to run
 *       in the last bits; ours are not. WEFT_ATTENTION=own in the environment takes ours.
 */
#ifndef WEFT_RUN_KERNELS_CUDA_FUSED_ATTENTION_H
#define WEFT_RUN_KERNELS_CUDA_FUSED_ATTENTION_H

#include "run/kernels/cuda/shape.h"

/* Bytes of scratch memory for a phase; -1: this call goes another way. */
int64_t fused_attention_bytes(const struct kernel_call *call, enum phase phase);
/* Whether both phases take the call's share. */
bool fused_attention_takes_shares(const struct kernel_call *call);
/* Gives the phase to the call's stream; false: this call goes another way. */
bool fused_attention(const struct kernel_call *call, enum phase phase);

#endif
