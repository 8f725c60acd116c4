/* test_last_steps.c - what the automatic planner tries with its best plan at the end (search/auto/even_state.c, cuts.c).
 *
 *   L1  No cut between stages can be moved by a layer so that the fastest plan is faster, and fits.
 *   L2  Nor is it faster with one level of state sharding for all operators, where it mixes some.
 *   L3  Both change answers: each of the two is the last step to some fastest plan here.
 *   L4  What is pinned stays: with --zero all plans have that level.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rounds.h"
#include "search/search.h"
#include "sim/sim.h"

static const struct {
    const char *model, *options, *cluster;
    int64_t batch;
} QUESTIONS[] = {
    {"t5-large", "", "dgx-h100:4", 128},
    {"gpt2-xl", "", "dgx-v100:2", 16},
    {"t5-base", "", "dgx-v100:2", 16},
    {"gpt3-350m", "layers: 7, seq: 512", "dgx-v100:1x4", 12},
    {"bert-huge-32", "layers: 10", "dgx-v100:1x4", 8},
};

struct answer {
    struct model *model;
    struct cluster *cluster;
    struct planned *planned;
};

static struct answer answer(size_t question, struct degrees pins)
{
    struct answer a = {0};
    assert_int_equal(model_open(QUESTIONS[question].model, QUESTIONS[question].options, &a.model),
                     WEFT_OK);
    assert_int_equal(cluster_open(QUESTIONS[question].cluster, &a.cluster), WEFT_OK);
    struct plan_request request = {
        .model = a.model,
        .cluster = a.cluster,
        .pins = pins,
        .options = {.given = 1U << TAKES_THREADS, .threads = 1, .quick = true}};
    request.pins.global_batch = QUESTIONS[question].batch;
    if (plan_search(planner_find("auto"), &request, &a.planned) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return a;
}

static void close_answer(struct answer *a)
{
    planned_free(a->planned);
    cluster_free(a->cluster);
    model_free(a->model);
}

/* The plan's time; one that does not fit, or is none, beats nothing. */
static int64_t time_of(struct plan *plan)
{
    struct prediction *p = NULL;
    int64_t ns = INT64_MAX;
    if (plan_check(plan) == WEFT_OK &&
        simulate(plan, &(struct simulate_options){0}, &p) == WEFT_OK && p->fits)
        ns = p->iteration_ns;
    error_clear();
    prediction_free(p);
    plan_free(plan);
    return ns;
}

static struct plan *copy_of(const struct plan *plan)
{
    struct plan *copy;
    assert_int_equal(plan_copy(plan, &copy), WEFT_OK);
    return copy;
}

/* The time with the beginning of a part at another instance. */
static int64_t cut_at(const struct plan *plan, int32_t part, int64_t at)
{
    int64_t first = plan->part[part - 1].first;
    int64_t end = plan->part[part].first + plan->part[part].count;
    if (at <= first || at >= end)
        return INT64_MAX;
    struct plan *copy = copy_of(plan);
    copy->part[part - 1] = (struct part){first, at - first};
    copy->part[part] = (struct part){at, end - at};
    return time_of(copy);
}

/* Whether a stage may begin here without cutting a layer. */
static bool is_between_layers(const struct plan *plan, int64_t at)
{
    const struct op *before = &plan->model->op[plan->instance[at - 1].op];
    return plan->ends_layer[at - 1] || !op_in_layer(plan->model, before);
}

static void no_cut_is_better_elsewhere(const struct trial *best)
{
    const struct plan *plan = best->plan;
    for (int32_t part = 1; part < plan->parts; part++) {
        int64_t begin = plan->part[part].first, before = begin - 1, after = begin + 1;
        while (before > 1 && !is_between_layers(plan, before))
            before--;
        while (after < plan->instances && !is_between_layers(plan, after))
            after++;
        if (cut_at(plan, part, before) < best->iteration_ns ||
            cut_at(plan, part, after) < best->iteration_ns)
            fail_msg("%s is faster with stage %d begun elsewhere", plan->model->name, (int)part);
    }
}

static bool mixes_levels(const struct plan *plan)
{
    bool mixed = false;
    for (int64_t i = 1; i < plan->instances; i++)
        mixed |= plan_choice(plan, i)->shard != plan_choice(plan, 0)->shard;
    return mixed;
}

static void no_level_is_better_alone(const struct trial *best)
{
    for (int8_t level = 0; level < 4 && mixes_levels(best->plan); level++) {
        struct plan *copy = copy_of(best->plan);
        for (int64_t i = 0; i < copy->instances; i++) {
            struct choice choice = *plan_choice(copy, i);
            choice.shard = level;
            assert_int_equal(plan_choose(copy, i, &choice), WEFT_OK);
        }
        assert_true(time_of(copy) >= best->iteration_ns);
    }
}

static bool ends_with(const struct trial *trial, const char *step)
{
    return strstr(trial->found_by, step) != NULL;
}

static void test_nothing_near_is_faster(void **state)
{
    (void)state;
    int cuts = 0, levels = 0;
    for (size_t q = 0; q < COUNT_OF(QUESTIONS); q++) {
        if (!is_tried(q))
            continue;
        struct answer a = answer(q, (struct degrees){0});
        const struct trial *best = &a.planned->trials.data[0];
        assert_true(best->fits);
        cuts += ends_with(best, "with other cuts");
        levels += ends_with(best, "with one level of sharding");
        if (best->plan && best->plan->parts == best->plan->stages)
            no_cut_is_better_elsewhere(best); /* L1 */
        if (best->plan)
            no_level_is_better_alone(best); /* L2 */
        close_answer(&a);
    }
    assert_true((cuts > 0 && levels > 0) || rounds_of(100) < 100); /* L3 */
}

static void test_pins_stay(void **state)
{
    (void)state;
    struct answer a = answer(1, (struct degrees){.shard = 3, .has_shard = true});
    for (size_t i = 0; i < a.planned->trials.len; i++) {
        const struct trial *trial = &a.planned->trials.data[i];
        assert_false(ends_with(trial, "with one level of sharding")); /* L4 */
        assert_int_equal(trial->value[DIMENSION_SHARD], 3);
    }
    close_answer(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_near_is_faster),
        cmocka_unit_test(test_pins_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
