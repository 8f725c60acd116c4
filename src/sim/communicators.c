/* communicators.c - what the groups that a stage's devices are in keep on each of them.
 *
 * Devices that exchange have a communicator, whatever for: those of tensor, sequence, context and expert
 * parallelism inside a stage, of gradients and sharded state, of a weight that two stages share; and all that
 * a device sends to other stages goes through the pipeline's. So
 *
 *   bytes = sum over groups of communicator_bytes + of the pipeline, a pair per other stage      (1)
 *
 * with all collectives that the group is used for.
 *
 *   I1  Tokens that are sent once to a node (COPIES_NODES) do not go through NCCL but through buffers of the dispatcher:
 *       room for all tokens of the group, once to be dispatched and once to be combined, in 16 bits (DeepEP, branch
 *       hybrid-ep: allocate_buffer_for_dispatch, max_num_of_tokens_for_experts x hidden_dim). Other all-to-alls of such
 *       a plan, those of attention's heads, are not counted.
 */
#include "sim/room.h"

static int32_t stage_at(const struct plan *plan, int64_t device)
{
    int32_t stage = 0;
    while (device >= plan->stage[stage].first_device + plan->stage[stage].devices)
        stage++;
    return stage;
}

static bool dispatches_by_nodes(const struct plan *plan, const struct op *op)
{
    return op->kind == OP_DISPATCH && plan_token_copies(&plan->software, op) == COPIES_NODES;
}

/* I1: of one stage. The experts follow the operator that dispatches to them. */
static int64_t dispatch_bytes(const struct plan *plan, int32_t stage)
{
    double most = 0;
    for (int32_t part = stage; part < plan->parts; part += plan->stages)
        for (int64_t k = 0; k + 1 < plan->part[part].count; k++) {
            int64_t i = plan->part[part].first + k, local[OP_MAX_DIMS];
            const struct op *op = &plan->model->op[plan->instance[i].op];
            if (!dispatches_by_nodes(plan, op))
                continue;
            split_local(op, &plan_choice(plan, i)->split, plan_samples(plan, plan_choice(plan, i)),
                        local);
            double tokens = operand_bytes(op, &op->input[0], local, plan->dtype);
            int64_t ranks = split_degree(&plan_choice(plan, i + 1)->split, DIM_EXPERT);
            double bytes = ranks > 1 ? 2 * tokens * (double)ranks : 0;
            most = bytes > most ? bytes : most;
        }
    return (int64_t)most;
}

static bool any_by_nodes(const struct plan *plan)
{
    bool any = false;
    for (int32_t i = 0; i < plan->model->ops; i++)
        any |= dispatches_by_nodes(plan, &plan->model->op[i]);
    return any;
}

/* Per pattern: 1 << enum collective, of those that it is used for. */
static const unsigned *collectives_of(struct arena *scratch, const struct graph *graph)
{
    unsigned *used = ARENA_ARRAY(scratch, unsigned, (size_t)graph->patterns + 1);
    bool own = any_by_nodes(graph->plan); /* I1 */
    for (int32_t i = 0; i < graph->exchanges; i++) {
        const struct exchange *exchange = &graph->exchange[i];
        bool apart = own && exchange->collective == COLLECTIVE_ALL_TO_ALL;
        if (exchange->kind == EXCHANGE_COLLECTIVE && exchange->pattern >= 0 && !apart)
            used[exchange->pattern] |= 1U << exchange->collective;
    }
    return used;
}

/* To every stage that has devices in the group. */
static void add_group(const struct plan *plan, const struct group *group, int64_t more,
                      int64_t *bytes)
{
    int32_t before = -1;
    for (int64_t i = 0; i < group_size(group); i++) {
        int32_t stage = stage_at(plan, group_device(group, i));
        bytes[stage] += stage != before ? more : 0;
        before = stage;
    }
}

/* One pair for each two stages that send to each other, whatever they send. */
struct neighbours {
    bool *known;   /* per two stages */
    bool *between; /* per stage: sends to another node, by the pool that pairs share, are counted */
    int64_t *bytes; /* per stage */
};

static void add_neighbour(struct neighbours *n, int32_t stage, int64_t bytes, bool between)
{
    n->bytes[stage] += between && n->between[stage] ? 0 : bytes;
    n->between[stage] |= between;
}

static void add_neighbours(const struct plan *plan, const struct pattern *pattern,
                           struct neighbours *n)
{
    int32_t from = stage_at(plan, pattern->from_first), to = stage_at(plan, pattern->first);
    int32_t low = from < to ? from : to, high = from < to ? to : from;
    bool *known = &n->known[low * plan->stages + high];
    if (*known || low == high)
        return;
    *known = true;
    struct device_order order = plan_device_order(plan);
    int64_t first = device_at(&order, plan->stage[low].first_device);
    int64_t other = device_at(&order, plan->stage[high].first_device);
    int64_t node = plan->cluster->node.devices;
    struct group pair = group_range(first, 2, other - first);
    int64_t bytes = communicator_bytes(plan->cluster, &pair, 1U << COLLECTIVE_SEND);
    add_neighbour(n, low, bytes, first / node != other / node);
    add_neighbour(n, high, bytes, first / node != other / node);
}

const int64_t *find_communicators(struct arena *scratch, const struct graph *graph)
{
    const struct plan *plan = graph->plan;
    size_t stages = (size_t)plan->stages;
    int64_t *bytes = ARENA_ARRAY(scratch, int64_t, stages);
    struct neighbours neighbours = {ARENA_ARRAY(scratch, bool, stages *stages),
                                    ARENA_ARRAY(scratch, bool, stages), bytes};
    const unsigned *used = collectives_of(scratch, graph);
    for (int32_t i = 0; i < graph->patterns; i++) {
        const struct pattern *pattern = &graph->pattern[i];
        if (pattern->collective == COLLECTIVE_SEND) {
            add_neighbours(plan, pattern, &neighbours);
            continue;
        }
        struct group group = pattern_group(pattern, 0), at = pattern_group_at(pattern, 0);
        add_group(plan, &group, communicator_bytes(plan->cluster, &at, used[i]), bytes);
    }
    for (int32_t s = 0; s < plan->stages; s++)
        bytes[s] += dispatch_bytes(plan, s);
    return bytes;
}
