/* test_branches.c - branches of a model side by side (search/auto/forks.c, branches.c).
 *
 *   B1  By hand: the four branches of an Inception block, the two of DLRM, none of a GPT.
 *   B2  In random plans no operator of a branch needs another branch of its join, and what a branch leaves out is read elsewhere.
 *   B3  With one sample on two devices the automatic planner puts Inception's branches side by side, and nothing else that it
 *       tries is as fast; the plan computes what the model does.
 *   B4  What is pinned, or runs in a framework, stays as it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "plan_text.h"
#include "random_plan.h"
#include "run_models.h"
#include "search/auto/forks.h"
#include "search/search.h"

/* ---- by hand (B1) ---------------------------------------------------------------------------- */

static const struct fork *fork_at(const struct plan *plan, const struct forks *forks,
                                  const char *join)
{
    int64_t instance = at(plan, join);
    for (size_t i = 0; i < forks->len; i++)
        if (forks->data[i].join == instance)
            return &forks->data[i];
    return NULL;
}

/* Operators of a block: 3 in a convolution with its norm and activation. */
static void test_forks_by_hand(void **state)
{
    (void)state;
    static const size_t LENGTHS[] = {3, 6, 9, 4}; /* 1x1; 5x5; 3x3 twice; a pool and 1x1 */
    struct arena *arena = arena_new();
    struct opened_plan images =
        parsed("model: inception-v3\ncluster: dgx-a100:1x2\nbatch: {global: 1, step: 1}\n");
    struct opened_plan dlrm =
        parsed("model: dlrm\ncluster: dgx-a100:1x2\nbatch: {global: 2, step: 2}\n");
    struct opened_plan words =
        parsed("model: gpt2\ncluster: dgx-a100:1x2\nbatch: {global: 2, step: 2}\n");
    struct forks found = {0}, pairs = {0}, none = {0};
    find_forks(arena, images.plan, &found);
    assert_int_equal(found.len, 11); /* blocks */
    const struct fork *first = fork_at(images.plan, &found, "Mixed_5b.concat");
    assert_int_equal(first->branches.len, COUNT_OF(LENGTHS));
    for (size_t i = 0; i < COUNT_OF(LENGTHS); i++)
        assert_int_equal(first->branches.data[i].len, LENGTHS[i]);
    find_forks(arena, dlrm.plan, &pairs);
    assert_int_equal(pairs.len, 1);
    assert_int_equal(pairs.data[0].branches.len, 2);
    find_forks(arena, words.plan, &none);
    assert_int_equal(none.len, 0);
    plan_close(&images);
    plan_close(&dlrm);
    plan_close(&words);
    arena_free(arena);
}

/* ---- random plans (B2) ----------------------------------------------------------------------- */

/* Marks what an instance needs, itself among it. */
static void mark_needs(const struct instance_index *index, const struct plan *plan, int64_t i,
                       bool *needs)
{
    const struct op *op = &plan->model->op[plan->instance[i].op];
    if (needs[i])
        return;
    needs[i] = true;
    for (int32_t k = 0; k < op->inputs; k++) {
        int64_t source = instance_source(index, &plan->instance[i], op->input[k].tensor);
        if (source >= 0)
            mark_needs(index, plan, source, needs);
    }
}

/* The branch of a fork that an instance is in, -1: none. */
static int branch_with(const struct fork *fork, int64_t instance)
{
    for (size_t b = 0; b < fork->branches.len; b++)
        for (size_t i = 0; i < fork->branches.data[b].len; i++)
            if (fork->branches.data[b].data[i] == instance)
                return (int)b;
    return -1;
}

static void check_fork(struct arena *arena, const struct instance_index *index,
                       const struct plan *plan, const struct fork *fork)
{
    for (size_t b = 0; b < fork->branches.len; b++) {
        bool *needs = ARENA_ARRAY(arena, bool, (size_t)plan->instances);
        mark_needs(index, plan, fork->branches.data[b].data[0], needs);
        for (int64_t i = 0; i < plan->instances; i++) {
            int other = branch_with(fork, i);
            assert_false(needs[i] && other >= 0 && other != (int)b);
            assert_true(other != (int)b || needs[i]); /* all of a branch is for what it makes */
        }
    }
    for (int64_t i = 0; i < plan->instances;
         i++) { /* nobody else reads what branches make inside */
        const struct op *op = &plan->model->op[plan->instance[i].op];
        for (int32_t k = 0; k < op->inputs; k++) {
            int64_t source = instance_source(index, &plan->instance[i], op->input[k].tensor);
            int from = source < 0 ? -1 : branch_with(fork, source);
            assert_true(from < 0 || i == fork->join || branch_with(fork, i) == from);
        }
    }
}

static void test_random_forks(void **state)
{
    (void)state;
    enum { ROUNDS = 40 };
    size_t all = 0;
    for (int round = 0; round < rounds_of(ROUNDS) || (all == 0 && round < ROUNDS); round++) {
        struct arena *arena = arena_new();
        struct rng rng;
        rng_seed(&rng, (uint64_t)round);
        const struct model *model = models[rng_below(&rng, SMALL_MODEL_COUNT)];
        struct plan *plan = random_plan(&rng, model, clusters[2 + rng_below(&rng, MOST_RANKS - 1)]);
        struct instance_index index = plan_index(arena, plan);
        struct forks forks = {0};
        find_forks(arena, plan, &forks);
        for (size_t i = 0; i < forks.len; i++)
            check_fork(arena, &index, plan, &forks.data[i]);
        all += forks.len;
        plan_free(plan);
        arena_free(arena);
    }
    assert_true(all > 0);
}

/* ---- the planner (B3, B4) -------------------------------------------------------------------- */

static struct planned *answer(const struct model *model, const struct cluster *cluster,
                              struct degrees pins)
{
    struct plan_request request = {.model = model,
                                   .cluster = cluster,
                                   .pins = pins,
                                   .options = {.given = 1U << TAKES_THREADS, .threads = 1}};
    struct planned *planned = NULL;
    pins.global_batch = 1;
    request.pins.global_batch = 1;
    if (plan_search(planner_find("auto"), &request, &planned) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return planned;
}

static bool has_branches(const struct trial *trial)
{
    return trial->plan && plan_has_subsets(trial->plan);
}

static void test_planner_takes_branches(void **state)
{
    (void)state;
    struct model *model;
    struct cluster *cluster;
    struct graph *graph = NULL;
    assert_int_equal(model_open("inception-v3", NULL, &model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-a100:1x2", &cluster), WEFT_OK);
    struct planned *planned = answer(model, cluster, (struct degrees){0});
    const struct trial *best = &planned->trials.data[0];
    assert_true(has_branches(best));
    for (size_t i = 1; i < planned->trials.len; i++)
        assert_true(has_branches(&planned->trials.data[i]) ||
                    (double)planned->trials.data[i].iteration_ns >
                        1.1 * (double)best->iteration_ns);
    assert_int_equal(graph_compile(best->plan, &(struct compile_options){FOLD_AUTO}, &graph),
                     WEFT_OK);
    assert_int_equal(graph_verify(graph), WEFT_OK);
    graph_free(graph);
    planned_free(planned);
    planned = answer(model, cluster, (struct degrees){.pp = 1});
    for (size_t i = 0; i < planned->trials.len; i++)
        assert_false(has_branches(&planned->trials.data[i]));
    planned_free(planned);
    cluster_free(cluster);
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forks_by_hand),
        cmocka_unit_test(test_random_forks),
        cmocka_unit_test(test_planner_takes_branches),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_run_models);
}
