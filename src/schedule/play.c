/* play.c - a schedule executed by the letter.
 *
 * Number the parts of the model q = piece * stages + stage. The i-th slot of a stage begins at
 *   start_i = max(end_(i-1), inputs_i),   end_i = start_i + time of the slot                    (1)
 *   inputs of F(q, j) = end of F(q - 1, j) + transfer; F(0, j) has none
 *   inputs of B(q, j) = end of B(q + 1, j) + transfer; B of the last part: end of its forward   (2)
 *   inputs of W(q, j) = end of B(q, j), B being the input gradients
 * (the latest of those of all its micro-batches, where a stage takes several at once)
 * and the iteration ends with the last slot. A transfer within one stage is free, unless it changes to the stage's other half
 * (schedule.h, I6).
 *
 *   I1  Ends are final when written, so the order in which stages are looked at changes nothing.
 *   I2  When no stage can go on before all are done, none ever will: a deadlock.
 */
#include <stdio.h>

#include "schedule/play.h"

enum { NOT_YET = -1 };

enum slot_chain { CHAIN_FORWARD, CHAIN_BACKWARD, CHAIN_WEIGHT, CHAIN_COUNT };

/* Where a slot's input comes from (2): part q + from of the chain it reads. */
static const struct {
    char letter;
    enum slot_chain reads, writes;
    int32_t from;
} KINDS[] = {
    [SLOT_FORWARD] = {'F', CHAIN_FORWARD, CHAIN_FORWARD, -1},
    [SLOT_BACKWARD] = {'B', CHAIN_BACKWARD, CHAIN_BACKWARD, +1},
    [SLOT_BACKWARD_INPUT] = {'I', CHAIN_BACKWARD, CHAIN_BACKWARD, +1},
    [SLOT_BACKWARD_WEIGHT] = {'W', CHAIN_BACKWARD, CHAIN_WEIGHT, 0},
};
_Static_assert(COUNT_OF(KINDS) == SLOT_KIND_COUNT, "a kind of slot without a row");

struct play {
    const struct pipeline *pipeline;
    const struct pipeline_times *times;
    bool zigzag, both_ways;
    int64_t *end_ns[CHAIN_COUNT]; /* by part, then micro-batch */
};

struct text32 slot_label(struct slot slot, const struct pipeline *pipeline)
{
    struct text32 text;
    char letter = KINDS[slot.kind].letter;
    if (pipeline->pieces == 1)
        snprintf(text.s, sizeof text.s, "%c%d", letter, slot.micro_batch);
    else if (pipeline->pieces <= 'z' - 'a' + 1)
        snprintf(text.s, sizeof text.s, "%c%d%c", letter, slot.micro_batch, 'a' + slot.piece);
    else
        snprintf(text.s, sizeof text.s, "%c%d.%d", letter, slot.micro_batch, slot.piece);
    return text;
}

static int64_t parts(const struct pipeline *pipeline)
{
    return (int64_t)pipeline->stages * pipeline->pieces;
}

static int64_t *end_of(const struct play *play, enum slot_chain chain, int64_t part,
                       int32_t micro_batch)
{
    return &play->end_ns[chain][part * play->pipeline->micro_batches + micro_batch];
}

static int64_t transfer_ns(const struct play *play, int32_t from, int32_t to)
{
    const struct pipeline_times *times = play->times;
    int32_t stages = play->pipeline->stages;
    int32_t sends = stage_with_part(play->zigzag, stages, from);
    bool within = sends == stage_with_part(play->zigzag, stages, to);
    if (from == to || (within && !play->both_ways))
        return 0;
    const int64_t *by_part = from < to ? times->send_ns : times->back_ns;
    return by_part ? by_part[from] : times->transfer_ns;
}

/* When a part has all micro-batches of a slot of another part (schedule.h, I7), or NOT_YET. */
static int64_t latest_end(const struct play *play, struct slot slot, int64_t source, int64_t part)
{
    const struct pipeline *p = play->pipeline;
    int32_t from = stage_with_part(play->zigzag, p->stages, (int32_t)source);
    int32_t to = stage_with_part(play->zigzag, p->stages, (int32_t)part);
    int64_t latest = 0;
    for (int32_t i = 0; i < pipeline_joins(p, to); i++) {
        int32_t m = pipeline_first(p, from, slot.micro_batch + i);
        int64_t end_ns = *end_of(play, KINDS[slot.kind].reads, source, m);
        if (end_ns == NOT_YET)
            return NOT_YET;
        latest = end_ns > latest ? end_ns : latest;
    }
    return latest;
}

/* Equation (2), or NOT_YET. */
static int64_t inputs_ns(const struct play *play, struct slot slot, int64_t part)
{
    int64_t source = part + KINDS[slot.kind].from;
    if (source < 0)
        return 0;
    if (source == parts(play->pipeline))
        return *end_of(play, CHAIN_FORWARD, part, slot.micro_batch);
    int64_t end_ns = latest_end(play, slot, source, part);
    return end_ns == NOT_YET ? end_ns : end_ns + transfer_ns(play, (int32_t)source, (int32_t)part);
}

static int64_t weight_ns(const struct pipeline_times *times, int64_t i)
{
    return times->weight_ns ? times->weight_ns[i] : times->backward_ns[i] / 2;
}

static int64_t slot_ns(const struct pipeline_times *times, enum slot_kind kind, int64_t i)
{
    const int64_t by_kind[] = {
        [SLOT_FORWARD] = times->forward_ns[i],
        [SLOT_BACKWARD] = times->backward_ns[i],
        [SLOT_BACKWARD_INPUT] = times->backward_ns[i] - weight_ns(times, i),
        [SLOT_BACKWARD_WEIGHT] = weight_ns(times, i),
    };
    return by_kind[kind];
}

/* Executes a stage's next slot, if its inputs are there. */
static bool step(const struct play *play, int32_t index, struct played_stage *stage)
{
    struct slot slot = stage->slots.data[stage->done];
    int64_t part = part_of_piece(play->zigzag, play->pipeline->stages, index, slot.piece);
    int64_t start_ns = inputs_ns(play, slot, part);
    if (start_ns == NOT_YET)
        return false;
    int64_t free_ns = stage->done > 0 ? stage->end_ns[stage->done - 1] : 0;
    if (start_ns < free_ns)
        start_ns = free_ns;
    int64_t time = (int64_t)index * play->pipeline->pieces + slot.piece;
    int64_t end_ns = start_ns + slot_ns(play->times, slot.kind, time);
    stage->start_ns[stage->done] = start_ns;
    stage->end_ns[stage->done++] = end_ns;
    *end_of(play, KINDS[slot.kind].writes, part, slot.micro_batch) = end_ns;
    return true;
}

/* Every stage as far as it gets; false when none got any further (I2). */
static bool sweep(const struct play *play, struct played *out)
{
    bool moved = false;
    for (int32_t s = 0; s < play->pipeline->stages; s++)
        while (out->stage[s].done < out->stage[s].slots.len && step(play, s, &out->stage[s]))
            moved = true;
    return moved;
}

static weft_status finish(const struct schedule *schedule, const struct pipeline *pipeline,
                          struct played *out)
{
    for (int32_t s = 0; s < pipeline->stages; s++) {
        const struct played_stage *stage = &out->stage[s];
        if (stage->done < stage->slots.len)
            return failure("schedule %s is in deadlock: stage %d waits for the inputs of %s",
                           schedule->name, s,
                           slot_label(stage->slots.data[stage->done], pipeline).s);
        int64_t end_ns = stage->done > 0 ? stage->end_ns[stage->done - 1] : 0;
        out->iteration_ns = end_ns > out->iteration_ns ? end_ns : out->iteration_ns;
    }
    return WEFT_OK;
}

static void start(struct arena *keep, const struct schedule *schedule, struct play *play,
                  struct played *out)
{
    const struct pipeline *pipeline = play->pipeline;
    size_t ends = (size_t)parts(pipeline) * (size_t)pipeline->micro_batches;
    for (int chain = 0; chain < CHAIN_COUNT; chain++) {
        play->end_ns[chain] = ARENA_ARRAY(keep, int64_t, ends);
        for (size_t i = 0; i < ends; i++)
            play->end_ns[chain][i] = NOT_YET;
    }
    *out = (struct played){ARENA_ARRAY(keep, struct played_stage, (size_t)pipeline->stages), 0};
    for (int32_t s = 0; s < pipeline->stages; s++) {
        struct played_stage *stage = &out->stage[s];
        schedule_order(schedule, pipeline, s, keep, &stage->slots);
        stage->start_ns = ARENA_ARRAY(keep, int64_t, stage->slots.len);
        stage->end_ns = ARENA_ARRAY(keep, int64_t, stage->slots.len);
    }
}

weft_status play(struct arena *keep, const struct schedule *schedule,
                 const struct pipeline *pipeline, const struct pipeline_times *times,
                 struct played *out)
{
    weft_status status = schedule_check(schedule, pipeline);
    if (status != WEFT_OK)
        return status;
    struct play play = {pipeline, times, schedule->zigzag, schedule->both_ways, {0}};
    start(keep, schedule, &play, out);
    while (sweep(&play, out))
        continue;
    return finish(schedule, pipeline, out);
}

weft_status schedule_play(const struct schedule *schedule, const struct pipeline *pipeline,
                          const struct pipeline_times *times, int64_t *iteration_ns)
{
    struct arena *scratch = arena_new();
    struct played played = {0};
    weft_status status = play(scratch, schedule, pipeline, times, &played);
    *iteration_ns = played.iteration_ns;
    arena_free(scratch);
    return status;
}
