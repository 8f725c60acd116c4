/* presets_transformer.c - the transformers that Weft knows by name.
 *
 * Models from papers have their papers' shapes, sequence lengths and implementations (what they
 * keep for the backward pass); current models have the values of their public configurations, with
 * the sequence length they were first trained at. Where two papers share a shape they share a
 * preset.
 */
#include "model/families.h"

#define ACESO     "Aceso Table 2"
#define GALVATRON "Galvatron-BMW Table I"
#define AUTODDL   "AutoDDL Sec. 5"
#define PROTEUS   "Proteus Sec. VIII"
#define FOLD3D    "Fold3D Table 1"
#define SC21      "Megatron-LM SC'21 Table 1"
#define SEQSEL    "Korthikanti et al., Table 3"
#define PUBLIC    "public configuration"
/* What their norms add (rms_norm_eps, layer_norm_eps), by their config.json; 1e-5 is the default. */
#define FINE   ", norm_epsilon: 1e-6"
#define FINEST ", norm_epsilon: 1e-12"

/* The settings with which the papers' systems trained them. */
#define MEGATRON   ", seq: 2048, vocab: 51200, attention: fused, dtype: fp16"
#define TITAN_BERT ", seq: 512, attention: eager, dtype: fp32"
#define TITAN_VIT  ", attention: eager, dtype: fp32"
#define TITAN_T5   ", hidden: 1024, heads: 16, attention: eager, norm: eager, dtype: fp32"
#define TITAN_GPT  ", seq: 1024, attention: eager, dtype: fp32"
#define TITAN_SWIN ", hidden: 320, heads: 10, attention: eager, dtype: fp32"
#define ACESO_T5                                                                                   \
    ", hidden: 1024, seq: 2048, decoder_seq: 512, vocab: 30592, activation: gelu, "                \
    "ffn_dropout: false, tied: false, dtype: fp16"
#define FOLD_GPT ", seq: 1024, vocab: 51200, attention: fused, dtype: fp16"
/* GPT-2's 50257 words padded to a multiple of 128, as Megatron-LM does: AutoDDL, section 5.1, takes
 * its models from there. */
#define DAINT  ", seq: 1024, vocab: 50304, attention: fused, dropout: 0"
#define OPT    ", seq: 2048, vocab: 50272, max_positions: 2050, activation: relu, dtype: fp16"
#define NEOX   ", seq: 2048, positions: rotary, parallel: true, tied: false, dropout: 0"
#define LLAMA3 ", vocab: 128256, seq: 8192, rope_base: 500000"
/* rope_scaling of their config.json: type llama3, factor 8 of Llama 3.1, 32 of Llama 3.2. */
#define LLAMA31 LLAMA3 ", rope_scaling: 8"
#define LLAMA32 LLAMA3 ", rope_scaling: 32"
#define QWEN    ", qkv_bias: true, seq: 4096, rope_base: 1000000" FINE
#define QWEN3   ", vocab: 151936, qk_norm: true, rope_base: 1000000" FINE
/* Norms after attention and MLP alone, and of all heads' queries and keys as one vector: its config.json. */
#define OLMO2                                                                                      \
    ", vocab: 100352, seq: 4096, rope_base: 500000, pre_norm: false, end_norm: true, "             \
    "wide_qk_norm: true" FINE
/* Nemotron-4's reports, Table 1 of each: LayerNorm, squared ReLU, half of each head rotated. */
#define NEMOTRON4                                                                                  \
    ", kv_heads: 8, vocab: 256000, seq: 4096, norm: layer, activation: relu2, rotary_share: 0.5"
/* Their config.json, and Megatron-Bridge's nemotron_h_bridge.py for the loss. Lightning has the architecture of Nano (its
 * examples' README). */
#define NEMOTRON3                                                                                  \
    ", router: sigmoid, balance: sequence, balance_weight: 0.0001, "                               \
    "balance_bias: true"
#define NEMOTRON                                                                                   \
    ", heads: 32, kv_heads: 2, head_dim: 128, activation: relu2, vocab: 131072, seq: 8192"
#define DEEPSEEK                                                                                   \
    ", kv_lora: 512, nope_dim: 128, rope_dim: 64, value_dim: 128, seq: 4096"                       \
    ", balance: sequence" FINE
/* Mixture-of-experts settings of the models' public config.json; the balance of DeepSeek-V3 is that of its report,
 * section 4.2, and GLM-4.5's that of its own, section 2.4 (Megatron-Bridge's glm45_bridge.py has 0.001). */
#define MIXTRAL   ", experts: 8, top_k: 2, rope_base: 1000000"
#define QWEN3_MOE ", experts: 128, top_k: 8, balance_weight: 0.001" QWEN3
#define GLM45                                                                                      \
    ", heads: 96, kv_heads: 8, head_dim: 128, top_k: 8, shared_experts: 1, vocab: 151552, "        \
    "seq: 4096, qkv_bias: true, rotary_share: 0.5, rope_base: 1000000, router: sigmoid, "          \
    "balance: sequence, balance_bias: true, balance_weight: 0.0001"
#define DEEPSEEK_V2 ", router: softmax-of-all, balance_weight: 0.001" DEEPSEEK

/* DeepSeek-V3's structure, and what Kimi K2 has in common with it: their config.json. */
#define DEEPSEEK_V3                                                                                \
    "layers: 61, hidden: 7168, q_lora: 1536, ffn: 18432, top_k: 8, expert_ffn: 2048, "             \
    "shared_experts: 1, router: sigmoid, balance_bias: true" DEEPSEEK
/* Three of four layers see the keys of their own chunk of 8192 only, the fourth sees all and has no positions. */
#define LLAMA4                                                                                     \
    "layers: 48, hidden: 5120, heads: 40, kv_heads: 8, head_dim: 128, ffn: 16384, "                \
    "expert_ffn: 8192, top_k: 1, shared_experts: 1, vocab: 202048, seq: 8192, window: 8192, "      \
    "chunked: true, full_every: 4, full_rotary: false, rope_base: 500000, router: sigmoid, "       \
    "balance_weight: 0.001"

#define GEMMA ", end_norm: true, activation: geglu" FINE
#define GPT_OSS                                                                                    \
    ", hidden: 2880, heads: 64, kv_heads: 8, head_dim: 64, ffn: 2880, vocab: 201088, top_k: 4, "   \
    "window: 128, full_every: 2, sinks: true, qkv_bias: true, proj_bias: true, "                   \
    "expert_bias: true, activation: clamped, seq: 4096, rope_base: 150000, balance_weight: 0.9"

const struct preset TRANSFORMER_PRESETS[] = {
    /* GPT-3 shapes, by size */
    {"gpt3-350m", "gpt", "layers: 24, hidden: 1024, heads: 16" MEGATRON, ACESO},
    {"gpt3-1.3b", "gpt", "layers: 24, hidden: 2048, heads: 32" MEGATRON, ACESO},
    {"gpt3-1.7b", "gpt", "layers: 24, hidden: 2304, heads: 24" MEGATRON, SC21},
    {"gpt3-2.6b", "gpt", "layers: 32, hidden: 2560, heads: 32" MEGATRON, ACESO},
    {"gpt3-3.6b", "gpt", "layers: 30, hidden: 3072, heads: 32" MEGATRON, SC21},
    {"gpt3-6.7b", "gpt", "layers: 32, hidden: 4096, heads: 32" MEGATRON, ACESO},
    {"gpt3-7.5b", "gpt", "layers: 36, hidden: 4096, heads: 32" MEGATRON, SC21},
    {"gpt3-13b", "gpt", "layers: 40, hidden: 5120, heads: 40" MEGATRON, ACESO},
    {"gpt3-14b", "gpt", "layers: 32, hidden: 6144, heads: 48" FOLD_GPT, FOLD3D},
    {"gpt3-15b", "gpt", "layers: 48, hidden: 5120, heads: 32" TITAN_GPT, GALVATRON},
    {"gpt3-18b", "gpt", "layers: 40, hidden: 6144, heads: 48" MEGATRON, SC21 ", " FOLD3D},
    {"gpt3-22b", "gpt", "layers: 48, hidden: 6144, heads: 64" MEGATRON, SEQSEL},
    {"gpt3-39b", "gpt", "layers: 48, hidden: 8192, heads: 64" TITAN_GPT,
     GALVATRON ", " FOLD3D ", " SC21},
    {"gpt3-65b", "gpt", "layers: 80, hidden: 8192, heads: 64" TITAN_GPT, GALVATRON},
    {"gpt3-76b", "gpt", "layers: 60, hidden: 10240, heads: 80" MEGATRON, SC21},
    {"gpt3-81b", "gpt", "layers: 64, hidden: 10240, heads: 80" FOLD_GPT, FOLD3D},
    {"gpt3-145b", "gpt", "layers: 80, hidden: 12288, heads: 96" MEGATRON, SC21},
    {"gpt3-175b", "gpt", "layers: 96, hidden: 12288, heads: 96" MEGATRON, SC21},
    {"gpt3-310b", "gpt", "layers: 96, hidden: 16384, heads: 128" MEGATRON, SC21},
    {"gpt3-530b", "gpt", "layers: 105, hidden: 20480, heads: 128" MEGATRON, SC21},
    {"gpt3-1t", "gpt", "layers: 128, hidden: 25600, heads: 160" MEGATRON, SC21},
    {"t-nlg", "gpt", "layers: 80, hidden: 4256, heads: 28" FOLD_GPT, FOLD3D},
    {"cpm", "gpt", "layers: 48, hidden: 5120, heads: 64" FOLD_GPT, FOLD3D},
    {"autoddl-6.8b", "gpt", "layers: 8, hidden: 8192, heads: 64" DAINT, AUTODDL},
    {"autoddl-16.5b", "gpt", "layers: 20, hidden: 8192, heads: 64" DAINT, AUTODDL},
    {"autoddl-35.8b", "gpt", "layers: 44, hidden: 8192, heads: 64" DAINT, AUTODDL},
    {"autoddl-small", "gpt", "layers: 24, hidden: 1024, heads: 16" DAINT, AUTODDL},
    {"autoddl-5.8b", "gpt", "layers: 28, hidden: 4096, heads: 32" DAINT, AUTODDL},
    {"autoddl-wide", "gpt", "layers: 20, hidden: 8192, heads: 64" DAINT, AUTODDL},
    {"autoddl-deep", "gpt", "layers: 36, hidden: 4096, heads: 32" DAINT, AUTODDL},

    /* GPT-2 and its open successors */
    {"gpt2", "gpt", "layers: 12, hidden: 768, heads: 12", PUBLIC ", " PROTEUS},
    {"gpt2-medium", "gpt", "layers: 24, hidden: 1024, heads: 16", PUBLIC},
    {"gpt2-large", "gpt", "layers: 36, hidden: 1280, heads: 20", PUBLIC},
    {"gpt2-xl", "gpt", "layers: 48, hidden: 1600, heads: 25", PUBLIC},
    {"gpt-1.5b", "gpt", "layers: 48, hidden: 1600, heads: 25", PROTEUS},
    {"opt-125m", "gpt", "layers: 12, hidden: 768, heads: 12" OPT, PUBLIC},
    {"opt-1.3b", "gpt", "layers: 24, hidden: 2048, heads: 32" OPT, PUBLIC},
    {"opt-2.7b", "gpt", "layers: 32, hidden: 2560, heads: 32" OPT, PUBLIC},
    {"opt-6.7b", "gpt", "layers: 32, hidden: 4096, heads: 32" OPT, PUBLIC},
    {"opt-13b", "gpt", "layers: 40, hidden: 5120, heads: 40" OPT, PUBLIC},
    {"opt-30b", "gpt", "layers: 48, hidden: 7168, heads: 56" OPT, PUBLIC},
    {"opt-66b", "gpt", "layers: 64, hidden: 9216, heads: 72" OPT, PUBLIC},
    {"opt-175b", "gpt", "layers: 96, hidden: 12288, heads: 96" OPT, PUBLIC},
    {"pythia-1.4b", "gpt", "layers: 24, hidden: 2048, heads: 16, vocab: 50304" NEOX, PUBLIC},
    {"pythia-6.9b", "gpt", "layers: 32, hidden: 4096, heads: 32, vocab: 50432" NEOX, PUBLIC},
    {"pythia-12b", "gpt", "layers: 36, hidden: 5120, heads: 40, vocab: 50688" NEOX, PUBLIC},
    {"gpt-neox-20b", "gpt", "layers: 44, hidden: 6144, heads: 64, vocab: 50432" NEOX, PUBLIC},

    /* LLaMA and its kin */
    {"llama2-7b", "llama", "layers: 32, hidden: 4096, heads: 32, ffn: 11008", PUBLIC},
    {"llama2-13b", "llama", "layers: 40, hidden: 5120, heads: 40, ffn: 13824", PUBLIC},
    {"llama2-70b", "llama", "layers: 80, hidden: 8192, heads: 64, kv_heads: 8, ffn: 28672", PUBLIC},
    {"llama3-8b", "llama", "layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336" LLAMA3,
     PUBLIC},
    {"llama3-70b", "llama", "layers: 80, hidden: 8192, heads: 64, kv_heads: 8, ffn: 28672" LLAMA3,
     PUBLIC},
    {"llama3.1-8b", "llama", "layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336" LLAMA31,
     PUBLIC},
    {"llama3.1-70b", "llama",
     "layers: 80, hidden: 8192, heads: 64, kv_heads: 8, ffn: 28672" LLAMA31, PUBLIC},
    {"llama3.1-405b", "llama",
     "layers: 126, hidden: 16384, heads: 128, kv_heads: 8, ffn: 53248" LLAMA31, PUBLIC},
    {"llama3.2-1b", "llama",
     "layers: 16, hidden: 2048, heads: 32, kv_heads: 8, ffn: 8192, tied: true" LLAMA32, PUBLIC},
    {"llama3.2-3b", "llama",
     "layers: 28, hidden: 3072, heads: 24, kv_heads: 8, ffn: 8192, tied: true" LLAMA32, PUBLIC},
    {"mistral-7b", "llama",
     "layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, seq: 8192, "
     "rope_base: 1000000",
     PUBLIC},
    {"qwen2.5-0.5b", "llama",
     "layers: 24, hidden: 896, heads: 14, kv_heads: 2, ffn: 4864, vocab: 151936, tied: true" QWEN,
     PUBLIC},
    {"qwen2.5-1.5b", "llama",
     "layers: 28, hidden: 1536, heads: 12, kv_heads: 2, ffn: 8960, vocab: 151936, tied: true" QWEN,
     PUBLIC},
    {"qwen2.5-3b", "llama",
     "layers: 36, hidden: 2048, heads: 16, kv_heads: 2, ffn: 11008, vocab: 151936, tied: true" QWEN,
     PUBLIC},
    {"qwen2.5-7b", "llama",
     "layers: 28, hidden: 3584, heads: 28, kv_heads: 4, ffn: 18944, vocab: 152064" QWEN, PUBLIC},
    {"qwen2.5-14b", "llama",
     "layers: 48, hidden: 5120, heads: 40, kv_heads: 8, ffn: 13824, vocab: 152064" QWEN, PUBLIC},
    {"qwen2.5-32b", "llama",
     "layers: 64, hidden: 5120, heads: 40, kv_heads: 8, ffn: 27648, vocab: 152064" QWEN, PUBLIC},
    {"qwen2.5-72b", "llama",
     "layers: 80, hidden: 8192, heads: 64, kv_heads: 8, ffn: 29568, vocab: 152064" QWEN, PUBLIC},
    {"qwen3-0.6b", "llama",
     "layers: 28, hidden: 1024, heads: 16, kv_heads: 8, head_dim: 128, ffn: 3072, tied: true" QWEN3,
     PUBLIC},
    {"qwen3-1.7b", "llama",
     "layers: 28, hidden: 2048, heads: 16, kv_heads: 8, head_dim: 128, ffn: 6144, tied: true" QWEN3,
     PUBLIC},
    {"qwen3-4b", "llama",
     "layers: 36, hidden: 2560, heads: 32, kv_heads: 8, head_dim: 128, ffn: 9728, tied: true" QWEN3,
     PUBLIC},
    {"qwen3-8b", "llama",
     "layers: 36, hidden: 4096, heads: 32, kv_heads: 8, head_dim: 128, ffn: 12288" QWEN3, PUBLIC},
    {"qwen3-14b", "llama",
     "layers: 40, hidden: 5120, heads: 40, kv_heads: 8, head_dim: 128, ffn: 17408" QWEN3, PUBLIC},
    {"qwen3-32b", "llama",
     "layers: 64, hidden: 5120, heads: 64, kv_heads: 8, head_dim: 128, ffn: 25600" QWEN3, PUBLIC},
    {"olmo2-1b", "llama", "layers: 16, hidden: 2048, heads: 16, ffn: 8192" OLMO2, PUBLIC},
    {"olmo2-7b", "llama", "layers: 32, hidden: 4096, heads: 32, ffn: 11008" OLMO2, PUBLIC},
    {"olmo2-13b", "llama", "layers: 40, hidden: 5120, heads: 40, ffn: 13824" OLMO2, PUBLIC},
    {"olmo2-32b", "llama", "layers: 64, hidden: 5120, heads: 40, kv_heads: 8, ffn: 27648" OLMO2,
     PUBLIC},
    {"gemma-2b", "llama",
     "layers: 18, hidden: 2048, heads: 8, kv_heads: 1, head_dim: 256, ffn: 16384, vocab: 256000, "
     "tied: true, seq: 8192, activation: geglu" FINE,
     PUBLIC},
    {"gemma-7b", "llama",
     "layers: 28, hidden: 3072, heads: 16, head_dim: 256, ffn: 24576, vocab: 256000, tied: true, "
     "seq: 8192, activation: geglu" FINE,
     PUBLIC},
    {"gemma2-9b", "llama",
     "layers: 42, hidden: 3584, heads: 16, kv_heads: 8, head_dim: 256, ffn: 14336, vocab: 256000, "
     "tied: true, seq: 8192, window: 4096, full_every: 2" GEMMA,
     PUBLIC},
    {"gemma2-27b", "llama",
     "layers: 46, hidden: 4608, heads: 32, kv_heads: 16, head_dim: 128, ffn: 36864, vocab: 256000, "
     "tied: true, seq: 8192, window: 4096, full_every: 2" GEMMA,
     PUBLIC},
    {"gemma3-1b", "llama",
     "layers: 26, hidden: 1152, heads: 4, kv_heads: 1, head_dim: 256, ffn: 6912, vocab: 262144, "
     "tied: true, seq: 8192, window: 512, full_every: 6, qk_norm: true, rope_base: 1000000, "
     "local_rope_base: 10000" GEMMA,
     PUBLIC},
    {"phi3-mini", "llama", "layers: 32, hidden: 3072, heads: 32, ffn: 8192, vocab: 32064", PUBLIC},
    {"nemotron-4-15b", "llama", "layers: 32, hidden: 6144, heads: 48, ffn: 24576" NEMOTRON4,
     "Nemotron-4 15B, Table 1"},
    {"nemotron-4-340b", "llama", "layers: 96, hidden: 18432, heads: 96, ffn: 73728" NEMOTRON4,
     "Nemotron-4 340B, Table 1"},

    /* Mixtures of experts */
    {"mixtral-8x7b", "moe",
     "layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, balance_weight: 0.02" MIXTRAL,
     PUBLIC},
    {"mixtral-8x22b", "moe",
     "layers: 56, hidden: 6144, heads: 48, kv_heads: 8, ffn: 16384, balance_weight: 0.001" MIXTRAL,
     PUBLIC},
    {"gpt-oss-20b", "moe", "layers: 24, experts: 32" GPT_OSS, PUBLIC},
    {"gpt-oss-120b", "moe", "layers: 36, experts: 128" GPT_OSS, PUBLIC},
    {"qwen1.5-moe-a2.7b", "moe",
     "layers: 24, hidden: 2048, heads: 16, experts: 60, top_k: 4, expert_ffn: 1408, "
     "shared_experts: 1, shared_ffn: 5632, shared_gate: true, vocab: 151936, "
     "router: softmax-of-all, balance_weight: 0.001" QWEN,
     PUBLIC},
    {"qwen3-30b-a3b", "moe",
     "layers: 48, hidden: 2048, heads: 32, kv_heads: 4, head_dim: 128, expert_ffn: 768" QWEN3_MOE,
     PUBLIC},
    {"qwen3-235b-a22b", "moe",
     "layers: 94, hidden: 4096, heads: 64, kv_heads: 4, head_dim: 128, expert_ffn: 1536" QWEN3_MOE,
     PUBLIC},
    {"qwen3-coder-480b-a35b", "moe",
     "layers: 62, hidden: 6144, heads: 96, kv_heads: 8, head_dim: 128, expert_ffn: 2560, "
     "experts: 160, top_k: 8, vocab: 151936, qk_norm: true, rope_base: 10000000, "
     "balance_weight: 0.001" FINE,
     PUBLIC},
    {"qwen3-next-80b-a3b", "moe",
     "layers: 48, hidden: 2048, heads: 16, kv_heads: 2, head_dim: 256, experts: 512, top_k: 10, "
     "expert_ffn: 512, shared_experts: 1, shared_gate: true, vocab: 151936, qk_norm: true, "
     "output_gate: true, "
     "rotary_share: 0.25, rope_base: 10000000, delta_heads: 32, delta_key_heads: 16, "
     "full_every: 4, balance_weight: 0.001" FINE,
     PUBLIC},
    {"glm-4.5-air", "moe",
     "layers: 46, hidden: 4096, ffn: 10944, experts: 128, expert_ffn: 1408, first_dense: 1" GLM45,
     PUBLIC},
    {"glm-4.5", "moe",
     "layers: 92, hidden: 5120, ffn: 12288, experts: 160, expert_ffn: 1536, first_dense: 3, "
     "qk_norm: true, router_scale: 2.5" GLM45,
     PUBLIC},
    {"llama4-scout", "moe", "experts: 16, qk_norm: true, " LLAMA4, PUBLIC},
    {"llama4-maverick", "moe", "experts: 128, moe_every: 2, " LLAMA4, PUBLIC},
    {"deepseek-v2-lite", "moe",
     "layers: 27, hidden: 2048, heads: 16, ffn: 10944, first_dense: 1, experts: 64, top_k: 6, "
     "expert_ffn: 1408, shared_experts: 2, vocab: 102400" DEEPSEEK_V2,
     PUBLIC},
    {"deepseek-v2", "moe",
     "layers: 60, hidden: 5120, heads: 128, q_lora: 1536, ffn: 12288, first_dense: 1, "
     "experts: 160, top_k: 6, expert_ffn: 1536, shared_experts: 2, vocab: 102400, "
     "router_groups: 8, router_group_top_k: 3, router_scale: 16" DEEPSEEK_V2,
     PUBLIC},
    {"deepseek-v3", "moe",
     "heads: 128, first_dense: 3, experts: 256, vocab: 129280, router_groups: 8, "
     "router_group_top_k: 4, router_scale: 2.5, balance_weight: 0.0001, " DEEPSEEK_V3,
     PUBLIC},
    {"deepseek-v3.2", "moe",
     "heads: 128, first_dense: 3, experts: 256, vocab: 129280, router_groups: 8, "
     "router_group_top_k: 4, router_scale: 2.5, balance_weight: 0.0001, index_top_k: 2048, "
     "index_heads: 64, index_dim: 128, " DEEPSEEK_V3,
     PUBLIC},
    {"deepseek-v4-flash", "moe",
     "layers: 43, hidden: 4096, heads: 64, head_dim: 512, q_lora: 1024, rope_dim: 64, window: 128, "
     "sinks: true, compress: 4, compress_heavy: 128, compress_first: 2, index_top_k: 512, "
     "index_heads: 64, index_dim: 128, o_groups: 8, o_lora: 1024, streams: 4, experts: 256, "
     "top_k: 6, expert_ffn: 2048, shared_experts: 1, vocab: 129280, router: sigmoid, "
     "router_scale: 1.5, balance: sequence, balance_bias: true, balance_weight: 0.0001" FINE,
     PUBLIC},
    {"kimi-k2", "moe",
     "heads: 64, first_dense: 1, experts: 384, vocab: 163840, router_scale: 2.827, "
     "rope_base: 50000, balance_weight: 0.001, " DEEPSEEK_V3,
     PUBLIC},

    /* State-space layers, attention, MLPs and experts by a pattern */
    {"nemotron-h-8b", "hybrid",
     "pattern: M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-, hidden: 4096, ffn: 21504, "
     "heads: 32, kv_heads: 8, head_dim: 128, mamba_heads: 128",
     PUBLIC},
    {"nemotron-h-56b", "hybrid",
     "pattern: M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-"
     "M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-, hidden: 8192, ffn: 32768, heads: 64, kv_heads: 8, "
     "head_dim: 128, mamba_heads: 256, state: 256",
     PUBLIC},
    {"nemotron-nano-9b-v2", "hybrid",
     "pattern: M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-, hidden: 4480, ffn: 15680, "
     "heads: 40, kv_heads: 8, head_dim: 128, mamba_heads: 128, mamba_dim: 80",
     PUBLIC},
    {"nemotron-3-nano", "hybrid",
     "pattern: MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME, hidden: 2688, ffn: 1856, "
     "mamba_heads: 64, experts: 128, top_k: 6, expert_ffn: 1856, shared_ffn: 3712, router_scale: "
     "2.5" NEMOTRON NEMOTRON3,
     PUBLIC},
    {"nemotron-3.5-lightning", "hybrid",
     "pattern: MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME, hidden: 2688, ffn: 1856, "
     "mamba_heads: 64, experts: 128, top_k: 6, expert_ffn: 1856, shared_ffn: 3712, router_scale: "
     "2.5, mtp: 2" NEMOTRON NEMOTRON3,
     PUBLIC},
    {"nemotron-3-super", "hybrid",
     "pattern: MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*"
     "EMEMEMEME, hidden: 4096, ffn: 2688, mamba_heads: 128, experts: 512, top_k: 22, "
     "expert_ffn: 2688, shared_ffn: 5376, latent: 1024, mtp: 2" NEMOTRON NEMOTRON3
     ", router_scale: 5",
     PUBLIC},
    {"nemotron-3-ultra", "hybrid",
     "pattern: MEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*"
     "EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME, hidden: 8192, ffn: 5120, mamba_heads: 256, "
     "experts: 512, top_k: 22, expert_ffn: 5120, shared_ffn: 10240, latent: 2048, mtp: 2, "
     "heads: 64, kv_heads: 2, head_dim: 128" NEMOTRON3,
     PUBLIC},
    {"codestral-mamba-7b", "hybrid",
     "pattern: M, layers: 64, hidden: 4096, vocab: 32768, chunk: 256, seq: 4096", PUBLIC},

    /* Encoders */
    {"bert-base", "bert", "layers: 12, hidden: 768, heads: 12" FINEST, PUBLIC},
    {"bert-large", "bert", "layers: 24, hidden: 1024, heads: 16" FINEST, PUBLIC},
    {"bert-huge-32", "bert", "layers: 32, hidden: 1280, heads: 16" TITAN_BERT, GALVATRON},
    {"bert-huge-48", "bert", "layers: 48, hidden: 1280, heads: 16" TITAN_BERT, GALVATRON},
    {"bert-xhuge", "bert", "layers: 128, hidden: 2560, heads: 32" TITAN_BERT, GALVATRON},
    {"fold3d-bert", "bert",
     "layers: 72, hidden: 7344, heads: 48, seq: 1024, attention: fused, dtype: fp16", FOLD3D},

    /* Encoders with decoders */
    {"t5-small", "t5", "layers: 6, hidden: 512, heads: 8, ffn: 2048" FINE, PUBLIC},
    {"t5-base", "t5", "layers: 12, hidden: 768, heads: 12, ffn: 3072" FINE, PUBLIC},
    {"t5-large", "t5", "layers: 24, hidden: 1024, heads: 16, ffn: 4096" FINE, PUBLIC},
    {"t5-large-32", "t5", "layers: 16" TITAN_T5, GALVATRON},
    {"t5-large-48", "t5", "layers: 24" TITAN_T5, GALVATRON},
    {"t5-512-4-32", "t5", "layers: 16, decoder_seq: 4" TITAN_T5, GALVATRON},
    {"t5-512-4-48", "t5", "layers: 24, decoder_seq: 4" TITAN_T5, GALVATRON},
    {"t5-770m", "t5", "layers: 24, heads: 16, d_kv: 64, ffn: 4096" ACESO_T5, ACESO},
    {"t5-3b", "t5", "layers: 24, heads: 32, d_kv: 128, ffn: 16384" ACESO_T5, ACESO},
    {"t5-6b", "t5", "layers: 24, heads: 64, d_kv: 128, ffn: 32768" ACESO_T5, ACESO},
    {"t5-11b", "t5", "layers: 24, heads: 128, d_kv: 128, ffn: 65536" ACESO_T5, ACESO},
    {"t5-22b", "t5", "layers: 48, heads: 128, d_kv: 128, ffn: 65536" ACESO_T5, ACESO},
    {"fold3d-t5", "t5",
     "layers: 24, hidden: 1024, heads: 128, d_kv: 128, ffn: 65536, seq: 1024, decoder_seq: 1024, "
     "dtype: fp16",
     FOLD3D},

    /* Images */
    {"vit-base", "vit", "layers: 12, hidden: 768, heads: 12" FINEST, PUBLIC},
    {"vit-large", "vit", "layers: 24, hidden: 1024, heads: 16" FINEST, PUBLIC},
    {"vit-huge", "vit", "layers: 32, hidden: 1280, heads: 16, patch: 14" FINEST, PUBLIC},
    {"vit-huge-32", "vit", "layers: 32, hidden: 1280, heads: 16" TITAN_VIT, GALVATRON},
    {"vit-huge-48", "vit", "layers: 48, hidden: 1280, heads: 16" TITAN_VIT, GALVATRON},
    {"vit-xhuge", "vit", "layers: 128, hidden: 2560, heads: 32" TITAN_VIT, GALVATRON},
    {"swin-tiny", "swin", "depths: [2, 2, 6, 2], hidden: 96, heads: 3", PUBLIC},
    {"swin-base", "swin", "depths: [2, 2, 18, 2], hidden: 128, heads: 4", PUBLIC},
    {"swin-large", "swin", "depths: [2, 2, 18, 2], hidden: 192, heads: 6", PUBLIC},
    {"swin-huge-32", "swin", "depths: [2, 2, 26, 2]" TITAN_SWIN, GALVATRON},
    {"swin-huge-48", "swin", "depths: [2, 2, 42, 2]" TITAN_SWIN, GALVATRON},
};
const size_t TRANSFORMER_PRESET_COUNT = COUNT_OF(TRANSFORMER_PRESETS);
