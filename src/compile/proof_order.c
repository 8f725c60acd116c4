/* proof_order.c - the tasks of a graph in an order that its streams and dependencies allow. */
#include "compile/proof.h"

#include <string.h>

struct task_queues proof_queues(const struct graph *graph, struct arena *keep)
{
    size_t tasks = (size_t)graph->tasks, streams = (size_t)graph->devices * STREAM_COUNT;
    struct task_queues q = {
        .streams = (int32_t)streams,
        .order = ARENA_ARRAY(keep, int32_t, tasks),
        .first = ARENA_ARRAY(keep, int32_t, streams + 2),
        .next = ARENA_ARRAY(keep, int32_t, streams),
        .rank = ARENA_ARRAY(keep, int32_t, streams),
        .waits = ARENA_ARRAY(keep, int32_t, tasks),
        .after_first = ARENA_ARRAY(keep, int32_t, tasks + 2),
        .after = ARENA_ARRAY(keep, int32_t, (size_t)graph->depends_first[graph->tasks])};
    for (int32_t t = 0; t < graph->tasks; t++) {
        q.first[graph->task[t].device * STREAM_COUNT + graph->task[t].stream + 2]++;
        for (int64_t i = graph->depends_first[t]; i < graph->depends_first[t + 1]; i++)
            q.after_first[graph->depends[i] + 2]++;
    }
    for (size_t i = 0; i < streams; i++)
        q.first[i + 2] += q.first[i + 1];
    for (size_t t = 0; t < tasks; t++)
        q.after_first[t + 2] += q.after_first[t + 1];
    for (int32_t t = 0; t < graph->tasks; t++) {
        q.order[q.first[graph->task[t].device * STREAM_COUNT + graph->task[t].stream + 1]++] = t;
        for (int64_t i = graph->depends_first[t]; i < graph->depends_first[t + 1]; i++)
            q.after[q.after_first[graph->depends[i] + 1]++] = t;
    }
    return q;
}

static void shuffle(const struct graph *graph, struct task_queues *q, struct rng *rng)
{
    for (int32_t i = 0; i < q->streams; i++) {
        int64_t other = rng_below(rng, i + 1);
        q->rank[i] = q->rank[other];
        q->rank[other] = i;
        q->next[i] = q->first[i];
    }
    for (int32_t t = 0; t < graph->tasks; t++)
        q->waits[t] = (int32_t)(graph->depends_first[t + 1] - graph->depends_first[t]);
}

/* The ready task of the first stream that has one, -1: none. */
static int32_t take_ready(struct task_queues *q)
{
    for (int32_t i = 0; i < q->streams; i++) {
        int32_t stream = q->rank[i];
        if (q->next[stream] == q->first[stream + 1] || q->waits[q->order[q->next[stream]]])
            continue;
        int32_t task = q->order[q->next[stream]++];
        for (int32_t k = q->after_first[task]; k < q->after_first[task + 1]; k++)
            q->waits[q->after[k]]--;
        return task;
    }
    return -1;
}

static struct symbolic_machine machine_new(struct proof *p, struct arena *keep)
{
    const struct graph *graph = p->graph;
    size_t batches = (size_t)plan_micro_batches(p->plan), devices = (size_t)graph->devices;
    size_t rows = devices * batches, readings = (size_t)p->readings;
    readings *= p->plan->both_ways ? 2 : 1;
    size_t instances = (size_t)p->plan->instances, buckets = (size_t)graph->buckets;
    struct symbolic_machine m = {.p = p,
                                 .micro_batches = (int32_t)batches,
                                 .made = ARENA_ARRAY(keep, uint8_t, rows *instances),
                                 .chain = ARENA_ARRAY(keep, struct chain, rows * readings),
                                 .received = ARENA_ARRAY(keep, int32_t, rows *readings),
                                 .pending = ARENA_ARRAY(keep, bool, rows *readings),
                                 .haloed = ARENA_ARRAY(keep, uint8_t, rows *readings),
                                 .owed = ARENA_ARRAY(keep, uint8_t, rows *readings),
                                 .moving = ARENA_ARRAY(keep, struct moving, rows * readings),
                                 .heard = ARENA_ARRAY(keep, uint8_t, devices *instances),
                                 .gathers = ARENA_ARRAY(keep, int32_t, rows *buckets),
                                 .gathered = ARENA_ARRAY(keep, bool, devices *buckets),
                                 .stale = ARENA_ARRAY(keep, bool, devices *buckets),
                                 .deferred = ARENA_ARRAY(keep, bool, devices *buckets),
                                 .synchronised = ARENA_ARRAY(keep, int64_t, devices *buckets),
                                 .shares_added = ARENA_ARRAY(keep, int64_t, devices *buckets),
                                 .stepped = ARENA_ARRAY(keep, bool, devices)};
    for (int32_t i = 0; i < p->plan->choices && !m.turned; i++)
        if (p->plan->choice[i].own_back)
            m.turned = ARENA_ARRAY(keep, struct chain, rows * readings);
    for (size_t i = 0; i < instances && !m.mended; i++)
        if (p->fact[i].kept != p->fact[i].output)
            m.mended = ARENA_ARRAY(keep, struct chain, rows * instances);
    bool joins = plan_pipeline(p->plan).joins != NULL;
    for (int i = 0; i < 2; i++) {
        m.host[i] = ARENA_ARRAY(keep, bool, rows *(size_t)p->plan->parts);
        m.come[i] = joins ? ARENA_ARRAY(keep, bool, rows *readings) : NULL;
    }
    return m;
}

/* ---- floors (symbolic.c, I2) ----------------------------------------------------------------------------- */

static void find_floors(struct symbolic_machine *m)
{
    const struct graph *graph = m->p->graph;
    m->floor = ARENA_ARRAY(m->p->arena, int32_t *, (size_t)graph->blocks);
    for (int32_t b = 0; b < graph->blocks; b++) {
        const struct block *block = &graph->block[b];
        int32_t last[] = {-1, -1};
        m->floor[b] = ARENA_ARRAY(m->p->arena, int32_t, (size_t)block->items);
        for (int32_t i = 0; i < block->items; i++) {
            bool again = block->item[i].purpose == PURPOSE_RECOMPUTE;
            if (block->item[i].rest)
                continue;
            if (block->item[i].kind == ITEM_STEP && !block->item[i].turns) {
                m->floor[b][i] = last[0] > last[1] ? last[0] : last[1];
                continue;
            }
            m->floor[b][i] = last[!again];
            if (block->item[i].kind == ITEM_OP)
                last[again] = i;
        }
    }
}

weft_status proof_execute(struct proof *p, struct task_queues *q, struct rng *rng)
{
    const struct graph *graph = p->graph;
    struct arena *keep = arena_new();
    struct symbolic_machine m = machine_new(p, keep);
    enum item_kind preferred = rng_below(rng, 2) ? ITEM_OP : ITEM_STEP;
    weft_status status = WEFT_OK;
    find_floors(&m);
    shuffle(graph, q, rng);
    for (int32_t i = 0; i < graph->tasks; i++) {
        int32_t task = take_ready(q);
        if (task < 0)
            TRY(failure("after %d of %d tasks all others wait for each other", i, graph->tasks));
        TRY(proof_task(&m, task, preferred));
    }
    TRY(proof_all_have_run(&m));
    TRY(proof_all_have_gone(&m));
done:
    arena_free(keep);
    return status;
}
