/* shared_processor.c - devices that are ranks on one processor (cluster.h, alone_speedup).
 *
 * Times are those of a task while all n devices of its node compute. While k of them do, each is
 *
 *   min(alone_speedup, n / k)                                                                       (1)
 *
 * times as quick: the processor does n parts of work in the time that all take for one each, and one task alone does not fill it.
 * share.h says the same of flows, so the engine is told of such work as flows: of as many bytes as the task takes nanoseconds, over
 * a link of its node that carries n bytes per nanosecond, at a pace of alone_speedup.
 *
 *   I1  These flows and links come after those of the network, which keep their numbers.
 *   I2  Transfers do not slow such work down.
 */
#include <math.h>
#include <string.h>

#include "sim/room.h"

/* What is made of the engine's flows and links. */
struct processors {
    int64_t *least_ns, *use_first, *device_first;
    int32_t *flow, *priority;
    struct link_use *use;
    double *bytes_per_s, *slowdown;
};

/* A longer copy; what is new is zero. */
static void *extended(struct arena *keep, const void *from, size_t have, size_t more, size_t each)
{
    char *made = ARENA_ARRAY(keep, char, (have + more) * each);
    if (have)
        memcpy(made, from, have * each);
    return made;
}
#define EXTENDED(keep, from, have, more)                                                           \
    extended(keep, from, (size_t)(have), (size_t)(more), sizeof *(from))

static bool is_shared(const struct engine_graph *g, int32_t task)
{
    return g->task_stream[task] % STREAM_COUNT == STREAM_COMPUTE && g->task_flow[task] < 0 &&
           g->task_ns[task] > 0;
}

static int32_t count_shared(const struct engine_graph *g)
{
    int32_t count = 0;
    for (int32_t t = 0; t < g->tasks; t++)
        count += is_shared(g, t);
    return count;
}

static struct processors processors_of(struct arena *keep, const struct engine_graph *g,
                                       int32_t more, int64_t nodes)
{
    int64_t uses = g->flow_use_first[g->flows];
    struct processors p = {.least_ns = EXTENDED(keep, g->flow_least_ns, g->flows, more),
                           .use_first = EXTENDED(keep, g->flow_use_first, g->flows + 1, more),
                           .flow = EXTENDED(keep, g->task_flow, g->tasks, 0),
                           .use = EXTENDED(keep, g->flow_use, uses, more),
                           .bytes_per_s = EXTENDED(keep, g->link_bytes_per_s, g->links, nodes)};
    if (g->flow_priority)
        p.priority = EXTENDED(keep, g->flow_priority, g->flows, more);
    if (g->flow_slowdown)
        p.slowdown = EXTENDED(keep, g->flow_slowdown, g->flows, more);
    if (g->flow_device_first)
        p.device_first = EXTENDED(keep, g->flow_device_first, g->flows + 1, more);
    return p;
}

/* On the link of the task's node; folded, a device stands for those of its stage there. */
static struct link_use use_of(const struct simulation *s, const struct engine_graph *g,
                              int32_t task)
{
    const struct graph_device *at = &s->graph->device[g->task_stream[task] / STREAM_COUNT];
    int64_t each = s->plan->cluster->node.devices, alike = s->plan->stage[at->stage].devices;
    if (!s->graph->folded)
        alike = 1;
    return (struct link_use){.link = g->links + (int32_t)(at->device / each),
                             .bytes = (double)g->task_ns[task],
                             .times = (double)(alike < each ? alike : each)};
}

static void add_flow(const struct simulation *s, struct engine_graph *g, struct processors *p,
                     int32_t task, int32_t flow)
{
    double speedup = s->plan->cluster->node.device.alone_speedup;
    p->least_ns[flow] = (int64_t)ceil((double)g->task_ns[task] / speedup); /* (1) */
    p->use[p->use_first[flow]] = use_of(s, g, task);
    p->use_first[flow + 1] = p->use_first[flow] + 1;
    p->flow[task] = flow;
    if (p->slowdown)
        p->slowdown[flow] = 1;
    if (p->device_first)
        p->device_first[flow + 1] = p->device_first[flow];
}

void tell_shared_processors(struct simulation *s, struct engine_graph *g)
{
    const struct cluster *cluster = s->plan->cluster;
    int32_t more = count_shared(g), flow = g->flows;
    if (cluster->node.device.alone_speedup <= 1 || more == 0)
        return;
    struct processors p = processors_of(s->keep, g, more, cluster->nodes);
    int64_t *ns = EXTENDED(s->keep, g->task_ns, g->tasks, 0);
    for (int32_t t = 0; t < g->tasks; t++)
        if (is_shared(g, t)) {
            add_flow(s, g, &p, t, flow++);
            ns[t] = 0; /* a flow's latency */
        }
    for (int64_t i = 0; i < cluster->nodes; i++)
        p.bytes_per_s[g->links + i] = 1e9 * cluster->node.devices;
    s->flows.link = EXTENDED(s->keep, s->flows.link, g->links, cluster->nodes);
    g->flows += more;
    g->links += (int32_t)cluster->nodes;
    g->task_ns = ns;
    g->task_flow = p.flow;
    g->flow_least_ns = p.least_ns;
    g->flow_use_first = p.use_first;
    g->flow_use = p.use;
    g->link_bytes_per_s = p.bytes_per_s;
    g->flow_priority = p.priority;
    g->flow_slowdown = p.slowdown;
    g->flow_device_first = p.device_first;
}
