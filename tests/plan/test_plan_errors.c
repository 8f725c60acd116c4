/* test_plan_errors.c - what a user is told about a plan: that it is strange, that it is wrong, or that
 * its file is broken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan_text.h"
#include "refusals.h"

/* ---- warnings -------------------------------------------------------------------------------- */

static void strange_plans_are_warned_of(void **state)
{
    (void)state;
    static const struct {
        const char *tree, *warning;
    } ROWS[] = {
        {"head: {split: 'batch:32', shard: 2}", NULL},
        {"layers.3.mlp.up: {split: 'out:32', shard: 1}",
         "layers.3.mlp.up: shard: 1 changes nothing, no other device holds the same weights"},
        {"layers: {offload: true}",
         "layers.0-39.attn.norm and 12 more: offload changes nothing, it "
         "is not recomputed and has no checkpoint"},
        {"loss: {split: 'vocab:32'}", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct arena *scratch = arena_new();
        struct warnings warnings = {0};
        struct opened_plan opened =
            parsed(arena_printf(scratch, HEAD "tree: {%s}\n", ROWS[i].tree));
        plan_warnings(scratch, opened.plan, &warnings);
        assert_int_equal(warnings.len, ROWS[i].warning ? 1 : 0);
        if (ROWS[i].warning)
            assert_string_equal(warnings.data[0], ROWS[i].warning);
        plan_close(&opened);
        arena_free(scratch);
    }
}

/* Without sequence parallelism there is nothing for products to go on beside. */
static void useless_overlap_is_warned_of(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t warnings;
    } ROWS[] = {
        {HEAD "degrees: {tp: 8}\noverlap: [all, products]\n", 1},
        {HEAD "degrees: {tp: 8, sp: true}\noverlap: [all, products]\n", 0},
        {HEAD "degrees: {tp: 2, cp: 4}\noverlap: products\n", 1},
        {HEAD "degrees: {tp: 2, cp: 4, sp: true}\noverlap: products\n", 0},
        {HEAD "degrees: {tp: 8}\n", 0},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct arena *scratch = arena_new();
        struct warnings warnings = {0};
        struct opened_plan opened = parsed(ROWS[i].text);
        plan_warnings(scratch, opened.plan, &warnings);
        assert_int_equal(warnings.len, ROWS[i].warnings);
        for (size_t k = 0; k < warnings.len; k++)
            assert_non_null(strstr(warnings.data[k], "overlap: products changes nothing"));
        plan_close(&opened);
        arena_free(scratch);
    }
}

/* A limit is doubted from the first byte that the device does not have, a type where it has no products of it. */
static void doubts_begin_at_the_boundary(void **state)
{
    (void)state;
    struct arena *scratch = arena_new();
    struct opened_plan opened = parsed(HEAD "degrees: {tp: 8}\n");
    const struct device *device = &opened.cluster->node.device;
    for (int64_t more = -1; more <= 1; more++) {
        struct warnings warnings = {0};
        opened.plan->memory.limit_bytes = device->memory_bytes + more;
        plan_doubts(scratch, opened.plan, &warnings);
        assert_int_equal(warnings.len, more > 0);
        if (more > 0)
            assert_string_equal(warnings.data[0],
                                "the memory limit of 31.7 GiB is above the 31.7 GiB "
                                "that V100-SXM2-32GB has");
    }
    opened.plan->memory.limit_bytes = device->memory_bytes;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        struct warnings warnings = {0};
        opened.plan->dtype = (enum dtype)dtype;
        plan_doubts(scratch, opened.plan, &warnings);
        assert_int_equal(warnings.len, device->flops[dtype] == 0);
    }
    plan_close(&opened);
    arena_free(scratch);
}

/* ---- plans that the library made wrong ------------------------------------------------------- */

struct wrong {
    void (*spoil)(struct plan *plan);
    const char *message, *hint;
};

static void overlap(struct plan *plan)
{
    plan->stage[1].first_device = 8;
}
static void gap(struct plan *plan)
{
    plan->stage[1].first_device = 20;
}
static void too_few(struct plan *plan)
{
    plan->stage[1].devices = 8;
}
static void no_devices(struct plan *plan)
{
    plan->stage[0].devices = 0;
}
static void empty_stage(struct plan *plan)
{
    plan->part[1].first = 0;
    plan->part[1].count += plan->part[0].count;
    plan->part[0].count = 0;
}
static void uncovered(struct plan *plan)
{
    plan->part[1].count -= 2;
}
static void twice(struct plan *plan)
{
    plan->part[1].first--;
    plan->part[1].count++;
}
static void no_batch(struct plan *plan)
{
    plan->global_batch = 0;
}
static void misfit(struct plan *plan)
{
    plan->choice[plan->choice_of[0]].split.part[0].degree = 4;
}
static void wrong_shard(struct plan *plan)
{
    plan->choice[plan->choice_of[0]].shard = 4;
}
static void wrong_schedule(struct plan *plan)
{
    plan->schedule = "gpip";
}

static void large_tensor(struct plan *plan)
{
    plan->global_batch = plan->step_samples = INT64_C(1) << 33;
}

static const struct wrong WRONG[] = {
    /* 40 heads of 2048 * 2048 scores a sample: 2^53 are 53687091 samples' */
    {large_tensor, NULL, "use a micro-batch that makes steps of at most 53687091"},
    {overlap, "devices 8-23 of stage 1 overlap those of stage 0 (0-15)",
     "start stage 1 at device 16"},
    {gap, "devices 16-19, before those of stage 1, belong to no stage",
     "start stage 1 at device 16"},
    {too_few, "the stages have 24 devices, the cluster has 32", "16 devices in stage 1 would do"},
    {no_devices, "stage 0 has no devices", "give it at least 1"},
    {empty_stage, "stage 0 holds no operators", "gpt3-13b can be cut into at most 524 parts"},
    {uncovered, "the operators from head on belong to no stage",
     "stage 1, the last, holds all that is left"},
    {twice, "stage 1 starts at operator 260, expected 261", "start stage 1 at layers.20.attn.norm"},
    {no_batch, "a global batch of 0 in steps of 32 samples, expected at least one of each", NULL},
    {misfit, "embedding: copy:4 is for 4 devices, stage 0 has 16", "copy:16 would do"},
    {wrong_shard, "embedding: shard is 4, expected 0, 1, 2 or 3", NULL},
    {wrong_schedule, NULL, "did you mean 'gpipe'?"},
};

static void wrong_plans_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        struct opened_plan opened = parsed(HEAD "stages: 2\n");
        assert_int_equal(plan_check(opened.plan), WEFT_OK);
        WRONG[i].spoil(opened.plan);
        assert_int_equal(plan_check(opened.plan), WEFT_BAD_INPUT);
        if (WRONG[i].message)
            assert_string_equal(weft_last_error()->message, WRONG[i].message);
        if (WRONG[i].hint)
            assert_string_equal(weft_last_error()->hint, WRONG[i].hint);
        else
            assert_null(weft_last_error()->hint);
        plan_close(&opened);
    }
}

/* ---- broken files ---------------------------------------------------------------------------- */

static weft_status read_plan(const struct refusal *refusal)
{
    struct opened_plan opened;
    weft_status status = parse(refusal->text, &opened);
    if (status == WEFT_OK)
        plan_close(&opened);
    else
        assert_null(opened.plan);
    return status;
}

static void broken_files_are_explained(void **state)
{
    (void)state;
    expect_refusals("plan.txt", read_plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strange_plans_are_warned_of),
        cmocka_unit_test(useless_overlap_is_warned_of),
        cmocka_unit_test(doubts_begin_at_the_boundary),
        cmocka_unit_test(wrong_plans_are_refused),
        cmocka_unit_test(broken_files_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
