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

/* Finds the whole model's passes per sample (0), where the replica is fastest. */
static weft_status time_floor(struct grid_walk *walk, struct grid_place point, int64_t devices,
                              double *least_ns)
{
    const struct cluster *cluster = walk->space->request->cluster;
    weft_status status = WEFT_OK;
    point.micro_batches = floor_micro_batches(point.micro_batches);
    struct run_question question = alone_question(walk, &point, FLOOR_SAMPLES, devices);
    question.run.last = walk->space->layouts.data[point.layout].plan->instances;
    for (int64_t at = next_place(cluster, 0, devices); at >= 0;
         at = next_place(cluster, at + devices, devices))
        for (int32_t p = 0; p < cluster_pools(cluster); p++) {
            struct run_estimate run;
            question.stage = (struct stage){cluster_pool_first(cluster, p) + at, devices};
            TRY(estimate_run(walk->estimator, &question, &run));
            double ns = floor_ns(&run);
            *least_ns = (at == 0 && p == 0) || ns < *least_ns ? ns : *least_ns;
        }
done:
    return status;
}

/* Computes bound (0). */
static weft_status look_from_afar(struct grid_walk *walk, const struct grid_place *point,
                                  int64_t *bound_ns)
{
    struct grid_layout *layout = &walk->space->layouts.data[point->layout];
    double *least_ns = &layout->floor_ns[point->level][point->micro_batches > 1];
    weft_status status = WEFT_OK;
    if (point->micro_batch > FLOOR_SAMPLES)
        return WEFT_OK;
    int64_t devices =
        *least_ns > 0 ? 0 : grid_devices_alone(layout, walk->space->request->model->ops);
    if (devices)
        TRY(time_floor(walk, *point, devices, least_ns));
    double all = *least_ns * (double)(point->micro_batch * point->micro_batches);
    int64_t closer = (int64_t)(all / (double)layout->pp);
    *bound_ns = closer > *bound_ns ? closer : *bound_ns;
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
    if (!devices)
        return WEFT_OK;
    struct run_question question = alone_question(walk, point, point->micro_batch, devices);
    for (int64_t at = next_place(cluster, 0, devices); at >= 0;
         at = next_place(cluster, at + devices, devices)) {
        question.stage.devices = devices;
        TRY(time_parts(walk, point, at, &question));
    }
    int64_t closer = grid_least_ns(shape, point, shape->part);
    closer -= closer / SEAMS;
    *bound_ns = closer > *bound_ns ? closer : *bound_ns;
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
