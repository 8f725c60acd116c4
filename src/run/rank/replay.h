/* replay.h - an iteration's work that is recorded once and replayed; private to the room. */
#ifndef WEFT_RUN_RANK_REPLAY_H
#define WEFT_RUN_RANK_REPLAY_H

#include "run/rank/rank.h"

/* Numbers of the model's inputs or labels, of one micro-batch: to where they are read. */
struct source_read {
    int32_t micro_batch, input;
    const struct operand *operand;
    const struct layout *layout;
    int64_t place; /* in the layout: this device's */
    int64_t bytes; /* of an element */
    void *out;     /* in the host's memory */
};
/* read_ahead.c */
struct ahead_input;
struct read_ahead {
    ARRAY(struct ahead_input *) inputs;
};
/* replay.c */
struct rank_replay {
    int32_t warm; /* iterations so far */
    bool refused, recording;
    struct device_replay *recorded; /* NULL: not yet */
    ARRAY(struct source_read) reads;
    struct read_ahead ahead;
};

bool replay_iteration(struct rank *r); /* false: its work is to be given to the device */
void replay_begin(struct rank *r);     /* before that, and when all has been given */
void replay_end(struct rank *r);
void replay_free(struct rank *r);
void replay_note_read(struct rank *r, const struct source_read *read);

#endif
