/* presets_vision.c - the vision-language models that Weft knows by name: a decoder and the tower beside it (vision.h).
 *
 * Sizes are those of the models' public config.json, and numbers of parameters are those of their published weights
 * (tests/model/test_towers.c has the arithmetic). An image has the size that the encoder was trained with; Qwen's, whose
 * images have any size, has 896 pixels: 1,024 tokens. LLaVA's and Llama 4's text is that of Vicuna and of the presets
 * without a tower.
 */
#include "model/families.h"

#define PUBLIC "public configuration"
#define FINE   ", norm_epsilon: 1e-6" /* what their norms add, as in presets_transformer.c */

/* Windows of 8 x 8 patches; every eighth layer sees the whole image. */
#define QWEN_VISION                                                                                \
    ", qkv_bias: true, seq: 4096, rope_base: 1000000, vision_layers: 32, vision_hidden: 1280, "    \
    "vision_heads: 16, vision_image: 896, vision_patch: 14, vision_frames: 2, vision_window: 64, " \
    "vision_full_every: 8, vision_merge: 2, vision_rotary: true, vision_norm: rms, "               \
    "vision_activation: swiglu, projector_norm: rms, projector_ffn: 5120" FINE
/* CLIP's ViT-L/14 for 336 pixels. */
#define CLIP_VISION                                                                                \
    ", vocab: 32064, seq: 4096, vision_layers: 24, vision_hidden: 1024, vision_heads: 16, "        \
    "vision_ffn: 4096, vision_image: 336, vision_patch: 14, vision_class_token: true, "            \
    "vision_positions: true, vision_pre_norm: true, vision_post_norm: true"
/* SigLIP's So400m/14 for 896 pixels, 4 x 4 patches of which become one token. */
#define GEMMA_VISION                                                                               \
    ", vocab: 262208, tied: true, seq: 8192, window: 1024, full_every: 6, "                        \
    "qk_norm: true, end_norm: true, activation: geglu, rope_base: 1000000, "                       \
    "local_rope_base: 10000, vision_layers: 27, vision_hidden: 1152, vision_heads: 16, "           \
    "vision_ffn: 4304, vision_image: 896, vision_patch: 14, vision_positions: true, "              \
    "vision_patch_bias: true, vision_post_norm: true, vision_merge: 4, vision_pool: true, "        \
    "projector_layers: 1, projector_norm: rms, projector_bias: false" FINE
#define PIXTRAL_VISION                                                                             \
    "vision_layers: 24, vision_hidden: 1024, vision_heads: 16, vision_ffn: 4096, "                 \
    "vision_image: 1024, vision_patch: 16, vision_rotary: true, vision_pre_norm: true, "           \
    "vision_bias: false, vision_norm: rms, vision_activation: swiglu"
/* A table of 48 x 48 positions; features after three layers are added in the decoder's first three (deepstack). */
#define QWEN3_VISION                                                                               \
    ", vocab: 151936, qk_norm: true, head_dim: 128, seq: 4096, rope_base: 5000000, "               \
    "vision_heads: 16, vision_image: 768, vision_patch: 16, vision_frames: 2, vision_merge: 2, "   \
    "vision_positions: true, vision_rotary: true, vision_patch_bias: true, projector_norm: "       \
    "layer, "
#define QWEN3_VISION_SMALL                                                                         \
    QWEN3_VISION "vision_layers: 24, vision_hidden: 1024, vision_ffn: 4096, "                      \
                 "vision_taps: [6, 12, 18], projector_ffn: 4096" FINE
#define QWEN3_VISION_LARGE                                                                         \
    QWEN3_VISION "vision_layers: 27, vision_hidden: 1152, vision_ffn: 4304, "                      \
                 "vision_taps: [9, 17, 25], projector_ffn: 4608" FINE
/* Four tiles of 560 pixels, which see each other; six layers' features side by side; the decoder's every fifth layer
 * attends to them. */
#define LLAMA32_VISION                                                                             \
    ", kv_heads: 8, vocab: 128256, seq: 8192, rope_base: 500000, rope_scaling: 8, "                \
    "cross_first: 3, cross_every: 5, "                                                             \
    "vision_layers: 32, vision_global_layers: 8, vision_hidden: 1280, vision_heads: 16, "          \
    "vision_ffn: 5120, vision_image: 560, vision_patch: 14, vision_tiles: 4, "                     \
    "vision_tile_shapes: 9, vision_taps: [3, 7, 15, 23, 30], vision_class_token: true, "           \
    "vision_positions: true, vision_pre_norm: true, vision_post_norm: true, "                      \
    "vision_attention_bias: false, projector_layers: 1"
/* CLIP's ends around layers like the decoder's, as pretrain_vlm.py builds them. */
#define MEGATRON_VISION                                                                            \
    "vision_image: 336, vision_patch: 14, vision_class_token: true, vision_positions: true, "      \
    "vision_pre_norm: true"
#define LLAMA4                                                                                     \
    "layers: 48, hidden: 5120, heads: 40, kv_heads: 8, head_dim: 128, ffn: 16384, "                \
    "expert_ffn: 8192, top_k: 1, shared_experts: 1, vocab: 202048, seq: 8192, window: 8192, "      \
    "chunked: true, full_every: 4, full_rotary: false, rope_base: 500000, router: sigmoid, "       \
    "balance_weight: 0.001, vision_layers: 34, vision_hidden: 1408, vision_heads: 16, "            \
    "vision_ffn: 5632, vision_image: 336, vision_patch: 14, vision_class_token: true, "            \
    "vision_positions: true, vision_rotary: true, vision_pre_norm: true, vision_post_norm: true, " \
    "vision_merge: 2, projector_layers: 3, projector_ffn: 4096, projector_bias: false"

const struct preset VISION_PRESETS[] = {
    {"qwen2.5-vl-3b", "llama",
     "layers: 36, hidden: 2048, heads: 16, kv_heads: 2, ffn: 11008, vocab: 151936, tied: true, "
     "vision_ffn: 3420" QWEN_VISION,
     PUBLIC},
    {"qwen2.5-vl-7b", "llama",
     "layers: 28, hidden: 3584, heads: 28, kv_heads: 4, ffn: 18944, vocab: 152064, "
     "vision_ffn: 3420" QWEN_VISION,
     PUBLIC},
    {"qwen2.5-vl-72b", "llama",
     "layers: 80, hidden: 8192, heads: 64, kv_heads: 8, ffn: 29568, vocab: 152064, "
     "vision_ffn: 3456" QWEN_VISION,
     PUBLIC},
    {"qwen3-vl-2b", "llama",
     "layers: 28, hidden: 2048, heads: 16, kv_heads: 8, ffn: 6144, tied: true" QWEN3_VISION_SMALL,
     PUBLIC},
    {"qwen3-vl-4b", "llama",
     "layers: 36, hidden: 2560, heads: 32, kv_heads: 8, ffn: 9728, tied: true" QWEN3_VISION_SMALL,
     PUBLIC},
    {"qwen3-vl-8b", "llama",
     "layers: 36, hidden: 4096, heads: 32, kv_heads: 8, ffn: 12288" QWEN3_VISION_LARGE, PUBLIC},
    {"qwen3-vl-32b", "llama",
     "layers: 64, hidden: 5120, heads: 64, kv_heads: 8, ffn: 25600" QWEN3_VISION_LARGE, PUBLIC},
    {"qwen3-vl-30b-a3b", "moe",
     "layers: 48, hidden: 2048, heads: 32, kv_heads: 4, experts: 128, top_k: 8, expert_ffn: 768, "
     "balance_weight: 0.001" QWEN3_VISION_LARGE,
     PUBLIC},
    {"qwen3-vl-235b-a22b", "moe",
     "layers: 94, hidden: 4096, heads: 64, kv_heads: 4, experts: 128, top_k: 8, expert_ffn: 1536, "
     "balance_weight: 0.001" QWEN3_VISION_LARGE,
     PUBLIC},
    {"llama3.2-11b-vision", "llama",
     "layers: 40, hidden: 4096, heads: 32, ffn: 14336" LLAMA32_VISION, PUBLIC},
    {"llama3.2-90b-vision", "llama",
     "layers: 100, hidden: 8192, heads: 64, ffn: 28672" LLAMA32_VISION, PUBLIC},
    {"llava-1.5-7b", "llama", "layers: 32, hidden: 4096, heads: 32, ffn: 11008" CLIP_VISION,
     PUBLIC},
    {"llava-1.5-13b", "llama", "layers: 40, hidden: 5120, heads: 40, ffn: 13824" CLIP_VISION,
     PUBLIC},
    {"gemma3-4b", "llama",
     "layers: 34, hidden: 2560, heads: 8, kv_heads: 4, head_dim: 256, ffn: 10240" GEMMA_VISION,
     PUBLIC},
    {"gemma3-27b", "llama",
     "layers: 62, hidden: 5376, heads: 32, kv_heads: 16, head_dim: 128, ffn: 21504" GEMMA_VISION,
     PUBLIC},
    {"pixtral-12b", "llama",
     "layers: 40, hidden: 5120, heads: 32, kv_heads: 8, head_dim: 128, ffn: 14336, "
     "vocab: 131072, seq: 8192, rope_base: 1000000000, " PIXTRAL_VISION,
     PUBLIC},
    {"multimodal-llava", "gpt",
     "layers: 12, hidden: 1024, heads: 16, vocab: 8194, seq: 1808, dropout: 0, tied: false, "
     "vision_layers: 12, vision_hidden: 1024, vision_heads: 16, vision_ffn: 4096, "
     "projector_norm: layer, projector_ffn: 4096, " MEGATRON_VISION,
     "Megatron-LM's functional tests"},
    {"llama4-scout-vision", "moe", "experts: 16, qk_norm: true, " LLAMA4, PUBLIC},
    {"llama4-maverick-vision", "moe", "experts: 128, moe_every: 2, " LLAMA4, PUBLIC},
};
const size_t VISION_PRESET_COUNT = COUNT_OF(VISION_PRESETS);
