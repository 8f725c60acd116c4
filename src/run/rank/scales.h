/* scales.h - histories of the largest numbers of tensors that are cast to fp8, for plans whose software scales by earlier
 * steps (kernels/fp8.h, 2); private to the room. */
#ifndef WEFT_RUN_RANK_SCALES_H
#define WEFT_RUN_RANK_SCALES_H

#include "run/rank/room.h"

/* After the local operators are known; nothing where scales are those of the tensors themselves. */
void make_scales(struct rank *r);
void free_scales(struct rank *r);
/* Of an operator in this step. */
struct fp8_history history_of(const struct rank *r, const struct local_op *local_op);
/* After an iteration: what it found is that of the step before. An evaluation leaves nothing. */
void advance_scales(struct rank *r);

/* Numbers of the device's as the host sees them, until others are shown (open.c). */
float *show_floats(struct rank *r, float *memory, int64_t count);

#endif
