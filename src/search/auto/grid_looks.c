/* grid_looks.c - the closer bounds of a point, and what its estimate asks for (grid_walk.h). */
#include "search/auto/grid_walk.h"

#include "search/estimate/estimate.h"

/* The passes of a part by itself may be faster than its share of the whole model's passes by up to
 * one part in this many: a collective between two of its operators becomes a send where they are
 * cut. */
enum { SEAMS = 32 };
/* The same allowance for an estimate whose parts are shares of the whole model's passes and send
 * nothing. */
enum { BORDERS = 16 };
/* The same allowance for an estimate that treats all stages like the first one. */
enum { PLACES = 64 };

static int32_t row_of(struct grid_walk *walk, const struct grid_place *point)
{
    struct grid_layout *layout = &walk->space->layouts.data[point->layout];
    int32_t *row = &layout->row[point->level][point->shard];
    size_t ops = (size_t)walk->space->request->model->ops;
    if (*row)
        return *row - 1;
    struct choice *choice = ARENA_ARRAY(walk->space->arena, struct choice, ops);
    for (size_t i = 0; i < ops; i++) {
        choice[i] = layout->choice[point->level][i];
        choice[i].shard = point->shard;
    }
    *row = estimator_row(walk->estimator, choice) + 1;
    return *row - 1;
}

struct candidate *grid_candidate(struct grid_walk *walk, const struct grid_place *point)
{
    const struct grid_layout *layout = &walk->space->layouts.data[point->layout];
    struct grid_shape *shape = &walk->space->shapes.data[point->shape];
    int32_t parts = (int32_t)(shape->pp * shape->pieces), row = row_of(walk, point);
    if (!shape->candidate)
        shape->candidate =
            candidate_new(walk->space->arena, (int32_t)shape->pp, (int32_t)shape->pieces, parts);
    struct candidate *c = shape->candidate;
    c->schedule = grid_schedule(point);
    c->step_samples = layout->dp * point->micro_batch;
    c->micro_batches = point->micro_batches;
    for (int32_t s = 0; s < c->stages; s++)
        c->stage[s] = layout->plan->stage[s];
    for (int32_t k = 0; k < parts; k++) {
        c->first_run[k + 1] = k + 1;
        c->run[k] = (struct candidate_run){shape->cut[k], shape->cut[k + 1], row};
    }
    return c;
}

/* ---- a closer bound -------------------------------------------------------------------------- */

/* The choices on the devices of grid_devices_alone. */
static int32_t row_alone(struct grid_walk *walk, const struct grid_place *point, int64_t devices)
{
    struct grid_layout *layout = &walk->space->layouts.data[point->layout];
    int32_t *row = &layout->alone[point->level];
    size_t ops = (size_t)walk->space->request->model->ops;
    if (*row)
        return *row - 1;
    struct choice *choice = ARENA_ARRAY(walk->space->arena, struct choice, ops);
    for (size_t i = 0; i < ops; i++) {
        choice[i] = layout->choice[point->level][i];
        choice[i].split = grid_split_alone(layout, &choice[i].split, devices);
    }
    *row = estimator_row(walk->estimator, choice) + 1;
    return *row - 1;
}

/* Whether a replica that starts at this device has another position than those before it, and so
 * may be faster. */
static bool lies_anew(const struct cluster *cluster, int64_t first, int64_t devices)
{
    struct group group = group_range(first, devices, 1);
    uint64_t place, other;
    if (first == 0 || group_place(cluster, &group, &place) != WEFT_OK)
        return first == 0;
    for (int64_t before = 0; before < first; before += devices) {
        group = group_range(before, devices, 1);
        if (group_place(cluster, &group, &other) == WEFT_OK && other == place)
            return false;
    }
    return true;
}

/* What to ask about a point's replica by itself, for a number of samples. */
static struct run_question alone_question(struct grid_walk *walk, const struct grid_place *point,
                                          int64_t samples, int64_t devices)
{
    const struct grid_layout *layout = &walk->space->layouts.data[point->layout];
    return (struct run_question){.run = {.row = row_alone(walk, point, devices)},
                                 .schedule = schedule_default(1, 1),
                                 .step_samples = samples * (devices / (layout->tp * layout->cp)),
                                 .micro_batches = point->micro_batches};
}

/* The next of a node's places for a replica that differs from those before `at`; -1: there is none. */
static int64_t next_place(const struct cluster *cluster, int64_t at, int64_t devices)
{
    for (; at == 0 || at + devices <= cluster->node.devices; at += devices)
        if (cluster->pools || lies_anew(cluster, at, devices)) /* nodes differ */
            return at;
    return -1;
}

/* Equation (1) of grid_space.h with the times of its parts, less what cuts may save. */
static void raise_bound(const struct grid_shape *shape, const struct grid_place *point,
                        int64_t *bound_ns)
{
    int64_t closer = grid_least_ns(shape, point, shape->part);
    closer -= closer / SEAMS;
    *bound_ns = closer > *bound_ns ? closer : *bound_ns;
}

/* Adds to what is waited for before each cut of the space (0), at one place; all places before it are in `waits`. */
static weft_status note_waits(struct grid_walk *walk, struct run_question *question, bool first,
                              struct grid_part *waits)
{
    const struct grid_space *space = walk->space;
    weft_status status = WEFT_OK;
    int64_t before = 0;
    for (int64_t i = 1, at = 0; at + 1 < space->cuts; i++) {
        struct run_estimate run;
        if (!space->is_cut[i])
            continue;
        question->run.first = before;
        question->run.last = before = i;
        TRY(estimate_run(walk->estimator, question, &run));
        struct grid_part *least = &waits[++at];
        if (first || run.forward_waits_ns < least->forward_ns)
            least->forward_ns = run.forward_waits_ns;
        if (first || run.backward_waits_ns < least->backward_ns)
            least->backward_ns = run.backward_waits_ns;
    }
done:
    return status;
}

/* Finds what passes of FLOOR_SAMPLES wait for in the instances before each cut, where the replica is fastest. */
static weft_status find_waits(struct grid_walk *walk, struct grid_place point, int64_t devices,
                              struct grid_part *waits)
{
    const struct cluster *cluster = walk->space->request->cluster;
    weft_status status = WEFT_OK;
    point.micro_batches = UINT16_MAX; /* a replica by itself waits for as much in each of them */
    struct run_question question = alone_question(walk, &point, FLOOR_SAMPLES, devices);
    for (int64_t at = next_place(cluster, 0, devices); at >= 0;
         at = next_place(cluster, at + devices, devices)) {
        question.stage = (struct stage){at, devices};
        TRY(note_waits(walk, &question, at == 0, waits));
    }
    for (int32_t i = 1; i < walk->space->cuts; i++) {
        waits[i].forward_ns += waits[i - 1].forward_ns;
        waits[i].backward_ns += waits[i - 1].backward_ns;
    }
done:
    return status;
}

static weft_status waits_of(struct grid_walk *walk, const struct grid_place *point,
                            const struct grid_part **out)
{
    struct grid_layout *layout = &walk->space->layouts.data[point->layout];
    struct grid_part **waits = &layout->waits[point->level];
    weft_status status = WEFT_OK;
    int64_t devices = *waits ? 0 : grid_devices_alone(layout, walk->space->request->model->ops);
    if (devices) {
        *waits = ARENA_ARRAY(walk->space->arena, struct grid_part, (size_t)walk->space->cuts);
        TRY(find_waits(walk, *point, devices, *waits));
    }
    *out = *waits;
done:
    return status;
}

/* What operators take between two cuts, from sums before each. */
static struct floor_operators between(const int64_t *all, const int64_t *beside, int32_t first,
                                      int32_t last)
{
    return (struct floor_operators){all[last] - all[first], beside[last] - beside[first]};
}

static struct floor_operators forward_between(const struct grid_passes *p, int32_t first,
                                              int32_t last)
{
    return between(p->forward_ns, p->forward_beside_ns, first, last);
}

static struct floor_operators backward_between(const struct grid_passes *p, int level,
                                               int32_t first, int32_t last)
{
    return between(p->backward_ns[level], p->backward_beside_ns[level], first, last);
}

/* Bound (0) is for micro-batches of no more than its own, on devices of one type. */
static bool is_seen_from_afar(const struct grid_walk *walk, const struct grid_place *point)
{
    return point->micro_batch <= FLOOR_SAMPLES && !walk->space->request->cluster->pools;
}

/* The operators of a point's layout for so many samples. */
static struct grid_passes passes_with(struct grid_walk *walk, const struct grid_place *point,
                                      int64_t samples)
{
    struct grid_space *space = walk->space;
    return *grid_passes_of(space, &space->layouts.data[point->layout], samples,
                           point->micro_batches > 1, 0);
}

/* Computes bound (0). */
static weft_status look_from_afar(struct grid_walk *walk, const struct grid_place *point,
                                  int64_t *bound_ns)
{
    const struct grid_shape *shape = &walk->space->shapes.data[point->shape];
    const struct grid_part *waits;
    weft_status status = WEFT_OK;
    if (!is_seen_from_afar(walk, point))
        return WEFT_OK;
    TRY(waits_of(walk, point, &waits));
    struct grid_passes few = passes_with(walk, point, point->micro_batch);
    struct grid_passes many = passes_with(walk, point, FLOOR_SAMPLES);
    for (int64_t k = 0; waits && k < shape->pp * shape->pieces; k++) {
        int32_t from = shape->at[k], to = shape->at[k + 1];
        shape->part[k] = (struct grid_part){
            floor_with_waits_ns(point->micro_batch, forward_between(&few, from, to),
                                forward_between(&many, from, to),
                                waits[to].forward_ns - waits[from].forward_ns),
            floor_with_waits_ns(point->micro_batch, backward_between(&few, point->level, from, to),
                                backward_between(&many, point->level, from, to),
                                waits[to].backward_ns - waits[from].backward_ns)};
    }
    if (waits)
        raise_bound(shape, point, bound_ns);
done:
    return status;
}

/* Times each part's passes, and keeps the fastest of all positions. */
static weft_status time_parts(struct grid_walk *walk, const struct grid_place *point, int64_t at,
                              struct run_question *question)
{
    const struct grid_shape *shape = &walk->space->shapes.data[point->shape];
    const struct cluster *cluster = walk->space->request->cluster;
    weft_status status = WEFT_OK;
    bool first = at == 0;
    for (int64_t k = 0; k < shape->pp * shape->pieces; k++) {
        struct grid_part *part = &shape->part[k];
        struct run_estimate run;
        question->run.first = shape->cut[k];
        question->run.last = shape->cut[k + 1];
        question->stage.first_device =
            at + cluster_pool_first(cluster, grid_part_pool(walk->space, point, (int32_t)k));
        TRY(estimate_run(walk->estimator, question, &run));
        if (first || run.forward_ns < part->forward_ns)
            part->forward_ns = run.forward_ns;
        if (first || run.backward_ns < part->backward_ns)
            part->backward_ns = run.backward_ns;
    }
done:
    return status;
}

/* Computes bound (1) of grid.h. */
static weft_status look_closer(struct grid_walk *walk, const struct grid_place *point,
                               int64_t *bound_ns)
{
    const struct cluster *cluster = walk->space->request->cluster;
    const struct grid_layout *layout = &walk->space->layouts.data[point->layout];
    const struct grid_shape *shape = &walk->space->shapes.data[point->shape];
    int64_t devices = grid_devices_alone(layout, walk->space->request->model->ops);
    weft_status status = WEFT_OK;
    if (!devices || is_seen_from_afar(walk, point))
        return WEFT_OK;
    struct run_question question = alone_question(walk, point, point->micro_batch, devices);
    for (int64_t at = next_place(cluster, 0, devices); at >= 0;
         at = next_place(cluster, at + devices, devices)) {
        question.stage.devices = devices;
        TRY(time_parts(walk, point, at, &question));
    }
    raise_bound(shape, point, bound_ns);
done:
    return status;
}

/* A bound from an estimate that leaves something out, lowered by one part in `less`. */
static weft_status look_at(struct grid_walk *walk, const struct grid_place *point,
                           enum detail detail, int64_t less, int64_t *bound_ns)
{
    struct candidate *c = grid_candidate(walk, point);
    struct estimate estimate;
    weft_status status;
    if (c->stages == 1 || walk->space->layouts.data[point->layout].encoder_pp)
        return WEFT_OK; /* stages of different sizes are not alike */
    c->detail = detail;
    TRY(estimate_candidate(walk->estimator, c, &estimate));
    int64_t closer = estimate.iteration_ns - estimate.iteration_ns / less;
    *bound_ns = closer > *bound_ns ? closer : *bound_ns;
done:
    c->detail = DETAIL_ALL;
    return status;
}

/* Computes bound (2) of grid.h. */
static weft_status look_without_borders(struct grid_walk *walk, const struct grid_place *point,
                                        int64_t *bound_ns)
{
    struct grid_place less = *point;
    less.shard = point->shard > 1 ? 1 : point->shard;
    return look_at(walk, &less, DETAIL_BARE, BORDERS, bound_ns);
}

/* Computes bound (3) of grid.h. */
static weft_status look_at_one_border(struct grid_walk *walk, const struct grid_place *point,
                                      int64_t *bound_ns)
{
    return look_at(walk, point, DETAIL_ALIKE, PLACES, bound_ns);
}

weft_status grid_look(struct grid_walk *walk, struct grid_place *point, int look)
{
    static weft_status (*const LOOKS[])(struct grid_walk *, const struct grid_place *,
                                        int64_t *) = {look_from_afar, look_closer,
                                                      look_without_borders, look_at_one_border};
    _Static_assert(COUNT_OF(LOOKS) == GRID_LOOKS, "a look without its function");
    return LOOKS[look](walk, point, &point->bound_ns);
}
