/* link_loads.c - which links carry most.
 *
 *   busy_l = (sum over transfers of their bytes on l, siblings included) / (C_l * iteration)      (1)
 *
 * counts transfers that are tasks and those within a block's run alike. Folded, links of one class
 * carry the same, and classes that cannot be the bottleneck are absent (flows.h, I3).
 */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

static void add_flow(const struct engine_graph *g, int32_t flow, double *bytes)
{
    for (int64_t u = g->flow_use_first[flow]; u < g->flow_use_first[flow + 1]; u++)
        bytes[g->flow_use[u].link] += g->flow_use[u].bytes * g->flow_use[u].times;
}

static void add_items(const struct prediction *p, const struct task *task, double *bytes)
{
    const struct block *block = &p->graph->block[task->block];
    for (int32_t i = task->first_item; i < task->first_item + task->items; i++)
        if (block->item[i].kind == ITEM_STEP && block->item[i].exchange >= 0)
            add_flow(&p->engine, block->item[i].exchange, bytes);
}

static int busiest_first(const void *a, const void *b)
{
    const struct link_load *x = a, *y = b;
    return (x->busy < y->busy) - (x->busy > y->busy);
}

/* Links with the same name are shown once. */
static int32_t keep_distinct(struct arena *keep, const struct cluster *cluster, int32_t links,
                             int32_t most, struct link_load *load)
{
    struct map *seen = map_new(keep);
    int32_t kept = 0;
    for (int32_t l = 0; l < links && kept < most && load[l].busy > 0; l++)
        if (map_put(seen, link_text(keep, cluster, load[l].link), l))
            load[kept++] = load[l];
    return kept;
}

int32_t link_loads(struct arena *keep, const struct prediction *prediction, int32_t most,
                   struct link_load **out)
{
    const struct engine_graph *g = &prediction->engine;
    double *bytes = ARENA_ARRAY(keep, double, (size_t)g->links + 1);
    struct link_load *load = ARENA_ARRAY(keep, struct link_load, (size_t)g->links + 1);
    double seconds = (double)prediction->result.end * 1e-9;
    for (int32_t t = 0; t < prediction->graph->tasks; t++) {
        const struct task *task = &prediction->graph->task[t];
        if (task->exchange >= 0)
            add_flow(g, task->exchange, bytes);
        else if (task->block >= 0)
            add_items(prediction, task, bytes);
    }
    for (int32_t l = 0; l < g->links; l++)
        load[l] = (struct link_load){prediction->link[l], bytes[l],
                                     bytes[l] / g->link_bytes_per_s[l] / seconds}; /* (1) */
    qsort(load, (size_t)g->links, sizeof *load, busiest_first);
    *out = load;
    return keep_distinct(keep, prediction->plan->cluster, g->links, most, load);
}
