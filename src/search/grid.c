/* grid.c - branch and bound over the grid (grid.h). */
#include "search/grid.h"

#include <stdlib.h>

#include "search/estimate.h"
#include "search/grid_space.h"
#include "search/what_if.h"

/* Copies of a layer that tables compile: fewer take less time, these are the fewest there may be. */
enum { COPIES = 3 };
/* Passes of a part by itself may be up to one in so many faster than its share of the whole model's:
 * a collective between two of its operators is a send where they are cut. */
enum { SEAMS = 32 };
/* The same of an estimate whose parts are shares of the whole model's passes and send nothing. */
enum { BORDERS = 16, BORDERS_SHARDED = 3 };
enum { ROOMIER = 1 }; /* points kept of I5 */

struct walk {
    struct grid_space *space;
    struct estimator *estimator;
    struct arena *keep;
    struct grid *out;
    size_t count;
};

/* ---- estimates ------------------------------------------------------------------------------- */

static int32_t row_of(struct walk *walk, const struct grid_place *point)
{
    struct grid_layout *layout = &walk->space->layouts.data[point->layout];
    int32_t *row = &layout->row[point->recompute][point->shard];
    size_t ops = (size_t)walk->space->request->model->ops;
    if (*row)
        return *row - 1;
    struct choice *choice = ARENA_ARRAY(walk->space->arena, struct choice, ops);
    for (size_t i = 0; i < ops; i++) {
        choice[i] = layout->choice[point->recompute][i];
        choice[i].shard = point->shard;
    }
    *row = estimator_row(walk->estimator, choice) + 1;
    return *row - 1;
}

static struct candidate *candidate_of(struct walk *walk, const struct grid_place *point)
{
    const struct grid_layout *layout = &walk->space->layouts.data[point->layout];
    struct grid_shape *shape = &walk->space->shapes.data[point->shape];
    int32_t parts = (int32_t)(shape->pp * shape->pieces), row = row_of(walk, point);
    int64_t devices = walk->space->devices / shape->pp;
    if (!shape->candidate)
        shape->candidate =
            candidate_new(walk->space->arena, (int32_t)shape->pp, (int32_t)shape->pieces, parts);
    struct candidate *c = shape->candidate;
    c->schedule = grid_schedule(point);
    c->batch_per_step = layout->dp * point->micro_batch;
    c->micro_batches = point->micro_batches;
    for (int32_t s = 0; s < c->stages; s++)
        c->stage[s] = (struct stage){s * devices, devices};
    for (int32_t k = 0; k < parts; k++) {
        c->first_run[k + 1] = k + 1;
        c->run[k] = (struct candidate_run){shape->cut[k], shape->cut[k + 1], row};
    }
    return c;
}

static weft_status estimate_point(struct walk *walk, const struct grid_place *point,
                                  struct grid_point *out)
{
    struct estimate estimate;
    weft_status status;
    TRY(estimate_candidate(walk->estimator, candidate_of(walk, point), &estimate));
    double room = (double)estimate.limit_bytes * (1 + GRID_SLACK);
    *out = (struct grid_point){.degrees = grid_degrees(walk->space, point),
                               .bound_ns = point->bound_ns,
                               .bound_bytes = point->bound_bytes,
                               .iteration_ns = estimate.iteration_ns,
                               .peak_bytes = estimate.peak_bytes,
                               .fits = (double)estimate.peak_bytes <= room};
    walk->out->estimates++;
done:
    return status;
}

/* ---- a closer bound -------------------------------------------------------------------------- */

/* The choices of one replica: nothing is split by samples. */
static int32_t row_alone(struct walk *walk, const struct grid_place *point)
{
    struct grid_layout *layout = &walk->space->layouts.data[point->layout];
    int32_t *row = &layout->alone[point->recompute];
    size_t ops = (size_t)walk->space->request->model->ops;
    if (*row)
        return *row - 1;
    struct choice *choice = ARENA_ARRAY(walk->space->arena, struct choice, ops);
    for (size_t i = 0; i < ops; i++) {
        const struct split *split = &layout->choice[point->recompute][i].split;
        choice[i] = layout->choice[point->recompute][i];
        choice[i].split = split_none();
        for (int32_t k = 0; k < split->parts; k++)
            if (split->part[k].dim != DIM_BATCH)
                split_add(&choice[i].split, split->part[k].dim, split->part[k].degree);
    }
    *row = estimator_row(walk->estimator, choice) + 1;
    return *row - 1;
}

/* Whether a replica that starts with this device may be faster than those before it. */
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

/* Each part's passes, where they are the faster. */
static weft_status time_parts(struct walk *walk, const struct grid_shape *shape,
                              struct run_question *question)
{
    weft_status status = WEFT_OK;
    bool first = question->stage.first_device == 0;
    for (int64_t k = 0; k < shape->pp * shape->pieces; k++) {
        struct grid_part *part = &shape->part[k];
        struct run_estimate run;
        question->run.first = shape->cut[k];
        question->run.last = shape->cut[k + 1];
        TRY(estimate_run(walk->estimator, question, &run));
        if (first || run.forward_ns < part->forward_ns)
            part->forward_ns = run.forward_ns;
        if (first || run.backward_ns < part->backward_ns)
            part->backward_ns = run.backward_ns;
    }
done:
    return status;
}

/* grid.h (1). */
static weft_status look_closer(struct walk *walk, const struct grid_place *point, int64_t *bound_ns)
{
    const struct cluster *cluster = walk->space->request->cluster;
    const struct grid_layout *layout = &walk->space->layouts.data[point->layout];
    const struct grid_shape *shape = &walk->space->shapes.data[point->shape];
    int64_t devices = layout->tp * layout->cp;
    weft_status status = WEFT_OK;
    *bound_ns = point->bound_ns;
    if (layout->ep > 1)
        return WEFT_OK;
    struct run_question question = {.run = {.row = row_alone(walk, point)},
                                    .schedule = schedule_find("1f1b"),
                                    .batch_per_step = point->micro_batch,
                                    .micro_batches = point->micro_batches};
    for (int64_t at = 0; at == 0 || at + devices <= cluster->node.devices; at += devices)
        if (lies_anew(cluster, at, devices)) {
            question.stage = (struct stage){at, devices};
            TRY(time_parts(walk, shape, &question));
        }
    int64_t closer = grid_least_ns(shape, point, shape->part);
    closer -= closer / SEAMS;
    *bound_ns = closer > *bound_ns ? closer : *bound_ns;
done:
    return status;
}

/* grid.h (2). */
static weft_status look_without_borders(struct walk *walk, const struct grid_place *point,
                                        int64_t *bound_ns)
{
    struct candidate *c = candidate_of(walk, point);
    struct estimate estimate;
    weft_status status;
    int64_t less = point->shard > 1 ? BORDERS_SHARDED : BORDERS;
    if (c->stages == 1)
        return WEFT_OK;
    c->bare = true;
    TRY(estimate_candidate(walk->estimator, c, &estimate));
    int64_t closer = estimate.iteration_ns - estimate.iteration_ns / less;
    *bound_ns = closer > *bound_ns ? closer : *bound_ns;
done:
    c->bare = false;
    return status;
}

static weft_status (*const LOOKS[])(struct walk *, const struct grid_place *,
                                    int64_t *) = {look_closer, look_without_borders};

/* ---- the best so far ------------------------------------------------------------------------- */

/* By time or by memory, then by the other; the first of equals stays first. */
static bool before(const struct grid_point *a, const struct grid_point *b, bool by_memory)
{
    int64_t first[] = {a->iteration_ns, a->peak_bytes}, other[] = {b->iteration_ns, b->peak_bytes};
    if (first[by_memory] != other[by_memory])
        return first[by_memory] < other[by_memory];
    return first[!by_memory] < other[!by_memory];
}

static void note_in(struct walk *walk, struct grid_points *list, size_t most,
                    const struct grid_point *point, bool by_memory)
{
    size_t at = list->len;
    if (at == most && !before(point, &list->data[at - 1], by_memory))
        return;
    if (at < most)
        array_push(walk->keep, list, *point);
    else
        at--;
    for (; at > 0 && before(point, &list->data[at - 1], by_memory); at--)
        list->data[at] = list->data[at - 1];
    list->data[at] = *point;
}

static void note(struct walk *walk, const struct grid_point *point, bool by_memory)
{
    note_in(walk, &walk->out->best, walk->count, point, by_memory);
}

/* I5 */
static void note_roomier(struct walk *walk, const struct grid_point *point)
{
    double room = (double)(walk->space->limit_bytes + WHAT_IF_MORE_BYTES) * (1 - GRID_SLACK);
    if ((double)point->peak_bytes <= room)
        note_in(walk, &walk->out->roomier, ROOMIER, point, false);
}

/* I5: a point that cannot fit is worth a look as long as it may be faster than what does. */
static bool is_idle(const struct walk *walk, const struct grid_place *place, int64_t bound_ns)
{
    const struct grid *out = walk->out;
    bool slow =
        (out->best.len && bound_ns > out->best.data[0].iteration_ns) ||
        (out->roomier.len == ROOMIER && bound_ns > out->roomier.data[ROOMIER - 1].iteration_ns);
    double room = (double)walk->space->limit_bytes * (1 + GRID_SLACK);
    return slow && (double)place->bound_bytes > room;
}

static bool is_full(const struct walk *walk)
{
    return walk->out->best.len == walk->count;
}

static const struct grid_point *last_of(const struct walk *walk)
{
    return &walk->out->best.data[walk->out->best.len - 1];
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* What a point cannot be faster than, closer the second time it is asked for. */
struct front {
    struct heap heap; /* points by bound */
    uint8_t *looks;   /* per point: taken so far */
};

static struct front front_of(const struct grid_space *space)
{
    int32_t points = (int32_t)space->points.len;
    double room = (double)(space->limit_bytes + WHAT_IF_MORE_BYTES) * (1 + GRID_SLACK);
    struct front front = {heap_new(space->arena, points),
                          ARENA_ARRAY(space->arena, uint8_t, (size_t)points)};
    for (int32_t i = 0; i < points; i++)
        if ((double)space->points.data[i].bound_bytes <= room) /* I2, I5 */
            heap_set(&front.heap, i, space->points.data[i].bound_ns);
    return front;
}

static weft_status walk_by_time(struct walk *walk)
{
    const struct grid_space *space = walk->space;
    struct front front = front_of(space);
    weft_status status = WEFT_OK;
    while (front.heap.slot.len && !plan_stopped(space->request)) {
        struct heap_entry entry = heap_pop(&front.heap);
        struct grid_place *place = &space->points.data[entry.id];
        struct grid_point point;
        if (is_full(walk) && entry.key > last_of(walk)->iteration_ns)
            break;
        if (is_idle(walk, place, entry.key))
            continue;
        if (front.looks[entry.id] < COUNT_OF(LOOKS)) {
            TRY(LOOKS[front.looks[entry.id]++](walk, place, &place->bound_ns));
            heap_set(&front.heap, entry.id, place->bound_ns);
            continue;
        }
        TRY(estimate_point(walk, place, &point));
        if (point.fits)
            note(walk, &point, false);
        else
            note_roomier(walk, &point);
    }
done:
    return status;
}

static int by_bytes(const void *a, const void *b)
{
    const struct grid_place *x = a, *y = b;
    if (x->bound_bytes != y->bound_bytes)
        return x->bound_bytes < y->bound_bytes ? -1 : 1;
    if (x->bound_ns != y->bound_ns)
        return x->bound_ns < y->bound_ns ? -1 : 1;
    return (x > y) - (x < y);
}

static weft_status walk_by_memory(struct walk *walk)
{
    struct grid_space *space = walk->space;
    weft_status status = WEFT_OK;
    if (space->points.len)
        qsort(space->points.data, space->points.len, sizeof *space->points.data, by_bytes);
    for (size_t i = 0; i < space->points.len && !plan_stopped(space->request); i++) {
        const struct grid_place *place = &space->points.data[i];
        struct grid_point point;
        if (is_full(walk) && place->bound_bytes > last_of(walk)->peak_bytes)
            break;
        TRY(estimate_point(walk, place, &point));
        note(walk, &point, true);
    }
done:
    return status;
}

static weft_status open_walk(const struct plan_request *request, struct cost *cost,
                             struct walk *walk)
{
    weft_status status;
    TRY(grid_space_new(request, cost, &walk->space));
    walk->out->points = (int64_t)walk->space->points.len;
    if (!walk->space->layouts.len)
        return WEFT_OK;
    struct estimate_settings settings = estimate_settings_of(walk->space->layouts.data[0].plan);
    settings.profile = request->profile;
    settings.copies = COPIES;
    TRY(estimator_new(&settings, &walk->estimator));
done:
    return status;
}

static void close_walk(struct walk *walk)
{
    estimator_free(walk->estimator);
    grid_space_free(walk->space);
}

weft_status grid_search(const struct plan_request *request, struct cost *cost, size_t count,
                        struct arena *keep, struct grid *out)
{
    struct walk walk = {.keep = keep, .out = out, .count = count};
    weft_status status;
    *out = (struct grid){0};
    TRY(open_walk(request, cost, &walk));
    TRY(walk_by_time(&walk));
    if (!out->best.len)
        TRY(walk_by_memory(&walk));
done:
    close_walk(&walk);
    return status;
}

weft_status grid_estimate_all(const struct plan_request *request, struct cost *cost,
                              struct arena *keep, struct grid *out)
{
    struct walk walk = {.keep = keep, .out = out};
    weft_status status;
    *out = (struct grid){0};
    TRY(open_walk(request, cost, &walk));
    for (size_t i = 0; i < walk.space->points.len; i++) {
        struct grid_place *place = &walk.space->points.data[i];
        struct grid_point point;
        for (size_t k = 0; k < COUNT_OF(LOOKS); k++)
            TRY(LOOKS[k](&walk, place, &place->bound_ns));
        TRY(estimate_point(&walk, place, &point));
        array_push(keep, &out->best, point);
    }
done:
    close_walk(&walk);
    return status;
}
