/* test_towers.c - models with an encoder of images beside the decoder: parameters and FLOPs by hand, what is frozen,
 * what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/model.h"

static struct model *opened(const char *name, const char *options)
{
    struct model *model = NULL;
    if (model_open(name, options, &model) != WEFT_OK)
        fail_msg("%s {%s}: %s", name, options ? options : "", weft_last_error()->message);
    return model;
}

static const struct op *op_at(const struct model *model, const char *path)
{
    struct arena *scratch = arena_new();
    const struct op *found = NULL;
    for (int32_t i = 0; i < model->ops && !found; i++)
        if (strcmp(op_path(scratch, model, &model->op[i], 0), path) == 0)
            found = &model->op[i];
    arena_free(scratch);
    if (!found)
        fail_msg("no %s", path);
    return found;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Qwen2.5-VL: a layer of the encoder has two norms of 1280, products of 1280 x 3840, 1280 x 1280, twice 1280 x 3420 and 3420 x
 * 1280 with biases: 19,702,200; 32 of them, 1,505,280 of patches (3 x 2 x 14 x 14 x 1280), and a projector of a norm, 5120 x 5120
 * and 5120 x 3584: 676,550,144 beside Qwen2.5-7B's 7,615,616,512. With 3456 in place of 3420 and a decoder of 8192:
 * 704,573,696 beside 72,706,203,648; with a decoder of 2048: 668,684,288 beside 3,085,938,688.
 *
 * LLaVA: CLIP's ViT-L/14 has 24 layers of 12,596,224, 577 positions, a class token, patches without a bias and two norms:
 * 303,507,456. The projector is 1024 x 4096 and 4096 x 4096 with biases: 20,979,712. Vicuna has 64 words more than LLaMA-2:
 * 6,738,415,616 + 2 x 64 x 4096.
 *
 * Megatron-LM's multimodal-llava: as many as the LLaVAModel that pretrain_vlm.py of core_v0.16.1 and core_v0.19.0 builds
 * (tools/frameworks/megatron_images.py), 12 of CLIP's layers and a projector of a norm and 1024 x 4096 x 1024.
 *
 * Llama 4: 34 layers of 23,807,872, 577 positions and a class token of 1408, two norms, patches of 588 x 1408, 5632 x 4096 and
 * 4096 x 4096 after four patches have become one, and 4096 x 5120: 871,932,416.
 *
 * Gemma 3: SigLIP has 27 layers of 4 (1152 x 1152 + 1152) + 2 x 1152 x 4304 + 4304 + 1152 + 4 x 1152 = 15,239,504, 4096
 * positions, patches with a bias and a norm: 416,866,032; then a norm and 1152 x 2560.
 *
 * Qwen3-VL: 27 layers of 15,239,504, 2,304 positions, patches of 1536 x 1152 with a bias: 415,891,440; and four projectors of
 * 4608 x 4608 and 4608 x 4096 with biases, three with a norm of 4608 and one of 1152: 160,496,896.
 *
 * Llama 3.2: 40 layers of 4 x 1280 x 1280 + 2 x 1280 x 5120 + 5120 + 1280 + 4 x 1280 = 19,672,320, the gates of 8 of them,
 * 1,601 positions and a table of 9 x 4 x 1,601, patches of 588 x 1280, a class token and two norms: 863,475,216; then
 * 7680 x 4096 with a bias. */
static void presets_have_published_parameters(void **state)
{
    (void)state;
    enum {
        QWEN3_VISION = 27 * 15239504 + 2304 * 1152 + 1536 * 1152 + 1152 +
                       4 * (4608 * 4608 + 4608 + 4608 * 4096 + 4096) + 3 * 2 * 4608 + 2 * 1152,
        LLAMA32_VISION =
            40 * 19672320 + 16 + 37 * 1601 * 1280 + 588 * 1280 + 5 * 1280 + 7680 * 4096 + 4096
    };
    static const struct {
        const char *name;
        double parameters, tower; /* tower: with the projector */
    } ROWS[] = {
        {"qwen2.5-vl-3b", 3754622976, 668684288},
        {"qwen2.5-vl-7b", 8292166656, 676550144},
        {"qwen2.5-vl-72b", 73410777344, 704573696},
        {"llava-1.5-7b", 7063427072, 303507456 + 20979712},
        {"multimodal-llava", 330535936,
         12 * 12596224 + 577 * 1024 + 1024 + 588 * 1024 + 2048 + 2048 + 2 * 1024 * 4096 + 4096 +
             1024},
        {"llama4-scout-vision", 107769861120 + 871932416, 871932416},
        {"llama4-maverick-vision", 400711848960 + 871932416, 871932416},
        {"gemma3-4b", 4300079472, 416866032 + 1152 + 1152 * 2560},
        {"gemma3-27b", 27432406640, 416866032 + 1152 + 1152 * 5376},
        {"qwen3-vl-8b", 8767123696, QWEN3_VISION},
        {"llama3.2-11b-vision", 10670095904, LLAMA32_VISION},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct model *model = opened(ROWS[i].name, NULL);
        double all = model_totals(model, DTYPE_BF16).parameters, tower = 0;
        for (int32_t k = 0; k < model->ops; k++)
            if (model->op[k].place == PLACE_TOWER)
                tower += op_parameters(&model->op[k]) * (double)op_copies(model, &model->op[k]);
        /* Llama 4's norms of queries and keys have no weights, Weft's have 12,288 */
        if (all < ROWS[i].parameters || all > 1.0000002 * ROWS[i].parameters ||
            tower != ROWS[i].tower)
            fail_msg("%s: %.0f parameters, %.0f of them in the tower, expected %.0f and %.0f",
                     ROWS[i].name, all, tower, ROWS[i].parameters, ROWS[i].tower);
        model_free(model);
    }
}

/* ---- FLOPs and tokens ------------------------------------------------------------------------ */

#define SIZES(heads, merge, seq)                                                                   \
    "layers: 2, hidden: 64, heads: 4, ffn: 128, vocab: 96, vision_layers: 4, vision_hidden: 32, "  \
    "vision_ffn: 48, vision_image: 32, vision_patch: 4, images: 2, vision_heads: " #heads          \
    ", vision_merge: " #merge ", seq: " #seq
#define SMALL SIZES(2, 2, 64)

/* Two images of 8 x 8 patches: 128 positions, of which four become one token: 32 of the 64 positions of a sequence. A product
 * takes 2 in out FLOP for each of them; attention 4 x 128 x keys x 32. With a window of 16 patches, three layers in four see
 * 16 keys, and the fourth the 64 of its own image. */
static void flops_are_those_by_hand(void **state)
{
    (void)state;
    struct model *model =
        opened("llama2-7b", SMALL ", vision_window: 16, vision_full_every: 4, projector_ffn: 80");
    double layer = 2.0 * 128 * (32 * 96 + 32 * 32 + 2 * 32 * 48);
    double keys = 4.0 * 128 * 32 * (3 * 16 + 64);
    double ends = 2.0 * 128 * 48 * 32 + 2.0 * 32 * (128 * 80 + 80 * 64), tower = 0;
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].place == PLACE_TOWER)
            tower += op_totals(model, &model->op[i], DTYPE_BF16).flops[PHASE_FORWARD];
    assert_float_equal(tower, 4 * layer + keys + ends, 0.5);
    assert_int_equal(model->images, 2);
    assert_int_equal(model->image_tokens, 16);
    assert_int_equal(model->seq, 64);
    assert_int_equal(op_at(model, "embedding")->output.size[1], 32);
    assert_int_equal(op_at(model, "join")->output.size[1], 64);
    assert_int_equal(op_at(model, "vision.layers.0.attn.attention")->document, 16);
    assert_int_equal(op_at(model, "vision.layers.3.attn.attention")->document, 64);
    model_free(model);
}

/* Deepstack: one image of 8 x 8 patches, 16 tokens after merging. Each tap has a projector of 128 x 128 and 128 x 64 beside the
 * last layer's, and what it makes is added after the decoder's layers 0 and 1, whose text begins after the image. */
static void deepstack_is_added_in_the_first_layers(void **state)
{
    (void)state;
    struct model *model =
        opened("llama2-7b", "layers: 4, hidden: 64, heads: 4, ffn: 128, vocab: 96, "
                            "vision_layers: 4, vision_hidden: 32, vision_heads: 2, "
                            "vision_ffn: 48, vision_image: 32, vision_patch: 4, "
                            "vision_merge: 2, seq: 64, projector_ffn: 128, "
                            "projector_norm: layer, vision_taps: [1, 3]");
    double flops = 0;
    struct arena *scratch = arena_new();
    for (int32_t i = 0; i < model->ops; i++)
        if (strstr(op_path(scratch, model, &model->op[i], 0), "deepstack."))
            flops += op_totals(model, &model->op[i], DTYPE_BF16).flops[PHASE_FORWARD];
    arena_free(scratch);
    assert_float_equal(flops, 2 * 2.0 * 16 * (128 * 128 + 128 * 64), 0.5);
    assert_true(op_at(model, "layers.0.image_features")->padded);
    const struct op *padded = op_at(model, "layers.1.image_features");
    assert_true(padded->padded && padded->place == PLACE_BODY);
    assert_int_equal(padded->input[0].size[1], 16);
    assert_int_equal(padded->output.size[1], 64);
    assert_int_equal(op_at(model, "vision.deepstack.1.norm")->size[2], 128);
    assert_int_equal(op_at(model, "vision.projector.norm")->size[2], 32);
    assert_int_equal(op_copies(model, op_at(model, "layers.2.mlp.add")),
                     2); /* layers 2 and 3 are alike */
    model_free(model);
}

#define CROSS                                                                                      \
    "layers: 6, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 96, seq: 64, cross_first: 1, " \
    "cross_every: 3, vision_layers: 2, vision_hidden: 32, vision_heads: 2, vision_image: 16, "     \
    "vision_patch: 4, vision_tiles: 2, vision_tile_shapes: 3, vision_class_token: true, "          \
    "vision_positions: true, vision_global_layers: 1, vision_taps: [1], projector_layers: 1"

/* Two tiles of 16 patches and a class token: 34 positions, which see each other and are the keys of layers 1 and 4: products of
 * 64 x 64 on 64 positions twice and of 64 x 32 on 34 positions twice, and 4 x 64 x 34 x 64. The sequence is text. */
static void layers_attend_to_images(void **state)
{
    (void)state;
    struct model *model = opened("llama2-7b", CROSS);
    double flops = 0;
    struct arena *scratch = arena_new();
    for (int32_t i = 0; i < model->ops; i++)
        if (strstr(op_path(scratch, model, &model->op[i], 0), ".cross."))
            flops += op_totals(model, &model->op[i], DTYPE_BF16).flops[PHASE_FORWARD];
    arena_free(scratch);
    double products = 2.0 * 64 * 2 * 64 * 64 + 2.0 * 34 * 2 * 64 * 32;
    assert_float_equal(flops, 2 * (products + 4.0 * 64 * 34 * 64), 0.5);
    assert_true(model->images_beside);
    assert_int_equal(model->image_tokens, 34);
    assert_int_equal(op_at(model, "embedding")->output.size[1], 64);
    const struct op *keys = op_at(model, "layers.1.cross.attention");
    assert_int_equal(keys->input[1].size[1], 34);
    assert_false(keys->causal);
    assert_int_equal(op_at(model, "layers.1.mlp.add")->weights, 1); /* the gates */
    assert_int_equal(op_at(model, "layers.0.mlp.add")->weights, 0);
    const struct op *gated = op_at(model, "layers.1.mlp.add"),
                    *plain = op_at(model, "layers.0.mlp.add");
    assert_true(op_passes_on(plain, 0) && op_passes_on(plain, 1));
    assert_true(!op_passes_on(gated, 0) &&
                op_passes_on(gated, 1)); /* the gate is in the first's gradient */
    assert_int_equal(op_at(model, "vision.global.layers.0.mlp.add")->weights, 1);
    assert_int_equal(op_at(model, "vision.projector.taps")->output.size[2], 64);
    assert_int_equal(op_at(model, "vision.layers.0.attn.attention")->document, 0); /* one image */
    model_free(model);
    model = opened("llama2-7b", CROSS ", document: 16");
    assert_int_equal(op_at(model, "layers.1.cross.attention")->document, 0);
    assert_int_equal(op_at(model, "layers.0.attn.attention")->document, 16);
    model_free(model);
}

/* ---- what is frozen -------------------------------------------------------------------------- */

static double kept(const struct model *model, enum op_place place)
{
    double bytes = 0;
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].place == place)
            bytes += op_totals(model, &model->op[i], DTYPE_BF16).kept_bytes;
    return bytes;
}

static double backward(const struct model *model, enum op_place place, enum phase phase)
{
    double flops = 0;
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].place == place)
            flops += op_totals(model, &model->op[i], DTYPE_BF16).flops[phase];
    return flops;
}

static void frozen_towers_keep_nothing(void **state)
{
    (void)state;
    struct model *all = opened("llama2-7b", SMALL);
    struct model *encoder = opened("llama2-7b", SMALL ", vision_frozen: true");
    struct model *tower =
        opened("llama2-7b", SMALL ", vision_frozen: true, projector_frozen: true");
    struct model *lora = opened("llama2-7b", SMALL ", lora: 4");
    struct model *text = opened("llama2-7b", SMALL ", vision_frozen: true, text_frozen: true");
    enum op_place place = PLACE_TOWER;
    assert_true(kept(tower, place) == 0 && kept(lora, place) == 0);
    assert_true(kept(encoder, place) > 0 && kept(encoder, place) < kept(all, place) / 2);
    assert_true(backward(tower, place, PHASE_BACKWARD_INPUT) == 0);
    assert_true(backward(lora, place, PHASE_BACKWARD_WEIGHT) == 0);
    /* the projector's own: 2 tokens (128 x 64 + 64 x 64), and the gradient between its products */
    assert_float_equal(backward(encoder, place, PHASE_BACKWARD_WEIGHT),
                       2.0 * 32 * (128 * 64 + 64 * 64), 0.5);
    assert_float_equal(backward(encoder, place, PHASE_BACKWARD_INPUT), 2.0 * 32 * 64 * 64, 0.5);
    /* a frozen decoder still passes gradients on to the projector */
    assert_true(backward(text, PLACE_BODY, PHASE_BACKWARD_INPUT) > 0);
    assert_true(backward(text, PLACE_BODY, PHASE_BACKWARD_WEIGHT) == 0);
    model_free(all);
    model_free(encoder);
    model_free(tower);
    model_free(lora);
    model_free(text);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void wrong_towers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *options, *message;
    } ROWS[] = {
        {"images: 2", "'images' is an option of an encoder of images, which this model lacks"},
        {"vision_layers: 2", "an encoder of images needs vision_hidden, vision_heads, vision_image "
                             "and vision_patch"},
        {SIZES(3, 2, 64), "'vision_heads' is 3, expected a divisor of 'vision_hidden', 32"},
        {SIZES(2, 3, 64), "'vision_merge' is 3, expected a divisor of 'patches along a "
                          "side', 8"},
        {SMALL ", vision_window: 7",
         "'vision_window' is 7, expected a divisor of the 64 patches of "
         "an image"},
        {SIZES(2, 2, 32), "2 images of 16 tokens leave no place for text in a sequence of 32"},
        {SMALL ", vision_taps: [3, 2]", "'vision_taps' has 2 after 3, expected numbers that grow"},
        {SMALL ", vision_taps: [1, 2, 3]",
         "'vision_taps' has 3 entries, expected at most one for each of the decoder's 2 layers"},
        {SMALL ", vision_taps: [5]", "an entry of 'vision_taps' is 5, expected at most 4"},
        {SMALL ", vision_taps: [1], vision_window: 16",
         "'vision_taps' is given beside 'vision_window', expected one of them"},
        {CROSS ", vision_merge: 2",
         "'vision_merge' leaves no place for a class token that layers attend to"},
        {SMALL ", cross_first: 1, cross_every: 1",
         "'cross_first' is 1, expected less than 'cross_every', 1"},
        {CROSS ", window: 8, full_every: 2",
         "'cross_every' is given beside 'full_every', expected one of them"},
        {"cross_first: 1", "'cross_first' is the first of the layers of 'cross_every'"},
        {"cross_every: 4", "'cross_every' says which layers attend to images"},
        {SMALL ", vision_full_every: 2", "'vision_full_every' says which layers have no "
                                         "'vision_window', and none is given"},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct model *model = NULL;
        assert_int_equal(model_open("llama2-7b", ROWS[i].options, &model), WEFT_BAD_INPUT);
        assert_non_null(strstr(weft_last_error()->message, ROWS[i].message));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_published_parameters),
        cmocka_unit_test(flops_are_those_by_hand),
        cmocka_unit_test(deepstack_is_added_in_the_first_layers),
        cmocka_unit_test(layers_attend_to_images),
        cmocka_unit_test(frozen_towers_keep_nothing),
        cmocka_unit_test(wrong_towers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
