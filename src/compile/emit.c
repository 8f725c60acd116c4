/* emit.c - turns a slot's block into tasks.
 *
 * A run of operators is one task on each device of the stage, a step one task for each group. A run
 * waits for the run of the other lane that it needs; the first run of either lane waits for
 * everything before the block (assembly.h, I1), for what comes from other stages, and for whatever
 * the plan does not overlap.
 */
#include "compile/assembly.h"

/* ---- how a block is cut ---------------------------------------------------------------------- */

static unsigned cuts_of(const struct assembly *a, const struct visit *place)
{
    const struct build *b = a->b;
    int shard = most_sharded(a, place->part);
    bool overlap = b->plan->overlap & OVERLAP_GRADIENTS;
    unsigned cuts = 0;
    if (shard == 3 || (shard && place->first_forward && (b->plan->overlap & OVERLAP_PARAMETERS)))
        cuts |= CUT_READS;
    if (place->completes && overlap && has_exchange(a, place->part) &&
        (place->last_backward || shard >= 2))
        cuts |= CUT_COMPLETES;
    return cuts;
}

/* assembly.h, I2: whether nothing runs at the same time as the block's steps. */
static bool is_whole(const struct assembly *a, int32_t block, unsigned cuts)
{
    return !cuts && !a->synchronising && a->met[block] == MEETS_NOBODY;
}

static const struct block_runs *runs_of(struct assembly *a, int32_t block, unsigned cuts)
{
    if (!a->runs[cuts])
        a->runs[cuts] = ARENA_ARRAY(a->b->scratch, struct block_runs, a->b->blocks.len);
    struct block_runs *runs = &a->runs[cuts][block];
    if (!runs->run)
        *runs = cut_block(a->b->scratch, &a->b->blocks.data[block], cuts);
    return runs;
}

/* ---- its tasks ------------------------------------------------------------------------------- */

/* The tasks of the current block's runs, device by device. */
struct emission {
    const struct visit *place;
    const struct block *block;
    const struct block_runs *runs;
    int32_t *task; /* per run: the task of its first device or group */
    bool paired;   /* with another block (pairs.c) */
    int32_t step;  /* the latest run of a step, -1: none */
    bool computed; /* whether a run of operators has been emitted */
    bool *stepped; /* per device: whether a step has been that it has a part in */
    struct unit_turn turn;
};

static int32_t task_of_run(const struct assembly *a, const struct emission *e, int32_t run,
                           int32_t device)
{
    const struct block_run *r = &e->runs->run[run];
    if (!r->step || a->graph->folded)
        return e->task[run] + (r->step ? 0 : device - a->first_device[a->stage]);
    const struct item *item = &e->block->item[r->first];
    if (item->pattern < 0)
        return e->task[run] + (device - a->first_device[a->stage]);
    const struct pattern *pattern = &a->b->patterns.data[item->pattern];
    int64_t own = a->graph->device[device].device;
    if (own < pattern->first || own >= pattern->first + pattern->devices)
        return NONE; /* it has no part in it (graph.h, I6) */
    return e->task[run] + (int32_t)pattern_group_of(pattern, own);
}

/* The task of a device that is over when its lane has come so far: that of this run, or of the last one before it that the
 * device has a part in (graph.h, I6). */
static int32_t task_up_to(const struct assembly *a, const struct emission *e, int32_t run,
                          int32_t device)
{
    bool step = e->runs->run[run].step;
    int32_t task = task_of_run(a, e, run, device);
    while (task == NONE && --run >= 0)
        if (e->runs->run[run].step == step)
            task = task_of_run(a, e, run, device);
    return task;
}

/* The purpose of a run is that of most of its slot: its own pass, rather than what is recomputed
 * for it or sent within it. */
static enum purpose purpose_of(const struct emission *e, const struct block_run *run)
{
    static const enum purpose FIRST[] = {PURPOSE_BACKWARD, PURPOSE_FORWARD, PURPOSE_RECOMPUTE};
    const struct item *item = &e->block->item[run->first];
    for (size_t k = 0; k < COUNT_OF(FIRST); k++)
        for (int32_t i = 0; i < run->items; i++)
            if (item[i].purpose == FIRST[k])
                return FIRST[k];
    return (enum purpose)item->purpose;
}

static struct task run_task(const struct emission *e, const struct block_run *run,
                            enum stream_kind stream, enum purpose purpose)
{
    struct task task = plain_task(stream, e->place->slot.micro_batch);
    task.purpose = (uint8_t)purpose;
    task.block = e->place->block;
    task.first_item = run->first;
    task.items = run->items;
    return task;
}

/* Adds the waits of the first task of either lane. */
static void begin_block(struct assembly *a, const struct emission *e, int32_t task, int32_t device)
{
    const struct mark *mark = &a->mark[device];
    unsigned overlap = a->b->plan->overlap;
    gate_block(a, e->place, task, device - a->first_device[a->stage]);
    if (e->place->fetches)
        wait_for(a, task, mark->last[STREAM_FROM_HOST]);
    wait_for(a, task, mark->features);
    wait_for(a, task, mark->tokens);
    wait_for(a, task, mark->stored);
    /* on the compute stream, its own order already ensures this */
    if (a->tasks.data[task].stream != STREAM_COMPUTE)
        wait_for(a, task, mark->computed);
    if (!(overlap & OVERLAP_GRADIENTS))
        wait_for(a, task, mark->last[STREAM_GRADIENT]);
    if (!(overlap & OVERLAP_PIPELINE)) {
        wait_for(a, task, mark->last[STREAM_NEXT]);
        wait_for(a, task, mark->last[STREAM_PREVIOUS]);
    }
}

/* Adds the wait of the first task of either lane in a layer that is copied to the host or back. */
static void begin_unit(struct assembly *a, const struct emission *e, int32_t task, int32_t device)
{
    if (e->turn.gate != NONE)
        wait_for(a, task, e->turn.gate + (device - a->first_device[a->stage]));
}

static void emit_compute(struct assembly *a, struct emission *e, int32_t run)
{
    const struct block_run *r = &e->runs->run[run];
    struct task like = run_task(e, r, STREAM_COMPUTE, purpose_of(e, r));
    e->task[run] = (int32_t)a->tasks.len;
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        like.device = d;
        like.idle = r->on.devices && !run_has(r->on, d - a->first_device[a->stage]);
        int32_t task = add_task(a, like);
        if (r->after >= 0 && !like.idle)
            wait_for(a, task, task_up_to(a, e, r->after, d));
        if (!like.idle && r->reads >= 0 && gathered_for(a, e->place, bucket_at(a, r->reads)))
            wait_for(a, task, a->mark[d].last[STREAM_PARAMETER]);
        if (!e->computed)
            begin_block(a, e, task, d);
        if (!e->turn.computed)
            begin_unit(a, e, task, d);
    }
    e->computed = e->turn.computed = true;
}

/* Slices take no time, but a run may wait for them. */
static void emit_slice(struct assembly *a, const struct item *item, const struct task *like)
{
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        struct task task = *like;
        task.device = d;
        task.idle = !item_is_at(item, d - a->first_device[a->stage]);
        int32_t before = a->mark[d].last[STREAM_FEATURE]; /* of a group that another device leads */
        wait_for(a, add_task(a, task), before);
    }
}

static void emit_step(struct assembly *a, struct emission *e, int32_t run)
{
    const struct block_run *r = &e->runs->run[run];
    const struct item *item = &e->block->item[r->first];
    bool apart = e->paired && item->tokens;
    struct task task =
        run_task(e, r, apart ? STREAM_TOKENS : STREAM_FEATURE, (enum purpose)item->purpose);
    e->task[run] = (int32_t)a->tasks.len;
    if (item->pattern < 0)
        emit_slice(a, item, &task);
    else
        add_exchange(a, task, item->pattern, (enum collective)item->step->kind, item->bytes,
                     AFTER_NOTHING);
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        int32_t number = task_of_run(a, e, run, d);
        bool *stepped = &e->stepped[d - a->first_device[a->stage]];
        if (number == NONE || a->tasks.data[number].idle)
            continue;
        if (r->after >= 0)
            wait_for(a, number, task_of_run(a, e, r->after, d));
        if (e->paired && e->step >= 0)
            wait_for(a, number, task_up_to(a, e, e->step, d));
        if (!*stepped)
            begin_block(a, e, number, d);
        *stepped = true;
        if (!e->turn.stepped)
            begin_unit(a, e, number, d);
    }
    e->turn.stepped = true;
    e->step = run;
}

static struct emission start_emission(struct assembly *a, const struct visit *place, unsigned cuts)
{
    struct emission e = {.place = place,
                         .block = &a->b->blocks.data[place->block],
                         .runs = runs_of(a, place->block, cuts),
                         .step = -1,
                         .turn = {-1, NONE, NONE, false, false}};
    e.task = ARENA_ARRAY(a->b->scratch, int32_t, (size_t)e.runs->count);
    e.stepped = ARENA_ARRAY(a->b->scratch, bool, (size_t)devices_of(a, a->stage));
    return e;
}

static void emit_run(struct assembly *a, struct emission *e, int32_t i)
{
    const struct block_run *r = &e->runs->run[i];
    enter_unit(a, e->place, r->first, &e->turn);
    if (r->reads >= 0 && gathered_for(a, e->place, bucket_at(a, r->reads)))
        gather_ahead(a, bucket_at(a, r->reads), e->place->slot.micro_batch);
    if (r->step)
        emit_step(a, e, i);
    else
        emit_compute(a, e, i);
    if (r->completes >= 0)
        synchronise_completed(a, e->place, bucket_at(a, r->completes));
}

/* Everything that the first tasks of a block or of a pair wait for exists now. */
static void set_marks(struct assembly *a)
{
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        a->mark[d].features = a->mark[d].last[STREAM_FEATURE];
        a->mark[d].tokens = a->mark[d].last[STREAM_TOKENS];
        a->mark[d].computed = a->mark[d].last[STREAM_COMPUTE];
    }
}

void emit_block(struct assembly *a, const struct visit *place)
{
    unsigned cuts = cuts_of(a, place);
    bool steps = a->met[place->block] != WITHOUT_STEPS;
    bool whole = steps && is_whole(a, place->block, cuts);
    if (a->b->blocks.data[place->block].unit)
        cuts |= CUT_UNITS;
    if (steps && !(whole && a->graph->folded && !(cuts & CUT_UNITS)))
        cuts |= CUT_STEPS;
    struct emission e = start_emission(a, place, cuts);
    set_marks(a);
    for (int32_t i = 0; i < e.runs->count; i++)
        emit_run(a, &e, i);
    for (int32_t d = a->first_device[a->stage]; whole && d < a->first_device[a->stage + 1]; d++) {
        /* no gather overlaps with it */
        a->mark[d].before_unit[0] = a->mark[d].last[STREAM_COMPUTE];
        a->mark[d].before_unit[1] = a->mark[d].last[STREAM_FEATURE];
    }
}

void emit_pair(struct assembly *a, const struct visit place[2])
{
    struct arena *scratch = a->b->scratch;
    struct emission e[2];
    int32_t at[2] = {0, 0};
    for (int k = 0; k < 2; k++)
        e[k] = start_emission(a, &place[k],
                              cuts_of(a, &place[k]) | CUT_STEPS |
                                  (a->b->blocks.data[place[k].block].unit ? CUT_UNITS : 0U));
    struct pair_turns turns = turns_of_pair(scratch, e[0].block, e[1].block);
    e[0].paired = e[1].paired = true;
    set_marks(a);
    for (size_t i = 0; i < turns.len; i++) {
        const struct pair_turn *turn = &turns.data[i];
        int k = turn->backward;
        for (; at[k] < e[k].runs->count && e[k].runs->run[at[k]].first < turn->last; at[k]++)
            emit_run(a, &e[k], at[k]);
        if (turn->last == e[k].block->items)
            send_crossings(a, &place[k]);
    }
}
