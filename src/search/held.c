/* held.c - how full a stage's devices get (held.h has the equations). */
#include "search/held.h"

#include <string.h>

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

/* (4), if there are pairs. */
static int64_t held_in_pairs(const struct part_memory *part, int64_t ahead, int64_t forwards)
{
    if (ahead >= forwards)
        return held_in_turn(part, forwards);
    return larger(ahead * part->kept + part->forward_rise + part->backward_rise,
                  held_in_turn(part, ahead));
}

/* (2), from the first backward pass to the first one of weight gradients; later ones repeat the last. */
static int64_t held_split(const struct part_memory *part, const struct pipeline *pipeline,
                          int32_t stage)
{
    int64_t m = pipeline->micro_batches, warm_up = pipeline->stages - stage - 1, most = 0;
    for (int64_t k = 0; k <= stage && k < m; k++) {
        int64_t forwards = warm_up + k < m - 1 ? warm_up + k : m - 1; /* before the latest one */
        int64_t held = forwards * part->kept + k * part->back;
        if (k == 0 || warm_up + k < m)
            most = larger(most, held + part->forward_rise);
        most = larger(most, held + part->kept + part->backward_rise);
        if (k == stage || k == m - 1)
            most = larger(most, held + part->kept + part->back + part->weight_rise);
    }
    return most;
}

/* Sums over the passes of all pieces before pass i of a piece. */
struct before {
    int64_t kept, offloaded; /* of pieces before it */
    const struct part_memory *part, *last;
    int64_t passes, first; /* of all pieces; the piece's first one */
};

/* O(i - 1) of (3); the checkpoints of the last two passes stay. */
static int64_t offloaded_before(const struct before *b, int64_t i)
{
    int64_t gone = i - 1 < b->passes - 2 ? i - 1 : b->passes - 2;
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
    struct before b = {.last = part, .passes = m * pipeline->pieces};
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

/* A slot, and whose checkpoints leave or are back at its start: pieces. */
struct moment_of_stage {
    int32_t piece, left, back;
    enum slot_kind kind;
    bool paired; /* with the next one */
};
struct stage_slots {
    const struct schedule *schedule;
    struct pipeline pipeline;
    int32_t stage;
    struct moment_of_stage *slot;
    size_t slots;
};
struct holdings {
    struct arena *keep;
    ARRAY(struct stage_slots) lists;
};

struct holdings *holdings_new(struct arena *keep)
{
    struct holdings *holdings = ARENA_NEW(keep, struct holdings);
    holdings->keep = keep;
    return holdings;
}

/* I1. */
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

static struct stage_slots list_slots(struct arena *keep, const struct schedule *schedule,
                                     struct pipeline pipeline, int32_t stage)
{
    struct arena *scratch = arena_new();
    struct slots slots = {0};
    schedule->order(&pipeline, stage, scratch, &slots);
    struct stage_slots list = {schedule, pipeline, stage,
                               ARENA_ARRAY(keep, struct moment_of_stage, slots.len), slots.len};
    for (size_t i = 0; i < slots.len; i++)
        list.slot[i] =
            (struct moment_of_stage){slots.data[i].piece, NONE, NONE, slots.data[i].kind,
                                     slots_paired(schedule, &pipeline, stage, &slots, i)};
    find_away(&slots, &pipeline, scratch, list.slot);
    arena_free(scratch);
    return list;
}

static const struct stage_slots *find_slots(struct holdings *holdings,
                                            const struct schedule *schedule,
                                            struct pipeline pipeline, int32_t stage)
{
    for (size_t i = 0; i < holdings->lists.len; i++) {
        const struct stage_slots *list = &holdings->lists.data[i];
        if (list->schedule == schedule && list->stage == stage &&
            memcmp(&list->pipeline, &pipeline, sizeof pipeline) == 0)
            return list;
    }
    struct stage_slots list = list_slots(holdings->keep, schedule, pipeline, stage);
    array_push(holdings->keep, &holdings->lists, list);
    return &holdings->lists.data[holdings->lists.len - 1];
}

static int64_t rise_of(const struct part_memory *part, enum slot_kind kind)
{
    return kind == SLOT_FORWARD           ? part->forward_rise
           : kind == SLOT_BACKWARD_WEIGHT ? part->weight_rise
                                          : part->backward_rise;
}

/* By how much a slot leaves its stage fuller, and rises on the way, beside another's rise. */
static void hold_slot(const struct part_memory *part, enum slot_kind kind, int64_t beside,
                      int64_t *held, int64_t *most)
{
    *most = larger(*most, *held + rise_of(part, kind) + beside);
    *held += kind == SLOT_FORWARD           ? part->kept
             : kind == SLOT_BACKWARD        ? -part->kept /* I3 */
             : kind == SLOT_BACKWARD_WEIGHT ? -part->kept - part->back
                                            : part->back;
}

static int64_t held_played(struct holdings *holdings, const struct schedule *schedule,
                           struct pipeline pipeline, int32_t stage, const struct part_memory *part)
{
    int64_t held = 0, most = 0, stride = pipeline.stages;
    int32_t enough = ROUNDS_PLAYED * pipeline.stages * pipeline.pieces; /* I2 */
    if (pipeline.micro_batches > enough)
        pipeline.micro_batches = enough;
    const struct stage_slots *list = find_slots(holdings, schedule, pipeline, stage);
    for (size_t i = 0; i < list->slots; i++) {
        const struct moment_of_stage *slot = &list->slot[i];
        held -= slot->left >= 0 ? part[slot->left * stride].offloaded : 0;
        held += slot->back >= 0 ? part[slot->back * stride].offloaded : 0;
        int64_t beside = 0;
        if (slot->paired)
            beside = rise_of(&part[slot[1].piece * stride], slot[1].kind);
        hold_slot(&part[slot->piece * stride], slot->kind, beside, &held, &most);
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

int64_t most_held(struct holdings *holdings, const struct schedule *schedule,
                  const struct pipeline *pipeline, int32_t stage, const struct part_memory *part)
{
    if (schedule->passes == ORDER_FORWARDS_FIRST)
        return held_in_waves(pipeline, part);
    if (pipeline->pieces > 1 || offloads(pipeline, part))
        return held_played(holdings, schedule, *pipeline, stage, part);
    if (schedule->passes == ORDER_SPLIT)
        return held_split(part, pipeline, stage);
    if (schedule->passes == ORDER_PAIRED)
        return held_in_pairs(part, schedule->ahead(pipeline, stage), pipeline->micro_batches);
    return held_in_turn(part, schedule->in_flight(pipeline, stage));
}
