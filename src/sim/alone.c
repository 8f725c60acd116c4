/* alone.c - how long a block takes when nothing from outside slows it down.
 *
 * The engine runs it once, with two streams for its two lanes. The blocks of a deep pipeline are mostly alike: 44 of the
 * 48 of GPT-3 175B with eight stages of three pieces.
 *
 *   I1  Blocks of which the engine is told the same take the same time. It is asked once for all of them.
 *   I2  All steps are on one stream, so that no two flows of a block meet: of a flow nothing counts but its bytes on each
 *       link and how fast these links are.
 */
#include "sim/room.h"

enum lane { LANE_OPS, LANE_STEPS, LANE_COUNT };

struct lanes {
    int32_t *stream, *flow, *depends, *order;
    int64_t *ns, *depends_first, *order_first;
};
/* A block and what it took. */
struct lone_block {
    struct arena *arena; /* owns what follows, and this */
    struct engine_graph graph;
    int64_t ns;
    struct lone_block *older;
};

void tell_flows(const struct simulation *s, struct engine_graph *g)
{
    g->flows = s->flows.flows;
    g->links = s->flows.links;
    g->link_bytes_per_s = s->flows.link_bytes_per_s;
    g->flow_least_ns = s->flows.least_ns;
    g->flow_use_first = s->flows.use_first;
    g->flow_use = s->flows.use;
}

/* ---- its graph ------------------------------------------------------------------------------- */

static struct lanes lanes_new(struct arena *scratch, size_t runs)
{
    return (struct lanes){
        ARENA_ARRAY(scratch, int32_t, runs),          ARENA_ARRAY(scratch, int32_t, runs),
        ARENA_ARRAY(scratch, int32_t, runs),          ARENA_ARRAY(scratch, int32_t, runs),
        ARENA_ARRAY(scratch, int64_t, runs),          ARENA_ARRAY(scratch, int64_t, runs + 1),
        ARENA_ARRAY(scratch, int64_t, LANE_COUNT + 1)};
}

/* The items of a run as tasks of their own: when slowed down, they end with whole nanoseconds. */
static struct lanes lanes_of(struct simulation *s, struct arena *scratch, const struct block *block,
                             const struct block_runs *runs, const int64_t *ns)
{
    struct lanes l = lanes_new(scratch, (size_t)runs->count);
    int64_t depends = 0, placed = 0;
    for (int32_t i = 0; i < runs->count; i++) {
        const struct block_run *run = &runs->run[i];
        l.stream[i] = run->step ? LANE_STEPS : LANE_OPS;
        l.flow[i] = run->step ? block->item[run->first].exchange : -1;
        for (int32_t k = run->first; k < run->first + run->items; k++)
            l.ns[i] += run->step || block->item[k].kind == ITEM_OP ? ns[k] : 0;
        if (l.flow[i] >= 0)
            l.ns[i] = s->flows.latency_ns[l.flow[i]];
        if (run->after >= 0)
            l.depends[depends++] = run->after;
        l.depends_first[i + 1] = depends;
    }
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        for (int32_t i = 0; i < runs->count; i++)
            if (l.stream[i] == lane)
                l.order[placed++] = i;
        l.order_first[lane + 1] = placed;
    }
    return l;
}

static void tell_block(struct simulation *s, int32_t number, struct lone_block *lone)
{
    static const int32_t LANE_DEVICE[] = {0, -1};
    const struct block *block = &s->graph->block[number];
    struct arena *keep = lone->arena;
    struct block_runs runs = cut_block(keep, block, CUT_STEPS);
    struct lanes l = lanes_of(s, keep, block, &runs, s->item_ns + s->item_first[number]);
    struct engine_graph *g = &lone->graph;
    *g = (struct engine_graph){.tasks = runs.count,
                               .streams = LANE_COUNT,
                               .devices = 1,
                               .task_stream = l.stream,
                               .task_ns = l.ns,
                               .task_flow = l.flow,
                               .depends_first = l.depends_first,
                               .depends = l.depends,
                               .order_first = l.order_first,
                               .order = l.order};
    tell_flows(s, g);
    g->stream_device = LANE_DEVICE;
    tell_block_interference(s, keep, g, block, &runs);
}

/* ---- those that are alike (I1) --------------------------------------------------------------- */

/* I2 */
static bool flows_alike(const struct engine_graph *g, int32_t a, int32_t b)
{
    if (a == b || a < 0 || b < 0)
        return a == b;
    const struct link_use *x = &g->flow_use[g->flow_use_first[a]],
                          *y = &g->flow_use[g->flow_use_first[b]];
    int64_t uses = g->flow_use_first[a + 1] - g->flow_use_first[a];
    bool alike = uses == g->flow_use_first[b + 1] - g->flow_use_first[b] &&
                 g->flow_least_ns[a] == g->flow_least_ns[b] &&
                 (!g->flow_slowdown || g->flow_slowdown[a] == g->flow_slowdown[b]);
    for (int64_t i = 0; alike && i < uses; i++)
        alike = x[i].bytes == y[i].bytes && x[i].times == y[i].times &&
                g->link_bytes_per_s[x[i].link] == g->link_bytes_per_s[y[i].link];
    return alike;
}

static bool tasks_alike(const struct engine_graph *a, const struct engine_graph *b, int32_t t)
{
    int64_t depends = a->depends_first[t];
    return a->task_ns[t] == b->task_ns[t] && a->task_stream[t] == b->task_stream[t] &&
           a->depends_first[t + 1] == b->depends_first[t + 1] &&
           (a->depends_first[t + 1] == depends || a->depends[depends] == b->depends[depends]) &&
           (!a->task_slowed ||
            (a->task_slowed[t] == b->task_slowed[t] && a->task_slows[t] == b->task_slows[t])) &&
           flows_alike(a, a->task_flow[t], b->task_flow[t]);
}

static bool graphs_alike(const struct engine_graph *a, const struct engine_graph *b)
{
    bool alike = a->tasks == b->tasks;
    for (int32_t t = 0; alike && t < a->tasks; t++)
        alike = tasks_alike(a, b, t);
    return alike;
}

static const struct lone_block *known_block(const struct simulation *s,
                                            const struct lone_block *lone)
{
    const struct lone_block *known = s->lone;
    while (known && !graphs_alike(&known->graph, &lone->graph))
        known = known->older;
    return known;
}

/* ---- the whole ------------------------------------------------------------------------------- */

weft_status find_alone_ns(struct simulation *s, int32_t block, int64_t *out)
{
    struct arena *arena = arena_new();
    struct lone_block *lone = ARENA_NEW(arena, struct lone_block);
    struct engine_result result;
    weft_status status = WEFT_OK;
    lone->arena = arena;
    tell_block(s, block, lone);
    const struct lone_block *known = known_block(s, lone);
    if (known) {
        *out = known->ns;
        goto done;
    }
    TRY(engine_run(arena, &lone->graph, &result));
    *out = lone->ns = result.end;
    lone->older = s->lone;
    s->lone = lone;
    arena = NULL;
done:
    arena_free(arena);
    return status;
}

void lone_blocks_free(struct simulation *s)
{
    while (s->lone) {
        struct lone_block *older = s->lone->older;
        arena_free(s->lone->arena);
        s->lone = older;
    }
}
