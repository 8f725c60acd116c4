/* for_target.c - the answer of a planner that searches more than its target runs.
 *
 *   I1  The trials that stay are exactly those that the target runs (target.h, I1).
 *   I2  A plan that the target does not run is replaced by the nearest one that it does, unless that
 *       was tried before. Few of these are worth a simulation: only the best, and only while they
 *       are not much slower than what runs.
 */
#include "search/planner/planner.h"

/* How many plans are replaced (I2). */
enum { MOST_NEAREST = 12 };

static weft_status is_tried(const struct plan_request *request, const struct planned *planned,
                            const struct plan *plan, bool *tried)
{
    weft_status status = WEFT_OK;
    *tried = false;
    for (size_t i = 0; i < planned->trials.len && !*tried; i++) {
        const struct trial *trial = &planned->trials.data[i];
        struct plan *made = NULL;
        if (!trial->plan)
            TRY(plan_from_degrees(request->model, request->cluster, &trial->degrees, &made));
        const struct plan *other = trial->plan ? trial->plan : made;
        *tried = other->global_batch == plan->global_batch && is_same_plan(other, plan);
        plan_free(made);
    }
done:
    return status;
}

/* Whether the target runs the trial; if not, *nearest is the nearest plan that it runs; NULL:
 * none. */
static weft_status ask_target(const struct plan_request *request, const struct trial *trial,
                              bool *runs, struct plan **nearest)
{
    struct arena *scratch = arena_new();
    struct texts differences = {0};
    weft_status status = WEFT_OK;
    *nearest = NULL;
    *runs = !trial->plan && target_runs_degrees(request->target, request->model, &trial->degrees);
    if (trial->plan) {
        TRY(target_differences(scratch, request->target, trial->plan, &differences, nearest));
        *runs = differences.len == 0;
    }
done:
    arena_free(scratch);
    return status;
}

static weft_status try_nearest(const struct plan_request *request, struct cost *cost,
                               struct plan *nearest, const char *found_by, struct planned *out)
{
    const struct trial *trial;
    bool tried = false;
    weft_status status;
    TRY(is_tried(request, out, nearest, &tried));
    if (tried || plan_check(nearest)) {
        error_clear();
        goto done;
    }
    struct plan *own = nearest;
    nearest = NULL;
    TRY(try_plan(request, cost, own, mix_text(out->arena, own), out, &trial));
    out->trials.data[out->trials.len - 1].found_by = found_by;
done:
    plan_free(nearest);
    return status;
}

weft_status keep_what_runs(const struct plan_request *request, struct planned *planned)
{
    struct planned kept = {.arena = planned->arena, .planner = planned->planner};
    struct cost *cost = NULL;
    int64_t replaced = 0;
    weft_status status;
    TRY(cost_open_all(request->cluster, request->profile, &cost));
    for (size_t i = 0; i < planned->trials.len; i++) {
        struct trial *trial = &planned->trials.data[i];
        struct plan *nearest;
        bool runs;
        TRY(ask_target(request, trial, &runs, &nearest));
        if (runs) {
            array_push(kept.arena, &kept.trials, *trial);
            trial->plan = NULL;
        } else if (nearest && replaced++ < MOST_NEAREST) {
            TRY(try_nearest(request, cost, nearest, trial->found_by, &kept));
        } else {
            plan_free(nearest);
        }
    }
done:
    for (size_t i = 0; i < planned->trials.len; i++)
        plan_free(planned->trials.data[i].plan);
    planned->trials = kept.trials;
    cost_close(cost);
    return status;
}
