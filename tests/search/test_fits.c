/* test_fits.c - what is called fitting fits: random problems, every planner.
 *
 *   P1  An answer that is said to fit needs no more than its device has: what the allocator reserves, the context,
 *       the communicators and the margin (plan.h, 1), on every stage.
 *   P2  The planner, a simulation of its plan, and one of the plan read back from its file come to one verdict.
 *   P3  The words follow it: "fits" and "too much" never stand together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random_problem.h"
#include "report/prediction.h"

static const char *const PLANNERS[] = {"auto", "megatron", "galvatron", "aceso", "autoddl"};

/* Devices so small that about half of the problems are short of memory. */
static struct problem draw_tight(struct rng *rng)
{
    struct problem p = draw_problem(rng);
    struct device *device = &p.cluster->node.device;
    struct degrees *pins = &p.request.pins;
    device->memory_bytes = (INT64_C(3) << 28) * (1 + rng_below(rng, 8));
    device->context_bytes = INT64_C(100) << 20;
    pins->software.word[FACT_OPTIMIZER_STEP] = chance(rng, 3) ? STEP_FOREACH : STEP_FUSED;
    if (chance(rng, 4))
        pins->memory.limit_bytes = INT64_C(1) << (29 + rng_below(rng, 3));
    if (chance(rng, 3)) {
        pins->memory.has_margin = true;
        pins->memory.margin_percent = (double)rng_below(rng, 20);
    }
    if (chance(rng, 2)) {
        static const enum policy POLICIES[] = {POLICY_MIXED, POLICY_DISTRIBUTED, POLICY_FSDP};
        pins->has_policy = pins->has_dtype = true;
        pins->dtype = DTYPE_FP16;
        pins->policy = POLICIES[rng_below(rng, COUNT_OF(POLICIES))];
    }
    return p;
}

/* P1 and P3. */
static void check_prediction(struct arena *scratch, const struct prediction *p)
{
    bool within = true;
    for (int32_t s = 0; s < p->plan->stages; s++) {
        const struct stage_peak *memory = &p->stage[s].memory;
        if (memory->reserved < memory->peak)
            fail_msg("%s: %lld reserved, %lld allocated",
                     plan_text(scratch, p->plan, NULL, "a plan"), (long long)memory->reserved,
                     (long long)memory->peak);
        assert_int_equal(stage_needed(memory), memory->reserved + memory->context +
                                                   memory->communicators + memory->margin);
        within &= stage_needed(memory) <= memory->limit;
    }
    assert_int_equal(p->fits, within);
    const char *words = memory_verdict(scratch, p);
    assert_int_equal(strncmp(words, "fits:", 5) == 0, p->fits);
    assert_int_equal(strstr(words, "too much") != NULL, !p->fits);
    assert_null(strstr(words, "would reserve"));
}

static bool simulated(struct arena *scratch, const struct plan *plan)
{
    struct prediction *prediction = NULL;
    assert_int_equal(simulate(plan, &(struct simulate_options){0}, &prediction), WEFT_OK);
    check_prediction(scratch, prediction);
    bool fits = prediction->fits;
    prediction_free(prediction);
    return fits;
}

/* P2. The file names a cluster whose devices have all their memory: it is put back. */
static bool read_back(struct problem *p, struct plan *plan)
{
    struct opened_plan opened = {0};
    plan_set_names(plan, p->model_name, p->model_options, p->cluster_name);
    const char *text = plan_write(p->arena, plan);
    if (plan_parse(p->arena, "answer", text, strlen(text), &opened) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    opened.cluster->node.device = p->cluster->node.device;
    bool fits = simulated(p->arena, opened.plan);
    plan_close(&opened);
    return fits;
}

static void check_answer(struct problem *p, const struct trial *trial)
{
    struct plan *lowered = NULL;
    assert_int_equal(trial->fits, trial->needed_bytes <= trial->limit_bytes);
    if (!trial->plan)
        assert_int_equal(plan_from_degrees(p->model, p->cluster, &trial->degrees, &lowered),
                         WEFT_OK);
    struct plan *plan = trial->plan ? trial->plan : lowered;
    assert_int_equal(simulated(p->arena, plan), trial->fits);
    assert_int_equal(read_back(p, plan), trial->fits);
    if (lowered)
        plan_free(lowered);
}

/* NULL: there is no answer, or the planner does not take what is pinned. */
static struct planned *ask(const char *planner, const struct plan_request *request)
{
    struct planned *planned = NULL;
    weft_status status = plan_search(planner_find(planner), request, &planned);
    if (status == WEFT_FAILURE)
        fail_msg("%s: %s", planner, weft_last_error()->message);
    error_clear();
    return planned;
}

static void what_is_said_to_fit_fits(void **state)
{
    (void)state;
    struct rng rng;
    int rounds = rounds_of(2), answers = 0, fitting = 0;
    rng_seed(&rng, 19);
    for (int round = 0; round < rounds; round++) {
        struct problem p = draw_tight(&rng);
        for (int k = 0; k < cases_of(COUNT_OF(PLANNERS)); k++) {
            struct planned *planned = ask(PLANNERS[k], &p.request);
            if (!planned || planned->trials.len == 0) {
                planned_free(planned);
                continue;
            }
            for (size_t i = 0; i < planned->trials.len; i++)
                assert_int_equal(planned->trials.data[i].fits,
                                 planned->trials.data[i].needed_bytes <=
                                     planned->trials.data[i].limit_bytes);
            check_answer(&p, &planned->trials.data[0]);
            answers++;
            fitting += planned->trials.data[0].fits;
            planned_free(planned);
        }
        close_problem(&p);
    }
    print_message("%d problems, %d answers, %d of them fit\n", rounds, answers, fitting);
    assert_true(answers >= rounds);
}

/* Whole gradients that FSDP's policy frees after a step are there during it, beside what a foreach optimizer takes; shares of
 * them that a stream of its own has summed are there already. */
static void late_gradients_are_reserved(void **state)
{
    (void)state;
    struct model *model;
    struct cluster *cluster;
    struct arena *scratch = arena_new();
    assert_int_equal(model_open("gpt3-2.6b", "seq: 64", &model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-a100:1", &cluster), WEFT_OK);
    for (int shard = 0; shard <= 3; shard++)
        for (int64_t tp = 1; tp <= 2; tp++) {
            struct degrees d = {.dp = 8 / tp,
                                .tp = tp,
                                .global_batch = 8 / tp,
                                .shard = shard,
                                .has_shard = true,
                                .dtype = DTYPE_FP16,
                                .has_dtype = true,
                                .policy = POLICY_FSDP,
                                .has_policy = true};
            struct plan *plan;
            d.software.word[FACT_OPTIMIZER_STEP] = STEP_FOREACH;
            assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
            simulated(scratch, plan);
            plan_free(plan);
        }
    cluster_free(cluster);
    model_free(model);
    arena_free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(late_gradients_are_reserved),
                                       cmocka_unit_test(what_is_said_to_fit_fits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
