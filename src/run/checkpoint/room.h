/* room.h - an open checkpoint, for those who open it (open.c) and read from it
 * (read.c). */
#ifndef WEFT_RUN_CHECKPOINT_ROOM_H
#define WEFT_RUN_CHECKPOINT_ROOM_H

#include "run/checkpoint/checkpoint.h"

struct rank_file {
    struct tensor_file tensors;
    struct written expected;
    bool verified;
};
/* What one file holds of one tensor. */
struct piece {
    struct shard shard;
    const struct stored_tensor *tensor;
    struct rank_file *file;
};

struct checkpoint {
    struct arena *arena;
    const char *folder;
    struct manifest manifest;
    struct rank_file *file; /* as in the manifest */
    int64_t opened;
    ARRAY(struct piece) pieces; /* by name */
    ARRAY(struct checkpoint_tensor) tensors;
};

weft_status rank_file_verify(struct rank_file *file); /* checkpoint.h, I4 */

#endif
