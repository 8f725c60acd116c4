/* share.c - max-min fair speeds of flows that meet on links (share.h has the equations). */
#include "sim/share.h"

#include <math.h>
#include <string.h>

#include "sim/incidence.h"

static const double QUANTA = 0x1p42;   /* parts of a_fl in one (I2) */
static const double NOTHING = 0x1p-38; /* of a link's capacity: less counts as nothing (I4) */
static const double FULL = 0x1p40;     /* a link's capacity in units of load (I5) */
static const double NOISE = 0x1p-46;   /* of a load: rounding when a link is filled exactly */
static const double NS_PER_S = 1e9;    /* by definition */
enum { UNSETTLED = -2, NONE = -1 };    /* in place of the link that holds a flow */
_Static_assert(sizeof(double) == sizeof(int64_t), "levels are ordered by their bits");

struct flow_slot {
    int32_t priority;
    int32_t link;       /* the link that holds it, NONE or UNSETTLED */
    int32_t pool;       /* the link whose pool it is in, or NONE */
    double pace, speed; /* speed: if it is in no pool; while a component is solved, in any case */
    double old_speed;
    int64_t pass; /* the last pass of share_solve that reached it */
};
struct channel {
    double capacity;       /* bytes per ns */
    double load_per_speed; /* units of load per byte per ns */
    int64_t load;          /* of all paces (I5) */
    int64_t weight;        /* sum of k_fl a_fl, in quanta */
    double speed;          /* of its pool */
    double least_pace;     /* if it is simple: at most the pace of any flow */
    int32_t priority;      /* if it is simple: of all flows */
    bool tight, simple;    /* I1, I6 */
    bool loaded, stale;    /* whether it is in the lists of these names */
    /* during water-filling: */
    bool touched;
    int32_t waiting; /* unsettled flows of this class */
    /* weight of unsettled flows of this class; the part of it that was settled in this round */
    int64_t rising, taken;
    double left; /* for unsettled flows of this class and for lower classes */
    int64_t pass;
};
typedef ARRAY(int32_t) id_list;
struct share {
    struct arena *arena;
    int64_t pass;
    int32_t unsettled;               /* flows of this class */
    int32_t first_class, last_class; /* of the current component */
    struct flow_slot *slot;
    struct channel *channel;
    int32_t channels;
    struct incidence uses; /* slots by links: a_fl and k_fl */
    /* links, then slots: the level at which each would be settled */
    struct heap levels;
    id_list stirred;                   /* slots that came or changed */
    id_list loaded, stale;             /* links whose load changed; whose flows changed */
    id_list component, links, touched; /* of the current component */
    ARRAY(struct share_move) moves;
    ARRAY(struct share_speed) speeds;
};

struct share *share_new(struct arena *keep, int32_t slots, const double *link_bytes_per_s,
                        int32_t links)
{
    struct share *share = ARENA_NEW(keep, struct share);
    share->arena = keep;
    share->slot = ARENA_ARRAY(keep, struct flow_slot, (size_t)slots);
    share->channel = ARENA_ARRAY(keep, struct channel, (size_t)links);
    share->channels = links;
    for (int32_t i = 0; i < links; i++) {
        share->channel[i].capacity = link_bytes_per_s[i] / NS_PER_S;
        share->channel[i].load_per_speed = FULL * (1 - NOISE) / share->channel[i].capacity;
    }
    share->uses = incidence_new(keep, slots, links);
    share->levels = heap_new(keep, links + slots);
    return share;
}

/* ---- sums of a link -------------------------------------------------------------------------- */

static int64_t weight_of(const struct incidence_entry *use)
{
    int64_t one = (int64_t)(use->part * QUANTA), whole = (int64_t)use->times;
    return one * whole + (int64_t)((double)one * (use->times - (double)whole));
}

/* A load is capped at twice the capacity: more changes nothing. */
static int64_t load_of(const struct channel *channel, const struct incidence_entry *use,
                       double pace)
{
    double one = ceil(use->part * pace * channel->load_per_speed);
    return (int64_t)fmin(ceil(one * use->times), 2 * FULL);
}

static void list_link(struct share *share, id_list *list, bool *listed, int32_t link)
{
    if (!*listed)
        array_push(share->arena, list, link);
    *listed = true;
}

static void change_load(struct share *share, int32_t link, int64_t by)
{
    struct channel *channel = &share->channel[link];
    channel->load += by;
    if (channel->tight != (channel->load > (int64_t)FULL))
        list_link(share, &share->loaded, &channel->loaded, link);
}

static void set_stale(struct share *share, int32_t link)
{
    list_link(share, &share->stale, &share->channel[link].stale, link);
}

static void add_use(struct share *share, int32_t slot, const struct link_use *use, double bytes)
{
    struct channel *channel = &share->channel[use->link];
    double part = fmax(floor(use->bytes / bytes * QUANTA), 1) / QUANTA;
    const struct incidence_entry *entry =
        incidence_add(&share->uses, slot, use->link, part, use->times);
    channel->weight += weight_of(entry);
    change_load(share, use->link, load_of(channel, entry, share->slot[slot].pace));
}

void share_add(struct share *share, int32_t slot, const struct share_flow *flow)
{
    share->slot[slot] = (struct flow_slot){
        .priority = flow->priority, .link = NONE, .pool = NONE, .pace = flow->pace};
    for (int32_t i = 0; i < flow->uses; i++)
        if (flow->use[i].bytes > 0)
            add_use(share, slot, &flow->use[i], flow->bytes);
    array_push(share->arena, &share->stirred, slot);
}

void share_remove(struct share *share, int32_t slot)
{
    for (const struct incidence_entry *e = row_first(&share->uses, slot); e;
         e = row_next(&share->uses, e)) {
        struct channel *channel = &share->channel[e->column];
        channel->weight -= weight_of(e);
        change_load(share, e->column, -load_of(channel, e, share->slot[slot].pace));
        if (channel->tight)
            set_stale(share, e->column);
    }
    incidence_drop_row(&share->uses, slot);
    share->slot[slot].pace = -1; /* belongs to no flow */
    share->slot[slot].pool = NONE;
}

/* A flow that its link holds below both the old and the new pace stays as it is. */
void share_set_pace(struct share *share, int32_t slot, double pace)
{
    struct flow_slot *flow = &share->slot[slot];
    double old = flow->pace;
    if (old == pace)
        return;
    flow->pace = pace;
    for (const struct incidence_entry *e = row_first(&share->uses, slot); e;
         e = row_next(&share->uses, e)) {
        struct channel *channel = &share->channel[e->column];
        change_load(share, e->column, load_of(channel, e, pace) - load_of(channel, e, old));
        channel->least_pace = fmin(channel->least_pace, pace);
    }
    if (flow->pool < 0 || pace < share->channel[flow->pool].speed)
        array_push(share->arena, &share->stirred, slot);
}

/* ---- one connected component (I1) ------------------------------------------------------------ */

static void reach_slot(struct share *share, int32_t id)
{
    struct flow_slot *slot = &share->slot[id];
    if (slot->pass == share->pass)
        return;
    slot->pass = share->pass;
    slot->link = UNSETTLED;
    slot->old_speed = slot->speed;
    array_push(share->arena, &share->component, id);
    if (slot->priority < share->first_class)
        share->first_class = slot->priority;
    if (slot->priority > share->last_class)
        share->last_class = slot->priority;
}

static void reach_link(struct share *share, int32_t link)
{
    struct channel *channel = &share->channel[link];
    if (!channel->tight || channel->pass == share->pass)
        return;
    channel->pass = share->pass;
    channel->left = channel->capacity;
    array_push(share->arena, &share->links, link);
    for (const struct incidence_entry *e = column_first(&share->uses, link); e;
         e = column_next(&share->uses, e))
        reach_slot(share, e->row);
}

static void gather(struct share *share)
{
    for (size_t i = 0; i < share->component.len; i++)
        for (const struct incidence_entry *e = row_first(&share->uses, share->component.data[i]); e;
             e = row_next(&share->uses, e))
            reach_link(share, e->column);
}

/* ---- water-filling --------------------------------------------------------------------------- */

/* Levels are not negative, and such doubles have the same order as the integers with the same
 * bits. */
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

static double level_of(double left, int64_t weight)
{
    return left / ((double)weight / QUANTA); /* (4) */
}

static void set_level(struct share *share, int32_t link)
{
    const struct channel *channel = &share->channel[link];
    if (channel->waiting)
        heap_set(&share->levels, link, level_key(level_of(channel->left, channel->rising)));
}

static void enter_class(struct share *share, int32_t slot)
{
    heap_set(&share->levels, share->channels + slot, level_key(share->slot[slot].pace));
    share->unsettled++;
    for (const struct incidence_entry *e = row_first(&share->uses, slot); e;
         e = row_next(&share->uses, e)) {
        struct channel *channel = &share->channel[e->column];
        if (!channel->tight)
            continue;
        channel->rising += weight_of(e);
        channel->waiting++;
    }
}

static void settle_slot(struct share *share, int32_t slot, double speed, int32_t link)
{
    share->slot[slot].speed = speed;
    share->slot[slot].link = link;
    share->unsettled--;
    for (const struct incidence_entry *e = row_first(&share->uses, slot); e;
         e = row_next(&share->uses, e)) {
        struct channel *channel = &share->channel[e->column];
        if (!channel->tight)
            continue;
        channel->taken += weight_of(e);
        channel->waiting--;
        if (!channel->touched)
            array_push(share->arena, &share->touched, e->column);
        channel->touched = true;
    }
}

/* Flows that were settled in this round leave their links at once: by I2 in any order. */
static void lower_links(struct share *share, double speed)
{
    for (size_t i = 0; i < share->touched.len; i++) {
        struct channel *channel = &share->channel[share->touched.data[i]];
        channel->left -= speed * ((double)channel->taken / QUANTA);
        if (channel->left < NOTHING * channel->capacity)
            channel->left = 0; /* I4 */
        channel->rising -= channel->taken;
        channel->taken = 0;
        channel->touched = false;
        set_level(share, share->touched.data[i]);
    }
    share->touched.len = 0;
}

static void settle_link(struct share *share, int32_t link, double speed, int32_t priority)
{
    for (const struct incidence_entry *e = column_first(&share->uses, link); e;
         e = column_next(&share->uses, e)) {
        const struct flow_slot *slot = &share->slot[e->row];
        if (slot->link == UNSETTLED && slot->priority == priority)
            settle_slot(share, e->row, speed, link);
    }
}

/* Entries that were settled meanwhile stay among the levels until they come up: most never do. */
static void settle_lowest(struct share *share, int32_t priority)
{
    struct heap_entry top = share->levels.slot.data[0];
    double speed = key_level(top.key);
    int32_t slot = top.id - share->channels;
    if (slot < 0)
        settle_link(share, top.id, speed, priority);
    else if (share->slot[slot].link == UNSETTLED)
        settle_slot(share, slot, speed, NONE);
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
    for (size_t i = 0; i < share->component.len; i++)
        if (share->slot[share->component.data[i]].priority == priority)
            enter_class(share, share->component.data[i]);
    for (size_t i = 0; i < share->links.len; i++)
        set_level(share, share->links.data[i]);
}

/* ---- results --------------------------------------------------------------------------------- */

static void set_pool_speed(struct share *share, int32_t link, double speed)
{
    if (share->channel[link].speed == speed)
        return;
    struct share_speed changed = {link, speed};
    share->channel[link].speed = speed;
    array_push(share->arena, &share->speeds, changed);
}

static void move(struct share *share, int32_t id, int32_t pool)
{
    struct flow_slot *slot = &share->slot[id];
    struct share_move moved = {id, slot->link, pool >= 0, slot->speed};
    slot->pool = pool;
    array_push(share->arena, &share->moves, moved);
}

static void report(struct share *share, int32_t id)
{
    struct flow_slot *slot = &share->slot[id];
    int32_t pool = slot->speed > 0 ? slot->link : NONE;
    if (pool >= 0)
        set_pool_speed(share, pool, slot->speed);
    if (pool != slot->pool || (pool < 0 && slot->speed != slot->old_speed))
        move(share, id, pool);
}

/* I6 */
static void judge_links(struct share *share)
{
    for (size_t i = 0; i < share->links.len; i++)
        share->channel[share->links.data[i]].simple = false;
    if (share->links.len != 1 || share->first_class != share->last_class)
        return;
    struct channel *channel = &share->channel[share->links.data[0]];
    channel->least_pace = INFINITY;
    channel->priority = share->first_class;
    channel->simple = true;
    for (size_t i = 0; i < share->component.len; i++) {
        const struct flow_slot *slot = &share->slot[share->component.data[i]];
        channel->simple &= slot->pool >= 0;
        channel->least_pace = fmin(channel->least_pace, slot->pace);
    }
}

static void forget_component(struct share *share)
{
    share->component.len = share->links.len = 0;
    share->first_class = INT32_MAX;
    share->last_class = -1;
}

/* Solves what was reached, if anything: flows that an earlier component of the same pass contained
 * are skipped. */
static void solve_component(struct share *share)
{
    gather(share);
    for (int32_t c = share->first_class; c <= share->last_class; c++) {
        start_class(share, c);
        fill_class(share, c);
    }
    for (size_t i = 0; i < share->component.len; i++)
        report(share, share->component.data[i]);
    judge_links(share);
    forget_component(share);
}

/* ---- what changed ---------------------------------------------------------------------------- */

static void tighten(struct share *share, int32_t link)
{
    struct channel *channel = &share->channel[link];
    bool tight = channel->load > (int64_t)FULL;
    channel->loaded = false;
    if (channel->tight == tight)
        return;
    channel->tight = tight;
    channel->simple = false;
    for (const struct incidence_entry *e = column_first(&share->uses, link); e;
         e = column_next(&share->uses, e))
        array_push(share->arena, &share->stirred, e->row);
}

/* The only tight link of a flow; NONE, or UNSETTLED: there are several. */
static int32_t tight_link(const struct share *share, int32_t slot)
{
    int32_t link = NONE;
    for (const struct incidence_entry *e = row_first(&share->uses, slot); e;
         e = row_next(&share->uses, e))
        if (share->channel[e->column].tight)
            link = link == NONE ? e->column : UNSETTLED;
    return link;
}

static void go_alone(struct share *share, int32_t id)
{
    struct flow_slot *slot = &share->slot[id];
    bool same = slot->pool < 0 && slot->speed == slot->pace;
    slot->link = NONE;
    slot->speed = slot->pace;
    if (!same)
        move(share, id, NONE);
}

static void go_simple(struct share *share, int32_t id, int32_t link)
{
    struct flow_slot *slot = &share->slot[id];
    slot->link = link;
    share->channel[link].least_pace = fmin(share->channel[link].least_pace, slot->pace);
    if (slot->pool != link)
        move(share, id, link);
    set_stale(share, link);
}

static void settle_stirred(struct share *share, int32_t id)
{
    const struct flow_slot *slot = &share->slot[id];
    if (slot->pace < 0 || slot->pass == share->pass)
        return;
    int32_t link = tight_link(share, id);
    if (link == NONE) {
        go_alone(share, id);
    } else if (link >= 0 && share->channel[link].simple &&
               share->channel[link].priority == slot->priority) {
        go_simple(share, id, link);
    } else {
        reach_slot(share, id);
        solve_component(share);
    }
}

static void settle_stale(struct share *share, int32_t link)
{
    struct channel *channel = &share->channel[link];
    channel->stale = false;
    if (!channel->tight || channel->pass == share->pass)
        return;
    double level = level_of(channel->capacity, channel->weight);
    if (channel->simple && level <= channel->least_pace) {
        set_pool_speed(share, link, level);
    } else {
        reach_link(share, link);
        solve_component(share);
    }
}

struct share_news share_solve(struct share *share)
{
    share->moves.len = share->speeds.len = 0;
    share->pass++;
    forget_component(share);
    for (size_t i = 0; i < share->loaded.len; i++)
        tighten(share, share->loaded.data[i]);
    for (size_t i = 0; i < share->stirred.len; i++)
        settle_stirred(share, share->stirred.data[i]);
    for (size_t i = 0; i < share->stale.len; i++)
        settle_stale(share, share->stale.data[i]);
    share->loaded.len = share->stirred.len = share->stale.len = 0;
    return (struct share_news){share->moves.data, share->speeds.data, (int32_t)share->moves.len,
                               (int32_t)share->speeds.len};
}
