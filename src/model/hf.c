/* hf.c - the keys of Hugging Face's config.json, architecture by architecture. */
#include "model/hf_rows.h"

static const struct hf_row GPT2[] = {
    {"n_layer", "layers", RULE_COUNT, "12"},
    {"n_embd", "hidden", RULE_COUNT, "768"},
    {"n_head", "heads", RULE_COUNT, "12"},
    {"n_inner", "ffn", RULE_COUNT, NULL},
    {"n_positions", "seq", RULE_COUNT, "1024"},
    {"vocab_size", "vocab", RULE_COUNT, "50257"},
    {"resid_pdrop", "dropout", RULE_SHARE, "0.1"},
    {"activation_function", "activation", RULE_ACT, "gelu_new"},
    EPSILON("layer_norm_epsilon", "1e-5"),
    TIED("true"),
    DTYPE,
};

static const struct hf_row GPT_NEOX[] = {
    DECODER("44", "6144", "64", "24576", "50432", "2048"),
    {"use_parallel_residual", "parallel", RULE_BOOL, "true"},
    {"hidden_dropout", "dropout", RULE_SHARE, "0"},
    {"attention_bias", "bias", RULE_BOOL, "true"},
    {"hidden_act", "activation", RULE_ACT, "gelu"},
    {NULL, "positions", RULE_FIXED, "rotary"},
    EPSILON("layer_norm_eps", "1e-5"),
    TIED("false"),
    {"rotary_emb_base", "rope_base", RULE_SHARE, "10000"},
};

static const struct hf_row OPT[] = {
    {"num_hidden_layers", "layers", RULE_COUNT, "12"},
    {"hidden_size", "hidden", RULE_COUNT, "768"},
    {"num_attention_heads", "heads", RULE_COUNT, "12"},
    {"ffn_dim", "ffn", RULE_COUNT, "3072"},
    {"vocab_size", "vocab", RULE_COUNT, "50272"},
    {"max_position_embeddings", "seq", RULE_COUNT, "2048"},
    {"max_position_embeddings", "max_positions", RULE_PLUS_TWO, "2048"},
    {"dropout", "dropout", RULE_SHARE, "0.1"},
    {"enable_bias", "bias", RULE_BOOL, "true"},
    {"activation_function", "activation", RULE_ACT, "relu"},
    {"do_layer_norm_before", NULL, RULE_EXPECTED, "true"},
    TIED("true"),
    DTYPE,
};

static const struct hf_row LLAMA[] = {
    DECODER("32", "4096", "32", "11008", "32000", "2048"),
    KV_HEADS(NULL),
    HEAD_DIM(NULL),
    ATTENTION_BIAS("false"),
    {"mlp_bias", NULL, RULE_EXPECTED, "false"},
    RMS("1e-6"),
    TIED("false"),
    ROPE("10000"),
};

/* Its table of words has eight rows more than its head: too few to matter. */
static const struct hf_row MLLAMA_TEXT[] = {
    DECODER("40", "4096", "32", "14336", "128256", "131072"),
    KV_HEADS("8"),
    {"cross_attention_layers", "cross_every", RULE_CROSS, "[3, 8, 13, 18, 23, 28, 33, 38]"},
    RMS("1e-5"),
    TIED("false"),
    ROPE("500000"),
};

static const struct hf_row MISTRAL[] = {
    DECODER("32", "4096", "32", "14336", "32000", "131072"),
    KV_HEADS("8"),
    HEAD_DIM(NULL),
    WINDOW("4096"),
    RMS("1e-6"),
    TIED("false"),
    ROPE("10000"),
};

static const struct hf_row MIXTRAL[] = {
    DECODER("32", "4096", "32", "14336", "32000", "131072"),
    KV_HEADS("8"),
    HEAD_DIM(NULL),
    {"num_local_experts", "experts", RULE_COUNT, "8"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "2"},
    WINDOW(NULL),
    RMS("1e-5"),
    TIED("false"),
    ROPE("1000000"),
    BALANCE("0.001"),
};

static const struct hf_row GPT_OSS[] = {
    DECODER("36", "2880", "64", "2880", "201088", "131072"),
    KV_HEADS("8"),
    HEAD_DIM("64"),
    {"num_local_experts", "experts", RULE_COUNT, "128"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "4"},
    ATTENTION_BIAS("true"),
    {NULL, "expert_bias", RULE_FIXED, "true"},
    {NULL, "sinks", RULE_FIXED, "true"},
    {NULL, "activation", RULE_FIXED, "clamped"},
    WINDOW("128"),
    FULL("2"),
    RMS("1e-5"),
    TIED("false"),
    ROPE("150000"),
    BALANCE("0.9"),
};

static const struct hf_row QWEN2[] = {
    DECODER("32", "4096", "32", "22016", "151936", "32768"),
    KV_HEADS("32"),
    {NULL, "qkv_bias", RULE_FIXED, "true"},
    NO_WINDOW,
    RMS("1e-6"),
    TIED("false"),
    ROPE("10000"),
};

static const struct hf_row QWEN3[] = {
    DECODER("32", "4096", "32", "22016", "151936", "32768"),
    KV_HEADS("32"),
    HEAD_DIM("128"),
    ATTENTION_BIAS("false"),
    {NULL, "qk_norm", RULE_FIXED, "true"},
    NO_WINDOW,
    RMS("1e-6"),
    TIED("false"),
    ROPE("10000"),
};

/* What the mixtures of Qwen have in common. */
#define QWEN_EXPERTS(experts, chosen, ffn, normed)                                                 \
    {"num_experts", "experts", RULE_COUNT, experts},                                               \
        {"num_experts_per_tok", "top_k", RULE_COUNT, chosen},                                      \
        {"moe_intermediate_size", "expert_ffn", RULE_COUNT, ffn},                                  \
        {"decoder_sparse_step", "moe_every", RULE_COUNT, "1"},                                     \
        {"mlp_only_layers", NULL, RULE_EXPECTED, "[]"}, NO_WINDOW, RMS("1e-6"), TIED("false"),     \
        ROPE("10000"), NORMED(normed), BALANCE("0.001")
#define SHARED_EXPERT(ffn)                                                                         \
    {"shared_expert_intermediate_size", "shared_ffn", RULE_COUNT, ffn},                            \
        {NULL, "shared_experts", RULE_FIXED, "1"}, {NULL, "shared_gate", RULE_FIXED, "true"}

static const struct hf_row QWEN2_MOE[] = {
    DECODER("24", "2048", "16", "5632", "151936", "32768"),
    QWEN_EXPERTS("60", "4", "1408", "false"),
    SHARED_EXPERT("5632"),
    KV_HEADS("16"),
    {NULL, "qkv_bias", RULE_FIXED, "true"},
};

static const struct hf_row QWEN3_MOE[] = {
    DECODER("24", "2048", "32", "6144", "151936", "32768"),
    QWEN_EXPERTS("128", "8", "768", "false"),
    KV_HEADS("4"),
    HEAD_DIM(NULL),
    ATTENTION_BIAS("false"),
    {NULL, "qk_norm", RULE_FIXED, "true"},
};

/* `layer_types` lists linear_attention and full_attention; without it every so-many-th layer is full. */
static const struct hf_row QWEN3_NEXT[] = {
    DECODER("48", "2048", "16", "5632", "151936", "32768"),
    QWEN_EXPERTS("512", "10", "512", "true"),
    SHARED_EXPERT("512"),
    KV_HEADS("2"),
    HEAD_DIM("256"),
    ATTENTION_BIAS("false"),
    {"partial_rotary_factor", "rotary_share", RULE_SHARE, "0.25"},
    {"linear_num_value_heads", "delta_heads", RULE_COUNT, "32"},
    {"linear_num_key_heads", "delta_key_heads", RULE_COUNT, "16"},
    {"linear_value_head_dim", "delta_dim", RULE_COUNT, "128"},
    {"linear_key_head_dim", "delta_key_dim", RULE_COUNT, "128"},
    {"linear_conv_kernel_dim", "conv", RULE_COUNT, "4"},
    {"full_attention_interval", "full_every", RULE_TURN, "4"},
    {NULL, "qk_norm", RULE_FIXED, "true"},
    {NULL, "output_gate", RULE_FIXED, "true"},
};

/* Llama 4's `intermediate_size` is that of an expert. Its norms of queries and keys have no weights, which
 * are too few to matter. */
static const struct hf_row LLAMA4_TEXT[] = {
    {"num_hidden_layers", "layers", RULE_COUNT, "48"},
    {"hidden_size", "hidden", RULE_COUNT, "5120"},
    {"num_attention_heads", "heads", RULE_COUNT, "40"},
    {"intermediate_size", "expert_ffn", RULE_COUNT, "8192"},
    {"intermediate_size_mlp", "ffn", RULE_COUNT, "16384"},
    {"vocab_size", "vocab", RULE_COUNT, "202048"},
    {"max_position_embeddings", "seq", RULE_SEQ, "131072"},
    KV_HEADS("8"),
    HEAD_DIM("128"),
    {"num_local_experts", "experts", RULE_COUNT, "16"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "1"},
    {"moe_layers", "moe_every", RULE_LISTED, NULL},
    {"interleave_moe_layer_step", "moe_every", RULE_OLDER, "1"},
    {NULL, "shared_experts", RULE_FIXED, "1"},
    {NULL, "router", RULE_FIXED, "sigmoid"},
    {"attention_chunk_size", "window", RULE_WINDOW, "8192"},
    {NULL, "chunked", RULE_WINDOWED, "true"},
    {"layer_types", "full_every", RULE_FULL, NULL},
    {"no_rope_layer_interval", "full_every", RULE_TURNED, "4"},
    {"use_qk_norm", "qk_norm", RULE_BOOL, "true"},
    ATTENTION_BIAS("false"),
    RMS("1e-5"),
    TIED("false"),
    ROPE("500000"),
    BALANCE("0.001"),
    DTYPE,
};

static const struct hf_row NEMOTRON[] = {
    DECODER("32", "6144", "48", "24576", "256000", "4096"),
    KV_HEADS(NULL),
    HEAD_DIM(NULL),
    ATTENTION_BIAS("false"),
    {"mlp_bias", NULL, RULE_EXPECTED, "false"},
    {NULL, "norm", RULE_FIXED, "layer"},
    {NULL, "activation", RULE_FIXED, "relu2"},
    {"partial_rotary_factor", "rotary_share", RULE_SHARE, "0.5"},
    EPSILON("norm_eps", "1e-5"),
    TIED("false"),
    ROPE("10000"),
};

/* The pattern's letters say which layers there are; num_hidden_layers is only their number. */
static const struct hf_row NEMOTRON_H[] = {
    {"hybrid_override_pattern", "pattern", RULE_PATTERN, NULL},
    {"layers_block_type", "pattern", RULE_PATTERN, NULL},
    {NULL, "pattern", RULE_PATTERN, "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"},
    {"hidden_size", "hidden", RULE_COUNT, "4096"},
    {"intermediate_size", "ffn", RULE_COUNT, "21504"},
    {"num_attention_heads", "heads", RULE_COUNT, "32"},
    KV_HEADS("8"),
    HEAD_DIM(NULL),
    {"attention_head_dim", "head_dim", RULE_OLDER, "128"},
    {"vocab_size", "vocab", RULE_COUNT, "131072"},
    {"max_position_embeddings", "seq", RULE_SEQ, "4096"},
    {"mamba_num_heads", "mamba_heads", RULE_COUNT, "128"},
    {"mamba_head_dim", "mamba_dim", RULE_COUNT, "64"},
    {"ssm_state_size", "state", RULE_COUNT, "128"},
    {"n_groups", "groups", RULE_COUNT, "8"},
    {"conv_kernel", "conv", RULE_COUNT, "4"},
    {"chunk_size", "chunk", RULE_COUNT, "128"},
    {"n_routed_experts", "experts", RULE_COUNT, NULL},
    SILENT("n_shared_experts"),
    {NULL, "router", RULE_FIXED, "sigmoid"},
    {NULL, "balance", RULE_FIXED, "sequence"},
    {NULL, "balance_weight", RULE_FIXED, "0.0001"},
    {NULL, "balance_bias", RULE_FIXED, "true"},
    {"routed_scaling_factor", "router_scale", RULE_SHARE, "1"},
    SILENT("n_group"),
    SILENT("topk_group"),
    SILENT("norm_topk_prob"),
    SILENT("num_hidden_layers"),
    {"num_experts_per_tok", "top_k", RULE_COUNT, NULL},
    {"moe_intermediate_size", "expert_ffn", RULE_COUNT, NULL},
    {"moe_shared_expert_intermediate_size", "shared_ffn", RULE_COUNT, NULL},
    {"moe_latent_size", "latent", RULE_COUNT, NULL},
    NEXT_TOKENS,
    {"mtp_hybrid_override_pattern", "mtp_pattern", RULE_PATTERN, NULL},
    {"mtp_layers_block_type", "mtp_pattern", RULE_PATTERN, NULL},
    {"mlp_hidden_act", NULL, RULE_EXPECTED, "relu2"},
    {"mlp_bias", NULL, RULE_EXPECTED, "false"},
    {"attention_bias", NULL, RULE_EXPECTED, "false"},
    {"use_bias", NULL, RULE_EXPECTED, "false"},
    {"mamba_proj_bias", NULL, RULE_EXPECTED, "false"},
    {"use_conv_bias", NULL, RULE_EXPECTED, "true"},
    EPSILON("layer_norm_epsilon", "1e-5"),
    TIED("false"),
    DTYPE,
};

static const struct hf_row MAMBA2[] = {
    {NULL, "pattern", RULE_FIXED, "M"},
    SILENT("intermediate_size"),
    {"num_hidden_layers", "layers", RULE_COUNT, "64"},
    {"hidden_size", "hidden", RULE_COUNT, "4096"},
    {"vocab_size", "vocab", RULE_COUNT, "32768"},
    {"num_heads", "mamba_heads", RULE_COUNT, "128"},
    {"head_dim", "mamba_dim", RULE_COUNT, "64"},
    {"state_size", "state", RULE_COUNT, "128"},
    {"n_groups", "groups", RULE_COUNT, "8"},
    {"conv_kernel", "conv", RULE_COUNT, "4"},
    {"chunk_size", "chunk", RULE_COUNT, "256"},
    {NULL, "seq", RULE_FIXED, "4096"},
    {"use_bias", NULL, RULE_EXPECTED, "false"},
    {"use_conv_bias", NULL, RULE_EXPECTED, "true"},
    EPSILON("layer_norm_epsilon", "1e-5"),
    TIED("false"),
    DTYPE,
};

#define GEGLU {NULL, "activation", RULE_FIXED, "geglu"}
static const struct hf_row GEMMA[] = {
    DECODER("28", "3072", "16", "24576", "256000", "8192"),
    KV_HEADS("16"),
    HEAD_DIM("256"),
    ATTENTION_BIAS("false"),
    GEGLU,
    RMS("1e-6"),
    TIED("true"),
    ROPE("10000"),
};

static const struct hf_row GEMMA2[] = {
    DECODER("26", "2304", "8", "9216", "256000", "8192"),
    KV_HEADS("4"),
    HEAD_DIM("256"),
    ATTENTION_BIAS("false"),
    {NULL, "end_norm", RULE_FIXED, "true"},
    GEGLU,
    WINDOW("4096"),
    FULL("2"),
    {"final_logit_softcapping", NULL, RULE_EXPECTED, "null"},
    RMS("1e-6"),
    TIED("true"),
    ROPE("10000"),
};

static const struct hf_row GEMMA3_TEXT[] = {
    DECODER("26", "2304", "8", "9216", "262208", "131072"),
    KV_HEADS("4"),
    HEAD_DIM("256"),
    ATTENTION_BIAS("false"),
    {NULL, "end_norm", RULE_FIXED, "true"},
    {NULL, "qk_norm", RULE_FIXED, "true"},
    GEGLU,
    WINDOW("4096"),
    FULL("6"),
    {"final_logit_softcapping", NULL, RULE_EXPECTED, "null"},
    RMS("1e-6"),
    TIED("true"),
    ROPE("1000000"),
    {"rope_local_base_freq", "local_rope_base", RULE_LOCAL, "10000"},
};

static const struct hf_row PHI3[] = {
    DECODER("32", "3072", "32", "8192", "32064", "4096"),
    {"attention_bias", NULL, RULE_EXPECTED, "false"},
    KV_HEADS(NULL),
    WINDOW(NULL),
    {"partial_rotary_factor", "rotary_share", RULE_SHARE, "1"},
    RMS("1e-5"),
    TIED("false"),
    ROPE("10000"),
};

/* BERT's sizes, which are also those of ViT. */
/* clang-format off */
#define ENCODER                                                                                    \
    {"num_hidden_layers", "layers", RULE_COUNT, "12"}, {"hidden_size", "hidden", RULE_COUNT, "768"}, \
    {"num_attention_heads", "heads", RULE_COUNT, "12"}, {"intermediate_size", "ffn", RULE_COUNT, "3072"}
/* clang-format on */
static const struct hf_row BERT[] = {
    ENCODER,
    {"vocab_size", "vocab", RULE_COUNT, "30522"},
    {"max_position_embeddings", "seq", RULE_COUNT, "512"},
    {"hidden_dropout_prob", "dropout", RULE_SHARE, "0.1"},
    {"architectures", "pooler", RULE_POOLER, "true"},
    {"type_vocab_size", NULL, RULE_EXPECTED, "2"},
    EPSILON("layer_norm_eps", "1e-12"),
    DTYPE,
};

static const struct hf_row T5[] = {
    {"num_layers", "layers", RULE_COUNT, "6"},
    {"num_decoder_layers", "decoder_layers", RULE_COUNT, NULL},
    {"d_model", "hidden", RULE_COUNT, "512"},
    {"num_heads", "heads", RULE_COUNT, "8"},
    {"d_kv", "d_kv", RULE_COUNT, "64"},
    {"d_ff", "ffn", RULE_COUNT, "2048"},
    {"vocab_size", "vocab", RULE_COUNT, "32128"},
    {"relative_attention_num_buckets", "buckets", RULE_COUNT, "32"},
    {"dropout_rate", "dropout", RULE_SHARE, "0.1"},
    {"feed_forward_proj", "activation", RULE_WORD, "relu"},
    {"n_positions", "seq", RULE_COUNT, "512"},
    {"n_positions", "decoder_seq", RULE_COUNT, "512"},
    EPSILON("layer_norm_epsilon", "1e-6"),
    TIED("true"),
    DTYPE,
};

static const struct hf_row VIT[] = {
    ENCODER,
    {"image_size", "image", RULE_COUNT, "224"},
    {"patch_size", "patch", RULE_COUNT, "16"},
    {"id2label", "classes", RULE_CLASSES, "2"},
    {"num_channels", NULL, RULE_EXPECTED, "3"},
    EPSILON("layer_norm_eps", "1e-12"),
    DTYPE,
};

/* Its learned bias of the scores rules out flash attention. */
static const struct hf_row SWIN[] = {
    {"depths", "depths", RULE_LIST, "[2, 2, 6, 2]"},
    {"embed_dim", "hidden", RULE_COUNT, "96"},
    SILENT("hidden_size"),
    SILENT("num_layers"),
    {"num_heads", "heads", RULE_FIRST, "3"},
    {"image_size", "image", RULE_COUNT, "224"},
    {"patch_size", "patch", RULE_COUNT, "4"},
    {"window_size", "window", RULE_COUNT, "7"},
    {"id2label", "classes", RULE_CLASSES, "2"},
    {NULL, "attention", RULE_FIXED, "fused"},
    {"mlp_ratio", NULL, RULE_EXPECTED, "4"},
    {"num_channels", NULL, RULE_EXPECTED, "3"},
    DTYPE,
};

static const struct hf_row RESNET[] = {
    {"depths", "blocks", RULE_LIST, "[3, 4, 6, 3]"},
    {"layer_type", "block", RULE_WORD, "bottleneck"},
    SILENT("torch_dtype"),
    {"embedding_size", "channels", RULE_COUNT, "64"},
    {"id2label", "classes", RULE_CLASSES, "2"},
    {"num_channels", NULL, RULE_EXPECTED, "3"},
    {"downsample_in_first_stage", NULL, RULE_EXPECTED, "false"},
};

static const struct hf_architecture ARCHITECTURES[] = {
    {"gpt2", "gpt", GPT2, COUNT_OF(GPT2)},
    {"gpt_neox", "gpt", GPT_NEOX, COUNT_OF(GPT_NEOX)},
    {"opt", "gpt", OPT, COUNT_OF(OPT)},
    {"llama", "llama", LLAMA, COUNT_OF(LLAMA)},
    {"mllama_text_model", "llama", MLLAMA_TEXT, COUNT_OF(MLLAMA_TEXT)},
    {"mistral", "llama", MISTRAL, COUNT_OF(MISTRAL)},
    {"mixtral", "moe", MIXTRAL, COUNT_OF(MIXTRAL)},
    {"qwen2", "llama", QWEN2, COUNT_OF(QWEN2)},
    {"qwen2_vl", "llama", QWEN2, COUNT_OF(QWEN2)},
    {"qwen2_vl_text", "llama", QWEN2, COUNT_OF(QWEN2)},
    {"qwen2_5_vl", "llama", QWEN2, COUNT_OF(QWEN2)},
    {"qwen2_5_vl_text", "llama", QWEN2, COUNT_OF(QWEN2)},
    {"qwen3", "llama", QWEN3, COUNT_OF(QWEN3)},
    {"qwen3_vl_text", "llama", QWEN3, COUNT_OF(QWEN3)},
    {"qwen2_moe", "moe", QWEN2_MOE, COUNT_OF(QWEN2_MOE)},
    {"qwen3_moe", "moe", QWEN3_MOE, COUNT_OF(QWEN3_MOE)},
    {"qwen3_vl_moe_text", "moe", QWEN3_MOE, COUNT_OF(QWEN3_MOE)},
    {"qwen3_next", "moe", QWEN3_NEXT, COUNT_OF(QWEN3_NEXT)},
    {"deepseek_v2", "moe", DEEPSEEK_V2, COUNT_OF(DEEPSEEK_V2)},
    {"deepseek_v3", "moe", DEEPSEEK_V3, COUNT_OF(DEEPSEEK_V3)},
    {"deepseek_v32", "moe", DEEPSEEK_V32, COUNT_OF(DEEPSEEK_V32)},
    {"deepseek_v4", "moe", DEEPSEEK_V4, COUNT_OF(DEEPSEEK_V4)},
    {"kimi_k2", "moe", DEEPSEEK_V3, COUNT_OF(DEEPSEEK_V3)},
    {"llama4_text", "moe", LLAMA4_TEXT, COUNT_OF(LLAMA4_TEXT)},
    {"gpt_oss", "moe", GPT_OSS, COUNT_OF(GPT_OSS)},
    {"nemotron_h", "hybrid", NEMOTRON_H, COUNT_OF(NEMOTRON_H)},
    {"nemotron", "llama", NEMOTRON, COUNT_OF(NEMOTRON)},
    {"mamba2", "hybrid", MAMBA2, COUNT_OF(MAMBA2)},
    {"gemma", "llama", GEMMA, COUNT_OF(GEMMA)},
    {"gemma2", "llama", GEMMA2, COUNT_OF(GEMMA2)},
    {"gemma3_text", "llama", GEMMA3_TEXT, COUNT_OF(GEMMA3_TEXT)},
    {"phi3", "llama", PHI3, COUNT_OF(PHI3)},
    {"smollm3", "llama", SMOLLM3, COUNT_OF(SMOLLM3)},
    {"olmo2", "llama", OLMO2, COUNT_OF(OLMO2)},
    {"olmo3", "llama", OLMO3, COUNT_OF(OLMO3)},
    {"seed_oss", "llama", SEED_OSS, COUNT_OF(SEED_OSS)},
    {"granite", "llama", GRANITE, COUNT_OF(GRANITE)},
    {"granitemoe", "moe", GRANITE_MOE, COUNT_OF(GRANITE_MOE)},
    {"glm4_moe", "moe", GLM4_MOE, COUNT_OF(GLM4_MOE)},
    {"olmoe", "moe", OLMOE, COUNT_OF(OLMOE)},
    {"minimax_m2", "moe", MINIMAX_M2, COUNT_OF(MINIMAX_M2)},
    {"bert", "bert", BERT, COUNT_OF(BERT)},
    {"t5", "t5", T5, COUNT_OF(T5)},
    {"vit", "vit", VIT, COUNT_OF(VIT)},
    {"swin", "swin", SWIN, COUNT_OF(SWIN)},
    {"resnet", "resnet", RESNET, COUNT_OF(RESNET)},
};

size_t hf_architectures(const struct hf_architecture **out)
{
    *out = ARCHITECTURES;
    return COUNT_OF(ARCHITECTURES);
}
