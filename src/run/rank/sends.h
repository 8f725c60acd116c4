/* sends.h - private to rank: sends between stages, and what they share with the steps of reshards. */
#ifndef WEFT_RUN_RANK_SENDS_H
#define WEFT_RUN_RANK_SENDS_H

#include "run/rank/room.h"

/* What jobs do at the beginning and at the end of the transfer. */
void send_begin(struct rank *r, struct errand *work);
void send_end(struct rank *r, struct errand *work);
void receive_begin(struct rank *r, struct errand *work);
void receive_end(struct rank *r, struct errand *work);

/* A copy in host memory that is sent when it is complete; then the tensor is given up (host_copies.c). */
void send_from_host(struct rank *r, struct errand *work, struct value *value);
void send_has_left(struct rank *r, struct errand *work);
/* A tensor for what a move makes of another one. */
struct value *room_for(struct rank *r, const struct value *from, const struct move *move);
/* Room on the device for so many elements of what travels, and the end of all such room. */
void stage_out(struct rank *r, struct errand *work, int64_t count);
void give_back(struct rank *r, struct errand *work);

#endif
