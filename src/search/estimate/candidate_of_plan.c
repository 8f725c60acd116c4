/* candidate_of_plan.c - a plan as a candidate: its instances as runs of rows.
 *
 *   I1  A run continues as long as no operator in it has two choices. Operators that do not occur
 *       in a run take the choice they have elsewhere in the plan on the same number of devices, so
 *       that a plan with equal choices in all copies of a layer has one row per number of devices.
 */
#include "search/estimate/estimator.h"

#include <string.h>

/* The row being built: the choices of the instances seen so far, and, for operators that none of
 * them has, those of the plan's first instance on the same number of devices. */
struct rows {
    struct estimator *estimator;
    const struct plan *plan;
    struct choice *choice; /* per operator */
    bool *fixed;           /* per operator: an instance of the current run determines it */
};

static int64_t devices_at(const struct plan *plan, int64_t instance)
{
    return plan->stage[plan_stage_of_part(plan, plan_part_of(plan, instance))].devices;
}

static void start_row(struct rows *rows, int64_t devices)
{
    const struct plan *plan = rows->plan;
    struct choice copied = {.split = split_none()};
    split_add(&copied.split, SPLIT_COPY, devices);
    memset(rows->fixed, 0, (size_t)plan->model->ops * sizeof *rows->fixed);
    for (int32_t i = 0; i < plan->model->ops; i++)
        rows->choice[i] = copied;
    for (int64_t i = plan->instances - 1; i >= 0; i--)
        if (split_devices(&plan_choice(plan, i)->split) == devices &&
            devices_at(plan, i) == devices)
            rows->choice[plan->instance[i].op] = *plan_choice(plan, i);
}

static bool takes(struct rows *rows, int64_t instance)
{
    int32_t op = rows->plan->instance[instance].op;
    const struct choice *choice = plan_choice(rows->plan, instance);
    if (rows->fixed[op] && !choice_equal(&rows->choice[op], choice))
        return false;
    rows->fixed[op] = true;
    rows->choice[op] = *choice;
    return true;
}

typedef ARRAY(struct candidate_run) run_list;

static void list_runs(struct rows *rows, int32_t part, struct arena *keep, run_list *out)
{
    const struct plan *plan = rows->plan;
    int64_t first = plan->part[part].first, end = first + plan->part[part].count;
    while (first < end) {
        int64_t last = first;
        start_row(rows, plan->stage[plan_stage_of_part(plan, part)].devices);
        while (last < end && takes(rows, last))
            last++;
        struct candidate_run run = {first, last, estimator_row(rows->estimator, rows->choice)};
        array_push(keep, out, run);
        first = last;
    }
}

weft_status candidate_of_plan(struct estimator *estimator, const struct plan *plan,
                              struct arena *keep, struct candidate **out)
{
    struct arena *scratch = arena_new();
    struct rows rows = {estimator, plan,
                        ARENA_ARRAY(scratch, struct choice, (size_t)plan->model->ops),
                        ARENA_ARRAY(scratch, bool, (size_t)plan->model->ops)};
    run_list runs = {0};
    int32_t *first_run = ARENA_ARRAY(scratch, int32_t, (size_t)plan->parts + 1);
    weft_status status;
    TRY(estimator_tables(estimator));
    for (int32_t k = 0; k < plan->parts; k++) {
        list_runs(&rows, k, scratch, &runs);
        first_run[k + 1] = (int32_t)runs.len;
    }
    struct candidate *c =
        candidate_new(keep, plan->stages, (int32_t)plan->pieces, (int32_t)runs.len);
    memcpy(c->run, runs.data, runs.len * sizeof *c->run);
    memcpy(c->first_run, first_run, ((size_t)plan->parts + 1) * sizeof *first_run);
    memcpy(c->stage, plan->stage, (size_t)plan->stages * sizeof *c->stage);
    c->schedule = plan_row(plan);
    c->step_samples = plan->step_samples;
    c->micro_batches = plan_micro_batches(plan);
    *out = c;
done:
    arena_free(scratch);
    return status;
}
