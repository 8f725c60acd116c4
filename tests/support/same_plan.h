/* same_plan.h - for tests that read a plan back: it is the one that was written. */
#ifndef WEFT_TESTS_SAME_PLAN_H
#define WEFT_TESTS_SAME_PLAN_H

#include "one_arena.h"
#include "exchange/room.h"
#include "report/report.h"

static inline void same_prediction(const struct plan *a, const struct plan *b)
{
    struct simulate_options options = {.fold = FOLD_AUTO};
    struct prediction *x, *y;
    assert_int_equal(simulate(a, &options, &x), WEFT_OK);
    assert_int_equal(simulate(b, &options, &y), WEFT_OK);
    assert_int_equal(x->iteration_ns, y->iteration_ns);
    for (int32_t s = 0; s < a->stages; s++)
        assert_int_equal(x->stage[s].memory.peak, y->stage[s].memory.peak);
    prediction_free(x);
    prediction_free(y);
}

/* Plans that agree in all of this are simulated alike (sim.h, I2). */
static inline void same_plan(const struct plan *a, const struct plan *b)
{
    struct texts differences = {0};
    const char *model = model_difference(arena, a->model, b->model);
    if (model)
        fail_msg("%s", model);
    plan_differences(arena, a, b, &differences);
    if (differences.len)
        fail_msg("%s", differences.data[0]);
    assert_string_equal(settings_text(arena, a, b), "");
}

#endif
