/* test_quiet.c - work that no transfer can slow down (sim/quiet.h), against its definition (1), transfer by transfer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_scenario.h"
#include "rounds.h"
#include "sim/quiet.h"

static void draw(struct rng *rng, struct scenario *scenario)
{
    memset(scenario, 0, sizeof *scenario);
    scenario->tasks = 2 + (int32_t)rng_below(rng, 40);
    scenario->streams = 1 + (int32_t)rng_below(rng, 6);
    scenario->devices = 1 + (int32_t)rng_below(rng, 3);
    for (int32_t d = 0; d < scenario->devices; d++)
        scenario->slowdown[d] = rng_below(rng, 4) ? 1.5 : 1;
    for (int32_t s = 0; s < scenario->streams; s++)
        scenario->stream_device[s] = (int32_t)rng_below(rng, scenario->devices + 1) - 1;
    for (int32_t t = 0; t < scenario->tasks; t++) {
        struct scenario_task *task = &scenario->task[t];
        task->stream = (int32_t)rng_below(rng, scenario->streams);
        task->is_flow = rng_below(rng, 3) == 0;
        task->ns = 10;
        for (int32_t d = 0; task->is_flow && d < scenario->devices; d++)
            if (rng_below(rng, 2))
                task->device[task->devices++] = d;
        while (t && task->afters < MAX_LIST && rng_below(rng, 3))
            task->after[task->afters++] = (int32_t)rng_below(rng, t);
    }
}

/* Where a task stands among those of its stream. */
static int32_t place_in(const struct scenario *scenario, int32_t task)
{
    int32_t place = 0;
    for (int32_t t = 0; t < task; t++)
        place += scenario->task[t].stream == scenario->task[task].stream;
    return place;
}

static bool waits_for(const struct scenario_task *task, int32_t other)
{
    for (int32_t i = 0; i < task->afters; i++)
        if (task->after[i] == other)
            return true;
    return false;
}

static bool touches(const struct scenario_task *flow, int32_t device)
{
    for (int32_t i = 0; i < flow->devices; i++)
        if (flow->device[i] == device)
            return true;
    return false;
}

/* (1): whether work and a transfer may meet. */
static bool may_meet(const struct scenario *scenario, int32_t work, int32_t transfer)
{
    int32_t stream = scenario->task[work].stream, at = place_in(scenario, work);
    if (!touches(&scenario->task[transfer], scenario->stream_device[stream]))
        return false;
    for (int32_t f = 0; f < scenario->tasks; f++) {
        if (!scenario->task[f].is_flow ||
            scenario->task[f].stream != scenario->task[transfer].stream)
            continue;
        for (int32_t t = 0; t < scenario->tasks; t++) {
            if (scenario->task[t].stream != stream)
                continue;
            if (f <= transfer && waits_for(&scenario->task[f], t) && place_in(scenario, t) >= at)
                return false;
            if (f >= transfer && waits_for(&scenario->task[t], f) && place_in(scenario, t) <= at)
                return false;
        }
    }
    return true;
}

static bool naive_quiet(const struct scenario *scenario, int32_t work)
{
    for (int32_t t = 0; t < scenario->tasks; t++)
        if (scenario->task[t].is_flow && may_meet(scenario, work, t))
            return false;
    return true;
}

static struct streams_of list_streams(struct arena *keep, const struct scenario *scenario)
{
    int64_t *first = ARENA_ARRAY(keep, int64_t, (size_t)scenario->devices + 1);
    int32_t *stream = ARENA_ARRAY(keep, int32_t, (size_t)scenario->streams);
    for (int32_t d = 0; d < scenario->devices; d++) {
        first[d + 1] = first[d];
        for (int32_t s = 0; s < scenario->streams; s++)
            if (scenario->stream_device[s] == d)
                stream[first[d + 1]++] = s;
    }
    return (struct streams_of){first, stream};
}

static void quiet_is_what_meets_nothing(void **state)
{
    (void)state;
    struct scenario *scenario = malloc(sizeof *scenario);
    struct rng rng;
    int64_t count[2] = {0};
    rng_seed(&rng, 31);
    for (int round = 0; round < rounds_of(2000); round++) {
        struct arena *arena = arena_new();
        draw(&rng, scenario);
        struct engine_graph graph = scenario_lower(arena, scenario, NULL);
        struct streams_of streams = list_streams(arena, scenario);
        int32_t place[MAX_TASKS];
        for (int32_t t = 0; t < scenario->tasks; t++)
            place[t] = place_in(scenario, t);
        const bool *quiet = find_quiet(arena, &graph, place, &streams);
        for (int32_t t = 0; t < scenario->tasks; t++) {
            int32_t device = scenario->stream_device[scenario->task[t].stream];
            if (scenario->task[t].is_flow || device < 0 || scenario->slowdown[device] <= 1)
                continue;
            assert_int_equal(quiet[t], naive_quiet(scenario, t));
            count[quiet[t]]++;
        }
        arena_free(arena);
    }
    free(scenario);
    assert_true(count[0] > 100 && count[1] > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(quiet_is_what_meets_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
