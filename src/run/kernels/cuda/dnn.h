/* dnn.h - chains of operations that cuDNN computes as one kernel; private to the room.
 *
 * A recipe lists tensors and the operations between them; cuDNN looks for a kernel that does all of them at
 * once. What nobody outside reads is a tensor between operations and never gets memory.
 *
 *   I1  All tensors have four dims. Where one has size 1 it is repeated.
 *   I2  The first thing that cuDNN refuses is kept: what is added afterwards does nothing, and no plan comes of
 *       it. That is no error: the caller has kernels of its own.
 *   I3  Of convolutions, kernels whose sums do not repeat bit for bit are left out.
 */
#ifndef WEFT_RUN_KERNELS_CUDA_DNN_H
#define WEFT_RUN_KERNELS_CUDA_DNN_H

#include "run/kernels/cuda/room.h"

enum { DNN_DIMS = 4, DNN_MOST = 48 }; /* tensors of a recipe, and operations */

/* How elements are stored, and computed. */
enum dnn_type { DNN_FP32, DNN_BF16, DNN_FP16, DNN_INT32, DNN_BOOLEAN, DNN_TYPE_COUNT };
enum dnn_operation {
    DNN_ADD,
    DNN_SUBTRACT,
    DNN_MULTIPLY,
    DNN_DIVIDE,
    DNN_EXPONENT,
    DNN_LOGARITHM,
    DNN_COPY,
    DNN_ROW, /* the index of an element along dim 2, and along dim 3 */
    DNN_COLUMN,
    DNN_NOT_LESS, /* a truth value */
    DNN_SELECT,   /* the first where the third is true, else the second */
    DNN_OPERATION_COUNT
};

struct dnn_tensor {
    enum dnn_type type;
    int64_t size[DNN_DIMS], step[DNN_DIMS];
};

/* Where a recipe's tensors are while a plan runs: memory of the device, or a number. */
struct dnn_place {
    const void *memory;
    float number;
};
struct dnn_plan {
    void *plan; /* NULL: cuDNN has no kernel for it */
    int64_t workspace;
    int32_t places;
    int64_t id[DNN_MOST];
};

struct dnn_recipe;
struct dnn_recipe *dnn_recipe_new(void); /* NULL: cuDNN is not here */
void dnn_recipe_free(struct dnn_recipe *recipe);

/* Tensors, by number; those of `dnn_given` and `dnn_number` are the plan's places, in their order. */
int dnn_given(struct dnn_recipe *recipe, const struct dnn_tensor *tensor);
int dnn_number(struct dnn_recipe *recipe);
int dnn_between(struct dnn_recipe *recipe, const struct dnn_tensor *tensor);

/* c = a b */
void dnn_product(struct dnn_recipe *recipe, int a, int b, int c);
/* y = operation of x, and of b and t where it has so many operands; -1: none. */
void dnn_each(struct dnn_recipe *recipe, enum dnn_operation operation, int x, int b, int t, int y);
/* y = sum, or the most, over the dims in which y has size 1 and x more. */
void dnn_reduce(struct dnn_recipe *recipe, enum reduce how, int x, int y);
/* y = x with other steps: what is a row becomes a column. */
void dnn_view(struct dnn_recipe *recipe, int x, int y);

/* A convolution: steps of its windows along height and width, and pixels of padding before and after. */
enum dnn_pass { DNN_FORWARD, DNN_INPUT, DNN_WEIGHT, DNN_PASS_COUNT };
struct dnn_window {
    int64_t stride[2], before[2], after[2];
};
/* Of images x, weights w and outputs y: the pass says which of them is computed from the others. I3. */
void dnn_convolution(struct dnn_recipe *recipe, enum dnn_pass pass, const struct dnn_window *window,
                     int x, int w, int y);

/* Looks for a kernel: can take a second. The plan lives as long as the program. */
void dnn_plan(struct dnn_recipe *recipe, struct dnn_plan *out);
/* Into the stream; false: cuDNN refuses, and the run has failed (cuda_fail). */
bool dnn_run(const struct dnn_plan *plan, struct device_stream *stream,
             const struct dnn_place *places, void *workspace);

#endif
