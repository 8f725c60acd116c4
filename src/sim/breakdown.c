/* breakdown.c - where a stage's time goes.
 *
 * A stage's compute stream, from 0 to the end of the iteration, consists of work and waits. Work
 * counts by its items' purposes; what a run takes beyond its operators counts for its steps, by their
 * own times. A wait [a, b] is followed back from the task that ended it:
 *
 *   a transfer on the way counts by its purpose, as far as it lies in [a, b];
 *   computation elsewhere counts as bubble;
 *   then the task before that one, by engine_waited_for, until a is reached                  (1)
 *
 *   I1  All of it adds up to the iteration: every nanosecond is counted once.
 *   I2  The stage that waits least (of equal ones the lowest number) represents the iteration.
 */
#include "sim/room.h"

#include <stdio.h>
#include <string.h>

const char *time_name(int time)
{
    return time == TIME_BUBBLE ? "bubble" : purpose_name((enum purpose)time);
}

/* ---- work ------------------------------------------------------------------------------------ */

/* The operators' times of a run of items. */
struct run_sum {
    int64_t by[PURPOSE_COUNT], all, steps[PURPOSE_COUNT], all_steps;
    int32_t first_item, items; /* of the run; 0 items: no run yet */
};

struct waits {
    const struct prediction *p;
    int32_t device;
    int64_t *time_ns;
    /* per block: the run that was summed last, which is usually needed again */
    struct run_sum *sum;
    /* waits for activations and for gradients, by the stage that they come from */
    int64_t *by_stage[2];
    int64_t data_ns;
};

static struct run_sum sum_items(const struct prediction *p, const struct task *task)
{
    const struct block *block = &p->graph->block[task->block];
    const int64_t *ns = p->lane_ns + p->lane_first[task->block];
    struct run_sum sum = {.first_item = task->first_item, .items = task->items};
    for (int32_t i = task->first_item; i < task->first_item + task->items; i++)
        if (block->item[i].kind == ITEM_OP) {
            sum.by[block->item[i].purpose] += ns[i];
            sum.all += ns[i];
        } else {
            sum.steps[block->item[i].purpose] += ns[i];
            sum.all_steps += ns[i];
        }
    return sum;
}

static const struct run_sum *sum_up(struct waits *w, const struct task *task)
{
    struct run_sum *sum = &w->sum[task->block];
    if (sum->first_item != task->first_item || sum->items != task->items)
        *sum = sum_items(w->p, task);
    return sum;
}

static int largest_step(const struct run_sum *sum)
{
    int largest = PURPOSE_TENSOR;
    for (int purpose = 0; purpose < PURPOSE_COUNT; purpose++)
        if (sum->steps[purpose] > sum->steps[largest])
            largest = purpose;
    return largest;
}

static void count_run(const struct prediction *p, const struct task *task,
                      const struct run_sum *sum, int64_t took, int64_t *time_ns)
{
    int64_t alone = p->engine.task_ns[task - p->graph->task], given = 0;
    for (int purpose = 0; purpose < PURPOSE_COUNT && alone > 0; purpose++) {
        int64_t share = (int64_t)((double)sum->by[purpose] * ((double)took / (double)alone));
        time_ns[purpose] += share;
        given += share;
    }
    int64_t left = took - given, steps = sum->all < alone ? sum->all_steps : 0;
    for (int purpose = 0; purpose < PURPOSE_COUNT && steps > 0; purpose++) {
        int64_t share =
            (int64_t)((double)left * ((double)sum->steps[purpose] / (double)sum->all_steps));
        time_ns[purpose] += share;
        given += share;
    }
    time_ns[steps > 0 ? largest_step(sum) : task->purpose] += took - given; /* I1 */
}

void task_times(const struct prediction *p, int32_t number, int64_t time_ns[PURPOSE_COUNT])
{
    const struct task *task = &p->graph->task[number];
    int64_t took = p->result.end_ns[number] - p->result.start_ns[number];
    memset(time_ns, 0, PURPOSE_COUNT * sizeof *time_ns);
    if (task->stream == STREAM_COMPUTE && task->block >= 0) {
        struct run_sum sum = sum_items(p, task);
        count_run(p, task, &sum, took, time_ns);
    } else
        time_ns[task_counts_as(task)] = took;
}

/* ---- waits ----------------------------------------------------------------------------------- */

static void blame(struct waits *w, int32_t task, int64_t ns)
{
    const struct task *t = &w->p->graph->task[task];
    if (t->purpose == PURPOSE_DATA)
        w->data_ns += ns;
    else if (t->stream == STREAM_NEXT || t->stream == STREAM_PREVIOUS)
        w->by_stage[t->stream == STREAM_PREVIOUS][w->p->graph->device[t->device].stage] += ns;
}

/* Equation (1): counts the wait from `from` on for a task that starts at `until`. */
static void count_wait(struct waits *w, int32_t task, int64_t from, int64_t until)
{
    const struct prediction *p = w->p;
    int32_t cause = engine_waited_for(&p->engine, &p->result, task);
    if (cause >= 0)
        blame(w, cause, until - from);
    while (until > from) {
        int64_t begin = cause < 0 ? from : p->result.start_ns[cause];
        int time = TIME_BUBBLE;
        if (cause >= 0 && p->graph->task[cause].exchange >= 0)
            time = (int)task_counts_as(&p->graph->task[cause]);
        begin = begin > from ? begin : from;
        w->time_ns[time] += until - begin;
        until = begin;
        cause = cause < 0 ? -1 : engine_waited_for(&p->engine, &p->result, cause);
    }
}

/* When the last task on one of the device's streams is over; no earlier than `from`. */
static int64_t stream_end(const struct waits *w, enum stream_kind kind, int64_t from)
{
    const struct prediction *p = w->p;
    int32_t stream = w->device * STREAM_COUNT + (int32_t)kind;
    for (int64_t i = p->engine.order_first[stream]; i < p->engine.order_first[stream + 1]; i++) {
        int64_t end = p->result.end_ns[p->engine.order[i]];
        from = end > from ? end : from;
    }
    return from;
}

/* Counts the host's step and the copies before and after it; returns when all is over. */
static int64_t count_host_step(struct waits *w, int64_t from)
{
    const struct prediction *p = w->p;
    int32_t stream = w->device * STREAM_COUNT + STREAM_HOST;
    int64_t over = stream_end(w, STREAM_FROM_HOST, from), steps = 0;
    for (int64_t i = p->engine.order_first[stream]; i < p->engine.order_first[stream + 1]; i++)
        steps += p->engine.task_ns[p->engine.order[i]];
    w->time_ns[PURPOSE_OPTIMIZER] += steps;
    w->time_ns[PURPOSE_OFFLOAD] += over - from - steps;
    return over;
}

/* Counts the time after the stage's last task: the host's step, gathers of its weights, then others' work. */
static void count_rest(struct waits *w, int64_t from)
{
    const struct prediction *p = w->p;
    from = count_host_step(w, from);
    int64_t gathered = stream_end(w, STREAM_PARAMETER, from);
    w->time_ns[PURPOSE_DATA] += gathered - from;
    w->time_ns[TIME_BUBBLE] += p->iteration_ns - gathered;
}

static void count_stream(struct waits *w)
{
    const struct prediction *p = w->p;
    int32_t stream = w->device * STREAM_COUNT + STREAM_COMPUTE;
    int64_t now = 0;
    for (int64_t i = p->engine.order_first[stream]; i < p->engine.order_first[stream + 1]; i++) {
        int32_t number = p->engine.order[i];
        const struct task *task = &p->graph->task[number];
        int64_t start = p->result.start_ns[number], end = p->result.end_ns[number];
        if (start > now)
            count_wait(w, number, now, start);
        if (task->block >= 0)
            count_run(p, task, sum_up(w, task), end - start, w->time_ns);
        else
            w->time_ns[task->purpose] += end - start;
        now = end;
    }
    count_rest(w, now);
}

/* ---- in words -------------------------------------------------------------------------------- */

static void name_longest_wait(struct waits *w, struct stage_prediction *stage)
{
    static const char *const WHAT[] = {"activations", "gradients"};
    struct arena *keep = w->p->arena;
    stage->waits_most_ns = w->data_ns;
    stage->waits_most = w->data_ns ? "gradient synchronisation" : NULL;
    for (int back = 0; back < 2; back++)
        for (int32_t s = 0; s < w->p->plan->stages; s++)
            if (w->by_stage[back][s] > stage->waits_most_ns) {
                stage->waits_most_ns = w->by_stage[back][s];
                stage->waits_most = arena_printf(keep, "%s from stage %d", WHAT[back], s);
            }
}

/* The stages of a set as "0", "0-3" or "several stages". */
static const char *stages_text(struct arena *keep, int32_t low, int32_t high, int32_t count)
{
    if (low == high)
        return arena_printf(keep, "stage %d", low);
    if (count == high - low + 1)
        return arena_printf(keep, "stages %d-%d", low, high);
    return arena_printf(keep, "%d of stages %d-%d", count, low, high);
}

static const char *path_text(struct prediction *p)
{
    static const char *const WHAT[] = {
        [PURPOSE_FORWARD] = "forward passes",
        [PURPOSE_BACKWARD] = "backward passes",
        [PURPOSE_RECOMPUTE] = "recomputation",
        [PURPOSE_OPTIMIZER] = "optimizer step",
        [PURPOSE_TENSOR] = "reshards",
        [PURPOSE_EXPERTS] = "tokens to experts",
        [PURPOSE_CONTEXT] = "keys of split sequences",
        [PURPOSE_DATA] = "gradient synchronisation",
        [PURPOSE_PIPELINE] = "pipeline sends",
        [PURPOSE_OFFLOAD] = "offload",
    };
    _Static_assert(COUNT_OF(WHAT) == PURPOSE_COUNT, "a purpose without words");
    struct arena *scratch = arena_new();
    int32_t *path, count = engine_critical_path(scratch, &p->engine, &p->result, &path);
    int64_t ns[PURPOSE_COUNT] = {0};
    bool *seen[PURPOSE_COUNT];
    for (int k = 0; k < PURPOSE_COUNT; k++)
        seen[k] = ARENA_ARRAY(scratch, bool, (size_t)p->plan->stages);
    for (int32_t i = 0; i < count; i++) {
        const struct task *task = &p->graph->task[path[i]];
        ns[task->purpose] += p->result.end_ns[path[i]] - p->result.start_ns[path[i]];
        seen[task->purpose][p->graph->device[task->device].stage] = true;
    }
    const char *text = "";
    for (int said = 0; said < PURPOSE_COUNT; said++) {
        int most = 0;
        for (int k = 1; k < PURPOSE_COUNT; k++)
            most = ns[k] > ns[most] ? k : most;
        double share = 100.0 * (double)ns[most] / (double)p->iteration_ns;
        if (share < 0.5)
            break;
        int32_t low = -1, high = -1, stages = 0;
        for (int32_t s = 0; s < p->plan->stages; s++)
            if (seen[most][s]) {
                low = low < 0 ? s : low;
                high = s;
                stages++;
            }
        text = arena_printf(p->arena, "%s%s%.0f %% %s (%s)", text, *text ? ", " : "", share,
                            WHAT[most], stages_text(scratch, low, high, stages));
        ns[most] = 0;
    }
    arena_free(scratch);
    return text;
}

/* ---- all stages ------------------------------------------------------------------------------ */

static int64_t waiting_ns(const struct stage_prediction *stage)
{
    int64_t ns = stage->time_ns[TIME_BUBBLE];
    for (int purpose = PURPOSE_TENSOR; purpose < PURPOSE_COUNT; purpose++)
        ns += purpose == PURPOSE_TENSOR ? 0 : stage->time_ns[purpose];
    return ns;
}

static int64_t computed_ns(const struct prediction *p, int32_t device)
{
    int32_t stream = device * STREAM_COUNT + STREAM_COMPUTE;
    int64_t ns = 0;
    for (int64_t i = p->engine.order_first[stream]; i < p->engine.order_first[stream + 1]; i++)
        ns += p->result.end_ns[p->engine.order[i]] - p->result.start_ns[p->engine.order[i]];
    return ns;
}

/* The device that represents its stage: the first one; where devices differ (plan/subset.h), the one that computes most. */
static int32_t busiest_device(const struct prediction *p, int32_t stage, int32_t first)
{
    struct arena *scratch = arena_new();
    int64_t *place, places = plan_kinds_of_places(scratch, p->plan, stage, &place);
    int32_t busiest = first;
    for (int64_t i = 1; i < places; i++)
        if (computed_ns(p, first + (int32_t)place[i]) > computed_ns(p, busiest))
            busiest = first + (int32_t)place[i];
    arena_free(scratch);
    return busiest;
}

void find_breakdown(struct prediction *p)
{
    struct arena *scratch = arena_new();
    size_t stages = (size_t)p->plan->stages;
    struct run_sum *sum = ARENA_ARRAY(scratch, struct run_sum, (size_t)p->graph->blocks);
    p->stage = ARENA_ARRAY(p->arena, struct stage_prediction, stages);
    for (int32_t d = 0, stage = -1; d < p->graph->devices; d++) {
        if (p->graph->device[d].stage == stage)
            continue;
        stage = p->graph->device[d].stage;
        struct stage_prediction *out = &p->stage[stage];
        struct waits w = {
            .p = p, .device = busiest_device(p, stage, d), .time_ns = out->time_ns, .sum = sum};
        w.by_stage[0] = ARENA_ARRAY(scratch, int64_t, stages);
        w.by_stage[1] = ARENA_ARRAY(scratch, int64_t, stages);
        count_stream(&w);
        name_longest_wait(&w, out);
        if (waiting_ns(out) < waiting_ns(&p->stage[p->busiest]))
            p->busiest = stage;
    }
    p->critical_path = path_text(p);
    arena_free(scratch);
}
