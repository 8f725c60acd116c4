/* grid.c - branch and bound over the grid (grid.h). */
#include "search/auto/grid.h"

#include <stdlib.h>

#include "search/auto/grid_walk.h"
#include "search/estimate/estimate.h"

/* Copies of a layer that tables compile: the fewest there may be, because fewer take less time. */
enum { COPIES = 3 };
/* Points kept for I5: the first may reserve more than there would be. */
enum { ROOMIER = 4 };

/* ---- estimates ------------------------------------------------------------------------------- */

static weft_status estimate_point(struct grid_walk *walk, const struct grid_place *point,
                                  struct grid_point *out)
{
    struct estimate estimate;
    weft_status status;
    TRY(estimate_candidate(walk->estimator, grid_candidate(walk, point), &estimate));
    double room = (double)walk->space->limit_bytes * (1 + GRID_SLACK);
    int64_t peak_bytes = grid_peak_bytes(walk->space, &estimate);
    *out = (struct grid_point){.degrees = grid_degrees(walk->space, point),
                               .bound_ns = point->bound_ns,
                               .bound_bytes = point->bound_bytes,
                               .iteration_ns = estimate.iteration_ns,
                               .peak_bytes = peak_bytes,
                               .fits = (double)peak_bytes <= room};
    walk->out->estimates++;
done:
    return status;
}

/* ---- the best so far ------------------------------------------------------------------------- */

/* Orders by time or by memory, then by the other; of equal points the first stays first. */
static bool before(const struct grid_point *a, const struct grid_point *b, bool by_memory)
{
    int64_t first[] = {a->iteration_ns, a->peak_bytes}, other[] = {b->iteration_ns, b->peak_bytes};
    if (first[by_memory] != other[by_memory])
        return first[by_memory] < other[by_memory];
    return first[!by_memory] < other[!by_memory];
}

static void note_in(struct grid_walk *walk, struct grid_points *list, size_t most,
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

static void note(struct grid_walk *walk, const struct grid_point *point, bool by_memory)
{
    note_in(walk, &walk->out->best, walk->count, point, by_memory);
}

/* Keeps a point for I5. */
static void note_roomier(struct grid_walk *walk, const struct grid_point *point)
{
    double room = (double)(walk->space->limit_bytes + WHAT_IF_MORE_BYTES) * (1 - GRID_SLACK);
    if ((double)point->peak_bytes <= room)
        note_in(walk, &walk->out->roomier, ROOMIER, point, false);
}

/* Keeps the best point of each number of stages and pieces (I6). */
static void note_shape(struct grid_walk *walk, const struct grid_point *point)
{
    struct grid_points *list = &walk->by_shape;
    for (size_t i = 0; i < list->len; i++) {
        struct grid_point *known = &list->data[i];
        if (known->degrees.pp != point->degrees.pp ||
            known->degrees.pieces != point->degrees.pieces)
            continue;
        if (before(point, known, false))
            *known = *point;
        return;
    }
    array_push(walk->space->arena, list, *point);
}

static const struct grid_point *best_shape(const struct grid_walk *walk, int64_t pp,
                                           int64_t most_parts)
{
    const struct grid_point *best = NULL;
    for (size_t i = 0; i < walk->by_shape.len; i++) {
        const struct grid_point *point = &walk->by_shape.data[i];
        if (point->degrees.pp == pp && pp * point->degrees.pieces <= most_parts &&
            (!best || before(point, best, false)))
            best = point;
    }
    return best;
}

static bool is_full(const struct grid_walk *walk)
{
    return walk->out->best.len == walk->count;
}

static const struct grid_point *last_of(const struct grid_walk *walk)
{
    return &walk->out->best.data[walk->out->best.len - 1];
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* The points that need more than so many bytes by their bounds, but not more than `most` (I2, I5). */
static struct heap front_between(const struct grid_space *space, double least, double most)
{
    int32_t points = (int32_t)space->points.len;
    struct heap front = heap_new(space->arena, points);
    for (int32_t i = 0; i < points; i++) {
        double bytes = (double)space->points.data[i].bound_bytes;
        if (bytes > least && bytes <= most)
            heap_set(&front, i, space->points.data[i].bound_ns);
    }
    return front;
}

/* The points with this many stages that were not estimated before (I6). */
static struct heap front_with(const struct grid_walk *walk, int64_t pp, int64_t most_parts)
{
    const struct grid_space *space = walk->space;
    int32_t points = (int32_t)space->points.len;
    double room = (double)space->limit_bytes * (1 + GRID_SLACK);
    struct heap front = heap_new(space->arena, points);
    for (int32_t i = 0; i < points; i++) {
        const struct grid_place *place = &space->points.data[i];
        const struct grid_shape *shape = &space->shapes.data[place->shape];
        if (shape->pp - shape->encoder_pp == pp && pp * shape->pieces <= most_parts &&
            (double)place->bound_bytes <= room && walk->looks[i] <= GRID_LOOKS)
            heap_set(&front, i, place->bound_ns);
    }
    return front;
}

/* Takes a closer look at a point, which then waits for another turn, or estimates it: *done. */
static weft_status take_turn(struct grid_walk *walk, struct heap *front, int32_t number,
                             struct grid_point *out, bool *done)
{
    struct grid_place *place = &walk->space->points.data[number];
    uint8_t look = walk->looks[number]++;
    weft_status status = WEFT_OK;
    *done = look >= GRID_LOOKS;
    if (*done) {
        TRY(estimate_point(walk, place, out));
        if (out->fits)
            note_shape(walk, out);
    } else {
        TRY(grid_look(walk, place, look));
        heap_set(front, number, place->bound_ns);
    }
done:
    return status;
}

/* A budget that is spent still has an answer. */
static bool is_over(const struct grid_walk *walk)
{
    const struct plan_request *request = walk->space->request;
    return plan_interrupted(request) || (walk->out->best.len && plan_stopped(request));
}

/* A point with such a bound can no longer be among the K best (I1, I7). */
static bool is_late(const struct grid_walk *walk, int64_t bound_ns)
{
    int64_t known_ns = walk->space->request->known_ns;
    return (is_full(walk) && bound_ns > last_of(walk)->iteration_ns) ||
           (known_ns && bound_ns > known_ns);
}

static weft_status walk_by_time(struct grid_walk *walk)
{
    const struct grid_space *space = walk->space;
    struct heap front = front_between(space, -1, (double)space->limit_bytes * (1 + GRID_SLACK));
    weft_status status = WEFT_OK;
    while (front.slot.len && !is_over(walk)) {
        struct heap_entry entry = heap_pop(&front);
        struct grid_point point;
        bool done;
        if (is_late(walk, entry.key))
            break;
        if (plan_stopped(space->request)) /* the first that fits is the answer */
            walk->looks[entry.id] = GRID_LOOKS;
        TRY(take_turn(walk, &front, entry.id, &point, &done));
        if (done && point.fits)
            note(walk, &point, false);
        else if (done)
            note_roomier(walk, &point);
    }
done:
    return status;
}

/* I5: points that cannot fit, as long as they may be faster than the best that does. */
static weft_status walk_roomier(struct grid_walk *walk)
{
    const struct grid_space *space = walk->space;
    const struct grid_points *found = &walk->out->roomier;
    double room = (double)space->limit_bytes, more = room + (double)WHAT_IF_MORE_BYTES;
    struct heap front = front_between(space, room * (1 + GRID_SLACK), more * (1 + GRID_SLACK));
    weft_status status = WEFT_OK;
    while (front.slot.len && !is_over(walk)) {
        struct heap_entry entry = heap_pop(&front);
        struct grid_point point;
        bool done;
        if (entry.key > walk->out->best.data[0].iteration_ns ||
            (found->len == ROOMIER && entry.key > found->data[ROOMIER - 1].iteration_ns))
            break;
        TRY(take_turn(walk, &front, entry.id, &point, &done));
        if (done)
            note_roomier(walk, &point);
    }
done:
    return status;
}

weft_status grid_best_with(struct grid_walk *walk, int64_t pp, int64_t most_parts,
                           struct grid_point *out, bool *found)
{
    const struct grid_space *space = walk->space;
    struct heap front = front_with(walk, pp, most_parts);
    weft_status status = WEFT_OK;
    const struct grid_point *best = best_shape(walk, pp, most_parts);
    while (front.slot.len && !plan_stopped(space->request)) {
        struct heap_entry entry = heap_pop(&front);
        bool done;
        if (best && entry.key > best->iteration_ns)
            break;
        TRY(take_turn(walk, &front, entry.id, out, &done));
        best = best_shape(walk, pp, most_parts);
    }
    *found = best != NULL;
    if (best)
        *out = *best;
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

static weft_status walk_by_memory(struct grid_walk *walk)
{
    struct grid_space *space = walk->space;
    weft_status status = WEFT_OK;
    if (space->points.len)
        qsort(space->points.data, space->points.len, sizeof *space->points.data, by_bytes);
    for (size_t i = 0; i < space->points.len && !is_over(walk); i++) {
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

struct estimate_settings grid_estimate_settings(const struct plan_request *request,
                                                const struct plan *plan)
{
    struct estimate_settings settings = estimate_settings_of(plan);
    settings.profile = request->profile;
    settings.flows = request->flows;
    settings.copies = COPIES;
    if (request->pins.order) /* a run of its own for each layout: simulations know it */
        settings.stage_run = 0;
    return settings;
}

static weft_status open_walk(const struct plan_request *request, struct cost *cost,
                             struct arena *keep, struct grid *out, struct grid_walk **walk)
{
    struct grid_space *space;
    weft_status status;
    *walk = NULL;
    *out = (struct grid){0};
    TRY(grid_space_new(request, cost, &space));
    *walk = ARENA_NEW(space->arena, struct grid_walk);
    **walk = (struct grid_walk){.space = space, .keep = keep, .out = out};
    (*walk)->looks = ARENA_ARRAY(space->arena, uint8_t, space->points.len);
    out->points = (int64_t)space->points.len;
    if (!space->layouts.len)
        return WEFT_OK;
    struct estimate_settings settings =
        grid_estimate_settings(request, space->layouts.data[0].plan);
    (*walk)->own = !request->estimators;
    if (request->estimators)
        TRY(estimators_find(request->estimators, &settings, &(*walk)->estimator));
    else
        TRY(estimator_new(&settings, &(*walk)->estimator));
done:
    return status;
}

void grid_walk_free(struct grid_walk *walk)
{
    if (!walk)
        return;
    if (walk->own)
        estimator_free(walk->estimator);
    grid_space_free(walk->space); /* this also frees the walk itself */
}

weft_status grid_walk_new(const struct plan_request *request, struct cost *cost, size_t count,
                          struct arena *keep, struct grid *out, struct grid_walk **walk)
{
    weft_status status;
    TRY(open_walk(request, cost, keep, out, walk));
    (*walk)->count = count;
    TRY(walk_by_time(*walk));
    if (out->best.len)
        TRY(walk_roomier(*walk));
    else if (!request->known_ns)
        TRY(walk_by_memory(*walk));
done:
    return status;
}

weft_status grid_search(const struct plan_request *request, struct cost *cost, size_t count,
                        struct arena *keep, struct grid *out)
{
    struct grid_walk *walk;
    weft_status status = grid_walk_new(request, cost, count, keep, out, &walk);
    grid_walk_free(walk);
    return status;
}

weft_status grid_search_fitting(const struct plan_request *request, struct cost *cost, size_t count,
                                struct arena *keep, struct grid *out)
{
    struct grid_walk *walk;
    weft_status status;
    TRY(open_walk(request, cost, keep, out, &walk));
    walk->count = count;
    TRY(walk_by_time(walk));
done:
    grid_walk_free(walk);
    return status;
}

weft_status grid_estimate_all(const struct plan_request *request, struct cost *cost,
                              struct arena *keep, struct grid *out)
{
    struct grid_walk *walk;
    weft_status status;
    TRY(open_walk(request, cost, keep, out, &walk));
    for (size_t i = 0; i < walk->space->points.len; i++) {
        struct grid_place *place = &walk->space->points.data[i];
        struct grid_point point;
        for (int k = 0; k < GRID_LOOKS; k++)
            TRY(grid_look(walk, place, k));
        TRY(estimate_point(walk, place, &point));
        array_push(keep, &out->best, point);
    }
done:
    grid_walk_free(walk);
    return status;
}
