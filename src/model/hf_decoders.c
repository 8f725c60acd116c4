/* hf_decoders.c - the keys of further decoders' configurations. */
#include "model/hf_rows.h"

/* Every so-many-th layer has no rotary positions; all of them see everything. */
const struct hf_row SMOLLM3[] = {
    DECODER("36", "2048", "16", "11008", "128256", "32768"),
    KV_HEADS("4"),
    HEAD_DIM(NULL),
    ATTENTION_BIAS("false"),
    {"mlp_bias", NULL, RULE_EXPECTED, "false"},
    NO_WINDOW,
    {"no_rope_layer_interval", "full_every", RULE_TURNED, "4"},
    RMS("1e-6"),
    TIED("true"),
    ROPE("2000000"),
};

/* Norms after attention and after the MLP, and one of all heads' queries, or keys, as one vector. */
const struct hf_row OLMO2[] = {
    DECODER("32", "4096", "32", "11008", "50304", "2048"),
    KV_HEADS(NULL),
    ATTENTION_BIAS("false"),
    {NULL, "pre_norm", RULE_FIXED, "false"},
    {NULL, "end_norm", RULE_FIXED, "true"},
    {NULL, "wide_qk_norm", RULE_FIXED, "true"},
    RMS("1e-5"),
    TIED("false"),
    ROPE("10000"),
};

/* The same with windows, which every fourth layer is without. */
const struct hf_row OLMO3[] = {
    DECODER("32", "4096", "32", "11008", "50304", "2048"),
    KV_HEADS(NULL),
    ATTENTION_BIAS("false"),
    WINDOW("4096"),
    FULL("4"),
    {NULL, "pre_norm", RULE_FIXED, "false"},
    {NULL, "end_norm", RULE_FIXED, "true"},
    {NULL, "wide_qk_norm", RULE_FIXED, "true"},
    RMS("1e-5"),
    TIED("false"),
    ROPE("10000"),
};

const struct hf_row SEED_OSS[] = {
    DECODER("64", "4096", "80", "27648", "155136", "524288"),
    KV_HEADS("8"),
    HEAD_DIM("128"),
    {"attention_bias", "qkv_bias", RULE_BOOL, "true"},
    {"attention_out_bias", "proj_bias", RULE_BOOL, "false"},
    {"mlp_bias", NULL, RULE_EXPECTED, "false"},
    SILENT("residual_dropout"),
    RMS("1e-6"),
    TIED("false"),
    ROPE("10000"),
};

/* Numbers that embeddings, residuals, scores and logits are multiplied by, which models here are not. */
#define MULTIPLIERS                                                                                \
    {"embedding_multiplier", NULL, RULE_EXPECTED, "1"},                                            \
        {"residual_multiplier", NULL, RULE_EXPECTED, "1"},                                         \
        {"attention_multiplier", NULL, RULE_EXPECTED, "1"},                                        \
        {"logits_scaling", NULL, RULE_EXPECTED, "1"}
const struct hf_row GRANITE[] = {
    DECODER("32", "4096", "32", "11008", "32000", "2048"),
    KV_HEADS(NULL),
    ATTENTION_BIAS("false"),
    {"mlp_bias", NULL, RULE_EXPECTED, "false"},
    MULTIPLIERS,
    RMS("1e-6"),
    TIED("false"),
    ROPE("10000"),
};

const struct hf_row GRANITE_MOE[] = {
    DECODER("32", "4096", "32", "11008", "32000", "2048"),
    KV_HEADS(NULL),
    ATTENTION_BIAS("false"),
    {"num_local_experts", "experts", RULE_COUNT, "8"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "2"},
    MULTIPLIERS,
    RMS("1e-6"),
    TIED("false"),
    ROPE("10000"),
    BALANCE("0.001"),
};

/* Routers as DeepSeek-V3's, and plain attention whose products have biases before it only. */
const struct hf_row GLM4_MOE[] = {
    DECODER("46", "4096", "96", "10944", "151552", "131072"),
    KV_HEADS("8"),
    HEAD_DIM("128"),
    {"attention_bias", "qkv_bias", RULE_BOOL, "false"},
    {"use_qk_norm", "qk_norm", RULE_BOOL, "false"},
    {"partial_rotary_factor", "rotary_share", RULE_SHARE, "0.5"},
    {"n_routed_experts", "experts", RULE_COUNT, "128"},
    {"n_shared_experts", "shared_experts", RULE_NUMBER, "1"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "8"},
    {"moe_intermediate_size", "expert_ffn", RULE_COUNT, "1408"},
    {"first_k_dense_replace", "first_dense", RULE_NUMBER, "1"},
    {"n_group", "router_groups", RULE_COUNT, "1"},
    {"topk_group", "router_group_top_k", RULE_COUNT, "1"},
    {"routed_scaling_factor", "router_scale", RULE_SHARE, "1"},
    SILENT("norm_topk_prob"),
    {NULL, "router", RULE_FIXED, "sigmoid"},
    {NULL, "balance", RULE_FIXED, "sequence"},
    {NULL, "balance_weight", RULE_FIXED, "0.0001"},
    {NULL, "balance_bias", RULE_FIXED, "true"},
    NEXT_TOKENS,
    RMS("1e-5"),
    TIED("false"),
    ROPE("10000"),
};

const struct hf_row OLMOE[] = {
    DECODER("16", "2048", "16", "2048", "50304", "4096"),
    KV_HEADS(NULL),
    ATTENTION_BIAS("false"),
    {"clip_qkv", NULL, RULE_EXPECTED, "null"},
    {"num_experts", "experts", RULE_COUNT, "64"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "8"},
    NORMED("false"),
    {NULL, "wide_qk_norm", RULE_FIXED, "true"},
    RMS("1e-5"),
    TIED("false"),
    ROPE("10000"),
    BALANCE("0.01"),
};

/* Every layer has experts, which intermediate_size is the width of; the layers for further tokens (use_mtp) are not
 * in the published weights, nor in transformers. */
const struct hf_row MINIMAX_M2[] = {
    DECODER("62", "3072", "48", "1536", "200064", "196608"),
    KV_HEADS("8"),
    HEAD_DIM("128"),
    {"rotary_dim", "rotary_share", RULE_ROTATED, "64"},
    {"use_qk_norm", "wide_qk_norm", RULE_BOOL, "true"},
    {"num_local_experts", "experts", RULE_COUNT, "256"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "8"},
    {NULL, "router", RULE_FIXED, "sigmoid"},
    {"use_routing_bias", "balance_bias", RULE_BOOL, "true"},
    {"shared_intermediate_size", NULL, RULE_EXPECTED, "0"},
    {"scoring_func", NULL, RULE_EXPECTED, "sigmoid"},
    {"qk_norm_type", NULL, RULE_EXPECTED, "per_layer"},
    SILENT("attn_type_list"),
    SILENT("use_mtp"),
    SILENT("num_mtp_modules"),
    SILENT("mtp_transformer_layers"),
    RMS("1e-6"),
    TIED("false"),
    ROPE("5000000"),
    BALANCE("0.001"),
};
