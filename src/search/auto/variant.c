/* variant.c - the plan of a trial, its estimate, and the plan with another schedule, other steps or other splits (room.h).
 *
 *   I1  Stages keep their devices. With the same number of pieces they also keep their operators;
 *       with another number, operators are shared out again, as evenly as layers allow, and keep
 *       their choices, which is possible only if all stages have the same number of devices.
 */
#include <string.h>

#include "search/auto/room.h"

/* ---- trials ------------------------------------------------------------------------------------ */

weft_status join_estimate(struct join *join, const struct plan *plan, struct arena *scratch,
                          struct estimate *out)
{
    weft_status status = WEFT_OK;
    if (!join->estimator) {
        struct estimate_settings settings = estimate_settings_of(plan);
        settings.profile = join->request->profile;
        settings.flows = join->request->flows;
        TRY(estimator_new(&settings, &join->estimator));
    }
    TRY(estimate_plan(join->estimator, plan, scratch, out));
done:
    return status;
}

weft_status join_plan_of(const struct join *join, const struct trial *trial, struct plan **out)
{
    return trial->plan ? plan_copy(trial->plan, out)
                       : plan_from_degrees(join->request->model, join->request->cluster,
                                           &trial->degrees, out);
}

weft_status join_try_found(struct join *join, struct plan *plan, const char *words,
                           const char *found_by, struct trial **out)
{
    struct planned *planned = join->out;
    size_t trials = planned->trials.len;
    const struct trial *trial;
    weft_status status;
    *out = NULL;
    if (plan_check(plan) || plan_forbidden(&join->request->forbids, plan)) {
        error_clear();
        plan_free(plan);
        return WEFT_OK;
    }
    TRY(try_plan(join->request, join->cost, plan, words, planned, &trial));
    if (planned->trials.len > trials) {
        *out = &planned->trials.data[trials];
        (*out)->found_by = found_by;
        join_report(join);
    }
done:
    return status;
}

/* ---- variants ---------------------------------------------------------------------------------- */

static bool has_even_devices(const struct plan *plan)
{
    for (int32_t s = 1; s < plan->stages; s++)
        if (plan->stage[s].devices != plan->stage[0].devices)
            return false;
    return plan->stages * plan->stage[0].devices == cluster_devices(plan->cluster);
}

static weft_status map_as(const struct plan *from, int64_t pieces, struct plan *plan)
{
    if (pieces != from->pieces)
        return plan_map_even(plan, from->stages, pieces, NULL);
    return plan_map_as(plan, from);
}

static weft_status fill_variant(const struct plan *from, const struct variant *variant,
                                struct plan *plan)
{
    weft_status status;
    plan_copy_settings(plan, from);
    plan->global_batch = from->global_batch;
    plan->step_samples = variant->step_samples ? variant->step_samples : from->step_samples;
    plan->schedule =
        arena_copy_text(plan->arena, variant->schedule ? variant->schedule : from->schedule);
    TRY(map_as(from, variant->pieces ? variant->pieces : from->pieces, plan));
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(from, i);
        if (variant->choice)
            choice.split = variant->choice[plan->instance[i].op].split;
        TRY(plan_choose(plan, i, &choice));
    }
    TRY(plan_defer_head(plan, from->defer_head));
    TRY(plan_check(plan));
done:
    return status;
}

weft_status variant_of(const struct plan *from, const struct variant *variant, struct plan **out)
{
    bool anew = variant->choice || (variant->pieces && variant->pieces != from->pieces);
    *out = NULL;
    if (anew && !has_even_devices(from))
        return WEFT_OK;
    weft_status status = plan_new(from->model, from->cluster, out);
    if (!status)
        status = fill_variant(from, variant, *out);
    if (!status)
        return WEFT_OK;
    plan_free(*out);
    *out = NULL;
    if (status == WEFT_FAILURE)
        return status;
    error_clear();
    return WEFT_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

int64_t least_step(const struct plan *plan)
{
    int64_t step = 1;
    for (int32_t i = 0; i < plan->choices; i++) {
        int64_t dp = split_degree(&plan->choice[i].split, DIM_BATCH);
        step *= dp / common_divisor(step, dp);
    }
    return step;
}

int64_t next_divisor(int64_t share, int64_t from, bool above)
{
    for (int64_t b = above ? from + 1 : from - 1; b > 0 && b <= share; b += above ? 1 : -1)
        if (share % b == 0)
            return b;
    return 0;
}
