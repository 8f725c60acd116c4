/* grid_bounds.c - lower bounds for the points of the grid (grid_space.h). */
#include <string.h>

#include "search/auto/grid_space.h"
#include "search/estimate/estimate.h"

/* How much of what operators keep counts in (2): tensors at the ends of a part may belong to its
 * neighbour. */
enum { KEPT_TENTHS = 9 };

/* ---- passes ---------------------------------------------------------------------------------- */

struct op_passes {
    struct floor_operators forward, backward;
    int64_t kept_bytes;
};

static void add_phase(struct item_costs *costs, int64_t instance, enum phase phase,
                      struct floor_operators *out)
{
    int64_t ns = item_cost(costs, instance, phase)->device.ns;
    const struct split *split = &plan_choice(costs->plan, instance)->split;
    out->all_ns += ns;
    out->beside_ns += is_beside(split, phase, costs->plan->overlap) ? ns : 0;
}

/* With sequence parallelism, what is kept is at best spread evenly over the devices that share a
 * sample. */
static struct op_passes time_op(struct item_costs *costs, int64_t instance,
                                const struct grid_layout *layout, int64_t micro_batch)
{
    const struct plan *plan = costs->plan;
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    bool evenly = layout->sequence && op->place != PLACE_TOWER;
    int64_t local[OP_MAX_DIMS], sharers = evenly ? layout->tp * layout->cp : 1;
    op_full_size(op, micro_batch, local);
    if (!evenly)
        split_local(op, &plan_choice(plan, instance)->split, plan->step_samples, local);
    double kept = plan_kept_bytes(plan, op, local);
    struct op_passes out = {.kept_bytes = (int64_t)(kept / (double)sharers)};
    add_phase(costs, instance, PHASE_FORWARD, &out.forward);
    add_phase(costs, instance, PHASE_BACKWARD_INPUT, &out.backward);
    add_phase(costs, instance, PHASE_BACKWARD_WEIGHT, &out.backward);
    return out;
}

static void add_operators(struct floor_operators *sum, const struct floor_operators *more)
{
    sum->all_ns += more->all_ns;
    sum->beside_ns += more->beside_ns;
}

static void sum_passes(const struct grid_space *space, const struct grid_layout *layout,
                       const struct op_passes *op, struct grid_passes *out)
{
    const struct plan *plan = layout->plan;
    struct floor_operators forward = {0}, backward[GRID_LEVELS] = {0};
    int64_t kept[GRID_LEVELS] = {0};
    int32_t at = 0;
    for (int64_t i = 0; i <= plan->instances; i++) {
        for (int r = 0; space->is_cut[i] && r < space->levels.len; r++) {
            out->forward_ns[at] = forward.all_ns;
            out->forward_beside_ns[at] = forward.beside_ns;
            out->backward_ns[r][at] = backward[r].all_ns;
            out->backward_beside_ns[r][at] = backward[r].beside_ns;
            out->kept_bytes[r][at] = kept[r];
        }
        at += space->is_cut[i];
        if (i == plan->instances)
            break;
        int32_t number = plan->instance[i].op;
        add_operators(&forward, &op[number].forward);
        for (int r = 0; r < space->levels.len; r++) {
            bool again = layout->choice[r][number].recompute;
            add_operators(&backward[r], &op[number].backward);
            if (again)
                add_operators(&backward[r], &op[number].forward);
            kept[r] += again ? 0 : op[number].kept_bytes;
        }
    }
}

static struct grid_passes find_passes(struct grid_space *space, const struct grid_layout *layout,
                                      int64_t micro_batch, bool many, int32_t pool)
{
    const struct plan *plan = layout->plan;
    struct arena *scratch = arena_new();
    struct plan view = *plan;
    struct stage all = {cluster_pool_first(plan->cluster, pool), plan->stage[0].devices};
    struct part whole = {0, plan->instances};
    if (plan->cluster->pools) { /* all operators on its devices */
        view.stage = &all;
        view.part = &whole;
        view.stages = view.parts = 1;
    }
    view.step_samples = layout->dp * micro_batch;
    view.global_batch = view.step_samples * (many ? 2 : 1);
    struct item_costs costs = item_costs_of(scratch, &view, space->cost);
    struct op_passes *op = ARENA_ARRAY(scratch, struct op_passes, (size_t)plan->model->ops);
    for (int64_t i = 0; i < plan->instances; i++)
        if (plan->instance[i].copy == 0)
            op[plan->instance[i].op] = time_op(&costs, i, layout, micro_batch);
    size_t count = (size_t)space->cuts;
    struct grid_passes passes = {.forward_ns = ARENA_ARRAY(space->arena, int64_t, count),
                                 .forward_beside_ns = ARENA_ARRAY(space->arena, int64_t, count)};
    for (int r = 0; r < space->levels.len; r++) {
        passes.backward_ns[r] = ARENA_ARRAY(space->arena, int64_t, count);
        passes.backward_beside_ns[r] = ARENA_ARRAY(space->arena, int64_t, count);
        passes.kept_bytes[r] = ARENA_ARRAY(space->arena, int64_t, count);
    }
    sum_passes(space, layout, op, &passes);
    arena_free(scratch);
    return passes;
}

const struct grid_passes *grid_passes_of(struct grid_space *space, const struct grid_layout *layout,
                                         int64_t micro_batch, bool many, int32_t pool)
{
    const int64_t words[] = {layout->tp,
                             layout->cp,
                             layout->cp_heads,
                             layout->ep,
                             layout->etp,
                             layout->encoder_tp,
                             layout->encoder_pp,
                             layout->sequence,
                             micro_batch,
                             many,
                             pool};
    int64_t *number =
        hash_at(&space->passes_of, space->arena, hash_bytes(words, sizeof words, 5) | 1);
    if (*number < 0) {
        *number = (int64_t)space->passes.len;
        struct grid_passes found = find_passes(space, layout, micro_batch, many, pool);
        array_push(space->arena, &space->passes, found);
    }
    return &space->passes.data[*number];
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static int64_t between(const int64_t *sum, const struct grid_shape *shape, int64_t part)
{
    return sum[shape->at[part + 1]] - sum[shape->at[part]];
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_split(const struct grid_place *point)
{
    return grid_schedule(point)->passes == ORDER_SPLIT;
}

/* Computes (1). */
int64_t grid_least_ns(const struct grid_shape *shape, const struct grid_place *point,
                      const struct grid_part *part)
{
    bool split = is_split(point);
    int64_t parts = shape->pp * shape->pieces, above = 0, all = 0, most = 0;
    for (int64_t s = 0; s < shape->pp; s++) {
        int64_t work = 0;
        for (int64_t k = s; k < parts; k += shape->pp) {
            work += part[k].forward_ns + part[k].backward_ns;
            all += part[k].forward_ns + (split ? 0 : part[k].backward_ns);
        }
        most = larger(most, above + point->micro_batches * work);
        above += part[s].forward_ns + (split ? 0 : part[s].backward_ns);
    }
    return larger(most, all);
}

int32_t grid_part_pool(const struct grid_space *space, const struct grid_place *point, int32_t part)
{
    const struct cluster *cluster = space->request->cluster;
    int32_t stages = (int32_t)space->shapes.data[point->shape].pp;
    if (!cluster->pools)
        return 0;
    int32_t stage = stage_with_part(grid_schedule(point)->zigzag, stages, part);
    return cluster_pool_of(cluster, stage * (space->devices / stages));
}

int64_t grid_operators_ns(struct grid_space *space, const struct grid_passes *first,
                          const struct grid_place *point)
{
    const struct grid_layout *layout = &space->layouts.data[point->layout];
    const struct grid_shape *shape = &space->shapes.data[point->shape];
    for (int64_t k = 0; k < shape->pp * shape->pieces; k++) {
        int32_t pool = grid_part_pool(space, point, (int32_t)k);
        const struct grid_passes *passes =
            pool ? grid_passes_of(space, layout, point->micro_batch, point->micro_batches > 1, pool)
                 : first;
        shape->part[k] = (struct grid_part){between(passes->forward_ns, shape, k),
                                            between(passes->backward_ns[point->level], shape, k)};
    }
    return grid_least_ns(shape, point, shape->part);
}

/* zb-h1 keeps less of micro-batches whose input gradients are done, and has started all but one of
 * the micro-batches that 1f1b has started before that. */
static int64_t in_flight_at_least(const struct grid_place *point, const struct pipeline *pipeline,
                                  int32_t stage)
{
    if (!is_split(point))
        return schedule_in_flight(grid_schedule(point), pipeline, stage);
    return larger(1, schedule_in_flight(schedule_default(1, 1), pipeline, stage) - 1);
}

/* Computes (2). */
int64_t grid_least_bytes(const struct grid_layout *layout, const struct grid_shape *shape,
                         const struct grid_passes *passes, const struct grid_place *point,
                         bool offload)
{
    struct pipeline pipeline = {(int32_t)shape->pp, (int32_t)shape->pieces,
                                (int32_t)point->micro_batches, 0}; /* no group is smaller */
    int64_t most = 0;
    for (int64_t s = 0; s < shape->pp; s++) {
        int64_t state = 0, step = 0, kept = INT64_MAX;
        for (int64_t part = s; part < shape->pp * shape->pieces; part += shape->pp) {
            int64_t own = between(passes->kept_bytes[point->level], shape, part);
            state += between(layout->state[point->shard], shape, part);
            step += between(layout->step[point->shard], shape, part);
            kept = offload ? 0 : own < kept ? own : kept;
        }
        kept = kept * KEPT_TENTHS / 10 * in_flight_at_least(point, &pipeline, (int32_t)s);
        most = larger(most, state + larger(kept, step));
    }
    return most;
}

/* ---- one replica by itself ------------------------------------------------------------------- */

static int64_t stage_devices(const struct grid_layout *layout)
{
    return layout->dp * layout->tp * layout->cp;
}

int64_t grid_devices_alone(const struct grid_layout *layout, int32_t ops)
{
    int64_t devices = layout->tp * layout->cp;
    if (layout->encoder_pp)
        return 0; /* stages are of different sizes */
    for (int32_t i = 0; i < ops; i++) {
        const struct split *split = &layout->plain[i].split;
        devices = larger(devices, split_devices(split) / split_degree(split, DIM_BATCH));
    }
    for (int32_t i = 0; i < ops; i++) {
        int64_t samples = split_degree(&layout->plain[i].split, DIM_BATCH);
        if (samples * devices % stage_devices(layout))
            return 0;
    }
    return devices;
}

struct split grid_split_alone(const struct grid_layout *layout, const struct split *split,
                              int64_t devices)
{
    struct split alone = split_none();
    int64_t samples = split_degree(split, DIM_BATCH) * devices / stage_devices(layout);
    if (samples > 1)
        split_add(&alone, DIM_BATCH, samples);
    for (int32_t k = 0; k < split->parts; k++)
        if (split->part[k].dim != DIM_BATCH)
            split_add(&alone, split->part[k].dim, split->part[k].degree);
    return alone;
}

/* ---- peaks --------------------------------------------------------------------------------- */

int64_t grid_peak_bytes(const struct grid_space *space, const struct estimate *estimate)
{
    const struct plan_request *request = space->request;
    int64_t largest = estimate_limit_bytes(request->cluster, &request->pins.memory);
    if (largest == estimate->limit_bytes)
        return estimate->peak_bytes;
    return (int64_t)((double)estimate->peak_bytes / (double)estimate->limit_bytes *
                     (double)largest);
}
