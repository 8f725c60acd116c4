/* cuda.h - the GPU's kernels, for those who run operators on them. */
#ifndef WEFT_RUN_KERNELS_CUDA_H
#define WEFT_RUN_KERNELS_CUDA_H

#include "run/kernels/kernels.h"

/* What is missing, where it fails; `place` as of cuda_open. */
weft_status cuda_kernels(int32_t place, const struct kernels **out);

#endif
