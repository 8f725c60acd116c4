/* mix_words.c - a plan that no degrees give, in a line: layers per stage, samples per step, and the values that its
 * operators have of what could be one degree: "pp 2 (17+15 layers), tp 1|2, zero 3, 8 samples per step, 12 of 32
 * layers recomputed". */
#include <string.h>

#include "search/planner/planner.h"

static int64_t ep_of(const struct choice *choice)
{
    return split_degree(&choice->split, DIM_EXPERT);
}

static int64_t cp_of(const struct choice *choice)
{
    return split_degree(&choice->split, DIM_SEQ);
}

static int64_t tp_of(const struct choice *choice)
{
    return split_devices(&choice->split) / split_degree(&choice->split, DIM_BATCH) / cp_of(choice);
}

static int64_t shard_of(const struct choice *choice)
{
    return choice->shard;
}

/* Whether its split says what tp and cp are: sequence parallelism splits the positions of the operators between such
 * products, and expert parallelism those of what experts made. */
static bool is_dense_product(const struct model *model, const struct op *op)
{
    int32_t from = op->inputs ? model->tensor[op->input[0].tensor].producer : -1;
    return op->kind == OP_LINEAR && (from < 0 || op_find_dim(model->op[from].kind, DIM_EXPERT) < 0);
}

/* The values that occur, from the smallest on: "1|2"; `dense`: among products outside of mixtures. */
static const char *values_text(struct arena *keep, const struct plan *plan, bool dense,
                               int64_t (*value_of)(const struct choice *choice))
{
    const char *text = "";
    int64_t last = -1, next = 0;
    while (next != INT64_MAX) {
        next = INT64_MAX;
        for (int64_t i = 0; i < plan->instances; i++) {
            int64_t value = value_of(plan_choice(plan, i));
            if (dense && !is_dense_product(plan->model, &plan->model->op[plan->instance[i].op]))
                continue;
            next = value > last && value < next ? value : next;
        }
        if (next != INT64_MAX)
            text = arena_printf(keep, "%s%s%lld", text, *text ? "|" : "", (long long)next);
        last = next;
    }
    return text;
}

/* "tp 1|2, "; nothing where it is `usual`, or where nothing has it. */
static const char *degree_text(struct arena *keep, const char *name, const char *values,
                               const char *usual)
{
    return *values && strcmp(values, usual) != 0 ? arena_printf(keep, "%s %s, ", name, values) : "";
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
    return arena_printf(keep, "%s%s%s%szero %s, %s per step%s",
                        plan->stages > 1 ? stages_text(keep, plan) : "",
                        degree_text(keep, "tp", values_text(keep, plan, true, tp_of), ""),
                        degree_text(keep, "cp", values_text(keep, plan, true, cp_of), "1"),
                        degree_text(keep, "ep", values_text(keep, plan, false, ep_of), "1"),
                        values_text(keep, plan, false, shard_of),
                        counted(plan->step_samples, "sample").s, recomputed_text(keep, plan));
}
