/* own_scratch.h - memory that Weft's own kernels on a GPU take beside their operands while they run: the kernels
 * (run/kernels/cuda) and the prediction of them ask here.
 *
 * cuBLASLt gets a workspace. Rows of outputs whose length is no multiple of 16 bytes leave it its oldest kernels,
 * several times as slow (a vocabulary of 50257). Logits that only a loss reads therefore lie in rows that are
 * padded, and the weights are copied into such rows for each product:
 *
 *   bytes = OWN_WORKSPACE + inputs * padded outputs * 2                                               (1)
 *
 * Other outputs of that kind go through padded rows, some at a time. cuDNN's attention (run/kernels/cuda,
 * fused_attention.h) adds up the gradients of queries in fp32, with one number for each row, and where heads share
 * keys, writes the gradients of keys and values for each query head first:
 *
 *   bytes = queries * heads * (depth + 1) * 4 + (heads share keys) * 2 * keys * heads * depth * 2     (2)
 *
 * Products in fp8 (run/kernels/fp8.h) cast both operands before each of the three phases:
 *
 *   bytes = max(rows * in + in * out, rows * out + in * out, rows * (in + out))                       (3)
 *
 * Scans and delta rules (run/kernels/cuda/scan.cu) go by chunks of 64 positions, with the states of a head before each chunk
 * and their gradients, depth * state numbers each, C B^T of each group, and some sums of each position, in fp32, of some
 * samples at once; a delta rule has the inverse of its triangle, what it adds to the state and its gradient, K K^T, and the
 * gradients of keys and queries besides:
 *
 *   bytes = samples * chunks * (heads * (2 depth * state + 64 * (4 + tiles of the state)) + groups * 64 * 64) * 4
 *         + (delta) samples * chunks * 64 * (heads * (64 + 2 depth) + groups * (64 + 2 state)) * 4      (4)
 *
 * cuDNN's convolutions of windows of more than one pixel lay images and outputs out with their channels last (on an H200:
 * images of 3 channels as of 8), and write gradients of weights in 16 bits first:
 *
 *   bytes = samples * (inputs * image + outputs * pixels) * 2 + weights * 2                             (5)
 *
 * Others write the windows of some samples as columns, in fp32, beside their outputs:
 *
 *   bytes = OWN_WORKSPACE + samples * pixels * (inputs * window * 4 + outputs * element)                (6)
 *
 * Experts' products in fp8 cast what (3) says, of all experts, to 8 bits or, where they are not multiplied so, to the same numbers
 * in 16, for which there is room; routers widen their weights and up to 64 MiB of their inputs:
 *
 *   bytes = OWN_WORKSPACE + max(rows (in + out), rows in + weights, rows out + weights) * 2           (7)
 *   bytes = OWN_WORKSPACE + (experts + rows at once) * in * 4                                         (8)
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
/* Elements from row to row of logits that only a loss reads, out of such a product; 0: rows are not padded. */
int64_t logits_pitch(enum dtype dtype, int64_t rows, int64_t outputs);

/* Whether cuDNN is asked for attention with these local sizes, of keys that are whole. */
bool attention_is_fused(const struct op *op, const int64_t *local, enum dtype dtype);

/* (3): both operands of a product in fp8, as they are cast; at most twice as much where they are not multiplied so. */
int64_t own_cast_bytes(int64_t rows, int64_t inputs, int64_t outputs);

/* Of a scan or a delta rule (run/kernels/cuda, scan.c): samples that are computed at once, and (4). */
enum { OWN_SCAN_CHUNK = 64 }; /* positions */
struct own_scan {
    int64_t at_once, bytes;
};
struct own_scan own_scan(const struct op *op, const int64_t *local);
/* What a forward pass keeps besides: its first input, of which the model says that a convolution makes it again, in its type, and in
 * fp32 two numbers of each position of each head and four of each head of each sample and of all; of a delta rule one more of each
 * position of each head and two of each position of each group. */
int64_t own_scan_kept(const struct op *op, const int64_t *local, enum dtype dtype);
/* And of the convolution before it: the slope of SiLU at each output, in fp32. */
int64_t own_conv1d_kept(const struct op *op, const int64_t *local);

/* Of a convolution (run/kernels/cuda, conv.c): samples whose windows are columns at once, bytes of those, and (6). */
struct own_columns {
    int64_t at_once, columns, bytes;
};
struct own_columns own_columns(const struct op *op, const int64_t *local, enum dtype dtype);
/* Whether cuDNN is asked for a convolution with these local sizes; and whether it lays out channels side by side for it, which it does
 * not where windows of one pixel make it a product and planes are whole numbers of 16 bytes. */
bool convolution_is_fused(const struct op *op, const int64_t *local, enum dtype dtype);
bool convolution_is_laid_out(const struct op *op, const int64_t *local, enum dtype dtype);

/* Rows of a router's inputs that are widened to fp32 at once, (8). */
int64_t own_router_rows(int64_t rows, int64_t inputs);

/* (1) to (8) of an operator with these local sizes, that computes in this type; without the sums of columns, below a hundredth of it. */
int64_t own_scratch_bytes(const struct op *op, const int64_t *local, enum dtype dtype);

#endif
