/* subset.c - which of a stage's devices have an operator (subset.h). */
#include "plan/subset.h"

bool split_is_subset(const struct split *split)
{
    return split->parts > 0 && split->part[0].dim == SPLIT_ON;
}

struct device_run split_run(const struct split *split)
{
    int64_t devices = split_devices(split);
    if (!split_is_subset(split))
        return (struct device_run){0, devices};
    devices /= split->part[0].degree;
    return (struct device_run){split->part[0].run * devices, devices}; /* (1) */
}

struct split split_inside(const struct split *split)
{
    struct split out = split_none();
    for (int32_t i = split_is_subset(split); i < split->parts; i++)
        split_add(&out, split->part[i].dim, split->part[i].degree);
    return out;
}

bool run_is_one_of(struct device_run run, int64_t devices)
{
    return run.devices > 0 && devices % run.devices == 0 && run.first % run.devices == 0 &&
           run.first < devices && devices / run.devices <= INT16_MAX;
}

bool split_put_on(const struct split *inside, struct device_run run, int64_t devices,
                  struct split *out)
{
    *out = split_none();
    if (!run_is_one_of(run, devices) || split_is_subset(inside))
        return false;
    bool fits = split_add(out, SPLIT_ON, devices / run.devices);
    if (out->parts)
        out->part[0].run = (int16_t)(run.first / run.devices);
    for (int32_t i = 0; i < inside->parts; i++)
        fits = fits && split_add(out, inside->part[i].dim, inside->part[i].degree);
    return fits;
}

const char *run_text(struct arena *keep, struct device_run run)
{
    if (run.devices == 1)
        return arena_printf(keep, "%lld", (long long)run.first);
    return arena_printf(keep, "%lld-%lld", (long long)run.first,
                        (long long)(run.first + run.devices - 1));
}

/* ---- tensors --------------------------------------------------------------------------------- */

bool layout_is_subset(const struct layout *layout)
{
    return layout->digits > 0 && layout->digit[0].hold <= HOLD_ON;
}

struct device_run layout_run(const struct layout *layout)
{
    int64_t devices = layout_devices(layout);
    if (!layout_is_subset(layout))
        return (struct device_run){0, devices};
    devices /= layout->digit[0].degree;
    return (struct device_run){(HOLD_ON - layout->digit[0].hold) * devices, devices};
}

struct layout layout_inside(const struct layout *layout)
{
    struct layout out = layout_none(layout->elements);
    for (int64_t i = layout_is_subset(layout); i < layout->digits; i++)
        layout_add(&out, layout->digit[i].degree, layout->digit[i].hold);
    return out;
}

/* ---- plans ----------------------------------------------------------------------------------- */

bool plan_has_subsets(const struct plan *plan)
{
    for (int32_t i = 0; i < plan->choices; i++)
        if (split_is_subset(&plan->choice[i].split))
            return true;
    return false;
}

bool plan_place_has(const struct plan *plan, int64_t instance, int64_t place)
{
    return run_has(split_run(&plan_choice(plan, instance)->split), place);
}

/* What places have changes only where a run begins or ends. */
int64_t plan_kinds_of_places(struct arena *keep, const struct plan *plan, int32_t stage,
                             int64_t **out)
{
    int64_t devices = plan->stage[stage].devices, count = 0;
    if (!plan_has_subsets(plan)) {
        *out = ARENA_ARRAY(keep, int64_t, 1);
        return 1;
    }
    bool *border = ARENA_ARRAY(keep, bool, (size_t)devices + 1);
    border[0] = true;
    for (int32_t i = 0; i < plan->choices; i++) {
        const struct split *split = &plan->choice[i].split;
        struct device_run run = split_run(split);
        if (split_is_subset(split) && split_devices(split) == devices)
            border[run.first] = border[run.first + run.devices] = true;
    }
    *out = ARENA_ARRAY(keep, int64_t, (size_t)devices);
    for (int64_t place = 0; place < devices; place++)
        if (border[place])
            (*out)[count++] = place;
    return count;
}
