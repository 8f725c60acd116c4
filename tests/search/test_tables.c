/* test_tables.c - the estimate's tables: runs of operators by prefix sums and instance by instance, and
 * candidates whose cuts move.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rounds.h"
#include "search/estimate/estimator.h"
#include "search/estimate/estimators.h"
#include "search/search.h"

static const char *const MODELS[] = {"gpt3-1.3b", "gpt3-13b", "llama3-8b", "t5-3b"};

struct setting {
    struct model *model[COUNT_OF(MODELS)];
    struct cluster *cluster;
};

static int open_all(void **state)
{
    static struct setting s;
    for (size_t i = 0; i < COUNT_OF(MODELS); i++)
        assert_int_equal(model_open(MODELS[i], NULL, &s.model[i]), WEFT_OK);
    assert_int_equal(cluster_open("dgx-a100:2", &s.cluster), WEFT_OK);
    *state = &s;
    return 0;
}

static int close_all(void **state)
{
    struct setting *s = *state;
    for (size_t i = 0; i < COUNT_OF(MODELS); i++)
        model_free(s->model[i]);
    cluster_free(s->cluster);
    return 0;
}

/* ---- tables, instance by instance ------------------------------------------------------------ */

/* add_run without prefix sums and tables of maxima. */
static void add_slowly(struct part_sums *part, const struct row_table *t, int64_t first,
                       int64_t last)
{
    int64_t forward = 0, held = part->sums.of[SUM_KEPT], backward = 0, back = 0, weight = 0, w = 0;
    for (int64_t i = first; i < last; i++) {
        int64_t high = held + t->forward_high[i] - t->at[i].of[SUM_KEPT];
        forward = high > forward ? high : forward;
        for (int k = 0; k < SUM_COUNT; k++)
            part->sums.of[k] += t->at[i + 1].of[k] - t->at[i].of[k];
        held = part->sums.of[SUM_KEPT];
    }
    for (int64_t i = last - 1; i >= first; i--) { /* levels count from the start of the pass */
        int64_t high = back + t->backward_high[i] + t->at[i + 1].of[SUM_BACK];
        backward = high > backward ? high : backward;
        back += t->at[i + 1].of[SUM_BACK] - t->at[i].of[SUM_BACK];
        if (!t->weight_high)
            continue;
        high = w + t->weight_high[i] + t->at[i + 1].of[SUM_BACK_WEIGHT];
        weight = high > weight ? high : weight;
        w += t->at[i + 1].of[SUM_BACK_WEIGHT] - t->at[i].of[SUM_BACK_WEIGHT];
    }
    part->forward_rise = forward > part->forward_rise ? forward : part->forward_rise;
    part->backward_rise += back;
    part->backward_rise = backward > part->backward_rise ? backward : part->backward_rise;
    part->weight_rise += w;
    part->weight_rise = weight > part->weight_rise ? weight : part->weight_rise;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Gradients of two runs that go on after the last pass, one run after the other from the last. */
static double left_slowly(const struct row_table *t, const int64_t cut[3])
{
    double left = 0;
    for (int run = 1; run >= 0; run--) {
        const int64_t *from = t->at[cut[run]].of, *to = t->at[cut[run + 1]].of;
        double sync = (double)(to[SUM_SYNC] - from[SUM_SYNC]), first = 0;
        double beside = (double)(to[SUM_LAST] - from[SUM_LAST]) * t->pace;
        double full = (double)(to[SUM_SYNC_BYTES] - from[SUM_SYNC_BYTES]) / (double)t->step_bytes;
        double most = (double)(to[SUM_WEIGHTS] - from[SUM_WEIGHTS]);
        double buckets = larger(1, full < most ? full : most);
        for (int64_t i = cut[run]; i < cut[run + 1] && first == 0; i++)
            first = (double)(t->at[i + 1].of[SUM_SYNC] - t->at[i].of[SUM_SYNC]);
        double alone = larger(larger(first, sync / buckets), sync - beside * (1 - 1 / buckets));
        left = larger(alone, left + sync - beside);
    }
    return left;
}

static double left_behind(const struct part_sums *part)
{
    return larger(part->sync.least, part->sync.more);
}

static void runs_like_straight_sums(void **state)
{
    static const char *const SCHEDULES[] = {"1f1b", "gpipe", "zb-h1"};
    struct setting *s = *state;
    struct rng rng;
    rng_seed(&rng, 4);
    for (size_t k = 0; k < COUNT_OF(SCHEDULES); k++) {
        struct degrees d = {.tp = 2, .pp = 1, .schedule = SCHEDULES[k], .global_batch = 64};
        struct plan *plan;
        struct estimator *e;
        struct candidate *c;
        struct arena *scratch = arena_new();
        struct estimate estimate;
        d.recompute = (enum recompute)k;
        assert_int_equal(plan_from_degrees(s->model[0], s->cluster, &d, &plan), WEFT_OK);
        struct estimate_settings settings = estimate_settings_of(plan);
        assert_int_equal(estimator_new(&settings, &e), WEFT_OK);
        assert_int_equal(candidate_of_plan(e, plan, scratch, &c), WEFT_OK);
        assert_int_equal(estimate_candidate(e, c, &estimate), WEFT_OK);
        struct table_key key = {.devices = 16,
                                .step_samples = c->step_samples,
                                .row = c->run[0].row,
                                .order = (uint16_t)c->schedule->passes,
                                .many = true};
        const struct row_table *table;
        assert_int_equal(table_find(e->tables, &key, &table), WEFT_OK);
        for (int i = 0; i < 200; i++) {
            struct part_sums fast = {0}, slow = {0};
            int64_t a = rng_below(&rng, plan->instances - 2);
            int64_t b = a + 1 + rng_below(&rng, plan->instances - a - 1);
            int64_t end = b + 1 + rng_below(&rng, plan->instances - b);
            add_run(&fast, table, a, b);
            add_run(&fast, table, b, end);
            add_slowly(&slow, table, a, b);
            add_slowly(&slow, table, b, end);
            assert_memory_equal(&fast, &slow, offsetof(struct part_sums, sync));
            int64_t cut[] = {a, b, end};
            assert_true(fabs(left_behind(&fast) - left_slowly(table, cut)) < 1);
        }
        estimator_free(e);
        plan_free(plan);
        arena_free(scratch);
    }
}

/* A run of all operators takes what a stage of them does, with weights that are gathered and gradients that are divided. */
static void a_run_of_all_is_a_stage(void **state)
{
    struct setting *s = *state;
    int64_t firsts = 0, lasts = 0;
    for (int i = 0; i < 24; i++) {
        struct degrees d = {.tp = i % 3 ? 2 : 1,
                            .pp = 1,
                            .shard = i / 2 % 4,
                            .global_batch = 64,
                            .schedule = i % 2 ? "zb-h1" : "1f1b",
                            .recompute = i % 5 == 4 ? RECOMPUTE_FULL : RECOMPUTE_NONE};
        struct arena *scratch = arena_new();
        struct plan *plan;
        struct estimator *e;
        struct candidate *c;
        struct estimate estimate;
        struct run_estimate run;
        assert_int_equal(plan_from_degrees(s->model[i % 2], s->cluster, &d, &plan), WEFT_OK);
        struct estimate_settings settings = estimate_settings_of(plan);
        assert_int_equal(estimator_new(&settings, &e), WEFT_OK);
        assert_int_equal(candidate_of_plan(e, plan, scratch, &c), WEFT_OK);
        assert_int_equal(c->first_run[1], 1);
        struct run_question q = {c->run[0], c->stage[0], c->schedule, c->step_samples,
                                 c->micro_batches};
        assert_int_equal(estimate_run(e, &q, &run), WEFT_OK);
        assert_int_equal(estimate_candidate(e, c, &estimate), WEFT_OK);
        const struct stage_estimate *stage = &estimate.stage[0];
        assert_int_equal(run.forward_ns, stage->forward_ns);
        assert_int_equal(run.backward_ns, stage->backward_ns);
        assert_int_equal(run.first_more_ns, stage->first_more_ns);
        assert_int_equal(run.last_more_ns, stage->last_more_ns);
        firsts += stage->first_more_ns > 0 && stage->first_more_ns != stage->last_more_ns;
        lasts += stage->last_more_ns > 0;
        estimator_free(e);
        plan_free(plan);
        arena_free(scratch);
    }
    assert_true(firsts > 2 && lasts > 2);
}

/* Layer by layer, with two rows in turn: runs and reshards add up to the candidate's passes. */
static void runs_add_up(void **state)
{
    struct setting *s = *state;
    struct arena *scratch = arena_new();
    struct plan *plan[2];
    struct estimator *e;
    struct candidate *c[2];
    struct estimate estimate;
    for (int i = 0; i < 2; i++) {
        struct degrees d = {.tp = i ? 2 : 4, .pp = 1, .global_batch = 64, .micro_batch = i ? 1 : 2};
        assert_int_equal(plan_from_degrees(s->model[1], s->cluster, &d, &plan[i]), WEFT_OK);
        assert_int_equal(plan[i]->step_samples, 8);
    }
    struct estimate_settings settings = estimate_settings_of(plan[0]);
    assert_int_equal(estimator_new(&settings, &e), WEFT_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(candidate_of_plan(e, plan[i], scratch, &c[i]), WEFT_OK);
    struct candidate *mixed = candidate_new(scratch, 1, 1, 1000);
    struct run_question q = {
        .schedule = c[0]->schedule, .stage = c[0]->stage[0], .step_samples = 8, .micro_batches = 8};
    int64_t sum = 0, resharded = 0, first = 0;
    int32_t runs = 0;
    for (int64_t i = 0; i < plan[0]->instances; i++) {
        if (!plan[0]->ends_layer[i] && i + 1 < plan[0]->instances)
            continue;
        struct run_estimate run;
        int64_t ns;
        q.run = mixed->run[runs] = (struct candidate_run){first, i + 1, c[runs % 2]->run[0].row};
        assert_int_equal(estimate_run(e, &q, &run), WEFT_OK);
        sum += run.forward_ns + run.backward_ns;
        struct run_question halves = q; /* in two passes, the same together */
        struct run_estimate split;
        halves.schedule = schedule_find("zb-h1");
        assert_int_equal(estimate_run(e, &halves, &split), WEFT_OK);
        assert_true(llabs(split.backward_ns - run.backward_ns) <= run.backward_ns / 4);
        first = i + 1;
        runs++;
        if (first == plan[0]->instances)
            break;
        assert_int_equal(estimate_reshard(e, &q, c[runs % 2]->run[0].row, &ns), WEFT_OK);
        resharded += ns;
    }
    mixed->first_run[1] = runs;
    mixed->schedule = q.schedule;
    mixed->stage[0] = q.stage;
    mixed->step_samples = 8;
    mixed->micro_batches = 8;
    assert_int_equal(estimate_candidate(e, mixed, &estimate), WEFT_OK);
    assert_true(resharded > 0);
    int64_t all = estimate.stage[0].forward_ns + estimate.stage[0].backward_ns;
    assert_true(llabs(all - sum - resharded) <= all / 1000);
    for (int64_t i = 0; i < plan[0]->instances; i++) /* the same as a plan */
        for (int32_t r = 0; r < runs; r++)
            if (mixed->run[r].first <= i && i < mixed->run[r].last && r % 2)
                assert_int_equal(plan_choose(plan[0], i, plan_choice(plan[1], i)), WEFT_OK);
    struct estimate whole;
    assert_int_equal(estimate_plan(e, plan[0], scratch, &whole), WEFT_OK);
    double off = (double)estimate.iteration_ns / (double)whole.iteration_ns - 1;
    print_message("two rows in turn, %d runs: %+.2f %% from the plan\n", runs, 100 * off);
    assert_true(fabs(off) <= 0.02);
    estimator_free(e);
    plan_free(plan[0]);
    plan_free(plan[1]);
    arena_free(scratch);
}

/* A tied weight whose copies are divided differently: its gradients go there and back, in several exchanges, and all of them
 * count. The layers between are few, so that most of the iteration is theirs. */
static void ties_add_up(void **state)
{
    struct setting *s = *state;
    struct arena *scratch = arena_new();
    struct model *model;
    struct plan *plan[2];
    struct estimator *e;
    struct candidate *c[2];
    struct estimate estimate, whole;
    assert_int_equal(model_open("gpt3-1.3b", "layers: 2", &model), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        struct degrees d = {.tp = i ? 2 : 4, .pp = 2, .global_batch = 8, .micro_batch = i ? 1 : 2};
        assert_int_equal(plan_from_degrees(model, s->cluster, &d, &plan[i]), WEFT_OK);
        assert_int_equal(plan[i]->step_samples, plan[0]->step_samples);
    }
    struct estimate_settings settings = estimate_settings_of(plan[0]);
    assert_int_equal(estimator_new(&settings, &e), WEFT_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(candidate_of_plan(e, plan[i], scratch, &c[i]), WEFT_OK);
    c[0]->run[1].row = c[1]->run[1].row;
    assert_int_equal(estimate_candidate(e, c[0], &estimate), WEFT_OK);
    for (int64_t i = c[0]->run[1].first; i < c[0]->run[1].last; i++)
        assert_int_equal(plan_choose(plan[0], i, plan_choice(plan[1], i)), WEFT_OK);
    assert_int_equal(estimate_plan(e, plan[0], scratch, &whole), WEFT_OK);
    double off = (double)estimate.iteration_ns / (double)whole.iteration_ns - 1;
    print_message("tied stages of two layouts: %+.2f %% from the plan\n", 100 * off);
    assert_true(fabs(off) <= 0.02);
    estimator_free(e);
    plan_free(plan[0]);
    plan_free(plan[1]);
    model_free(model);
    arena_free(scratch);
}

/* A tied weight whose copies are divided differently on one stage: the stage holds both, in a plan and in a row of its
 * choices, which is as a candidate finds it. */
static void unlike_ties_on_one_stage(void **state)
{
    struct setting *s = *state;
    struct arena *scratch = arena_new();
    struct model *model;
    struct plan *plan[2];
    struct estimator *e;
    struct candidate *c;
    struct estimate estimate, whole;
    assert_int_equal(model_open("gpt3-1.3b", "layers: 2", &model), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        struct degrees d = {.tp = i ? 2 : 4, .global_batch = 8, .micro_batch = i ? 1 : 2};
        assert_int_equal(plan_from_degrees(model, s->cluster, &d, &plan[i]), WEFT_OK);
    }
    for (int64_t i = plan[0]->instances / 2; i < plan[0]->instances; i++)
        if (!op_in_layer(model, &model->op[plan[0]->instance[i].op]))
            assert_int_equal(plan_choose(plan[0], i, plan_choice(plan[1], i)), WEFT_OK);
    struct estimate_settings settings = estimate_settings_of(plan[0]);
    assert_int_equal(estimator_new(&settings, &e), WEFT_OK);
    assert_int_equal(candidate_of_plan(e, plan[0], scratch, &c), WEFT_OK);
    assert_int_equal(estimate_candidate(e, c, &estimate), WEFT_OK);
    assert_int_equal(estimate_plan(e, plan[0], scratch, &whole), WEFT_OK);
    double off = (double)estimate.peak_bytes / (double)whole.peak_bytes - 1;
    print_message("tied weights of two layouts on a stage: memory %+.2f %% from the plan\n",
                  100 * off);
    assert_true(fabs(off) <= 1e-4);
    estimator_free(e);
    plan_free(plan[0]);
    plan_free(plan[1]);
    model_free(model);
    arena_free(scratch);
}

/* ---- candidates that move -------------------------------------------------------------------- */

static void same_estimate(const struct estimate *a, const struct estimate *b)
{
    assert_int_equal(a->iteration_ns, b->iteration_ns);
    assert_int_equal(a->peak_bytes, b->peak_bytes);
    assert_memory_equal(a->stage, b->stage, (size_t)a->stages * sizeof *a->stage);
}

/* A moved cut, all of the candidate, and an estimator that has seen nothing before: one answer. */
static void moves_like_fresh_estimates(void **state)
{
    struct setting *s = *state;
    struct rng rng;
    rng_seed(&rng, 5);
    for (int round = 0; round < rounds_of(6); round++) {
        struct degrees d = {.tp = 2, .pp = 4, .global_batch = 64, .micro_batch = 1};
        struct arena *scratch = arena_new();
        struct plan *plan;
        struct estimator *old, *fresh;
        struct candidate *c, *other;
        struct estimate moved, whole;
        d.shard = (int)rng_below(&rng, 4);
        d.recompute = (enum recompute)rng_below(&rng, RECOMPUTE_COUNT);
        assert_int_equal(plan_from_degrees(s->model[round % 4], s->cluster, &d, &plan), WEFT_OK);
        struct estimate_settings settings = estimate_settings_of(plan);
        assert_int_equal(estimator_new(&settings, &old), WEFT_OK);
        assert_int_equal(candidate_of_plan(old, plan, scratch, &c), WEFT_OK);
        assert_int_equal(estimate_candidate(old, c, &moved), WEFT_OK);
        for (int i = 0; i < 8; i++) {
            int32_t part = (int32_t)rng_below(&rng, 3);
            int64_t first = c->run[part].first, last = c->run[part + 1].last;
            c->run[part].last = c->run[part + 1].first =
                first + 1 + rng_below(&rng, last - first - 1);
            assert_int_equal(estimate_moved(old, c, part, &moved), WEFT_OK);
            assert_int_equal(estimator_new(&settings, &fresh), WEFT_OK);
            assert_int_equal(candidate_of_plan(fresh, plan, scratch, &other), WEFT_OK);
            memcpy(other->run, c->run, 4 * sizeof *c->run);
            assert_int_equal(estimate_candidate(fresh, other, &whole), WEFT_OK);
            same_estimate(&moved, &whole);
            estimator_free(fresh);
        }
        estimator_free(old);
        plan_free(plan);
        arena_free(scratch);
    }
}

/* ---- estimators by their settings ------------------------------------------------------------ */

/* Searches that ask with the same settings share tables; whatever differs in them, their answers may. */
static void same_settings_share_an_estimator(void **state)
{
    struct setting *s = *state;
    struct degrees d = {.tp = 2, .pp = 1, .global_batch = 64};
    struct plan *plan;
    struct estimators *all = estimators_new();
    struct estimator *found[10], *again;
    assert_int_equal(plan_from_degrees(s->model[0], s->cluster, &d, &plan), WEFT_OK);
    struct estimate_settings asked[COUNT_OF(found)];
    for (size_t i = 0; i < COUNT_OF(asked); i++)
        asked[i] = estimate_settings_of(plan);
    asked[1].model = s->model[1];
    asked[2].dtype = DTYPE_FP32;
    asked[3].replicate = 2;
    asked[4].overlap ^= OVERLAP_TENSOR;
    asked[5].bucket_bytes += 1;
    asked[6].copies = 3;
    asked[7].memory.margin_percent += 1;
    asked[8].whole_sends = !asked[8].whole_sends;
    assert_int_equal(software_from_text("megatron-core-0.19", &asked[9].software), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        assert_int_equal(estimators_find(all, &asked[i], &found[i]), WEFT_OK);
        for (size_t k = 0; k < i; k++)
            assert_ptr_not_equal(found[i], found[k]);
    }
    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        assert_int_equal(estimators_find(all, &asked[i], &again), WEFT_OK);
        assert_ptr_equal(again, found[i]);
    }
    estimators_free(all);
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_like_straight_sums),
        cmocka_unit_test(a_run_of_all_is_a_stage),
        cmocka_unit_test(runs_add_up),
        cmocka_unit_test(ties_add_up),
        cmocka_unit_test(unlike_ties_on_one_stage),
        cmocka_unit_test(moves_like_fresh_estimates),
        cmocka_unit_test(same_settings_share_an_estimator),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
