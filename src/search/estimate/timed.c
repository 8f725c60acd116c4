/* timed.c - an outline with times (timed.h). */
#include "search/estimate/timed.h"

#include <string.h>

static void time_blocks(struct arena *keep, struct timed *t)
{
    const struct graph *graph = t->outline.graph;
    int64_t items = 0;
    t->item_first = ARENA_ARRAY(keep, int64_t, (size_t)graph->blocks + 1);
    struct part_cost_sums *of_part =
        ARENA_ARRAY(keep, struct part_cost_sums, (size_t)t->plan->parts);
    for (int kind = 0; kind < SLOT_KIND_COUNT; kind++) {
        t->block_of[kind] = ARENA_ARRAY(keep, int32_t, (size_t)t->plan->parts);
        memset(t->block_of[kind], -1, (size_t)t->plan->parts * sizeof(int32_t));
    }
    for (int32_t b = 0; b < graph->blocks; b++) {
        items += graph->block[b].items;
        t->item_first[b + 1] = items;
        t->block_of[graph->block[b].kind][graph->block[b].part] = b;
    }
    t->item_ns = ARENA_ARRAY(keep, int64_t, (size_t)items);
    for (int32_t b = 0; b < graph->blocks; b++)
        item_costs_alone(&t->costs, &graph->block[b], &t->flows, t->item_ns + t->item_first[b],
                         &of_part[graph->block[b].part]);
    for (int32_t b = 0; b < graph->blocks; b++)
        stretch_block(&graph->block[b], part_stretch(&of_part[graph->block[b].part]),
                      t->item_ns + t->item_first[b]);
}

weft_status timed_new(struct arena *keep, const struct plan *plan, struct cost *cost,
                      struct flow_cache *flows, struct timed *out)
{
    weft_status status;
    *out = (struct timed){.plan = plan, .slowdown = cost_slowdown(cost)};
    TRY(outline_compile(plan, &out->outline));
    const struct graph *graph = out->outline.graph;
    TRY(flows_find_again(flows, plan->cluster, graph->pattern, graph->patterns, graph->exchange,
                         graph->exchanges, keep, &out->flows));
    out->token_slowdown = token_slowdowns(keep, graph);
    out->costs = item_costs_of(keep, plan, cost);
    time_blocks(keep, out);
done:
    return status;
}

void timed_free(struct timed *timed)
{
    outline_free(&timed->outline);
}

int64_t exchange_ns(const struct timed *timed, int32_t exchange)
{
    return exchange < 0 ? 0 : timed->flows.together_ns[exchange];
}

int64_t host_step_on_stage_ns(const struct timed *timed, int32_t stage)
{
    const struct host_step *step = &timed->outline.host_step[stage];
    if (!step->chunks)
        return 0;
    int64_t way[] = {exchange_ns(timed, step->down),
                     host_update_ns(&timed->costs, stage, step->parameters),
                     exchange_ns(timed, step->up)};
    int64_t all = 0, longest = 0;
    for (size_t i = 0; i < COUNT_OF(way); i++) {
        all += way[i];
        longest = way[i] > longest ? way[i] : longest;
    }
    return all + (step->chunks - 1) * longest;
}
