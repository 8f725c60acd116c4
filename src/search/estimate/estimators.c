/* estimators.c - estimators by their settings (estimators.h). */
#include "search/estimate/estimators.h"

#include <string.h>

#include "search/estimate/estimator.h"

struct estimators {
    struct arena *arena;
    ARRAY(struct estimator *) list;
};

struct estimators *estimators_new(void)
{
    struct arena *arena = arena_new();
    struct estimators *estimators = ARENA_NEW(arena, struct estimators);
    estimators->arena = arena;
    return estimators;
}

void estimators_free(struct estimators *estimators)
{
    if (!estimators)
        return;
    for (size_t i = 0; i < estimators->list.len; i++)
        estimator_free(estimators->list.data[i]);
    arena_free(estimators->arena);
}

static bool same_memory(const struct memory_terms *a, const struct memory_terms *b)
{
    return a->limit_bytes == b->limit_bytes && a->has_margin == b->has_margin &&
           a->margin_percent == b->margin_percent;
}

static bool same_profile(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* I1 */
static bool same_settings(const struct estimate_settings *a, const struct estimate_settings *b)
{
    return a->model == b->model && a->cluster == b->cluster && a->dtype == b->dtype &&
           a->policy == b->policy && software_same(&a->software, &b->software) &&
           a->optimizer == b->optimizer && a->replicate == b->replicate &&
           a->optimizer_offload == b->optimizer_offload && a->stage_run == b->stage_run &&
           a->group == b->group && a->defer_head == b->defer_head && a->overlap == b->overlap &&
           a->bucket_bytes == b->bucket_bytes && same_memory(&a->memory, &b->memory) &&
           a->whole_sends == b->whole_sends && a->copies == b->copies &&
           same_profile(a->profile, b->profile) && a->flows == b->flows;
}

weft_status estimators_find(struct estimators *estimators, const struct estimate_settings *settings,
                            struct estimator **out)
{
    weft_status status;
    for (size_t i = 0; i < estimators->list.len; i++)
        if (same_settings(&estimators->list.data[i]->settings, settings)) {
            *out = estimators->list.data[i];
            return WEFT_OK;
        }
    TRY(estimator_new(settings, out));
    array_push(estimators->arena, &estimators->list, *out);
done:
    return status;
}
