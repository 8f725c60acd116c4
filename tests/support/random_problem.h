/* random_problem.h - questions for planners: a few layers of a real width on up to eight devices, so that
 * choices differ in time; some pinned, some short of memory. */
#ifndef WEFT_RANDOM_PROBLEM_H
#define WEFT_RANDOM_PROBLEM_H

#include "rounds.h"
#include "search/search.h"

static const char *const CLUSTERS[] = {"dgx-a100:1x4", "dgx-a100:1", "dgx-v100:1", "titan-rtx:1",
                                       "titan-rtx:2x4"};

static bool chance(struct rng *rng, int64_t one_in)
{
    return rng_below(rng, one_in) == 0;
}

struct problem {
    struct model *model;
    struct cluster *cluster;
    struct cost *cost;
    struct plan_request request;
    struct arena *arena;
    const char *model_name, *model_options, *cluster_name; /* as a plan file has them */
};

static struct problem draw_problem(struct rng *rng)
{
    static const char *const MODELS[] = {"gpt3-350m", "llama3-8b", "t5-large-32", "bert-huge-32",
                                         "mixtral-8x7b"};
    static const char *const OPTIONS[] = {"layers: 2, seq: 256", "layers: 4, seq: 512",
                                          "layers: 6, seq: 128"};
    struct problem p = {.arena = arena_new()};
    p.model_name = MODELS[rng_below(rng, COUNT_OF(MODELS))];
    p.model_options = OPTIONS[rng_below(rng, COUNT_OF(OPTIONS))];
    if (model_open(p.model_name, p.model_options, &p.model) != WEFT_OK)
        fail_msg("%s: %s", p.model_name, weft_last_error()->message);
    p.cluster_name = CLUSTERS[rng_below(rng, COUNT_OF(CLUSTERS))];
    assert_int_equal(cluster_open(p.cluster_name, &p.cluster), WEFT_OK);
    assert_int_equal(cost_open(&p.cluster->node.device, NULL, &p.cost), WEFT_OK);
    struct degrees pins = {.global_batch = INT64_C(8) << rng_below(rng, 3)};
    if (chance(rng, 3))
        pins.tp = INT64_C(1) << rng_below(rng, 3);
    if (chance(rng, 3))
        pins.pp = INT64_C(1) << rng_below(rng, 2);
    if (chance(rng, 4))
        pins.micro_batch = 1;
    if (chance(rng, 4)) {
        pins.has_shard = true;
        pins.shard = (int)rng_below(rng, 4);
    }
    if (chance(rng, 4)) {
        pins.has_recompute = true;
        pins.recompute = (enum recompute)rng_below(rng, RECOMPUTE_COUNT);
    }
    if (chance(rng, 4))
        pins.memory.limit_bytes = INT64_C(1) << (29 + rng_below(rng, 4));
    p.request = (struct plan_request){.model = p.model, .cluster = p.cluster, .pins = pins};
    return p;
}

static void close_problem(struct problem *p)
{
    cost_close(p->cost);
    cluster_free(p->cluster);
    model_free(p->model);
    arena_free(p->arena);
}

/* Searches are quick where few cases are asked for: what sanitizers look at then are not the answers. */
static inline struct plan_options usual_effort(struct plan_options options)
{
    options.quick = rounds_of(100) < 100;
    options.given |= options.quick ? 1U << TAKES_QUICK : 0;
    return options;
}

/* The answer, or NULL where there is none. */
static inline struct planned *plan_with(const char *planner, const struct plan_request *request)
{
    struct planned *planned = NULL;
    weft_status status = plan_search(planner_find(planner), request, &planned);
    assert_true(status == WEFT_OK || status == WEFT_NO_ANSWER);
    return planned;
}

#endif
