/* plan_text.h - plans from text: read, looked at, compared, written and read again. */
#ifndef PLAN_TEXT_H
#define PLAN_TEXT_H

#include <string.h>

#include "plan/plan.h"

static inline weft_status parse(const char *text, struct opened_plan *out)
{
    struct arena *scratch = arena_new();
    weft_status status = plan_parse(scratch, "t.yaml", text, strlen(text), out);
    arena_free(scratch);
    return status;
}

static inline struct opened_plan parsed(const char *text)
{
    struct opened_plan opened;
    if (parse(text, &opened))
        fail_msg("%s\n%s", text, weft_last_error()->message);
    return opened;
}

static inline void expect_refusal(const char *text, const char *message)
{
    struct opened_plan opened;
    assert_int_not_equal(parse(text, &opened), WEFT_OK);
    if (!strstr(weft_last_error()->message, message))
        fail_msg("'%s' does not say '%s'", weft_last_error()->message, message);
}

/* The instance with this path. */
static inline int64_t at(const struct plan *plan, const char *path)
{
    struct arena *scratch = arena_new();
    int64_t i = 0;
    while (i < plan->instances && strcmp(plan_path(scratch, plan, i), path) != 0)
        i++;
    arena_free(scratch);
    if (i == plan->instances)
        fail_msg("no instance '%s'", path);
    return i;
}

static inline void expect_split(const struct plan *plan, const char *path, const char *split)
{
    struct arena *scratch = arena_new();
    assert_string_equal(split_text(scratch, &plan_choice(plan, at(plan, path))->split), split);
    arena_free(scratch);
}

static inline void expect_recompute(const struct plan *plan, const char *path, bool recompute)
{
    if (plan_choice(plan, at(plan, path))->recompute != recompute)
        fail_msg("%s: recompute is not %d", path, recompute);
}

static inline void expect_equal_plans(const struct plan *a, const struct plan *b)
{
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->policy, b->policy);
    assert_int_equal(a->global_batch, b->global_batch);
    assert_int_equal(a->step_samples, b->step_samples);
    assert_string_equal(a->schedule, b->schedule);
    assert_int_equal(a->pieces, b->pieces);
    assert_int_equal(a->memory.limit_bytes, b->memory.limit_bytes);
    assert_int_equal(a->overlap, b->overlap);
    assert_int_equal(a->bucket_bytes, b->bucket_bytes);
    assert_int_equal(a->instances, b->instances);
    assert_int_equal(a->stages, b->stages);
    assert_int_equal(a->parts, b->parts);
    assert_memory_equal(a->stage, b->stage, sizeof *a->stage * (size_t)a->stages);
    assert_memory_equal(a->part, b->part, sizeof *a->part * (size_t)a->parts);
    for (int64_t i = 0; i < a->instances; i++)
        assert_true(choice_equal(plan_choice(a, i), plan_choice(b, i)));
}

/* Writes a plan, reads it and writes it again: equal plans, equal bytes. */
static inline void expect_round_trip(const struct plan *plan)
{
    struct arena *scratch = arena_new();
    const char *text = plan_write(scratch, plan);
    struct opened_plan again;
    if (plan_parse(scratch, "t.json", text, strlen(text), &again))
        fail_msg("%s\n%s", weft_last_error()->message, text);
    expect_equal_plans(plan, again.plan);
    assert_string_equal(plan_write(scratch, again.plan), text);
    plan_close(&again);
    arena_free(scratch);
}

#define HEAD                                                                                       \
    "model: gpt3-13b\n"                                                                            \
    "cluster: dgx-v100:4\n"                                                                        \
    "batch: {global: 64, step: 32}\n"

#endif
