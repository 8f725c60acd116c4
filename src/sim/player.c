/* player.c - a stage's slots in order, when they run, and when offloaded checkpoints are away.
 *
 *   time of an item = start of its task + (end - start) * (time of the task's items before it) /
 *                     (time of all its items)                                                (1)
 *
 * A task's items are timed alone (prediction->lane_ns); (1) distributes over them the time by which
 * others slow the task down.
 */
#include "sim/player.h"

#include <string.h>

const struct part_lifetimes *player_part(const struct player *player, int32_t piece)
{
    if (player->own)
        return &player->own[piece];
    return &player->graph->lifetimes->part[plan_part_of_piece(player->plan, player->stage, piece)];
}

static bool has_life(const struct player *p, const struct lifetime *life)
{
    return !life->run.devices || run_has(life->run, p->place);
}

/* The same lives, of which those that the device does not have take no memory and have no events. */
static struct part_lifetimes own_lives(const struct player *p, const struct part_lifetimes *all)
{
    struct part_lifetimes own = *all;
    own.life = ARENA_ARRAY(p->scratch, struct lifetime, (size_t)all->lives);
    for (int32_t i = 0; i < all->lives; i++) {
        own.life[i] = all->life[i];
        own.life[i].bytes = has_life(p, &all->life[i]) ? all->life[i].bytes : 0;
    }
    for (int kind = 0; kind < SLOT_KIND_COUNT; kind++) {
        const struct memory_events *events = &all->events[kind];
        struct memory_events kept = {
            ARENA_ARRAY(p->scratch, struct memory_event, (size_t)events->count), 0};
        for (int32_t i = 0; i < events->count; i++)
            if (has_life(p, &all->life[events->event[i].life]))
                kept.event[kept.count++] = events->event[i];
        own.events[kind] = kept;
    }
    return own;
}

static void find_own(struct player *p)
{
    struct part_lifetimes *own =
        ARENA_ARRAY(p->scratch, struct part_lifetimes, (size_t)p->plan->pieces);
    for (int32_t piece = 0; piece < p->plan->pieces; piece++)
        own[piece] = own_lives(p, player_part(p, piece));
    p->own = own;
}

static bool is_its_task(const struct player *p, const struct task *task)
{
    int64_t device = p->plan->stage[p->stage].first_device + p->place;
    return p->graph->folded || p->graph->device[task->device].device == device;
}

/* ---- offload --------------------------------------------------------------------------------- */

static bool find_offloaded(struct player *p)
{
    bool any = false;
    p->offloaded = ARENA_ARRAY(p->scratch, int64_t, (size_t)p->plan->pieces);
    for (int32_t piece = 0; piece < p->plan->pieces; piece++) {
        p->offloaded[piece] = offloaded_bytes(player_part(p, piece));
        any |= p->offloaded[piece] > 0;
    }
    return any;
}

bool reads_checkpoints(enum slot_kind kind)
{
    return kind == SLOT_BACKWARD || kind == SLOT_BACKWARD_INPUT;
}

/* holdings.c, I2, slot by slot, for a forward slot f and its backward slot g. */
static void find_away(struct player *p)
{
    size_t pieces = (size_t)p->plan->pieces;
    int32_t *forward = ARENA_ARRAY(p->scratch, int32_t, pieces *(size_t)p->micro_batches);
    p->away = ARENA_ARRAY(p->scratch, struct away, p->slots.len);
    memset(p->away, -1, p->slots.len * sizeof *p->away);
    for (int32_t g = 0; g < (int32_t)p->slots.len; g++) {
        const struct slot *slot = &p->slots.data[g];
        int32_t *f = &forward[(size_t)slot->micro_batch * pieces + (size_t)slot->piece];
        if (slot->kind == SLOT_FORWARD)
            *f = g;
        if (!reads_checkpoints(slot->kind) || *f + 2 >= g - 1)
            continue;
        p->away[*f + 2].left = *f;
        p->away[g - 1].back = g;
    }
}

struct player player_of_fewer(struct arena *scratch, const struct graph *graph, int32_t stage,
                              int64_t place, int64_t micro_batches)
{
    const struct plan *plan = graph->plan;
    struct player p = {.plan = plan,
                       .graph = graph,
                       .scratch = scratch,
                       .stage = stage,
                       .place = place,
                       .micro_batches = (int32_t)micro_batches};
    struct pipeline pipeline = plan_pipeline_of(plan, micro_batches);
    const struct schedule *schedule = graph_schedule(graph);
    schedule_order(schedule, &pipeline, stage, scratch, &p.slots);
    p.paired = ARENA_ARRAY(scratch, bool, p.slots.len);
    for (size_t i = 0; i < p.slots.len; i++)
        p.paired[i] = slots_paired(schedule, &pipeline, stage, &p.slots, i);
    if (plan_has_subsets(plan))
        find_own(&p);
    if (find_offloaded(&p))
        find_away(&p);
    return p;
}

struct player player_of(struct arena *scratch, const struct graph *graph, int32_t stage,
                        int64_t place)
{
    return player_of_fewer(scratch, graph, stage, place, plan_micro_batches(graph->plan));
}

/* ---- times ----------------------------------------------------------------------------------- */

static int64_t time_in_task(const struct prediction *p, int32_t number, int32_t item)
{
    const struct task *task = &p->graph->task[number];
    const int64_t *ns = p->lane_ns + p->lane_first[task->block] + task->first_item;
    int64_t start = p->result.start_ns[number], end = p->result.end_ns[number];
    double before = 0, all = 0;
    for (int32_t i = 0; i < task->items; i++) {
        all += (double)ns[i];
        before += task->first_item + i < item ? (double)ns[i] : 0;
    }
    return all > 0 ? start + (int64_t)((double)(end - start) * before / all) : start; /* (1) */
}

static int32_t stage_of_task(const struct graph *graph, int32_t task)
{
    return graph->device[graph->task[task].device].stage;
}

int32_t first_task(const struct prediction *p, int32_t stage)
{
    int32_t low = 0, high = p->graph->tasks;
    while (high > 0 && stage_of_task(p->graph, high - 1) < p->plan->stages - 1)
        high--;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (stage_of_task(p->graph, middle) < stage)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A step that is a task of its own is not part of a block's run: the run after it is the
 * nearest. */
int64_t player_time(const struct prediction *p, const struct player *player, int32_t slot,
                    int32_t item)
{
    const struct graph *graph = p->graph;
    const struct slot *s = &player->slots.data[slot];
    int32_t part = s->piece * player->plan->stages + player->stage, last = -1;
    for (int32_t t = first_task(p, player->stage); t < graph->tasks; t++) {
        const struct task *task = &graph->task[t];
        if (task->block < 0 || task->micro_batch != s->micro_batch || !is_its_task(player, task))
            continue;
        const struct block *block = &graph->block[task->block];
        if (block->part != part || block->kind != s->kind || task->stream != STREAM_COMPUTE)
            continue;
        last = t;
        if (item < task->first_item + task->items)
            return time_in_task(p, t, item);
    }
    return last >= 0 ? p->result.end_ns[last] : 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

struct event_walk walk_events(const struct player *player, const struct slot *slot,
                              const struct slot *beside)
{
    struct event_walk walk = {{&player_part(player, slot->piece)->events[slot->kind]}, {0, 0}};
    if (beside)
        walk.events[1] = &player_part(player, beside->piece)->events[beside->kind];
    return walk;
}

/* Places of events in their slot, besides shares of its items from 0 to 1. */
#define PLACE_LAST 1.5 /* what is freed after everything was taken */
#define PLACE_NONE 2.0

/* Where in its slot the next event happens. What an item frees goes just before the next item that takes something, so that
 * what is held between two events is always what the census of an item counts (holdings.c, (2)). */
static double place_of_next(const struct event_walk *walk, int which)
{
    const struct memory_events *events = walk->events[which];
    if (!events || walk->at[which] >= events->count)
        return PLACE_NONE;
    int32_t at = walk->at[which], last = events->event[events->count - 1].item;
    while (at < events->count && events->event[at].gives)
        at++;
    return at == events->count ? PLACE_LAST
                               : (double)events->event[at].item / (last > 0 ? last : 1);
}

const struct memory_event *walk_next(struct event_walk *walk, int *which)
{
    double first = place_of_next(walk, 0), second = place_of_next(walk, 1);
    *which = second < first;
    if (first >= PLACE_NONE && second >= PLACE_NONE)
        return NULL;
    return &walk->events[*which]->event[walk->at[*which]++];
}
