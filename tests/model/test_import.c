/* test_import.c - models from files: Hugging Face configs and Weft's own files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>

#include "model/hf.h"
#include "model/import.h"
#include "opened_model.h"

static struct model *opened_file(const char *file, const char *overrides)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", WEFT_SOURCE_DIR, file);
    return opened(path, overrides);
}

/* ---- Hugging Face ---------------------------------------------------------------------------- */

/* What transformers' num_parameters() gives for the public checkpoints. BERT is counted without its
 * pooler and the vector of output biases, T5 with one table of position biases per stack. */
static const struct {
    const char *name;
    double published;
    size_t warnings;
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
    {"qwen3-coder-480b-a35b", 480154875392},
    /* With the 871,932,416 of the encoder of images (tests/model/test_towers.c). */
    {"llama-4-scout-17b-16e", 107769861120 + 871932416},
    {"llama-4-maverick-17b-128e", 400711848960 + 871932416},
    /* The types of their encoders stand outside `vision_config` only. Qwen2-VL's has 32 layers of 19,677,440, patches of 1176 x
     * 1280, and a norm, 5120 x 5120 and 5120 x 1536: 665,271,296 beside Qwen2-1.5B's 1,543,714,304. */
    {"qwen2-vl-2b", 2208985600},
    {"qwen2.5-vl-7b", 8292166656},
    {"llava-1.5-7b", 7063427072},
    {"gemma-3-4b", 4300079472},
    {"qwen3-vl-8b", 8767123696},
    {"qwen3-vl-30b-a3b", 31070754032},
    /* Less eight words of its table and two tables that are added to whole tiles, with a gate each and one of positions:
     * 10,670,220,835 - 8 x 4096 - 2 x 9 x 4 x 1280 - 3. */
    {"llama-3.2-11b-vision", 10670095904},
    {"nemotron-4-340b", 341029195776}, /* its report, Table 1: 9.4 and 331.6 billion */
    /* 671 billion and a layer that predicts one token more. */
    {"deepseek-v3", 671026404352 + 11610068480},
    {"deepseek-v3.2-exp", 671026404352 + 11610067968 + 62.0 * 13959424}, /* and an index in each */
    /* 284.4 billion, and 6.6 of a layer that predicts one token more. */
    {"deepseek-v4-flash", 290976509824},
    {"kimi-k2-instruct", 1026408232448},
    {"qwen3-next-80b-a3b", 79674391296}, /* without the layer that predicts one token more */
    {"deepseek-v2-lite", 15706484224},
    {"nemotron-h-8b", 8100852736},
    {"nemotron-3-nano-30b-a3b", 31577937344},
    {"nemotron-3-super-120b-a12b", 123611012096}, /* with its layers for one token more */
    {"mamba-codestral-7b", 7285403648},
    {"gpt-oss-20b", 20914757184},
    {"gpt-oss-120b", 116829156672},
    {"gemma-7b", 8537680896},
    {"gemma-2-9b", 9241705984, .warnings = 1}, /* the soft cap of its logits */
    {"gemma-3-1b", 999885952},
    {"phi-3-mini-4k", 3821079552},
    {"smollm3-3b", 3075098624},
    /* 106,852 million, and of a layer that predicts one token more 2,341 of its own and 34 that join two states. */
    {"glm-4.5-air", 109227310848},
    {"olmo-2-1124-7b", 7298617344},
    {"olmo-3-7b", 7298011136},
    {"seed-oss-36b", 36151104512},
    {"olmoe-1b-7b", 6919161856},
    {"minimax-m2", 228689748992}, /* without its layers for further tokens */
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
        assert_int_equal(model->warnings.len, PUBLISHED[i].warnings);
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

/* An encoder is of the type that its mapping says; without one, of the type that the mapping around it implies. What is not
 * read is named. */
static void encoders_are_read_or_named(void **state)
{
    (void)state;
    static const struct {
        const char *around, *text, *inside;
        const char *warning; /* NULL: it is read */
    } ROWS[] = {
        {"qwen2_vl", "qwen2", "", NULL},
        {"qwen2_vl", "qwen2", "\"model_type\": \"qwen2_vl_vision\"", NULL},
        {"qwen2_5_vl", "qwen2", "\"model_type\": null", NULL},
        {"qwen2_5_vl", "qwen2", "\"model_type\": \"qwen2_5_vl_vision\"", NULL},
        {"qwen3_vl", "qwen2", "", NULL},
        {"qwen3_vl", "qwen2", "\"model_type\": \"qwen3_vl_vision\"", NULL},
        {"qwen3_vl_moe", "qwen2", "", NULL},
        {"llava", "qwen2", "", NULL},
        {"mllama", "mllama_text_model", "", NULL},
        {"llama4", "qwen2", "", NULL},
        {"qwen2_vl", "qwen2", "\"model_type\": \"other\"",
         "the model of 'vision_config' is left out"},
        {"qwen2_vl", "qwen2", "\"model_type\": 7", "the model of 'vision_config' is left out"},
        {"other", "qwen2", "", "the model of 'vision_config' is left out"},
        {"qwen2_vl\", \"audio_config\": {}, \"x_id\": \"", "qwen2", "",
         "the model of 'audio_config' is left out"},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"model_type\": \"%s\", \"vision_config\": {%s}, \"text_config\": "
                 "{\"model_type\": \"%s\"}}",
                 ROWS[i].around, ROWS[i].inside, ROWS[i].text);
        struct model *model = from_config(text, NULL);
        bool read = !ROWS[i].warning || strstr(ROWS[i].warning, "audio");
        if (model_has_tower(model) != read)
            fail_msg("%s: a tower is %s", text, read ? "missing" : "there");
        assert_int_equal(model->warnings.len, ROWS[i].warning != NULL);
        if (ROWS[i].warning)
            assert_string_equal(model->warnings.data[0], ROWS[i].warning);
        model_free(model);
    }
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

static bool norms_add(const struct model *model, double epsilon)
{
    for (int32_t i = 0; i < model->ops; i++) {
        enum op_kind kind = model->op[i].kind;
        bool norm = kind == OP_RMS_NORM || kind == OP_LAYER_NORM || kind == OP_GATED_NORM;
        if (model->op[i].epsilon != (norm ? epsilon : 0))
            return false;
    }
    return model_norm_epsilon(model) == epsilon;
}

/* What transformers 4.57 has in a configuration that says nothing of it. */
static void absent_epsilons_are_those_of_transformers(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        double epsilon;
    } ROWS[] = {
        {"gpt2", 1e-5},        {"gpt_neox", 1e-5},    {"llama", 1e-6},      {"mistral", 1e-6},
        {"mixtral", 1e-5},     {"gpt_oss", 1e-5},     {"qwen2", 1e-6},      {"qwen3", 1e-6},
        {"qwen2_moe", 1e-6},   {"qwen3_moe", 1e-6},   {"qwen3_next", 1e-6}, {"llama4_text", 1e-5},
        {"nemotron", 1e-5},    {"gemma", 1e-6},       {"gemma2", 1e-6},     {"gemma3_text", 1e-6},
        {"phi3", 1e-5},        {"bert", 1e-12},       {"t5", 1e-6},         {"vit", 1e-12},
        {"smollm3", 1e-6},     {"olmo2", 1e-5},       {"olmo3", 1e-5},      {"seed_oss", 1e-6},
        {"granite", 1e-6},     {"granitemoe", 1e-6},  {"glm4_moe", 1e-5},   {"olmoe", 1e-5},
        {"deepseek_v2", 1e-6}, {"deepseek_v3", 1e-6}, {"mamba2", 1e-5},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char text[100];
        snprintf(text, sizeof text, "{\"model_type\": \"%s\"}", ROWS[i].type);
        struct model *model = from_config(text, NULL);
        if (!norms_add(model, ROWS[i].epsilon))
            fail_msg("norms of %s add %g", ROWS[i].type, model_norm_epsilon(model));
        model_free(model);
    }
}

static bool same_routing(const struct routing *a, const struct routing *b)
{
    return a->scores == b->scores && a->balance == b->balance && a->groups == b->groups &&
           a->group_top_k == b->group_top_k && a->scale == b->scale &&
           a->balance_weight == b->balance_weight && a->balance_bias == b->balance_bias;
}

/* Where features are taken and which layers attend to images: those of Qwen3-VL after the layers listed, those of Llama 3.2 before. */
static void taps_are_as_configs_say(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *preset, *options;
    } ROWS[] = {{"tests/data/hf/qwen3-vl-8b", "qwen3-vl-8b", NULL},
                {"tests/data/hf/llama-3.2-11b-vision", "llama3.2-11b-vision", "seq: 4096"}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct model *file = opened_file(ROWS[i].folder, NULL);
        struct model *preset = NULL;
        assert_int_equal(model_open(ROWS[i].preset, ROWS[i].options, &preset), WEFT_OK);
        assert_int_equal(file->ops, preset->ops);
        for (int32_t k = 0; k < file->ops; k++) {
            assert_string_equal(file->op[k].name, preset->op[k].name);
            assert_int_equal(op_copies(file, &file->op[k]), op_copies(preset, &preset->op[k]));
        }
        model_free(file);
        model_free(preset);
    }
}

/* What no number depends on is the same in a preset and in the model's own file. */
static void positions_and_routers_are_as_configs_say(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *preset;
        double base, epsilon;
    } ROWS[] = {
        {"llama-2-7b", "llama2-7b", 10000, 1e-5},
        {"llama-3.1-8b", "llama3.1-8b", 500000, 1e-5},
        {"qwen2.5-7b", "qwen2.5-7b", 1000000, 1e-6},
        {"qwen3-8b", "qwen3-8b", 1000000, 1e-6},
        {"gemma-7b", "gemma-7b", 10000, 1e-6},
        {"phi-3-mini-4k", "phi3-mini", 10000, 1e-5},
        {"mixtral-8x7b-v0.1", "mixtral-8x7b", 1e6, 1e-5},
        {"qwen3-30b-a3b", "qwen3-30b-a3b", 1000000, 1e-6},
        {"gpt-oss-20b", "gpt-oss-20b", 150000, 1e-5},
        {"qwen1.5-moe-a2.7b", "qwen1.5-moe-a2.7b", 1e6, 1e-6},
        {"gemma-3-1b", "gemma3-1b", 10000, 1e-6},
        {"deepseek-v2-lite", "deepseek-v2-lite", 10000, 1e-6},
        {"deepseek-v3", "deepseek-v3", 10000, 1e-6},
        {"llama-4-scout-17b-16e", "llama4-scout", 500000, 1e-5},
        {"nemotron-4-340b", "nemotron-4-340b", 10000, 1e-5},
        {"glm-4.5-air", "glm-4.5-air", 1000000, 1e-5},
    };
    static const char *const WITHOUT_POSITIONS[][2] = {
        {"nemotron-3-nano-30b-a3b", "nemotron-3-nano"},
        {"nemotron-3-nano-30b-a3b", "nemotron-3.5-lightning"},
        {"nemotron-3-super-120b-a12b", "nemotron-3-super"},
    };
    struct arena *keep = arena_new();
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct model *file, *preset;
        assert_int_equal(
            model_open(arena_printf(keep, WEFT_SOURCE_DIR "/tests/data/hf/%s", ROWS[i].folder),
                       NULL, &file),
            WEFT_OK);
        assert_int_equal(model_open(ROWS[i].preset, NULL, &preset), WEFT_OK);
        assert_true(model_op_of_kind(file, OP_ROTARY)->rope_base == ROWS[i].base);
        assert_true(model_op_of_kind(preset, OP_ROTARY)->rope_base == ROWS[i].base);
        assert_true(norms_add(file, ROWS[i].epsilon) && norms_add(preset, ROWS[i].epsilon));
        /* Presets are the models as they are pre-trained: yarn comes when their context is extended. */
        const struct op *rotary = model_op_of_kind(file, OP_ROTARY);
        assert_true(model_op_of_kind(preset, OP_ROTARY)->rope_scaling ==
                    (rotary->stretch.kind == ROPE_LLAMA3 ? rotary->rope_scaling : 0));
        const struct op *a = model_op_of_kind(file, OP_ROUTER);
        const struct op *b = model_op_of_kind(preset, OP_ROUTER);
        assert_true(!a == !b);
        if (a && b && !same_routing(&a->routing, &b->routing))
            fail_msg("%s routes otherwise than its preset", ROWS[i].folder);
        model_free(file);
        model_free(preset);
    }
    for (size_t i = 0; i < COUNT_OF(WITHOUT_POSITIONS); i++) {
        struct model *file, *preset;
        assert_int_equal(model_open(arena_printf(keep, WEFT_SOURCE_DIR "/tests/data/hf/%s",
                                                 WITHOUT_POSITIONS[i][0]),
                                    NULL, &file),
                         WEFT_OK);
        assert_int_equal(model_open(WITHOUT_POSITIONS[i][1], NULL, &preset), WEFT_OK);
        assert_true(same_routing(&model_op_of_kind(file, OP_ROUTER)->routing,
                                 &model_op_of_kind(preset, OP_ROUTER)->routing));
        assert_true(norms_add(file, 1e-5) && norms_add(preset, 1e-5));
        model_free(file);
        model_free(preset);
    }
    struct model *nested = from_config(
        "{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_theta\": 7000.5}}", NULL);
    assert_true(model_op_of_kind(nested, OP_ROTARY)->rope_base == 7000.5);
    model_free(nested);
    struct model *v3 = from_config("{\"model_type\": \"deepseek_v3\"}", NULL);
    const struct routing expected = {ROUTER_SIGMOID, BALANCE_SEQUENCE, 0.0001, true, 8, 4, 2.5};
    assert_true(same_routing(&model_op_of_kind(v3, OP_ROUTER)->routing, &expected));
    model_free(v3);
    arena_free(keep);
}

/* Positions as Llama 3.1, a linear factor and yarn stretch them, under either key; others are left as they are, with a
 * warning. */
static void stretched_positions_are_read(void **state)
{
    (void)state;
#define LLAMA(rest) "{\"model_type\": \"llama\", \"max_position_embeddings\": 5000" rest "}"
#define STRETCHED(type, high)                                                                      \
    "{\"rope_type\": \"" type "\", \"factor\": 32.0, \"low_freq_factor\": 1.0, "                   \
    "\"high_freq_factor\": " high ", \"original_max_position_embeddings\": 8192}"
#define YARN(rest) LLAMA(", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4" rest "}")
    static const struct {
        const char *text;
        double factor;
        bool warns;
        enum rope_kind kind;
        int64_t learned;
        double mscale;
    } ROWS[] = {
        {LLAMA(", \"rope_scaling\": " STRETCHED("llama3", "4.0")), 32, false},
        {LLAMA(", \"rope_parameters\": " STRETCHED("llama3", "4.0")), 32, false},
        {LLAMA(", \"rope_scaling\": " STRETCHED("llama3", "3.0")), 0, true},
        {LLAMA(", \"rope_scaling\": " STRETCHED("longrope", "4.0")), 0, true},
        {LLAMA(", \"rope_scaling\": " STRETCHED("default", "4.0")), 0, false},
        {LLAMA(", \"rope_scaling\": " STRETCHED("mrope", "4.0")), 0, false},
        {LLAMA(", \"rope_scaling\": " STRETCHED("linear", "4.0")), 32, false, ROPE_LINEAR},
        {LLAMA(", \"rope_scaling\": " STRETCHED("yarn", "4.0")), 32, false, ROPE_YARN, 8192},
        {YARN(""), 4, false, ROPE_YARN, 5000},
        {YARN(", \"truncate\": false"), 4, false, ROPE_YARN_UNROUNDED, 5000},
        {YARN(", \"truncate\": true, \"beta_fast\": 32.0, \"beta_slow\": 1"), 4, false, ROPE_YARN,
         5000},
        {YARN(", \"mscale\": 0.7, \"mscale_all_dim\": 0.7"), 4, false, ROPE_YARN, 5000, 0.7},
        {YARN(", \"mscale\": 0.7"), 0, true},
        {YARN(", \"beta_fast\": 16"), 0, true},
        {YARN(", \"beta_slow\": 0.5"), 0, true},
        {YARN(", \"attention_factor\": 1.5"), 0, true},
        {YARN(", \"attention_factor\": 1.1386294361"), 4, false, ROPE_YARN, 5000},
        {LLAMA(""), 0, false},
    };
#undef LLAMA
#undef YARN
#undef STRETCHED
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct model *model = from_config(ROWS[i].text, NULL);
        bool warned = false;
        for (size_t k = 0; k < model->warnings.len; k++)
            warned |= strstr(model->warnings.data[k], "not stretched so here") != NULL;
        const struct op *rotary = model_op_of_kind(model, OP_ROTARY);
        assert_true(rotary->rope_scaling == ROWS[i].factor);
        assert_int_equal(rotary->stretch.kind, ROWS[i].kind);
        assert_true(rotary->stretch.mscale == ROWS[i].mscale);
        assert_int_equal(rotary->stretch.learned, ROWS[i].learned ? ROWS[i].learned : YARN_LEARNED);
        assert_int_equal(warned, ROWS[i].warns);
        model_free(model);
    }
}

/* What a file comes to, in numbers that change with every key: parameters, FLOPs and kept bytes of a sample. */
static const char *numbers_of(struct arena *keep, const char *name, const struct model *model)
{
    struct totals totals = model_totals(model, DTYPE_BF16);
    return arena_printf(keep, "%s %s %.0f %.0f %.0f\n", name, model->family, totals.parameters,
                        totals.flops[PHASE_FORWARD], totals.kept_bytes);
}

/* A table that is declared longer than its rows would be filled with rows that say nothing. */
static void every_row_says_something(void **state)
{
    (void)state;
    const struct hf_architecture *all;
    size_t count = hf_architectures(&all);
    for (size_t i = 0; i < count; i++)
        for (size_t row = 0; row < all[i].count; row++)
            if (!all[i].rows[row].key && !all[i].rows[row].option)
                fail_msg("row %zu of %s has neither a key nor an option", row, all[i].type);
}

/* Files that name nothing but their type, where transformers' defaults make a model, then those on file: all as
 * data/import/hf.txt says. */
static void numbers_are_those_on_file(void **state)
{
    (void)state;
    const struct hf_architecture *all;
    size_t count = hf_architectures(&all), len;
    struct arena *keep = arena_new();
    const char *now = "";
    char *golden;
    for (size_t i = 0; i < count; i++) {
        struct model *model =
            from_config(arena_printf(keep, "{\"model_type\": \"%s\"}", all[i].type), NULL);
        now = arena_printf(keep, "%s%s", now, numbers_of(keep, all[i].type, model));
        model_free(model);
    }
    for (size_t i = 0; i < COUNT_OF(PUBLISHED); i++) {
        struct model *model =
            opened_file(arena_printf(keep, "tests/data/hf/%s", PUBLISHED[i].name), NULL);
        now = arena_printf(keep, "%s%s", now, numbers_of(keep, PUBLISHED[i].name, model));
        model_free(model);
    }
    assert_int_equal(
        file_read(keep, WEFT_SOURCE_DIR "/tests/data/import/hf.txt", 1 << 20, &golden, &len),
        WEFT_OK);
    if (strcmp(now, golden) != 0)
        fputs(now, stdout);
    assert_true(strcmp(now, golden) == 0);
    arena_free(keep);
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

/* The window of a layer's attention; 0: it sees all. */
static int64_t window_of(const struct model *model, int layer)
{
    char path[64];
    snprintf(path, sizeof path, "layers.%d.attn.attention", layer);
    return find_op(model, path)->window;
}

/* Sliding and full layers are where transformers puts them: layer_types, a pattern, or the default. */
static void windows_are_where_configs_say(void **state)
{
    (void)state;
    struct model *oss = opened_file("tests/data/hf/gpt-oss-20b", NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(window_of(oss, i), i % 2 ? 0 : 128);
    assert_true(find_op(oss, "layers.0.attn.attention")->sinks);
    assert_int_equal(find_op(oss, "layers.0.mlp.experts.router")->weights, 2);
    assert_int_equal(find_op(oss, "layers.0.mlp.experts.gated")->gate, GATE_CLAMPED);
    model_free(oss);
    struct model *gemma = opened_file("tests/data/hf/gemma-3-1b", NULL);
    for (int i = 0; i < 6; i++)
        assert_int_equal(window_of(gemma, i), i == 5 ? 0 : 512);
    assert_int_equal(window_of(gemma, 24), 512); /* after the last whole period */
    assert_int_equal(gemma->layers, 26);
    model_free(gemma);
    struct model *period = from_config("{\"model_type\": \"gemma3_text\"}", NULL);
    for (int i = 4; i < 6; i++)
        assert_int_equal(window_of(period, i), i == 5 ? 0 : 4096);
    model_free(period);
    struct model *mistral = opened_file("tests/data/hf/mistral-7b-v0.1", "seq: 8192");
    assert_int_equal(window_of(mistral, 0), 4096);
    model_free(mistral);
    static const struct {
        const char *config;
        int64_t first, second;
    } CASES[] = {
        {"{\"model_type\": \"mistral\", \"sliding_window\": null}", 0, 0},
        {"{\"model_type\": \"mistral\"}", 4096, 4096},
        {"{\"model_type\": \"gpt_oss\"}", 128, 0},
        {"{\"model_type\": \"gemma2\", \"num_hidden_layers\": 2, \"layer_types\": "
         "[\"full_attention\", \"full_attention\"]}",
         0, 0},
        {"{\"model_type\": \"gemma2\", \"num_hidden_layers\": 2, \"layer_types\": "
         "[\"sliding_attention\", \"sliding_attention\"]}",
         4096, 4096},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct model *model = from_config(CASES[i].config, NULL);
        bool alike = CASES[i].first == CASES[i].second;
        assert_int_equal(window_of(model, 0), CASES[i].first);
        assert_int_equal(window_of(model, alike ? 0 : 1), CASES[i].second);
        model_free(model);
    }
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

/* ---- Weft's own files ------------------------------------------------------------------------ */

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
        file_read(scratch, WEFT_SOURCE_DIR "/docs/reference/model-file.md", 1 << 20, &text, &len),
        WEFT_OK);
    for (size_t i = 0; i < count; i++) {
        char row[4096], option[256];
        int used = snprintf(row, sizeof row, "| `%s` | ", families[i]->name);
        for (size_t k = 0; k < families[i]->field_count; k++) {
            describe_option(families[i], &families[i]->fields[k], option, sizeof option);
            used += snprintf(row + used, sizeof row - (size_t)used, "%s%s", k ? ", " : "", option);
        }
        snprintf(row + used, sizeof row - (size_t)used, " |\n");
        if (!strstr(text, row)) { /* longer than a message of cmocka may be */
            fputs(row, stdout);
            fail_msg("docs/reference/model-file.md lacks the row of %s", families[i]->name);
        }
    }
    arena_free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configs_have_published_parameters),
        cmocka_unit_test(encoders_are_read_or_named),
        cmocka_unit_test(absent_keys_have_transformers_defaults),
        cmocka_unit_test(absent_epsilons_are_those_of_transformers),
        cmocka_unit_test(taps_are_as_configs_say),
        cmocka_unit_test(positions_and_routers_are_as_configs_say),
        cmocka_unit_test(stretched_positions_are_read),
        cmocka_unit_test(every_row_says_something),
        cmocka_unit_test(numbers_are_those_on_file),
        cmocka_unit_test(overrides_win_over_a_config),
        cmocka_unit_test(long_contexts_are_cut_to_a_sample),
        cmocka_unit_test(windows_are_where_configs_say),
        cmocka_unit_test(unmodelled_keys_are_reported),
        cmocka_unit_test(a_folder_opens_its_config),
        cmocka_unit_test(every_shipped_model_file_opens),
        cmocka_unit_test(operators_by_hand_equal_the_family),
        cmocka_unit_test(repeats_count_their_copies),
        cmocka_unit_test(overrides_win_over_a_file),
        cmocka_unit_test(the_manual_lists_every_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
