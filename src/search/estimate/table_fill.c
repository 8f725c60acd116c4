/* table_fill.c - the sums of one table: the whole model on one stage, instance by instance. */
#include "search/estimate/tables_room.h"

#include <string.h>

/* The instance that an item of a block counts for: in backward blocks, what is recomputed counts
 * for the operator that needs it first. */
static int64_t *places_of(struct arena *scratch, const struct block *block)
{
    int64_t *place = ARENA_ARRAY(scratch, int64_t, (size_t)block->items), next = 0;
    for (int32_t i = block->items - 1; i >= 0; i--) {
        const struct item *item = &block->item[i];
        bool forward =
            item->kind == ITEM_OP ? item->phase == PHASE_FORWARD : item->phase == FLOW_FORWARD;
        if (item->kind == ITEM_OP && !forward)
            next = item->instance;
        place[i] = block->kind == SLOT_FORWARD || !forward ? item->instance : next;
    }
    return place;
}

struct filling {
    struct timed *timed;
    struct row_table *table;
    struct arena *keep, *scratch;
    int64_t instances;
    struct tied_pair tied;
};

/* When everything up to an instance (backward: from it on) is over, as sums over the instances
 * before it. */
static void fill_times(const struct filling *f, const struct block *block, const int64_t *end_ns,
                       enum tally tally)
{
    const int64_t *place = places_of(f->scratch, block);
    int64_t *over = ARENA_ARRAY(f->scratch, int64_t, (size_t)f->instances + 1);
    bool forward = block->kind == SLOT_FORWARD;
    for (int32_t i = 0; i < block->items; i++) {
        int64_t at = forward ? place[i] + 1 : place[i];
        over[at] = end_ns[i] > over[at] ? end_ns[i] : over[at];
    }
    for (int64_t i = 1; forward && i <= f->instances; i++)
        over[i] = over[i] > over[i - 1] ? over[i] : over[i - 1];
    for (int64_t i = f->instances - 1; !forward && i >= 0; i--)
        over[i] = over[i] > over[i + 1] ? over[i] : over[i + 1];
    for (int64_t i = 0; i <= f->instances; i++)
        f->table->at[i].of[tally] = forward ? over[i] : over[0] - over[i];
}

/* Device, host and stretched times of a block, per instance (not summed up yet). */
static void fill_host(const struct filling *f, const struct block *block, int pass)
{
    struct timed *timed = f->timed;
    const int64_t *place = places_of(f->scratch, block);
    int32_t number = (int32_t)(block - timed->outline.graph->block);
    const int64_t *ns = timed->item_ns + timed->item_first[number];
    int64_t step_ns = (int64_t)host_step_ns(&timed->costs, plan_stage_pool(timed->plan, 0));
    bool meet = hosts_meet(timed->plan);
    int64_t *alone = ARENA_ARRAY(f->scratch, int64_t, meet ? (size_t)block->items : 0);
    struct part_cost_sums unused = {0, 0};
    if (meet)
        item_costs_alone(&timed->costs, block, &timed->flows, alone, &unused);
    for (int32_t i = 0; i < block->items; i++) {
        const struct item *item = &block->item[i];
        int64_t *of = f->table->at[place[i] + 1].of;
        if (item->kind == ITEM_STEP) {
            of[SUM_HOST + pass] += item->exchange < 0 ? 0 : step_ns;
            of[SUM_HOST + pass] -= meet ? exchange_wait_ns(timed->plan, item, alone[i]) : 0;
            continue;
        }
        of[SUM_DEVICE + pass] += meet ? alone[i] : item_device_ns(&timed->costs, item);
        of[SUM_HOST + pass] += item_host_ns(&timed->costs, item);
        of[SUM_STRETCHED + pass] += ns[i];
    }
}

static int64_t share(int64_t whole, int64_t part, int64_t of)
{
    return of ? (int64_t)((double)whole * (double)part / (double)of) : 0;
}

static void fill_weights(const struct filling *f, struct instance_states *states, int64_t i)
{
    const struct outline *o = &f->timed->outline;
    int64_t *of = f->table->at[i + 1].of, bytes = o->gradients[i];
    int32_t number = o->bucket_of[i];
    const struct stage_memory *state = instance_state_of(states, i);
    of[SUM_STATE] += (int64_t)stage_memory_state(state);
    of[SUM_STEP] += (int64_t)(state->step + state->late);
    of[SUM_LAYERS] += f->timed->plan->ends_layer[i];
    if (number < 0 || bytes == 0)
        return;
    const struct bucket *bucket = &o->graph->bucket[number];
    int64_t sync = share(exchange_ns(f->timed, o->synchronise[number]), bytes, bucket->bytes);
    bool after = !(f->timed->plan->overlap & OVERLAP_PARAMETERS);
    of[SUM_SYNC] += sync + share(exchange_ns(f->timed, o->across[number]), bytes, bucket->bytes);
    of[SUM_SYNC_EACH] += bucket->shard >= 2 ? sync : 0;
    of[SUM_SYNC_BYTES] += o->synchronise[number] >= 0 ? bytes : 0;
    of[SUM_WEIGHTS] += o->synchronise[number] >= 0;
    of[SUM_PARAMETERS] += share(o->updated[number], bytes, bucket->bytes);
    if (after && bucket->shard < 3)
        of[SUM_GATHER_AFTER] +=
            share(exchange_ns(f->timed, o->gather[number]), bytes, bucket->bytes);
    f->table->layers |= bucket->shard == 3;
}

/* What is held before each instance (backward: after it), and at most during it. */
static void fill_levels(const struct filling *f, const struct block *block, int64_t *level,
                        int64_t *high)
{
    const struct part_lifetimes *part = &f->timed->outline.graph->lifetimes->part[block->part];
    const struct memory_events *events = &part->events[block->kind];
    const int64_t *place = places_of(f->scratch, block);
    bool forward = block->kind == SLOT_FORWARD;
    int64_t held = 0, at = forward ? 0 : f->instances - 1;
    high[at] = 0;
    for (int32_t k = 0; k < events->count; k++) {
        const struct memory_event *m = &events->event[k];
        int64_t to = m->item < 0 ? at : m->item < block->items ? place[m->item] : at;
        while (forward ? at < to : at > to) {
            level[forward ? at + 1 : at] = held;
            at += forward ? 1 : -1;
            high[at] = held;
        }
        held += m->gives ? -part->life[m->life].bytes : part->life[m->life].bytes;
        high[at] = high[at] > held ? high[at] : held;
    }
    level[forward ? at + 1 : at] = held;
    for (at += forward ? 1 : -1; forward ? at < f->instances : at >= 0; at += forward ? 1 : -1)
        level[forward ? at + 1 : at] = high[at] = held;
}

static void fill_memory(const struct filling *f, const struct pass_items *items)
{
    size_t count = (size_t)f->instances + 1;
    struct row_table *t = f->table;
    int64_t *level = ARENA_ARRAY(f->scratch, int64_t, count);
    t->forward_high = ARENA_ARRAY(f->keep, int64_t, count);
    t->backward_high = ARENA_ARRAY(f->keep, int64_t, count);
    fill_levels(f, items->block[PASS_FORWARD], level, t->forward_high);
    for (int64_t i = 0; i <= f->instances; i++)
        t->at[i].of[SUM_KEPT] = level[i];
    level[f->instances] = 0;
    fill_levels(f, items->block[PASS_BACKWARD], level, t->backward_high);
    for (int64_t i = 0; i <= f->instances; i++)
        t->at[i].of[SUM_BACK] = -level[i];
    level[f->instances] = 0;
    if (items->block[PASS_WEIGHT]) {
        t->weight_high = ARENA_ARRAY(f->keep, int64_t, count);
        fill_levels(f, items->block[PASS_WEIGHT], level, t->weight_high);
        for (int64_t i = 0; i <= f->instances; i++)
            t->at[i].of[SUM_BACK_WEIGHT] = -level[i];
    }
    const struct part_lifetimes *part = &f->timed->outline.graph->lifetimes->part[0];
    int64_t *offloaded = ARENA_ARRAY(f->scratch, int64_t, count);
    for (int32_t i = 0; i < part->lives; i++)
        if (part->life[i].offloaded)
            offloaded[part->life[i].instance + 1] += part->life[i].bytes;
    for (int64_t i = 1; i <= f->instances; i++)
        t->at[i].of[SUM_OFFLOADED] = t->at[i - 1].of[SUM_OFFLOADED] + offloaded[i];
}

static struct range_max range_max_new(struct arena *keep, const int64_t *value, int64_t count)
{
    int32_t rows = 1;
    while ((INT64_C(1) << rows) <= count)
        rows++;
    struct range_max out = {ARENA_ARRAY(keep, int64_t *, (size_t)rows)};
    for (int32_t k = 0; k < rows; k++) {
        int64_t half = k ? INT64_C(1) << (k - 1) : 0;
        out.row[k] = ARENA_ARRAY(keep, int64_t, (size_t)count + 1);
        for (int64_t i = 0; i + (INT64_C(1) << k) <= count; i++) {
            int64_t a = k ? out.row[k - 1][i] : value[i], b = k ? out.row[k - 1][i + half] : a;
            out.row[k][i] = a > b ? a : b;
        }
    }
    return out;
}

/* Fits the optimizer step, whose time is linear but for the start of its kernels. */
static void fit_optimizer(const struct timed *timed, struct row_table *t, int64_t instances)
{
    int64_t all = t->at[instances].of[SUM_PARAMETERS];
    if (all < 2)
        return;
    int64_t whole = optimizer_ns(&timed->costs, 0, all),
            half = optimizer_ns(&timed->costs, 0, all / 2);
    t->optimizer_each_ns = (double)(whole - half) / (double)(all - all / 2);
    t->optimizer_least_ns = whole - (int64_t)(t->optimizer_each_ns * (double)all);
    t->optimizer_each_ns +=
        (double)(orthogonal_ns(&timed->costs, 0) + host_step_on_stage_ns(timed, 0)) / (double)all;
}

/* Bytes of copied tied weights in the table's own plan, where users are not laid out like their
 * owners. */
static int64_t copies_bytes(const struct plan *plan)
{
    double bytes = 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        if (plan_weight_owner(plan, i) == i || !plan_holds_weights(plan, i))
            continue;
        struct stage_memory copy = plan_tied_state(plan, i);
        bytes += stage_memory_state(&copy);
    }
    return (int64_t)bytes;
}

static uint64_t lies_as(const struct plan *plan, int64_t instance)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    const struct choice *choice = plan_choice(plan, instance);
    uint64_t hash = choice->shard;
    for (int flow = FLOW_FORWARD; flow <= FLOW_GRADIENT; flow++) {
        struct layout layout =
            layout_of(op, &op->weight[0].operand, choice_split(choice, flow == FLOW_GRADIENT),
                      plan->step_samples, (enum flow)flow);
        hash = layout_hash(&layout, hash);
    }
    return hash;
}

static double tied_share(const struct filling *f)
{
    if (f->tied.user < 0)
        return 0;
    struct stage_memory whole = plan_instance_state(f->timed->plan, f->tied.owner);
    struct stage_memory copy = plan_tied_state(f->timed->plan, f->tied.user);
    return stage_memory_state(&copy) / stage_memory_state(&whole);
}

static void fill_rest(const struct filling *f)
{
    static const enum tally SUMMED[] = {
        SUM_DEVICE,     SUM_DEVICE + 1, SUM_DEVICE + 2,    SUM_HOST,   SUM_HOST + 1,
        SUM_HOST + 2,   SUM_STRETCHED,  SUM_STRETCHED + 1, SUM_SYNC,   SUM_STRETCHED + 2,
        SUM_SYNC_EACH,  SUM_SYNC_BYTES, SUM_WEIGHTS,       SUM_LAYERS, SUM_GATHER_AFTER,
        SUM_PARAMETERS, SUM_STATE,      SUM_STEP};
    struct row_table *t = f->table;
    const struct outline *o = &f->timed->outline;
    struct instance_states states = instance_states_new(f->scratch, f->timed->plan);
    for (int64_t i = 0; i < f->instances; i++)
        fill_weights(f, &states, i);
    for (int64_t i = 0; i < f->instances; i++)
        for (size_t k = 0; k < COUNT_OF(SUMMED); k++)
            t->at[i + 1].of[SUMMED[k]] += t->at[i].of[SUMMED[k]];
    fit_optimizer(f->timed, t, f->instances);
    t->tied_share = tied_share(f);
    if (f->tied.user >= 0) {
        t->tied_owner = lies_as(f->timed->plan, f->tied.owner);
        t->tied_user = lies_as(f->timed->plan, f->tied.user);
    }
    t->stand_in_bytes = stage_state_bytes(f->timed->plan, 0) - t->at[f->instances].of[SUM_STATE] -
                        copies_bytes(f->timed->plan);
    if (o->host_bytes[0])
        t->offload_each_ns =
            (double)exchange_ns(f->timed, o->from_host[0]) / (double)o->host_bytes[0];
    t->forward_max = range_max_new(f->keep, t->forward_high, f->instances);
    t->backward_max = range_max_new(f->keep, t->backward_high, f->instances);
    if (t->weight_high)
        t->weight_max = range_max_new(f->keep, t->weight_high, f->instances);
}

weft_status fill_table(struct tables *t, struct row_table *table)
{
    static const enum tally TALLIES[] = {
        [PASS_FIRST] = SUM_FIRST,
        [PASS_FORWARD] = SUM_FORWARD,
        [PASS_BACKWARD] = SUM_BACKWARD,
        [PASS_WEIGHT] = SUM_WEIGHT,
        [PASS_LAST] = SUM_LAST,
        [PASS_FORWARD_APART] = SUM_FORWARD_APART,
        [PASS_BACKWARD_APART] = SUM_BACKWARD_APART,
    };
    _Static_assert(COUNT_OF(TALLIES) == PASS_ROLES, "a role without a sum");
    struct arena *scratch = arena_new();
    struct plan *plan = NULL;
    struct timed timed = {0};
    struct pass_items items;
    weft_status status;
    TRY(cut_plan(t, table, table, 0, 0, &plan));
    TRY(timed_new(scratch, plan, t->cost, t->flows, &timed));
    TRY(part_items(&timed, 0, scratch, &items));
    struct filling f = {&timed, table, t->arena, scratch, plan->instances, t->tied};
    table->at = ARENA_ARRAY(t->arena, struct sums, (size_t)plan->instances + 1);
    for (int role = 0; role < PASS_ROLES; role++)
        if (items.block[role])
            fill_times(&f, items.block[role], items.end_ns[role], TALLIES[role]);
    for (int role = PASS_FORWARD; role <= PASS_WEIGHT; role++)
        if (items.block[role])
            fill_host(&f, items.block[role], role - PASS_FORWARD);
    fill_memory(&f, &items);
    fill_rest(&f);
done:
    timed_free(&timed);
    plan_free(plan);
    arena_free(scratch);
    return status;
}
