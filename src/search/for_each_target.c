/* for_each_target.c - what a plan would cost in each of the usual frameworks (search.h).
 *
 *   I1  Unless the user asked for others, each framework's plans are predicted with its own software, policy, overlap
 *       and buckets, as `plan --for` does.
 *   I2  A framework that runs the answer, but slower by more than the tolerance of the simplest plan, is searched, too.
 */
#include "search/search.h"

static const char *differences_of(struct arena *keep, const struct target *target,
                                  const struct plan *plan)
{
    struct texts differences = {0};
    if (target_differences(keep, target, plan, &differences, NULL) != WEFT_OK)
        error_clear();
    return differences.len ? differences.data[0] : NULL;
}

/* I1 */
static weft_status settle_like(const struct plan_request *request, const struct target *target,
                               struct plan *plan)
{
    const struct degrees *asked = &request->pins;
    weft_status status = WEFT_OK;
    if (target->software && software_is_default(&asked->software)) {
        status = target_software(target, plan->cluster, plan->dtype, &plan->software);
        if (!asked->has_bucket)
            plan->bucket_bytes =
                degrees_bucket_bytes(&(struct degrees){.software = plan->software});
    }
    target_settle(target, asked, plan);
    return status;
}

static bool settled_alike(const struct plan *one, const struct plan *other)
{
    return software_same(&one->software, &other->software) && one->policy == other->policy &&
           one->overlap == other->overlap && one->bucket_bytes == other->bucket_bytes;
}

/* The answer as the framework runs it. */
static weft_status predict_answer(const struct plan_request *request, const struct plan *plan,
                                  const struct trial *answer, struct for_target *row)
{
    struct plan own = *plan;
    struct simulate_options options = {.fold = FOLD_ALWAYS,
                                       .profile = request->profile,
                                       .flows = request->flows,
                                       .reserved = request->reserved};
    struct prediction *prediction = NULL;
    weft_status status;
    TRY(settle_like(request, row->target, &own));
    bool same = settled_alike(&own, plan);
    if (!same)
        TRY(simulate(&own, &options, &prediction));
    row->runs_it = same || prediction->fits;
    row->iteration_ns = same ? answer->iteration_ns : prediction->iteration_ns;
    row->text = row->runs_it ? answer->text : NULL;
done:
    prediction_free(prediction);
    return status;
}

/* Searches for the best plan of the degrees that the target takes; NULL text: nothing fits. */
static weft_status search_one(const struct plan_request *request, int64_t global_batch,
                              struct arena *keep, struct for_target *row)
{
    struct plan_request own = *request;
    struct planned *planned = NULL;
    own.target = row->target; /* I1: plan_search */
    own.names_nearest = false;
    own.pins.global_batch = global_batch; /* the answer's, where the batch was searched, too */
    own.options = (struct plan_options){
        .given = 1U << TAKES_QUICK, .quick = true, .simplest = request->options.simplest};
    weft_status status = plan_search(planner_default(), &own, &planned);
    if (status == WEFT_FAILURE)
        goto done;
    if (status) {
        row->instead = arena_copy_text(keep, weft_last_error()->message);
        error_clear();
        return WEFT_OK;
    }
    const struct trial *best = &planned->trials.data[0];
    if (best->fits) {
        row->text = arena_copy_text(keep, best->text);
        row->iteration_ns = best->iteration_ns;
    } else {
        row->instead = "nothing that it runs fits";
    }
done:
    planned_free(planned);
    return status;
}

/* I2 */
static bool loses_much(const struct plan_request *request, const struct trial *answer,
                       const struct for_target *row)
{
    return (double)row->iteration_ns >
           (double)answer->iteration_ns * (1 + request->options.simplest);
}

/* The better of the answer, where the target runs it, and of what is found for the target. */
static weft_status fill_row(const struct plan_request *request, const struct plan *plan,
                            const struct trial *answer, struct arena *keep, struct for_target *row)
{
    weft_status status = WEFT_OK;
    struct for_target found = {.target = row->target};
    if (!differences_of(keep, row->target, plan))
        TRY(predict_answer(request, plan, answer, row));
    if (row->runs_it && !loses_much(request, answer, row))
        return WEFT_OK;
    TRY(search_one(request, plan->global_batch, keep, &found));
    if (!row->runs_it || (found.text && found.iteration_ns < row->iteration_ns))
        *row = found;
done:
    return status;
}

weft_status search_each_target(const struct plan_request *request, const struct plan *plan,
                               const struct trial *answer, struct arena *keep,
                               struct for_targets *out)
{
    weft_status status = WEFT_OK;
    struct plan_request own = *request;
    if (!own.flows)
        own.flows = flow_cache_for(own.cluster);
    if (!own.reserved)
        own.reserved = reserved_cache_new();
    if (!own.estimators)
        own.estimators = estimators_new();
    for (size_t i = 0; i < target_count() && !plan_stopped(request); i++) {
        struct for_target row = {.target = target_at(i)};
        if (!target_is_usual(row.target) || row.target->any)
            continue;
        if (target_has_model(row.target, request->model)) {
            row.instead = "it has no such model";
            error_clear();
            array_push(keep, out, row);
            continue;
        }
        TRY(fill_row(&own, plan, answer, keep, &row));
        array_push(keep, out, row);
    }
done:
    if (!request->estimators)
        estimators_free(own.estimators);
    if (!request->flows)
        flow_cache_free(own.flows);
    if (!request->reserved)
        reserved_cache_free(own.reserved);
    return status;
}
