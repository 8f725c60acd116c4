/* nodes.c - tasks as the engine stores them, with those that depend on each (nodes.h). */
#include "sim/nodes.h"

#include <math.h>
#include <string.h>

static weft_status place_tasks(const struct engine_graph *graph, int32_t *place)
{
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

static weft_status check_flows(const struct engine_graph *graph)
{
    for (int32_t f = 0; f < graph->flows; f++)
        for (int64_t i = graph->flow_use_first[f]; i < graph->flow_use_first[f + 1]; i++)
            if (!(graph->flow_use[i].times >= 1 && graph->flow_use[i].times <= MOST_TIMES))
                return failure("flow %d stands for %g flows on link %d", f,
                               graph->flow_use[i].times, graph->flow_use[i].link);
    return WEFT_OK;
}

weft_status nodes_check(const struct engine_graph *graph, int32_t *place)
{
    weft_status status;
    TRY(check_links(graph));
    TRY(check_flows(graph));
    TRY(place_tasks(graph, place));
done:
    return status;
}

static void fill_node(const struct engine_graph *graph, int32_t task, int32_t place,
                      struct node *node)
{
    int32_t stream = graph->task_stream[task];
    int64_t next = graph->order_first[stream] + place + 1;
    node->ns = graph->task_ns[task];
    node->stream = stream;
    node->flow = graph->task_flow ? graph->task_flow[task] : -1;
    node->next = next < graph->order_first[stream + 1] ? graph->order[next] : -1;
    node->pending = (int32_t)(graph->depends_first[task + 1] - graph->depends_first[task]);
    node->pending += place > 0;
    node->more = -1;
    memset(node->then, -1, sizeof node->then);
}

static void add_then(struct arena *scratch, struct nodes *nodes, struct node *node, int32_t task)
{
    int32_t i = 0;
    while (i < FEW && node->then[i] >= 0)
        i++;
    if (i < FEW) {
        node->then[i] = task;
        return;
    }
    struct more more = {task, node->more};
    node->more = (int32_t)nodes->more.len;
    array_push(scratch, &nodes->more, more);
}

struct nodes nodes_new(struct arena *scratch, const struct engine_graph *graph,
                       const int32_t *place)
{
    struct nodes nodes = {.node = ARENA_ARRAY(scratch, struct node, (size_t)graph->tasks)};
    for (int32_t t = 0; t < graph->tasks; t++)
        fill_node(graph, t, place[t], &nodes.node[t]);
    for (int32_t t = 0; t < graph->tasks; t++)
        for (int64_t i = graph->depends_first[t]; i < graph->depends_first[t + 1]; i++)
            add_then(scratch, &nodes, &nodes.node[graph->depends[i]], t);
    return nodes;
}
