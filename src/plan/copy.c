/* copy.c - a plan with the parts, devices and choices of another. */
#include "plan/plan.h"

weft_status plan_map_as(struct plan *plan, const struct plan *from)
{
    int64_t *cut = ARENA_ARRAY(plan->arena, int64_t, (size_t)from->parts);
    int64_t *devices = ARENA_ARRAY(plan->arena, int64_t, (size_t)from->stages);
    for (int32_t k = 0; k < from->parts; k++)
        cut[k] = from->part[k].first + from->part[k].count;
    for (int32_t s = 0; s < from->stages; s++)
        devices[s] = from->stage[s].devices;
    return plan_map(plan, from->stages, from->pieces, cut, devices);
}

weft_status plan_like(const struct plan *from, struct plan **out)
{
    weft_status status = plan_new(from->model, from->cluster, out);
    if (status)
        return status;
    plan_copy_settings(*out, from);
    plan_set_names(*out, from->model_name, from->model_options, from->cluster_name);
    (*out)->global_batch = from->global_batch;
    (*out)->step_samples = from->step_samples;
    return WEFT_OK;
}

weft_status plan_copy(const struct plan *from, struct plan **out)
{
    struct plan *plan = NULL;
    weft_status status;
    TRY(plan_like(from, &plan));
    plan_name_schedule(plan, from->schedule);
    if (from->listed)
        plan_order_by(plan, from->listed);
    plan->defer_head = from->defer_head;
    TRY(plan_map_as(plan, from));
    for (int64_t i = 0; i < plan->instances; i++)
        TRY(plan_choose(plan, i, plan_choice(from, i)));
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    return status;
}
