/* mix_words.c - a plan that no degrees give, in a line: layers per stage, samples per step, and the values that its
 * operators have of what could be one degree: "pp 2 (17+15 layers), tp 1|2, zero 3, 8 samples per step, 12 of 32
 * layers recomputed". */
#include "search/planner/planner.h"

static int64_t tp_of(const struct choice *choice)
{
    return split_devices(&choice->split) / split_degree(&choice->split, DIM_BATCH);
}

static int64_t shard_of(const struct choice *choice)
{
    return choice->shard;
}

/* The values that occur, from the smallest on: "1|2". */
static const char *values_text(struct arena *keep, const struct plan *plan,
                               int64_t (*value_of)(const struct choice *choice))
{
    const char *text = "";
    int64_t last = -1, next = 0;
    while (next != INT64_MAX) {
        next = INT64_MAX;
        for (int64_t i = 0; i < plan->instances; i++) {
            int64_t value = value_of(plan_choice(plan, i));
            next = value > last && value < next ? value : next;
        }
        if (next != INT64_MAX)
            text = arena_printf(keep, "%s%s%lld", text, *text ? "|" : "", (long long)next);
        last = next;
    }
    return text;
}

static const char *stages_text(struct arena *keep, const struct plan *plan)
{
    enum { MOST_SHOWN = 8 };
    const int64_t *layers = layers_of_parts(keep, plan);
    const char *text = "";
    for (int32_t p = 0; p < plan->parts && p < MOST_SHOWN; p++)
        text = arena_printf(keep, "%s%s%lld", text, p ? "+" : "", (long long)layers[p]);
    return arena_printf(keep, "pp %d (%s%s layers), ", (int)plan->stages, text,
                        plan->parts > MOST_SHOWN ? "+.." : "");
}

static const char *recomputed_text(struct arena *keep, const struct plan *plan)
{
    int64_t layers, recomputed = 0;
    const int64_t *layer = layers_of_instances(keep, plan, &layers);
    bool *any = ARENA_ARRAY(keep, bool, (size_t)layers + 1);
    for (int64_t i = 0; i < plan->instances; i++)
        any[layer[i] < 0 ? layers : layer[i]] |= plan_choice(plan, i)->recompute;
    for (int64_t k = 0; k < layers; k++)
        recomputed += any[k];
    return recomputed ? arena_printf(keep, ", %lld of %s recomputed", (long long)recomputed,
                                     counted(layers, "layer").s)
                      : "";
}

const char *mix_text(struct arena *keep, const struct plan *plan)
{
    return arena_printf(keep, "%stp %s, zero %s, %s per step%s",
                        plan->stages > 1 ? stages_text(keep, plan) : "",
                        values_text(keep, plan, tp_of), values_text(keep, plan, shard_of),
                        counted(plan->step_samples, "sample").s, recomputed_text(keep, plan));
}
