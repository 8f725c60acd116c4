/* galvatron_cuts.c - 1F1B pipelines cut by memory, by time, and by the search (Galvatron-BMW, Table V).
 *
 *   alpha = 1 - max_i cost_i / sum_i cost_i                                                 (Eq. 6)
 *   alpha_t(p_m) <= alpha_t(p) <= alpha_t(p_t),  alpha_m(p_t) <= alpha_m(p) <= alpha_m(p_m)  (Eq. 7)
 *
 *   I1  p_m and p_t balance layers by their cost under the first strategy, DP. The strategies of each
 *       stage are then searched separately, for the stage's share of Eq. 9 in a balanced pipeline:
 *         (m - 1 + P) steady + P once
 *   I2  The paper measured on A100 and with T5-512/4; neither's layers are published. RTX TITAN and
 *       T5-Large replace them, because the three ways are compared with each other, not with a time.
 */
#include <string.h>

#include "lab/galvatron_facts.h"
#include "lab/published_searches.h"

enum { DEVICES = 16, BATCH = 256, CHUNK_SAMPLES = 4, GIB_STEP = 4 };

/* ---- what layers cost ------------------------------------------------------------------------ */

struct layer_cutter {
    struct arena *scratch;
    const struct layer_problem *problem;
    struct strategies strategies;
    weft_status status; /* of the first question that failed */
    bool by_memory;     /* usual_cost adds up bytes instead of times */
};

static struct layer_question question_of(const struct layer_cutter *cutter, int32_t stage)
{
    const struct layer_problem *p = cutter->problem;
    return (struct layer_question){.devices = p->devices,
                                   .stages = (int32_t)p->pp,
                                   .stage = stage,
                                   .step_samples = p->global_batch / p->micro_batches,
                                   .micro_batches = p->micro_batches};
}

static int64_t in_flight(const struct layer_cutter *cutter, int32_t stage)
{
    int64_t after = cutter->problem->pp - stage, all = cutter->problem->micro_batches;
    return after < all ? after : all;
}

static void note(struct layer_cutter *cutter, weft_status status)
{
    if (cutter->status == WEFT_OK)
        cutter->status = status;
}

static struct layer_cost layer_on(struct layer_cutter *cutter, int32_t stage, int32_t kind,
                                  size_t strategy)
{
    const struct layer_source *source = cutter->problem->source;
    struct layer_question question = question_of(cutter, stage);
    struct layer_cost cost = {.steady_ns = LAYERWISE_NEVER};
    note(cutter, source->layer(source->context, &question, kind, &cutter->strategies.data[strategy],
                               &cost));
    return cost;
}

static struct layer_cost beside(struct layer_cutter *cutter, int32_t stage)
{
    const struct layer_source *source = cutter->problem->source;
    struct layer_question question = question_of(cutter, stage);
    struct layer_cost cost = {0};
    note(cutter, source->beside(source->context, &question, &cost));
    return cost;
}

/* The cost of a run of layers under DP (I1): its steady time, or its bytes. */
static int64_t usual_cost(void *context, int32_t stage, struct layer_run run)
{
    struct layer_cutter *cutter = context;
    struct layer_cost own = beside(cutter, stage);
    int64_t held = in_flight(cutter, stage);
    int64_t ns = own.steady_ns, bytes = own.state_bytes + held * own.kept_bytes;
    for (int32_t l = run.first; l < run.first + run.count; l++) {
        struct layer_cost cost = layer_on(cutter, stage, cutter->problem->source->kind[l], 0);
        ns += cost.steady_ns;
        bytes += cost.state_bytes + held * cost.kept_bytes;
    }
    return cutter->by_memory ? bytes : ns;
}

static double alpha(struct layer_cutter *cutter, bool by_memory, const int32_t *count)
{
    int64_t cost[CUT_MOST_STAGES];
    int32_t first = 0, stages = (int32_t)cutter->problem->pp;
    cutter->by_memory = by_memory;
    for (int32_t stage = 0; stage < stages; stage++) {
        cost[stage] = usual_cost(cutter, stage, (struct layer_run){first, count[stage]});
        first += count[stage];
    }
    return balance_degree(cost, stages);
}

/* ---- the strategies of one stage ------------------------------------------------------------- */

/* Indexed by kind, then by strategy, as in layerwise.h. */
struct stage_table {
    int64_t *weighted, *steady, *once, *kept, *peak, *state;
    int64_t *reshard, *weighted_reshard;
};

static void fill_reshards(struct layer_cutter *cutter, int32_t stage, int64_t weight,
                          struct stage_table *t)
{
    const struct layer_source *source = cutter->problem->source;
    struct layer_question question = question_of(cutter, stage);
    size_t strategies = cutter->strategies.len, pairs = strategies * strategies;
    size_t all = pairs * (size_t)source->boundaries;
    t->reshard = ARENA_ARRAY(cutter->scratch, int64_t, all);
    t->weighted_reshard = ARENA_ARRAY(cutter->scratch, int64_t, all);
    for (size_t i = 0; i < all; i++) {
        note(cutter, source->reshard(source->context, &question, (int32_t)(i / pairs),
                                     &cutter->strategies.data[i % pairs / strategies],
                                     &cutter->strategies.data[i % strategies], &t->reshard[i]));
        t->weighted_reshard[i] = weight * t->reshard[i];
    }
}

static void fill_table(struct layer_cutter *cutter, int32_t stage, struct stage_table *t)
{
    size_t strategies = cutter->strategies.len;
    size_t entries = strategies * (size_t)cutter->problem->source->kinds;
    int64_t stages = cutter->problem->pp, weight = cutter->problem->micro_batches - 1 + stages;
    int64_t **arrays[] = {&t->weighted, &t->steady, &t->once, &t->kept, &t->peak, &t->state};
    for (size_t i = 0; i < COUNT_OF(arrays); i++)
        *arrays[i] = ARENA_ARRAY(cutter->scratch, int64_t, entries);
    for (size_t e = 0; e < entries; e++) {
        struct layer_cost cost = layer_on(cutter, stage, (int32_t)(e / strategies), e % strategies);
        bool never = cost.steady_ns == LAYERWISE_NEVER;
        t->steady[e] = cost.steady_ns;
        t->once[e] = cost.once_ns;
        t->weighted[e] =
            never ? LAYERWISE_NEVER : weight * cost.steady_ns + stages * cost.once_ns; /* I1 */
        t->kept[e] = in_flight(cutter, stage) * cost.kept_bytes;
        t->peak[e] = cost.peak_bytes;
        t->state[e] = cost.state_bytes;
    }
    fill_reshards(cutter, stage, weight, t);
}

static struct stage_cost cost_of_strategies(const struct layerwise *problem,
                                            const struct stage_table *t, const int32_t *strategy,
                                            const struct layer_cost *own)
{
    struct stage_cost cost = {own->steady_ns + own->once_ns, own->steady_ns, 0};
    for (int32_t l = 0; l < problem->layers; l++) {
        int32_t at = problem->kind[l] * problem->strategies + strategy[l];
        int64_t steady = t->steady[at];
        if (l)
            steady += t->reshard[(problem->boundary[l] * problem->strategies + strategy[l - 1]) *
                                     problem->strategies +
                                 strategy[l]];
        cost.steady_ns += steady;
        cost.time_ns += steady + t->once[at];
    }
    return cost;
}

/* WEFT_NO_ANSWER if it does not fit. */
static weft_status search_stage(struct layer_cutter *cutter, int32_t stage, struct layer_run run,
                                struct stage_cost *out)
{
    const struct layer_source *source = cutter->problem->source;
    struct layer_cost own = beside(cutter, stage);
    struct layerwise_answer answer;
    struct stage_table t;
    weft_status status;
    fill_table(cutter, stage, &t);
    TRY(cutter->status);
    struct layerwise problem = {.layers = run.count,
                                .strategies = (int32_t)cutter->strategies.len,
                                .kinds = source->kinds,
                                .boundaries = source->boundaries,
                                .kind = source->kind + run.first,
                                .boundary = source->boundary + run.first,
                                .time_ns = t.weighted,
                                .kept_bytes = t.kept,
                                .peak_bytes = t.peak,
                                .state_bytes = t.state,
                                .reshard_ns = t.weighted_reshard,
                                .limit_bytes = cutter->problem->limit_bytes - own.state_bytes -
                                               own.peak_bytes -
                                               in_flight(cutter, stage) * own.kept_bytes};
    if (problem.limit_bytes < 0)
        return WEFT_NO_ANSWER;
    TRY(layerwise_solve(cutter->scratch, &problem, &answer));
    *out = cost_of_strategies(&problem, &t, answer.strategy, &own);
done:
    return status;
}

/* ---- three ways ------------------------------------------------------------------------------ */

static void set_rate(const struct layer_cutter *cutter, int64_t iteration_ns, struct cut *cut)
{
    cut->fits = true;
    cut->samples_per_s = (double)cutter->problem->global_batch / ((double)iteration_ns * 1e-9);
}

static weft_status cut_balanced(struct layer_cutter *cutter, bool by_memory, struct cut *out)
{
    const struct layer_problem *problem = cutter->problem;
    int32_t stages = (int32_t)problem->pp, first = 0;
    struct balance balance = {problem->source->layers, stages, cutter, usual_cost};
    struct stage_cost cost[CUT_MOST_STAGES];
    weft_status status;
    cutter->by_memory = by_memory;
    balance_partition(&balance, out->count);
    for (int32_t stage = 0; stage < stages; stage++) {
        TRY(search_stage(cutter, stage, (struct layer_run){first, out->count[stage]},
                         &cost[stage]));
        first += out->count[stage];
    }
    set_rate(cutter, pipeline_ns(cost, stages, problem->micro_batches), out);
done:
    return status;
}

static weft_status cut_searched(struct layer_cutter *cutter, struct cut *out)
{
    struct layer_plans plans;
    weft_status status;
    TRY(galvatron_search(cutter->scratch, cutter->problem, &plans));
    memcpy(out->count, plans.data[0].count, (size_t)cutter->problem->pp * sizeof *out->count);
    set_rate(cutter, plans.data[0].iteration_ns, out);
done:
    return status;
}

static bool at_most(double a, double b)
{
    return a <= b + 1e-9; /* allows for rounding */
}

/* Whether Eq. 7 holds. */
static bool lies_between(const struct cut cut[CUT_WAYS])
{
    const struct cut *memory = &cut[CUT_BY_MEMORY], *time = &cut[CUT_BY_TIME];
    const struct cut *own = &cut[CUT_BY_SEARCH];
    return at_most(memory->alpha_time, own->alpha_time) &&
           at_most(own->alpha_time, time->alpha_time) &&
           at_most(time->alpha_memory, own->alpha_memory) &&
           at_most(own->alpha_memory, memory->alpha_memory);
}

static weft_status cut_pipeline(struct layer_cutter *cutter, struct cut_pipeline *pipeline)
{
    const struct layer_problem *problem = cutter->problem;
    weft_status status = WEFT_OK;
    space_strategies(cutter->scratch, problem->space, problem->devices / problem->pp,
                     &cutter->strategies);
    for (int way = 0; way < CUT_WAYS; way++) {
        struct cut *cut = &pipeline->cut[way];
        status = way == CUT_BY_SEARCH ? cut_searched(cutter, cut)
                                      : cut_balanced(cutter, way == CUT_BY_MEMORY, cut);
        if (status != WEFT_OK && status != WEFT_NO_ANSWER)
            return status;
        error_clear();
        cut->alpha_time = way == CUT_BY_SEARCH && !cut->fits ? 0 : alpha(cutter, false, cut->count);
        cut->alpha_memory =
            way == CUT_BY_SEARCH && !cut->fits ? 0 : alpha(cutter, true, cut->count);
    }
    pipeline->between = lies_between(pipeline->cut);
    return cutter->status;
}

weft_status galvatron_cut(const struct layer_problem *problem, struct cut_pipeline *out)
{
    struct layer_cutter cutter = {.scratch = arena_new(), .problem = problem};
    weft_status status = cut_pipeline(&cutter, out);
    arena_free(cutter.scratch);
    return status;
}

static weft_status add_pipeline(struct arena *keep, const char *model,
                                const struct layer_source *source, int64_t gib, int64_t stages,
                                struct cut_pipelines *out)
{
    struct layer_problem problem = {.source = source,
                                    .space = space_find("bi-obj"),
                                    .devices = DEVICES,
                                    .limit_bytes = gib << 30,
                                    .global_batch = BATCH,
                                    .pp = stages,
                                    .micro_batches = BATCH * stages / DEVICES / CHUNK_SAMPLES};
    struct cut_pipeline pipeline = {.model = model,
                                    .devices = DEVICES,
                                    .limit_bytes = problem.limit_bytes,
                                    .stages = stages,
                                    .batch = BATCH,
                                    .micro_batches = problem.micro_batches};
    weft_status status = galvatron_cut(&problem, &pipeline);
    if (status == WEFT_OK && pipeline.cut[CUT_BY_SEARCH].fits)
        array_push(keep, out, pipeline);
    return status;
}

static weft_status add_model(struct arena *keep, const struct galvatron_model *model,
                             const struct galvatron_facts *facts, struct profile *profile,
                             struct cut_pipelines *out)
{
    const struct galvatron_machine *machine = galvatron_machine_find(facts, DEVICES);
    struct measured_model measured = model->measured;
    struct layer_source source;
    weft_status status;
    measured.device = facts->device;
    measured.shard_margin = machine ? machine->shard_margin : 0;
    TRY(layer_profile_source(keep, profile, &measured, &source));
    for (int64_t gib = 8; gib <= 24; gib += GIB_STEP)
        for (int64_t stages = 2; stages <= CUT_MOST_STAGES; stages *= 2)
            TRY(add_pipeline(keep, model->name, &source, gib, stages, out));
done:
    return status;
}

weft_status galvatron_cuts(struct arena *keep, struct cut_pipelines *out)
{
    const struct galvatron_facts *facts;
    struct profile *profile = NULL;
    weft_status status;
    TRY(galvatron_facts_open(keep, &facts));
    TRY(profile_open_shipped(facts->device, &profile));
    for (size_t i = 0; i < facts->models.len; i++)
        if (facts->models.data[i].cut_three_ways)
            TRY(add_model(keep, &facts->models.data[i], facts, profile, out));
done:
    profile_close(profile);
    return status;
}

struct cut_tally cut_tally_of(const struct cut_pipelines *pipelines)
{
    struct cut_tally tally = {.pipelines = (int64_t)pipelines->len};
    for (size_t i = 0; i < pipelines->len; i++) {
        const struct cut *cut = pipelines->data[i].cut;
        bool fits = cut[CUT_BY_MEMORY].fits;
        tally.never_slower +=
            cut[CUT_BY_SEARCH].samples_per_s >= cut[CUT_BY_MEMORY].samples_per_s &&
            cut[CUT_BY_SEARCH].samples_per_s >= cut[CUT_BY_TIME].samples_per_s;
        tally.memory_fits += fits;
        tally.time_fits += cut[CUT_BY_TIME].fits;
        tally.between += fits && pipelines->data[i].between;
    }
    return tally;
}
