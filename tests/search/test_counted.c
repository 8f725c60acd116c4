/* test_counted.c - memory by somebody else's count (search/counted.h), which the planner aceso obeys.
 *
 *   C1  What a judge holds a stage to is what the count says of that stage of the config's plan, whatever
 *       the judge was asked before, and however the plan's operators fall into runs.
 *   C2  What a count forbids is not chosen; what has room by the count fits, and what has none does not,
 *       whatever the simulator says.
 *   C3  Planners that cannot obey refuse.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wander.h"

/* ---- a made-up count ------------------------------------------------------------------------- */

/* Of an operator as it lies, bytes by a hash; of a part, their sums, and a hash of their order, which no sum
 * of runs gives. */
struct made_up {
    const struct plan *walk;
    bool no_replicas;     /* dp above 1 cannot be */
    int64_t always, most; /* bytes of each part; most of an operator, 0: none */
};
struct made_op {
    int64_t bytes, dp;
};

static const void *lay(const void *context, struct arena *keep, const struct choice *choice,
                       int64_t devices, int64_t batch)
{
    const struct made_up *made = context;
    int32_t ops = made->walk->model->ops;
    struct made_op *out = ARENA_ARRAY(keep, struct made_op, (size_t)ops);
    for (int32_t i = 0; i < ops; i++) {
        int64_t dp = split_degree(&choice[i].split, DIM_BATCH);
        int64_t about[] = {i, dp, devices, batch, choice[i].recompute, choice[i].shard};
        uint64_t hash = hash_bytes(about, sizeof about, 1);
        int64_t most = choice[i].recompute ? made->most / 8 : made->most;
        out[i] = (struct made_op){most ? (int64_t)(hash % (uint64_t)most) : 0, dp};
    }
    return out;
}

static struct counted count_part(const void *context, const struct counted_run *run, int32_t runs)
{
    const struct made_up *made = context;
    struct counted counted = {made->always, 0};
    uint64_t order = 0;
    for (int32_t r = 0; r < runs; r++)
        for (int64_t i = run[r].first; i < run[r].last; i++) {
            const struct made_op *op =
                &((const struct made_op *)run[r].laid)[made->walk->instance[i].op];
            if (made->no_replicas && op->dp > 1)
                return (struct counted){COUNTED_NEVER, 0};
            order = order * 31 + (uint64_t)(op->bytes + i);
            counted.always += op->bytes;
            counted.each += op->bytes / 8;
        }
    counted.always += made->most ? (int64_t)(order % (uint64_t)made->most) : 0;
    return counted;
}

static struct memory_count count_of(const struct made_up *made)
{
    return (struct memory_count){made, lay, count_part};
}

/* ---- C1 -------------------------------------------------------------------------------------- */

static void hold_against_plan(struct asked *a, const struct config *c)
{
    struct verdict verdict;
    struct plan *plan;
    int64_t bytes[MOST_STAGES], excess = 0;
    bool legal;
    if (judge_plan(a->judge, c, &plan) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    count_plan(aceso_study_of(&a->request)->count, plan, bytes);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(judge_config(a->judge, c, &verdict, NULL, &legal), WEFT_OK);
        assert_true(legal);
        excess = 0;
        for (int32_t s = 0; s < c->stages; s++) {
            assert_int_equal(judge_peak(a->judge, c, s), bytes[s]);
            excess += bytes[s] > a->problem->limit_bytes ? bytes[s] - a->problem->limit_bytes : 0;
        }
        assert_int_equal(verdict.excess_bytes, excess);
        judge_forget(a->judge);
    }
    plan_free(plan);
}

static void test_judges_count_as_plans_do(void **state)
{
    (void)state;
    static const struct {
        const char *model, *options, *cluster, *space;
        int64_t batch;
    } CASES[] = {
        {"gpt3-1.3b", "layers: 9, seq: 512", "dgx-a100:1", NULL, 16},
        {"gpt3-1.3b", "layers: 5, seq: 512", "dgx-v100:2x4", "paper", 24},
        {"t5-770m", "layers: 5, decoder_layers: 6", "dgx-v100:1", "artifact", 16},
        {"wresnet-500m", NULL, "dgx-v100:1", NULL, 48},
    };
    struct rng rng;
    int configs = 0, pieces = 0, partial = 0;
    rng_seed(&rng, 1);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct asked a = open_asked(CASES[i].model, CASES[i].options, CASES[i].cluster,
                                    (struct degrees){.global_batch = CASES[i].batch,
                                                     .memory.limit_bytes = INT64_C(1) << 31},
                                    CASES[i].space);
        struct plan *walk;
        assert_int_equal(plan_new(a.model, a.cluster, &walk), WEFT_OK);
        struct made_up made = {.walk = walk, .most = INT64_C(50) << 20};
        struct memory_count count = count_of(&made);
        a.request.aceso_study = &(struct aceso_study){.count = &count};
        make_judge(&a);
        for (int round = 0; round < rounds_of(40); round++) {
            struct config c;
            if (!wander(&rng, &a, 4, &c))
                continue;
            for (int left = round % 3; left > 0; left--)
                paint_some(&rng, &a, &c);
            hold_against_plan(&a, &c);
            configs++;
            pieces += c.pieces > 1;
            for (int32_t k = 0; k < config_parts(&c); k++)
                partial += c.part[k].low != c.part[k].high;
        }
        plan_free(walk);
        close_asked(&a);
    }
    assert_true(configs < 100 || (pieces && partial));
    print_message("%d configs, %d of several pieces, %d parts recompute some layers\n", configs,
                  pieces, partial);
}

/* ---- C2 -------------------------------------------------------------------------------------- */

static struct asked open_small(int64_t limit_bytes)
{
    return open_asked("gpt2", "layers: 4", "dgx-a100:1x4",
                      (struct degrees){.global_batch = 16, .memory.limit_bytes = limit_bytes},
                      "paper");
}

static struct planned *search_small(struct asked *a, struct made_up *made)
{
    struct planned *planned;
    struct plan *walk;
    assert_int_equal(plan_new(a->model, a->cluster, &walk), WEFT_OK);
    if (made)
        made->walk = walk;
    struct memory_count count = made ? count_of(made) : (struct memory_count){0};
    a->request.aceso_study = &(struct aceso_study){.count = made ? &count : NULL};
    assert_int_equal(plan_search(planner_find("aceso"), &a->request, &planned), WEFT_OK);
    a->request.aceso_study = NULL;
    plan_free(walk);
    return planned;
}

static int64_t most_replicas(const struct plan *plan)
{
    int64_t most = 1;
    for (int64_t i = 0; i < plan->instances; i++) {
        int64_t dp = split_degree(&plan_choice(plan, i)->split, DIM_BATCH);
        most = dp > most ? dp : most;
    }
    return most;
}

static void test_what_is_forbidden_is_not_chosen(void **state)
{
    (void)state;
    struct asked a = open_small(INT64_C(8) << 30);
    struct made_up made = {.no_replicas = true, .always = 1};
    struct planned *planned = search_small(&a, NULL);
    assert_true(most_replicas(planned->trials.data[0].plan) > 1); /* else nothing is forbidden */
    planned_free(planned);
    planned = search_small(&a, &made);
    assert_true(planned->trials.data[0].fits);
    for (size_t t = 0; t < planned->trials.len; t++) {
        const struct trial *trial = &planned->trials.data[t];
        assert_int_equal(trial->fits, most_replicas(trial->plan) == 1);
    }
    planned_free(planned);
    close_asked(&a);
}

static void test_the_simulator_has_no_say(void **state)
{
    (void)state;
    static const int64_t MIB = 1 << 20;
    struct made_up made = {.always = MIB};
    struct asked a = open_small(MIB); /* less than any plan takes */
    struct planned *planned = search_small(&a, NULL);
    assert_false(planned->trials.data[0].fits);
    planned_free(planned);
    planned = search_small(&a, &made);
    assert_true(planned->trials.data[0].fits);
    assert_int_equal(planned->trials.data[0].needed_bytes, MIB);
    planned_free(planned);
    made.always = MIB + 1;
    planned = search_small(&a, &made);
    assert_false(planned->trials.data[0].fits);
    assert_int_equal(planned->trials.data[0].needed_bytes, MIB + 1);
    planned_free(planned);
    close_asked(&a);
}

/* ---- C3 -------------------------------------------------------------------------------------- */

static void test_others_refuse(void **state)
{
    (void)state;
    static const char *const OTHERS[] = {"auto", "megatron", "galvatron", "autoddl"};
    struct asked a = open_small(0);
    struct memory_count count = count_of(&(struct made_up){0});
    a.request.aceso_study = &(struct aceso_study){.count = &count};
    a.request.options.space = NULL;
    for (size_t i = 0; i < COUNT_OF(OTHERS); i++) {
        struct planned *planned;
        assert_int_equal(plan_search(planner_find(OTHERS[i]), &a.request, &planned),
                         WEFT_BAD_INPUT);
        assert_non_null(strstr(weft_last_error()->message, "a study of Aceso"));
    }
    close_asked(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_judges_count_as_plans_do),
        cmocka_unit_test(test_what_is_forbidden_is_not_chosen),
        cmocka_unit_test(test_the_simulator_has_no_say),
        cmocka_unit_test(test_others_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
