/* autoddl_problem.h - splits as a problem, and its answer, for tests of the planner autoddl. */
#ifndef WEFT_TESTS_AUTODDL_PROBLEM_H
#define WEFT_TESTS_AUTODDL_PROBLEM_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "search/search.h"

static inline struct assigned solve(const struct assign *p, enum assign_search search,
                                    struct arena *keep)
{
    struct assign_options options = {.search = search, .seed = 7, .rounds = 0};
    struct assigned found;
    assign_solve(p, &options, keep, &found);
    return found;
}

/* On one stage, without a limit; by volume where `cost` is NULL. */
static inline struct layout_problem *open_problem(const struct model *model,
                                                  const struct cluster *cluster, struct cost *cost,
                                                  int64_t batch, int64_t steps)
{
    struct layout_case about = {.model = model,
                                .cluster = cluster,
                                .cost = cost,
                                .dtype = DTYPE_FP32,
                                .policy = POLICY_FP32,
                                .global_batch = batch,
                                .step_samples = batch / steps,
                                .stages = 1,
                                .limit_bytes = INFINITY,
                                .measure = cost ? LAYOUT_TIME : LAYOUT_VOLUME};
    struct layout_problem *p;
    if (layout_problem_new(&about, &p) != WEFT_OK)
        fail_msg("%s: %s", model->name, weft_last_error()->message);
    return p;
}

#endif
