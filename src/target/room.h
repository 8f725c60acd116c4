/* room.h - what the files of the table of targets share. Inside this room only. */
#ifndef WEFT_TARGET_ROOM_H
#define WEFT_TARGET_ROOM_H

#include "target/target.h"

/* What a model of this shape has that no model of the framework has, in words; NULL: nothing (models.c). */
typedef const char *lacking(const struct model_shape *shape);
lacking megatron_lacks, torchtitan_lacks, fsdp_lacks, galvatron2_lacks, galvatron3_lacks;

#endif
