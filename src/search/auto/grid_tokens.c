/* grid_tokens.c - points of the grid whose plans hide the tokens' way to experts and back (grid_space.h). */
#include "search/auto/grid_space.h"
#include "search/auto/room.h"

bool hides_tokens_at(const struct grid_space *space, const struct grid_place *point)
{
    const struct grid_layout *layout = &space->layouts.data[point->layout];
    const struct target *target = space->request->target;
    bool full = space->levels.level[point->level].recompute == RECOMPUTE_FULL;
    return layout->ep > 1 && point->micro_batches > 1 &&
           schedule_paired(grid_schedule(point), (int32_t)layout->pp)->ahead &&
           !(full && target && !target->can.hides_recomputed);
}
