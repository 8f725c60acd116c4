/* test_galvatron.c - Galvatron-BMW's search against all plans of small problems, one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layer_plans_naive.h"
#include "rounds.h"
#include "search/galvatron/best_cuts.h"
#include "search/galvatron/stage_front.h"
#include "strategy_word.h"

enum { LAB_LAYERS = 5, LAB_KINDS = 3, LAB_BOUNDARIES = 2 };

/* ---- layers that cost what a dice says ------------------------------------------------------- */

struct lab {
    struct layer_source source;
    struct layer_problem problem;
    struct space space;
    int32_t kind[LAYERS], boundary[LAYERS];
    uint64_t seed;
    bool places; /* stages in two places, or each by itself */
    bool sync;   /* costs once in an iteration */
    int questions;
    atomic_bool asked;
    struct stop stop;
    int stop_after; /* questions; 0: never */
};

static struct rng dice_for(const struct lab *lab, const int64_t *words, size_t count)
{
    struct rng rng;
    rng_seed(&rng, hash_bytes(words, count * sizeof *words, lab->seed));
    return rng;
}

/* Strategies of one layout reshard alike. */
static int64_t layout_words(const struct strategy *strategy)
{
    struct strategy plain = *strategy;
    plain.recompute = false;
    return strategy_word(&plain);
}

static int32_t lab_layout(void *context, const struct strategy *strategy)
{
    (void)context;
    return (int32_t)(layout_words(strategy) % 1000003);
}

static int32_t lab_place(void *context, const struct layer_question *question)
{
    (void)context;
    return question->stage % 2;
}

static int64_t place_of(const struct lab *lab, const struct layer_question *q)
{
    return lab->places ? q->stage % 2 : q->stage;
}

static weft_status lab_layer(void *context, const struct layer_question *q, int32_t kind,
                             const struct strategy *strategy, struct layer_cost *out)
{
    struct lab *lab = context;
    int64_t words[] = {
        1, q->stages, place_of(lab, q), q->step_samples, kind, strategy_word(strategy)};
    struct rng rng = dice_for(lab, words, COUNT_OF(words));
    int64_t samples = q->step_samples;
    *out = (struct layer_cost){.steady_ns = samples * (1 + rng_below(&rng, 12)),
                               .once_ns = lab->sync ? rng_below(&rng, 40) : 0,
                               .kept_bytes = samples * rng_below(&rng, 6),
                               .peak_bytes = samples * rng_below(&rng, 8),
                               .state_bytes = rng_below(&rng, 16)};
    if (rng_below(&rng, 12) == 0)
        out->steady_ns = LAYERWISE_NEVER;
    if (++lab->questions == lab->stop_after)
        atomic_store(&lab->asked, true);
    return WEFT_OK;
}

static weft_status lab_reshard(void *context, const struct layer_question *q, int32_t boundary,
                               const struct strategy *before, const struct strategy *after,
                               int64_t *ns)
{
    const struct lab *lab = context;
    int64_t words[] = {2,
                       q->stages,
                       place_of(lab, q),
                       q->step_samples,
                       boundary,
                       layout_words(before),
                       layout_words(after)};
    struct rng rng = dice_for(lab, words, COUNT_OF(words));
    *ns = layout_words(before) == layout_words(after) ? 0 : rng_below(&rng, 5);
    return WEFT_OK;
}

static weft_status lab_beside(void *context, const struct layer_question *q, struct layer_cost *out)
{
    const struct lab *lab = context;
    int64_t words[] = {3, q->stages, q->stage, q->step_samples};
    struct rng rng = dice_for(lab, words, COUNT_OF(words));
    *out = (struct layer_cost){.steady_ns = rng_below(&rng, 3),
                               .once_ns = lab->sync ? rng_below(&rng, 3) : 0,
                               .kept_bytes = rng_below(&rng, 3),
                               .peak_bytes = rng_below(&rng, 3),
                               .state_bytes = rng_below(&rng, 3)};
    return WEFT_OK;
}

static void lab_draw(struct lab *lab, uint64_t seed)
{
    struct rng rng;
    rng_seed(&rng, seed);
    memset(lab, 0, sizeof *lab);
    lab->seed = seed;
    lab->sync = rng_below(&rng, 4) != 0;
    lab->places = rng_below(&rng, 2) == 0;
    lab->space = (struct space){.name = "lab",
                                .ways = 1U << WAY_DP | (rng_below(&rng, 2) ? 1U << WAY_TP : 0) |
                                        (rng_below(&rng, 2) ? 1U << WAY_SDP : 0),
                                .least_pp = 1,
                                .most_pp = 8};
    lab->space.flags =
        (rng_below(&rng, 2) ? SPACE_RECOMPUTE : 0U) | (rng_below(&rng, 4) ? SPACE_BALANCE : 0U);
    int32_t layers = 1 + (int32_t)rng_below(&rng, LAB_LAYERS),
            kinds = 1 + (int32_t)rng_below(&rng, LAB_KINDS);
    lab->source = (struct layer_source){.layers = layers,
                                        .kinds = kinds,
                                        .boundaries = LAB_BOUNDARIES,
                                        .kind = lab->kind,
                                        .boundary = lab->boundary,
                                        .context = lab,
                                        .place = lab->places ? lab_place : NULL,
                                        .layer = lab_layer,
                                        .layout = rng_below(&rng, 2) ? lab_layout : NULL,
                                        .reshard = lab_reshard,
                                        .beside = lab_beside};
    for (int32_t l = 0; l < layers; l++) {
        lab->kind[l] = (int32_t)rng_below(&rng, kinds);
        lab->boundary[l] = (int32_t)rng_below(&rng, LAB_BOUNDARIES);
    }
    lab->stop.asked = &lab->asked;
    lab->problem = (struct layer_problem){.source = &lab->source,
                                          .space = &lab->space,
                                          .devices = INT64_C(1) << rng_below(&rng, 3),
                                          .limit_bytes = 10 + rng_below(&rng, 300),
                                          .global_batch = 1 + rng_below(&rng, 8),
                                          .stop = &lab->stop};
    if (rng_below(&rng, 2)) { /* a pipeline that waits for its slowest stage */
        lab->problem.pp = lab->problem.devices / (1 + rng_below(&rng, 2));
        lab->problem.micro_batches = lab->problem.global_batch;
    }
}

/* ---- the search ------------------------------------------------------------------------------ */

static void equals_all_plans(void **unused)
{
    (void)unused;
    int fits = 0, count = rounds_of(600);
    for (int i = 0; i < count; i++) {
        struct lab lab;
        struct layer_plans plans;
        struct arena *arena = arena_new();
        lab_draw(&lab, (uint64_t)i);
        int64_t found = search(&lab.problem, arena, &plans), best = best_of_all(&lab.problem);
        if (found != best)
            fail_msg("problem %d: found %lld, best %lld", i, (long long)found, (long long)best);
        for (size_t k = 0; k < plans.len; k++)
            check_plan(&lab.problem, &plans.data[k]);
        fits += found != INT64_MAX;
        arena_free(arena);
    }
    if (count >= 100)
        assert_true(fits > count / 3 && fits < count);
}

/* ---- Algorithm 2 ----------------------------------------------------------------------------- */

/* Without the proof of the best partition: a true plan, never better than the best, mostly as good. */
static void adjusts_partitions(void **unused)
{
    (void)unused;
    int equal = 0, fits = 0, count = rounds_of(300);
    for (int i = 0; i < count; i++) {
        struct lab lab;
        struct layer_plans best, adjusted;
        struct arena *arena = arena_new();
        lab_draw(&lab, (uint64_t)(i + 500000));
        lab.space.flags |= SPACE_BALANCE;
        int64_t least = search(&lab.problem, arena, &best);
        lab.problem.most_work = 1;
        int64_t found = search(&lab.problem, arena, &adjusted);
        assert_true(found >= least);
        for (size_t k = 0; k < adjusted.len; k++)
            check_plan(&lab.problem, &adjusted.data[k]);
        fits += least != INT64_MAX;
        equal += least != INT64_MAX && found == least;
        arena_free(arena);
    }
    assert_true(2 * equal >= fits);
}

/* Forty layers of three kinds: the plans are true, and no slower than with even stages. */
static void searches_longer_models(void **unused)
{
    (void)unused;
    for (int i = 0; i < rounds_of(60); i++) {
        struct lab lab;
        struct layer_plans plans;
        struct arena *arena = arena_new();
        struct rng rng;
        lab_draw(&lab, (uint64_t)(i + 600000));
        rng_seed(&rng, (uint64_t)i);
        lab.source.layers = LAYERS;
        for (int32_t l = 0; l < LAYERS; l++) {
            lab.kind[l] = (int32_t)rng_below(&rng, lab.source.kinds);
            lab.boundary[l] = (int32_t)rng_below(&rng, LAB_BOUNDARIES);
        }
        lab.problem.limit_bytes *= 6;
        lab.space.flags &= ~(unsigned)SPACE_BALANCE;
        int64_t even = search(&lab.problem, arena, &plans);
        lab.space.flags |= SPACE_BALANCE;
        assert_true(search(&lab.problem, arena, &plans) <= even);
        for (size_t k = 0; k < plans.len; k++)
            check_plan(&lab.problem, &plans.data[k]);
        arena_free(arena);
    }
}

/* ---- properties ------------------------------------------------------------------------------ */

/* A larger limit, one more way or flag: never slower. */
static void more_is_no_worse(void **unused)
{
    (void)unused;
    static const struct {
        unsigned ways, flags;
        int64_t bytes;
    } MORE[] = {{1U << WAY_TP, 0, 0},
                {1U << WAY_SDP, 0, 0},
                {0, SPACE_RECOMPUTE, 0},
                {0, SPACE_BALANCE, 0},
                {0, 0, 1},
                {0, 0, 25},
                {0, SPACE_ZERO_1 | SPACE_ZERO_2, 0}};
    for (int i = 0; i < rounds_of(400); i++) {
        struct lab lab;
        struct layer_plans plans;
        struct arena *arena = arena_new();
        lab_draw(&lab, (uint64_t)(i + 100000));
        for (size_t k = 0; k < COUNT_OF(MORE); k++) {
            int64_t before = search(&lab.problem, arena, &plans);
            lab.space.ways |= MORE[k].ways;
            lab.space.flags |= MORE[k].flags;
            lab.problem.limit_bytes += MORE[k].bytes;
            assert_true(search(&lab.problem, arena, &plans) <= before);
        }
        arena_free(arena);
    }
}

static void answers_the_same_again(void **unused)
{
    (void)unused;
    for (int i = 0; i < rounds_of(100); i++) {
        struct lab lab;
        struct layer_plans first, again;
        struct arena *arena = arena_new();
        lab_draw(&lab, (uint64_t)(i + 200000));
        if (search(&lab.problem, arena, &first) == INT64_MAX ||
            search(&lab.problem, arena, &again) == INT64_MAX) {
            arena_free(arena);
            continue;
        }
        assert_int_equal(first.len, again.len);
        for (size_t k = 0; k < first.len; k++) {
            const struct layer_plan *a = &first.data[k], *b = &again.data[k];
            assert_int_equal(a->iteration_ns, b->iteration_ns);
            assert_int_equal(a->stages, b->stages);
            assert_memory_equal(a->count, b->count, (size_t)a->stages * sizeof *a->count);
            for (int32_t l = 0; l < lab.source.layers; l++)
                assert_true(strategy_equal(&a->strategy[l], &b->strategy[l]));
        }
        arena_free(arena);
    }
}

/* Whatever was found until then is true. */
static void answers_when_stopped(void **unused)
{
    (void)unused;
    int answered = 0, silent = 0, count = rounds_of(300);
    for (int i = 0; i < count; i++) {
        struct lab lab;
        struct layer_plans plans;
        struct arena *arena = arena_new();
        lab_draw(&lab, (uint64_t)(i + 300000));
        lab.problem.pp = lab.problem.micro_batches = 0;
        lab.problem.global_batch = 0; /* goes on for long, unless stopped */
        lab.stop_after = 1 + i % 150;
        int64_t found = search(&lab.problem, arena, &plans);
        assert_true(plans.stopped || lab.questions < lab.stop_after);
        for (size_t k = 0; k < plans.len; k++)
            check_plan(&lab.problem, &plans.data[k]);
        answered += found != INT64_MAX;
        silent += found == INT64_MAX;
        arena_free(arena);
    }
    if (count >= 100) /* of 300, more than 20 */
        assert_true(answered > count / 15 && silent > count / 15);
}

/* With as many settings as there are nothing is left out; with fewer, what is found is a plan, no faster, and said to be so. */
static void looks_at_so_many_settings(void **unused)
{
    (void)unused;
    int cut = 0;
    for (int i = 0; i < rounds_of(100); i++) {
        struct lab lab;
        struct layer_plans all, some;
        struct arena *arena = arena_new();
        lab_draw(&lab, (uint64_t)(i + 310000));
        lab.problem.pp = lab.problem.micro_batches = 0;
        lab.problem.global_batch = 8;
        int64_t whole = search(&lab.problem, arena, &all);
        lab.problem.most_settings = 1;
        int64_t best = search(&lab.problem, arena, &some);
        assert_false(all.cut_short);
        assert_true(some.cut_short && best >= whole && some.settings <= all.settings);
        cut += best > whole;
        arena_free(arena);
    }
    assert_true(cut > 0);
}

static double ns_per_sample(const struct layer_plans *plans)
{
    return (double)plans->data[0].iteration_ns / (double)plans->data[0].global_batch;
}

/* As fast per sample as any batch up to the number of devices, and as neighbours of the answer. */
static void explores_batches(void **unused)
{
    (void)unused;
    for (int i = 0; i < rounds_of(100); i++) {
        struct lab lab;
        struct layer_plans best, given;
        struct arena *arena = arena_new();
        lab_draw(&lab, (uint64_t)(i + 400000));
        lab.problem.pp = lab.problem.micro_batches = lab.problem.global_batch = 0;
        bool fits = search(&lab.problem, arena, &best) != INT64_MAX;
        for (int64_t batch = 1; batch <= lab.problem.devices; batch *= 2) {
            lab.problem.global_batch = batch;
            if (search(&lab.problem, arena, &given) == INT64_MAX)
                continue;
            assert_true(fits);
            assert_true(ns_per_sample(&best) <= ns_per_sample(&given));
        }
        arena_free(arena);
    }
}

/* ---- all plans of a stage -------------------------------------------------------------------- */

/* A model as one stage, with all reshards. False: a layer has no strategy. */
static bool open_stage(struct lab *lab, struct arena *arena, struct layer_table *out)
{
    const struct layer_question q = {.devices = lab->problem.devices,
                                     .stages = 1,
                                     .step_samples = lab->problem.global_batch,
                                     .micro_batches = 1};
    struct group_options *options = ARENA_NEW(arena, struct group_options);
    bool possible;
    *options = group_options_new(arena, &lab->problem, lab->problem.devices);
    assert_int_equal(layer_table_new(arena, &lab->problem, options, lab->problem.global_batch, 1, 1,
                                     &possible, out),
                     WEFT_OK);
    if (!possible)
        return false;
    layer_table_classes(out);
    int32_t n = (int32_t)out->strategies->len;
    const struct strategy *strategy = out->strategies->data;
    for (int32_t at = 0; at < LAB_BOUNDARIES * n * n; at++)
        assert_int_equal(lab_reshard(lab, &q, at / n / n, &strategy[at / n % n], &strategy[at % n],
                                     &out->places.data[0]->reshard_ns[at]),
                         WEFT_OK);
    return true;
}

/* Layers whose strategies are not all possible, within a box that some plan is just outside of: no plan inside is lost
 * to a bound of the layers before. */
static void finds_all_plans_of_a_stage(void **unused)
{
    (void)unused;
    int inside = 0, count = rounds_of(800);
    for (int i = 0; i < count; i++) {
        struct lab lab;
        struct layer_table table;
        struct arena *arena = arena_new();
        lab_draw(&lab, (uint64_t)(i + 700000));
        struct stage_run run = {.run = {0, lab.source.layers}};
        struct stage_fronts fronts = {.table = &table, .keep = arena};
        cost_list costs = {0};
        option_list found = {0};
        if (open_stage(&lab, arena, &table)) {
            struct all all = all_new(arena, &lab.problem, lab.problem.global_batch, 1, 1);
            try_stage(&all, 0, run.run, &costs);
        }
        for (size_t k = 0; k < costs.len; k += costs.len / 3 + 1) {
            struct stage_cost from = {.time_ns = costs.data[0].time_ns + 1};
            struct stage_cost to = {.steady_ns = costs.data[k].steady_ns + 1};
            found.len = 0;
            if (!stage_plans_between(&fronts, &run, &from, &to, &found))
                continue; /* too many partial plans */
            assert_true(found.len > 0);
            assert_int_equal(found.data[found.len - 1].cost.time_ns,
                             least_within(&costs, costs.data[k].steady_ns));
            for (size_t o = 0; o < found.len; o++)
                assert_int_equal(found.data[o].cost.time_ns,
                                 least_within(&costs, found.data[o].cost.steady_ns));
            inside += found.len > 1;
        }
        arena_free(arena);
    }
    assert_true(count < 100 || inside > count / 20);
}

/* ---- equal runs ------------------------------------------------------------------------------ */

static bool same_layers(const struct lab *lab, struct layer_run a, struct layer_run b)
{
    bool same = a.count == b.count;
    for (int32_t l = 0; same && l < a.count; l++)
        same = lab->kind[a.first + l] == lab->kind[b.first + l] &&
               (l == 0 || lab->boundary[a.first + l] == lab->boundary[b.first + l]);
    return same;
}

/* Runs of the same layers are searched once, others never share an answer. */
static void equal_runs_are_one(void **unused)
{
    (void)unused;
    int shared = 0;
    for (int i = 0; i < rounds_of(200); i++) {
        struct lab lab;
        struct layer_table table;
        struct arena *arena = arena_new();
        lab_draw(&lab, (uint64_t)(i + 800000));
        if (open_stage(&lab, arena, &table)) {
            struct run_hashes hashes = run_hashes_new(arena, &lab.source);
            struct cutter cutter = cutter_new(arena, &table, &hashes);
            int32_t n = lab.source.layers;
            for (int32_t k = 0; k < n * n * n; k++) {
                struct layer_run a = {k / n / n, 1 + k % n}, b = {k / n % n, 1 + k % n};
                if (a.first + a.count > n || b.first + b.count > n)
                    continue;
                bool one = cutter_run(&cutter, 0, a) == cutter_run(&cutter, 0, b);
                assert_true(one == same_layers(&lab, a, b));
                shared += one && a.first != b.first;
            }
        }
        arena_free(arena);
    }
    assert_true(shared > 0);
}

/* Costs of a layer that recomputing does not change. */
static weft_status layer_either_way(void *context, const struct layer_question *q, int32_t kind,
                                    const struct strategy *strategy, struct layer_cost *out)
{
    struct strategy kept = *strategy;
    kept.recompute = false;
    return lab_layer(context, q, kind, &kept, out);
}

/* Of strategies that cost the same everywhere the first is taken: nothing is recomputed in vain. */
static void the_first_of_equal_strategies_is_taken(void **unused)
{
    (void)unused;
    size_t found = 0;
    for (int i = 0; i < rounds_of(100); i++) {
        struct lab lab;
        struct layer_plans plans;
        struct arena *arena = arena_new();
        lab_draw(&lab, (uint64_t)(i + 900000));
        lab.space.flags |= SPACE_RECOMPUTE;
        lab.source.layer = layer_either_way;
        lab.source.layout = lab_layout;
        search(&lab.problem, arena, &plans);
        for (size_t k = 0; k < plans.len; k++)
            for (int32_t l = 0; l < lab.source.layers; l++)
                assert_false(plans.data[k].strategy[l].recompute);
        found += plans.len;
        arena_free(arena);
    }
    assert_true(found > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_all_plans),
        cmocka_unit_test(more_is_no_worse),
        cmocka_unit_test(answers_the_same_again),
        cmocka_unit_test(answers_when_stopped),
        cmocka_unit_test(looks_at_so_many_settings),
        cmocka_unit_test(explores_batches),
        cmocka_unit_test(adjusts_partitions),
        cmocka_unit_test(searches_longer_models),
        cmocka_unit_test(finds_all_plans_of_a_stage),
        cmocka_unit_test(equal_runs_are_one),
        cmocka_unit_test(the_first_of_equal_strategies_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
