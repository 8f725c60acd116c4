/* test_builder.c - the model's core, each expectation derived by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/builder.h"

static struct model *finish(struct builder *b)
{
    struct model *model = NULL;
    assert_int_equal(build_finish(b, &model), WEFT_OK);
    return model;
}

static void assert_near(double got, double expected)
{
    assert_float_equal(got / expected, 1.0, 1e-12);
}

/* tokens(4) -> embedding(10 x 8) -> linear 8 -> 6 with bias:
 * parameters 10*8 + 6*8 + 6 = 134; FLOPs 2*4*8*6 = 384, and as many for each gradient. */
static void linear_by_hand(void **state)
{
    (void)state;
    struct builder *b = build_start("m", "hand", "test");
    int x = build_embedding(b, "embed", build_tokens(b, 4), 10, 8, 0);
    build_linear(b, "head", x, 6, true);
    struct model *model = finish(b);
    struct totals t = model_totals(model, DTYPE_FP16);
    assert_near(t.parameters, 134);
    assert_near(t.flops[PHASE_FORWARD], 384);
    assert_near(t.flops[PHASE_BACKWARD_INPUT], 384);
    assert_near(t.flops[PHASE_BACKWARD_WEIGHT], 384);
    /* kept: 4 ids of 8 bytes, and the linear's input 4*8 elements of 2 bytes */
    assert_near(t.kept_bytes, 4 * 8 + 4 * 8 * 2);
    model_free(model);
}

/* Split a linear over out:2 and in:2 at micro-batch 3: each operand holds what it should. */
static void operands_shrink_with_their_dims(void **state)
{
    (void)state;
    struct builder *b = build_start("m", "hand", "test");
    build_linear(b, "l", build_embedding(b, "e", build_tokens(b, 4), 10, 8, 0), 6, false);
    struct model *model = finish(b);
    const struct op *op = &model->op[1];
    int64_t local[OP_MAX_DIMS];
    op_full_size(op, 3, local);
    local[op_find_dim(OP_LINEAR, DIM_OUT)] /= 2;
    local[op_find_dim(OP_LINEAR, DIM_IN)] /= 2;
    assert_near(operand_elements(op, &op->input[0], local), 3 * 4 * 4);
    assert_near(operand_elements(op, &op->weight[0].operand, local), 3 * 4);
    assert_near(operand_elements(op, &op->output, local), 3 * 4 * 3);
    struct work w = op_work(op, local, DTYPE_FP32, PHASE_BACKWARD_WEIGHT);
    assert_int_equal(w.kernel, KERNEL_MATMUL);
    assert_int_equal(w.shape[1], 3); /* m = out, n = in, k = rows */
    assert_int_equal(w.shape[2], 4);
    assert_int_equal(w.shape[3], 12);
    assert_near(w.flops, 2 * 3 * 4 * 12);
    model_free(model);
}

/* n copies of norm(x) + x: each copy keeps its input once (the norm's), and its own output only
 * where the next copy's norm reads it: n - 1 carried tensors and the first one from outside. */
static void repeats_keep_each_tensor_once(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 5; n++) {
        struct builder *b = build_start("m", "hand", "test");
        int x = build_embedding(b, "e", build_tokens(b, 4), 10, 8, 0);
        x = build_repeat(b, "layers", n, x);
        x = build_repeat_end(b, build_add(b, "add", build_layer_norm(b, "norm", x), x));
        build_linear(b, "head", x, 6, false);
        struct model *model = finish(b);
        double tensor = 4 * 8 * 2, stats = 2 * 4 * 4, ids = 4 * 8;
        /* n inputs of norms (one of them the embedding's output), the head's input, stats */
        assert_near(model_totals(model, DTYPE_FP16).kept_bytes,
                    (double)(n + 1) * tensor + (double)n * stats + ids);
        assert_int_equal(model->ops, 4);
        assert_int_equal(model_totals(model, DTYPE_FP16).ops, 2 + 2 * n);
        model_free(model);
    }
}

/* 8 query heads over 2 key/value heads of depth 4, seq 16: fused qkv has 8*4 + 2*2*4 = 48 features.
 * Splitting `head` by 2 halves everything; splitting `group` by 4 leaves keys and values whole. */
static void grouped_queries_split_both_ways(void **state)
{
    (void)state;
    struct builder *b = build_start("m", "hand", "test");
    struct attention a = {.heads = 8, .kv_heads = 2, .depth = 4, .causal = true};
    int qkv =
        build_linear(b, "qkv", build_embedding(b, "e", build_tokens(b, 16), 10, 32, 0), 48, false);
    build_attention(b, "attention", qkv, qkv, qkv, &a);
    struct model *model = finish(b);
    const struct op *op = &model->op[2];
    int64_t local[OP_MAX_DIMS];
    op_full_size(op, 1, local);
    assert_near(operand_elements(op, &op->input[0], local), 16 * 32);
    assert_near(operand_elements(op, &op->input[1], local), 16 * 8);
    assert_near(op_work(op, local, DTYPE_FP16, PHASE_FORWARD).flops, 4. * 8 * 16 * 16 * 4);
    local[op_find_dim(OP_ATTENTION, DIM_HEAD)] = 1;
    local[op_find_dim(OP_ATTENTION, DIM_GROUP)] = 1;
    assert_near(operand_elements(op, &op->input[0], local), 16 * 32 / 8.);
    assert_near(operand_elements(op, &op->input[1], local), 16 * 8 / 2.);
    model_free(model);
}

/* 2 heads of 4 x 4 scores in fp16 are 64 bytes; a causal softmax writes all and reads half of them,
 * backward half of the gradient and of its kept output. */
static void causal_softmax_reads_half(void **state)
{
    (void)state;
    struct builder *b = build_start("m", "hand", "test");
    struct attention a = {.heads = 2, .kv_heads = 2, .depth = 8, .causal = true};
    int x = build_embedding(b, "e", build_tokens(b, 4), 10, 16, 0);
    build_softmax(b, "softmax", build_score(b, "score", x, x, &a), false);
    build_last(b)->causal = true;
    struct model *model = finish(b);
    const struct op *op = &model->op[2];
    struct work forward = op_work(op, op->size, DTYPE_FP16, PHASE_FORWARD);
    struct work backward = op_work(op, op->size, DTYPE_FP16, PHASE_BACKWARD_INPUT);
    assert_near(forward.read_bytes, 32);
    assert_near(forward.write_bytes, 64);
    assert_near(backward.read_bytes, 64);
    assert_near(backward.write_bytes, 64);
    assert_int_equal(forward.shape[2], 1);
    model_free(model);
}

/* 12 heads of depth 64 on 32 positions: scores are products of (32, 64) by (64, 32), contexts of (32, 32) by (32, 64). */
static void products_of_attention_have_their_shapes(void **state)
{
    (void)state;
    static const struct {
        enum op_kind kind;
        int64_t shape[4]; /* batch, m, n, k */
    } PRODUCTS[] = {{OP_SCORE, {12, 32, 32, 64}}, {OP_CONTEXT, {12, 32, 64, 32}}};
    struct model *model;
    int found = 0;
    assert_int_equal(model_open("gpt2", "attention: eager, layers: 1, seq: 32", &model), WEFT_OK);
    for (int32_t i = 0; i < model->ops; i++)
        for (size_t p = 0; p < COUNT_OF(PRODUCTS); p++) {
            const struct op *op = &model->op[i];
            if (op->kind != PRODUCTS[p].kind)
                continue;
            struct work work = op_work(op, op->size, DTYPE_FP16, PHASE_FORWARD);
            assert_memory_equal(work.shape, PRODUCTS[p].shape, sizeof PRODUCTS[p].shape);
            assert_near(work.flops, 2. * 12 * 32 * 32 * 64);
            found++;
        }
    assert_int_equal(found, 2);
    model_free(model);
}

/* 6 tokens, 2 of 4 experts each: 12 rows; a 4 -> 8 expert product is 2*12*4*8 FLOPs in total and
 * has 4*8*4 parameters; one device of expert:2 does half of both. */
static void experts_share_tokens(void **state)
{
    (void)state;
    struct builder *b = build_start("m", "hand", "test");
    int x = build_embedding(b, "e", build_tokens(b, 6), 10, 4, 0);
    int scores = build_router(b, "router", x, 4, 2);
    int y = build_expert_linear(b, "up", build_dispatch(b, "dispatch", x, scores), 8, false);
    y = build_expert_linear(b, "down", build_gelu(b, "gelu", y), 4, false);
    y = build_combine(b, "combine", y, scores);
    assert_int_equal(build_tensor(b, y)->size[1], 6);
    struct model *model = finish(b);
    const struct op *up = &model->op[3];
    assert_near(op_parameters(up), 4 * 8 * 4);
    int64_t local[OP_MAX_DIMS];
    op_full_size(up, 1, local);
    assert_near(op_work(up, local, DTYPE_FP16, PHASE_FORWARD).flops, 2 * 12 * 4 * 8);
    local[op_find_dim(OP_EXPERT_LINEAR, DIM_EXPERT)] = 2;
    struct work half = op_work(up, local, DTYPE_FP16, PHASE_FORWARD);
    assert_near(half.flops, 12 * 4 * 8);
    assert_int_equal(half.shape[0], 2);
    assert_int_equal(half.shape[1], 3);
    model_free(model);
}

/* 3 x 8 x 8 image, 3 x 3 kernel, stride 2, pad 1, 4 channels: 4 x 4 x 4 output, 3*4*9 weights,
 * 2*16*4*27 FLOPs; the image itself wants no gradient. */
static void convolution_by_hand(void **state)
{
    (void)state;
    struct builder *b = build_start("m", "hand", "test");
    struct window w = {3, 3, 2, 1, 1};
    build_conv(b, "conv", build_image(b, 3, 8, 8), 4, &w, 1, false);
    struct model *model = finish(b);
    struct totals t = model_totals(model, DTYPE_FP32);
    assert_near(t.parameters, 3 * 4 * 9);
    assert_near(t.flops[PHASE_FORWARD], 2 * 16 * 4 * 27);
    assert_true(t.flops[PHASE_BACKWARD_INPUT] == 0);
    assert_near(t.kept_bytes, 3 * 8 * 8 * 4);
    model_free(model);
}

static void paths_count_copies(void **state)
{
    (void)state;
    struct builder *b = build_start("m", "hand", "test");
    int x = build_embedding(b, "e", build_tokens(b, 4), 10, 8, 0);
    x = build_repeat(b, "layers", 1000, x);
    build_module(b, "attn");
    x = build_linear(b, "qkv", x, 8, false);
    build_module_end(b);
    build_repeat_end(b, x);
    struct model *model = finish(b);
    struct arena *scratch = arena_new();
    assert_string_equal(op_path(scratch, model, &model->op[1], 7), "layers.7.attn.qkv");
    assert_string_equal(op_path(scratch, model, &model->op[1], 999), "layers.999.attn.qkv");
    assert_string_equal(op_path(scratch, model, &model->op[0], 0), "e");
    arena_free(scratch);
    model_free(model);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    struct builder *b = build_start("m", "hand", "test");
    int x = build_embedding(b, "e", build_tokens(b, INT64_C(1) << 40), 10, INT64_C(1) << 40, 0);
    assert_int_equal(x, -1);
    build_linear(b, "l", x, 4, true);
    struct model *model;
    assert_int_equal(build_finish(b, &model), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "'e' would have an axis of 1099511627776, expected positive sizes whose "
                        "product is below 2^50");
}

/* Every kind has a name, a batch dim first, and a work function; its texts name only its dims. */
static void every_kind_has_a_row(void **state)
{
    (void)state;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        const struct op_kind_row *row = &OP_KINDS[kind];
        assert_non_null(row->name);
        assert_non_null(row->work);
        assert_int_equal(row->dims[0].role, ROLE_BATCH);
        for (int i = 0; i < op_dims((enum op_kind)kind); i++)
            assert_int_equal(op_find_dim((enum op_kind)kind, row->dims[i].dim), i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_by_hand),
        cmocka_unit_test(operands_shrink_with_their_dims),
        cmocka_unit_test(repeats_keep_each_tensor_once),
        cmocka_unit_test(grouped_queries_split_both_ways),
        cmocka_unit_test(causal_softmax_reads_half),
        cmocka_unit_test(products_of_attention_have_their_shapes),
        cmocka_unit_test(experts_share_tokens),
        cmocka_unit_test(convolution_by_hand),
        cmocka_unit_test(paths_count_copies),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(every_kind_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
