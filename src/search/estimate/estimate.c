/* estimate.c - the estimate of a plan, from its own blocks (candidate.h). */
#include "search/estimate/estimator.h"

struct estimate_settings estimate_settings_of(const struct plan *plan)
{
    return (struct estimate_settings){.model = plan->model,
                                      .cluster = plan->cluster,
                                      .dtype = plan->dtype,
                                      .policy = plan->policy,
                                      .software = plan->software,
                                      .optimizer = plan->optimizer,
                                      .replicate = plan->replicate,
                                      .optimizer_offload = plan->optimizer_offload,
                                      .stage_run = plan->stage_run,
                                      .group = plan->group,
                                      .defer_head = plan->defer_head,
                                      .overlap = plan->overlap,
                                      .bucket_bytes = plan->bucket_bytes,
                                      .memory = plan->memory,
                                      .whole_sends = plan->whole_sends};
}

void estimate_settings_give(const struct estimate_settings *settings, struct plan *plan)
{
    plan->dtype = settings->dtype;
    plan->policy = settings->policy;
    plan->software = settings->software;
    plan->optimizer = settings->optimizer;
    plan->replicate = settings->replicate;
    plan->optimizer_offload = settings->optimizer_offload;
    plan->stage_run = settings->stage_run;
    plan->group = settings->group;
    plan->overlap = settings->overlap;
    plan->bucket_bytes = settings->bucket_bytes;
    plan->memory = settings->memory;
    plan->whole_sends = settings->whole_sends;
}

/* Of 202 published runs of 15 GiB or more, the allocator is predicted to reserve 1.5, 3.2 and 8.0 % more than is
 * allocated in the quartiles, and communicators take about 1 % of a device: what leaves less seldom fits, and of
 * what leaves this much the better half does. */
static const double ALLOCATOR_ALLOWANCE = 0.02;

static int64_t pool_limit_bytes(const struct cluster *pool, const struct memory_terms *terms)
{
    struct memory_budget budget = memory_budget(&pool->node.device, terms);
    return (int64_t)((double)budget_room(&budget) * (1 - ALLOCATOR_ALLOWANCE));
}

int64_t estimate_limit_bytes(const struct cluster *cluster, const struct memory_terms *terms)
{
    int64_t most = 0;
    for (int32_t p = 0; p < cluster_pools(cluster); p++) {
        int64_t bytes = pool_limit_bytes(cluster_pool(cluster, p), terms);
        most = bytes > most ? bytes : most;
    }
    return most;
}

void note_limit(const struct cluster *cluster, const struct memory_terms *terms,
                const struct stage *on, struct stage_estimate *out)
{
    out->limit_bytes = pool_limit_bytes(cluster_at(cluster, on->first_device), terms);
}

weft_status estimator_new(const struct estimate_settings *settings, struct estimator **out)
{
    struct arena *arena = arena_new();
    struct estimator *e = ARENA_NEW(arena, struct estimator);
    weft_status status;
    *e = (struct estimator){.arena = arena,
                            .settings = *settings,
                            .orders = orders_new(arena),
                            .holdings = holdings_new(arena)};
    TRY(cost_open_all(settings->cluster, settings->profile, &e->cost));
    e->shares_flows = flow_cache_serves(settings->flows, settings->cluster);
    e->flows = e->shares_flows ? settings->flows : flow_cache_new();
    *out = e;
    return WEFT_OK;
done:
    arena_free(arena);
    return status;
}

void estimator_free(struct estimator *estimator)
{
    if (!estimator)
        return;
    tables_free(estimator->tables);
    if (!estimator->shares_flows)
        flow_cache_free(estimator->flows);
    cost_close(estimator->cost);
    arena_free(estimator->arena);
}

/* ---- what all estimates end with ------------------------------------------------------------- */

void note_part(const struct part_work *part, struct stage_estimate *out)
{
    out->forward_ns += part->forward;
    out->backward_ns += part->backward + part->weight;
    out->first_more_ns += part->first_more;
    out->last_more_ns += part->last_more;
    out->send_ns += part->send;
    out->back_ns += part->back;
}

void note_end(const struct stage_end *end, struct stage_estimate *out)
{
    out->end_ns = end->synchronised_ns;
    out->tail_ns = end->synchronised_ns - end->computed_ns;
}

/* Of two stages on different devices, that which takes more of its own. */
static bool is_fuller(const struct stage_estimate *a, const struct stage_estimate *b)
{
    return a->limit_bytes == b->limit_bytes ? a->peak_bytes > b->peak_bytes
                                            : (double)a->peak_bytes * (double)b->limit_bytes >
                                                  (double)b->peak_bytes * (double)a->limit_bytes;
}

void sum_up_stages(struct estimate *out)
{
    const struct stage_estimate *fullest = out->stage;
    out->iteration_ns = 0;
    for (int32_t s = 0; s < out->stages; s++) {
        const struct stage_estimate *stage = &out->stage[s];
        if (stage->end_ns > out->iteration_ns)
            out->iteration_ns = stage->end_ns;
        if (s == 0 || is_fuller(stage, fullest))
            fullest = stage;
    }
    out->peak_bytes = fullest->peak_bytes;
    out->limit_bytes = fullest->limit_bytes;
    out->fits = out->peak_bytes <= out->limit_bytes;
}

/* ---- a plan ---------------------------------------------------------------------------------- */

static void tie_stages(const struct timed *t, const struct outline_tie *tie,
                       struct stage_estimate *stage)
{
    int64_t *owner = &stage[tie->owner_stage].end_ns, *user = &stage[tie->user_stage].end_ns;
    int64_t ns = *owner > *user ? *owner : *user;
    for (int32_t k = 0; k < tie->exchanges; k++)
        ns += exchange_ns(t, tie->exchange[k]);
    *owner = *user = ns;
}

static int64_t updated_parameters(const struct timed *t, int32_t stage)
{
    const struct outline *o = &t->outline;
    int64_t parameters = 0;
    for (int32_t i = 0; i < o->graph->buckets; i++)
        if (plan_stage_of_part(t->plan, o->graph->bucket[i].part) == stage)
            parameters += o->updated[i];
    return parameters;
}

/* What follows the gradients: tied weights, the optimizer, gathers of the weights it updated. */
static void end_stages(const struct timed *t, const struct stage_end *end, struct estimate *out)
{
    const struct plan *plan = t->plan;
    const struct outline *o = &t->outline;
    bool after = !(plan->overlap & OVERLAP_PARAMETERS);
    for (int32_t s = 0; s < plan->stages; s++)
        note_end(&end[s], &out->stage[s]);
    for (int32_t i = 0; i < o->ties; i++)
        tie_stages(t, &o->tie[i], out->stage);
    for (int32_t s = 0; s < plan->stages; s++) {
        out->stage[s].optimizer_ns = optimizer_ns(&t->costs, s, updated_parameters(t, s)) +
                                     orthogonal_ns(&t->costs, s) + host_step_on_stage_ns(t, s);
        out->stage[s].end_ns += out->stage[s].optimizer_ns;
    }
    for (int32_t i = 0; after && i < o->graph->buckets; i++) {
        const struct bucket *bucket = &o->graph->bucket[i];
        if (bucket->shard == 1 || bucket->shard == 2)
            out->stage[plan_stage_of_part(plan, bucket->part)].end_ns +=
                exchange_ns(t, o->gather[i]);
    }
}

static bool sends_to(const struct timed *t, int32_t from, int32_t to)
{
    bool any = false;
    for (int32_t i = 0; i < t->outline.sends; i++)
        any |= t->outline.send[i].from_part == from && t->outline.send[i].to_part == to;
    return any;
}

/* pipeline.h, I6: on stages of their own, of which the first that reads nothing from the one before it. */
static struct parted parted_of(const struct timed *t)
{
    int32_t parts = t->plan->parts;
    struct parted none = {0};
    for (int32_t k = 1; k + 1 < parts && t->plan->pieces == 1; k++) {
        int32_t user = k + 1;
        if (sends_to(t, k - 1, k))
            continue;
        while (user < parts && !sends_to(t, k - 1, user))
            user++;
        return user == parts ? none
                             : (struct parted){k, user, sends_ns(t, k - 1, user, false),
                                               sends_ns(t, k - 1, user, true)};
    }
    return none;
}

weft_status estimate_plan(struct estimator *estimator, const struct plan *plan, struct arena *keep,
                          struct estimate *out)
{
    struct arena *scratch = arena_new();
    struct timed timed = {0};
    struct part_work *part = ARENA_ARRAY(scratch, struct part_work, (size_t)plan->parts);
    struct stage_end *end = ARENA_ARRAY(scratch, struct stage_end, (size_t)plan->stages);
    struct pipeline_work work = {plan_schedule(plan),
                                 plan->stages,
                                 (int32_t)plan->pieces,
                                 plan_micro_batches(plan),
                                 part,
                                 plan->overlap,
                                 cost_slowdown(estimator->cost),
                                 plan->group};
    weft_status status;
    *out = (struct estimate){.stages = plan->stages};
    out->stage = ARENA_ARRAY(keep, struct stage_estimate, (size_t)plan->stages);
    TRY(timed_new(scratch, plan, estimator->cost, estimator->flows, &timed));
    timed.runs = pass_runs_new(scratch);
    for (int32_t k = 0; k < plan->parts; k++) {
        TRY(part_work(&timed, k, &part[k]));
        note_part(&part[k], &out->stage[plan_stage_of_part(plan, k)]);
        put_in_pipeline(&work, k, &part[k]);
    }
    work.parted = parted_of(&timed);
    if (plan_aligns_gathers(&plan->software, plan->pieces))
        begin_gathers(&work, part);
    else
        gather_before_inputs(&work, part);
    pipeline_ends(estimator->orders, &work, end);
    end_stages(&timed, end, out);
    for (int32_t s = 0; s < plan->stages; s++) {
        out->stage[s].peak_bytes = stage_peak_bytes(timed.outline.graph, s);
        note_limit(plan->cluster, &plan->memory, &plan->stage[s], &out->stage[s]);
    }
    sum_up_stages(out);
done:
    timed_free(&timed);
    arena_free(scratch);
    return status;
}
