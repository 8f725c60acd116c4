/* test_bad_plans.c - bad input, every row of the table of targets by every mechanism of a plan: which refuse it, in
 * words that name it and those that have it, with a nearest plan that really runs; models and releases that a row
 * does not have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "target/target.h"

static struct arena *arena;

#define LLAMA     "llama3-8b"
#define MIXTRAL   "mixtral-8x7b"
#define GPT       "gpt3-1.3b"
#define MEGATRON  "megatron@0.19 megatron@0.16 "
#define TITAN     "torchtitan@0.2.2 torchtitan@main "
#define SCRIPTS   "fsdp@2 dtensor@2 "
#define GALVATRON "galvatron@2.4 galvatron@3.0 "
static const struct {
    const char *model, *options;
    struct degrees d;
    const char *says;
    const char *refuse; /* who does not run it, in the order of the table */
} MECHANISMS[] = {
    {LLAMA, NULL, {.tp = 2}, "tp 2: ", "fsdp@2 "},
    {LLAMA, NULL, {.tp = 2, .sequence = true}, "sequence parallelism along tp", "deepspeed@0.19 "},
    {LLAMA, NULL, {.tp = 2}, "tp without sequence parallelism", "torchtitan@0.2.2 "},
    {LLAMA, NULL, {.pp = 2}, "pp 2: ", SCRIPTS},
    {LLAMA, NULL, {.tp = 2, .pp = 2}, "tp 2 with pp 2", "deepspeed@0.19 "},
    {LLAMA, NULL, {.cp = 2}, "cp 2: ", "deepspeed@0.19 fsdp@2 galvatron@2.4 dtensor@2 "},
    {LLAMA, NULL, {.cp = 2, .cp_heads = 2}, "cp-heads 2: ", TITAN "galvatron@3.0 "},
    {MIXTRAL, NULL, {.dp = 16, .ep = 8}, "ep 8: ", "deepspeed@0.19 fsdp@2 "},
    {MIXTRAL,
     NULL,
     {.tp = 4, .sequence = true, .ep = 4, .etp = 2},
     "experts of tp 2 in a model of tp 4",
     "deepspeed@0.19 galvatron@3.0 "},
    {LLAMA, NULL, {.pp = 2, .pieces = 2}, "virtual 2: ", "deepspeed@0.19 " GALVATRON},
    {LLAMA,
     NULL,
     {.segments = 2, .shard = 3},
     "segments 2: ",
     MEGATRON TITAN "deepspeed@0.19 fsdp@2 " GALVATRON "dtensor@2 "},
    {LLAMA, NULL, {.pp = 2, .schedule = "gpipe"}, "schedule gpipe: ", MEGATRON "deepspeed@0.19 "},
    {LLAMA,
     NULL,
     {.pp = 2, .schedule = "zb-h1"},
     "schedule zb-h1: ",
     MEGATRON "deepspeed@0.19 " GALVATRON},
    {LLAMA,
     NULL,
     {.pp = 2, .pieces = 2, .schedule = "dualpipe"},
     "schedule dualpipe: ",
     MEGATRON TITAN},
    {LLAMA, NULL, {.shard = 1}, "state sharding 1: ", TITAN "fsdp@2 " GALVATRON "dtensor@2 "},
    {LLAMA, NULL, {.pp = 2, .shard = 2}, "state sharding 2: ", MEGATRON TITAN "deepspeed@0.19 "},
    {LLAMA,
     NULL,
     {.shard = 3, .replicate = 2},
     "replicate 2: ",
     "deepspeed@0.19 " GALVATRON "dtensor@2 "},
    {LLAMA,
     NULL,
     {.recompute = RECOMPUTE_FULL, .recompute_layers = 3},
     "recomputation of 3 layers",
     TITAN "deepspeed@0.19 " SCRIPTS},
    {LLAMA,
     NULL,
     {.recompute = RECOMPUTE_FULL, .offload = true},
     "offload: ",
     MEGATRON TITAN "fsdp@2 " GALVATRON "dtensor@2 "},
    {LLAMA,
     NULL,
     {.offload_modules = 4},
     "offload-modules core_attn: ",
     TITAN "deepspeed@0.19 fsdp@2 " GALVATRON "dtensor@2 "},
    {LLAMA,
     NULL,
     {.shard = 2, .optimizer_offload = 1},
     "optimizer-offload 1: ",
     TITAN "fsdp@2 " GALVATRON "dtensor@2 weft@" WEFT_VERSION " "},
    {LLAMA,
     NULL,
     {.pp = 2, .defer_head = 2},
     "defer-head: ",
     TITAN "deepspeed@0.19 fsdp@2 " GALVATRON "dtensor@2 "},
    {LLAMA,
     NULL,
     {.pp = 2, .stage_run = 1},
     "order tp-cp-ep-pp-dp: ",
     TITAN "deepspeed@0.19 fsdp@2 " GALVATRON "dtensor@2 "},
    {LLAMA, NULL, {.has_dtype = true, .dtype = DTYPE_FP16}, "dtype fp16: ", TITAN},
    {LLAMA,
     NULL,
     {.has_dtype = true, .dtype = DTYPE_FP8},
     "dtype fp8: ",
     "deepspeed@0.19 fsdp@2 " GALVATRON "dtensor@2 "},
    {LLAMA,
     NULL,
     {.has_policy = true, .policy = POLICY_PURE_BF16},
     "policy pure-bf16",
     MEGATRON TITAN "deepspeed@0.19 " SCRIPTS "weft@" WEFT_VERSION " "},
    /* The only one that splits operators and has neither ZeRO nor sequence parallelism. */
    {GPT, "attention: eager", {.shard = 2}, "state sharding 2: ", "aceso@2024 "},
    {GPT,
     "attention: eager",
     {.tp = 2, .sequence = true},
     "sequence parallelism along tp",
     "deepspeed@0.19 aceso@2024 "},
};

static const char *row_name(const struct target *target)
{
    return arena_printf(arena, "%s@%s", target->framework, target->release);
}

static const char *text_with(const struct texts *texts, const char *words)
{
    for (size_t i = 0; i < texts->len; i++)
        if (strstr(texts->data[i], words))
            return texts->data[i];
    return NULL;
}

/* That the words name others, and that the nearest plan is one that the target runs. */
static void is_helpful(const struct target *target, const char *text, const struct plan *nearest)
{
    struct texts differences = {0};
    if (!strstr(text, " can)"))
        fail_msg("%s names nobody who can: %s", row_name(target), text);
    if (!nearest)
        fail_msg("%s has no nearest plan: %s", row_name(target), text);
    assert_int_equal(target_differences(arena, target, nearest, &differences, NULL), WEFT_OK);
    if (differences.len)
        fail_msg("%s: the nearest to %s: %s", row_name(target), text, differences.data[0]);
}

/* Whether the target refuses a plan with this mechanism by its name; whatever else it says, no operator is named. */
static bool refuses(const struct target *target, const struct opened_plan *o,
                    const struct degrees *d, const char *says)
{
    struct texts differences = {0};
    struct plan *plan, *nearest;
    assert_int_equal(plan_from_degrees(o->model, o->cluster, d, &plan), WEFT_OK);
    target_settle(target, d, plan);
    assert_int_equal(target_differences(arena, target, plan, &differences, &nearest), WEFT_OK);
    const char *text = text_with(&differences, says),
               *choice = text_with(&differences, "operators");
    if (choice)
        fail_msg("%s with %s: %s", row_name(target), says, choice);
    if (text)
        is_helpful(target, text, nearest);
    plan_free(nearest);
    plan_free(plan);
    return text != NULL;
}

/* The nearest pins are refused by nobody, and what was open stays open. */
static void pins_are_mended(const struct target *target, const struct model *model,
                            const struct degrees *pins)
{
    struct degrees nearest = target_nearest_pins(target, model, pins);
    const char *refused = target_refuses_pins(arena, target, model, &nearest);
    if (refused)
        fail_msg("%s: the nearest pins are refused: %s", row_name(target), refused);
    const int64_t open[][2] = {{pins->dp, nearest.dp}, {pins->tp, nearest.tp},
                               {pins->pp, nearest.pp}, {pins->cp, nearest.cp},
                               {pins->ep, nearest.ep}, {pins->pieces, nearest.pieces}};
    for (size_t i = 0; i < COUNT_OF(open); i++)
        assert_true(open[i][0] || !open[i][1]);
    assert_true(pins->schedule || !nearest.schedule);
}

static bool has_model(const struct target *target, const struct model *model)
{
    bool has = target_has_model(target, model) == WEFT_OK;
    error_clear();
    return has;
}

static void mechanisms_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(MECHANISMS); i++) {
        struct degrees d = MECHANISMS[i].d;
        struct opened_plan o = {0};
        const char *refusing = "";
        assert_int_equal(model_open(MECHANISMS[i].model, MECHANISMS[i].options, &o.model), WEFT_OK);
        assert_int_equal(cluster_open("dgx-h100:2", &o.cluster), WEFT_OK);
        d.global_batch = 64;
        for (size_t k = 0; k < target_count(); k++) {
            if (!has_model(target_at(k), o.model))
                continue;
            pins_are_mended(target_at(k), o.model, &d);
            if (refuses(target_at(k), &o, &d, MECHANISMS[i].says))
                refusing = arena_printf(arena, "%s%s ", refusing, row_name(target_at(k)));
        }
        if (strcmp(refusing, MECHANISMS[i].refuse) != 0)
            fail_msg("%s is refused by %s, not by %s", MECHANISMS[i].says, refusing,
                     MECHANISMS[i].refuse);
        model_free(o.model);
        cluster_free(o.cluster);
    }
}

/* A model that a row lacks: what of it, which row, and those that have it, another release where the usual one lacks
 * it, too. */
static void missing_models_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *target, *model, *says, *others;
    } MODELS[] = {
        {"galvatron", MIXTRAL, "has experts, which no model of Galvatron 2.4 has",
         "megatron, deepspeed, fsdp, galvatron@3.0, weft can train it"},
        {"torchtitan@main", MIXTRAL, "has experts without latent attention",
         "megatron, deepspeed, fsdp, galvatron@3.0, weft can train it"},
        {"megatron", "vit-huge-32", "is of the family vit",
         "deepspeed, galvatron, weft can train it"},
        {"megatron@0.16", "deepseek-v3.2",
         "has an index that chooses keys, which no model of Megatron-Core 0.16",
         "megatron, deepspeed can train it"},
        {"megatron", WEFT_SOURCE_DIR "/tests/data/hf/minimax-m2",
         "has norms of all heads' queries and keys as one vector", "deepspeed, weft can train it"},
        {"fsdp", "deepseek-v3", "has latent attention", "can train it"},
        {"fsdp", "qwen1.5-moe-a2.7b", "has a gate of the shared expert",
         "megatron, deepspeed, weft can train it"},
        {"dtensor", MIXTRAL, "has experts, which no model of PyTorch's DTensor", "can train it"},
        {"aceso", LLAMA, "has a model that is no GPT", "can train it"},
        {"weft", "deepseek-v3.2", "an index that chooses keys, which Weft's own runtime cannot run",
         "megatron, deepspeed can train it"},
        {"megatron", "t5-large", "with examples/t5/pretrain_t5.py", "galvatron"},
    };
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) {
        struct model *model;
        assert_int_equal(model_open(MODELS[i].model, NULL, &model), WEFT_OK);
        assert_int_equal(target_has_model(target_find(MODELS[i].target), model), WEFT_BAD_INPUT);
        const struct weft_error *error = weft_last_error();
        if (!strstr(error->message, MODELS[i].says) || !strstr(error->hint, MODELS[i].others))
            fail_msg("%s, %s: %s; %s", MODELS[i].target, MODELS[i].model, error->message,
                     error->hint);
        error_clear();
        model_free(model);
    }
}

static void missing_releases_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *name, *says, *hint;
    } RELEASES[] = {
        {"megatron@0.17", "megatron@0.17 is not known, expected megatron@0.19, megatron@0.16",
         "megatron@0.16 is the nearest"},
        {"megatron@0.21", "megatron@0.21 is not known", "megatron@0.19 is the nearest"},
        {"torchtitan@0.3", "expected torchtitan@0.2.2, torchtitan@main",
         "torchtitan@0.2.2 is the nearest"},
        {"torchtitan@nightly", "torchtitan@nightly is not known", "is the nearest"},
        {"galvatron@9", "galvatron@9 is not known", "galvatron@3.0 is the nearest"},
        {"megatorn", "megatorn", "did you mean 'megatron'?"},
    };
    for (size_t i = 0; i < COUNT_OF(RELEASES); i++) {
        assert_null(target_find(RELEASES[i].name));
        const struct weft_error *error = weft_last_error();
        if (!strstr(error->message, RELEASES[i].says) || !strstr(error->hint, RELEASES[i].hint))
            fail_msg("%s: %s; %s", RELEASES[i].name, error->message, error->hint);
        error_clear();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mechanisms_are_named),
        cmocka_unit_test(missing_models_are_named),
        cmocka_unit_test(missing_releases_are_named),
    };
    arena = arena_new();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(arena);
    return failed;
}
