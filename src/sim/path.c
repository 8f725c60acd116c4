/* path.c - what each task waited for, derived from the times. */
#include "sim/engine.h"

bool engine_comes_first(const struct engine_graph *graph, const struct engine_result *result,
                        int32_t a, int32_t b)
{
    int32_t stream_a = graph->task_stream[a], stream_b = graph->task_stream[b];
    if (stream_a != stream_b)
        return stream_a < stream_b;
    return result->place[a] < result->place[b];
}

static int32_t last_dependency(const struct engine_graph *graph, const struct engine_result *result,
                               int32_t task)
{
    int32_t last = -1;
    for (int64_t i = graph->depends_first[task]; i < graph->depends_first[task + 1]; i++) {
        int32_t other = graph->depends[i];
        if (last < 0 || result->end_ns[other] > result->end_ns[last] ||
            (result->end_ns[other] == result->end_ns[last] &&
             engine_comes_first(graph, result, other, last)))
            last = other;
    }
    return last;
}

/* The task before it on its stream if that ended when this one started, or -1. */
static int32_t bound_by_stream(const struct engine_graph *graph, const struct engine_result *result,
                               int32_t task)
{
    int64_t at = graph->order_first[graph->task_stream[task]] + result->place[task];
    int32_t before = result->place[task] ? graph->order[at - 1] : -1;
    return before >= 0 && result->end_ns[before] == result->start_ns[task] ? before : -1;
}

int32_t engine_waited_for(const struct engine_graph *graph, const struct engine_result *result,
                          int32_t task)
{
    int32_t before = bound_by_stream(graph, result, task);
    return before >= 0 ? before : last_dependency(graph, result, task);
}

static int32_t last_task(const struct engine_graph *graph, const struct engine_result *result)
{
    int32_t last = -1;
    for (int32_t t = 0; t < graph->tasks; t++)
        if (result->end_ns[t] == result->end &&
            (last < 0 || engine_comes_first(graph, result, t, last)))
            last = t;
    return last;
}

static int32_t walk_back(const struct engine_graph *graph, const struct engine_result *result,
                         int32_t *tasks)
{
    int32_t count = 0;
    for (int32_t t = last_task(graph, result); t >= 0; count++) {
        if (tasks)
            tasks[count] = t;
        t = engine_waited_for(graph, result, t);
    }
    return count;
}

int32_t engine_critical_path(struct arena *keep, const struct engine_graph *graph,
                             const struct engine_result *result, int32_t **tasks)
{
    int32_t count = walk_back(graph, result, NULL);
    *tasks = ARENA_ARRAY(keep, int32_t, (size_t)count);
    walk_back(graph, result, *tasks);
    for (int32_t i = 0; i < count / 2; i++) {
        int32_t swap = (*tasks)[i];
        (*tasks)[i] = (*tasks)[count - 1 - i];
        (*tasks)[count - 1 - i] = swap;
    }
    return count;
}
