/* order_waves.c - orders of pieces in a zigzag whose backward passes are whole, or nearly all of them: dualpipe, dualpipev,
 * hanayo.
 *
 * dualpipev (DualPipe cut in half; a stage of DualPipe has the list of its half, schedule.h, I6) pairs a forward pass of one
 * piece with a backward pass of the other. On stage s, with r = p - s - 1 and pieces a and b:
 *   2 r times Fa,  s + 1 times Fa Fb,  r times Ib Wb Fb,  m - 2 p + s + 1 times (Fa Bb)(Fb Ba),  r times Bb (Fb Ba),
 *   s + 1 times Bb Ba, the later half of these as I,  r times W Ia,  then what is left of W                              (1)
 * so that with pairs executed as one an iteration has a bubble of (p - 1)(F&B + B - 3 W) and a stage holds 2 p + 1 pieces,
 * DeepSeek-V3's table 2 with its PP = 2 p parts.
 *
 * hanayo (SC '23): w waves are 2 w pieces. Down the stages go the forward passes of pieces 0, 2, .. 2 w - 2, then the backward
 * passes of pieces 2 w - 1, 2 w - 3, .. 1; back up come the forward passes of pieces 1, 3, .. 2 w - 1, then the backward passes
 * of pieces 2 w - 2, .. 0. With p micro-batches stage s takes
 *   p - s passes down, then one up and one down by turns, then the p - s passes up that are left                         (2)
 * With any other number every stage takes the backward pass of its earliest part that is there, which is that of the earliest
 * micro-batch, else the forward pass of its latest part; found by playing passes of 1 and 2 units.
 *
 * A whole backward pass of (1) is written as its halves, I and W (schedule.c, I5).
 *
 *   I1  In (1) every piece has m forward and m backward passes if m >= 2 p.
 */
#include "schedule/lists.h"
#include "schedule/order.h"

enum { FORWARD_UNITS = 1, BACKWARD_UNITS = 2, DUAL_PIECES = 2 };

/* ---- dualpipev ------------------------------------------------------------------------------- */

struct dual {
    struct arena *keep;
    struct slots *out;
    int32_t forwards[DUAL_PIECES], backwards[DUAL_PIECES];
    struct slots due; /* weight gradients */
    size_t due_done;
};

static void add_forward(struct dual *d, int32_t piece)
{
    array_push(d->keep, d->out, ((struct slot){SLOT_FORWARD, piece, d->forwards[piece]++}));
}

static void add_backward(struct dual *d, int32_t piece, bool whole)
{
    struct slot slot = {SLOT_BACKWARD_INPUT, piece, d->backwards[piece]++};
    array_push(d->keep, d->out, slot);
    slot.kind = SLOT_BACKWARD_WEIGHT;
    if (whole)
        array_push(d->keep, d->out, slot);
    else
        array_push(d->keep, &d->due, slot);
}

static void add_weights(struct dual *d)
{
    array_push(d->keep, d->out, d->due.data[d->due_done++]);
}

static void add_pair(struct dual *d, int32_t forward)
{
    add_forward(d, forward);
    add_backward(d, 1 - forward, true);
}

/* (1) as far as its pairs. */
static void begin_dual(struct dual *d, int32_t after, int32_t stage)
{
    for (int32_t i = 0; i < 2 * after; i++)
        add_forward(d, 0);
    for (int32_t i = 0; i <= stage; i++) {
        add_forward(d, 0);
        add_forward(d, 1);
    }
    for (int32_t i = 0; i < after; i++) {
        add_backward(d, 1, false);
        add_weights(d);
        add_forward(d, 1);
    }
}

static void end_dual(struct dual *d, int32_t after, int32_t stage)
{
    for (int32_t i = 0; i < 2 * (stage + 1); i++)
        add_backward(d, 1 - i % DUAL_PIECES, i <= stage);
    for (int32_t i = 0; i < after; i++) {
        add_weights(d);
        add_backward(d, 0, false);
    }
    while (d->due_done < d->due.len)
        add_weights(d);
}

void dual_pipe_v_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                       struct slots *out)
{
    struct dual d = {.keep = keep, .out = out};
    int32_t p = pipeline->stages, after = p - stage - 1;
    begin_dual(&d, after, stage);
    for (int32_t i = 0; i < pipeline->micro_batches - 2 * p + stage + 1; i++) {
        add_pair(&d, 0);
        add_pair(&d, 1);
    }
    for (int32_t i = 0; i < after; i++) {
        add_backward(&d, 1, true);
        add_pair(&d, 1);
    }
    end_dual(&d, after, stage);
}

int64_t dual_pipe_v_in_flight(const struct pipeline *pipeline, int32_t stage)
{
    (void)stage; /* 2 r + 2 (s + 1) run ahead, and one more begins the first pair */
    return 2 * (int64_t)pipeline->stages + 1;
}

/* ---- hanayo ---------------------------------------------------------------------------------- */

/* The n-th pass down the stages, or back up. */
static struct slot wave_pass(const struct pipeline *pipeline, bool down, int32_t n)
{
    int32_t m = pipeline->micro_batches, waves = pipeline->pieces / 2, leg = n / m;
    if (leg < waves)
        return (struct slot){SLOT_FORWARD, 2 * leg + !down, n % m};
    return (struct slot){SLOT_BACKWARD, 2 * (2 * waves - 1 - leg) + down, n % m};
}

/* (2) */
static void waves_by_turns(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                           struct slots *out)
{
    int32_t passes = pipeline->pieces * pipeline->micro_batches, ahead = pipeline->stages - stage;
    for (int32_t n = 0; n < passes + ahead; n++) {
        if (n >= ahead)
            array_push(keep, out, wave_pass(pipeline, false, n - ahead));
        if (n < passes)
            array_push(keep, out, wave_pass(pipeline, true, n));
    }
}

struct waves {
    const struct pipeline *pipeline;
    int32_t *forward_end, *backward_end; /* by part and micro-batch */
    int32_t *forwards, *backwards;       /* by part: passes begun */
    int32_t *free_at;                    /* by stage */
};

static int32_t end_of(const struct waves *w, const int32_t *ends, int32_t part, int32_t micro_batch)
{
    return ends[(int64_t)part * w->pipeline->micro_batches + micro_batch];
}

/* Whether the next pass of a part can begin now. */
static bool is_ready(const struct waves *w, int32_t part, bool forward, int32_t now)
{
    int32_t last = w->pipeline->stages * w->pipeline->pieces - 1;
    int32_t j = forward ? w->forwards[part] : w->backwards[part];
    if (j == w->pipeline->micro_batches)
        return false;
    if (forward)
        return part == 0 ||
               (w->forwards[part - 1] > j && end_of(w, w->forward_end, part - 1, j) <= now);
    if (w->forwards[part] <= j || end_of(w, w->forward_end, part, j) > now)
        return false;
    return part == last ||
           (w->backwards[part + 1] > j && end_of(w, w->backward_end, part + 1, j) <= now);
}

static struct slot begin(struct waves *w, int32_t s, int32_t piece, bool forward, int32_t now)
{
    int32_t part = part_of_piece(true, w->pipeline->stages, s, piece);
    int32_t j = forward ? w->forwards[part]++ : w->backwards[part]++;
    int32_t end = now + (forward ? FORWARD_UNITS : BACKWARD_UNITS);
    int64_t at = (int64_t)part * w->pipeline->micro_batches + j;
    (forward ? w->forward_end : w->backward_end)[at] = end;
    w->free_at[s] = end;
    return (struct slot){forward ? SLOT_FORWARD : SLOT_BACKWARD, piece, j};
}

/* What a free stage begins now; false: nothing is there. */
static bool choose(struct waves *w, int32_t s, int32_t now, struct slot *out)
{
    for (int forward = 0; forward < 2; forward++)
        for (int32_t i = 0; i < w->pipeline->pieces; i++) {
            int32_t piece = forward ? w->pipeline->pieces - 1 - i : i;
            if (is_ready(w, part_of_piece(true, w->pipeline->stages, s, piece), forward, now)) {
                *out = begin(w, s, piece, forward, now);
                return true;
            }
        }
    return false;
}

static struct waves waves_new(struct arena *scratch, const struct pipeline *pipeline)
{
    size_t parts = (size_t)pipeline->stages * (size_t)pipeline->pieces;
    size_t ends = parts * (size_t)pipeline->micro_batches;
    return (struct waves){
        pipeline,
        ARENA_ARRAY(scratch, int32_t, ends),
        ARENA_ARRAY(scratch, int32_t, ends),
        ARENA_ARRAY(scratch, int32_t, parts),
        ARENA_ARRAY(scratch, int32_t, parts),
        ARENA_ARRAY(scratch, int32_t, (size_t)pipeline->stages),
    };
}

static void play_waves(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                       struct slots *out)
{
    struct arena *scratch = arena_new();
    struct waves w = waves_new(scratch, pipeline);
    int64_t left = 2LL * pipeline->stages * pipeline->pieces * pipeline->micro_batches;
    for (int32_t now = 0; left > 0; now++)
        for (int32_t s = 0; s < pipeline->stages; s++) {
            struct slot slot;
            if (w.free_at[s] > now || !choose(&w, s, now, &slot))
                continue;
            left--;
            if (s == stage)
                array_push(keep, out, slot);
        }
    arena_free(scratch);
}

void hanayo_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                  struct slots *out)
{
    bool turns = pipeline->micro_batches == pipeline->stages;
    (turns ? waves_by_turns : play_waves)(pipeline, stage, keep, out);
}

int64_t hanayo_in_flight(const struct pipeline *pipeline, int32_t stage)
{
    struct arena *scratch = arena_new();
    struct slots slots = {0};
    hanayo_order(pipeline, stage, scratch, &slots);
    int64_t held = lists_in_flight(&slots);
    arena_free(scratch);
    return held;
}
