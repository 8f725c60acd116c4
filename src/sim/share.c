#include "sim/share.h"

#include <math.h>
#include <string.h>

#include "sim/heap.h"
#include "sim/incidence.h"

static const double QUANTUM = 0x1p-42;  /* of a_fl (I2) */
static const double NOTHING = 0x1p-38;  /* of a link's capacity (I4) */
static const double NS_PER_S = 1e9;     /* by definition */
enum { UNSETTLED = -2, OWN_PACE = -1 }; /* instead of the link that binds a flow */
_Static_assert(sizeof(double) == sizeof(int64_t), "levels are ordered by their bits");

struct slot {
    int32_t priority;
    int32_t link; /* that binds it, OWN_PACE or UNSETTLED */
    double pace, speed, old_speed;
    int64_t pass; /* of share_solve that reached it */
};
struct channel {
    double capacity; /* bytes per ns */
    double left;     /* for unsettled flows of this class and for lower classes */
    double weight;   /* sum of a_fl over unsettled flows of this class */
    double taken;    /* of weight, in this round */
    int32_t waiting; /* unsettled flows of this class */
    bool touched;
    int64_t pass;
};
typedef ARRAY(int32_t) id_list;
struct share {
    struct arena *arena;
    int64_t pass;
    int32_t unsettled;               /* flows of this class */
    int32_t first_class, last_class; /* of the component at hand */
    struct slot *slot;
    struct channel *channel;
    int32_t channels;
    struct incidence uses; /* slots by links, a_fl */
    struct heap levels;    /* links, then slots: where each would be settled */
    id_list dirty_slots, dirty_links;
    id_list component, links, touched; /* of the component at hand */
    ARRAY(struct share_change) changed;
};

struct share *share_new(struct arena *keep, int32_t slots, const double *link_bytes_per_s,
                        int32_t links)
{
    struct share *share = ARENA_NEW(keep, struct share);
    share->arena = keep;
    share->slot = ARENA_ARRAY(keep, struct slot, (size_t)slots);
    share->channel = ARENA_ARRAY(keep, struct channel, (size_t)links);
    share->channels = links;
    for (int32_t i = 0; i < links; i++)
        share->channel[i].capacity = link_bytes_per_s[i] / NS_PER_S;
    share->uses = incidence_new(keep, slots, links);
    share->levels = heap_new(keep, links + slots);
    return share;
}

void share_add(struct share *share, int32_t slot, const struct share_flow *flow)
{
    share->slot[slot] = (struct slot){.priority = flow->priority, .pace = flow->pace};
    for (int32_t i = 0; i < flow->uses; i++) {
        double part = round(flow->use[i].bytes / flow->bytes / QUANTUM) * QUANTUM;
        if (flow->use[i].bytes > 0)
            incidence_add(&share->uses, slot, flow->use[i].link, fmax(part, QUANTUM));
    }
    array_push(share->arena, &share->dirty_slots, slot);
}

void share_remove(struct share *share, int32_t slot)
{
    for (const struct entry *e = row_first(&share->uses, slot); e; e = row_next(&share->uses, e))
        array_push(share->arena, &share->dirty_links, e->column);
    incidence_drop_row(&share->uses, slot);
    share->slot[slot].pace = -1; /* nobody's */
}

void share_set_pace(struct share *share, int32_t slot, double pace)
{
    if (share->slot[slot].pace == pace)
        return;
    share->slot[slot].pace = pace;
    array_push(share->arena, &share->dirty_slots, slot);
}

/* ---- one connected component (I1) ------------------------------------------------------------ */

static void reach_slot(struct share *share, int32_t slot)
{
    if (share->slot[slot].pass == share->pass)
        return;
    share->slot[slot].pass = share->pass;
    share->slot[slot].link = UNSETTLED;
    array_push(share->arena, &share->component, slot);
    if (share->slot[slot].priority < share->first_class)
        share->first_class = share->slot[slot].priority;
    if (share->slot[slot].priority > share->last_class)
        share->last_class = share->slot[slot].priority;
}

static void reach_link(struct share *share, int32_t link)
{
    struct channel *channel = &share->channel[link];
    if (channel->pass == share->pass)
        return;
    channel->pass = share->pass;
    channel->left = channel->capacity;
    array_push(share->arena, &share->links, link);
    for (const struct entry *e = column_first(&share->uses, link); e;
         e = column_next(&share->uses, e))
        reach_slot(share, e->row);
}

static void gather(struct share *share)
{
    for (size_t i = 0; i < share->component.len; i++)
        for (const struct entry *e = row_first(&share->uses, share->component.data[i]); e;
             e = row_next(&share->uses, e))
            reach_link(share, e->column);
}

/* ---- water-filling --------------------------------------------------------------------------- */

/* Levels are not negative, and such doubles are ordered as the integers of the same bits. */
static int64_t level_key(double level)
{
    int64_t key;
    memcpy(&key, &level, sizeof key);
    return key;
}

static double key_level(int64_t key)
{
    double level;
    memcpy(&level, &key, sizeof level);
    return level;
}

static void set_level(struct share *share, int32_t link)
{
    const struct channel *channel = &share->channel[link];
    if (channel->waiting)
        heap_set(&share->levels, link, level_key(channel->left / channel->weight)); /* (4) */
}

static void enter_class(struct share *share, int32_t slot)
{
    heap_set(&share->levels, share->channels + slot, level_key(share->slot[slot].pace));
    share->unsettled++;
    for (const struct entry *e = row_first(&share->uses, slot); e; e = row_next(&share->uses, e)) {
        share->channel[e->column].weight += e->value;
        share->channel[e->column].waiting++;
    }
}

static void settle_slot(struct share *share, int32_t slot, double speed, int32_t link)
{
    share->slot[slot].speed = speed;
    share->slot[slot].link = link;
    share->unsettled--;
    for (const struct entry *e = row_first(&share->uses, slot); e; e = row_next(&share->uses, e)) {
        struct channel *channel = &share->channel[e->column];
        channel->taken += e->value;
        channel->waiting--;
        if (!channel->touched)
            array_push(share->arena, &share->touched, e->column);
        channel->touched = true;
    }
}

/* What was settled in this round leaves its links at once: by I2 in any order. */
static void lower_links(struct share *share, double speed)
{
    for (size_t i = 0; i < share->touched.len; i++) {
        struct channel *channel = &share->channel[share->touched.data[i]];
        channel->left -= speed * channel->taken;
        if (channel->left < NOTHING * channel->capacity)
            channel->left = 0; /* I4 */
        channel->weight -= channel->taken;
        channel->taken = 0;
        channel->touched = false;
        set_level(share, share->touched.data[i]);
    }
    share->touched.len = 0;
}

static void settle_link(struct share *share, int32_t link, double speed, int32_t priority)
{
    for (const struct entry *e = column_first(&share->uses, link); e;
         e = column_next(&share->uses, e)) {
        const struct slot *slot = &share->slot[e->row];
        if (slot->link == UNSETTLED && slot->priority == priority)
            settle_slot(share, e->row, speed, link);
    }
}

/* What is settled meanwhile stays among the levels until it comes up: most never do. */
static void settle_lowest(struct share *share, int32_t priority)
{
    struct heap_entry top = share->levels.slot[0];
    double speed = key_level(top.key);
    int32_t slot = top.id - share->channels;
    if (slot < 0)
        settle_link(share, top.id, speed, priority);
    else if (share->slot[slot].link == UNSETTLED)
        settle_slot(share, slot, speed, OWN_PACE);
    if (share->unsettled)
        heap_remove(&share->levels, top.id);
    lower_links(share, speed);
}

static void fill_class(struct share *share, int32_t priority)
{
    while (share->unsettled)
        settle_lowest(share, priority);
    heap_clear(&share->levels);
}

static void start_class(struct share *share, int32_t priority)
{
    for (size_t i = 0; i < share->links.len; i++)
        share->channel[share->links.data[i]].weight = 0;
    for (size_t i = 0; i < share->component.len; i++)
        if (share->slot[share->component.data[i]].priority == priority)
            enter_class(share, share->component.data[i]);
    for (size_t i = 0; i < share->links.len; i++)
        set_level(share, share->links.data[i]);
}

static void report_changes(struct share *share)
{
    for (size_t i = 0; i < share->component.len; i++) {
        int32_t id = share->component.data[i];
        struct slot *slot = &share->slot[id];
        struct share_change change = {id, slot->speed, slot->link};
        if (slot->speed != slot->old_speed)
            array_push(share->arena, &share->changed, change);
        slot->old_speed = slot->speed;
    }
}

static void forget_component(struct share *share)
{
    share->component.len = share->links.len = 0;
    share->first_class = INT32_MAX;
    share->last_class = -1;
}

/* What was reached, if anything: what an earlier component of the same pass held is not. */
static void solve_component(struct share *share)
{
    gather(share);
    if (share->component.len == 1) { /* most flows meet nobody */
        struct slot *slot = &share->slot[share->component.data[0]];
        slot->speed = slot->pace; /* by (3) no link holds it below */
        slot->link = OWN_PACE;
    } else {
        for (int32_t c = share->first_class; c <= share->last_class; c++) {
            start_class(share, c);
            fill_class(share, c);
        }
    }
    report_changes(share);
    forget_component(share);
}

int32_t share_solve(struct share *share, const struct share_change **changed)
{
    share->changed.len = 0;
    share->pass++;
    forget_component(share);
    for (size_t i = 0; i < share->dirty_links.len; i++) {
        reach_link(share, share->dirty_links.data[i]);
        solve_component(share);
    }
    for (size_t i = 0; i < share->dirty_slots.len; i++) {
        if (share->slot[share->dirty_slots.data[i]].pace >= 0)
            reach_slot(share, share->dirty_slots.data[i]);
        solve_component(share);
    }
    share->dirty_links.len = share->dirty_slots.len = 0;
    *changed = share->changed.data;
    return (int32_t)share->changed.len;
}
