/* model_collectives.h - what a model would send over a cluster, and how long each message takes. */
#ifndef WEFT_CLI_MODEL_COLLECTIVES_H
#define WEFT_CLI_MODEL_COLLECTIVES_H

#include "cli/cli.h"

/* For `weft clusters CLUSTER --model MODEL`: a table for people, or the same as a JSON list. */
weft_status model_collectives_print(const struct cluster *cluster, const struct model *model);
weft_status model_collectives_json(const struct cluster *cluster, const struct model *model,
                                   json_t **out);

#endif
