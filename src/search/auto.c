/* auto.c - one answer from all planners: the grid by estimate, its best simulated, then what the
 * planners that look further find.
 *
 *   1. the best of the grid by estimate (grid.h)
 *   2. those simulated, best first, until an estimate is so far behind the best simulated time that
 *      even FAR_OFF of error would not bring it back
 *   3. every planner of the table that joins, each with an equal share of what is left of the budget;
 *      those that take seconds join only where there is one
 *   4. where nothing fits, changes to the question, cheapest first, until one does
 *
 *   I1  The answer has the trials of all planners: none of them beats it.
 *   I2  What is forbidden is in no trial, whoever found it.
 */
#include <string.h>

#include "search/grid.h"
#include "search/would_fit.h"

/* Points kept for the simulator: fewer where each takes long to simulate. */
enum { FINALISTS = 16, FINALISTS_OF_FEW = 64, FEW_DEVICES = 64 };
/* Few estimates are off by more: of real plans, nine in ten are within 1.2 % of the simulation and 99 of
 * 100 within 8 % (tests/test_estimate.c). */
static const double FAR_OFF = 0.05;
enum { LEAST_TRIALS = 4, MISSES = 8 }; /* simulated in any case; of what does not fit */
/* With --batch auto: batches double until that brings less than this. */
static const double WORTH_A_LARGER_BATCH = 0.01;
enum { MOST_DOUBLINGS = 16 };

struct join {
    const struct plan_request *request;
    struct planned *out;
    struct cost *cost;
    double began_s;
    struct progress progress;
};

static double ns_per_sample(const struct trial *trial)
{
    return (double)trial->iteration_ns / (double)trial->global_batch;
}

static int64_t left_ns(const struct join *join)
{
    return join->request->options.budget_ns - (int64_t)((wall_seconds() - join->began_s) * 1e9);
}

static bool is_over(const struct join *join)
{
    return plan_stopped(join->request) || (join->request->options.budget_ns && left_ns(join) <= 0);
}

static void report(struct join *join, const struct trial *trial)
{
    struct progress *progress = &join->progress;
    if (trial->fits && (!progress->best_ns || trial->iteration_ns < progress->best_ns))
        progress->best_ns = trial->iteration_ns;
    progress->trials++;
    progress->candidates = join->out->candidates;
    if (join->request->progress)
        join->request->progress(join->request->context, progress);
}

/* The best that fits and was found by this planner (NULL: by any); NULL: none. */
static const struct trial *best_of(const struct planned *planned, const char *found_by)
{
    const struct trial *best = NULL;
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct trial *trial = &planned->trials.data[i];
        bool asked = !found_by || strcmp(trial->found_by, found_by) == 0;
        if (asked && trial->fits && (!best || ns_per_sample(trial) < ns_per_sample(best)))
            best = trial;
    }
    return best;
}

/* ---- the grid -------------------------------------------------------------------------------- */

static weft_status try_points(struct join *join, const struct plan_request *request,
                              const struct grid *grid)
{
    weft_status status = WEFT_OK;
    double best_ns = 0;
    int64_t tried = 0;
    join->progress.all += (int64_t)grid->best.len;
    for (size_t i = 0; i < grid->best.len && (!is_over(join) || tried == 0); i++) {
        const struct grid_point *point = &grid->best.data[i];
        const struct trial *trial;
        bool behind = best_ns > 0 && (double)point->iteration_ns > best_ns * (1 + FAR_OFF);
        if (tried >= LEAST_TRIALS && (behind || (!point->fits && tried >= MISSES)))
            break;
        TRY(try_degrees(request, join->cost, &point->degrees, join->out, &trial));
        join->progress.done++;
        if (!trial)
            continue;
        tried++;
        if (trial->fits && (best_ns == 0 || (double)trial->iteration_ns < best_ns))
            best_ns = (double)trial->iteration_ns;
        report(join, trial);
    }
done:
    return status;
}

static weft_status try_grid(struct join *join, const struct plan_request *request)
{
    struct arena *scratch = arena_new();
    struct grid grid;
    size_t count = cluster_devices(request->cluster) <= FEW_DEVICES ? FINALISTS_OF_FEW : FINALISTS;
    weft_status status;
    TRY(grid_search(request, join->cost, count, scratch, &grid));
    join->out->candidates += grid.estimates;
    size_t before = join->out->trials.len;
    TRY(try_points(join, request, &grid));
    array_push(join->out->arena, &join->out->reasons,
               arena_printf(join->out->arena,
                            "%lld combinations of degrees: %lld estimated, %zu simulated, the "
                            "others ruled out by bounds",
                            (long long)grid.points, (long long)grid.estimates,
                            join->out->trials.len - before));
done:
    arena_free(scratch);
    return status;
}

/* Batches double from what gives each device a sample, as long as that is worth it. */
static weft_status try_batches(struct join *join)
{
    struct plan_request request = *join->request;
    weft_status status = WEFT_OK;
    double before = 0;
    request.pins.global_batch = cluster_devices(request.cluster);
    for (int i = 0; i < MOST_DOUBLINGS && !is_over(join); i++) {
        TRY(try_grid(join, &request));
        const struct trial *best = best_of(join->out, NULL);
        if (best && before > 0 && ns_per_sample(best) > before * (1 - WORTH_A_LARGER_BATCH))
            break;
        before = best ? ns_per_sample(best) : 0;
        request.pins.global_batch *= 2;
    }
done:
    return status;
}

/* ---- others ---------------------------------------------------------------------------------- */

/* I2 */
static bool trial_forbidden(const struct plan_request *request, const struct trial *trial)
{
    struct degrees d = trial->degrees;
    d.schedule = d.schedule       ? d.schedule
                 : d.segments > 1 ? "aiao"
                 : d.pieces > 1   ? "interleaved"
                                  : "1f1b";
    return trial->plan ? plan_forbidden(&request->forbids, trial->plan)
                       : degrees_forbidden(&request->forbids, &d);
}

static void take_over(struct join *join, const struct planner *planner, struct planned *from)
{
    struct planned *out = join->out;
    for (size_t i = 0; i < from->trials.len; i++) {
        struct trial trial = from->trials.data[i];
        if (trial_forbidden(join->request, &trial)) {
            plan_free(trial.plan);
            continue;
        }
        trial.number = (int64_t)out->trials.len + 1;
        trial.found_by = planner->name;
        array_push(out->arena, &out->trials, trial);
    }
    for (size_t i = 0; i < from->reasons.len; i++)
        array_push(out->arena, &out->reasons,
                   arena_printf(out->arena, "%s: %s", planner->name, from->reasons.data[i]));
    out->candidates += from->candidates;
}

static weft_status ask(struct join *join, const struct planner *planner, size_t left)
{
    struct plan_request request = *join->request;
    struct planned found = {.arena = join->out->arena, .planner = planner->name};
    request.options.given &= planner->takes;
    if (request.options.budget_ns)
        request.options.budget_ns = left_ns(join) / (int64_t)left;
    weft_status status = planner->find(&request, &found);
    take_over(join, planner, &found);
    if (status == WEFT_FAILURE)
        return status;
    if (status)
        array_push(join->out->arena, &join->out->reasons,
                   arena_printf(join->out->arena, "%s has no answer: %s", planner->name,
                                weft_last_error()->message));
    error_clear();
    return WEFT_OK;
}

static bool joins(const struct planner *planner, const struct plan_request *request)
{
    unsigned needs = request->options.batch_auto ? 1U << TAKES_BATCH_AUTO : 0;
    bool time = planner->joins == JOINS_ALWAYS ||
                (planner->joins == JOINS_WITH_BUDGET && request->options.budget_ns > 0);
    return time && (needs & ~planner->takes) == 0;
}

static weft_status ask_others(struct join *join)
{
    const struct planner *all;
    size_t count = planners(&all), left = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count; i++)
        left += joins(&all[i], join->request);
    for (size_t i = 0; i < count && !is_over(join); i++)
        if (joins(&all[i], join->request))
            TRY(ask(join, &all[i], left--));
done:
    return status;
}

/* Who found the best, and how far behind the best of each other is. */
static void say_who(struct join *join)
{
    struct planned *out = join->out;
    const struct trial *best = best_of(out, NULL);
    const struct planner *all;
    size_t count = planners(&all);
    for (size_t i = 0; best && i < count; i++) {
        const struct trial *own = best_of(out, all[i].name);
        if (!own || strcmp(own->found_by, best->found_by) == 0)
            continue;
        double behind = 100 * (ns_per_sample(own) / ns_per_sample(best) - 1);
        array_push(out->arena, &out->reasons,
                   arena_printf(out->arena, "found by %s; the best of %s is %.1f %% behind",
                                best->found_by, all[i].name, behind));
    }
}

static weft_status say_what_would_fit(struct join *join)
{
    struct planned *out = join->out;
    const char *words = NULL;
    weft_status status;
    TRY(would_fit(join->request, join->cost, out->arena, &words));
    if (words)
        array_push(out->arena, &out->reasons, words);
done:
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

weft_status auto_find(const struct plan_request *request, struct planned *out)
{
    struct join join = {.request = request,
                        .out = out,
                        .began_s = wall_seconds(),
                        .progress = {.what = "finalists"}};
    weft_status status;
    TRY(cost_open(&request->cluster->node.device, request->profile, &join.cost));
    if (request->options.batch_auto)
        TRY(try_batches(&join));
    else
        TRY(try_grid(&join, request));
    TRY(ask_others(&join));
    say_who(&join);
    if (out->trials.len && !best_of(out, NULL) && !is_over(&join) && !request->options.batch_auto)
        TRY(say_what_would_fit(&join));
    out->stopped = is_over(&join);
done:
    cost_close(join.cost);
    return status;
}
