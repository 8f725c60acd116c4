/* test_memory_in_flight.c - what micro-batches in flight hold, against the formulas of papers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "subject.h"

/* Checkpoints on a stage at its peak, with one layer per piece, all recomputed. */
static int64_t checkpoints(const char *schedule, int32_t stages, int64_t pieces, int64_t batch,
                           int32_t stage, int64_t *in_flight)
{
    struct subject s;
    struct degrees degrees = {.dp = 8 / stages,
                              .pp = stages,
                              .global_batch = batch * (8 / stages),
                              .schedule = schedule,
                              .recompute = RECOMPUTE_FULL,
                              .has_policy = true,
                              .policy = POLICY_PURE_BF16};
    *(strcmp(schedule, "aiao") == 0 ? &degrees.segments : &degrees.pieces) = pieces;
    assert_true(
        predict(uniform(stages * pieces), "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    struct pipeline pipeline = {stages, (int32_t)pieces, (int32_t)batch};
    *in_flight = schedule_in_flight(schedule_find(schedule), &pipeline, stage);
    int64_t count = s.prediction->stage[stage].memory.bytes[MEMORY_ACTIVATIONS] / CHECKPOINT;
    drop(&s);
    return count;
}

/* Fold3D, Eq. 6 for interleaved 1F1B, p (ns + 1) - 1 on the first stage; Eq. 7 for AIAO, ms ns. */
static void as_fold3d_says(void **state)
{
    (void)state;
    int64_t in_flight;
    for (int32_t p = 2; p <= 4; p += 2)
        for (int64_t ns = 2; ns <= 3; ns++) {
            assert_int_equal(checkpoints("interleaved", p, ns, 4 * p, 0, &in_flight),
                             p * (ns + 1) - 1);
            assert_int_equal(in_flight, p * (ns + 1) - 1);
            for (int64_t ms = p; ms <= 8; ms += p) {
                assert_int_equal(checkpoints("aiao", p, ns, ms, 0, &in_flight), ms * ns);
                assert_int_equal(in_flight, ms * ns);
            }
        }
}

static void as_schedules_say(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"gpipe", "1f1b"};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++)
        for (int32_t stage = 0; stage < 3; stage++) { /* the last one has the loss, too */
            int64_t in_flight, count = checkpoints(NAMES[i], 4, 1, 8, stage, &in_flight);
            assert_int_equal(count, in_flight);
        }
}

/* AIAO, 2 stages, 1 piece, 8 micro-batches, offloaded: a checkpoint leaves while the next slot runs
 * and is back one slot ahead, so the device has at most that of the slot, of the one before, and in
 * the backward pass of the one past the last. The host has those of all: all forward slots are over before
 * the first backward slot starts, the last one's included. */
static void offloaded(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {.dp = 4,
                              .pp = 2,
                              .segments = 2,
                              .global_batch = 32,
                              .recompute = RECOMPUTE_FULL,
                              .offload = true,
                              .has_policy = true,
                              .policy = POLICY_PURE_BF16};
    assert_true(predict(uniform(4), "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    assert_string_equal(s.plan->schedule, "aiao");
    const struct stage_peak *peak = &s.prediction->stage[0].memory;
    assert_int_equal(kept(&s, 2, true), CHECKPOINT);
    assert_true(peak->bytes[MEMORY_ACTIVATIONS] / CHECKPOINT <= 4);
    assert_in_range(peak->host, 15 * CHECKPOINT, 16 * CHECKPOINT);
    assert_true(peak->reserved >= peak->peak);
    drop(&s);
}

/* On one device everything that is kept is there at the end of the forward pass. */
static void as_the_model_says(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"llama3.2-1b", "vit-huge-32", "resnet-50", "vgg-16"};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        struct subject s;
        struct model *model;
        struct degrees degrees = {.dp = 1, .global_batch = 1};
        assert_int_equal(model_open(NAMES[i], NULL, &model), WEFT_OK);
        assert_true(predict(model, "piz-daint", &degrees, &(struct simulate_options){0}, &s));
        double expected = model_totals(model, s.plan->dtype).kept_bytes;
        assert_int_equal(kept(&s, 0, false), (int64_t)expected);
        assert_true(model_peak_bytes(model, s.plan->dtype) >= expected);
        drop(&s);
    }
}

static void in_words(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {
        .dp = 4, .pp = 2, .global_batch = 16, .has_policy = true, .policy = POLICY_PURE_BF16};
    assert_true(predict(uniform(4), "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    const struct stage_peak *peak = &s.prediction->stage[0].memory;
    bool found = false;
    for (int32_t i = 0; i < peak->holdings; i++)
        found |= strcmp(peak->holding[i].what, "layers.0-1.attn.norm output, 2 micro-batches") == 0;
    assert_true(found);
    assert_string_equal(peak->holding[0].what, "optimizer state");
    drop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_fold3d_says), cmocka_unit_test(as_schedules_say),
        cmocka_unit_test(offloaded),      cmocka_unit_test(as_the_model_says),
        cmocka_unit_test(in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
