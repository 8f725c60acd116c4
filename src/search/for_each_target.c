/* for_each_target.c - what a plan would cost in each of the usual frameworks (search.h). */
#include "search/search.h"

static const char *differences_of(struct arena *keep, const struct target *target,
                                  const struct plan *plan)
{
    struct texts differences = {0};
    if (target_differences(keep, target, plan, &differences, NULL) != WEFT_OK)
        error_clear();
    return differences.len ? differences.data[0] : NULL;
}

/* Searches for the best plan of the degrees that the target takes; NULL text: nothing fits. */
static weft_status search_one(const struct plan_request *request, int64_t global_batch,
                              struct arena *keep, struct for_target *row)
{
    struct plan_request own = *request;
    struct planned *planned = NULL;
    own.target = row->target;
    own.pins.global_batch = global_batch; /* the answer's, where the batch was searched, too */
    own.options = (struct plan_options){
        .given = 1U << TAKES_QUICK, .quick = true, .simplest = request->options.simplest};
    weft_status status = plan_search(planner_default(), &own, &planned);
    if (status == WEFT_FAILURE)
        return status;
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
    planned_free(planned);
    return WEFT_OK;
}

weft_status search_each_target(const struct plan_request *request, const struct plan *plan,
                               const struct trial *answer, struct arena *keep,
                               struct for_targets *out)
{
    weft_status status = WEFT_OK;
    struct plan_request own = *request;
    own.flows = flow_cache_for(own.cluster);
    own.reserved = reserved_cache_new();
    for (size_t i = 0; i < target_count() && !plan_stopped(request); i++) {
        struct for_target row = {.target = target_at(i)};
        if (!target_is_usual(row.target) || row.target->any)
            continue;
        if (target_has_model(row.target, request->model)) {
            row.instead = "it has no such model";
            error_clear();
        } else if (!differences_of(keep, row.target, plan)) {
            row.text = answer->text;
            row.iteration_ns = answer->iteration_ns;
            row.runs_it = true;
        } else {
            TRY(search_one(&own, plan->global_batch, keep, &row));
        }
        array_push(keep, out, row);
    }
done:
    flow_cache_free(own.flows);
    reserved_cache_free(own.reserved);
    return status;
}
