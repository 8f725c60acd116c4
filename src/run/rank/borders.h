/* borders.h - inputs that an operator reads beyond its part; private to the room. */
#ifndef WEFT_RUN_RANK_BORDERS_H
#define WEFT_RUN_RANK_BORDERS_H

#include "run/rank/room.h"

weft_status find_border(struct rank *r, struct local_op *local_op);
/* Of one input: the whole of the group's parts; room for its gradient, an addend of the whole; and the
 * own part of the sum of these. Gathering and giving back take over a reference. */
struct value *border_gather(struct rank *r, const struct border_moves *border, int32_t operand,
                            struct value *value);
struct value *border_room(struct rank *r, const struct border_moves *border, int32_t operand,
                          enum dtype dtype);
struct value *border_give_back(struct rank *r, const struct border_moves *border, int32_t operand,
                               struct value *value);

#endif
