/* order.c - lists of slots: which forward, which backward, in which order.
 *
 * With n = m v forwards and as many backwards on a stage, an order is a warm-up of w forwards, then
 * pairs of a forward and a backward, then what is left of the backwards:
 *   F_0 .. F_(w-1)   F_w B_0   F_(w+1) B_1  ..  F_(n-1) B_(n-1-w)   B_(n-w) .. B_(n-1)          (1)
 * so that a stage holds at most
 *   min(w + 1, n)                                                                               (2)
 * activations at once. What makes a schedule is w, and which piece and micro-batch F_i and B_i are:
 *   all-in-all-out  w = n               F_i piece i / m, micro-batch i % m; B_i is F_(n-1-i)
 *   1f1b            w = p - s - 1       F_i, B_i micro-batch i
 *   interleaved     w = 2 (p - s - 1) + (v - 1) g
 *                                       groups of g micro-batches, p unless that leaves a last group of
 *                                       fewer than p (Megatron-LM's get_schedule_table), in a group piece
 *                                       after piece; B_i is F_i with pieces in reverse
 *
 *   I1  F_i and B_i run through every pair of a piece and a micro-batch once.
 *   I2  B_i is among F_0 .. F_(w+i): a forward is before its backward.
 *   I3  All-in-all-out takes the backwards of a segment last-in first-out, as Fold3D's code and
 *       GPipe, figure 2, do; Fold3D's Algorithm 1 counts micro-batches upwards. Both take the same
 *       time on equal stages and hold as much; last-in first-out begins with the checkpoint that
 *       has not left the device yet.
 *   I4  All-in-all-out needs no number of micro-batches. Fold3D's paper asks for none, its code
 *       for m >= 2 p, for its wrap-around receives; the order itself runs with any m, and with
 *       m < p stage 0 waits p - m slots for every segment to come round.
 */
#include "schedule/order.h"

typedef struct slot nth_slot(const struct pipeline *pipeline, int64_t i);

static int64_t forwards(const struct pipeline *pipeline)
{
    return (int64_t)pipeline->micro_batches * pipeline->pieces;
}

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

/* Equation (1). */
static void warm_up_then_pairs(const struct pipeline *pipeline, int64_t warm_up, nth_slot *forward,
                               nth_slot *backward, struct arena *keep, struct slots *out)
{
    int64_t n = forwards(pipeline), w = at_most(warm_up, n);
    for (int64_t i = 0; i < n + w; i++) {
        if (i < n)
            array_push(keep, out, forward(pipeline, i));
        if (i >= w)
            array_push(keep, out, backward(pipeline, i - w));
    }
}

/* Equation (2). */
static int64_t held(const struct pipeline *pipeline, int64_t warm_up)
{
    return at_most(warm_up + 1, forwards(pipeline));
}

/* ---- all-in-all-out -------------------------------------------------------------------------- */

static struct slot segment_forward(const struct pipeline *pipeline, int64_t i)
{
    int32_t m = pipeline->micro_batches;
    return (struct slot){SLOT_FORWARD, (int32_t)(i / m), (int32_t)(i % m)};
}

static struct slot segment_backward(const struct pipeline *pipeline, int64_t i)
{
    struct slot slot = segment_forward(pipeline, forwards(pipeline) - 1 - i); /* I3 */
    slot.kind = SLOT_BACKWARD;
    return slot;
}

void all_in_all_out_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                          struct slots *out)
{
    (void)stage; /* every stage does the same */
    warm_up_then_pairs(pipeline, forwards(pipeline), segment_forward, segment_backward, keep, out);
}

void backward_in_two(const struct slots *whole, struct arena *keep, struct slots *out)
{
    for (size_t i = 0; i < whole->len; i++) {
        struct slot slot = whole->data[i];
        bool backward = slot.kind == SLOT_BACKWARD;
        slot.kind = backward ? SLOT_BACKWARD_INPUT : slot.kind;
        array_push(keep, out, slot);
        slot.kind = SLOT_BACKWARD_WEIGHT;
        if (backward)
            array_push(keep, out, slot);
    }
}

void halves_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                  struct slots *out)
{
    struct slots whole = {0};
    all_in_all_out_order(pipeline, stage, keep, &whole);
    backward_in_two(&whole, keep, out);
}

int64_t all_in_all_out_in_flight(const struct pipeline *pipeline, int32_t stage)
{
    (void)stage;
    return forwards(pipeline); /* Fold3D, Eq. 7 */
}

/* ---- 1f1b, interleaved or not ---------------------------------------------------------------- */

static struct slot grouped_forward(const struct pipeline *pipeline, int64_t i)
{
    int64_t each = pipeline_group(pipeline), group = i / (each * pipeline->pieces);
    int64_t at = i % (each * pipeline->pieces), left = pipeline->micro_batches - group * each;
    int64_t size = at_most(each, left); /* the last group may be smaller */
    return (struct slot){SLOT_FORWARD, (int32_t)(at / size), (int32_t)(group * each + at % size)};
}

static struct slot grouped_backward(const struct pipeline *pipeline, int64_t i)
{
    struct slot slot = grouped_forward(pipeline, i);
    slot.kind = SLOT_BACKWARD;
    slot.piece = pipeline->pieces - 1 - slot.piece;
    return slot;
}

static int64_t one_f_one_b_warm_up(const struct pipeline *pipeline, int32_t stage)
{
    return pipeline->stages - stage - 1;
}

/* Each stage further from the end is one forward and one backward away from it, and all pieces but
 * one of the first group come before the last piece's first. */
static int64_t interleaved_warm_up(const struct pipeline *pipeline, int32_t stage)
{
    int64_t ahead = 2 * ((int64_t)pipeline->stages - stage - 1);
    return ahead + (int64_t)(pipeline->pieces - 1) * pipeline_group(pipeline);
}

void one_f_one_b_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                       struct slots *out)
{
    warm_up_then_pairs(pipeline, one_f_one_b_warm_up(pipeline, stage), grouped_forward,
                       grouped_backward, keep, out);
}

int64_t one_f_one_b_in_flight(const struct pipeline *pipeline, int32_t stage)
{
    return held(pipeline, one_f_one_b_warm_up(pipeline, stage));
}

void interleaved_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                       struct slots *out)
{
    warm_up_then_pairs(pipeline, interleaved_warm_up(pipeline, stage), grouped_forward,
                       grouped_backward, keep, out);
}

int64_t interleaved_in_flight(const struct pipeline *pipeline, int32_t stage)
{
    return held(pipeline, interleaved_warm_up(pipeline, stage)); /* stage 0: Fold3D, Eq. 6 */
}

/* ---- the same in pairs ----------------------------------------------------------------------- */

/* 1f1b has them on one stage, where it is the same: nothing runs ahead but this one. */
int64_t paired_ahead(const struct pipeline *pipeline, int32_t stage)
{
    return interleaved_warm_up(pipeline, stage) + 1;
}

void paired_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                  struct slots *out)
{
    warm_up_then_pairs(pipeline, paired_ahead(pipeline, stage), grouped_forward, grouped_backward,
                       keep, out);
}

int64_t paired_in_flight(const struct pipeline *pipeline, int32_t stage)
{
    return held(pipeline, paired_ahead(pipeline, stage));
}

/* ---- zero bubble ----------------------------------------------------------------------------- */

/* 1f1b with every backward in two: input gradients in its place, weight gradients `stage` backwards
 * later, so that all stages hold what stage 0 of 1f1b does (Zero Bubble, section 2.3). */
void zero_bubble_h1_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                          struct slots *out)
{
    struct slots pairs = {0};
    one_f_one_b_order(pipeline, stage, keep, &pairs);
    for (size_t i = 0; i < pairs.len; i++) {
        struct slot slot = pairs.data[i];
        if (slot.kind == SLOT_BACKWARD)
            slot.kind = SLOT_BACKWARD_INPUT;
        array_push(keep, out, slot);
        int32_t due = slot.micro_batch - stage;
        if (slot.kind == SLOT_BACKWARD_INPUT && due >= 0)
            array_push(keep, out, ((struct slot){SLOT_BACKWARD_WEIGHT, 0, due}));
    }
    int32_t m = pipeline->micro_batches;
    for (int32_t due = m > stage ? m - stage : 0; due < m; due++)
        array_push(keep, out, ((struct slot){SLOT_BACKWARD_WEIGHT, 0, due}));
}

int64_t zero_bubble_h1_in_flight(const struct pipeline *pipeline, int32_t stage)
{
    (void)stage; /* p - s for the input gradients, and s weight gradients after them */
    return at_most(pipeline->stages, pipeline->micro_batches);
}
