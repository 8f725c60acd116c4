/* test_zigzag.c - schedules that split or fold: their bubbles and memory are what their papers print, on uniform stages.
 *
 * A paper's bubble is what the stage that is at work longest waits, from its own first slot to its own last one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schedule/schedule.h"

enum { MOST_STAGES = 12, MOST_MICRO_BATCHES = 64, MOST_PARTS = 64, MOST_WAVES = 4 };

struct unit_times {
    int64_t forward, input, weight;
};

/* From slot `ahead` of a stage's list on, passes are executed as one and end together: a forward pass with the two halves of
 * the backward pass after it, and the two halves of any other backward pass that are neighbours. */
struct player {
    struct pipeline pipeline;
    bool zigzag;
    struct unit_times times;
    int64_t ahead[MOST_STAGES];
    struct slots slots[MOST_STAGES];
    size_t done[MOST_STAGES];
    int64_t begin[MOST_STAGES], end[MOST_STAGES];
    int64_t forward_end[MOST_PARTS][MOST_MICRO_BATCHES], input_end[MOST_PARTS][MOST_MICRO_BATCHES];
};

static int64_t slot_ns(const struct player *x, enum slot_kind kind)
{
    const int64_t ns[] = {[SLOT_FORWARD] = x->times.forward,
                          [SLOT_BACKWARD] = x->times.input + x->times.weight,
                          [SLOT_BACKWARD_INPUT] = x->times.input,
                          [SLOT_BACKWARD_WEIGHT] = x->times.weight};
    return ns[kind];
}

/* 0: nothing is needed; -1: it has not come. */
static int64_t needs(const struct player *x, int32_t s, struct slot slot)
{
    int32_t stages = x->pipeline.stages, parts = stages * x->pipeline.pieces, j = slot.micro_batch;
    int32_t part = part_of_piece(x->zigzag, stages, s, slot.piece);
    if (slot.kind == SLOT_BACKWARD_WEIGHT || (slot.kind == SLOT_FORWARD && part == 0))
        return 0;
    int64_t end = slot.kind == SLOT_FORWARD ? x->forward_end[part - 1][j]
                  : part == parts - 1       ? x->forward_end[part][j]
                                            : x->input_end[part + 1][j];
    return end > 0 ? end : -1;
}

static void finish(struct player *x, int32_t s, struct slot slot, int64_t end)
{
    int32_t part = part_of_piece(x->zigzag, x->pipeline.stages, s, slot.piece);
    if (slot.kind == SLOT_FORWARD)
        x->forward_end[part][slot.micro_batch] = end;
    else if (slot.kind != SLOT_BACKWARD_WEIGHT)
        x->input_end[part][slot.micro_batch] = end;
}

/* Slots that are executed as one. */
static size_t together(const struct player *x, int32_t s)
{
    size_t at = x->done[s], left = x->slots[s].len - at;
    const struct slot *slot = &x->slots[s].data[at];
    if ((int64_t)at < x->ahead[s] || slot->kind == SLOT_BACKWARD_WEIGHT)
        return 1;
    if (slot->kind == SLOT_FORWARD)
        return 3;
    bool own = left > 1 && slot[1].kind == SLOT_BACKWARD_WEIGHT && slot[1].piece == slot->piece &&
               slot[1].micro_batch == slot->micro_batch;
    return own ? 2 : 1;
}

static bool step(struct player *x, int32_t s)
{
    const struct slot *slot = &x->slots[s].data[x->done[s]];
    size_t count = together(x, s);
    int64_t start = x->end[s], ns = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t come = needs(x, s, slot[i]);
        if (come < 0)
            return false;
        start = come > start ? come : start;
        ns += slot_ns(x, slot[i].kind);
    }
    if (x->done[s] == 0)
        x->begin[s] = start;
    x->end[s] = start + ns;
    for (size_t i = 0; i < count; i++)
        finish(x, s, slot[i], x->end[s]);
    x->done[s] += count;
    return true;
}

/* What the longest stage waits; `whole` counts from the beginning of the iteration. */
static int64_t bubble_of(struct player *x, bool whole)
{
    int64_t most = 0, work = 0;
    const struct pipeline *p = &x->pipeline;
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t s = 0; s < p->stages; s++)
            while (x->done[s] < x->slots[s].len && step(x, s))
                moved = true;
    }
    for (int32_t s = 0; s < p->stages; s++) {
        assert_int_equal(x->done[s], x->slots[s].len);
        int64_t span = x->end[s] - (whole ? 0 : x->begin[s]);
        most = span > most ? span : most;
    }
    work = (x->times.forward + x->times.input + x->times.weight) * p->pieces * p->micro_batches;
    return most - work;
}

static struct player *load(struct arena *keep, const char *name, struct pipeline pipeline,
                           struct unit_times times)
{
    struct player *x = ARENA_NEW(keep, struct player);
    const struct schedule *schedule = schedule_find(name);
    *x = (struct player){.pipeline = pipeline, .zigzag = schedule->zigzag, .times = times};
    assert_int_equal(schedule_check(schedule, &pipeline), WEFT_OK);
    for (int32_t s = 0; s < pipeline.stages; s++) {
        schedule_order(schedule, &pipeline, s, keep, &x->slots[s]);
        x->ahead[s] = INT64_MAX;
    }
    return x;
}

static int64_t bubble(const char *name, struct pipeline pipeline, struct unit_times times)
{
    struct arena *keep = arena_new();
    int64_t ns = bubble_of(load(keep, name, pipeline, times), false);
    arena_free(keep);
    return ns;
}

static int64_t memory(const char *name, struct pipeline pipeline)
{
    int64_t most = 0;
    for (int32_t s = 0; s < pipeline.stages; s++) {
        int64_t held = schedule_in_flight(schedule_find(name), &pipeline, s);
        most = held > most ? held : most;
    }
    return most;
}

static const struct unit_times EVEN = {10, 10, 10};

/* ---- the papers ------------------------------------------------------------------------------ */

/* Zero Bubble, table 1: (p - 1)(F + B - 2 W) and 2 p - 1 micro-batches, with W <= F <= B. */
static void zb_h2_is_what_its_table_prints(void **state)
{
    static const struct unit_times TIMES[] = {{10, 10, 10}, {10, 10, 8}, {3, 3, 2}};
    (void)state;
    for (int32_t p = 1; p <= MOST_STAGES; p++)
        for (int32_t m = 2 * p; m <= 4 * p; m += p)
            for (size_t i = 0; i < COUNT_OF(TIMES); i++) {
                struct pipeline pipeline = {p, 1, m};
                struct unit_times t = TIMES[i];
                assert_int_equal(bubble("zb-h2", pipeline, t),
                                 (p - 1) * (t.forward + t.input - 2 * t.weight));
                assert_int_equal(memory("zb-h2", pipeline), 2 * p - 1);
            }
}

/* Zero Bubble, section 6, and Controllable Memory, table 1: no bubble, the memory of 1f1b's stage 0. */
static void zb_v_is_what_its_table_prints(void **state)
{
    (void)state;
    for (int32_t p = 1; p <= MOST_STAGES; p++)
        for (int32_t m = 2 * p; m <= 4 * p; m += p) {
            assert_int_equal(bubble("zb-v", (struct pipeline){p, 2, m}, EVEN), 0);
            assert_int_equal(memory("zb-v", (struct pipeline){p, 2, m}), 2 * p);
        }
}

/* Controllable Memory, table 1: floor((p + 2) / 2) and floor((p + 4) / 3) micro-batches; about p / (2 m) and
 * 2 p / (3 m) of an iteration, which is 3 p and 4 p passes of a piece. */
static void v_half_and_v_min_are_what_their_table_prints(void **state)
{
    (void)state;
    for (int32_t p = 2; p <= MOST_STAGES; p++)
        for (int32_t m = 3 * p; m <= 4 * p; m += p) {
            struct pipeline pipeline = {p, 2, m};
            assert_in_range(memory("v-half", pipeline), 1, 2 * ((p + 2) / 2));
            assert_in_range(memory("v-min", pipeline), 1, 2 * ((p + 4) / 3));
            assert_in_range(bubble("v-half", pipeline, EVEN), 0, 3 * p * EVEN.forward);
            assert_in_range(bubble("v-min", pipeline, EVEN), 0, 4 * p * EVEN.forward);
        }
}

/* DeepSeek-V3, table 2, with PP = 2 p parts: (PP / 2 - 1)(F&B + B - 3 W) and PP + 1 pieces; here F&B = F + B. The rank s of
 * PP that has parts s and PP - 1 - s is a half of stage min(s, PP - 1 - s). */
static void check_dual_pipe(const char *name)
{
    static const struct unit_times TIMES[] = {{10, 10, 10}, {20, 30, 10}, {10, 12, 8}};
    for (int32_t p = 1; p <= MOST_STAGES; p++)
        for (size_t i = 0; i < COUNT_OF(TIMES); i++) {
            struct arena *keep = arena_new();
            struct unit_times t = TIMES[i];
            struct pipeline pipeline = {p, 2, 3 * p};
            struct player *x = load(keep, name, pipeline, t);
            for (int32_t s = 0; s < p; s++)
                x->ahead[s] = 5 * (p - s - 1) + 2 * (s + 1);
            int64_t pair = t.forward + t.input + t.weight, back = t.input + t.weight;
            assert_int_equal(bubble_of(x, true), (p - 1) * (pair + back - 3 * t.weight));
            assert_int_equal(memory(name, pipeline), 2 * p + 1);
            arena_free(keep);
        }
}

static void dual_pipes_are_what_their_table_prints(void **state)
{
    (void)state;
    check_dual_pipe("dualpipe");
    check_dual_pipe("dualpipev");
}

/* One transfer more per micro-batch and direction than dualpipev, where a pipeline from one end passes the middle. With one
 * stage it is the only one: two micro-batches take F0a, the transfer, F0b, I0b, the transfer back, and I0a at least. */
static void dualpipe_sends_where_dualpipev_turns(void **state)
{
    (void)state;
    const int64_t forward[] = {10, 10}, backward[] = {20, 20};
    for (int64_t transfer = 0; transfer < 200; transfer += 50) {
        const struct pipeline pipeline = {1, 2, 2};
        struct pipeline_times times = {forward, backward, NULL, transfer};
        int64_t turns, sends;
        assert_int_equal(schedule_play(schedule_find("dualpipev"), &pipeline, &times, &turns),
                         WEFT_OK);
        assert_int_equal(schedule_play(schedule_find("dualpipe"), &pipeline, &times, &sends),
                         WEFT_OK);
        assert_int_equal(turns, 2 * 2 * (10 + 20));
        assert_in_range(sends, turns > 40 + 2 * transfer ? turns : 40 + 2 * transfer,
                        turns + 4 * transfer);
        assert_true(transfer == 0 || sends > turns);
    }
}

/* Hanayo with p micro-batches, backward passes twice as long and no transfers: in units of two passes of a piece its text counts
 * 2 p - 2 of waiting beside 3 p w of work, whatever the number of waves. No more memory than all of them. */
static void waves_wait_as_often_as_their_formula_counts(void **state)
{
    (void)state;
    for (int32_t p = 1; p <= MOST_PARTS / (2 * MOST_WAVES); p++)
        for (int32_t w = 1; w <= MOST_WAVES; w++) {
            struct pipeline pipeline = {p, 2 * w, p};
            assert_int_equal(bubble("hanayo", pipeline, EVEN), (2 * p - 2) * 2 * EVEN.forward);
            assert_in_range(memory("hanayo", pipeline), 1, 2 * w * p);
        }
}

static int64_t whole_ns(struct pipeline pipeline)
{
    int64_t work = EVEN.forward + EVEN.input + EVEN.weight;
    return bubble("hanayo", pipeline, EVEN) + work * pipeline.pieces * pipeline.micro_batches;
}

/* With other numbers the passes are played: fewer micro-batches take no longer than p of them, and twice as many no longer than
 * two iterations of p, of which the second fills the bubble that the first one ends with, half of it. */
static void waves_of_other_numbers_of_micro_batches_wait_no_longer(void **state)
{
    (void)state;
    for (int32_t p = 2; p <= MOST_PARTS / (2 * MOST_WAVES); p++)
        for (int32_t w = 1; w <= MOST_WAVES; w++) {
            struct pipeline pipeline = {p, 2 * w, p - 1};
            assert_true(whole_ns(pipeline) <= whole_ns((struct pipeline){p, 2 * w, p}));
            if (w == 1)
                assert_true(bubble("hanayo", (struct pipeline){p, 2, 2 * p}, EVEN) <=
                            6 * (p - 1) * EVEN.forward);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zb_h2_is_what_its_table_prints),
        cmocka_unit_test(zb_v_is_what_its_table_prints),
        cmocka_unit_test(v_half_and_v_min_are_what_their_table_prints),
        cmocka_unit_test(dual_pipes_are_what_their_table_prints),
        cmocka_unit_test(dualpipe_sends_where_dualpipev_turns),
        cmocka_unit_test(waves_wait_as_often_as_their_formula_counts),
        cmocka_unit_test(waves_of_other_numbers_of_micro_batches_wait_no_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
