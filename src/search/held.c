/* held.c - how full a stage's devices get (held.h has the equations). */
#include "search/held.h"

enum { SLOTS_HERE = 3 }; /* I1 */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What so many micro-batches of a part hold. */
static int64_t kept_by(const struct part_memory *part, int64_t micro_batches)
{
    int64_t away = micro_batches > SLOTS_HERE ? micro_batches - SLOTS_HERE : 0;
    return micro_batches * part->kept - away * part->offloaded;
}

static int64_t held_in_turn(const struct part_memory *part, int64_t in_flight)
{
    return larger(kept_by(part, in_flight - 1) + part->forward_rise,
                  kept_by(part, in_flight) + part->backward_rise); /* (1) */
}

static int64_t held_split(const struct part_memory *part, int64_t in_flight, int32_t stage)
{
    int64_t ahead = stage < in_flight ? stage : in_flight - 1, kept = kept_by(part, in_flight);
    int64_t backward = ahead * part->back + part->backward_rise;
    int64_t weight = (ahead + 1) * part->back + part->weight_rise;
    int64_t forward = kept_by(part, in_flight - 1) + ahead * part->back + part->forward_rise;
    return larger(forward, kept + larger(backward, weight)); /* (2) */
}

static int64_t held_in_waves(const struct pipeline *pipeline, const struct part_memory *part)
{
    int64_t below = 0, most = 0, m = pipeline->micro_batches;
    for (int32_t k = 0; k < pipeline->pieces; k++) {
        most = larger(most, below + held_in_turn(&part[(int64_t)k * pipeline->stages], m));
        below += kept_by(&part[(int64_t)k * pipeline->stages], m);
    }
    return most;
}

/* The piece of forward pass i; backward passes take them in reverse. */
static int64_t piece_of(const struct pipeline *pipeline, int64_t i)
{
    return i / pipeline->stages % pipeline->pieces;
}

static int64_t held_interleaved(const struct pipeline *pipeline, const struct part_memory *part,
                                int64_t in_flight)
{
    int64_t passes = (int64_t)pipeline->micro_batches * pipeline->pieces, held = 0, most = 0;
    int64_t round = (int64_t)pipeline->stages * pipeline->pieces, stride = pipeline->stages;
    for (int64_t i = 0; i < in_flight + round && i < passes; i++) {
        const struct part_memory *forward = &part[piece_of(pipeline, i) * stride];
        most = larger(most, held + forward->forward_rise);
        held += forward->kept - forward->offloaded;
        if (i + 1 < in_flight)
            continue;
        int64_t piece = pipeline->pieces - 1 - piece_of(pipeline, i + 1 - in_flight);
        const struct part_memory *backward = &part[piece * stride];
        most = larger(most, held + SLOTS_HERE * backward->offloaded + backward->backward_rise);
        held += backward->back + backward->offloaded;
    }
    return most;
}

int64_t most_held(enum order order, const struct pipeline *pipeline, int32_t stage,
                  int64_t in_flight, const struct part_memory *part)
{
    if (order == ORDER_FORWARDS_FIRST)
        return held_in_waves(pipeline, part);
    if (order == ORDER_SPLIT)
        return held_split(part, in_flight, stage);
    return pipeline->pieces > 1 ? held_interleaved(pipeline, part, in_flight)
                                : held_in_turn(part, in_flight);
}
