/* subset_lives.c - which of a stage's devices have a tensor (lifetimes.h, I13). */
#include "compile/lives.h"

struct device_run life_run(const struct life_trace *t, int64_t instance)
{
    bool own = t->item && (t->item->kind == ITEM_OP || t->item->phase == FLOW_FORWARD);
    int64_t at = own ? t->item->instance : instance;
    const struct split *split = &plan_choice(t->b->plan, at)->split;
    /* what comes from other stages or goes there is on all devices */
    if (t->b->part_of[at] != t->part || !split_is_subset(split))
        return (struct device_run){0};
    return split_run(split);
}

bool step_in_place(const struct reshard_step *step)
{
    return step->kind == COLLECTIVE_ALL_REDUCE || step->kind == STEP_LEAVE;
}
