/* search.c - one search: bottlenecks, primitives in order, hops, restarts (Aceso, Appendix B).
 *
 *   Heuristic 1  Out of memory, the fullest stage is the bottleneck; else the one that is busy
 *                longest. Where no sequence of hops from it makes the config better, the next one.
 *   Heuristic 2  The resource first of which the stage has the largest share of all stages' use;
 *                of the primitives that reduce it, the one first whose config is judged best.
 *
 *   I1  No config is judged twice (pool.c).
 *   I2  An iteration looks at no more than NODES configs' primitives per bottleneck, and follows no
 *       more than WIDTH proposals of each.
 *   I3  What was judged and not gone into waits in the pool, the best first; a search ends when
 *       nothing is left there that is within reach of the best, or nothing better has come of so
 *       many restarts as PATIENCE says, of beginning again in every manner,
 *       and of so many kicks of the best by random primitives.
 */
#include "search/aceso/walk.h"

enum { WIDTH = 3, NODES = 24, BOTTLENECKS = 4 };

/* I3: how much of each effort, on few devices and on more. */
static const struct patience {
    int32_t stale, kicks;
} PATIENCE[2][EFFORT_COUNT] = {
    {[WIDEN] = {8, 3}, [POLISH] = {8, 3}, [REFINE] = {8, 3}},
    {[WIDEN] = {2, 1}, [REFINE] = {2, 1}},
};

/* ---- hops ------------------------------------------------------------------------------------ */

static struct proposals *level_at(struct walk *w, int32_t depth)
{
    if (!w->level[depth])
        w->level[depth] = ARENA_NEW(w->arena, struct proposals);
    return w->level[depth];
}

static weft_status hop_from(struct walk *w, const struct config *from, int32_t stage, int32_t depth,
                            bool *improved);

/* Follows one proposal further. */
static weft_status follow(struct walk *w, const struct proposal *made, int32_t depth,
                          bool *improved)
{
    struct stage_use cost[MOST_STAGES];
    int32_t order[MOST_STAGES];
    struct verdict verdict;
    bool legal;
    weft_status status;
    TRY(judge_config(w->judge, &made->config, &verdict, cost, &legal));
    walk_go_into(w, made->hash);
    rank_stages(cost, made->config.stages, verdict.excess_bytes > 0, order);
    TRY(hop_from(w, &made->config, order[0], depth + 1, improved));
done:
    return status;
}

/* One group of primitives: the best of it if that is better, else further hops from the best few. */
static weft_status try_group(struct walk *w, const struct config *from, struct proposals *list,
                             int32_t depth, bool *improved)
{
    int32_t order[MOST_PROPOSALS];
    weft_status status;
    TRY(walk_sift(w, from, list));
    sort_by_verdict(list, order);
    if (list->count == 0)
        goto done;
    struct proposal *first = &list->data[order[0]];
    w->path[depth] = (struct hop_note){first, from};
    if (better(first->verdict, w->start)) {
        w->next = (struct found){.verdict = first->verdict, .hash = first->hash};
        config_copy(&w->next.config, &first->config);
        w->hops = depth + 1;
        *improved = true;
        goto done;
    }
    for (int32_t i = 0; i < list->count && i < WIDTH && w->nodes > 0 && !*improved; i++) {
        w->path[depth] = (struct hop_note){&list->data[order[i]], from};
        TRY(follow(w, &list->data[order[i]], depth, improved));
    }
done:
    return status;
}

static weft_status ask_primitive(struct walk *w, const struct asking *asking)
{
    const struct primitive_row *row = &PRIMITIVES[asking->primitive];
    bool allowed = w->problem->primitives >> asking->primitive & 1;
    return allowed ? row->propose(asking) : WEFT_OK;
}

/* Primitives by resource (heuristic 2). */
static weft_status try_resources(struct walk *w, struct asking *asking, int32_t depth,
                                 bool *improved)
{
    enum resource order[RESOURCE_COUNT];
    weft_status status = WEFT_OK;
    rank_resources(asking->cost, asking->from->stages, asking->stage,
                   asking->verdict.excess_bytes > 0, order);
    for (int r = 0; r < RESOURCE_COUNT && !*improved && w->nodes >= 0; r++) {
        if (depth == 0)
            w->resource = order[r];
        asking->out->count = 0;
        for (int i = 0; i < PRIMITIVE_COUNT; i++) {
            asking->primitive = (enum primitive)i;
            if (PRIMITIVES[i].trend[order[r]] < 0)
                TRY(ask_primitive(w, asking));
        }
        TRY(try_group(w, asking->from, asking->out, depth, improved));
    }
done:
    return status;
}

/* Primitives one by one, in any order: what heuristic 2 is measured against. */
static weft_status try_random(struct walk *w, struct asking *asking, int32_t depth, bool *improved)
{
    enum primitive order[PRIMITIVE_COUNT];
    weft_status status = WEFT_OK;
    for (int i = 0; i < PRIMITIVE_COUNT; i++) {
        int at = (int)rng_below(&w->rng, i + 1);
        order[i] = order[at];
        order[at] = (enum primitive)i;
    }
    for (int i = 0; i < PRIMITIVE_COUNT && !*improved && w->nodes >= 0; i++) {
        asking->primitive = order[i];
        asking->out->count = 0;
        TRY(ask_primitive(w, asking));
        TRY(try_group(w, asking->from, asking->out, depth, improved));
    }
done:
    return status;
}

static weft_status hop_from(struct walk *w, const struct config *from, int32_t stage, int32_t depth,
                            bool *improved)
{
    struct stage_use cost[MOST_STAGES];
    struct verdict verdict;
    bool legal;
    weft_status status = WEFT_OK;
    if (depth >= w->most_hops || depth >= MOST_DEPTH || w->nodes-- <= 0 || judge_over(w->judge))
        return WEFT_OK;
    TRY(judge_config(w->judge, from, &verdict, cost, &legal));
    struct asking asking = {.judge = w->judge,
                            .from = from,
                            .cost = cost,
                            .verdict = verdict,
                            .stage = stage,
                            .grain = w->grain,
                            .refining = w->refining,
                            .out = level_at(w, depth)};
    if (w->settings->random_order)
        TRY(try_random(w, &asking, depth, improved));
    else
        TRY(try_resources(w, &asking, depth, improved));
done:
    return status;
}

/* ---- iterations ------------------------------------------------------------------------------ */

static const char *path_text(const struct walk *w)
{
    const char *text = "";
    for (int32_t i = 0; i < w->hops; i++)
        text = arena_printf(
            w->out->arena, "%s%s%s", text, i ? ", then " : "",
            proposal_text(w->out->arena, w->problem, w->path[i].made, w->path[i].before));
    return text;
}

static void note_step(struct walk *w, int32_t bottleneck, int32_t tried, int32_t restart,
                      bool improved)
{
    if (!w->out->steps.len || better(w->start, w->out->least))
        w->out->least = w->start;
    struct search_step step = {.iteration = (int32_t)w->out->steps.len,
                               .bottleneck = bottleneck,
                               .bottlenecks_tried = tried,
                               .restart = restart,
                               .resource = w->resource,
                               .before = w->start,
                               .after = w->start,
                               .improved = improved,
                               .best = improved && better(w->next.verdict, w->out->least),
                               .configs = judge_count(w->judge),
                               .at_s = wall_seconds() - w->settings->begin_s};
    if (improved) {
        step.hops = w->hops;
        step.primitive = w->path[w->hops - 1].made->primitive;
        step.after = w->next.verdict;
        step.text = path_text(w);
    }
    if (step.best)
        w->out->least = step.after;
    array_push(w->out->arena, &w->out->steps, step);
}

/* From one config: a better one in w->next, or none. */
static weft_status iterate(struct walk *w, const struct config *from, int32_t restart,
                           bool *improved)
{
    struct stage_use cost[MOST_STAGES];
    int32_t order[MOST_STAGES], tried = 0;
    bool legal;
    weft_status status;
    *improved = false;
    TRY(judge_config(w->judge, from, &w->start, cost, &legal));
    note_found(w->problem, w->out, from, w->start, config_hash(from));
    rank_stages(cost, from->stages, w->start.excess_bytes > 0, order);
    for (; tried < from->stages && tried < BOTTLENECKS && !*improved; tried++) {
        w->nodes = NODES;
        TRY(hop_from(w, from, order[tried], 0, improved));
    }
    note_step(w, order[*improved ? tried - 1 : 0], tried, restart, *improved);
done:
    return status;
}

/* A few random primitives on random stages of the best. */
static weft_status kick(struct walk *w, const struct config *best, struct config *out)
{
    enum { TRIES = 12, TAKEN = 3 };
    struct stage_use cost[MOST_STAGES];
    struct proposals *list = level_at(w, 0);
    struct verdict verdict;
    bool legal;
    int32_t taken = 0;
    weft_status status = WEFT_OK;
    config_copy(out, best);
    for (int i = 0; i < TRIES && taken < TAKEN; i++) {
        TRY(judge_config(w->judge, out, &verdict, cost, &legal));
        struct asking asking = {.judge = w->judge,
                                .from = out,
                                .cost = cost,
                                .verdict = verdict,
                                .primitive = (enum primitive)rng_below(&w->rng, PRIMITIVE_COUNT),
                                .stage = (int32_t)rng_below(&w->rng, out->stages),
                                .grain = w->grain,
                                .refining = w->refining,
                                .out = list};
        list->count = 0;
        TRY(ask_primitive(w, &asking));
        TRY(walk_sift(w, out, list));
        if (!list->count)
            continue;
        config_copy(out, &list->data[rng_below(&w->rng, list->count)].config);
        taken++;
    }
done:
    return status;
}

/* The beginnings, each once: those that are not balanced with as much tensor parallelism as goes, then
 * balanced ones with every degree of it, the largest first. False: that is not one. */
static bool beginning_at(const struct walk *w, int64_t left, struct config *out)
{
    const struct problem *p = w->problem;
    int64_t tp = left > p->node ? p->node : left;
    enum beginning beginning = left > p->node ? (enum beginning)(left - p->node) : BEGIN_BALANCED;
    return p->tp_goes[tp] && config_begin_with(p, w->out->stages, beginning, tp, out);
}

static weft_status begin_again(struct walk *w, int64_t *left, struct config *out, bool *begun)
{
    weft_status status = WEFT_OK;
    *begun = false;
    for (; *left >= 1 && !*begun; --*left)
        *begun = beginning_at(w, *left, out);
    if (*begun)
        TRY(judge_recompute(w->judge, out, UINT64_MAX));
    config_normalise(out);
done:
    return status;
}

/* What refinements begin with. */
static void keep_coarse(struct found *coarse, const struct found *best)
{
    if (coarse->hash && !better(best->verdict, coarse->verdict))
        return;
    config_copy(&coarse->config, &best->config);
    coarse->verdict = best->verdict;
    coarse->hash = best->hash;
}

static weft_status walk_on(struct walk *w, struct config *at)
{
    struct found best = {0};
    int32_t restarts = 0, stale = 0, kicks = w->kicks;
    int64_t again = w->begins_again ? w->problem->node + BEGIN_COUNT - 1 : 0;
    bool legal, improved, begun;
    weft_status status;
    TRY(judge_config(w->judge, at, &best.verdict, NULL, &legal));
    if (!legal)
        goto done;
    config_copy(&best.config, at);
    note_found(w->problem, w->out, at, best.verdict, config_hash(at));
    *hash_at(&w->visited, w->arena, config_hash(at)) = 0;
    while (!judge_over(w->judge)) {
        TRY(iterate(w, at, restarts, &improved));
        if (better(w->start, best.verdict)) {
            best.verdict = w->start;
            config_copy(&best.config, at);
        }
        if (improved) {
            walk_go_into(w, w->next.hash);
            config_copy(at, &w->next.config);
            if (better(w->next.verdict, best.verdict)) {
                best.verdict = w->next.verdict;
                config_copy(&best.config, at);
                stale = 0;
            }
            continue;
        }
        restarts++;
        if (++stale <= w->most_stale && walk_restart(w, best.verdict, at))
            continue;
        stale = w->most_stale; /* each goes on until nothing is better, then the next comes */
        TRY(begin_again(w, &again, at, &begun));
        if (begun)
            continue;
        if (kicks-- == 0)
            break;
        TRY(kick(w, &best.config, at));
    }
    w->out->stopped |= problem_over(w->problem);
    best.hash = config_hash(&best.config);
    if (!w->refining)
        keep_coarse(&w->out->coarse, &best);
done:
    return status;
}

/* ---- searches -------------------------------------------------------------------------------- */

static weft_status search_at(struct judge *judge, const struct search_settings *settings,
                             enum effort effort, enum grain grain, struct config *begin,
                             struct search_result *out)
{
    struct arena *arena = arena_new();
    struct walk *w = ARENA_NEW(arena, struct walk);
    weft_status status;
    w->judge = judge;
    w->problem = judge_problem(judge);
    w->settings = settings;
    w->out = out;
    w->arena = arena;
    w->grain = grain;
    w->most_hops = effort <= SPREAD && w->problem->most_hops > 1 ? 1 : w->problem->most_hops;
    const struct patience *patience = &PATIENCE[w->problem->devices > FEW_DEVICES][effort];
    w->most_stale = patience->stale;
    w->kicks = patience->kicks;
    w->begins_again = effort == SPREAD || effort == WIDEN;
    w->refining = effort > TRIM;
    rng_seed(&w->rng, settings->seed * MOST_STAGES + (uint64_t)begin->stages);
    TRY(judge_recompute(judge, begin, UINT64_MAX));
    config_normalise(begin);
    TRY(walk_on(w, begin));
done:
    arena_free(arena);
    return status;
}

/* Makes the best of layers better without a search. */
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

/* FIT and TRIM, of what the simulator did not prefer, too. */
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
        return WEFT_OK; /* nothing new to begin with */
    if (effort == POLISH)
        config_copy(&begin, &out->found[0].config);
    else if (out->coarse.hash)
        config_copy(&begin, &out->coarse.config);
    else if (settings->begin)
        config_copy(&begin, settings->begin);
    else if (!config_begin(p, settings->stages, settings->beginning, &begin))
        return WEFT_OK;
    TRY(make_effort(judge, settings, effort, &begin, out));
    if (first && settings->beginning != BEGIN_BALANCED && !judge_over(judge) &&
        config_begin(p, settings->stages, BEGIN_BALANCED,
                     &begin)) /* where it begins decides less */
        TRY(make_effort(judge, settings, effort, &begin, out));
    out->ended_at[effort] = out->coarse.hash;
    out->configs += judge_count(judge) - count;
done:
    return status;
}
