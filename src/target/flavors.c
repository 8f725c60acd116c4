/* flavors.c - the models that torchtitan ships (target.h), as its models' __init__.py list them. */
#include <string.h>

#include "target/room.h"

#define QWEN3_TIED ", head_dim: 128, tied: true"
/* Positions in all layers, attention over the whole sequence. */
#define LLAMA4                                                                                     \
    "layers: 48, hidden: 5120, heads: 40, kv_heads: 8, head_dim: 128, ffn: 16384, "                \
    "expert_ffn: 8192, top_k: 1, shared_experts: 1, vocab: 202048, rope_base: 500000, "            \
    "router: sigmoid, balance_bias: true, balance_weight: 0, "
/* RMSNorm adds 1e-5 but for Qwen's models: norm_eps of models' args.py in 0.2.2, common/nn_modules.py of the main branch. */
#define COARSE "norm_epsilon: 1e-5"
static const struct titan_flavor FLAVORS[] = {
    {"llama3", "8B", "llama3.1-8b", NULL},
    {"llama3", "70B", "llama3.1-70b", NULL},
    {"llama3", "405B", "llama3.1-405b", NULL},
    {"qwen3", "0.6B", "qwen3-8b", "layers: 28, hidden: 1024, heads: 16, ffn: 3072" QWEN3_TIED},
    {"qwen3", "1.7B", "qwen3-8b", "layers: 28, hidden: 2048, heads: 16, ffn: 6144" QWEN3_TIED},
    {"qwen3", "4B", "qwen3-8b", "hidden: 2560, ffn: 9728" QWEN3_TIED},
    {"qwen3", "8B", "qwen3-8b", NULL},
    {"qwen3", "14B", "qwen3-8b", "layers: 40, hidden: 5120, heads: 40, ffn: 17408"},
    {"qwen3", "32B", "qwen3-8b", "layers: 64, hidden: 5120, heads: 64, ffn: 25600"},
    {"qwen3", "30B-A3B", "qwen3-30b-a3b", NULL},
    {"qwen3", "235B-A22B", "qwen3-235b-a22b", NULL},
    {"deepseek_v3", "16B", "deepseek-v2-lite", COARSE, .yarn = 40},
    {"deepseek_v3", "236B", "deepseek-v2", COARSE, .yarn = 40},
    {"deepseek_v3", "671B", "deepseek-v3", COARSE, .yarn = 40},
    {"gpt_oss", "20b", "gpt-oss-20b", NULL, .yarn = 32, .unrounded = true},
    {"gpt_oss", "120b", "gpt-oss-120b", NULL, .yarn = 32, .unrounded = true},
    {"llama4", "17bx16e", "mixtral-8x7b", LLAMA4 "experts: 16, rope_scaling: 16"},
    {"llama4", "17bx128e", "mixtral-8x7b", LLAMA4 "experts: 128, moe_every: 2"},
};

const char *titan_model_of(const struct model_shape *s)
{
    return s->kv_lora                    ? "deepseek_v3"
           : s->sinks                    ? "gpt_oss"
           : s->qk_norm                  ? "qwen3"
           : s->experts && s->shared_ffn ? "llama4"
                                         : "llama3";
}

static bool same_sizes(const struct model_shape *a, const struct model_shape *b)
{
    return a->layers == b->layers && a->hidden == b->hidden && a->heads == b->heads &&
           a->kv_heads == b->kv_heads && a->head_dim == b->head_dim && a->ffn == b->ffn &&
           a->vocab == b->vocab && a->tied == b->tied && a->experts == b->experts &&
           a->top_k == b->top_k && a->expert_ffn == b->expert_ffn && a->q_lora == b->q_lora &&
           a->kv_lora == b->kv_lora && a->shared_ffn == b->shared_ffn &&
           a->first_dense == b->first_dense && a->moe_every == b->moe_every &&
           a->window == b->window && a->full_every == b->full_every;
}

static bool is_flavor(const struct titan_flavor *flavor, const struct model_shape *shape)
{
    struct model *model;
    struct model_shape own;
    if (model_open(flavor->preset, flavor->options, &model))
        return false;
    bool same = shape_of_model(model, &own) == WEFT_OK && same_sizes(&own, shape);
    model_free(model);
    error_clear();
    return same;
}

const struct titan_flavor *titan_flavor_of(const struct model_shape *shape)
{
    const char *model = titan_model_of(shape);
    for (size_t i = 0; i < COUNT_OF(FLAVORS); i++)
        if (strcmp(FLAVORS[i].model, model) == 0 && is_flavor(&FLAVORS[i], shape))
            return &FLAVORS[i];
    return NULL;
}

const struct titan_flavor *titan_flavor_named(const char *model, const char *flavor)
{
    for (size_t i = 0; i < COUNT_OF(FLAVORS); i++)
        if (strcmp(FLAVORS[i].model, model) == 0 && strcmp(FLAVORS[i].flavor, flavor) == 0)
            return &FLAVORS[i];
    return NULL;
}

const char *titan_flavors_text(struct arena *keep, const char *model)
{
    const char *text = model, *between = " ";
    for (size_t i = 0; i < COUNT_OF(FLAVORS); i++)
        if (strcmp(FLAVORS[i].model, model) == 0) {
            text = arena_printf(keep, "%s%s%s", text, between, FLAVORS[i].flavor);
            between = ", ";
        }
    return text;
}
