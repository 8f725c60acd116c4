/* test_run_shares.c - attention that reads queries, keys and values, and writes their gradients, where they lie in one fused
 * tensor: plans by kernels that take such calls have the losses and weights of one rank whose kernels do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "run_alone.h"
#include "run_rows.h"

/* ---- the CPU's kernels, given operands that they take by themselves --------------------------- */

static atomic_int shared_calls;

static bool takes_shares(const struct kernel_call *call)
{
    return call->size[2] == 1; /* as the GPU's do */
}

/* Rows of one head at one position: each operand has as many in a call, queries seq and keys kv positions. */
static int64_t rows_of(const struct kernel_call *call, int k)
{
    return call->size[0] * call->size[1] * (k == 0 ? call->size[3] : call->size[4]);
}

static float *taken_out(const struct kernel_call *call, int k, const float *from)
{
    int64_t rows = rows_of(call, k), depth = call->size[5];
    float *made = malloc((size_t)(rows * depth) * sizeof *made + 1);
    for (int64_t i = 0; from && i < rows; i++)
        memcpy(made + i * depth, from + i * call->share, (size_t)depth * sizeof *made);
    return made;
}

static void put_back(const struct kernel_call *call, int k, const float *from, float *to)
{
    int64_t depth = call->size[5];
    for (int64_t i = 0; i < rows_of(call, k); i++)
        memcpy(to + i * call->share, from + i * depth, (size_t)depth * sizeof *to);
}

static void run_shared(const struct kernel_call *call, enum phase phase)
{
    struct kernel_call own = *call;
    bool backward = phase == PHASE_BACKWARD_INPUT;
    if (!call->share) {
        CPU_KERNELS.run(call, phase);
        return;
    }
    shared_calls++;
    own.share = 0;
    for (int k = 0; k < 3; k++) {
        own.input[k] = taken_out(call, k, call->input[k]);
        own.input_gradient[k] = backward ? taken_out(call, k, NULL) : NULL;
    }
    CPU_KERNELS.run(&own, phase);
    for (int k = 0; k < 3; k++) {
        if (backward)
            put_back(call, k, own.input_gradient[k], call->input_gradient[k]);
        free((void *)(uintptr_t)own.input[k]);
        free(own.input_gradient[k]);
    }
}

/* ---- plans ----------------------------------------------------------------------------------- */

static struct trained *run_with_shares(const struct plan *plan, int64_t steps)
{
    struct kernels kernels = CPU_KERNELS;
    struct laboratory lab = {.plan = plan, .options = lab_options(plan->model), .steps = steps};
    kernels.takes_shares = takes_shares;
    kernels.run = run_shared;
    lab.options.dropout = 0.1F;
    lab.options.seed = 1;
    lab.options.kernels = &kernels;
    return run_lab(&lab);
}

static void hold_row(const struct row *row)
{
    static const double TOLERANCE = 1e-5;
    enum { STEPS = 2 };
    struct plan *plan = plan_of_row(row);
    const struct trained *one = run_alone(plan, &(struct conditions){STEPS, 1, NULL, NULL, false});
    struct trained *all = run_with_shares(plan, STEPS);
    const char *where = "";
    if (all->status != WEFT_OK)
        fail_msg("%s: %s", row->name, all->why);
    double error = weight_error(one, all, &where);
    for (int64_t i = 0; i < STEPS; i++)
        if (!(fabs(all->loss[i] - one->loss[i]) <= TOLERANCE * one->loss[i]))
            fail_msg("%s: loss %g, not %g", row->name, all->loss[i], one->loss[i]);
    if (!(error <= TOLERANCE) && !has_kinks(plan->model))
        fail_msg("%s: %s differs by %g", row->name, where, error);
    trained_free(all);
    plan_free(plan);
}

static void test_plans(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ROWS); i += 3)
        hold_row(&ROWS[i]);
    assert_true(shared_calls > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_all);
}
