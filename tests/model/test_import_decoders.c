/* test_import_decoders.c - Hugging Face configs of further decoders, by hand arithmetic (hf_decoders.c). */
#include <math.h>

#include "model/hf.h"
#include "model/import.h"
#include "opened_model.h"

/* Width 64, 4 heads of 16 with 2 of keys, ffn 96, 100 words, which the head shares. */
#define SMALL                                                                                      \
    "\"hidden_size\": 64, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "                \
    "\"intermediate_size\": 96, \"vocab_size\": 100, \"tie_word_embeddings\": true, "              \
    "\"embedding_multiplier\": 12.0, \"residual_multiplier\": 0.22, \"logits_scaling\": 1.0"

static struct model *from_config(const char *text)
{
    struct arena *scratch = arena_new();
    struct doc *root, *options;
    struct model *model = NULL;
    assert_int_equal(doc_parse(scratch, "a/config.json", text, strlen(text), DOC_JSON, &root), 0);
    assert_int_equal(options_parse(scratch, NULL, &options), WEFT_OK);
    if (import_hf(scratch, "a/config.json", root, options, &model) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    arena_free(scratch);
    return model;
}

/* A layer: 2 (64 x 64) + 2 (64 x 32) = 12,288 of attention, 3 (64 x 96) = 18,432, two norms: 30,848. With 4 experts
 * 73,728 in place of 18,432, and a router of 256: 86,400. Words 6,400, the last norm 64. Two multipliers are not 1. */
static void granite_by_hand(void **state)
{
    (void)state;
    struct model *dense =
        from_config("{\"model_type\": \"granite\", \"num_hidden_layers\": 2, " SMALL "}");
    struct model *experts =
        from_config("{\"model_type\": \"granitemoe\", \"num_hidden_layers\": 2, "
                    "\"num_local_experts\": 4, " SMALL "}");
    assert_true(parameters(dense) == 2 * 30848 + 6400 + 64);
    assert_true(parameters(experts) == 2 * 86400 + 6400 + 64);
    assert_int_equal(dense->warnings.len, 2);
    assert_int_equal(experts->warnings.len, 2);
    model_free(dense);
    model_free(experts);
}

/* Operators of a kind, but for attention that has a window. */
static int64_t copies(const struct model *model, enum op_kind kind)
{
    int64_t found = 0;
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].kind == kind && model->op[i].window == 0)
            found += op_copies(model, &model->op[i]);
    return found;
}

/* Three of four layers rotate positions, and all of them see all positions. */
static void every_fourth_layer_has_no_positions(void **state)
{
    (void)state;
    struct model *model = from_config("{\"model_type\": \"smollm3\"}");
    assert_int_equal(copies(model, OP_ROTARY), 27);
    for (int32_t i = 0; i < model->ops; i++)
        assert_int_equal(model->op[i].window, 0);
    model_free(model);
    model = from_config("{\"model_type\": \"smollm3\", \"no_rope_layer_interval\": 3}");
    assert_int_equal(copies(model, OP_ROTARY), 24);
    model_free(model);
}

/* A layer: 4 (64 x 64) of attention, norms of 64 queries and of 64 keys, 3 (64 x 96) of the MLP, a norm after each of
 * them. The only norm of that name is the one before the head. */
static void olmo_by_hand(void **state)
{
    (void)state;
    struct model *model =
        from_config("{\"model_type\": \"olmo2\", \"num_hidden_layers\": 2, \"hidden_size\": 64, "
                    "\"num_attention_heads\": 4, \"intermediate_size\": 96, \"vocab_size\": 100}");
    assert_true(parameters(model) == 2 * (4 * 4096 + 2 * 64 + 3 * 6144 + 2 * 64) + 2 * 6400 + 64);
    for (int32_t i = 0; i < model->ops; i++)
        assert_true(strcmp(model->op[i].name, "norm") != 0 || i + 3 == model->ops);
    assert_int_equal(model->warnings.len, 0);
    model_free(model);
}

#define NEXT        "\"model_type\": \"qwen3_next\", \"num_hidden_layers\": 8"
#define SCOUT       "\"model_type\": \"llama4_text\", \"num_hidden_layers\": 8"
#define SMOL        "\"model_type\": \"smollm3\", \"num_hidden_layers\": 8"
#define DEEP        "\"model_type\": \"deepseek_v32\", \"num_hidden_layers\": 8"
#define V4          "\"model_type\": \"deepseek_v4\", \"num_hidden_layers\": 4"
#define TWICE(a, b) "\"" a "\", \"" b "\", \"" a "\", \"" b "\""
#define TYPES(a, b) "\"layer_types\": [" TWICE(a, b) ", " TWICE(a, b) "]"
#define CHUNK       "chunked_attention"
#define FULL        "full_attention"
#define HYBRID      "linear_attention"

/* transformers builds by the list of layers where there is one beside a number: attention that sees everything, layers
 * with rotary positions (Llama 4 has one operator for queries and one for keys), layers with experts. */
static void lists_of_layers_come_before_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        int64_t full, rotary, experts;
    } CASES[] = {
        {"{" NEXT "}", 2, 4, 8},
        {"{" NEXT ", " TYPES(HYBRID, FULL) "}", 4, 8, 8},
        {"{" NEXT ", \"full_attention_interval\": 2}", 4, 8, 8},
        {"{" SCOUT "}", 2, 12, 8},
        {"{" SCOUT ", \"no_rope_layers\": []}", 2, 12, 8},
        {"{" SCOUT ", \"no_rope_layers\": [1, 0, 1, 0, 1, 0, 1, 0]}", 4, 8, 8},
        {"{" SCOUT ", \"no_rope_layers\": [1, 1, 1, 1, 1, 1, 1, 1]}", 0, 16, 8},
        {"{" SCOUT ", \"no_rope_layers\": [1, 0, 1, 0, 1, 0, 1, 0], " TYPES(CHUNK, FULL) "}", 4, 8,
         8},
        {"{" SCOUT ", \"no_rope_layers\": [1, 1, 1, 1, 1, 1, 1, 1], " TYPES(CHUNK, FULL) "}", 4, 16,
         8},
        {"{" SCOUT ", " TYPES(FULL, FULL) "}", 8, 12, 8},
        {"{" SCOUT ", \"moe_layers\": [1, 3, 5, 7]}", 2, 12, 4},
        {"{" SCOUT ", \"moe_layers\": [0, 1, 2, 3, 4, 5, 6, 7]}", 2, 12, 8},
        {"{" SMOL "}", 8, 6, 0},
        {"{" SMOL ", \"no_rope_layers\": [1, 0, 1, 0, 1, 0, 1, 0]}", 8, 4, 0},
        {"{" SMOL ", \"no_rope_layers\": [1, 1, 1, 1, 1, 1, 1, 1]}", 8, 8, 0},
        {"{" DEEP "}", 0, 32, 5},
        {"{" DEEP
         ", \"mlp_layer_types\": [\"dense\", " TWICE("sparse", "sparse") ", \"sparse\", "
                                                                         "\"sparse\", \"sparse\"]}",
         0, 32, 7},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct model *model = from_config(CASES[i].config);
        int64_t found[] = {copies(model, OP_ATTENTION), copies(model, OP_ROTARY),
                           copies(model, OP_ROUTER)};
        if (found[0] != CASES[i].full || found[1] != CASES[i].rotary ||
            found[2] != CASES[i].experts)
            fail_msg("%s: %lld %lld %lld", CASES[i].config, (long long)found[0],
                     (long long)found[1], (long long)found[2]);
        model_free(model);
    }
}

/* transformers 5.23 calls Nemotron-H's layers otherwise, and has what positions are like in a mapping of their own, with one
 * for each kind of layer where they differ. */
static void newer_words_mean_what_older_ones_did(void **state)
{
    (void)state;
    static const char *const PAIRS[][2] = {
        {"{\"model_type\": \"nemotron_h\", \"layers_block_type\": "
         "[\"linear_attention\", \"mlp\", \"full_attention\", \"linear_attention\"]}",
         "{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"M-*M\"}"},
        {"{\"model_type\": \"gemma3_text\", \"rope_parameters\": {\"full_attention\": "
         "{\"rope_theta\": 2e6, \"rope_type\": \"linear\", \"factor\": 8}, "
         "\"sliding_attention\": {\"rope_theta\": 20000, \"rope_type\": \"default\"}}}",
         "{\"model_type\": \"gemma3_text\", \"rope_theta\": 2e6, \"rope_local_base_freq\": 20000, "
         "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8}}"},
        {"{\"model_type\": \"phi3\", \"rope_parameters\": {\"rope_theta\": 500, "
         "\"rope_type\": \"default\", \"partial_rotary_factor\": 0.75}}",
         "{\"model_type\": \"phi3\", \"rope_theta\": 500, \"partial_rotary_factor\": 0.75}"},
        {"{\"model_type\": \"deepseek_v4\", \"num_hidden_layers\": 4, \"layer_types\": "
         "[\"sliding_attention\", \"heavily_compressed_attention\", "
         "\"compressed_sparse_attention\", "
         "\"heavily_compressed_attention\"], "
         "\"compress_rates\": {\"compressed_sparse_attention\": 8}}",
         "{\"model_type\": \"deepseek_v4\", \"num_hidden_layers\": 4, "
         "\"compress_ratios\": [0, 128, 8, 128]}"},
    };
    for (size_t i = 0; i < COUNT_OF(PAIRS); i++) {
        struct model *newer = from_config(PAIRS[i][0]), *older = from_config(PAIRS[i][1]);
        assert_int_equal(newer->ops, older->ops);
        assert_int_equal(newer->warnings.len, 0);
        for (int32_t k = 0; k < newer->ops; k++) {
            const struct op *a = &newer->op[k], *b = &older->op[k];
            assert_int_equal(a->kind, b->kind);
            assert_int_equal(a->window, b->window);
            assert_true(a->rope_base == b->rope_base && a->rope_scaling == b->rope_scaling);
            assert_true(a->head_turned == b->head_turned);
        }
        model_free(newer);
        model_free(older);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(granite_by_hand),
        cmocka_unit_test(olmo_by_hand),
        cmocka_unit_test(every_fourth_layer_has_no_positions),
        cmocka_unit_test(lists_of_layers_come_before_numbers),
        cmocka_unit_test(newer_words_mean_what_older_ones_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
