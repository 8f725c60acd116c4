/* test_import.c - models from files: Hugging Face configs, Weft's own files, ONNX graphs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <ftw.h>
#include <math.h>

#include "model/import.h"
#include "onnx_writer.h"

#define FLOAT ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
#define INT64 ONNX__TENSOR_PROTO__DATA_TYPE__INT64
#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static struct model *opened(const char *name, const char *overrides)
{
    struct model *model = NULL;
    if (model_open(name, overrides, &model) != WEFT_OK)
        fail_msg("%s: %s", name, weft_last_error()->message);
    return model;
}

static struct model *opened_file(const char *file, const char *overrides)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", WEFT_SOURCE_DIR, file);
    return opened(path, overrides);
}

static double parameters(const struct model *model)
{
    return model_totals(model, DTYPE_FP32).parameters;
}

static double flops(const struct model *model)
{
    return model_totals(model, DTYPE_FP32).flops[PHASE_FORWARD];
}

static const struct op *find_op(const struct model *model, const char *path)
{
    struct arena *scratch = arena_new();
    const struct op *found = NULL;
    for (int32_t i = 0; i < model->ops && !found; i++)
        if (strcmp(op_path(scratch, model, &model->op[i], 0), path) == 0)
            found = &model->op[i];
    arena_free(scratch);
    return found;
}

static bool has_warning(const struct model *model, const char *text)
{
    for (size_t i = 0; i < model->warnings.len; i++)
        if (strcmp(model->warnings.data[i], text) == 0)
            return true;
    return false;
}

/* ---- Hugging Face ---------------------------------------------------------------------------------- */

/* What transformers' num_parameters() gives for the public checkpoints. BERT is counted without its
 * pooler and the vector of output biases, T5 with one table of position biases per stack. */
static const struct {
    const char *name;
    double published;
} PUBLISHED[] = {
    {"gpt2", 124439808},
    {"gpt-neox-20b", 20554567680},
    {"opt-6.7b", 6658473984},
    {"llama-2-7b", 6738415616},
    {"llama-3.1-8b", 8030261248},
    {"mistral-7b-v0.1", 7241732096},
    {"mixtral-8x7b-v0.1", 46702792704},
    {"qwen2.5-7b", 7615616512},
    {"qwen3-8b", 8190735360},
    {"qwen1.5-moe-a2.7b", 14315784192},
    {"qwen3-30b-a3b", 30532122624},
    {"deepseek-v2-lite", 15706484224},
    {"gemma-7b", 8537680896},
    {"phi-3-mini-4k", 3821079552},
    {"bert-base-uncased", 109482240},
    {"t5-large", 737668096},
    {"vit-base-patch16-224", 86567656},
    {"swin-tiny-patch4-window7-224", 28288354},
    {"resnet-50", 25557032},
};

static void configs_have_published_parameters(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(PUBLISHED); i++) {
        char folder[128];
        snprintf(folder, sizeof folder, "tests/data/hf/%s", PUBLISHED[i].name);
        struct model *model = opened_file(folder, NULL);
        double error = fabs(parameters(model) / PUBLISHED[i].published - 1);
        if (error > 0.0001)
            fail_msg("%s: %.0f parameters, published %.0f", PUBLISHED[i].name, parameters(model),
                     PUBLISHED[i].published);
        assert_string_equal(model->name, PUBLISHED[i].name);
        assert_int_equal(model->warnings.len, 0);
        model_free(model);
    }
}

static struct model *from_config(const char *text, const char *overrides)
{
    struct arena *scratch = arena_new();
    struct doc *root, *options;
    struct model *model = NULL;
    assert_int_equal(
        doc_parse(scratch, "some/place/config.json", text, strlen(text), DOC_JSON, &root), 0);
    assert_int_equal(options_parse(scratch, overrides, &options), WEFT_OK);
    if (import_hf(scratch, "some/place/config.json", root, options, &model) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    arena_free(scratch);
    return model;
}

/* transformers: GPT2Config() is GPT-2 small, BertConfig() is bert-base. */
static void absent_keys_have_transformers_defaults(void **state)
{
    (void)state;
    struct model *model = from_config("{\"model_type\": \"gpt2\"}", NULL);
    assert_true(parameters(model) == 124439808);
    assert_string_equal(model->name, "place");
    model_free(model);
    model = from_config("{\"model_type\": \"llama\", \"num_key_value_heads\": null}", NULL);
    assert_true(parameters(model) == 6738415616);
    assert_int_equal(model->seq, 2048);
    model_free(model);
    model = from_config("{\"model_type\": \"resnet\", \"num_labels\": 1000}", NULL);
    assert_true(parameters(model) == 25557032);
    model_free(model);
}

static void overrides_win_over_a_config(void **state)
{
    (void)state;
    struct model *model = from_config("{\"model_type\": \"gpt2\", \"n_layer\": 3}",
                                      "seq: 256, attention: fused, layers: 2");
    assert_int_equal(model->seq, 256);
    assert_int_equal(model->layers, 2);
    assert_non_null(find_op(model, "layers.0.attn.score"));
    model_free(model);
}

static void long_contexts_are_cut_to_a_sample(void **state)
{
    (void)state;
    struct model *model =
        from_config("{\"model_type\": \"llama\", \"max_position_embeddings\": 131072}", NULL);
    assert_int_equal(model->seq, 4096);
    model_free(model);
    model = from_config("{\"model_type\": \"llama\", \"max_position_embeddings\": 131072}",
                        "seq: 131072");
    assert_int_equal(model->seq, 131072);
    model_free(model);
}

static void unmodelled_keys_are_reported(void **state)
{
    (void)state;
    struct model *model =
        from_config("{\"model_type\": \"opt\", \"do_layer_norm_before\": false}", NULL);
    assert_true(has_warning(
        model, "'do_layer_norm_before' is false, the model is built as if it were true"));
    model_free(model);
    model = from_config("{\"model_type\": \"gpt2\", \"activation_function\": \"swish\"}", NULL);
    assert_true(
        has_warning(model, "'activation_function' is 'swish', which counts as the default"));
    model_free(model);
}

static void a_folder_opens_its_config(void **state)
{
    (void)state;
    struct model *folder = opened_file("tests/data/hf/gpt2/", NULL);
    struct model *file = opened_file("tests/data/hf/gpt2/config.json", NULL);
    assert_true(parameters(folder) == parameters(file));
    assert_string_equal(folder->name, file->name);
    model_free(folder);
    model_free(file);
}

/* ---- Weft's own files -------------------------------------------------------------------------------- */

static void every_shipped_model_file_opens(void **state)
{
    (void)state;
    DIR *folder = opendir(WEFT_SOURCE_DIR "/data/models");
    int files = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[300];
        if (!strstr(entry->d_name, ".yaml"))
            continue;
        snprintf(path, sizeof path, "data/models/%s", entry->d_name);
        struct model *model = opened_file(path, NULL);
        assert_memory_equal(model->name, entry->d_name, strlen(model->name));
        assert_true(parameters(model) > 0 && flops(model) > 0);
        assert_int_equal(model->warnings.len, 0);
        model_free(model);
        files++;
    }
    closedir(folder);
    assert_true(files >= 6);
}

static void operators_by_hand_equal_the_family(void **state)
{
    (void)state;
    struct model *hand = opened_file("data/models/gpt2-by-hand.yaml", NULL);
    struct model *family = opened("gpt2", NULL);
    struct totals a = model_totals(hand, DTYPE_BF16), b = model_totals(family, DTYPE_BF16);
    assert_int_equal(a.ops, b.ops);
    assert_true(a.parameters == b.parameters);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        assert_true(a.flops[phase] == b.flops[phase]);
    assert_true(a.kept_bytes == b.kept_bytes);
    assert_int_equal(hand->seq, family->seq);
    assert_int_equal(hand->layers, family->layers);
    assert_non_null(find_op(hand, "layers.0.mlp.up"));
    model_free(hand);
    model_free(family);
}

/* stem 3*64*9 + 2*64; a block 2 * (64*64*9 + 2*64), three of them; head 64*10 + 10. */
static void repeats_count_their_copies(void **state)
{
    (void)state;
    struct model *model = opened_file("data/models/small-cnn.yaml", NULL);
    assert_true(parameters(model) == 3 * 64 * 9 + 128 + 3 * 2 * (64 * 64 * 9 + 128) + 650);
    assert_true(flops(model) == 2.0 * 1024 * (3 * 64 * 9 + 3 * 2 * 64 * 64 * 9) + 2.0 * 64 * 10);
    assert_int_equal(model->layers, 3);
    assert_int_equal(model->dtype, DTYPE_FP32);
    model_free(model);
}

static void overrides_win_over_a_file(void **state)
{
    (void)state;
    struct model *model = opened_file("data/models/gpt3-13b-long.yaml", "seq: 512, layers: 2");
    assert_int_equal(model->seq, 512);
    assert_int_equal(model->layers, 2);
    assert_string_equal(model->name, "gpt3-13b-long");
    model_free(model);
    model = opened("gpt3-13b", " ");
    assert_int_equal(model->layers, 40);
    model_free(model);
}

/* "`seq` (1024)": an option with its default; those that are needed stand out. */
static void describe_option(const struct family *family, const struct field *field, char *out,
                            size_t size)
{
    union {
        int64_t whole;
        double real;
        bool flag;
        int choice;
    } value = {0};
    static const size_t SIZES[FIELD_TYPE_COUNT] = {
        [FIELD_COUNT] = 8, [FIELD_INT] = 8, [FIELD_REAL] = 8, [FIELD_BOOL] = 1, [FIELD_CHOICE] = 4};
    memcpy(&value, (const char *)family->defaults + field->offset, SIZES[field->type]);
    int used = snprintf(out, size, field->required ? "**`%s`**" : "`%s`", field->key);
    char *rest = out + used;
    size -= (size_t)used;
    if ((field->type == FIELD_COUNT || field->type == FIELD_INT) && value.whole)
        snprintf(rest, size, " (%lld)", (long long)value.whole);
    else if (field->type == FIELD_REAL)
        snprintf(rest, size, " (%g)", value.real);
    else if (field->type == FIELD_BOOL)
        snprintf(rest, size, " (%s)", value.flag ? "true" : "false");
    else if (field->type == FIELD_CHOICE) {
        snprintf(rest, size, " (%s", field->choices[value.choice]);
        for (int i = 0; field->choices[i]; i++)
            if (i != value.choice)
                snprintf(rest + strlen(rest), size - strlen(rest), ", %s", field->choices[i]);
        snprintf(rest + strlen(rest), size - strlen(rest), ")");
    }
}

static void the_manual_lists_every_option(void **state)
{
    (void)state;
    struct arena *scratch = arena_new();
    const struct family *const *families;
    size_t count = model_families(&families), len;
    char *text;
    assert_int_equal(
        file_read(scratch, WEFT_SOURCE_DIR "/docs/model-file.md", 1 << 20, &text, &len), WEFT_OK);
    for (size_t i = 0; i < count; i++) {
        char row[4096], option[256];
        int used = snprintf(row, sizeof row, "| `%s` | ", families[i]->name);
        for (size_t k = 0; k < families[i]->field_count; k++) {
            describe_option(families[i], &families[i]->fields[k], option, sizeof option);
            used += snprintf(row + used, sizeof row - (size_t)used, "%s%s", k ? ", " : "", option);
        }
        snprintf(row + used, sizeof row - (size_t)used, " |\n");
        if (!strstr(text, row))
            fail_msg("docs/model-file.md lacks the row %s", row);
    }
    arena_free(scratch);
}

/* ---- ONNX -------------------------------------------------------------------------------------------- */

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
        cmocka_unit_test(configs_have_published_parameters),
        cmocka_unit_test(absent_keys_have_transformers_defaults),
        cmocka_unit_test(overrides_win_over_a_config),
        cmocka_unit_test(long_contexts_are_cut_to_a_sample),
        cmocka_unit_test(unmodelled_keys_are_reported),
        cmocka_unit_test(a_folder_opens_its_config),
        cmocka_unit_test(every_shipped_model_file_opens),
        cmocka_unit_test(operators_by_hand_equal_the_family),
        cmocka_unit_test(repeats_count_their_copies),
        cmocka_unit_test(overrides_win_over_a_file),
        cmocka_unit_test(the_manual_lists_every_option),
        cmocka_unit_test(an_exported_resnet_equals_the_family),
        cmocka_unit_test(exported_attention_is_recognised),
        cmocka_unit_test(a_fixed_batch_is_divided_out),
        cmocka_unit_test(symbolic_dims_take_sizes),
        cmocka_unit_test(unknown_operators_are_carried),
        cmocka_unit_test(nodes_may_stand_in_any_order),
        cmocka_unit_test(shape_computations_are_folded),
        cmocka_unit_test(weights_are_not_read),
        cmocka_unit_test(all_of_onnx_testdata_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
