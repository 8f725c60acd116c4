/* budget.c - who gets what of a device's memory: plan.h, (1). */
#include "plan/plan.h"

struct memory_budget memory_budget(const struct device *device, const struct memory_terms *terms)
{
    bool given = terms->limit_bytes > 0;
    double percent = terms->has_margin ? terms->margin_percent : given ? 0 : MARGIN_PERCENT;
    struct memory_budget budget = {.all = given ? terms->limit_bytes : device->memory_bytes,
                                   .context = given ? 0 : device->context_bytes};
    budget.margin = (int64_t)((double)budget.all * percent / 100);
    return budget;
}

int64_t budget_room(const struct memory_budget *budget)
{
    int64_t room = budget->all - budget->context - budget->margin;
    return room > 0 ? room : 0;
}

int64_t plan_room_bytes(const struct plan *plan)
{
    int64_t least = INT64_MAX;
    for (int32_t p = 0; p < cluster_pools(plan->cluster); p++) {
        struct memory_budget budget =
            memory_budget(&cluster_pool(plan->cluster, p)->node.device, &plan->memory);
        int64_t room = budget_room(&budget);
        least = room < least ? room : least;
    }
    return least;
}
