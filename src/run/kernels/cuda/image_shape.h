/* image_shape.h - windows over images as kernels take them (kernels/shapes.h): read by C and by CUDA. */
#ifndef WEFT_RUN_KERNELS_CUDA_IMAGE_SHAPE_H
#define WEFT_RUN_KERNELS_CUDA_IMAGE_SHAPE_H

#include <stdint.h>

/* Along height and width: of an image, of outputs, of a window; the padding may be below 0 (shapes.h, I2). */
struct image_shape {
    int64_t in[2], out[2], kernel[2], stride[2], pad[2];
};

#endif
