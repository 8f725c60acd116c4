/* lists.c - lists of slots that were read or found: whether they are complete and free of deadlock.
 *
 * Every piece and micro-batch of a stage goes through the states
 *   nothing -F-> forward -B-> done,   or   nothing -F-> forward -I-> input -W-> done             (1)
 * and each slot is one step of that. Executed in list order, a slot waits for what the parts beside
 * its own have computed (play.c, 2). Steps are counted, not timed: whether lists block each other
 * depends on no times.
 *
 *   I1  Lists pass that take every step of (1) once, in order, and of which some stage can always
 *       execute its next slot until all are done. Everything else is refused, with its stage, slot
 *       and reason.
 *   I2  A list's passes are split (ORDER_SPLIT) if any stage has a slot of input gradients.
 */
#include <string.h>

#include "schedule/lists.h"

enum slot_state { NOTHING, FORWARD, INPUT, DONE, STATE_COUNT };

/* (1): what a slot expects and leaves, and what is wrong otherwise. */
static const struct {
    enum slot_state before, after;
    const char *wrong[STATE_COUNT];
} STEPS[] = {
    [SLOT_FORWARD] = {NOTHING,
                      FORWARD,
                      {NULL, "its forward pass comes twice", "its forward pass comes twice",
                       "its forward pass comes twice"}},
    [SLOT_BACKWARD] = {FORWARD,
                       DONE,
                       {"its backward pass comes before its forward pass", NULL,
                        "its backward pass comes whole after its input gradients",
                        "its backward pass comes twice"}},
    [SLOT_BACKWARD_INPUT] = {FORWARD,
                             INPUT,
                             {"its input gradients come before its forward pass", NULL,
                              "its input gradients come twice", "its backward pass comes twice"}},
    [SLOT_BACKWARD_WEIGHT] = {INPUT,
                              DONE,
                              {"its weight gradients come before its forward pass",
                               "its weight gradients come before its input gradients", NULL,
                               "its weight gradients come twice"}},
};
_Static_assert(COUNT_OF(STEPS) == SLOT_KIND_COUNT, "a kind of slot without a step");

/* What a piece and micro-batch lacks that ended in this state. */
static const char *const LACKS[] = {
    [NOTHING] = "forward pass", [FORWARD] = "backward pass", [INPUT] = "weight gradients"};

static uint8_t *state_at(const struct list_states *states, int32_t stage, int32_t piece, int32_t m)
{
    const struct pipeline *p = &states->pipeline;
    size_t part = (size_t)stage * (size_t)p->pieces + (size_t)piece;
    return &states->state[part * (size_t)p->micro_batches + (size_t)m];
}

struct list_states list_states_new(struct arena *scratch, const struct pipeline *pipeline)
{
    size_t parts = (size_t)pipeline->stages * (size_t)pipeline->pieces;
    return (struct list_states){
        *pipeline, ARENA_ARRAY(scratch, uint8_t, parts *(size_t)pipeline->micro_batches)};
}

const char *list_states_take(struct list_states *states, int32_t stage, struct slot slot)
{
    uint8_t *state = state_at(states, stage, slot.piece, slot.micro_batch);
    const char *wrong = STEPS[slot.kind].wrong[*state];
    *state = (uint8_t)STEPS[slot.kind].after;
    return wrong;
}

/* ---- all that is needed is there (I1) -------------------------------------------------------- */

static weft_status check_steps(const struct slot_lists *lists, const char *file,
                               struct list_states *states)
{
    for (int32_t s = 0; s < lists->pipeline.stages; s++)
        for (size_t i = 0; i < lists->stage[s].len; i++) {
            struct slot slot = lists->stage[s].data[i];
            bool first = pipeline_first(&lists->pipeline, s, slot.micro_batch) == slot.micro_batch;
            const char *wrong =
                first ? list_states_take(states, s, slot)
                      : "its stage takes it together with the micro-batches before it";
            if (wrong)
                return bad_input(file, 0, NULL, "stage %d, slot %zu (%s): %s", s, i + 1,
                                 slot_label(slot, &lists->pipeline).s, wrong);
        }
    return WEFT_OK;
}

static weft_status check_complete(const struct slot_lists *lists, const char *file,
                                  const struct list_states *states)
{
    const struct pipeline *p = &lists->pipeline;
    for (int32_t s = 0; s < p->stages; s++)
        for (int32_t piece = 0; piece < p->pieces; piece++)
            for (int32_t m = 0; m < p->micro_batches; m += pipeline_joins(p, s)) {
                enum slot_state state = (enum slot_state) * state_at(states, s, piece, m);
                if (state != DONE)
                    return bad_input(file, 0, NULL,
                                     "stage %d has no %s of micro-batch %d, piece %d", s,
                                     LACKS[state], m, piece);
            }
    return WEFT_OK;
}

/* ---- no stage waits forever (I1) ------------------------------------------------------------- */

struct walk {
    const struct slot_lists *lists;
    bool zigzag;
    size_t *done;  /* slots, per stage */
    uint8_t *gone; /* per part and micro-batch: bits of what has been computed */
};
enum { GONE_FORWARD = 1, GONE_BACKWARD = 2 };

static uint8_t *gone_at(const struct walk *w, int32_t part, int32_t m)
{
    return &w->gone[(size_t)part * (size_t)w->lists->pipeline.micro_batches + (size_t)m];
}

/* Whether a part has computed all micro-batches of a stage's slot (schedule.h, I7). */
static bool all_gone(const struct walk *w, int32_t part, int32_t stage, int32_t m, uint8_t what)
{
    const struct pipeline *p = &w->lists->pipeline;
    int32_t there = stage_with_part(w->zigzag, p->stages, part);
    for (int32_t i = 0; i < pipeline_joins(p, stage); i++)
        if (!(*gone_at(w, part, pipeline_first(p, there, m + i)) & what))
            return false;
    return true;
}

static bool is_ready(const struct walk *w, int32_t stage, int32_t part, struct slot slot)
{
    int32_t parts = w->lists->pipeline.stages * w->lists->pipeline.pieces;
    if (slot.kind == SLOT_BACKWARD_WEIGHT) /* its input gradients come before it in the list */
        return true;
    if (slot.kind == SLOT_FORWARD)
        return part == 0 || all_gone(w, part - 1, stage, slot.micro_batch, GONE_FORWARD);
    return part == parts - 1 || all_gone(w, part + 1, stage, slot.micro_batch, GONE_BACKWARD);
}

static bool advance(const struct walk *w, int32_t stage)
{
    const struct slots *slots = &w->lists->stage[stage];
    bool moved = false;
    for (; w->done[stage] < slots->len; w->done[stage]++, moved = true) {
        struct slot slot = slots->data[w->done[stage]];
        int32_t part = part_of_piece(w->zigzag, w->lists->pipeline.stages, stage, slot.piece);
        if (!is_ready(w, stage, part, slot))
            return moved;
        *gone_at(w, part, slot.micro_batch) |=
            slot.kind == SLOT_FORWARD ? GONE_FORWARD : GONE_BACKWARD;
    }
    return moved;
}

static weft_status check_deadlock(const struct slot_lists *lists, bool zigzag, const char *file,
                                  struct arena *scratch)
{
    const struct pipeline *p = &lists->pipeline;
    size_t parts = (size_t)p->stages * (size_t)p->pieces;
    struct walk w = {lists, zigzag, ARENA_ARRAY(scratch, size_t, (size_t)p->stages),
                     ARENA_ARRAY(scratch, uint8_t, parts *(size_t)p->micro_batches)};
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t s = 0; s < p->stages; s++)
            moved |= advance(&w, s);
    }
    for (int32_t s = 0; s < p->stages; s++)
        if (w.done[s] < lists->stage[s].len)
            return bad_input(file, 0, "another stage must compute what it waits for first",
                             "deadlock: stage %d, slot %zu (%s) waits forever", s, w.done[s] + 1,
                             slot_label(lists->stage[s].data[w.done[s]], p).s);
    return WEFT_OK;
}

/* ---- several micro-batches at once (schedule.h, I7) ------------------------------------------- */

static weft_status check_joins(const struct pipeline *p, const char *file)
{
    for (int32_t s = 0; p->joins && s < p->stages; s++) {
        if (p->joins[s] < 1 || p->micro_batches % p->joins[s])
            return bad_input(file, 0, "a number that divides the micro-batches",
                             "stage %d takes %d of %s at once", s, p->joins[s],
                             counted(p->micro_batches, "micro-batch").s);
        if (p->joins[s] > 1 && p->pieces > 1)
            return bad_input(file, 0, "one piece, or one micro-batch at a time",
                             "stage %d takes %d micro-batches at once in %d pieces", s, p->joins[s],
                             p->pieces);
    }
    return WEFT_OK;
}

/* ---- a schedule of them ---------------------------------------------------------------------- */

static bool any_split(const struct slot_lists *lists)
{
    for (int32_t s = 0; s < lists->pipeline.stages; s++)
        for (size_t i = 0; i < lists->stage[s].len; i++)
            if (lists->stage[s].data[i].kind == SLOT_BACKWARD_INPUT)
                return true;
    return false;
}

struct slot_lists *schedule_lists(struct arena *keep, const struct schedule *schedule,
                                  const struct pipeline *pipeline)
{
    struct slot_lists *lists = ARENA_NEW(keep, struct slot_lists);
    *lists =
        (struct slot_lists){*pipeline, ARENA_ARRAY(keep, struct slots, (size_t)pipeline->stages)};
    for (int32_t s = 0; s < pipeline->stages; s++)
        schedule_order(schedule, pipeline, s, keep, &lists->stage[s]);
    return lists;
}

weft_status schedule_of_lists(struct arena *keep, const char *name, const char *file,
                              const struct slot_lists *lists, bool zigzag, struct schedule **out)
{
    struct arena *scratch = arena_new();
    struct list_states states = list_states_new(scratch, &lists->pipeline);
    weft_status status;
    TRY(check_joins(&lists->pipeline, file));
    TRY(check_steps(lists, file, &states));
    TRY(check_complete(lists, file, &states));
    TRY(check_deadlock(lists, zigzag, file, scratch));
    *out = ARENA_NEW(keep, struct schedule);
    **out = (struct schedule){.name = arena_copy_text(keep, name),
                              .summary = "an order that was read or found",
                              .passes = any_split(lists) ? ORDER_SPLIT : ORDER_IN_TURN, /* I2 */
                              .least_pieces = lists->pipeline.pieces,
                              .most_pieces = lists->pipeline.pieces,
                              .zigzag = zigzag,
                              .played = true,
                              .lists = lists};
done:
    arena_free(scratch);
    return status;
}

static const int32_t *joins_copy(struct arena *keep, const struct pipeline *from)
{
    int32_t *joins = ARENA_ARRAY(keep, int32_t, (size_t)from->stages);
    memcpy(joins, from->joins, (size_t)from->stages * sizeof *joins);
    return joins;
}

struct schedule *schedule_copy(struct arena *keep, const struct schedule *listed)
{
    const struct slot_lists *from = listed->lists;
    struct slot_lists *lists = ARENA_NEW(keep, struct slot_lists);
    struct schedule *copy = ARENA_NEW(keep, struct schedule);
    *lists = (struct slot_lists){from->pipeline,
                                 ARENA_ARRAY(keep, struct slots, (size_t)from->pipeline.stages)};
    if (from->pipeline.joins)
        lists->pipeline.joins = joins_copy(keep, &from->pipeline);
    for (int32_t s = 0; s < from->pipeline.stages; s++) {
        array_reserve(keep, &lists->stage[s], from->stage[s].len);
        lists->stage[s].len = from->stage[s].len;
        memcpy(lists->stage[s].data, from->stage[s].data,
               from->stage[s].len * sizeof *from->stage[s].data);
    }
    *copy = *listed;
    copy->name = arena_copy_text(keep, listed->name);
    copy->lists = lists;
    return copy;
}

weft_status lists_suit(const struct schedule *schedule, const struct pipeline *pipeline)
{
    const struct pipeline *own = &schedule->lists->pipeline;
    if (own->stages == pipeline->stages && own->pieces == pipeline->pieces &&
        own->micro_batches == pipeline->micro_batches)
        return WEFT_OK;
    return bad_argument("an order is of one shape only",
                        "%s orders %s with %s and %s, not %d, %d and %d", schedule->name,
                        counted(own->stages, "stage").s, counted(own->pieces, "piece").s,
                        counted(own->micro_batches, "micro-batch").s, pipeline->stages,
                        pipeline->pieces, pipeline->micro_batches);
}

int64_t lists_in_flight(const struct slots *slots)
{
    int64_t held = 0, most = 0;
    for (size_t i = 0; i < slots->len; i++) {
        enum slot_kind kind = slots->data[i].kind;
        held += kind == SLOT_FORWARD;
        most = held > most ? held : most;
        held -= kind == SLOT_BACKWARD || kind == SLOT_BACKWARD_WEIGHT;
    }
    return most;
}
