/* joins.h - private to rank: stages that take several micro-batches at once (joins.c). */
#ifndef WEFT_RUN_RANK_JOINS_H
#define WEFT_RUN_RANK_JOINS_H

#include "run/rank/room.h"

/* The order of the samples that a stage takes at once: `all` of them, in micro-batches of `step`, each in so many shares. */
struct joined_order {
    int64_t all, step, parts;
};
struct joined_order joined_order(const struct rank *r);
/* Which of the samples from its first micro-batch on stands at a place of that order. */
int64_t joined_sample(const struct joined_order *order, int64_t sample);
/* The first of the micro-batches that this rank's stage takes together with this one. */
int32_t first_joined(const struct rank *r, int32_t micro_batch);
/* Of what is to be sent, the part of the send that begins with this micro-batch; takes the value. */
struct value *cut_joined(struct rank *r, struct value *value, const struct crossing_samples *n,
                         int32_t micro_batch);
/* What such a send has brought, under its key. */
void put_joined(struct rank *r, const struct crossing_samples *n, int32_t micro_batch, int64_t key,
                struct value *value);
/* What a run of such a plan cannot have. */
weft_status check_joins(const struct run_options *options);

#endif
