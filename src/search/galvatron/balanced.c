/* balanced.c - the weights by which layers are balanced over stages (balanced.h). */
#include "search/galvatron/balanced.h"

static int64_t counted_layers(void *context, int32_t stage, struct layer_run run)
{
    const struct layer_table *table = context;
    const bool *around = table->problem->source->around;
    int64_t count = 0;
    (void)stage;
    for (int32_t l = run.first; l < run.first + run.count; l++)
        count += !around || !around[l];
    return count;
}

static int64_t least_time(void *context, int32_t stage, struct layer_run run)
{
    const struct layer_table *table = context;
    const int64_t *least = table->least_steady_ns;
    return least[run.first + run.count] - least[run.first] +
           table->classes.data[table->class_of[stage]].beside.steady_ns;
}

/* The bytes of a kind on the strategy that is fastest if the stage is the slowest. */
static int64_t kind_bytes(const struct layer_table *table, const struct stage_class *class,
                          int32_t kind)
{
    const struct place_costs *place = class->place;
    size_t strategies = table->strategies->len, best = (size_t)kind * strategies;
    for (size_t s = best; s < ((size_t)kind + 1) * strategies; s++)
        if (place->steady_ns[s] < place->steady_ns[best])
            best = s;
    return class->kept_bytes[best] + place->state_bytes[best];
}

static int64_t usual_bytes(void *context, int32_t stage, struct layer_run run)
{
    const struct layer_table *table = context;
    const struct stage_class *class = &table->classes.data[table->class_of[stage]];
    size_t kinds = (size_t)table->problem->source->kinds;
    const int32_t *from = table->kinds_before + (size_t)run.first * kinds;
    const int32_t *to = from + (size_t)run.count * kinds;
    int64_t bytes = table->problem->limit_bytes - class->limit_bytes;
    for (size_t k = 0; k < kinds; k++)
        if (to[k] > from[k])
            bytes += kind_bytes(table, class, (int32_t)k) * (to[k] - from[k]);
    return bytes;
}

static int64_t (*const COSTS[])(void *context, int32_t stage, struct layer_run run) = {
    [BALANCED_LAYERS] = counted_layers,
    [BALANCED_TIME] = least_time,
    [BALANCED_BYTES] = usual_bytes,
};
_Static_assert(COUNT_OF(COSTS) == BALANCED_COUNT, "a balance without a cost");

int32_t *balanced(struct layer_table *table, enum balanced by)
{
    struct balance balance = {table->problem->source->layers, table->stages, table, COSTS[by]};
    int32_t *count = ARENA_ARRAY(table->keep, int32_t, (size_t)table->stages);
    balance_partition(&balance, count);
    return count;
}
