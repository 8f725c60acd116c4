/* shape_images.c - the encoder of images beside a decoder, as a part of its shape (target.h), read from its operators.
 *
 *   I1  What the encoder has and these sizes do not say is told by image_rarity, or found where the model that they make
 *       differs (shape.c, I1).
 */
#include <string.h>

#include "target/room.h"

/* The first operator of the encoder with this name, in a module of that name unless it is NULL; NULL: there is none. */
static const struct op *tower_op(const struct model *model, const char *module, const char *name)
{
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        if (op->place == PLACE_TOWER && strcmp(op->name, name) == 0 &&
            (!module || strcmp(model->module[op->module].name, module) == 0))
            return op;
    }
    return NULL;
}

static const struct op *tower_kind(const struct model *model, enum op_kind kind)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].place == PLACE_TOWER && model->op[i].kind == kind)
            return &model->op[i];
    return NULL;
}

/* 0: it is no square. */
static int64_t side_of(int64_t square)
{
    int64_t side = 0;
    while (side * side < square)
        side++;
    return side * side == square ? side : 0;
}

enum { CHANNELS = 3 };
static int64_t patch_of(const struct model *model)
{
    return side_of(size_of(tower_op(model, NULL, "patches"), DIM_IN) / CHANNELS);
}

static bool has_module(const struct model *model, const char *name)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (strcmp(model->module[model->op[i].module].name, name) == 0)
            return true;
    return false;
}

static bool has_windows(const struct model *model)
{
    const struct op *attention = tower_kind(model, OP_ATTENTION);
    int64_t each = size_of(attention, DIM_SEQ) / model->images;
    return attention && attention->document && attention->document != each;
}

const char *image_rarity(const struct model *model)
{
    const struct op *merge = tower_op(model, "projector", "merge");
    return model->images_beside             ? "layers that attend to images"
           : has_module(model, "deepstack") ? "features of several layers of its encoder"
           : has_windows(model)             ? "an encoder of images with windows"
           : tower_kind(model, OP_ROTARY)   ? "an encoder of images with rotary positions"
           : !patch_of(model)               ? "patches of several frames"
           : merge && tower_op(model, NULL, "down") &&
                   size_of(tower_op(model, "projector", "down"), DIM_IN) ==
                       size_of(tower_op(model, NULL, "patches"), DIM_OUT) &&
                   !tower_op(model, "projector", "up")
               ? "patches that are averaged into tokens"
               : NULL;
}

static void read_tower(const struct model *model, struct tower_shape *v)
{
    const struct op *patches = tower_op(model, NULL, "patches");
    const struct op *core = tower_kind(model, OP_ATTENTION), *up = tower_op(model, "mlp", "up");
    const struct op *norm = tower_op(model, "attn", "norm"),
                    *proj = tower_op(model, "attn", "proj");
    core = core ? core : tower_kind(model, OP_SCORE);
    v->layers = proj ? op_copies(model, proj) : 0;
    v->hidden = size_of(patches, DIM_OUT);
    v->kv_heads = size_of(core, DIM_HEAD);
    v->heads = v->kv_heads * (size_of(core, DIM_GROUP) ? size_of(core, DIM_GROUP) : 1);
    v->gated = !up;
    v->ffn = up ? size_of(up, DIM_OUT) : size_of(tower_op(model, "mlp", "gate_up"), DIM_OUT) / 2;
    v->images = model->images;
    v->patch = patch_of(model);
    v->image = v->patch * side_of(size_of(patches, DIM_SEQ) / v->images);
    v->class_token = tower_op(model, NULL, "class_token") != NULL;
    v->positions = tower_op(model, NULL, "positions") != NULL;
    v->pre_norm = tower_op(model, NULL, "pre_norm") != NULL;
    v->post_norm = tower_op(model, NULL, "post_norm") != NULL;
    v->rms = norm && norm->kind == OP_RMS_NORM;
    v->bias = has_bias(proj);
    v->patch_bias = has_bias(patches);
    v->frozen = patches && patches->frozen;
}

static void read_projector(const struct model *model, struct tower_shape *v)
{
    const struct op *up = tower_op(model, "projector", "up"),
                    *gate = tower_op(model, "projector", "gate_up"),
                    *down = tower_op(model, "projector", "down"),
                    *norm = tower_op(model, "projector", "norm");
    v->merge = model->image_tokens
                   ? side_of(v->image / v->patch * (v->image / v->patch) / model->image_tokens)
                   : 1;
    v->projector_gated = gate != NULL;
    v->projector_layers = up || gate ? 2 : 1;
    v->projector_ffn = up ? size_of(up, DIM_OUT) : size_of(gate, DIM_OUT) / 2;
    v->projector_norm = !norm ? "none" : norm->kind == OP_RMS_NORM ? "rms" : "layer";
    v->projector_bias = has_bias(down);
    v->projector_frozen = down && down->frozen;
}

void read_images(const struct model *model, struct model_shape *s)
{
    const struct op *head = op_named(model, NULL, "head");
    if (!model_has_tower(model))
        return;
    read_tower(model, &s->images);
    read_projector(model, &s->images);
    s->images.text_frozen = head && head->frozen && !has_adapters(model);
}

static const char *word(bool value)
{
    return value ? "true" : "false";
}

static const char *projector_options(struct arena *keep, const struct tower_shape *v)
{
    return arena_printf(
        keep,
        ", projector_layers: %lld%s, projector_norm: %s, projector_bias: %s, "
        "projector_activation: %s, projector_frozen: %s",
        (long long)v->projector_layers,
        v->projector_ffn ? arena_printf(keep, ", projector_ffn: %lld", (long long)v->projector_ffn)
                         : "",
        v->projector_norm, word(v->projector_bias), v->projector_gated ? "swiglu" : "gelu",
        word(v->projector_frozen));
}

const char *shape_image_options(struct arena *keep, const struct model_shape *s)
{
    const struct tower_shape *v = &s->images;
    if (!v->layers)
        return "";
    return arena_printf(
        keep,
        ", images: %lld, vision_layers: %lld, vision_hidden: %lld, vision_heads: %lld, "
        "vision_kv_heads: %lld, vision_ffn: %lld, vision_image: %lld, vision_patch: %lld, "
        "vision_merge: %lld, vision_class_token: %s, vision_positions: %s, vision_pre_norm: %s, "
        "vision_post_norm: %s, vision_norm: %s, vision_activation: %s, vision_bias: %s, "
        "vision_patch_bias: %s, vision_frozen: %s, text_frozen: %s%s",
        (long long)v->images, (long long)v->layers, (long long)v->hidden, (long long)v->heads,
        (long long)v->kv_heads, (long long)v->ffn, (long long)v->image, (long long)v->patch,
        (long long)v->merge, word(v->class_token), word(v->positions), word(v->pre_norm),
        word(v->post_norm), v->rms ? "rms" : "layer", v->gated ? "swiglu" : "gelu", word(v->bias),
        word(v->patch_bias), word(v->frozen), word(v->text_frozen), projector_options(keep, v));
}
