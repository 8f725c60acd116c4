/* import_shape.h - reads the model from Megatron's arguments. Inside this room only. */
#ifndef WEFT_EXCHANGE_IMPORT_SHAPE_H
#define WEFT_EXCHANGE_IMPORT_SHAPE_H

#include "exchange/room.h"

weft_status shape_of_arguments(struct arena *keep, const struct arguments *arguments,
                               struct model_shape *out, struct texts *notes);

#endif
