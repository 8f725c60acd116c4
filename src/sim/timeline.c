/* timeline.c - what a stage's devices hold over time: the memory events of its slots at the times
 * of the tasks that the slots were cut into. There are two points per task: at its start, what is
 * held when it is fullest; at its end, what it leaves.
 *
 *   I1  A task's run has the events of its items and of the steps before it, which are tasks of
 *       their own; what a block frees after its last item counts for its last task.
 *   I2  For slots that are executed as one, both are current, and their events happen in the order in which the peak counts
 *       them (player.h, struct event_walk), whichever task they belong to.
 *   I3  The optimizer's step is a point at the end if memory is fullest there.
 *   I4  The fullest point holds what the stage's peak does.
 */
#include "sim/player.h"

#include <string.h>

struct tracker {
    const struct player *player;
    struct arena *keep;
    struct points {
        struct memory_point *data;
        size_t len, cap;
    } *out;
    int32_t slot, slots;    /* the first current slot, and how many (I2); -1, 0: before the first */
    struct event_walk walk; /* their events from the next one on */
    struct memory_point now, most;
};

static const struct slot *slot_at(const struct tracker *t, int32_t k)
{
    return &t->player->slots.data[t->slot + k];
}

static int64_t total(const struct memory_point *point)
{
    int64_t bytes = 0;
    for (int k = 0; k < MEMORY_CLASS_COUNT; k++)
        bytes += point->bytes[k];
    return bytes;
}

static void push(struct tracker *t, int64_t at_ns, struct memory_point point)
{
    point.at_ns = at_ns;
    array_push(t->keep, t->out, point);
}

static bool has_next(const struct tracker *t, int32_t k, int32_t item)
{
    const struct memory_events *events = t->walk.events[k];
    return t->walk.at[k] < events->count && events->event[t->walk.at[k]].item <= item;
}

/* Applies the events of a current slot up to an item, with those of the other that happen before (I2); `most` is the most
 * that is held meanwhile. */
static void play_to(struct tracker *t, int32_t k, int32_t item)
{
    t->most = t->now;
    while (has_next(t, k, item)) {
        int which;
        const struct memory_event *m = walk_next(&t->walk, &which);
        const struct lifetime *life =
            &player_part(t->player, slot_at(t, which)->piece)->life[m->life];
        t->now.bytes[life->memory] += m->gives ? -life->bytes : life->bytes;
        if (total(&t->now) > total(&t->most))
            t->most = t->now;
    }
}

static int64_t offloaded(const struct player *p, int32_t slot)
{
    return slot >= 0 ? p->offloaded[p->slots.data[slot].piece] : 0;
}

/* A block may end with steps, during which more may be held than before or afterwards. */
static void end_block(struct tracker *t, int32_t k, int32_t item, int64_t at_ns)
{
    int64_t before = total(&t->now);
    play_to(t, k, item);
    if (total(&t->most) > before && total(&t->most) > total(&t->now))
        push(t, at_ns, t->most);
}

static void end_slots(struct tracker *t)
{
    for (int32_t k = 0; k < t->slots; k++)
        end_block(t, k, INT32_MAX, t->out->data[t->out->len - 1].at_ns);
}

static void next_slot(struct tracker *t)
{
    const struct player *p = t->player;
    end_slots(t);
    t->slot = t->slot < 0 ? 0 : t->slot + t->slots;
    t->slots = p->paired[t->slot] ? 2 : 1;
    t->walk = walk_events(p, slot_at(t, 0), t->slots == 2 ? slot_at(t, 1) : NULL);
    for (int32_t k = 0; p->away && k < t->slots; k++)
        t->now.bytes[MEMORY_ACTIVATIONS] +=
            offloaded(p, p->away[t->slot + k].back) - offloaded(p, p->away[t->slot + k].left);
}

/* The current slot that a task belongs to, -1: none. */
static int32_t belongs(const struct tracker *t, const struct task *task)
{
    const struct player *p = t->player;
    const struct block *block = &p->graph->block[task->block];
    for (int32_t k = 0; k < t->slots; k++) {
        const struct slot *slot = slot_at(t, k);
        if (block->part == plan_part_of_piece(p->plan, p->stage, slot->piece) &&
            block->kind == slot->kind && task->micro_batch == slot->micro_batch)
            return k;
    }
    return -1;
}

static void follow(struct tracker *t, const struct prediction *p, int32_t number)
{
    const struct task *task = &p->graph->task[number];
    const struct block *block = &p->graph->block[task->block];
    int32_t k;
    while ((k = belongs(t, task)) < 0)
        next_slot(t);
    int32_t end = task->first_item + task->items;
    play_to(t, k, end - 1);
    push(t, p->result.start_ns[number], t->most);
    if (end == block->items)
        end_block(t, k, end, p->result.end_ns[number]); /* I1 */
    push(t, p->result.end_ns[number], t->now);
}

static void follow_stage(const struct prediction *p, int32_t stage, struct points *out)
{
    struct arena *scratch = arena_new();
    int64_t place = p->stage[stage].memory.place;
    struct player player = player_of(scratch, p->graph, stage, place);
    struct tracker t = {.player = &player, .keep = p->arena, .out = out, .slot = -1};
    int32_t first = first_task(p, stage), device = p->graph->task[first].device;
    device += p->graph->folded ? 0 : (int32_t)place;
    memcpy(t.now.bytes, p->stage[stage].memory.state, sizeof t.now.bytes);
    push(&t, 0, t.now);
    for (int32_t i = first; i < p->graph->tasks; i++) {
        const struct task *task = &p->graph->task[i];
        if (task->device == device && task->stream == STREAM_COMPUTE && task->block >= 0)
            follow(&t, p, i);
    }
    end_slots(&t);
    const struct stage_peak *peak = &p->stage[stage].memory;
    if (peak->in_step) { /* I3 */
        memcpy(t.now.bytes, peak->bytes, sizeof t.now.bytes);
        push(&t, peak->at_ns, t.now);
    }
    arena_free(scratch);
}

void find_points(struct prediction *p)
{
    struct points points = {0};
    int64_t *first = ARENA_ARRAY(p->arena, int64_t, (size_t)p->plan->stages + 1);
    for (int32_t s = 0; s < p->plan->stages; s++) {
        follow_stage(p, s, &points);
        first[s + 1] = (int64_t)points.len;
    }
    p->point_first = first;
    p->point = points.data;
}
