/* engine_scenario.h - small graphs for the engine's tests: built by hand, at random or from text,
 * in a form that is easy to edit and lowered to the engine's arrays. */
#ifndef ENGINE_SCENARIO_H
#define ENGINE_SCENARIO_H

#include "sim/sim.h"

enum { MAX_TASKS = 256, MAX_STREAMS = 64, MAX_LINKS = 32, MAX_DEVICES = 32, MAX_LIST = 8 };

struct scenario_task {
    const char *name;
    int32_t stream;
    bool is_flow;
    int64_t ns, least_ns; /* work: duration, -; flow: latency, least */
    int32_t priority;
    int32_t after[MAX_LIST], afters;
    struct link_use use[MAX_LIST];
    int32_t uses;
    int32_t device[MAX_LIST], devices;
    double slowed, slows; /* of work: its own factors where its device has one; 0: its device's */
    double takes; /* of a flow: the slowdown of work beside it, where flows slow down at all */
};
struct scenario {
    int32_t tasks, streams, links, devices;
    struct scenario_task task[MAX_TASKS]; /* a stream runs its tasks in this order */
    double link_bytes_per_s[MAX_LINKS];
    double slowdown[MAX_DEVICES];
    int32_t stream_device[MAX_STREAMS];
};

static int64_t *rows(struct arena *keep, int32_t count)
{
    return ARENA_ARRAY(keep, int64_t, (size_t)count + 1);
}

static void lower_orders(struct arena *keep, const struct scenario *scenario, const int32_t *number,
                         struct engine_graph *graph)
{
    int64_t *first = rows(keep, scenario->streams), at = 0;
    int32_t *order = ARENA_ARRAY(keep, int32_t, MAX_TASKS);
    for (int32_t s = 0; s < scenario->streams; s++) {
        for (int32_t t = 0; t < scenario->tasks; t++)
            if (scenario->task[t].stream == s)
                order[at++] = number[t];
        first[s + 1] = at;
    }
    graph->order_first = first;
    graph->order = order;
}

struct lowering {
    int32_t *stream, *flow, *depends, *priority, *device;
    int64_t *ns, *depends_first, *least, *use_first, *device_first;
    struct link_use *use;
    double *takes, *slowed, *slows;
};

/* A factor of a task: its own, or its device's. */
static double scenario_factor(const struct scenario *scenario, const struct scenario_task *task,
                              double own)
{
    int32_t device = scenario->stream_device[task->stream];
    double all = device >= 0 ? scenario->slowdown[device] : 1;
    return own > 0 && all > 1 ? own : all;
}

static void lower_flow(struct lowering *to, int32_t flow, const struct scenario_task *task)
{
    to->least[flow] = task->least_ns;
    to->priority[flow] = task->priority;
    to->takes[flow] = task->takes;
    to->use_first[flow + 1] = to->use_first[flow] + task->uses;
    to->device_first[flow + 1] = to->device_first[flow] + task->devices;
    for (int32_t i = 0; i < task->uses; i++)
        to->use[to->use_first[flow] + i] = task->use[i];
    for (int32_t i = 0; i < task->devices; i++)
        to->device[to->device_first[flow] + i] = task->device[i];
}

static int32_t lower_task(struct lowering *to, const struct scenario_task *task, int32_t id,
                          const int32_t *number, int32_t flow)
{
    to->stream[id] = task->stream;
    to->ns[id] = task->ns;
    to->flow[id] = task->is_flow ? flow : -1;
    to->depends_first[id + 1] = to->depends_first[id] + task->afters;
    for (int32_t i = 0; i < task->afters; i++)
        to->depends[to->depends_first[id] + i] = number[task->after[i]];
    if (task->is_flow)
        lower_flow(to, flow, task);
    return flow + task->is_flow;
}

/* number[i] is what task i is called in the graph; NULL: i. */
static struct engine_graph scenario_lower(struct arena *keep, const struct scenario *scenario,
                                          const int32_t *number)
{
    int32_t same[MAX_TASKS], task_of[MAX_TASKS], flows = 0;
    for (int32_t t = 0; t < scenario->tasks; t++)
        same[t] = t;
    number = number ? number : same;
    for (int32_t t = 0; t < scenario->tasks; t++)
        task_of[number[t]] = t;
    enum { MANY = MAX_TASKS * MAX_LIST };
    struct lowering to = {ARENA_ARRAY(keep, int32_t, MAX_TASKS),
                          ARENA_ARRAY(keep, int32_t, MAX_TASKS),
                          ARENA_ARRAY(keep, int32_t, MANY),
                          ARENA_ARRAY(keep, int32_t, MAX_TASKS),
                          ARENA_ARRAY(keep, int32_t, MANY),
                          ARENA_ARRAY(keep, int64_t, MAX_TASKS),
                          rows(keep, MAX_TASKS),
                          ARENA_ARRAY(keep, int64_t, MAX_TASKS),
                          rows(keep, MAX_TASKS),
                          rows(keep, MAX_TASKS),
                          ARENA_ARRAY(keep, struct link_use, MANY)};
    to.takes = ARENA_ARRAY(keep, double, MAX_TASKS);
    to.slowed = ARENA_ARRAY(keep, double, MAX_TASKS);
    to.slows = ARENA_ARRAY(keep, double, MAX_TASKS);
    bool own = false;
    for (int32_t t = 0; t < scenario->tasks; t++) {
        const struct scenario_task *task = &scenario->task[t];
        to.slowed[number[t]] = scenario_factor(scenario, task, task->slowed);
        to.slows[number[t]] = scenario_factor(scenario, task, task->slows);
        own |= task->slowed > 0 || task->slows > 0;
    }
    for (int32_t id = 0; id < scenario->tasks; id++)
        flows = lower_task(&to, &scenario->task[task_of[id]], id, number, flows);
    struct engine_graph graph = {scenario->tasks,
                                 scenario->streams,
                                 flows,
                                 scenario->links,
                                 scenario->devices,
                                 .task_stream = to.stream,
                                 .task_ns = to.ns,
                                 .task_flow = to.flow,
                                 .depends_first = to.depends_first,
                                 .depends = to.depends,
                                 .flow_least_ns = to.least,
                                 .flow_priority = to.priority,
                                 .flow_use_first = to.use_first,
                                 .flow_use = to.use,
                                 .link_bytes_per_s = scenario->link_bytes_per_s,
                                 .stream_device = scenario->stream_device,
                                 .device_slowdown = scenario->slowdown,
                                 .task_slowed = own ? to.slowed : NULL,
                                 .task_slows = own ? to.slows : NULL,
                                 .flow_slowdown = to.takes,
                                 .flow_device_first = to.device_first,
                                 .flow_device = to.device};
    lower_orders(keep, scenario, number, &graph);
    return graph;
}

#endif
