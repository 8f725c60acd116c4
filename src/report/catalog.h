/* catalog.h - the models and clusters that Weft knows by name, for programs. */
#ifndef WEFT_REPORT_CATALOG_H
#define WEFT_REPORT_CATALOG_H

#include <jansson.h>

#include "cluster/cluster.h"
#include "model/model.h"

/* What `weft models --json` prints; `family` is NULL for all. */
weft_status models_json(const char *family, json_t **out);
/* What `weft clusters --json` prints. */
weft_status clusters_json(json_t **out);

/* The fastest connection of device 0 to others of its node: NVLink if it has any. */
struct inside {
    const char *kind;
    double bytes_per_s; /* out of one device, per direction */
};
struct inside inside_of(const struct node_type *node);

#endif
