/* test_model_transformers.c - the transformer families against published numbers.
 *
 * Every expectation is a table of a paper (tests/data), a formula of a paper, or derived by hand
 * above its test.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/model.h"

static const double MIB = 1024.0 * 1024.0;

/* ---- building -------------------------------------------------------------------------------- */

static const struct family *find_family(const char *name)
{
    const struct family *const *families;
    size_t count = model_families(&families);
    for (size_t i = 0; i < count; i++)
        if (strcmp(families[i]->name, name) == 0)
            return families[i];
    fail_msg("no family %s", name);
    return NULL;
}

/* A family from options as they stand in a preset, or in lines of a file. */
static weft_status try_build(const char *family, const char *options, struct model **out)
{
    struct arena *scratch = arena_new();
    bool lines = strchr(options, '\n') != NULL;
    const char *text = arena_printf(scratch, "%s%s%s", lines ? "" : "{", options, lines ? "" : "}");
    struct doc *doc;
    weft_status status = doc_parse(scratch, "test.yaml", text, strlen(text), DOC_YAML, &doc);
    if (status == WEFT_OK)
        status = family_build(find_family(family), "test", "test", doc, out);
    arena_free(scratch);
    return status;
}

static struct model *build(const char *family, const char *options)
{
    struct model *model = NULL;
    if (try_build(family, options, &model) != WEFT_OK)
        fail_msg("%s {%s}: %s", family, options, weft_last_error()->message);
    return model;
}

static struct model *open_preset(const char *name)
{
    const struct preset *presets;
    size_t count = model_presets(&presets);
    for (size_t i = 0; i < count; i++)
        if (strcmp(presets[i].name, name) == 0)
            return build(presets[i].family, presets[i].options);
    fail_msg("no preset %s", name);
    return NULL;
}

/* ---- published tables ------------------------------------------------------------------------ */

/* Calls `check` with the fields of each row, after comments and the header. */
static size_t each_row(const char *file, size_t columns, void (*check)(char **fields))
{
    char path[512], line[512];
    snprintf(path, sizeof path, WEFT_SOURCE_DIR "/tests/data/%s", file);
    FILE *table = fopen(path, "r");
    assert_non_null(table);
    size_t rows = 0;
    bool header = true;
    while (fgets(line, sizeof line, table)) {
        char *fields[8];
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || line[0] == '\0')
            continue;
        if (!header) {
            assert_int_equal(csv_split(line, fields, COUNT_OF(fields)), columns);
            check(fields);
            rows++;
        }
        header = false;
    }
    fclose(table);
    return rows;
}

static double number(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    return *end == 'M' ? value * 1e6 : *end == 'B' ? value * 1e9 : value;
}

static void assert_within(const char *what, double got, double published, double tolerance)
{
    double error = got / published - 1;
    print_message("%-32s %14.6g  published %14.6g  %+.2f %%\n", what, got, published, 100 * error);
    if (!(fabs(error) <= tolerance))
        fail_msg("%s: %.6g, published %.6g", what, got, published);
}

static void check_table1_row(char **fields)
{
    struct model *model = open_preset(fields[0]);
    assert_int_equal(model->layers, atoi(fields[1]));
    assert_int_equal(model->dtype, DTYPE_FP32);
    assert_within(fields[0], model_totals(model, model->dtype).parameters, number(fields[2]), 0.01);
    /* Kept at the end of the forward pass, which is the peak in all rows but T5-512/4 (peak.c). */
    print_message("  kept, MiB %.2f\n", model_totals(model, model->dtype).kept_bytes / MIB);
    assert_within("  activations, MiB", model_peak_bytes(model, model->dtype) / MIB,
                  number(fields[3]), 0.05);
    model_free(model);
}

static void galvatron_table1(void **state)
{
    (void)state;
    assert_int_equal(each_row("galvatron_table1.csv", 4, check_table1_row), 15);
}

/* A row with a known miss is outside of the bar, and stays exactly as far outside as it says. */
static void check_published_row(char **fields)
{
    struct model *model = open_preset(fields[0]);
    double parameters = model_totals(model, DTYPE_BF16).parameters, published = number(fields[1]);
    double miss = number(fields[3]), error = 100 * (parameters / published - 1);
    if (miss == 0)
        assert_within(fields[0], parameters, published, number(fields[2]));
    else if (fabs(error - miss) > 0.01)
        fail_msg("%s: %+.3f %% off, known to be %+.2f %%", fields[0], error, miss);
    else
        print_message("%-32s misses 1 %%: %+.2f %% (%s)\n", fields[0], error, fields[4]);
    model_free(model);
}

static void published_parameters(void **state)
{
    (void)state;
    assert_true(each_row("published_models.csv", 5, check_published_row) > 80);
}

/* Layers as Aceso profiled them: MiB of fp16 weights in one encoder and one decoder layer, the sum of
 * weights_mb over the layer's operators in data/profiles/aceso/v100_ops.csv, which leaves out biases
 * and norms (0.11 % of the smallest model). */
static void aceso_layers(void **state)
{
    (void)state;
    static const struct {
        const char *preset;
        double layers_mib; /* of all layers */
    } CASES[] = {
        {"gpt3-350m", 24 * 24},       {"gpt3-1.3b", 24 * 96},  {"gpt3-2.6b", 32 * 150},
        {"gpt3-6.7b", 32 * 384},      {"gpt3-13b", 40 * 600},  {"t5-770m", 24 * (24 + 32)},
        {"t5-3b", 24 * (96 + 128)},   {"t5-6b", 24 * 2 * 224}, {"t5-11b", 24 * 4 * 224},
        {"t5-22b", 2 * 24 * 4 * 224},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct model *model = open_preset(CASES[i].preset);
        double parameters = 0;
        for (int32_t op = 0; op < model->ops; op++)
            if (op_copies(model, &model->op[op]) > 1)
                parameters += op_totals(model, &model->op[op], DTYPE_FP16).parameters;
        assert_within(CASES[i].preset, parameters * 2 / MIB, CASES[i].layers_mib, 0.0012);
        model_free(model);
    }
}

static void every_preset_builds(void **state)
{
    (void)state;
    const struct preset *presets;
    size_t count = model_presets(&presets);
    assert_true(count > 100);
    for (size_t i = 0; i < count; i++) {
        struct model *model = build(presets[i].family, presets[i].options);
        assert_true(model_totals(model, model->dtype).parameters > 0);
        assert_true(model->layers > 0);
        model_free(model);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(presets[k].name, presets[i].name);
    }
}

/* ---- formulas -------------------------------------------------------------------------------- */

struct shape {
    double l, h, s, v, a;
};

static struct shape random_shape(struct rng *rng, char *options, size_t room)
{
    int64_t heads = 1 + rng_below(rng, 16), hidden = heads * 8 * (1 + rng_below(rng, 32));
    int64_t layers = 1 + rng_below(rng, 50), seq = 1 + rng_below(rng, 4096);
    int64_t vocab = 1 + rng_below(rng, 60000);
    snprintf(options, room,
             "layers: %lld, hidden: %lld, heads: %lld, seq: %lld, vocab: %lld, attention: %s",
             (long long)layers, (long long)hidden, (long long)heads, (long long)seq,
             (long long)vocab, rng_below(rng, 2) ? "flash" : "fused");
    return (struct shape){(double)layers, (double)hidden, (double)seq, (double)vocab,
                          (double)heads};
}

static double training_flops(const struct totals *t)
{
    return t->flops[PHASE_FORWARD] + t->flops[PHASE_BACKWARD_INPUT] +
           t->flops[PHASE_BACKWARD_WEIGHT];
}

static int32_t find_module(const struct model *model, const char *name)
{
    for (int32_t i = 0; i < model->modules; i++)
        if (strcmp(model->module[i].name, name) == 0)
            return i;
    fail_msg("no module %s", name);
    return -1;
}

/* Megatron-LM SC'21, Eq. 3: with every layer recomputed, and without. */
static void megatron_flops(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    for (int i = 0; i < 200; i++) {
        char options[256];
        struct shape z = random_shape(&rng, options, sizeof options);
        struct model *model = build("gpt", options);
        struct totals all = model_totals(model, DTYPE_FP16);
        struct totals layers = module_totals(model, find_module(model, "layers"), DTYPE_FP16);
        double base = z.s * z.l * z.h * z.h;
        double with = 96 * base * (1 + z.s / (6 * z.h) + z.v / (16 * z.l * z.h));
        double without = 72 * base * (1 + z.s / (6 * z.h) + z.v / (12 * z.l * z.h));
        double got = training_flops(&all);
        assert_float_equal((got + layers.flops[PHASE_FORWARD]) / with, 1, 1e-12);
        assert_float_equal(got / without, 1, 1e-12);
        model_free(model);
    }
}

/* Korthikanti et al., Eq. 1: a layer keeps 34 s h + 5 a s^2 bytes in fp16, and the fp32 mean and
 * deviation of each row of its two norms: 2 * 2 * 4 s. */
static void megatron_activations(void **state)
{
    (void)state;
    static const struct {
        int64_t h, a, s;
    } SHAPES[] = {{1024, 16, 512}, {6144, 64, 2048}, {12288, 96, 2048}, {96, 3, 7}};
    for (size_t i = 0; i < COUNT_OF(SHAPES); i++) {
        char options[256];
        long long h = SHAPES[i].h, a = SHAPES[i].a, s = SHAPES[i].s;
        snprintf(options, sizeof options,
                 "layers: 2, hidden: %lld, heads: %lld, seq: %lld, attention: fused", h, a, s);
        struct model *two = build("gpt", options);
        options[8] = '3';
        struct model *three = build("gpt", options);
        double layer =
            model_totals(three, DTYPE_FP16).kept_bytes - model_totals(two, DTYPE_FP16).kept_bytes;
        assert_float_equal(layer, (double)(34 * s * h + 5 * a * s * s + 2 * 2 * 4 * s), 0.5);
        model_free(two);
        model_free(three);
    }
}

/* Per layer in fp32 with e = 4: eager causal keeps softmax 4, causal mask 1, dropout mask 1 and
 * dropped 4; local and fused have no mask of that size; flash keeps no score matrix but its output and an fp32 per row and head. */
static void attention_choices_keep_different_things(void **state)
{
    (void)state;
    static const struct {
        const char *attention;
        double per_score, per_row;
    } KEPT[] = {{"eager", 10, 0}, {"local", 9, 0}, {"fused", 9, 0}, {"flash", 0, 4 * 8}};
    double s = 64, h = 128, a = 8;
    for (size_t i = 0; i < COUNT_OF(KEPT); i++) {
        char options[256];
        snprintf(options, sizeof options,
                 "layers: 1, hidden: 128, heads: 8, seq: 64, attention: %s", KEPT[i].attention);
        struct model *model = build("gpt", options);
        double layer = module_totals(model, find_module(model, "layers"), DTYPE_FP32).kept_bytes;
        /* the layer's input is the embedding's output; its own output is the final norm's input */
        double expected =
            66 * s * h + KEPT[i].per_score * a * s * s + KEPT[i].per_row * s + 2 * 2 * 4 * s;
        assert_float_equal(layer, expected, 0.5);
        model_free(model);
    }
}

/* Galvatron's profile on RTX TITAN, MiB per layer and sample; the slope between two depths. */
static void layers_keep_what_galvatron_measured(void **state)
{
    (void)state;
    static const struct {
        const char *name, *family, *one, *two;
        double mib;
    } MEASURED[] = {
        {"bert-1280", "bert", "layers: 1, hidden: 1280, heads: 16, attention: eager",
         "layers: 2, hidden: 1280, heads: 16, attention: eager", 94.07},
        {"vit-1280", "vit", "layers: 1, hidden: 1280, heads: 16, attention: eager",
         "layers: 2, hidden: 1280, heads: 16, attention: eager", 20.27},
        {"t5 encoder", "t5",
         "layers: 1, decoder_layers: 1, hidden: 1024, heads: 16, attention: eager, norm: eager",
         "layers: 2, decoder_layers: 1, hidden: 1024, heads: 16, attention: eager, norm: eager",
         91.003},
        {"t5 decoder", "t5",
         "layers: 1, decoder_layers: 1, hidden: 1024, heads: 16, attention: eager, norm: eager",
         "layers: 1, decoder_layers: 2, hidden: 1024, heads: 16, attention: eager, norm: eager",
         157.755},
        {"swin-320", "swin", "depths: [1], hidden: 320, heads: 10, attention: eager",
         "depths: [2], hidden: 320, heads: 10, attention: eager", 72.584},
    };
    for (size_t i = 0; i < COUNT_OF(MEASURED); i++) {
        struct model *one = build(MEASURED[i].family, MEASURED[i].one);
        struct model *two = build(MEASURED[i].family, MEASURED[i].two);
        double bytes =
            model_totals(two, DTYPE_FP32).kept_bytes - model_totals(one, DTYPE_FP32).kept_bytes;
        assert_within(MEASURED[i].name, bytes / MIB, MEASURED[i].mib, 0.01);
        model_free(one);
        model_free(two);
    }
}

/* A table of 1000 x 16 for encoder, decoder and head, one token in the decoder: when the gradient
 * of the decoder's embedding joins the head's, the encoder is still kept, and three tables stand
 * beside it. With as long a decoder and a small table, everything kept is more. */
static void tied_gradients_make_a_peak(void **state)
{
    (void)state;
    const char *options = "layers: 1, hidden: 16, heads: 2, seq: 8, decoder_seq: 1, vocab: 1000";
    struct model *model = build("t5", options);
    double encoder = module_totals(model, find_module(model, "encoder"), DTYPE_FP32).kept_bytes;
    assert_float_equal(model_peak_bytes(model, DTYPE_FP32), encoder + 3 * 1000 * 16 * 4, 0.5);
    model_free(model);
    model = build("t5", "layers: 1, hidden: 16, heads: 2, seq: 8, decoder_seq: 8, vocab: 10");
    assert_float_equal(model_peak_bytes(model, DTYPE_FP32),
                       model_totals(model, DTYPE_FP32).kept_bytes, 0.5);
    model_free(model);
}

/* ---- shape of the program -------------------------------------------------------------------- */

/* Aceso counts 13 operators in a GPT layer. */
static void a_gpt_layer_is_thirteen_operators(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"embedding",
                                        "layers.0.attn.norm",
                                        "layers.0.attn.qkv",
                                        "layers.0.attn.score",
                                        "layers.0.attn.softmax",
                                        "layers.0.attn.dropout",
                                        "layers.0.attn.context",
                                        "layers.0.attn.proj",
                                        "layers.0.attn.dropout_add",
                                        "layers.0.mlp.norm",
                                        "layers.0.mlp.up",
                                        "layers.0.mlp.gelu",
                                        "layers.0.mlp.down",
                                        "layers.0.mlp.dropout_add",
                                        "norm",
                                        "head",
                                        "loss"};
    struct arena *arena = arena_new();
    struct model *model = open_preset("gpt3-1.3b");
    assert_int_equal(model->ops, COUNT_OF(NAMES));
    for (int32_t i = 0; i < model->ops; i++)
        assert_string_equal(op_path(arena, model, &model->op[i], 0), NAMES[i]);
    assert_string_equal(op_path(arena, model, &model->op[2], 7), "layers.7.attn.qkv");
    assert_int_equal(model_totals(model, DTYPE_FP16).ops, 24 * 13 + 4);
    model_free(model);
    arena_free(arena);
}

static void a_thousand_layers_are_stored_once(void **state)
{
    (void)state;
    struct model *one = build("gpt", "layers: 1, hidden: 512, heads: 8");
    struct model *many = build("gpt", "layers: 1000, hidden: 512, heads: 8");
    assert_int_equal(one->ops, many->ops);
    assert_int_equal(many->layers, 1000);
    model_free(one);
    model_free(many);
}

static bool has_path(const struct model *model, const char *path)
{
    struct arena *arena = arena_new();
    bool found = false;
    for (int32_t i = 0; i < model->ops; i++)
        for (int64_t copy = 0; copy < op_copies(model, &model->op[i]); copy++)
            found |= strcmp(op_path(arena, model, &model->op[i], copy), path) == 0;
    arena_free(arena);
    return found;
}

/* 1 dense layer, then dense, mixture, dense, mixture, and one that fills no period. */
static void mixtures_take_their_turn(void **state)
{
    (void)state;
    struct model *model = build("moe", "layers: 6, hidden: 64, heads: 4, ffn: 128, experts: 8, "
                                       "top_k: 2, first_dense: 1, moe_every: 2");
    for (int layer = 0; layer < 6; layer++) {
        char path[64];
        bool mixture = layer == 2 || layer == 4;
        snprintf(path, sizeof path, "layers.%d.mlp.experts.router", layer);
        assert_int_equal(has_path(model, path), mixture);
        snprintf(path, sizeof path, "layers.%d.mlp.down", layer);
        assert_int_equal(has_path(model, path), !mixture);
        snprintf(path, sizeof path, "layers.%d.attn.qkv", layer);
        assert_true(has_path(model, path));
    }
    assert_int_equal(model->layers, 6);
    model_free(model);
}

/* Two of eight experts work on each token: FLOPs as of two MLPs, weights of eight.
 * layer: 2 s h (4 h) for q, k, v, proj; scores and context 4 s^2 h; 2 * 3 * 2 s h f; router. */
static void experts_cost_what_is_chosen(void **state)
{
    (void)state;
    struct model *model = build("moe", "layers: 1, hidden: 64, heads: 4, ffn: 96, experts: 8, "
                                       "top_k: 2, seq: 32, vocab: 100");
    double s = 32, h = 64, f = 96, v = 100;
    struct totals t = model_totals(model, DTYPE_BF16);
    assert_float_equal(
        t.flops[PHASE_FORWARD],
        8 * s * h * h + 4 * s * s * h + 12 * s * h * f + 2 * s * h * 8 + 2 * s * h * v, 0.5);
    assert_float_equal(t.parameters, 4 * h * h + 8 * 3 * h * f + 8 * h + 2 * v * h + 3 * h, 0.5);
    model_free(model);
}

/* Latent attention: q 2 s h a (n + r), kv_a 2 s h c, k_rope 2 s h r, k_b and v_b 2 s c a (n + d),
 * proj 2 s a d h; scores 2 s^2 a (n + r), context 2 s^2 a d. */
static void latent_attention_by_hand(void **state)
{
    (void)state;
    struct model *model =
        build("moe", "layers: 1, hidden: 64, heads: 4, ffn: 96, experts: 1, top_k: 1, seq: 32, "
                     "first_dense: 1, kv_lora: 24, nope_dim: 16, rope_dim: 8, value_dim: 12");
    double s = 32, h = 64, a = 4, c = 24, n = 16, r = 8, d = 12;
    struct totals t = module_totals(model, find_module(model, "attn"), DTYPE_BF16);
    double expected = 2 * s * h * (a * (n + r) + c + r) + 2 * s * c * a * (n + d) +
                      2 * s * a * d * h + 2 * s * s * a * (n + r + d);
    assert_float_equal(t.flops[PHASE_FORWARD], expected, 0.5);
    model_free(model);
}

/* The same attention in a dense model: nothing but the MLP is another. */
static void latent_attention_without_experts(void **state)
{
    (void)state;
    static const char SIZES[] = "layers: 2, hidden: 64, heads: 4, ffn: 96, seq: 32, kv_lora: 24, "
                                "nope_dim: 16, rope_dim: 8, value_dim: 12";
    char options[256];
    snprintf(options, sizeof options, "%s, experts: 1, top_k: 1, first_dense: 2", SIZES);
    struct model *dense = build("llama", SIZES), *mixture = build("moe", options);
    struct totals a = model_totals(dense, DTYPE_BF16), b = model_totals(mixture, DTYPE_BF16);
    assert_true(a.parameters == b.parameters && a.kept_bytes == b.kept_bytes);
    assert_true(a.flops[PHASE_FORWARD] == b.flops[PHASE_FORWARD]);
    model_free(dense);
    model_free(mixture);
}

/* A GPT with gates, 8/3 h rounded down to 64, and latent attention: weights of a layer are two LayerNorms 4 h, q h a (n + r),
 * kv_a h c, k_rope h r, k_b and v_b c a (n + d), proj a d h and its bias h, gate and up 2 (h f + f), down f h + h; with norms of the
 * latent 2 c more. */
static void gpt_with_gates_and_latent_attention(void **state)
{
    (void)state;
    static const char SIZES[] = "hidden: 96, heads: 4, seq: 32, vocab: 100, activation: swiglu, "
                                "kv_lora: 24, nope_dim: 16, rope_dim: 8, value_dim: 12";
    static const char *const ENDS[] = {"layers: 1", "layers: 2", "layers: 2, latent_norm: false"};
    double parameters[COUNT_OF(ENDS)];
    for (size_t i = 0; i < COUNT_OF(ENDS); i++) {
        char options[256];
        snprintf(options, sizeof options, "%s, %s", ENDS[i], SIZES);
        struct model *model = build("gpt", options);
        parameters[i] = model_totals(model, DTYPE_BF16).parameters;
        model_free(model);
    }
    double h = 96, a = 4, c = 24, n = 16, r = 8, d = 12, f = 256;
    double layer = 4 * h + h * a * (n + r) + h * c + h * r + c * a * (n + d) + a * d * h + h +
                   2 * (h * f + f) + f * h + h + 2 * c;
    assert_float_equal(parameters[1] - parameters[0], layer, 0.5);
    assert_float_equal(parameters[1] - parameters[2], 2 * 2 * c, 0.5);
}

/* Two layers that predict one token more each: two norms and the join, 2 h + 2 h h weights, a layer, another norm; the
 * head's table is the model's. They compute 4 s h h for the join, a layer, and the head 2 s h v. */
static void more_tokens_cost_a_layer_and_a_head(void **state)
{
    (void)state;
    static const char SIZES[] = "hidden: 64, heads: 4, ffn: 96, experts: 8, top_k: 2, seq: 32, "
                                "vocab: 100";
    char options[3][256];
    snprintf(options[0], sizeof options[0], "layers: 3, %s", SIZES);
    snprintf(options[1], sizeof options[1], "layers: 4, %s", SIZES);
    snprintf(options[2], sizeof options[2], "layers: 3, mtp: 2, %s", SIZES);
    struct totals t[3];
    for (int i = 0; i < 3; i++) {
        struct model *model = build("moe", options[i]);
        t[i] = model_totals(model, DTYPE_BF16);
        assert_int_equal(model->layers, i == 1 ? 4 : 3);
        model_free(model);
    }
    double h = 64, s = 32, v = 100, layer = t[1].parameters - t[0].parameters;
    double work = t[1].flops[PHASE_FORWARD] - t[0].flops[PHASE_FORWARD];
    assert_true(t[2].parameters - t[0].parameters == 2 * (layer + 2 * h * h + 3 * h));
    assert_true(t[2].flops[PHASE_FORWARD] - t[0].flops[PHASE_FORWARD] ==
                2 * (work + 4 * s * h * h + 2 * s * h * v));
}

static const struct op *first_of(const struct model *model, enum op_kind kind)
{
    const struct op *op = model_op_of_kind(model, kind);
    assert_non_null(op);
    return op;
}

static struct work work_of(const struct op *op, enum phase phase)
{
    int64_t size[OP_MAX_DIMS];
    op_full_size(op, 1, size);
    return op_work(op, size, DTYPE_BF16, phase);
}

/* 256 positions in chunks of 64 are four attentions of 64 by 64: 4 * 4 heads * 256 * 64 keys * 16. Of four layers the
 * last sees all and has no positions: its only operator less is the rotation. */
static void chunks_are_attentions_side_by_side(void **state)
{
    (void)state;
    struct model *model = build("llama", "layers: 4, hidden: 64, heads: 4, seq: 256, window: 64, "
                                         "chunked: true, full_every: 4, full_rotary: false");
    struct work work = work_of(first_of(model, OP_ATTENTION), PHASE_FORWARD);
    assert_int_equal(work.shape[0], 4);
    assert_int_equal(work.shape[3], 64);
    assert_int_equal(work.shape[4], 64);
    assert_int_equal(work.shape[7], 1);
    assert_true(work.flops == 4.0 * 4 * 256 * 64 * 16);
    assert_true(has_path(model, "layers.2.attn.rotary"));
    assert_false(has_path(model, "layers.3.attn.rotary"));
    model_free(model);
}

/* Qwen3-Next's linear layer, small: 2 key heads of 8 with 2 value heads of 16 each. Weights: h (2 * 2 * 8 + 4 * 16) for
 * q, k, v; 4 taps of 96 features; h (2 * 4) for the rates; 2 * 4 of the rule; h * 64 for the gate, 64 of its norm,
 * 64 h out and h of the norm before. The rule, in chunks of 64: 2 L 4 (64 (3 * 8 + 2 * 16) + 3 * 8 * 16). */
static void delta_rule_by_hand(void **state)
{
    (void)state;
    struct model *model =
        build("llama", "layers: 4, hidden: 32, heads: 4, seq: 128, delta_heads: 4, "
                       "delta_key_heads: 2, delta_dim: 16, delta_key_dim: 8, full_every: 4");
    double h = 32, s = 128;
    struct totals t = module_totals(model, find_module(model, "delta"), DTYPE_BF16);
    const struct op *rule = first_of(model, OP_DELTA);
    double each = h * 96 + 4 * 96 + h * 8 + 8 + h * 64 + 64 + 64 * h + h;
    assert_true(t.parameters == each * (double)op_copies(model, rule));
    double flops = 2 * s * 4 * (64 * (3 * 8 + 2 * 16) + 3 * 8 * 16);
    assert_true(work_of(rule, PHASE_FORWARD).flops == flops);
    assert_true(work_of(rule, PHASE_BACKWARD_INPUT).flops == 2 * flops);
    assert_true(work_of(rule, PHASE_BACKWARD_WEIGHT).flops == 0);
    assert_true(has_path(model, "layers.2.delta.delta"));
    assert_true(has_path(model, "layers.3.attn.attention"));
    assert_false(has_path(model, "layers.3.delta.delta"));
    model_free(model);
}

/* DeepSeek-V3.2's attention, small: 128 positions, of which each sees 32. The index: 2 heads of 8 score 64 keys in the
 * mean, 2 * 2 * 128 * 64 * 8; attention: 2 * 4 * 128 * 32 * (24 + 8 + 24). Weights: q_lora * 2 * 8 + h * 8 + 2 * 8 + h * 2. */
static void chosen_keys_by_hand(void **state)
{
    (void)state;
    static const char SIZES[] = "layers: 1, hidden: 64, heads: 4, ffn: 96, seq: 128, q_lora: 20, "
                                "kv_lora: 24, nope_dim: 16, rope_dim: 8, value_dim: 12";
    char options[256];
    snprintf(options, sizeof options, "%s, index_top_k: 32, index_heads: 2, index_dim: 8", SIZES);
    struct model *whole = build("llama", SIZES), *chosen = build("llama", options);
    double more =
        model_totals(chosen, DTYPE_BF16).parameters - model_totals(whole, DTYPE_BF16).parameters;
    assert_true(more == 20 * 16 + 64 * 8 + 2 * 8 + 64 * 2);
    assert_true(work_of(first_of(chosen, OP_INDEX), PHASE_FORWARD).flops == 2.0 * 2 * 128 * 64 * 8);
    assert_true(work_of(first_of(chosen, OP_ATTENTION), PHASE_FORWARD).flops ==
                2.0 * 4 * 128 * 32 * (24 + 8 + 24));
    model_free(whole);
    model_free(chosen);
}

/* 32 tokens choose 2 of 8 experts: 8 places each; with a capacity of 1.25 there are 10, and with 0.5 there are 4. */
static void capacity_makes_places(void **state)
{
    (void)state;
    static const struct {
        const char *capacity;
        double places;
    } ROWS[] = {{"0", 8}, {"1", 8}, {"1.25", 10}, {"0.5", 4}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char options[256];
        snprintf(options, sizeof options,
                 "layers: 1, hidden: 64, heads: 4, ffn: 96, experts: 8, top_k: 2, seq: 32, "
                 "capacity: %s",
                 ROWS[i].capacity);
        struct model *model = build("moe", options);
        const struct op *up = first_of(model, OP_EXPERT_LINEAR);
        assert_true(work_of(up, PHASE_FORWARD).flops == 2 * 8 * ROWS[i].places * 64 * 192);
        model_free(model);
    }
}

/* Heads of 16 features as the option pads them, by hand: 25 to 26 for 2; of 28 in 4 groups for 8, every group to 8; of 6
 * in 3 groups for 2, none. Every head more has 16 features of query, and a key and value if its group is new. */
static void heads_are_padded(void **state)
{
    (void)state;
    static const struct {
        const char *family, *options;
        int64_t kv_heads, group;
    } ROWS[] = {
        {"gpt", "layers: 2, hidden: 400, heads: 25, seq: 8, head_multiple: 2", 26, 1},
        {"llama", "layers: 2, hidden: 448, heads: 28, kv_heads: 4, seq: 8, head_multiple: 8", 4, 8},
        {"llama", "layers: 2, hidden: 96, heads: 6, kv_heads: 3, seq: 8, head_multiple: 2", 3, 2},
        {"moe", "layers: 2, hidden: 192, heads: 12, seq: 8, experts: 2, head_multiple: 8", 16, 1},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct model *model = build(ROWS[i].family, ROWS[i].options);
        const struct op *op = first_of(model, OP_ATTENTION);
        assert_int_equal(op->size[op_find_dim(OP_ATTENTION, DIM_HEAD)], ROWS[i].kv_heads);
        assert_int_equal(op->size[op_find_dim(OP_ATTENTION, DIM_GROUP)], ROWS[i].group);
        assert_int_equal(op->size[op_find_dim(OP_ATTENTION, DIM_DEPTH)], 16);
        assert_int_equal(model->warnings.len, i == 2 ? 0 : 1);
        model_free(model);
    }
}

/* A window of w^2 positions attends to itself: 4 s w^2 h instead of 4 s^2 h. */
static void swin_attends_within_windows(void **state)
{
    (void)state;
    struct model *model = build("swin", "depths: [1], hidden: 32, heads: 2, image: 56, patch: 4, "
                                        "window: 7");
    double s = 14 * 14, h = 32, w = 49;
    struct totals t = module_totals(model, find_module(model, "attn"), DTYPE_FP32);
    assert_float_equal(t.flops[PHASE_FORWARD], 8 * s * h * h + 4 * s * w * h, 0.5);
    model_free(model);
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* Seven layers, every third of which sees all: numbers 2 and 5; the rest sees 32 of 256 keys. With four
 * heads of 16, attention takes 4 * 4 * 256 * k * 16 FLOPs forward for k keys, and keeps what it keeps
 * without a window. */
static void windows_leave_some_keys_out(void **state)
{
    (void)state;
    static const char SIZES[] = "layers: 7, hidden: 64, heads: 4, seq: 256";
    struct model *whole = build("llama", SIZES);
    char options[128];
    snprintf(options, sizeof options, "%s, window: 32, full_every: 3", SIZES);
    struct model *some = build("llama", options);
    snprintf(options, sizeof options, "%s, window: 256", SIZES);
    struct model *all = build("llama", options);
    struct arena *scratch = arena_new();
    int64_t windowed = 0, full = 0;
    for (int32_t i = 0; i < some->ops; i++) {
        const struct op *op = &some->op[i];
        for (int64_t copy = 0; op->kind == OP_ATTENTION && copy < op_copies(some, op); copy++) {
            long long layer = strtoll(strchr(op_path(scratch, some, op, copy), '.') + 1, NULL, 10);
            assert_int_equal(op->window, layer == 2 || layer == 5 ? 0 : 32);
            *(op->window ? &windowed : &full) += 1;
        }
    }
    assert_int_equal(windowed, 5);
    assert_int_equal(full, 2);
    struct totals a = model_totals(whole, DTYPE_BF16), b = model_totals(some, DTYPE_BF16);
    struct totals c = model_totals(all, DTYPE_BF16);
    double left_out = 5.0 * 4 * 4 * 256 * (256 - 32) * 16;
    assert_true(a.flops[PHASE_FORWARD] - b.flops[PHASE_FORWARD] == left_out);
    assert_true(a.flops[PHASE_BACKWARD_INPUT] - b.flops[PHASE_BACKWARD_INPUT] == 2 * left_out);
    assert_true(a.flops[PHASE_FORWARD] == c.flops[PHASE_FORWARD]);
    assert_true(a.parameters == b.parameters);
    assert_true(a.kept_bytes == b.kept_bytes && a.kept_bytes == c.kept_bytes);
    arena_free(scratch);
    model_free(whole);
    model_free(some);
    model_free(all);
}

/* Two layers of 32 features with 4 experts of width 48, without gates or biases: 2 * 32 * 48 weights each,
 * a third less than with; a shared one of 16 and the router's 4 * 32 beside them. */
static void experts_may_do_without_gates(void **state)
{
    (void)state;
    static const char SIZES[] = "layers: 2, hidden: 32, heads: 4, seq: 16, vocab: 64, bias: false";
    char options[256];
    snprintf(options, sizeof options, "%s, experts: 4, expert_ffn: 48, shared_ffn: 16", SIZES);
    struct model *model = build("gpt", options), *dense = build("gpt", SIZES);
    double experts = 4 * 2 * 32 * 48 + 2 * 32 * 16 + 4 * 32, mlp = 2 * 32 * 128;
    assert_true(model_totals(model, DTYPE_BF16).parameters -
                    model_totals(dense, DTYPE_BF16).parameters ==
                2 * (experts - mlp));
    model_free(model);
    model_free(dense);
    static const char MOE[] = "layers: 1, hidden: 32, heads: 4, experts: 4, expert_ffn: 48";
    snprintf(options, sizeof options, "%s, activation: relu2", MOE);
    struct model *gated = build("moe", MOE), *plain = build("moe", options);
    assert_true(model_totals(gated, DTYPE_BF16).parameters -
                    model_totals(plain, DTYPE_BF16).parameters ==
                4 * 32 * 48);
    model_free(gated);
    model_free(plain);
}

static void options_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *family, *options, *message;
    } BAD[] = {
        {"gpt", "layers: 2\nhidden: 100\nheads: 7\n",
         "test.yaml:3: 'heads' is 7, expected a divisor of 'hidden', 100"},
        {"gpt", "hidden: 100\nheads: 10\n",
         "test.yaml:1: 'layers' is missing, expected a whole number of at least 1"},
        {"gpt", "layers: 0\nhidden: 100\nheads: 10\n",
         "test.yaml:1: 'layers' is '0', expected a whole number of at least 1"},
        {"gpt", "layers: 2000000\nhidden: 100\nheads: 10\n",
         "test.yaml:1: 'layers' is 2000000, expected a number from 1 to 1000000"},
        {"gpt", "layers: 2\nhidden: 128\nheads: 8\ndropout: 1.5\n",
         "test.yaml:4: 'dropout' is 1.5, expected a number from 0 to 1"},
        {"gpt", "layers: 2\nhidden: 128\nheads: 8\nattention: flush\n",
         "test.yaml:4: 'attention' is 'flush', expected one of flash, fused, eager, flash-v1, "
         "flash-v2, local"},
        {"gpt", "layers: 2\nhidden: 128\nheads: 8\nlayer: 3\n",
         "test.yaml:4: 'layer' is not a known key here"},
        {"gpt", "layers: 2\nhidden: 8\nheads: 1\nseq: 100000000\nattention: eager\n",
         "test.yaml:1: 'score' would have an axis of 100000000, expected positive sizes whose "
         "product is below 2^50"},
        {"llama", "layers: 2\nhidden: 128\nheads: 8\nkv_heads: 3\n",
         "test.yaml:4: 'kv_heads' is 3, expected a divisor of 'heads', 8"},
        {"llama", "layers: 2\nhidden: 100\nheads: 8\n",
         "test.yaml:3: 'heads' is 8, expected a divisor of 'hidden', 100"},
        {"moe", "layers: 2\nhidden: 128\nheads: 8\nexperts: 4\ntop_k: 5\n",
         "test.yaml:5: 'top_k' is 5, expected at most 'experts', 4"},
        {"moe", "layers: 2\nhidden: 128\nheads: 8\nexperts: 4\nfirst_dense: 3\n",
         "test.yaml:5: 'first_dense' is 3, expected at most 'layers', 2"},
        {"moe", "layers: 2\nhidden: 128\nheads: 8\nexperts: 4\nmoe_every: 65\n",
         "test.yaml:5: 'moe_every' is 65, expected at most 64"},
        {"moe", "layers: 2\nhidden: 128\nheads: 8\nexperts: 4\nq_lora: 5\n",
         "test.yaml:5: 'q_lora' is an option of latent attention, which 'kv_lora' turns on"},
        {"bert", "layers: 2\nhidden: 100\nheads: 7\n",
         "test.yaml:3: 'heads' is 7, expected a divisor of 'hidden', 100"},
        {"t5", "layers: 2\nhidden: 100\nheads: 7\n",
         "test.yaml:3: 'heads' is 7, expected a divisor of 'hidden', 100"},
        {"t5", "layers: 2\nhidden: 128\nheads: 8\nattention: flash\n",
         "test.yaml:4: 'attention' is 'flash', expected one of fused, eager"},
        {"vit", "layers: 2\nhidden: 128\nheads: 8\nimage: 225\n",
         "test.yaml:1: 'patch' is 16, expected a divisor of 'image', 225"},
        {"swin", "window: 5\nhidden: 96\n",
         "test.yaml:1: 'window' is 5, expected a divisor of the 56 patches along a side of stage "
         "1"},
        {"swin", "image: 28\nwindow: 7\n",
         "test.yaml:1: stage 2 would halve a side of 7 patches, expected an even number"},
        {"swin", "depths: 3\nhidden: 96\n", "test.yaml:1: 'depths' is a number, expected a list"},
    };
    for (size_t i = 0; i < COUNT_OF(BAD); i++) {
        struct model *model = NULL;
        assert_int_equal(try_build(BAD[i].family, BAD[i].options, &model), WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, BAD[i].message);
        assert_null(model);
    }
}

/* What was published for older devices, as today's train it; what the user says stays. */
static void presets_follow_todays_practice(void **state)
{
    (void)state;
    static const struct {
        const char *preset, *given, *options;
        enum dtype dtype;
    } ROWS[] = {
        {"gpt3-15b", NULL, "attention: flash", DTYPE_BF16},
        {"gpt3-15b", "layers: 2", "layers: 2, attention: flash", DTYPE_BF16},
        {"gpt3-15b", "attention: eager", "attention: eager", DTYPE_BF16},
        {"t5-large-32", NULL, NULL, DTYPE_BF16}, /* its attention has a bias of positions */
        {"resnet-50", NULL, NULL, DTYPE_BF16},
        {"ResNet50", NULL, NULL, DTYPE_BF16}, /* another spelling */
        {"GPT3-15B", NULL, "attention: flash", DTYPE_BF16},
        {"llama3-8b", NULL, NULL, DTYPE_BF16},
        {"dlrm", NULL, NULL, DTYPE_FP32},
        {WEFT_SOURCE_DIR "/data/models/attention-layer.yaml", NULL, NULL, DTYPE_FP32}, /* says so */
    };
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        const char *options = model_todays_options(arena, ROWS[i].preset, ROWS[i].given);
        struct model *model;
        assert_int_equal(options == NULL, ROWS[i].options == NULL);
        if (options)
            assert_string_equal(options, ROWS[i].options);
        assert_int_equal(model_open(ROWS[i].preset, options, &model), WEFT_OK);
        assert_int_equal(model_todays_dtype(model, ROWS[i].preset), ROWS[i].dtype);
        model_free(model);
    }
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_follow_todays_practice),
        cmocka_unit_test(galvatron_table1),
        cmocka_unit_test(published_parameters),
        cmocka_unit_test(aceso_layers),
        cmocka_unit_test(every_preset_builds),
        cmocka_unit_test(megatron_flops),
        cmocka_unit_test(megatron_activations),
        cmocka_unit_test(attention_choices_keep_different_things),
        cmocka_unit_test(layers_keep_what_galvatron_measured),
        cmocka_unit_test(tied_gradients_make_a_peak),
        cmocka_unit_test(a_gpt_layer_is_thirteen_operators),
        cmocka_unit_test(a_thousand_layers_are_stored_once),
        cmocka_unit_test(mixtures_take_their_turn),
        cmocka_unit_test(experts_cost_what_is_chosen),
        cmocka_unit_test(latent_attention_by_hand),
        cmocka_unit_test(latent_attention_without_experts),
        cmocka_unit_test(gpt_with_gates_and_latent_attention),
        cmocka_unit_test(more_tokens_cost_a_layer_and_a_head),
        cmocka_unit_test(chunks_are_attentions_side_by_side),
        cmocka_unit_test(delta_rule_by_hand),
        cmocka_unit_test(chosen_keys_by_hand),
        cmocka_unit_test(capacity_makes_places),
        cmocka_unit_test(heads_are_padded),
        cmocka_unit_test(swin_attends_within_windows),
        cmocka_unit_test(windows_leave_some_keys_out),
        cmocka_unit_test(experts_may_do_without_gates),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
