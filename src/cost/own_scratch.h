/* own_scratch.h - memory that Weft's own kernels on a GPU take beside their operands while they run: the kernels
 * (run/kernels/cuda) and the prediction of them ask here.
 *
 * cuBLASLt gets a workspace. Rows of outputs whose length is no multiple of 16 bytes leave it its oldest kernels,
 * several times as slow (a vocabulary of 50257): such outputs go through rows that are padded, some at a time,
 * and so do the weights:
 *
 *   bytes = OWN_WORKSPACE + (rows at once + inputs) * padded outputs * 2                              (1)
 */
#ifndef WEFT_COST_OWN_SCRATCH_H
#define WEFT_COST_OWN_SCRATCH_H

#include "model/model.h"

enum { OWN_WORKSPACE = 32 << 20 }; /* bytes; NVIDIA's recommendation for Hopper (cuBLAS, 2.1.7) */

/* Of a product with `weights` tensors of weights: the length of a padded row, and how many rows are padded at
 * once; 0: outputs are multiplied where they lie. */
struct padded_rows {
    int64_t length, at_once;
};
struct padded_rows padded_rows(enum dtype dtype, int64_t rows, int64_t outputs, int32_t weights);

/* (1) of an operator with these local sizes; without the sums of columns, below a hundredth of it. */
int64_t own_scratch_bytes(const struct op *op, const int64_t *local, enum dtype dtype);

#endif
