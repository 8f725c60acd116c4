/* test_aceso.c - the planner aceso against what it promises.
 *
 *   P1  A judge's word does not depend on what it was asked before, and is the estimate's and the
 *       simulator's of the config's plan, which passes plan_check.
 *   P2  Recomputation is the fastest of all that fit.
 *   P3  The search is as good as trying everything, on problems small enough for that.
 *   P4  Where it begins, and with how many threads, makes no difference.
 *   P5  It judges no more configs than it may, counted, and the same ones with any number of threads.
 *   P6  It answers when stopped, logs valid JSON, and is never worse than the plan it began with.
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

#include "program.h"
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

struct brute {
    struct asked *asked;
    struct config config;
    struct verdict best;
    int64_t tried;
};

static void brute_judge(struct brute *b)
{
    struct config c;
    struct verdict v;
    bool legal;
    config_copy(&c, &b->config);
    for (int32_t k = 0; k < c.stages; k++) {
        c.part[k].recompute_end = c.part[k].end;
        set_manner(&c.part[k], c.part[k].manner[0]);
    }
    config_normalise(&c);
    if (!config_legal(b->asked->problem, &c))
        return;
    assert_int_equal(judge_recompute(b->asked->judge, &c, UINT64_MAX), WEFT_OK);
    assert_int_equal(judge_config(b->asked->judge, &c, &v, NULL, &legal), WEFT_OK);
    b->tried++;
    if (legal && better(v, b->best))
        b->best = v;
}

static void brute_cuts(struct brute *b, int32_t stage)
{
    struct config *c = &b->config;
    if (stage + 1 == c->stages) {
        c->part[stage].end = (int32_t)b->asked->problem->instances;
        brute_judge(b);
        return;
    }
    for (int32_t end = part_first(c, stage) + 1; end < b->asked->problem->instances; end++) {
        c->part[stage].end = end;
        brute_cuts(b, stage + 1);
    }
}

static void brute_tp(struct brute *b, int32_t stage)
{
    struct config *c = &b->config;
    const struct problem *p = b->asked->problem;
    if (stage == c->stages) {
        for (int32_t i = 0; i < p->step_size_count; i++) {
            c->step_samples = p->step_sizes[i];
            brute_cuts(b, 0);
        }
        return;
    }
    for (int32_t tp = 1; tp <= c->devices[stage]; tp++)
        for (int64_t cp = p->cp.least; cp <= p->cp.most; cp += cp)
            for (int64_t ep = p->ep.least; ep <= p->ep.most; ep += ep) {
                struct manner m = {.tp = (uint16_t)tp, .cp = (uint16_t)cp, .ep = (uint16_t)ep};
                c->part[stage].manner[0] = m;
                if (p->tp_goes[tp] && dp_of(c->devices[stage], tp, cp))
                    brute_tp(b, stage + 1);
            }
}

static void brute_devices(struct brute *b, int32_t stage, int64_t left)
{
    struct config *c = &b->config;
    if (stage == c->stages) {
        if (left == 0)
            brute_tp(b, 0);
        return;
    }
    for (int32_t devices = 1; devices <= left; devices++)
        if (devices_allowed(b->asked->problem, devices)) {
            c->devices[stage] = devices;
            brute_devices(b, stage + 1, left - devices);
        }
}

static struct verdict try_everything(struct asked *a, int64_t *tried)
{
    struct brute b = {.asked = a, .best = {INT64_MAX, INT64_MAX}};
    const struct schedule *all;
    size_t schedules = schedule_all(&all);
    for (int32_t stages = 1; stages <= a->problem->devices; stages++) {
        b.config = (struct config){.stages = stages, .pieces = 1};
        for (size_t i = 0; i < schedules; i++)
            if (strcmp(all[i].name, "1f1b") == 0)
                b.config.schedule = (int32_t)i;
        brute_devices(&b, 0, a->problem->devices);
    }
    *tried += b.tried;
    return b.best;
}

static struct verdict search_all(struct asked *a)
{
    int32_t counts[MOST_STAGES], count = problem_stage_counts(a->problem, counts);
    struct verdict best = {INT64_MAX, INT64_MAX};
    for (int32_t i = 0; i < count; i++) {
        struct search_settings settings = {.stages = counts[i]};
        struct search_result result = {.arena = arena_new()};
        for (int effort = 0; effort < EFFORT_COUNT; effort++)
            assert_int_equal(aceso_search(a->judge, &settings, (enum effort)effort, &result),
                             WEFT_OK);
        if (result.count && better(result.found[0].verdict, best))
            best = result.found[0].verdict;
        arena_free(result.arena);
    }
    return best;
}

/* Misses of the first set led to the leaps of aceso_tune.c; nothing was tuned with the others. */
static const uint64_t SMALL_SEEDS[] = {12345, 31, 32, 33};
static const double WORST = 1.02;

/* Small models on 2 to 4 devices, with memory for all, for some or for few. */
static struct asked draw_small(struct rng *rng)
{
    static const char *const CLUSTERS[] = {"dgx-v100:1x2", "dgx-a100:1x2", "dgx-v100:1x3",
                                           "dgx-a100:2x1", "dgx-a100:1x4", "titan-rtx:2x2"};
    static const int64_t BATCHES[] = {2, 4, 6, 8};
    size_t at = (size_t)rng_below(rng, COUNT_OF(CLUSTERS));
    bool four = at >= 4, three = at == 2;
    char options[200];
    snprintf(options, sizeof options, "layers: %d, hidden: %d, heads: 12, seq: %d, vocab: %d",
             four    ? 1
             : three ? 2
                     : (int)(2 + rng_below(rng, 3)),
             (int)(384 << rng_below(rng, 3)), (int)(128 << rng_below(rng, 3)),
             (int)(768 << rng_below(rng, 4)));
    return open_asked("gpt3-350m", options, CLUSTERS[at],
                      (struct degrees){.global_batch = BATCHES[rng_below(rng, COUNT_OF(BATCHES))]},
                      "paper");
}

/* Experts, or sequences long enough to be divided, on 2 to 4 devices; Table 1, and what raises and lowers cp and
 * ep. */
static struct asked draw_divided(struct rng *rng)
{
    static const char *const CLUSTERS[] = {"dgx-a100:1x2", "dgx-a100:2x1", "dgx-a100:1x4"};
    static const int64_t BATCHES[] = {1, 2, 4};
    bool experts = chance(rng, 2);
    char options[200];
    snprintf(
        options, sizeof options, "layers: 1, hidden: %d, heads: 8, kv_heads: 4, ffn: %d, seq: %d%s",
        (int)(256 << rng_below(rng, 2)), (int)(512 << rng_below(rng, 3)),
        experts ? (int)(512 << rng_below(rng, 2)) : 16384, experts ? ", experts: 4, top_k: 2" : "");
    struct asked a = open_asked(
        experts ? "mixtral-8x7b" : "llama3-8b", options,
        CLUSTERS[rng_below(rng, COUNT_OF(CLUSTERS))],
        (struct degrees){.global_batch = BATCHES[rng_below(rng, COUNT_OF(BATCHES))]}, "all");
    make_judge(&a);
    a.problem->primitives = 1U << INC_CP | 1U << DEC_CP | 1U << INC_EP | 1U << DEC_EP;
    for (int i = 0; i < PRIMITIVE_COUNT; i++)
        a.problem->primitives |= PRIMITIVES[i].paper ? 1U << i : 0;
    a.problem->shards = 1;
    a.problem->schedules &= ~a.problem->schedules + 1; /* the first: 1f1b */
    return a;
}

struct compared {
    int equal;
    int64_t tried;
    double worst;
};

/* One search against everything; half of the time with less memory than the best of all takes. */
static void compare_with_everything(struct rng *rng, struct asked *a, struct compared *sum)
{
    a->problem->tune = false; /* what trying everything leaves out */
    struct verdict best = try_everything(a, &sum->tried);
    if (chance(rng, 2) && best.excess_bytes == 0) {
        a->problem->limit_bytes = a->problem->limit_bytes / (4 << rng_below(rng, 6));
        judge_forget(a->judge);
        best = try_everything(a, &sum->tried);
    }
    struct verdict found = search_all(a);
    bool fits = best.excess_bytes == 0;
    double ratio = fits ? (double)found.iteration_ns / (double)best.iteration_ns
                        : (double)found.excess_bytes / (double)best.excess_bytes;
    assert_true(!fits || found.excess_bytes == 0);
    sum->equal += ratio <= 1;
    sum->worst = ratio > sum->worst ? ratio : sum->worst;
    if (ratio > 1)
        print_message("%s on %s: %.4f of the best\n", a->model->name, a->cluster->name, ratio);
}

static void check_compared(const struct compared *sum, int rounds)
{
    print_message("%d of %d as good as the best of %lld, the worst %.2f %% slower\n", sum->equal,
                  rounds, (long long)sum->tried, 100 * (sum->worst - 1));
    assert_true(sum->equal * 100 >= rounds * 95);
    assert_true(sum->worst <= WORST);
}

static void test_as_good_as_trying_everything(void **state)
{
    (void)state;
    int rounds = rounds_of(300);
    struct compared sum = {.worst = 1};
    struct rng rng;
    for (int round = 0, seed = -1; round < rounds; round++) {
        int next = round * (int)COUNT_OF(SMALL_SEEDS) / rounds;
        if (next != seed)
            rng_seed(&rng, SMALL_SEEDS[next]);
        seed = next;
        struct asked a = draw_small(&rng);
        make_judge(&a);
        compare_with_everything(&rng, &a, &sum);
        close_asked(&a);
    }
    check_compared(&sum, rounds);
}

/* The same with cp and ep, each of which would miss some of the best plans if it were left out. */
static void test_divided_as_good_as_trying_everything(void **state)
{
    (void)state;
    int rounds = rounds_of(24), gains[2] = {0};
    struct compared sum = {.worst = 1};
    struct rng rng;
    rng_seed(&rng, 71);
    for (int round = 0; round < rounds; round++) {
        struct asked a = draw_divided(&rng);
        compare_with_everything(&rng, &a, &sum);
        int64_t tried = 0;
        struct verdict with = try_everything(&a, &tried);
        bool experts = a.problem->ep.most > 1;
        *(experts ? &a.problem->ep.most : &a.problem->cp.most) = 1;
        gains[experts] += better(with, try_everything(&a, &tried));
        close_asked(&a);
    }
    check_compared(&sum, rounds);
    print_message("cp helps %d of them, ep %d\n", gains[0], gains[1]);
    assert_true(rounds < 24 || (gains[0] > 0 && gains[1] > 0));
}

/* ---- P4 -------------------------------------------------------------------------------------- */

static struct planned *plan_with(struct asked *a, const struct plan_options *options)
{
    struct planned *planned;
    a->request.options = *options;
    if (plan_search(planner_find("aceso"), &a->request, &planned) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return planned;
}

static void test_beginnings_make_no_difference(void **state)
{
    (void)state;
    static const char *const BEGINNINGS[] = {"balanced", "imbalanced-op", "imbalanced-device"};
    static const struct {
        const char *model, *options, *cluster;
        int64_t batch;
    } CASES[] = {{"gpt3-2.6b", "layers: 16", "dgx-v100:1", 64},
                 {"t5-3b", NULL, "dgx-v100:1x4", 64}};
    for (int i = 0; i < rounds_of(COUNT_OF(CASES)); i++) {
        int64_t least = INT64_MAX, most = 0;
        struct asked a = open_asked(CASES[i].model, CASES[i].options, CASES[i].cluster,
                                    (struct degrees){.global_batch = CASES[i].batch}, NULL);
        for (size_t b = 0; b < COUNT_OF(BEGINNINGS); b++) {
            struct plan_options options = {.space = "paper", .initial = BEGINNINGS[b]};
            struct planned *planned = plan_with(&a, &options);
            int64_t ns = planned->trials.data[0].iteration_ns;
            assert_true(planned->trials.data[0].fits);
            least = ns < least ? ns : least;
            most = ns > most ? ns : most;
            planned_free(planned);
        }
        print_message("%s: %.3f s to %.3f s\n", CASES[i].model, (double)least * 1e-9,
                      (double)most * 1e-9);
        assert_true((double)most <= 1.01 * (double)least);
        close_asked(&a);
    }
}

/* Everything that was answered, in one text, the caller's to free. */
static char *answer_text(struct asked *a, const struct plan_options *options, int64_t *judged)
{
    struct planned *planned = plan_with(a, options);
    struct arena *scratch = arena_new();
    const char *text = "";
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct trial *trial = &planned->trials.data[i];
        assert_int_equal(plan_check(trial->plan), WEFT_OK);
        text = arena_printf(scratch, "%s%s %lld\n%s", text, trial->text,
                            (long long)trial->iteration_ns, plan_write(scratch, trial->plan));
    }
    for (size_t i = 0; i < planned->reasons.len; i++)
        text = arena_printf(scratch, "%s%s\n", text, planned->reasons.data[i]);
    char *copy = strdup(text);
    *judged = planned->candidates;
    planned_free(planned);
    arena_free(scratch);
    return copy;
}

enum { SLACK = 200 }; /* configs that are judged when searches begin and end */

static void hold_threads(struct asked *a, struct plan_options options, int64_t most)
{
    char *expected = NULL;
    int64_t first = 0, judged;
    options.most_configs = most;
    for (options.threads = 1; options.threads <= 4; options.threads *= 2) {
        char *text = answer_text(a, &options, &judged);
        assert_true(most == 0 || judged <= most + SLACK);
        if (expected) {
            assert_string_equal(text, expected);
            assert_int_equal(judged, first);
        }
        first = judged;
        free(expected);
        expected = text;
    }
    free(expected);
}

static void test_threads_make_no_difference(void **state)
{
    (void)state;
    struct asked a = open_asked("gpt3-1.3b", "layers: 8", "dgx-a100:1",
                                (struct degrees){.global_batch = 16}, NULL);
    hold_threads(&a, (struct plan_options){.space = "paper", .seed = 5}, 0);
    close_asked(&a);
}

static int64_t answer_ns(const struct asked *a, int64_t stages, bool every, int64_t *judged)
{
    struct plan_request request = a->request;
    struct planned *planned;
    request.pins.pp = stages;
    request.extension = &(struct aceso_study){.every_stages = every};
    assert_int_equal(plan_search(planner_find("aceso"), &request, &planned), WEFT_OK);
    assert_true(planned->trials.data[0].fits);
    int64_t ns = planned->trials.data[0].iteration_ns;
    *judged = planned->candidates;
    planned_free(planned);
    return ns;
}

/* Where no number of stages is left out, none does better by itself; and more are judged than else. */
static void test_every_number_of_stages(void **state)
{
    (void)state;
    struct asked a = open_asked("gpt2", "layers: 6", "dgx-v100:1x4",
                                (struct degrees){.global_batch = 16}, "paper");
    int64_t judged, some;
    int64_t every = answer_ns(&a, 0, true, &judged);
    assert_true(every <= answer_ns(&a, 0, false, &some));
    assert_true(judged > some);
    for (int64_t stages = 1; stages <= 4; stages++)
        assert_true((double)every <= 1.001 * (double)answer_ns(&a, stages, false, &some));
    close_asked(&a);
}

/* ---- P5 -------------------------------------------------------------------------------------- */

static void test_as_many_configs_as_allowed(void **state)
{
    (void)state;
    static const int64_t MOST[] = {50, 1000, 20000};
    struct asked a = open_asked("gpt3-1.3b", "layers: 8", "dgx-a100:1",
                                (struct degrees){.global_batch = 16}, NULL);
    for (size_t i = 0; i < COUNT_OF(MOST); i++)
        hold_threads(&a, (struct plan_options){0}, MOST[i]);
    close_asked(&a);
}

/* From a plan at hand, with few configs or with many: better than that one, with as many stages. */
static void test_a_plan_at_hand_gets_better(void **state)
{
    (void)state;
    static const int64_t MOST[] = {100, 3000, 30000};
    struct asked a = open_asked("gpt3-2.6b", "layers: 8", "dgx-v100:1",
                                (struct degrees){.global_batch = 64}, NULL);
    struct degrees degrees = {.dp = 1, .tp = 4, .pp = 2, .global_batch = 64, .micro_batch = 1};
    struct planned *megatron;
    a.request.pins = degrees;
    assert_int_equal(plan_search(planner_find("megatron"), &a.request, &megatron), WEFT_OK);
    int64_t before = megatron->trials.data[0].iteration_ns;
    struct plan *plan;
    assert_int_equal(trial_take(&a.request, &megatron->trials.data[0], &plan), WEFT_OK);
    a.request.pins = (struct degrees){.global_batch = 64};
    for (size_t i = 0; i < COUNT_OF(MOST); i++) {
        struct planned *planned =
            plan_with(&a, &(struct plan_options){.begin = &(struct begin_plan){plan, before},
                                                 .begins = 1,
                                                 .most_configs = MOST[i]});
        const struct trial *best = &planned->trials.data[0];
        assert_true(planned->candidates <= MOST[i] + SLACK);
        assert_true(best->fits && best->iteration_ns < before);
        assert_int_equal(best->plan->stages, 2);
        planned_free(planned);
    }
    plan_free(plan);
    planned_free(megatron);
    close_asked(&a);
}

/* ---- P6 -------------------------------------------------------------------------------------- */

static void test_stopped_searches_answer(void **state)
{
    (void)state;
    atomic_bool stop = true;
    struct asked a = open_asked("gpt3-1.3b", "layers: 8", "dgx-a100:1",
                                (struct degrees){.global_batch = 16}, NULL);
    a.request.stop = &stop;
    struct planned *planned = plan_with(&a, &(struct plan_options){.threads = 1});
    assert_true(planned->stopped);
    assert_true(planned->trials.len > 0);
    planned_free(planned);
    close_asked(&a);
}

static void test_pins_stay(void **state)
{
    (void)state;
    struct degrees pins = {.pp = 2,
                           .tp = 2,
                           .global_batch = 16,
                           .shard = 1,
                           .has_shard = true,
                           .recompute = RECOMPUTE_FULL,
                           .has_recompute = true,
                           .schedule = "1f1b"};
    struct asked a = open_asked("gpt3-1.3b", "layers: 8", "dgx-a100:1", pins, NULL);
    struct planned *planned = plan_with(&a, &(struct plan_options){.threads = 1});
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct plan *plan = planned->trials.data[i].plan;
        assert_int_equal(plan->stages, 2);
        assert_string_equal(plan->schedule, "1f1b");
        for (int64_t k = 0; k < plan->instances; k++) {
            const struct choice *choice = plan_choice(plan, k);
            assert_int_equal(split_degree(&choice->split, DIM_BATCH), 2);
            assert_int_equal(choice->shard, 1);
        }
        assert_int_equal(planned->trials.data[i].value[DIMENSION_TP], 2);
    }
    planned_free(planned);
    close_asked(&a);
}

static void test_any_number_of_devices(void **state)
{
    (void)state;
    struct asked a = open_asked("gpt3-1.3b", "layers: 8, hidden: 1536, heads: 12", "dgx-a100:3x6",
                                (struct degrees){.global_batch = 36}, NULL);
    struct planned *planned = plan_with(&a, &(struct plan_options){.space = "paper"});
    assert_true(planned->trials.data[0].fits);
    for (size_t i = 0; i < planned->trials.len; i++)
        assert_int_equal(plan_check(planned->trials.data[i].plan), WEFT_OK);
    planned_free(planned);
    close_asked(&a);
}

static char *temporary(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "/tmp/weft-test-aceso-%d-%s", (int)getpid(), name);
    return path;
}

static void test_the_log_is_json(void **state)
{
    (void)state;
    char command[500], *log = strdup(temporary("log.json"));
    snprintf(command, sizeof command,
             "plan gpt3-1.3b dgx-a100:1 --set layers=6 --global-batch 16 --planner aceso --space "
             "paper --max-hops 3 --log %s --json",
             log);
    json_t *answer = json_of(command), *json = json_load_file(log, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(answer, "planner")), "aceso");
    assert_true(json_array_size(json_object_get(answer, "reasons")) > 0);
    json_t *searches = json_object_get(json, "searches"), *search, *step;
    size_t i, k, steps = 0;
    assert_int_equal(json_array_size(searches), 8);
    json_array_foreach(searches, i, search)
    {
        json_array_foreach(json_object_get(search, "iterations"), k, step)
        {
            bool improved = json_is_true(json_object_get(step, "improved"));
            double before = json_real_value(json_object_get(step, "before_s"));
            double after = json_real_value(json_object_get(step, "after_s"));
            json_int_t hops = json_integer_value(json_object_get(step, "hops"));
            bool memory = json_integer_value(json_object_get(step, "before_excess")) > 0;
            assert_true(hops <= 3 && improved == (hops > 0));
            assert_true(memory || !improved || after < before);
            steps++;
        }
    }
    assert_true(steps > 8);
    json_decref(answer);
    json_decref(json);
    unlink(log);
    free(log);
}

static void test_a_plan_gets_better(void **state)
{
    (void)state;
    char command[700], *file = strdup(temporary("plan.json"));
    snprintf(command, sizeof command,
             "plan gpt3-1.3b dgx-v100:1x4 --set layers=8 --global-batch 32 --tp 4 --pp 1 "
             "--microbatch 1 --json -o %s",
             file);
    json_t *first = json_of(command);
    snprintf(command, sizeof command,
             "plan gpt3-1.3b dgx-v100:1x4 --set layers=8 --global-batch 32 --planner aceso "
             "--initial %s --json",
             file);
    json_t *second = json_of(command);
    double before = json_real_value(json_object_get(first, "iteration_s"));
    double after = json_real_value(json_object_get(second, "iteration_s"));
    assert_true(after < before);
    json_decref(first);
    json_decref(second);
    unlink(file);
    free(file);
}

static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    int code;
    free(ask("plan gpt3-1.3b dgx-a100:1 --global-batch 16 --planner aceso --space weft", &code));
    assert_int_equal(code, WEFT_BAD_INPUT);
    free(ask("plan gpt3-1.3b dgx-a100:1 --global-batch 16 --planner aceso --initial no-such-file",
             &code));
    assert_int_equal(code, WEFT_BAD_INPUT);
    free(ask("plan gpt3-1.3b dgx-a100:1 --global-batch 16 --planner aceso --search x", &code));
    assert_int_equal(code, WEFT_BAD_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_judge_says_what_the_estimate_says),
        cmocka_unit_test(test_plans_become_their_configs),
        cmocka_unit_test(test_pieces_of_a_stage_share),
        cmocka_unit_test(test_long_models_cost_what_they_cost_unfolded),
        cmocka_unit_test(test_recomputation_is_the_fastest_that_fits),
        cmocka_unit_test(test_as_good_as_trying_everything),
        cmocka_unit_test(test_divided_as_good_as_trying_everything),
        cmocka_unit_test(test_beginnings_make_no_difference),
        cmocka_unit_test(test_threads_make_no_difference),
        cmocka_unit_test(test_every_number_of_stages),
        cmocka_unit_test(test_as_many_configs_as_allowed),
        cmocka_unit_test(test_a_plan_at_hand_gets_better),
        cmocka_unit_test(test_stopped_searches_answer),
        cmocka_unit_test(test_pins_stay),
        cmocka_unit_test(test_any_number_of_devices),
        cmocka_unit_test(test_the_log_is_json),
        cmocka_unit_test(test_a_plan_gets_better),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
