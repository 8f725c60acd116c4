/* tables.c - rows, tables, and the position of their devices (tables.h). */
#include "search/estimate/tables_room.h"

#include <string.h>

/* ---- the whole model ------------------------------------------------------------------------- */

static weft_status new_plan(const struct tables *t, struct plan **out)
{
    const struct estimate_settings *s = t->settings;
    weft_status status;
    TRY(plan_new(&t->few.model, s->cluster, out));
    (*out)->dtype = s->dtype;
    (*out)->policy = s->policy;
    (*out)->software = s->software;
    (*out)->optimizer = s->optimizer;
    (*out)->replicate = s->replicate;
    (*out)->optimizer_offload = s->optimizer_offload;
    (*out)->stage_run = s->stage_run;
    (*out)->group = s->group;
    (*out)->defer_head = s->defer_head;
    (*out)->overlap = s->overlap;
    (*out)->bucket_bytes = s->bucket_bytes;
    (*out)->whole_sends = s->whole_sends;
done:
    return status;
}

static struct tied_pair find_tied(const struct plan *plan)
{
    struct tied_pair pair = {-1, -1};
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        int32_t tied = op->weights ? op->weight[0].tied_op : -1;
        for (int64_t k = 0; tied >= 0 && k < plan->instances; k++)
            if (plan->instance[k].op == tied && pair.user < 0)
                pair = (struct tied_pair){k, i};
    }
    return pair;
}

weft_status tables_new(const struct estimate_settings *settings, struct cost *cost,
                       struct flow_cache *flows, struct tables **out)
{
    struct arena *arena = arena_new();
    struct tables *t = ARENA_NEW(arena, struct tables);
    struct outline outline = {0};
    weft_status status;
    t->arena = arena;
    t->settings = settings;
    t->cost = cost;
    t->flows = flows;
    t->pace = 1 / cost_slowdown(cost);
    t->few = few_copies_of(arena, settings->model, settings->copies);
    TRY(new_plan(t, &t->walk));
    TRY(outline_compile(t->walk, &outline));
    t->places = places_of_model(t->arena, &outline);
    t->tied = find_tied(t->walk);
    *out = t;
done:
    outline_free(&outline);
    if (status)
        tables_free(t);
    return status;
}

void tables_free(struct tables *tables)
{
    if (!tables)
        return;
    plan_free(tables->walk);
    arena_free(tables->arena);
}

const struct plan *tables_walk(const struct tables *tables)
{
    return tables->walk;
}

struct tied_pair tables_tied(const struct tables *tables)
{
    struct tied_pair tied = tables->tied;
    if (tied.user < 0)
        return tied;
    return (struct tied_pair){first_instance_of(&tables->few, tied.owner),
                              first_instance_of(&tables->few, tied.user)};
}

static uint64_t choice_hash(const struct choice *choice, uint64_t seed)
{
    int64_t key[4 * MAX_SPLIT_PARTS + 1] = {choice->shard | choice->recompute << 8 |
                                            choice->saved << 9 | choice->discard << 10 |
                                            choice->offload << 11 | choice->parts << 13};
    int64_t *next = &key[1];
    for (int backward = 0; backward < 1 + choice->own_back; backward++)
        for (int32_t i = 0; i < choice_split(choice, backward)->parts; i++) {
            *next++ = choice_split(choice, backward)->part[i].dim |
                      choice_split(choice, backward)->part[i].run << 8;
            *next++ = choice_split(choice, backward)->part[i].degree;
        }
    return hash_bytes(key, sizeof key, seed);
}

int32_t tables_row(struct tables *t, const struct choice *choice)
{
    size_t ops = (size_t)t->settings->model->ops;
    uint64_t hash = 3;
    for (size_t i = 0; i < ops; i++)
        hash = choice_hash(&choice[i], hash);
    hash |= 1;
    int32_t row = (int32_t)hash_get(&t->by_row, hash);
    if (row >= 0)
        return row;
    struct choice *copy = ARENA_ARRAY(t->arena, struct choice, ops);
    memcpy(copy, choice, ops * sizeof *copy);
    bool sends = false;
    for (size_t i = 0; i < ops; i++)
        sends |= choice_sends_tokens(&choice[i]);
    row = (int32_t)t->rows.len;
    array_push(t->arena, &t->rows, copy);
    array_push(t->arena, &t->sends_tokens, sends);
    *hash_at(&t->by_row, t->arena, hash) = row;
    return row;
}

bool row_sends_tokens(const struct tables *tables, int32_t row)
{
    return tables->sends_tokens.data[row];
}

/* ---- the position of devices (I2)
 * -------------------------------------------------------------- */

int64_t shift_of(const struct cluster *cluster, int64_t first, int64_t devices)
{
    int64_t node = cluster->node.devices, inner = node;
    int64_t last = first + devices - 1;
    int32_t pool = cluster_pool_of(cluster, first);
    if (cluster->pools && cluster_pool_of(cluster, last) != pool)
        return 0;
    if (cluster->pools)
        return shift_of(cluster_pool(cluster, pool), first - cluster_pool_first(cluster, pool),
                        devices);
    if (first / node == last / node)
        return first / node * node;
    for (int32_t i = 0; i < cluster->fabric.tiers; i++) {
        int64_t unit = cluster->fabric.tier[i].nodes * node;
        if (first / unit == last / unit)
            return first - first % inner;
        inner = unit;
    }
    return 0;
}

/* ---- compiling tables and borders ------------------------------------------------------------ */

/* I5 */
static weft_status choose_here(struct plan *plan, int64_t instance, const struct choice *choice,
                               int64_t devices)
{
    if (split_devices(&choice->split) == devices)
        return plan_choose(plan, instance, choice);
    struct choice copied = {.split = split_none()};
    return split_add(&copied.split, SPLIT_COPY, devices)
               ? plan_choose(plan, instance, &copied)
               : failure("a stage of %s", counted(devices, "device").s);
}

weft_status cut_plan(const struct tables *t, const struct row_table *before,
                     const struct row_table *after, int64_t at, int64_t apart, struct plan **out)
{
    int32_t parts = apart ? 2 : 1;
    bool across = parts > 1 && before->first_device != after->first_device;
    struct plan *plan = NULL;
    weft_status status;
    TRY(new_plan(t, &plan));
    plan->step_samples = before->step_samples;
    plan->global_batch = before->step_samples * (before->many ? before->many : 1);
    plan->schedule = schedule_with(before->order)->name;
    plan->parts = parts;
    plan->stages = across ? 2 : 1;
    plan->pieces = parts / plan->stages;
    plan->both_ways = apart == APART_TURNED;
    plan->stage = ARENA_ARRAY(plan->arena, struct stage, 2);
    plan->part = ARENA_ARRAY(plan->arena, struct part, 2);
    plan->stage[0] = (struct stage){before->first_device, before->devices};
    plan->stage[1] = (struct stage){after->first_device, after->devices};
    plan->part[0] = (struct part){0, parts > 1 ? at : plan->instances};
    plan->part[1] = (struct part){at, plan->instances - at};
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct row_table *on = i < at ? before : after;
        TRY(choose_here(plan, i, &t->rows.data[on->row][plan->instance[i].op], on->devices));
    }
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    return status;
}

/* ---- finding tables -------------------------------------------------------------------------- */

uint16_t table_micro_batches(const struct estimate_settings *settings, int64_t micro_batches)
{
    bool once = dtype_is_cast(settings->dtype) &&
                software_word(&settings->software, FACT_WEIGHT_CASTS) == WEIGHT_CASTS_ONCE;
    if (micro_batches <= 1)
        return 0;
    return !once ? 2 : micro_batches < UINT16_MAX ? (uint16_t)micro_batches : UINT16_MAX;
}

weft_status table_find(struct tables *t, const struct table_key *key, const struct row_table **out)
{
    int64_t shift = t->settings->stage_run
                        ? 0 /* whose stages lie all over the cluster */
                        : shift_of(t->settings->cluster, key->first_device, key->devices);
    struct table_key k = *key;
    k.first_device -= shift;
    uint64_t hash = hash_bytes(&k, sizeof k, 4) | 1;
    int32_t number = (int32_t)hash_get(&t->by_table, hash);
    if (number >= 0) {
        *out = t->tables.data[number];
        return WEFT_OK;
    }
    struct row_table *table = ARENA_NEW(t->arena, struct row_table);
    *table = (struct row_table){.row = k.row,
                                .number = (int32_t)t->tables.len,
                                .first_device = k.first_device,
                                .devices = k.devices,
                                .step_samples = k.step_samples,
                                .many = k.many,
                                .order = (enum order)k.order,
                                .few = &t->few,
                                .pace = t->pace,
                                .step_bytes = plan_bucket_bytes(t->walk, k.devices)};
    weft_status status;
    TRY(fill_table(t, table));
    array_push(t->arena, &t->tables, table);
    *hash_at(&t->by_table, t->arena, hash) = table->number;
    *out = table;
done:
    return status;
}
