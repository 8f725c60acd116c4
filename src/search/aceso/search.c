/* search.c - one search: bottlenecks, primitives in order, hops, restarts (Aceso, Appendix B).
 *
 *   Heuristic 1  If the config does not fit, the fullest stage is the bottleneck, otherwise the one that
 *                is busy longest. If no sequence of hops from it improves the config, the next one
 *                is.
 *   Heuristic 2  First comes the resource of which the stage has the largest share of all stages' use;
 *                of the primitives that reduce it, first the one whose config is judged best.
 *
 *   I1  No config is judged twice (pool.c).
 *   I2  Per bottleneck, an iteration looks at the primitives of at most NODES configs, and follows
 *       at most WIDTH proposals of each.
 *   I3  Configs that were judged but not explored wait in the pool, the best first. A search ends
 *       when none is left there within reach of the best, or when nothing better has come of as
 *       many restarts as PATIENCE says, of starting again from every starting config, and of as
 *       many kicks of the best by random primitives.
 */
#include "search/aceso/search_state.h"

enum { WIDTH = 3, NODES = 24, BOTTLENECKS = 4 };

/* I3: how much of each effort, on few devices and on more. */
static const struct patience {
    int32_t stale, kicks;
} PATIENCE[2][EFFORT_COUNT] = {
    {[WIDEN] = {8, 3}, [POLISH] = {8, 3}, [REFINE] = {8, 3}},
    {[WIDEN] = {2, 1}, [REFINE] = {2, 1}},
};

/* ---- hops ------------------------------------------------------------------------------------ */

static struct proposals *level_at(struct search_state *s, int32_t depth)
{
    if (!s->level[depth])
        s->level[depth] = ARENA_NEW(s->arena, struct proposals);
    return s->level[depth];
}

static weft_status hop_from(struct search_state *s, const struct config *from, int32_t stage,
                            int32_t depth, bool *improved);

/* Continues from one proposal with further hops. */
static weft_status follow(struct search_state *s, const struct proposal *made, int32_t depth,
                          bool *improved)
{
    struct stage_use cost[MOST_STAGES];
    int32_t order[MOST_STAGES];
    struct verdict verdict;
    bool legal;
    weft_status status;
    TRY(judge_config(s->judge, &made->config, &verdict, cost, &legal));
    mark_explored(s, made->hash);
    rank_stages(cost, made->config.stages, verdict.excess_bytes > 0, order);
    TRY(hop_from(s, &made->config, order[0], depth + 1, improved));
done:
    return status;
}

/* One group of primitives: takes the best of it if that is better, otherwise makes further hops
 * from the best few. */
static weft_status try_group(struct search_state *s, const struct config *from,
                             struct proposals *list, int32_t depth, bool *improved)
{
    int32_t order[MOST_PROPOSALS];
    weft_status status;
    TRY(sift_proposals(s, from, list));
    sort_by_verdict(list, order);
    if (list->count == 0)
        goto done;
    struct proposal *first = &list->data[order[0]];
    s->path[depth] = (struct hop_note){first, from};
    if (better(first->verdict, s->start)) {
        s->next = (struct found){.verdict = first->verdict, .hash = first->hash};
        config_copy(&s->next.config, &first->config);
        s->hops = depth + 1;
        *improved = true;
        goto done;
    }
    for (int32_t i = 0; i < list->count && i < WIDTH && s->nodes > 0 && !*improved; i++) {
        s->path[depth] = (struct hop_note){&list->data[order[i]], from};
        TRY(follow(s, &list->data[order[i]], depth, improved));
    }
done:
    return status;
}

static weft_status ask_primitive(struct search_state *s, const struct asking *asking)
{
    const struct primitive_row *row = &PRIMITIVES[asking->primitive];
    bool allowed = s->problem->primitives >> asking->primitive & 1;
    return allowed ? row->propose(asking) : WEFT_OK;
}

/* Tries primitives by resource (heuristic 2). */
static weft_status try_resources(struct search_state *s, struct asking *asking, int32_t depth,
                                 bool *improved)
{
    enum resource order[RESOURCE_COUNT];
    weft_status status = WEFT_OK;
    enum memory_rank rank = asking->verdict.excess_bytes > 0 ? MEMORY_FIRST
                            : s->problem->study->memory_last ? MEMORY_LAST
                                                             : MEMORY_BY_SHARE;
    rank_resources(asking->cost, asking->from->stages, asking->stage, rank, order);
    for (int r = 0; r < RESOURCE_COUNT && !*improved && s->nodes >= 0; r++) {
        if (depth == 0)
            s->resource = order[r];
        asking->out->count = 0;
        for (int i = 0; i < s->problem->primitive_end; i++) {
            asking->primitive = (enum primitive)i;
            if (PRIMITIVES[i].trend[order[r]] < 0)
                TRY(ask_primitive(s, asking));
        }
        TRY(try_group(s, asking->from, asking->out, depth, improved));
    }
done:
    return status;
}

/* Tries primitives one by one in random order: the baseline that heuristic 2 is measured
 * against. */
static weft_status try_random(struct search_state *s, struct asking *asking, int32_t depth,
                              bool *improved)
{
    enum primitive order[PRIMITIVE_COUNT];
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->problem->primitive_end; i++) {
        int at = (int)rng_below(&s->rng, i + 1);
        order[i] = order[at];
        order[at] = (enum primitive)i;
    }
    for (int i = 0; i < s->problem->primitive_end && !*improved && s->nodes >= 0; i++) {
        asking->primitive = order[i];
        asking->out->count = 0;
        TRY(ask_primitive(s, asking));
        TRY(try_group(s, asking->from, asking->out, depth, improved));
    }
done:
    return status;
}

static weft_status hop_from(struct search_state *s, const struct config *from, int32_t stage,
                            int32_t depth, bool *improved)
{
    struct stage_use cost[MOST_STAGES];
    struct verdict verdict;
    bool legal;
    weft_status status = WEFT_OK;
    if (depth >= s->most_hops || depth >= MOST_DEPTH || s->nodes-- <= 0 || judge_over(s->judge))
        return WEFT_OK;
    TRY(judge_config(s->judge, from, &verdict, cost, &legal));
    struct asking asking = {.judge = s->judge,
                            .from = from,
                            .cost = cost,
                            .verdict = verdict,
                            .stage = stage,
                            .grain = s->grain,
                            .refining = s->refining,
                            .out = level_at(s, depth)};
    if (s->settings->random_order)
        TRY(try_random(s, &asking, depth, improved));
    else
        TRY(try_resources(s, &asking, depth, improved));
done:
    return status;
}

/* ---- iterations ------------------------------------------------------------------------------ */

static const char *path_text(const struct search_state *s)
{
    const char *text = "";
    for (int32_t i = 0; i < s->hops; i++)
        text = arena_printf(s->out->arena, "%s%s%s", text, i ? ", then " : "",
                            proposal_text(s->out->arena, s->path[i].made, s->path[i].before));
    return text;
}

static void note_step(struct search_state *s, int32_t bottleneck, int32_t tried, int32_t restart,
                      bool improved)
{
    if (!s->out->steps.len || better(s->start, s->out->least))
        s->out->least = s->start;
    struct search_step step = {.iteration = (int32_t)s->out->steps.len,
                               .bottleneck = bottleneck,
                               .bottlenecks_tried = tried,
                               .restart = restart,
                               .resource = s->resource,
                               .before = s->start,
                               .after = s->start,
                               .improved = improved,
                               .best = improved && better(s->next.verdict, s->out->least),
                               .configs = judge_count(s->judge),
                               .at_s = wall_seconds() - s->settings->begin_s};
    if (improved) {
        step.hops = s->hops;
        step.primitive = s->path[s->hops - 1].made->primitive;
        step.after = s->next.verdict;
        step.text = path_text(s);
    }
    if (step.best)
        s->out->least = step.after;
    array_push(s->out->arena, &s->out->steps, step);
}

/* One iteration from one config: leaves a better one in s->next, if there is any. */
static weft_status iterate(struct search_state *s, const struct config *from, int32_t restart,
                           bool *improved)
{
    struct stage_use cost[MOST_STAGES];
    int32_t order[MOST_STAGES], tried = 0;
    bool legal;
    weft_status status;
    *improved = false;
    TRY(judge_config(s->judge, from, &s->start, cost, &legal));
    note_found(s->problem, s->out, from, s->start, config_hash(from));
    rank_stages(cost, from->stages, s->start.excess_bytes > 0, order);
    for (; tried < from->stages && tried < BOTTLENECKS && !*improved; tried++) {
        s->nodes = NODES;
        TRY(hop_from(s, from, order[tried], 0, improved));
    }
    note_step(s, order[*improved ? tried - 1 : 0], tried, restart, *improved);
done:
    return status;
}

/* Applies a few random primitives to random stages of the best. */
static weft_status kick(struct search_state *s, const struct config *best, struct config *out)
{
    enum { TRIES = 12, TAKEN = 3 };
    struct stage_use cost[MOST_STAGES];
    struct proposals *list = level_at(s, 0);
    struct verdict verdict;
    bool legal;
    int32_t taken = 0;
    weft_status status = WEFT_OK;
    config_copy(out, best);
    for (int i = 0; i < TRIES && taken < TAKEN; i++) {
        TRY(judge_config(s->judge, out, &verdict, cost, &legal));
        struct asking asking = {.judge = s->judge,
                                .from = out,
                                .cost = cost,
                                .verdict = verdict,
                                .primitive =
                                    (enum primitive)rng_below(&s->rng, s->problem->primitive_end),
                                .stage = (int32_t)rng_below(&s->rng, out->stages),
                                .grain = s->grain,
                                .refining = s->refining,
                                .out = list};
        list->count = 0;
        TRY(ask_primitive(s, &asking));
        TRY(sift_proposals(s, out, list));
        if (!list->count)
            continue;
        config_copy(out, &list->data[rng_below(&s->rng, list->count)].config);
        taken++;
    }
done:
    return status;
}

/* The starting configs, each once: first the unbalanced ones with as much tensor parallelism as
 * possible, then balanced ones with every degree of it, the largest first. False: there is none
 * with this number. */
static bool beginning_at(const struct search_state *s, int64_t left, struct config *out)
{
    const struct problem *p = s->problem;
    int64_t tp = left > p->node ? p->node : left;
    enum beginning beginning = left > p->node ? (enum beginning)(left - p->node) : BEGIN_BALANCED;
    return p->tp_goes[tp] && config_begin_with(p, s->out->stages, beginning, tp, out);
}

static weft_status begin_again(struct search_state *s, int64_t *left, struct config *out,
                               bool *begun)
{
    weft_status status = WEFT_OK;
    *begun = false;
    for (; *left >= 1 && !*begun; --*left)
        *begun = beginning_at(s, *left, out);
    if (*begun)
        TRY(judge_recompute(s->judge, out, UINT64_MAX));
    config_normalise(out);
done:
    return status;
}

/* Keeps the config that refinements start from. */
static void keep_coarse(struct found *coarse, const struct found *best)
{
    if (coarse->hash && !better(best->verdict, coarse->verdict))
        return;
    config_copy(&coarse->config, &best->config);
    coarse->verdict = best->verdict;
    coarse->hash = best->hash;
}

static weft_status run_search(struct search_state *s, struct config *at)
{
    struct found best = {0};
    int32_t restarts = 0, stale = 0, kicks = s->kicks;
    int64_t again = s->begins_again ? s->problem->node + BEGIN_COUNT - 1 : 0;
    bool legal, improved, begun;
    weft_status status;
    TRY(judge_config(s->judge, at, &best.verdict, NULL, &legal));
    if (!legal)
        goto done;
    config_copy(&best.config, at);
    note_found(s->problem, s->out, at, best.verdict, config_hash(at));
    *hash_at(&s->visited, s->arena, config_hash(at)) = 0;
    while (!judge_over(s->judge)) {
        TRY(iterate(s, at, restarts, &improved));
        if (better(s->start, best.verdict)) {
            best.verdict = s->start;
            config_copy(&best.config, at);
        }
        if (improved) {
            mark_explored(s, s->next.hash);
            config_copy(at, &s->next.config);
            if (better(s->next.verdict, best.verdict)) {
                best.verdict = s->next.verdict;
                config_copy(&best.config, at);
                stale = 0;
            }
            continue;
        }
        restarts++;
        if (++stale <= s->most_stale && next_restart(s, best.verdict, at))
            continue;
        /* Each start goes on until nothing is better; then comes the next. */
        stale = s->most_stale;
        TRY(begin_again(s, &again, at, &begun));
        if (begun)
            continue;
        if (kicks-- == 0)
            break;
        TRY(kick(s, &best.config, at));
    }
    best.hash = config_hash(&best.config);
    if (!s->refining)
        keep_coarse(&s->out->coarse, &best);
done:
    return status;
}

/* ---- searches -------------------------------------------------------------------------------- */

static weft_status search_at(struct judge *judge, const struct search_settings *settings,
                             enum effort effort, enum grain grain, struct config *begin,
                             struct search_result *out)
{
    struct arena *arena = arena_new();
    struct search_state *s = ARENA_NEW(arena, struct search_state);
    weft_status status;
    s->judge = judge;
    s->problem = judge_problem(judge);
    s->settings = settings;
    s->out = out;
    s->arena = arena;
    s->grain = grain;
    s->most_hops = effort <= SPREAD && s->problem->most_hops > 1 ? 1 : s->problem->most_hops;
    const struct patience *patience = &PATIENCE[s->problem->devices > FEW_DEVICES][effort];
    s->most_stale = patience->stale;
    s->kicks = patience->kicks;
    s->begins_again = effort == SPREAD || effort == WIDEN;
    s->refining = effort > TRIM;
    rng_seed(&s->rng, settings->seed * MOST_STAGES + (uint64_t)begin->stages);
    TRY(judge_recompute(judge, begin, UINT64_MAX));
    config_normalise(begin);
    TRY(run_search(s, begin));
done:
    arena_free(arena);
    return status;
}

/* Improves the best config on layers without a search. */
static weft_status tune_one(struct judge *judge, const struct config *from, enum effort effort,
                            struct search_result *out, struct found *best)
{
    bool legal;
    weft_status status;
    config_copy(&best->config, from);
    if (effort == FIT)
        TRY(aceso_fit(judge, &best->config, out));
    else if (effort == BALANCE)
        TRY(aceso_balance(judge, &best->config, out));
    else if (effort == TRIM)
        TRY(aceso_trim(judge, &best->config, out));
    else
        TRY(aceso_tune(judge, &best->config, out));
    TRY(judge_config(judge, &best->config, &best->verdict, NULL, &legal));
    best->hash = config_hash(&best->config);
    note_found(judge_problem(judge), out, &best->config, best->verdict, best->hash);
done:
    return status;
}

/* FIT and TRIM also from the config that the simulator did not prefer. */
static weft_status tune_both(struct judge *judge, const struct config *begin, enum effort effort,
                             struct search_result *out)
{
    struct found best = {0};
    weft_status status;
    TRY(tune_one(judge, begin, effort, out, &best));
    if (effort == FIT)
        keep_coarse(&out->coarse, &best);
    if (!out->other.hash)
        goto done;
    TRY(tune_one(judge, &out->other.config, effort, out, &best));
    if (effort == FIT)
        keep_coarse(&out->other, &best);
done:
    return status;
}

static weft_status make_effort(struct judge *judge, const struct search_settings *settings,
                               enum effort effort, struct config *begin, struct search_result *out)
{
    const struct problem *p = judge_problem(judge);
    bool layers = p->cuts[GRAIN_LAYERS].len + 1 >= (size_t)config_parts(begin);
    enum grain grain = effort < TRIM && layers ? GRAIN_LAYERS : GRAIN_OPERATORS;
    struct found best = {0};
    weft_status status;
    if (effort == FIT || effort == BALANCE || effort == TRIM)
        return tune_both(judge, begin, effort, out);
    TRY(search_at(judge, settings, effort, grain, begin, out));
    if (effort > TRIM && out->count && !judge_over(judge))
        TRY(tune_one(judge, &out->found[0].config, effort, out, &best));
done:
    return status;
}

weft_status aceso_search(struct judge *judge, const struct search_settings *settings,
                         enum effort effort, struct search_result *out)
{
    const struct problem *p = judge_problem(judge);
    int64_t count = judge_count(judge);
    struct config begin;
    bool first = !out->coarse.hash && !settings->begin;
    weft_status status;
    out->stages = settings->stages;
    judge->told = settings->told;
    judge->most_count = settings->most_configs ? count + settings->most_configs : INT64_MAX;
    if (out->coarse.hash ? out->ended_at[effort] == out->coarse.hash : effort >= WIDEN)
        return WEFT_OK; /* nothing new to start from */
    if (effort == POLISH)
        config_copy(&begin, &out->found[0].config);
    else if (out->coarse.hash)
        config_copy(&begin, &out->coarse.config);
    else if (settings->begin)
        config_copy(&begin, settings->begin);
    else if (!config_begin(p, settings->stages, settings->beginning, &begin))
        return WEFT_OK;
    TRY(make_effort(judge, settings, effort, &begin, out));
    /* A second, balanced start: then the answer depends less on where the search starts. */
    if (first && settings->beginning != BEGIN_BALANCED && !judge_over(judge) &&
        config_begin(p, settings->stages, BEGIN_BALANCED, &begin))
        TRY(make_effort(judge, settings, effort, &begin, out));
    out->ended_at[effort] = out->coarse.hash;
    out->configs += judge_count(judge) - count;
done:
    return status;
}
