/* walks.c - walks over the grid of degrees, and the first simulation of what they find (room.h).
 *
 *   I1  A request with a known time asks for what is faster, and for nothing else: not for what more memory would make
 *       possible, nor for starts of searches that look further.
 */
#include <string.h>

#include "search/auto/room.h"

/* The number of points kept for the simulator: fewer where each takes long to simulate, and of walks that look only for what
 * is faster (I1), whose points have more tasks. */
static const struct {
    int64_t devices; /* up to */
    size_t points, faster;
} FINALISTS[] = {{64, 64, 16}, {512, 12, 3}, {INT64_MAX, 6, 2}};
/* With --batch auto: the batch doubles until that gains less than this. */
static const double WORTH_A_LARGER_BATCH = 0.01;
enum { MOST_DOUBLINGS = 16 };
/* The grid is walked again, at most so often, where the fastest that was simulated does not fit and what does is
 * slower by this. */
enum { MOST_LOOKS = 3 };
static const double WORTH_A_LOOK = 0.02;

/* The trial of the same degrees; NULL: none. */
static const struct trial *known_trial(const struct planned *planned, const struct degrees *d,
                                       const char *text)
{
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct trial *known = &planned->trials.data[i];
        if (!known->plan && known->degrees.global_batch == d->global_batch &&
            strcmp(known->text, text) == 0)
            return known;
    }
    return NULL;
}

weft_status join_try(struct join *join, const struct plan_request *request,
                     const struct degrees *degrees, const struct trial **trial)
{
    struct planned *out = join->out;
    struct degrees asked = unsaid_degrees(request);
    const char *text = degrees_text(out->arena, request->model, degrees, &asked);
    const struct trial *known = known_trial(out, degrees, text);
    if (!known)
        return try_degrees(request, join->cost, degrees, out, trial);
    struct trial again = *known;
    again.number = (int64_t)out->trials.len + 1;
    again.found_by = out->planner;
    array_push(out->arena, &out->trials, again);
    *trial = &out->trials.data[out->trials.len - 1];
    return WEFT_OK;
}

/* Whether other numbers of stages are worth a start of their own. */
static bool looks_around(const struct plan_request *request)
{
    bool table =
        request->target && request->options.quick; /* little of what Aceso finds runs there */
    return !table && !request->known_ns && !request->cluster->pools &&
           !request->options.batch_auto && !request->pins.pp &&
           !join_only_degrees_keep(&request->pins) && !join_has_time(request) &&
           !join_takes_degrees(request);
}

/* Of what estimates may fill, the share with which the fastest of these trials would have fitted, where that
 * is worth another look: nothing that fits is near it. Else 1. */
static double fill_that_fits(const struct planned *planned, size_t first)
{
    const struct trial *best = NULL, *fastest = NULL;
    for (size_t i = first; i < planned->trials.len; i++) {
        const struct trial *trial = &planned->trials.data[i];
        if (!fastest || ns_per_sample(trial) < ns_per_sample(fastest))
            fastest = trial;
        if (trial->fits && (!best || ns_per_sample(trial) < ns_per_sample(best)))
            best = trial;
    }
    if (!fastest || (best && ns_per_sample(best) <= ns_per_sample(fastest) * (1 + WORTH_A_LOOK)))
        return 1;
    return (double)fastest->room_bytes / (double)trial_reserved(fastest);
}

/* When a walk over the grid ends: half of a budget is left for the first simulation of what it finds. */
static double walk_deadline_s(const struct join *join, const struct plan_request *request)
{
    bool first = request->deadline_s > 0 && !join->out->trials.len;
    return first ? (join->began_s + request->deadline_s) / 2 : request->deadline_s;
}

/* *fill: what fill_that_fits says of those that were estimated to fit. */
static weft_status try_grid_once(struct join *join, const struct plan_request *request,
                                 double *fill)
{
    struct arena *scratch = arena_new();
    struct grid grid;
    struct grid_walk *walk = NULL;
    struct plan_request walking = *request;
    size_t row = 0;
    weft_status status;
    *fill = 1;
    walking.deadline_s = walk_deadline_s(join, request);
    while (cluster_devices(request->cluster) > FINALISTS[row].devices)
        row++;
    size_t points = request->known_ns ? FINALISTS[row].faster : FINALISTS[row].points;
    TRY(grid_walk_new(&walking, join->cost, points, scratch, &grid, &walk));
    walking.deadline_s = request->deadline_s; /* of what else is asked of the walk */
    join->out->candidates += grid.estimates;
    join->grid_points = grid.points > join->grid_points ? grid.points : join->grid_points;
    join->grid_estimates += grid.estimates;
    size_t before = join->out->trials.len;
    TRY(finalists_try(join, request, &grid, scratch));
    if (grid.best.len && grid.best.data[0].fits) {
        *fill = fill_that_fits(join->out, before);
        if (!request->known_ns) /* I1 */
            TRY(roomier_try(join, request, &grid));
    }
    join->grid_trials += join->out->trials.len - before;
    if (looks_around(request) && *fill >= 1)
        TRY(refine_around(join, walk));
done:
    grid_walk_free(walk);
    arena_free(scratch);
    return status;
}

/* Estimates do not know the allocator: where what they choose misses by what it reserves, again with as much
 * less to fill. */
weft_status join_grid(struct join *join, const struct plan_request *request)
{
    struct plan_request tighter = *request;
    weft_status status = WEFT_OK;
    double fill = 0;
    tighter.fill = 1;
    for (int i = 0; i < MOST_LOOKS && fill < 1 && !(i && join_over(join)); i++) {
        TRY(try_grid_once(join, &tighter, &fill));
        tighter.fill *= fill;
    }
done:
    return status;
}

weft_status join_batches(struct join *join)
{
    struct plan_request request = *join->request;
    weft_status status = WEFT_OK;
    double before = 0;
    request.pins.global_batch = cluster_devices(request.cluster);
    for (int i = 0; i < MOST_DOUBLINGS && !join_over(join); i++) {
        TRY(join_grid(join, &request));
        const struct trial *best = join_best(join->out, NULL);
        if (best && before > 0 && ns_per_sample(best) > before * (1 - WORTH_A_LARGER_BATCH))
            break;
        before = best ? ns_per_sample(best) : 0;
        request.pins.global_batch *= 2;
    }
done:
    return status;
}
