/* load.h - the parts of a cluster file. Inside this room only. */
#ifndef WEFT_CLUSTER_LOAD_H
#define WEFT_CLUSTER_LOAD_H

#include "cluster/topology.h"

/* A device by name, or as a mapping; keys that are absent keep the values of `start`. `out` may be
 * `start`. */
weft_status device_read(const struct doc *doc, const struct device *start, struct device *out);
/* Whether the device is complete without another one to start from. */
bool device_is_whole(const struct doc *doc);

/* Repeats the last error with the line of the file that asked for what failed. */
weft_status error_at(const struct doc *node);
/* A path in a file is relative to the file. */
const char *path_beside(struct arena *keep, const char *file, const char *path);

/* A node written out in full: its vertices and links. */
weft_status node_read(const struct doc *doc, struct arena *keep, struct node_type *node);

#endif
