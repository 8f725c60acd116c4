/* models.c - which models a framework has: what of a model's shape it lacks, in words. */
#include <string.h>

#include "target/room.h"

static const char BY_PATTERN[] = "layers by a pattern";
const char INDEXED_KEYS[] = "an index that chooses keys";
const char STREAMS[] = "a residual of several streams";
const char SHARED_GATE[] = "a gate of the shared expert";
const char UNKNOWN_OP[] = "an operator that Weft does not know";
const char ADAPTERS[] = "frozen weights beside its adapters";
const char WIDE_NORMS[] = "norms of all heads' queries and keys as one vector";
static const char YARN[] = "rotary positions stretched by yarn";
static const char MSCALE[] = "yarn with an mscale outside latent attention";

/* Latent attention has yarn alone, and no argument for the positions that were learned; elsewhere linear factors are
 * whole numbers, and yarn came with 0.19 (core/transformer/multi_latent_attention.py, core/models/gpt/gpt_model.py,
 * training/argument_utils.py). */
static const char *megatron_stretch_lacks(struct arena *keep, const struct model_shape *s,
                                          bool has_yarn)
{
    bool yarn = shape_has_yarn(s);
    const struct rope_stretch *stretch = &s->stretch;
    if (!(s->rope_scaling > 0))
        return NULL;
    if (s->kv_lora && !yarn)
        return arena_printf(keep, "rotary positions of latent attention stretched by %s",
                            ROPE_WORDS[stretch->kind]);
    if (s->kv_lora && (stretch->kind != ROPE_YARN || stretch->learned != YARN_LEARNED))
        return "yarn in latent attention from other than 4096 positions, or not rounded";
    if (yarn && !s->kv_lora && (!has_yarn || stretch->mscale > 0))
        return has_yarn ? MSCALE : "rotary positions stretched by yarn outside latent attention";
    return shape_has_linear(s) && s->rope_scaling != (double)(int64_t)s->rope_scaling
               ? "rotary positions stretched by a factor that is no whole number"
               : NULL;
}

static const char LINEAR[] = "rotary positions stretched by a linear factor";

/* Its gpt_builders.py passes no linear factor on. 0.16's stack of Mamba layers (core/ssm/mamba_block.py) recomputes nothing, has no pieces and predicts one token; its
 * builder of layers refuses the index that its configuration knows (experimental_attention_variant_module_specs.py). */
const char *megatron16_lacks(struct arena *keep, const struct model_shape *s)
{
    const char *lacks = megatron_stretch_lacks(keep, s, false);
    return s->family == SHAPE_HYBRID ? BY_PATTERN
           : s->index_top_k          ? INDEXED_KEYS
           : shape_has_linear(s)     ? LINEAR
           : lacks                   ? lacks
                                     : megatron_lacks(keep, s);
}

/* validate_args: layers that predict more tokens have rotary positions or none. */
static const char *megatron_pattern_lacks(const struct model_shape *s)
{
    return s->mtp && s->positions ? "learned positions beside layers that predict more tokens"
                                  : NULL;
}

const char *megatron_lacks(struct arena *keep, const struct model_shape *s)
{
    const char *stretched = megatron_stretch_lacks(keep, s, true);
    if (s->family == SHAPE_HYBRID)
        return megatron_pattern_lacks(s);
    if (s->chunked || stretched)
        return stretched ? stretched : "attention within chunks of a sequence";
    if (s->geglu || s->end_norm)
        return s->geglu ? "gates of GELU" : "norms after attention and after the MLP";
    if (s->wide_qk_norm) /* --qk-layernorm is of each head: core/transformer/attention.py */
        return WIDE_NORMS;
    if (s->local_rope_base > 0 || s->rope_base != (double)(int64_t)s->rope_base)
        return s->local_rope_base > 0 ? "rotary positions of two bases"
                                      : "rotary positions whose base is no whole number";
    bool relu = s->relu || (s->ungated && strcmp(s->ungated, "relu") == 0);
    if (relu || s->parallel)
        return relu ? "ReLU" : "attention and MLP side by side";
    return s->proj_bias != s->expert_bias || (s->expert_bias && !s->qkv_bias)
               ? "biases of some products and not of others"
               : NULL;
}

/* What its decoders, which are those of Llama 3, Qwen 3, DeepSeek V3, gpt-oss and in 0.2.2 Llama 4, have not. */
static const char *titan_decoders_lack(const struct model_shape *s, bool has_llama4)
{
    if (s->family != SHAPE_LLAMA && s->family != SHAPE_MOE)
        return s->family == SHAPE_HYBRID ? BY_PATTERN : "no RMSNorm and no gates";
    bool gpt_oss = s->sinks && s->clamped && s->window && s->expert_bias && !attention_rarity(s);
    if (!gpt_oss && (shape_rarity(s) || s->qkv_bias))
        return s->qkv_bias ? "biases of queries, keys and values" : shape_rarity(s);
    if (s->kv_lora && !s->experts)
        return "latent attention without experts";
    const char *model = titan_model_of(s);
    bool llama4 = strcmp(model, "llama4") == 0;
    return s->experts && (strcmp(model, "llama3") == 0 || (llama4 && !has_llama4))
               ? "experts without latent attention or norms of queries and keys"
               : NULL;
}

static const char *titan_lacks(struct arena *keep, const struct model_shape *s, bool has_llama4)
{
    const char *lacks = titan_decoders_lack(s, has_llama4);
    if (lacks)
        return lacks;
    const struct titan_flavor *flavor = titan_flavor_of(s);
    if (!flavor)
        return arena_printf(keep, "sizes other than those of %s",
                            titan_flavors_text(keep, titan_model_of(s)));
    bool llama3 = !(s->rope_scaling > 0) || s->stretch.kind == ROPE_LLAMA3;
    bool same = s->stretch.kind == (flavor->unrounded ? ROPE_YARN_UNROUNDED : ROPE_YARN) &&
                s->stretch.learned == YARN_LEARNED && s->rope_scaling == flavor->yarn;
    return llama3 || same ? NULL
                          : arena_printf(keep, "rotary positions stretched by %s",
                                         ROPE_WORDS[s->stretch.kind]);
}

const char *torchtitan02_lacks(struct arena *keep, const struct model_shape *s)
{
    return titan_lacks(keep, s, true);
}

const char *torchtitan_lacks(struct arena *keep, const struct model_shape *s)
{
    return titan_lacks(keep, s, false);
}

/* Its 17bx16e_irope and 17bx128e_irope: Attention.forward of models/llama4/model/model.py gives flex attention the masks
 * of both kinds of layers, a dict, where it takes one ("'dict' object has no attribute 'BLOCK_SIZE'"). */
const char *torchtitan02_fails(const struct model_shape *s)
{
    return s->unrotated && s->chunked && s->experts
               ? "its llama4 has such flavors (17bx16e_irope, 17bx128e_irope), but they fail in "
                 "the first step: each layer's attention is given two masks where it takes one"
               : NULL;
}

/* What the decoder of the exported script has not. */
const char *fsdp_lacks(struct arena *keep, const struct model_shape *s)
{
    (void)keep;
    if (s->family == SHAPE_HYBRID)
        return BY_PATTERN;
    if (shape_rarity(s) && !s->geglu && !s->end_norm)
        return shape_rarity(s);
    return s->window                 ? "a window of attention"
           : s->no_norm              ? "attention and MLPs without norms before them"
           : s->wide_qk_norm         ? WIDE_NORMS
           : s->gated                ? "gates beside LayerNorm"
           : s->family == SHAPE_BERT ? "an encoder"
           : s->kv_lora              ? "latent attention"
           : s->experts && s->bias   ? "experts with biases"
           : s->routing.groups > 1   ? "experts in groups"
           : s->routing.balance_bias ? "experts that a bias balances"
           : s->relu                 ? "ReLU"
           : s->parallel             ? "attention and MLP side by side"
           : shape_has_yarn(s) && s->stretch.mscale > 0 ? MSCALE
                                                        : NULL;
}

/* What the decoder of the script for DTensor has not. */
const char *dtensor_lacks(struct arena *keep, const struct model_shape *s)
{
    return s->family == SHAPE_HYBRID ? BY_PATTERN
           : s->experts              ? "experts"
           : s->end_norm             ? "norms after attention and after the MLP"
                                     : fsdp_lacks(keep, s);
}

/* Its runtime builds GPT by sizes alone: runtime/megatron/model/ops. */
const char *aceso_lacks(struct arena *keep, const struct model_shape *s)
{
    (void)keep;
    return s->family != SHAPE_GPT ? "a model that is no GPT"
           : s->experts           ? "experts"
           : s->rotary            ? "rotary positions"
           : s->parallel          ? "attention and MLP side by side"
           : s->relu              ? "ReLU"
           : s->gated             ? "gates"
           : s->kv_lora           ? "latent attention"
           : strcmp(s->attention, "eager") != 0
               ? "attention in one kernel (eager is --set attention=eager)"
               : NULL;
}

/* Of a layer's norms, scores and gates, what its decoders have not (core/runtime/transformer of 3.0, models/llama of 2.4). */
static const char *galvatron_layers_lack(const struct model_shape *s)
{
    return s->end_norm       ? "norms after attention and after the MLP"
           : s->wide_qk_norm ? WIDE_NORMS
           : s->sinks        ? "sinks of attention"
           : s->clamped      ? "clamped gates"
           : s->shared_gate  ? SHARED_GATE
                             : attention_rarity(s);
}

const char *galvatron2_lacks(struct arena *keep, const struct model_shape *s)
{
    (void)keep;
    return s->family == SHAPE_HYBRID ? BY_PATTERN
           : s->experts              ? "experts"
           : s->kv_lora              ? "latent attention"
           : s->mtp                  ? "layers that predict more tokens"
           : shape_has_yarn(s)       ? YARN
                                     : galvatron_layers_lack(s);
}

const char *galvatron3_lacks(struct arena *keep, const struct model_shape *s)
{
    (void)keep;
    return s->family == SHAPE_BERT     ? "an encoder"
           : s->family == SHAPE_HYBRID ? BY_PATTERN
           : s->mtp                    ? "layers that predict more tokens"
           : shape_has_yarn(s)         ? YARN
                                       : galvatron_layers_lack(s);
}

/* Kinds without kernels in src/run. */
const char *runtime_lacks_op(const struct op *op)
{
    return op->rope_scaling > 0 && op->stretch.kind != ROPE_LLAMA3
               ? "rotary positions stretched by other rules than Llama 3.1's (linear, yarn)"
           : op->kind == OP_INDEX  ? INDEXED_KEYS
           : op->kind == OP_MIX    ? STREAMS
           : op->kind == OP_OPAQUE ? UNKNOWN_OP
                                   : NULL;
}

bool has_experts(const struct model *model)
{
    return model_op_of_kind(model, OP_EXPERT_LINEAR) != NULL;
}

static bool has_op(const struct model *model, const char *name)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (strcmp(model->op[i].name, name) == 0)
            return true;
    return false;
}

bool has_frozen_weights(const struct model *model)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].frozen)
            return true;
    return false;
}

bool has_sinks(const struct model *model)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].sinks)
            return true;
    return false;
}

bool has_titan_stage(const struct model *model)
{
    return has_sinks(model) || (has_op(model, "k_norm") && !has_op(model, "kv_a"));
}

/* ---- asking ---------------------------------------------------------------------------------- */

static const char *lacking_op(const struct target *target, const struct model *model)
{
    const char *lacks = NULL;
    for (int32_t i = 0; target->lacks_op && i < model->ops && !lacks; i++)
        lacks = target->lacks_op(&model->op[i]);
    return lacks;
}

/* Whether it has a model of which there is no shape. */
static bool has_other(const struct target *target, const struct model *model)
{
    const char *const *family = target->other_families;
    while (family && *family && strcmp(*family, model->family) != 0)
        family++;
    return family && *family && !model_has_tower(model);
}

/* That the framework trains such models with a program that it is not told of here. */
static weft_status own_program(const struct target *target, const struct model *model,
                               const char *others)
{
    bool images = model_has_tower(model);
    const char *rarity = images ? image_rarity(model) : NULL, *reason = rarity ? rarity : IMAGES;
    const char *family = images ? "images" : model->family;
    const struct own_program *row = target->programs;
    while (row && row->family && strcmp(row->family, family) != 0)
        row++;
    if (!row || !row->family || model->images_beside)
        return WEFT_OK;
    return bad_argument(
        others, "%s %s %s: %s trains such models with %s, whose arguments Weft does not write",
        model->name, images ? "has" : "is of the family", images ? reason : family, target->title,
        row->program);
}

struct shaped_model {
    const struct model *model;
    const struct model_shape *shape; /* NULL: it is of another family */
};

static const char *lack_of(const struct target *target, struct arena *keep,
                           const struct model_shape *s)
{
    if (s->images.layers && !target->images)
        return IMAGES;
    if (s->lora && !target->can.adapters)
        return ADAPTERS;
    const char *lacks = target->lacks(keep, s);
    return lacks || !s->images.layers ? lacks : target->images->lacks(keep, s);
}

static bool has_shaped(const struct target *target, const void *of)
{
    const struct shaped_model *m = of;
    struct arena *scratch = arena_new();
    bool lacks = target->lacks && (m->shape ? lack_of(target, scratch, m->shape) != NULL
                                            : !has_other(target, m->model));
    arena_free(scratch);
    return !lacks && !lacking_op(target, m->model);
}

static const char *who_has(struct arena *keep, const struct model *model,
                           const struct model_shape *shape)
{
    return targets_where(keep, has_shaped, &(struct shaped_model){model, shape});
}

static weft_status refuse_lack(const struct target *target, const struct shaped_model *m,
                               const char *lacks, const char *hint)
{
    bool images = m->shape->images.layers && target->images;
    const char *fails = target->fails ? target->fails(m->shape) : NULL, *name = m->model->name;
    weft_status status = images ? WEFT_OK : own_program(target, m->model, hint);
    if (status)
        return status;
    if (fails)
        return bad_argument(hint, "%s has %s, which %s cannot run: %s", name, lacks, target->title,
                            fails);
    return bad_argument(hint, "%s has %s, which %s of %s %s", name, lacks,
                        images ? target->images->program : "no model", target->title,
                        images ? "does not build" : "has");
}

weft_status target_has_model(const struct target *target, const struct model *model)
{
    struct arena *scratch = arena_new();
    struct model_shape shape;
    weft_status status = WEFT_OK;
    const char *op = lacking_op(target, model);
    if (op) {
        bool known = shape_of_model(model, &shape) == WEFT_OK;
        const char *others = who_has(scratch, model, known ? &shape : NULL);
        error_clear();
        status = bad_argument(others ? arena_printf(scratch, "%s can train it", others) : NULL,
                              "%s has %s, which %s cannot run", model->name, op, target->title);
    }
    if (op || !target->lacks)
        goto done;
    status = shape_of_model(model, &shape);
    if (status == WEFT_BAD_INPUT && has_other(target, model)) {
        error_clear();
        status = WEFT_OK;
        goto done;
    }
    if (status == WEFT_BAD_INPUT) {
        error_hint("%s can train it", who_has(scratch, model, NULL));
        own_program(target, model, weft_last_error()->hint);
    }
    if (status)
        goto done;
    const char *lacks = lack_of(target, scratch, &shape), *others = who_has(scratch, model, &shape);
    if (!lacks)
        goto done;
    const char *hint = others ? arena_printf(scratch, "%s can train it", others) : NULL;
    status = refuse_lack(target, &(struct shaped_model){model, &shape}, lacks, hint);
done:
    arena_free(scratch);
    return status;
}
