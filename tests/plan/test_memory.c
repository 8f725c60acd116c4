/* test_memory.c - memory of operators and of stages, against arithmetic by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cost/cost.h"
#include "plan_text.h"

static struct model *open_model(const char *name)
{
    struct model *model;
    assert_int_equal(model_open(name, NULL, &model), WEFT_OK);
    return model;
}

static const struct op *find_op(const struct model *model, const char *name)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (strcmp(model->op[i].name, name) == 0)
            return &model->op[i];
    fail_msg("no operator is called %s", name);
    return NULL;
}

static struct op_memory memory_of(const struct model *model, const struct op *op, int64_t batch,
                                  enum policy policy, int64_t replicas)
{
    int64_t local[OP_MAX_DIMS];
    op_full_size(op, batch, local);
    return op_memory(model, op, local, DTYPE_FP16, policy, replicas);
}

/* A linear 2048 -> 8192 with bias has 2048 * 8192 + 8192 = 16785408 parameters. */
static void test_policies(void **state)
{
    (void)state;
    static const struct {
        enum policy policy;
        const char *name;
        int64_t replicas;
        double weights, gradients, optimizer; /* bytes per parameter */
        double read, write;                   /* of a step: op_memory.c (3) */
    } CASES[] = {
        {POLICY_FP32, "fp32", 1, 4, 4, 8, 16 + 4, 12},                                    /* 16 */
        {POLICY_MIXED, "mixed", 1, 2, 2, 12, 16 + 4 + 2 + 4 + 4 + 4, 12 + 4 + 4 + 4 + 2}, /* 16 */
        {POLICY_MIXED, "mixed", 8, 2, 2, 12, 16 + 4 + 2 + 4 + 4 + 4,
         12 + 4 + 4 + 4 + 2}, /* nothing is divided */
        {POLICY_MIXED_FP32_GRADIENTS, "mixed-fp32-gradients", 1, 2, 4, 12, 16 + 4 + 4 + 4 + 4,
         12 + 4 + 4 + 2}, /* 18 */
        {POLICY_DISTRIBUTED, "distributed", 1, 2, 4, 12, 16 + 4 + 4 + 4 + 4, 12 + 4 + 4 + 2},
        {POLICY_DISTRIBUTED, "distributed", 8, 2, 4, 1.5, 16 + 4 + 4 + 4 + 4,
         12 + 4 + 4 + 2}, /* 6 + 12 / d */
        {POLICY_PURE_BF16, "pure-bf16", 1, 2, 2, 4, 8 + 2, 6},
        {POLICY_FSDP, "fsdp", 8, 2, 4, 12, 16, 12}, /* what is shared, choices say */
        {POLICY_BF16_MOMENTS, "bf16-moments", 1, 2, 4, 8, 28, 18},
        {POLICY_BF16_MOMENTS_GRADIENTS, "bf16-moments-gradients", 1, 2, 2, 8, 24, 18},
        {POLICY_FP8_WEIGHTS, "fp8-weights", 1, 2, 4, 12, 32, 21},
    };
    const double parameters = 16785408;
    struct model *model = open_model("gpt3-1.3b");
    const struct op *up = find_op(model, "up");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct op_memory memory = memory_of(model, up, 1, CASES[i].policy, CASES[i].replicas);
        enum policy policy;
        assert_true(memory.weights == parameters * CASES[i].weights);
        assert_true(memory.gradients == parameters * CASES[i].gradients);
        assert_true(memory.optimizer == parameters * CASES[i].optimizer);
        struct work step =
            optimizer_work(1000, DTYPE_FP16, CASES[i].policy, UPDATE_ADAMW, STEP_FUSED);
        assert_true(step.read_bytes == 1000 * CASES[i].read);
        assert_true(step.write_bytes == 1000 * CASES[i].write);
        assert_string_equal(policy_name(CASES[i].policy), CASES[i].name);
        assert_true(policy_from_name(CASES[i].name, &policy) && policy == CASES[i].policy);
    }
    enum policy unknown;
    assert_false(policy_from_name("fp64", &unknown));
    model_free(model);
}

/* Bytes per parameter and micro-batch that FSDP2 moves (handling.c). On one device, 4 micro-batches:
 * one gather of 6 + 4, a quarter of a reduction of 8 + 8. On 8 with shard 3, two gathers of 6/8 + 4 and
 * a whole reduction of 6 + 8/8. */
static void test_handling(void **state)
{
    (void)state;
    struct handling alone = policy_handling(POLICY_FSDP, 2, 1, 4);
    struct handling once = policy_handling(POLICY_FSDP, 2, 1, 1);
    struct handling shared = policy_handling(POLICY_FSDP, 3, 8, 4);
    struct handling none = policy_handling(POLICY_MIXED_FP32_GRADIENTS, 3, 8, 4);
    assert_true(alone.read + alone.write == 10 + 16 / 4.0);
    assert_true(once.read + once.write == 10 + 6 + 8);
    assert_true(shared.read + shared.write == 2 * (6 / 8.0 + 4) + 6 + 1);
    assert_true(shared.adds_shares && !alone.adds_shares);
    assert_true(once.backward_issues > alone.backward_issues);
    assert_true(none.read + none.write + none.forward_issues + none.backward_issues == 0);
}

/* Split 4 ways by column: a quarter of the weight, of the bias and of the output. */
static void test_split_linear(void **state)
{
    (void)state;
    struct model *model = open_model("gpt3-1.3b");
    const struct op *up = find_op(model, "up");
    int64_t local[OP_MAX_DIMS];
    op_full_size(up, 2, local);
    local[op_find_dim(OP_LINEAR, DIM_OUT)] /= 4;
    struct op_memory memory = op_memory(model, up, local, DTYPE_FP16, POLICY_MIXED, 1);
    assert_true(memory.weights == 16785408 * 2 / 4);
    assert_true(memory.kept_recomputed == 2.0 * 2048 * 2048 * 2);          /* its whole input */
    assert_true(memory.kept == 2.0 * 2048 * 8192 / 4 * 2);                 /* gelu reads it again */
    assert_true(memory.workspace == memory.kept + memory.kept_recomputed); /* two gradients */
    model_free(model);
}

/* Korthikanti et al. 2022, Eq. 1: a GPT layer with plain attention and dropout keeps
 * s b h (34 + 5 a s / h) bytes in 16 bits; the statistics of two norms, 2 * 4 bytes a row each, are
 * too small for their count and are in ours. */
static void test_gpt_layer(void **state)
{
    (void)state;
    const double s = 2048, h = 2048, a = 32;
    for (int64_t b = 1; b <= 4; b *= 4) {
        struct model *model = open_model("gpt3-1.3b");
        double kept = 0, expected = (double)b * (34 * s * h + 5 * a * s * s + 2 * s * 2 * 4);
        for (int32_t i = 0; i < model->ops; i++)
            if (op_copies(model, &model->op[i]) == 24)
                kept += memory_of(model, &model->op[i], b, POLICY_MIXED, 1).kept;
        assert_true(fabs(kept - expected) < 1);
        model_free(model);
    }
}

/* The head of gpt3-1.3b uses the embedding's table: its 51200 * 2048 weights count once, there. */
static void test_tied_weights_once(void **state)
{
    (void)state;
    struct model *model = open_model("gpt3-1.3b");
    double weights = 0;
    for (int32_t i = 0; i < model->ops; i++)
        weights += memory_of(model, &model->op[i], 1, POLICY_MIXED, 1).weights *
                   (double)op_copies(model, &model->op[i]);
    assert_true(memory_of(model, find_op(model, "head"), 1, POLICY_MIXED, 1).weights == 0);
    assert_true(weights == 2 * model_totals(model, DTYPE_FP16).parameters);
    model_free(model);
}

/* ---- memory of a stage ----------------------------------------------------------------------- */

/* Korthikanti et al., Table 2: bytes per layer over s b h, a = 40, s = 2048, h = 5120, t = 8. Layer
 * norms also keep two fp32 numbers per row, hence the tolerance. */
static void activations_are_those_of_the_literature(void **state)
{
    (void)state;
    static const struct {
        const char *degrees;
        double expected;
    } ROWS[] = {
        {"tp: 8", 10 + (24 + 5.0 * 40 * 2048 / 5120) / 8},
        {"tp: 8, sp: true", (34 + 5.0 * 40 * 2048 / 5120) / 8},
        {"tp: 8, sp: true, recompute: selective", 34.0 / 8},
        {"tp: 8, recompute: selective", 10 + 24.0 / 8},
        {"tp: 8, recompute: full", 2},
        {"tp: 8, sp: true, recompute: full", 2.0 / 8},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        double bytes[2];
        for (int more = 0; more < 2; more++) {
            char text[256];
            snprintf(text, sizeof text,
                     "model: gpt3-13b\noptions: {layers: %d}\ncluster: dgx-v100\ndegrees: {%s}\n",
                     10 + more, ROWS[i].degrees);
            struct opened_plan opened = parsed(text);
            bytes[more] = plan_stage_memory(opened.plan, 0, 1).activations;
            plan_close(&opened);
        }
        double per_layer = (bytes[1] - bytes[0]) / (2048.0 * 5120);
        if (per_layer < ROWS[i].expected || per_layer > ROWS[i].expected * 1.002)
            fail_msg("%s: %f, expected %f", ROWS[i].degrees, per_layer, ROWS[i].expected);
    }
}

/* 16 bytes per parameter in mixed precision; each level of sharding divides one more part by the 4
 * replicas: 2 + 2 + 12 / 4 = 7, 2 + (2 + 12) / 4 = 5.5, 16 / 4 = 4. */
static void sharding_divides_state(void **state)
{
    (void)state;
    static const double BYTES[] = {16, 7, 5.5, 4};
    for (int zero = 0; zero <= 3; zero++) {
        char text[128];
        snprintf(text, sizeof text,
                 "model: gpt3-1.3b\ncluster: dgx-v100\ndegrees: {tp: 2, zero: %d}\n", zero);
        struct opened_plan opened = parsed(text);
        struct stage_memory m = plan_stage_memory(opened.plan, 0, 1);
        double each = (m.weights + m.gradients + m.optimizer) / m.parameters;
        /* Norms and biases after a reduction are on all 8 devices, and divide by 8. */
        if (each > BYTES[zero] || each < BYTES[zero] * 0.999)
            fail_msg("zero %d: %f bytes per parameter, expected %f", zero, each, BYTES[zero]);
        plan_close(&opened);
    }
}

/* What one micro-batch in flight keeps of one of two pieces is half of what it keeps of both; what is recomputed
 * and offloaded waits in host memory, and nothing else does. */
static void pieces_and_offload_keep_their_share(void **state)
{
    (void)state;
    static const char PLAN[] = "model: gpt3-1.3b\ncluster: dgx-a100\ndegrees: {pp: 2%s}\n";
    static const char *const ROWS[] = {"", ", pieces: 2", ", recompute: full",
                                       ", recompute: full, offload: true", ", offload: true"};
    struct stage_memory m[COUNT_OF(ROWS)];
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char text[256];
        snprintf(text, sizeof text, PLAN, ROWS[i]);
        struct opened_plan opened = parsed(text);
        m[i] = plan_stage_memory(opened.plan, 0, 6);
        plan_close(&opened);
    }
    assert_true(m[1].activations < 0.55 * m[0].activations &&
                m[1].activations > 0.45 * m[0].activations);
    assert_true(m[2].host == 0 && m[2].activations > 0);
    assert_true(m[3].host > 0.9 * m[2].activations &&
                m[3].host + m[3].activations == m[2].activations);
    assert_true(m[4].host == 0 && m[4].activations == m[0].activations);
}

/* What is left of a device's memory, or of a limit, for tensors: without the context, which a limit does not have, and
 * without what stays free. */
static void test_budgets(void **state)
{
    (void)state;
    static const struct device DEVICE = {.memory_bytes = 10000, .context_bytes = 500};
    static const struct {
        struct memory_terms terms;
        int64_t room;
    } CASES[] = {
        {{0}, 10000 - 500 - 10000 * MARGIN_PERCENT / 100},
        {{.has_margin = true, .margin_percent = 10}, 10000 - 500 - 1000},
        {{.has_margin = true}, 10000 - 500},
        {{.limit_bytes = 4000}, 4000},
        {{.limit_bytes = 4000, .has_margin = true, .margin_percent = 10}, 3600},
        {{.has_margin = true, .margin_percent = 97}, 0},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct memory_budget budget = memory_budget(&DEVICE, &CASES[i].terms);
        assert_int_equal(budget_room(&budget), CASES[i].room);
    }
}

/* Muon's products of a matrix of 3 x 5 and of 5 x 3 are the same: X X^T, its square, and that times X. */
static void matrices_lie_on_their_long_side(void **state)
{
    (void)state;
    static const int64_t SHAPES[ORTHOGONAL_PRODUCTS][4] = {
        {2, 3, 3, 5}, {2, 3, 3, 3}, {2, 3, 5, 3}};
    for (int turned = 0; turned < 2; turned++) {
        struct work works[ORTHOGONAL_PRODUCTS];
        orthogonal_works(2, turned ? 5 : 3, turned ? 3 : 5, works);
        for (int i = 0; i < ORTHOGONAL_PRODUCTS; i++) {
            const int64_t *s = SHAPES[i];
            assert_memory_equal(works[i].shape, s, sizeof SHAPES[i]);
            assert_true(works[i].flops == 2. * (double)(s[0] * s[1] * s[2] * s[3]));
            assert_true(works[i].read_bytes == 2. * (double)(s[0] * s[3] * (s[1] + s[2])));
            assert_true(works[i].write_bytes == 2. * (double)(s[0] * s[1] * s[2]));
        }
    }
}

/* Products within layers are orthogonalised; embedding, norms and logits have Adam, and no other rule does it. */
static void matrices_of_layers_are_orthogonal(void **state)
{
    (void)state;
    struct model *model;
    assert_int_equal(model_open("llama2-7b", "layers: 2", &model), WEFT_OK);
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        bool inside = op->kind == OP_LINEAR && op_in_layer(model, op);
        assert_int_equal(is_orthogonalised(UPDATE_MUON, op), inside);
        assert_false(is_orthogonalised(UPDATE_ADAMW, op));
    }
    model_free(model);
}

/* Weights are gathered in the compute type, and as one byte where they are kept in fp8. */
static void gathers_have_the_computed_type(void **state)
{
    (void)state;
    for (int policy = 0; policy < POLICY_COUNT; policy++) {
        bool cast = policy == POLICY_FP8_WEIGHTS;
        assert_int_equal(policy_gather_bytes((enum policy)policy, DTYPE_BF16), cast ? 1 : 2);
        assert_int_equal(policy_gather_bytes((enum policy)policy, DTYPE_FP32), cast ? 1 : 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_handling),
        cmocka_unit_test(test_split_linear),
        cmocka_unit_test(test_gpt_layer),
        cmocka_unit_test(test_tied_weights_once),
        cmocka_unit_test(activations_are_those_of_the_literature),
        cmocka_unit_test(sharding_divides_state),
        cmocka_unit_test(matrices_lie_on_their_long_side),
        cmocka_unit_test(matrices_of_layers_are_orthogonal),
        cmocka_unit_test(gathers_have_the_computed_type),
        cmocka_unit_test(pieces_and_offload_keep_their_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
