/* merge.c - the engine's graphs of all jobs as one graph, iteration after iteration (room.h).
 *
 *   task t of iteration i     first task + i (tasks + 1) + t                                  (1)
 *
 *   I1  Streams, flows and devices of different jobs are different; links are not (links.c).
 *   I2  Iterations share their flows, which are templates (engine.h).
 */
#include <string.h>

#include "jobs/room.h"

static const struct engine_graph *graph_of(const struct merged_job *job)
{
    return &job->alone->engine;
}

/* (1) */
static int32_t task_at(const struct merged_job *job, int32_t iteration, int32_t task)
{
    return job->task + iteration * (graph_of(job)->tasks + 1) + task;
}

int32_t iteration_end(const struct merged_job *job, int32_t iteration)
{
    return task_at(job, iteration, graph_of(job)->tasks);
}

/* ---- numbers --------------------------------------------------------------------------------- */

double merged_tasks(const struct merged *m)
{
    double tasks = 0;
    for (int32_t j = 0; j < m->request->jobs; j++)
        tasks += ((double)graph_of(&m->job[j])->tasks + 1) * m->job[j].iterations;
    return tasks;
}

static weft_status number_all(struct merged *m)
{
    struct engine_graph *g = &m->graph;
    if (merged_tasks(m) > limit_of(LIMIT_UNFOLDED_TASKS))
        return bad_argument("share fewer or smaller jobs",
                            "one iteration of all jobs has %.3g tasks, expected at most %.3g",
                            merged_tasks(m), limit_of(LIMIT_UNFOLDED_TASKS));
    for (int32_t j = 0; j < m->request->jobs; j++) {
        struct merged_job *job = &m->job[j];
        const struct engine_graph *own = graph_of(job);
        job->task = g->tasks;
        job->stream = g->streams;
        job->flow = g->flows;
        job->device = g->devices;
        g->tasks += (own->tasks + 1) * job->iterations;
        g->streams += own->streams + 1;
        g->flows += own->flows;
        g->devices += own->devices;
    }
    return WEFT_OK;
}

/* ---- tasks and streams ----------------------------------------------------------------------- */

struct task_lists {
    int32_t *stream, *flow, *order, *device;
    int64_t *ns, *depends_first, *order_first;
    ARRAY(int32_t) depends;
};

/* What a task waits for: its own dependencies; without any, the end of the iteration before. */
static void add_depends(struct merged *m, struct task_lists *l, const struct merged_job *job,
                        int32_t iteration, int32_t task)
{
    const struct engine_graph *own = graph_of(job);
    int64_t first = own->depends_first[task], last = own->depends_first[task + 1];
    for (int64_t i = first; i < last; i++)
        array_push(m->keep, &l->depends, task_at(job, iteration, own->depends[i]));
    if (first == last && iteration > 0)
        array_push(m->keep, &l->depends, iteration_end(job, iteration - 1));
}

/* The end of an iteration waits for the last task of each stream. */
static void add_end(struct merged *m, struct task_lists *l, const struct merged_job *job,
                    int32_t iteration)
{
    const struct engine_graph *own = graph_of(job);
    int32_t end = iteration_end(job, iteration);
    l->stream[end] = job->stream + own->streams;
    l->flow[end] = -1;
    for (int32_t s = 0; s < own->streams; s++)
        if (own->order_first[s] < own->order_first[s + 1])
            array_push(m->keep, &l->depends,
                       task_at(job, iteration, own->order[own->order_first[s + 1] - 1]));
    l->depends_first[end + 1] = (int64_t)l->depends.len;
}

static void add_tasks(struct merged *m, struct task_lists *l, const struct merged_job *job)
{
    const struct engine_graph *own = graph_of(job);
    for (int32_t i = 0; i < job->iterations; i++) {
        for (int32_t t = 0; t < own->tasks; t++) {
            int32_t at = task_at(job, i, t);
            l->stream[at] = job->stream + own->task_stream[t];
            l->ns[at] = own->task_ns[t];
            l->flow[at] =
                own->task_flow && own->task_flow[t] >= 0 ? job->flow + own->task_flow[t] : -1;
            add_depends(m, l, job, i, t);
            l->depends_first[at + 1] = (int64_t)l->depends.len;
        }
        add_end(m, l, job, i);
    }
}

static void add_streams(struct task_lists *l, const struct merged_job *job, int64_t *placed)
{
    const struct engine_graph *own = graph_of(job);
    for (int32_t s = 0; s <= own->streams; s++) {
        for (int32_t i = 0; i < job->iterations; i++) {
            if (s == own->streams)
                l->order[(*placed)++] = iteration_end(job, i);
            for (int64_t k = s < own->streams ? own->order_first[s] : 0;
                 s < own->streams && k < own->order_first[s + 1]; k++)
                l->order[(*placed)++] = task_at(job, i, own->order[k]);
        }
        bool works = s < own->streams && own->stream_device && own->stream_device[s] >= 0;
        l->device[job->stream + s] = works ? job->device + own->stream_device[s] : -1;
        l->order_first[job->stream + s + 1] = *placed;
    }
}

static void merge_tasks(struct merged *m)
{
    struct engine_graph *g = &m->graph;
    size_t tasks = (size_t)g->tasks, streams = (size_t)g->streams;
    struct task_lists l = {
        ARENA_ARRAY(m->keep, int32_t, tasks),       ARENA_ARRAY(m->keep, int32_t, tasks),
        ARENA_ARRAY(m->keep, int32_t, tasks),       ARENA_ARRAY(m->keep, int32_t, streams),
        ARENA_ARRAY(m->keep, int64_t, tasks),       ARENA_ARRAY(m->keep, int64_t, tasks + 1),
        ARENA_ARRAY(m->keep, int64_t, streams + 1), {0}};
    int64_t placed = 0;
    for (int32_t j = 0; j < m->request->jobs; j++) {
        add_tasks(m, &l, &m->job[j]);
        add_streams(&l, &m->job[j], &placed);
    }
    g->task_stream = l.stream;
    g->task_ns = l.ns;
    g->task_flow = l.flow;
    g->depends_first = l.depends_first;
    g->depends = l.depends.data;
    g->order_first = l.order_first;
    g->order = l.order;
    g->stream_device = l.device;
}

/* ---- interference ---------------------------------------------------------------------------- */

struct merged_interference {
    double *device, *flow;
    double *slowed, *slows; /* per task; NULL: no job has such factors */
    int64_t *first;
    ARRAY(int32_t) devices;
};

/* A job without factors of its tasks has those of its devices. */
static void add_task_factors(const struct merged_interference *in, const struct merged_job *job)
{
    const struct engine_graph *own = graph_of(job);
    for (int32_t i = 0; i < job->iterations; i++)
        for (int32_t t = 0; t < own->tasks; t++) {
            int32_t device = own->stream_device ? own->stream_device[own->task_stream[t]] : -1;
            double all = own->device_slowdown && device >= 0 ? own->device_slowdown[device] : 1;
            in->slowed[task_at(job, i, t)] = own->task_slowed ? own->task_slowed[t] : all;
            in->slows[task_at(job, i, t)] = own->task_slows ? own->task_slows[t] : all;
        }
}

static void add_interference(struct merged *m, struct merged_interference *in,
                             const struct merged_job *job)
{
    const struct engine_graph *own = graph_of(job);
    if (in->slowed)
        add_task_factors(in, job);
    for (int32_t d = 0; d < own->devices; d++)
        in->device[job->device + d] = own->device_slowdown ? own->device_slowdown[d] : 1;
    for (int32_t f = 0; f < own->flows; f++) {
        int64_t k = own->device_slowdown ? own->flow_device_first[f] : 0;
        for (; own->device_slowdown && k < own->flow_device_first[f + 1]; k++)
            array_push(m->keep, &in->devices, job->device + own->flow_device[k]);
        in->flow[job->flow + f] = own->flow_slowdown ? own->flow_slowdown[f] : 1;
        in->first[job->flow + f + 1] = (int64_t)in->devices.len;
    }
}

static void merge_interference(struct merged *m)
{
    struct engine_graph *g = &m->graph;
    struct merged_interference in = {
        .device = ARENA_ARRAY(m->keep, double, (size_t)g->devices),
        .flow = ARENA_ARRAY(m->keep, double, (size_t)g->flows + 1),
        .first = ARENA_ARRAY(m->keep, int64_t, (size_t)g->flows + 1),
    };
    for (int32_t j = 0; j < m->request->jobs && !in.slowed; j++)
        if (graph_of(&m->job[j])->task_slowed) {
            in.slowed = ARENA_ARRAY(m->keep, double, (size_t)g->tasks);
            in.slows = ARENA_ARRAY(m->keep, double, (size_t)g->tasks);
        }
    for (int32_t j = 0; j < m->request->jobs; j++)
        add_interference(m, &in, &m->job[j]);
    g->task_slowed = in.slowed;
    g->task_slows = in.slows;
    g->device_slowdown = in.device;
    g->flow_slowdown = in.flow;
    g->flow_device_first = in.first;
    g->flow_device = in.devices.data;
}

/* ---- flows ----------------------------------------------------------------------------------- */

static void merge_flows(struct merged *m)
{
    struct engine_graph *g = &m->graph;
    int64_t *least = ARENA_ARRAY(m->keep, int64_t, (size_t)g->flows + 1);
    int32_t *priority = ARENA_ARRAY(m->keep, int32_t, (size_t)g->flows + 1);
    for (int32_t j = 0; j < m->request->jobs; j++) {
        const struct engine_graph *own = graph_of(&m->job[j]);
        for (int32_t f = 0; f < own->flows; f++) {
            least[m->job[j].flow + f] = own->flow_least_ns[f];
            priority[m->job[j].flow + f] = own->flow_priority ? own->flow_priority[f] : 0;
        }
    }
    g->flow_least_ns = least;
    g->flow_priority = priority;
    merge_links(m);
}

weft_status merge_jobs(struct merged *m)
{
    weft_status status;
    TRY(number_all(m));
    merge_tasks(m);
    merge_interference(m);
    merge_flows(m);
    m->graph.stop = m->request->stop;
done:
    return status;
}
