/* order.c - one order of all tasks of the graph, which every rank that runs ahead of its device keeps.
 *
 * Such a rank gives its device everything without waiting for it (in_order.c), and transfers over a GPU's
 * own library are matched by the order in which they are given alone. Tasks are ordered by
 *
 *   (begin, computation after transfers, number)                                                  (1)
 *
 * where begin is the earliest moment at which a task can run if a task of computation lasts as long as it
 * has items and everything else takes no time: a transfer comes as soon as what it waits for has been given.
 *
 *   I1  The order depends on the graph alone, so that all ranks find the same.
 *   I2  No task comes before one that it depends on, nor before one that its stream has earlier on any of
 *       its devices. So the first task in the order that is not over can always go on: all of its ranks
 *       have given everything before it, and that is over. No order of transfers can block another.
 */
#include "run/rank/room.h"

#include <stdlib.h>
#include <string.h>

struct succession {
    int32_t before, after;
};

struct ordering {
    const struct graph *graph;
    struct arena *scratch;
    ARRAY(struct succession) pairs;
    int32_t *last;     /* per device and stream: its last task so far */
    int32_t *deferred; /* per device and bucket: what the iteration before has left of it */
};

static void succeed(struct ordering *o, int32_t before, int32_t after)
{
    struct succession pair = {before, after};
    if (before >= 0)
        array_push(o->scratch, &o->pairs, pair);
}

/* A task on one of its devices. */
static void place(struct ordering *o, int32_t number, int64_t device)
{
    const struct task *task = &o->graph->task[number];
    int32_t *last = &o->last[device * STREAM_COUNT + task->stream];
    succeed(o, *last, number);
    *last = number;
    if (task->purpose != PURPOSE_DATA || task->about < 0)
        return;
    int32_t *deferred = &o->deferred[device * o->graph->buckets + task->about];
    bool overlaps = o->graph->plan->overlap & OVERLAP_GRADIENTS;
    if (task->stream == STREAM_GRADIENT && task->micro_batch < 0 && overlaps)
        *deferred = number;
    else if (task->stream == STREAM_PARAMETER)
        succeed(o, *deferred, number); /* program.c, I3 */
}

static void place_on_all(struct ordering *o, int32_t number)
{
    const struct graph *graph = o->graph;
    const struct task *task = &graph->task[number];
    const struct exchange *e = task->exchange < 0 ? NULL : &graph->exchange[task->exchange];
    if (!e || e->kind != EXCHANGE_COLLECTIVE || e->collective == COLLECTIVE_SEND) {
        place(o, number, graph->device[task->device].device);
        return;
    }
    struct group group = pattern_group(&graph->pattern[e->pattern], e->group);
    for (int64_t i = 0; i < group_size(&group); i++)
        place(o, number, group_device(&group, i));
}

static void find_pairs(struct ordering *o)
{
    const struct graph *graph = o->graph;
    size_t places = (size_t)graph->devices * STREAM_COUNT;
    size_t buckets = (size_t)graph->devices * (size_t)graph->buckets;
    o->last = ARENA_ARRAY(o->scratch, int32_t, places);
    o->deferred = ARENA_ARRAY(o->scratch, int32_t, buckets);
    memset(o->last, -1, places * sizeof *o->last);
    memset(o->deferred, -1, buckets * sizeof *o->deferred);
    for (int32_t t = 0; t < graph->tasks; t++) {
        place_on_all(o, t);
        for (int64_t d = graph->depends_first[t]; d < graph->depends_first[t + 1]; d++)
            succeed(o, graph->depends[d], t);
    }
}

static int by_first(const void *a, const void *b)
{
    const struct succession *x = a, *y = b;
    return (x->before > y->before) - (x->before < y->before);
}

static int64_t duration(const struct task *task)
{
    return task->stream == STREAM_COMPUTE ? task->items + 1 : 0;
}

/* (1) without the number, which breaks ties in the heap. */
static int64_t key_at(const struct task *task, int64_t begin)
{
    return 2 * begin + (task->stream == STREAM_COMPUTE);
}

/* Takes the tasks out in order, each when all before it are out. */
static weft_status take_all(struct ordering *o, int32_t *rank_of)
{
    const struct graph *graph = o->graph;
    int32_t tasks = graph->tasks, taken = 0;
    int32_t *waits = ARENA_ARRAY(o->scratch, int32_t, (size_t)tasks);
    int32_t *first = ARENA_ARRAY(o->scratch, int32_t, (size_t)tasks + 1);
    int64_t *begin = ARENA_ARRAY(o->scratch, int64_t, (size_t)tasks);
    struct heap heap = heap_new(o->scratch, tasks);
    if (o->pairs.len)
        qsort(o->pairs.data, o->pairs.len, sizeof *o->pairs.data, by_first);
    for (size_t i = 0; i < o->pairs.len; i++) {
        waits[o->pairs.data[i].after]++;
        first[o->pairs.data[i].before + 1]++;
    }
    for (int32_t t = 0; t < tasks; t++) {
        first[t + 1] += first[t];
        if (waits[t] == 0)
            heap_set(&heap, t, key_at(&graph->task[t], 0));
    }
    while (heap.slot.len) {
        int32_t t = heap_pop(&heap).id;
        int64_t end = begin[t] + duration(&graph->task[t]);
        rank_of[t] = taken++;
        for (int32_t i = first[t]; i < first[t + 1]; i++) {
            int32_t next = o->pairs.data[i].after;
            begin[next] = begin[next] > end ? begin[next] : end;
            if (--waits[next] == 0)
                heap_set(&heap, next, key_at(&graph->task[next], begin[next]));
        }
    }
    return taken == tasks ? WEFT_OK : failure("the tasks of this plan have no order");
}

struct placed {
    int32_t place, job;
};

static int by_place(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

weft_status find_order(struct rank *r)
{
    struct program *p = &r->program;
    struct ordering o = {.graph = r->graph, .scratch = arena_new()};
    int32_t *rank_of = ARENA_ARRAY(o.scratch, int32_t, (size_t)r->graph->tasks);
    struct placed *placed = ARENA_ARRAY(o.scratch, struct placed, (size_t)p->jobs);
    weft_status status;
    find_pairs(&o);
    TRY(take_all(&o, rank_of));
    for (int32_t i = 0; i < p->jobs; i++)
        placed[i] = (struct placed){rank_of[p->job[i].task], i};
    if (p->jobs)
        qsort(placed, (size_t)p->jobs, sizeof *placed, by_place);
    p->order = ARENA_ARRAY(r->arena, int32_t, (size_t)p->jobs);
    for (int32_t i = 0; i < p->jobs; i++)
        p->order[i] = placed[i].job;
done:
    arena_free(o.scratch);
    return status;
}
