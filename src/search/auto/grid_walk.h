/* grid_walk.h - inside grid: a walk over its points, and the closer bounds that it asks for (grid.h).
 *
 * The first look needs one table for all micro-batches of a layout:
 *
 *   (1) of grid_space.h with each part's operators, and the share of a micro-batch in what passes of many samples wait
 *   for besides them (floor.h, (2)), less a thirty-second, which cuts may save                  (0)
 *
 * The table is that of a replica by itself; between two cuts it is where it waits least.
 */
#ifndef WEFT_SEARCH_AUTO_GRID_WALK_H
#define WEFT_SEARCH_AUTO_GRID_WALK_H

#include "search/auto/grid.h"
#include "search/auto/grid_space.h"

enum { GRID_LOOKS = 4 }; /* (0), then (1) to (3) of grid.h */

struct grid_walk {
    struct grid_space *space;
    struct estimator *estimator;
    bool own; /* the estimator is the walk's own, and not the request's */
    struct arena *keep;
    struct grid *out;
    size_t count;
    /* Per point: looks taken so far; one more than the last: estimated. */
    uint8_t *looks;
    struct grid_points by_shape; /* the best of each shape so far */
};

/* What the point's estimate asks for; valid until the next point of its shape. */
struct candidate *grid_candidate(struct grid_walk *walk, const struct grid_place *point);
/* Raises the point's bound of time where a look says more; `look` is from 0. */
weft_status grid_look(struct grid_walk *walk, struct grid_place *point, int look);

#endif
