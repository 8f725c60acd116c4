/* grid_space.c - the points of the grid and their bounds (grid_space.h). */
#include "search/auto/grid_space.h"

#include <string.h>

#include "search/estimate/estimate.h"

const struct schedule *grid_schedule(const struct grid_place *point)
{
    return schedule_searched(point->schedule);
}

struct degrees grid_degrees(const struct grid_space *space, const struct grid_place *point)
{
    const struct grid_layout *layout = &space->layouts.data[point->layout];
    struct degrees d = space->request->pins;
    const struct schedule *schedule = grid_schedule(point);
    d.dp = layout->dp;
    d.tp = layout->tp;
    d.pp = layout->pp - layout->encoder_pp;
    d.encoder_pp = layout->encoder_pp;
    d.encoder_tp = layout->encoder_tp;
    d.cp = layout->cp;
    d.ep = layout->ep;
    d.etp = layout->etp;
    d.cp_heads = layout->cp_heads;
    d.sequence = layout->sequence;
    d.pieces = space->shapes.data[point->shape].pieces;
    d.segments = schedule->segmented ? d.pieces : 1;
    d.micro_batch = point->micro_batch;
    d.shard = point->shard;
    d.recompute = space->levels.level[point->level].recompute;
    d.modules = space->levels.level[point->level].modules;
    d.schedule = schedule->name;
    return d;
}

/* ---- layouts --------------------------------------------------------------------------------- */

static struct degrees degrees_of(const struct grid_space *space, const struct grid_layout *layout)
{
    struct degrees d = space->request->pins;
    d.dp = layout->dp;
    d.tp = layout->tp;
    d.pp = layout->pp - layout->encoder_pp;
    d.encoder_pp = layout->encoder_pp;
    d.encoder_tp = layout->encoder_tp;
    d.cp = layout->cp;
    d.ep = layout->ep;
    d.etp = layout->etp;
    d.cp_heads = layout->cp_heads;
    d.sequence = layout->sequence;
    d.pieces = d.segments = d.micro_batch = 1;
    d.shard = 0;
    d.recompute = RECOMPUTE_NONE;
    d.recompute_layers = d.defer_head = 0; /* simulations know them */
    d.schedule = NULL;
    return d;
}

static struct choice *choices_of(struct arena *keep, const struct plan *plan)
{
    struct choice *choice = ARENA_ARRAY(keep, struct choice, (size_t)plan->model->ops);
    for (int64_t i = plan->instances - 1; i >= 0; i--)
        choice[plan->instance[i].op] = *plan_choice(plan, i);
    return choice;
}

/* Which operators are recomputed depends only on the operators: found once, in the first layout. */
static weft_status choose_recompute(struct grid_space *space, struct grid_layout *layout)
{
    const struct grid_layout *first = space->layouts.data;
    size_t ops = (size_t)space->request->model->ops;
    weft_status status = WEFT_OK;
    for (int r = 0; r < space->levels.len; r++) {
        struct degrees d = degrees_of(space, layout);
        struct plan *plan = NULL;
        d.recompute = space->levels.level[r].recompute;
        d.modules = space->levels.level[r].modules;
        if (!space->layouts.len) {
            TRY(plan_from_degrees(space->request->model, space->request->cluster, &d, &plan));
            layout->choice[r] = choices_of(space->arena, plan);
            plan_free(plan);
            continue;
        }
        layout->choice[r] = ARENA_ARRAY(space->arena, struct choice, ops);
        for (size_t i = 0; i < ops; i++) {
            layout->choice[r][i] = first->choice[r][i];
            layout->choice[r][i].split = layout->plain[i].split;
        }
    }
done:
    return status;
}

/* Layouts that make no plan are left out. */
static weft_status add_layout(struct grid_space *space, struct grid_layout layout)
{
    struct degrees d = degrees_of(space, &layout);
    const struct plan_request *request = space->request;
    weft_status status = WEFT_OK;
    struct expert_mesh mesh;
    if (d.global_batch % layout.dp || !expert_mesh(&d, &mesh))
        return WEFT_OK;
    if (plan_from_degrees(request->model, request->cluster, &d, &layout.plan) ||
        plan_check(layout.plan)) {
        error_clear();
        plan_free(layout.plan);
        return WEFT_OK;
    }
    layout.plain = choices_of(space->arena, layout.plan);
    status = choose_recompute(space, &layout);
    array_push(space->arena, &space->layouts, layout);
    return status;
}

/* ---- walking what is open -------------------------------------------------------------------- */

static bool open_to(int64_t pin, int64_t value)
{
    return pin == 0 || pin == value;
}

/* With and without sequence parallelism. */
static weft_status add_sequences(struct grid_space *space, struct grid_layout layout)
{
    const struct degrees *pins = &space->request->pins;
    int last = pins->sequence && layout.tp > 1;
    weft_status status = WEFT_OK;
    for (int sequence = layout.tp > 1; sequence >= last; sequence--) {
        layout.sequence = sequence;
        TRY(add_layout(space, layout));
    }
done:
    return status;
}

/* Experts are split like the rest of a layer, or are whole where several devices share them. */
static weft_status add_experts(struct grid_space *space, struct grid_layout layout)
{
    const struct degrees *pins = &space->request->pins;
    int64_t most = pins->ep ? pins->ep : searched_ep(space->request->model);
    weft_status status = WEFT_OK;
    for (int64_t ep = pins->ep ? pins->ep : 1; ep <= most; ep += ep) {
        layout.ep = ep;
        layout.etp = pins->etp == layout.tp ? 0 : pins->etp;
        TRY(add_sequences(space, layout));
        if (!pins->etp && ep > 1 && layout.tp > 1) {
            layout.etp = 1;
            TRY(add_sequences(space, layout));
        }
    }
done:
    return status;
}

/* Where sequences are divided, attention goes round a ring (or is gathered, by the overlap that is asked for); all of
 * cp's devices take heads, or some of them do. */
static weft_status add_contexts(struct grid_space *space, struct grid_layout layout)
{
    static const int64_t HEADS[] = {0, CP_HEADS_ALL, CP_HEADS_SOME};
    const struct plan_request *request = space->request;
    int64_t pinned = request->pins.cp_heads;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < (layout.cp > 1 && !pinned ? COUNT_OF(HEADS) : 1); i++) {
        struct degrees d = {
            .tp = layout.tp, .cp = layout.cp, .cp_heads = pinned ? pinned : HEADS[i]};
        layout.cp_heads = cp_heads_of(&d, request->model);
        if (i == 0 || layout.cp_heads > 1)
            TRY(add_experts(space, layout));
    }
done:
    return status;
}

/* The encoder on the first stage, whose devices are all of a stage's. */
static weft_status add_beside(struct grid_space *space, struct grid_layout layout)
{
    const struct degrees *pins = &space->request->pins;
    bool tower = model_has_tower(space->request->model);
    int64_t usual = tower ? encoder_usual_tp(space->request->model, layout.tp) : 1;
    weft_status status;
    layout.encoder_tp = pins->encoder_tp;
    TRY(add_contexts(space, layout));
    if (tower && !pins->encoder_tp && usual > 1) {
        layout.encoder_tp = 1;
        TRY(add_contexts(space, layout));
    }
done:
    return status;
}

/* The encoder on stages of its own, with replicas like the others' (towers.c, (1)). */
static weft_status add_apart(struct grid_space *space, int64_t tp, int64_t cp)
{
    enum { MOST_OWN = 2 };
    const struct degrees *pins = &space->request->pins;
    int64_t most = pins->encoder_pp ? pins->encoder_pp : MOST_OWN, each = tp * cp;
    int64_t usual =
        pins->encoder_tp ? pins->encoder_tp : encoder_usual_tp(space->request->model, tp);
    weft_status status = WEFT_OK;
    for (int64_t own = pins->encoder_pp ? pins->encoder_pp : 1; own <= most; own++)
        for (int64_t pp = 1; pp * each < space->devices && !plan_interrupted(space->request);
             pp++) {
            int64_t apart = pins->encoder_dp ? own * usual * pins->encoder_dp : 0;
            int64_t replica = pp * each + (apart ? 0 : own * usual);
            int64_t left = space->devices - apart, dp = left / replica;
            if (left % replica || !dp || !open_to(pins->pp, pp) || !open_to(pins->dp, dp))
                continue;
            TRY(add_contexts(space, (struct grid_layout){.dp = dp,
                                                         .tp = tp,
                                                         .pp = pp + own,
                                                         .cp = cp,
                                                         .encoder_tp = pins->encoder_tp,
                                                         .encoder_pp = own}));
        }
done:
    return status;
}

static weft_status add_layouts(struct grid_space *space)
{
    const struct plan_request *request = space->request;
    const struct degrees *pins = &request->pins;
    int64_t most_cp = searched_cp(request->model);
    weft_status status = WEFT_OK;
    for (int64_t cp = pins->cp ? pins->cp : 1; cp <= (pins->cp ? pins->cp : most_cp); cp += cp)
        for (int64_t tp = 1; tp <= request->cluster->node.devices; tp++) {
            int64_t rest = space->devices / cp / tp;
            if (!open_to(pins->tp, tp))
                continue;
            if (model_has_tower(request->model) && !request->cluster->pools)
                TRY(add_apart(space, tp, cp));
            if (space->devices % (cp * tp) || pins->encoder_pp)
                continue;
            for (int64_t pp = 1; pp <= rest && !plan_interrupted(request); pp++)
                if (rest % pp == 0 && open_to(pins->pp, pp) && open_to(pins->dp, rest / pp))
                    TRY(add_beside(space, (struct grid_layout){
                                              .dp = rest / pp, .tp = tp, .pp = pp, .cp = cp}));
        }
done:
    return status;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static int64_t parts_of(const struct grid_shape *shape)
{
    return shape->pp * shape->pieces;
}

/* The number of the shape that any layout with this many stages has (I2). */
static int32_t shape_of(struct grid_space *space, const struct grid_layout *layout, int64_t pieces)
{
    struct grid_shape shape = {
        .pp = layout->pp, .pieces = pieces, .encoder_pp = layout->encoder_pp};
    struct degrees d = degrees_of(space, layout);
    struct plan *plan = NULL;
    for (size_t i = 0; i < space->shapes.len; i++)
        if (space->shapes.data[i].pp == shape.pp && space->shapes.data[i].pieces == pieces &&
            space->shapes.data[i].encoder_pp == shape.encoder_pp)
            return (int32_t)i;
    d.pieces = d.segments = pieces;
    if (plan_from_degrees(space->request->model, space->request->cluster, &d, &plan) == WEFT_OK) {
        shape.cut = ARENA_ARRAY(space->arena, int64_t, (size_t)plan->parts + 1);
        shape.part = ARENA_ARRAY(space->arena, struct grid_part, (size_t)plan->parts);
        for (int32_t k = 0; k < plan->parts; k++)
            shape.cut[k + 1] = plan->part[k].first + plan->part[k].count;
        plan_free(plan);
    }
    error_clear();
    array_push(space->arena, &space->shapes, shape);
    return (int32_t)space->shapes.len - 1;
}

static void sum_state(struct grid_space *space, struct grid_layout *layout, int shard)
{
    const struct plan *plan = layout->plan;
    struct plan view = *plan;
    view.global_batch = view.step_samples; /* one micro-batch, whose gradients take least */
    struct stage_memory *of =
        ARENA_ARRAY(space->arena, struct stage_memory, (size_t)plan->model->ops);
    int64_t state_sum = 0, step_sum = 0;
    view.choice = ARENA_ARRAY(space->arena, struct choice, (size_t)plan->choices);
    for (int32_t i = 0; i < plan->choices; i++) {
        view.choice[i] = plan->choice[i];
        view.choice[i].shard = (uint8_t)shard;
    }
    int64_t *state = ARENA_ARRAY(space->arena, int64_t, (size_t)space->cuts);
    int64_t *step = ARENA_ARRAY(space->arena, int64_t, (size_t)space->cuts);
    layout->state[shard] = state;
    layout->step[shard] = step;
    for (int64_t i = 0; i <= plan->instances; i++) {
        if (space->is_cut[i]) {
            *state++ = state_sum;
            *step++ = step_sum;
        }
        if (i == plan->instances)
            break;
        int32_t op = plan->instance[i].op;
        if (plan->instance[i].copy == 0)
            of[op] = plan_instance_state(&view, i);
        state_sum += (int64_t)stage_memory_state(&of[op]);
        step_sum += (int64_t)(of[op].step + of[op].late);
    }
}

/* Whether the pins leave this number of pieces open. */
static bool open_pieces(const struct degrees *pins, const struct schedule *schedule, int64_t pieces)
{
    return open_to(pins->pieces, pieces) &&
           open_to(pins->segments, schedule->segmented ? pieces : 1);
}

/* All shapes with the layout's number of stages. */
static void add_shapes(struct grid_space *space, const struct grid_layout *layout)
{
    const struct schedule *schedule;
    for (size_t i = 0; i < space->shapes.len; i++)
        if (space->shapes.data[i].pp == layout->pp &&
            space->shapes.data[i].encoder_pp == layout->encoder_pp)
            return;
    for (size_t k = 0; (schedule = schedule_searched(k)) != NULL; k++)
        for (int64_t pieces = 0; (pieces = schedule_next_pieces(schedule, pieces)) != 0;)
            if (open_pieces(&space->request->pins, schedule, pieces))
                shape_of(space, layout, pieces);
}

/* Sums are kept at cuts alone: a model of 61 layers has thousands of instances, and few cuts. */
static void number_cuts(struct grid_space *space, int64_t instances)
{
    int32_t *number = ARENA_ARRAY(space->arena, int32_t, (size_t)instances + 1);
    space->is_cut = ARENA_ARRAY(space->arena, bool, (size_t)instances + 1);
    for (size_t i = 0; i < space->shapes.len; i++)
        for (int64_t k = 0; space->shapes.data[i].cut && k <= parts_of(&space->shapes.data[i]); k++)
            space->is_cut[space->shapes.data[i].cut[k]] = true;
    for (int64_t i = 0; i <= instances; i++)
        number[i] = space->is_cut[i] ? space->cuts++ : -1;
    for (size_t i = 0; i < space->shapes.len; i++) {
        struct grid_shape *shape = &space->shapes.data[i];
        size_t cuts = shape->cut ? (size_t)parts_of(shape) + 1 : 0;
        shape->at = ARENA_ARRAY(space->arena, int32_t, cuts);
        for (size_t k = 0; k < cuts; k++)
            shape->at[k] = number[shape->cut[k]];
    }
}

static void find_cuts(struct grid_space *space)
{
    for (size_t i = 0; i < space->layouts.len; i++)
        add_shapes(space, &space->layouts.data[i]);
    if (space->layouts.len)
        number_cuts(space, space->layouts.data[0].plan->instances);
    for (size_t i = 0; i < space->layouts.len; i++)
        for (int shard = 0; shard < GRID_SHARDS; shard++)
            sum_state(space, &space->layouts.data[i], shard);
}

/* ---- points ---------------------------------------------------------------------------------- */

/* Whether this level of recomputation does anything that those before it do not. */
static bool recomputes_more(const struct grid_layout *layout, int level)
{
    for (int32_t i = 0; level > 0 && i < layout->plan->model->ops; i++)
        if (!choice_recomputes_alike(&layout->choice[level][i], &layout->choice[level - 1][i]))
            return true;
    return level == 0;
}

/* Whether the point has heads that wait, where that is pinned. */
static bool defers_as_pinned(const struct degrees *pins, const struct degrees *d)
{
    bool can = !pins->defer_head || !deferral_check(d->pp, d->schedule, d->shard >= 2);
    error_clear();
    return can;
}

/* Whether the point is what the request asks for and its target runs; most requests ask nothing. */
static bool is_asked_for(const struct grid_space *space, const struct grid_place *point)
{
    const struct plan_request *request = space->request;
    if (request->hides_tokens && !hides_tokens_at(space, point))
        return false;
    if (!request->target && !request->forbids.len && !request->pins.defer_head)
        return true;
    struct degrees d = grid_degrees(space, point);
    return !degrees_forbidden(&request->forbids, &d) && defers_as_pinned(&request->pins, &d) &&
           (!request->target || target_runs_degrees(request->target, request->model, &d));
}

static void add_points(struct grid_space *space, int32_t number, struct grid_place point)
{
    const struct plan_request *request = space->request;
    const struct degrees *pins = &request->pins;
    const struct grid_layout *layout = &space->layouts.data[number];
    const struct grid_shape *shape = &space->shapes.data[point.shape];
    const struct grid_passes *passes = NULL;
    for (int32_t p = cluster_pools(request->cluster) - 1; p >= 0; p--) /* the list may move */
        passes = grid_passes_of(space, layout, point.micro_batch, point.micro_batches > 1, p);
    for (int r = 0; r < space->levels.len; r++) {
        if (!recomputes_more(layout, r))
            continue;
        point.level = (uint8_t)r;
        point.bound_ns = grid_operators_ns(space, passes, &point);
        for (int shard = 0; shard < GRID_SHARDS; shard++) {
            bool of_use = shard == 0 || layout->dp * layout->cp > 1;
            if (pins->has_shard ? shard != pins->shard : !of_use)
                continue;
            point.shard = (uint8_t)shard;
            if (!is_asked_for(space, &point))
                continue;
            point.bound_bytes = grid_least_bytes(layout, shape, passes, &point,
                                                 pins->offload || pins->offload_modules);
            array_push(space->arena, &space->points, point);
        }
    }
}

static void add_pieces(struct grid_space *space, int32_t number, struct grid_place point)
{
    const struct degrees *pins = &space->request->pins;
    const struct grid_layout *layout = &space->layouts.data[number];
    const struct schedule *schedule = grid_schedule(&point);
    bool in_turn = layout->pp == 1 || point.micro_batches == 1, folded = schedule->segmented;
    for (int64_t pieces = 0; (pieces = schedule_next_pieces(schedule, pieces)) != 0;) {
        if (!open_pieces(pins, schedule, pieces) ||
            (folded && pieces == 1 && in_turn && !pins->schedule))
            /* The last one is 1f1b, or holds more than 1f1b for no gain. */
            continue;
        point.shape = shape_of(space, layout, pieces);
        struct pipeline pipeline = {(int32_t)layout->pp, (int32_t)pieces,
                                    (int32_t)point.micro_batches, (int32_t)pins->group};
        if (space->shapes.data[point.shape].cut && schedule_check(schedule, &pipeline) == WEFT_OK)
            add_points(space, number, point);
        error_clear();
    }
}

static void add_schedules(struct grid_space *space, int32_t number, struct grid_place point)
{
    const char *only = space->request->pins.schedule;
    const struct schedule *schedule;
    for (size_t k = 0; (schedule = schedule_searched(k)) != NULL; k++) {
        bool of_use = space->layouts.data[number].pp > 1 || schedule->alone;
        point.schedule = (uint8_t)k;
        if (only ? strcmp(only, schedule->name) == 0 : of_use)
            add_pieces(space, number, point);
    }
}

static void add_micro_batches(struct grid_space *space, int32_t number)
{
    const struct degrees *pins = &space->request->pins;
    const struct grid_layout *layout = &space->layouts.data[number];
    int64_t share = pins->global_batch / layout->dp;
    for (int64_t b = 1; b <= share; b = divisor_above(share, b))
        if (open_to(pins->micro_batch, b))
            add_schedules(space, number,
                          (struct grid_place){
                              .layout = number, .micro_batch = b, .micro_batches = share / b});
}

weft_status grid_space_new(const struct plan_request *request, struct cost *cost,
                           struct grid_space **out)
{
    struct arena *arena = arena_new();
    struct grid_space *space = ARENA_NEW(arena, struct grid_space);
    weft_status status;
    *space = (struct grid_space){.request = request,
                                 .cost = cost,
                                 .arena = arena,
                                 .devices = cluster_devices(request->cluster)};
    TRY(recompute_levels(request, &space->levels));
    TRY(add_layouts(space));
    find_cuts(space);
    for (int32_t i = 0; i < (int32_t)space->layouts.len && !plan_interrupted(request); i++)
        add_micro_batches(space, i);
    space->limit_bytes = estimate_limit_bytes(request->cluster, &request->pins.memory);
    if (request->fill > 0)
        space->limit_bytes = (int64_t)((double)space->limit_bytes * request->fill);
    *out = space;
    return WEFT_OK;
done:
    grid_space_free(space);
    return status;
}

void grid_space_free(struct grid_space *space)
{
    if (!space)
        return;
    for (size_t i = 0; i < space->layouts.len; i++)
        plan_free(space->layouts.data[i].plan);
    arena_free(space->arena);
}
