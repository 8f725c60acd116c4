/* scan_shape.h - sizes of a selective scan and of the gated delta rule as kernels take them (kernels/cpu/scan.c, delta.c):
 * read by C and by CUDA. */
#ifndef WEFT_RUN_KERNELS_CUDA_SCAN_SHAPE_H
#define WEFT_RUN_KERNELS_CUDA_SCAN_SHAPE_H

#include <stdint.h>

/* Of both: x is a head's input (the delta rule's v), b and c are what a group's heads share (its k and q). */
struct scan_shape {
    int64_t first, samples, seq, groups, heads, depth, state; /* samples first .. first + samples */
    int64_t share, x, b, c; /* features of a group; where in them x, b and c begin */
    int64_t chunk;          /* positions between two states that are marked */
    int32_t storage;        /* of outputs and gradients: 0 fp32, 1 bf16, 2 fp16 */
    int32_t delta;
    float scale; /* of y = scale S q */
};

/* What the forward pass keeps, in fp32; skip of a scan, write and length of a delta rule. */
struct scan_kept {
    float *all, *step, *slope, *rate, *skip, *write, *length;
};

/* Room of a backward pass, in fp32, of the heads of some samples. */
struct scan_room {
    float *marks; /* (sample, head, chunk, depth, state): the states that chunks begin with */
    float *inner; /* (sample, head, position of a chunk, depth, state) */
    float *back;  /* (sample, head, depth, state) */
    /* (sample, head, position of a chunk, b and c): what a head adds to their gradients */
    float *share;
    float *sums; /* (sample, head, SCAN_SUMS): of the weights' gradients */
};
enum { SCAN_SUMS = 3, SCAN_LANE_STATES = 8, SCAN_WARP_ROWS = 8, SCAN_MOST_WARPS = 16 };

/* NULL: not wanted. */
struct gpu_scan_gradients {
    const void *dy;
    void *all, *steps;
};

#endif
