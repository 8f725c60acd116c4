/* deadlock.c - finds a cycle of tasks that wait for each other (deadlock.h).
 *
 *   I1  A pending task waits for another pending task: a dependency, or the task before it on its
 *       stream. Walking back along these must reach a cycle.
 *   I2  A task that has started waits for nothing pending, and will end.
 */
#include "sim/deadlock.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NAMED = 8 };

struct blocked_task {
    int32_t task;
    bool by_stream;
};

static struct blocked_task waits_for(const struct engine_graph *graph,
                                     const struct engine_result *result, const int32_t *pending,
                                     int32_t task)
{
    for (int64_t i = graph->depends_first[task]; i < graph->depends_first[task + 1]; i++)
        if (pending[graph->depends[i]])
            return (struct blocked_task){graph->depends[i], false};
    int64_t at = graph->order_first[graph->task_stream[task]] + result->place[task];
    return (struct blocked_task){graph->order[at - 1], true}; /* I1 */
}

static void append_name(char *text, size_t size, const struct engine_graph *graph, int32_t task)
{
    size_t used = strlen(text);
    if (graph->task_name)
        snprintf(text + used, size - used, "%s", graph->task_name(graph->names, task));
    else
        snprintf(text + used, size - used, "task %d", task);
}

static void append(char *text, size_t size, const char *words)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s", words);
}

static int32_t first_of_round(const struct engine_graph *graph, const struct engine_result *result,
                              const int32_t *pending)
{
    int32_t task = 0;
    while (!pending[task])
        task++;
    for (int32_t i = 0; i < graph->tasks; i++) /* longer than any path into a cycle */
        task = waits_for(graph, result, pending, task).task;
    int32_t first = task, round = task;
    do {
        task = waits_for(graph, result, pending, task).task;
        if (engine_comes_first(graph, result, task, first))
            first = task;
    } while (task != round);
    return first;
}

weft_status deadlock(const struct engine_graph *graph, const struct engine_result *result,
                     const int32_t *pending)
{
    char text[1024] = "";
    int32_t first = first_of_round(graph, result, pending), task = first, named = 0;
    append_name(text, sizeof text, graph, first);
    do {
        struct blocked_task wait = waits_for(graph, result, pending, task);
        task = wait.task;
        if (named++ >= MOST_NAMED && task != first)
            continue;
        append(text, sizeof text, wait.by_stream ? " waits behind " : " waits for ");
        append_name(text, sizeof text, graph, task);
        if (task != first)
            append(text, sizeof text, named == MOST_NAMED ? ", ..., which" : ", which");
    } while (task != first);
    return bad_argument("Change the order on a stream or drop a dependency.",
                        "The tasks wait for each other: %s.", text);
}
