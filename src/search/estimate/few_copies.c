/* few_copies.c - a model with a few copies of its layers (few_copies.h). */
#include "search/estimate/few_copies.h"

#include <string.h>

enum { COPIES_BEFORE = 1, FEWEST = 3 }; /* H, and the least K, of (1) */

/* Whether a repeat is inside no other repeat (I2). */
static bool is_outermost(const struct model *model, int32_t module)
{
    for (int32_t m = model->module[module].parent; m >= 0; m = model->module[m].parent)
        if (model->module[m].repeat > 1)
            return false;
    return true;
}

static int64_t instances_of(const struct model *model, int32_t first_op, int32_t ops)
{
    int64_t instances = 0;
    for (int32_t i = first_op; i < first_op + ops; i++)
        instances += op_copies(model, &model->op[i]);
    return instances;
}

static struct repeat_fold fold_of(const struct model *model, const struct module *m, int64_t most)
{
    int64_t period = instances_of(model, m->first_op, m->ops) / m->repeat;
    int64_t first = instances_of(model, 0, m->first_op);
    return (struct repeat_fold){first + COPIES_BEFORE * period, period, m->repeat - most + 1};
}

struct few_copies few_copies_of(struct arena *keep, const struct model *model, int64_t most)
{
    struct few_copies few = {.model = *model};
    size_t modules = (size_t)model->modules;
    if (!most)
        return few;
    most = most < FEWEST ? FEWEST : most;
    few.fold = ARENA_ARRAY(keep, struct repeat_fold, modules);
    few.model.module = ARENA_ARRAY(keep, struct module, modules);
    memcpy(few.model.module, model->module, modules * sizeof *model->module);
    for (int32_t i = 0; i < model->modules; i++) {
        const struct module *m = &model->module[i];
        if (m->repeat <= most || !m->ops || !is_outermost(model, i))
            continue;
        int32_t at = few.folds++;
        struct repeat_fold fold = fold_of(model, m, most);
        for (; at > 0 && few.fold[at - 1].first > fold.first; at--)
            few.fold[at] = few.fold[at - 1];
        few.fold[at] = fold;
        few.model.module[i].repeat = most;
    }
    return few;
}

static int64_t left_out(const struct repeat_fold *fold)
{
    return (fold->copies - 1) * fold->period;
}

int64_t place_of(const struct few_copies *few, int64_t instance)
{
    int64_t missing = 0;
    for (int32_t i = 0; i < few->folds && instance >= few->fold[i].first; i++) {
        const struct repeat_fold *fold = &few->fold[i];
        if (instance < fold->first + fold->copies * fold->period)
            return fold->first - missing + (instance - fold->first) % fold->period;
        missing += left_out(fold);
    }
    return instance - missing;
}

int64_t first_instance_of(const struct few_copies *few, int64_t place)
{
    int64_t instance = place;
    for (int32_t i = 0; i < few->folds; i++)
        if (instance >= few->fold[i].first + few->fold[i].period)
            instance += left_out(&few->fold[i]);
    return instance;
}

struct place_range next_places(const struct few_copies *few, int64_t *at, int64_t last)
{
    int64_t start = *at, end = last, first = place_of(few, start);
    for (int32_t i = 0; i < few->folds; i++) {
        const struct repeat_fold *fold = &few->fold[i];
        int64_t after = fold->first + fold->copies * fold->period;
        if (start >= after)
            continue;
        if (start < fold->first) {
            end = fold->first < end ? fold->first : end;
            break;
        }
        int64_t within = (start - fold->first) % fold->period, rest = fold->period - within;
        int64_t inside = (end < after ? end : after) - start;
        if (within == 0 && inside >= fold->period) {
            *at = start + inside / fold->period * fold->period;
            return (struct place_range){first, first + fold->period, inside / fold->period};
        }
        end = start + (rest < inside ? rest : inside);
        break;
    }
    *at = end;
    return (struct place_range){first, first + end - start, 1};
}
