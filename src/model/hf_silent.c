/* hf_silent.c - the keys of a config.json that say nothing about work or memory, so that their absence from a table
 * (hf.c) need not be mentioned: names, numbers of tokens, dropouts of inference, epsilons, scales, what to save. */
#include "model/hf.h"

#include <string.h>

/* Parts of keys. */
static const char *const PARTS[] = {
    "_token_id",   "token_index",  "dropout",  "pdrop",   "_eps",    "epsilon",     "init_",
    "initializer", "summary_",     "_cache",   "cache_",  "output_", "softcapping", "temperature",
    "_scaling",    "quantization", "auto_map", "scoring", "version", "rope_",       "drop_path",
};

/* Whole keys: what other keys say, too, or what no number depends on. */
static const char *const KEYS[] = {
    "model_type",
    "architectures",
    "_name_or_path",
    "pretraining_tp",
    "max_window_layers",
    "mamba_hidden_act",
    "hidden_act",
    "hidden_activation",
    "query_pre_attn_scalar",
    "qkv_bias",
    "experts_per_token",
    "initial_context_length",
    "swiglu_limit",
    "expand",
    "norm_before_gate",
    "rms_norm",
    "sliding_window_size",
    "sliding_window_pattern",
    "rotary_pct",
    "encoder_stride",
    "path_norm",
    "use_absolute_embeddings",
    "hidden_sizes",
    "_remove_final_layer_norm",
    "layerdrop",
    "word_embed_proj_dim",
    "seq_aux",
    "topk_method",
    "original_max_position_embeddings",
    "use_mrope",
    "is_encoder_decoder",
    "n_ctx",
    "gradient_checkpointing",
    "position_embedding_type",
    "ep_size",
    "aux_loss_alpha",
    "attn_scale",
    "floor_scale",
    "moe_layers",
    "no_rope_layers",
    "for_llm_compressor",
    "attn_temperature_tuning",
    "router_jitter_noise",
    "text_config",
    "vision_config",
    "audio_config",
    "label2id",
    "num_labels",
    "task_specific_params",
    "problem_type",
    "layer_types",
    "init_std",
    "time_step_limit",
    "time_step_min",
    "time_step_max",
    "time_step_floor",
    "time_step_rank",
    "rescale_prenorm_residual",
    "residual_in_fp32",
    "num_logits_to_keep",
    "mamba_ssm_cache_dtype",
    "use_mamba_kernels",
    "shared_expert_intermediate_size",
    "use_qk_norm",
};

bool hf_is_silent(const char *key)
{
    for (size_t i = 0; i < COUNT_OF(PARTS); i++)
        if (strstr(key, PARTS[i]))
            return true;
    for (size_t i = 0; i < COUNT_OF(KEYS); i++)
        if (strcmp(key, KEYS[i]) == 0)
            return true;
    return false;
}
