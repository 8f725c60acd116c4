/* hf_rows.h - rows that configurations of several architectures share. Inside this room only. */
#ifndef WEFT_MODEL_HF_ROWS_H
#define WEFT_MODEL_HF_ROWS_H

#include "model/hf.h"

#define DTYPE                                                                                      \
    {"torch_dtype", "dtype", RULE_DTYPE, NULL},                                                    \
    {                                                                                              \
        "dtype", "dtype", RULE_DTYPE, NULL                                                         \
    }
/* Keys that all of today's decoders have in common; their defaults differ. */
#define DECODER(layers, hidden, heads, ffn, vocab, positions)                                      \
    {"num_hidden_layers", "layers", RULE_COUNT, layers},                                           \
        {"hidden_size", "hidden", RULE_COUNT, hidden},                                             \
        {"num_attention_heads", "heads", RULE_COUNT, heads},                                       \
        {"intermediate_size", "ffn", RULE_COUNT, ffn}, {"vocab_size", "vocab", RULE_COUNT, vocab}, \
        {"max_position_embeddings", "seq", RULE_SEQ, positions}, DTYPE
#define KV_HEADS(otherwise) {"num_key_value_heads", "kv_heads", RULE_COUNT, otherwise}
#define HEAD_DIM(otherwise) {"head_dim", "head_dim", RULE_COUNT, otherwise}
#define STRETCH                                                                                    \
    {"rope_scaling", "rope_scaling", RULE_STRETCH, NULL},                                          \
    {                                                                                              \
        "rope_parameters", "rope_scaling", RULE_STRETCH, NULL                                      \
    }
#define ROPE(otherwise)         {"rope_theta", "rope_base", RULE_SHARE, otherwise}, STRETCH
#define EPSILON(key, otherwise) {key, "norm_epsilon", RULE_SHARE, otherwise}
#define RMS(otherwise)          EPSILON("rms_norm_eps", otherwise)
#define TIED(otherwise)         {"tie_word_embeddings", "tied", RULE_BOOL, otherwise}
#define WINDOW(otherwise)       {"sliding_window", "window", RULE_WINDOW, otherwise}
#define FULL(otherwise)         {"layer_types", "full_every", RULE_FULL, otherwise}
/* Today's decoders have one key for the biases of the products before and after attention. */
#define ATTENTION_BIAS(otherwise)                                                                  \
    {"attention_bias", "qkv_bias", RULE_BOOL, otherwise},                                          \
    {                                                                                              \
        "attention_bias", "proj_bias", RULE_BOOL, otherwise                                        \
    }
/* Shares of the chosen experts' sum, or of all scores. */
#define NORMED(otherwise)  {"norm_topk_prob", "router", RULE_NORMED, otherwise}
#define BALANCE(otherwise) {"router_aux_loss_coef", "balance_weight", RULE_SHARE, otherwise}
#define SILENT(key)        {key, NULL, RULE_SILENT, NULL}
/* Windows that only begin with a certain layer are not supported. */
#define NO_WINDOW {"use_sliding_window", NULL, RULE_EXPECTED, "false"}, SILENT("sliding_window")
/* Layers after the model's own, each of which predicts one token more. */
#define NEXT_TOKENS {"num_nextn_predict_layers", "mtp", RULE_NUMBER, NULL}

#endif
