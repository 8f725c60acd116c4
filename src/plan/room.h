/* room.h - what the files of this room share beside plan.h. */
#ifndef WEFT_PLAN_ROOM_H
#define WEFT_PLAN_ROOM_H

#include "plan/plan.h"

/* By operator: forward FLOPs of one copy and one sample. */
double *forward_flops(const struct model *model, struct arena *keep);

/* The tensor after views and, where it is a layer's carry, the one of the layer before. */
int32_t plan_origin(const struct model *model, const struct instance *reader, int32_t tensor,
                    bool *carried);

/* Why OVERLAP_EXPERTS is there for nothing, in words; NULL: it is not. */
const char *useless_pairs(const struct plan *plan);

/* What degrees say beside their layout: dtype, policy, memory limit, overlap, buckets, sends. */
void set_settings(struct plan *plan, const struct degrees *d);

/* Restores plan.h's I3 after a new map: what does not cover its stage's devices is copied. */
weft_status copy_misfits(struct plan *plan);

/* "5 and 10": the numbers next to `wanted` in 1 .. most for which legal(number, with) holds. */
const char *nearest_legal(struct arena *keep, int64_t wanted, int64_t most,
                          bool (*legal)(int64_t number, int64_t with), int64_t with);
bool divides(int64_t number, int64_t whole);

#endif
