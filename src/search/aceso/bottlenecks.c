/* bottlenecks.c - which stage and which resource a search looks at first (search.c, heuristics 1 and 2). */
#include "search/aceso/search_state.h"

void sort_by_verdict(const struct proposals *list, int32_t *order)
{
    for (int32_t i = 0; i < list->count; i++) {
        int32_t at = i;
        for (; at > 0 && better(list->data[i].verdict, list->data[order[at - 1]].verdict); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* Heuristic 1: the stages, the worst first. */
void rank_stages(const struct stage_use *cost, int32_t stages, bool memory, int32_t *order)
{
    for (int32_t i = 0; i < stages; i++) {
        int32_t at = i;
        double own = memory ? cost[i].used[RESOURCE_MEMORY] : (double)cost[i].busy_ns;
        for (; at > 0; at--) {
            const struct stage_use *other = &cost[order[at - 1]];
            if (own <= (memory ? other->used[RESOURCE_MEMORY] : (double)other->busy_ns))
                break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

/* Heuristic 2: resources by this stage's share of what all stages use. Memory comes first where a
 * config does not fit, and is otherwise ranked like the others, unless a study ranks it last (bench_aceso_paper.c
 * compares). */
void rank_resources(const struct stage_use *cost, int32_t stages, int32_t stage,
                    enum memory_rank rank, enum resource *order)
{
    double share[RESOURCE_COUNT];
    for (int r = 0; r < RESOURCE_COUNT; r++) {
        double all = 0;
        for (int32_t s = 0; s < stages; s++)
            all += cost[s].used[r];
        share[r] = all > 0 ? cost[stage].used[r] / all : 0;
    }
    if (rank != MEMORY_BY_SHARE)
        share[RESOURCE_MEMORY] = rank == MEMORY_FIRST ? 2 : -1;
    for (int r = 0; r < RESOURCE_COUNT; r++) {
        int at = r;
        for (; at > 0 && share[r] > share[order[at - 1]]; at--)
            order[at] = order[at - 1];
        order[at] = (enum resource)r;
    }
}
