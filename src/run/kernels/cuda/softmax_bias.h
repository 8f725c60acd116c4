/* softmax_bias.h - which number of a learned bias a key of a row takes (kernels/shapes.h): what the host tells kernels,
 * read by C and by CUDA. */
#ifndef WEFT_RUN_KERNELS_CUDA_SOFTMAX_BIAS_H
#define WEFT_RUN_KERNELS_CUDA_SOFTMAX_BIAS_H

#include <stdint.h>

/* Distances that have a bucket of their own to look up; all beyond are in the last. */
enum { BIAS_DISTANCES = 129 };
/* Keys of a row that a warp can hold; of blocks that hold rows: their warps, and the rows that these take one after another. */
enum { SOFTMAX_HELD = 1024, SOFTMAX_WARPS = 8, SOFTMAX_ROWS = 32 };

struct bias_shape {
    int64_t heads, buckets, each, side; /* of the bias; each: for one direction */
    int64_t batch, local, seq,
        keys; /* rows of this device: samples, heads, queries; keys of each row */
    int64_t first_head, first_query; /* in the whole */
    int32_t causal;
    uint8_t bucket[BIAS_DISTANCES];
};

#endif
