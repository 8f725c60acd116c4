#include "sim/engine.h"

#include <math.h>
#include <string.h>

#include "sim/deadlock.h"
#include "sim/heap.h"
#include "sim/incidence.h"

static const double OVER = 0x1p-38; /* of a task: counts as done (I2) */
static const double NS_PER_S = 1e9;
static const int64_t NEVER = INT64_MAX;

enum phase { PHASE_BEGIN, PHASE_FLOW, PHASE_WORK, PHASE_COUNT };

/* What a stream does now, if it takes events (I5). */
struct actor {
    enum phase phase;
    int32_t task, flow;
    double total, left, speed; /* bytes or ns, and per ns */
    double pace;               /* of a flow without interference */
    int64_t since_ns;          /* when `left` was left */
    int64_t due_ns; /* its next event; the queue may hold it for earlier, never for later */
};

/* All that an event needs to know of a task, side by side: memory is what events wait for. */
struct node {
    int64_t start_ns, end_ns, ns;
    int64_t then_first; /* tasks that depend on it, up to those of the next */
    int32_t stream, flow;
    int32_t next;    /* on its stream, -1: none */
    int32_t pending; /* dependencies and stream order still ahead */
};

struct engine {
    const struct engine_graph *graph;
    struct engine_result *result;
    struct arena *scratch;
    struct node *node; /* per task, and one behind the last */
    int32_t *then;
    int32_t *ready;
    int32_t ready_count, done;
    int64_t now, begins;
    struct heap queue; /* streams by the time of their next event */
    struct actor *actor;
    struct share *share;
    /* interference */
    int64_t *stream_first; /* per device */
    int32_t *stream;
    struct incidence touches; /* streams with a flow by devices */
    int32_t *working;         /* per device: streams at work */
    bool *stirred;            /* per device: its work or flows changed at this instant */
    ARRAY(int32_t) stirred_list;
};

/* ---- the graph, turned around ---------------------------------------------------------------- */

/* Rows of `items` that name columns, turned into rows per column. */
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

static weft_status place_tasks(struct engine *engine)
{
    const struct engine_graph *graph = engine->graph;
    int32_t *place = engine->result->place;
    memset(place, -1, (size_t)graph->tasks * sizeof *place);
    for (int32_t s = 0; s < graph->streams; s++)
        for (int64_t i = graph->order_first[s]; i < graph->order_first[s + 1]; i++) {
            int32_t task = graph->order[i];
            if (graph->task_stream[task] != s || place[task] >= 0)
                return failure("task %d is out of place in the order of stream %d", task, s);
            place[task] = (int32_t)(i - graph->order_first[s]);
        }
    if (graph->order_first[graph->streams] != graph->tasks)
        return failure("a task is missing in the order of its stream");
    return WEFT_OK;
}

static weft_status check_links(const struct engine_graph *graph)
{
    for (int32_t i = 0; i < graph->links; i++)
        if (!(graph->link_bytes_per_s[i] > 0 && isfinite(graph->link_bytes_per_s[i])))
            return failure("link %d carries %g bytes per second", i, graph->link_bytes_per_s[i]);
    return WEFT_OK;
}

static void make_ready(struct engine *engine, int32_t task)
{
    engine->ready[engine->ready_count++] = task;
}

static struct node make_node(const struct engine_graph *graph, int32_t task, int32_t place)
{
    struct node node = {.ns = graph->task_ns[task], .stream = graph->task_stream[task]};
    int64_t next = graph->order_first[node.stream] + place + 1;
    node.flow = graph->task_flow ? graph->task_flow[task] : -1;
    node.next = next < graph->order_first[node.stream + 1] ? graph->order[next] : -1;
    node.pending = (int32_t)(graph->depends_first[task + 1] - graph->depends_first[task]);
    node.pending += place > 0;
    return node;
}

static void make_nodes(struct engine *engine)
{
    const struct engine_graph *graph = engine->graph;
    int64_t *then_first;
    turn_around(engine->scratch, graph->tasks, graph->tasks, graph->depends_first, graph->depends,
                &then_first, &engine->then);
    for (int32_t t = 0; t < graph->tasks; t++) {
        engine->node[t] = make_node(graph, t, engine->result->place[t]);
        engine->node[t].then_first = then_first[t];
        if (!engine->node[t].pending)
            make_ready(engine, t);
    }
    engine->node[graph->tasks].then_first = then_first[graph->tasks];
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void release(struct engine *engine, int32_t task, int64_t end_ns)
{
    struct node *node = &engine->node[task];
    if (node->start_ns < end_ns)
        node->start_ns = end_ns; /* (1) */
    if (!--node->pending)
        make_ready(engine, task);
}

static void finish(struct engine *engine, int32_t task, int64_t end_ns)
{
    struct node *node = &engine->node[task];
    node->end_ns = end_ns;
    engine->done++;
    for (int64_t i = node[0].then_first; i < node[1].then_first; i++)
        release(engine, engine->then[i], end_ns);
    if (node->next >= 0)
        release(engine, node->next, end_ns);
}

static void write_times(struct engine *engine)
{
    struct engine_result *result = engine->result;
    for (int32_t t = 0; t < engine->graph->tasks; t++) {
        const struct node *node = &engine->node[t];
        result->start_ns[t] = node->start_ns;
        result->end_ns[t] = node->end_ns;
        result->busy_ns[node->stream] += node->end_ns - node->start_ns;
        if (node->end_ns > result->end)
            result->end = node->end_ns;
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

/* The bytes on its busiest link (share.h, W_f) and the least time of its transfer. */
struct extent {
    double bytes, ns;
};

static struct extent flow_extent(const struct engine_graph *graph, int32_t flow)
{
    struct extent extent = {0, (double)graph->flow_least_ns[flow]};
    for (int64_t i = graph->flow_use_first[flow]; i < graph->flow_use_first[flow + 1]; i++) {
        const struct link_use *use = &graph->flow_use[i];
        extent.bytes = fmax(extent.bytes, use->bytes);
        extent.ns = fmax(extent.ns, use->bytes / graph->link_bytes_per_s[use->link] * NS_PER_S);
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
    int64_t transfer_ns = flow < 0 ? 0 : whole_ns(flow_extent(graph, flow).ns);
    return graph->task_ns[task] + transfer_ns;
}

/* How long it takes whatever else happens (I5), or -1: that depends. */
static int64_t settled_ns(const struct engine_graph *graph, const struct node *node)
{
    if (node->flow < 0)
        return node->ns && stream_slows(graph, node->stream) ? -1 : node->ns;
    struct extent extent = flow_extent(graph, node->flow);
    bool depends = extent.bytes > 0 || flow_slows(graph, node->flow);
    return extent.ns > 0 && depends ? -1 : node->ns + whole_ns(extent.ns);
}

static void start(struct engine *engine, int32_t task)
{
    const struct node *node = &engine->node[task];
    int64_t ns = settled_ns(engine->graph, node);
    if (ns >= 0) {
        finish(engine, task, node->start_ns + ns);
        return;
    }
    int64_t due_ns = node->start_ns + (node->flow < 0 ? 0 : node->ns);
    engine->actor[node->stream] = (struct actor){PHASE_BEGIN, task, node->flow, .due_ns = due_ns};
    heap_set(&engine->queue, node->stream, due_ns);
}

static void start_ready(struct engine *engine)
{
    while (engine->ready_count)
        start(engine, engine->ready[--engine->ready_count]);
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
    for (const struct entry *e = row_first(&engine->touches, stream); e;
         e = row_next(&engine->touches, e))
        stir(engine, e->column);
}

static void touch_devices(struct engine *engine, int32_t stream, int32_t flow)
{
    const struct engine_graph *graph = engine->graph;
    if (!flow_slows(graph, flow))
        return;
    for (int64_t i = graph->flow_device_first[flow]; i < graph->flow_device_first[flow + 1]; i++)
        incidence_add(&engine->touches, stream, graph->flow_device[i], 1);
    stir_flow(engine, stream);
}

static void begin_flow(struct engine *engine, int32_t stream)
{
    const struct engine_graph *graph = engine->graph;
    struct actor *actor = &engine->actor[stream];
    int32_t id = actor->flow;
    struct extent extent = flow_extent(graph, id);
    if (extent.bytes <= 0) /* on no link: any unit will do */
        extent.bytes = extent.ns;
    int64_t first = graph->flow_use_first[id];
    struct share_flow flow = {graph->flow_priority ? graph->flow_priority[id] : 0,
                              extent.bytes / extent.ns, extent.bytes, graph->flow_use + first,
                              (int32_t)(graph->flow_use_first[id + 1] - first)};
    actor->total = actor->left = extent.bytes;
    actor->pace = flow.pace;
    actor->phase = PHASE_FLOW;
    share_add(engine->share, stream, &flow);
    touch_devices(engine, stream, id);
}

static void begin_work(struct engine *engine, int32_t stream)
{
    struct actor *actor = &engine->actor[stream];
    int32_t device = engine->graph->stream_device[stream];
    actor->total = actor->left = (double)engine->node[actor->task].ns;
    actor->phase = PHASE_WORK;
    engine->working[device]++;
    stir(engine, device);
}

static void begin(struct engine *engine, int32_t stream)
{
    struct actor *actor = &engine->actor[stream];
    actor->since_ns = engine->now;
    if (actor->flow < 0)
        begin_work(engine, stream);
    else
        begin_flow(engine, stream);
}

static void end_flow(struct engine *engine, int32_t stream)
{
    share_remove(engine->share, stream);
    stir_flow(engine, stream);
    incidence_drop_row(&engine->touches, stream);
    finish(engine, engine->actor[stream].task, engine->now);
}

static void end_work(struct engine *engine, int32_t stream)
{
    int32_t device = engine->graph->stream_device[stream];
    engine->working[device]--;
    engine->actor[stream].phase = PHASE_BEGIN;
    stir(engine, device);
    finish(engine, engine->actor[stream].task, engine->now);
}

static void (*const HANDLERS[])(struct engine *engine, int32_t stream) = {
    [PHASE_BEGIN] = begin, [PHASE_FLOW] = end_flow, [PHASE_WORK] = end_work};
_Static_assert(COUNT_OF(HANDLERS) == PHASE_COUNT, "a phase without a handler");

/* ---- speeds (I3) ----------------------------------------------------------------------------- */

static void set_speed(struct engine *engine, int32_t stream, double speed)
{
    struct actor *actor = &engine->actor[stream];
    if (speed == actor->speed)
        return;
    actor->left -= actor->speed * (double)(engine->now - actor->since_ns);
    actor->since_ns = engine->now;
    actor->speed = speed;
    actor->due_ns = NEVER; /* until higher classes leave it something */
    if (speed > 0) {
        double ns = ceil((actor->left - OVER * actor->total) / speed); /* I2 */
        actor->due_ns = engine->now + (ns < 1 ? 1 : (int64_t)ns);
    }
    int32_t place = engine->queue.place[stream];
    if (place < 0 ? speed > 0 : actor->due_ns < engine->queue.slot[place].key)
        heap_set(&engine->queue, stream, actor->due_ns);
}

static double slowdown_of(const struct engine *engine, int32_t stream)
{
    double slowdown = 1;
    for (const struct entry *e = row_first(&engine->touches, stream); e;
         e = row_next(&engine->touches, e))
        if (engine->working[e->column])
            slowdown = fmax(slowdown, engine->graph->device_slowdown[e->column]);
    return slowdown;
}

static void respond(struct engine *engine, int32_t device)
{
    bool flows = engine->touches.column[device] >= 0;
    double speed = flows ? 1 / engine->graph->device_slowdown[device] : 1;
    for (int64_t i = engine->stream_first[device]; i < engine->stream_first[device + 1]; i++)
        if (engine->actor[engine->stream[i]].phase == PHASE_WORK)
            set_speed(engine, engine->stream[i], speed);
    for (const struct entry *e = column_first(&engine->touches, device); e;
         e = column_next(&engine->touches, e))
        share_set_pace(engine->share, e->row,
                       engine->actor[e->row].pace / slowdown_of(engine, e->row));
    engine->stirred[device] = false;
}

static void set_speeds(struct engine *engine)
{
    for (size_t i = 0; i < engine->stirred_list.len; i++)
        respond(engine, engine->stirred_list.data[i]);
    engine->stirred_list.len = 0;
    const struct share_change *changed;
    int32_t count = share_solve(engine->share, &changed);
    for (int32_t i = 0; i < count; i++) {
        int32_t flow = engine->actor[changed[i].slot].flow;
        if (changed[i].link >= 0)
            engine->result->held_by[flow] = changed[i].link;
        set_speed(engine, changed[i].slot, changed[i].bytes_per_ns);
    }
    engine->result->speed_changes += count;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void allot_result(struct arena *keep, const struct engine_graph *graph,
                         struct engine_result *out)
{
    *out = (struct engine_result){0};
    out->start_ns = ARENA_ARRAY(keep, int64_t, (size_t)graph->tasks);
    out->end_ns = ARENA_ARRAY(keep, int64_t, (size_t)graph->tasks);
    out->place = ARENA_ARRAY(keep, int32_t, (size_t)graph->tasks);
    out->held_by = ARENA_ARRAY(keep, int32_t, (size_t)graph->flows);
    out->busy_ns = ARENA_ARRAY(keep, int64_t, (size_t)graph->streams);
    memset(out->held_by, -1, (size_t)graph->flows * sizeof *out->held_by);
}

/* Streams of no device stand in a last row of their own. */
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
}

static void allot(struct engine *engine)
{
    const struct engine_graph *graph = engine->graph;
    struct arena *scratch = engine->scratch;
    engine->node = ARENA_ARRAY(scratch, struct node, (size_t)graph->tasks + 1);
    engine->ready = ARENA_ARRAY(scratch, int32_t, (size_t)graph->tasks);
    engine->queue = heap_new(scratch, graph->streams);
    engine->actor = ARENA_ARRAY(scratch, struct actor, (size_t)graph->streams);
    engine->share = share_new(scratch, graph->streams, graph->link_bytes_per_s, graph->links);
    engine->touches = incidence_new(scratch, graph->streams, graph->devices);
    engine->working = ARENA_ARRAY(scratch, int32_t, (size_t)graph->devices);
    engine->stirred = ARENA_ARRAY(scratch, bool, (size_t)graph->devices);
    gather_streams(engine);
}

/* An end that slower speeds have put off meets the queue again at its new time. */
static void handle_next(struct engine *engine)
{
    int32_t stream = heap_pop(&engine->queue).id;
    struct actor *actor = &engine->actor[stream];
    if (actor->due_ns > engine->now) {
        if (actor->due_ns < NEVER)
            heap_set(&engine->queue, stream, actor->due_ns);
        return;
    }
    engine->begins += actor->phase == PHASE_BEGIN;
    HANDLERS[actor->phase](engine, stream);
    start_ready(engine);
}

static void run(struct engine *engine)
{
    start_ready(engine);
    while (engine->queue.count) {
        engine->now = engine->queue.slot[0].key;
        while (engine->queue.count && engine->queue.slot[0].key == engine->now)
            handle_next(engine);
        set_speeds(engine);
    }
    engine->result->events = engine->done + engine->begins;
}

static const int32_t *pending_of(const struct engine *engine)
{
    int32_t *pending = ARENA_ARRAY(engine->scratch, int32_t, (size_t)engine->graph->tasks);
    for (int32_t t = 0; t < engine->graph->tasks; t++)
        pending[t] = engine->node[t].pending;
    return pending;
}

weft_status engine_run(struct arena *keep, const struct engine_graph *graph,
                       struct engine_result *out)
{
    weft_status status;
    struct engine engine = {.graph = graph, .result = out, .scratch = arena_new()};
    allot_result(keep, graph, out);
    TRY(check_links(graph));
    TRY(place_tasks(&engine));
    allot(&engine);
    make_nodes(&engine);
    run(&engine);
    write_times(&engine);
    if (engine.done < graph->tasks)
        status = deadlock(graph, out, pending_of(&engine));
done:
    arena_free(engine.scratch);
    return status;
}
