/* interference.c - what the engine is told about work and transfers that slow each other down (engine.h).
 *
 * A task is a run of kernels. Beside transfers kernel i, which takes t_i alone, takes w_i t_i, and a transfer takes q_i times
 * as long beside it (cost_interference). While a run and a transfer overlap for as long as the run takes,
 *
 *   the run takes  sum w_i t_i / sum t_i          times as long,                                             (1)
 *   the transfer   sum w_i t_i / sum (w_i t_i / q_i)                                                         (2)
 *
 * Where all kernels have one factor, so have all tasks.
 *
 *   I1  Only collectives take part; sends are done by the copy engines.
 *   I2  A device's slowdown bounds those of its tasks from above: work on a device without one is never slowed down.
 */
#include <math.h>

#include "sim/room.h"

/* ---- factors of tasks ------------------------------------------------------------------------ */

struct factors {
    double *slowed, *slows;
};
/* The sums of (1) and (2). */
struct factor_sums {
    double alone, slowed, moved;
};

static struct factors factors_new(struct arena *keep, size_t tasks)
{
    struct factors f = {ARENA_ARRAY(keep, double, tasks), ARENA_ARRAY(keep, double, tasks)};
    for (size_t t = 0; t < tasks; t++)
        f.slowed[t] = f.slows[t] = 1;
    return f;
}

static void add_kernel(const struct simulation *s, enum kernel kernel, double ns,
                       struct factor_sums *sums)
{
    struct interference of = cost_interference(s->cost, kernel);
    sums->alone += ns;
    sums->slowed += of.work * ns;
    sums->moved += of.work * ns / of.transfer;
}

/* The sums over the operators before each item of a block, and over all; an operator's own kernel stands for the passes that
 * come with it. */
static struct factor_sums *block_sums(const struct simulation *s, struct arena *keep,
                                      const struct block *block)
{
    const int64_t *ns = s->item_ns + s->item_first[block - s->graph->block];
    struct factor_sums *sums = ARENA_ARRAY(keep, struct factor_sums, (size_t)block->items + 1);
    for (int32_t i = 0; i < block->items; i++) {
        struct work work[MAX_ITEM_WORKS];
        const struct item *item = &block->item[i];
        sums[i + 1] = sums[i];
        if (item->kind == ITEM_OP && ns[i] > 0 &&
            item_works(s->plan, item->instance, (enum phase)item->phase, work) > 0)
            add_kernel(s, work[0].kernel, (double)ns[i], &sums[i + 1]);
    }
    return sums;
}

/* Of what comes after `from` and not after `to`. */
static void set_factors(const struct factors *f, int32_t task, const struct factor_sums *from,
                        const struct factor_sums *to)
{
    double alone = to->alone - from->alone, slowed = to->slowed - from->slowed;
    if (alone <= 0)
        return;
    f->slowed[task] = fmax(slowed / alone, 1);                    /* (1) */
    f->slows[task] = fmax(slowed / (to->moved - from->moved), 1); /* (2) */
}

/* The largest factor of all (I2); 1 where none is to count. */
static double bound(const struct simulation *s)
{
    double most = 1;
    for (int k = 0; k < KERNEL_COUNT && !s->omitted.slowdown; k++) {
        struct interference of = cost_interference(s->cost, (enum kernel)k);
        most = fmax(most, fmax(of.work, of.transfer));
    }
    return most;
}

static void tell_tasks(struct simulation *s, struct engine_graph *g)
{
    struct factors f = factors_new(s->keep, (size_t)g->tasks);
    struct factor_sums **of = ARENA_ARRAY(s->keep, struct factor_sums *, (size_t)s->graph->blocks);
    struct factor_sums none = {0}, optimizer = {0};
    add_kernel(s, KERNEL_OPTIMIZER, 1, &optimizer);
    for (int32_t b = 0; b < s->graph->blocks; b++)
        of[b] = block_sums(s, s->keep, &s->graph->block[b]);
    for (int32_t t = 0; t < g->tasks; t++) {
        const struct task *task = &s->graph->task[t];
        if (task->exchange >= 0 || g->stream_device[g->task_stream[t]] < 0)
            continue;
        const struct factor_sums *sums = task->block >= 0 ? of[task->block] + task->first_item : 0;
        set_factors(&f, t, sums ? sums : &none, sums ? sums + task->items : &optimizer);
    }
    g->task_slowed = f.slowed;
    g->task_slows = f.slows;
}

/* ---- the whole graph ------------------------------------------------------------------------- */

/* Whether a group has a device of a stage. Most stages are out of its reach, and their members need not be gone through. */
static bool has_device_of(const struct group *group, int64_t members, const struct stage *stage)
{
    int64_t low = group->first, high = group->first;
    for (int32_t k = 0; k < group->levels; k++) {
        int64_t reach = (group->count[k] - 1) * group->stride[k];
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    if (high < stage->first_device || low >= stage->first_device + stage->devices)
        return false;
    for (int64_t i = 0; i < members; i++) {
        int64_t device = group_device(group, i) - stage->first_device;
        if (device >= 0 && device < stage->devices)
            return true;
    }
    return false;
}

/* The devices of the graph that belong to an exchange's group; folded, the one of its stage. */
static void add_devices(struct simulation *s, const struct exchange *e)
{
    const struct graph *graph = s->graph;
    if (e->kind != EXCHANGE_COLLECTIVE || e->purpose == PURPOSE_PIPELINE) /* I1 */
        return;
    struct group group = pattern_group(&graph->pattern[e->pattern], e->group);
    int64_t members = group_size(&group);
    for (int32_t d = 0; d < graph->devices && graph->folded; d++) {
        const struct stage *stage = &s->plan->stage[graph->device[d].stage];
        if (has_device_of(&group, members, stage))
            array_push(s->keep, &s->flow_device, d);
    }
    for (int64_t i = 0; i < members && !graph->folded; i++) {
        int32_t device = (int32_t)(group_device(&group, i) - s->plan->stage[0].first_device);
        array_push(s->keep, &s->flow_device, device);
    }
}

/* The same for every block and for the whole graph: found once. */
static const double *slowdowns_of_flows(struct simulation *s)
{
    if (!s->knows_flow_slowdown)
        s->flow_slowdown = token_slowdowns(s->keep, s->graph);
    s->knows_flow_slowdown = true;
    return s->flow_slowdown;
}

void tell_interference(struct simulation *s, struct engine_graph *g)
{
    const struct graph *graph = s->graph;
    double slowdown = bound(s);
    int64_t *first = ARENA_ARRAY(s->keep, int64_t, (size_t)graph->exchanges + 1);
    if (slowdown <= 1)
        return;
    for (int32_t i = 0; i < graph->exchanges; i++) {
        add_devices(s, &graph->exchange[i]);
        first[i + 1] = (int64_t)s->flow_device.len;
    }
    double *slowdowns = ARENA_ARRAY(s->keep, double, (size_t)graph->devices);
    for (int32_t d = 0; d < graph->devices; d++)
        slowdowns[d] = slowdown;
    g->device_slowdown = slowdowns;
    g->flow_slowdown = slowdowns_of_flows(s);
    g->flow_device_first = first;
    g->flow_device = s->flow_device.data;
    if (cost_tells_kernels(s->cost))
        tell_tasks(s, g);
}

/* ---- a block alone --------------------------------------------------------------------------- */

static void tell_runs(struct simulation *s, struct arena *scratch, struct engine_graph *g,
                      const struct block *block, const struct block_runs *runs)
{
    struct factors f = factors_new(scratch, (size_t)runs->count);
    const struct factor_sums *sums = block_sums(s, scratch, block);
    for (int32_t i = 0; i < runs->count; i++) {
        const struct block_run *run = &runs->run[i];
        set_factors(&f, i, &sums[run->first], &sums[run->first + run->items]);
    }
    g->task_slowed = f.slowed;
    g->task_slows = f.slows;
}

void tell_block_interference(struct simulation *s, struct arena *scratch, struct engine_graph *g,
                             const struct block *block, const struct block_runs *runs)
{
    size_t flows = (size_t)s->flows.flows;
    double *slowdown = ARENA_NEW(scratch, double);
    *slowdown = bound(s);
    if (*slowdown <= 1)
        return;
    int64_t *first = ARENA_ARRAY(scratch, int64_t, flows + 1);
    for (size_t i = 0; i < flows; i++)
        first[i + 1] = (int64_t)i + 1;
    g->device_slowdown = slowdown;
    g->flow_slowdown = slowdowns_of_flows(s);
    g->flow_device_first = first;
    g->flow_device = ARENA_ARRAY(scratch, int32_t, flows + 1);
    if (cost_tells_kernels(s->cost))
        tell_runs(s, scratch, g, block, runs);
}
