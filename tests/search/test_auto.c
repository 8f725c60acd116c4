/* test_auto.c - the automatic planner and its grid against what they promise.
 *
 *   P1  The grid's answer is that of estimating every point, also that with a number of stages; no bound is
 *       above its estimate, wherever stages lie.
 *   P2  Few copies of a layer stand for all: tables of either say the same.
 *   P3  Pins and forbids hold; a plan is one trial; same question, same answer, with any number of
 *       threads; stopped, it answers with what it has.
 *   P4  Sizes, deadlines and money by hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program.h"
#include "random_problem.h"
#include "search/auto/room.h"

/* ---- P1 -------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const struct grid_point *x = a, *y = b;
    int64_t p = x->iteration_ns, q = y->iteration_ns;
    return p != q ? (p > q) - (p < q)
                  : (x->peak_bytes > y->peak_bytes) - (x->peak_bytes < y->peak_bytes);
}

static int by_memory(const void *a, const void *b)
{
    const struct grid_point *x = a, *y = b;
    int64_t p = x->peak_bytes, q = y->peak_bytes;
    return p != q ? (p > q) - (p < q) : by_time(a, b);
}

static void assert_bounds(const struct grid *all)
{
    for (size_t i = 0; i < all->best.len; i++) {
        const struct grid_point *p = &all->best.data[i];
        if (p->bound_ns > p->iteration_ns || p->bound_bytes > p->peak_bytes)
            fail_msg(
                "tp %lld pp %lld dp %lld pieces %lld micro-batch %lld zero %d recompute %d %s: "
                "%lld of %lld ns, %lld of %lld bytes",
                (long long)p->degrees.tp, (long long)p->degrees.pp, (long long)p->degrees.dp,
                (long long)p->degrees.pieces, (long long)p->degrees.micro_batch, p->degrees.shard,
                (int)p->degrees.recompute, p->degrees.schedule, (long long)p->bound_ns,
                (long long)p->iteration_ns, (long long)p->bound_bytes, (long long)p->peak_bytes);
    }
}

/* Those that fit first, which are how many; each in order. */
static size_t sort_points(struct grid *all)
{
    size_t fitting = 0;
    for (size_t i = 0; i < all->best.len; i++)
        if (all->best.data[i].fits) {
            struct grid_point point = all->best.data[i];
            all->best.data[i] = all->best.data[fitting];
            all->best.data[fitting++] = point;
        }
    size_t len = fitting ? fitting : all->best.len;
    if (len)
        qsort(all->best.data, len, sizeof *all->best.data, fitting ? by_time : by_memory);
    return fitting;
}

/* The best with every number of stages is that of all points. */
static void assert_best_with(struct grid_walk *walk, const struct grid *all, size_t fitting,
                             int64_t devices, int64_t most_parts)
{
    for (int64_t pp = 1; pp <= devices && fitting; pp += pp) {
        struct grid_point point;
        bool found;
        size_t i = 0;
        while (i < fitting && (all->best.data[i].degrees.pp != pp ||
                               pp * all->best.data[i].degrees.pieces > most_parts))
            i++;
        assert_int_equal(grid_best_with(walk, pp, most_parts, &point, &found), WEFT_OK);
        assert_int_equal(found, i < fitting);
        if (!found)
            continue;
        assert_int_equal(point.degrees.pp, pp);
        assert_int_equal(point.iteration_ns, all->best.data[i].iteration_ns);
        assert_int_equal(point.peak_bytes, all->best.data[i].peak_bytes);
    }
}

static struct grid assert_exact(const struct problem *p, size_t count, int64_t most_parts)
{
    struct grid all, best;
    struct grid_walk *walk;
    assert_int_equal(grid_estimate_all(&p->request, p->cost, p->arena, &all), WEFT_OK);
    assert_int_equal(grid_walk_new(&p->request, p->cost, count, p->arena, &best, &walk), WEFT_OK);
    assert_bounds(&all);
    size_t fitting = sort_points(&all), len = fitting ? fitting : all.best.len;
    assert_int_equal(best.best.len, len < count ? len : count);
    for (size_t i = 0; i < best.best.len; i++) {
        assert_int_equal(best.best.data[i].iteration_ns, all.best.data[i].iteration_ns);
        assert_int_equal(best.best.data[i].peak_bytes, all.best.data[i].peak_bytes);
        assert_int_equal(best.best.data[i].fits, fitting > 0);
    }
    struct grid answer = best;
    assert_best_with(walk, &all, fitting, cluster_devices(p->cluster), most_parts);
    grid_walk_free(walk);
    return answer;
}

/* A walk that knows a time finds whatever takes no longer, and walks that share their tables find the same. */
static void assert_known_time(struct problem *p, const struct grid *best)
{
    struct grid known;
    size_t count = best->best.len;
    if (!count || !best->best.data[0].fits)
        return;
    p->request.known_ns = best->best.data[count / 2].iteration_ns;
    p->request.estimators = estimators_new();
    for (int again = 0; again < 2; again++) {
        assert_int_equal(grid_search(&p->request, p->cost, count, p->arena, &known), WEFT_OK);
        assert_true(known.best.len > count / 2);
        for (size_t i = 0; i <= count / 2; i++) {
            assert_int_equal(known.best.data[i].iteration_ns, best->best.data[i].iteration_ns);
            assert_int_equal(known.best.data[i].peak_bytes, best->best.data[i].peak_bytes);
        }
    }
    estimators_free(p->request.estimators);
    p->request.estimators = NULL;
    p->request.known_ns = 0;
}

static void test_the_grid_is_exact(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 71);
    int64_t points = 0, estimates = 0;
    for (int round = 0; round < rounds_of(10); round++) {
        struct problem p = draw_problem(&rng);
        size_t count = 1 + (size_t)rng_below(&rng, 16);
        struct grid best = assert_exact(&p, count, 1 + rng_below(&rng, 16));
        assert_known_time(&p, &best);
        points += best.points;
        estimates += best.estimates;
        close_problem(&p);
    }
    print_message("%lld points, %lld estimated\n", (long long)points, (long long)estimates);
    assert_true(estimates < points);
}

static struct problem open_problem(const char *model, const char *options, const char *cluster,
                                   struct degrees pins)
{
    struct problem p = {.arena = arena_new()};
    assert_int_equal(model_open(model, options, &p.model), WEFT_OK);
    assert_int_equal(cluster_open(cluster, &p.cluster), WEFT_OK);
    assert_int_equal(cost_open(&p.cluster->node.device, NULL, &p.cost), WEFT_OK);
    p.request = (struct plan_request){.model = p.model, .cluster = p.cluster, .pins = pins};
    return p;
}

/* On several nodes and units of the fabric no two stages lie alike. */
static void test_the_grid_is_exact_where_places_differ(void **state)
{
    (void)state;
    static const struct {
        const char *model, *options, *cluster;
        struct degrees pins;
    } ASKED[] = {
        {"gpt3-6.7b", "layers: 12", "dgx-a100:32", {.tp = 4, .micro_batch = 1}},
        {"gpt3-13b", "layers: 8", "dgx-a100:48", {.tp = 8, .micro_batch = 2}},
        {"llama3-8b", "layers: 16", "dgx-h100:64", {.tp = 2, .micro_batch = 1, .sequence = true}},
        {"gpt3-1.3b", "layers: 12", "dgx-v100:3", {.micro_batch = 1}},
        {"gpt3-6.7b", "layers: 8", "dgx-a100-200g:24", {.tp = 8}},
    };
    int64_t points = 0, estimates = 0;
    for (int i = 0; i < cases_of(COUNT_OF(ASKED)); i++) {
        struct problem p =
            open_problem(ASKED[i].model, ASKED[i].options, ASKED[i].cluster, ASKED[i].pins);
        p.request.pins.global_batch = 2 * cluster_devices(p.cluster);
        struct grid best = assert_exact(&p, 6, 128);
        points += best.points;
        estimates += best.estimates;
        close_problem(&p);
    }
    print_message("%lld points, %lld estimated\n", (long long)points, (long long)estimates);
    assert_true(estimates < points / 4);
}

/* Narrow models, which send much for what they compute: pairs of devices that are linked unlike, and segments of
 * one stage that are faster together than each by itself. */
static void test_parts_by_themselves_are_no_slower(void **state)
{
    (void)state;
    static const struct {
        const char *model, *options;
        struct degrees pins;
    } ASKED[] = {
        {"t5-770m",
         "layers: 2, decoder_layers: 2, hidden: 512, heads: 8, ffn: 512, vocab: 1024",
         {.tp = 2, .pp = 2}},
        {"gpt3-1.3b", "layers: 4, seq: 1024, hidden: 512, heads: 8", {.tp = 4, .pp = 1}},
    };
    for (size_t i = 0; i < COUNT_OF(ASKED); i++) {
        struct degrees pins = ASKED[i].pins;
        struct grid all;
        pins.global_batch = 16;
        pins.has_shard = pins.has_recompute = true;
        struct problem p = open_problem(ASKED[i].model, ASKED[i].options, "dgx-v100:1x4", pins);
        assert_int_equal(grid_estimate_all(&p.request, p.cost, p.arena, &all), WEFT_OK);
        assert_true(all.best.len > 0);
        assert_bounds(&all);
        close_problem(&p);
    }
}

/* With everything recomputed, a stage is fullest while the optimizer runs, and the bound says so within a tenth: else a walk
 * of a model that fits nowhere would estimate every point whose state alone is smaller than the smallest peak. */
static void test_the_optimizers_step_counts(void **state)
{
    (void)state;
    struct degrees pins = {.tp = 4,
                           .pp = 1,
                           .micro_batch = 1,
                           .global_batch = 8,
                           .has_dtype = true,
                           .dtype = DTYPE_BF16};
    struct problem p = open_problem("gpt3-13b", "layers: 8, seq: 128", "dgx-a100:1", pins);
    struct grid all;
    p.request.pins.has_recompute = true;
    p.request.pins.recompute = RECOMPUTE_FULL;
    p.request.pins.has_shard = true;
    assert_int_equal(grid_estimate_all(&p.request, p.cost, p.arena, &all), WEFT_OK);
    assert_bounds(&all);
    assert_true(all.best.len > 0);
    for (size_t i = 0; i < all.best.len; i++)
        if (all.best.data[i].bound_bytes < all.best.data[i].peak_bytes / 10 * 9)
            fail_msg("%lld of %lld bytes", (long long)all.best.data[i].bound_bytes,
                     (long long)all.best.data[i].peak_bytes);
    close_problem(&p);
}

/* Experts are tried whole and split like the rest, with more devices than dp has; the bounds hold. */
static void test_experts_are_tried_whole(void **state)
{
    (void)state;
    struct degrees pins = {.tp = 4, .pp = 1, .micro_batch = 1, .global_batch = 8};
    struct problem p = open_problem("mixtral-8x7b", "layers: 2", "dgx-h100:1", pins);
    struct grid all;
    int whole = 0, split = 0;
    assert_int_equal(grid_estimate_all(&p.request, p.cost, p.arena, &all), WEFT_OK);
    assert_bounds(&all);
    for (size_t i = 0; i < all.best.len; i++) {
        const struct degrees *d = &all.best.data[i].degrees;
        whole += d->etp == 1 && d->ep == 8;
        split += d->etp == 0 && d->ep == 2;
        assert_false(d->etp == 0 && d->ep > 2);
    }
    assert_true(whole > 0 && split > 0);
    close_problem(&p);
}

/* An encoder is tried on the first stage, split like the rest and whole, and on stages of its own: on 8 devices one of 2 beside
 * three of 2, or two of 1 beside three of 2. The bounds hold, and the walk finds the best of them. */
static void test_encoders_are_tried_apart(void **state)
{
    (void)state;
    struct degrees pins = {.micro_batch = 1, .global_batch = 8, .cp = 1};
    struct problem p = open_problem("qwen2.5-vl-7b",
                                    "layers: 4, seq: 512, vision_layers: 8, vision_image: 448, "
                                    "heads: 32, kv_heads: 8, head_dim: 112",
                                    "dgx-h100:1", pins);
    struct grid all;
    int beside = 0, whole = 0, apart[3] = {0};
    pins.has_shard = pins.has_recompute = true;
    p.request.pins = pins;
    assert_int_equal(grid_estimate_all(&p.request, p.cost, p.arena, &all), WEFT_OK);
    assert_bounds(&all);
    for (size_t i = 0; i < all.best.len; i++) {
        const struct degrees *d = &all.best.data[i].degrees;
        beside += !d->encoder_pp && !d->encoder_tp;
        whole += d->encoder_tp == 1;
        apart[d->encoder_pp]++;
        assert_true(d->encoder_pp != 1 || d->pieces == 1);
    }
    assert_true(beside > 0 && whole > 0 && apart[1] > 0 && apart[2] > 0);
    assert_exact(&p, 8, 4);
    close_problem(&p);
}

/* Where sequences are divided, or tensors are split otherwise, an encoder's own stage has fewer devices than the others:
 * such plans are estimated as they are simulated. */
static void test_encoders_have_fewer_devices(void **state)
{
    (void)state;
    static const struct {
        struct degrees pins;
        const char *cluster;
    } CASES[] = {
        {{.cp = 2, .tp = 1, .pp = 1, .encoder_pp = 1, .global_batch = 16}, "dgx-h100:1x3"},
        {{.cp = 1, .tp = 2, .pp = 1, .encoder_pp = 1, .encoder_tp = 1, .global_batch = 16},
         "dgx-h100:1x3"},
        {{.cp = 2, .tp = 1, .pp = 2, .encoder_pp = 2, .global_batch = 16}, "dgx-h100:1x6"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct problem p = open_problem("gemma3-4b", "layers: 6, seq: 4096, vision_layers: 6",
                                        CASES[i].cluster, CASES[i].pins);
        struct grid all;
        p.request.pins.micro_batch = 1;
        assert_int_equal(grid_estimate_all(&p.request, p.cost, p.arena, &all), WEFT_OK);
        assert_true(all.best.len > 0);
        for (size_t k = 0; k < all.best.len; k++) {
            const struct grid_point *point = &all.best.data[k];
            struct prediction *prediction;
            struct plan *plan;
            assert_int_equal(plan_from_degrees(p.model, p.cluster, &point->degrees, &plan),
                             WEFT_OK);
            assert_true(plan->stage[0].devices < plan->stage[plan->stages - 1].devices);
            assert_int_equal(simulate(plan, &(struct simulate_options){0}, &prediction), WEFT_OK);
            double off = (double)point->iteration_ns / (double)prediction->iteration_ns - 1;
            if (fabs(off) > 0.05)
                fail_msg("case %zu, point %zu: %.1f %% off", i, k, 100 * off);
            prediction_free(prediction);
            plan_free(plan);
        }
        close_problem(&p);
    }
}

/* Devices that share a sequence may share the optimizer, too. */
static void test_sequences_are_shared_and_sharded(void **state)
{
    (void)state;
    struct degrees pins = {.cp = 2, .tp = 1, .pp = 1, .global_batch = 2, .has_recompute = true};
    struct problem p = open_problem("gpt3-1.3b", "layers: 2, seq: 512", "dgx-v100:1x2", pins);
    struct grid all;
    unsigned shards = 0;
    assert_int_equal(grid_estimate_all(&p.request, p.cost, p.arena, &all), WEFT_OK);
    for (size_t i = 0; i < all.best.len; i++)
        shards |= 1U << all.best.data[i].degrees.shard;
    assert_int_equal(shards, 0xf);
    close_problem(&p);
}

/* ---- P2 -------------------------------------------------------------------------------------- */

static const struct {
    const char *model, *options;
    struct degrees degrees;
} MANY_LAYERS[] = {
    {"gpt3-1.3b", "layers: 24", {.tp = 2, .pp = 2, .global_batch = 16, .sequence = true}},
    {"gpt3-1.3b", "layers: 13", {.pp = 4, .global_batch = 16, .shard = 1, .schedule = "zb-h1"}},
    {"llama3-8b",
     "layers: 16",
     {.tp = 8, .global_batch = 8, .shard = 3, .recompute = RECOMPUTE_FULL}},
    {"llama3-8b", "layers: 16", {.pp = 2, .pieces = 4, .global_batch = 8, .shard = 2}},
    {"t5-large-32", NULL, {.tp = 2, .pp = 2, .segments = 2, .global_batch = 8}},
    {"mixtral-8x7b", "layers: 8", {.tp = 2, .ep = 4, .global_batch = 8}},
    {"mixtral-8x7b",
     "layers: 8",
     {.tp = 4, .ep = 8, .etp = 1, .sequence = true, .global_batch = 8}},
};

static void test_few_copies_say_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(MANY_LAYERS); i++) {
        struct model *model;
        struct cluster *cluster;
        struct plan *plan;
        struct arena *arena = arena_new();
        struct estimate answer[2];
        assert_int_equal(model_open(MANY_LAYERS[i].model, MANY_LAYERS[i].options, &model), WEFT_OK);
        assert_int_equal(cluster_open("dgx-a100:1", &cluster), WEFT_OK);
        assert_int_equal(plan_from_degrees(model, cluster, &MANY_LAYERS[i].degrees, &plan),
                         WEFT_OK);
        for (int few = 0; few < 2; few++) {
            struct estimate_settings settings = estimate_settings_of(plan);
            struct estimator *estimator;
            struct candidate *candidate;
            settings.copies = few ? 3 : 0;
            assert_int_equal(estimator_new(&settings, &estimator), WEFT_OK);
            assert_int_equal(candidate_of_plan(estimator, plan, arena, &candidate), WEFT_OK);
            assert_int_equal(estimate_candidate(estimator, candidate, &answer[few]), WEFT_OK);
            estimator_free(estimator);
        }
        double off = (double)answer[1].iteration_ns / (double)answer[0].iteration_ns - 1;
        if (fabs(off) > 0.01)
            fail_msg("%s, row %zu: %+.2f %%", MANY_LAYERS[i].model, i, 100 * off);
        assert_true(llabs(answer[1].peak_bytes - answer[0].peak_bytes) <=
                    answer[0].peak_bytes / 100);
        plan_free(plan);
        cluster_free(cluster);
        model_free(model);
        arena_free(arena);
    }
}

/* ---- P3 -------------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    bool legal;
} FORBIDS[] = {
    {"pp,zero=3,recompute=full", true}, {"sp", true},        {"schedule=aiao, tp=8", true},
    {"microbatch=1,virtual", true},     {"schedule", false}, {"zero=4x", false},
    {"recompute=some", false},          {"colour", false},   {"pp=0", false},
};

static void test_what_is_forbidden(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(FORBIDS); i++) {
        struct forbids forbids = {0};
        assert_int_equal(forbid_parse(arena, FORBIDS[i].text, &forbids),
                         FORBIDS[i].legal ? WEFT_OK : WEFT_BAD_INPUT);
    }
    struct forbids forbids = {0};
    assert_int_equal(forbid_parse(arena, "pp,zero=1,recompute,schedule=aiao,sp", &forbids),
                     WEFT_OK);
    struct degrees d = {.dp = 4,
                        .tp = 2,
                        .pp = 1,
                        .cp = 1,
                        .ep = 1,
                        .pieces = 1,
                        .segments = 1,
                        .micro_batch = 1,
                        .schedule = "1f1b"};
    assert_false(degrees_forbidden(&forbids, &d));
    struct degrees pp = d, zero = d, recompute = d, aiao = d, sp = d, zero2 = d;
    pp.pp = 2, zero.shard = 1, recompute.recompute = RECOMPUTE_SELECTIVE, sp.sequence = true;
    aiao.schedule = "aiao", zero2.shard = 2;
    assert_true(degrees_forbidden(&forbids, &pp) && degrees_forbidden(&forbids, &zero));
    assert_true(degrees_forbidden(&forbids, &recompute) && degrees_forbidden(&forbids, &sp));
    assert_true(degrees_forbidden(&forbids, &aiao) && !degrees_forbidden(&forbids, &zero2));
    arena_free(arena);
}

static void test_pins_and_forbids_hold(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 74);
    for (int round = 0; round < rounds_of(1); round++) {
        struct problem p = draw_problem(&rng);
        const struct degrees *pins = &p.request.pins;
        assert_int_equal(
            forbid_parse(p.arena, "zero=2,schedule=zb-h1,virtual=3,dp=2", &p.request.forbids),
            WEFT_OK);
        p.request.options = usual_effort(p.request.options);
        struct planned *planned = plan_with("auto", &p.request);
        for (size_t i = 0; planned && i < planned->trials.len; i++) {
            const struct degrees *d = &planned->trials.data[i].degrees;
            const struct plan *plan = planned->trials.data[i].plan;
            if (plan) { /* of a planner that joined: no degrees */
                assert_false(plan_forbidden(&p.request.forbids, plan));
                assert_true(!pins->pp || plan->stages == pins->pp);
                continue;
            }
            assert_true(!pins->tp || d->tp == pins->tp);
            assert_true(!pins->pp || d->pp == pins->pp);
            assert_true(!pins->micro_batch || d->micro_batch == pins->micro_batch);
            assert_true(!pins->has_shard || d->shard == pins->shard);
            assert_true(!pins->has_recompute || d->recompute == pins->recompute);
            assert_true(d->shard != 2 && d->dp != 2 && strcmp(d->schedule, "zb-h1") != 0);
        }
        planned_free(planned);
        close_problem(&p);
    }
}

/* Planners that choose each operator's split themselves are not asked where that is pinned. */
static void test_experts_stay_where_they_are_pinned(void **state)
{
    (void)state;
    struct degrees pins = {.ep = 2, .global_batch = 8};
    struct problem p = open_problem("mixtral-8x7b", "layers: 2, seq: 256", "dgx-a100:1x4", pins);
    p.request.options = usual_effort(p.request.options);
    struct planned *planned = plan_with("auto", &p.request);
    assert_non_null(planned);
    for (size_t t = 0; t < planned->trials.len; t++) {
        const struct plan *plan = planned->trials.data[t].plan;
        assert_true(plan || planned->trials.data[t].degrees.ep == pins.ep);
        for (int64_t i = 0; plan && i < plan->instances; i++)
            if (p.model->op[plan->instance[i].op].kind == OP_EXPERT_LINEAR)
                assert_int_equal(split_degree(&plan_choice(plan, i)->split, DIM_EXPERT), pins.ep);
    }
    planned_free(planned);
    close_problem(&p);
}

/* "ring" is a choice like any other, though plans need not say it. */
static void test_kinds_of_context_stay_where_they_are_pinned(void **state)
{
    (void)state;
    for (enum cp_kind kind = CP_RING; kind <= CP_A2A; kind++) {
        struct degrees pins = {.cp = 4, .global_batch = 4};
        cp_kind_set(kind, &pins);
        struct problem p = open_problem("llama3.2-1b", "layers: 2", "dgx-h100:1x4", pins);
        p.request.options = usual_effort(p.request.options);
        struct planned *planned = plan_with("auto", &p.request);
        assert_non_null(planned);
        for (size_t t = 0; t < planned->trials.len; t++) {
            const struct trial *trial = &planned->trials.data[t];
            unsigned overlap = pins.has_overlap ? pins.overlap : OVERLAP_ALL;
            assert_true(trial->plan || cp_kind_of(&trial->degrees, overlap) == kind);
            assert_true(!trial->plan || (plan_cp_heads(trial->plan, 4) > 1) == (kind == CP_A2A));
        }
        planned_free(planned);
        close_problem(&p);
    }
}

static void open_gpt(struct problem *p, const char *cluster, struct degrees pins)
{
    *p = (struct problem){.arena = arena_new()};
    assert_int_equal(model_open("gpt3-1.3b", "layers: 4, seq: 512", &p->model), WEFT_OK);
    assert_int_equal(cluster_open(cluster, &p->cluster), WEFT_OK);
    assert_int_equal(cost_open(&p->cluster->node.device, NULL, &p->cost), WEFT_OK);
    p->request = (struct plan_request){.model = p->model, .cluster = p->cluster, .pins = pins};
}

static struct plan *plan_of(const struct problem *p, const struct trial *trial)
{
    struct plan *plan = NULL;
    struct trial copy = *trial; /* whose plan stays the answer's */
    assert_int_equal(trial_take(&p->request, &copy, &plan), WEFT_OK);
    return plan;
}

/* What is said of a plan by dimension: replicas take so many samples in each step, and share a stage's devices. */
static void hold_values(const struct trial *trial)
{
    const struct plan *plan = trial->plan;
    const int64_t *value = trial->value;
    assert_int_equal(value[DIMENSION_PP], plan->stages);
    if (value[DIMENSION_DP] == MIXED || value[DIMENSION_TP] == MIXED)
        return;
    assert_int_equal(value[DIMENSION_DP] * value[DIMENSION_MICRO_BATCH], plan->step_samples);
    assert_int_equal(value[DIMENSION_DP] * value[DIMENSION_TP], plan->stage[0].devices);
}

/* What the grid lays out by degrees, others find as plans. */
static void hold_different(const struct problem *p, const struct planned *planned)
{
    bool grid = false, others = false;
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct trial *trial = planned->trials.data;
        struct plan *plan = plan_of(p, &trial[i]);
        grid |= !trial[i].plan;
        others |= trial[i].plan != NULL;
        if (trial[i].plan)
            hold_values(&trial[i]);
        for (size_t k = 0; k < i; k++) {
            struct plan *other = plan_of(p, &trial[k]);
            if (is_same_plan(plan, other))
                fail_msg("%s, found by %s, and %s, found by %s, are one plan", trial[i].text,
                         trial[i].found_by, trial[k].text, trial[k].found_by);
            if (!trial[k].plan)
                plan_free(other);
        }
        if (!trial[i].plan)
            plan_free(plan);
    }
    assert_true(grid && others);
}

static void hold_same(const struct planned *one, const struct planned *two)
{
    assert_true(one && two);
    assert_int_equal(one->trials.len, two->trials.len);
    assert_int_equal(one->candidates, two->candidates);
    for (size_t i = 0; i < one->trials.len; i++) {
        assert_string_equal(one->trials.data[i].text, two->trials.data[i].text);
        assert_string_equal(one->trials.data[i].found_by, two->trials.data[i].found_by);
        assert_int_equal(one->trials.data[i].iteration_ns, two->trials.data[i].iteration_ns);
    }
    assert_int_equal(one->reasons.len, two->reasons.len);
    for (size_t i = 0; i < one->reasons.len; i++)
        assert_string_equal(one->reasons.data[i], two->reasons.data[i]);
}

/* With any number of threads, too; and each plan once. */
static void test_same_question_same_answer(void **state)
{
    (void)state;
    struct problem p;
    open_gpt(&p, "dgx-a100:1x4", (struct degrees){.global_batch = 8});
    p.request.options = (struct plan_options){.given = 1U << TAKES_THREADS, .threads = 1};
    struct planned *one = plan_with("auto", &p.request);
    assert_non_null(one);
    hold_different(&p, one);
    p.request.options.threads = 3;
    struct planned *two = plan_with("auto", &p.request);
    hold_same(one, two);
    planned_free(two);
    planned_free(one);
    close_problem(&p);
}

static void stop_soon(void *context, const struct progress *progress)
{
    if (progress->trials >= 2)
        atomic_store((atomic_bool *)context, true);
}

static void test_stopped_searches_answer(void **state)
{
    (void)state;
    struct problem p;
    atomic_bool stop = false;
    open_gpt(&p, "dgx-a100:1", (struct degrees){.global_batch = 16});
    p.request.stop = &stop;
    p.request.progress = stop_soon;
    p.request.context = &stop;
    struct planned *planned = plan_with("auto", &p.request);
    assert_non_null(planned);
    assert_true(planned->stopped);
    assert_int_equal(planned->trials.len, 2);
    planned_free(planned);
    p.request.stop = NULL;
    p.request.progress = NULL;
    p.request.options = (struct plan_options){.given = 1U << TAKES_BUDGET, .budget_ns = 1};
    planned = plan_with("auto", &p.request);
    assert_non_null(planned);
    assert_true(planned->stopped && planned->trials.len == 1);
    assert_int_equal(planned->candidates, 1); /* the grid looks at the clock, too */
    planned_free(planned);
    close_problem(&p);
}

/* The answer must be simulated and shown within the budget, too: not all of it is searched. */
static weft_status find_nothing_but_the_time(const struct plan_request *request,
                                             struct planned *out)
{
    (void)out;
    *(double *)request->context = request->deadline_s - wall_seconds();
    return no_answer(NULL, "nothing was searched");
}

static double searched_s(struct plan_request request, int64_t budget_ns)
{
    static const struct planner CLOCK = {
        .name = "clock", .takes = 1U << TAKES_BUDGET, .find = find_nothing_but_the_time};
    double left_s = 0;
    struct planned *planned = NULL;
    request.context = &left_s;
    request.options = (struct plan_options){.given = 1U << TAKES_BUDGET, .budget_ns = budget_ns};
    assert_int_not_equal(plan_search(&CLOCK, &request, &planned), WEFT_OK);
    error_clear();
    return left_s;
}

static void test_budgets_leave_time_to_answer(void **state)
{
    (void)state;
    struct problem p;
    open_gpt(&p, "dgx-a100:1", (struct degrees){.global_batch = 16});
    assert_true(searched_s(p.request, INT64_C(16000000000000)) <= 16000 - 0.25);
    assert_true(searched_s(p.request, INT64_C(16000000000000)) > 15000);
    assert_true(searched_s(p.request, 1600000000) <= 1.5);
    close_problem(&p);
}

static bool has_reason(const struct planned *planned, const char *words)
{
    for (size_t i = 0; i < planned->reasons.len; i++)
        if (strstr(planned->reasons.data[i], words))
            return true;
    return false;
}

/* What does not fit says what would. */
static void test_what_would_fit(void **state)
{
    (void)state;
    struct problem p;
    struct degrees pins = {.tp = 1, .pp = 1, .global_batch = 8, .has_recompute = true};
    pins.memory.limit_bytes = INT64_C(6) << 30;
    open_gpt(&p, "dgx-a100:1", pins);
    p.request.options = usual_effort(p.request.options);
    p.request.pins.has_shard = true; /* 0: 16 bytes of 330 M parameters do not fit in 6 GiB with all
                                        activations */
    p.request.pins.memory.limit_bytes = INT64_C(4) << 30;
    struct planned *planned = plan_with("auto", &p.request);
    assert_non_null(planned);
    assert_false(planned->trials.data[0].fits);
    assert_true(has_reason(planned, "it would fit with state sharding left open"));
    assert_non_null(strstr(planned->would_fit, "it would fit with state sharding left open"));
    planned_free(planned);
    p.request.pins = (struct degrees){.global_batch = 8, .memory.limit_bytes = 1 << 20};
    planned = plan_with("auto", &p.request);
    assert_non_null(planned);
    const struct trial *trial = planned->trials.data;
    for (size_t i = 1; i < planned->trials.len; i++) /* the nearest miss is first */
        assert_true(!trial[i].fits && trial[i - 1].needed_bytes <= trial[i].needed_bytes);
    assert_true(has_reason(planned, "all of the device's memory"));
    planned_free(planned);
    close_problem(&p);
}

static void test_how_many_nodes_would_fit(void **state)
{
    (void)state;
    if (rounds_of(100) < 100)
        return; /* a long search that differs from the others in its sizes alone */
    /* 90 G parameters: weights and gradients of 4 bytes are 358 GB, these four devices have 320; with all state, of
     * 18 bytes, it is 1.6 TB: two nodes have 1.3, four 2.6. */
    struct problem p = open_problem("gpt3-76b", "layers: 36, hidden: 14336, heads: 112",
                                    "dgx-a100:1x4", (struct degrees){.global_batch = 16});
    p.request.options = usual_effort(p.request.options);
    struct planned *planned = plan_with("auto", &p.request);
    assert_non_null(planned);
    assert_false(planned->trials.data[0].fits);
    assert_true(has_reason(planned, "it would fit with 4 nodes"));
    planned_free(planned);
    close_problem(&p);
}

/* Batches double as long as samples come faster, and the best is no worse than any of them. */
static void test_batches(void **state)
{
    (void)state;
    struct problem p;
    open_gpt(&p, "dgx-a100:1x4", (struct degrees){0});
    p.request.options =
        usual_effort((struct plan_options){.given = 1U << TAKES_BATCH_AUTO, .batch_auto = true});
    struct planned *planned = plan_with("auto", &p.request);
    assert_non_null(planned);
    const struct trial *best = planned->trials.data;
    double per_sample = (double)best->iteration_ns / (double)best->global_batch;
    assert_true(best->global_batch > 4);
    for (int64_t batch = best->global_batch / 2; batch <= best->global_batch; batch *= 2) {
        struct plan_request fixed = p.request;
        fixed.options = usual_effort((struct plan_options){0});
        fixed.pins.global_batch = batch;
        struct planned *one = plan_with("auto", &fixed);
        double other = (double)one->trials.data[0].iteration_ns / (double)batch;
        assert_true(per_sample <= other * (1 + 1e-9));
        planned_free(one);
    }
    planned_free(planned);
    close_problem(&p);
}

/* 30,030 samples have 64 divisors, and a layout as many micro-batches that are about as fast: four are simulated. */
static void test_many_divisors(void **state)
{
    (void)state;
    enum { MOST_ALIKE = 4 };
    struct problem p;
    struct degrees pins = {.tp = 2, .pp = 2, .global_batch = 30030};
    int alike = 0;
    pins.has_shard = pins.has_recompute = true;
    open_gpt(&p, "dgx-a100:1x4", pins);
    p.request.options = (struct plan_options){.given = 1U << TAKES_QUICK, .quick = true};
    struct planned *planned = plan_with("auto", &p.request);
    assert_non_null(planned);
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct trial *trial = &planned->trials.data[i];
        alike += !trial->plan && trial->fits && strstr(trial->text, "tp 2 sp pp 2 micro-batch");
    }
    assert_int_equal(alike, MOST_ALIKE);
    planned_free(planned);
    close_problem(&p);
}

/* ---- P4 -------------------------------------------------------------------------------------- */

/* A planner that needs 3 nodes or more, on which n take 12 / n seconds, for 4 samples. */
static weft_status made_up(const struct plan_request *request, struct planned *out)
{
    int64_t nodes = request->cluster->nodes;
    struct trial trial = {.text = "made up", .found_by = out->planner, .global_batch = 4};
    trial.iteration_ns = INT64_C(12000000000) / nodes;
    trial.fits = nodes >= 3;
    trial.limit_bytes = 10;
    trial.needed_bytes = 30 / nodes;
    array_push(out->arena, &out->trials, trial);
    return WEFT_OK;
}

static weft_status open_nodes(void *context, int64_t nodes, struct cluster **out)
{
    const double *price_per_hour = context;
    char name[32];
    snprintf(name, sizeof name, "dgx-a100:%lld", (long long)nodes);
    weft_status status = cluster_open(name, out);
    if (!status)
        (*out)->node.device.price_per_hour = nodes == 4 ? price_per_hour[1] : price_per_hour[0];
    return status;
}

static int64_t chosen_nodes(struct size_request *request, struct size *size)
{
    struct sized *sized;
    assert_int_equal(size_search(request, &sized), WEFT_OK);
    *size = sized->sizes.data[sized->chosen];
    assert_int_equal(sized->cluster->nodes, size->nodes);
    sized_free(sized);
    return size->nodes;
}

static void test_sizes_by_hand(void **state)
{
    (void)state;
    static const struct planner PLANNER = {.name = "made-up", .summary = "", .find = made_up};
    double price[] = {3600, 1800}; /* money per hour: 1 per second, and half of that on 4 nodes */
    static const struct model MODEL = {.name = "made-up", .dtype = DTYPE_BF16};
    struct size size;
    struct size_request request = {.plan = {.model = &MODEL},
                                   .planner = &PLANNER,
                                   .most_nodes = 16,
                                   .open = open_nodes,
                                   .context = price};
    /* 1 and 2 do not fit, 4 does, 3 of what is between does, too: 12 / 3 = 4 s */
    assert_int_equal(chosen_nodes(&request, &size), 3);
    assert_true(fabs(size.iteration_s - 4) < 1e-9 && fabs(size.samples_per_s - 1) < 1e-9);
    /* 100 samples: 25 iterations of 12 / n s, 300 / n s in all; 40 s on 7.5 nodes and more */
    request.samples = 100;
    request.deadline_s = 40;
    assert_int_equal(chosen_nodes(&request, &size), 8);
    assert_true(fabs(size.training_s - 300.0 / 8) < 1e-6);
    request.deadline_s = 43; /* 7 nodes: 42.86 s */
    assert_int_equal(chosen_nodes(&request, &size), 7);
    request.deadline_s = 1;
    assert_int_equal(chosen_nodes(&request, &size), 16); /* the nearest */
    assert_true(size.fits && !size.does);
    request.most_nodes = 2;
    assert_int_equal(chosen_nodes(&request, &size), 2); /* the largest */
    assert_true(!size.fits);
    /* money per sample: n nodes * 8 devices * 12 / n s / 4 samples * price = 24, on 4 nodes 12 */
    request = (struct size_request){.plan = {.model = &MODEL},
                                    .planner = &PLANNER,
                                    .goal = SIZE_CHEAPEST,
                                    .most_nodes = 16,
                                    .open = open_nodes,
                                    .context = price};
    assert_int_equal(chosen_nodes(&request, &size), 4);
    assert_true(fabs(size.money_per_sample - 12) < 1e-6);
}

static const struct {
    const char *arguments;
    int code;
} PROGRAM[] = {
    {"plan gpt3-350m dgx-a100:1 --global-batch 8 --deadline 1d", WEFT_BAD_INPUT},
    {"plan gpt3-350m dgx-a100:1 --global-batch 8 --tokens 1e9", WEFT_BAD_INPUT},
    {"plan gpt3-350m piz-daint:8 --global-batch 8 --objective cost", WEFT_BAD_INPUT},
    {"plan gpt3-350m dgx-a100:1 --global-batch 8 --max-devices 4", WEFT_BAD_INPUT},
    {"plan gpt3-350m dgx-a100:1 --global-batch 8 --planner megatron --forbid pp", WEFT_BAD_INPUT},
    {"plan gpt3-350m dgx-a100:1 --global-batch 8 --pp 1 --tokens 1e12 --deadline 1s --quick",
     WEFT_NO_ANSWER},
};

static void test_the_program(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(PROGRAM); i++) {
        int code;
        free(ask(PROGRAM[i].arguments, &code));
        if (code != PROGRAM[i].code)
            fail_msg("%s: %d", PROGRAM[i].arguments, code);
    }
    json_t *json = json_of("plan gpt3-350m dgx-a100 --global-batch 32 --max-devices 16 --margin 20 "
                           "--forbid recompute,tp --quick --json");
    json_t *size = json_array_get(json_object_get(json, "sizes"), 0);
    assert_string_equal(json_string_value(json_object_get(json, "planner")), "auto");
    assert_true(json_is_true(json_object_get(size, "chosen")));
    assert_int_equal(json_integer_value(json_object_get(size, "devices")), 8);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_grid_is_exact),
        cmocka_unit_test(test_the_grid_is_exact_where_places_differ),
        cmocka_unit_test(test_parts_by_themselves_are_no_slower),
        cmocka_unit_test(test_the_optimizers_step_counts),
        cmocka_unit_test(test_experts_are_tried_whole),
        cmocka_unit_test(test_encoders_are_tried_apart),
        cmocka_unit_test(test_encoders_have_fewer_devices),
        cmocka_unit_test(test_sequences_are_shared_and_sharded),
        cmocka_unit_test(test_few_copies_say_the_same),
        cmocka_unit_test(test_what_is_forbidden),
        cmocka_unit_test(test_pins_and_forbids_hold),
        cmocka_unit_test(test_experts_stay_where_they_are_pinned),
        cmocka_unit_test(test_kinds_of_context_stay_where_they_are_pinned),
        cmocka_unit_test(test_same_question_same_answer),
        cmocka_unit_test(test_stopped_searches_answer),
        cmocka_unit_test(test_what_would_fit),
        cmocka_unit_test(test_how_many_nodes_would_fit),
        cmocka_unit_test(test_budgets_leave_time_to_answer),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_many_divisors),
        cmocka_unit_test(test_sizes_by_hand),
        cmocka_unit_test(test_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
