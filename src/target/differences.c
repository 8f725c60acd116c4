/* differences.c - says in words where two plans of one model differ: the first difference of each kind. */
#include <string.h>

#include "target/target.h"

/* ---- differences ----------------------------------------------------------------------------- */

struct facet {
    const char *name;
    bool (*same)(const struct choice *a, const struct choice *b);
    const char *(*text)(struct arena *keep, const struct choice *choice);
};

static bool same_split(const struct choice *a, const struct choice *b)
{
    return split_equal(&a->split, &b->split);
}
static bool same_shard(const struct choice *a, const struct choice *b)
{
    return a->shard == b->shard;
}
static bool same_offload(const struct choice *a, const struct choice *b)
{
    return a->offload == b->offload;
}
static const char *text_of_split(struct arena *keep, const struct choice *choice)
{
    return split_text(keep, &choice->split);
}
static const char *text_of_shard(struct arena *keep, const struct choice *choice)
{
    return arena_printf(keep, "%d", choice->shard);
}
static const char *text_of_recompute(struct arena *keep, const struct choice *choice)
{
    (void)keep;
    return choice_recompute_text(choice);
}
static const char *text_of_offload(struct arena *keep, const struct choice *choice)
{
    (void)keep;
    return choice_offload_text(choice);
}

static bool same_memory(const struct choice *a, const struct choice *b)
{
    return a->parts == b->parts;
}
static const char *text_of_memory(struct arena *keep, const struct choice *choice)
{
    (void)keep;
    return choice->parts ? "parts" : "whole";
}

static bool same_backward(const struct choice *a, const struct choice *b)
{
    return a->own_back == b->own_back && (!a->own_back || split_equal(&a->back, &b->back));
}
static const char *text_of_backward(struct arena *keep, const struct choice *choice)
{
    return choice->own_back ? split_text(keep, &choice->back) : "same";
}

static const struct facet FACETS[] = {
    {"split", same_split, text_of_split},
    {"shard", same_shard, text_of_shard},
    {"recompute", choice_recomputes_alike, text_of_recompute},
    {"offload", same_offload, text_of_offload},
    {"memory", same_memory, text_of_memory},
    {"backward", same_backward, text_of_backward},
};

static void compare_facet(struct arena *keep, const struct plan *plan, const struct plan *other,
                          const struct facet *facet, struct texts *out)
{
    int64_t first = -1, count = 0;
    for (int64_t i = plan->instances - 1; i >= 0; i--)
        if (!facet->same(plan_choice(plan, i), plan_choice(other, i))) {
            first = i;
            count++;
        }
    if (first < 0)
        return;
    add_text(keep, out,
             arena_printf(keep, "%s has %s %s, not %s (%lld of %s)", plan_path(keep, plan, first),
                          facet->name, facet->text(keep, plan_choice(plan, first)),
                          facet->text(keep, plan_choice(other, first)), (long long)count,
                          counted(plan->instances, "operator").s));
}

static void compare_map(struct arena *keep, const struct plan *plan, const struct plan *other,
                        struct texts *out)
{
    if (plan->stages != other->stages || plan->pieces != other->pieces) {
        add_text(keep, out,
                 arena_printf(keep, "pp %d virtual %lld, not pp %d virtual %lld", (int)plan->stages,
                              (long long)plan->pieces, (int)other->stages,
                              (long long)other->pieces));
        return;
    }
    for (int32_t s = 0; s < plan->stages; s++)
        if (plan->stage[s].devices != other->stage[s].devices) {
            add_text(keep, out,
                     arena_printf(keep, "stage %d has %s, not %lld", (int)s,
                                  counted(plan->stage[s].devices, "device").s,
                                  (long long)other->stage[s].devices));
            break;
        }
    for (int32_t p = 1; p < plan->parts; p++)
        if (plan->part[p].first != other->part[p].first) {
            add_text(keep, out,
                     arena_printf(keep, "part %d begins with %s, not %s", (int)p,
                                  plan_path(keep, plan, plan->part[p].first),
                                  plan_path(keep, plan, other->part[p].first)));
            break;
        }
}

void plan_differences(struct arena *keep, const struct plan *plan, const struct plan *other,
                      struct texts *out)
{
    compare_map(keep, plan, other, out);
    if (strcmp(plan->schedule, other->schedule) != 0)
        add_text(keep, out,
                 arena_printf(keep, "schedule %s, not %s", plan->schedule, other->schedule));
    else if (plan_round(plan) != plan_round(other))
        add_text(keep, out,
                 arena_printf(keep, "groups of %s, not %lld",
                              counted(plan_round(plan), "micro-batch").s,
                              (long long)plan_round(other)));
    if (plan->global_batch != other->global_batch || plan->step_samples != other->step_samples)
        add_text(keep, out,
                 arena_printf(keep, "batches of %lld by %s, not %lld by %lld",
                              (long long)plan->global_batch,
                              counted(plan->step_samples, "sample").s,
                              (long long)other->global_batch, (long long)other->step_samples));
    for (size_t i = 0; i < COUNT_OF(FACETS); i++)
        compare_facet(keep, plan, other, &FACETS[i], out);
}
