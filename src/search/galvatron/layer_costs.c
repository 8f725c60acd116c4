/* layer_costs.c - the layers of a model and their costs by the estimate (layer_costs.h). */
#include "search/galvatron/layer_costs_room.h"

enum { COPIES = 3 }; /* a first, a middle and a last one (I1) */

/* ---- layers ---------------------------------------------------------------------------------- */

static int32_t kind_of(struct layer_costs *c, uint64_t hash)
{
    for (size_t i = 0; i < c->kinds.len; i++)
        if (c->kinds.data[i].hash == hash)
            return (int32_t)i;
    struct layer_kind kind = {.hash = hash};
    array_push(c->arena, &c->kinds, kind);
    return (int32_t)c->kinds.len - 1;
}

static void find_kinds(struct layer_costs *c, const struct plan *plan, struct layer_walk *walk)
{
    for (int32_t l = 0; l < walk->layers; l++)
        walk->kind[l] = kind_of(c, layer_hash(plan, walk, l));
}

/* The middle layer of each kind represents it. */
static void place_kinds(struct layer_costs *c, struct tied_pair tied)
{
    const struct layer_walk *walk = &c->shortened;
    for (size_t k = 0; k < c->kinds.len; k++) {
        struct layer_kind *kind = &c->kinds.data[k];
        int32_t middle = count_kind(walk, (int32_t)k) / 2, seen = 0;
        for (int32_t l = 0; l < walk->layers; l++) {
            if (walk->kind[l] != (int32_t)k || seen++ != middle)
                continue;
            kind->first = walk->first[l];
            kind->last = walk->first[l + 1];
        }
        kind->has_tied_user = kind->first <= tied.user && tied.user < kind->last;
        if (count_kind(&c->whole, (int32_t)k) > count_kind(&c->whole, c->usual))
            c->usual = (int32_t)k;
    }
}

static int32_t boundary_of(struct layer_costs *c, int64_t pair)
{
    for (size_t i = 0; i < c->boundaries.len; i++)
        if (c->boundaries.data[i] == pair)
            return (int32_t)i;
    array_push(c->arena, &c->boundaries, pair);
    return (int32_t)c->boundaries.len - 1;
}

static const int32_t *find_boundaries(struct layer_costs *c)
{
    const struct layer_walk *walk = &c->whole;
    int32_t *boundary = ARENA_ARRAY(c->arena, int32_t, (size_t)walk->layers);
    for (int32_t l = 1; l < walk->layers; l++)
        boundary[l] = boundary_of(c, (int64_t)walk->kind[l - 1] << 32 | walk->kind[l]);
    return boundary;
}

/* ---- questions ------------------------------------------------------------------------------- */

static bool open_to(int64_t pin, int64_t value)
{
    return pin == 0 || pin == value;
}

static bool keeps_pins(const struct strategy_row *row, const struct layer_question *q,
                       const struct degrees *pins)
{
    const struct strategy *s = &row->strategy;
    int64_t dp = row->batch_degree, tp = strategy_degree(s, WAY_TP);
    return open_to(pins->dp, dp) && open_to(pins->tp, tp) &&
           open_to(pins->cp, strategy_degree(s, WAY_CP)) &&
           open_to(pins->ep, strategy_degree(s, WAY_EP)) &&
           open_to(pins->micro_batch, q->step_samples / dp) &&
           (!pins->sequence || tp == 1 || s->sequence) &&
           (!pins->has_shard || dp == 1 || s->shard == pins->shard) &&
           (!pins->has_recompute ||
            (s->recompute == (pins->recompute != RECOMPUTE_NONE) && s->modules == pins->modules));
}

weft_status allowed_row(struct layer_costs *c, const struct layer_question *q,
                        const struct strategy *strategy, const struct strategy_row **out)
{
    weft_status status;
    TRY(strategy_row_find(c->rows, strategy, out));
    if (!is_legal(*out, q) || (c->pins && !keeps_pins(*out, q, c->pins)))
        *out = NULL;
done:
    return status;
}

static int32_t place(void *context, const struct layer_question *q)
{
    const struct layer_costs *c = context;
    struct stage stage = stage_of(q, q->stage);
    return (int32_t)(stage.first_device -
                     shift_of(c->settings.cluster, stage.first_device, stage.devices));
}

/* ---- layers' costs --------------------------------------------------------------------------- */

/* Computes (1). */
static struct layer_cost layer_cost_of(const struct layer_costs *c, const struct run_estimate *e,
                                       const struct layer_question *q)
{
    bool beside = c->settings.overlap & OVERLAP_GRADIENTS;
    int64_t round = e->forward_ns + e->backward_ns, last = e->backward_ns + e->last_more_ns;
    int64_t each = q->micro_batches > 1 ? e->sync_each_ns : 0, sync = e->sync_ns;
    if (beside) {
        each = above_zero(each - (int64_t)((double)round / c->slowdown));
        sync = above_zero(sync - (int64_t)((double)last / c->slowdown));
    } else {
        each = 0; /* part of the passes already */
    }
    return (struct layer_cost){.steady_ns = round + each,
                               .once_ns = above_zero(e->first_more_ns + e->last_more_ns + sync +
                                                     e->optimizer_ns + e->gather_ns - each) /
                                          q->stages,
                               .kept_bytes = above_zero(e->kept_bytes),
                               .peak_bytes = above_zero(e->peak_bytes),
                               .state_bytes = e->state_bytes};
}

/* Adds a tied weight's copy (I2). */
static weft_status add_tied(struct layer_costs *c, const struct layer_question *q,
                            const struct strategy_row *row, struct run_estimate *out)
{
    int64_t owner = tables_tied(c->estimator->tables).owner;
    struct run_question question = run_question(q, owner, owner + 1, row);
    struct run_estimate tied;
    weft_status status;
    TRY(estimate_run(c->estimator, &question, &tied));
    out->state_bytes += tied.state_bytes;
    out->sync_ns += tied.sync_ns;
    out->optimizer_ns += tied.optimizer_ns;
    out->gather_ns += tied.gather_ns;
done:
    return status;
}

/* The layer of the whole model that has an instance of the short model, which must be the only
 * instance of its operator. */
static int32_t layer_with(const struct layer_costs *c, int64_t instance)
{
    int32_t layer = 0;
    while (c->shortened.first[layer + 1] <= instance)
        layer++;
    int32_t kind = c->shortened.kind[layer];
    for (layer = 0; c->whole.kind[layer] != kind;)
        layer++;
    return layer;
}

/* I2, for one stage. */
static weft_status together(void *context, const struct layer_question *q,
                            const struct strategy *strategy, int64_t *bytes)
{
    struct layer_costs *c = context;
    const struct plan *walk = tables_walk(c->estimator->tables);
    struct tied_pair tied = tables_tied(c->estimator->tables);
    const struct strategy_row *owner, *user;
    struct run_estimate copy = {0};
    weft_status status = WEFT_OK;
    *bytes = 0;
    if (tied.user < 0)
        return WEFT_OK;
    int32_t from = walk->instance[tied.owner].op, to = walk->instance[tied.user].op;
    TRY(strategy_row_find(c->rows, &strategy[layer_with(c, tied.owner)], &owner));
    TRY(strategy_row_find(c->rows, &strategy[layer_with(c, tied.user)], &user));
    const struct op *op = walk->model->op;
    if (weights_alike(&op[from], &owner->choice[from], &op[to], &user->choice[to], q->step_samples))
        goto done;
    TRY(add_tied(c, q, user, &copy));
    *bytes = copy.state_bytes;
done:
    return status;
}

static weft_status layer(void *context, const struct layer_question *q, int32_t kind,
                         const struct strategy *strategy, struct layer_cost *out)
{
    struct layer_costs *c = context;
    const struct layer_kind *own = &c->kinds.data[kind];
    const struct strategy_row *row;
    struct run_estimate estimate;
    weft_status status;
    *out = (struct layer_cost){.steady_ns = LAYERWISE_NEVER};
    TRY(allowed_row(c, q, strategy, &row));
    if (!row)
        goto done;
    struct run_question question = run_question(q, own->first, own->last, row);
    c->asked++;
    TRY(estimate_run(c->estimator, &question, &estimate));
    if (own->has_tied_user && q->stages > 1)
        TRY(add_tied(c, q, row, &estimate));
    *out = layer_cost_of(c, &estimate, q);
done:
    return status;
}

/* ---- layouts ------------------------------------------------------------------------------- */

/* The layout of the plain strategy's row; -1 for all that are impossible. */
static int32_t layout(void *context, const struct strategy *strategy)
{
    struct layer_costs *c = context;
    struct strategy own = plain_strategy(strategy);
    const struct strategy_row *row;
    if (strategy_row_find(c->rows, &own, &row) || !row->choice)
        return -1;
    return row->layout;
}

static weft_status reshard(void *context, const struct layer_question *q, int32_t boundary,
                           const struct strategy *before, const struct strategy *after, int64_t *ns)
{
    struct layer_costs *c = context;
    const struct layer_kind *kind = &c->kinds.data[c->boundaries.data[boundary] >> 32];
    struct strategy left = plain_strategy(before), right = plain_strategy(after);
    const struct strategy_row *from, *to;
    weft_status status;
    *ns = 0;
    TRY(strategy_row_find(c->rows, &left, &from));
    TRY(strategy_row_find(c->rows, &right, &to));
    if (!is_legal(from, q) || !is_legal(to, q))
        goto done;
    struct run_question question = run_question(q, kind->first, kind->last, from);
    TRY(estimate_reshard(c->estimator, &question, to->row, ns));
    *ns = above_zero(*ns);
done:
    return status;
}

/* ---- the source ------------------------------------------------------------------------------ */

/* Keeps a few copies of each layer (I1). */
static void shorten(struct layer_costs *c)
{
    const struct model *model = c->settings.model;
    c->short_model = *model;
    c->short_model.module = ARENA_ARRAY(c->arena, struct module, (size_t)model->modules);
    for (int32_t i = 0; i < model->modules; i++) {
        struct module *m = &c->short_model.module[i];
        *m = model->module[i];
        m->repeat = m->repeat < COPIES ? m->repeat : COPIES;
    }
    c->short_settings = c->settings;
    c->short_settings.model = &c->short_model;
}

static void open_source(struct layer_costs *c)
{
    const struct plan *short_walk = tables_walk(c->estimator->tables);
    c->whole = walk_layers(c->arena, c->walk);
    c->shortened = walk_layers(c->arena, short_walk);
    find_kinds(c, c->walk, &c->whole);
    find_kinds(c, short_walk, &c->shortened);
    place_kinds(c, tables_tied(c->estimator->tables));
    c->source = (struct layer_source){.layers = c->whole.layers,
                                      .asked = &c->asked,
                                      .kinds = (int32_t)c->kinds.len,
                                      .kind = c->whole.kind,
                                      .boundary = find_boundaries(c),
                                      .around = c->whole.around,
                                      .context = c,
                                      .place = place,
                                      .layer = layer,
                                      .least = layer_least,
                                      .roughly = layer_roughly,
                                      .layout = layout,
                                      .reshard = reshard,
                                      .beside = layer_beside,
                                      .together = together};
    c->source.boundaries = (int32_t)c->boundaries.len;
}

weft_status layer_costs_new(const struct estimate_settings *settings, struct layer_costs **out)
{
    struct arena *arena = arena_new();
    struct layer_costs *c = ARENA_NEW(arena, struct layer_costs);
    weft_status status;
    c->arena = arena;
    c->settings = *settings;
    shorten(c);
    TRY(plan_new(settings->model, settings->cluster, &c->walk));
    TRY(estimator_new(&c->short_settings, &c->estimator));
    TRY(estimator_tables(c->estimator));
    c->slowdown = cost_slowdown(c->estimator->cost);
    c->rows = strategy_rows_new(arena, &c->short_model, settings->cluster, c->estimator);
    open_source(c);
    *out = c;
    return WEFT_OK;
done:
    layer_costs_free(c);
    return status;
}

void layer_costs_free(struct layer_costs *costs)
{
    if (!costs)
        return;
    estimator_free(costs->estimator);
    plan_free(costs->walk);
    arena_free(costs->arena);
}

const struct layer_source *layer_costs_source(const struct layer_costs *costs)
{
    return &costs->source;
}

void layer_costs_pin(struct layer_costs *costs, const struct degrees *pins)
{
    costs->pins = pins;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static weft_status map_stages(const struct layer_costs *c, const struct layer_plan *layers,
                              struct plan *plan)
{
    int64_t *cut = ARENA_ARRAY(plan->arena, int64_t, (size_t)layers->stages);
    int64_t *devices = ARENA_ARRAY(plan->arena, int64_t, (size_t)layers->stages);
    int32_t end = 0;
    for (int32_t stage = 0; stage < layers->stages; stage++) {
        end += layers->count[stage];
        cut[stage] = c->whole.first[end];
        devices[stage] = cluster_devices(plan->cluster) / layers->stages;
    }
    return plan_map(plan, layers->stages, 1, cut, devices);
}

weft_status layer_costs_plan(struct layer_costs *c, const struct layer_plan *layers,
                             struct plan **out)
{
    struct plan *plan = NULL;
    weft_status status;
    TRY(plan_new(c->settings.model, c->settings.cluster, &plan));
    estimate_settings_give(&c->settings, plan);
    plan->schedule = schedule_default(1, 1)->name;
    plan->global_batch = layers->global_batch;
    plan->step_samples = layers->global_batch / layers->micro_batches;
    TRY(map_stages(c, layers, plan));
    for (int32_t l = 0; l < c->whole.layers; l++) {
        const struct strategy_row *row;
        TRY(strategy_row_find(c->rows, &layers->strategy[l], &row));
        for (int64_t i = c->whole.first[l]; i < c->whole.first[l + 1]; i++)
            TRY(plan_choose(plan, i, &row->choice[plan->instance[i].op]));
    }
    TRY(plan_check(plan));
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    return status;
}
