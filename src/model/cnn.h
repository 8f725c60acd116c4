/* cnn.h - what the convolutional families share. Private to the room. */
#ifndef WEFT_MODEL_CNN_H
#define WEFT_MODEL_CNN_H

#include "model/builder.h"

/* Bounds of options, so that no product of sizes comes near the limit of int64_t. */
enum {
    CNN_MAX_IMAGE = 1 << 13,
    CNN_MAX_CLASSES = 1 << 24,
    CNN_MAX_CHANNELS = 1 << 16,
};

struct window square(int64_t kernel, int64_t stride, int64_t pad);

/* A pool that keeps the position of each maximum for the backward pass. */
int build_max_pool(struct builder *b, const char *name, int x, const struct window *w);
/* Average pooling onto a grid of `target` x `target` from an image that is at least as large. */
int build_pool_onto(struct builder *b, const char *name, int x, int64_t target);

/* A list of whole numbers from 1 to `max`, `least` to `most` of them. */
struct counts_rule {
    size_t least, most;
    int64_t max;
};
weft_status read_counts(const struct doc *list, const struct counts_rule *rule, int64_t *out,
                        size_t *count);

#endif
