/* order_filled.c - orders whose weight gradients fill the bubbles: zb-h2, zb-v, v-half, v-min.
 *
 * Each says in which order a stage takes its forward passes and input gradients. Where the weight gradients go is found by
 * playing all stages with passes that take one unit of time each: a stage takes its next pass if what that needs has come,
 * else the oldest weight gradients that it has; and weight gradients before a forward pass that would make it hold more than
 *   zb-h2   2 p - 1 micro-batches                                     (Zero Bubble, ICLR '24, section 2.3)          (1)
 *   zb-v    2 p pieces, as much as stage 0 of 1f1b                    (the same, section 6)                         (2)
 *   v-half  2 floor((p + 2) / 2) pieces                               (Controllable Memory, NeurIPS '24, table 1)   (3)
 *   v-min   2 floor((p + 4) / 3) pieces                               (the same)                                    (4)
 *
 * v-half and v-min repeat a block of four passes every 6 units: the forward pass of the first piece at d0 s on stage s, that of
 * the second at c1 - d1 s, its input gradients at c2 + d2 s, those of the first piece at c3 - d3 s. The c are the least for
 * which every pass comes after what it needs, and no two fall on the same unit of 6.
 *
 *   I1  A pass never waits for weight gradients of another stage, so that the play ends.
 *   I2  The times at which blocks repeat are a play without weight gradients: lists in their order do not block each other.
 */
#include "schedule/lists.h"
#include "schedule/order.h"

enum { V_PIECES = 2, BLOCK_UNITS = 6, MOST_DELAY = 7 };

/* ---- weight gradients where a stage would wait ----------------------------------------------- */

struct filled_stage {
    struct slots passes, out;
    size_t done;
    struct slots due; /* weight gradients, the oldest first */
    size_t due_done;
    int64_t held;
};

struct filling {
    const struct pipeline *pipeline;
    bool zigzag;
    int64_t most;
    struct arena *scratch;
    struct filled_stage *stage;
    int32_t *forward_end, *input_end; /* by part and micro-batch; 0: not yet */
};

static int32_t *end_at(const struct filling *f, int32_t *ends, int32_t part, int32_t micro_batch)
{
    return &ends[(int64_t)part * f->pipeline->micro_batches + micro_batch];
}

/* Whether what a pass needs has come by this time. */
static bool has_come(const struct filling *f, int32_t s, struct slot slot, int32_t now)
{
    int32_t stages = f->pipeline->stages, parts = stages * f->pipeline->pieces;
    int32_t part = part_of_piece(f->zigzag, stages, s, slot.piece), end = 0;
    if (slot.kind == SLOT_FORWARD && part == 0)
        return true;
    if (slot.kind == SLOT_FORWARD)
        end = *end_at(f, f->forward_end, part - 1, slot.micro_batch);
    else if (part == parts - 1)
        end = *end_at(f, f->forward_end, part, slot.micro_batch);
    else
        end = *end_at(f, f->input_end, part + 1, slot.micro_batch);
    return end > 0 && end <= now;
}

static void take_pass(struct filling *f, int32_t s, int32_t now)
{
    struct filled_stage *stage = &f->stage[s];
    struct slot slot = stage->passes.data[stage->done++];
    bool forward = slot.kind == SLOT_FORWARD;
    int32_t part = part_of_piece(f->zigzag, f->pipeline->stages, s, slot.piece);
    *end_at(f, forward ? f->forward_end : f->input_end, part, slot.micro_batch) = now + 1;
    array_push(f->scratch, &stage->out, slot);
    stage->held += forward;
    slot.kind = SLOT_BACKWARD_WEIGHT;
    if (!forward)
        array_push(f->scratch, &stage->due, slot);
}

static void take_weights(struct filling *f, struct filled_stage *stage)
{
    array_push(f->scratch, &stage->out, stage->due.data[stage->due_done++]);
    stage->held--;
}

/* One unit of time; returns whether the stage has more to do. */
static bool advance(struct filling *f, int32_t s, int32_t now)
{
    struct filled_stage *stage = &f->stage[s];
    bool due = stage->due_done < stage->due.len, more = stage->done < stage->passes.len;
    struct slot next = more ? stage->passes.data[stage->done] : (struct slot){0};
    bool full = due && next.kind == SLOT_FORWARD && stage->held >= f->most;
    if (more && !full && has_come(f, s, next, now))
        take_pass(f, s, now);
    else if (due)
        take_weights(f, stage);
    return more || due;
}

typedef void stage_passes(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                          struct slots *out);

static void fill(const struct pipeline *pipeline, int32_t stage, bool zigzag, int64_t most,
                 stage_passes *passes, struct arena *keep, struct slots *out)
{
    struct arena *scratch = arena_new();
    size_t ends = (size_t)pipeline->stages * (size_t)pipeline->pieces;
    ends *= (size_t)pipeline->micro_batches;
    struct filling f = {pipeline,
                        zigzag,
                        most,
                        scratch,
                        ARENA_ARRAY(scratch, struct filled_stage, (size_t)pipeline->stages),
                        ARENA_ARRAY(scratch, int32_t, ends),
                        ARENA_ARRAY(scratch, int32_t, ends)};
    for (int32_t s = 0; s < pipeline->stages; s++)
        passes(pipeline, s, scratch, &f.stage[s].passes);
    bool more = true;
    for (int32_t now = 0; more; now++) {
        more = false;
        for (int32_t s = 0; s < pipeline->stages; s++)
            more |= advance(&f, s, now);
    }
    for (size_t i = 0; i < f.stage[stage].out.len; i++)
        array_push(keep, out, f.stage[stage].out.data[i]);
    arena_free(scratch);
}

typedef void stage_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                         struct slots *out);

static int64_t count_held(const struct pipeline *pipeline, int32_t stage, stage_order *order)
{
    struct arena *scratch = arena_new();
    struct slots slots = {0};
    order(pipeline, stage, scratch, &slots);
    int64_t held = lists_in_flight(&slots);
    arena_free(scratch);
    return held;
}

/* ---- zb-h2 ----------------------------------------------------------------------------------- */

/* 1f1b that runs ahead twice as far. */
static void h2_passes(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                      struct slots *out)
{
    int32_t ahead = 2 * (pipeline->stages - stage - 1), m = pipeline->micro_batches;
    int32_t w = ahead < m ? ahead : m;
    for (int32_t i = 0; i < m + w; i++) {
        if (i < m)
            array_push(keep, out, ((struct slot){SLOT_FORWARD, 0, i}));
        if (i >= w)
            array_push(keep, out, ((struct slot){SLOT_BACKWARD_INPUT, 0, i - w}));
    }
}

void zero_bubble_h2_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                          struct slots *out)
{
    fill(pipeline, stage, false, 2 * (int64_t)pipeline->stages - 1, h2_passes, keep, out); /* (1) */
}

int64_t zero_bubble_h2_in_flight(const struct pipeline *pipeline, int32_t stage)
{
    return count_held(pipeline, stage, zero_bubble_h2_order);
}

/* ---- zb-v ------------------------------------------------------------------------------------ */

/* Adds the next pass of a piece, if any is left; `next` counts them by kind and piece. */
static void add_pass(struct slots *out, struct arena *keep, int32_t m,
                     int32_t next[SLOT_KIND_COUNT][V_PIECES], enum slot_kind kind, int32_t piece)
{
    if (next[kind][piece] < m)
        array_push(keep, out, ((struct slot){kind, piece, next[kind][piece]++}));
}

static void v_passes(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                     struct slots *out)
{
    int32_t next[SLOT_KIND_COUNT][V_PIECES] = {{0}};
    int32_t m = pipeline->micro_batches, after = pipeline->stages - stage;
    for (int32_t i = 0; i < 2 * after - 1; i++)
        add_pass(out, keep, m, next, SLOT_FORWARD, 0);
    for (int32_t i = 0; i < stage; i++) {
        add_pass(out, keep, m, next, SLOT_FORWARD, 1);
        add_pass(out, keep, m, next, SLOT_FORWARD, 0);
    }
    for (int32_t i = 0; i < after; i++) {
        add_pass(out, keep, m, next, SLOT_FORWARD, 1);
        add_pass(out, keep, m, next, SLOT_BACKWARD_INPUT, 1);
    }
    for (int32_t i = 0; i < 2 * m; i++) {
        int32_t piece = i % V_PIECES;
        add_pass(out, keep, m, next, SLOT_FORWARD, piece);
        add_pass(out, keep, m, next, SLOT_BACKWARD_INPUT, piece);
    }
}

void zero_bubble_v_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                         struct slots *out)
{
    fill(pipeline, stage, true, 2 * (int64_t)pipeline->stages, v_passes, keep, out); /* (2) */
}

int64_t zero_bubble_v_in_flight(const struct pipeline *pipeline, int32_t stage)
{
    return count_held(pipeline, stage, zero_bubble_v_order);
}

/* ---- blocks that repeat ---------------------------------------------------------------------- */

enum { BLOCK_PASSES = 4 };
struct block_pass {
    enum slot_kind kind;
    int32_t piece;
};
static const struct block_pass BLOCK[] = {
    {SLOT_FORWARD, 0}, {SLOT_FORWARD, 1}, {SLOT_BACKWARD_INPUT, 1}, {SLOT_BACKWARD_INPUT, 0}};
_Static_assert(COUNT_OF(BLOCK) == BLOCK_PASSES, "a block has four passes");

/* Units from one stage to the next, for each of the four passes. */
static const int32_t HALF_STEPS[] = {2, 1, 2, 1}, MIN_STEPS[] = {1, 1, 1, 1};

/* When the four passes of a block begin on stage s; the first and third go down the stages. */
static int32_t pass_unit(const int32_t *step, const int32_t *c, int32_t pass, int32_t s)
{
    return c[pass] + (pass % 2 ? -step[pass] * s : step[pass] * s);
}

static bool is_free_of_clashes(const struct pipeline *pipeline, const int32_t *step,
                               const int32_t *c)
{
    for (int32_t s = 0; s < pipeline->stages; s++) {
        unsigned used = 0;
        for (int32_t pass = 0; pass < BLOCK_PASSES; pass++) {
            unsigned bit = 1U << pass_unit(step, c, pass, s) % BLOCK_UNITS;
            if (used & bit)
                return false;
            used |= bit;
        }
    }
    return true;
}

/* The least delays for which no two passes fall on the same unit. */
static void place_block(const struct pipeline *pipeline, const int32_t *step, int32_t *c)
{
    int32_t last = pipeline->stages - 1;
    for (int32_t sum = 0; sum <= 3 * MOST_DELAY; sum++)
        for (int32_t first = 0; first <= sum; first++)
            for (int32_t second = 0; first + second <= sum; second++) {
                c[0] = 0;
                c[1] = (step[0] + step[1]) * last + 1 + first;
                c[2] = c[1] + 1 + second;
                c[3] = c[2] + (step[2] + step[3]) * last + 1 + sum - first - second;
                if (is_free_of_clashes(pipeline, step, c))
                    return;
            }
}

static void block_passes(const struct pipeline *pipeline, const int32_t *step, int32_t stage,
                         struct arena *keep, struct slots *out)
{
    int32_t c[BLOCK_PASSES] = {0}, next[BLOCK_PASSES] = {0}, m = pipeline->micro_batches;
    place_block(pipeline, step, c);
    for (int32_t left = BLOCK_PASSES * m; left > 0; left--) {
        int32_t first = -1, first_unit = 0;
        for (int32_t pass = 0; pass < BLOCK_PASSES; pass++) {
            int32_t unit = pass_unit(step, c, pass, stage) + BLOCK_UNITS * next[pass];
            if (next[pass] < m && (first < 0 || unit < first_unit)) {
                first = pass;
                first_unit = unit;
            }
        }
        array_push(keep, out,
                   ((struct slot){BLOCK[first].kind, BLOCK[first].piece, next[first]++}));
    }
}

static void half_passes(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                        struct slots *out)
{
    block_passes(pipeline, HALF_STEPS, stage, keep, out);
}

static void min_passes(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                       struct slots *out)
{
    block_passes(pipeline, MIN_STEPS, stage, keep, out);
}

void v_half_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                  struct slots *out)
{
    int64_t most = V_PIECES * (((int64_t)pipeline->stages + 2) / 2); /* (3) */
    fill(pipeline, stage, true, most, half_passes, keep, out);
}

int64_t v_half_in_flight(const struct pipeline *pipeline, int32_t stage)
{
    return count_held(pipeline, stage, v_half_order);
}

void v_min_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                 struct slots *out)
{
    int64_t most = V_PIECES * (((int64_t)pipeline->stages + 4) / 3); /* (4) */
    fill(pipeline, stage, true, most, min_passes, keep, out);
}

int64_t v_min_in_flight(const struct pipeline *pipeline, int32_t stage)
{
    return count_held(pipeline, stage, v_min_order);
}
