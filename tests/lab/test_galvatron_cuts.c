/* test_galvatron_cuts.c - pipelines that are balanced by memory or by time (lab/galvatron_cuts.c), of layers that cost what a dice
 * says: each stage has, of all choices that fit, the one with the least share of a balanced pipeline (its I1).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lab/published_searches.h"
#include "layer_plans_naive.h"
#include "search/galvatron/partition.h"
#include "strategy_word.h"

enum { MOST_LAYERS = 6, MOST_KINDS = 3 };

struct dice {
    struct layer_source source;
    int32_t kind[MOST_LAYERS], boundary[MOST_LAYERS];
    uint64_t seed;
};

static struct rng dice_for(const struct dice *dice, const int64_t *words, size_t size)
{
    struct rng rng;
    rng_seed(&rng, hash_bytes(words, size, dice->seed));
    return rng;
}

/* What is done once costs as much as several micro-batches. */
static weft_status dice_layer(void *context, const struct layer_question *q, int32_t kind,
                              const struct strategy *strategy, struct layer_cost *out)
{
    int64_t words[] = {1, q->stage, kind, strategy_word(strategy)};
    struct rng rng = dice_for(context, words, sizeof words);
    *out = (struct layer_cost){.steady_ns = 100000 + rng_below(&rng, 100000),
                               .once_ns = rng_below(&rng, 1000000),
                               .kept_bytes = rng_below(&rng, 1000),
                               .peak_bytes = rng_below(&rng, 1000),
                               .state_bytes = rng_below(&rng, 4000)};
    return WEFT_OK;
}

static weft_status dice_reshard(void *context, const struct layer_question *q, int32_t boundary,
                                const struct strategy *before, const struct strategy *after,
                                int64_t *ns)
{
    int64_t words[] = {2, q->stage, boundary, strategy_word(before), strategy_word(after)};
    struct rng rng = dice_for(context, words, sizeof words);
    *ns = strategy_word(before) == strategy_word(after) ? 0 : rng_below(&rng, 50000);
    return WEFT_OK;
}

static weft_status dice_beside(void *context, const struct layer_question *q,
                               struct layer_cost *out)
{
    int64_t words[] = {3, q->stage};
    struct rng rng = dice_for(context, words, sizeof words);
    *out = (struct layer_cost){.steady_ns = rng_below(&rng, 100000),
                               .once_ns = rng_below(&rng, 300000),
                               .kept_bytes = rng_below(&rng, 500),
                               .peak_bytes = rng_below(&rng, 500),
                               .state_bytes = rng_below(&rng, 1000)};
    return WEFT_OK;
}

static void throw_dice(struct rng *rng, struct dice *dice)
{
    *dice = (struct dice){.seed = (uint64_t)rng_below(rng, 1 << 30)};
    dice->source = (struct layer_source){.layers = 3 + (int32_t)rng_below(rng, MOST_LAYERS - 2),
                                         .kinds = 1 + (int32_t)rng_below(rng, MOST_KINDS),
                                         .boundaries = 2,
                                         .kind = dice->kind,
                                         .boundary = dice->boundary,
                                         .context = dice,
                                         .layer = dice_layer,
                                         .reshard = dice_reshard,
                                         .beside = dice_beside};
    for (int32_t l = 0; l < dice->source.layers; l++) {
        dice->kind[l] = (int32_t)rng_below(rng, dice->source.kinds);
        dice->boundary[l] = (int32_t)rng_below(rng, 2);
    }
}

/* The least of all choices of a stage; false: none fits. */
static bool best_of_stage(const struct all *all, int32_t stage, struct layer_run run,
                          struct stage_cost *out)
{
    int32_t choice[MOST_LAYERS] = {0}, at = 0;
    int64_t best = INT64_MAX, weight = all->micro_batches - 1 + all->stages;
    while (at < run.count) {
        struct stage_cost cost;
        if (cost_stage(all, stage, run, choice, &cost)) {
            int64_t once = cost.time_ns - cost.steady_ns;
            int64_t share = weight * cost.steady_ns + all->stages * once; /* I1 */
            *out = share < best ? cost : *out;
            best = share < best ? share : best;
        }
        for (at = 0; at < run.count && ++choice[at] == (int32_t)all->strategies.len; at++)
            choice[at] = 0;
    }
    return best < INT64_MAX;
}

/* Returns whether the cut fits. */
static bool check_cut(const struct all *all, const struct cut *cut)
{
    struct stage_cost cost[CUT_MOST_STAGES];
    bool fits = true;
    int32_t first = 0;
    for (int32_t stage = 0; stage < all->stages; stage++) {
        struct layer_run run = {first, cut->count[stage]};
        fits = fits && best_of_stage(all, stage, run, &cost[stage]);
        first += cut->count[stage];
    }
    assert_int_equal(first, all->problem->source->layers);
    assert_int_equal(cut->fits, fits);
    if (fits) {
        double s = (double)pipeline_ns(cost, all->stages, all->micro_batches) * 1e-9;
        assert_true(fabs(cut->samples_per_s * s / (double)all->batch - 1) < 1e-9);
    }
    return fits;
}

static void stages_have_the_least_share(void **state)
{
    (void)state;
    struct rng rng;
    enum { ROUNDS = 60 }; /* each is short, and of few all fit */
    int fit = 0;
    rng_seed(&rng, 12);
    for (int i = 0; i < ROUNDS; i++) {
        struct arena *arena = arena_new();
        struct dice dice;
        throw_dice(&rng, &dice);
        struct layer_problem problem = {.source = &dice.source,
                                        .space = space_find("bi-obj"),
                                        .devices = 4,
                                        .limit_bytes = 6000 + rng_below(&rng, 12000),
                                        .global_batch = 8,
                                        .pp = 2,
                                        .micro_batches = INT64_C(1) << rng_below(&rng, 4)};
        struct cut_pipeline pipeline = {.stages = 2};
        assert_int_equal(galvatron_cut(&problem, &pipeline), WEFT_OK);
        struct all all = all_new(arena, &problem, problem.global_batch, 2, problem.micro_batches);
        fit += check_cut(&all, &pipeline.cut[CUT_BY_MEMORY]);
        fit += check_cut(&all, &pipeline.cut[CUT_BY_TIME]);
        arena_free(arena);
    }
    print_message("%d of %d cuts fit\n", fit, 2 * ROUNDS);
    assert_true(fit > ROUNDS / 2 && fit < 2 * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stages_have_the_least_share)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
