/* test_import_onnx.c - models from ONNX graphs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ftw.h>
#include <math.h>

#include "model/import.h"
#include "onnx_writer.h"
#include "opened_model.h"

#define FLOAT ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
#define INT64 ONNX__TENSOR_PROTO__DATA_TYPE__INT64
#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static struct model *packed(struct writer *w, const char *overrides)
{
    struct arena *scratch = arena_new();
    struct doc *options;
    struct model *model = NULL;
    size_t len;
    assert_int_equal(options_parse(scratch, overrides, &options), WEFT_OK);
    uint8_t *bytes = writer_pack(w, &len);
    if (import_onnx("net.onnx", bytes, len, options, &model) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    writer_end(w);
    arena_free(scratch);
    return model;
}

static void conv(struct writer *w, const char *name, const char *x, int64_t in, int64_t out,
                 int64_t kernel, int64_t stride)
{
    char weight[64], norm[64], inputs[128], middle[64], norms[256];
    snprintf(weight, sizeof weight, "%s.w", name);
    snprintf(middle, sizeof middle, "%s.c", name);
    snprintf(inputs, sizeof inputs, "%s %s", x, weight);
    writer_weight(w, weight, DIMS(out, in, kernel, kernel));
    Onnx__NodeProto *node = writer_node(w, "Conv", name, inputs, middle);
    int64_t pad = kernel / 2;
    writer_ints(w, node, "kernel_shape", DIMS(kernel, kernel));
    writer_ints(w, node, "strides", DIMS(stride, stride));
    writer_ints(w, node, "pads", DIMS(pad, pad, pad, pad));
    snprintf(norms, sizeof norms, "%s %s.s %s.b %s.m %s.v", middle, name, name, name, name);
    for (const char *part = "sbmv"; *part; part++) {
        snprintf(norm, sizeof norm, "%s.%c", name, *part);
        writer_weight(w, norm, DIMS(out));
    }
    snprintf(middle, sizeof middle, "%s.bn", name);
    writer_node(w, "BatchNormalization", middle, norms, name);
}

static void relu(struct writer *w, const char *x, const char *y)
{
    writer_node(w, "Relu", y, x, y);
}

/* torchvision's bottleneck as PyTorch exports it. */
static void bottleneck(struct writer *w, const char *name, char *x, int64_t in, int64_t width,
                       int64_t stride)
{
    char a[64], b[64], c[64], d[64], out[64], both[128];
    snprintf(a, sizeof a, "%s.conv1", name);
    conv(w, a, x, in, width, 1, 1);
    snprintf(b, sizeof b, "%s.relu1", name);
    relu(w, a, b);
    snprintf(a, sizeof a, "%s.conv2", name);
    conv(w, a, b, width, width, 3, stride);
    snprintf(b, sizeof b, "%s.relu2", name);
    relu(w, a, b);
    snprintf(c, sizeof c, "%s.conv3", name);
    conv(w, c, b, width, 4 * width, 1, 1);
    snprintf(d, sizeof d, "%s", x);
    if (in != 4 * width) {
        snprintf(d, sizeof d, "%s.down", name);
        conv(w, d, x, in, 4 * width, 1, stride);
    }
    snprintf(both, sizeof both, "%s %s", c, d);
    snprintf(out, sizeof out, "%s.sum", name);
    writer_node(w, "Add", out, both, out);
    relu(w, out, name);
    snprintf(x, 64, "%s", name);
}

static void write_resnet50(struct writer *w)
{
    static const int DEPTHS[] = {3, 4, 6, 3};
    char x[64] = "pool", name[64];
    int64_t in = 64;
    writer_start(w, 13);
    writer_input(w, "image", FLOAT, DIMS(-1, 3, 224, 224), "batch");
    conv(w, "stem", "image", 3, 64, 7, 2);
    relu(w, "stem", "stem.relu");
    Onnx__NodeProto *pool = writer_node(w, "MaxPool", "pool", "stem.relu", "pool");
    writer_ints(w, pool, "kernel_shape", DIMS(3, 3));
    writer_ints(w, pool, "strides", DIMS(2, 2));
    writer_ints(w, pool, "pads", DIMS(1, 1, 1, 1));
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < DEPTHS[stage]; i++) {
            snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
            bottleneck(w, name, x, in, INT64_C(64) << stage, stage && i == 0 ? 2 : 1);
            in = INT64_C(256) << stage;
        }
    }
    writer_node(w, "GlobalAveragePool", "gap", x, "gap");
    writer_node(w, "Flatten", "flat", "gap", "flat");
    writer_weight(w, "fc.w", DIMS(1000, 2048));
    writer_weight(w, "fc.b", DIMS(1000));
    writer_int(w, writer_node(w, "Gemm", "fc", "flat fc.w fc.b", "logits"), "transB", 1);
    writer_output(w, "logits");
}

static void an_exported_resnet_equals_the_family(void **state)
{
    (void)state;
    struct writer w;
    write_resnet50(&w);
    struct model *onnx = packed(&w, NULL), *family = opened("resnet-50", NULL);
    assert_true(parameters(onnx) == 25557032);
    assert_true(parameters(onnx) == parameters(family));
    assert_true(flops(onnx) == flops(family));
    assert_int_equal(onnx->warnings.len, 0);
    assert_int_equal(onnx->layers, 54); /* 53 convolutions, shortcuts counted, and the head */
    model_free(onnx);
    model_free(family);
}

/* A PyTorch-style encoder block on (batch, seq): embedding, MatMul + Add as a linear with bias,
 * heads by Reshape and Transpose, two batched products, a residual, a tied head. */
static void write_encoder(struct writer *w, int64_t seq)
{
    writer_start(w, 14);
    writer_input(w, "ids", INT64, DIMS(-1, seq), "sequence");
    writer_weight(w, "table", DIMS(1000, 64));
    writer_weight(w, "positions", DIMS(16, 64));
    for (const char *part = "qkvo"; *part; part++) {
        writer_weight(w, (char[]){'w', *part, 0}, DIMS(64, 64));
        writer_weight(w, (char[]){'b', *part, 0}, DIMS(64));
    }
    writer_numbers(w, "split", DIMS(0, -1, 4, 16));
    writer_numbers(w, "join", DIMS(0, -1, 64));
    writer_node(w, "Gather", "/words/Gather", "table ids", "e");
    writer_node(w, "Add", "/Add", "e positions", "x");
    for (const char *part = "qkv"; *part; part++) {
        char p[2] = {*part, 0}, name[64], inputs[16];
        snprintf(name, sizeof name, "/layer.0/attn/%s/MatMul", p);
        snprintf(inputs, sizeof inputs, "x w%s", p);
        writer_node(w, "MatMul", name, inputs, (char[]){'m', *part, 0});
        snprintf(name, sizeof name, "/layer.0/attn/%s/Add", p);
        snprintf(inputs, sizeof inputs, "m%s b%s", p, p);
        writer_node(w, "Add", name, inputs, (char[]){'a', *part, 0});
        snprintf(inputs, sizeof inputs, "a%s split", p);
        writer_node(w, "Reshape", "", inputs, (char[]){'r', *part, 0});
        Onnx__NodeProto *t =
            writer_node(w, "Transpose", "", (char[]){'r', *part, 0}, (char[]){'t', *part, 0});
        if (*part == 'k')
            writer_ints(w, t, "perm", DIMS(0, 2, 3, 1));
        else
            writer_ints(w, t, "perm", DIMS(0, 2, 1, 3));
    }
    writer_node(w, "MatMul", "/layer.0/attn/score", "tq tk", "s");
    writer_int(w, writer_node(w, "Softmax", "/layer.0/attn/softmax", "s", "p"), "axis", -1);
    writer_node(w, "MatMul", "/layer.0/attn/context", "p tv", "c");
    writer_ints(w, writer_node(w, "Transpose", "", "c", "ct"), "perm", DIMS(0, 2, 1, 3));
    writer_node(w, "Reshape", "", "ct join", "cj");
    writer_node(w, "MatMul", "/layer.0/proj/MatMul", "cj wo", "mo");
    writer_node(w, "Add", "/layer.0/proj/Add", "bo mo", "ao");
    writer_node(w, "Add", "/layer.0/residual", "ao x", "y");
    writer_ints(w, writer_node(w, "Transpose", "", "table", "head"), "perm", DIMS(1, 0));
    writer_node(w, "MatMul", "/head/MatMul", "y head", "logits");
    writer_output(w, "logits");
}

/* 4 linears of 64 x 64 with bias; scores and context 2 * 4 heads * 16 * 16 * 16 each. */
static void exported_attention_is_recognised(void **state)
{
    (void)state;
    struct writer w;
    write_encoder(&w, 16);
    struct model *model = packed(&w, NULL);
    assert_true(parameters(model) == 1000 * 64 + 16 * 64 + 4 * (64 * 64 + 64));
    double products = 2.0 * 16 * 64 * 64 * 4 + 2 * 2.0 * 4 * 16 * 16 * 16 + 2.0 * 16 * 64 * 1000;
    assert_true(flops(model) == products);
    assert_int_equal(model->seq, 16);
    assert_int_equal(model->warnings.len, 0);
    const struct op *q = find_op(model, "layer.0.attn.q.MatMul");
    assert_non_null(q);
    assert_int_equal(q->kind, OP_LINEAR);
    assert_int_equal(q->weights, 2);
    const struct op *head = find_op(model, "head.MatMul");
    assert_non_null(head);
    assert_int_equal(head->weight[0].tied_op, 0);
    model_free(model);
}

static void a_fixed_batch_is_divided_out(void **state)
{
    (void)state;
    struct writer w;
    double each[2];
    for (int i = 0; i < 2; i++) {
        writer_start(&w, 13);
        writer_input(&w, "x", FLOAT, DIMS(i ? 32 : 1, 100), NULL);
        writer_weight(&w, "a", DIMS(100, 50));
        writer_node(&w, "MatMul", "fc", "x a", "y");
        struct model *model = packed(&w, NULL);
        each[i] = flops(model);
        assert_int_equal(
            has_warning(model, "input 'x' has a leading dim of 32, taken as the batch"), i);
        model_free(model);
    }
    assert_true(each[0] == 2 * 100 * 50);
    assert_true(each[0] == each[1]);
}

static void symbolic_dims_take_sizes(void **state)
{
    (void)state;
    struct writer w;
    writer_start(&w, 13);
    writer_input(&w, "x", FLOAT, DIMS(4, -1, 8), "sequence");
    writer_weight(&w, "a", DIMS(8, 8));
    writer_node(&w, "MatMul", "fc", "x a", "y");
    struct model *model = packed(&w, "sequence: 128");
    assert_true(flops(model) == 2.0 * 128 * 8 * 8);
    model_free(model);
    writer_start(&w, 13);
    writer_input(&w, "x", FLOAT, DIMS(1, -1, 8), "sequence");
    writer_weight(&w, "a", DIMS(8, 8));
    writer_node(&w, "MatMul", "fc", "x a", "y");
    model = packed(&w, NULL);
    assert_true(has_warning(
        model, "axis 1 of input 'x' has no size and counts as 1; give it with 'sequence: N'"));
    model_free(model);
}

static void unknown_operators_are_carried(void **state)
{
    (void)state;
    struct writer w;
    writer_start(&w, 13);
    writer_input(&w, "x", FLOAT, DIMS(-1, 8), "n");
    writer_weight(&w, "a", DIMS(3, 7));
    writer_node(&w, "Frobnicate", "f1", "x a", "y");
    writer_node(&w, "Frobnicate", "f2", "y", "z");
    writer_node(&w, "Relu", "r", "x", "u");
    struct model *model = packed(&w, NULL);
    assert_int_equal(model->ops, 3);
    assert_true(parameters(model) == 21);
    assert_int_equal(find_op(model, "f1")->kind, OP_OPAQUE);
    assert_string_equal(find_op(model, "f1")->onnx_type, "Frobnicate");
    assert_true(has_warning(model, "2 operators of type Frobnicate carried as opaque"));
    assert_true(has_warning(model, "2 tensors of unknown size counted as one element"));
    model_free(model);
}

static void nodes_may_stand_in_any_order(void **state)
{
    (void)state;
    struct writer w;
    writer_start(&w, 13);
    writer_input(&w, "x", FLOAT, DIMS(-1, 8), "n");
    writer_node(&w, "Relu", "third", "b", "c");
    writer_node(&w, "Relu", "second", "a", "b");
    writer_node(&w, "Relu", "first", "x", "a");
    struct model *model = packed(&w, NULL);
    assert_int_equal(model->ops, 3);
    assert_string_equal(model->op[0].name, "first");
    assert_string_equal(model->op[2].name, "third");
    model_free(model);
}

/* Shape -> Gather -> Concat -> Reshape, as exporters write view(x.size(0), -1). */
static void shape_computations_are_folded(void **state)
{
    (void)state;
    struct writer w;
    writer_start(&w, 13);
    writer_input(&w, "x", FLOAT, DIMS(6, 4, 5), NULL);
    writer_weight(&w, "a", DIMS(20, 3));
    writer_numbers(&w, "zero", DIMS(0));
    writer_numbers(&w, "rest", DIMS(-1));
    writer_node(&w, "Shape", "s", "x", "shape");
    writer_node(&w, "Gather", "g", "shape zero", "first");
    writer_int(&w, writer_node(&w, "Concat", "c", "first rest", "target"), "axis", 0);
    writer_node(&w, "Reshape", "r", "x target", "flat");
    writer_node(&w, "MatMul", "fc", "flat a", "y");
    struct model *model = packed(&w, NULL);
    assert_int_equal(model->ops, 1);
    assert_true(flops(model) == 2.0 * 20 * 3);
    model_free(model);
}

/* The last number of a shape, counted from its end: view(-1, x.size(-1)). */
static void shapes_are_counted_from_their_end(void **state)
{
    (void)state;
    struct writer w;
    writer_start(&w, 15);
    writer_input(&w, "x", FLOAT, DIMS(6, 4, 5), NULL);
    writer_weight(&w, "a", DIMS(5, 3));
    writer_numbers(&w, "rest", DIMS(-1));
    writer_int(&w, writer_node(&w, "Shape", "s", "x", "last"), "start", -1);
    writer_int(&w, writer_node(&w, "Concat", "c", "rest last", "target"), "axis", 0);
    writer_node(&w, "Reshape", "r", "x target", "flat");
    writer_node(&w, "MatMul", "fc", "flat a", "y");
    struct model *model = packed(&w, NULL);
    assert_true(flops(model) == 2.0 * 4 * 5 * 3);
    model_free(model);
}

/* A slice of more axes than there are. */
static void axes_that_are_not_there_are_refused(void **state)
{
    (void)state;
    struct writer w;
    struct model *model = NULL;
    size_t len;
    writer_start(&w, 13);
    writer_input(&w, "x", FLOAT, DIMS(6, 5), NULL);
    writer_weight(&w, "a", DIMS(5, 3));
    writer_numbers(&w, "starts", DIMS(0, 0, 0));
    writer_numbers(&w, "ends", DIMS(4, 5, 1));
    writer_node(&w, "Slice", "cut", "x starts ends", "part");
    writer_node(&w, "MatMul", "fc", "part a", "y");
    uint8_t *bytes = writer_pack(&w, &len);
    struct arena *scratch = arena_new();
    struct doc *options;
    assert_int_equal(options_parse(scratch, NULL, &options), WEFT_OK);
    assert_int_equal(import_onnx("net.onnx", bytes, len, options, &model), WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "cut"));
    writer_end(&w);
    arena_free(scratch);
}

static void weights_are_not_read(void **state)
{
    (void)state;
    enum { MEGABYTES = 8 };
    struct writer w;
    writer_start(&w, 13);
    writer_input(&w, "x", FLOAT, DIMS(-1, 1024), "n");
    Onnx__TensorProto *weight = writer_weight(&w, "a", DIMS(1024, 2048));
    weight->has_raw_data = true;
    weight->raw_data.len = MEGABYTES << 20;
    weight->raw_data.data = arena_alloc(w.arena, MEGABYTES << 20, 1);
    writer_node(&w, "MatMul", "fc", "x a", "y");
    struct model *model = packed(&w, NULL);
    assert_true(parameters(model) == 1024 * 2048);
    assert_true(arena_bytes(model->arena) < 100000);
    model_free(model);
}

static struct {
    int models, failed;
} walked;

static int open_testdata(const char *path, const struct stat *info, int flag, struct FTW *at)
{
    (void)info, (void)at;
    struct model *model = NULL;
    size_t len = strlen(path);
    if (flag != FTW_F || len < 5 || strcmp(path + len - 5, ".onnx") != 0)
        return 0;
    walked.models++;
    if (model_open(path, NULL, &model) != WEFT_OK) {
        walked.failed++;
        print_error("%s\n", weft_last_error()->message);
        return 0;
    }
    for (int32_t i = 0; i < model->ops; i++)
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            op_work(&model->op[i], model->op[i].size, DTYPE_FP32, (enum phase)phase);
    assert_true(model->ops > 0 && isfinite(flops(model)));
    model_free(model);
    return 0;
}

static void all_of_onnx_testdata_loads(void **state)
{
    (void)state;
    static const char FOLDER[] = "/usr/share/libonnx-testdata/data";
    if (nftw(FOLDER, open_testdata, 16, FTW_PHYS) != 0 || walked.models == 0) {
        print_message("libonnx-testdata is not installed: nothing to load\n");
        skip();
    }
    print_message("%d of %d ONNX models loaded\n", walked.models - walked.failed, walked.models);
    assert_int_equal(walked.failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_counted_from_their_end),
        cmocka_unit_test(an_exported_resnet_equals_the_family),
        cmocka_unit_test(exported_attention_is_recognised),
        cmocka_unit_test(a_fixed_batch_is_divided_out),
        cmocka_unit_test(symbolic_dims_take_sizes),
        cmocka_unit_test(unknown_operators_are_carried),
        cmocka_unit_test(nodes_may_stand_in_any_order),
        cmocka_unit_test(shape_computations_are_folded),
        cmocka_unit_test(axes_that_are_not_there_are_refused),
        cmocka_unit_test(weights_are_not_read),
        cmocka_unit_test(all_of_onnx_testdata_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
