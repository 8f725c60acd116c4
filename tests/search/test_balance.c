/* test_balance.c - cuts that even out stages (aceso_balance.c), against all cuts there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "search/aceso/room.h"

struct stand {
    struct model *model;
    struct cluster *cluster;
    struct plan_request request;
    struct problem *problem;
    struct judge *judge;
    struct search_result result;
};

static void stand_up(struct stand *s, const char *options, int64_t limit_bytes)
{
    *s = (struct stand){.result = {.arena = arena_new()}};
    assert_int_equal(model_open("gpt2", options, &s->model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-a100:1x4", &s->cluster), WEFT_OK);
    s->request = (struct plan_request){
        .model = s->model,
        .cluster = s->cluster,
        .pins = {.global_batch = 64, .schedule = "1f1b", .memory.limit_bytes = limit_bytes},
        .options = {.space = "paper"}};
    assert_int_equal(problem_new(&s->request, &s->problem), WEFT_OK);
    assert_int_equal(judge_new(s->problem, &s->judge), WEFT_OK);
}

static void take_down(struct stand *s)
{
    arena_free(s->result.arena);
    judge_free(s->judge);
    problem_free(s->problem);
    cluster_free(s->cluster);
    model_free(s->model);
}

static struct verdict verdict_of(struct stand *s, struct config *c)
{
    struct verdict verdict;
    bool legal;
    assert_int_equal(judge_recompute(s->judge, c, UINT64_MAX), WEFT_OK);
    config_normalise(c);
    assert_int_equal(judge_config(s->judge, c, &verdict, NULL, &legal), WEFT_OK);
    return legal ? verdict : (struct verdict){INT64_MAX, INT64_MAX};
}

/* Three stages: every pair of cuts. */
static struct verdict best_of_all(struct stand *s, const struct config *from)
{
    struct verdict best = {INT64_MAX, INT64_MAX};
    int32_t all = from->part[2].end;
    for (int32_t first = 1; first < all - 1; first++)
        for (int32_t second = first + 1; second < all; second++) {
            struct config c;
            config_copy(&c, from);
            c.part[0].end = first;
            c.part[1].end = second;
            for (int32_t k = 0; k < 3; k++)
                set_manner(&c.part[k], *main_manner(from, k));
            struct verdict verdict = verdict_of(s, &c);
            best = better(verdict, best) ? verdict : best;
        }
    return best;
}

/* Five layers on three stages of one, one and two devices: layers alone cannot be even. */
static void nearly_the_best(void **state)
{
    (void)state;
    static const int64_t LIMITS[] = {0, INT64_C(3) << 30};
    for (size_t i = 0; i < COUNT_OF(LIMITS); i++) {
        struct stand s;
        struct config c;
        stand_up(&s, "layers: 5", LIMITS[i]);
        assert_true(config_begin(s.problem, 3, BEGIN_BALANCED, &c));
        struct verdict before = verdict_of(&s, &c), best = best_of_all(&s, &c);
        assert_int_equal(aceso_balance(s.judge, &c, &s.result), WEFT_OK);
        struct verdict after = verdict_of(&s, &c);
        assert_true((double)before.iteration_ns > 1.01 * (double)best.iteration_ns);
        assert_false(better(before, after));
        assert_int_equal(after.excess_bytes, 0);
        if ((double)after.iteration_ns > 1.01 * (double)best.iteration_ns)
            fail_msg("%.3f ms, before %.3f, best %.3f", (double)after.iteration_ns * 1e-6,
                     (double)before.iteration_ns * 1e-6, (double)best.iteration_ns * 1e-6);
        take_down(&s);
    }
}

/* One stage has no cuts. */
static void nothing_to_cut(void **state)
{
    (void)state;
    struct stand s;
    struct config c, same;
    stand_up(&s, "layers: 2", 0);
    assert_true(config_begin(s.problem, 1, BEGIN_BALANCED, &c));
    config_copy(&same, &c);
    assert_int_equal(aceso_balance(s.judge, &c, &s.result), WEFT_OK);
    assert_int_equal(config_hash(&c), config_hash(&same));
    take_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearly_the_best),
        cmocka_unit_test(nothing_to_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
