/* inputs.h - private to rank: the model's own inputs, as this device reads them. */
#ifndef WEFT_RUN_RANK_INPUTS_H
#define WEFT_RUN_RANK_INPUTS_H

#include "run/rank/joins.h"

/* The number of a loss among those of the model, in the order of its operators. */
int32_t loss_number(const struct model *model, const struct op *loss);
int64_t elements_per_sample(const struct operand *operand);
/* What this device reads of one input, or of the labels, into its memory. */
void read_source(struct rank *r, const struct source_read *wanted);
struct value *read_input(struct rank *r, int32_t micro_batch, const struct local_op *local_op,
                         int32_t operand);

/* The host's part of that. */
void gather_source(struct rank *r, const struct source_read *read);

/* A read of samples from `first` on. */
struct gathering {
    struct source_read read;
    struct batch_source source;
    int64_t first;
    struct joined_order order;
};
struct gathering gathering_of(const struct rank *r, const struct source_read *read);
/* Into the host's memory; any thread may. */
void gather(const struct gathering *g);

#endif
