/* nearest.c - the plan nearest to a user's that a framework runs and that fits.
 *
 * The numbers recognised in the plan come first. Where what they make does not fit, they are given back to the
 * search, from the one that changes a run the least on:
 *
 *   recomputation, the micro-batch, the level of state sharding, pieces and schedule, all degrees      (1)
 *
 *   I1  The answer runs on the target exactly, and fits: with the type, the policy, the software and the overlap that the
 *       target has for it.
 */
#include "exchange/room.h"

#include "search/search.h"

/* ---- giving numbers back (1) ----------------------------------------------------------------- */

static void free_recompute(struct degrees *d)
{
    d->has_recompute = false;
    d->recompute = RECOMPUTE_NONE;
}
static void free_micro_batch(struct degrees *d)
{
    d->micro_batch = 0;
}
static void free_shard(struct degrees *d)
{
    d->has_shard = false;
    d->shard = 0;
}
static void free_schedule(struct degrees *d)
{
    d->pieces = d->segments = d->group = d->defer_head = 0;
    d->schedule = NULL;
    d->listed = NULL;
}
static void free_degrees(struct degrees *d)
{
    d->dp = d->tp = d->pp = d->cp = d->cp_heads = d->ep = 0;
    d->sequence = false;
}
static void (*const GIVES_BACK[])(struct degrees *d) = {free_recompute, free_micro_batch,
                                                        free_shard, free_schedule, free_degrees};

/* ---- searching ------------------------------------------------------------------------------- */

/* Whether what the target does with the plan fits. */
static weft_status fits(const struct plan *plan, const struct target *target, bool *out)
{
    struct plan *run = NULL;
    struct prediction *prediction = NULL;
    struct simulate_options options = {0};
    weft_status status;
    TRY(plan_copy(plan, &run));
    target_run_as(target, run);
    TRY(simulate(run, &options, &prediction));
    *out = prediction->fits;
done:
    prediction_free(prediction);
    plan_free(run);
    return status;
}

/* Numbers that are asked for; what nobody asked for is the target's own. */
static struct degrees asked_degrees(const struct degrees *recognised)
{
    struct degrees pins = *recognised;
    pins.has_overlap = pins.has_bucket = false;
    pins.has_policy = recognised->policy != policy_for(recognised->dtype);
    return pins;
}

static weft_status search_with(const struct plan *plan, const struct target *target,
                               const struct degrees *pins, struct plan **out)
{
    struct planned *planned = NULL;
    struct plan_request request = {.model = plan->model,
                                   .cluster = plan->cluster,
                                   .pins = *pins,
                                   .target = target,
                                   .options = {.given = 1U << TAKES_QUICK, .quick = true}};
    weft_status status = plan_search(planner_default(), &request, &planned);
    if (status == WEFT_NO_ANSWER || status == WEFT_BAD_INPUT) {
        error_clear();
        return WEFT_OK;
    }
    if (!status && planned->trials.data[0].fits)
        status = trial_take(&request, &planned->trials.data[0], out);
    planned_free(planned);
    return status;
}

weft_status plan_nearest(struct arena *keep, const struct plan *plan, const char *to,
                         struct plan **out, struct texts *differences)
{
    const struct target *target;
    struct recognised found = {0};
    struct plan *own = NULL;
    bool good = false;
    weft_status status;
    *out = NULL;
    TRY(format_target(keep, to, &target));
    TRY(target_has_model(target, plan->model));
    TRY(plan_copy(plan, &own));
    TRY(target_adopt(target, own)); /* I1 */
    TRY(target_differences(keep, target, own, differences, out));
    if (!differences->len && own->policy == plan->policy)
        goto done;
    if (!differences->len)
        TRY(plan_copy(own, out));
    if (*out)
        TRY(fits(*out, target, &good));
    if (good)
        goto done;
    plan_free(*out);
    *out = NULL;
    TRY(degrees_of_plan(keep, own, target, true, &found));
    plan_free(found.plan);
    struct degrees pins = asked_degrees(&found.degrees);
    for (size_t i = 0; i < COUNT_OF(GIVES_BACK) && !*out; i++) {
        GIVES_BACK[i](&pins);
        TRY(search_with(own, target, &pins, out));
    }
    *differences = (struct texts){0};
    if (!*out)
        TRY(no_answer("more devices, or another model, would fit",
                      "nothing that %s runs of %s fits on %s", target->title, plan->model->name,
                      cluster_title(keep, plan)));
    plan_set_names(*out, plan->model_name, plan->model_options, plan->cluster_name);
    (*out)->memory = plan->memory;
    if (plan->dtype != (*out)->dtype)
        add_text(keep, differences,
                 arena_printf(keep, "dtype %s, not %s", dtype_name(plan->dtype),
                              dtype_name((*out)->dtype)));
    plan_differences(keep, plan, *out, differences);
done:
    plan_free(own);
    if (status) {
        plan_free(*out);
        *out = NULL;
    }
    return status;
}
