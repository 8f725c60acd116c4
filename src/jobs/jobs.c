/* jobs.c - all jobs in one simulation (jobs.h has the equations). */
#include "jobs/jobs.h"

#include <string.h>

#include "jobs/room.h"

/* ---- alone ----------------------------------------------------------------------------------- */

/* An iteration of one job where it is placed, with nobody else and nothing broken. */
static weft_status run_alone(const struct merged *all, int32_t j)
{
    struct merged_job *job = &all->job[j], only = {.alone = job->alone, .iterations = 1};
    struct jobs_request request = {.cluster = all->request->cluster,
                                   .job = &all->request->job[j],
                                   .jobs = 1,
                                   .stop = all->request->stop};
    struct merged m = {.request = &request, .keep = arena_new(), .job = &only};
    struct engine_result result;
    weft_status status;
    TRY(merge_jobs(&m));
    TRY(engine_run(m.keep, &m.graph, &result));
    job->alone_ns = result.end;
    job->task_ns = ARENA_ARRAY(all->keep, int64_t, (size_t)m.graph.tasks);
    for (int32_t t = 0; t < m.graph.tasks; t++)
        job->task_ns[t] = result.end_ns[t] - result.start_ns[t];
done:
    arena_free(m.keep);
    return status;
}

/* ---- how many iterations --------------------------------------------------------------------- */

/* Every job runs about as long as the slowest one with so many iterations, all by their times alone. */
static void set_iterations(struct merged *m, int64_t most)
{
    int64_t longest = 1;
    for (int32_t j = 0; j < m->request->jobs; j++)
        if (m->job[j].alone_ns > longest)
            longest = m->job[j].alone_ns;
    for (int32_t j = 0; j < m->request->jobs; j++) {
        int64_t own = m->job[j].alone_ns;
        int64_t wanted = ceil_div(longest * most, own > 0 ? own : 1);
        m->job[j].iterations = (int32_t)(wanted < MOST_SAMPLES ? wanted : MOST_SAMPLES);
    }
}

/* As many as were asked for, or as the engine takes; at least one. */
static void choose_iterations(struct merged *m)
{
    for (int64_t most = m->request->iterations; most >= 1; most /= 2) {
        set_iterations(m, most);
        if (merged_tasks(m) <= limit_of(LIMIT_UNFOLDED_TASKS))
            return;
    }
}

/* ---- what came out --------------------------------------------------------------------------- */

static const char *link_place(struct arena *keep, const struct cluster *cluster,
                              struct link_id link)
{
    const char *text = link_text(keep, cluster, link);
    return link.tier > 0 ? arena_printf(keep, "%s %lld", text, (long long)link.unit)
                         : arena_printf(keep, "%s of node %lld", text, (long long)link.unit);
}

/* The link that a flow takes longest on, by itself. */
static int32_t busiest_link(const struct engine_graph *graph, int32_t flow)
{
    double most = 0;
    int32_t busiest = -1;
    for (int64_t i = graph->flow_use_first[flow]; i < graph->flow_use_first[flow + 1]; i++) {
        const struct link_use *use = &graph->flow_use[i];
        double s = use->bytes / graph->link_bytes_per_s[use->link];
        if (s > most) {
            most = s;
            busiest = use->link;
        }
    }
    return busiest;
}

/* The link at which transfers took most longer than in the job alone, and how much longer. */
static void find_held(struct merged *m, const struct engine_result *result, int32_t j,
                      struct job_result *out)
{
    const struct merged_job *job = &m->job[j];
    int64_t *lost = ARENA_ARRAY(m->keep, int64_t, m->link.len + 1);
    int32_t worst = -1;
    int32_t tasks = job->alone->engine.tasks + 1;
    for (int32_t t = job->task; t < iteration_end(job, out->iterations - 1); t++) {
        int32_t link = result->held_by[t], flow = m->graph.task_flow[t];
        int64_t longer =
            result->end_ns[t] - result->start_ns[t] - job->task_ns[(t - job->task) % tasks];
        if (flow >= 0 && link < 0 && longer > 0) /* by no other transfer: by a fault */
            link = busiest_link(&m->graph, flow);
        if (flow < 0 || link < 0)
            continue;
        lost[link] += longer;
        if (worst < 0 || lost[link] > lost[worst])
            worst = link;
    }
    if (worst < 0 || lost[worst] <= 0)
        return;
    out->held_at = link_place(m->keep, m->request->cluster, m->link.data[worst]);
    out->held_ns = lost[worst] / out->iterations;
}

static int64_t first_to_finish(const struct merged *m, const struct engine_result *result)
{
    int64_t first = INT64_MAX;
    for (int32_t j = 0; j < m->request->jobs; j++) {
        int64_t end = result->end_ns[iteration_end(&m->job[j], m->job[j].iterations - 1)];
        first = end < first ? end : first;
    }
    return first;
}

static void measure(struct merged *m, const struct engine_result *result, int32_t j, int64_t until,
                    struct job_result *out)
{
    const struct merged_job *job = &m->job[j];
    int64_t before = 0;
    *out = (struct job_result){.alone_ns = job->alone_ns};
    for (int32_t i = 0; i < job->iterations; i++) {
        int64_t end = result->end_ns[iteration_end(job, i)];
        if (i > 0 && end > until)
            break;
        out->longest_ns = end - before > out->longest_ns ? end - before : out->longest_ns;
        out->iterations = i + 1;
        before = end;
    }
    out->shared_ns = before / out->iterations; /* (1) */
    out->slowdown = (double)before / out->iterations / (double)out->alone_ns;
    double graphs = (double)job->alone->iteration_ns / (double)job->alone->result.end;
    out->iteration_s = graphs * (double)before / out->iterations * 1e-9;
    find_held(m, result, j, out);
}

/* ---- running --------------------------------------------------------------------------------- */

static weft_status simulate_alone(struct merged *m)
{
    const struct jobs_request *request = m->request;
    weft_status status = WEFT_OK;
    for (int32_t j = 0; j < request->jobs; j++) {
        struct simulate_options options = {.fold = FOLD_NEVER,
                                           .profile = request->profile,
                                           .times_only = true,
                                           .shared_network = true,
                                           .stop = request->stop};
        TRY(simulate(request->job[j].plan, &options, &m->job[j].alone));
        TRY(run_alone(m, j));
    }
done:
    return status;
}

static void free_alone(struct merged *m)
{
    for (int32_t j = 0; j < m->request->jobs; j++)
        prediction_free(m->job[j].alone);
}

weft_status jobs_run(struct arena *keep, const struct jobs_request *request,
                     struct jobs_result *out)
{
    struct merged m = {.request = request, .keep = keep};
    struct engine_result result;
    weft_status status;
    if (request->cluster->node.device.alone_speedup > 1)
        return bad_argument("leave alone_speedup out",
                            "jobs beside each other are not simulated on shared processors");
    m.job = ARENA_ARRAY(keep, struct merged_job, (size_t)request->jobs);
    TRY(simulate_alone(&m));
    choose_iterations(&m);
    TRY(merge_jobs(&m));
    TRY(engine_run(keep, &m.graph, &result));
    *out = (struct jobs_result){ARENA_ARRAY(keep, struct job_result, (size_t)request->jobs),
                                m.graph.tasks, result.events};
    int64_t until = first_to_finish(&m, &result);
    for (int32_t j = 0; j < request->jobs; j++)
        measure(&m, &result, j, until, &out->job[j]);
done:
    free_alone(&m);
    return status;
}
