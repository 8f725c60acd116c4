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

static int64_t layers_with_rotary(const struct model *model)
{
    int64_t layers = 0;
    for (int32_t i = 0; i < model->ops; i++)
        layers += model->op[i].kind == OP_ROTARY ? op_copies(model, &model->op[i]) : 0;
    return layers;
}

/* Three of four layers rotate positions, and all of them see all positions. */
static void every_fourth_layer_has_no_positions(void **state)
{
    (void)state;
    struct model *model = from_config("{\"model_type\": \"smollm3\"}");
    assert_int_equal(layers_with_rotary(model), 27);
    for (int32_t i = 0; i < model->ops; i++)
        assert_int_equal(model->op[i].window, 0);
    model_free(model);
    model = from_config("{\"model_type\": \"smollm3\", \"no_rope_layer_interval\": 3}");
    assert_int_equal(layers_with_rotary(model), 24);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(granite_by_hand),
        cmocka_unit_test(olmo_by_hand),
        cmocka_unit_test(every_fourth_layer_has_no_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
