/* wander.h - problems for the planner aceso, and random configs of them. */
#ifndef WANDER_H
#define WANDER_H

#include "rounds.h"
#include "search/aceso/room.h"

static bool chance(struct rng *rng, int64_t of)
{
    return rng_below(rng, of) == 0;
}

struct asked {
    struct model *model;
    struct cluster *cluster;
    struct plan_request request;
    struct problem *problem;
    struct judge *judge;
};

static struct asked open_asked(const char *model, const char *options, const char *cluster,
                               struct degrees pins, const char *space)
{
    struct asked a = {0};
    assert_int_equal(model_open(model, options, &a.model), WEFT_OK);
    assert_int_equal(cluster_open(cluster, &a.cluster), WEFT_OK);
    a.request = (struct plan_request){.model = a.model, .cluster = a.cluster, .pins = pins};
    a.request.options.space = space;
    return a;
}

static inline void make_judge(struct asked *a)
{
    assert_int_equal(problem_new(&a->request, &a->problem), WEFT_OK);
    assert_int_equal(judge_new(a->problem, &a->judge), WEFT_OK);
}

static void close_asked(struct asked *a)
{
    judge_free(a->judge);
    problem_free(a->problem);
    model_free(a->model);
    cluster_free(a->cluster);
}

/* Some run of a part in some other manner, if that is legal. */
static inline void paint_some(struct rng *rng, struct asked *a, struct config *c)
{
    struct config other;
    int32_t part = (int32_t)rng_below(rng, config_parts(c)), first = part_first(c, part);
    int32_t from = first + (int32_t)rng_below(rng, c->part[part].end - first);
    int32_t to = from + 1 + (int32_t)rng_below(rng, c->part[part].end - from);
    struct manner m = *manner_at(&c->part[part], from);
    struct verdict verdict;
    bool legal;
    m.tp = (uint16_t)(1 << rng_below(rng, 4));
    m.shard = (uint8_t)rng_below(rng, 4);
    config_copy(&other, c);
    if (m.tp > a->problem->node || !paint_manner(&other, part, from, to, m))
        return;
    config_normalise(&other);
    if (!a->problem->tp_goes[m.tp] || !config_legal(a->problem, &other))
        return;
    assert_int_equal(judge_recompute(a->judge, &other, UINT64_MAX), WEFT_OK);
    config_normalise(&other);
    assert_int_equal(judge_config(a->judge, &other, &verdict, NULL, &legal), WEFT_OK);
    if (legal)
        config_copy(c, &other);
}

/* Random primitives from where a search begins. */
static inline bool wander(struct rng *rng, struct asked *a, int hops, struct config *c)
{
    const struct problem *p = a->problem;
    int32_t counts[MOST_STAGES], count = problem_stage_counts(p, counts);
    struct proposals *list = malloc(sizeof *list);
    int32_t stages = counts[rng_below(rng, count)];
    bool legal = config_begin(p, stages, (enum beginning)rng_below(rng, BEGIN_COUNT), c);
    for (int i = 0; legal && i < hops; i++) {
        struct stage_use cost[MOST_STAGES];
        struct asking asking = {.judge = a->judge,
                                .from = c,
                                .cost = cost,
                                .primitive = (enum primitive)rng_below(rng, p->primitive_end),
                                .stage = (int32_t)rng_below(rng, c->stages),
                                .grain = chance(rng, 2) ? GRAIN_LAYERS : GRAIN_OPERATORS,
                                .out = list};
        assert_int_equal(judge_config(a->judge, c, &asking.verdict, cost, &legal), WEFT_OK);
        list->count = 0;
        if (legal && (p->primitives >> asking.primitive & 1))
            assert_int_equal(PRIMITIVES[asking.primitive].propose(&asking), WEFT_OK);
        if (!list->count)
            continue;
        struct config *other = &list->data[rng_below(rng, list->count)].config;
        config_normalise(other);
        if (!config_legal(p, other))
            continue;
        assert_int_equal(judge_recompute(a->judge, other, UINT64_MAX), WEFT_OK);
        config_normalise(other);
        assert_int_equal(judge_config(a->judge, other, &asking.verdict, NULL, &legal), WEFT_OK);
        if (legal)
            config_copy(c, other);
        legal = true;
    }
    free(list);
    return legal;
}

#endif
