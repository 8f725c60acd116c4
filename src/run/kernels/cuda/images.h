/* images.h - what convolution and pooling on a GPU share; private to the room. */
#ifndef WEFT_RUN_KERNELS_CUDA_IMAGES_H
#define WEFT_RUN_KERNELS_CUDA_IMAGES_H

#include "run/kernels/cuda/image_shape.h"
#include "run/kernels/cuda/room.h"

static inline struct image_shape image_shape(const struct kernel_call *call)
{
    struct image_shape s;
    for (int axis = 0; axis < 2; axis++) {
        struct window_axis w = window_of(call, axis);
        s.in[axis] = w.in;
        s.out[axis] = w.out;
        s.kernel[axis] = w.kernel;
        s.stride[axis] = w.stride;
        s.pad[axis] = w.pad;
    }
    return s;
}

#endif
