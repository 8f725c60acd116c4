/* test_aceso_leap.c - leaps of the planner aceso that are passed over, against judging them all.
 *
 *   L1  No verdict of a config is better than what one of its stages says (judge_least). Passes at either end
 *       take no less than others, unless gradients or weights go with every micro-batch.
 *   L2  All leaps from a config end where they end when every one is judged, with the same verdict and the
 *       same configs noted, and count as many, whatever number may be judged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "search/aceso/tune.h"
#include "wander.h"

static const struct {
    const char *model, *options, *cluster;
    struct degrees pins;
} PROBLEMS[] = {
    {"gpt3-1.3b", "layers: 9, seq: 512", "dgx-a100:1", {.global_batch = 16}},
    {"t5-770m", "layers: 5, decoder_layers: 6", "dgx-v100:1", {.global_batch = 16}},
    {"gpt3-6.7b", "layers: 8, seq: 1024", "dgx-v100:2", {.global_batch = 64}},
    {"llama3-8b",
     "layers: 12, seq: 1024",
     "dgx-a100:2",
     {.global_batch = 32, .shard = 2, .has_shard = true}},
    {"llama3-8b", "layers: 6, seq: 1024", "dgx-a100:2", {.global_batch = 32, .has_overlap = true}},
    {"mixtral-8x7b",
     "layers: 6, seq: 512",
     "dgx-a100:2",
     {.global_batch = 32, .has_overlap = true, .overlap = OVERLAP_ALL | OVERLAP_EXPERTS}},
    {"wresnet-500m", NULL, "dgx-v100:1", {.global_batch = 48}},
};

static bool draw_config(struct rng *rng, struct asked *a, struct config *c)
{
    bool any = wander(rng, a, (int)rng_below(rng, 7), c);
    for (int64_t left = rng_below(rng, 4); any && left > 0; left--)
        paint_some(rng, a, c);
    return any;
}

/* A cut goes, and comes again in another part. */
static void leap_slowly(const struct config *from, int32_t cut, int32_t to, struct config *c)
{
    int32_t end[ACESO_MOST_PARTS], parts = config_parts(from), at = 0;
    for (int32_t k = 0; k < parts; k++) {
        if (k != cut && to < from->part[k].end && (!at || end[at - 1] < to))
            end[at++] = to;
        if (k != cut)
            end[at++] = from->part[k].end;
    }
    assert_int_equal(at, parts);
    config_copy(c, from);
    for (int32_t k = 0; k < parts; k++)
        c->part[k].end = end[k];
    for (int32_t k = 0; k < parts; k++)
        if (part_first(c, k) != part_first(from, k) || end[k] != from->part[k].end)
            set_manner(&c->part[k], *main_manner(from, k));
}

/* One leap or none, as a tuning has them before recomputation is chosen. */
static void leap_somewhere(struct rng *rng, struct config *c)
{
    struct config from;
    int32_t parts = config_parts(c);
    if (parts < 3 || chance(rng, 3))
        return;
    config_copy(&from, c);
    int32_t cut = (int32_t)rng_below(rng, parts - 1);
    int32_t to = 1 + (int32_t)rng_below(rng, from.part[parts - 1].end - 1);
    for (int32_t k = 0; k < parts; k++)
        if (from.part[k].end == to)
            return;
    leap_slowly(&from, cut, to, c);
}

/* ---- L1 -------------------------------------------------------------------------------------- */

static bool shards_often(const struct config *c)
{
    for (int32_t k = 0; k < config_parts(c); k++)
        for (int i = 0; i < MOST_MANNERS; i++)
            if (c->part[k].manner[i].shard >= 2)
                return true;
    return false;
}

static void check_least(struct asked *a, const struct config *c)
{
    struct verdict whole, least;
    struct config other;
    bool legal;
    assert_int_equal(judge_config(a->judge, c, &whole, NULL, &legal), WEFT_OK);
    for (int32_t k = 0; legal && !shards_often(c) && k < config_parts(c); k++)
        assert_true(a->judge->work[k].first_more >= 0 && a->judge->work[k].last_more >= 0);
    for (int32_t s = 0; legal && s < c->stages; s++) {
        config_copy(&other, c);
        judge_forget(a->judge);
        assert_int_equal(judge_least(a->judge, &other, s, &least), WEFT_OK);
        if (least.iteration_ns > whole.iteration_ns || least.excess_bytes > whole.excess_bytes)
            fail_msg("%s, stage %d of %d: at least %lld ns, %lld bytes; in all %lld, %lld",
                     a->model->name, s, c->stages, (long long)least.iteration_ns,
                     (long long)least.excess_bytes, (long long)whole.iteration_ns,
                     (long long)whole.excess_bytes);
    }
}

static void test_a_stage_takes_no_more_than_its_config(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 21);
    for (size_t i = 0; i < COUNT_OF(PROBLEMS); i++) {
        struct asked a = open_asked(PROBLEMS[i].model, PROBLEMS[i].options, PROBLEMS[i].cluster,
                                    PROBLEMS[i].pins, NULL);
        make_judge(&a);
        for (int round = 0; round < rounds_of(60); round++) {
            struct config c;
            if (!draw_config(&rng, &a, &c))
                continue;
            leap_somewhere(&rng, &c);
            assert_int_equal(judge_recompute(a.judge, &c, UINT64_MAX), WEFT_OK);
            config_normalise(&c);
            check_least(&a, &c);
        }
        close_asked(&a);
    }
}

/* Gathers of weights that nothing hides, and few micro-batches: what comes before the last pass and after the
 * first takes longer than either, by more than the optimizer and all that follows. */
static void test_passes_at_either_end_may_be_shorter(void **state)
{
    (void)state;
    struct degrees pins = {.global_batch = 64,
                           .shard = 3,
                           .has_shard = true,
                           .has_overlap = true,
                           .overlap = OVERLAP_GRADIENTS};
    struct asked a = open_asked("gpt3-1.3b", "layers: 2, seq: 64", "titan-rtx:2", pins, NULL);
    int shorter = 0;
    make_judge(&a);
    for (int32_t i = 0; i < a.problem->step_size_count; i++) {
        struct config c;
        assert_true(config_begin(a.problem, 1, BEGIN_BALANCED, &c));
        c.step_samples = a.problem->step_sizes[i];
        if (!config_legal(a.problem, &c))
            continue;
        assert_int_equal(judge_recompute(a.judge, &c, 1), WEFT_OK);
        check_least(&a, &c);
        shorter += a.judge->work[0].first_more + a.judge->work[0].last_more < 0;
    }
    assert_true(shorter > 0);
    close_asked(&a);
}

/* ---- L2 -------------------------------------------------------------------------------------- */

static void leap_one_by_one(struct tuning *t, int32_t cut)
{
    enum { PLACES = 24 };
    struct config from, c;
    config_copy(&from, t->config);
    for (int32_t k = 0; k < config_parts(&from); k++) {
        int32_t first = part_first(&from, k), end = from.part[k].end;
        int32_t step = (end - first) / PLACES + 1;
        for (int32_t to = first + 1; k != cut && k != cut + 1 && to < end; to += step) {
            leap_slowly(&from, cut, to, &c);
            assert_int_equal(tune_consider(t, &c, UINT64_MAX), WEFT_OK);
        }
    }
}

static void same_result(const struct tuning *a, const struct tuning *b)
{
    assert_int_equal(config_hash(a->config), config_hash(b->config));
    assert_int_equal(a->verdict.iteration_ns, b->verdict.iteration_ns);
    assert_int_equal(a->verdict.excess_bytes, b->verdict.excess_bytes);
    assert_int_equal(a->changed, b->changed);
    assert_int_equal(judge_count(a->judge), judge_count(b->judge));
    assert_int_equal(a->out->count, b->out->count);
    for (int32_t i = 0; i < a->out->count; i++) {
        assert_int_equal(a->out->found[i].hash, b->out->found[i].hash);
        assert_int_equal(a->out->found[i].verdict.iteration_ns,
                         b->out->found[i].verdict.iteration_ns);
        assert_int_equal(a->out->found[i].kind, b->out->found[i].kind);
    }
}

/* Two tunings from one config; `few` of its leaps are judged, -1: all. */
static void check_leaps(const struct asked *a, struct config *c, struct search_result out[2],
                        struct judge *other, int64_t few)
{
    struct config slow;
    struct tuning t[2] = {{.judge = a->judge, .out = &out[0], .config = c},
                          {.judge = other, .out = &out[1], .config = &slow}};
    bool legal;
    config_copy(&slow, c);
    for (int i = 0; i < 2; i++) {
        t[i].judge->count = 0;
        t[i].judge->most_count = few < 0 ? INT64_MAX : few;
        assert_int_equal(judge_config(t[i].judge, c, &t[i].verdict, NULL, &legal), WEFT_OK);
        assert_true(legal);
    }
    for (int32_t k = 0; k + 1 < config_parts(&slow); k++)
        leap_one_by_one(&t[1], k);
    assert_int_equal(tune_leaps(&t[0]), WEFT_OK);
    same_result(&t[0], &t[1]);
}

static void test_leaps_end_where_all_are_judged(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 22);
    for (size_t i = 0; i < COUNT_OF(PROBLEMS); i++) {
        struct asked a = open_asked(PROBLEMS[i].model, PROBLEMS[i].options, PROBLEMS[i].cluster,
                                    PROBLEMS[i].pins, NULL);
        make_judge(&a);
        struct search_result *out = calloc(2, sizeof *out);
        struct judge *other;
        assert_int_equal(judge_new(a.problem, &other), WEFT_OK);
        for (int round = 0; round < rounds_of(8); round++) {
            struct config c;
            a.judge->most_count = INT64_MAX;
            if (draw_config(&rng, &a, &c))
                check_leaps(&a, &c, out, other, chance(&rng, 4) ? rng_below(&rng, 200) : -1);
        }
        judge_free(other);
        free(out);
        close_asked(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stage_takes_no_more_than_its_config),
        cmocka_unit_test(test_passes_at_either_end_may_be_shorter),
        cmocka_unit_test(test_leaps_end_where_all_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
