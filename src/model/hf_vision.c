/* hf_vision.c - encoders of images in a config.json: the keys of their own mapping (`vision_config`), and those of
 * the mapping around it that say how their tokens join the text. Defaults are those of transformers' config classes.
 *
 *   I1  Where a config names no size of images (Qwen), it is 896 pixels: 1,024 tokens. Where an image may be cut into
 *       tiles (Llama 4, LLaVA-NeXT), `images` counts tiles.
 *   I2  A mapping without a `model_type` is of the type that the one around it implies, as in transformers: published
 *       files of Qwen2-VL and Qwen2.5-VL have none.
 */
#include <string.h>

#include "model/hf_rows.h"

#define ENCODER(layers, hidden, heads, ffn, image, patch)                                          \
    {"num_hidden_layers", "vision_layers", RULE_COUNT, layers},                                    \
        {"hidden_size", "vision_hidden", RULE_COUNT, hidden},                                      \
        {"num_attention_heads", "vision_heads", RULE_COUNT, heads},                                \
        {"intermediate_size", "vision_ffn", RULE_COUNT, ffn},                                      \
        {"image_size", "vision_image", RULE_COUNT, image},                                         \
        {"patch_size", "vision_patch", RULE_COUNT, patch},                                         \
        {"num_channels", NULL, RULE_EXPECTED, "3"}
#define HAS(option)      {NULL, option, RULE_FIXED, "true"}
#define LACKS(option)    {NULL, option, RULE_FIXED, "false"}
#define IS(option, word) {NULL, option, RULE_FIXED, word}

/* ---- encoders -------------------------------------------------------------------------------- */

static const struct hf_row CLIP[] = {
    ENCODER("12", "768", "12", "3072", "224", "32"),
    HAS("vision_class_token"),
    HAS("vision_positions"),
    HAS("vision_pre_norm"),
    HAS("vision_post_norm"),
};

static const struct hf_row SIGLIP[] = {
    ENCODER("12", "768", "12", "3072", "224", "16"),
    HAS("vision_positions"),
    HAS("vision_patch_bias"),
    HAS("vision_post_norm"),
};

static const struct hf_row PIXTRAL[] = {
    ENCODER("24", "1024", "16", "4096", "1024", "16"),
    HAS("vision_rotary"),
    HAS("vision_pre_norm"),
    LACKS("vision_bias"),
    IS("vision_norm", "rms"),
    IS("vision_activation", "swiglu"),
};

static const struct hf_row LLAMA4_VISION[] = {
    ENCODER("34", "768", "16", "5632", "448", "14"),
    HAS("vision_class_token"),
    HAS("vision_positions"),
    HAS("vision_rotary"),
    HAS("vision_pre_norm"),
    HAS("vision_post_norm"),
    {"pixel_shuffle_ratio", "vision_merge", RULE_SHRINK, "0.5"},
    {"projector_input_dim", "projector_ffn", RULE_COUNT, "4096"},
    IS("projector_layers", "3"),
    LACKS("projector_bias"),
};

/* Qwen's keys. Its window is the side of a square in pixels. */
#define QWEN_ENCODER                                                                               \
    {"depth", "vision_layers", RULE_COUNT, "32"}, {"num_heads", "vision_heads", RULE_COUNT, "16"}, \
        {"patch_size", "vision_patch", RULE_COUNT, "14"},                                          \
        {"temporal_patch_size", "vision_frames", RULE_COUNT, "2"},                                 \
        {"spatial_merge_size", "vision_merge", RULE_COUNT, "2"},                                   \
        {"spatial_merge_size", "projector_ffn", RULE_MERGED, "2"}, IS("vision_image", "896"),      \
        {"in_channels", NULL, RULE_EXPECTED, "3"}, {"in_chans", NULL, RULE_EXPECTED, "3"},         \
        HAS("vision_rotary")

/* Its `hidden_size` is that of the text. */
static const struct hf_row QWEN2_VL[] = {
    {"embed_dim", "vision_hidden", RULE_COUNT, "1280"},
    {"mlp_ratio", NULL, RULE_EXPECTED, "4"},
    QWEN_ENCODER,
    IS("projector_norm", "layer"),
};

static const struct hf_row QWEN2_5_VL[] = {
    {"hidden_size", "vision_hidden", RULE_COUNT, "3584"},
    {"intermediate_size", "vision_ffn", RULE_COUNT, "3420"},
    QWEN_ENCODER,
    {"window_size", "vision_window", RULE_PIXELS, "112"},
    {"fullatt_block_indexes", "vision_full_every", RULE_EVERY, "[7, 15, 23, 31]"},
    IS("vision_norm", "rms"),
    IS("vision_activation", "swiglu"),
    IS("projector_norm", "rms"),
};

/* Images of any size share a table of positions; the model's are as large as the table. */
static const struct hf_row QWEN3_VL[] = {
    {"depth", "vision_layers", RULE_COUNT, "27"},
    {"hidden_size", "vision_hidden", RULE_COUNT, "1152"},
    {"intermediate_size", "vision_ffn", RULE_COUNT, "4304"},
    {"num_heads", "vision_heads", RULE_COUNT, "16"},
    {"in_channels", NULL, RULE_EXPECTED, "3"},
    {"patch_size", "vision_patch", RULE_COUNT, "16"},
    {"num_position_embeddings", "vision_image", RULE_TABLE, "2304"},
    {"temporal_patch_size", "vision_frames", RULE_COUNT, "2"},
    {"spatial_merge_size", "vision_merge", RULE_COUNT, "2"},
    {"spatial_merge_size", "projector_ffn", RULE_MERGED, "2"},
    {"deepstack_visual_indexes", "vision_taps", RULE_AFTER, "[8, 16, 24]"},
    HAS("vision_positions"),
    HAS("vision_rotary"),
    HAS("vision_patch_bias"),
    IS("projector_norm", "layer"),
};

/* Intermediate features are those before the layers that are listed. Llama 3.2 pads 1,601 positions of a tile to 1,608 and has
 * two small tables that are added to whole tiles: both are left out. */
static const struct hf_row MLLAMA_VISION[] = {
    {"num_hidden_layers", "vision_layers", RULE_COUNT, "32"},
    {"num_global_layers", "vision_global_layers", RULE_COUNT, "8"},
    {"hidden_size", "vision_hidden", RULE_COUNT, "1280"},
    {"attention_heads", "vision_heads", RULE_COUNT, NULL},
    {"num_attention_heads", "vision_heads", RULE_OLDER, "16"},
    {"intermediate_size", "vision_ffn", RULE_COUNT, "5120"},
    {"image_size", "vision_image", RULE_COUNT, "448"},
    {"patch_size", "vision_patch", RULE_COUNT, "14"},
    {"num_channels", NULL, RULE_EXPECTED, "3"},
    {"max_num_tiles", "vision_tiles", RULE_COUNT, "4"},
    {"supported_aspect_ratios", "vision_tile_shapes", RULE_SHAPES, "[1, 2, 3, 4, 5, 6, 7, 8]"},
    {"intermediate_layers_indices", "vision_taps", RULE_LIST, "[3, 7, 15, 23, 30]"},
    HAS("vision_class_token"),
    HAS("vision_positions"),
    HAS("vision_pre_norm"),
    HAS("vision_post_norm"),
    LACKS("vision_attention_bias"),
    IS("projector_layers", "1"),
};

/* ---- how they join the text ------------------------------------------------------------------ */

static const struct hf_row LLAVA[] = {
    {"multimodal_projector_bias", "projector_bias", RULE_BOOL, "true"},
    {"vision_feature_select_strategy", NULL, RULE_EXPECTED, "default"},
};

static const struct hf_row GEMMA3[] = {
    {"mm_tokens_per_image", "vision_merge", RULE_SIDE, "256"},
    HAS("vision_pool"),
    IS("projector_norm", "rms"),
    IS("projector_layers", "1"),
    LACKS("projector_bias"),
};

static const struct hf_row AS_ENCODER_SAYS[] = {SILENT("vision_start_token_id")};

struct encoder {
    const char *type;
    struct hf_rows rows;
};
#define TABLE(rows)         {rows, COUNT_OF(rows)}
#define ENCODER_OF(type, r) {type, TABLE(r)}

static const struct encoder ENCODERS[] = {
    ENCODER_OF("clip_vision_model", CLIP),
    ENCODER_OF("siglip_vision_model", SIGLIP),
    ENCODER_OF("pixtral", PIXTRAL),
    ENCODER_OF("llama4_vision_model", LLAMA4_VISION),
    ENCODER_OF("qwen2_vl", QWEN2_VL),
    ENCODER_OF("qwen2_vl_vision", QWEN2_VL),
    ENCODER_OF("qwen2_5_vl", QWEN2_5_VL),
    ENCODER_OF("qwen2_5_vl_vision", QWEN2_5_VL),
    ENCODER_OF("qwen3_vl", QWEN3_VL),
    ENCODER_OF("qwen3_vl_vision", QWEN3_VL),
    ENCODER_OF("qwen3_vl_moe", QWEN3_VL),
    ENCODER_OF("qwen3_vl_moe_vision", QWEN3_VL),
    ENCODER_OF("mllama_vision_model", MLLAMA_VISION),
};

struct joined_family {
    const char *type, *encoder; /* encoder: the type of a mapping that does not say it (I2) */
    struct hf_rows rows;
};
#define JOIN(type, encoder, r) {type, encoder, TABLE(r)}

static const struct joined_family JOINS[] = {
    JOIN("llava", "clip_vision_model", LLAVA),
    JOIN("llava_next", "clip_vision_model", LLAVA),
    JOIN("gemma3", "siglip_vision_model", GEMMA3),
    JOIN("llama4", "llama4_vision_model", AS_ENCODER_SAYS),
    JOIN("qwen2_vl", "qwen2_vl", AS_ENCODER_SAYS),
    JOIN("qwen2_5_vl", "qwen2_5_vl", AS_ENCODER_SAYS),
    JOIN("qwen3_vl", "qwen3_vl", AS_ENCODER_SAYS),
    JOIN("qwen3_vl_moe", "qwen3_vl_moe", AS_ENCODER_SAYS),
    JOIN("mllama", "mllama_vision_model", AS_ENCODER_SAYS),
};

static const char *type_of(const struct doc *map, const char *otherwise)
{
    const struct doc *type = doc_get(map, "model_type");
    return !type || type->kind == DOC_NULL ? otherwise : type->text ? type->text : "";
}

static const struct joined_family *find_join(const struct doc *root)
{
    for (size_t i = 0; i < COUNT_OF(JOINS); i++)
        if (strcmp(JOINS[i].type, type_of(root, "")) == 0)
            return &JOINS[i];
    return NULL;
}

bool hf_vision(const struct doc *root, const struct doc *vision, struct hf_rows *encoder,
               struct hf_rows *join)
{
    const struct joined_family *around = find_join(root);
    if (!around || vision->kind != DOC_MAP)
        return false;
    *join = around->rows;
    for (size_t i = 0; i < COUNT_OF(ENCODERS); i++)
        if (strcmp(ENCODERS[i].type, type_of(vision, around->encoder)) == 0) {
            *encoder = ENCODERS[i].rows;
            return true;
        }
    return false;
}
