/* holdings.c - how full each stage's devices get, found by playing its slots in order.
 *
 * All slots of a part and kind allocate and free the same (compile/lifetimes.h), so a block is
 * summed up once: by how much memory is fuller after it (net), and at most while it runs (rise). A
 * stage's slots in order, from its state:
 *
 *   held(k)  = state + sum of net(j) over the slots j < k
 *   peak     = max over slots k of held(k) + rise(k)                                           (1)
 *
 * What is held at the peak follows from the number of slots of each kind that are over:
 *
 *   copies of a tensor = slots begun past its birth - slots past its death                     (2)
 *
 * The optimizer's step comes after the last slot, with gradients that only then exist in full and with
 * copies of its own:
 *
 *   peak     = max of (1) and state + late gradients + copies                                  (3)
 *
 *   I1  A stage's slots run one after the other in the order of its schedule, as in the engine's
 *       times (compile/assembly.h, I1). Two that are executed as one take and free layer by layer in
 *       turn (player.h, struct event_walk): rise(k) in (1) is that of both.
 *   I2  Offloaded checkpoints leave while the next slot runs and are gone at its end; they are back
 *       from the start of the slot before the one that needs them. If that is no later than they
 *       would be gone, they stay. The host holds them from the end of their forward slot on.
 *       What waits to be sent is in the host, too (graph_waits_in_host). While stages keep step, none of it is there when the
 *       host is fullest: the checkpoints of a piece hold its input, which is no smaller.
 *   I3  What the allocator reserves decides whether a stage fits (plan.h, (1)). PyTorch's would return cached
 *       blocks before it fails, but the device would wait for that in every iteration.
 */
#include "sim/player.h"

#include <math.h>
#include <string.h>

/* ---- the peak (1) ---------------------------------------------------------------------------- */

struct summary {
    int64_t net, rise; /* bytes */
    int32_t item;      /* before which the block is fullest */
};

static struct summary sum_up(const struct part_lifetimes *part, enum slot_kind kind)
{
    struct summary sum = {0, 0, -1};
    const struct memory_events *events = &part->events[kind];
    for (int32_t i = 0; i < events->count; i++) {
        const struct memory_event *m = &events->event[i];
        sum.net += m->gives ? -part->life[m->life].bytes : part->life[m->life].bytes;
        if (sum.net > sum.rise) {
            sum.rise = sum.net;
            sum.item = m->item;
        }
    }
    return sum;
}

/* The moment at which a stage is fullest. */
struct summit {
    int64_t above; /* bytes above the state */
    int64_t host;
    int32_t slot; /* -1: before the first */
    int32_t item;
    int32_t beside; /* if it and the next slot are executed as one, the next slot's item; else -1 */
    bool paired;
};

static struct summary (*sum_up_all(const struct player *p))[SLOT_KIND_COUNT]
{
    struct summary(*sums)[SLOT_KIND_COUNT] =
        arena_alloc(p->scratch, (size_t)p->plan->pieces, sizeof *sums);
    for (int32_t piece = 0; piece < p->plan->pieces; piece++)
        for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
            sums[piece][kind] = sum_up(player_part(p, piece), (enum slot_kind)kind);
    return sums;
}

/* The same for two slots that are executed as one. */
struct pair_summary {
    int64_t rise;
    int32_t item[2];
};

static struct pair_summary sum_up_pair(const struct player *p, const struct slot *slot)
{
    struct pair_summary sum = {0, {-1, -1}};
    struct event_walk walk = walk_events(p, slot, slot + 1);
    const struct memory_event *m;
    int64_t held = 0;
    int32_t at[2] = {-1, -1};
    for (int which; (m = walk_next(&walk, &which));) {
        int64_t bytes = player_part(p, slot[which].piece)->life[m->life].bytes;
        held += m->gives ? -bytes : bytes;
        if (!m->gives)
            at[which] = m->item;
        if (held > sum.rise)
            sum = (struct pair_summary){held, {at[0], at[1]}};
    }
    return sum;
}

/* Pairs of the same two pieces are alike: each is summed up once. */
struct pairs {
    const struct player *player;
    struct pair_summary *sum; /* per two pieces */
    bool *known;
};

static struct pairs start_pairs(const struct player *p)
{
    size_t pieces = (size_t)p->plan->pieces;
    return (struct pairs){p, ARENA_ARRAY(p->scratch, struct pair_summary, pieces * pieces),
                          ARENA_ARRAY(p->scratch, bool, pieces *pieces)};
}

static const struct pair_summary *pair_of(struct pairs *pairs, const struct slot *slot)
{
    int64_t at = (int64_t)slot[0].piece * pairs->player->plan->pieces + slot[1].piece;
    if (!pairs->known[at])
        pairs->sum[at] = sum_up_pair(pairs->player, slot);
    pairs->known[at] = true;
    return &pairs->sum[at];
}

static int64_t offloaded(const struct player *p, int32_t slot)
{
    return slot >= 0 ? p->offloaded[p->slots.data[slot].piece] : 0;
}

/* The change of what the host holds at the start of a slot. */
static int64_t host_change(const struct player *p, int32_t slot)
{
    bool filled = slot > 0 && p->slots.data[slot - 1].kind == SLOT_FORWARD;
    bool emptied = reads_checkpoints(p->slots.data[slot].kind);
    return (filled ? offloaded(p, slot - 1) : 0) - (emptied ? offloaded(p, slot) : 0);
}

/* What layers copy to the host in a forward slot, one by one, is there until the last slot that reads it. */
static int64_t copied_in(const struct player *p, const struct slot *slot)
{
    int64_t bytes = copied_bytes(player_part(p, slot->piece));
    return slot->kind == SLOT_FORWARD ? bytes : slot->kind == SLOT_BACKWARD_INPUT ? 0 : -bytes;
}

static struct summit find_summit(const struct player *p)
{
    struct summit top = {0, 0, -1, -1, -1, false};
    struct summary(*sums)[SLOT_KIND_COUNT] = sum_up_all(p);
    struct pairs pairs = start_pairs(p);
    int64_t held = 0, host = 0, copied = 0;
    for (int32_t k = 0; k < (int32_t)p->slots.len; k++) {
        const struct slot *slot = &p->slots.data[k];
        const struct summary *sum = &sums[slot->piece][slot->kind];
        if (p->away) {
            held += offloaded(p, p->away[k].back) - offloaded(p, p->away[k].left);
            host += host_change(p, k);
        }
        copied += copied_in(p, slot);
        top.host = host + copied > top.host ? host + copied : top.host;
        const struct pair_summary *both = p->paired[k] ? pair_of(&pairs, slot) : NULL;
        bool second = k > 0 && p->paired[k - 1]; /* it has been counted with the first */
        int64_t rise = both ? both->rise : sum->rise;
        if (!second && held + rise > top.above) { /* (1) */
            top.above = held + rise;
            top.slot = k;
            top.item = both ? both->item[0] : sum->item;
            top.paired = both;
            top.beside = both ? both->item[1] : -1;
        }
        held += sum->net;
    }
    return top;
}

/* ---- what is held there (2) ------------------------------------------------------------------ */

/* Tensors of one operator and kind. */
struct group_sum {
    int64_t bytes;
    int64_t first, last;   /* instances */
    int64_t instances;     /* those that have such a tensor */
    int64_t latest;        /* the instance that was counted last */
    int64_t micro_batches; /* those that have such a tensor, at most */
    enum memory_class memory;
};

struct census {
    const struct player *player;
    const struct summit *top;
    int64_t (*done)[SLOT_KIND_COUNT]; /* per piece: slots before that of the summit */
    int64_t *gone;         /* per piece: micro-batches whose checkpoints are in the host */
    struct group_sum *sum; /* per operator and kind of tensor */
    int64_t bytes[MEMORY_CLASS_COUNT];
};

static struct census start_census(const struct player *p, const struct summit *top)
{
    struct census c = {.player = p, .top = top};
    c.done = arena_alloc(p->scratch, (size_t)p->plan->pieces, sizeof *c.done);
    c.gone = ARENA_ARRAY(p->scratch, int64_t, (size_t)p->plan->pieces);
    c.sum = ARENA_ARRAY(p->scratch, struct group_sum, (size_t)p->plan->model->ops * HELD_COUNT);
    for (int32_t k = 0; k < top->slot; k++)
        c.done[p->slots.data[k].piece][p->slots.data[k].kind]++;
    for (int32_t k = 0; p->away && k <= top->slot; k++) {
        if (p->away[k].left >= 0)
            c.gone[p->slots.data[p->away[k].left].piece]++;
        if (p->away[k].back >= 0)
            c.gone[p->slots.data[p->away[k].back].piece]--;
    }
    return c;
}

/* The copies that the current slot adds up to an item. */
static int64_t copies_in(const struct slot *now, int32_t item, int32_t piece,
                         const struct lifetime *life)
{
    int64_t copies = 0;
    if (now->piece == piece && now->kind == life->born_in)
        copies += life->born <= item;
    if (now->piece == piece && now->kind == life->dies_in)
        copies -= life->dies < item;
    return copies;
}

static int64_t copies_of(const struct census *c, int32_t piece, const struct lifetime *life)
{
    const struct slot *now = &c->player->slots.data[c->top->slot];
    int64_t copies = c->done[piece][life->born_in] - c->done[piece][life->dies_in];
    copies += copies_in(now, c->top->item, piece, life);
    if (c->top->paired)
        copies += copies_in(now + 1, c->top->beside, piece, life);
    return copies - (life->offloaded ? c->gone[piece] : 0);
}

static void count_piece(struct census *c, int32_t piece)
{
    const struct plan *plan = c->player->plan;
    const struct part_lifetimes *part = player_part(c->player, piece);
    for (int32_t i = 0; i < part->lives; i++) {
        const struct lifetime *life = &part->life[i];
        int64_t copies = copies_of(c, piece, life);
        struct group_sum *sum =
            &c->sum[(int64_t)plan->instance[life->instance].op * HELD_COUNT + life->held];
        if (copies == 0)
            continue;
        c->bytes[life->memory] += copies * life->bytes;
        if (sum->bytes == 0)
            *sum = (struct group_sum){.first = life->instance,
                                      .last = life->instance,
                                      .latest = -1,
                                      .memory = (enum memory_class)life->memory};
        sum->bytes += copies * life->bytes;
        sum->first = life->instance < sum->first ? life->instance : sum->first;
        sum->last = life->instance > sum->last ? life->instance : sum->last;
        sum->instances += life->instance != sum->latest;
        sum->latest = life->instance;
        sum->micro_batches = copies > sum->micro_batches ? copies : sum->micro_batches;
    }
}

/* ---- in words -------------------------------------------------------------------------------- */

enum { MOST_HOLDINGS = 16 };

static const char *describe(struct arena *keep, const struct plan *plan, enum held held,
                            const struct group_sum *sum)
{
    const char *path = path_range(keep, plan_path(keep, plan, sum->first),
                                  plan_path(keep, plan, sum->last), sum->instances);
    if (sum->micro_batches == 1)
        return arena_printf(keep, "%s %s", path, held_name(held));
    return arena_printf(keep, "%s %s, %lld micro-batches", path, held_name(held),
                        (long long)sum->micro_batches);
}

/* The largest so far, in descending order; equal ones in the order in which they came. */
struct largest {
    struct holding *holding;
    int64_t *sum; /* per holding: its number in the census, -1: it has a text already */
    int32_t count;
};

static void offer(struct largest *l, struct holding one, int64_t sum)
{
    int32_t at = l->count;
    while (at > 0 && l->holding[at - 1].bytes < one.bytes)
        at--;
    if (one.bytes == 0 || at == MOST_HOLDINGS)
        return;
    l->count += l->count < MOST_HOLDINGS;
    size_t after = (size_t)(l->count - at - 1);
    memmove(&l->holding[at + 1], &l->holding[at], after * sizeof one);
    memmove(&l->sum[at + 1], &l->sum[at], after * sizeof sum);
    l->holding[at] = one;
    l->sum[at] = sum;
}

static void list_holdings(struct arena *keep, const struct census *c, const struct state *state,
                          struct stage_peak *out)
{
    static const char *const STATE[] = {
        [MEMORY_WEIGHTS] = "weights",
        [MEMORY_GRADIENTS] = "gradients of weights",
        [MEMORY_OPTIMIZER] = "optimizer state",
    };
    const struct plan *plan = c->player->plan;
    struct largest l = {ARENA_ARRAY(keep, struct holding, MOST_HOLDINGS),
                        ARENA_ARRAY(c->player->scratch, int64_t, MOST_HOLDINGS), 0};
    for (int k = 0; k < (int)COUNT_OF(STATE); k++)
        offer(&l, (struct holding){STATE[k], (enum memory_class)k, state->bytes[k]}, -1);
    const struct holding beside[] = {
        {"stand-ins for weight gradients", MEMORY_GRADIENTS, state->stand_ins},
        {"buffer of scores", MEMORY_WORKSPACE, state->buffer},
        {"scratch memory of kernels", MEMORY_WORKSPACE, state->scratch},
        {"gradients of weights, all of them", MEMORY_GRADIENTS, out->in_step ? state->late : 0},
        {"copies for the optimizer's step", MEMORY_OPTIMIZER, out->in_step ? state->step : 0}};
    for (size_t k = 0; k < COUNT_OF(beside); k++)
        offer(&l, beside[k], -1);
    for (int64_t i = 0; i < (int64_t)plan->model->ops * HELD_COUNT; i++)
        offer(&l, (struct holding){NULL, c->sum[i].memory, c->sum[i].bytes}, i);
    for (int32_t i = 0; i < l.count; i++)
        if (l.sum[i] >= 0)
            l.holding[i].what =
                describe(keep, plan, (enum held)(l.sum[i] % HELD_COUNT), &c->sum[l.sum[i]]);
    out->holding = l.holding;
    out->holdings = l.count;
}

/* ---- stages ---------------------------------------------------------------------------------- */

struct peak_finding {
    struct player player;
    struct summit top;
    struct state state;
    struct census census;
    struct stage_peak peak;
};

static void find_place(const struct prediction *p, int32_t stage, int64_t place,
                       const struct memory_budget *budget, struct arena *scratch,
                       struct peak_finding *out)
{
    const struct plan *plan = p->plan;
    struct stage_peak *peak = &out->peak;
    out->player = player_of(scratch, p->graph, stage, place);
    out->top = find_summit(&out->player);
    out->state = graph_state(scratch, p->graph, stage, place);
    bool in_step = state_at_step(&out->state) > out->top.above; /* (3) */
    if (in_step)
        out->top = (struct summit){.host = out->top.host, .slot = -1, .item = -1, .beside = -1};
    out->census = start_census(&out->player, &out->top);
    for (int32_t piece = 0; out->top.slot >= 0 && piece < plan->pieces; piece++)
        count_piece(&out->census, piece);
    *peak = (struct stage_peak){.limit = budget->all,
                                .context = budget->context,
                                .margin = budget->margin,
                                .host = out->top.host + out->state.host,
                                .slot = out->top.slot,
                                .place = place,
                                .in_step = in_step};
    for (int k = 0; k < MEMORY_CLASS_COUNT; k++) {
        peak->state[k] = out->state.bytes[k];
        peak->state[k] += k == MEMORY_GRADIENTS ? out->state.stand_ins : 0;
        peak->state[k] += k == MEMORY_WORKSPACE ? out->state.buffer + out->state.scratch : 0;
        peak->bytes[k] = peak->state[k] + out->census.bytes[k];
        peak->bytes[k] += in_step && k == MEMORY_GRADIENTS ? out->state.late : 0;
        peak->bytes[k] += in_step && k == MEMORY_OPTIMIZER ? out->state.step : 0;
        peak->peak += peak->bytes[k];
    }
    peak->reserved = peak->peak;
    if (in_step)
        peak->at_ns = p->iteration_ns;
    else if (out->top.slot >= 0)
        peak->at_ns = player_time(p, &out->player, out->top.slot, out->top.item);
}

/* The fullest of its devices. */
static void find_stage(struct prediction *p, int32_t stage, const struct memory_budget *budget,
                       struct arena *scratch, struct peak_finding *out)
{
    int64_t *place, places = plan_kinds_of_places(scratch, p->plan, stage, &place);
    for (int64_t i = 0; i < places; i++) {
        struct peak_finding one;
        find_place(p, stage, place[i], budget, scratch, &one);
        if (i == 0 || one.peak.peak > out->peak.peak)
            *out = one;
    }
    out->census.player = &out->player;
    out->census.top = &out->top;
    p->stage[stage].memory = out->peak;
}

static double above_state(const struct graph *graph, int32_t stage, int64_t place,
                          int64_t micro_batches)
{
    struct arena *scratch = arena_new();
    struct player player = player_of_fewer(scratch, graph, stage, place, micro_batches);
    int64_t bytes = find_summit(&player).above;
    arena_free(scratch);
    return (double)bytes;
}

int64_t place_peak_bytes(const struct graph *graph, int32_t stage, int64_t place)
{
    enum {
        MOST_PLAYED = 1 << 15
    }; /* passes forward: a millisecond, and enough for any schedule to fill */
    const struct plan *plan = graph->plan;
    int64_t rounds = MOST_PLAYED / plan->parts + PLAN_ROUNDS;
    int64_t m = plan_micro_batches(plan), more = plan_fewer_micro_batches(plan, rounds),
            few = plan_fewer_micro_batches(plan, rounds / 2);
    double bytes = above_state(graph, stage, place, more);
    if (more < m) /* continued.c, (1) */
        bytes += (bytes - above_state(graph, stage, place, few)) / (double)(more - few) *
                 (double)(m - more);
    int64_t above = bytes < 0x1p62 ? llround(bytes) : INT64_C(1) << 62;
    struct arena *scratch = arena_new();
    struct state state = graph_state(scratch, graph, stage, place);
    int64_t step = state_at_step(&state), total = state_total(&state);
    arena_free(scratch);
    return total + (above > step ? above : step); /* (3) */
}

int64_t stage_needed(const struct stage_peak *memory)
{
    return memory->reserved + memory->context + memory->communicators + memory->margin;
}

/* By the share of the device's memory, which differs where stages are on different devices. */
static bool is_fuller(const struct stage_peak *a, const struct stage_peak *b)
{
    return a->limit == b->limit
               ? a->peak > b->peak
               : (double)a->peak * (double)b->limit > (double)b->peak * (double)a->limit;
}

static int32_t fullest_stage(const struct prediction *p)
{
    int32_t fullest = 0;
    for (int32_t s = 1; s < p->plan->stages; s++)
        if (is_fuller(&p->stage[s].memory, &p->stage[fullest].memory))
            fullest = s;
    return fullest;
}

static int64_t room_of(const struct stage_peak *memory)
{
    return memory->limit - (stage_needed(memory) - memory->reserved);
}

/* Where tensors alone are too much for one stage, or a request of one is refused, the plan does not run: nobody
 * asks what the others would reserve. */
static void find_returned(struct prediction *p, const struct peak_finding *all)
{
    bool runs = true;
    for (int32_t s = 0; s < p->plan->stages; s++)
        runs &= p->stage[s].memory.peak <= room_of(&p->stage[s].memory);
    for (int32_t s = 0; s < p->plan->stages && runs; s++) {
        struct stage_peak *peak = &p->stage[s].memory;
        if (peak->reserved <= room_of(peak))
            continue;
        peak->returning = find_returning(&all[s].player, &all[s].state, room_of(peak));
        runs = peak->returning > 0;
    }
}

void find_memory(struct prediction *p, const struct simulate_options *options)
{
    struct arena *scratch = arena_new();
    struct peak_finding *all = ARENA_ARRAY(scratch, struct peak_finding, (size_t)p->plan->stages);
    /* A limit that was given is for tensors. */
    const int64_t *communicators =
        p->plan->memory.limit_bytes ? NULL : find_communicators(scratch, p->graph);
    for (int32_t s = 0; s < p->plan->stages; s++) {
        struct memory_budget budget =
            memory_budget(plan_stage_device(p->plan, s), &p->plan->memory);
        find_stage(p, s, &budget, scratch, &all[s]);
    }
    int32_t fullest = fullest_stage(p);
    p->fits = true;
    for (int32_t s = 0; s < p->plan->stages; s++) {
        struct stage_peak *peak = &p->stage[s].memory;
        if (!options->times_only)
            peak->reserved =
                find_reserved(&all[s].player, &all[s].state, peak->peak, options->reserved);
        if (!options->times_only || s == fullest)
            list_holdings(p->arena, &all[s].census, &all[s].state, peak);
        peak->communicators = communicators ? communicators[s] : 0;
        p->fits &= stage_needed(peak) <= peak->limit; /* I3 */
    }
    if (options->returning && !p->fits)
        find_returned(p, all);
    arena_free(scratch);
}
