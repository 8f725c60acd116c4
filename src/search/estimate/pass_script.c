/* pass_script.c - the passes of one part, run by the engine (passes.h, pass_script.h). */
#include "search/estimate/pass_script.h"

#include <string.h>

/* ---- tasks ----------------------------------------------------------------------------------- */

static void wait_for(struct pass_script *s, int32_t on)
{
    struct pass_wait wait = {(int32_t)s->ns.len, on};
    if (on != NONE)
        array_push(s->scratch, &s->waits, wait);
}

/* Adds a task, after its waits were added. */
static int32_t add(struct pass_script *s, enum pass_lane lane, int32_t flow, int64_t ns)
{
    int32_t task = (int32_t)s->ns.len, stream = (int32_t)lane;
    array_push(s->scratch, &s->stream, stream);
    array_push(s->scratch, &s->flow, flow);
    array_push(s->scratch, &s->ns, ns);
    s->last[lane] = task;
    return task;
}

static void add_exchange(struct pass_script *s, enum pass_lane lane, int32_t exchange)
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

static void gather_ahead(struct pass_script *s, int32_t bucket)
{
    const struct plan *plan = s->timed->plan;
    bool aligned = s->timed->outline.graph->bucket[bucket].shard < 3 &&
                   plan_aligns_gathers(&plan->software, plan->pieces);
    if ((plan->overlap & OVERLAP_PARAMETERS) && !aligned) {
        wait_for(s, s->before_unit);
    } else if (!aligned) {
        wait_for(s, s->last[LANE_OPS]);
        wait_for(s, s->last[LANE_STEPS]);
        wait_for(s, s->last[LANE_TOKENS]);
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

static void synchronise(struct pass_script *s, int32_t bucket, bool last)
{
    wait_for(s, s->last[LANE_OPS]);
    if (!(s->timed->plan->overlap & OVERLAP_GRADIENTS)) {
        wait_for(s, s->last[LANE_STEPS]);
        wait_for(s, s->last[LANE_TOKENS]);
    }
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

/* The unit that a pass is in (compile/layer_copies.c, whose struct unit_turn it is in small). */
struct script_unit {
    int32_t number; /* -1: in none yet */
    int32_t units;  /* of the part */
    int32_t gate,
        ahead; /* what its first tasks wait for; the copy back that the next unit waits for; NONE */
    int32_t *stored; /* per unit: its copy to the host, or NONE */
    bool begun[LANE_COUNT];
};

/* A pass that is being written into the script. */
struct pass_writing {
    const struct pass *pass;
    const struct block *block;
    const int64_t *ns;
    struct item_buckets bucket;
    int32_t *task; /* per item */
    bool paired;   /* with another one (compile/pairs.c) */
    int32_t step;  /* the task of its latest step, or NONE */
    const struct unit_copies *copies;
    struct script_unit unit;
};

static void begin_lane(struct pass_script *s, enum pass_lane lane)
{
    if (s->begun[lane])
        return;
    s->begun[lane] = true;
    wait_for(s, s->features);
    wait_for(s, s->tokens);
    wait_for(s, s->computed);
    wait_for(s, s->come);
    wait_for(s, s->last[LANE_TO_HOST]);
    if (!(s->timed->plan->overlap & OVERLAP_GRADIENTS))
        wait_for(s, s->last[LANE_GRADIENTS]);
}

/* ---- layers that are copied to the host and back --------------------------------------------- */

static int32_t copy_unit(struct pass_script *s, enum pass_lane lane, int32_t exchange)
{
    if (exchange < 0)
        return NONE;
    wait_for(s, s->last[LANE_OPS]);
    if (lane == LANE_FROM_HOST)
        wait_for(s, s->stored);
    add_exchange(s, lane, exchange);
    return s->last[lane];
}

static void enter_forward(struct pass_script *s, struct pass_writing *w, int32_t now)
{
    for (int32_t u = w->unit.number < 0 ? 0 : w->unit.number; u < now; u++)
        w->unit.stored[u] = copy_unit(s, LANE_TO_HOST, w->copies->out[u]);
    w->unit.gate = now >= 2 ? w->unit.stored[now - 2] : NONE;
}

static void enter_backward(struct pass_script *s, struct pass_writing *w, int32_t now)
{
    const int32_t *in = w->copies->in[w->block->kind];
    int32_t from = w->unit.number < 0 ? w->unit.units : w->unit.number;
    w->unit.gate = w->unit.ahead;
    w->unit.ahead = NONE;
    for (int32_t u = from - 2; u >= 0 && u >= now - 1; u--) {
        int32_t task = copy_unit(s, LANE_FROM_HOST, in[u]);
        if (u >= now)
            w->unit.gate = task == NONE ? w->unit.gate : task;
        else
            w->unit.ahead = task;
    }
}

static void enter_unit(struct pass_script *s, struct pass_writing *w, int32_t item)
{
    if (!w->block->unit || w->block->unit[item] == w->unit.number)
        return;
    if (w->block->kind == SLOT_FORWARD)
        enter_forward(s, w, w->block->unit[item]);
    else
        enter_backward(s, w, w->block->unit[item]);
    w->unit.number = w->block->unit[item];
    memset(w->unit.begun, 0, sizeof w->unit.begun);
}

static void begin_unit(struct pass_script *s, struct pass_writing *w, enum pass_lane lane)
{
    if (!w->unit.begun[lane])
        wait_for(s, w->unit.gate);
    w->unit.begun[lane] = true;
}

static int32_t add_item(struct pass_script *s, struct pass_writing *w, int32_t i)
{
    const struct item *item = &w->block->item[i];
    enum pass_lane step = w->paired && item->tokens ? LANE_TOKENS : LANE_STEPS;
    enum pass_lane lane = item->kind == ITEM_OP ? LANE_OPS : step;
    begin_lane(s, lane);
    begin_unit(s, w, lane);
    if (item->needs >= 0)
        wait_for(s, w->task[item->needs]);
    if (w->paired && item->kind == ITEM_STEP) { /* a block's own steps keep their order */
        wait_for(s, w->step);
        w->step = (int32_t)s->ns.len;
    }
    if (item->kind == ITEM_STEP && item->exchange >= 0)
        return add(s, lane, item->exchange, s->timed->flows.latency_ns[item->exchange]);
    return add(s, lane, NONE, item->kind == ITEM_OP ? w->ns[i] : 0);
}

static struct pass_writing start_pass(struct pass_script *s, int32_t part, const struct pass *pass)
{
    const struct timed *t = s->timed;
    int32_t number = t->block_of[pass->kind][part];
    const struct block *block = &t->outline.graph->block[number];
    int32_t units = t->outline.graph->lifetimes->part[part].copies.units;
    struct pass_writing w = {.pass = pass,
                             .block = block,
                             .ns = t->item_ns + t->item_first[number],
                             .bucket = buckets_of(s->scratch, block),
                             .task = ARENA_ARRAY(s->scratch, int32_t, (size_t)block->items),
                             .step = NONE,
                             .copies = &t->outline.copies[part],
                             .unit = {.number = -1, .gate = NONE, .ahead = NONE, .units = units}};
    w.unit.stored = ARENA_ARRAY(s->scratch, int32_t, (size_t)units);
    return w;
}

static void begin_lanes(struct pass_script *s)
{
    s->features = s->last[LANE_STEPS];
    s->tokens = s->last[LANE_TOKENS];
    s->computed = s->last[LANE_OPS];
    s->stored = s->last[LANE_TO_HOST];
    s->come = NONE;
    memset(s->begun, 0, sizeof s->begun);
    if (!s->input_ns)
        return;
    wait_for(s, s->features);
    wait_for(s, s->tokens);
    wait_for(s, s->computed);
    s->come = add(s, LANE_INPUTS, NONE, s->input_ns);
}

static void add_items(struct pass_script *s, struct pass_writing *w, int32_t first, int32_t last)
{
    const struct timed *t = s->timed;
    bool beside = t->plan->overlap & OVERLAP_GRADIENTS;
    for (int32_t i = first; i < last; i++) {
        int32_t reads = w->bucket.reads[i], completes = w->bucket.completes[i];
        bool gathered = reads >= 0 && gathered_for(t, w->pass, reads);
        enter_unit(s, w, i);
        if (gathered)
            gather_ahead(s, reads);
        if (gathered)
            wait_for(s, s->last[LANE_GATHERS]);
        w->task[i] = add_item(s, w, i);
        if (beside && completes >= 0 && goes_now(t, w->pass, completes))
            synchronise(s, completes, w->pass->last);
    }
}

static void end_pass(struct pass_script *s, const struct pass_writing *w)
{
    bool beside = s->timed->plan->overlap & OVERLAP_GRADIENTS;
    for (int32_t k = 0; !beside && k < w->block->buckets; k++)
        if (goes_now(s->timed, w->pass, w->block->first_bucket + k))
            synchronise(s, w->block->first_bucket + k, w->pass->last);
}

static void add_pass(struct pass_script *s, int32_t part, const struct pass *pass, int32_t **out)
{
    struct pass_writing w = start_pass(s, part, pass);
    begin_lanes(s);
    add_items(s, &w, 0, w.block->items);
    end_pass(s, &w);
    *out = w.task;
}

/* Interleaves the two passes of a pair as compile/emit.c does. */
static void add_pair(struct pass_script *s, int32_t part, const struct pass *pass, int32_t **out)
{
    struct pass_writing w[] = {start_pass(s, part, &pass[0]), start_pass(s, part, &pass[1])};
    struct pair_turns turns = turns_of_pair(s->scratch, w[0].block, w[1].block);
    w[0].paired = w[1].paired = true;
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
static void list_waits(const struct pass_script *s, int64_t **first, int32_t **on)
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

static void list_lanes(const struct pass_script *s, int64_t **first, int32_t **order)
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

/* I2: all flows use the one device, but for copies, which take nothing of its work. */
static void tell_interference(const struct pass_script *s, struct engine_graph *g)
{
    const struct exchange *exchange = s->timed->outline.graph->exchange;
    size_t flows = (size_t)s->timed->flows.flows;
    int64_t *first = ARENA_ARRAY(s->scratch, int64_t, flows + 1);
    for (size_t i = 0; i < flows; i++)
        first[i + 1] = first[i] + (exchange[i].kind == EXCHANGE_COLLECTIVE);
    g->device_slowdown = &s->timed->slowdown;
    g->flow_slowdown = s->timed->token_slowdown;
    g->flow_device_first = first;
    g->flow_device = ARENA_ARRAY(s->scratch, int32_t, flows + 1);
}

static weft_status run_script(const struct pass_script *s, struct engine_result *result)
{
    static const int32_t LANE_DEVICE[] = {0, -1, -1, -1, -1, -1, -1, -1};
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

/* ---- scripts that were run already (I6) ------------------------------------------------------- */

struct pass_run {
    size_t tasks, waits;
    const void *stream, *flow, *ns, *wait;
    int64_t *end_ns;
    const struct pass_run *older;
};
struct pass_runs {
    struct arena *keep;
    const struct pass_run *newest;
};

struct pass_runs *pass_runs_new(struct arena *keep)
{
    struct pass_runs *runs = ARENA_NEW(keep, struct pass_runs);
    runs->keep = keep;
    return runs;
}

static bool is_run_of(const struct pass_run *run, const struct pass_script *s)
{
    return run->tasks == s->ns.len && run->waits == s->waits.len &&
           memcmp(run->ns, s->ns.data, s->ns.len * sizeof *s->ns.data) == 0 &&
           memcmp(run->flow, s->flow.data, s->flow.len * sizeof *s->flow.data) == 0 &&
           memcmp(run->stream, s->stream.data, s->stream.len * sizeof *s->stream.data) == 0 &&
           (!run->waits ||
            memcmp(run->wait, s->waits.data, s->waits.len * sizeof *s->waits.data) == 0);
}

static void *copy_of(struct arena *keep, const void *data, size_t bytes)
{
    void *copy = arena_alloc(keep, bytes, 1);
    if (bytes)
        memcpy(copy, data, bytes);
    return copy;
}

static void keep_run(struct pass_runs *runs, const struct pass_script *s, const int64_t *end_ns)
{
    struct pass_run *run = ARENA_NEW(runs->keep, struct pass_run);
    *run = (struct pass_run){
        .tasks = s->ns.len,
        .waits = s->waits.len,
        .stream = copy_of(runs->keep, s->stream.data, s->stream.len * sizeof *s->stream.data),
        .flow = copy_of(runs->keep, s->flow.data, s->flow.len * sizeof *s->flow.data),
        .ns = copy_of(runs->keep, s->ns.data, s->ns.len * sizeof *s->ns.data),
        .wait = copy_of(runs->keep, s->waits.data, s->waits.len * sizeof *s->waits.data),
        .end_ns = copy_of(runs->keep, end_ns, s->ns.len * sizeof *end_ns),
        .older = runs->newest};
    runs->newest = run;
}

static weft_status run_once(const struct pass_script *s, struct engine_result *result)
{
    struct pass_runs *runs = s->timed->runs;
    weft_status status;
    if (!runs)
        return run_script(s, result);
    for (const struct pass_run *run = runs->newest; run; run = run->older)
        if (is_run_of(run, s)) {
            *result = (struct engine_result){.end_ns = run->end_ns};
            return WEFT_OK;
        }
    TRY(run_script(s, result));
    keep_run(runs, s, result->end_ns);
done:
    return status;
}

weft_status run_passes(struct pass_script *s, int32_t part, const struct part_passes *passes,
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
        s->input[p] = s->come;
    }
    return run_once(s, result);
}
