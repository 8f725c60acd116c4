/* refine.c - Aceso from the plans of other planners (room.h).
 *
 *   I1  The effort is counted: a number of configs, not seconds, so that the answer is the same on
 *       any machine.
 *   I2  Aceso keeps the number of stages of the plan it starts from. Unless that number is pinned,
 *       it also starts from the best plans of the grid with half and twice as many stages as the
 *       best trial (grid.h, I6): a plan that fits there only with everything recomputed may become
 *       the fastest with a part of it recomputed. One team of searches has them all; each continues
 *       as long as it is near the best, and they share the configs and trials.
 *   I3  Aceso has no segments. On many devices, where its own search from nothing ends early, it starts from the best
 *       plan without them if the best has some: gpt3-13b on 768 A100 gains 0.6 % by that.
 */
#include <string.h>

#include "search/aceso/aceso.h"
#include "search/auto/room.h"

enum { MOST_BEGINS = 3 };
/* I1: configs judged per start, and trials. Most of what Aceso gains comes from the first thousands
 * of configs, for which there is time in a search of a second; on many devices this is where most of a plan is made
 * (aceso.c, I3). */
static const struct effort_row {
    int64_t devices; /* up to */
    int64_t configs, trials;
} EFFORTS[][3] = {{{512, 2000, 8}, {1024, 6000, 12}, {INT64_MAX, 40000, 8}},
                  {{1024, 1500, 6}, {INT64_MAX, 10000, 8}}};
static const struct effort_row TO_ITS_END;

static weft_status go_on(struct join *join, const char *found_by, const struct begin_plan *begin,
                         int32_t begins, const struct effort_row *effort)
{
    struct plan_request request = *join->request;
    const struct planner *aceso = planner_that_goes_on();
    request.pins.global_batch = begin[0].plan->global_batch;
    request.options.begin = begin;
    request.options.begins = begins;
    request.options.most_configs = effort->configs * begins;
    request.options.most_trials = effort->trials;
    if (request.options.budget_ns)
        request.options.budget_ns = join_left_ns(join) / 2;
    return join_ask(join, aceso, &request,
                    arena_printf(join->out->arena, "%s from %s", aceso->name, found_by));
}

weft_status refine_to_the_end(struct join *join, const struct trial *trial, const struct plan *plan)
{
    return go_on(join, trial->found_by, &(struct begin_plan){plan, trial->iteration_ns}, 1,
                 &TO_ITS_END);
}

static const struct effort_row *effort_for(const struct plan_request *request)
{
    const struct effort_row *row = EFFORTS[request->options.quick];
    while (cluster_devices(request->cluster) > row->devices)
        row++;
    return row;
}

/* Starts from copies of the trials, because later trials move them in memory. */
static weft_status refine(struct join *join, const struct trial *trial, int32_t count)
{
    const struct plan_request *request = join->request;
    struct plan *own[MOST_BEGINS] = {0};
    struct begin_plan begin[MOST_BEGINS];
    weft_status status = WEFT_OK;
    join->refined = trial[0].number;
    for (int32_t i = 0; i < count; i++) {
        if (!trial[i].plan)
            TRY(plan_from_degrees(request->model, request->cluster, &trial[i].degrees, &own[i]));
        begin[i].plan = trial[i].plan ? trial[i].plan : own[i];
        begin[i].iteration_ns = trial[i].iteration_ns;
    }
    TRY(go_on(join, trial[0].found_by, begin, count, effort_for(request)));
done:
    for (int32_t i = 0; i < count; i++)
        plan_free(own[i]);
    return status;
}

/* Whether Aceso has already gone on from it: it found it, by itself or from another planner's plan. On many
 * devices it does not polish what it finds by itself. */
static bool is_refined(const struct join *join, const struct trial *trial)
{
    const char *name = planner_that_goes_on()->name;
    bool by_itself = strcmp(trial->found_by, name) == 0;
    return strncmp(trial->found_by, name, strlen(name)) == 0 &&
           !(by_itself && cluster_devices(join->request->cluster) > ACESO_MANY_DEVICES);
}

static bool is_segmented(const struct trial *trial)
{
    return trial->plan ? plan_row(trial->plan)->segmented : trial->degrees.segments > 1;
}

/* The best that Aceso can start from as it is (I3). */
static const struct trial *best_start(const struct join *join)
{
    const struct trial *best = join_best(join->out, NULL), *start = NULL;
    if (!best || !is_segmented(best) ||
        cluster_devices(join->request->cluster) <= ACESO_MANY_DEVICES)
        return best;
    for (size_t i = 0; i < join->out->trials.len; i++) {
        const struct trial *trial = &join->out->trials.data[i];
        if (trial->fits && !is_segmented(trial) &&
            (!start || ns_per_sample(trial) < ns_per_sample(start)))
            start = trial;
    }
    return start ? start : best;
}

weft_status refine_best(struct join *join)
{
    const struct trial *best = best_start(join);
    if (!best || join_has_time(join->request) || join_over(join) || is_refined(join, best) ||
        best->number == join->refined)
        return WEFT_OK;
    struct trial copy = *best;
    return refine(join, &copy, 1);
}

/* The best of auto's own trials with this many stages from which Aceso can start; NULL: none. */
static const struct trial *best_with(const struct planned *planned, int64_t pp)
{
    const struct trial *best = NULL;
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct trial *trial = &planned->trials.data[i];
        const struct degrees *d = &trial->degrees;
        if (trial->plan || !trial->fits || d->pp != pp || d->pp * d->pieces > ACESO_MOST_PARTS)
            continue;
        if (!best || trial->iteration_ns < best->iteration_ns)
            best = trial;
    }
    return best;
}

/* Finds the best with this many stages, and simulates it unless that was done. */
static weft_status find_begin(struct join *join, struct grid_walk *walk, int64_t pp,
                              const struct trial **out)
{
    struct grid_point point;
    bool found;
    weft_status status = WEFT_OK;
    *out = best_with(join->out, pp);
    if (*out)
        return WEFT_OK;
    TRY(grid_best_with(walk, pp, ACESO_MOST_PARTS, &point, &found));
    if (!found)
        goto done;
    TRY(try_degrees(join->request, join->cost, &point.degrees, join->out, out));
    if (*out)
        join_report(join);
    if (*out && !(*out)->fits)
        *out = NULL;
done:
    return status;
}

weft_status refine_around(struct join *join, struct grid_walk *walk)
{
    const struct trial *best = join_best(join->out, NULL), *trial;
    int64_t pp = best ? best->degrees.pp : 0;
    const int64_t numbers[MOST_BEGINS] = {pp, pp % 2 ? 0 : pp / 2, 2 * pp};
    struct trial begin[MOST_BEGINS];
    int32_t begins = 0;
    weft_status status = WEFT_OK;
    for (int32_t i = 0; i < MOST_BEGINS && !join_over(join); i++) {
        if (!numbers[i])
            continue;
        TRY(find_begin(join, walk, numbers[i], &trial));
        if (trial)
            begin[begins++] = *trial;
    }
    if (begins && !join_over(join))
        TRY(refine(join, begin, begins));
done:
    return status;
}
