/* inspect.h - the parts of `weft inspect`. Private to the room.
 *
 *   I1  The numbers of a repeated module or operator are those of all its copies together, so that the
 *       parts of a module add up to the module.
 */
#ifndef WEFT_CLI_INSPECT_H
#define WEFT_CLI_INSPECT_H

#include "cli/cli.h"

struct inspection {
    struct arena *arena;
    const struct model *model;
    enum dtype dtype;
    int64_t depth;      /* levels of the tree to show */
    struct cost *cost;  /* NULL if no times are shown */
    const char *device; /* the device of the times */
    int64_t microbatch; /* samples at once, for the times */
};

/* Such as "layers.0-39": the name of a module with the copies that it represents. */
const char *module_label(struct arena *keep, const struct model *model, int32_t module);

/* inspect_tree.c: the module tree. */
void tree_print(const struct inspection *in, FILE *out);
json_t *tree_json(const struct inspection *in);

/* inspect_ops.c: every operator, with its time if there is a cost. */
void ops_print(const struct inspection *in, FILE *out);
json_t *ops_json(const struct inspection *in);
json_t *times_json(const struct inspection *in); /* of the whole model; needs a cost */

#endif
