/* simulate.c - executes a plan's graph with costs.
 *
 * A run of operators takes the sum of its items (item_cost.h); a whole block with steps inside takes what it takes alone
 * (alone.c).
 *
 *   I1  Collectives and computation slow each other down (interference.c).
 *   I2  Sends take precedence over gradients and copies to the host if the schedule folds (Fold3D
 *       5.1); otherwise all share equally.
 *   I3  With FOLD_AUTO a graph is folded if that changes nothing (flows.h, I3), or if it would be
 *       too large otherwise: then the slowest group stands for all, and the prediction says so.
 */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "sim/room.h"

/* ---- costs of blocks ------------------------------------------------------------------------- */

static void rely_on(struct simulation *s, const struct kernel_cost *cost, double ns)
{
    for (size_t i = 0; i < s->reliance.len; i++) {
        struct reliance *r = &s->reliance.data[i];
        if (r->provenance == cost->provenance && strcmp(r->source, cost->source) == 0) {
            r->share += ns;
            return;
        }
    }
    /* the source's words are freed with its database */
    struct reliance r = {cost->provenance, arena_copy_text(s->keep, cost->source), ns};
    array_push(s->keep, &s->reliance, r);
}

/* The largest share first. */
static int by_share(const void *a, const void *b)
{
    const struct reliance *x = a, *y = b;
    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    if (x->provenance != y->provenance)
        return x->provenance < y->provenance ? -1 : 1;
    return strcmp(x->source, y->source);
}

/* Adds the sources of the block's operators. */
static void rely_on_block(struct simulation *s, const struct block *block, const int64_t *ns)
{
    for (int32_t i = 0; i < block->items; i++) {
        const struct item *item = &block->item[i];
        if (item->kind == ITEM_STEP)
            continue;
        const struct item_cost *cost =
            item_cost(&s->costs, item->instance, (enum phase)item->phase);
        if (cost->device.provenance != FROM_NOTHING)
            rely_on(s, &cost->device, (double)ns[i]);
    }
}

static void cost_blocks(struct simulation *s)
{
    const struct graph *graph = s->graph;
    int64_t items = 0;
    s->item_first = ARENA_ARRAY(s->keep, int64_t, (size_t)graph->blocks + 1);
    for (int32_t b = 0; b < graph->blocks; b++) {
        items += graph->block[b].items;
        s->item_first[b + 1] = items;
    }
    s->item_ns = ARENA_ARRAY(s->keep, int64_t, (size_t)items);
    struct part_cost_sums *of_part =
        ARENA_ARRAY(s->keep, struct part_cost_sums, (size_t)s->plan->parts);
    for (int32_t b = 0; b < graph->blocks; b++) {
        int64_t *ns = s->item_ns + s->item_first[b];
        item_costs_alone(&s->costs, &graph->block[b], &s->flows, ns,
                         &of_part[graph->block[b].part]);
        rely_on_block(s, &graph->block[b], ns);
    }
    for (int32_t b = 0; b < graph->blocks; b++)
        stretch_block(&graph->block[b], part_stretch(&of_part[graph->block[b].part]),
                      s->item_ns + s->item_first[b]);
    double all = 0;
    for (size_t i = 0; i < s->reliance.len; i++)
        all += s->reliance.data[i].share;
    for (size_t i = 0; i < s->reliance.len; i++)
        s->reliance.data[i].share /= all;
    if (s->reliance.len > 1)
        qsort(s->reliance.data, s->reliance.len, sizeof *s->reliance.data, by_share);
}

/* ---- how long tasks take ---------------------------------------------------------------------- */

static bool has_steps(const struct task *task, const struct block *block)
{
    for (int32_t i = task->first_item; i < task->first_item + task->items; i++)
        if (block->item[i].exchange >= 0)
            return true;
    return false;
}

/* How long a run of items takes when nothing from outside slows it down. */
static weft_status run_ns(struct simulation *s, const struct task *task, int64_t *out)
{
    const struct block *block = &s->graph->block[task->block];
    const int64_t *ns = s->item_ns + s->item_first[task->block];
    bool whole = task->items == block->items;
    weft_status status = WEFT_OK;
    if (whole && s->whole_ns[task->block] < 0 && has_steps(task, block))
        status = find_alone_ns(s, task->block, &s->whole_ns[task->block]);
    if (whole && s->whole_ns[task->block] >= 0) {
        *out = s->whole_ns[task->block];
        return status;
    }
    *out = 0;
    for (int32_t i = task->first_item; i < task->first_item + task->items; i++)
        *out += block->item[i].kind == ITEM_OP ? ns[i] : 0;
    if (whole)
        s->whole_ns[task->block] = *out;
    return status;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static weft_status task_ns(struct simulation *s, const struct task *task, int64_t *out)
{
    if (task->exchange >= 0) {
        *out = s->flows.latency_ns[task->exchange];
        return WEFT_OK;
    }
    *out = 0;
    if (task->idle)
        return WEFT_OK;
    if (task->block >= 0)
        return run_ns(s, task, out);
    int32_t stage = s->graph->device[task->device].stage;
    if (task->stream == STREAM_HOST) {
        *out = host_update_ns(&s->costs, stage, task->parameters);
        return WEFT_OK;
    }
    *out = optimizer_ns(&s->costs, stage, task->parameters) + orthogonal_ns(&s->costs, stage);
    return WEFT_OK;
}

static void order_tasks(struct simulation *s, struct engine_graph *g)
{
    const struct graph *graph = s->graph;
    int64_t *first = ARENA_ARRAY(s->keep, int64_t, (size_t)g->streams + 2);
    int32_t *order = ARENA_ARRAY(s->keep, int32_t, (size_t)graph->tasks);
    for (int32_t t = 0; t < graph->tasks; t++)
        first[g->task_stream[t] + 2]++;
    for (int32_t i = 0; i < g->streams; i++)
        first[i + 2] += first[i + 1];
    for (int32_t t = 0; t < graph->tasks; t++)
        order[first[g->task_stream[t] + 1]++] = t;
    g->order_first = first;
    g->order = order;
}

static weft_status tell_engine(struct simulation *s, struct engine_graph *g)
{
    const struct graph *graph = s->graph;
    size_t tasks = (size_t)graph->tasks;
    int32_t *stream = ARENA_ARRAY(s->keep, int32_t, tasks);
    int32_t *flow = ARENA_ARRAY(s->keep, int32_t, tasks);
    int64_t *ns = ARENA_ARRAY(s->keep, int64_t, tasks);
    weft_status status = WEFT_OK;
    *g = (struct engine_graph){.tasks = graph->tasks,
                               .streams = graph->devices * STREAM_COUNT,
                               .devices = graph->devices,
                               .task_stream = stream,
                               .task_ns = ns,
                               .task_flow = flow,
                               .depends_first = graph->depends_first,
                               .depends = graph->depends};
    for (int32_t t = 0; t < graph->tasks; t++) {
        const struct task *task = &graph->task[t];
        stream[t] = task->device * STREAM_COUNT + task->stream;
        flow[t] = task->exchange;
        TRY(task_ns(s, task, &ns[t]));
    }
    int32_t *device = ARENA_ARRAY(s->keep, int32_t, (size_t)g->streams);
    for (int32_t i = 0; i < g->streams; i++)
        device[i] = i % STREAM_COUNT == STREAM_COMPUTE ? i / STREAM_COUNT : -1;
    g->stream_device = device;
    tell_flows(s, g);
    tell_interference(s, g);
    if (plan_row(s->plan)->segmented) { /* I2 */
        int32_t *priority = ARENA_ARRAY(s->keep, int32_t, (size_t)graph->exchanges);
        for (int32_t i = 0; i < graph->exchanges; i++)
            priority[i] = graph->exchange[i].purpose == PURPOSE_DATA ||
                          graph->exchange[i].purpose == PURPOSE_OFFLOAD;
        g->flow_priority = priority;
    }
    tell_shared_processors(s, g);
    order_tasks(s, g);
done:
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static weft_status run(struct simulation *s, struct prediction *p)
{
    const struct graph *graph = s->graph;
    const struct plan *plan = s->plan;
    weft_status status;
    double start = wall_seconds();
    s->costs = item_costs_of(s->keep, plan, s->cost);
    s->whole_ns = ARENA_ARRAY(s->keep, int64_t, (size_t)graph->blocks);
    memset(s->whole_ns, -1, (size_t)graph->blocks * sizeof *s->whole_ns);
    cost_blocks(s);
    status = tell_engine(s, &p->engine);
    lone_blocks_free(s);
    TRY(status);
    p->engine.stop = s->stop;
    TRY(engine_run(s->keep, &p->engine, &p->result));
    p->engine.stop = NULL; /* the caller's flag may be gone before the prediction is */
    p->iteration_ns = p->result.end;
    p->lane_ns = s->item_ns;
    p->lane_first = s->item_first;
    p->link = s->flows.link;
    p->reliance = s->reliance.data;
    p->reliances = (int32_t)s->reliance.len;
    struct totals totals = model_totals(plan->model, plan->dtype);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        p->flops += totals.flops[phase] * (double)plan->global_batch;
    p->masked_flops = totals.masked_flops * (double)plan->global_batch;
    find_breakdown(p);
    p->simulate_s += wall_seconds() - start;
done:
    return status;
}

/* Unfolded, every device has its tasks, and each of a block's items may be a task. */
static int64_t unfolded_tasks(const struct graph *graph)
{
    int64_t tasks = 0;
    for (int32_t t = 0; t < graph->tasks; t++) {
        const struct task *task = &graph->task[t];
        int64_t devices = graph->plan->stage[graph->device[task->device].stage].devices;
        tasks += devices * (task->items > 1 ? task->items : 1);
    }
    return tasks;
}

/* Of a plan whose graph is never folded: every operator twice, for every device and micro-batch. */
static double least_unfolded(const struct plan *plan)
{
    double tasks = 0;
    for (int32_t p = 0; p < plan->parts; p++)
        tasks +=
            (double)plan->part[p].count * (double)plan->stage[plan_stage_of_part(plan, p)].devices;
    return 2 * tasks * (double)plan_micro_batches(plan);
}

/* Refuses a graph of every device that is too large, judged by the folded graph. */
static weft_status check_unfolded(const struct plan *plan)
{
    struct graph *graph = NULL;
    weft_status status;
    if (plan_has_subsets(plan)) /* graph.h, I6 */
        return least_unfolded(plan) > limit_of(LIMIT_UNFOLDED_TASKS)
                   ? over_limit(LIMIT_UNFOLDED_TASKS, least_unfolded(plan))
                   : WEFT_OK;
    TRY(graph_compile(plan, &(struct compile_options){FOLD_ALWAYS}, &graph));
    int64_t tasks = unfolded_tasks(graph);
    if ((double)tasks > limit_of(LIMIT_UNFOLDED_TASKS))
        status = over_limit(LIMIT_UNFOLDED_TASKS, (double)tasks);
done:
    graph_free(graph);
    return status;
}

/* Flows without links meet nobody, and take their own time (flows.h, I1). */
static void unshare(struct simulation *s)
{
    struct flows *flows = &s->flows;
    flows->use_first = ARENA_ARRAY(s->keep, int64_t, (size_t)flows->flows + 1);
    for (int32_t i = 0; i < flows->flows; i++)
        flows->together_ns[i] = flows->latency_ns[i] + flows->least_ns[i];
}

static weft_status find_flows(struct simulation *s, const struct graph *graph)
{
    const struct cluster *cluster = s->plan->cluster;
    if (s->kept_flows && graph->folded)
        return flows_find_kept(s->kept_flows, cluster, graph->pattern, graph->patterns,
                               graph->exchange, graph->exchanges, s->keep, &s->flows);
    return flows_find(cluster, graph->pattern, graph->patterns, graph->exchange, graph->exchanges,
                      graph->folded, s->keep, &s->flows);
}

/* Compiles the graph and finds its flows. */
static weft_status begin(struct simulation *s, struct prediction *p, enum fold fold)
{
    weft_status status;
    double start = wall_seconds();
    graph_free(p->graph);
    p->graph = NULL;
    struct compile_options options = {fold, .shared_network = s->shared_network,
                                      .sends_apart = s->sends_apart, .stop = s->stop};
    TRY(graph_compile(s->plan, &options, &p->graph));
    double compiled = wall_seconds();
    p->compile_s += compiled - start;
    const struct graph *graph = s->graph = p->graph;
    TRY(find_flows(s, graph));
    if (s->omitted.sharing)
        unshare(s);
    p->simulate_s += wall_seconds() - compiled;
done:
    return status;
}

/* A device that sends to several others makes them wait for each other: they are not alike. */
static bool sends_in_pairs(const struct graph *graph)
{
    for (int32_t i = 0; i < graph->patterns; i++) {
        const struct pattern *p = &graph->pattern[i];
        if (p->collective == COLLECTIVE_SEND && p->devices > p->from_devices)
            return false;
    }
    return true;
}

/* If groups are not alike, one cannot stand for all, and every device is simulated (I3). */
static weft_status unfold(struct simulation *s, struct prediction *p)
{
    if ((double)unfolded_tasks(p->graph) > limit_of(LIMIT_UNALIKE_TASKS))
        return WEFT_OK;
    p->folded_unalike = false;
    return begin(s, p, FOLD_NEVER);
}

weft_status simulate_all(const struct plan *plan, const struct simulate_options *options,
                         struct prediction **out)
{
    struct arena *arena = arena_new();
    struct prediction *p = ARENA_NEW(arena, struct prediction);
    struct simulation s = {.plan = plan,
                           .keep = arena,
                           .stop = options->stop,
                           .kept_flows = options->flows,
                           .shared_network = options->shared_network,
                           .sends_apart = options->briefly,
                           .omitted = options->omitted};
    weft_status status;
    *p = (struct prediction){.arena = arena, .plan = plan};
    s.cost = options->cost;
    if (!s.cost)
        TRY(cost_open_all(plan->cluster, options->profile, &s.cost));
    if (options->fold == FOLD_NEVER || plan_has_subsets(plan))
        TRY(check_unfolded(plan));
    TRY(begin(&s, p, options->fold));
    bool alike = s.flows.alike && sends_in_pairs(p->graph);
    p->folded_unalike = p->graph->folded && !alike;
    if (options->fold == FOLD_AUTO && p->folded_unalike)
        TRY(unfold(&s, p));
    TRY(run(&s, p));
    double start = wall_seconds();
    find_memory(p, options);
    if (options->points)
        find_points(p);
    p->simulate_s += wall_seconds() - start;
    *out = p;
    p = NULL;
done:
    if (s.cost != options->cost)
        cost_close(s.cost);
    prediction_free(p);
    return status;
}

void prediction_free(struct prediction *prediction)
{
    if (!prediction)
        return;
    struct arena *shorter = prediction->shorter;
    graph_free(prediction->graph);
    arena_free(prediction->arena);
    arena_free(shorter);
}

static double tflops_of(const struct prediction *prediction, double flops)
{
    double devices = (double)cluster_devices(prediction->plan->cluster);
    return flops / devices / ((double)prediction->iteration_ns * 1e-9) * 1e-12;
}

double prediction_tflops(const struct prediction *prediction)
{
    return tflops_of(prediction, prediction->flops);
}

double prediction_causal_tflops(const struct prediction *prediction)
{
    return tflops_of(prediction, prediction->flops - prediction->masked_flops);
}

double prediction_logged_tflops(const struct prediction *prediction)
{
    bool skips = software_log_skips_masked(&prediction->plan->software);
    return skips ? prediction_causal_tflops(prediction) : prediction_tflops(prediction);
}
