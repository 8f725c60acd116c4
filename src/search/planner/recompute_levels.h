/* recompute_levels.h - what planners may recompute, the least first.
 *
 *   none, selective, lists of modules, full
 *
 * A framework that recomputes modules by their names (Megatron-LM's --recompute-modules) takes any list of them. Tried
 * are the beginnings of one list, whose modules come in the order of
 *
 *   bytes that a micro-batch keeps less / time that its backward pass takes longer,                          (1)
 *
 * by estimate, for the whole model on one device: a list that frees as much with other modules takes longer.
 *
 *   I1  Each level recomputes what those before it do, and more; a module that frees nothing is in no list.
 *   I2  Lists are tried only where the target has them, or, without a target, a target whose software is asked for.
 */
#ifndef WEFT_SEARCH_PLANNER_RECOMPUTE_LEVELS_H
#define WEFT_SEARCH_PLANNER_RECOMPUTE_LEVELS_H

#include "search/planner/planner.h"

enum { MOST_LISTS = 4, MOST_RECOMPUTE_LEVELS = RECOMPUTE_COUNT + MOST_LISTS };

struct recompute_level {
    enum recompute recompute;
    unsigned modules; /* as in degrees */
};
struct recompute_levels {
    struct recompute_level level[MOST_RECOMPUTE_LEVELS];
    int len;
};
/* I2 */
bool has_recompute_lists(const struct plan_request *request);
/* The levels of a request; the only one where recomputation is pinned. */
weft_status recompute_levels(const struct plan_request *request, struct recompute_levels *out);

#endif
