/* hf_deepseek.c - the keys of DeepSeek's configurations, generation by generation. */
#include "model/hf_rows.h"

#define LATENT                                                                                     \
    {"kv_lora_rank", "kv_lora", RULE_COUNT, "512"}, {"q_lora_rank", "q_lora", RULE_COUNT, NULL},   \
        {"qk_nope_head_dim", "nope_dim", RULE_COUNT, "128"},                                       \
        {"qk_rope_head_dim", "rope_dim", RULE_COUNT, "64"},                                        \
        {"v_head_dim", "value_dim", RULE_COUNT, "128"},                                            \
        {"moe_layer_freq", "moe_every", RULE_COUNT, "1"}, ROPE("10000"),                           \
        {"attention_bias", NULL, RULE_EXPECTED, "false"}, SILENT("num_key_value_heads"),           \
        SILENT("norm_topk_prob"), {NULL, "balance", RULE_FIXED, "sequence"}

const struct hf_row DEEPSEEK_V2[] = {
    DECODER("30", "4096", "32", "11008", "102400", "2048"),
    LATENT,
    {"n_routed_experts", "experts", RULE_COUNT, "64"},
    {"n_shared_experts", "shared_experts", RULE_NUMBER, "2"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "6"},
    {"moe_intermediate_size", "expert_ffn", RULE_COUNT, "1407"},
    {"first_k_dense_replace", "first_dense", RULE_NUMBER, "0"},
    RMS("1e-6"),
    TIED("false"),
    {NULL, "router", RULE_FIXED, "softmax-of-all"},
    {"aux_loss_alpha", "balance_weight", RULE_SHARE, "0.001"},
    {"n_group", "router_groups", RULE_COUNT, NULL},
    {"topk_group", "router_group_top_k", RULE_COUNT, NULL},
    {"routed_scaling_factor", "router_scale", RULE_SHARE, "1"},
};

#define V3_ROWS                                                                                    \
    DECODER("61", "7168", "128", "18432", "129280", "4096"),                                       \
        {"q_lora_rank", "q_lora", RULE_OLDER, "1536"}, NEXT_TOKENS, LATENT,                        \
        {"n_routed_experts", "experts", RULE_COUNT, "256"},                                        \
        {"n_shared_experts", "shared_experts", RULE_NUMBER, "1"},                                  \
        {"num_experts_per_tok", "top_k", RULE_COUNT, "8"},                                         \
        {"moe_intermediate_size", "expert_ffn", RULE_COUNT, "2048"},                               \
        {"first_k_dense_replace", "first_dense", RULE_DENSE, "3"}, SILENT("mlp_layer_types"),      \
        RMS("1e-6"), TIED("false"), {NULL, "router", RULE_FIXED, "sigmoid"},                       \
        {NULL, "balance_bias", RULE_FIXED, "true"},                                                \
        {NULL, "balance_weight", RULE_FIXED, "0.0001"},                                            \
        {"n_group", "router_groups", RULE_COUNT, "8"},                                             \
        {"topk_group", "router_group_top_k", RULE_COUNT, "4"},                                     \
        {"routed_scaling_factor", "router_scale", RULE_SHARE, "2.5"}

const struct hf_row DEEPSEEK_V3[] = {V3_ROWS};

const struct hf_row DEEPSEEK_V32[] = {
    V3_ROWS,
    {"index_topk", "index_top_k", RULE_COUNT, "2048"},
    {"index_n_heads", "index_heads", RULE_COUNT, "64"},
    {"index_head_dim", "index_dim", RULE_COUNT, "128"},
};

const struct hf_row DEEPSEEK_V4[] = {
    DECODER("43", "4096", "64", NULL, "129280", "4096"),
    HEAD_DIM("512"),
    {"q_lora_rank", "q_lora", RULE_COUNT, "1024"},
    {"qk_rope_head_dim", "rope_dim", RULE_COUNT, "64"},
    WINDOW("128"),
    {"compress_ratios", "compress", RULE_COMPRESS, "[0, 0, 4, 128]"},
    {"index_topk", "index_top_k", RULE_COUNT, "512"},
    {"index_n_heads", "index_heads", RULE_COUNT, "64"},
    {"index_head_dim", "index_dim", RULE_COUNT, "128"},
    {"o_groups", "o_groups", RULE_COUNT, "8"},
    {"o_lora_rank", "o_lora", RULE_COUNT, "1024"},
    {"hc_mult", "streams", RULE_COUNT, "4"},
    {"n_routed_experts", "experts", RULE_COUNT, "256"},
    {"n_shared_experts", "shared_experts", RULE_NUMBER, "1"},
    {"num_experts_per_tok", "top_k", RULE_COUNT, "6"},
    {"moe_intermediate_size", "expert_ffn", RULE_COUNT, "2048"},
    {"routed_scaling_factor", "router_scale", RULE_SHARE, "1.5"},
    NEXT_TOKENS,
    ROPE("10000"),
    RMS("1e-6"),
    TIED("false"),
    {NULL, "sinks", RULE_FIXED, "true"},
    {NULL, "router", RULE_FIXED, "sigmoid"},
    {NULL, "balance", RULE_FIXED, "sequence"},
    {NULL, "balance_bias", RULE_FIXED, "true"},
    {NULL, "balance_weight", RULE_FIXED, "0.0001"},
    {"attention_bias", NULL, RULE_EXPECTED, "false"},
    SILENT("num_key_value_heads"),
    SILENT("norm_topk_prob"),
    SILENT("num_hash_layers"),
    SILENT("mlp_layer_types"),
    SILENT("compress_rates"),
    SILENT("hc_sinkhorn_iters"),
    SILENT("expert_dtype"),
};
