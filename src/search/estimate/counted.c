/* counted.c - the memory that the stages of a plan hold by another system's count (counted.h). */
#include "search/estimate/counted.h"

#include <string.h>

#include "search/estimate/stage_memory.h"

void counted_hold(struct counted counted, struct part_memory *out)
{
    *out = (struct part_memory){.kept = counted.each, .forward_rise = counted.each};
}

/* The end of the longest run from `first` on in which no operator has two layouts; choice[op] is
 * set to each operator's layout. In a plan, equal choices are one object. */
static int64_t run_end(const struct plan *plan, int64_t first, int64_t end, struct arena *scratch,
                       struct choice *choice)
{
    const struct choice **own =
        ARENA_ARRAY(scratch, const struct choice *, (size_t)plan->model->ops);
    int64_t i = first;
    for (; i < end; i++) {
        int32_t op = plan->instance[i].op;
        if (own[op] && own[op] != plan_choice(plan, i))
            break;
        own[op] = plan_choice(plan, i);
        choice[op] = *own[op];
    }
    return i;
}

static struct counted count_part(const struct memory_count *count, const struct plan *plan,
                                 int32_t part)
{
    struct arena *scratch = arena_new();
    ARRAY(struct counted_run) runs = {0};
    int64_t at = plan->part[part].first, end = at + plan->part[part].count;
    int64_t devices = plan->stage[plan_stage_of_part(plan, part)].devices;
    struct choice *choice = ARENA_ARRAY(scratch, struct choice, (size_t)plan->model->ops);
    while (at < end) {
        struct counted_run run = {.first = at, .last = run_end(plan, at, end, scratch, choice)};
        run.laid = count->lay(count->context, scratch, choice, devices, plan->step_samples);
        array_push(scratch, &runs, run);
        at = run.last;
    }
    struct counted counted = count->part(count->context, runs.data, (int32_t)runs.len);
    arena_free(scratch);
    return counted;
}

void count_plan(const struct memory_count *count, const struct plan *plan, int64_t *bytes)
{
    struct arena *scratch = arena_new();
    struct holdings *holdings = holdings_new(scratch);
    struct part_memory *memory = ARENA_ARRAY(scratch, struct part_memory, (size_t)plan->parts);
    struct pipeline pipeline = {plan->stages, plan->pieces,
                                (int32_t)(plan->global_batch / plan->step_samples), 0};
    memset(bytes, 0, (size_t)plan->stages * sizeof *bytes);
    for (int32_t k = 0; k < plan->parts; k++) {
        struct counted counted = count_part(count, plan, k);
        counted_hold(counted, &memory[k]);
        bytes[plan_stage_of_part(plan, k)] += counted.always;
    }
    for (int32_t s = 0; s < plan->stages; s++)
        bytes[s] += most_held(holdings, plan_schedule(plan), &pipeline, s, &memory[s]);
    arena_free(scratch);
}
