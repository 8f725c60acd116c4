/* source.h - what a run is fed with. */
#ifndef WEFT_RUN_DATA_SOURCE_H
#define WEFT_RUN_DATA_SOURCE_H

#include "base/base.h"

/* The data, by the sample's number in the order of the run: sample i of step t is global_batch t + i.
 * Called from several threads at once. */
enum { SOURCE_LABELS = -1 };
struct batch_source {
    /* Fills one sample of one input of the model, numbered from 0 in the order of its tensors, or of
     * the labels of its loss (SOURCE_LABELS, and downwards from there where it has several, in the
     * order of its operators): int64_t for indices and labels, else float. */
    void (*read)(void *context, int64_t sample, int32_t input, void *out);
    void *context;
    /* How many of a sample's labels of a loss, by the same number, are not negative: the same of every sample. NULL: all. */
    int64_t (*counted)(void *context, int32_t input);
};

#endif
