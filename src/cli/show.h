/* show.h - the parts of `weft show`. Private to the room.
 *
 *   I1  Memory is that of one device of a stage, with the most micro-batches in flight that the
 *       schedule has there. It is an estimate of state and kept activations, not a simulation.
 */
#ifndef WEFT_CLI_SHOW_H
#define WEFT_CLI_SHOW_H

#include "cli/cli.h"
#include "plan/plan.h"

struct stage_view {
    int64_t in_flight; /* micro-batches, all pieces together */
    struct stage_memory memory;
};

struct showing {
    struct arena *arena;
    const struct plan *plan;
    bool layouts;
    int64_t limit_bytes; /* of one device: what is left for tensors and communicators */
    const struct stage_view *stage;
    const struct part_names *parts;
    struct warnings warnings;
};

/* show_stages.c */
const struct stage_view *view_stages(struct arena *keep, const struct plan *plan);
void stages_print(const struct showing *showing, FILE *out);
json_t *stages_json(const struct showing *showing);

/* show_tree.c: the strategy tree, folded. */
void choices_print(const struct showing *showing, FILE *out);
json_t *choices_json(const struct showing *showing);

#endif
