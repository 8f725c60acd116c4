/* test_spread.c - steps of reshards on numbers: what every device ends up with is what its layout says.
 *
 * Element f of the whole is the number f + 1. Where a layout has partial sums, each of n addends is a
 * share of it: v of addend v, and what is left of the number for the first. All devices of the stage
 * are simulated here, with what members send put together by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rounds.h"
#include "run/run.h"
#include "run/rank/spread.h"

enum { MOST_DEVICES = 16, MOST_ELEMENTS = 4096 };

/* This device's addend of an element. */
static float addend(const struct layout *layout, int64_t device, int64_t element)
{
    int64_t mesh = 1, which = 0, addends = 1;
    for (int64_t i = layout->digits - 1; i >= 0; i--) {
        int64_t degree = layout->digit[i].degree;
        if (layout->digit[i].hold == HOLD_PARTIAL) {
            which += device / mesh % degree * addends;
            addends *= degree;
        }
        mesh *= degree;
    }
    float others = (float)(addends * (addends - 1) / 2);
    return which ? (float)which : (float)(element + 1) - others;
}

static void fill(const struct layout *layout, int64_t device, float *out)
{
    for (int64_t i = 0; i < layout_local(layout); i++)
        out[i] = addend(layout, device, layout_element(layout, device, i));
}

/* ---- a step on all devices ------------------------------------------------------------------- */

struct devices {
    int64_t count;
    float data[MOST_DEVICES][MOST_ELEMENTS];
};

static float from_member[MOST_DEVICES][MOST_ELEMENTS];

/* The devices of this one's group, by member. */
static void group_of(const struct move *move, int64_t device, int64_t devices, int64_t *member)
{
    for (int64_t d = 0; d < devices; d++) {
        int64_t other = d, own = device;
        for (int32_t i = 0; i < move->digits; i++) { /* both with these digits at 0 */
            other -= d / move->digit[i].mesh % move->digit[i].degree * move->digit[i].mesh;
            own -= device / move->digit[i].mesh % move->digit[i].degree * move->digit[i].mesh;
        }
        if (other == own)
            member[move_member(move, d)] = d;
    }
}

/* Runs of a device that the host shares, or that is given them all at once. */
static struct runs runs_of(const struct move *move, const float *from, float *to, bool apart)
{
    static struct compute_device device;
    device = CPU_DEVICE;
    device.shared = !apart;
    return runs_between(&device, NULL, DTYPE_FP32, from, to, move->run);
}

static void do_one(const struct move *move, int kind, const struct devices *before, int64_t device,
                   float *out)
{
    static float blocks[MOST_DEVICES * MOST_ELEMENTS];
    int64_t member[MOST_DEVICES], sends[MOST_DEVICES], takes[MOST_DEVICES];
    int32_t own = move_member(move, device);
    int64_t n = kind == COLLECTIVE_ALL_GATHER ? move->before_count : move->count;
    float *at = blocks;
    bool apart = device % 2;
    struct runs runs;
    group_of(move, device, before->count, member);
    if (kind == STEP_SLICE) {
        runs = runs_of(move, before->data[device], out, apart);
        move_slice(move, device, &runs);
        return;
    }
    for (int64_t i = 0; i < move->count; i++)
        out[i] = 0;
    for (int32_t m = 0; m < move->members; m++) {
        const float *from = before->data[member[m]];
        runs = runs_of(move, from, from_member[m], apart);
        if (kind == COLLECTIVE_REDUCE_SCATTER)
            move_scatter(move, &runs);
        if (kind == COLLECTIVE_ALL_TO_ALL) {
            move_counts(move, m, sends, takes);
            move_pack(move, m, &runs);
            float *part = from_member[m];
            for (int32_t k = 0; k < own; k++)
                part += sends[k];
            memcpy(at, part, (size_t)sends[own] * sizeof *at);
            at += sends[own];
        }
        for (int64_t i = 0; i < n && kind == COLLECTIVE_ALL_REDUCE; i++)
            out[i] += from[i];
        for (int64_t i = 0; i < n && kind == COLLECTIVE_REDUCE_SCATTER; i++)
            out[i] += from_member[m][own * n + i];
        if (kind == COLLECTIVE_ALL_GATHER)
            memcpy(blocks + m * n, from, (size_t)n * sizeof *from);
    }
    runs = runs_of(move, blocks, out, apart);
    if (kind == COLLECTIVE_ALL_GATHER)
        move_gather(move, &runs);
    if (kind == COLLECTIVE_ALL_TO_ALL) {
        assert_int_equal(at - blocks, move->count);
        move_unpack(move, own, &runs);
    }
}

/* ---- random reshards ------------------------------------------------------------------------- */

static struct layout random_layout(struct rng *rng, int64_t devices, int64_t elements, bool partial)
{
    struct layout layout = layout_none(elements);
    int64_t inner = elements;
    while (devices > 1) {
        int64_t degree = devices % 2 ? devices : 2;
        int64_t what = rng_below(rng, partial ? 4 : 3);
        if (what >= 1 && what <= 2 && inner % degree == 0) {
            inner /= degree;
            layout_add(&layout, degree, inner);
        } else {
            layout_add(&layout, degree, what == 3 ? HOLD_PARTIAL : HOLD_COPY);
        }
        devices /= degree;
    }
    return layout;
}

static void check_holds(const struct layout *layout, const struct devices *all, int round)
{
    static float expected[MOST_ELEMENTS];
    for (int64_t d = 0; d < all->count; d++) {
        fill(layout, d, expected);
        for (int64_t i = 0; i < layout_local(layout); i++)
            if (expected[i] != all->data[d][i])
                fail_msg("round %d: device %lld has %g at %lld, expected %g", round, (long long)d,
                         (double)all->data[d][i], (long long)i, (double)expected[i]);
    }
}

static void test_steps_leave_what_layouts_say(void **state)
{
    (void)state;
    static struct devices before, after;
    struct reshards *reshards = reshards_new();
    int rounds = rounds_of(4000), steps = 0;
    for (int round = 0; round < rounds; round++) {
        static const int64_t DEVICES[] = {2, 4, 6, 8, 12, 16};
        struct rng rng;
        rng_seed(&rng, (uint64_t)round);
        int64_t devices = DEVICES[rng_below(&rng, 6)], elements = 48 * (1 + rng_below(&rng, 8));
        struct layout from = random_layout(&rng, devices, elements, true);
        struct layout to = random_layout(&rng, devices, elements, false);
        const struct reshard *reshard = reshard_within(reshards, &from, &to);
        before.count = after.count = devices;
        for (int64_t d = 0; d < devices; d++)
            fill(&from, d, before.data[d]);
        for (int32_t s = 0; s < reshard->steps; s++, steps++) {
            struct move move;
            assert_true(move_of(&from, &reshard->step[s], &move));
            for (int64_t d = 0; d < devices; d++)
                do_one(&move, reshard->step[s].kind, &before, d, after.data[d]);
            before = after;
            from = move.after;
            bool partial = false;
            for (int64_t i = 0; i < from.digits; i++)
                partial |= from.digit[i].hold == HOLD_PARTIAL;
            if (!partial) /* sums of addends are other addends */
                check_holds(&from, &before, round);
        }
        assert_true(layout_equal(&from, &to) || reshard->steps == 0);
        check_holds(&to, &before, round);
    }
    assert_true(steps > rounds);
    reshards_free(reshards);
}

/* ---- parts of fused tensors ------------------------------------------------------------------ */

/* 8 heads of 4 features over 2 keys: a share of a fused tensor is 4 queries, a key and a value; with as many keys as
 * heads one of each. Of tensors of their own all is read. */
static void test_queries_keys_and_values_stand_apart(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        enum op_kind kind;
        int32_t operand;
        struct fused share;
    } CASES[] = {
        {"kv_heads: 2", OP_ATTENTION, 0, {24, 16, 0}},
        {"kv_heads: 2", OP_ATTENTION, 1, {24, 4, 16}},
        {"kv_heads: 2", OP_ATTENTION, 2, {24, 4, 20}},
        {"kv_heads: 8", OP_ATTENTION, 0, {12, 4, 0}},
        {"kv_heads: 8", OP_ATTENTION, 1, {12, 4, 4}},
        {"kv_heads: 8", OP_ATTENTION, 2, {12, 4, 8}},
        {"kv_heads: 2, attention: eager", OP_SCORE, 0, {24, 16, 0}},
        {"kv_heads: 2, attention: eager", OP_SCORE, 1, {24, 4, 16}},
        {"kv_heads: 2, attention: eager", OP_CONTEXT, 1, {24, 4, 20}},
        {"kv_heads: 2, qk_norm: true", OP_ATTENTION, 0, {16, 16, 0}},
        {"kv_heads: 2, qk_norm: true", OP_ATTENTION, 1, {4, 4, 0}},
        {"kv_heads: 2, qk_norm: true", OP_ATTENTION, 2, {4, 4, 0}},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char options[200];
        struct model *model;
        snprintf(options, sizeof options,
                 "layers: 1, hidden: 32, heads: 8, ffn: 16, seq: 16, vocab: 64, %s",
                 CASES[i].options);
        assert_int_equal(model_open("llama2-7b", options, &model), WEFT_OK);
        const struct op *op = model_op_of_kind(model, CASES[i].kind);
        assert_non_null(op);
        struct fused share = fused_of(model, op, CASES[i].operand);
        assert_int_equal(share.whole, CASES[i].share.whole);
        assert_int_equal(share.part, CASES[i].share.part);
        assert_int_equal(share.first, CASES[i].share.first);
        model_free(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_leave_what_layouts_say),
        cmocka_unit_test(test_queries_keys_and_values_stand_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
