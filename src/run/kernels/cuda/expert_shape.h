/* expert_shape.h - what the host tells kernels about a mixture of experts, and what they keep: read by C and by
 * CUDA. */
#ifndef WEFT_RUN_KERNELS_CUDA_EXPERT_SHAPE_H
#define WEFT_RUN_KERNELS_CUDA_EXPERT_SHAPE_H

#include <stdint.h>

/* One of a token's experts. */
struct token_choice {
    int32_t expert, place; /* place: among the expert's tokens, -1: no room */
    float gate;
};

/* Dims of dispatch and combine (kernels/cpu/experts.c). */
struct expert_shape {
    int64_t batch, local, first, seq, width; /* local: experts on this device, from `first` on */
    int64_t all, chosen, room;               /* experts, per token, places of each */
    int64_t first_place, places;             /* of each: of a dispatch's share, or all */
    int64_t first_token, tokens;             /* of each sample: of a combine's share, or all */
};

#endif
