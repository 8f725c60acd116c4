/* test_state.c - state that is divided inside groups of replicas and copied across them, optimizers, precisions of
 * their state, and frozen weights: by hand arithmetic, by proof, and the estimate beside the simulator. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checked_plan.h"
#include "plan_text.h"
#include "sim/item_cost.h"

/* ---- two levels of sharding ------------------------------------------------------------------- */

/* 16 replicas in 4 groups: each device keeps 1/4 of the state, gradients of p parameters (2 bytes each) are
 * reduce-scattered among the 4 replicas of a group, neighbours in a node, and p / 4 of them all-reduced by 4 devices,
 * one from each group. */
static void two_levels(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 4", "dgx-h100:2");
    struct degrees d = {
        .dp = 16, .shard = 1, .replicate = 4, .global_batch = 16, .has_bucket = true};
    struct plan *plan = plan_of(&o, d);
    struct graph *graph;
    assert_int_equal(graph_compile(plan, &(struct compile_options){.fold = FOLD_NEVER}, &graph),
                     WEFT_OK);
    struct stage_memory memory = plan_stage_memory(plan, 0, 0);
    assert_float_equal(memory.gradients, 2 * memory.parameters, 1);
    assert_float_equal(memory.optimizer, 12 * memory.parameters / 4, 1);
    int64_t scattered = 0, added = 0;
    for (int32_t i = 0; i < graph->buckets; i++) {
        const struct bucket *bucket = &graph->bucket[i];
        const struct pattern *within = &graph->pattern[bucket->pattern];
        const struct pattern *across = &graph->pattern[bucket->across];
        assert_true(within->digits == 1 && within->stride[0] == 1 && within->degree[0] == 4);
        assert_true(across->digits == 1 && across->stride[0] == 4 && across->degree[0] == 4);
        scattered += bucket->bytes;
    }
    for (int32_t t = 0; t < graph->tasks; t++) {
        const struct task *task = &graph->task[t];
        bool first = task->stream == STREAM_GRADIENT && task->device == 0 && task->exchange >= 0;
        const struct exchange *e = first ? &graph->exchange[task->exchange] : NULL;
        if (e && e->pattern == graph->bucket[task->about].across)
            added += e->bytes;
    }
    assert_true(fabs((double)scattered - 2 * memory.parameters) < 64);
    assert_true(fabs((double)added - 2 * memory.parameters / 4) < 64);
    graph_free(graph);
    plan_free(plan);
    close_both(&o);
}

static void groups_are_proved_and_estimated(void **state)
{
    (void)state;
    static const struct degrees PLANS[] = {
        {.dp = 8, .shard = 1, .replicate = 2, .global_batch = 16},
        {.dp = 4, .tp = 2, .shard = 2, .replicate = 2, .global_batch = 16},
        {.dp = 4, .tp = 2, .shard = 3, .replicate = 4, .global_batch = 16},
        {.dp = 4, .pp = 2, .shard = 1, .replicate = 2, .global_batch = 32, .sequence = true},
        {.dp = 8, .shard = 3, .replicate = 8, .global_batch = 16, .recompute = RECOMPUTE_FULL},
        {.dp = 4, .cp = 2, .shard = 2, .replicate = 4, .global_batch = 8, .has_overlap = true},
    };
    struct opened o = open_both("llama3-8b", "layers: 4, seq: 2048", "dgx-h100:1");
    for (size_t i = 0; i < COUNT_OF(PLANS); i++) {
        struct plan *plan = plan_of(&o, PLANS[i]);
        char words[16];
        snprintf(words, sizeof words, "plan %zu", i);
        expect_proof(plan);
        double folded = simulated_s(plan, FOLD_ALWAYS), all = simulated_s(plan, FOLD_NEVER);
        assert_true(fabs(folded / all - 1) < 1e-3);
        expect_estimate(plan, words, 0.02);
        plan_free(plan);
    }
    close_both(&o);
}

/* ---- optimizers ------------------------------------------------------------------------------- */

/* Bytes per parameter of the optimizer's state in mixed precision: a copy in fp32 and so many moments. */
static void state_of_optimizers(void **state)
{
    (void)state;
    static const struct {
        enum update_rule rule;
        enum policy policy;
        double bytes;
    } CASES[] = {
        {UPDATE_ADAMW, POLICY_MIXED, 12},       {UPDATE_MOMENTUM, POLICY_MIXED, 8},
        {UPDATE_SGD, POLICY_MIXED, 4},          {UPDATE_ADAFACTOR, POLICY_MIXED, 4},
        {UPDATE_ADAMW, POLICY_BF16_MOMENTS, 8}, {UPDATE_MOMENTUM, POLICY_BF16_MOMENTS, 6},
        {UPDATE_ADAMW, POLICY_FP8_WEIGHTS, 12}, {UPDATE_SGD, POLICY_FP32, 0},
    };
    struct opened o = open_both("llama3-8b", "layers: 2", "dgx-h100:1");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct degrees d = {.dp = 8, .optimizer = CASES[i].rule, .has_policy = true};
        d.policy = CASES[i].policy;
        struct plan *plan = plan_of(&o, d);
        struct stage_memory memory = plan_stage_memory(plan, 0, 0);
        assert_float_equal(memory.optimizer / memory.parameters, CASES[i].bytes, 1e-9);
        plan_free(plan);
    }
    close_both(&o);
}

/* Weights that are gathered in fp8 are half as many bytes. */
static void fp8_gathers(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 2", "dgx-h100:1");
    int64_t bytes[2] = {0, 0};
    static const enum policy POLICIES[] = {POLICY_MIXED_FP32_GRADIENTS, POLICY_FP8_WEIGHTS};
    for (size_t i = 0; i < COUNT_OF(POLICIES); i++) {
        struct degrees d = {.dp = 8,
                            .shard = 1,
                            .has_dtype = true,
                            .dtype = DTYPE_FP8,
                            .has_policy = true,
                            .policy = POLICIES[i]};
        struct plan *plan = plan_of(&o, d);
        struct graph *graph;
        assert_int_equal(graph_compile(plan, &(struct compile_options){0}, &graph), WEFT_OK);
        for (int32_t b = 0; b < graph->buckets; b++)
            bytes[i] += graph->bucket[b].gather_bytes;
        graph_free(graph);
        plan_free(plan);
    }
    assert_int_equal(bytes[0], 2 * bytes[1]);
    close_both(&o);
}

/* Muon's products for a matrix of 1024 x 4096: 5 (4 * 1024^2 * 4096 + 2 * 1024^3) FLOPs. */
static void orthogonal_products(void **state)
{
    (void)state;
    struct work work[ORTHOGONAL_PRODUCTS];
    double flops = 0, r = 1024, c = 4096;
    orthogonal_works(1, 4096, 1024, work);
    for (int i = 0; i < ORTHOGONAL_PRODUCTS; i++)
        flops += work[i].flops;
    assert_float_equal(flops, 4 * r * r * c + 2 * r * r * r, 1);
}

static void optimizers_are_estimated(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 8", "dgx-h100:1");
    for (int rule = 0; rule < UPDATE_COUNT; rule++) {
        struct degrees d = {.dp = 2,
                            .tp = 2,
                            .pp = 2,
                            .shard = 1,
                            .global_batch = 8,
                            .optimizer = (enum update_rule)rule};
        struct plan *plan = plan_of(&o, d);
        expect_estimate(plan, optimizer_name((enum update_rule)rule), 0.03);
        plan_free(plan);
    }
    close_both(&o);
}

/* ---- frozen weights --------------------------------------------------------------------------- */

/* Llama 2 70B with adapters of rank 16 beside the products of attention, as in MLPerf Training's LoRA benchmark: per
 * layer 16 (8192 + 10240) for queries, keys and values and 16 (8192 + 8192) after attention, 80 layers: 44,564,480
 * parameters. On 8 H100 with tp 4 it fits: the frozen weights are 69.0 G * 2 bytes / 4, and of the adapters alone there are
 * gradients and state. */
static void lora_of_llama_70b(void **state)
{
    (void)state;
    struct opened o = open_both("llama2-70b", "lora: 16, seq: 8192", "dgx-h100:1");
    double trained = 0, frozen = 0;
    for (int32_t i = 0; i < o.model->ops; i++) {
        const struct op *op = &o.model->op[i];
        double all = op_parameters(op) * (double)op_copies(o.model, op);
        *(op->frozen ? &frozen : &trained) += all;
    }
    assert_float_equal(trained, 80.0 * 16 * (8192 + 10240 + 8192 + 8192), 1);
    struct degrees d = {.dp = 2, .tp = 4, .sequence = true, .global_batch = 8};
    struct plan *plan = plan_of(&o, d);
    struct stage_memory memory = plan_stage_memory(plan, 0, 0);
    assert_true(memory.weights > 2 * frozen / 4 && memory.weights < 2 * frozen / 4 * 1.01);
    assert_true(memory.gradients <= 2 * trained && memory.optimizer <= 12 * trained);
    struct prediction *prediction;
    assert_int_equal(simulate(plan, &(struct simulate_options){0}, &prediction), WEFT_OK);
    assert_true(prediction->fits);
    prediction_free(prediction);
    plan_free(plan);
    close_both(&o);
}

/* Frozen products have no pass of weight gradients, and nothing of theirs is synchronised or gathered after a step. */
static void frozen_weights_are_left_alone(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 2, lora: 8, lora_modules: all", "dgx-h100:1");
    static const struct degrees PLANS[] = {
        {.dp = 4, .tp = 2, .shard = 1, .sequence = true, .global_batch = 8},
        {.dp = 8, .shard = 3, .global_batch = 8},
        {.dp = 2, .tp = 2, .pp = 2, .global_batch = 8, .recompute = RECOMPUTE_FULL},
    };
    for (size_t i = 0; i < COUNT_OF(PLANS); i++) {
        struct plan *plan = plan_of(&o, PLANS[i]);
        struct graph *graph;
        int64_t bytes = 0, parameters = 0;
        expect_proof(plan);
        assert_int_equal(graph_compile(plan, &(struct compile_options){0}, &graph), WEFT_OK);
        for (int32_t b = 0; b < graph->blocks; b++)
            for (int32_t k = 0; k < graph->block[b].items; k++) {
                const struct item *item = &graph->block[b].item[k];
                if (item->kind == ITEM_OP && item->phase == PHASE_BACKWARD_WEIGHT)
                    assert_false(o.model->op[plan->instance[item->instance].op].frozen);
            }
        for (int32_t b = 0; b < graph->buckets; b++) {
            bytes += graph->bucket[b].bytes;
            parameters += graph->bucket[b].parameters;
        }
        /* Of adapters alone: 2 layers of 8 (10240 + 8192 + 32768 + 18432) parameters, those beside the stream whole. */
        assert_true(parameters > 0 && parameters <= 2 * 8 * 69632 && bytes == 2 * parameters);
        graph_free(graph);
        expect_estimate(plan, "lora", 0.02);
        plan_free(plan);
    }
    close_both(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_levels),          cmocka_unit_test(groups_are_proved_and_estimated),
        cmocka_unit_test(state_of_optimizers), cmocka_unit_test(fp8_gathers),
        cmocka_unit_test(orthogonal_products), cmocka_unit_test(optimizers_are_estimated),
        cmocka_unit_test(lora_of_llama_70b),   cmocka_unit_test(frozen_weights_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
