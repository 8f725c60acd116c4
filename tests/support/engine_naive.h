/* engine_naive.h - the equations of engine.h and share.h read out loud: every event looks at every
 * task and computes every speed from nothing. */
#ifndef ENGINE_NAIVE_H
#define ENGINE_NAIVE_H

#include <math.h>

#include "engine_scenario.h"

enum naive_state { AHEAD, LATENCY, RUNNING, OVER };
struct naive {
    const struct scenario *scenario;
    int64_t now, *start_ns, *end_ns;
    enum naive_state state[MAX_TASKS];
    double total[MAX_TASKS], left[MAX_TASKS], pace[MAX_TASKS], speed[MAX_TASKS];
};

static bool may_start(const struct naive *naive, int32_t t)
{
    const struct scenario_task *task = &naive->scenario->task[t];
    for (int32_t i = 0; i < task->afters; i++)
        if (naive->state[task->after[i]] != OVER)
            return false;
    for (int32_t before = 0; before < t; before++)
        if (naive->scenario->task[before].stream == task->stream && naive->state[before] != OVER)
            return false;
    return true;
}

static void naive_measure(struct naive *naive, int32_t t)
{
    const struct scenario_task *task = &naive->scenario->task[t];
    double bytes = 0, ns = (double)(task->is_flow ? task->least_ns : task->ns);
    for (int32_t i = 0; i < task->uses; i++) {
        double rate = naive->scenario->link_bytes_per_s[task->use[i].link];
        bytes = fmax(bytes, task->use[i].bytes);
        ns = fmax(ns, task->use[i].bytes / rate * 1e9);
    }
    naive->total[t] = naive->left[t] = bytes > 0 ? bytes : ns;
    naive->pace[t] = ns > 0 ? naive->total[t] / ns : 0;
}

/* One change at this instant, if there is one. */
static bool naive_advance(struct naive *naive, int32_t t)
{
    const struct scenario_task *task = &naive->scenario->task[t];
    if (naive->state[t] == AHEAD && may_start(naive, t)) {
        naive->state[t] = LATENCY;
        naive->start_ns[t] = naive->now;
        naive_measure(naive, t);
        return true;
    }
    int64_t latency = task->is_flow ? task->ns : 0;
    if (naive->state[t] == LATENCY && naive->now == naive->start_ns[t] + latency) {
        naive->state[t] = RUNNING;
        return true;
    }
    if (naive->state[t] == RUNNING && naive->left[t] <= 0x1p-38 * naive->total[t]) {
        naive->state[t] = OVER;
        naive->end_ns[t] = naive->now;
        return true;
    }
    return false;
}

static bool both_run(const struct naive *naive, int32_t work, int32_t flow, int32_t device)
{
    const struct scenario *scenario = naive->scenario;
    const struct scenario_task *a = &scenario->task[work], *b = &scenario->task[flow];
    if (a->is_flow || !b->is_flow || naive->state[work] != RUNNING || naive->state[flow] != RUNNING)
        return false;
    for (int32_t i = 0; i < b->devices; i++)
        if (b->device[i] == device && scenario->stream_device[a->stream] == device)
            return true;
    return false;
}

static double naive_slowdown(const struct naive *naive, int32_t t)
{
    const struct scenario *scenario = naive->scenario;
    const struct scenario_task *task = scenario->task;
    double slowdown = 1;
    for (int32_t other = 0; other < scenario->tasks; other++)
        for (int32_t d = 0; d < scenario->devices; d++) {
            if (both_run(naive, t, other, d))
                slowdown = fmax(fmax(slowdown, scenario_factor(scenario, &task[t], task[t].slowed)),
                                scenario->slowdown[d] > 1 ? task[other].takes : 1);
            if (both_run(naive, other, t, d))
                slowdown =
                    fmax(slowdown, scenario_factor(scenario, &task[other], task[other].slows));
        }
    return slowdown;
}

/* a_fl and k_fl a_fl in multiples of 2^-42: share.h, I2. */
static double part_of(const struct naive *naive, int32_t t, int32_t link)
{
    const struct scenario_task *task = &naive->scenario->task[t];
    double part = 0;
    for (int32_t i = 0; i < task->uses; i++)
        if (task->use[i].link == link && task->use[i].bytes > 0)
            part += floor(fmax(floor(task->use[i].bytes / naive->total[t] * 0x1p42), 1) *
                          task->use[i].times) *
                    0x1p-42;
    return part;
}

/* How far unsettled flows may rise on one link: share.h (4). */
static double naive_level(const struct naive *naive, const bool *unsettled, const bool *settled,
                          int32_t link)
{
    double left = naive->scenario->link_bytes_per_s[link] / 1e9, weight = 0;
    double nothing = 0x1p-38 * left;
    for (int32_t t = 0; t < naive->scenario->tasks; t++) {
        left -= settled[t] ? part_of(naive, t, link) * naive->speed[t] : 0;
        weight += unsettled[t] ? part_of(naive, t, link) : 0;
    }
    return weight > 0 ? (left < nothing ? 0 : left / weight) : INFINITY;
}

static bool on_link(const struct naive *naive, int32_t t, int32_t link)
{
    return link >= 0 && part_of(naive, t, link) > 0;
}

static void naive_fill(struct naive *naive, bool *unsettled, bool *settled)
{
    const struct scenario *scenario = naive->scenario;
    for (;;) {
        double least = INFINITY;
        int32_t full = -1, paced = -1;
        for (int32_t l = 0; l < scenario->links; l++) {
            double level = naive_level(naive, unsettled, settled, l);
            if (level < least) {
                least = level;
                full = l;
            }
        }
        for (int32_t t = 0; t < scenario->tasks; t++)
            if (unsettled[t] && naive->speed[t] < least) {
                least = naive->speed[t];
                paced = t;
                full = -1;
            }
        if (full < 0 && paced < 0)
            return;
        for (int32_t t = 0; t < scenario->tasks; t++)
            if (unsettled[t] && (t == paced || on_link(naive, t, full))) {
                naive->speed[t] = least;
                unsettled[t] = false;
                settled[t] = true;
            }
    }
}

static void naive_speeds(struct naive *naive)
{
    const struct scenario *scenario = naive->scenario;
    bool settled[MAX_TASKS] = {0}, unsettled[MAX_TASKS];
    for (int32_t t = 0; t < scenario->tasks; t++)
        naive->speed[t] = naive->pace[t] / naive_slowdown(naive, t);
    for (int32_t priority = 0; priority < MAX_LIST; priority++) {
        for (int32_t t = 0; t < scenario->tasks; t++)
            unsettled[t] = naive->state[t] == RUNNING && scenario->task[t].is_flow &&
                           scenario->task[t].priority == priority;
        naive_fill(naive, unsettled, settled);
    }
}

static int64_t naive_next(const struct naive *naive)
{
    int64_t next = INT64_MAX;
    for (int32_t t = 0; t < naive->scenario->tasks; t++) {
        int64_t at = INT64_MAX;
        if (naive->state[t] == LATENCY)
            at = naive->start_ns[t] + naive->scenario->task[t].ns;
        if (naive->state[t] == RUNNING && naive->speed[t] > 0)
            at = naive->now + (int64_t)fmax(1, ceil((naive->left[t] - 0x1p-38 * naive->total[t]) /
                                                    naive->speed[t]));
        next = at < next ? at : next;
    }
    return next;
}

/* start and end by task; false: deadlock. */
static bool scenario_naive(const struct scenario *scenario, int64_t *start_ns, int64_t *end_ns)
{
    struct naive naive = {.scenario = scenario, .start_ns = start_ns, .end_ns = end_ns};
    for (;;) {
        bool changed = true;
        while (changed) {
            changed = false;
            for (int32_t t = 0; t < scenario->tasks; t++)
                changed |= naive_advance(&naive, t);
        }
        naive_speeds(&naive);
        int64_t next = naive_next(&naive);
        if (next == INT64_MAX)
            break;
        for (int32_t t = 0; t < scenario->tasks; t++)
            if (naive.state[t] == RUNNING)
                naive.left[t] -= naive.speed[t] * (double)(next - naive.now);
        naive.now = next;
    }
    for (int32_t t = 0; t < scenario->tasks; t++)
        if (naive.state[t] != OVER)
            return false;
    return true;
}

#endif
