/* judge.c - how long a config takes and what it holds, part by part.
 *
 * The passes and memory of every part, and the transfers across every border, come from tables;
 * pipeline.h and search/estimate/stage_memory.h turn them into an iteration, as in candidate.c.
 */
#include "search/aceso/room.h"

#include <string.h>

/* ---- a judge --------------------------------------------------------------------------------- */

weft_status judge_new(const struct problem *problem, struct judge **out)
{
    struct arena *arena = arena_new();
    struct judge *j = ARENA_NEW(arena, struct judge);
    weft_status status;
    j->problem = problem;
    j->arena = arena;
    j->most_count = INT64_MAX;
    j->slot = ARENA_ARRAY(arena, struct part_cost, PART_SLOTS);
    j->chosen = ARENA_ARRAY(arena, struct chosen, PART_SLOTS);
    j->border_slot = ARENA_ARRAY(arena, struct border_slot, PART_SLOTS);
    TRY(estimator_new(&problem->settings, &j->estimator));
    TRY(estimator_tables(j->estimator));
    *out = j;
    return WEFT_OK;
done:
    judge_free(j);
    return status;
}

void judge_free(struct judge *judge)
{
    if (!judge)
        return;
    estimator_free(judge->estimator);
    arena_free(judge->arena);
}

void judge_forget(struct judge *judge)
{
    memset(judge->slot, 0, PART_SLOTS * sizeof *judge->slot);
    memset(judge->chosen, 0, PART_SLOTS * sizeof *judge->chosen);
    memset(judge->border_slot, 0, PART_SLOTS * sizeof *judge->border_slot);
    judge->stages = 0;
    for (int32_t k = 0; k < ACESO_MOST_PARTS; k++) {
        judge->cost[k] = NULL;
        judge->border_at[k] = NULL;
    }
}

int64_t judge_count(const struct judge *judge)
{
    return judge->count;
}

/* The factor for a config's schedule and pieces; 1 if the simulator has said nothing about them. */
static double told_of(const struct config *c, const double of[MOST_SCHEDULES][TOLD_PIECES + 1])
{
    double factor = c->pieces <= TOLD_PIECES ? of[c->schedule][c->pieces] : 0;
    return factor > 0 ? factor : 1;
}

int64_t judge_limit(const struct judge *judge, const struct config *c)
{
    double limit = (double)judge->problem->limit_bytes;
    return judge->told ? (int64_t)(limit * told_of(c, judge->told->memory))
                       : judge->problem->limit_bytes;
}

bool judge_over(const struct judge *judge)
{
    return judge->count >= judge->most_count || problem_over(judge->problem);
}

const struct problem *judge_problem(const struct judge *judge)
{
    return judge->problem;
}

const struct schedule *config_schedule(const struct config *c)
{
    const struct schedule *all;
    schedule_all(&all);
    return &all[c->schedule];
}

enum order config_order(const struct config *c)
{
    return config_schedule(c)->passes;
}

/* ---- stages ---------------------------------------------------------------------------------- */

static int64_t find_peak(struct judge *j, const struct config *c, int32_t stage)
{
    struct pipeline pipeline = {c->stages, c->pieces,
                                (int32_t)(j->problem->global_batch / c->step_samples),
                                (int32_t)j->problem->settings.group};
    int64_t state = 0, step = 0, stand_in = 0;
    for (int32_t k = stage; k < config_parts(c); k += c->stages) {
        state += j->cost[k]->state;
        step += j->cost[k]->step;
        stand_in = j->cost[k]->stand_in > stand_in ? j->cost[k]->stand_in : stand_in;
    }
    int64_t held =
        most_held(j->estimator->holdings, config_schedule(c), &pipeline, stage, &j->memory[stage]);
    return state + stand_in + (held > step ? held : step);
}

static int64_t find_optimizer(const struct judge *j, const struct config *c, int32_t stage)
{
    double ns = 0;
    for (int32_t k = stage; k < config_parts(c); k += c->stages) {
        const struct part_cost *part = j->cost[k];
        ns += part->table->optimizer_each_ns * (double)part->parameters;
        ns += k == stage ? (double)part->table->optimizer_least_ns : 0;
        ns += (double)part->gather_after_ns;
    }
    return (int64_t)ns;
}

/* The sums of a stage; found again only if its parts changed (parts.c, I4). */
static const struct stage_sums *sums_of(struct judge *j, const struct config *c, int32_t stage)
{
    struct stage_sums *sums = &j->sums[stage];
    if (!sums->known)
        *sums = (struct stage_sums){true, find_peak(j, c, stage), find_optimizer(j, c, stage)};
    return sums;
}

int64_t judge_peak(struct judge *j, const struct config *c, int32_t stage)
{
    return sums_of(j, c, stage)->peak_bytes;
}

static void busy_parts(const struct judge *j, const struct config *c, int32_t stage, int64_t *each,
                       int64_t *once)
{
    *each = *once = 0;
    for (int32_t k = stage; k < config_parts(c); k += c->stages) {
        const struct part_work *work = &j->work[k];
        *each += work->forward + work->backward + work->weight;
        *once += work->first_more + work->last_more + work->tail;
        *each += work->lag;
    }
}

static int64_t judge_busy(struct judge *j, const struct config *c, int32_t stage)
{
    int64_t each, once;
    busy_parts(j, c, stage, &each, &once);
    return each * (j->problem->global_batch / c->step_samples) + once +
           sums_of(j, c, stage)->optimizer_ns;
}

weft_status judge_stage(struct judge *judge, const struct config *c, int32_t stage,
                        struct stage_verdict *out)
{
    weft_status status;
    *out = (struct stage_verdict){0};
    TRY(judge_parts(judge, c, stage, &out->legal));
    if (!out->legal)
        goto done;
    out->busy_ns = judge_busy(judge, c, stage);
    out->peak_bytes = judge_peak(judge, c, stage);
    judge_keep(judge, c, stage, c->stages);
done:
    return status;
}

/* Whether gradients or weights are sent with every micro-batch. The first or the last pass of a
 * stage, and with it the way from any other stage to the end, may then be shorter than the passes
 * between. */
static bool shards_each(const struct config *c)
{
    enum { GRADIENTS_SHARDED = 2 };
    bool any = false;
    for (int32_t k = 0; k < config_parts(c); k++)
        for (int i = 0; i < MOST_MANNERS; i++)
            any |= c->part[k].manner[i].shard >= GRADIENTS_SHARDED;
    return any;
}

/* In every schedule the passes of a stage run one after the other. The pace of a pipeline loses
 * less than a nanosecond per micro-batch by rounding. */
weft_status judge_least(struct judge *j, struct config *c, int32_t stage, struct verdict *least)
{
    int64_t micro_batches = j->problem->global_batch / c->step_samples, pass_ns = 0;
    bool legal;
    weft_status status;
    *least = (struct verdict){0, 0};
    TRY(judge_recompute(j, c, UINT64_C(1) << stage));
    TRY(judge_parts(j, c, stage, &legal));
    if (!legal)
        goto done;
    for (int32_t k = stage; k < config_parts(c); k += c->stages)
        pass_ns += j->work[k].forward + j->work[k].backward + j->work[k].weight;
    double ns = (double)((pass_ns - 1) * micro_batches);
    int64_t excess = judge_peak(j, c, stage) - judge_limit(j, c);
    if (!shards_each(c))
        least->iteration_ns = (int64_t)(ns * (j->told ? told_of(c, j->told->time) : 1));
    least->excess_bytes = excess > 0 ? excess : 0;
    judge_keep(j, c, stage, c->stages);
done:
    return status;
}

void judge_pass_over(struct judge *judge)
{
    judge->count++;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Both sides of a tied weight that exists twice wait for each other's gradients. */
static weft_status tie_stages(struct judge *j, const struct config *c)
{
    struct tied_pair tied = j->problem->tied;
    weft_status status = WEFT_OK;
    if (tied.user < 0)
        return WEFT_OK;
    struct tied_parts at = tied_parts_of(c, tied);
    if (tied_alike(j->problem, c, at))
        return WEFT_OK;
    int32_t first = at.owner % c->stages, second = at.user % c->stages;
    const struct border *border;
    TRY(judge_tie(j, c, at, &border));
    if (!border)
        goto done;
    int64_t *a = &j->end[first].synchronised_ns, *b = &j->end[second].synchronised_ns;
    *a = *b = (*a > *b ? *a : *b) + border->tie;
done:
    return status;
}

static void note_stage(struct judge *j, const struct config *c, int32_t stage, int64_t peak_bytes,
                       struct stage_use *out)
{
    int64_t micro_batches = j->problem->global_batch / c->step_samples, operators = 0, sends = 0;
    for (int32_t k = stage; k < config_parts(c); k += c->stages) {
        operators += j->cost[k]->operators_ns;
        sends += j->work[k].send + j->work[k].back;
    }
    double compute = (double)(operators * micro_batches + sums_of(j, c, stage)->optimizer_ns);
    out->busy_ns = judge_busy(j, c, stage);
    double rest = (double)out->busy_ns - compute;
    out->used[RESOURCE_COMPUTE] = compute;
    out->used[RESOURCE_EXCHANGE] = (rest > 0 ? rest : 0) + (double)(sends * micro_batches);
    out->used[RESOURCE_MEMORY] = (double)peak_bytes;
}

static void sum_up(struct judge *j, const struct config *c, struct verdict *verdict,
                   struct stage_use *stages)
{
    int64_t limit = judge_limit(j, c);
    *verdict = (struct verdict){0, 0};
    for (int32_t s = 0; s < c->stages; s++) {
        int64_t end = j->end[s].synchronised_ns + sums_of(j, c, s)->optimizer_ns;
        int64_t peak = judge_peak(j, c, s), excess = peak - limit;
        verdict->iteration_ns = end > verdict->iteration_ns ? end : verdict->iteration_ns;
        verdict->excess_bytes += excess > 0 ? excess : 0;
        if (stages)
            note_stage(j, c, s, peak, &stages[s]);
    }
    if (j->told)
        verdict->iteration_ns =
            (int64_t)((double)verdict->iteration_ns * told_of(c, j->told->time));
}

weft_status judge_config(struct judge *judge, const struct config *c, struct verdict *verdict,
                         struct stage_use *stages, bool *legal)
{
    struct judge *j = judge;
    struct part_work piped[ACESO_MOST_PARTS];
    struct pipeline_work work = {config_schedule(c),
                                 c->stages,
                                 c->pieces,
                                 j->problem->global_batch / c->step_samples,
                                 piped,
                                 j->problem->settings.overlap,
                                 cost_slowdown(j->estimator->cost),
                                 j->problem->settings.group};
    weft_status status;
    j->count++;
    TRY(judge_parts(j, c, -1, legal));
    if (!*legal)
        goto done;
    for (int32_t k = 0; k < config_parts(c); k++) {
        piped[k] = j->work[k];
        put_in_pipeline(&work, k, &piped[k]);
    }
    if (plan_aligns_gathers(&j->problem->settings.software, c->pieces))
        begin_gathers(&work, piped);
    pipeline_ends(j->estimator->orders, &work, j->end);
    TRY(tie_stages(j, c));
    sum_up(j, c, verdict, stages);
    judge_keep(j, c, 0, 1);
done:
    return status;
}
