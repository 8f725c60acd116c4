/* label.c - the names of tasks in pictures, and of tensors in lists. */
#include <stdio.h>
#include <string.h>

#include "sim/room.h"

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

const char *path_range(struct arena *keep, const char *first, const char *last, int64_t instances)
{
    size_t same = 0;
    int64_t from, to;
    while (first[same] && first[same] == last[same])
        same++;
    if (!first[same] && !last[same])
        return first;
    while (same > 0 && first[same - 1] != '.')
        same--;
    size_t a = strcspn(first + same, "."), b = strcspn(last + same, ".");
    if (strcmp(first + same + a, last + same + b) != 0)
        return arena_printf(keep, "%s to %s", first, last);
    bool gaps = parse_int(arena_copy_bytes(keep, first + same, a), &from) &&
                parse_int(arena_copy_bytes(keep, last + same, b), &to) && instances < to - from + 1;
    return arena_printf(keep, "%s%.*s-%s",
                        gaps ? arena_printf(keep, "%lld of ", (long long)instances) : "",
                        (int)(same + a), first, last + same);
}
