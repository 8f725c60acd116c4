/* passes.c - the passes of one part, run by the engine (passes.h). */
#include "search/estimate/pass_order.h"

#include <string.h>

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

enum lane { LANE_OPS, LANE_STEPS, LANE_GATHERS, LANE_GRADIENTS, LANE_COUNT };

struct pass_wait {
    int32_t task, on;
};
struct script {
    const struct timed *timed;
    struct arena *scratch;
    ARRAY(int32_t) stream;
    ARRAY(int32_t) flow;
    ARRAY(int64_t) ns;
    ARRAY(struct pass_wait) waits; /* by task, ascending */
    int32_t last[LANE_COUNT];      /* tasks */
    /* The last computation before the unit whose weights were gathered last. */
    int32_t before_unit;
    int32_t features, computed; /* the latest task of either lane before the current pass */
    bool begun[LANE_COUNT];     /* whether this lane has a task of the current pass yet */
    int32_t *task[MOST_PASSES]; /* per item */
    /* For the passes of a pair, per item: when it is over in the pass's own time (I3). */
    int64_t *own[MOST_PASSES];
    int32_t gradients[MOST_PASSES]; /* the latest gradient task after each pass */
};

static void wait_for(struct script *s, int32_t on)
{
    struct pass_wait wait = {(int32_t)s->ns.len, on};
    if (on != NONE)
        array_push(s->scratch, &s->waits, wait);
}

/* Adds a task, after its waits were added. */
static int32_t add(struct script *s, enum lane lane, int32_t flow, int64_t ns)
{
    int32_t task = (int32_t)s->ns.len, stream = (int32_t)lane;
    array_push(s->scratch, &s->stream, stream);
    array_push(s->scratch, &s->flow, flow);
    array_push(s->scratch, &s->ns, ns);
    s->last[lane] = task;
    return task;
}

static void add_exchange(struct script *s, enum lane lane, int32_t exchange)
{
    add(s, lane, exchange, s->timed->flows.latency_ns[exchange]);
}

/* ---- what goes on beside a pass -------------------------------------------------------------- */

static bool gathered_for(const struct timed *t, const struct pass *pass, int32_t bucket)
{
    int shard = t->outline.graph->bucket[bucket].shard;
    if (t->outline.gather[bucket] < 0)
        return false;
    if (shard == 3)
        return pass->kind != SLOT_BACKWARD_WEIGHT;
    return (t->plan->overlap & OVERLAP_PARAMETERS) && pass->first;
}

static void gather_ahead(struct script *s, int32_t bucket)
{
    const struct plan *plan = s->timed->plan;
    bool aligned = s->timed->outline.graph->bucket[bucket].shard < 3 &&
                   plan_aligns_gathers(&plan->software, plan->pieces);
    if ((plan->overlap & OVERLAP_PARAMETERS) && !aligned) {
        wait_for(s, s->before_unit);
    } else if (!aligned) {
        wait_for(s, s->last[LANE_OPS]);
        wait_for(s, s->last[LANE_STEPS]);
    }
    add_exchange(s, LANE_GATHERS, s->timed->outline.gather[bucket]);
    s->before_unit = s->last[LANE_OPS];
}

static bool goes_now(const struct timed *t, const struct pass *pass, int32_t bucket)
{
    bool completes = pass->kind == SLOT_BACKWARD || pass->kind == SLOT_BACKWARD_WEIGHT;
    return completes && t->outline.synchronise[bucket] >= 0 &&
           (pass->last || t->outline.graph->bucket[bucket].shard >= 2);
}

static void synchronise(struct script *s, int32_t bucket, bool last)
{
    wait_for(s, s->last[LANE_OPS]);
    if (!(s->timed->plan->overlap & OVERLAP_GRADIENTS))
        wait_for(s, s->last[LANE_STEPS]);
    add_exchange(s, LANE_GRADIENTS, s->timed->outline.synchronise[bucket]);
    if (last && s->timed->outline.across[bucket] >= 0)
        add_exchange(s, LANE_GRADIENTS, s->timed->outline.across[bucket]);
}

/* Per item of a block: the bucket that it is the first to read, and the one that it completes; or
 * NONE. */
struct item_buckets {
    int32_t *reads, *completes;
};
static struct item_buckets buckets_of(struct arena *scratch, const struct block *block)
{
    size_t bytes = (size_t)block->items * sizeof(int32_t);
    struct item_buckets out = {ARENA_ARRAY(scratch, int32_t, (size_t)block->items),
                               ARENA_ARRAY(scratch, int32_t, (size_t)block->items)};
    if (!block->items)
        return out;
    memset(out.reads, NONE, bytes);
    memset(out.completes, NONE, bytes);
    for (int32_t k = 0; k < block->buckets; k++) {
        if (block->reads[k] >= 0)
            out.reads[block->reads[k]] = block->first_bucket + k;
        if (block->completes[k] >= 0)
            out.completes[block->completes[k]] = block->first_bucket + k;
    }
    return out;
}

/* ---- a pass ---------------------------------------------------------------------------------- */

static void begin_lane(struct script *s, enum lane lane)
{
    if (s->begun[lane])
        return;
    s->begun[lane] = true;
    wait_for(s, s->features);
    wait_for(s, s->computed);
    if (!(s->timed->plan->overlap & OVERLAP_GRADIENTS))
        wait_for(s, s->last[LANE_GRADIENTS]);
}

static int32_t add_item(struct script *s, const struct block *block, int32_t i, const int64_t *ns,
                        const int32_t *task)
{
    const struct item *item = &block->item[i];
    enum lane lane = item->kind == ITEM_OP ? LANE_OPS : LANE_STEPS;
    begin_lane(s, lane);
    if (item->needs >= 0)
        wait_for(s, task[item->needs]);
    if (item->kind == ITEM_STEP && item->exchange >= 0)
        return add(s, lane, item->exchange, s->timed->flows.latency_ns[item->exchange]);
    return add(s, lane, NONE, item->kind == ITEM_OP ? ns[i] : 0);
}

/* A pass that is being written into the script. */
struct pass_writing {
    const struct pass *pass;
    const struct block *block;
    const int64_t *ns;
    struct item_buckets bucket;
    int32_t *task; /* per item */
};

static struct pass_writing start_pass(struct script *s, int32_t part, const struct pass *pass)
{
    const struct timed *t = s->timed;
    int32_t number = t->block_of[pass->kind][part];
    const struct block *block = &t->outline.graph->block[number];
    return (struct pass_writing){pass, block, t->item_ns + t->item_first[number],
                                 buckets_of(s->scratch, block),
                                 ARENA_ARRAY(s->scratch, int32_t, (size_t)block->items)};
}

static void begin_lanes(struct script *s)
{
    s->features = s->last[LANE_STEPS];
    s->computed = s->last[LANE_OPS];
    memset(s->begun, 0, sizeof s->begun);
}

static void add_items(struct script *s, const struct pass_writing *w, int32_t first, int32_t last)
{
    const struct timed *t = s->timed;
    bool beside = t->plan->overlap & OVERLAP_GRADIENTS;
    for (int32_t i = first; i < last; i++) {
        int32_t reads = w->bucket.reads[i], completes = w->bucket.completes[i];
        bool gathered = reads >= 0 && gathered_for(t, w->pass, reads);
        if (gathered)
            gather_ahead(s, reads);
        if (gathered)
            wait_for(s, s->last[LANE_GATHERS]);
        w->task[i] = add_item(s, w->block, i, w->ns, w->task);
        if (beside && completes >= 0 && goes_now(t, w->pass, completes))
            synchronise(s, completes, w->pass->last);
    }
}

static void end_pass(struct script *s, const struct pass_writing *w)
{
    bool beside = s->timed->plan->overlap & OVERLAP_GRADIENTS;
    for (int32_t k = 0; !beside && k < w->block->buckets; k++)
        if (goes_now(s->timed, w->pass, w->block->first_bucket + k))
            synchronise(s, w->block->first_bucket + k, w->pass->last);
}

static void add_pass(struct script *s, int32_t part, const struct pass *pass, int32_t **out)
{
    struct pass_writing w = start_pass(s, part, pass);
    begin_lanes(s);
    add_items(s, &w, 0, w.block->items);
    end_pass(s, &w);
    *out = w.task;
}

/* Interleaves the two passes of a pair as compile/emit.c does. */
static void add_pair(struct script *s, int32_t part, const struct pass *pass, int32_t **out)
{
    struct pass_writing w[] = {start_pass(s, part, &pass[0]), start_pass(s, part, &pass[1])};
    struct pair_turns turns = turns_of_pair(s->scratch, w[0].block, w[1].block);
    begin_lanes(s);
    for (size_t i = 0; i < turns.len; i++)
        add_items(s, &w[turns.data[i].backward], turns.data[i].first, turns.data[i].last);
    for (int k = 0; k < 2; k++) {
        end_pass(s, &w[k]);
        out[k] = w[k].task;
    }
}

/* ---- all passes ------------------------------------------------------------------------------ */

/* Lists the waits of each task one task after the other. */
static void list_waits(const struct script *s, int64_t **first, int32_t **on)
{
    size_t tasks = s->ns.len;
    *first = ARENA_ARRAY(s->scratch, int64_t, tasks + 1);
    *on = ARENA_ARRAY(s->scratch, int32_t, s->waits.len);
    for (size_t i = 0; i < s->waits.len; i++) {
        (*on)[i] = s->waits.data[i].on;
        (*first)[s->waits.data[i].task + 1]++;
    }
    for (size_t t = 0; t < tasks; t++)
        (*first)[t + 1] += (*first)[t];
}

static void list_lanes(const struct script *s, int64_t **first, int32_t **order)
{
    int64_t placed = 0;
    *first = ARENA_ARRAY(s->scratch, int64_t, LANE_COUNT + 1);
    *order = ARENA_ARRAY(s->scratch, int32_t, s->ns.len);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        for (size_t t = 0; t < s->ns.len; t++)
            if (s->stream.data[t] == lane)
                (*order)[placed++] = (int32_t)t;
        (*first)[lane + 1] = placed;
    }
}

/* I2: all flows use the one device. */
static void tell_interference(const struct script *s, struct engine_graph *g)
{
    size_t flows = (size_t)s->timed->flows.flows;
    int64_t *first = ARENA_ARRAY(s->scratch, int64_t, flows + 1);
    for (size_t i = 0; i < flows; i++)
        first[i + 1] = (int64_t)i + 1;
    g->device_slowdown = &s->timed->slowdown;
    g->flow_slowdown = s->timed->token_slowdown;
    g->flow_device_first = first;
    g->flow_device = ARENA_ARRAY(s->scratch, int32_t, flows + 1);
}

static weft_status run_script(const struct script *s, struct engine_result *result)
{
    static const int32_t LANE_DEVICE[] = {0, -1, -1, -1};
    const struct flows *flows = &s->timed->flows;
    int64_t *first, *order_first;
    int32_t *depends, *order;
    list_waits(s, &first, &depends);
    list_lanes(s, &order_first, &order);
    struct engine_graph g = {.tasks = (int32_t)s->ns.len,
                             .streams = LANE_COUNT,
                             .flows = flows->flows,
                             .links = flows->links,
                             .devices = 1,
                             .task_stream = s->stream.data,
                             .task_ns = s->ns.data,
                             .task_flow = s->flow.data,
                             .depends_first = first,
                             .depends = depends,
                             .order_first = order_first,
                             .order = order,
                             .flow_least_ns = flows->least_ns,
                             .flow_use_first = flows->use_first,
                             .flow_use = flows->use,
                             .link_bytes_per_s = flows->link_bytes_per_s,
                             .stream_device = LANE_DEVICE};
    if (s->timed->slowdown > 1)
        tell_interference(s, &g);
    return engine_run(s->scratch, &g, result);
}

static int64_t gradients_end(const struct script *s, const struct engine_result *result,
                             int32_t pass)
{
    return s->gradients[pass] >= 0 ? result->end_ns[s->gradients[pass]] : 0;
}

/* Without overlap a pass also includes the gradients that the next pass waits for. */
static int64_t end_of_pass(const struct script *s, const struct engine_result *result,
                           const struct block *block, int32_t pass, bool last)
{
    bool beside = s->timed->plan->overlap & OVERLAP_GRADIENTS;
    int64_t end = beside || last ? 0 : gradients_end(s, result, pass);
    for (int32_t i = 0; i < block->items; i++) {
        int64_t item = result->end_ns[s->task[pass][i]];
        end = item > end ? item : end;
    }
    return end;
}

static const struct block *block_at(const struct timed *t, int32_t part, const struct pass *pass)
{
    return &t->outline.graph->block[t->block_of[pass->kind][part]];
}

/* The times of one pass of a pair by itself (I3): per item when it is over, counted from the start
 * of the pass. Returns how long the pass's operators take. */
static int64_t own_time(struct script *s, const struct block *block, int32_t pass,
                        const int64_t *counts)
{
    int64_t ns = 0;
    s->own[pass] = ARENA_ARRAY(s->scratch, int64_t, (size_t)block->items);
    for (int32_t i = 0; i < block->items; i++) {
        ns += counts[s->task[pass][i]];
        s->own[pass][i] = ns;
    }
    return ns;
}

/* Divides a pair into its passes as if one came after the other: how long each takes. */
static void divide_pair(struct script *s, const struct engine_result *result,
                        const struct part_passes *passes, int32_t part, int32_t pass, int64_t *end)
{
    const struct block *block[] = {block_at(s->timed, part, &passes->pass[pass]),
                                   block_at(s->timed, part, &passes->pass[pass + 1])};
    int64_t start = end[pass], over = start, before = start;
    int64_t *counts = ARENA_ARRAY(s->scratch, int64_t, s->ns.len); /* per task */
    for (int k = 0; k < 2; k++)
        over = larger(over, end_of_pass(s, result, block[k], pass + k, false));
    int32_t first = INT32_MAX, last = -1;
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < block[k]->items; i++) {
            int32_t task = s->task[pass + k][i];
            first = task < first ? task : first;
            last = task > last ? task : last;
        }
    for (int32_t t = first; t <= last; t++) {
        if (s->stream.data[t] != LANE_OPS)
            continue;
        counts[t] = larger(0, result->end_ns[t] - before);
        before = larger(before, result->end_ns[t]);
    }
    int64_t forward = own_time(s, block[0], pass, counts);
    own_time(s, block[1], pass + 1, counts);
    end[pass + 1] = start + forward;
    end[pass + 2] = over;
}

/* When each pass is over, from [1] on; [0] is the start. */
static void find_ends(struct script *s, const struct engine_result *result,
                      const struct part_passes *passes, int32_t part, int64_t *end)
{
    end[0] = 0;
    for (int32_t p = 0; p < passes->count; p++) {
        const struct pass *pass = &passes->pass[p];
        if (pass->paired) {
            divide_pair(s, result, passes, part, p++, end);
            continue;
        }
        int64_t over = end_of_pass(s, result, block_at(s->timed, part, pass), p, pass->last);
        end[p + 1] = larger(over, end[p]);
    }
}

/* How long gradients continue after a pass. */
static int64_t tail_after(const struct script *s, const struct engine_result *result,
                          const int64_t *end, int32_t pass)
{
    return larger(0, gradients_end(s, result, pass) - end[pass + 1]);
}

/* By how much further the gradients that are synchronised with every micro-batch are behind after a
 * round than before it: measured from the first round to the second, in which no other gradients
 * are sent (rounds_of). */
static int64_t lag_of(const struct script *s, const struct engine_result *result,
                      const struct part_passes *passes, const int64_t *end)
{
    enum slot_kind completes =
        passes->number[PASS_WEIGHT] >= 0 ? SLOT_BACKWARD_WEIGHT : SLOT_BACKWARD;
    int32_t first = nth_pass(passes, completes, 1), second = nth_pass(passes, completes, 2);
    if (passes->rounds < MOST_ROUNDS || !(s->timed->plan->overlap & OVERLAP_GRADIENTS))
        return 0;
    return larger(0, tail_after(s, result, end, second) - tail_after(s, result, end, first));
}

static void read_times(struct script *s, const struct engine_result *result,
                       const struct part_passes *passes, int32_t part, struct part_work *out)
{
    int64_t end[MOST_PASSES + 1], ns[PASS_ROLES];
    find_ends(s, result, passes, part, end);
    for (int role = 0; role < PASS_ROLES; role++) {
        int32_t p = passes->number[role];
        ns[role] = p >= 0 ? end[p + 1] - end[p] : 0;
    }
    bool split = passes->number[PASS_WEIGHT] >= 0;
    int64_t lag = lag_of(s, result, passes, end);
    int64_t tail = tail_after(s, result, end, passes->number[PASS_LAST]);
    *out = (struct part_work){.forward = ns[PASS_FORWARD],
                              .backward = ns[PASS_BACKWARD],
                              .weight = ns[PASS_WEIGHT],
                              .first_more = ns[PASS_FIRST] - ns[PASS_FORWARD],
                              .last_more = ns[PASS_LAST] - ns[split ? PASS_WEIGHT : PASS_BACKWARD],
                              .tail = larger(0, tail - (passes->micro_batches - 1) * lag),
                              .lag = lag};
    if (passes->number[PASS_FORWARD_APART] < 0)
        return;
    out->forward_apart = ns[PASS_FORWARD_APART] - ns[PASS_FORWARD];
    out->backward_apart = ns[PASS_BACKWARD_APART] - ns[PASS_BACKWARD];
    out->first_more -= out->forward_apart;
    out->last_more -= out->backward_apart;
}

static int64_t sends_ns(const struct timed *t, int32_t from, int32_t to, bool back)
{
    int64_t ns = 0;
    for (int32_t i = 0; i < t->outline.sends; i++) {
        const struct outline_send *send = &t->outline.send[i];
        if (send->from_part == from && send->to_part == to)
            ns += exchange_ns(t, back ? send->backward : send->forward);
    }
    return ns;
}

static weft_status run_passes(struct script *s, int32_t part, const struct part_passes *passes,
                              struct engine_result *result)
{
    memset(s->last, NONE, sizeof s->last);
    s->before_unit = NONE;
    for (int32_t p = 0; p < passes->count; p++) {
        if (passes->pass[p].paired) {
            add_pair(s, part, &passes->pass[p], &s->task[p]);
            s->gradients[p++] = s->last[LANE_GRADIENTS];
        } else {
            add_pass(s, part, &passes->pass[p], &s->task[p]);
        }
        s->gradients[p] = s->last[LANE_GRADIENTS];
    }
    return run_script(s, result);
}

weft_status part_work(const struct timed *timed, int32_t part, struct part_work *out)
{
    struct part_passes passes = passes_of_part(timed, part);
    struct script s = {.timed = timed, .scratch = arena_new()};
    struct engine_result result;
    weft_status status;
    TRY(run_passes(&s, part, &passes, &result));
    read_times(&s, &result, &passes, part, out);
    out->send = part + 1 < timed->plan->parts ? sends_ns(timed, part, part + 1, false) : 0;
    out->back = part > 0 ? sends_ns(timed, part - 1, part, true) : 0;
    out->host = exchange_ns(timed, timed->outline.from_host[part]);
done:
    arena_free(s.scratch);
    return status;
}

/* ---- instance by instance -------------------------------------------------------------------- */

weft_status part_items(const struct timed *timed, int32_t part, struct arena *keep,
                       struct pass_items *out)
{
    struct part_passes passes = passes_of_part(timed, part);
    struct script s = {.timed = timed, .scratch = arena_new()};
    struct engine_result result;
    int64_t end[MOST_PASSES + 1];
    weft_status status;
    *out = (struct pass_items){0};
    TRY(run_passes(&s, part, &passes, &result));
    find_ends(&s, &result, &passes, part, end);
    for (int role = 0; role < PASS_ROLES; role++) {
        int32_t p = passes.number[role];
        if (p < 0)
            continue;
        const struct block *block = block_at(timed, part, &passes.pass[p]);
        out->block[role] = block;
        out->end_ns[role] = ARENA_ARRAY(keep, int64_t, (size_t)block->items);
        for (int32_t i = 0; i < block->items; i++)
            out->end_ns[role][i] = s.own[p] ? s.own[p][i] : result.end_ns[s.task[p][i]] - end[p];
    }
done:
    arena_free(s.scratch);
    return status;
}
