/* scan_shape.h - sizes of a selective scan and of the gated delta rule as kernels take them (kernels/cpu/scan.c, delta.c):
 * read by C and by CUDA. */
#ifndef WEFT_RUN_KERNELS_CUDA_SCAN_SHAPE_H
#define WEFT_RUN_KERNELS_CUDA_SCAN_SHAPE_H

#include <stdint.h>

/* SCAN_TILE: positions of a chunk, and rows and columns of every tile. SCAN_ROWS: rows of a delta rule's state that a
 * block carries from chunk to chunk. */
enum {
    SCAN_TILE = 64,
    SCAN_STEP = SCAN_TILE + 4, /* from row to row of a tile in shared memory */
    SCAN_THREADS = 128,
    SCAN_ROWS = 16,
    SCAN_ROWS_STEP = 24,
    SCAN_SUMS = 3
};

/* Of both: x is a head's input (the delta rule's v), b and c are what a group's heads share (its k and q). */
struct scan_shape {
    int64_t first, samples, seq, groups, heads, depth, state; /* samples first .. first + samples */
    int64_t share, x, b, c; /* features of a group; where in them x, b and c begin */
    int64_t chunks;
    int32_t delta;
    int32_t once; /* nothing is done where `todo` is zero */
    float scale;  /* of y = scale S q */
};

/* What the forward pass keeps: its first input as it is, and numbers in fp32; skip of a scan, write and one over lengths of a
 * delta rule. The first backward pass leaves the sums that the weights' gradients are made of, and makes `todo` zero. */
struct scan_kept {
    void *all;
    float *step, *slope, *rate, *skip, *write, *shrink;
    float *sums; /* (sample, head, SCAN_SUMS) */
    float *todo;
};

/* Room of some samples' heads; positions are those of whole chunks. */
struct scan_room {
    double *logs; /* (sample, head, position): sums of ln r from the chunk's first position on */
    float *marks,
        *back; /* (sample, head, chunk, depth, state): states, and gradients of the states after it */
    float *queries, *keys;  /* (sample, group, chunk, tile): C B^T; of a delta rule K K^T */
    float *inverse;         /* (sample, head, chunk, tile): of a delta rule */
    float *values, *errors; /* (sample, head, position, depth): U and E of a delta rule */
    float *shared; /* (sample, group, position, b and c, state): gradients, of a delta rule */
    float *held;   /* (tile of the state, sample, head, position) */
    float *along, *skipped; /* (sample, head, position) */
};

/* NULL: not wanted. */
struct gpu_scan_gradients {
    const void *dy;
    void *all, *steps;
};

#endif
