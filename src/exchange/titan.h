/* titan.h - the models that torchtitan ships, by the names it has for them. Inside this room only. */
#ifndef WEFT_EXCHANGE_TITAN_H
#define WEFT_EXCHANGE_TITAN_H

#include "exchange/room.h"

struct titan_flavor {
    const char *model, *flavor;   /* "llama3", "8B" */
    const char *preset, *options; /* of Weft; the options make other sizes of it */
};
/* The flavor of these sizes; NULL: there is none. */
const struct titan_flavor *titan_flavor_of(const struct model_shape *shape);
const struct titan_flavor *titan_flavor_named(const char *model, const char *flavor);
/* The model whose code has what the shape has: llama3, qwen3 or deepseek_v3. */
const char *titan_model_of(const struct model_shape *shape);

/* Its words for schedules, those of torch.distributed.pipelining; NULL: none. */
const char *titan_schedule(const char *ours);
const char *titan_schedule_ours(const char *theirs);

#endif
