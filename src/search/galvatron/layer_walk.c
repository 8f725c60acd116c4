/* layer_walk.c - the instances of a model, cut into layers (layer_walk.h). */
#include "search/galvatron/layer_walk.h"

static bool layer_begins(const struct plan *plan, int64_t i, bool any)
{
    const struct model *model = plan->model;
    if (i == 0 || !any || plan->ends_layer[i - 1])
        return true;
    return op_in_layer(model, &model->op[plan->instance[i].op]) !=
           op_in_layer(model, &model->op[plan->instance[i - 1].op]);
}

struct layer_walk walk_layers(struct arena *keep, const struct plan *plan)
{
    struct layer_walk walk = {.first = ARENA_ARRAY(keep, int64_t, (size_t)plan->instances + 1),
                              .kind = ARENA_ARRAY(keep, int32_t, (size_t)plan->instances),
                              .around = ARENA_ARRAY(keep, bool, (size_t)plan->instances)};
    bool any = false;
    for (int64_t i = 0; i < plan->instances; i++)
        any |= plan->ends_layer[i];
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        if (!layer_begins(plan, i, any))
            continue;
        walk.around[walk.layers] = any && !op_in_layer(plan->model, op);
        walk.first[walk.layers++] = i;
    }
    walk.first[walk.layers] = plan->instances;
    return walk;
}

uint64_t layer_hash(const struct plan *plan, const struct layer_walk *walk, int32_t layer)
{
    uint64_t hash = 9;
    for (int64_t i = walk->first[layer]; i < walk->first[layer + 1]; i++)
        hash = hash_bytes(&plan->instance[i].op, sizeof plan->instance[i].op, hash);
    return hash;
}

int32_t count_kind(const struct layer_walk *walk, int32_t kind)
{
    int32_t count = 0;
    for (int32_t l = 0; l < walk->layers; l++)
        count += walk->kind[l] == kind;
    return count;
}
