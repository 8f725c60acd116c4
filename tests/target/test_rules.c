/* test_rules.c - every rule of the table of targets: numbers that break it and no other, and the nearest that do not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "run/kernels/kernels.h"
#include "target/target.h"

static struct arena *arena;

#define LLAMA "llama3-8b"
static const struct {
    const char *target, *model, *options;
    struct degrees broken, whole;
} CASES[] = {
    {"deepspeed", "mixtral-8x7b", NULL, {.dp = 8, .ep = 8}, {.dp = 8}},
    {"fsdp", LLAMA, NULL, {.tp = 2}, {.dp = 2}},
    {"deepspeed", LLAMA, NULL, {.cp = 2}, {.dp = 2}},
    {"megatron", LLAMA, "seq: 2052", {.cp = 4}, {.cp = 2}},
    {"torchtitan",
     LLAMA,
     NULL,
     {.cp = 4, .cp_heads = CP_HEADS_SOME, .shard = 2},
     {.cp = 4, .shard = 2}},
    /* Neither a ring nor gathered keys have sinks; key/value heads are whole; a ring has no windows. */
    {"megatron", "gpt-oss-20b", NULL, {.cp = 2}, {.cp = 2, .cp_heads = CP_HEADS_ALL}},
    {"megatron",
     "gpt-oss-20b",
     NULL,
     {.cp = 2, .has_overlap = true},
     {.cp = 2, .cp_heads = CP_HEADS_ALL, .has_overlap = true}},
    {"megatron",
     LLAMA,
     NULL,
     {.tp = 4, .sequence = true, .cp = 4, .cp_heads = 4},
     {.tp = 4, .sequence = true, .cp = 4, .cp_heads = 2}},
    /* Experts with biases are whole. */
    {"megatron",
     "gpt-oss-20b",
     NULL,
     {.tp = 2, .sequence = true},
     {.tp = 2, .sequence = true, .etp = 1}},
    {"megatron", LLAMA, "window: 1024", {.cp = 2}, {.cp = 2, .has_overlap = true}},
    {"torchtitan", LLAMA, "seq: 2052", {.tp = 4, .sequence = true}, {.tp = 2, .sequence = true}},
    {"fsdp", LLAMA, NULL, {.pp = 2, .shard = 0}, {.dp = 2}},
    {"torchtitan", "qwen3-8b", NULL, {.pp = 2, .shard = 1}, {.dp = 2, .shard = 2}},
    {"deepspeed", LLAMA, NULL, {.tp = 2, .pp = 2}, {.tp = 2, .dp = 2}},
    {"galvatron", LLAMA, NULL, {.pp = 2, .pieces = 2}, {.pp = 2}},
    {"torchtitan@main", "qwen3-30b-a3b", NULL, {.tp = 2}, {.tp = 2, .etp = 1}},
    {"torchtitan@main",
     LLAMA,
     NULL,
     {.pp = 8, .dp = 1, .global_batch = 4, .micro_batch = 1, .shard = 1},
     {.pp = 4, .dp = 1, .global_batch = 4, .micro_batch = 1, .shard = 1}},
    {"deepspeed", LLAMA, NULL, {.tp = 2, .sequence = true}, {.tp = 2}},
    {"torchtitan", LLAMA, NULL, {.tp = 2}, {.tp = 2, .sequence = true}},
    {"megatron", "mixtral-8x7b", NULL, {.tp = 2}, {.tp = 2, .sequence = true}},
    {"megatron", LLAMA, NULL, {.pp = 2, .schedule = "gpipe"}, {.pp = 2, .schedule = "1f1b"}},
    {"deepspeed", LLAMA, NULL, {.pp = 2, .shard = 2}, {.pp = 2, .shard = 1}},
    {"torchtitan@main", LLAMA, NULL, {.dp = 2, .tp = 2}, {.dp = 2, .tp = 2, .shard = 2}},
    {"torchtitan",
     LLAMA,
     NULL,
     {.cp = 2},
     {.cp = 2, .shard = 2}}, /* one replica's cp shards, too */
    {"torchtitan", LLAMA, NULL, {.cp = 2, .tp = 2, .sequence = true}, {.tp = 2, .sequence = true}},
    {"deepspeed", LLAMA, NULL, {.has_dtype = true, .dtype = DTYPE_FP8}, {.dp = 1}},
    {"megatron",
     "mixtral-8x7b",
     NULL,
     {.dp = 8, .ep = 8, .has_dtype = true, .dtype = DTYPE_FP16},
     {.dp = 8, .ep = 8, .has_dtype = true, .dtype = DTYPE_BF16}},
    {"deepspeed",
     LLAMA,
     NULL,
     {.has_policy = true, .policy = POLICY_MIXED_FP32_GRADIENTS},
     {.has_policy = true, .policy = POLICY_MIXED_FP32_GRADIENTS, .shard = 1}},
    {"torchtitan", LLAMA, NULL, {.recompute = RECOMPUTE_SELECTIVE}, {.recompute = RECOMPUTE_FULL}},
    {"megatron", LLAMA, NULL, {.offload = true, .recompute = RECOMPUTE_FULL}, {.offload = false}},
    {"megatron",
     LLAMA,
     NULL,
     {.offload_modules = 8},
     {.offload_modules = 8 | 4}}, /* attn_proj, core_attn */
    {"torchtitan", LLAMA, NULL, {.offload_modules = 4}, {.offload_modules = 0}},
    {"deepspeed", LLAMA, NULL, {.offload = true}, {.offload = true, .recompute = RECOMPUTE_FULL}},
};

static void each_rule_is_broken_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const struct target *target = target_find(CASES[i].target);
        struct model *model;
        assert_int_equal(model_open(CASES[i].model, CASES[i].options, &model), WEFT_OK);
        if (target_runs_degrees(target, model, &CASES[i].broken))
            fail_msg("case %zu of %s is run", i, CASES[i].target);
        if (!target_runs_degrees(target, model, &CASES[i].whole))
            fail_msg("case %zu of %s is not run where it should be: %s", i, CASES[i].target,
                     target_refuses_pins(arena, target, model, &CASES[i].whole));
        assert_true(target_runs_degrees(target_find("weft"), model, &CASES[i].whole));
        model_free(model);
    }
}

/* A framework without a degree breaks other rules with it, too: the words are those of the degree. */
static void missing_degrees_are_named(void **state)
{
    (void)state;
    static const struct {
        struct degrees pins;
        const char *says;
    } PINS[] = {
        {{.tp = 2},
         "tp 2: fsdp has no such degree (megatron, torchtitan, deepspeed, galvatron, dtensor, weft "
         "can)"},
        {{.pp = 2},
         "pp 2: fsdp has no such degree (megatron, torchtitan, deepspeed, galvatron, weft can)"},
    };
    struct model *model;
    assert_int_equal(model_open(LLAMA, NULL, &model), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(PINS); i++)
        assert_string_equal(target_refuses_pins(arena, target_find("fsdp"), model, &PINS[i].pins),
                            PINS[i].says);
    model_free(model);
}

/* What no degrees say: recomputation of some layers or operators, parts of unlike numbers of layers. */
static void plans_break_rules(void **state)
{
    (void)state;
    static const int64_t UNEVEN[] = {15, 17};
    static const struct {
        const char *target;
        int64_t pp, block;
        const int64_t *layers;
        const char *says;
    } PLANS[] = {
        {"megatron", 1, BLOCK_PRODUCTS, NULL, "recomputation of all but products: megatron"},
        {"galvatron", 1, 3, NULL, NULL},
        {"deepspeed", 1, 3, NULL, "recomputation of 3 layers per part: deepspeed"},
        {"deepspeed", 2, 0, UNEVEN, "uneven stages: deepspeed deals layers out equally"},
        {"megatron", 2, 0, UNEVEN, NULL},
        {"weft", 2, 0, UNEVEN, NULL},
    };
    struct model *model;
    struct cluster *cluster;
    assert_int_equal(model_open(LLAMA, NULL, &model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-h100", &cluster), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(PLANS); i++) {
        struct degrees d = {.pp = PLANS[i].pp,
                            .dp = 8 / PLANS[i].pp,
                            .tp = 1,
                            .cp = 1,
                            .pieces = 1,
                            .recompute = PLANS[i].block ? RECOMPUTE_FULL : RECOMPUTE_NONE};
        struct texts differences = {0};
        struct plan *plan;
        assert_int_equal(
            plan_of_degrees(model, cluster, &d, PLANS[i].layers, PLANS[i].block, &plan), WEFT_OK);
        assert_int_equal(
            target_differences(arena, target_find(PLANS[i].target), plan, &differences, NULL),
            WEFT_OK);
        assert_int_equal(differences.len, PLANS[i].says != NULL);
        if (PLANS[i].says)
            assert_non_null(strstr(differences.data[0], PLANS[i].says));
        plan_free(plan);
    }
    cluster_free(cluster);
    model_free(model);
}

/* A settled plan has the policy and the overlap of the target's row, and what was asked for. */
static void plans_are_settled(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        struct degrees asked;
        enum policy policy;
        unsigned overlap;
    } SETTLED[] = {
        {"megatron", {.pp = 2}, POLICY_MIXED, OVERLAP_ALL & ~OVERLAP_PIPELINE},
        {"megatron", {.pp = 2, .pieces = 2, .global_batch = 16}, POLICY_MIXED, OVERLAP_ALL},
        {"torchtitan", {.shard = 2}, POLICY_FSDP, OVERLAP_ALL & ~OVERLAP_TENSOR},
        {"torchtitan",
         {.has_policy = true, .policy = POLICY_MIXED},
         POLICY_MIXED,
         OVERLAP_ALL & ~OVERLAP_TENSOR},
        {"deepspeed", {.shard = 2}, POLICY_MIXED, OVERLAP_GRADIENTS},
        {"deepspeed", {.shard = 3}, POLICY_MIXED, OVERLAP_GRADIENTS | OVERLAP_PARAMETERS},
        {"deepspeed", {.pp = 2, .shard = 1}, POLICY_MIXED, 0},
        {"deepspeed", {.has_overlap = true, .overlap = OVERLAP_ALL}, POLICY_MIXED, OVERLAP_ALL},
        {"weft", {.shard = 3}, POLICY_MIXED_FP32_GRADIENTS, OVERLAP_ALL},
    };
    struct model *model;
    struct cluster *cluster;
    assert_int_equal(model_open(LLAMA, NULL, &model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-h100", &cluster), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(SETTLED); i++) {
        struct plan *plan;
        assert_int_equal(plan_from_degrees(model, cluster, &SETTLED[i].asked, &plan), WEFT_OK);
        target_settle(target_find(SETTLED[i].target), &SETTLED[i].asked, plan);
        assert_int_equal(plan->policy, SETTLED[i].policy);
        assert_int_equal(plan->overlap, SETTLED[i].overlap);
        plan_free(plan);
    }
    cluster_free(cluster);
    model_free(model);
}

/* Weft's own runtime has a model if it has kernels for all of its operators. */
/* Replicas of experts: Galvatron 3.0 has the parts of ep outermost, Megatron-LM innermost. */
static void experts_are_ordered_as_the_target_does(void **state)
{
    (void)state;
    static const struct {
        const char *target, *split;
    } ROWS[] = {{"galvatron@3.0", "expert:8 batch:2"}, {"megatron", "batch:2 expert:8"}};
    struct opened_plan o = {0};
    assert_int_equal(model_open("mixtral-8x7b", "layers: 2", &o.model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-h100:2", &o.cluster), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        const struct degrees d = {.dp = 16, .ep = 8, .global_batch = 64, .micro_batch = 1};
        const struct target *target = target_find(ROWS[i].target);
        struct texts differences = {0};
        struct plan *plan;
        assert_int_equal(plan_from_degrees(o.model, o.cluster, &d, &plan), WEFT_OK);
        target_settle(target, &d, plan);
        for (int64_t k = 0; k < plan->instances; k++)
            if (o.model->op[plan->instance[k].op].kind == OP_EXPERT_LINEAR)
                assert_string_equal(split_text(arena, &plan_choice(plan, k)->split), ROWS[i].split);
        assert_int_equal(target_differences(arena, target, plan, &differences, NULL), WEFT_OK);
        assert_int_equal(differences.len, 0);
        plan_free(plan);
    }
    model_free(o.model);
    cluster_free(o.cluster);
}

static void own_models_have_kernels(void **state)
{
    (void)state;
    static const char *const MODELS[] = {"gpt2", "nemotron-h-8b", "deepseek-v3.2",
                                         "deepseek-v4-flash"};
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) {
        struct model *model;
        const char *why;
        bool all = true;
        assert_int_equal(model_open(MODELS[i], NULL, &model), WEFT_OK);
        for (int32_t op = 0; op < model->ops; op++)
            all &= CPU_KERNELS.has(&model->op[op], &why);
        assert_int_equal(target_has_model(target_find("weft"), model) == WEFT_OK, all);
        assert_int_equal(all, i < 2);
        model_free(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_is_broken_alone),
        cmocka_unit_test(missing_degrees_are_named),
        cmocka_unit_test(plans_break_rules),
        cmocka_unit_test(plans_are_settled),
        cmocka_unit_test(own_models_have_kernels),
        cmocka_unit_test(experts_are_ordered_as_the_target_does),
    };
    arena = arena_new();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(arena);
    return failed;
}
