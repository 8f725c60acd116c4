/* label.c - the names of tasks in pictures. */
#include <stdio.h>

#include "sim/sim.h"

const char *exchange_name(const struct exchange *exchange)
{
    if (exchange->kind == EXCHANGE_COLLECTIVE)
        return collective_name((enum collective)exchange->collective);
    return exchange->kind == EXCHANGE_TO_HOST ? "to host" : "from host";
}

struct text32 task_label(const struct prediction *prediction, const struct task *task)
{
    const struct graph *graph = prediction->graph;
    const struct plan *plan = graph->plan;
    struct pipeline pipeline = plan_pipeline(plan);
    struct text32 label;
    if (task->exchange < 0 && task->block >= 0) {
        const struct block *block = &graph->block[task->block];
        struct slot slot = {block->kind, block->part / pipeline.stages, task->micro_batch};
        return slot_label(slot, &pipeline);
    }
    snprintf(label.s, sizeof label.s, "%s",
             task->exchange >= 0 ? exchange_name(&graph->exchange[task->exchange])
                                 : purpose_name((enum purpose)task->purpose));
    return label;
}
