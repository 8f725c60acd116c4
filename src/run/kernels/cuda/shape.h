/* shape.h - sizes of attention as its kernels take them; private to the room. */
#ifndef WEFT_RUN_KERNELS_CUDA_SHAPE_H
#define WEFT_RUN_KERNELS_CUDA_SHAPE_H

#include "run/kernels/cuda/room.h"

/* The `shape` of attention.cu. */
struct attention_shape {
    int64_t batch, head, group, seq, kv, depth, value;
    int64_t query_begin, key_begin, key_whole;
    int64_t window;
    int32_t causal, chunked;
    float scale;
};
/* Of attention, and of the scores and the context of plain attention. */
struct attention_shape attention_shape_of(const struct kernel_call *call);
/* Plain scores that are not seen become -inf. */
void mask_scores(const struct kernel_call *call);

#endif
