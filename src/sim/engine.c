/* engine.c - the loop over events: starts, ends and speeds (engine.h has the equations). */
#include "sim/engine_room.h"

#include <math.h>
#include <string.h>

#include "sim/deadlock.h"
#include "sim/quiet.h"

static const double OVER = 0x1p-38; /* share of a task that counts as done (I2) */
static const double LOADS =
    0x1p-19; /* share of a link's capacity: more than the rounding of its load (share.h, I5) */
static const double NS_PER_S = 1e9;

/* ---- ends ------------------------------------------------------------------------------------ */

static void make_ready(struct engine *engine, int32_t task)
{
    engine->ready[engine->ready_count++] = task;
}

static void release(struct engine *engine, int32_t task, int64_t end_ns)
{
    struct node *node = &engine->nodes.node[task];
    if (node->start_ns < end_ns)
        node->start_ns = end_ns; /* (1) */
    if (!--node->pending)
        make_ready(engine, task);
}

static void finish(struct engine *engine, int32_t task, int64_t end_ns)
{
    struct node *node = &engine->nodes.node[task];
    node->ns = end_ns;
    engine->done++;
    for (int32_t i = 0; i < FEW && node->then[i] >= 0; i++)
        release(engine, node->then[i], end_ns);
    for (int32_t i = node->more; i >= 0; i = engine->nodes.more.data[i].more)
        release(engine, engine->nodes.more.data[i].task, end_ns);
    if (node->next >= 0)
        release(engine, node->next, end_ns);
}

static void write_times(struct engine *engine)
{
    struct engine_result *result = engine->result;
    for (int32_t t = 0; t < engine->graph->tasks; t++) {
        const struct node *node = &engine->nodes.node[t];
        result->start_ns[t] = node->start_ns;
        result->end_ns[t] = node->ns;
        result->busy_ns[node->stream] += node->ns - node->start_ns;
        if (node->ns > result->end)
            result->end = node->ns;
    }
}

/* ---- starts ---------------------------------------------------------------------------------- */

static bool slows(const struct engine_graph *graph, int32_t device)
{
    return graph->device_slowdown && device >= 0 && graph->device_slowdown[device] > 1;
}

static bool stream_slows(const struct engine_graph *graph, int32_t stream)
{
    return graph->device_slowdown && slows(graph, graph->stream_device[stream]);
}

/* The bytes on its busiest link (share.h, W_f), the least time of its transfer, and of those that it stands for. */
struct flow_extent {
    double bytes, ns, all_ns;
};

static struct flow_extent flow_extent(const struct engine_graph *graph, int32_t flow)
{
    struct flow_extent extent = {0, (double)graph->flow_least_ns[flow], 0};
    for (int64_t i = graph->flow_use_first[flow]; i < graph->flow_use_first[flow + 1]; i++) {
        const struct link_use *use = &graph->flow_use[i];
        double ns = use->bytes / graph->link_bytes_per_s[use->link] * NS_PER_S;
        extent.bytes = fmax(extent.bytes, use->bytes);
        extent.ns = fmax(extent.ns, ns);
        extent.all_ns = use->times > 1 ? fmax(extent.all_ns, ns * use->times) : extent.all_ns;
    }
    return extent;
}

static bool flow_slows(const struct engine_graph *graph, int32_t flow)
{
    if (!graph->device_slowdown || !graph->flow_device_first)
        return false;
    for (int64_t i = graph->flow_device_first[flow]; i < graph->flow_device_first[flow + 1]; i++)
        if (slows(graph, graph->flow_device[i]))
            return true;
    return false;
}

static int64_t whole_ns(double ns)
{
    return (int64_t)ceil(ns * (1 - OVER)); /* I2 */
}

int64_t engine_alone_ns(const struct engine_graph *graph, int32_t task)
{
    int32_t flow = graph->task_flow ? graph->task_flow[task] : -1;
    if (flow < 0)
        return graph->task_ns[task];
    double ns = (double)graph->flow_least_ns[flow];
    for (int64_t i = graph->flow_use_first[flow]; i < graph->flow_use_first[flow + 1]; i++) {
        const struct link_use *use = &graph->flow_use[i];
        double rate = graph->link_bytes_per_s[use->link];
        ns = fmax(ns, use->times * (use->bytes / rate * NS_PER_S)); /* (3) */
    }
    return graph->task_ns[task] + whole_ns(ns);
}

/* The time it takes whatever else happens (I5); -1: that depends on other tasks. */
static int64_t settled_ns(const struct engine *engine, int32_t task, struct flow_extent extent)
{
    const struct engine_graph *graph = engine->graph;
    const struct node *node = &engine->nodes.node[task];
    if (node->flow < 0)
        return node->ns && stream_slows(graph, node->stream) && !engine->quiet[task] ? -1
                                                                                     : node->ns;
    bool depends = extent.bytes > 0 || flow_slows(graph, node->flow);
    return extent.ns > 0 && depends ? -1 : node->ns + whole_ns(extent.ns);
}

/* For a flow on no link, any unit of size will do. */
static struct actor make_actor(const struct node *node, int32_t task, struct flow_extent extent)
{
    double bytes = extent.bytes > 0 ? extent.bytes : extent.ns;
    struct actor actor = {EVENT_BEGIN, task, node->flow, .pool = -1, .total = (double)node->ns};
    actor.pace = 1;
    actor.unheld = extent.all_ns <= extent.ns * (1 - LOADS);
    if (node->flow >= 0) {
        actor.total = bytes;
        actor.pace = bytes / extent.ns;
    }
    actor.left = actor.total * (1 - OVER); /* I2 */
    return actor;
}

/* I6: ends it if nothing begins or goes on before its end. */
static bool end_alone(struct engine *engine, const struct actor *actor, int64_t begin_ns)
{
    const struct heap *queue = &engine->queue;
    if (!actor->unheld || engine->active || engine->ready_count)
        return false;
    int64_t end_ns = begin_ns + end_after(actor->left / actor->pace);
    if (queue->slot.len && queue->slot.data[0].key < end_ns)
        return false;
    engine->result->speed_changes += actor->flow >= 0;
    engine->begins++;
    finish(engine, actor->task, end_ns);
    return true;
}

static void start(struct engine *engine, int32_t task)
{
    const struct node *node = &engine->nodes.node[task];
    struct flow_extent extent = {0, 0};
    if (node->flow >= 0)
        extent = flow_extent(engine->graph, node->flow);
    int64_t ns = settled_ns(engine, task, extent);
    if (ns >= 0) {
        finish(engine, task, node->start_ns + ns);
        return;
    }
    int64_t due_ns = node->start_ns + (node->flow < 0 ? 0 : node->ns);
    struct actor *actor = &engine->actor[node->stream];
    *actor = make_actor(node, task, extent);
    if (!end_alone(engine, actor, due_ns))
        expect(engine, node->stream, due_ns);
}

/* Prefetches the memory that the task's end will touch. */
static void prefetch_end(const struct engine *engine, int32_t task)
{
    const struct node *node = &engine->nodes.node[task];
    if (node->then[0] >= 0)
        __builtin_prefetch(&engine->nodes.node[node->then[0]], 1);
    if (node->next >= 0)
        __builtin_prefetch(&engine->nodes.node[node->next], 1);
}

enum { AHEAD = 3 }; /* tasks to look ahead: about the time that memory takes */
static void start_ready(struct engine *engine)
{
    while (engine->ready_count) {
        int32_t task = engine->ready[--engine->ready_count];
        if (engine->ready_count >= AHEAD)
            prefetch_end(engine, engine->ready[engine->ready_count - AHEAD]);
        start(engine, task);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static void stir(struct engine *engine, int32_t device)
{
    if (!slows(engine->graph, device) || engine->stirred[device])
        return;
    engine->stirred[device] = true;
    array_push(engine->scratch, &engine->stirred_list, device);
}

static void stir_flow(struct engine *engine, int32_t stream)
{
    for (const struct incidence_entry *e = row_first(&engine->touches, stream); e;
         e = row_next(&engine->touches, e))
        stir(engine, e->column);
}

static void touch_devices(struct engine *engine, int32_t stream, int32_t flow)
{
    const struct engine_graph *graph = engine->graph;
    if (!flow_slows(graph, flow))
        return;
    for (int64_t i = graph->flow_device_first[flow]; i < graph->flow_device_first[flow + 1]; i++)
        incidence_add(&engine->touches, stream, graph->flow_device[i], 1, 1);
    stir_flow(engine, stream);
}

static void begin_flow(struct engine *engine, int32_t stream)
{
    const struct engine_graph *graph = engine->graph;
    struct actor *actor = &engine->actor[stream];
    int32_t id = actor->flow;
    int64_t first = graph->flow_use_first[id];
    struct share_flow flow = {graph->flow_priority ? graph->flow_priority[id] : 0, actor->pace,
                              actor->total, graph->flow_use + first,
                              (int32_t)(graph->flow_use_first[id + 1] - first)};
    actor->phase = EVENT_FLOW;
    share_add(engine->share, stream, &flow);
    touch_devices(engine, stream, id);
}

static void begin_work(struct engine *engine, int32_t stream)
{
    struct actor *actor = &engine->actor[stream];
    int32_t device = engine->graph->stream_device[stream];
    actor->phase = EVENT_WORK;
    engine->working[device]++;
    stir(engine, device);
}

static void begin(struct engine *engine, int32_t stream)
{
    struct actor *actor = &engine->actor[stream];
    prefetch_end(engine, actor->task);
    if (engine->due.len == 1 && end_alone(engine, actor, engine->now))
        return;
    actor->since_ns = engine->now;
    engine->begins++;
    engine->active++;
    if (actor->flow < 0)
        begin_work(engine, stream);
    else
        begin_flow(engine, stream);
}

static void end_flow(struct engine *engine, int32_t stream)
{
    engine->active--;
    share_remove(engine->share, stream);
    stir_flow(engine, stream);
    incidence_drop_row(&engine->touches, stream);
    finish(engine, engine->actor[stream].task, engine->now);
}

static void end_pooled(struct engine *engine, int32_t link)
{
    for (int32_t stream; (stream = flow_pool_take(&engine->pool[link], engine->now)) >= 0;)
        end_flow(engine, stream);
    list_pool(engine, link);
}

static void end_work(struct engine *engine, int32_t stream)
{
    int32_t device = engine->graph->stream_device[stream];
    engine->active--;
    engine->working[device]--;
    engine->actor[stream].phase = EVENT_BEGIN;
    stir(engine, device);
    finish(engine, engine->actor[stream].task, engine->now);
}

static void (*const HANDLERS[])(struct engine *engine, int32_t stream) = {
    [EVENT_BEGIN] = begin, [EVENT_FLOW] = end_flow, [EVENT_WORK] = end_work};
_Static_assert(COUNT_OF(HANDLERS) == EVENT_COUNT, "a phase without a handler");

/* ---- the whole ------------------------------------------------------------------------------- */

static void allot_result(struct arena *keep, const struct engine_graph *graph,
                         struct engine_result *out)
{
    *out = (struct engine_result){0};
    out->start_ns = ARENA_ARRAY(keep, int64_t, (size_t)graph->tasks);
    out->end_ns = ARENA_ARRAY(keep, int64_t, (size_t)graph->tasks);
    out->place = ARENA_ARRAY(keep, int32_t, (size_t)graph->tasks);
    out->held_by = ARENA_ARRAY(keep, int32_t, (size_t)graph->tasks);
    out->busy_ns = ARENA_ARRAY(keep, int64_t, (size_t)graph->streams);
    memset(out->held_by, -1, (size_t)graph->tasks * sizeof *out->held_by);
}

/* Transposes a sparse matrix: rows of `items` that name columns become rows per column. */
static void turn_around(struct arena *keep, int32_t rows, int32_t columns, const int64_t *first,
                        const int32_t *item, int64_t **out_first, int32_t **out)
{
    int64_t *at = ARENA_ARRAY(keep, int64_t, (size_t)columns + 2);
    for (int64_t i = 0; i < first[rows]; i++)
        at[item[i] + 2]++;
    for (int32_t c = 0; c < columns; c++)
        at[c + 2] += at[c + 1];
    *out = ARENA_ARRAY(keep, int32_t, (size_t)first[rows]);
    for (int32_t row = 0; row < rows; row++)
        for (int64_t i = first[row]; i < first[row + 1]; i++)
            (*out)[at[item[i] + 1]++] = row;
    *out_first = at;
}

/* Streams without a device are in a last row of their own. */
static void gather_streams(struct engine *engine)
{
    const struct engine_graph *graph = engine->graph;
    if (!graph->device_slowdown)
        return;
    int32_t *device = ARENA_ARRAY(engine->scratch, int32_t, (size_t)graph->streams);
    int64_t *first = ARENA_ARRAY(engine->scratch, int64_t, (size_t)graph->streams + 1);
    for (int32_t s = 0; s < graph->streams; s++) {
        device[s] = graph->stream_device[s] < 0 ? graph->devices : graph->stream_device[s];
        first[s + 1] = s + 1;
    }
    turn_around(engine->scratch, graph->streams, graph->devices + 1, first, device,
                &engine->stream_first, &engine->stream);
    struct streams_of streams = {engine->stream_first, engine->stream};
    engine->quiet = find_quiet(engine->scratch, graph, engine->result->place, &streams);
}

static void allot_pools(struct engine *engine)
{
    const struct engine_graph *graph = engine->graph;
    struct heap marks = heap_new(engine->scratch, graph->streams);
    engine->pool = ARENA_ARRAY(engine->scratch, struct flow_pool, (size_t)graph->links);
    engine->listed = ARENA_ARRAY(engine->scratch, bool, (size_t)graph->links);
    for (int32_t l = 0; l < graph->links; l++)
        engine->pool[l].marks = heap_beside(&marks);
}

static void allot(struct engine *engine)
{
    const struct engine_graph *graph = engine->graph;
    struct arena *scratch = engine->scratch;
    engine->nodes = nodes_new(scratch, graph, engine->result->place);
    engine->ready = ARENA_ARRAY(scratch, int32_t, (size_t)graph->tasks);
    engine->queue = heap_new(scratch, graph->streams + graph->links);
    engine->due_ns = ARENA_ARRAY(scratch, int64_t, (size_t)graph->streams + (size_t)graph->links);
    engine->actor = ARENA_ARRAY(scratch, struct actor, (size_t)graph->streams);
    engine->share = share_new(scratch, graph->streams, graph->link_bytes_per_s, graph->links);
    engine->touches = incidence_new(scratch, graph->streams, graph->devices);
    engine->working = ARENA_ARRAY(scratch, int32_t, (size_t)graph->devices);
    engine->stirred = ARENA_ARRAY(scratch, bool, (size_t)graph->devices);
    allot_pools(engine);
    gather_streams(engine);
}

/* An end that slower speeds have postponed is queued again at its new time. */
static void handle(struct engine *engine, int32_t id)
{
    if (engine->due_ns[id] > engine->now)
        expect(engine, id, engine->due_ns[id]);
    else if (id < engine->graph->streams)
        HANDLERS[engine->actor[id].phase](engine, id);
    else
        end_pooled(engine, id - engine->graph->streams);
}

/* Prefetches the memory that the following events will touch. */
static void look_ahead(const struct engine *engine, size_t at)
{
    int32_t streams = engine->graph->streams;
    if (at + 2 * AHEAD < engine->due.len) {
        int32_t id = engine->due.data[at + 2 * AHEAD];
        const void *first =
            id < streams ? (void *)&engine->actor[id] : (void *)&engine->pool[id - streams];
        __builtin_prefetch(first, 1);
    }
    if (at + AHEAD < engine->due.len && engine->due.data[at + AHEAD] < streams)
        __builtin_prefetch(&engine->nodes.node[engine->actor[engine->due.data[at + AHEAD]].task],
                           1);
}

static bool is_due(const struct engine *engine)
{
    return engine->queue.slot.len && engine->queue.slot.data[0].key == engine->now;
}

static void handle_due(struct engine *engine)
{
    engine->due.len = 0;
    while (is_due(engine))
        array_push(engine->scratch, &engine->due, heap_pop(&engine->queue).id);
    for (size_t i = 0; i < engine->due.len; i++) {
        look_ahead(engine, i);
        handle(engine, engine->due.data[i]);
    }
    start_ready(engine);
}

static void run(struct engine *engine)
{
    for (int32_t t = 0; t < engine->graph->tasks; t++)
        if (!engine->nodes.node[t].pending)
            make_ready(engine, t);
    start_ready(engine);
    enum { MOMENTS = 1024 }; /* instants between two checks whether to stop: below a millisecond */
    for (int64_t at = 1; engine->queue.slot.len; at++) {
        if (at % MOMENTS == 0 && stop_now(engine->graph->stop))
            return;
        engine->now = engine->queue.slot.data[0].key;
        while (is_due(engine))
            handle_due(engine);
        engine_set_speeds(engine);
    }
    engine->result->events = engine->done + engine->begins;
}

static const int32_t *pending_of(const struct engine *engine)
{
    int32_t *pending = ARENA_ARRAY(engine->scratch, int32_t, (size_t)engine->graph->tasks);
    for (int32_t t = 0; t < engine->graph->tasks; t++)
        pending[t] = engine->nodes.node[t].pending;
    return pending;
}

weft_status engine_run(struct arena *keep, const struct engine_graph *graph,
                       struct engine_result *out)
{
    weft_status status;
    struct engine engine = {.graph = graph, .result = out, .scratch = arena_new()};
    allot_result(keep, graph, out);
    TRY(nodes_check(graph, out->place));
    allot(&engine);
    run(&engine);
    if (engine.done < graph->tasks && stop_now(graph->stop))
        status = stop_status();
    else if (engine.done < graph->tasks)
        status = deadlock(graph, out, pending_of(&engine));
    else
        write_times(&engine);
done:
    arena_free(engine.scratch);
    return status;
}
