/* equivalence.c - a graph's tasks executed on symbolic devices, in orders chosen to expose
 * mistakes.
 *
 * Whatever a graph's streams and dependencies allow may happen. A task is ready when the one before
 * it on its stream and all that it depends on are over; of the ready tasks, the one whose stream
 * comes first in a random order of the streams is next, so that some streams run as far ahead as
 * they can and others wait as long as they can. A read before the write is found in one of these
 * orders; within a run of items the same is done with the two lanes (graph.h, I1).
 *
 *   E1  Every operator finds its inputs, its weights and its output's gradient (symbolic.c).
 *   E2  A step's exchange is one of the groups that its digits define.
 *   E3  A bucket's gradients are summed when all members have the same micro-batches of all its
 *       weights: all of them, or with shard 2 and 3 any. Before the optimizer's step every
 *       micro-batch is in the sum once; a tied weight's gradients are added to its owner's.
 *   E4  A bucket's exchanges have its bytes together, the slices of a folded schedule included.
 *   E5  Sharded weights are gathered after the step: at the end, or before their first use.
 *   E6  Checkpoints go to the host after their forward block, come back after that, and before they
 *       are used.
 *   E7  In the end every phase of every instance has run once on every device and micro-batch.
 */
#include "compile/equivalence.h"

#include <string.h>

#include "compile/proof.h"

/* ---- members --------------------------------------------------------------------------------- */

struct members {
    int32_t count;
    int32_t *device; /* numbers in the graph */
};

static int32_t graph_device_of(const struct graph *graph, int64_t device)
{
    int32_t found = -1;
    for (int32_t d = 0; d < graph->devices && found < 0; d++) {
        const struct stage *stage = &graph->plan->stage[graph->device[d].stage];
        bool inside =
            device >= stage->first_device && device < stage->first_device + stage->devices;
        if (graph->folded ? inside : graph->device[d].device == device)
            found = d;
    }
    return found;
}

/* The devices of the graph that belong to an exchange's group, each once. */
static struct members members_of(const struct symbolic_machine *m, const struct task *task)
{
    const struct graph *graph = m->p->graph;
    const struct exchange *e = &graph->exchange[task->exchange];
    struct group group = pattern_group(&graph->pattern[e->pattern], e->group);
    struct members out = {0, ARENA_ARRAY(m->p->arena, int32_t, (size_t)group_size(&group))};
    for (int64_t i = 0; i < group_size(&group); i++) {
        int32_t device = graph_device_of(graph, group_device(&group, i));
        bool known = false;
        for (int32_t k = 0; k < out.count; k++)
            known |= out.device[k] == device;
        if (!known)
            out.device[out.count++] = device;
    }
    return out;
}

/* ---- gradients of weights (E3, E4) ----------------------------------------------------------- */

static uint8_t *made_at(const struct symbolic_machine *m, int32_t device, int32_t micro_batch,
                        int64_t instance)
{
    return &m->made[row(m, device, micro_batch, m->p->plan->instances) + (size_t)instance];
}

/* Whether every micro-batch has this bit on a device. */
static bool all_have(const struct symbolic_machine *m, int32_t device, int64_t instance,
                     uint8_t bit)
{
    for (int32_t b = 0; b < m->micro_batches; b += joins_on(m, device))
        if (!(*made_at(m, device, b, instance) & bit))
            return false;
    return true;
}

static bool in_bucket(const struct symbolic_machine *m, int64_t instance, int32_t bucket)
{
    return op_trains(m->p->fact[instance].op) && m->p->fact[instance].bucket == bucket;
}

/* A slice that the previous iteration left: nothing of this iteration is there. */
static bool nothing_yet(const struct symbolic_machine *m, const struct members *members,
                        int32_t bucket)
{
    for (int64_t i = 0; i < m->p->plan->instances; i++)
        for (int32_t k = 0; k < members->count && in_bucket(m, i, bucket); k++)
            for (int32_t b = 0; b < m->micro_batches; b += joins_on(m, members->device[k]))
                if (*made_at(m, members->device[k], b, i) & BACK_WEIGHT)
                    return false;
    return true;
}

/* Sums one micro-batch, or all. */
static weft_status sum_gradient(struct symbolic_machine *m, const struct members *members,
                                int64_t instance, int32_t only)
{
    for (int32_t k = 0; k < members->count; k++)
        for (int32_t b = 0; b < m->micro_batches; b += joins_on(m, members->device[k])) {
            uint8_t *made = made_at(m, members->device[k], b, instance);
            if (only >= 0 && only != b)
                continue;
            if (!(*made & BACK_WEIGHT))
                return wrong(m, instance, "its gradients are summed without micro-batch %d", b);
            if (*made & SUMMED)
                return wrong(m, instance, "its gradients of micro-batch %d are summed twice", b);
            *made |= SUMMED;
        }
    return WEFT_OK;
}

/* Shares are added up across groups when each group has its sums. */
static weft_status add_up_shares(struct symbolic_machine *m, const struct members *members,
                                 int32_t bucket, int64_t bytes)
{
    for (int32_t k = 0; k < members->count; k++) {
        size_t here = place_in(members->device[k], bucket, m->p->graph->buckets);
        m->shares_added[here] += bytes;
        for (int64_t i = 0; i < m->p->plan->instances; i++)
            if (in_bucket(m, i, bucket) && !m->deferred[here] &&
                !all_have(m, members->device[k], i, SUMMED))
                return wrong(m, i, "its shares are added up before its gradients are summed");
    }
    return WEFT_OK;
}

static weft_status synchronise(struct symbolic_machine *m, const struct task *task)
{
    const struct bucket *bucket = &m->p->graph->bucket[task->about];
    struct members members = members_of(m, task);
    bool deferred = nothing_yet(m, &members, task->about);
    int32_t only = bucket->shard >= 2 ? task->micro_batch : -1;
    weft_status status = WEFT_OK;
    const struct exchange *exchange = &m->p->graph->exchange[task->exchange];
    if (exchange->pattern == bucket->across)
        return add_up_shares(m, &members, task->about, exchange->bytes);
    for (int32_t k = 0; k < members.count; k++) {
        size_t here = place_in(members.device[k], task->about, m->p->graph->buckets);
        m->synchronised[here] += m->p->graph->exchange[task->exchange].bytes;
        m->deferred[here] |= deferred;
    }
    for (int64_t i = 0; i < m->p->plan->instances && !deferred; i++)
        if (in_bucket(m, i, task->about))
            TRY(sum_gradient(m, &members, i, only));
done:
    return status;
}

static bool is_complete(const struct symbolic_machine *m, int32_t device, int64_t instance)
{
    bool sums = m->p->graph->bucket[m->p->fact[instance].bucket].pattern >= 0;
    return all_have(m, device, instance, sums ? SUMMED : BACK_WEIGHT);
}

/* Adds to `said` whose gradients of a tied weight a device has: those that it heard, and its own
 * complete ones. */
static weft_status note_gradients(struct symbolic_machine *m, int32_t device, int64_t user,
                                  uint8_t *said)
{
    const struct proof *p = m->p;
    int32_t stage = p->graph->device[device].stage;
    const int64_t own[] = {user, p->fact[user].owner};
    for (size_t k = 0; k < COUNT_OF(own); k++)
        if (p->fact[own[k]].stage == stage && !is_complete(m, device, own[k]))
            return wrong(m, own[k], "is tied before its gradients are complete");
        else if (p->fact[own[k]].stage == stage)
            *said |= (uint8_t)(k ? HEARD_OWNER : HEARD_USER);
    *said |= m->heard[place_in(device, user, p->plan->instances)];
    return WEFT_OK;
}

/* All members hear what any of them has; in a send, the receiver hears the sender. */
static weft_status tie(struct symbolic_machine *m, const struct task *task)
{
    struct members members = members_of(m, task);
    bool sends = m->p->graph->exchange[task->exchange].collective == COLLECTIVE_SEND;
    uint8_t said = 0;
    weft_status status = WEFT_OK;
    for (int32_t k = 0; k < (sends ? 1 : members.count); k++)
        TRY(note_gradients(m, members.device[k], task->reader, &said));
    for (int32_t k = sends; k < members.count; k++)
        m->heard[place_in(members.device[k], task->reader, m->p->plan->instances)] |= said;
done:
    return status;
}

static weft_status step_weight(struct symbolic_machine *m, int32_t device, int64_t instance)
{
    const struct fact *fact = &m->p->fact[instance], *owner = &m->p->fact[fact->owner];
    int32_t stage = m->p->graph->device[device].stage;
    uint8_t said = 0;
    weft_status status = WEFT_OK;
    if (!proof_has(m, device, instance))
        return WEFT_OK;
    if (fact->stage == stage && !is_complete(m, device, instance))
        TRY(wrong(m, instance, "its gradients are not summed before the optimizer's step"));
    if (fact->owner == instance || (stage != fact->stage && stage != owner->stage))
        return WEFT_OK;
    TRY(note_gradients(m, device, instance, &said));
    if (said != (HEARD_USER | HEARD_OWNER))
        TRY(wrong(m, instance, "its gradients have not been added to its owner's"));
done:
    return status;
}

static weft_status step_optimizer(struct symbolic_machine *m, const struct task *task)
{
    weft_status status = WEFT_OK;
    m->stepped[task->device] = true;
    for (int64_t i = 0; i < m->p->plan->instances; i++)
        if (op_trains(m->p->fact[i].op))
            TRY(step_weight(m, task->device, i));
done:
    return status;
}

/* ---- sharded weights (E5) -------------------------------------------------------------------- */

static weft_status gather(struct symbolic_machine *m, const struct task *task)
{
    const struct bucket *bucket = &m->p->graph->bucket[task->about];
    struct members members = members_of(m, task);
    int32_t stepped = 0;
    for (int32_t k = 0; k < members.count; k++)
        stepped += m->stepped[members.device[k]];
    for (int32_t k = 0; k < members.count; k++) {
        size_t here = place_in(members.device[k], task->about, m->p->graph->buckets);
        if (bucket->shard == 3) {
            m->gathers[here * (size_t)m->micro_batches + (size_t)task->micro_batch]++;
            continue;
        }
        if (m->gathered[here] || (stepped && stepped < members.count))
            return wrong(m, bucket->first, "its weights are gathered at the wrong time");
        if (m->stale[here] && !stepped)
            return wrong(m, bucket->first, "its weights are gathered after their first use");
        m->gathered[here] = true;
    }
    return WEFT_OK;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* The next item of a lane, starting at `from`; the run's end if there is none. */
static int32_t next_in_lane(const struct block *block, const struct task *task, int32_t from,
                            enum item_kind lane)
{
    while (from < task->first_item + task->items && block->item[from].kind != lane)
        from++;
    return from;
}

/* Whether an item of one lane may start when the other lane's next item is `other`: all that it
 * needs is over. */
static bool may_start(const struct block *block, const struct task *task, int32_t item,
                      int32_t other)
{
    if (item >= task->first_item + task->items)
        return false;
    int32_t needs = block->item[item].needs;
    return needs < task->first_item || block->item[needs].kind == block->item[item].kind ||
           needs < other;
}

/* A run of items, in which the preferred lane runs as far ahead as it can. */
static weft_status do_run(struct symbolic_machine *m, const struct task *task,
                          enum item_kind preferred)
{
    const struct block *block = &m->p->graph->block[task->block];
    if (task->idle)
        return WEFT_OK;
    struct at at = {task->device, task->micro_batch, task->block, 0};
    int32_t next[] = {next_in_lane(block, task, task->first_item, ITEM_OP),
                      next_in_lane(block, task, task->first_item, ITEM_STEP)};
    weft_status status = WEFT_OK;
    for (int32_t i = 0; i < task->items; i++) {
        enum item_kind lane = preferred, other = preferred == ITEM_OP ? ITEM_STEP : ITEM_OP;
        if (!may_start(block, task, next[lane], next[other])) {
            other = lane;
            lane = lane == ITEM_OP ? ITEM_STEP : ITEM_OP;
        }
        if (!may_start(block, task, next[lane], next[other]))
            TRY(wrong(m, -1, "its items wait for each other"));
        at.item = next[lane];
        next[lane] = next_in_lane(block, task, at.item + 1, lane);
        TRY(do_item(m, at));
    }
done:
    return status;
}

static weft_status do_step(struct symbolic_machine *m, const struct task *task)
{
    struct members members = members_of(m, task);
    const struct item *item = &m->p->graph->block[task->block].item[task->first_item];
    const struct exchange *e = &m->p->graph->exchange[task->exchange];
    weft_status status = WEFT_OK;
    if (e->pattern != item->pattern || e->collective != item->step->kind || e->bytes != item->bytes)
        TRY(wrong(m, item->instance, "the exchange of a step is not the step's"));
    if (item->step->kind == COLLECTIVE_BROADCAST)
        return proof_broadcast(m, members.device, members.count, task);
    for (int32_t k = 0; k < members.count; k++)
        TRY(do_item(
            m, (struct at){members.device[k], task->micro_batch, task->block, task->first_item}));
done:
    return status;
}

/* Whether the sender has, in its part's splits, what the receiver has the place for in its own (proof_layouts.c,
 * received). */
static bool sent_to_its_place(const struct symbolic_machine *m, const struct fact *sends,
                              const struct fact *receives, const struct group *pair)
{
    const struct plan *plan = m->p->plan;
    const struct stage *from = &plan->stage[sends->stage], *to = &plan->stage[receives->stage];
    int64_t sender = plan_place(plan, sends->part, group_device(pair, 0) - from->first_device);
    int64_t receiver = plan_place(plan, receives->part, group_device(pair, 1) - to->first_device);
    return sender == receiver * from->devices / to->devices;
}

static weft_status send(struct symbolic_machine *m, const struct task *task)
{
    const struct graph *graph = m->p->graph;
    const struct exchange *e = &graph->exchange[task->exchange];
    const struct pattern *pattern = &graph->pattern[e->pattern];
    struct group pair = pattern_group(pattern, e->group);
    int32_t from = graph_device_of(graph, group_device(&pair, 0));
    int32_t to = graph_device_of(graph, group_device(&pair, 1));
    const struct reading *r = &m->p->reading[m->p->fact[task->reader].first_reading + task->about];
    enum flow flow = task->stream == STREAM_PREVIOUS ? FLOW_GRADIENT : FLOW_FORWARD;
    const struct fact *ends[] = {&m->p->fact[r->source], &m->p->fact[r->reader]};
    const struct fact *sends = ends[flow == FLOW_GRADIENT], *receives = ends[flow == FLOW_FORWARD];
    if (graph->device[from].stage != sends->stage || graph->device[to].stage != receives->stage)
        return wrong(m, task->reader, "is sent between other stages than its source's and its own");
    if (!sent_to_its_place(m, sends, receives, &pair))
        return wrong(m, task->reader, "is sent to another device's place");
    return do_send(m, r, flow, from, to, task->micro_batch, pattern->reshard);
}

weft_status proof_task(struct symbolic_machine *m, int32_t number, enum item_kind preferred)
{
    const struct task *task = &m->p->graph->task[number];
    weft_status status;
    m->task = number;
    if (task->block >= 0 && task->stream == STREAM_COMPUTE) {
        TRY(proof_need_host(m, task));
        return do_run(m, task, preferred);
    }
    if (task->block >= 0) {
        TRY(proof_need_unit(m, task));
        return task->exchange < 0 ? do_run(m, task, preferred) : do_step(m, task);
    }
    if (task->micro_batch < 0 && task->stream >= STREAM_TO_HOST)
        return WEFT_OK; /* a part of the optimizer's step, which was proved on the device */
    if (task->exchange < 0)
        return step_optimizer(m, task);
    if (task->purpose == PURPOSE_PIPELINE)
        return send(m, task);
    if (task->purpose == PURPOSE_OFFLOAD)
        return proof_copy(m, task);
    if (task->about < 0)
        return tie(m, task);
    return task->stream == STREAM_GRADIENT ? synchronise(m, task) : gather(m, task);
done:
    return status;
}

/* ---- the end (E4, E5, E7) -------------------------------------------------------------------- */

weft_status proof_all_have_run(struct symbolic_machine *m)
{
    const struct proof *p = m->p;
    for (int32_t d = 0; d < p->graph->devices; d++)
        for (int32_t b = 0; b < m->micro_batches; b += joins_on(m, d))
            for (int64_t i = 0; i < p->plan->instances; i++) {
                const struct fact *fact = &p->fact[i];
                uint8_t made = *made_at(m, d, b, i) &
                               (uint8_t)~(COPIED | SUMMED | (fact->spared ? MADE_AGAIN : 0));
                bool again = fact->choice->recompute && !fact->spared;
                uint8_t all = (uint8_t)(MADE | (again ? MADE_AGAIN : 0) |
                                        (fact->op->input_grad ? BACK_INPUT : 0) |
                                        (op_trains(fact->op) ? BACK_WEIGHT : 0));
                if (!proof_has(m, d, i))
                    all = 0;
                if (fact->stage == p->graph->device[d].stage && made != all)
                    return failure("stage %d, micro-batch %d: %s has not run all its phases once",
                                   fact->stage, b, plan_path(p->arena, p->plan, i));
            }
    return WEFT_OK;
}

weft_status proof_all_have_gone(const struct symbolic_machine *m)
{
    const struct graph *graph = m->p->graph;
    for (int32_t d = 0; d < graph->devices; d++)
        for (int32_t i = 0; i < graph->buckets; i++) {
            const struct bucket *bucket = &graph->bucket[i];
            size_t here = place_in(d, i, graph->buckets);
            int64_t times = bucket->pattern < 0  ? 0
                            : bucket->shard >= 2 ? m->micro_batches / joins_on(m, d)
                                                 : 1;
            if (plan_stage_of_part(m->p->plan, bucket->part) != graph->device[d].stage ||
                !proof_has(m, d, bucket->first))
                continue;
            if (m->synchronised[here] != times * bucket->bytes)
                return failure("%s: %lld bytes of its bucket's gradients are summed, expected %lld",
                               plan_path(m->p->arena, m->p->plan, bucket->first),
                               (long long)m->synchronised[here],
                               (long long)(times * bucket->bytes));
            if (!shares_are(graph, bucket, m->shares_added[here]))
                return failure("%s: its bucket's shares are not added up across groups",
                               plan_path(m->p->arena, m->p->plan, bucket->first));
            if ((bucket->shard == 1 || bucket->shard == 2) && bucket->gather_bytes &&
                !m->gathered[here])
                return failure("%s: its weights are never gathered",
                               plan_path(m->p->arena, m->p->plan, bucket->first));
        }
    return WEFT_OK;
}

/* ---- checks that do not depend on an order (E2) ---------------------------------------------- */

static bool same_group(const struct group *a, const struct group *b, int64_t first)
{
    if (group_size(a) != group_size(b))
        return false;
    for (int64_t i = 0; i < group_size(a); i++) {
        bool found = false;
        for (int64_t k = 0; k < group_size(b) && !found; k++)
            found = group_device(a, i) == group_device(b, k) + first;
        if (!found)
            return false;
    }
    return true;
}

static weft_status check_pattern(const struct proof *p, int32_t stage, const struct item *item)
{
    const struct stage *own = &p->plan->stage[stage];
    const struct pattern *pattern = &p->graph->pattern[item->pattern];
    for (int64_t i = 0; i < own->devices; i++) {
        int64_t device = own->first_device + i;
        if (item->run.devices && !run_has(item->run, i))
            continue;
        struct group is = pattern_group(pattern, pattern_group_of(pattern, device));
        struct group should = step_group(item->step, i);
        if (!same_group(&is, &should, own->first_device))
            return failure("stage %d: %s: the %s of input %d is over the wrong devices", stage,
                           plan_path(p->arena, p->plan, item->instance),
                           step_name(item->step->kind), item->operand);
    }
    return WEFT_OK;
}

static weft_status check_blocks(const struct proof *p)
{
    weft_status status = WEFT_OK;
    for (int32_t b = 0; b < p->graph->blocks; b++) {
        const struct block *block = &p->graph->block[b];
        for (int32_t i = 0; i < block->items; i++) {
            if (block->item[i].needs >= i)
                TRY(failure("item %d of block %d needs a later one", i, b));
            if (block->item[i].kind == ITEM_STEP && block->item[i].pattern >= 0)
                TRY(check_pattern(p, plan_stage_of_part(p->plan, block->part), &block->item[i]));
        }
    }
done:
    return status;
}

enum { ORDERS = 3 };

weft_status graph_verify(const struct graph *graph)
{
    struct proof p = {
        .graph = graph, .plan = graph->plan, .model = graph->plan->model, .arena = arena_new()};
    struct rng rng;
    weft_status status;
    rng_seed(&rng, (uint64_t)graph->tasks);
    TRY(walk_model(&p));
    TRY(find_buckets(&p));
    TRY(check_blocks(&p));
    p.offloads = ARENA_ARRAY(p.arena, bool, (size_t)p.plan->parts);
    for (int32_t part = 0; part < p.plan->parts; part++)
        p.offloads[part] = offloaded_bytes(&graph->lifetimes->part[part]) > 0;
    struct task_queues q = proof_queues(graph, p.arena);
    for (int i = 0; i < ORDERS; i++)
        TRY(proof_execute(&p, &q, &rng));
done:
    arena_free(p.arena);
    return status;
}
