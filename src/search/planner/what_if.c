/* what_if.c - the same plan on better hardware (what_if.h). */
#include "search/planner/what_if.h"

static const double FASTER = 2; /* times */

static weft_status on_faster(const struct plan_request *request, const struct plan *plan,
                             enum cluster_part part, int64_t *iteration_ns)
{
    struct cluster *faster = cluster_faster(request->cluster, part, FASTER);
    struct simulate_options options = {
        .fold = FOLD_ALWAYS, .profile = request->profile, .times_only = true};
    struct prediction *prediction = NULL;
    struct plan moved = *plan;
    moved.cluster = faster;
    weft_status status = simulate(&moved, &options, &prediction);
    if (!status)
        *iteration_ns = prediction->iteration_ns;
    prediction_free(prediction);
    cluster_free(faster);
    return status;
}

static double ns_per_sample(const struct trial *trial)
{
    return (double)trial->iteration_ns / (double)trial->global_batch;
}

/* The fastest trial that would fit with more memory; NULL: none of those tried would be better. */
static const struct trial *with_more_memory(const struct planned *planned)
{
    const struct trial *best = planned->trials.data, *found = NULL;
    for (size_t i = 1; i < planned->trials.len; i++) {
        const struct trial *trial = &planned->trials.data[i];
        if (!trial->fits && trial_excess(trial) <= WHAT_IF_MORE_BYTES &&
            (!best->fits || ns_per_sample(trial) < ns_per_sample(best)) &&
            (!found || ns_per_sample(trial) < ns_per_sample(found)))
            found = trial;
    }
    return found;
}

weft_status what_if(const struct plan_request *request, const struct planned *planned,
                    const struct plan *plan, struct arena *keep, struct what_ifs *out)
{
    weft_status status = WEFT_OK;
    bool over = planned->stopped || plan_stopped(request);
    for (int part = 0; part < CLUSTER_PART_COUNT && !over; part++) {
        struct what_if row = {.change = arena_printf(keep, "%gx the %s", FASTER,
                                                     cluster_part_name((enum cluster_part)part))};
        TRY(on_faster(request, plan, (enum cluster_part)part, &row.iteration_ns));
        array_push(keep, out, row);
        over = plan_stopped(request);
    }
    const struct trial *larger = with_more_memory(planned);
    if (larger) {
        struct what_if row = {
            arena_printf(keep, "%s more memory", show_bytes((double)WHAT_IF_MORE_BYTES).s),
            larger->text, larger->iteration_ns};
        array_push(keep, out, row);
    }
done:
    return status;
}
