/* quiet.c - the windows of transfers, and the work that lies in none (quiet.h has the equations).
 *
 *   I1  Streams are walked forwards for lo, then everything in reverse for hi, so that the last lo
 *       noted is the first one needed. Linear in the dependencies and in what transfers touch.
 */
#include "sim/quiet.h"

struct window_search {
    const struct engine_graph *graph;
    const int32_t *place;
    const struct streams_of *streams;
    struct arena *scratch;
    int32_t *edge;       /* per stream: the nearest place so far + 1, 0: none */
    ARRAY(int32_t) seen; /* streams that have an edge */
    ARRAY(int32_t) lows; /* I1 */
    int64_t *then_first; /* per task: row of `then` */
    int32_t *then;       /* the tasks that wait for it, for transfers only */
    /* per place in graph->order: windows that begin there, minus those that end */
    int32_t *windows;
};

static bool slows(const struct engine_graph *graph, int32_t device)
{
    return device >= 0 && graph->device_slowdown[device] > 1;
}

static bool is_flow(const struct engine_graph *graph, int32_t task)
{
    return graph->task_flow[task] >= 0;
}

/* Finds the tasks that wait for each transfer. */
static void find_waiting(struct window_search *h)
{
    const struct engine_graph *graph = h->graph;
    int64_t *first = ARENA_ARRAY(h->scratch, int64_t, (size_t)graph->tasks + 2);
    for (int64_t i = 0; i < graph->depends_first[graph->tasks]; i++)
        first[graph->depends[i] + 2] += is_flow(graph, graph->depends[i]);
    for (int32_t t = 0; t < graph->tasks; t++)
        first[t + 2] += first[t + 1];
    h->then = ARENA_ARRAY(h->scratch, int32_t, (size_t)first[graph->tasks + 1]);
    for (int32_t t = 0; t < graph->tasks; t++)
        for (int64_t i = graph->depends_first[t]; i < graph->depends_first[t + 1]; i++)
            if (is_flow(graph, graph->depends[i]))
                h->then[first[graph->depends[i] + 1]++] = t;
    h->then_first = first;
}

/* ---- edges of windows (1) -------------------------------------------------------------------- */

static void forget(struct window_search *h)
{
    while (h->seen.len)
        h->edge[h->seen.data[--h->seen.len]] = 0;
}

/* Moves the edge on this task's stream to the task if that is nearer: later, or earlier. */
static void move_edge(struct window_search *h, int32_t task, bool later)
{
    int32_t stream = h->graph->task_stream[task], place = h->place[task] + 1;
    int32_t *edge = &h->edge[stream];
    if (!slows(h->graph, h->graph->stream_device[stream]))
        return;
    if (!*edge)
        array_push(h->scratch, &h->seen, stream);
    if (!*edge || (later ? place > *edge : place < *edge))
        *edge = place;
}

static void note_lows(struct window_search *h, int32_t flow)
{
    const struct engine_graph *graph = h->graph;
    for (int64_t i = graph->flow_device_first[flow]; i < graph->flow_device_first[flow + 1]; i++) {
        int32_t d = graph->flow_device[i];
        for (int64_t k = h->streams->first[d]; k < h->streams->first[d + 1]; k++)
            array_push(h->scratch, &h->lows, h->edge[h->streams->stream[k]] - 1);
    }
}

static void close_windows(struct window_search *h, int32_t flow)
{
    const struct engine_graph *graph = h->graph;
    for (int64_t i = graph->flow_device_first[flow + 1] - 1; i >= graph->flow_device_first[flow];
         i--) {
        int32_t d = graph->flow_device[i];
        for (int64_t k = h->streams->first[d + 1] - 1; k >= h->streams->first[d]; k--) {
            int32_t stream = h->streams->stream[k];
            int64_t from = graph->order_first[stream], to = graph->order_first[stream + 1];
            int64_t low = from + h->lows.data[--h->lows.len] + 1;
            int64_t high = h->edge[stream] ? from + h->edge[stream] - 1 : to;
            if (low < high) {
                h->windows[low]++;
                h->windows[high]--;
            }
        }
    }
}

static void walk_forwards(struct window_search *h)
{
    const struct engine_graph *graph = h->graph;
    for (int32_t s = 0; s < graph->streams; s++, forget(h))
        for (int64_t i = graph->order_first[s]; i < graph->order_first[s + 1]; i++) {
            int32_t task = graph->order[i];
            if (!is_flow(graph, task))
                continue;
            for (int64_t k = graph->depends_first[task]; k < graph->depends_first[task + 1]; k++)
                move_edge(h, graph->depends[k], true);
            note_lows(h, graph->task_flow[task]);
        }
}

static void walk_back(struct window_search *h)
{
    const struct engine_graph *graph = h->graph;
    for (int32_t s = graph->streams - 1; s >= 0; s--, forget(h))
        for (int64_t i = graph->order_first[s + 1] - 1; i >= graph->order_first[s]; i--) {
            int32_t task = graph->order[i];
            if (!is_flow(graph, task))
                continue;
            for (int64_t k = h->then_first[task]; k < h->then_first[task + 1]; k++)
                move_edge(h, h->then[k], false);
            close_windows(h, graph->task_flow[task]);
        }
}

/* ---- the whole ------------------------------------------------------------------------------- */

bool *find_quiet(struct arena *keep, const struct engine_graph *graph, const int32_t *place,
                 const struct streams_of *streams)
{
    bool *quiet = ARENA_ARRAY(keep, bool, (size_t)graph->tasks);
    if (!graph->task_flow || !graph->flow_device_first)
        return quiet;
    struct window_search h = {
        .graph = graph, .place = place, .streams = streams, .scratch = arena_new()};
    h.edge = ARENA_ARRAY(h.scratch, int32_t, (size_t)graph->streams);
    h.windows = ARENA_ARRAY(h.scratch, int32_t, (size_t)graph->tasks + 1);
    find_waiting(&h);
    walk_forwards(&h);
    walk_back(&h);
    int32_t open = 0;
    for (int32_t i = 0; i < graph->tasks; i++) {
        open += h.windows[i];
        quiet[graph->order[i]] = open == 0;
    }
    arena_free(h.scratch);
    return quiet;
}
