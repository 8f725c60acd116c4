/* images.c - the programs that train models with an encoder of images, and which of these models they have (target.h).
 *
 * Megatron-LM's pretrain_vlm.py (core_v0.16.1, core_v0.19.0; model_provider) copies the decoder's configuration for the
 * encoder, which is CLIP's otherwise, and for the projector: width, heads, MLP, norms and biases are one and the same.
 * Embedding and head are two tables, the base of rotary positions is 10000 and their factor 8 (LLaVAModel's defaults); the
 * table of learned positions has a row for each position of the sequence.
 *
 * Other programs of these releases do not run as they are. examples/multimodal/train.py, which has CLIP, SigLIP and InternViT
 * in their own sizes, has a model_provider without the `config` that 0.16.1's get_model gives it, and in 0.19.0 asks a
 * functools.partial for its `submodules`. examples/mimo/train.py trains the projector of one model, LLaVA 1.5 7B, alone.
 */
#include <string.h>

#include "target/room.h"

const char IMAGES[] = "an encoder of images beside its decoder";

/* Of the decoder, what pretrain_vlm.py passes on to no model. */
static const char *text_lacks(const struct model_shape *s)
{
    bool plain = s->family == SHAPE_GPT || s->family == SHAPE_LLAMA;
    bool eight = s->stretch.kind == ROPE_LLAMA3 && s->rope_scaling == 8;
    return !plain || s->experts           ? "experts or layers by a pattern beside images"
           : s->kv_lora                   ? "latent attention beside images"
           : shape_rarity(s) && !s->gated ? shape_rarity(s)
           : s->qk_norm                   ? "norms of queries and keys beside images"
           : s->qkv_bias && !s->bias      ? "biases of queries, keys and values beside images"
           : s->tied                      ? "one table for embedding and head beside images"
           : s->dropout                   ? "dropout beside images"
           : s->rotary && s->rope_base != ROPE_BASE
               ? "rotary positions of another base than 10000 beside images"
           : s->rope_scaling > 0 && !eight
               ? "rotary positions stretched otherwise than by Llama 3.1's factor 8 beside images"
           : s->positions && s->positions != s->seq
               ? "a table of positions that is longer than its sequence beside images"
           : strcmp(s->attention, "local") == 0 ? "attention without Transformer Engine"
                                                : NULL;
}

static bool same_layers(const struct model_shape *s)
{
    const struct tower_shape *v = &s->images;
    bool rms = s->family == SHAPE_LLAMA && !s->layer_norm;
    bool gated = s->family == SHAPE_LLAMA ? !s->ungated : s->gated;
    return v->hidden == s->hidden && v->heads == s->heads && v->kv_heads == s->kv_heads &&
           s->head_dim * s->heads == s->hidden && v->ffn == s->ffn && v->rms == rms &&
           v->gated == gated && v->bias == s->bias;
}

static bool same_projector(const struct tower_shape *v)
{
    return v->projector_layers == 2 && v->projector_ffn == v->ffn &&
           v->projector_gated == v->gated && v->projector_bias == v->bias &&
           strcmp(v->projector_norm, v->rms ? "rms" : "layer") == 0 && !v->projector_frozen;
}

static const char *like_text_lacks(struct arena *keep, const struct model_shape *s)
{
    const struct tower_shape *v = &s->images;
    bool clip = v->class_token && v->positions && v->pre_norm && !v->post_norm && !v->patch_bias;
    const char *text = text_lacks(s);
    (void)keep;
    return text              ? text
           : !same_layers(s) ? "an encoder of images with layers of other sizes than its decoder's"
           : !clip           ? "an encoder of images with other ends than CLIP's"
           : v->merge > 1    ? "patches that are joined to tokens"
           : v->images > 1   ? "several images in a sample"
           : !same_projector(v) ? "a projector of other sizes than its decoder's MLP"
                                : NULL;
}

/* Of each release: layers are dealt out evenly, by 1f1b alone (model_provider takes no vp_stage), and either positions or
 * stages are shared out (its assertion about PP+CP); checkpoints are of the format torch, which Megatron-FSDP's are not;
 * Transformer Engine multiplies in fp8 only rows that 8 divides, and images have 577. */
/* clang-format off */
#define LIKE_TEXT(program_of, lacks_of)                                                            \
    {.program = (program_of), .lacks = (lacks_of),                                                 \
     .can = {.tp = true, .pp = true, .cp = true, .cp_heads = true, .whole_heads = true,            \
             .tp_in_pipeline = true, .cp_or_pp = true, .stage_runs = true, .sequence = true,       \
             .plain = true, .selective = true, .cp_pieces = 2, .tp_pieces = true,                  \
             .replicates = true, .host_state = true, .shards = SHARD_0 | SHARD_1,                  \
             .pipeline_shards = SHARD_0 | SHARD_1,                                                 \
             .dtypes = 1U << DTYPE_FP32 | 1U << DTYPE_TF32 | 1U << DTYPE_FP16 | 1U << DTYPE_BF16,  \
             .schedules = ONE_SCHEDULE,                                                            \
             .policies = MEGATRON_MASTERS | 1U << POLICY_DISTRIBUTED | 1U << POLICY_BF16_MOMENTS | \
                         1U << POLICY_BF16_MOMENTS_GRADIENTS,                                      \
             .whole_policies = MEGATRON_MASTERS, .overlaps = OVERLAP_TENSOR,                       \
             .may_overlap = OVERLAP_EVERY & ~(unsigned)OVERLAP_PIPELINE}}
enum { MEGATRON_MASTERS = 1U << POLICY_MIXED | 1U << POLICY_MIXED_FP32_GRADIENTS | 1U << POLICY_FSDP };
static const char *const ONE_SCHEDULE[] = {"1f1b", NULL};
const struct image_program MEGATRON_IMAGES = LIKE_TEXT("pretrain_vlm.py", like_text_lacks);
/* clang-format on */

const struct abilities *abilities_for(const struct target *target, const struct model *model)
{
    return target->images && model_has_tower(model) ? &target->images->can : &target->can;
}
