/* test_aceso_judge.c - the judge of configs against the estimate, the simulator and trying every recomputation.
 *
 *   P1  A judge's word does not depend on what it was asked before, and is the estimate's and the
 *       simulator's of the config's plan, which passes plan_check.
 *   P2  Recomputation is the fastest of all that fit.
 *   P3  Step by step, every sharding that is allowed is proposed, upwards and downwards.
 *   P7  A config's plan is read as that config again.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "wander.h"

/* ---- P1 -------------------------------------------------------------------------------------- */

static const struct {
    const char *model, *options, *cluster;
    int64_t batch;
} WANDERED[] = {
    {"gpt3-1.3b", "layers: 9, seq: 512", "dgx-a100:1", 16},
    {"gpt3-1.3b", "layers: 3, seq: 512", "dgx-v100:2x4", 24},
    {"t5-770m", "layers: 5, decoder_layers: 6", "dgx-v100:1", 16},
    {"llama3-8b", "layers: 6, seq: 1024", "dgx-a100:2", 32},
    {"wresnet-500m", NULL, "dgx-v100:1", 48},
    {"gpt3-2.6b", "layers: 12, seq: 512, heads: 12, hidden: 1536", "dgx-a100:1x6", 24},
};

struct offs {
    double time[4096], memory;
    int count;
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void hold_against_plan(struct asked *a, struct estimator *estimator, const struct config *c,
                              struct offs *offs)
{
    struct arena *scratch = arena_new();
    struct verdict first, again;
    struct estimate estimate;
    struct plan *plan;
    bool legal;
    assert_int_equal(judge_config(a->judge, c, &first, NULL, &legal), WEFT_OK);
    assert_true(legal);
    judge_forget(a->judge);
    assert_int_equal(judge_config(a->judge, c, &again, NULL, &legal), WEFT_OK);
    assert_int_equal(first.iteration_ns, again.iteration_ns);
    assert_int_equal(first.excess_bytes, again.excess_bytes);
    if (judge_plan(a->judge, c, &plan) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    assert_int_equal(estimate_plan(estimator, plan, scratch, &estimate), WEFT_OK);
    double off = (double)first.iteration_ns / (double)estimate.iteration_ns - 1;
    offs->time[offs->count++] = fabs(off);
    int64_t peak = 0;
    for (int32_t s = 0; s < c->stages; s++) {
        int64_t own = judge_peak(a->judge, c, s);
        peak = own > peak ? own : peak;
    }
    double memory = fabs((double)peak / (double)estimate.peak_bytes - 1);
    offs->memory = memory > offs->memory ? memory : offs->memory;
    plan_free(plan);
    arena_free(scratch);
}

static void test_a_judge_says_what_the_estimate_says(void **state)
{
    (void)state;
    struct offs offs = {.count = 0};
    struct rng rng;
    rng_seed(&rng, 1);
    for (size_t i = 0; i < COUNT_OF(WANDERED); i++) {
        struct asked a = open_asked(WANDERED[i].model, WANDERED[i].options, WANDERED[i].cluster,
                                    (struct degrees){.global_batch = WANDERED[i].batch}, NULL);
        make_judge(&a);
        struct estimate_settings settings = a.problem->settings;
        struct estimator *estimator;
        settings.model = a.model;
        assert_int_equal(estimator_new(&settings, &estimator), WEFT_OK);
        for (int round = 0; round < rounds_of(40); round++) {
            struct config c;
            if (!wander(&rng, &a, 4, &c))
                continue;
            for (int left = round % 3; left > 0; left--)
                paint_some(&rng, &a, &c);
            hold_against_plan(&a, estimator, &c, &offs);
        }
        estimator_free(estimator);
        close_asked(&a);
    }
    qsort(offs.time, (size_t)offs.count, sizeof *offs.time, by_size);
    print_message("%d configs, |difference| median %.2f %%, 90 %% below %.2f %%, most %.1f %%; "
                  "memory most %.1f %%\n",
                  offs.count, 100 * offs.time[offs.count / 2], 100 * offs.time[offs.count * 9 / 10],
                  100 * offs.time[offs.count - 1], 100 * offs.memory);
    assert_true(offs.time[offs.count / 2] < 0.01);
    if (offs.count >= 50) /* else that is one of the worst few */
        assert_true(offs.time[offs.count * 9 / 10] < 0.05);
}

/* P7. Neither which side is split nor recomputation is read from a plan. */
static void hold_against_itself(const struct asked *a, const struct config *c)
{
    struct config back;
    struct plan *plan;
    assert_int_equal(judge_plan(a->judge, c, &plan), WEFT_OK);
    if (config_of_plan(a->problem, plan, &back) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    plan_free(plan);
    assert_int_equal(back.stages, c->stages);
    assert_int_equal(back.pieces, c->pieces);
    assert_int_equal(back.schedule, c->schedule);
    assert_int_equal(back.step_samples, c->step_samples);
    for (int32_t k = 0; k < config_parts(c); k++) {
        const struct manner *m = main_manner(c, k), *again = main_manner(&back, k);
        assert_int_equal(back.devices[k % c->stages], c->devices[k % c->stages]);
        assert_int_equal(back.part[k].end, c->part[k].end);
        assert_int_equal(again->tp, m->tp);
        assert_int_equal(again->cp, m->cp);
        assert_int_equal(again->ep, m->ep);
        assert_int_equal(again->shard, m->shard);
        assert_int_equal(again->sequence, m->sequence);
        assert_int_equal(again->offload, m->offload);
    }
}

/* One manner for each part, along the sequence or not. Only parts with attention show their cp. */
static bool draw_manners(struct rng *rng, struct asked *a, struct config *c)
{
    enum { TWO_LAYERS = 30 };
    struct verdict verdict;
    bool legal;
    if (!wander(rng, a, 3, c))
        return false;
    for (int32_t k = 0; k < config_parts(c); k++) {
        struct manner m = *main_manner(c, k);
        if (a->request.pins.cp > 1 && c->part[k].end - part_first(c, k) < TWO_LAYERS)
            return false;
        m.sequence = !chance(rng, 4);
        set_manner(&c->part[k], m);
    }
    config_normalise(c);
    assert_int_equal(judge_config(a->judge, c, &verdict, NULL, &legal), WEFT_OK);
    return legal && config_legal(a->problem, c);
}

static void test_plans_become_their_configs(void **state)
{
    (void)state;
    static const struct {
        const char *model, *options, *cluster;
        struct degrees pins;
    } CASES[] = {
        {"gpt3-1.3b", "layers: 9, seq: 512", "dgx-a100:1", {.global_batch = 16}},
        {"llama3-8b", "layers: 6, seq: 1024", "dgx-a100:2", {.global_batch = 32, .cp = 2}},
        {"t5-770m", "layers: 5, decoder_layers: 6", "dgx-v100:1", {.global_batch = 16}},
    };
    int held[2] = {0};
    struct rng rng;
    rng_seed(&rng, 7);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct asked a =
            open_asked(CASES[i].model, CASES[i].options, CASES[i].cluster, CASES[i].pins, NULL);
        make_judge(&a);
        for (int round = 0; round < rounds_of(24); round++) {
            struct config c;
            if (!draw_manners(&rng, &a, &c))
                continue;
            hold_against_itself(&a, &c);
            for (int32_t k = 0; k < config_parts(&c); k++)
                held[main_manner(&c, k)->sequence]++;
        }
        close_asked(&a);
    }
    assert_true(held[0] > 2 && held[1] > 2);
}

/* Two stages of two pieces each, all of it in one manner. */
static struct config draw_pieces(const struct asked *a, int shard)
{
    const struct schedule *all;
    struct config c;
    schedule_all(&all);
    assert_true(config_begin(a->problem, 4, BEGIN_BALANCED, &c));
    c.stages = c.pieces = 2;
    c.devices[0] = c.devices[1] = 4;
    c.step_samples = 4;
    c.schedule = (int32_t)(schedule_find("interleaved") - all);
    for (int32_t k = 0; k < config_parts(&c); k++)
        set_manner(&c.part[k], (struct manner){.tp = 1, .cp = 1, .ep = 1, .shard = (uint8_t)shard});
    assert_true(config_legal(a->problem, &c));
    return c;
}

/* However many pieces a stage has, it begins one optimizer step and has one stand-in of each shape for weight
 * gradients (sim/state.c): to the nanosecond, and to the byte. */
static void test_pieces_of_a_stage_share(void **state)
{
    (void)state;
    for (int shard = 0; shard < 2; shard++) {
        struct degrees pins = {.global_batch = 16,
                               .shard = shard,
                               .has_shard = true,
                               .has_policy = true,
                               .policy = POLICY_MIXED_FP32_GRADIENTS};
        struct asked a = open_asked("gpt3-1.3b", "layers: 8, seq: 256", "dgx-a100:1", pins, NULL);
        struct arena *scratch = arena_new();
        struct estimate estimate;
        struct verdict verdict;
        struct plan *plan;
        bool legal;
        make_judge(&a);
        struct config c = draw_pieces(&a, shard);
        assert_int_equal(judge_config(a.judge, &c, &verdict, NULL, &legal), WEFT_OK);
        assert_true(legal);
        assert_int_equal(judge_plan(a.judge, &c, &plan), WEFT_OK);
        struct estimate_settings settings = estimate_settings_of(plan);
        struct estimator *estimator;
        assert_int_equal(estimator_new(&settings, &estimator), WEFT_OK);
        assert_int_equal(estimate_plan(estimator, plan, scratch, &estimate), WEFT_OK);
        for (int32_t s = 0; s < c.stages; s++) {
            assert_true(a.judge->cost[s]->stand_in > 0);
            assert_int_equal(judge_peak(a.judge, &c, s), estimate.stage[s].peak_bytes);
            int64_t off = a.judge->sums[s].optimizer_ns - estimate.stage[s].optimizer_ns;
            assert_true(off >= -1 && off <= 1);
        }
        estimator_free(estimator);
        plan_free(plan);
        arena_free(scratch);
        close_asked(&a);
    }
}

/* Folding is exact where nothing is left out, and small where it is. */
static void test_long_models_cost_what_they_cost_unfolded(void **state)
{
    (void)state;
    struct asked a = open_asked("gpt3-350m", "layers: 40, seq: 256", "dgx-a100:1",
                                (struct degrees){.global_batch = 16}, "paper");
    struct rng rng;
    make_judge(&a);
    assert_int_equal(a.problem->fold.repeats, 1);
    assert_true(a.problem->fold.model.modules == a.model->modules);
    struct folding plain = {.instances = a.problem->instances};
    plain.place = calloc((size_t)plain.instances + 1, sizeof *plain.place);
    for (int64_t i = 0; i <= plain.instances; i++)
        plain.place[i] = (int32_t)i;
    struct problem unfolded = *a.problem;
    struct judge *judge;
    unfolded.fold = plain;
    unfolded.settings.model = a.model;
    assert_int_equal(judge_new(&unfolded, &judge), WEFT_OK);
    rng_seed(&rng, 2);
    for (int round = 0; round < rounds_of(30); round++) {
        struct config c;
        struct verdict folded, whole;
        bool legal;
        if (!wander(&rng, &a, 4, &c))
            continue;
        assert_int_equal(judge_config(a.judge, &c, &folded, NULL, &legal), WEFT_OK);
        assert_int_equal(judge_config(judge, &c, &whole, NULL, &legal), WEFT_OK);
        assert_true(fabs((double)folded.iteration_ns / (double)whole.iteration_ns - 1) < 0.01);
        for (int32_t s = 0; s < c.stages; s++) {
            double peaks = (double)judge_peak(a.judge, &c, s) / (double)judge_peak(judge, &c, s);
            assert_true(fabs(peaks - 1) < 0.01);
        }
    }
    judge_free(judge);
    free(plain.place);
    close_asked(&a);
}

/* ---- P2 -------------------------------------------------------------------------------------- */

/* The fastest pair of levels and place between them, tried one by one. */
static int64_t fastest_recompute(struct asked *a, struct config *c, int32_t stage)
{
    const struct places_list *cuts = &a->problem->cuts[GRAIN_LAYERS];
    struct config_part *part = &c->part[stage];
    int64_t best = INT64_MAX;
    for (int32_t high = 0; high < a->problem->levels; high++)
        for (int32_t low = 0; low <= high; low++)
            for (size_t i = 0; i <= cuts->len; i++) {
                struct stage_verdict v;
                part->low = (uint8_t)low;
                part->high = (uint8_t)high;
                part->recompute_end = i < cuts->len ? cuts->data[i] : part->end;
                assert_int_equal(judge_stage(a->judge, c, stage, &v), WEFT_OK);
                if (v.peak_bytes <= a->problem->limit_bytes && v.busy_ns < best)
                    best = v.busy_ns;
            }
    return best;
}

static void test_recomputation_is_the_fastest_that_fits(void **state)
{
    (void)state;
    struct asked a = open_asked("gpt3-1.3b", "layers: 8, seq: 1024", "dgx-v100:1x4",
                                (struct degrees){.global_batch = 32}, "paper");
    struct rng rng;
    int partial = 0, none = 0;
    make_judge(&a);
    rng_seed(&rng, 3);
    for (int round = 0; round < rounds_of(60); round++) {
        struct config c, tried;
        a.problem->limit_bytes = INT64_MAX;
        if (!wander(&rng, &a, 3, &c))
            continue;
        int32_t stage = (int32_t)rng_below(&rng, c.stages);
        struct stage_verdict v;
        assert_int_equal(judge_stage(a.judge, &c, stage, &v), WEFT_OK);
        a.problem->limit_bytes = v.peak_bytes * (50 + rng_below(&rng, 50)) / 100;
        judge_forget(a.judge);
        config_copy(&tried, &c);
        int64_t best = fastest_recompute(&a, &tried, stage);
        assert_int_equal(judge_recompute(a.judge, &c, UINT64_C(1) << stage), WEFT_OK);
        assert_int_equal(judge_stage(a.judge, &c, stage, &v), WEFT_OK);
        if (best == INT64_MAX) {
            none++;
            continue;
        }
        assert_true(v.peak_bytes <= a.problem->limit_bytes);
        assert_true((double)v.busy_ns <= 1.002 * (double)best);
        partial += c.part[stage].low != c.part[stage].high;
    }
    print_message("partial recomputation in %d of %d, nothing fits in %d\n", partial, rounds_of(60),
                  none);
    close_asked(&a);
}

/* ---- P3 -------------------------------------------------------------------------------------- */

/* The shardings that are met from a config on, one bit each, while a primitive proposes others. */
static unsigned shardings_met(struct asked *a, struct config *c, enum primitive primitive)
{
    struct proposals *list = malloc(sizeof *list);
    unsigned met = 0, before = ~0U;
    while (met != before) {
        struct stage_use cost[MOST_STAGES];
        struct asking asking = {.judge = a->judge,
                                .from = c,
                                .cost = cost,
                                .primitive = primitive,
                                .grain = GRAIN_LAYERS,
                                .out = list};
        bool legal;
        before = met;
        met |= 1U << manner_at(&c->part[0], 0)->shard;
        list->count = 0;
        assert_int_equal(judge_config(a->judge, c, &asking.verdict, cost, &legal), WEFT_OK);
        assert_true(legal);
        assert_int_equal(PRIMITIVES[primitive].propose(&asking), WEFT_OK);
        if (list->count)
            config_copy(c, &list->data[0].config);
        config_normalise(c);
    }
    free(list);
    return met;
}

static void test_every_sharding_is_reached(void **state)
{
    (void)state;
    struct asked a = open_asked("gpt3-1.3b", "layers: 4", "dgx-a100:1",
                                (struct degrees){.global_batch = 16}, NULL);
    struct config c;
    make_judge(&a);
    assert_true(config_begin_with(a.problem, 1, BEGIN_BALANCED, 1, &c));
    assert_int_equal(a.problem->shards, 0xf);
    shardings_met(&a, &c, DEC_SHARD);
    assert_int_equal(shardings_met(&a, &c, INC_SHARD), a.problem->shards);
    assert_int_equal(shardings_met(&a, &c, DEC_SHARD), a.problem->shards);
    close_asked(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_judge_says_what_the_estimate_says),
        cmocka_unit_test(test_plans_become_their_configs),
        cmocka_unit_test(test_pieces_of_a_stage_share),
        cmocka_unit_test(test_long_models_cost_what_they_cost_unfolded),
        cmocka_unit_test(test_recomputation_is_the_fastest_that_fits),
        cmocka_unit_test(test_every_sharding_is_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
