/* test_resplit.c - operators with other splits, forward and backward (search/auto/resplit.c).
 *
 *   R1  One sample on four devices: the automatic planner gives operators of a DeepSeek other splits, some of them otherwise
 *       backward, and nothing else that it tries is as fast; without these backward splits the plan takes longer; it computes
 *       what the model does.
 *   R2  What is pinned stays as it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "search/search.h"
#include "sim/sim.h"

struct question {
    struct model *model;
    struct cluster *cluster;
};

static int open_question(void **state)
{
    static struct question q;
    *state = &q;
    return model_open("deepseek-v2-lite", "layers: 2", &q.model) != WEFT_OK ||
           cluster_open("dgx-h100:1x4", &q.cluster) != WEFT_OK;
}

static int close_question(void **state)
{
    struct question *q = *state;
    cluster_free(q->cluster);
    model_free(q->model);
    return 0;
}

static struct planned *answer(const struct question *q, struct degrees pins)
{
    struct plan_request request = {.model = q->model,
                                   .cluster = q->cluster,
                                   .pins = pins,
                                   .options = {.given = 1U << TAKES_THREADS, .threads = 1}};
    struct planned *planned = NULL;
    request.pins.global_batch = 1;
    if (plan_search(planner_find("auto"), &request, &planned) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return planned;
}

static int64_t otherwise_backward(const struct trial *trial)
{
    int64_t turned = 0;
    for (int64_t i = 0; trial->plan && i < trial->plan->instances; i++)
        turned += plan_choice(trial->plan, i)->own_back;
    return turned;
}

/* How long the plan takes where backward passes have the splits of forward passes. */
static int64_t without_back_ns(const struct plan *turned)
{
    struct plan *plan;
    struct prediction *p;
    assert_int_equal(plan_copy(turned, &plan), WEFT_OK);
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        choice_set_back(&choice, &choice.split);
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
    assert_int_equal(plan_check(plan), WEFT_OK);
    assert_int_equal(simulate(plan, &(struct simulate_options){0}, &p), WEFT_OK);
    int64_t ns = p->iteration_ns;
    prediction_free(p);
    plan_free(plan);
    return ns;
}

static void test_planner_splits_backward_passes(void **state)
{
    struct planned *planned = answer(*state, (struct degrees){0});
    const struct trial *best = &planned->trials.data[0];
    struct graph *graph = NULL;
    assert_true(otherwise_backward(best) > 0);
    assert_non_null(strstr(best->text, "otherwise backward"));
    for (size_t i = 1; i < planned->trials.len; i++)
        assert_true((double)planned->trials.data[i].iteration_ns >
                    1.01 * (double)best->iteration_ns);
    assert_true(without_back_ns(best->plan) > best->iteration_ns);
    assert_int_equal(graph_compile(best->plan, &(struct compile_options){FOLD_AUTO}, &graph),
                     WEFT_OK);
    assert_int_equal(graph_verify(graph), WEFT_OK);
    graph_free(graph);
    planned_free(planned);
}

static void test_pins_stay(void **state)
{
    struct planned *planned = answer(*state, (struct degrees){.tp = 4});
    for (size_t i = 0; i < planned->trials.len; i++)
        assert_int_equal(otherwise_backward(&planned->trials.data[i]), 0);
    planned_free(planned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planner_splits_backward_passes),
        cmocka_unit_test(test_pins_stay),
    };
    return cmocka_run_group_tests(tests, open_question, close_question);
}
