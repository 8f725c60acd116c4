/* test_model_properties.c - what must hold for every operator of every preset.
 *
 *   P1  Splitting a dim in two halves the FLOPs of every phase (nothing is computed twice).
 *   P2  Splitting a dim halves exactly the operands that have it and leaves the others whole.
 *   P3  A batch of b costs b times the FLOPs of one sample and b times the kept bytes.
 *   P4  The parts of the module tree add up to the whole.
 *   P5  Storage does not grow with the number of layers.
 *   P6  Of each key/value head's features those of its queries and its key are rotated, and no value.
 *   P7  FLOPs, bytes and shapes of the kinds are those of their equations.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "opened_model.h"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static bool has_dim(const struct operand *operand, int dim)
{
    for (int a = 0; a < operand->axes; a++)
        for (int k = 0; k < MAX_AXIS_DIMS && operand->dims[a][k] >= 0; k++)
            if (operand->dims[a][k] == dim)
                return true;
    return false;
}

static void check_operand(const struct op *op, const struct operand *operand, int dim,
                          const int64_t *full, const int64_t *half)
{
    double share = has_dim(operand, dim) ? 0.5 : 1;
    assert_true(near(operand_elements(op, operand, half),
                     share * operand_elements(op, operand, full))); /* P2 */
}

static bool splits(enum dim_role role)
{
    return role == ROLE_BATCH || role == ROLE_SPLIT || role == ROLE_REDUCE;
}

static void check_split(const struct op *op, int dim)
{
    int64_t full[OP_MAX_DIMS], half[OP_MAX_DIMS];
    op_full_size(op, 2, full);
    memcpy(half, full, sizeof full);
    half[dim] /= 2;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        struct work whole = op_work(op, full, DTYPE_BF16, (enum phase)phase);
        struct work part = op_work(op, half, DTYPE_BF16, (enum phase)phase);
        if (!near(part.flops, whole.flops / 2)) /* P1 */
            fail_msg("%s split by %s: %g FLOPs of %g", op->name,
                     dim_name(OP_KINDS[op->kind].dims[dim].dim), part.flops, whole.flops);
        assert_true(part.read_bytes <= whole.read_bytes * (1 + 1e-12));
        assert_true(part.write_bytes <= whole.write_bytes * (1 + 1e-12));
    }
    for (int32_t i = 0; i < op->inputs; i++)
        check_operand(op, &op->input[i], dim, full, half);
    for (int32_t i = 0; i < op->weights; i++)
        check_operand(op, &op->weight[i].operand, dim, full, half);
    check_operand(op, &op->output, dim, full, half);
}

static void check_batch(const struct model *model, const struct op *op)
{
    int64_t one[OP_MAX_DIMS], seven[OP_MAX_DIMS];
    op_full_size(op, 1, one);
    op_full_size(op, 7, seven);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        assert_true(near(op_work(op, seven, DTYPE_FP16, (enum phase)phase).flops,
                         7 * op_work(op, one, DTYPE_FP16, (enum phase)phase).flops)); /* P3 */
    assert_true(near(op_kept_bytes(model, op, seven, DTYPE_FP16),
                     7 * op_kept_bytes(model, op, one, DTYPE_FP16)));
}

static void check_tree(const struct model *model)
{
    struct totals whole = model_totals(model, DTYPE_FP32), sum = {0};
    for (int32_t i = 0; i < model->ops; i++) {
        struct totals one = op_totals(model, &model->op[i], DTYPE_FP32);
        sum.parameters += one.parameters;
        sum.kept_bytes += one.kept_bytes;
        sum.flops[PHASE_FORWARD] += one.flops[PHASE_FORWARD];
    }
    assert_true(near(whole.parameters, sum.parameters)); /* P4 */
    assert_true(near(whole.kept_bytes, sum.kept_bytes));
    assert_true(near(whole.flops[PHASE_FORWARD], sum.flops[PHASE_FORWARD]));
    for (int32_t i = 1; i < model->modules; i++) {
        const struct module *child = &model->module[i], *parent = &model->module[child->parent];
        assert_true(child->first_op >= parent->first_op);
        assert_true(child->first_op + child->ops <= parent->first_op + parent->ops); /* I3 */
    }
}

static void every_preset_obeys(void **state)
{
    (void)state;
    const struct preset *presets;
    size_t count = model_presets(&presets);
    assert_true(count > 50);
    for (size_t p = 0; p < count; p++) {
        struct model *model;
        assert_int_equal(model_open(presets[p].name, NULL, &model), WEFT_OK);
        for (int32_t i = 0; i < model->ops; i++) {
            const struct op *op = &model->op[i];
            for (int d = 0; d < op_dims(op->kind); d++)
                if (splits(OP_KINDS[op->kind].dims[d].role) &&
                    (op->size[d] % 2 == 0 || OP_KINDS[op->kind].dims[d].role == ROLE_BATCH))
                    check_split(op, d);
            check_batch(model, op);
        }
        check_tree(model);
        model_free(model);
    }
}

static void layers_are_stored_once(void **state)
{
    (void)state;
    struct model *few, *many;
    assert_int_equal(model_open("gpt3-13b", "layers: 1", &few), WEFT_OK);
    assert_int_equal(model_open("gpt3-13b", "layers: 1000", &many), WEFT_OK);
    assert_int_equal(few->ops, many->ops); /* P5 */
    assert_int_equal(arena_bytes(few->arena), arena_bytes(many->arena));
    model_free(few);
    model_free(many);
}

/* Every preset by numbers that change with every operator: data/models.txt. */
static void presets_have_the_numbers_on_file(void **state)
{
    (void)state;
    const struct preset *presets;
    size_t count = model_presets(&presets), len;
    struct arena *keep = arena_new();
    char *golden;
    int wrong = 0;
    assert_int_equal(
        file_read(keep, WEFT_SOURCE_DIR "/tests/data/models.txt", 1 << 20, &golden, &len), WEFT_OK);
    for (size_t i = 0; i < count; i++) {
        struct model *model;
        assert_int_equal(model_open(presets[i].name, NULL, &model), WEFT_OK);
        struct totals totals = model_totals(model, DTYPE_BF16);
        const char *line =
            arena_printf(keep, "%s: %lld operators, %.0f parameters, %.9g FLOP, %.9g bytes kept\n",
                         presets[i].name, (long long)totals.ops, totals.parameters,
                         totals.flops[PHASE_FORWARD], totals.kept_bytes);
        if (!strstr(golden, line)) {
            fputs(line, stdout);
            wrong++;
        }
        model_free(model);
    }
    assert_int_equal(wrong, 0);
    arena_free(keep);
}

/* 8 heads of 64 features over 2 keys: a share is 4 queries, a key and a value. DeepSeek's heads have 128 features that
 * stay and 64 that turn. */
static void positions_turn_queries_and_keys(void **state)
{
    (void)state;
    static const char *const SMALL =
        "layers: 1, hidden: 512, heads: 8, ffn: 64, vocab: 100, seq: 16";
    static const struct {
        const char *model, *more, *path;
        int64_t depth, share, turned;
        double base;
    } CASES[] = {
        {"llama2-7b", ", kv_heads: 2", "layers.0.attn.rotary", 64, 6 * 64, 5 * 64, 1e4},
        {"llama2-7b", "", "layers.0.attn.rotary", 64, 3 * 64, 2 * 64, 1e4},
        {"llama3.1-8b", ", kv_heads: 1", "layers.0.attn.rotary", 64, 10 * 64, 9 * 64, 5e5},
        {"llama2-7b", ", kv_heads: 2, qk_norm: true", "layers.0.attn.q_rotary", 64, 64, 64, 1e4},
        {"llama2-7b", ", kv_heads: 2, qk_norm: true", "layers.0.attn.k_rotary", 64, 64, 64, 1e4},
        {"llama2-7b", ", rotary_share: 0.25", "layers.0.attn.q_rotary", 16, 64, 16, 1e4},
        {"deepseek-v3", NULL, "layers.0.attn.q_rotary", 64, 192, 64, 1e4},
        {"deepseek-v3", NULL, "layers.0.attn.k_rotary", 64, 64, 64, 1e4},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char options[200];
        snprintf(options, sizeof options, "%s%s", SMALL, CASES[i].more ? CASES[i].more : "");
        struct model *model = opened(CASES[i].model, CASES[i].more ? options : NULL);
        const struct op *op = find_op(model, CASES[i].path);
        assert_non_null(op);
        assert_int_equal(op->head_depth, CASES[i].depth);
        assert_int_equal(op->head_share, CASES[i].share); /* P6 */
        assert_int_equal(op->head_turned, CASES[i].turned);
        assert_true(op->rope_base == CASES[i].base);
        model_free(model);
    }
}

/* ---- works by hand (P7) ---------------------------------------------------------------------- */

#define WORKED "layers: 1, hidden: 8, heads: 2, ffn: 16, vocab: 32"
#define LLAMA  "llama2-7b", WORKED ", kv_heads: 1, seq: 4"
#define MIXED  "mixtral-8x7b", WORKED ", kv_heads: 2, seq: 6, experts: 4, top_k: 2"
#define CUT    "llama2-7b", WORKED ", seq: 16, window: 4"
#define DELTA                                                                                      \
    "qwen3-next-80b-a3b", "layers: 4, seq: 16, vocab: 32, delta_heads: 2, delta_key_heads: 1, "    \
                          "delta_key_dim: 4, delta_dim: 8"

/* Llama: 4 tokens of 8 features in fp32 are 128 bytes, ids 32; a norm keeps 4 numbers, attention 2 x 4, a loss its
 * probabilities. Mixtral: 6 tokens go to 2 of 4 experts each, 3 rows an expert. With a window of 4 keys attention of 16
 * positions is four of 4 if it is chunked. A delta rule of 2 heads, keys of 4 and values of 8, takes for each position
 * and head 64 (3 * 4 + 2 * 8) + 3 * 4 * 8 products; an index of 64 heads of 128 scores half of 16 keys. */
static const struct {
    const char *model, *options, *path;
    enum phase phase;
    double flops, read, write; /* read and write 0: not compared */
    int64_t shape[8];
} WORKS[] = {
    {LLAMA, "embedding", PHASE_FORWARD, 0, 32 + 128, 128, {4, 8, 32}},
    {LLAMA, "embedding", PHASE_BACKWARD_WEIGHT, 0, 128 + 32, 32 * 32, {4, 8, 32}},
    {LLAMA, "layers.0.attn.norm", PHASE_FORWARD, 0, 128 + 32, 128 + 16, {4, 8}},
    {LLAMA, "layers.0.attn.norm", PHASE_BACKWARD_INPUT, 0, 128 + 128 + 16, 128, {4, 8}},
    {LLAMA, "layers.0.attn.norm", PHASE_BACKWARD_WEIGHT, 0, 128 + 128, 32, {4, 8}},
    {LLAMA, "layers.0.attn.qkv", PHASE_FORWARD, 1024, 128 + 512, 256, {1, 4, 16, 8}},
    {LLAMA, "layers.0.attn.qkv", PHASE_BACKWARD_INPUT, 1024, 256 + 512, 128, {1, 4, 8, 16}},
    {LLAMA, "layers.0.attn.qkv", PHASE_BACKWARD_WEIGHT, 1024, 256 + 128, 512, {1, 16, 8, 4}},
    {LLAMA,
     "layers.0.attn.attention",
     PHASE_FORWARD,
     512,
     128 + 2 * 64,
     128 + 32,
     {1, 2, 1, 4, 4, 4, 4, 1}},
    {LLAMA,
     "layers.0.attn.attention",
     PHASE_BACKWARD_INPUT,
     1024,
     128 + 256 + 128 + 32,
     256,
     {1, 2, 1, 4, 4, 4, 4, 1}},
    {LLAMA, "layers.0.attn.add", PHASE_FORWARD, 0, 256, 128, {32}},
    {LLAMA, "layers.0.mlp.gated", PHASE_FORWARD, 0, 512, 256, {64}},
    {LLAMA, "layers.0.mlp.gated", PHASE_BACKWARD_INPUT, 0, 256 + 512, 512, {64}},
    {LLAMA, "loss", PHASE_FORWARD, 0, 512, 512 + 16, {4, 32}},
    {LLAMA, "loss", PHASE_BACKWARD_INPUT, 0, 16 + 512, 512, {4, 32}},
    {MIXED, "layers.0.mlp.experts.router", PHASE_FORWARD, 384, 192 + 128, 96, {1, 6, 4, 8}},
    {MIXED, "layers.0.mlp.experts.dispatch", PHASE_FORWARD, 0, 192 + 96, 384, {96}},
    {MIXED, "layers.0.mlp.experts.gate_up", PHASE_FORWARD, 6144, 384 + 4096, 1536, {4, 3, 32, 8}},
    {MIXED,
     "layers.0.mlp.experts.gate_up",
     PHASE_BACKWARD_WEIGHT,
     6144,
     1536 + 384,
     4096,
     {4, 32, 8, 3}},
    {MIXED, "layers.0.mlp.experts.combine", PHASE_FORWARD, 0, 384 + 96, 192, {48}},
    {CUT,
     "layers.0.attn.attention",
     PHASE_FORWARD,
     2 * 2 * 16 * 4 * 8,
     0,
     0,
     {1, 2, 2, 16, 16, 4, 4, 4}},
    {CUT ", chunked: true",
     "layers.0.attn.attention",
     PHASE_FORWARD,
     2 * 2 * 16 * 4 * 8,
     0,
     0,
     {4, 2, 2, 4, 4, 4, 4, 1}},
    {DELTA,
     "layers.0.delta.delta",
     PHASE_FORWARD,
     2 * 16 * 2 * (64. * 28 + 96),
     0,
     0,
     {1, 1, 2, 16, 8, 4, 64}},
    {DELTA,
     "layers.0.delta.delta",
     PHASE_BACKWARD_INPUT,
     4 * 16 * 2 * (64. * 28 + 96),
     0,
     0,
     {1, 1, 2, 16, 8, 4, 64}},
    {"deepseek-v3",
     "layers: 4, seq: 16",
     "layers.0.attn.attention",
     PHASE_FORWARD,
     2. * 128 * 256 * (192 + 128),
     0,
     0,
     {1, 128, 128, 16, 16, 192, 128, 1}},
    {"deepseek-v3.2",
     "layers: 4, seq: 16",
     "layers.0.attn.index.index",
     PHASE_FORWARD,
     2. * 64 * 16 * 8 * 128,
     0,
     0,
     {64, 16, 8, 128}},
    {"deepseek-v3.2",
     "layers: 4, seq: 16",
     "layers.0.attn.attention",
     PHASE_FORWARD,
     2. * 128 * 256 * (576 + 512),
     0,
     0,
     {1, 128, 1, 16, 16, 576, 512, 1}},
    {"deepseek-v4-flash",
     "layers: 4",
     "layers.2.attn.attention",
     PHASE_FORWARD,
     2. * 64 * 4096 * (128 + 512) * (512 + 512),
     0,
     0,
     {1, 64, 1, 4096, 4096, 512, 512, 128 + 512}},
    {"deepseek-v4-flash",
     "layers: 4",
     "layers.3.attn.attention",
     PHASE_FORWARD,
     2. * 64 * 4096 * (128 + 32) * (512 + 512),
     0,
     0,
     {1, 64, 1, 4096, 4096, 512, 512, 128 + 32}},
    {"deepseek-v4-flash",
     "layers: 4, seq: 16",
     "layers.0.attn.mix_out",
     PHASE_FORWARD,
     0,
     16 * (4 * 4096 + 4096 + 24) * 4,
     16 * 4 * 4096 * 4,
     {16 * 4 * 4096}},
    {"dlrm",
     NULL,
     "interaction",
     PHASE_FORWARD,
     2. * 27 * 27 * 128,
     27 * 128 * 4,
     0,
     {1, 27, 27, 128}},
};

static void works_are_as_counted_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(WORKS); i++) {
        struct model *model = opened(WORKS[i].model, WORKS[i].options);
        const struct op *op = find_op(model, WORKS[i].path);
        assert_non_null(op);
        struct work work = op_work(op, op->size, DTYPE_FP32, WORKS[i].phase);
        bool same = work.flops == WORKS[i].flops &&
                    (!WORKS[i].read || work.read_bytes == WORKS[i].read) &&
                    (!WORKS[i].write || work.write_bytes == WORKS[i].write) &&
                    memcmp(work.shape, WORKS[i].shape, sizeof work.shape) == 0;
        if (!same)
            fail_msg("row %zu, %s: %g FLOPs, reads %g, writes %g", i, WORKS[i].path, work.flops,
                     work.read_bytes, work.write_bytes);
        model_free(model);
    }
}

/* Of the 12 rows of 4 experts a device that has half of the tokens computes 6, in groups of two as long as they are. */
static void groups_of_experts_round_their_shape_only(void **state)
{
    (void)state;
    struct model *model = opened(MIXED);
    const struct op *op = find_op(model, "layers.0.mlp.experts.gate_up");
    int64_t half[OP_MAX_DIMS];
    assert_non_null(op);
    op_full_size(op, 1, half);
    for (int dim = 0; dim < OP_MAX_DIMS; dim++)
        half[dim] /= OP_KINDS[op->kind].dims[dim].dim == DIM_SEQ ? 2 : 1;
    struct work work = op_work(op, half, DTYPE_FP32, PHASE_FORWARD);
    assert_true(work.flops == 2. * 6 * 8 * 32);
    assert_int_equal(work.shape[1], 2);
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_the_numbers_on_file),
        cmocka_unit_test(every_preset_obeys),
        cmocka_unit_test(layers_are_stored_once),
        cmocka_unit_test(positions_turn_queries_and_keys),
        cmocka_unit_test(works_are_as_counted_by_hand),
        cmocka_unit_test(groups_of_experts_round_their_shape_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
