/* test_run_precision.c - runs in fp16 with scaled losses, and with products in fp8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run_lab.h"
#include "run_models.h"

static struct plan *plan_in(enum dtype dtype, const struct degrees *degrees, int ranks)
{
    struct plan *plan = NULL;
    assert_int_equal(plan_from_degrees(models[0], clusters[ranks], degrees, &plan), WEFT_OK);
    plan->dtype = dtype;
    plan->policy = policy_for(dtype);
    return plan;
}

static struct trained *train_scaled(const struct plan *plan, struct loss_scale scale, int64_t steps)
{
    struct laboratory lab = {.plan = plan, .options = lab_options(plan->model), .steps = steps};
    lab.options.loss_scale = scale;
    struct trained *trained = run_lab(&lab);
    if (trained->status != WEFT_OK)
        fail_msg("%s", trained->why);
    return trained;
}

static double weights_apart(const struct trained *a, const struct trained *b)
{
    double most = 0;
    for (int i = 0; i < a->weights; i++)
        for (int64_t k = 0; k < a->weight[i].elements; k++)
            most = fmax(most, fabs((double)a->weight[i].value[k] - (double)b->weight[i].value[k]));
    return most;
}

/* Gradients of 2^60 are infinite in fp16: every step is left out, and the scale halved. */
static void test_overflows_skip_the_step(void **state)
{
    (void)state;
    struct plan *plan = plan_in(DTYPE_FP16, &(struct degrees){.dp = 2, .global_batch = 4}, 2);
    struct trained *before = train_scaled(plan, (struct loss_scale){0}, 0);
    struct trained *after = train_scaled(plan, (struct loss_scale){.scale = 0x1p60, .good = 7}, 3);
    assert_true(after->loss_scale.scale == 0x1p57);
    assert_int_equal(after->loss_scale.skipped, 3);
    assert_int_equal(after->loss_scale.good, 0);
    assert_true(weights_apart(before, after) == 0);
    trained_free(before);
    trained_free(after);
    plan_free(plan);
}

/* A scale that is a power of two and meets no limit changes no bit of the gradients of weights. */
static void test_scales_leave_no_trace(void **state)
{
    (void)state;
    struct plan *plan = plan_in(DTYPE_FP16, &(struct degrees){.global_batch = 2}, 1);
    struct loss_scale soon = {.scale = 0x1p10, .good = LOSS_SCALE_GROWTH - 1};
    struct trained *a = train_scaled(plan, soon, 4);
    struct trained *b = train_scaled(plan, (struct loss_scale){.scale = 0x1p11}, 4);
    assert_true(a->loss_scale.scale == 0x1p11 && a->loss_scale.good == 3);
    assert_int_equal(a->loss_scale.skipped, 0);
    assert_true(fabs(a->loss[3] / b->loss[3] - 1) <= 0x1p-11);
    trained_free(a);
    trained_free(b);
    plan_free(plan);
}

/* Of what passes k operators: sqrt(2 k) roundings of 2^-11 in fp16 (test_run_bf16.c, 1), on either side; an operand of
 * fp8 is rounded by 2^-4, and roundings of a sum's addends are independent, so a loss, a mean of such sums, moves by far
 * less: 2 % were allowed, 0.4 % seen. */
static void test_plans_in_fp16_and_fp8_train(void **state)
{
    (void)state;
    enum { STEPS = 6 };
    const struct degrees one = {.global_batch = 4}, split = {.tp = 2, .dp = 2, .global_batch = 4};
    struct plan *fp32 = plan_in(DTYPE_FP32, &one, 1), *half = plan_in(DTYPE_FP16, &split, 4);
    struct plan *cast = plan_in(DTYPE_FP8, &split, 4), *late = plan_in(DTYPE_FP8, &split, 4);
    late->software.word[FACT_FP8_RECIPE] = RECIPE_DELAYED;
    struct trained *want = train_scaled(fp32, (struct loss_scale){0}, STEPS);
    struct trained *fp16 = train_scaled(half, (struct loss_scale){0}, STEPS);
    struct trained *fp8 = train_scaled(cast, (struct loss_scale){0}, STEPS);
    struct trained *delayed = train_scaled(late, (struct loss_scale){0}, STEPS);
    double bound = 2 * sqrt(2 * (double)fp32->instances) * 0x1p-11;
    for (int i = 0; i < STEPS; i++) {
        assert_true(fabs(fp16->loss[i] / want->loss[i] - 1) <= bound);
        if (fabs(fp8->loss[i] / want->loss[i] - 1) > 0.02)
            fail_msg("step %d: %g in fp8, %g in fp32", i, fp8->loss[i], want->loss[i]);
        if (fabs(delayed->loss[i] / want->loss[i] - 1) > 0.02)
            fail_msg("step %d: %g in fp8 by earlier scales, %g in fp32", i, delayed->loss[i],
                     want->loss[i]);
    }
    assert_true(delayed->loss[0] == fp8->loss[0]); /* there is no history yet */
    assert_true(delayed->loss[STEPS - 1] != fp8->loss[STEPS - 1]);
    assert_true(fp8->loss_scale.scale == 0 && fp16->loss_scale.scale > 0);
    trained_free(want);
    trained_free(fp16);
    trained_free(fp8);
    trained_free(delayed);
    plan_free(late);
    plan_free(fp32);
    plan_free(half);
    plan_free(cast);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overflows_skip_the_step),
        cmocka_unit_test(test_scales_leave_no_trace),
        cmocka_unit_test(test_plans_in_fp16_and_fp8_train),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_run_models);
}
