/* stage_memory.c - how full a stage's devices get (stage_memory.h has the equations). */
#include "search/estimate/stage_memory.h"

#include <string.h>

#include "search/estimate/places.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- closed forms ---------------------------------------------------------------------------- */

/* (1) */
static int64_t held_in_turn(const struct part_memory *part, int64_t in_flight)
{
    return larger((in_flight - 1) * part->kept + part->forward_rise,
                  in_flight * part->kept + part->backward_rise);
}

/* (4), where there are pairs. */
static int64_t held_in_pairs(const struct part_memory *part, int64_t ahead, int64_t forwards)
{
    if (ahead >= forwards)
        return held_in_turn(part, forwards);
    int64_t above = part->forward_rise - part->kept;
    return larger(ahead * part->kept + above + part->backward_rise, held_in_turn(part, ahead));
}

/* (2), from the first backward pass to the first pass of weight gradients; later passes repeat the
 * last. */
static int64_t held_split(const struct part_memory *part, const struct pipeline *pipeline,
                          int32_t stage)
{
    int64_t m = pipeline->micro_batches, warm_up = pipeline->stages - stage - 1, most = 0;
    for (int64_t k = 0; k <= stage && k < m; k++) {
        /* Forward passes before the latest one. */
        int64_t forwards = warm_up + k < m - 1 ? warm_up + k : m - 1;
        int64_t held = forwards * part->kept + k * part->back;
        if (k == 0 || warm_up + k < m)
            most = larger(most, held + part->forward_rise);
        most = larger(most, held + part->kept + part->backward_rise);
        if (k == stage || k == m - 1)
            most = larger(most, held + part->kept + part->back + part->weight_rise);
    }
    return most;
}

/* Sums over the passes of all pieces that come before pass i of a piece. */
struct before {
    int64_t kept, offloaded; /* of pieces before it */
    const struct part_memory *part, *last;
    int64_t first; /* the piece's first pass */
};

/* O(i - 1) of (3); the checkpoints of pass i and of the one before it stay on the device. */
static int64_t offloaded_before(const struct before *b, int64_t i)
{
    int64_t gone = i - 1;
    if (gone >= b->first)
        return b->offloaded + (gone - b->first) * b->part->offloaded;
    return larger(0, b->offloaded - (b->first - gone) * b->last->offloaded);
}

/* (3) */
static int64_t held_at(const struct before *b, int64_t i)
{
    int64_t kept = b->kept + (i - b->first) * b->part->kept - offloaded_before(b, i);
    return kept + larger(b->part->forward_rise, b->part->kept + b->part->backward_rise);
}

static int64_t held_in_waves(const struct pipeline *pipeline, const struct part_memory *part)
{
    int64_t m = pipeline->micro_batches, most = 0;
    struct before b = {.last = part};
    for (int32_t k = 0; k < pipeline->pieces; k++) {
        b.part = &part[(int64_t)k * pipeline->stages];
        b.first = k * m;
        most = larger(most, held_at(&b, b.first));
        for (int64_t i = m > 3 ? m - 3 : 1; i < m; i++)
            most = larger(most, held_at(&b, b.first + i));
        if (m > 1)
            most = larger(most, held_at(&b, b.first + 1));
        b.kept += m * b.part->kept;
        b.offloaded += m * b.part->offloaded;
        b.last = b.part;
    }
    return most;
}

/* ---- slot by slot ---------------------------------------------------------------------------- */

enum { NONE = -1, ROUNDS_PLAYED = 3 };

/* A slot, and the pieces whose checkpoints leave, or are back, at its start. */
struct moment_of_stage {
    int32_t piece, left, back;
    enum slot_kind kind;
    bool paired; /* with the next one */
};
/* How far a slot of some kind rises above its start, and by how much it changes what its stage
 * holds. */
struct slot_turn {
    int64_t rise, net;
};
struct stage_slots {
    struct moment_of_stage *slot;
    size_t slots;
    int32_t *turn;         /* per slot: an index by piece, then kind */
    size_t enough;         /* I4: how many slots need to be played if nothing is offloaded */
    struct slot_turn *own; /* an array for the parts of the current question */
};
struct holdings {
    struct arena *keep;
    struct hash_map by_shape;
    ARRAY(struct stage_slots) lists;
};

struct holdings *holdings_new(struct arena *keep)
{
    struct holdings *holdings = ARENA_NEW(keep, struct holdings);
    holdings->keep = keep;
    return holdings;
}

/* I1: finds when offloaded checkpoints are away. */
static void find_away(const struct slots *slots, const struct pipeline *pipeline,
                      struct arena *scratch, struct moment_of_stage *out)
{
    size_t pieces = (size_t)pipeline->pieces;
    int64_t *forward = ARENA_ARRAY(scratch, int64_t, pieces *(size_t)pipeline->micro_batches);
    for (int64_t g = 0; g < (int64_t)slots->len; g++) {
        const struct slot *slot = &slots->data[g];
        int64_t *f = &forward[(size_t)slot->micro_batch * pieces + (size_t)slot->piece];
        bool reads = slot->kind == SLOT_BACKWARD || slot->kind == SLOT_BACKWARD_INPUT;
        if (slot->kind == SLOT_FORWARD)
            *f = g;
        if (!reads || *f + 2 >= g - 1)
            continue;
        out[*f + 2].left = slot->piece;
        out[g - 1].back = slot->piece;
    }
}

/* What a stage holds, as numbers of passes per piece: of how many passes it keeps what is kept, and
 * of how many what is added. */
struct count {
    int32_t kept, back;
};
typedef ARRAY(struct count *) count_list;

static bool is_within(const struct count *count, const struct count *most, int32_t pieces)
{
    for (int32_t k = 0; k < pieces; k++)
        if (count[k].kept > most[k].kept || count[k].back > most[k].back)
            return false;
    return true;
}

/* Whether no earlier slot of the same piece and kind found as much; if so, it is added to those
 * compared with. */
static bool is_fuller(struct arena *scratch, const struct count *count, int32_t pieces,
                      count_list *before)
{
    size_t kept = 0;
    for (size_t i = 0; i < before->len; i++)
        if (is_within(count, before->data[i], pieces))
            return false;
    for (size_t i = 0; i < before->len; i++)
        if (!is_within(before->data[i], count, pieces))
            before->data[kept++] = before->data[i];
    before->len = kept;
    struct count *own = ARENA_ARRAY(scratch, struct count, (size_t)pieces);
    memcpy(own, count, (size_t)pieces * sizeof *own);
    array_push(scratch, before, own);
    return true;
}

static void count_slot(struct count *count, enum slot_kind kind)
{
    count->kept += kind == SLOT_FORWARD ? 1 : kind == SLOT_BACKWARD_INPUT ? 0 : -1;
    count->back += kind == SLOT_BACKWARD_INPUT ? 1 : kind == SLOT_BACKWARD_WEIGHT ? -1 : 0;
}

/* Finds `enough` (I4). */
static size_t count_enough(struct arena *scratch, const struct stage_slots *list, int32_t pieces)
{
    struct count *count = ARENA_ARRAY(scratch, struct count, (size_t)pieces);
    count_list *before = ARENA_ARRAY(scratch, count_list, (size_t)pieces * SLOT_KIND_COUNT);
    size_t enough = 0;
    for (size_t i = 0; i < list->slots; i++) {
        if (is_fuller(scratch, count, pieces, &before[list->turn[i]]))
            enough = i + 1;
        count_slot(&count[list->slot[i].piece], list->slot[i].kind);
    }
    return enough;
}

static struct stage_slots list_slots(struct arena *keep, const struct schedule *schedule,
                                     struct pipeline pipeline, int32_t stage)
{
    struct arena *scratch = arena_new();
    struct slots slots = {0};
    schedule_order(schedule, &pipeline, stage, scratch, &slots);
    struct stage_slots list = {
        .slot = ARENA_ARRAY(keep, struct moment_of_stage, slots.len),
        .slots = slots.len,
        .turn = ARENA_ARRAY(keep, int32_t, slots.len),
        .own = ARENA_ARRAY(keep, struct slot_turn, (size_t)pipeline.pieces * SLOT_KIND_COUNT)};
    for (size_t i = 0; i < slots.len; i++) {
        const struct slot *slot = &slots.data[i];
        bool paired = slots_paired(schedule, &pipeline, stage, &slots, i);
        list.slot[i] = (struct moment_of_stage){slot->piece, NONE, NONE, slot->kind, paired};
        list.turn[i] = slot->piece * SLOT_KIND_COUNT + (int32_t)slot->kind;
    }
    find_away(&slots, &pipeline, scratch, list.slot);
    list.enough = count_enough(scratch, &list, pipeline.pieces);
    arena_free(scratch);
    return list;
}

static const struct stage_slots *find_slots(struct holdings *holdings,
                                            const struct schedule *schedule,
                                            struct pipeline pipeline, int32_t stage)
{
    uintptr_t words[] = {(uintptr_t)schedule,        (uintptr_t)pipeline.stages,
                         (uintptr_t)pipeline.pieces, (uintptr_t)pipeline.micro_batches,
                         (uintptr_t)pipeline.group,  (uintptr_t)stage};
    uint64_t hash = hash_bytes(words, sizeof words, 7) | 1;
    int32_t number = (int32_t)hash_get(&holdings->by_shape, hash);
    if (number < 0) {
        struct stage_slots list = list_slots(holdings->keep, schedule, pipeline, stage);
        number = (int32_t)holdings->lists.len;
        array_push(holdings->keep, &holdings->lists, list);
        *hash_at(&holdings->by_shape, holdings->keep, hash) = number;
    }
    return &holdings->lists.data[number];
}

static struct slot_turn turn_of(const struct part_memory *part, enum slot_kind kind)
{
    switch (kind) {
    case SLOT_FORWARD:
        return (struct slot_turn){part->forward_rise, part->kept};
    case SLOT_BACKWARD:
        return (struct slot_turn){part->backward_rise, -part->kept}; /* I3 */
    case SLOT_BACKWARD_WEIGHT:
        return (struct slot_turn){part->weight_rise, -part->kept - part->back};
    default:
        return (struct slot_turn){part->backward_rise, part->back};
    }
}

/* Whether some pass frees memory where it should leave some: then more passes in flight may hold
 * less. */
static bool any_gives(const struct pipeline *pipeline, const struct part_memory *part, bool split)
{
    bool any = false;
    for (int32_t k = 0; k < pipeline->pieces; k++)
        any |= part[(int64_t)k * pipeline->stages].kept < 0 ||
               (split && part[(int64_t)k * pipeline->stages].back < 0);
    return any;
}

/* (4), without what was held before. */
static int64_t rise_of_pair(const struct slot_turn *forward, const struct slot_turn *backward)
{
    return larger(0, forward->net + backward->net) + forward->rise - forward->net + backward->rise;
}

static int64_t held_played(struct holdings *holdings, const struct schedule *schedule,
                           struct pipeline pipeline, int32_t stage, const struct part_memory *part,
                           bool offloads)
{
    int64_t held = 0, most = 0, stride = pipeline.stages;
    int64_t round = schedule_round(schedule, &pipeline);
    int64_t enough = ROUNDS_PLAYED * round * pipeline.pieces; /* I2 */
    if (schedule->grouped)
        pipeline.group = (int32_t)round;
    if (pipeline.micro_batches > enough && !schedule->lists)
        pipeline.micro_batches = (int32_t)enough;
    const struct stage_slots *list = find_slots(holdings, schedule, pipeline, stage);
    for (int32_t k = 0; k < pipeline.pieces; k++)
        for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
            list->own[k * SLOT_KIND_COUNT + kind] =
                turn_of(&part[k * stride], (enum slot_kind)kind);
    bool all = offloads || schedule->passes == ORDER_PAIRED ||
               any_gives(&pipeline, part, schedule->passes == ORDER_SPLIT);
    size_t slots = all ? list->slots : list->enough;
    for (size_t i = 0; i < slots; i++) {
        const struct slot_turn *turn = &list->own[list->turn[i]];
        const struct moment_of_stage *slot = &list->slot[i];
        held -= offloads && slot->left >= 0 ? part[slot->left * stride].offloaded : 0;
        held += offloads && slot->back >= 0 ? part[slot->back * stride].offloaded : 0;
        bool second = i > 0 && list->slot[i - 1].paired;
        int64_t rise =
            slot->paired ? rise_of_pair(turn, &list->own[list->turn[i + 1]]) : turn->rise;
        most = second ? most : larger(most, held + rise);
        held += turn->net;
    }
    return most;
}

/* ---- which ----------------------------------------------------------------------------------- */

static bool offloads(const struct pipeline *pipeline, const struct part_memory *part)
{
    bool any = false;
    for (int32_t k = 0; k < pipeline->pieces; k++)
        any |= part[(int64_t)k * pipeline->stages].offloaded > 0;
    return any;
}

/* A stage's parts as if every piece went the same way: piece k at k * stages. */
static const struct part_memory *straighten(struct arena *scratch, const struct pipeline *pipeline,
                                            int32_t stage, const struct part_memory *part)
{
    const struct part_memory *all = part - stage;
    int32_t stages = pipeline->stages;
    struct part_memory *out =
        ARENA_ARRAY(scratch, struct part_memory, (size_t)pipeline->pieces * (size_t)stages);
    for (int32_t k = 0; k < pipeline->pieces; k++)
        out[k * stages] = all[part_of_piece(true, stages, stage, k)];
    return out;
}

static int64_t held_in_lists(struct holdings *holdings, const struct schedule *schedule,
                             const struct pipeline *pipeline, int32_t stage,
                             const struct part_memory *part)
{
    struct arena *scratch = arena_new();
    if (schedule->zigzag)
        part = straighten(scratch, pipeline, stage, part);
    int64_t held =
        held_played(holdings, schedule, *pipeline, stage, part, offloads(pipeline, part));
    arena_free(scratch);
    return held;
}

int64_t most_held(struct holdings *holdings, const struct schedule *schedule,
                  const struct pipeline *pipeline, int32_t stage, const struct part_memory *part)
{
    if (schedule->played)
        return held_in_lists(holdings, schedule, pipeline, stage, part);
    if (schedule->passes == ORDER_FORWARDS_FIRST)
        return held_in_waves(pipeline, part);
    bool offload = offloads(pipeline, part);
    if (pipeline->pieces > 1 || offload)
        return held_played(holdings, schedule, *pipeline, stage, part, offload);
    if (schedule->passes == ORDER_SPLIT)
        return held_split(part, pipeline, stage);
    if (schedule->passes == ORDER_PAIRED)
        return held_in_pairs(part, schedule->ahead(pipeline, stage), pipeline->micro_batches);
    return held_in_turn(part, schedule_in_flight(schedule, pipeline, stage));
}
